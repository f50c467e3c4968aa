/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /symbolize with Content-Type application/x-lode-symbolize: the compact form; docs/protocol.md
 * describes its bytes.
 *
 * Strings, frames and chains of frames are numbered in the order of their first use; a known chain is
 * written as its number. Many addresses of a profile have the same chain.
 */
#include "server/symbolize/symbolize.h"

#include <stdlib.h>
#include "base/leb.h"

#define REQUEST_MAGIC STR("LSQ1")
#define ANSWER_MAGIC  STR("LSA1")

enum {
	FLAG_RETURN = 1 << 0,
	FLAG_OFFSETS = 1 << 1,
	DEMANGLING_SHIFT = 2, /* two bits */
	FLAG_DISCRIMINATORS = 1 << 4,
	FLAGS_KNOWN = (1 << 5) - 1
};

/* A numbered set of byte strings. */
struct numbered {
	struct map map; /* bytes -> number + 1 */
	struct buf all;
	size_t n;
};

struct binary {
	struct numbered strings, frames, chains;
	uint64_t *chain_of; /* of each query: number + 1; 0: none */
	uint8_t *reasons;
	struct buf key;
	uint64_t held; /* of the ask's memory */
	/* of the last chain: ascending addresses often have the same one */
	uint64_t lo, hi, last;
	size_t last_module;
};

static int binary_parse_module(struct ask *a, struct cursor *c, size_t i, size_t *room,
			       const struct tables_query *usual, struct err *err)
{
	struct bytes id = cursor_bytes(c, cursor_u8(c));
	uint64_t n = cursor_uleb(c), addr = 0;

	if (id.size && !build_id_set(&a->ids[i], id))
		return err_set(err, ERR_INVALID, "the build ID is too long");
	/* Each address takes at least one byte. */
	if (n > cursor_left(c))
		return err_set(err, ERR_INVALID, "the body ends before its addresses");
	if (n > ASK_MAX_ADDRS - a->n)
		return err_set(err, ERR_LIMIT, "more than %u addresses: send several requests",
			       ASK_MAX_ADDRS);
	while (*room < a->n + n) {
		size_t more = MAX(*room * 2, (size_t)4096);
		struct tables_query *q = ARENA_NEW_N(a->arena, struct tables_query, more);

		if (a->n)
			memcpy(q, a->queries, a->n * sizeof(*q));
		a->queries = q;
		*room = more;
	}
	for (uint64_t k = 0; k < n; k++) {
		addr += (uint64_t)unzigzag(cursor_uleb(c));
		a->queries[a->n] = *usual;
		a->queries[a->n].module = i;
		a->queries[a->n++].addr = addr;
	}
	return cursor_ok(c) ? 0 : cursor_err(c, "the request", err);
}

static int binary_parse(struct ask *a, struct err *err)
{
	struct cursor c = cursor_of(a->body);
	struct bytes magic = cursor_bytes(&c, 4);
	struct tables_query usual = { 0 };
	uint64_t flags, timeout, n;
	size_t room = 0;

	if (!bytes_eq(magic, bytes_of(REQUEST_MAGIC.p, 4)))
		return err_set(err, ERR_INVALID, "does not begin with LSQ1");
	flags = cursor_uleb(&c);
	timeout = cursor_uleb(&c);
	n = cursor_uleb(&c);
	if (!cursor_ok(&c))
		return cursor_err(&c, "the request", err);
	if (flags & ~(uint64_t)FLAGS_KNOWN)
		return err_set(err, ERR_INVALID, "unknown flags");
	if (n > ASK_MAX_IDS)
		return err_set(err, ERR_LIMIT, "more than %u modules: send several requests", ASK_MAX_IDS);
	usual.is_return = flags & FLAG_RETURN;
	usual.kind = flags & FLAG_OFFSETS ? FRAME_OFFSET : FRAME_VADDR;
	a->request_flags = flags & FLAG_OFFSETS ? TABLES_LAYOUTS : 0;
	a->demangling = (enum frame_demangling)(flags >> DEMANGLING_SHIFT & 3);
	a->discriminators = flags & FLAG_DISCRIMINATORS;
	a->timeout_ms = (int64_t)MIN(timeout, UINT64_C(3600000));
	a->ids = ARENA_NEW_N(a->arena, struct build_id, n + 1);
	for (uint64_t i = 0; i < n; i++) {
		if (binary_parse_module(a, &c, (size_t)i, &room, &usual, err) < 0)
			return err_in(err, "module %llu", (unsigned long long)i);
		a->n_ids++;
	}
	if (cursor_left(&c))
		return err_set(err, ERR_INVALID, "there are bytes after its end");
	return 0;
}

/* ---- the reply ---- */

/* The number of these bytes; *ret_new: they are new, and the caller appends them to `all`. */
static uint64_t numbered_add(struct numbered *p, struct bytes key, bool *ret_new)
{
	void *there = map_get(&p->map, key);

	*ret_new = !there;
	if (there)
		return (uint64_t)(uintptr_t)there - 1;
	map_put(&p->map, key, (void *)(uintptr_t)(p->n + 1));
	return p->n++;
}

static uint64_t binary_string(struct binary *b, struct str s)
{
	bool is_new;
	uint64_t n = numbered_add(&b->strings, bytes_of(s.p ? s.p : "", s.size), &is_new);

	if (is_new) {
		buf_add_uleb(&b->strings.all, s.size);
		buf_add_str(&b->strings.all, s);
	}
	return n;
}

static uint64_t ask_frame_number(struct ask *a, struct binary *b, const struct symtab_frame *f)
{
	AUTO(buf_done) struct buf name = { 0 }, path = { 0 };
	uint64_t name_id, path_id, n;
	bool is_new;

	frame_name(f, a->demangling, &name);
	if (f->file.size)
		symtab_path(f->dir, f->file, &path);
	name_id = binary_string(b, buf_str(&name));
	path_id = binary_string(b, buf_str(&path));
	b->key.size = 0;
	buf_add_uleb(&b->key, name_id);
	buf_add_uleb(&b->key, path_id);
	buf_add_uleb(&b->key, f->line);
	buf_add_uleb(&b->key, f->column);
	buf_add_uleb(&b->key, f->start_line);
	buf_add_char(&b->key, (char)(f->origin << 1 | f->inlined));
	if (a->discriminators)
		buf_add_uleb(&b->key, f->discriminator);
	n = numbered_add(&b->frames, buf_bytes(&b->key), &is_new);
	if (is_new)
		buf_add(&b->frames.all, b->key.p, b->key.size);
	return n;
}

/* The numbers are by maps of about as much memory as the texts. */
static bool binary_is_full(struct ask *a, struct binary *b)
{
	size_t size = b->strings.all.size + b->frames.all.size + b->chains.all.size;

	budget_hold_track(&a->hold, &b->held, 3 * size);
	return size > ASK_MAX_REPLY || budget_hold_check(&a->hold, NULL) < 0;
}

/* The number + 1 of the chain; 0: the reply has no room for it, or it is late. */
static uint64_t binary_chain(struct ask *a, struct binary *b, const struct symtab_frames *frames)
{
	AUTO(buf_done) struct buf chain = { 0 };
	bool is_new;
	uint64_t n;

	buf_add_uleb(&chain, frames->n);
	for (size_t i = 0; i < frames->n; i++) {
		if (ask_frame_is_late(a, &frames->list[i]) || binary_is_full(a, b))
			return 0;
		buf_add_uleb(&chain, ask_frame_number(a, b, &frames->list[i]));
	}
	n = numbered_add(&b->chains, buf_bytes(&chain), &is_new);
	if (is_new)
		buf_add(&b->chains.all, chain.p, chain.size);
	return n + 1;
}

static struct binary *binary_of(struct ask *a)
{
	struct binary *b = a->own;

	if (b)
		return b;
	b = a->own = ARENA_NEW(a->arena, struct binary);
	b->chain_of = ARENA_NEW_N(a->arena, uint64_t, a->n + 1);
	b->reasons = ARENA_NEW_N(a->arena, uint8_t, a->n + 1);
	binary_string(b, STR(""));
	return b;
}

static void binary_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;
	struct binary *b = binary_of(a);
	const struct tables_query *q = &a->queries[i];

	b->reasons[i] = (uint8_t)ans->reason;
	if (!ans->frames || binary_is_full(a, b))
		return;
	if (q->module != b->last_module || ans->frames->lo != b->lo || ans->frames->hi != b->hi || !b->last) {
		b->last = binary_chain(a, b, ans->frames);
		b->last_module = q->module;
		b->lo = ans->frames->lo;
		b->hi = ans->frames->hi;
	}
	b->chain_of[i] = b->last;
}

static void numbered_done(struct numbered *p)
{
	buf_done(&p->all);
	map_done(&p->map);
}

static void numbered_write(struct numbered *p, struct buf *out)
{
	buf_add_uleb(out, p->n);
	buf_add(out, p->all.p, p->all.size);
	numbered_done(p);
}

static void binary_drop(struct ask *a)
{
	struct binary *b = a->own;

	if (!b)
		return;
	numbered_done(&b->strings);
	numbered_done(&b->frames);
	numbered_done(&b->chains);
	buf_done(&b->key);
}

static const char *binary_end(struct ask *a)
{
	struct binary *b = binary_of(a);
	struct buf *out = &a->out;

	buf_add_str(out, ANSWER_MAGIC);
	buf_add_uleb(out, a->passes ? FRAME_RETRY_MS : 0);
	numbered_write(&b->strings, out);
	numbered_write(&b->frames, out);
	numbered_write(&b->chains, out);
	buf_done(&b->key);
	buf_add_uleb(out, a->n_ids);
	for (size_t i = 0; i < a->n_ids; i++) {
		struct tables_module m;

		tables_request_module(a->request, i, &m);
		buf_add_char(out, (char)m.reason);
	}
	buf_add_uleb(out, a->n);
	/* A chain; or 0 and the reason for none. */
	for (size_t i = 0; i < a->n; i++) {
		buf_add_uleb(out, b->chain_of[i]);
		if (!b->chain_of[i])
			buf_add_char(out, (char)b->reasons[i]);
	}
	return "application/x-lode-symbolize";
}

const struct ask_form ask_binary = { binary_parse, NULL, binary_answer, NULL, binary_end, binary_drop };
