/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anyone can create a file of this name in /tmp. So no link is followed below the root of the process, the file
 * must be the process's own or root's, and its size and names have limits.
 */
#include "cmd/symbolize/perf_map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "profile/words.h"

/* Functions that start before an address and may still cover it: a runtime may keep one within another. */
#define LOOK_BACK  16u
#define STATUS_MAX KIB(64)

static int entry_by_start(const void *a, const void *b)
{
	const struct perf_map_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

void perf_map_parse(struct perf_map *m)
{
	uint32_t n_lines = 0;

	for (size_t i = 0; i < m->text.size; i++)
		if (m->text.p[i] != '\n' && (m->text.p[i] < 0x20 || m->text.p[i] == 0x7f))
			m->text.p[i] = m->text.p[i] == '\t' ? ' ' : '?';
	for (struct str rest = buf_str(&m->text); rest.size && m->n < PERF_MAP_ENTRIES; n_lines++) {
		struct str line = str_cut(&rest, '\n');
		struct perf_map_entry one = { .line = n_lines };

		if (!words_hex(str_word(&line), &one.start) || !words_hex(str_word(&line), &one.size) ||
		    !one.size || one.size > UINT64_MAX - one.start)
			continue;
		one.name = str_trim(line);
		one.name.size = MIN(one.name.size, (size_t)PERF_MAP_NAME_SIZE);
		if (one.name.size)
			VEC_PUSH(m->list, m->n, m->room) = one;
	}
	if (m->n)
		qsort(m->list, m->n, sizeof(*m->list), entry_by_start);
}

const struct perf_map_entry *perf_map_at(const struct perf_map *m, uint64_t addr)
{
	const struct perf_map_entry *best = NULL;
	size_t i = SEARCH(0, m->n, k, m->list[k].start <= addr);

	for (unsigned n = 0; i && n < LOOK_BACK; i--, n++) {
		const struct perf_map_entry *e = &m->list[i - 1];

		if (addr - e->start < e->size && (!best || e->line > best->line))
			best = e;
	}
	return best;
}

void perf_map_done(struct perf_map *m)
{
	buf_done(&m->text);
	free(m->list);
	*m = (struct perf_map){ 0 };
}

/* The user of the process, and its number in its own namespace. */
static bool process_status(const char *pid, uid_t *ret_user, uint64_t *ret_number)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%s/status", pid);
	AUTO(buf_done) struct buf b = { 0 };
	struct err ignored = { 0 };
	uint64_t user = UINT64_MAX;

	*ret_number = strtoull(pid, NULL, 10);
	if (file_read(path, STATUS_MAX, &b, &ignored) != 0)
		return false;
	for (size_t i = 0; i < b.size; i++)
		if (b.p[i] == '\t')
			b.p[i] = ' ';
	for (struct str rest = buf_str(&b); rest.size;) {
		struct str line = str_cut(&rest, '\n'), key = str_word(&line), word;

		if (str_eq(key, STR("Uid:"))) {
			str_word(&line); /* the real one; the effective one creates files */
			if (!str_to_u64(str_word(&line), &user))
				return false;
		} else if (str_eq(key, STR("NSpid:"))) {
			while ((word = str_word(&line)).size)
				if (!str_to_u64(word, ret_number))
					return false;
		}
	}
	*ret_user = (uid_t)user;
	return user <= UINT32_MAX;
}

int perf_map_read(struct perf_map *m, const char *pid, struct err *err)
{
	AUTO(mem_freep) char *root = mem_printf("/proc/%s/root", pid);
	AUTO(mem_freep) char *name = NULL;
	AUTO(fd_close) int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO(fd_close) int dir = -1;
	AUTO(fd_close) int fd = -1;
	uint64_t number;
	struct stat st;
	uid_t user;
	size_t got;

	if (top < 0 || !process_status(pid, &user, &number))
		return 1;
	name = mem_printf("perf-%llu.map", (unsigned long long)number);
	dir = openat(top, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return 1;
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "/tmp/%s of the process is not a regular file", name);
	if (st.st_uid != user && st.st_uid != 0)
		return err_set(err, ERR_INVALID,
			       "/tmp/%s of the process belongs to user %u, not to its own: it is not read",
			       name, (unsigned)st.st_uid);
	if ((uint64_t)st.st_size > PERF_MAP_MAX)
		return err_set(err, ERR_LIMIT, "/tmp/%s of the process has more than the %zu bytes allowed",
			       name, (size_t)PERF_MAP_MAX);
	if (fd_pread(fd, buf_reserve(&m->text, (size_t)st.st_size), (size_t)st.st_size, 0, &got, err) < 0)
		return -1;
	m->text.size = got;
	perf_map_parse(m);
	return 0;
}
