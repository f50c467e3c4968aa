/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolizer over a resolver and a store in memory, and files to put into them.
 */
#pragma once

#include "code_writer.h"
#include "symbolize/symbolize.h"

struct shop {
	struct resolver *r;
	struct store *store;
	struct symbolizer *s;
	struct symbolize_options opts;
	struct buf text; /* of the last answer */
};
void shop_open(struct shop *p, bool store);
void shop_reopen(struct shop *p); /* another symbolizer over the same store */
void shop_close(struct shop *p);

struct build_id shop_id(uint32_t n);
/*
 * A debug file of a function "f<n>", [0x1000, 0x1100), line 10 and so on; or with its name in the
 * supplementary file of @alt.
 */
void shop_debug(uint32_t n, struct buf *out);
void shop_debug_with_alt(uint32_t n, uint32_t alt, struct buf *out);
void shop_alt(uint32_t alt, struct buf *out);
void shop_put(struct shop *p, enum resolve_kind kind, uint32_t n, struct buf *file); /* takes its content */
void shop_put_debug(struct shop *p, uint32_t n);
void shop_put_debug_named(struct shop *p, uint32_t n, const char *name); /* another name for "f<n>" */
/* A program without DWARF, with a symbol "s<n>" at the same place or without. */
void shop_put_program(struct shop *p, uint32_t n, bool symbols);

/* "f1 /src/a.c:10", or the reason. Waits up to 30 s, or not at all. */
const char *shop_ask(struct shop *p, uint32_t n, uint64_t addr);
const char *shop_ask_at_once(struct shop *p, uint32_t n, uint64_t addr);
/* Asks until that is the answer, 30 s at most. */
void shop_expect(struct shop *p, uint32_t n, uint64_t addr, const char *want);
void shop_answer_text(const struct symbolize_answer *a, struct buf *out);
