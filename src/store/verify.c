/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading all contents and comparing each with the SHA-256 in its name.
 *
 * With the option `remove` a damaged content is removed with all records that name it: a missing object can
 * be fetched or pushed again, a damaged one would be served.
 */
#include "store/internal.h"

struct verify {
	struct store *st;
	struct refs c;
	const struct store_verify_options *o;
	uint64_t done;
	struct store_verify_result result;
};

static void verify_report(void *arg, struct str what, const struct err *why)
{
	struct verify *v = arg;

	v->result.n_bad++;
	if (v->o->bad)
		v->o->bad(v->o->arg_bad, what, why);
}

static int verify_progress(void *arg, uint64_t n)
{
	struct verify *v = arg;

	return v->o->progress
		       ? v->o->progress(v->o->arg, v->result.n_contents, v->c.n_contents, v->done, v->c.bytes)
		       : 0;
}

/* Report all records that name content @at, and with `remove` remove them. */
static int verify_condemn(struct verify *v, size_t at, const struct err *why, struct err *err)
{
	struct blobs *b = v->st->blobs;

	for (size_t i = 0; i < v->c.n_records; i++) {
		const struct refs_record *record = &v->c.records[i];
		int r;

		if (record->content != at)
			continue;
		verify_report(v, str_of(record->name), why);
		if (!v->o->remove)
			continue;
		r = b->ops->remove(b, record->name, &record->stamp, err);
		if (r < 0)
			return -1;
		v->result.n_removed += r == 0;
	}
	return 0;
}

static int verify_one(struct verify *v, size_t i, struct err *err)
{
	const struct refs_content *content = &v->c.contents[i];
	struct blobs *b = v->st->blobs;
	struct blob_garbage bad;
	char *name = bad.name;
	struct err why = { 0 };
	int r;

	store_content_name(content->sha256, content->raw, name);
	r = content_check(v->st, content->sha256, content->raw, verify_progress, v, &why);
	if (r == 0)
		return 0;
	if (r < 0 && why.kind != ERR_INVALID) {
		*err = why;
		return -1;
	}
	/* It may have been evicted meanwhile: then its records are gone too. */
	if (r == BLOB_MISSING) {
		if (content->there || !content->n_records)
			return 0;
		(void)err_set(&why, ERR_INVALID, "%s: its content is missing", name);
	}
	/* A content without records is garbage, as the one of an object whose bytes were pushed again: no object is bad. */
	if (verify_condemn(v, i, &why, err) < 0)
		return -1;
	/* Remove it at once, not with the garbage: a later push of the same bytes would take it for valid. */
	return v->o->remove && content->there ? b->ops->collect(b, &bad, 1, v->c.from_ns, err) : 0;
}

int store_verify(struct store *st, const struct store_verify_options *o, struct store_verify_result *ret,
		 struct err *err)
{
	struct verify v = { .st = st, .o = o };
	int r = 0;

	if (refs_count(st, &v.c, verify_report, &v, err) < 0)
		return -1;
	for (size_t i = 0; i < v.c.n_contents && r == 0; i++) {
		r = verify_one(&v, i, err);
		v.result.n_contents++;
		v.done += v.c.contents[i].stored_size;
	}
	v.result.n_objects = v.c.n_records - v.c.n_past;
	v.result.bytes = v.done;
	refs_done(&v.c);
	if (r < 0)
		return err_in(err, "store");
	*ret = v.result;
	return 0;
}
