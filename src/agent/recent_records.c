/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of mappings and execs (perf_event_open(2)), and the mappings of one process by them. The kernel writes the
 * records; the names of files in them are strangers', and the oldest one in a ring may be overwritten in part.
 */
#include "agent/recent.h"

#include <linux/perf_event.h>
#include <stdlib.h>

#define DELETED      STR(" (deleted)")
#define HEADER_SIZE  8u
#define TIME_SIZE    8u /* the time is at the end of each record */
#define RECORD_LEAST (HEADER_SIZE + 8 + TIME_SIZE)

static void read_exec(struct cursor *c, struct recent_record *r)
{
	cursor_skip(c, 4);
	r->comm = cursor_cstr(c);
	r->kind = RECENT_EXEC;
}

static void read_fork(struct cursor *c, struct recent_record *r)
{
	r->parent = cursor_u32(c);
	if (cursor_u32(c) == r->pid)
		r->kind = RECENT_FORK;
}

static void read_mapping(struct cursor *c, struct recent_record *r)
{
	struct maps_line *m = &r->map;
	uint64_t size;

	cursor_skip(c, 4);
	m->start = cursor_u64(c);
	size = cursor_u64(c);
	m->offset = cursor_u64(c);
	m->major = cursor_u32(c);
	m->minor = cursor_u32(c);
	m->inode = cursor_u64(c);
	cursor_skip(c, 8 + 4 + 4); /* generation, protection, flags */
	m->path = cursor_cstr(c);
	m->exec = true;
	if (!cursor_ok(c) || !size || m->start > UINT64_MAX - size)
		return;
	m->limit = m->start + size;
	if (m->inode && str_ends(m->path, DELETED)) {
		m->path.size -= DELETED.size;
		m->deleted = true;
	}
	r->kind = RECENT_MAP;
}

bool recent_record_read(struct bytes b, struct recent_record *ret)
{
	struct cursor c = cursor_of(b), end;
	uint32_t type = cursor_u32(&c);
	uint16_t misc = cursor_u16(&c), size = cursor_u16(&c);

	*ret = (struct recent_record){ .kind = RECENT_OTHER };
	if (!cursor_ok(&c) || size != b.size || size < RECORD_LEAST)
		return false;
	c = cursor_of(bytes_of(b.p + HEADER_SIZE, size - HEADER_SIZE - TIME_SIZE));
	end = cursor_of(bytes_of(b.p + size - TIME_SIZE, TIME_SIZE));
	ret->pid = cursor_u32(&c);
	ret->time_ns = (int64_t)cursor_u64(&end);
	if (type == PERF_RECORD_COMM && misc & PERF_RECORD_MISC_COMM_EXEC)
		read_exec(&c, ret);
	else if (type == PERF_RECORD_FORK)
		read_fork(&c, ret);
	else if (type == PERF_RECORD_MMAP2 && !(misc & PERF_RECORD_MISC_MMAP_BUILD_ID))
		read_mapping(&c, ret);
	return cursor_ok(&c);
}

/* ---- rings ---- */

struct recent_walk {
	const struct recent_view *v;
	size_t off; /* of the next record after the newest one */
	uint8_t copy[RECENT_RECORD_MAX];
};

/* @n bytes at @off: records begin and end at multiples of 8. */
static void copy_bytes(const struct recent_view *v, size_t off, void *to, size_t n)
{
	size_t at = (v->head + off) & (v->size - 1), first = MIN(n, v->size - at);

	memcpy(to, v->data + at, first);
	memcpy((uint8_t *)to + first, v->data, n - first);
}

/* How much after the newest record is not overwritten, nor about to be. */
static size_t valid_size(const struct recent_view *v)
{
	uint64_t now = __atomic_load_n(v->head_now, __ATOMIC_ACQUIRE), written = 0 - v->head, lost;

	lost = v->head - now + RECENT_RECORD_MAX;
	return lost >= v->size ? 0 : (size_t)MIN(written, v->size - lost);
}

/* The next older record of the process. False: there is none. */
static bool next_recent_record(struct recent_walk *w, const struct recent_process *p, struct recent_record *r)
{
	for (;;) {
		struct record_head {
			uint32_t type;
			uint16_t misc, size;
			uint32_t pid;
		} head;
		size_t at = w->off;
		int64_t time_ns;

		if (at + RECORD_LEAST > valid_size(w->v))
			return false;
		copy_bytes(w->v, at, &head, sizeof(head));
		if (head.size < RECORD_LEAST || head.size % 8 || head.size > sizeof(w->copy) ||
		    at + head.size > valid_size(w->v))
			return false;
		w->off += head.size;
		copy_bytes(w->v, w->off - TIME_SIZE, &time_ns, sizeof(time_ns));
		if (time_ns < p->start_ns && at + head.size <= valid_size(w->v))
			return false;
		if (head.pid != p->pid)
			continue;
		copy_bytes(w->v, at, w->copy, head.size);
		/* Only now it is known that it was whole. */
		if (at + head.size > valid_size(w->v))
			return false;
		if (recent_record_read(bytes_of(w->copy, head.size), r))
			return true;
	}
}

/* ---- the search ---- */

void recent_search(struct recent_process *p, uint32_t pid, int64_t start_ns)
{
	p->pid = pid;
	p->start_ns = start_ns;
	p->has_exec = false;
	p->parent = 0;
	p->n_execs = 0;
	p->from_ns = start_ns;
	p->until_ns = INT64_MAX;
	p->comm[0] = '\0';
	p->n_maps = 0;
	p->paths.size = 0;
}

void recent_scan_execs(struct recent_process *p, const struct recent_view *v, int64_t at_ns)
{
	struct recent_walk w = { .v = v };
	struct recent_record r;

	while (next_recent_record(&w, p, &r)) {
		if (r.kind == RECENT_FORK)
			p->parent = r.parent;
		if (r.kind != RECENT_EXEC)
			continue;
		p->n_execs += r.time_ns <= at_ns;
		if (r.time_ns > at_ns) {
			p->until_ns = MIN(p->until_ns, r.time_ns);
		} else if (!p->has_exec || r.time_ns > p->from_ns) {
			size_t n = MIN(r.comm.size, sizeof(p->comm) - 1);

			p->has_exec = true;
			p->from_ns = r.time_ns;
			memcpy(p->comm, r.comm.p, n);
			p->comm[n] = '\0';
		}
	}
}

/* Of mappings that overlap, the newest is there. */
static void add_mapping(struct recent_process *p, const struct recent_record *r)
{
	const struct maps_line *m = &r->map;
	size_t at = 0, past;

	while (at < p->n_maps && p->maps[at].line.limit <= m->start)
		at++;
	for (past = at; past < p->n_maps && p->maps[past].line.start < m->limit; past++)
		if (p->maps[past].time_ns > r->time_ns)
			return;
	if ((past == at && p->n_maps == RECENT_MAX_MAPS) || p->paths.size + m->path.size > RECENT_PATHS_SIZE)
		return;
	memmove(&p->maps[at + 1], &p->maps[past], (p->n_maps - past) * sizeof(*p->maps));
	p->n_maps += 1 - (past - at);
	p->maps[at] = (struct recent_map){ .line = *m, .path_at = p->paths.size, .time_ns = r->time_ns };
	buf_add(&p->paths, m->path.p, m->path.size);
}

void recent_scan_maps(struct recent_process *p, const struct recent_view *v)
{
	struct recent_walk w = { .v = v };
	struct recent_record r;

	while (next_recent_record(&w, p, &r))
		if (r.kind == RECENT_MAP && r.time_ns >= p->from_ns && r.time_ns < p->until_ns)
			add_mapping(p, &r);
}

struct maps_line recent_line(const struct recent_process *p, size_t i)
{
	struct maps_line m = p->maps[i].line;

	/* Without any path there is no buffer. */
	m.path = m.path.size ? (struct str){ (const char *)p->paths.p + p->maps[i].path_at, m.path.size }
			     : STR("");
	return m;
}
