/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Earlier versions of pushed objects: the record of a version that was replaced or removed is kept under another name,
 * and keeps its content from being collected.
 *
 * The name is that of the record with the time of the replacement and the beginning of the content's SHA-256:
 * "past/ab/abcdef.debuginfo.<16 digits: milliseconds>-<8 digits>". So versions of one object are listed in their order.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define TIME_DIGITS 16u
#define SHA_DIGITS  8u
#define TAIL_SIZE   (1 + TIME_DIGITS + 1 + SHA_DIGITS) /* ".<time>-<SHA-256>" */

/* "past/ab/abcdef.debuginfo." */
static void past_prefix(const char *name, struct buf *ret)
{
	buf_add_str(ret, STORE_PAST);
	buf_add_str(ret, str_of(name + STORE_KEYS.size));
	buf_add_char(ret, '.');
}

bool past_key_name(const char *name, struct buf *ret)
{
	struct str rest = str_of(name + STORE_PAST.size);
	const char *tail;

	if (rest.size <= TAIL_SIZE)
		return false;
	rest.size -= TAIL_SIZE;
	tail = rest.p + rest.size;
	if (tail[0] != '.' || !hex_is_lower((struct str){ tail + 1, TIME_DIGITS }) ||
	    tail[1 + TIME_DIGITS] != '-' || !hex_is_lower((struct str){ tail + 2 + TIME_DIGITS, SHA_DIGITS }))
		return false;
	buf_add_str(ret, STORE_KEYS);
	buf_add_str(ret, rest);
	return true;
}

bool past_name_ms(const char *name, int64_t *ret)
{
	AUTO(buf_done) struct buf key = { 0 };

	if (!str_starts(str_of(name), STORE_PAST) || !past_key_name(name, &key))
		return false;
	*ret = (int64_t)(strtoull(name + strlen(name) - TAIL_SIZE + 1, NULL, 16) & INT64_MAX);
	return true;
}

static void past_name(const char *name, const struct store_meta *meta, struct buf *ret)
{
	char hex[2 * STORE_SHA256_SIZE + 1];

	past_prefix(name, ret);
	buf_printf(ret, "%016llx-%.*s", (unsigned long long)clock_wall_ms(), (int)SHA_DIGITS,
		   hex_encode(bytes_of(meta->sha256, STORE_SHA256_SIZE), hex));
}

/*
 * A collector that sees the content without a record leaves it alone. BLOB_MISSING. The time of another user's file cannot be
 * set: that refuses nothing, since a collector would have to be at this very place.
 */
static int version_touch(struct store *st, const char *content)
{
	return st->blobs->ops->touch(st->blobs, content, NULL) == BLOB_MISSING ? BLOB_MISSING : 0;
}

/* Put the record @text of an earlier version with the content of @meta. */
static int past_put(struct store *st, const char *past, struct bytes text, const struct store_meta *meta,
		    struct err *err)
{
	char content[STORE_CONTENT_NAME_SIZE];
	int r;

	store_content_name(meta->sha256, meta->raw, content);
	/* A collector that has not seen the record, and has been to the earlier versions, leaves the content alone. */
	if (!st->blobs->remote && version_touch(st, content) == BLOB_MISSING)
		return BLOB_CHANGED;
	/* BLOB_CHANGED: it is there already, of the same second. */
	r = st->blobs->ops->put(st->blobs, past, text, content, &(struct blob_stamp){ 0 }, err);
	return r < 0 ? -1 : r == BLOB_UNMET ? BLOB_CHANGED : 0;
}

/* Only of a pushed object whose content is whole. */
static int is_worth_keeping(struct store *st, const struct store_meta *meta, bool *ret, struct err *err)
{
	bool whole;
	int r;

	*ret = false;
	if (meta->origin != STORE_PUSHED)
		return 0;
	r = content_is_whole(st, meta, &whole, err);
	/* A version that cannot be read now may be read later. */
	*ret = r >= 0 && (whole || r == CONTENT_UNREADABLE);
	return MIN(r, 0);
}

int past_add(struct store *st, const char *name, const struct store_record *record, struct str by,
	     struct err *err)
{
	AUTO(buf_done) struct buf past = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct store_meta meta = record->meta;
	bool keeps;

	if (is_worth_keeping(st, &meta, &keeps, err) < 0)
		return -1;
	if (!keeps)
		return 0;
	meta.later = false;
	meta.replaced = clock_wall_s();
	meta.replaced_by = by.size ? by : STR("?");
	past_name(name, &meta, &past);
	store_record_write(&record->key, &meta, &text);
	return past_put(st, buf_cstr(&past), buf_bytes(&text), &meta, err);
}

int past_add_rival(struct store *st, const struct refs_record *rival, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct store_record record;
	struct arena arena;
	int r;

	arena_init(&arena);
	r = st->blobs->ops->get_beside(st->blobs, rival->name, &rival->stamp, STORE_MAX_RECORD, &text, err);
	if (r == 0)
		r = store_record_of(rival->name, buf_bytes(&text), &rival->stamp, &arena, &record, err);
	if (r == 0)
		r = past_add(st, rival->name, &record, STR("?"), err);
	arena_done(&arena);
	return r;
}

/* ---- versions of one object ---- */

struct versions {
	char **names; /* the oldest first */
	size_t n, room;
};

static int version_note(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	struct versions *v = arg;

	VEC_PUSH(v->names, v->n, v->room) = mem_strdup(name);
	return 0;
}

static void past_versions_done(struct versions *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->names[i]);
	free(v->names);
}

static int past_versions_list(struct store *st, const char *name, struct versions *ret, struct err *err)
{
	AUTO(buf_done) struct buf prefix = { 0 };

	past_prefix(name, &prefix);
	return st->blobs->ops->list(st->blobs, buf_str(&prefix), STR(""), version_note, ret, err);
}

int past_trim(struct store *st, const char *name, bool all, struct err *err)
{
	AUTO(past_versions_done) struct versions v = { 0 };
	size_t keep = all ? 0 : STORE_PAST_MAX;

	if (past_versions_list(st, name, &v, err) < 0)
		return -1;
	for (size_t i = 0; i + keep < v.n; i++)
		if (st->blobs->ops->remove(st->blobs, v.names[i], NULL, err) < 0)
			return -1;
	return 0;
}

/* The latest version whose SHA-256 begins with @sha256. BLOB_MISSING. */
static int version_find(struct store *st, const char *name, struct str sha256, struct arena *a,
			struct store_record *ret, char **ret_name, struct err *err)
{
	AUTO(past_versions_done) struct versions v = { 0 };

	if (past_versions_list(st, name, &v, err) < 0)
		return -1;
	while (v.n) {
		AUTO(mem_freep) char *version = v.names[--v.n];
		char hex[2 * STORE_SHA256_SIZE + 1];

		if (store_record_get(st, version, a, ret, NULL) != 0)
			continue;
		hex_encode(bytes_of(ret->meta.sha256, STORE_SHA256_SIZE), hex);
		if (!str_starts(str_of(hex), sha256))
			continue;
		*ret_name = TAKE(version);
		return 0;
	}
	return BLOB_MISSING;
}

int past_add_copied(struct store *st, struct store *from, const char *name, const struct store_record *record,
		    struct err *err)
{
	AUTO(mem_freep) char *version = NULL;
	AUTO(buf_done) struct buf text = { 0 };
	char hex[2 * STORE_SHA256_SIZE + 1];
	struct store_record own;
	struct arena arena;
	bool keeps, found;

	if (is_worth_keeping(st, &record->meta, &keeps, err) < 0)
		return -1;
	if (!keeps)
		return 0;
	hex_encode(bytes_of(record->meta.sha256, STORE_SHA256_SIZE), hex);
	arena_init(&arena);
	found = version_find(from, name, str_of(hex), &arena, &own, &version, NULL) == 0 &&
		store_record_text(from, version, &arena, &own, &text, NULL) == 0 &&
		own.meta.raw == record->meta.raw;
	arena_done(&arena);
	return found ? past_put(st, version, buf_bytes(&text), &record->meta, err)
		     : past_add(st, name, record, STR("local"), err);
}

/* ---- restoring ---- */

/*
 * BLOB_CHANGED: another writer came first. BLOB_UNMET: the content was collected. A collector that has been to the records, and
 * comes to the earlier versions when this one is removed, sees the content in neither: so it is touched, as by a commit.
 */
static int version_restore(struct store *st, const char *name, const struct store_record *version,
			   struct str by, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct store_record now = { 0 };
	struct store_meta meta = version->meta;
	char content[STORE_CONTENT_NAME_SIZE];
	int64_t from_ns = 0;
	struct arena arena;
	bool is_there;
	int r;

	arena_init(&arena);
	r = store_record_get(st, name, &arena, &now, NULL);
	is_there = r == 0;
	r = is_there ? past_add(st, name, &now, by, err) : 0;
	meta.replaced = 0;
	meta.replaced_by = STR("");
	store_record_write(&version->key, &meta, &text);
	if (r == 0) {
		from_ns = store_now_ns();
		r = version_touch(st, store_content_name(meta.sha256, meta.raw, content));
		r = r == BLOB_MISSING ? BLOB_UNMET : 0;
	}
	if (r == 0) {
		r = record_put(st, name, buf_bytes(&text), &meta, &now.stamp, from_ns, err);
		r = r == BLOB_MISSING ? BLOB_UNMET : r;
	}
	if (r == 0) {
		object_list_put(st->objects, name, &version->key, &meta);
		atomic_fetch_add(&st->generation, 1);
	}
	arena_done(&arena);
	return r;
}

int store_restore(struct store *st, const struct store_key *key, struct str sha256, struct str by,
		  struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	AUTO(mem_freep) char *version_name = NULL;
	struct store_record version;
	struct arena arena;
	bool whole = false;
	int r;

	store_record_name(key, &name);
	arena_init(&arena);
	r = version_find(st, buf_cstr(&name), sha256, &arena, &version, &version_name, err);
	if (r == 0) {
		r = content_is_whole(st, &version.meta, &whole, err);
		if (r == CONTENT_UNREADABLE)
			r = err_set(err, ERR_IO, "the content of that version cannot be read now");
	}
	if (r == 0 && !whole)
		r = err_set(err, ERR_INVALID, "the content of that version is damaged");
	if (r == 0)
		r = version_restore(st, (const char *)name.p, &version, by, err);
	if (r == BLOB_CHANGED || r == BLOB_UNMET)
		r = err_set(err, ERR_BUSY, "the object was replaced at this moment; try again");
	else if (r == BLOB_MISSING)
		r = STORE_MISSING;
	if (r == 0) {
		(void)st->blobs->ops->remove(st->blobs, version_name, NULL, NULL);
		(void)past_trim(st, (const char *)name.p, false, NULL);
	}
	arena_done(&arena);
	return r < 0 ? err_in(err, "store") : r;
}
