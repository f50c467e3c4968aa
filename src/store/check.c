/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading contents whole, and comparing each with the SHA-256 in its name.
 */
#include "store/internal.h"

#define PIECE MIB(1)

int content_hash(struct source *s, int (*each)(void *arg, uint64_t n), void *arg,
		 uint8_t ret[STORE_SHA256_SIZE], struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(PIECE);
	struct sha256 *sha = NULL;
	int r = sha256_new(&sha, err);

	for (uint64_t off = 0; r == 0 && off < s->size;) {
		size_t got = 0;

		r = source_read(s, off, piece, PIECE, SOURCE_SEQUENTIAL, &got, err);
		if (r == 0 && !got)
			r = err_set(err, ERR_INVALID, "ends at byte %llu of %llu", (unsigned long long)off,
				    (unsigned long long)s->size);
		if (r == 0)
			sha256_add(sha, bytes_of(piece, got));
		off += got;
		if (r == 0 && each && each(arg, got) != 0)
			r = err_set(err, ERR_CANCELLED, "stopped");
	}
	if (r == 0)
		sha256_end(sha, ret);
	sha256_free(sha);
	return r;
}

int content_frames(struct source *raw, struct source **ret, struct err *err)
{
	struct err why = { 0 };

	if (codec_frames_open(raw, ret, &why) == 0)
		return 0;
	/* The store writes no table that is over a limit: this one is damaged. */
	if (why.kind == ERR_LIMIT && !why.os)
		why.kind = ERR_INVALID;
	if (err)
		*err = why;
	return -1;
}

int content_compare(struct source *stored, bool raw, const uint8_t sha256[STORE_SHA256_SIZE],
		    int (*each)(void *arg, uint64_t n), void *arg, struct err *err)
{
	AUTO(source_closep) struct source *s = stored;
	uint8_t sum[STORE_SHA256_SIZE];

	if ((!raw && content_frames(TAKE(s), &s, err) < 0) || content_hash(s, each, arg, sum, err) < 0)
		return -1;
	return memcmp(sum, sha256, sizeof(sum)) == 0 ? 0 : err_set(err, ERR_INVALID, "its SHA-256 differs");
}

bool content_is_damaged(const struct err *why)
{
	return why->kind == ERR_INVALID || why->kind == ERR_CHANGED || (why->kind == ERR_IO && !why->os);
}

void content_note_damage(struct store *st, const char *name, const struct blob_stamp *stamp)
{
	if (st->blobs->remote)
		known_content_forget(&st->known, name, stamp);
	else
		known_content_add(&st->known, name, stamp, false);
}

/* BLOB_MISSING. @again: another read has found damage. */
static int content_check_once(struct store *st, const char *name, const uint8_t sha256[STORE_SHA256_SIZE],
			      bool raw, bool again, int (*each)(void *arg, uint64_t n), void *arg,
			      struct err *err)
{
	struct source *s;
	int r = st->blobs->ops->open(st->blobs, name, &s, err);

	if (r)
		return r;
	if (again)
		source_distrust(s);
	return content_compare(s, raw, sha256, each, arg, err);
}

int content_check(struct store *st, const uint8_t sha256[STORE_SHA256_SIZE], bool raw,
		  int (*each)(void *arg, uint64_t n), void *arg, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp;
	struct err why = { 0 };
	int r;

	store_content_name(sha256, raw, name);
	r = st->blobs->ops->stat(st->blobs, name, &stamp, err);
	if (r)
		return r;
	for (unsigned i = 0; i < content_tries(st); i++) {
		r = content_check_once(st, name, sha256, raw, i > 0, each, arg, &why);
		if (r >= 0 || !content_is_damaged(&why))
			break;
	}
	if (r == 0)
		known_content_add(&st->known, name, &stamp, true);
	else if (r < 0 && content_is_damaged(&why))
		content_note_damage(st, name, &stamp);
	if (r < 0 && err)
		*err = why;
	return r < 0 ? err_in(err, "%s", name) : r;
}

int content_is_whole(struct store *st, const struct store_meta *meta, bool *ret, struct err *err)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp;
	struct err why = { 0 };
	enum known_state state;
	int r = st->blobs->ops->stat(st->blobs, store_content_name(meta->sha256, meta->raw, name), &stamp,
				     err);

	*ret = false;
	if (r)
		return r < 0 ? -1 : 0;
	state = known_content(&st->known, name, &stamp);
	if ((stamp.size != meta->stored_size && !content_has_other_size(meta, &stamp)) ||
	    state == KNOWN_DAMAGED)
		return 0;
	if (state == KNOWN_WHOLE) {
		*ret = true;
		return 0;
	}
	r = content_check(st, meta->sha256, meta->raw, NULL, NULL, &why);
	*ret = r == 0;
	if (r < 0 && why.kind == ERR_IO && why.os)
		return CONTENT_UNREADABLE;
	if (r < 0 && !content_is_damaged(&why)) {
		*err = why;
		return -1;
	}
	return 0;
}

void content_note_whole(struct store *st, const struct store_meta *meta)
{
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp;

	if (st->blobs->ops->stat(st->blobs, store_content_name(meta->sha256, meta->raw, name), &stamp,
				 NULL) == 0)
		known_content_add(&st->known, name, &stamp, true);
}
