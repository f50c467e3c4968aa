/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread's answers.
 */
#include "cmd/symbolize/question.h"

#define AHEAD    8u     /* questions prefetched: they are scattered in memory */
#define LATE_MAX MIB(4) /* of names that answerer_late() keeps */

/* The answer for the addresses [lo, hi). */
struct last_answer {
	uint64_t lo, hi;
	struct answer_text answer;
};

/* Marks a question that answerer_range() has left. */
static const struct frame_text not_yet;

void answerer_init(struct answerer *a, const struct answer_source *from, bool first)
{
	*a = (struct answerer){ .from = from, .owns_finder = !first };
	symbolize_writer_init(&a->writer, from->s, from->style);
	symbolize_writer_init(&a->late, from->s, from->style);
	a->writer.module = a->late.module = from->module;
	a->finder = first ? from->file->finder : symtab_finder_new(from->file->table);
	/* With a finding function the module may change from one address to the next. */
	a->alike = !from->by && !from->style->addressed && !from->s->symbols.addresses;
}

void answerer_done(struct answerer *a)
{
	if (a->owns_finder)
		symtab_finder_free(a->finder);
	symbolize_writer_done(&a->writer);
	symbolize_writer_done(&a->late);
}

static int answer_question(struct answerer *a, struct symbolize_writer *writer, struct question *q,
			   struct last_answer *last)
{
	const struct answer_source *from = a->from;
	struct symtab_frames frames;
	struct symtab_frame folded;
	int r;

	/* Not that of the answer before. */
	if (from->by)
		writer->module = (struct str){ 0 };
	if (q->answer.head.p) {
		q->answer = symbolize_writer_echo(writer, q->answer.head);
		a->n_missing++;
		return 0;
	}
	if (from->by)
		r = from->by->find(from->by->arg, q->addr, &writer->module, &frames) ? 0 : SYMTAB_NONE;
	else
		r = lookup_frames_by(from->file, a->finder, q->addr, &frames, &a->err);
	if (r < 0)
		return -1;
	if (r == 0 && !from->by && from->s->symbols.no_inlines)
		symbolize_fold(&frames, &folded);
	a->n_missing += r == SYMTAB_NONE;
	q->answer = symbolize_writer_make(writer, q->addr, r == 0 ? &frames : NULL);
	if (r == 0 && a->alike)
		*last = (struct last_answer){ frames.lo, frames.hi, q->answer };
	return 0;
}

void answerer_range(struct answerer *a, struct question *questions, const struct sort_key *order, size_t n,
		    size_t max_size)
{
	struct last_answer last = { 0 };
	bool late = false;

	for (size_t i = 0; i < n; i++) {
		struct question *q = &questions[order[i].at];

		__builtin_prefetch(&questions[order[MIN(i + AHEAD, n - 1)].at]);
		if (!q->answer.head.p && q->addr >= last.lo && q->addr < last.hi) {
			q->answer = last.answer;
			continue;
		}
		late = late || symbolize_writer_size(&a->writer) > max_size ||
		       answer_question(a, &a->writer, q, &last) < 0;
		if (late)
			q->answer.frames = &not_yet;
	}
}

int answerer_late(struct answerer *a, struct question *q)
{
	struct last_answer ignored;

	if (q->answer.frames != &not_yet)
		return 0;
	symbolize_writer_forget(&a->late, LATE_MAX);
	q->answer.frames = NULL;
	return answer_question(a, &a->late, q, &ignored);
}
