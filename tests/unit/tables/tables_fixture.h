/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables over a resolver and a store in memory, and files to put into them.
 */
#pragma once

#include "code_writer.h"
#include "resolve_mem.h"
#include "tables/tables.h"

struct tables_fixture {
	struct resolver *r;
	struct store *store;
	struct tables *s;
	struct tables_options opts;
	struct buf text; /* of the last answer */
};
void tables_fixture_open(struct tables_fixture *p, bool store);
void tables_fixture_reopen(struct tables_fixture *p); /* other tables over the same store */
void tables_fixture_close(struct tables_fixture *p);

struct build_id tables_fixture_id(uint32_t n);
/*
 * A debug file of a function "f<n>", [0x1000, 0x1100), line 10 and so on, with its symbol; or with its name in the
 * supplementary file of @alt, and a symbol elsewhere.
 */
void tables_fixture_debug(uint32_t n, struct buf *out);
void tables_fixture_debug_with_alt(uint32_t n, uint32_t alt, struct buf *out);
void tables_fixture_alt(uint32_t alt, struct buf *out);
void tables_fixture_put(struct tables_fixture *p, enum resolve_kind kind, uint32_t n,
			struct buf *file); /* takes its content */
void tables_fixture_put_debug(struct tables_fixture *p, uint32_t n);
void tables_fixture_put_debug_named(struct tables_fixture *p, uint32_t n,
				    const char *name); /* another name for "f<n>" */
/* A program without DWARF, with a symbol "s<n>" at the same place or without. */
void tables_fixture_put_program(struct tables_fixture *p, uint32_t n, bool symbols);

/* Make the table one of the program from before SYMTAB_MAKER. */
void tables_fixture_age(struct buf *table);

/* "f1 /src/a.c:10", or the name of the reason. Waits up to 30 s, or not at all. */
const char *tables_fixture_ask(struct tables_fixture *p, uint32_t n, uint64_t addr);
const char *tables_fixture_ask_at_once(struct tables_fixture *p, uint32_t n, uint64_t addr);
/* Asks until that is the answer, 30 s at most. */
void tables_fixture_expect(struct tables_fixture *p, uint32_t n, uint64_t addr, const char *want);
void tables_fixture_answer_text(const struct tables_answer *a, struct buf *out);
/* The reason of an address of @n, by a request that does not wait. */
enum frame_reason tables_fixture_reason(struct tables_fixture *p, uint32_t n, struct tables_module *m);
