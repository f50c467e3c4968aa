/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of Pyroscope's agent for Java: a protobuf message beside the recording. Events have the number of a context;
 * a context is a map from strings to strings, both by their number.
 *
 *	LabelsSnapshot { contexts = 1: map<int64, Context>, strings = 2: map<int64, string> }
 *	Context { labels = 1: map<int64, int64> }
 */
#include "profile/jfr_read.h"

#include <stdlib.h>
#include "base/search.h"
#include "wire/proto.h"

enum { SNAPSHOT_CONTEXTS = 1, SNAPSHOT_STRINGS, CONTEXT_LABELS = 1, ENTRY_KEY = 1, ENTRY_VALUE };

/* An entry of a map. */
struct entry {
	int64_t key, number;
	struct bytes value;
};

static bool read_entry(struct bytes in, struct entry *ret)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	*ret = (struct entry){ .value = bytes_of("", 0) };
	while (proto_next(&c, &f)) {
		if (f.number == ENTRY_KEY)
			ret->key = (int64_t)f.v;
		else if (f.number == ENTRY_VALUE && f.wire == PROTO_LEN)
			ret->value = f.b;
		else if (f.number == ENTRY_VALUE)
			ret->number = (int64_t)f.v;
	}
	return cursor_ok(&c);
}

/* Each event with this label hashes it, so it is cut, before a character that does not fit. */
static struct str label_text(struct bytes b)
{
	struct str s = { (const char *)b.p, MIN(b.size, (size_t)JFR_MAX_TEXT) };

	while (s.size && s.size < b.size && ((unsigned char)s.p[s.size] & 0xc0) == 0x80)
		s.size--;
	return s;
}

static int by_context(const void *a, const void *b)
{
	const struct jfr_context *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_text(const void *a, const void *b)
{
	const struct jfr_text *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

int jfr_labels_read(struct jfr_reader *r, struct bytes in, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct jfr_labels *l = &r->labels;
	struct proto_field f;
	bool ok = true;

	while (ok && proto_next(&c, &f)) {
		struct entry e = { 0 };

		if (f.wire != PROTO_LEN || f.number > SNAPSHOT_STRINGS)
			continue;
		if (!read_entry(f.b, &e)) {
			c.failed = true;
			break;
		}
		if (f.number == SNAPSHOT_CONTEXTS)
			ok = profile_push(r->room, &l->contexts, ((struct jfr_context){ e.key, e.value }));
		else
			ok = profile_push(r->room, &l->strings,
					  ((struct jfr_text){ e.key, label_text(e.value) }));
	}
	if (!ok)
		return jfr_err_memory(r, err);
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "are no LabelsSnapshot of protobuf, or are cut off");
	if (l->contexts.n)
		qsort(l->contexts.p, l->contexts.n, sizeof(*l->contexts.p), by_context);
	if (l->strings.n)
		qsort(l->strings.p, l->strings.n, sizeof(*l->strings.p), by_text);
	return 0;
}

const struct jfr_text *jfr_text_find(const struct jfr_reader *r, int64_t id)
{
	const struct jfr_labels *l = &r->labels;
	size_t i = SEARCH(0, l->strings.n, k, l->strings.p[k].id < id);

	return i < l->strings.n && l->strings.p[i].id == id ? &l->strings.p[i] : NULL;
}

uint32_t jfr_context_find(const struct jfr_reader *r, int64_t id)
{
	const struct jfr_labels *l = &r->labels;
	size_t i = SEARCH(0, l->contexts.n, k, l->contexts.p[k].id < id);

	return i < l->contexts.n && l->contexts.p[i].id == id ? (uint32_t)i : JFR_NONE;
}

uint32_t jfr_context_labels(const struct jfr_reader *r, uint32_t at, struct profile *p,
			    struct profile_label ret[JFR_MAX_LABELS])
{
	struct cursor c = cursor_of(r->labels.contexts.p[at].labels);
	struct proto_field f;
	uint32_t n = 0;

	/* It is read for each event of the context: entries without texts count, too. */
	for (unsigned i = 0; i < JFR_MAX_LABELS && proto_next(&c, &f); i++) {
		const struct jfr_text *key, *value;
		struct entry e;

		if (f.number != CONTEXT_LABELS || f.wire != PROTO_LEN || !read_entry(f.b, &e))
			continue;
		key = jfr_text_find(r, e.key);
		value = jfr_text_find(r, e.number);
		if (key && value && key->text.size && value->text.size)
			ret[n++] = (struct profile_label){ .key = profile_add_string(p, key->text),
							   .str = profile_add_string(p, value->text) };
	}
	return n;
}
