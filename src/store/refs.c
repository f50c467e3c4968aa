/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference count: a walk over all records and contents. It takes about 200 bytes of memory an object.
 */
#include "store/internal.h"

#include <stdlib.h>

struct refs_walk {
	struct store *st;
	struct refs *c;
	struct arena record; /* of the current record */
	int64_t noted_s;     /* the latest time in the notes of interrupted uploads; 0: none */
	store_bad_fn *bad;
	void *arg;
};

struct content_key {
	uint8_t bytes[STORE_SHA256_SIZE + 1];
};

static struct content_key content_key_of(const uint8_t sha256[STORE_SHA256_SIZE], bool raw)
{
	struct content_key key;

	memcpy(key.bytes, sha256, STORE_SHA256_SIZE);
	key.bytes[STORE_SHA256_SIZE] = raw;
	return key;
}

/* NULL: neither a file nor a record has it. */
static struct refs_content *refs_content_find(const struct refs *c, const uint8_t sha256[STORE_SHA256_SIZE],
					      bool raw)
{
	struct content_key key = content_key_of(sha256, raw);
	uintptr_t at = (uintptr_t)map_get(&c->by_name, bytes_of(key.bytes, sizeof(key.bytes)));

	return at ? &c->contents[at - 1] : NULL;
}

static uint32_t refs_content_at(struct refs *c, const uint8_t sha256[STORE_SHA256_SIZE], bool raw)
{
	struct refs_content *content = refs_content_find(c, sha256, raw);
	struct content_key key = content_key_of(sha256, raw);

	if (content)
		return (uint32_t)(content - c->contents);
	VEC_GROW(c->contents, c->n_contents, c->room_contents);
	content = &c->contents[c->n_contents];
	*content = (struct refs_content){ .raw = raw };
	memcpy(content->sha256, sha256, STORE_SHA256_SIZE);
	map_put(&c->by_name, bytes_of(key.bytes, sizeof(key.bytes)), (void *)(uintptr_t)(c->n_contents + 1));
	return (uint32_t)c->n_contents++;
}

static void note_reached(const struct refs_walk *w, int64_t s, int64_t *latest_s)
{
	if (s < w->st->opened_s)
		*latest_s = MAX(*latest_s, s);
}

static int refs_add_partial(void *arg, const struct store_partial *p)
{
	struct refs_walk *w = arg;

	note_reached(w, p->saved, &w->noted_s);
	return 0;
}

/* Other files among the contents are left alone. */
static bool content_name_parse(const char *name, uint8_t sha256[STORE_SHA256_SIZE], bool *ret_raw)
{
	char own[STORE_CONTENT_NAME_SIZE];
	size_t n;

	if (strlen(name) < 8 + 2 * STORE_SHA256_SIZE ||
	    !hex_decode((struct str){ name + 8, 2 * STORE_SHA256_SIZE }, false, sha256, STORE_SHA256_SIZE,
			&n))
		return false;
	*ret_raw = !name[8 + 2 * STORE_SHA256_SIZE];
	return strcmp(store_content_name(sha256, *ret_raw, own), name) == 0;
}

/* ---- records that are damaged ---- */

static bool sha256_line_find(struct str text, uint8_t ret[STORE_SHA256_SIZE])
{
	struct str name = STR("sha256: ");
	size_t n;

	while (text.size) {
		struct str line = str_cut(&text, '\n');

		if (str_starts(line, name))
			return hex_decode((struct str){ line.p + name.size, line.size - name.size }, false,
					  ret, STORE_SHA256_SIZE, &n) &&
			       n == STORE_SHA256_SIZE;
	}
	return false;
}

static void refs_add_bad(struct refs_walk *w, const struct blob_scanned *scanned, const struct err *why,
			 bool is_damaged)
{
	struct str text = { (const char *)scanned->content.p, scanned->outcome ? 0 : scanned->content.size };
	struct refs *c = w->c;
	struct refs_bad *bad = &VEC_PUSH(c->bad, c->n_bad, c->room_bad);
	struct store_meta meta;
	struct store_key key;
	bool raw, misplaced;

	*bad = (struct refs_bad){ .name = arena_strdup(&c->arena, str_of(scanned->name)),
				  .why = arena_strdup(&c->arena, str_of(why->text)),
				  .place = scanned->place,
				  .stamp = scanned->stamp };
	/* The record of another object under this name says nothing of the content of this one. */
	misplaced = store_record_read(bytes_of(text.p, text.size), &w->record, &key, &meta, NULL) == 0;
	bad->is_newer = is_damaged && !misplaced && store_record_is_whole(text);
	bad->is_damaged = is_damaged && !bad->is_newer;
	bad->is_sure = scanned->needs && content_name_parse(scanned->needs, bad->sha256, &raw);
	bad->has_content = bad->is_sure || (!misplaced && sha256_line_find(text, bad->sha256));
	if (w->bad)
		w->bad(w->arg, str_of(scanned->name), why);
}

/* Add @n to the records that name its content. false: nobody knows that content. */
static bool bad_contents_add(struct refs *c, const struct refs_bad *bad, int n)
{
	bool found = bad->is_sure;

	for (unsigned raw = 0; raw < 2 && bad->has_content; raw++) {
		struct refs_content *content = refs_content_find(c, bad->sha256, raw);

		if (!content || !content->there)
			continue;
		content->bad_names += (uint32_t)n;
		found = true;
	}
	return found;
}

/* All contents are listed. One that the bytes of a record name, and that is not there, is none: these bytes are damaged. */
static void refs_find_bad_contents(struct refs *c)
{
	for (size_t i = 0; i < c->n_bad; i++) {
		c->bad[i].is_vague = !bad_contents_add(c, &c->bad[i], 1);
		c->n_vague += c->bad[i].is_vague;
	}
}

void refs_forget_bad(struct refs *c, struct refs_bad *bad)
{
	if (bad->is_gone)
		return;
	bad->is_gone = true;
	c->n_vague -= bad->is_vague;
	if (!bad->is_vague)
		(void)bad_contents_add(c, bad, -1);
}

bool refs_bad_is_past(const struct refs_bad *bad, int64_t *ret_replaced_s)
{
	int64_t ms;

	if (!bad->is_damaged || bad->is_gone || bad->place != BLOB_PRESENT || !past_name_ms(bad->name, &ms))
		return false;
	*ret_replaced_s = ms / 1000;
	return true;
}

bool refs_is_kept(const struct refs *c, size_t i)
{
	const struct refs_content *content = &c->contents[i], *other;

	if (!content->there || content->n_records)
		return false;
	if (content->bad_names || !c->n_vague)
		return content->bad_names > 0;
	other = refs_content_find(c, content->sha256, !content->raw);
	return !other || !other->there || !other->n_records;
}

bool refs_is_garbage(const struct refs *c, size_t i)
{
	return c->contents[i].there && !c->contents[i].n_records && !refs_is_kept(c, i);
}

/* Nobody knows the content of a record that cannot be read now, so that it would be taken for garbage. */
static int record_unreadable(const struct err *why, struct err *err)
{
	if (!err)
		return -1;
	*err = *why;
	if (why->kind != ERR_IO || !why->os || blob_is_away(why))
		return -1;
	(void)err_set(
		err, ERR_IO,
		"%s; no content is removed before this can be read: mend the disk, or remove the object",
		why->text);
	err->os = why->os;
	return -1;
}

/* Only of one record: a lack of memory or descriptors, and a bucket that is away, are of all. */
static bool record_is_unreadable(const struct err *why)
{
	return why->kind != ERR_LIMIT && why->kind != ERR_BUSY && why->kind != ERR_CANCELLED &&
	       !blob_is_away(why);
}

/* ---- the walk ---- */

/* Versions beside the present one keep their contents, and are no objects. */
static int refs_add_record(void *arg, const struct blob_scanned *scanned, struct err *err)
{
	const char *name = scanned->name;
	struct refs_walk *w = arg;
	struct refs *c = w->c;
	struct store_record record;
	const struct store_meta *meta = &record.meta;
	struct refs_content *content;
	struct err why = { 0 };
	bool past;
	int r;

	arena_reset(&w->record);
	r = store_record_scanned(w->st, scanned, &w->record, &record, &why);
	if (r == BLOB_MISSING)
		return 0;
	if (r < 0) {
		bool damaged = why.kind == ERR_INVALID || why.kind == ERR_DAMAGED;

		if (!damaged && !(w->bad && record_is_unreadable(&why)))
			return record_unreadable(&why, err);
		refs_add_bad(w, scanned, &why, damaged);
		return 0;
	}
	past = str_starts(str_of(name), STORE_PAST);
	note_reached(w, meta->created, &w->c->reached_s);
	note_reached(w, meta->replaced, &w->c->reached_s);
	VEC_GROW(c->records, c->n_records, c->room_records);
	c->records[c->n_records] = (struct refs_record){
		.name = arena_strdup(&c->arena, str_of(name)),
		.content = refs_content_at(c, meta->sha256, meta->raw),
		.origin = (uint8_t)meta->origin,
		.past = past,
		.place = scanned->place,
		.replaced = meta->replaced,
		.stamp = record.stamp,
	};
	content = &c->contents[c->records[c->n_records].content];
	c->records[c->n_records].before = content->last;
	content->last = (uint32_t)++c->n_records;
	content->n_records++;
	if (scanned->place != BLOB_PRESENT) {
		c->n_beside++;
		return 0;
	}
	c->n_past += past;
	if (past)
		return 0;
	object_list_put(w->st->objects, name, &record.key, meta);
	if (meta->later)
		pack_add(w->st->pack, name, meta->stored_size);
	c->content_size += meta->size;
	c->by_origin[meta->origin]++;
	return 0;
}

static int refs_add_content(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	struct refs_walk *w = arg;
	struct refs_content *content;
	uint8_t sha256[STORE_SHA256_SIZE];
	uint32_t at;
	bool raw;

	if (!content_name_parse(name, sha256, &raw))
		return 0;
	at = refs_content_at(w->c, sha256, raw); /* this may move the contents */
	content = &w->c->contents[at];
	content->there = true;
	content->stored_size = stamp->size;
	w->c->bytes += stamp->size;
	return 0;
}

void refs_done(struct refs *c)
{
	arena_done(&c->arena);
	free(c->records);
	free(c->contents);
	free(c->bad);
	map_done(&c->by_name);
	*c = (struct refs){ 0 };
}

int refs_count(struct store *st, struct refs *ret, store_bad_fn *bad, void *arg, struct err *err)
{
	struct blobs *b = st->blobs;
	struct refs_walk w = { st, ret, .bad = bad, .arg = arg };
	uint64_t walk = object_list_walk(st->objects);
	int r;

	*ret = (struct refs){ .from_ns = store_now_ns() };
	arena_init(&ret->arena);
	arena_init(&w.record);
	r = blobs_scan(b, STORE_KEYS, STR(""), STORE_MAX_RECORD, refs_add_record, &w, err);
	/* After the keys: an object that is replaced meanwhile is found here. */
	if (r == 0)
		r = blobs_scan(b, STORE_PAST, STR(""), STORE_MAX_RECORD, refs_add_record, &w, err);
	if (r == 0)
		r = b->ops->list(b, STORE_DATA, STR(""), refs_add_content, &w, err);
	if (r == 0)
		r = store_partials(st, refs_add_partial, &w, err);
	if (r == 0)
		r = b->ops->staged(b, &ret->staged, err);
	arena_done(&w.record);
	if (r < 0) {
		refs_done(ret);
		return err_in(err, "store");
	}
	refs_find_bad_contents(ret);
	/* A crash of a machine whose clock was ahead leaves notes, and seldom records, of that time. */
	if (!ret->reached_s)
		ret->reached_s = w.noted_s;
	object_list_walked(st->objects, walk);
	ret->staged -= MIN(ret->staged, atomic_load(&st->packing));
	atomic_store(&st->usage, (int64_t)(ret->bytes + ret->staged));
	return 0;
}

int refs_collect(struct store *st, struct refs *c, const uint32_t *contents, size_t n,
		 struct refs_removed *ret, struct err *err)
{
	AUTO(mem_freep) struct blob_garbage *v = NEW_N(struct blob_garbage, n + 1);
	int r;

	/* Until it is called, nothing is known of those that a failure leaves out. */
	for (size_t i = 0; i < n; i++) {
		store_content_name(c->contents[contents[i]].sha256, c->contents[contents[i]].raw, v[i].name);
		v[i].outcome = BLOB_YOUNGER;
	}
	r = n ? st->blobs->ops->collect(st->blobs, v, n, c->from_ns - st->settle_ns, err) : 0;
	for (size_t i = 0; i < n; i++) {
		struct refs_content *content = &c->contents[contents[i]];

		ret->n_young += v[i].outcome == BLOB_YOUNGER;
		if (v[i].outcome)
			continue;
		ret->n++;
		ret->bytes += content->stored_size;
		content->there = false;
		c->bytes -= content->stored_size;
		store_usage_add(st, -(int64_t)content->stored_size);
	}
	return r;
}

int store_stats(struct store *st, struct store_stats *ret, struct err *err)
{
	struct refs c;

	if (refs_count(st, &c, NULL, NULL, err) < 0)
		return -1;
	*ret = (struct store_stats){ .n_objects = c.n_records - c.n_past - c.n_beside,
				     .n_past = c.n_past,
				     .bytes = c.bytes,
				     .content_size = c.content_size };
	memcpy(ret->by_origin, c.by_origin, sizeof(ret->by_origin));
	for (size_t i = 0; i < c.n_contents; i++)
		ret->n_contents += c.contents[i].there;
	refs_done(&c);
	return 0;
}
