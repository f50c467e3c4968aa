/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that fails on purpose, for tests of failure paths: a wrapper of another one, whose n-th read
 * fails, comes back short, or has one bit flipped.
 *
 * The usual test runs its subject with fault_fail_at(s, 0), 1, 2 and so on until it succeeds: then each of
 * its reads has failed once. The wrapper lends neither descriptor nor memory: every byte goes through its
 * reads.
 */
#pragma once

#include "io/io.h"

/* Takes @parent if @takes. */
struct source *fault_source_new(struct source *parent, bool takes);
/* The n-th read from now (0: the next) fails with ERR_IO "injected"; those before and after it do not. */
void fault_fail_at(struct source *s, unsigned n);
/* All reads that touch [off, off + size) fail the same way. */
void fault_fail_range(struct source *s, uint64_t off, uint64_t size);
/* The byte at @off is returned with the bits of @mask flipped. */
void fault_flip(struct source *s, uint64_t off, uint8_t mask);
/* Reads return at most @n bytes at once (0: as many as requested). */
void fault_short(struct source *s, size_t n);
/* Remove all faults. */
void fault_clear(struct source *s);
unsigned fault_reads(struct source *s);      /* reads so far, failed ones too */
uint64_t fault_bytes(struct source *s);      /* bytes returned so far */
unsigned fault_sequential(struct source *s); /* reads so far with SOURCE_SEQUENTIAL */
