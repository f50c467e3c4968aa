/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in memory up to a bound, and then in a file. */
#include "base/spool.h"

#include <assert.h>
#include "base/file.h"
#include "base/mem.h"

#define SPOOL_BLOCK (UINT64_C(256) << 10) /* is written at once */

static void forget_memory(struct spool *s)
{
	struct budget_hold *hold = s->mem.hold;

	buf_done(&s->mem);
	buf_meter(&s->mem, hold);
}

/* The bytes in memory are appended to the file. */
static int spool_flush(struct spool *s, struct err *err)
{
	const char *dir = s->dir ? s->dir : file_temp_dir();
	uint64_t end = SPOOL_HEAD + s->size + s->mem.size;

	if (!s->filed && file_unnamed(dir, &s->fd, err) < 0)
		return err_in(err, "the file of a large reply");
	s->filed = true;
	if (room_claim(s->room, &s->claim, s->fd, end, err) < 0 ||
	    fd_pwrite(s->fd, s->mem.p, s->mem.size, SPOOL_HEAD + s->size, err) < 0)
		return err_in(err, "the file of a large reply in %s", dir);
	room_written(&s->claim, end);
	s->size += s->mem.size;
	s->mem.size = 0;
	return 0;
}

int spool_add(struct spool *s, struct bytes b, struct err *err)
{
	bool filed = s->filed;

	buf_add(&s->mem, b.p, b.size);
	if (s->mem.size < (filed ? SPOOL_BLOCK : SPOOL_MEMORY))
		return buf_check(&s->mem, err);
	if (spool_flush(s, err) < 0)
		return -1;
	if (!filed)
		forget_memory(s);
	return 0;
}

uint64_t spool_size(const struct spool *s)
{
	return s->size + s->mem.size;
}

int spool_take_file(struct spool *s, struct bytes head, struct spool_file *ret, struct err *err)
{
	assert(s->filed && head.size <= SPOOL_HEAD);
	if ((s->mem.size && spool_flush(s, err) < 0) ||
	    (head.size && fd_pwrite(s->fd, head.p, head.size, SPOOL_HEAD - head.size, err) < 0))
		return -1;
	*ret = (struct spool_file){ TAKE_FD(s->fd), SPOOL_HEAD - head.size, s->size + head.size };
	s->filed = false;
	spool_done(s);
	return 0;
}

int spool_read(struct spool *s, struct buf *out, struct err *err)
{
	uint64_t size = spool_size(s);
	size_t got;
	uint8_t *p;

	if (s->filed && s->mem.size && spool_flush(s, err) < 0)
		return -1;
	if (out->hold && budget_hold_add(out->hold, size, err) < 0)
		return -1;
	if (out->hold)
		budget_hold_sub(out->hold, size);
	p = buf_try_reserve(out, size);
	if (!p)
		return err_set(err, ERR_LIMIT, "no memory for a reply of %llu bytes",
			       (unsigned long long)size);
	if (!s->filed) {
		buf_add(out, s->mem.p, size);
		return buf_check(out, err);
	}
	if (fd_pread(s->fd, p, size, SPOOL_HEAD, &got, err) < 0)
		return err_in(err, "the file of a large reply");
	if (got != size)
		return err_set(err, ERR_IO, "the file of a large reply ended after %zu bytes", got);
	out->size += size;
	return buf_check(out, err);
}

int spool_each(struct spool *s, int (*pass)(void *arg, struct bytes b, struct err *err), void *arg,
	       struct err *err)
{
	AUTO(mem_freep) uint8_t *block = NULL;
	size_t got;

	if (!s->filed)
		return s->mem.size ? pass(arg, buf_bytes(&s->mem), err) : 0;
	if (s->mem.size && spool_flush(s, err) < 0)
		return -1;
	block = mem_alloc(SPOOL_BLOCK);
	for (uint64_t at = 0; at < s->size; at += got) {
		size_t n = (size_t)MIN(s->size - at, SPOOL_BLOCK);

		if (fd_pread(s->fd, block, n, SPOOL_HEAD + at, &got, err) < 0)
			return err_in(err, "the file of a large reply");
		if (got != n)
			return err_set(err, ERR_IO, "the file of a large reply ended early");
		if (pass(arg, bytes_of(block, n), err) < 0)
			return -1;
	}
	return 0;
}

void spool_done(struct spool *s)
{
	if (s->filed)
		fd_close(&s->fd);
	room_release(&s->claim);
	forget_memory(s);
	s->filed = false;
	s->size = 0;
}
