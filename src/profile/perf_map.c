/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anyone can create a file of this name in /tmp. So no link is followed below the root of the process, the file
 * must be the process's own or root's, and its size and names have limits.
 */
#include "profile/perf_map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/proc_status.h"
#include "base/root.h"
#include "base/search.h"
#include "base/vec.h"
#include "profile/words.h"

/*
 * Functions that are looked at for an address: the one that starts last before it, and those around its start. A runtime may
 * keep one within another, and functions whose code is gone stay in the file, any number of them below a newer one.
 */
#define LOOK_BACK 256u
#define CHUNK     KIB(64)
#define MARKED    KIB(4)

static int entry_by_start(const void *a, const void *b)
{
	const struct perf_map_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void perf_map_add_name(struct perf_map *m, struct perf_map_entry *e, struct str name)
{
	e->name = (uint32_t)m->names.size;
	e->name_size = (uint32_t)name.size;
	for (size_t i = 0; i < name.size; i++) {
		char c = name.p[i];

		buf_add_char(&m->names, c == '\t' ? ' ' : (unsigned char)c < 0x20 || c == 0x7f ? '?' : c);
	}
}

static void perf_map_add_line(struct perf_map *m, struct str line)
{
	struct perf_map_entry one = { .line = m->n_lines++ };
	struct str name;

	if (!words_hex(str_word(&line), &one.start) || !words_hex(str_word(&line), &one.size) || !one.size ||
	    one.size > UINT64_MAX - one.start)
		return;
	name = str_trim(line);
	name.size = MIN(name.size, (size_t)PERF_MAP_NAME_SIZE);
	if (!name.size)
		return;
	if (m->n >= PERF_MAP_ENTRIES || m->names.size > UINT32_MAX - PERF_MAP_NAME_SIZE) {
		m->cut = true;
		return;
	}
	perf_map_add_name(m, &one, name);
	VEC_PUSH(m->list, m->n, m->room) = one;
}

size_t perf_map_feed(struct perf_map *m, struct str text, bool end)
{
	size_t used = 0;

	while (used < text.size) {
		const char *at = text.p + used, *stop = memchr(at, '\n', text.size - used);

		if (!stop && !end)
			break;
		perf_map_add_line(m, (struct str){ at, stop ? (size_t)(stop - at) : text.size - used });
		used = stop ? used + (size_t)(stop - at) + 1 : text.size;
	}
	return used;
}

void perf_map_sort(struct perf_map *m)
{
	if (m->n)
		qsort(m->list, m->n, sizeof(*m->list), entry_by_start);
	/* One that ends before this start ends before all later ones: it is passed over from here on, so this is one pass. */
	for (size_t i = 0; i < m->n; i++) {
		uint32_t at = (uint32_t)i;

		while (at && m->list[at - 1].start + m->list[at - 1].size <= m->list[i].start)
			at = m->list[at - 1].around;
		m->list[i].around = at;
	}
}

const struct perf_map_entry *perf_map_at(const struct perf_map *m, uint64_t addr)
{
	const struct perf_map_entry *best = NULL;
	size_t i = SEARCH(0, m->n, k, m->list[k].start <= addr);

	for (unsigned n = 0; i && n < LOOK_BACK; i = m->list[i - 1].around, n++) {
		const struct perf_map_entry *e = &m->list[i - 1];

		if (addr - e->start < e->size && (!best || e->line > best->line))
			best = e;
	}
	return best;
}

void perf_map_done(struct perf_map *m)
{
	buf_done(&m->names);
	free(m->list);
	*m = (struct perf_map){ 0 };
}

/* ---- files ---- */

/* 1: there is none. */
static int perf_map_open(const char *pid, int *ret_fd, struct stat *ret_st, struct err *err)
{
	AUTO(mem_freep) char *root = mem_printf("/proc/%s/root", pid);
	AUTO(mem_freep) char *name = NULL;
	AUTO(fd_close) int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO(fd_close) int dir = -1;
	AUTO(fd_close) int at = -1;
	struct proc_status status;

	if (top < 0 || !proc_status_read(pid, &status))
		return 1;
	name = mem_printf("perf-%llu.map", (unsigned long long)status.number);
	dir = openat(top, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Its mount namespace may have a device of the machine there: nothing but a regular file is opened. */
	at = dir < 0 ? -1 : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0 || fstat(at, ret_st) < 0 || S_ISLNK(ret_st->st_mode))
		return 1;
	if (!S_ISREG(ret_st->st_mode))
		return err_set(err, ERR_INVALID, "/tmp/%s of the process is not a regular file", name);
	/* The effective user creates files. */
	if (ret_st->st_uid != status.effective && ret_st->st_uid != 0)
		return err_set(err, ERR_INVALID,
			       "/tmp/%s of the process belongs to user %u, not to its own: it is not read",
			       name, (unsigned)ret_st->st_uid);
	*ret_fd = root_reopen(at, O_RDONLY);
	return *ret_fd < 0 ? 1 : 0;
}

/* Read whole lines from m->off on, up to @limits. */
static int perf_map_read_more(struct perf_map *m, int fd, const struct perf_map_limits *limits,
			      struct err *err)
{
	AUTO(mem_freep) char *text = mem_alloc(CHUNK);

	while (m->off < limits->max_file && m->n < limits->max_entries && m->names.size < limits->max_names) {
		size_t got, used;

		if (fd_pread(fd, text, CHUNK, m->off, &got, err) < 0)
			return -1;
		used = perf_map_feed(m, (struct str){ text, got }, false);
		/* A line longer than the buffer is skipped. The last line may not be complete yet. */
		if (!used && got == CHUNK)
			used = got;
		m->off += used;
		if (got < CHUNK)
			return 0;
	}
	m->cut = true;
	return 0;
}

static int mark_of_bytes(int fd, uint64_t off, size_t size, uint64_t *ret, struct err *err)
{
	uint8_t bytes[MARKED];
	size_t got;

	if (fd_pread(fd, bytes, size, off, &got, err) < 0)
		return -1;
	*ret = hash64(bytes, got, 0);
	return 0;
}

/* The marks of the bytes up to m->off, in the file as it is now. */
static int read_marks(const struct perf_map *m, int fd, uint64_t *ret_head, uint64_t *ret_tail,
		      struct err *err)
{
	size_t size = (size_t)MIN(m->off, (uint64_t)MARKED);

	return mark_of_bytes(fd, 0, size, ret_head, err) < 0 ||
			       mark_of_bytes(fd, m->off - size, size, ret_tail, err) < 0
		       ? -1
		       : 0;
}

/* 1: the bytes that were read are still there, at most with more after it; 0: it is another file, or was written again. */
static int is_continued(const struct perf_map *m, int fd, const struct stat *st, struct err *err)
{
	uint64_t head, tail;

	if (m->device != st->st_dev || m->inode != st->st_ino || (uint64_t)st->st_size < m->off)
		return 0;
	if (m->changed_ns == file_mtime_ns(st) && (uint64_t)st->st_size == m->off)
		return 1;
	if (read_marks(m, fd, &head, &tail, err) < 0)
		return -1;
	return head == m->head_mark && tail == m->tail_mark;
}

int perf_map_read(struct perf_map *m, const char *pid, struct err *err)
{
	const struct perf_map_limits limits = { UINT64_MAX, UINT64_MAX, SIZE_MAX };
	AUTO(fd_close) int fd = -1;
	struct stat st;
	int r = perf_map_open(pid, &fd, &st, err);

	if (r)
		return r;
	if ((uint64_t)st.st_size > PERF_MAP_MAX)
		return err_set(err, ERR_LIMIT,
			       "/tmp/perf-%s.map of the process has more than the %zu bytes allowed", pid,
			       (size_t)PERF_MAP_MAX);
	if (perf_map_read_more(m, fd, &limits, err) < 0)
		return -1;
	perf_map_sort(m);
	return 0;
}

int perf_map_update(struct perf_map *m, const char *pid, const struct perf_map_limits *limits,
		    struct err *err)
{
	AUTO(fd_close) int fd = -1;
	size_t before = m->n;
	struct stat st;
	int r = perf_map_open(pid, &fd, &st, err);

	if (r)
		return r;
	r = is_continued(m, fd, &st, err);
	if (r < 0)
		return -1;
	if (!r) {
		perf_map_done(m);
		before = 0;
		m->device = st.st_dev;
		m->inode = st.st_ino;
	}
	/* Before it is read: a change while it is read is looked at the next time. */
	m->changed_ns = file_mtime_ns(&st);
	if ((uint64_t)st.st_size == m->off)
		return 1;
	if (perf_map_read_more(m, fd, limits, err) < 0 ||
	    read_marks(m, fd, &m->head_mark, &m->tail_mark, err) < 0)
		return -1;
	if (m->n == before)
		return 1;
	perf_map_sort(m);
	return 0;
}
