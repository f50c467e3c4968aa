/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With --verbose, of a process, the kernel or crash text: the modules with addresses that have no name, why, and
 * what to do about it.
 */
#include "cmd/symbolize/symbolize.h"

void module_note_missed(struct module *m)
{
	if (m->why_not == FRAME_FOUND)
		return;
	if (!m->n_missed++)
		m->missed = m->why_not;
	/* Code outside of every function names nothing that could be done. */
	else if (m->missed == FRAME_OUTSIDE)
		m->missed = m->why_not;
	m->why_not = FRAME_FOUND;
}

void symbolize_print_missed(struct str name, uint64_t n, const char *what, const char *text)
{
	fprintf(stderr, "lode: symbolize: ");
	print_text(stderr, name);
	fprintf(stderr, ": addresses without %s: %llu; %s\n", what, (unsigned long long)n, text);
}

void modules_report_missed(const struct modules *m, const char *what)
{
	for (size_t i = 0; m->s->verbose && i < m->n; i++) {
		const struct module *one = m->list[i];
		struct str file = str_of(one->path && strchr(one->name, '/') ? one->path : one->name);

		if (!one->n_missed)
			continue;
		symbolize_print_missed(str_of(one->name), one->n_missed, what,
				       frame_reason_text(one->missed));
		symbolize_print_advice(&m->places, one->missed, file, one->file.finder ? &one->file : NULL);
	}
}
