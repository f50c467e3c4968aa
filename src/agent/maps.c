/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of /proc/PID/maps (proc(5)):
 *
 *   7f5c6a200000-7f5c6a228000 r-xp 00028000 fe:00 1835                       /usr/lib/x86_64-linux-gnu/libc.so.6
 */
#include "agent/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK    KIB(64)
#define LINE_MAX KIB(20) /* a path of 4096 bytes, all of them escaped; longer lines are skipped */
#define DELETED  STR(" (deleted)")

/* Cut a number in hexadecimal, which @end follows, off @s. */
static bool cut_hex(struct str *s, char end, uint64_t *ret)
{
	size_t n = 0;

	*ret = 0;
	for (int digit; n < s->size && (digit = hex_digit(s->p[n], false)) >= 0; n++) {
		if (*ret >> 60)
			return false;
		*ret = *ret << 4 | (unsigned)digit;
	}
	if (!n || n >= s->size || s->p[n] != end)
		return false;
	s->p += n + 1;
	s->size -= n + 1;
	return true;
}

static bool cut_perms(struct str *s, bool *ret_exec)
{
	if (s->size < 5 || s->p[4] != ' ')
		return false;
	*ret_exec = s->p[2] == 'x';
	s->p += 5;
	s->size -= 5;
	return true;
}

bool maps_line_parse(struct str line, struct maps_line *ret)
{
	struct maps_line l = { 0 };
	uint64_t major, minor;
	struct str inode;

	if (!cut_hex(&line, '-', &l.start) || !cut_hex(&line, ' ', &l.limit) || !cut_perms(&line, &l.exec) ||
	    !cut_hex(&line, ' ', &l.offset) || !cut_hex(&line, ':', &major) || !cut_hex(&line, ' ', &minor))
		return false;
	inode = str_cut(&line, ' ');
	if (!str_to_u64(inode, &l.inode) || l.limit <= l.start || major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	l.major = (uint32_t)major;
	l.minor = (uint32_t)minor;
	while (line.size && *line.p == ' ') {
		line.p++;
		line.size--;
	}
	l.path = line.size ? line : STR("");
	if (l.inode && str_ends(l.path, DELETED)) {
		l.path.size -= DELETED.size;
		l.deleted = true;
	}
	*ret = l;
	return true;
}

void maps_path(struct str escaped, struct buf *out)
{
	for (size_t i = 0; i < escaped.size; i++) {
		if (escaped.size - i >= 4 && memcmp(escaped.p + i, "\\012", 4) == 0) {
			buf_add_char(out, '\n');
			i += 3;
		} else {
			buf_add_char(out, escaped.p[i]);
		}
	}
}

bool maps_have_room(size_t n_kept, size_t n_all, bool has_file)
{
	if (has_file)
		return n_kept < MAPS_MAX_CODE && n_all < (n_kept < MAPS_OWN ? MAPS_MAX_ALL : MAPS_SHARED);
	return n_kept < MAPS_MAX_MADE && n_all < MAPS_SHARED / 2;
}

int maps_feed(struct maps_reader *r, struct str text, bool end, size_t *ret_used)
{
	size_t used = 0;

	*ret_used = 0;
	while (used < text.size) {
		const char *at = text.p + used, *stop = memchr(at, '\n', text.size - used);
		size_t size = stop ? (size_t)(stop - at) : text.size - used;
		struct maps_line line;

		if (!stop && !end)
			break;
		used += size + (stop != NULL);
		/* Most lines are data: the flag is at a fixed distance from the first blank. */
		if (size > LINE_MAX || !maps_line_parse((struct str){ at, size }, &line) || !line.exec ||
		    line.start < r->last)
			continue;
		r->last = line.limit;
		int stopped = r->fn(r->arg, &line);

		if (stopped)
			return stopped;
	}
	*ret_used = used;
	return 0;
}

int maps_read(int fd, int (*fn)(void *arg, const struct maps_line *line), void *arg, struct err *err)
{
	struct maps_reader r = { .fn = fn, .arg = arg };
	AUTO(mem_freep) char *text = mem_alloc(CHUNK);
	size_t held = 0, used;

	for (uint64_t off = 0;;) {
		ssize_t got = pread(fd, text + held, CHUNK - held, (off_t)off);
		int stop;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_os(err, errno, "maps of the process");
		off += (uint64_t)got;
		held += (size_t)got;
		stop = maps_feed(&r, (struct str){ text, held }, !got, &used);
		if (stop || !got)
			return stop;
		if (off > MAPS_MAX_BYTES)
			return err_set(err, ERR_LIMIT,
				       "maps of the process: more than the %llu bytes that are read",
				       (unsigned long long)MAPS_MAX_BYTES);
		/* A line that fills the buffer is longer than any that the kernel writes: drop it. */
		if (!used && held == CHUNK)
			used = held;
		held -= used;
		memmove(text, text + used, held);
	}
}
