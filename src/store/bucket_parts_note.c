/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The note of an upload in parts: which upload it is, in which bucket, and the hash of each part that was put, so that another
 * process goes on with it. It is beside the staging file, parts-HASH beside part-HASH. Beside a staging file without a name,
 * ID, it is parts-ID: no process goes on with that upload, but the next sweep aborts it.
 *
 * Its head is written once, and a line is added for each part, by one call. A process that is killed has written a line or
 * not; after a crash of the machine the last ones may be torn or missing: then these parts are put once more.
 */
#include "store/bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define NOTE_MAX MIB(1)
#define HEAD     "lode parts 1\n"

char *parts_note_path(const struct staging *s)
{
	const char *path = s->note_path ? s->note_path : s->path;
	const char *leaf = path ? strrchr(path, '/') : NULL;

	if (!leaf || (s->note_path && !str_starts(str_of(leaf), STR("/note-"))))
		return NULL;
	return mem_printf("%.*s/" PARTS_NOTE "%s", (int)(leaf - path), path, leaf + (s->note_path ? 6 : 1));
}

void parts_note_begin(const char *path, const struct parts_note *n)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(fd_close) int fd = -1;

	buf_printf(&b, HEAD "object: %s\nupload: %s\npart: %llu\n", n->object, n->id,
		   (unsigned long long)n->part_size);
	if (n->where[0])
		buf_printf(&b, "bucket: %s\n", n->where);
	buf_printf(&b, "sum: %016llx\n", (unsigned long long)hash64(b.p, b.size, 0));
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 || fd_write(fd, b.p, b.size, NULL) < 0)
		log_warn("store", "%s: cannot be written: the upload begins anew after a restart", path);
}

/* Of another upload with the same name, whose thread has not ended yet, a line may come late. */
static uint64_t line_tag(const char *id)
{
	return hash64(id, strlen(id), 0);
}

void parts_note_add(const char *path, const char *id, unsigned number, uint64_t hash)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(fd_close) int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);

	buf_printf(&b, "%u %016llx %016llx\n", number, (unsigned long long)hash,
		   (unsigned long long)line_tag(id));
	if (fd >= 0)
		(void)fd_write(fd, b.p, b.size, NULL);
}

static bool line_value(struct str *s, struct str name, char *ret, size_t room)
{
	struct str line = str_cut(s, '\n');

	if (!str_starts(line, name) || line.size - name.size >= room || memchr(line.p, 0, line.size))
		return false;
	memcpy(ret, line.p + name.size, line.size - name.size);
	ret[line.size - name.size] = 0;
	return true;
}

static bool hash_read(struct str text, uint64_t *ret)
{
	uint8_t raw[8];
	size_t got;

	if (!hex_decode(text, false, raw, sizeof(raw), &got) || got != sizeof(raw))
		return false;
	*ret = 0;
	for (size_t i = 0; i < sizeof(raw); i++)
		*ret = *ret << 8 | raw[i];
	return true;
}

/* The lines of parts, up to one that is torn. */
static void noted_parts_read(struct str s, struct parts_note *ret)
{
	size_t room = 0;

	while (s.size && memchr(s.p, '\n', s.size)) {
		struct str line = str_cut(&s, '\n'), number = str_cut(&line, ' '), sum = str_cut(&line, ' ');
		uint64_t n, hash, tag;

		if (!str_to_u64(number, &n) || !n || n > UINT32_MAX || !hash_read(sum, &hash) ||
		    !hash_read(line, &tag))
			return;
		if (tag != line_tag(ret->id))
			continue;
		VEC_PUSH(ret->v, ret->n, room) = (struct parts_note_part){ (unsigned)n, hash };
	}
}

bool parts_note_read(const char *path, struct parts_note *ret)
{
	AUTO(buf_done) struct buf b = { 0 };
	char size[24], sum[24];
	struct err why = { 0 };
	uint64_t hash;
	struct str s;
	size_t head;
	int r;

	*ret = (struct parts_note){ 0 };
	r = file_read(path, NOTE_MAX, &b, &why);
	ret->is_unread = r < 0 && why.os;
	if (r || !str_starts(buf_str(&b), STR(HEAD)))
		return false;
	s = buf_str(&b);
	str_cut(&s, '\n');
	if (!line_value(&s, STR("object: "), ret->object, sizeof(ret->object)) ||
	    !line_value(&s, STR("upload: "), ret->id, sizeof(ret->id)) ||
	    !line_value(&s, STR("part: "), size, sizeof(size)) || !str_to_u64(str_of(size), &ret->part_size))
		return false;
	if (str_starts(s, STR("bucket: ")) &&
	    !line_value(&s, STR("bucket: "), ret->where, sizeof(ret->where)))
		return false;
	head = b.size - s.size;
	if (!line_value(&s, STR("sum: "), sum, sizeof(sum)) || !hash_read(str_of(sum), &hash) ||
	    hash != hash64(b.p, head, 0))
		return false;
	noted_parts_read(s, ret);
	return true;
}

void parts_note_done(struct parts_note *n)
{
	free(n->v);
}
