/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the command line or of standard input, answered.
 *
 * Those that come on standard input are answered as they come: other programs keep us running and wait for
 * each answer.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/symbolize/workers.h"

#define TEXT_SIZE MIB(128) /* of answers together, by the size of those before */
#define USUAL     KIB(1)   /* of one answer, at first */

struct answers {
	const struct settings *s;
	const struct symbolize_style *style;
	struct lookup_file file;
	const struct finding *by; /* NULL: the file */
	struct str module;
	struct crew *crew;
	struct question *questions;
	size_t n_questions, room;
};

static void ask(struct answers *a, struct str text)
{
	struct question q = { 0 };

	if (!(a->by ? lookup_number(str_trim(text), &q.addr)
		    : lookup_address(&a->file, a->s->symbols.section, text, &q.addr))) {
		q.addr = 0;
		if (a->style->echo)
			q.answer.head = text;
	}
	if (a->n_questions == a->room) {
		a->room = a->room ? a->room * 2 : 64;
		a->questions = mem_realloc(a->questions, a->room, sizeof(*a->questions));
	}
	a->questions[a->n_questions++] = q;
}

static int answer_asked(struct answers *a, struct err *err)
{
	for (size_t n, done = 0; done < a->n_questions; done += n) {
		struct crew_sums so_far = crew_sums(a->crew);
		uint64_t usual = so_far.n ? so_far.held / so_far.n + 1 : USUAL;

		n = (size_t)MIN((uint64_t)a->n_questions - done, TEXT_SIZE / usual + 1);
		if (crew_answer(a->crew, a->questions + done, n, err) < 0)
			return -1;
	}
	a->n_questions = 0;
	return 0;
}

static int answer_arguments(struct answers *a, struct err *err)
{
	for (size_t i = 0; i < a->s->paths.n; i++)
		ask(a, a->s->paths.items[i]);
	if (answer_asked(a, err) < 0)
		return -1;
	return a->style->list ? fd_write(STDOUT_FILENO, "]\n", 2, err) : 0;
}

static void ask_line(void *arg, struct str line)
{
	ask(arg, line);
}

static int answer_lines(void *arg, struct err *err)
{
	return answer_asked(arg, err);
}

static int answer(struct answers *a)
{
	struct err err = { 0 };
	size_t n = a->s->paths.n;
	uint64_t n_missing;
	int r;

	a->crew = crew_new(a->s, a->style, &a->file, a->by, a->module);
	r = n ? answer_arguments(a, &err) : symbolize_input(ask_line, answer_lines, a, &err);
	n_missing = crew_sums(a->crew).n_missing;
	crew_free(a->crew);
	free(a->questions);
	if (r < 0)
		return tell_error("symbolize", &err);
	/* One that was asked for by hand and is not known is a failure; of many some may be unknown. */
	return n_missing && n_missing == n && !a->s->symbols.may_miss ? EXIT_FAILED : EXIT_DONE;
}

/* The table is open, or is not, as @opened and @err say. */
static int answer_opened(struct answers *a, int opened, struct err *err)
{
	int status;

	if (opened < 0) {
		(void)err_in(err, STR_FMT, STR_ARG(a->module));
		status = tell_error("symbolize", err);
	} else {
		status = answer(a);
		lookup_cache_later(&a->file);
	}
	lookup_file_done(&a->file);
	return status;
}

int symbolize_file(struct settings *s, const char *path, const struct symbolize_style *style)
{
	struct answers a = { .s = s, .style = style, .module = str_of(path) };
	const struct lookup_options o = symbols_options_of(s);
	struct err err = { 0 };

	lookup_only(&a.file, s->paths.items, s->paths.n);
	return answer_opened(&a, lookup_open(&a.file, &o, path, &err), &err);
}

int symbolize_addresses(struct settings *s, const struct symbolize_style *style, const struct finding *f)
{
	struct answers a = { .s = s, .style = style, .by = f };

	return answer(&a);
}

int symbolize_build_id(struct settings *s, const struct symbolize_style *style)
{
	struct answers a = { .s = s, .style = style, .module = str_of(s->symbols.build_id) };
	const struct lookup_options o = symbols_options_of(s);
	struct err err = { 0 };
	struct build_id id;

	if (!build_id_parse(&id, a.module)) {
		fprintf(stderr,
			"lode: symbolize: --build-id: wanted is an even number of the digits 0-9 a-f\n");
		return EXIT_USAGE;
	}
	lookup_only(&a.file, s->paths.items, s->paths.n);
	return answer_opened(&a, lookup_open_module(&a.file, &o, NULL, &id, &err), &err);
}
