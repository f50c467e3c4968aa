/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize, lode addr2line: what they can be asked, and who answers that.
 */
#include <unistd.h>
#include "cmd/profile/profile.h"
#include "cmd/symbolize/write.h"

struct lookup_options symbols_options_of(struct settings *s)
{
	AUTO(buf_done) struct buf urls = { 0 };
	const struct setting_list *servers = &s->find.servers;

	for (size_t i = 0; i < servers->n; i++)
		buf_printf(&urls, "%s" STR_FMT, i ? " " : "", STR_ARG(servers->items[i]));
	return (struct lookup_options){ .urls = servers->n ? arena_strdup(&s->arena, buf_str(&urls)) : NULL,
					.local_only = s->find.here,
					.alt = s->symbols.alt,
					.discriminators = s->symbols.discriminators,
					.threads = s->symbols.threads };
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
	{ 0, "threads", "N",
	  "that make the table and (at most 16) answer many addresses of a file; without it one a CPU",
	  OPT_NUMBER(symbols.threads) },
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
	o->demangling = o->no_demangle ? FRAME_DEMANGLE_NONE : FRAME_DEMANGLE_FULL;
	return !o->demangle || frame_demangling_parse(str_of(o->demangle), &o->demangling);
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
	s->symbols.demangling = FRAME_DEMANGLE_NONE;
}

/* Its styles name the scheme, which a name says itself; ours, how much of it. */
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
