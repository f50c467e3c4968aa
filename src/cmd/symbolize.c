/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize, lode addr2line: addresses of a file to functions, inlined calls, files and lines.
 *
 * Addresses that come on standard input are answered as they come: other programs keep us running and wait
 * for each answer.
 */
#include <stdlib.h>
#include <unistd.h>
#include "base/sort.h"
#include "cmd/profile.h"
#include "cmd/symbolize.h"

#define AHEAD     8u       /* answers lie anywhere in memory: those that come next are fetched meanwhile */
#define OUT_SIZE  KIB(128) /* is written at once */
#define TEXT_SIZE MIB(128) /* of answers together, by the size of those before */
#define USUAL     KIB(1)   /* of one answer, at first */

struct answers {
	struct settings *s;
	const struct symbolize_style *style;
	struct symbols_file file;
	const struct finding *by; /* NULL: the file */
	struct str module;
	struct buf out, sorted; /* what is to be written; what was answered in the order of addresses */
	struct question *questions;
	size_t n_questions, room;
	size_t n_missing;
	uint64_t n_told, told_size; /* so far */
};

/* One address, and where its answer is in `sorted`. */
struct question {
	struct str text;
	uint64_t addr;
	size_t off, size;
	bool known; /* is an address */
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

static int answer_one(struct answers *a, struct question *q, struct err *err)
{
	struct symtab_frames frames;
	struct symtab_frame folded;
	int r;

	q->off = a->sorted.size;
	if (!q->known && a->style->echo) {
		buf_add_str(&a->sorted, q->text);
		buf_add_char(&a->sorted, '\n');
		a->n_missing++;
	} else {
		if (a->by)
			r = a->by->find(a->by->arg, q->addr, &a->module, &frames) ? 0 : SYMTAB_NONE;
		else
			r = symbols_frames(&a->file, q->addr, &frames, err);
		if (r < 0)
			return -1;
		if (r == 0 && !a->by && a->s->symbols.no_inlines)
			symbolize_fold(&frames, &folded);
		a->n_missing += r == SYMTAB_NONE;
		a->style->write(a->s, a->module, q->addr, r == 0 ? &frames : NULL, &a->sorted);
	}
	q->size = a->sorted.size - q->off;
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

/* What was asked is answered in the order of addresses, which is several times faster, and told in the order
 * of asking. */
static int answer_some(struct answers *a, struct question *questions, size_t n, struct err *err)
{
	AUTO(mem_freep) struct sort_key *order = NEW_N(struct sort_key, n);
	bool list = a->style->list && a->s->paths.n;

	a->sorted.size = 0;
	for (size_t i = 0; i < n; i++)
		order[i] = (struct sort_key){ questions[i].addr, i };
	sort_keys(order, n);
	for (size_t i = 0; i < n; i++) {
		__builtin_prefetch(&questions[order[MIN(i + AHEAD, n - 1)].at]);
		if (answer_one(a, &questions[order[i].at], err) < 0)
			return -1;
	}
	for (size_t i = 0; i < n; i++) {
		const struct question *q = &questions[i];
		const uint8_t *soon = a->sorted.p + questions[MIN(i + AHEAD, n - 1)].off;

		__builtin_prefetch(soon);
		__builtin_prefetch(soon + 64);
		if (a->out.size >= OUT_SIZE && flush(a, err) < 0)
			return -1;
		if (list)
			buf_add_char(&a->out, a->n_told ? ',' : '[');
		buf_add(&a->out, a->sorted.p + q->off, q->size - list); /* without its newline */
		a->n_told++;
	}
	a->told_size += a->sorted.size;
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

struct symbols_options symbols_options_of(struct settings *s)
{
	AUTO(buf_done) struct buf urls = { 0 };
	const struct setting_list *servers = &s->find.servers;

	for (size_t i = 0; i < servers->n; i++)
		buf_printf(&urls, "%s" STR_FMT, i ? " " : "", STR_ARG(servers->items[i]));
	return (struct symbols_options){ .urls = servers->n ? arena_strdup(&s->arena, buf_str(&urls)) : NULL,
					 .local_only = s->find.here,
					 .alt = s->symbols.alt,
					 .discriminators = s->symbols.discriminators,
					 .threads = s->symbols.threads };
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
	buf_done(&a->sorted);
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
		(void)err_in(err, STR_FMT, STR_ARG(a->module));
		status = tell_error("symbolize", err);
	} else {
		status = answer(a);
		symbols_behind(&a->file);
	}
	symbols_file_done(&a->file);
	return status;
}

int symbolize_file(struct settings *s, const char *path, const struct symbolize_style *style)
{
	struct answers a = { .s = s, .style = style, .module = str_of(path) };
	const struct symbols_options o = symbols_options_of(s);
	struct err err = { 0 };

	symbols_only(&a.file, s->paths.items, s->paths.n);
	return answer_opened(&a, symbols_open(&a.file, &o, path, &err), &err);
}

int symbolize_addresses(struct settings *s, const struct symbolize_style *style, const struct finding *f)
{
	struct answers a = { .s = s, .style = style, .by = f };

	return answer(&a);
}

static int symbolize_build_id(struct settings *s, const struct symbolize_style *style)
{
	struct answers a = { .s = s, .style = style, .module = str_of(s->symbols.build_id) };
	const struct symbols_options o = symbols_options_of(s);
	struct err err = { 0 };
	struct build_id id;

	if (!build_id_parse(&id, a.module)) {
		fprintf(stderr,
			"lode: symbolize: --build-id: wanted is an even number of the digits 0-9 a-f\n");
		return EXIT_USAGE;
	}
	symbols_only(&a.file, s->paths.items, s->paths.n);
	return answer_opened(&a, symbols_open_module(&a.file, &o, NULL, &id, &err), &err);
}

static int usage(const char *text)
{
	fprintf(stderr, "lode: symbolize: %s\nlode: see: lode help symbolize\n", text);
	return EXIT_USAGE;
}

static const struct option_row symbolize_rows[] = {
	{ 'e', "exe", "FILE", "the ELF file, or a table that `lode symtab build` has made",
	  OPT_TEXT(symbols.file) },
	{ 'b', "build-id", "ID", "the file of this build ID, on this machine or from servers",
	  OPT_TEXT(symbols.build_id) },
	{ 0, "pid", "PID", "addresses of this process", OPT_TEXT(symbols.pid) },
	{ 'k', "kernel", NULL, "addresses of the running kernel and its modules", OPT_ON(symbols.kernel) },
	{ 't', "text", NULL,
	  "crash text on standard input, also with -e, which names its vmlinux or Go program",
	  OPT_ON(symbols.text) },
	{ 0, "kernel-release", "RELEASE", "call traces in crash text are of this kernel, whatever they say",
	  OPT_TEXT(symbols.kernel_release) },
	{ 'j', "section", "NAME", "addresses are offsets in this section of a relocatable file",
	  OPT_TEXT(symbols.section) },
	{ 0, "server", "URL", "ask this debuginfod server; may be given again [$DEBUGINFOD_URLS]",
	  OPT_LIST(find.servers) },
	{ 'l', "local", NULL, "ask no server", OPT_ON(find.here) },
	{ 0, "alt", "FILE", "the supplementary (dwz) file, where it is not found by itself",
	  OPT_TEXT(symbols.alt) },
	{ 0, "threads", "N", "that make the table; without it one a CPU", OPT_NUMBER(symbols.threads) },
	{ 0 },
};
static const struct option_group symbolize_group = { "What is asked", symbolize_rows };

static const struct option_row style_rows[] = {
	{ 0, "output-style", "STYLE", "lode, gnu (as addr2line -fi), llvm or json (as llvm-symbolizer)",
	  OPT_TEXT(symbols.style) },
	{ 0, "demangle", "HOW",
	  "names are full, templates (without parameters), simple (without both), none (as the linker sees "
	  "them) [full]",
	  OPT_TEXT(symbols.demangle) },
	{ 0, "no-demangle", NULL, "the same as --demangle none", OPT_ON(symbols.no_demangle) },
	{ 0, "no-inlines", NULL, "one frame: the function that is there by itself, and the innermost line",
	  OPT_ON(symbols.no_inlines) },
	{ 0, "discriminators", NULL, "which of the blocks of its line an address is in",
	  OPT_ON(symbols.discriminators) },
	{ 's', "basenames", NULL, "files without their folders", OPT_ON(symbols.basenames) },
	{ 'a', "addresses", NULL, "the address before each answer; lode and json always have it",
	  OPT_ON(symbols.addresses) },
	{ 'p', "pretty-print", NULL, "one line a frame, in styles gnu and llvm", OPT_ON(symbols.pretty) },
	{ 'v', "verbose", NULL, "tell of modules that have no symbols", OPT_ON(verbose) },
	{ 0 },
};
static const struct option_group style_group = { "Output", style_rows };

/* ---- what is asked ---- */

enum {
	OF_FILE = 1 << 0,
	OF_BUILD_ID = 1 << 1,
	OF_PROCESS = 1 << 2,
	OF_KERNEL = 1 << 3,
	OF_TEXT = 1 << 4,
	OF_PROFILE = 1 << 5,
	OF_ADDRESSES = OF_FILE | OF_BUILD_ID | OF_PROCESS | OF_KERNEL,
};

static const struct option_use uses[] = {
	{ &symbolize_group, "section", OF_FILE | OF_BUILD_ID },
	{ &symbolize_group, "alt", OF_FILE | OF_BUILD_ID },
	{ &symbolize_group, "kernel-release", OF_TEXT },
	{ &style_group, "output-style", OF_ADDRESSES },
	{ &style_group, "demangle", OF_ADDRESSES | OF_TEXT }, /* profiles have --names */
	{ &style_group, "discriminators", OF_ADDRESSES },
	{ &style_group, "basenames", OF_ADDRESSES | OF_TEXT },
	{ &style_group, "addresses", OF_ADDRESSES },
	{ &style_group, "pretty-print", OF_ADDRESSES },
	{ &style_group, "verbose", OF_PROCESS | OF_KERNEL | OF_TEXT },
	{ &group_profile_files, NULL, OF_PROFILE },
	{ &group_profile_view, NULL, OF_PROFILE },
	{ 0 },
};

/* 0: that is not clear. */
static unsigned mode_of(const struct settings *s)
{
	const struct symbols_settings *o = &s->symbols;
	bool named = o->file || o->build_id || o->pid || o->kernel;

	if (o->text)
		return OF_TEXT;
	if (!named && profile_wanted(s))
		return OF_PROFILE;
	if (!named)
		return s->paths.n || isatty(STDIN_FILENO) ? 0 : OF_TEXT;
	return o->build_id ? OF_BUILD_ID : o->pid ? OF_PROCESS : o->kernel ? OF_KERNEL : OF_FILE;
}

static bool read_demangling(struct symbols_settings *o)
{
	o->demangling = o->no_demangle ? SYMBOLIZE_NONE : SYMBOLIZE_FULL;
	return !o->demangle || symbolize_demangling_parse(str_of(o->demangle), &o->demangling);
}

static int symbolize(struct settings *s)
{
	const struct symbols_settings *o = &s->symbols;
	const struct symbolize_style *style = symbolize_style_find(str_of(o->style ? o->style : "lode"));
	unsigned n = (o->file != NULL) + (o->build_id != NULL) + (o->pid != NULL) + o->kernel;
	unsigned mode = mode_of(s);
	const struct option_row *useless = option_useless(s, uses, mode);

	s->symbols.functions = s->symbols.inlines = true;
	if (!style)
		return usage("the output styles are lode, gnu, llvm, json");
	if (n > 1 || (o->text && n && !o->file))
		return usage(o->text ? "crash text says of which modules it is; -e names its vmlinux"
				     : "one of -e, --build-id, --pid, --kernel");
	if (!mode)
		return usage("which file? -e FILE, --build-id ID, --pid PID, --kernel; or crash text on "
			     "standard input");
	if (useless) {
		fprintf(stderr, "lode: symbolize: --%s changes nothing %s\nlode: see: lode help symbolize\n",
			useless->name,
			mode == OF_PROFILE   ? "of a profile"
			: mode == OF_TEXT    ? "in crash text"
			: mode == OF_PROCESS ? "with --pid"
			: mode == OF_KERNEL  ? "with --kernel"
					     : "of addresses");
		return EXIT_USAGE;
	}
	if (o->demangle && o->no_demangle)
		return usage("one of --demangle, --no-demangle");
	if (!read_demangling(&s->symbols))
		return usage("--demangle is one of full, templates, simple, none");
	if (o->pretty && !style->pretty)
		return usage("--pretty-print is for the output styles gnu and llvm");
	if (o->discriminators && !style->discriminators)
		return usage("--discriminators is for the output styles lode, gnu and json");
	switch (mode) {
	case OF_PROFILE:
		return profile_run(s, true);
	case OF_TEXT:
		return s->paths.n ? usage("crash text comes on standard input, without addresses")
				  : symbolize_text(s);
	case OF_BUILD_ID:
		return symbolize_build_id(s, style);
	case OF_PROCESS:
		return symbolize_process(s, o->pid, style);
	case OF_KERNEL:
		return symbolize_kernel(s, style);
	default:
		return symbolize_file(s, o->file, style);
	}
}

const struct command command_symbolize = {
	.name = "symbolize",
	.args = "[ADDRESS... | PROFILE...]",
	.summary = "addresses in, functions, inlined calls, files and lines out; profiles too",
	.examples = "  lode symbolize -e /usr/bin/ls 0x6b10\n"
		    "  lode symbolize --build-id 4f3a0c5e1f7d2b8890aa4c2d1e9b7f6055d3c1e1 0x6b10\n"
		    "  perf script | lode symbolize >stacks\n"
		    "  ./test 2>&1 | lode symbolize\n"
		    "  lode symbolize cpu.pb.gz -o named.pb.gz\n"
		    "  perf script --show-mmap-events | lode symbolize -o flame.html\n"
		    "  lode symbolize -e vmlinux --output-style llvm <addresses\n"
		    "  lode symbolize -e xfs.ko .init.text+0x10\n",
	.groups = { &symbolize_group, &style_group, &group_profile_files, &group_profile_view },
	.max_args = SIZE_MAX,
	.run = symbolize,
};

static int addr2line(struct settings *s)
{
	if (s->symbols.version) {
		printf("lode addr2line %s\n", LODE_VERSION);
		return EXIT_DONE;
	}
	s->symbols.may_miss = true;
	return symbolize_file(s, s->symbols.file ? s->symbols.file : "a.out",
			      symbolize_style_find(STR("gnu")));
}

static void addr2line_defaults(struct settings *s)
{
	s->symbols.demangling = SYMBOLIZE_NONE;
}

/* Its styles name the scheme, which a name says itself; ours, how much of it. */
static int addr2line_demangle(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	static const struct str styles[] = { STR("auto"), STR("gnu-v3"), STR("java"),
					     STR("gnat"), STR("dlang"),  STR("rust") };

	s->symbols.demangling = SYMBOLIZE_FULL;
	if (!value || symbolize_demangling_parse(str_of(value), &s->symbols.demangling))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(styles); i++)
		if (str_eq(str_of(value), styles[i]))
			return 0;
	return err_set(err, ERR_INVALID, "unknown demangling style '%s'", value);
}

static const struct option_row addr2line_rows[] = {
	{ 'e', "exe", "FILE", "the ELF file; without it a.out", OPT_TEXT(symbols.file) },
	{ 'f', "functions", NULL, "function names too", OPT_ON(symbols.functions) },
	{ 'i', "inlines", NULL, "the calls that were inlined, up to the function", OPT_ON(symbols.inlines) },
	{ 'C', "demangle", "[STYLE]",
	  "names as they are in the source; also templates (without parameters), simple (without both)",
	  OPT_CALL(addr2line_demangle) },
	{ 'a', "addresses", NULL, "the address before each answer", OPT_ON(symbols.addresses) },
	{ 'p', "pretty-print", NULL, "one line a frame", OPT_ON(symbols.pretty) },
	{ 's', "basenames", NULL, "files without their folders", OPT_ON(symbols.basenames) },
	{ 'j', "section", "NAME", "addresses are offsets in this section", OPT_TEXT(symbols.section) },
	{ 'v', "version", NULL, "print the version", OPT_ON(symbols.version) },
	{ 'b', "target", "NAME", "not needed: the file says what it is", OPTION_SILENT },
	{ 'r', "recurse-limit", NULL, "not needed: names have a limit", OPTION_SILENT },
	{ 'R', "no-recurse-limit", NULL, "not needed: names have a limit", OPTION_SILENT },
	{ 0 },
};
static const struct option_group addr2line_group = { "As addr2line's", addr2line_rows };

const struct command command_addr2line = {
	.name = "addr2line",
	.args = "[-e FILE] [ADDRESS...]",
	.summary = "the same with addr2line's options and output, to be put in its place",
	.examples = "  lode addr2line -fi -e /usr/bin/ls 6b10\n"
		    "  perf report --addr2line=/usr/local/bin/lode-addr2line\n",
	.groups = { &addr2line_group },
	.max_args = SIZE_MAX,
	.defaults = addr2line_defaults,
	.run = addr2line,
};
