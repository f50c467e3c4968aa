/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads that clients send to the bucket themselves: facts and data, each object written once.
 *
 *   incoming/<id>!facts   put by us, before a URL is given away
 *   incoming/<id>!data    put by the client
 *
 * The facts are removed last, and have the id of an upload in parts: so an upload that nobody finishes can be aborted
 * without the right to list uploads.
 */
#include "store/incoming.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "s3/s3.h"
#include "store/bucket.h"
#include "store/internal.h"

#define FACTS      "!facts"
#define DATA       "!data"
#define FIRST_LINE "lode incoming 1\n"

struct incoming {
	struct bucket *bucket;
	char *endpoint;
	_Atomic int64_t sweep_ms; /* when the next sweep is due */
	_Atomic uint64_t left;    /* incoming_left() */
};

int incoming_open(const char *url, const char *endpoint, struct incoming **ret, struct err *err)
{
	struct bucket *b;

	if ((endpoint && s3_endpoint_check(endpoint, err) < 0) || bucket_open_s3(url, &b, err) < 0)
		return -1;
	*ret = incoming_open_bucket(b, endpoint);
	return 0;
}

struct incoming *incoming_open_bucket(struct bucket *bucket, const char *endpoint)
{
	struct incoming *in = NEW(struct incoming);

	in->bucket = bucket;
	in->endpoint = endpoint ? mem_strdup(endpoint) : NULL;
	return in;
}

void incoming_close(struct incoming *in)
{
	if (!in)
		return;
	in->bucket->ops->close(in->bucket);
	free(in->endpoint);
	free(in);
}

/* ---- names ---- */

static void incoming_name(const char *id, const char *what, char out[BUCKET_NAME_SIZE])
{
	snprintf(out, BUCKET_NAME_SIZE, BUCKET_INCOMING "%s%s", id, what);
}

static bool incoming_id_is_valid(struct str id)
{
	uint8_t raw[(INCOMING_ID_SIZE - 1) / 2];
	size_t n;

	return hex_decode(id, false, raw, sizeof(raw), &n) && n == sizeof(raw);
}

/* ---- facts ---- */

static void facts_write(const struct incoming_upload *u, struct buf *out)
{
	buf_add_str(out, STR(FIRST_LINE));
	if (u->in_parts[0])
		buf_printf(out, "upload: %s\n", u->in_parts);
	if (u->has_sha256)
		buf_add_str(out, STR("is: hashed\n"));
	if (u->by_content)
		buf_add_str(out, STR("is: by-content\n"));
	if (u->by_sender)
		buf_add_str(out, STR("is: by-sender\n"));
	buf_printf(out, "sum: %016llx\n", (unsigned long long)hash64(out->p, out->size, 0));
	store_record_write(&u->key, &u->meta, out);
}

static bool facts_line(struct str line, struct incoming_upload *ret)
{
	struct str name = str_cut(&line, ':'), value = str_trim(line);

	if (str_eq(name, STR("upload"))) {
		if (!value.size || value.size >= sizeof(ret->in_parts))
			return false;
		snprintf(ret->in_parts, sizeof(ret->in_parts), STR_FMT, STR_ARG(value));
	} else if (str_eq(name, STR("is"))) {
		ret->has_sha256 |= str_eq(value, STR("hashed"));
		ret->by_content |= str_eq(value, STR("by-content"));
		ret->by_sender |= str_eq(value, STR("by-sender"));
	}
	return true;
}

/* The lines before the record, with their sum. */
static bool facts_head(struct bytes b, struct str *ret_record, struct incoming_upload *ret)
{
	struct str s = { (const char *)b.p, b.size };
	char want[32];

	if (!str_starts(s, STR(FIRST_LINE)) || memchr(b.p, 0, b.size))
		return false;
	while (s.size) {
		size_t at = b.size - s.size;
		struct str line = str_cut(&s, '\n');

		if (str_starts(line, STR("sum: "))) {
			snprintf(want, sizeof(want), "sum: %016llx", (unsigned long long)hash64(b.p, at, 0));
			*ret_record = s;
			return str_eq(line, str_of(want));
		}
		if (at && !facts_line(line, ret))
			return false;
	}
	return false;
}

int incoming_facts_read(struct bytes b, struct arena *a, struct incoming_upload *ret, struct err *err)
{
	struct str record;

	*ret = (struct incoming_upload){ 0 };
	if (!facts_head(b, &record, ret))
		return err_set(err, ERR_INVALID, "an announced upload: its facts are damaged");
	return store_record_read(bytes_of(record.p, record.size), a, &ret->key, &ret->meta, err);
}

static int facts_get(struct bucket *b, const char *id, struct arena *a, struct incoming_upload *ret,
		     struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	char name[BUCKET_NAME_SIZE];
	int r;

	incoming_name(id, FACTS, name);
	r = b->ops->get(b, name, STORE_MAX_RECORD, &text, err);
	if (r)
		return r < 0 ? -1 : INCOMING_MISSING;
	if (incoming_facts_read(buf_bytes(&text), a, ret, err) < 0)
		return -1;
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	return 0;
}

/* ---- announcing ---- */

void incoming_name_new(struct incoming_upload *u)
{
	snprintf(u->id, sizeof(u->id), "%016llx%016llx", (unsigned long long)random_id(),
		 (unsigned long long)random_id());
}

int incoming_begin(struct incoming *in, struct incoming_upload *u, bool in_parts, struct err *err)
{
	AUTO(buf_done) struct buf facts = { 0 };
	struct bucket *b = in->bucket;
	char name[BUCKET_NAME_SIZE];

	u->in_parts[0] = 0;
	u->meta.created = b->ops->now_ns(b) / 1000000000;
	incoming_name(u->id, DATA, name);
	if (in_parts && u->meta.size > INCOMING_WHOLE_MAX &&
	    b->ops->upload_begin(b, name, u->in_parts, err) < 0)
		return -1;
	facts_write(u, &facts);
	incoming_name(u->id, FACTS, name);
	if (b->ops->put(b, name, buf_bytes(&facts), err) == 0)
		return 0;
	incoming_drop(in, u);
	return -1;
}

unsigned incoming_n_parts(const struct incoming_upload *u)
{
	return u->in_parts[0] ? (unsigned)((u->meta.size + INCOMING_PART - 1) / INCOMING_PART) : 0;
}

static uint64_t part_size(const struct incoming_upload *u, unsigned part)
{
	return MIN(INCOMING_PART, u->meta.size - (uint64_t)(part - 1) * INCOMING_PART);
}

int incoming_url(struct incoming *in, const struct incoming_upload *u, unsigned part, struct buf *ret,
		 struct err *err)
{
	char name[BUCKET_NAME_SIZE];
	const struct bucket_presigned p = {
		.name = name,
		.expires_s = part ? INCOMING_PARTS_S : INCOMING_WHOLE_S,
		.endpoint = in->endpoint,
		.size = part ? part_size(u, part) : u->meta.size,
		.upload = part ? u->in_parts : NULL,
		.part = part,
	};

	incoming_name(u->id, DATA, name);
	return in->bucket->ops->presign(in->bucket, &p, ret, err);
}

/* ---- finishing ---- */

struct facts_age {
	const char *name;
	int64_t put_ns; /* 0: they are not listed */
};

static int facts_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	struct facts_age *f = arg;

	if (strcmp(item->name, f->name) == 0)
		f->put_ns = item->time_ns;
	return 0;
}

/*
 * INCOMING_MISSING: it is too late to finish @u. The time in the facts may be of a process that doubted the bucket's
 * clock, or had not heard of it, so an upload that seems to be old has the age of its facts in the listing.
 */
static int incoming_check_age(struct bucket *b, const struct incoming_upload *u, struct err *err)
{
	char name[BUCKET_NAME_SIZE];
	struct facts_age f = { .name = name };

	if (b->ops->now_ns(b) / 1000000000 - u->meta.created <= INCOMING_FINISH_S)
		return 0;
	incoming_name(u->id, FACTS, name);
	if (b->ops->list(b, name, "", facts_listed, &f, err) < 0)
		return -1;
	return b->ops->now_ns(b) - f.put_ns > INCOMING_FINISH_S * INT64_C(1000000000) ? INCOMING_MISSING : 0;
}

int incoming_find(struct incoming *in, struct str id, struct arena *a, struct incoming_upload *ret,
		  struct err *err)
{
	struct bucket *b = in->bucket;
	char text[INCOMING_ID_SIZE];
	int r;

	if (!incoming_id_is_valid(id))
		return INCOMING_MISSING;
	snprintf(text, sizeof(text), STR_FMT, STR_ARG(id));
	r = facts_get(b, text, a, ret, err);
	return r == 0 ? incoming_check_age(b, ret, err) : r;
}

/* INCOMING_MISSING: some are not there, or have another size. */
static int incoming_join(struct incoming *in, const struct incoming_upload *u, const char *name,
			 struct err *err)
{
	AUTO(mem_freep) struct bucket_part *parts = NULL;
	struct bucket *b = in->bucket;
	size_t n = 0;
	int r = b->ops->upload_parts(b, name, u->in_parts, &parts, &n, err);

	/* Joined already, by a process that was killed then. */
	if (r == BUCKET_MISSING)
		return 0;
	if (r < 0)
		return -1;
	if (n != incoming_n_parts(u))
		return INCOMING_MISSING;
	for (size_t i = 0; i < n; i++)
		if (parts[i].number != i + 1 || parts[i].size != part_size(u, (unsigned)i + 1))
			return INCOMING_MISSING;
	return b->ops->upload_end(b, name, u->in_parts, parts, n, err);
}

struct data_search {
	struct bucket *bucket;
	const char *name;
	uint64_t size;
	struct source *found;
};

static int data_listed(void *arg, const struct bucket_item *item, struct err *err)
{
	struct data_search *s = arg;
	int r;

	if (strcmp(item->name, s->name) != 0 || s->found)
		return 0;
	if (item->size != s->size)
		return err_set(err, ERR_INVALID, "it has %llu bytes, and the upload was initiated with %llu",
			       (unsigned long long)item->size, (unsigned long long)s->size);
	r = s->bucket->ops->open(s->bucket, item, &s->found, err);
	return MIN(r, 0);
}

int incoming_read(struct incoming *in, const struct incoming_upload *u, struct source **ret, struct err *err)
{
	struct bucket *b = in->bucket;
	char name[BUCKET_NAME_SIZE];
	struct data_search s = { .bucket = b, .name = name, .size = u->meta.size };
	int r = 0;

	incoming_name(u->id, DATA, name);
	if (u->in_parts[0])
		r = incoming_join(in, u, name, err);
	/* By a listing, which has the ETag, too: bytes that are replaced while they are read are an error. */
	if (r == 0)
		r = b->ops->list(b, name, "", data_listed, &s, err);
	if (r == 0 && !s.found)
		r = INCOMING_MISSING;
	if (r) {
		source_close(s.found);
		return r;
	}
	source_pass(s.found);
	*ret = s.found;
	return 0;
}

/* ---- removing ---- */

static int upload_remove(struct bucket *b, const struct incoming_upload *u, struct err *err)
{
	char name[BUCKET_NAME_SIZE];

	incoming_name(u->id, DATA, name);
	if ((u->in_parts[0] && b->ops->upload_abort(b, name, u->in_parts, err) < 0) ||
	    b->ops->remove(b, name, err) < 0)
		return -1;
	incoming_name(u->id, FACTS, name);
	return b->ops->remove(b, name, err);
}

void incoming_drop(struct incoming *in, const struct incoming_upload *u)
{
	struct err err = { 0 };

	if (upload_remove(in->bucket, u, &err) < 0)
		log_debug("store", "an upload that has ended stays in the bucket for a day: %s", err.text);
}

struct incoming_sweep {
	struct bucket *bucket;
	int64_t before_ns, ended_before_ns;
	uint64_t n, left;
	/* The data before the item of the listing; name "": none. Its facts are the next item, unless they are gone. */
	char data[BUCKET_NAME_SIZE];
	uint64_t data_size;
	int64_t data_ns;
};

/*
 * The facts were read before: their upload is aborted before they go. Damaged ones have none that could be known. Those that
 * cannot be read now (a lack of memory) stay, or their upload would.
 */
static int old_facts_remove(struct incoming_sweep *s, const struct bucket_item *item, struct str id,
			    struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct incoming_upload u;
	struct err why = { 0 };
	char text[INCOMING_ID_SIZE];
	int r;

	arena_init(&a);
	snprintf(text, sizeof(text), STR_FMT, STR_ARG(id));
	r = facts_get(s->bucket, text, &a, &u, &why);
	if (r == 0)
		return upload_remove(s->bucket, &u, err);
	if (r < 0 && why.kind != ERR_INVALID && !(why.kind == ERR_LIMIT && item->size > STORE_MAX_RECORD)) {
		if (err)
			*err = why;
		return -1;
	}
	return s->bucket->ops->remove(s->bucket, item->name, err);
}

/* Asked for, since not every server's listings are in order. */
static int facts_are_gone(struct incoming_sweep *s, bool *ret, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct str rest = str_of(s->data + sizeof(BUCKET_INCOMING) - 1), id = str_cut(&rest, '!');
	char name[BUCKET_NAME_SIZE];
	int r;

	snprintf(name, sizeof(name), BUCKET_INCOMING STR_FMT FACTS, STR_ARG(id));
	r = s->bucket->ops->get(s->bucket, name, STORE_MAX_RECORD, &text, err);
	*ret = r > 0;
	return MIN(r, 0);
}

/*
 * Data whose facts are not the next item: a URL was used after the end of its upload, so nobody will read them. They are
 * removed when that URL is not good any more, or it would be used again.
 */
static int data_of_ended(struct incoming_sweep *s, struct err *err)
{
	bool gone = false;
	int r = 0;

	if (s->data[0] && s->data_ns < s->ended_before_ns)
		r = facts_are_gone(s, &gone, err);
	if (gone)
		r = s->bucket->ops->remove(s->bucket, s->data, err);
	else
		s->left += s->data_size;
	s->data[0] = '\0';
	s->data_size = 0;
	return r;
}

static int left_facts(struct incoming_sweep *s, const struct bucket_item *item, struct str id,
		      struct err *err)
{
	struct str before = str_of(s->data[0] ? s->data + sizeof(BUCKET_INCOMING) - 1 : "");
	bool old = item->time_ns < s->before_ns;
	int r = 0;

	if (!str_eq(str_cut(&before, '!'), id))
		r = data_of_ended(s, err);
	if (r < 0 || !old) {
		s->left += s->data_size;
	} else {
		s->n++;
		r = old_facts_remove(s, item, id, err);
	}
	s->data[0] = '\0';
	s->data_size = 0;
	return r;
}

static int left_upload(void *arg, const struct bucket_item *item, struct err *err)
{
	struct incoming_sweep *s = arg;
	struct str rest = str_of(item->name + sizeof(BUCKET_INCOMING) - 1), id = str_cut(&rest, '!');

	if (!incoming_id_is_valid(id))
		return 0;
	if (str_eq(rest, STR("facts")))
		return left_facts(s, item, id, err);
	if (!str_eq(rest, STR("data")))
		return 0;
	if (data_of_ended(s, err) < 0)
		return -1;
	snprintf(s->data, sizeof(s->data), "%s", item->name);
	s->data_size = item->size;
	s->data_ns = item->time_ns;
	return 0;
}

int bucket_incoming_sweep(struct bucket *b, uint64_t *ret_left, struct err *err)
{
	int64_t now_ns = b->ops->now_ns(b);
	struct incoming_sweep s = { .bucket = b,
				    .before_ns = now_ns - INCOMING_KEEP_S * INT64_C(1000000000),
				    .ended_before_ns = now_ns - INCOMING_WHOLE_S * INT64_C(1000000000) };
	int r = b->ops->list(b, BUCKET_INCOMING, "", left_upload, &s, err);

	if (r == 0)
		r = data_of_ended(&s, err);
	if (s.n)
		log_info("store", "removed %llu uploads that clients have not finished within a day",
			 (unsigned long long)s.n);
	*ret_left = s.left;
	return MIN(r, 0);
}

uint64_t incoming_left(struct incoming *in)
{
	int64_t now_ms = clock_mono_ms(), next_ms = atomic_load(&in->sweep_ms);
	struct err err = { 0 };
	uint64_t left;

	if (now_ms >= next_ms && atomic_compare_exchange_strong(&in->sweep_ms, &next_ms,
								now_ms + INCOMING_WHOLE_S * INT64_C(1000))) {
		if (bucket_incoming_sweep(in->bucket, &left, &err) == 0)
			atomic_store(&in->left, left);
		else
			log_debug("store", "uploads that have ended stay in the bucket: %s", err.text);
	}
	return atomic_load(&in->left);
}
