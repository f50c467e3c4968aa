/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of the command line or of standard input, answered.
 *
 * Those of standard input are answered as they come: other programs keep lode running and wait for each
 * answer.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/symbolize/answer_pool.h"

#define TEXT_SIZE MIB(128) /* of answers at once, estimated from the answers before */
#define USUAL     KIB(1)   /* of one answer, at first */

struct answers {
	const struct settings *s;
	const struct symbolize_style *style;
	struct lookup_options places;
	struct lookup_file file;
	const struct finding *by; /* NULL: the file */
	struct str module;
	struct answer_pool *pool;
	struct frame_layout *layout; /* with --verbose: of the file; NULL: not known */
	bool in_code;                /* an address is in code, as far as is known */
	struct question *questions;
	size_t n_questions, room;
};

static void add_question(struct answers *a, struct str text)
{
	struct question q = { 0 };

	if (!(a->by ? lookup_number(str_trim(text), &q.addr)
		    : lookup_address(&a->file, a->s->symbols.section, text, &q.addr))) {
		q.addr = 0;
		if (a->style->echo)
			q.answer.head = text;
	}
	a->in_code = a->in_code || !a->layout || !a->layout->n_segments ||
		     frame_layout_has_code(a->layout, q.addr);
	VEC_PUSH(a->questions, a->n_questions, a->room) = q;
}

static int write_answers(struct answers *a, struct err *err)
{
	for (size_t n, done = 0; done < a->n_questions; done += n) {
		struct answer_sums so_far = answer_pool_sums(a->pool);
		uint64_t usual = so_far.n ? so_far.text_size / so_far.n + 1 : USUAL;

		n = (size_t)MIN((uint64_t)a->n_questions - done, TEXT_SIZE / usual + 1);
		if (answer_pool_write(a->pool, a->questions + done, n, err) < 0)
			return -1;
	}
	a->n_questions = 0;
	return 0;
}

static int answer_arguments(struct answers *a, struct err *err)
{
	for (size_t i = 0; i < a->s->paths.n; i++)
		add_question(a, a->s->paths.items[i]);
	if (write_answers(a, err) < 0)
		return -1;
	return a->style->list ? fd_write(STDOUT_FILENO, "]\n", 2, err) : 0;
}

static void on_question_line(void *arg, struct str line)
{
	add_question(arg, line);
}

static int on_question_pause(void *arg, struct err *err)
{
	return write_answers(arg, err);
}

/* Addresses without names in a file with symbols only: the usual reason is that its debug information is missing. */
static void report_missing(const struct answers *a, uint64_t n_missing)
{
	enum frame_reason reason;

	if (a->by || !n_missing || !a->s->verbose)
		return;
	/* A table of the wanted units only may have nothing of the DWARF that is there. */
	if (!a->in_code)
		reason = FRAME_OUTSIDE;
	else if (frame_reason_is_damaged(symtab_info(a->file.table)))
		reason = FRAME_DAMAGED;
	else if (a->file.debug && elf_debug_section(a->file.debug, ".debug_info"))
		reason = FRAME_OUTSIDE;
	else
		reason = frame_reason_outside(symtab_info(a->file.table), a->file.no_debug, NULL, 0);
	fprintf(stderr, "lode: %s: ", a->s->command);
	print_text(stderr, a->module);
	fprintf(stderr, ": addresses without a name: %llu; %s", (unsigned long long)n_missing,
		frame_reason_text(reason));
	if (reason != FRAME_OUTSIDE && a->file.no_debug_err.text[0]) {
		fprintf(stderr, ": ");
		print_text(stderr, str_of(a->file.no_debug_err.text));
	}
	fputc('\n', stderr);
	symbolize_print_advice(&a->places, reason, a->module, &a->file);
}

/* Names, functions and inlined calls that are in a file which was not found, or in a part that is damaged. */
static void report_lacking(const struct answers *a, bool damage_is_told)
{
	const struct symtab_info *info = a->by ? NULL : symtab_info(a->file.table);
	enum frame_reason reason = FRAME_FOUND;

	if (!info || !a->s->verbose)
		return;
	if (info->flags & SYMTAB_ALT_MISSING)
		reason = FRAME_ALT_MISSING;
	else if (info->flags & SYMTAB_SPLIT_MISSING)
		reason = FRAME_SPLIT_MISSING;
	else if (frame_reason_is_damaged(info) && !damage_is_told)
		reason = FRAME_DAMAGED;
	if (reason == FRAME_FOUND)
		return;
	fprintf(stderr, "lode: %s: ", a->s->command);
	print_text(stderr, a->module);
	fprintf(stderr, ": %s", frame_reason_text(reason));
	if (reason == FRAME_DAMAGED && info->n_reasons) {
		fprintf(stderr, ": ");
		print_text(stderr, info->skipped[0]);
	}
	fputc('\n', stderr);
	symbolize_print_advice(&a->places, reason, a->module, &a->file);
}

static int answer_all_questions(struct answers *a)
{
	const struct answer_source from = { a->s, a->style, &a->file, a->by, a->module };
	struct err err = { 0 };
	size_t n = a->s->paths.n;
	uint64_t n_missing;
	int r;

	a->pool = answer_pool_new(&from);
	r = n ? answer_arguments(a, &err) : symbolize_input(on_question_line, on_question_pause, a, &err);
	n_missing = answer_pool_sums(a->pool).n_missing;
	answer_pool_free(a->pool);
	free(a->questions);
	if (r == 0)
		report_missing(a, n_missing);
	if (r == 0)
		report_lacking(a, n_missing > 0);
	if (r < 0)
		return tell_error(a->s->command, &err);
	/* If none of the command line's addresses is known, the command has failed; some may be unknown. */
	return n_missing && n_missing == n && !a->s->symbols.may_miss ? EXIT_FAILED : EXIT_DONE;
}

/* @opened: the result of opening the table; negative with @err. */
static int answer_opened(struct answers *a, int opened, struct err *err)
{
	int status;

	if (opened < 0) {
		(void)err_in(err, STR_FMT, STR_ARG(a->module));
		status = tell_error(a->s->command, err);
		/* A file that is no ELF file has its own advice. */
		if (a->file.no_debug != FRAME_DAMAGED && a->file.no_debug != FRAME_NO_BUILD_ID)
			symbolize_print_advice(&a->places, a->file.no_debug, a->module, &a->file);
	} else if (a->s->symbols.section && !lookup_has_section(&a->file, a->s->symbols.section)) {
		(void)err_set(err, ERR_INVALID, STR_FMT ": it has no section %s", STR_ARG(a->module),
			      a->s->symbols.section);
		status = tell_error(a->s->command, err);
	} else {
		if (a->s->verbose && a->file.img) {
			a->layout = NEW(struct frame_layout);
			frame_layout_of(a->file.img, a->layout);
		}
		status = answer_all_questions(a);
		free(a->layout);
		lookup_cache_later(&a->file);
	}
	lookup_file_done(&a->file);
	return status;
}

int symbolize_file(struct settings *s, const char *path, const struct symbolize_style *style)
{
	struct answers a = { .s = s, .style = style, .module = str_of(path), .places = lookup_options_of(s) };
	struct err err = { 0 };

	/* Offsets in a section are no addresses. */
	if (!s->symbols.section)
		lookup_only(&a.file, s->paths.items, s->paths.n);
	return answer_opened(&a, lookup_open(&a.file, &a.places, path, &err), &err);
}

int symbolize_addresses(struct settings *s, const struct symbolize_style *style, const struct finding *f)
{
	struct answers a = { .s = s, .style = style, .by = f };

	return answer_all_questions(&a);
}

int symbolize_build_id(struct settings *s, const struct symbolize_style *style)
{
	struct answers a = {
		.s = s, .style = style, .module = str_of(s->symbols.build_id), .places = lookup_options_of(s)
	};
	struct err err = { 0 };
	struct build_id id;

	if (!build_id_read(&id, a.module))
		return usage_error(s->command,
				   "--build-id: '%s' is not a build ID, an even number of hexadecimal digits "
				   "or the text of a Go build ID, of at most %u bytes",
				   s->symbols.build_id, BUILD_ID_MAX);
	if (!s->symbols.section)
		lookup_only(&a.file, s->paths.items, s->paths.n);
	return answer_opened(&a, lookup_open_module(&a.file, &a.places, NULL, &id, &err), &err);
}
