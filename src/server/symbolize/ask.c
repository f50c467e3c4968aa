/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the forms of symbolizing: parts of the reply, numbers, names, shortened build IDs.
 */
#include <stdlib.h>
#include "server/symbolize/symbolize.h"

/* ---- parts of the reply ---- */

bool ask_is_full(const struct ask *a)
{
	return a->n_made + a->parts.size > ASK_MAX_REPLY;
}

bool ask_part_is_full(const struct ask *a, size_t i)
{
	return a->parts.size - a->at[i - a->first].off > ASK_MAX_ANSWER;
}

void ask_part_begin(struct ask *a, size_t i)
{
	a->at[i - a->first].off = a->parts.size;
}

void ask_part_end(struct ask *a, size_t i)
{
	a->at[i - a->first].size = a->parts.size - a->at[i - a->first].off;
}

struct str ask_part(const struct ask *a, size_t i)
{
	const struct ask_part *p = &a->at[i - a->first];

	/* Without any bytes in the buffer it has no memory to point into. */
	if (!p->size)
		return STR("");
	return (struct str){ (const char *)a->parts.p + p->off, p->size };
}

/* ---- chunks ---- */

/*
 * The first chunk is small: the reply begins early, and a client that does not read holds little. Later ones are
 * larger, since a function is decoded once for all of its addresses in a chunk; they have as many answers as fit, by
 * those before.
 */
#define CHUNK_FIRST 4096u
#define CHUNK_LEAST 64u
#define CHUNK_MOST  32768u
#define CHUNK_MAX \
	(4 * ASK_CHUNK) /* bytes; with more, and twice the bytes wanted, it is repeated with fewer answers */

static void chunk_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;

	a->passes |= frame_reason_passes(ans->reason);
	a->too_long |= a->form->begin && a->n_chunk > 1 && a->parts.size > MAX(CHUNK_MAX, 2 * a->chunk_bytes);
	if (!a->too_long)
		a->form->answer(a, a->first + i, ans);
}

static int chunk_find(struct ask *a, struct err *err)
{
	a->at = NEW_N(struct ask_part, a->n_chunk + 1);
	do {
		if (a->too_long)
			a->n_chunk = MAX(a->n_chunk / 8, (size_t)1);
		a->too_long = false;
		a->parts.size = 0;
		memset(a->at, 0, (a->n_chunk + 1) * sizeof(*a->at));
		/* Without any address there is no array, and nothing may be added to NULL. */
		if (a->n_chunk)
			tables_find_all(a->request, a->queries + a->first, a->n_chunk, chunk_answer, a);
	} while (a->too_long);
	return deadline_check(&a->deadline, 0, err);
}

/* The parts and the reply made of them are in memory at once. */
static uint64_t chunk_bytes(struct ask *a)
{
	if (!a->n_made || budget_hold_add(&a->hold, 2 * ASK_CHUNK_MOST, NULL) < 0)
		return ASK_CHUNK;
	budget_hold_sub(&a->hold, 2 * ASK_CHUNK_MOST);
	return ASK_CHUNK_MOST;
}

/* How many answers the next chunk has. */
static size_t chunk_size(struct ask *a)
{
	uint64_t n;

	if (!a->form->begin)
		return a->n;
	a->chunk_bytes = chunk_bytes(a);
	n = a->n_made ? a->chunk_bytes * (uint64_t)a->first / a->n_made : CHUNK_FIRST;
	return (size_t)MIN(MAX(n, (uint64_t)CHUNK_LEAST), (uint64_t)CHUNK_MOST);
}

int ask_write_chunk(struct ask *a, const char **ret_type, struct err *err)
{
	if (!a->first) {
		a->json.out = &a->out;
		if (a->form->begin)
			*ret_type = a->form->begin(a);
	}
	a->n_chunk = MIN(chunk_size(a), a->n - a->first);
	if (chunk_find(a, err) < 0)
		return -1;
	for (size_t i = 0; a->form->put && i < a->n_chunk; i++)
		a->form->put(a, a->first + i);
	a->first += a->n_chunk;
	a->n_made += a->parts.size;
	free(TAKE(a->at));
	buf_done(&a->parts);
	a->ended = a->first == a->n;
	if (a->ended)
		*ret_type = a->form->end(a);
	return 0;
}

/* ---- shortened build IDs ---- */

bool ask_complete_id(struct server *s, struct bytes prefix, struct build_id *ret)
{
	static const struct index_options read_only = { .read_only = true };
	struct err ignored = { 0 };
	int r = INDEX_MISSING;

	if (s->opts.index_path) {
		pthread_mutex_lock(&s->index_lock);
		if (!s->index && index_open(s->opts.index_path, &read_only, &s->index, &ignored) < 0)
			s->index = NULL;
		if (s->index)
			r = index_complete(s->index, prefix, ret, &ignored);
		pthread_mutex_unlock(&s->index_lock);
	}
	/* Not by listing the store: a request has thousands of these, and each would read a folder, or ask the bucket. */
	return r == 0 || (s->opts.store && store_complete(s->opts.store, prefix, ret));
}

/* ---- writing frames ---- */

#define STEPS_OF_FRAME 16u

bool ask_frame_is_late(struct ask *a, const struct symtab_frame *f)
{
	/* A step for each byte: templates are left out byte by byte, and a mangled name is shorter than its text. */
	size_t n = STEPS_OF_FRAME + f->name.size + f->linkage.size + f->dir.size + f->file.size;

	return deadline_over(&a->deadline, (uint32_t)MIN(n, (size_t)DEADLINE_STEPS));
}

void ask_put_name(const struct ask *a, const struct symtab_frame *f, struct json_writer *w)
{
	AUTO(buf_done) struct buf name = { 0 };

	frame_name(f, a->demangling, &name);
	json_put_str(w, "function", buf_str(&name));
}

void ask_put_path(const struct symtab_frame *f, struct json_writer *w)
{
	AUTO(buf_done) struct buf path = { 0 };

	symtab_path(f->dir, f->file, &path);
	json_put_str(w, "file", buf_str(&path));
}

/* ---- reading ---- */

json_t *ask_load_json(struct ask *a, struct err *err)
{
	a->tree_size = json_tree_size(a->body);
	if (budget_hold_add(&a->hold, a->tree_size, err) < 0) {
		a->tree_size = 0;
		return NULL;
	}
	return json_load_bytes(a->body, ASK_MAX_LISTS, ASK_MAX_VALUES, err);
}

bool ask_number_text(struct str s, bool hex, uint64_t *ret)
{
	uint64_t v = 0;

	s = str_trim(s);
	if (str_starts(s, STR("0x")) || str_starts(s, STR("0X"))) {
		hex = true;
		s = (struct str){ s.p + 2, s.size - 2 };
	}
	if (!hex)
		return str_to_u64(s, ret);
	if (!s.size || s.size > 16)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		unsigned c = (unsigned char)s.p[i], d = 16;

		if (c - '0' < 10)
			d = c - '0';
		else if ((c | 32) - 'a' < 6)
			d = (c | 32) - 'a' + 10;
		if (d == 16)
			return false;
		v = v << 4 | d;
	}
	*ret = v;
	return true;
}

bool ask_number(const json_t *j, uint64_t *ret)
{
	if (json_is_integer(j)) {
		*ret = (uint64_t)json_integer_value(j);
		return json_integer_value(j) >= 0;
	}
	return json_is_string(j) &&
	       ask_number_text((struct str){ json_string_value(j), json_string_length(j) }, false, ret);
}

void ask_hint_name(const struct ask *a, const struct build_id *id, struct str file)
{
	if (a->req)
		resolve_name_hint(a->req->s->opts.resolver, id, file, RESOLVE_BY_READER);
}
