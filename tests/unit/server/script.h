/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resolver with a script: sources that wait at a gate, fail or end early, and count the bytes read. One
 * artifact for each build ID; kind and argument are ignored.
 */
#pragma once

#include <stdatomic.h>
#include "resolve/resolve.h"

struct script_artifact {
	const char *hex;
	uint64_t size;
	uint64_t seed;     /* of its bytes; script_fill() */
	uint64_t gate_at;  /* reads after this offset wait until script_open_gate(); 0: none */
	uint64_t fail_at;  /* reads after this offset fail; 0: none */
	uint64_t short_at; /* reads after this offset return nothing; 0: none */
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
/*
 * Its bytes [@at, @at + @n); and whether @p equals them. In large blocks, since sanitizers make single
 * bytes slow.
 */
void script_fill(const struct script_artifact *a, uint64_t at, void *p, size_t n);
bool script_same(const struct script_artifact *a, uint64_t at, const void *p, size_t n);
void script_open_gate(struct resolver *r);
void script_close_gate(struct resolver *r);
/* Wait until @n reads wait at the gate. */
void script_wait_at_gate(struct resolver *r, unsigned n);
unsigned script_wake(struct resolver *r); /* wakes all waiters; returns their number */
void script_wait_waiting(struct resolver *r, unsigned n);
void script_bump_epoch(struct resolver *r);
uint64_t script_bytes_read(struct resolver *r);
unsigned script_n_resolved(struct resolver *r);
unsigned script_n_open(struct resolver *r); /* sources not closed yet */
