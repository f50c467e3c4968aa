/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the command line or of standard input, answered.
 *
 * Those that come on standard input are answered as they come: other programs keep us running and wait for
 * each answer.
 */
#include <stdlib.h>
#include <unistd.h>
#include "base/sort.h"
#include "cmd/symbolize_write.h"

#define AHEAD     8u       /* answers lie anywhere in memory: those that come next are fetched meanwhile */
#define OUT_SIZE  KIB(128) /* is written at once */
#define TEXT_SIZE MIB(128) /* of answers together, by the size of those before */
#define USUAL     KIB(1)   /* of one answer, at first */

struct answers {
	struct settings *s;
	const struct symbolize_style *style;
	struct symbols_file file;
	const struct finding *by; /* NULL: the file */
	struct symbolize_writer writer;
	struct buf out; /* what is to be written */
	bool alike;     /* addresses of one row have one text */
	struct question *questions;
	size_t n_questions, room;
	size_t n_missing;
	uint64_t n_told, told_size; /* so far */
};

struct question {
	struct str text;
	uint64_t addr;
	bool known; /* is an address */
	struct answer_text answer;
};

static void ask(struct answers *a, struct str text)
{
	struct question q = { .text = text };

	q.known = a->by ? symbols_number(str_trim(text), &q.addr)
			: symbols_address(&a->file, a->s->symbols.section, text, &q.addr);
	if (!q.known)
		q.addr = 0;
	if (a->n_questions == a->room) {
		a->room = a->room ? a->room * 2 : 64;
		a->questions = mem_realloc(a->questions, a->room, sizeof(*a->questions));
	}
	a->questions[a->n_questions++] = q;
}

/* Of the addresses [lo, hi). */
struct last_answer {
	uint64_t lo, hi;
	struct answer_text answer;
};

static int answer_one(struct answers *a, struct question *q, struct last_answer *last, struct err *err)
{
	struct symbolize_writer *w = &a->writer;
	struct symtab_frames frames;
	struct symtab_frame folded;
	int r;

	if (!q->known && a->style->echo) {
		q->answer = symbolize_writer_echo(w, q->text);
		a->n_missing++;
		return 0;
	}
	if (a->by)
		r = a->by->find(a->by->arg, q->addr, &w->module, &frames) ? 0 : SYMTAB_NONE;
	else
		r = symbols_frames(&a->file, q->addr, &frames, err);
	if (r < 0)
		return -1;
	if (r == 0 && !a->by && a->s->symbols.no_inlines)
		symbolize_fold(&frames, &folded);
	a->n_missing += r == SYMTAB_NONE;
	q->answer = symbolize_writer_make(w, q->addr, r == 0 ? &frames : NULL);
	if (r == 0 && a->alike)
		*last = (struct last_answer){ frames.lo, frames.hi, q->answer };
	return 0;
}

static int flush(struct answers *a, struct err *err)
{
	int r = 0;

	if (a->out.size)
		r = fd_write(STDOUT_FILENO, a->out.p, a->out.size, err);
	a->out.size = 0;
	return r;
}

static void fetch_soon(const struct question *questions, size_t i, size_t n)
{
	const struct frame_text *f = questions[MIN(i + AHEAD, n - 1)].answer.frames;

	__builtin_prefetch(questions[MIN(i + 2 * AHEAD, n - 1)].answer.frames);
	if (f) {
		__builtin_prefetch(f->name.p);
		__builtin_prefetch(f->place + 64);
	}
}

/* What was asked is answered in the order of addresses, which is several times faster, and told in the order
 * of asking. */
static int answer_some(struct answers *a, struct question *questions, size_t n, struct err *err)
{
	AUTO(mem_freep) struct sort_key *order = NEW_N(struct sort_key, n);
	struct last_answer last = { 0 };
	bool list = a->style->list && a->s->paths.n;

	symbolize_writer_forget(&a->writer, NAMES_MAX);
	for (size_t i = 0; i < n; i++)
		order[i] = (struct sort_key){ questions[i].addr, i };
	sort_keys(order, n);
	for (size_t i = 0; i < n; i++) {
		struct question *q = &questions[order[i].at];

		__builtin_prefetch(&questions[order[MIN(i + AHEAD, n - 1)].at]);
		if (q->known && q->addr >= last.lo && q->addr < last.hi) {
			q->answer = last.answer;
		} else if (answer_one(a, q, &last, err) < 0) {
			return -1;
		}
	}
	for (size_t i = 0; i < n; i++) {
		fetch_soon(questions, i, n);
		if (a->out.size >= OUT_SIZE && flush(a, err) < 0)
			return -1;
		if (list)
			buf_add_char(&a->out, a->n_told ? ',' : '[');
		answer_text_add(a->s, a->style, &questions[i].answer, &a->out);
		a->out.size -= list; /* without its newline */
		a->n_told++;
	}
	a->told_size += a->writer.texts.size;
	return 0;
}

static int answer_all(struct answers *a, struct err *err)
{
	for (size_t n, done = 0; done < a->n_questions; done += n) {
		uint64_t usual = a->n_told ? a->told_size / a->n_told + 1 : USUAL;

		n = (size_t)MIN((uint64_t)a->n_questions - done, TEXT_SIZE / usual + 1);
		if (answer_some(a, a->questions + done, n, err) < 0)
			return -1;
	}
	a->n_questions = 0;
	return 0;
}

static int answer_arguments(struct answers *a, struct err *err)
{
	for (size_t i = 0; i < a->s->paths.n; i++)
		ask(a, a->s->paths.items[i]);
	if (answer_all(a, err) < 0)
		return -1;
	if (a->style->list)
		buf_add_str(&a->out, STR("]\n"));
	return flush(a, err);
}

static void ask_line(void *arg, struct str line)
{
	ask(arg, line);
}

static int answer_lines(void *arg, struct err *err)
{
	struct answers *a = arg;

	return answer_all(a, err) < 0 ? -1 : flush(a, err);
}

static int answer(struct answers *a)
{
	struct err err = { 0 };
	int r = a->s->paths.n ? answer_arguments(a, &err) : symbolize_input(ask_line, answer_lines, a, &err);

	buf_done(&a->out);
	symbolize_writer_done(&a->writer);
	free(a->questions);
	if (r < 0)
		return tell_error("symbolize", &err);
	/* One that was asked for by hand and is not known is a failure; of many some may be unknown. */
	return a->n_missing && a->n_missing == a->s->paths.n && !a->s->symbols.may_miss ? EXIT_FAILED
											: EXIT_DONE;
}

/* The table is open, or is not, as @opened and @err say. */
static int answer_opened(struct answers *a, int opened, struct err *err)
{
	int status;

	if (opened < 0) {
		(void)err_in(err, STR_FMT, STR_ARG(a->writer.module));
		status = tell_error("symbolize", err);
	} else {
		status = answer(a);
		symbols_behind(&a->file);
	}
	symbols_file_done(&a->file);
	return status;
}

static void init(struct answers *a, struct settings *s, const struct symbolize_style *style)
{
	*a = (struct answers){ .s = s, .style = style };
	symbolize_writer_init(&a->writer, s, style);
}

/* Addresses of one file. */
static void init_file(struct answers *a, struct settings *s, const struct symbolize_style *style,
		      const char *name)
{
	init(a, s, style);
	a->writer.module = str_of(name);
	a->writer.shares = true;
	a->alike = !style->addressed && !s->symbols.addresses;
	symbols_only(&a->file, s->paths.items, s->paths.n);
}

int symbolize_file(struct settings *s, const char *path, const struct symbolize_style *style)
{
	const struct symbols_options o = symbols_options_of(s);
	struct err err = { 0 };
	struct answers a;

	init_file(&a, s, style, path);
	return answer_opened(&a, symbols_open(&a.file, &o, path, &err), &err);
}

int symbolize_addresses(struct settings *s, const struct symbolize_style *style, const struct finding *f)
{
	struct answers a;

	init(&a, s, style);
	a.by = f;
	return answer(&a);
}

int symbolize_build_id(struct settings *s, const struct symbolize_style *style)
{
	const struct symbols_options o = symbols_options_of(s);
	struct err err = { 0 };
	struct build_id id;
	struct answers a;

	if (!build_id_parse(&id, str_of(s->symbols.build_id))) {
		fprintf(stderr,
			"lode: symbolize: --build-id: wanted is an even number of the digits 0-9 a-f\n");
		return EXIT_USAGE;
	}
	init_file(&a, s, style, s->symbols.build_id);
	return answer_opened(&a, symbols_open_module(&a.file, &o, NULL, &id, &err), &err);
}
