/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resolver that does what a test tells it to: sources that stand still at a gate, fail or end in the
 * middle, and count what is read. One artifact for each build ID; the kind and the argument do not matter.
 */
#pragma once

#include <stdatomic.h>
#include "resolve/resolve.h"

struct script_artifact {
	const char *hex;
	uint64_t size;
	uint64_t seed;     /* of its bytes; script_fill() */
	uint64_t gate_at;  /* reads behind this offset wait until script_open_gate(); 0: none */
	uint64_t fail_at;  /* reads behind this offset fail; 0: none */
	uint64_t short_at; /* reads behind this offset give nothing; 0: none */
	unsigned n_waits;  /* this many times RESOLVE_WAIT first; script_wake() wakes */
	bool busy, sequential_only;
	const char *archive; /* NULL: "/srv/pool/x.deb" */
	const char *plain;   /* a plain file on disk instead */
	int error;           /* an err_kind: resolve() fails */
	const char *error_text;
};

struct script;
/* resolve_close() frees it, with its sources closed. */
struct resolver *script_new(const struct script_artifact *list, size_t n);
/* Its bytes [@at, @at + @n); and whether @p are these. In whole pieces: byte by byte, sanitizers make it the
 * slowest of all. */
void script_fill(const struct script_artifact *a, uint64_t at, void *p, size_t n);
bool script_same(const struct script_artifact *a, uint64_t at, const void *p, size_t n);
void script_open_gate(struct resolver *r);
void script_close_gate(struct resolver *r);
/* Wait until so many reads stand at the gate. */
void script_wait_at_gate(struct resolver *r, unsigned n);
unsigned script_wake(struct resolver *r); /* all that wait; how many */
void script_wait_waiting(struct resolver *r, unsigned n);
void script_bump_epoch(struct resolver *r);
uint64_t script_bytes_read(struct resolver *r);
unsigned script_n_resolved(struct resolver *r);
unsigned script_n_open(struct resolver *r); /* sources not closed yet */
