/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that had ended before they were read: in a storm of programs that live for a millisecond these are most of the
 * sampled ones. The program of each is known by the kernel's records of mappings (recent.h) or, of one that ran no program
 * of its own, by its parent. Files are opened by their paths, and must have the inode of the record.
 */
#include "agent/process_internal.h"

#include <time.h>

#include "base/vec.h"

#define TICK_NS INT64_C(10000000)

/* Ticks are of CLOCK_BOOTTIME, rounded down. */
int64_t process_start_ns(const struct process *of)
{
	struct timespec boot, mono;

	if (!of->start_ticks)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	return (int64_t)of->start_ticks * TICK_NS - (boot.tv_sec - mono.tv_sec) * INT64_C(1000000000) -
	       (boot.tv_nsec - mono.tv_nsec) - TICK_NS;
}

/* Mappings that it had from its parent, of which it was a copy. */
static bool inherit_maps(struct processes *p, struct process *of)
{
	const struct process *parent = of->parent ? process_get(p, of->parent) : NULL;

	if (!parent || parent == of || !parent->n_maps)
		return false;
	for (size_t i = 0; i < parent->n_maps; i++) {
		const struct process_map *from = &parent->maps[i];
		struct process_map *m;

		/* A process may have many children that end at once, and each is known for some seconds. */
		if (!maps_have_room(of->n_maps, p->stats.n_maps, from->has_file || from->file)) {
			of->has_odd_maps = true;
			continue;
		}
		m = &VEC_PUSH(of->maps, of->n_maps, of->room_maps);
		*m = *from;
		files_ref(p->files, m->file);
		of->n_unread += m->file && m->file->state == FILE_READING;
		p->stats.n_maps++;
	}
	memcpy(of->comm, parent->comm, sizeof(of->comm));
	return true;
}

bool process_recover(struct processes *p, struct process *of)
{
	const struct recent_process *r;

	if (!p->o.recent || !of->seen_ns)
		return false;
	r = recent_find(p->o.recent, of->pid, process_start_ns(of), of->seen_ns);
	/* The request of a sample that waited does not say that it still ran its parent's program. */
	if (!r->has_exec && r->parent) {
		of->is_fork = true;
		of->parent = of->parent ? of->parent : r->parent;
	}
	/* The mappings that are known stay if those at the time of the sample are not. */
	if (of->has_ended && of->n_maps && !r->has_exec && !of->is_fork) {
		of->is_read = true;
		return true;
	}
	process_drop_maps(p, of);
	of->has_ended = true;
	of->has_odd_maps = false;
	if (r->has_exec) {
		of->is_fork = false;
		memcpy(of->comm, r->comm, sizeof(of->comm));
		process_take_lines(p, of, r);
	} else if (!of->is_fork || !inherit_maps(p, of)) {
		return false;
	}
	if (!of->n_maps)
		return false;
	of->is_read = true;
	of->ended_ms = clock_mono_ms();
	/* Samples after another exec ask for those mappings. */
	of->read_ns = MIN(r->until_ns, clock_mono_ns());
	of->from_ns = r->has_exec ? r->from_ns : 0;
	of->copy_of = r->n_execs == 1 ? r->parent : 0;
	of->until_ns = r->until_ns == INT64_MAX ? 0 : r->until_ns;
	process_label(p, of);
	p->stats.n_recovered++;
	return true;
}
