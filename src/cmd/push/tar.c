/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar of sources and split files: ustar headers, with a pax record where a name does not fit. Sorted,
 * without owners, so that the same sources give the same bytes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/push/push.h"
#include "dwarf/dwarf.h"

#define BLOCK     512
#define MAX_NAMES 200000u
#define MAX_FILE  MIB(256)
#define CHUNK     KIB(64)

void push_members_init(struct push_members *m)
{
	*m = (struct push_members){ 0 };
	arena_init(&m->arena);
}

void push_members_done(struct push_members *m)
{
	free(m->v);
	arena_done(&m->arena);
}

static void member_add(struct push_members *m, struct str place, struct str file, uint64_t max, bool is_split)
{
	AUTO(mem_freep) char *clean = mem_alloc(place.size + 2);

	if (m->n == MAX_NAMES)
		return;
	place.size = path_canonical(place, clean);
	place.p = clean;
	VEC_PUSH(m->v, m->n, m->room) = (struct push_member){ arena_str(&m->arena, place),
							      arena_str(&m->arena, file), max, is_split };
}

void push_source_add(struct push_members *m, struct str place, struct str file, uint64_t max)
{
	member_add(m, place, file, max, false);
}

void push_split_add(struct push_members *m, struct str place, struct str file)
{
	member_add(m, place, file, UINT64_MAX, true);
}

static int member_place_cmp(const void *a, const void *b)
{
	const struct push_member *x = a, *y = b;

	return str_cmp(x->place, y->place);
}

static int add_source(void *arg, struct str name)
{
	/* A relative path could be anywhere, and clients ask for absolute ones. */
	if (name.size && name.p[0] == '/')
		push_source_add(arg, name, name, MAX_FILE);
	return 0;
}

int push_sources(const struct elf_image *img, struct push_members *to, struct err *err)
{
	struct dwarf_sources_note note = { 0 };

	return dwarf_sources_each(img, NULL, add_source, to, &note, err);
}

/* ---- headers ---- */

static void put_octal(char *field, size_t size, uint64_t v)
{
	field[size - 1] = '\0';
	for (size_t i = size - 1; i-- > 0; v >>= 3)
		field[i] = (char)('0' + (v & 7));
}

/* The size of a large split file does not fit into octal digits: it is binary after a set bit, as in GNU
 * tar. */
static void put_size(char *field, uint64_t v)
{
	if (v < UINT64_C(1) << 33) {
		put_octal(field, 12, v);
		return;
	}
	field[0] = (char)0x80;
	for (size_t i = 12; --i; v >>= 8)
		field[i] = (char)v;
}

static void put_sum(char *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	put_octal(h + 148, 7, sum);
}

static void put_header(struct buf *out, struct str name, char type, uint64_t size, int64_t mtime)
{
	char h[BLOCK] = { 0 };

	memcpy(h, name.p, MIN(name.size, (size_t)100));
	put_octal(h + 100, 8, 0644);
	put_octal(h + 108, 8, 0);
	put_octal(h + 116, 8, 0);
	put_size(h + 124, size);
	put_octal(h + 136, 12, mtime > 0 ? (uint64_t)mtime : 0);
	h[156] = type;
	memcpy(h + 257, "ustar\00000", 8);
	put_sum(h);
	buf_add(out, h, sizeof(h));
}

static void put_padding(struct buf *out)
{
	static const char zeros[BLOCK];

	buf_add(out, zeros, (BLOCK - out->size % BLOCK) % BLOCK);
}

/* "27 path=usr/src/x.c\n": the number counts itself. */
static void put_pax_path(struct buf *out, struct str name)
{
	AUTO(buf_done) struct buf record = { 0 };
	size_t size = name.size + strlen(" path=\n"), digits = 1;

	for (size_t v = size + digits; v >= 10; v /= 10)
		digits++;
	if (snprintf(NULL, 0, "%zu", size + digits) != (int)digits)
		digits++;
	buf_printf(&record, "%zu path=", size + digits);
	buf_add_str(&record, name);
	buf_add_char(&record, '\n');
	put_header(out, STR("pax"), 'x', record.size, 0);
	buf_add(out, record.p, record.size);
	put_padding(out);
}

/* ---- content ---- */

struct tar_file {
	int fd;
	uint64_t size;
};

static int tar_write(struct tar_file *t, const void *p, size_t n, struct err *err)
{
	if (fd_pwrite(t->fd, p, n, t->size, err) < 0)
		return err_in(err, "tar of sources");
	t->size += n;
	return 0;
}

static int tar_copy(struct tar_file *t, int fd, uint64_t size, struct err *err)
{
	AUTO(mem_freep) char *chunk = mem_alloc(CHUNK);

	for (uint64_t off = 0; off < size;) {
		size_t n = (size_t)MIN(CHUNK, size - off), got = 0;

		if (fd_pread(fd, chunk, n, off, &got, err) < 0)
			return -1;
		/* The file became shorter after its header was written: the rest is zeros. */
		memset(chunk + got, 0, n - got);
		if (tar_write(t, chunk, n, err) < 0)
			return -1;
		off += n;
	}
	return 0;
}

/* 1: the file is not here, too large, or another one. A source file that cannot be opened counts as not here. */
static int open_member(const struct push_member *m, int *ret_fd, struct stat *ret_st, struct err *err)
{
	AUTO(mem_freep) char *z = mem_strndup(m->file.p, m->file.size);
	AUTO(fd_close) int fd = -1;
	int r = file_open(z, &fd, ret_st, err);

	if (r == 0 && (uint64_t)ret_st->st_size > m->max)
		r = 1;
	if (r == 0 && m->is_split) {
		AUTO(source_closep)
		struct source *src = source_of_fd(fcntl(fd, F_DUPFD_CLOEXEC, 0), (uint64_t)ret_st->st_size, 0,
						  "it");

		/*
		 * It was one when its name was found. Since then another file may have come there: a user who can write to the
		 * folder could else have any file sent that this user can read.
		 */
		r = push_check_split(src, err);
	}
	if (r)
		return r < 0 && m->is_split ? -1 : 1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* 1: as of open_member(). */
static int tar_add_file(struct tar_file *t, const struct push_member *m, struct err *err)
{
	struct str name = { m->place.p + 1, m->place.size - 1 };
	AUTO(buf_done) struct buf head = { 0 };
	AUTO(fd_close) int fd = -1;
	struct stat st;
	int r = name.size ? open_member(m, &fd, &st, err) : 1;

	if (r)
		return r;
	if (name.size > 100)
		put_pax_path(&head, name);
	put_header(&head, name, '0', (uint64_t)st.st_size, st.st_mtime);
	if (tar_write(t, head.p, head.size, err) < 0 || tar_copy(t, fd, (uint64_t)st.st_size, err) < 0)
		return -1;
	if (t->size % BLOCK) {
		static const char zeros[BLOCK];

		return tar_write(t, zeros, BLOCK - t->size % BLOCK, err);
	}
	return 0;
}

static int write_tar(struct push_members *m, struct tar_file *t, size_t *ret_n, struct err *err)
{
	static const char end[2 * BLOCK];
	size_t n = 0;

	if (m->n)
		qsort(m->v, m->n, sizeof(*m->v), member_place_cmp);
	for (size_t i = 0; i < m->n; i++) {
		int r;

		/* Units may share a split file. */
		if (i && str_eq(m->v[i].place, m->v[i - 1].place))
			continue;
		r = tar_add_file(t, &m->v[i], err);
		if (r < 0)
			return err_in(err, STR_FMT, STR_ARG(m->v[i].file));
		n += r == 0;
	}
	*ret_n = n;
	return tar_write(t, end, sizeof(end), err);
}

int push_tar(struct push_members *m, int *ret_fd, uint64_t *ret_size, size_t *ret_n, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct tar_file t = { -1, 0 };

	if (file_unnamed(file_temp_dir(), &fd, err) < 0)
		return -1;
	t.fd = fd;
	if (write_tar(m, &t, ret_n, err) < 0)
		return -1;
	*ret_fd = TAKE_FD(fd);
	*ret_size = t.size;
	return 0;
}
