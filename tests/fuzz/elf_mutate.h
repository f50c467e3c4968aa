/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One mutation of an ELF file that knows its structure, so that most results are still read to their end.
 */
#pragma once

#include "elf_edit.h"

/* Change @f in place; it grows to at most @max bytes, else it is left as it was. @donor: another file whose sections may
 * be taken, or NULL. */
void elf_mutate(struct buf *f, const struct buf *donor, size_t max, uint64_t *random);
uint64_t mutate_random(uint64_t *state, uint64_t n); /* below @n; 0 if n is 0 */
