/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize, lode addr2line: their options, and the choice of the file that answers.
 */
#include <unistd.h>
#include "cmd/profile/profile.h"
#include "cmd/symbolize/write.h"

static const struct option_row symbolize_rows[] = {
	{ 'e', "exe", "FILE", "the ELF file, or a table made by `lode symtab build`",
	  OPT_TEXT(symbols.file) },
	{ 'b', "build-id", "ID", "the file of this build ID, on this machine or from servers",
	  OPT_TEXT(symbols.build_id) },
	{ 0, "pid", "PID", "addresses of this process", OPT_TEXT(symbols.pid) },
	{ 'k', "kernel", NULL, "addresses of the running kernel and its modules", OPT_ON(symbols.kernel) },
	{ 't', "text", NULL,
	  "symbolize crash text on standard input; -e then names its vmlinux or Go program",
	  OPT_ON(symbols.text) },
	{ 0, "kernel-release", "RELEASE",
	  "the kernel of the call traces in crash text, also if the text names another one",
	  OPT_TEXT(symbols.kernel_release) },
	{ 'j', "section", "NAME", "addresses are offsets in this section", OPT_TEXT(symbols.section) },
	{ 0, "server", "URL", "ask this debuginfod server; may be given again [$DEBUGINFOD_URLS]",
	  OPT_LIST(find.servers) },
	UNREAD_WAIT_ROW,
	{ 'l', "local", NULL, "ask no server", OPT_ON(find.here) },
	{ 0, "alt", "FILE", "the supplementary (dwz) file, if lode does not find it", OPT_TEXT(symbols.alt) },
	{ 0, "threads", "N",
	  "threads that make the table and (at most 16) answer many addresses of a file [CPUs]",
	  OPT_NUMBER(symbols.threads) },
	{ 0 },
};
static const struct option_group symbolize_group = { "Input", symbolize_rows };

static const struct option_row style_rows[] = {
	{ 0, "output-style", "STYLE", "lode, gnu (as addr2line -fi), llvm or json (as llvm-symbolizer)",
	  OPT_TEXT(symbols.style) },
	{ 0, "demangle", "HOW",
	  "full, templates (no parameters), simple (no parameters, no template arguments), none (mangled) "
	  "[full]",
	  OPT_TEXT(symbols.demangle) },
	{ 0, "no-demangle", NULL, "the same as --demangle none", OPT_ON(symbols.no_demangle) },
	{ 0, "no-inlines", NULL, "one frame: the function that is not inlined, and the innermost line",
	  OPT_ON(symbols.no_inlines) },
	{ 0, "discriminators", NULL, "print discriminators: the block within a line",
	  OPT_ON(symbols.discriminators) },
	{ 's', "basenames", NULL, "print files without their folders", OPT_ON(symbols.basenames) },
	{ 'a', "addresses", NULL, "print the address before each answer; lode and json always do",
	  OPT_ON(symbols.addresses) },
	{ 'p', "pretty-print", NULL, "print one line a frame, in styles gnu and llvm",
	  OPT_ON(symbols.pretty) },
	{ 'v', "verbose", NULL, "report modules without symbols, and why addresses have no name",
	  OPT_ON(verbose) },
	{ 0 },
};
static const struct option_group style_group = { "Output", style_rows };

/* ---- the mode ---- */

enum {
	OF_FILE = 1 << 0,
	OF_BUILD_ID = 1 << 1,
	OF_PROCESS = 1 << 2,
	OF_KERNEL = 1 << 3,
	OF_TEXT = 1 << 4,
	OF_PROFILE = 1 << 5,
	OF_ADDRESSES = OF_FILE | OF_BUILD_ID | OF_PROCESS | OF_KERNEL,
};

static const struct option_use symbolize_uses[] = {
	{ &symbolize_group, "section", OF_FILE | OF_BUILD_ID },
	{ &symbolize_group, "alt", OF_FILE | OF_BUILD_ID },
	{ &symbolize_group, "kernel-release", OF_TEXT },
	{ &style_group, "output-style", OF_ADDRESSES },
	{ &style_group, "demangle", OF_ADDRESSES | OF_TEXT }, /* profiles have --names */
	{ &style_group, "discriminators", OF_ADDRESSES },
	{ &style_group, "basenames", OF_ADDRESSES | OF_TEXT },
	{ &style_group, "addresses", OF_ADDRESSES },
	{ &style_group, "pretty-print", OF_ADDRESSES },
	{ &style_group, "verbose", OF_ADDRESSES | OF_TEXT },
	{ &group_profile_files, NULL, OF_PROFILE },
	{ &group_profile_view, NULL, OF_PROFILE },
	{ 0 },
};

/* 0: the options name none. */
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
	o->demangling = o->no_demangle ? FRAME_DEMANGLE_NONE : FRAME_DEMANGLE_FULL;
	return !o->demangle || frame_demangling_parse(str_of(o->demangle), &o->demangling);
}

static int run_symbolize(struct settings *s)
{
	const struct symbols_settings *o = &s->symbols;
	const struct symbolize_style *style = symbolize_style_find(str_of(o->style ? o->style : "lode"));
	unsigned n = (o->file != NULL) + (o->build_id != NULL) + (o->pid != NULL) + o->kernel;
	unsigned mode = mode_of(s);
	const struct option_row *useless = option_useless(s, symbolize_uses, mode);

	s->symbols.functions = s->symbols.inlines = true;
	if (!style)
		return usage_error("symbolize", "the output styles are lode, gnu, llvm and json");
	if (n > 1 || (o->text && n && !o->file))
		return usage_error(
			"symbolize", "%s",
			o->text ? "crash text names its modules; only -e may be given, for its vmlinux"
				: "give only one of -e, --build-id, --pid, --kernel");
	if (!mode)
		return usage_error(
			"symbolize",
			"which file? -e FILE, --build-id ID, --pid PID, --kernel; or crash text on "
			"standard input");
	if (useless) {
		return usage_error("symbolize", "--%s has no effect %s", useless->name,
				   mode == OF_PROFILE   ? "on a profile"
				   : mode == OF_TEXT    ? "on crash text"
				   : mode == OF_PROCESS ? "with --pid"
				   : mode == OF_KERNEL  ? "with --kernel"
							: "on addresses");
	}
	if (o->demangle && o->no_demangle)
		return usage_error("symbolize", "give only one of --demangle, --no-demangle");
	if (!read_demangling(&s->symbols))
		return usage_error("symbolize", "--demangle is one of full, templates, simple, none");
	if (o->pretty && !style->pretty)
		return usage_error("symbolize", "--pretty-print is for the output styles gnu and llvm");
	if (o->discriminators && !style->discriminators)
		return usage_error("symbolize",
				   "--discriminators is for the output styles lode, gnu and json");
	switch (mode) {
	case OF_PROFILE:
		return profile_run(s, true);
	case OF_TEXT:
		return s->paths.n
			       ? usage_error(
					 "symbolize",
					 "crash text is read from standard input, without ADDRESS arguments")
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
	.summary = "turn addresses, or those of a profile, into functions, inlined calls, files and lines",
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
	.run = run_symbolize,
};

static int run_addr2line(struct settings *s)
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
	s->symbols.demangling = FRAME_DEMANGLE_NONE;
}

/* addr2line's styles name a mangling scheme, which any name shows itself; lode's styles are accepted, too. */
static int addr2line_demangle(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	static const struct str styles[] = { STR("auto"), STR("gnu-v3"), STR("java"),
					     STR("gnat"), STR("dlang"),  STR("rust") };

	s->symbols.demangling = FRAME_DEMANGLE_FULL;
	if (!value || frame_demangling_parse(str_of(value), &s->symbols.demangling))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(styles); i++)
		if (str_eq(str_of(value), styles[i]))
			return 0;
	return err_set(err, ERR_INVALID, "unknown demangling style '%s'", value);
}

static const struct option_row addr2line_rows[] = {
	{ 'e', "exe", "FILE", "the ELF file [a.out]", OPT_TEXT(symbols.file) },
	{ 'f', "functions", NULL, "print function names", OPT_ON(symbols.functions) },
	{ 'i', "inlines", NULL, "print inlined calls, up to the function", OPT_ON(symbols.inlines) },
	{ 'C', "demangle", "[STYLE]",
	  "print names as in the source; or templates (no parameters), simple (no template arguments, "
	  "either)",
	  OPT_CALL(addr2line_demangle) },
	{ 'a', "addresses", NULL, "print the address before each answer", OPT_ON(symbols.addresses) },
	{ 'p', "pretty-print", NULL, "print one line a frame", OPT_ON(symbols.pretty) },
	{ 's', "basenames", NULL, "print files without their folders", OPT_ON(symbols.basenames) },
	{ 'j', "section", "NAME", "addresses are offsets in this section", OPT_TEXT(symbols.section) },
	{ 'v', "version", NULL, "print the version", OPT_ON(symbols.version) },
	{ 'b', "target", "NAME", "not needed: the file has its format", OPTION_SILENT },
	{ 'r', "recurse-limit", NULL, "not needed: names have a limit", OPTION_SILENT },
	{ 'R', "no-recurse-limit", NULL, "not needed: names have a limit", OPTION_SILENT },
	{ 0 },
};
static const struct option_group addr2line_group = { "Options of addr2line", addr2line_rows };

const struct command command_addr2line = {
	.name = "addr2line",
	.args = "[-e FILE] [ADDRESS...]",
	.summary = "symbolize with the options and output of addr2line, to replace it",
	.examples = "  lode addr2line -fi -e /usr/bin/ls 6b10\n"
		    "  perf report --addr2line=/usr/local/bin/lode-addr2line\n",
	.groups = { &addr2line_group },
	.max_args = SIZE_MAX,
	.defaults = addr2line_defaults,
	.run = run_addr2line,
};
