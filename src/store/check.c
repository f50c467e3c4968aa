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

/* ---- the table of frames, docs/formats/store.md ---- */

#define TABLE_HEAD   8u
#define TABLE_TAIL   9u
#define TABLE_MAGIC  0x8f92eab1u
#define TABLE_SUMS   0x80u
#define TABLE_FRAMES (1u << 22)

static int table_check_rows(struct bytes rows, unsigned row_size, struct err *err)
{
	struct cursor c = cursor_of(rows);

	while (cursor_left(&c)) {
		uint32_t in = cursor_u32(&c), out = cursor_u32(&c);

		cursor_skip(&c, row_size - 8);
		if (out > CODEC_FRAME_MAX || in > 2 * CODEC_FRAME_MAX)
			return err_set(err, ERR_INVALID, "seek table: a frame of %u bytes decodes to %u", in,
				       out);
	}
	return 0;
}

/*
 * The codec has one kind of error for a table that is over a limit, and for a lack of memory, which says nothing of the bytes.
 * The store writes no table that is over a limit: this one is damaged. What else is wrong with it the codec finds. It reads the
 * same bytes, so those of a bucket are not asked for once more.
 */
static int table_check_limits(struct source *raw, struct err *err)
{
	AUTO(mem_freep) uint8_t *table = NULL;
	uint8_t tail[TABLE_TAIL];
	unsigned row_size;
	struct cursor c;
	uint64_t size;
	uint32_t n;

	if (raw->size < sizeof(tail))
		return 0;
	if (source_read_full(raw, raw->size - sizeof(tail), tail, sizeof(tail), SOURCE_RANDOM, err) < 0)
		return -1;
	c = cursor_of(bytes_of(tail, sizeof(tail)));
	n = cursor_u32(&c);
	row_size = cursor_u8(&c) & TABLE_SUMS ? 12 : 8;
	if (cursor_u32(&c) != TABLE_MAGIC)
		return 0;
	if (n > TABLE_FRAMES)
		return err_set(err, ERR_INVALID, "seek table: %u frames", n);
	size = TABLE_HEAD + (uint64_t)n * row_size;
	if (size > raw->size - sizeof(tail))
		return 0;
	table = mem_try((size_t)size);
	if (!table)
		return err_set(err, ERR_LIMIT, "seek table: no memory for %u frames", n);
	if (source_read_full(raw, raw->size - sizeof(tail) - size, table, (size_t)size, SOURCE_RANDOM, err) <
	    0)
		return -1;
	return table_check_rows(bytes_of(table + TABLE_HEAD, (size_t)size - TABLE_HEAD), row_size, err);
}

int content_frames(struct source *raw, struct source **ret, struct err *err)
{
	if (table_check_limits(raw, err) < 0) {
		source_close(raw);
		return -1;
	}
	return codec_frames_open(raw, ret, err);
}

/* ---- contents ---- */

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
