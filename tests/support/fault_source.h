/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that fails on purpose, for tests of failure paths: a wrapper over another one, whose n-th read
 * fails, comes back short, or has one bit turned.
 *
 * The usual test runs its subject with fault_fail_at(s, 0), 1, 2 and so on until it succeeds: each read that
 * it makes has then been the one that failed. It lends neither descriptor nor memory: every byte goes through
 * its reads.
 */
#pragma once

#include "io/io.h"

/* Takes @parent if @takes. */
struct source *fault_source_new(struct source *parent, bool takes);
/* The n-th read from now (0: the next) fails with ERR_IO "injected"; the ones before and behind it do not. */
void fault_fail_at(struct source *s, unsigned n);
/* All reads that touch [off, off + size) fail so. */
void fault_fail_range(struct source *s, uint64_t off, uint64_t size);
/* The byte at @off is read with the bits of @mask turned. */
void fault_flip(struct source *s, uint64_t off, uint8_t mask);
/* Reads deliver at most @n bytes at once (0: as many as asked for). */
void fault_short(struct source *s, size_t n);
/* No faults any more. */
void fault_clear(struct source *s);
unsigned fault_reads(struct source *s);      /* reads so far, failed ones too */
uint64_t fault_bytes(struct source *s);      /* bytes delivered so far */
unsigned fault_sequential(struct source *s); /* reads so far with SOURCE_SEQUENTIAL */
