/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symtab: make symbol tables, print them, check them against their ELF files.
 */
#include <stdlib.h>
#include "cmd/symbolize/write.h"

#define DUMP_MAX MIB(16) /* of texts */

#define REASONS_SHOWN 5u

/* Report the parts of the file that are not in the table, and why. */
static int report_skipped(const struct settings *s, struct bytes table, struct err *err)
{
	AUTO(symtab_closep) struct symtab *t = NULL;
	const struct symtab_info *info;

	if (symtab_open_mem(table, &t, err) < 0)
		return -1;
	info = symtab_info(t);
	for (size_t i = 0; i < MIN(info->n_reasons, (size_t)REASONS_SHOWN); i++) {
		fprintf(stderr, "skipped: ");
		print_text(stderr, info->skipped[i]);
		fputc('\n', stderr);
	}
	if (info->n_skipped > REASONS_SHOWN)
		fprintf(stderr, "%llu parts were skipped; lode symtab dump --summary %s lists them\n",
			(unsigned long long)info->n_skipped, s->symbols.output);
	return 0;
}

/* Report code with several descriptions: the table has one of them for each address. */
static void report_hidden(FILE *out, const struct symtab_hidden *hidden)
{
	if (hidden->size)
		fprintf(out,
			"hidden: %llu ranges of functions, %llu bytes: other functions have the same "
			"addresses\n",
			(unsigned long long)hidden->n_ranges, (unsigned long long)hidden->size);
	if (hidden->lines_size)
		fprintf(out,
			"hidden: lines of %llu bytes without a function: functions have the same addresses\n",
			(unsigned long long)hidden->lines_size);
}

static int symtab_build_file(struct settings *s, const char *path, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file f = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	const struct lookup_options places = lookup_options_of(s);
	struct symtab_options o = { .temp_dir = file_temp_dir(),
				    .n_threads = s->symbols.threads ? s->symbols.threads : pool_cpus(),
				    .no_columns = s->symbols.no_columns,
				    .discriminators = s->symbols.discriminators };
	struct symtab_stats st;
	char a[32];
	int r;

	if (lookup_find_files(&f, &places, path, err) < 0)
		return -1;
	o.program = lookup_program(&f);
	o.alt = f.alt;
	o.split = &f.split;
	r = symtab_build(f.debug, &o, &out, &st, err);
	if (r == SYMTAB_NOTHING && elf_refuse_slim_lto(f.debug, err) < 0)
		return err_in(err, "%s", path);
	if (r == SYMTAB_NOTHING)
		return err_set(
			err, ERR_INVALID,
			"has no symbols, and its debug file was not found; lode find --why lists the places");
	if (r < 0 || file_write_named(s->symbols.output, out.p, out.size, 0666, err) < 0)
		return -1;
	fprintf(stderr, "%s: %llu units, %llu functions, %llu inlined calls, %llu rows, %llu symbols\n",
		size_text(out.size, a), (unsigned long long)st.n_units, (unsigned long long)st.n_functions,
		(unsigned long long)st.n_inlined, (unsigned long long)st.n_rows,
		(unsigned long long)st.n_symbols);
	report_hidden(stderr, &st.hidden);
	return st.n_skipped ? report_skipped(s, buf_bytes(&out), err) : 0;
}

static const struct {
	uint32_t flag;
	const char *text;
} flags[] = {
	{ SYMTAB_HAS_DWARF, "DWARF" },
	{ SYMTAB_HAS_LINES, "lines" },
	{ SYMTAB_HAS_COLUMNS, "columns" },
	{ SYMTAB_HAS_DISCRIMINATORS, "discriminators" },
	{ SYMTAB_HAS_SYMBOLS, "symbols" },
	{ SYMTAB_HAS_GO, "Go" },
	{ SYMTAB_RELOCATABLE, "relocatable" },
	{ SYMTAB_ALT_APPLIED, "supplementary file applied" },
	{ SYMTAB_ALT_MISSING, "supplementary file missing" },
	{ SYMTAB_SPLIT_MISSING, "split files missing" },
	{ SYMTAB_PARTIAL, "parts skipped" },
};

static void dump_info(const struct symtab_info *info)
{
	char id[BUILD_ID_HEX_SIZE];
	const char *before = " ";

	printf("table of %llu bytes in %llu blocks, made by ", (unsigned long long)info->size,
	       (unsigned long long)info->n_blocks);
	print_text(stdout, info->producer);
	printf("\nbuild ID %s\nhas", info->build_id.size ? build_id_hex(&info->build_id, id) : "none");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (info->flags & flags[i].flag) {
			printf("%s%s", before, flags[i].text);
			before = ", ";
		}
	printf("\n");
	for (size_t i = 0; i < info->n_sections; i++) {
		printf("section ");
		print_text(stdout, info->sections[i].name);
		printf(" at 0x%llx, %llu bytes\n", (unsigned long long)info->sections[i].base,
		       (unsigned long long)info->sections[i].size);
	}
	report_hidden(stdout, &info->hidden);
	if (info->n_skipped)
		printf("skipped %llu\n", (unsigned long long)info->n_skipped);
	for (size_t i = 0; i < info->n_reasons; i++) {
		printf("  ");
		print_text(stdout, info->skipped[i]);
		printf("\n");
	}
}

/* Prints all rows in the order of addresses. */
static int symtab_dump(struct settings *s, const char *path, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file f = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(symbolize_writer_done) struct symbolize_writer w = { 0 };
	const struct symbolize_style *style = symbolize_style_find(STR("lode"));
	const struct lookup_options places = lookup_options_of(s);
	struct symtab_frames frames;
	uint64_t at = 0;
	int r;

	s->symbols.functions = s->symbols.inlines = true;
	symbolize_writer_init(&w, s, style);
	if (lookup_open(&f, &places, path, err) < 0)
		return -1;
	dump_info(symtab_info(f.table));
	while (!s->symbols.summary && (r = symtab_next(f.finder, at, &frames, err)) == 0) {
		struct answer_text a = symbolize_writer_make(&w, frames.lo, &frames);

		out.size = 0;
		buf_printf(&out, "%llx-%llx ", (unsigned long long)frames.lo, (unsigned long long)frames.hi);
		answer_text_add(s, style, &a, &out);
		if (symbolize_writer_size(&w) > DUMP_MAX)
			symbolize_writer_forget(&w, 0);
		fwrite(out.p, 1, out.size, stdout);
		if (frames.hi <= at)
			break;
		at = frames.hi;
	}
	return s->symbols.summary || r >= 0 ? 0 : -1;
}

static void print_difference(void *arg, uint64_t addr, const char *text)
{
	unsigned *n = arg;

	if (++*n <= 20) {
		printf("0x%llx: ", (unsigned long long)addr);
		print_text(stdout, str_of(text));
		printf("\n");
	}
}

static int symtab_check_file(struct settings *s, const char *path, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file table = { 0 }, f = { 0 };
	const struct lookup_options places = lookup_options_of(s);
	struct symtab_options o = { .temp_dir = file_temp_dir() };
	unsigned printed = 0;
	struct symtab_check c = { .fn = print_difference, .arg = &printed };

	if (lookup_open(&table, &places, path, err) < 0)
		return -1;
	if (lookup_find_files(&f, &places, s->symbols.file, err) < 0)
		return err_in(err, "%s", s->symbols.file);
	o.alt = f.alt;
	o.split = &f.split;
	if (symtab_verify(table.table, f.debug, &o, &c, err) < 0)
		return -1;
	printf("%llu addresses: %llu as in the DWARF, %llu of functions that others overlap, %llu "
	       "different\n",
	       (unsigned long long)c.n_rows, (unsigned long long)c.n_equal, (unsigned long long)c.n_shadowed,
	       (unsigned long long)c.n_different);
	return c.n_different ? err_set(err, ERR_INVALID, "the table was not made from this file") : 0;
}

static const struct option_row symtab_rows[] = {
	{ 'o', "output", "TABLE", "build: the table to write", OPT_TEXT(symbols.output) },
	{ 'e', "exe", "FILE", "verify: the file that the table was made from", OPT_TEXT(symbols.file) },
	{ 0, "alt", "FILE", "the supplementary (dwz) file, if lode does not find it", OPT_TEXT(symbols.alt) },
	{ 0, "threads", "N", "threads that make the table, which is the same with any number [CPUs]",
	  OPT_NUMBER(symbols.threads) },
	{ 0, "no-columns", NULL, "build: lines without columns; up to 30 % smaller",
	  OPT_ON(symbols.no_columns) },
	{ 0, "discriminators", NULL,
	  "build: with discriminators, the block within a line; a few per cent larger",
	  OPT_ON(symbols.discriminators) },
	{ 0, "summary", NULL, "dump: the head of the table, without its rows", OPT_ON(symbols.summary) },
	{ 0 },
};
static const struct option_group symtab_group = { "Options", symtab_rows };

enum { BUILD = 1 << 0, DUMP = 1 << 1, VERIFY = 1 << 2 };

static const struct {
	const char *name;
	unsigned mode;
	int (*run)(struct settings *s, const char *path, struct err *err);
} actions[] = { { "build", BUILD, symtab_build_file },
		{ "dump", DUMP, symtab_dump },
		{ "verify", VERIFY, symtab_check_file } };

static const struct option_use symtab_uses[] = {
	{ &symtab_group, "output", BUILD },
	{ &symtab_group, "exe", VERIFY },
	{ &symtab_group, "threads", BUILD | DUMP },
	{ &symtab_group, "no-columns", BUILD },
	{ &symtab_group, "discriminators", BUILD },
	{ &symtab_group, "summary", DUMP },
	{ 0 },
};

static int run_symtab(struct settings *s)
{
	const char *path = s->paths.items[1].p;
	const struct option_row *useless;
	struct err err = { 0 };
	size_t i = 0;

	while (i < ARRAY_SIZE(actions) && !str_eq(s->paths.items[0], str_of(actions[i].name)))
		i++;
	if (i == ARRAY_SIZE(actions))
		return usage_error("symtab", "the actions are build, dump and verify");
	useless = option_useless(s, symtab_uses, actions[i].mode);
	if (useless) {
		return usage_error("symtab", "--%s has no effect on %s", useless->name, actions[i].name);
	}
	if (actions[i].mode == BUILD && !s->symbols.output)
		return usage_error("symtab", "build: which file to write? -o TABLE");
	if (s->symbols.no_columns && s->symbols.discriminators)
		return usage_error("symtab", "--discriminators needs columns: leave out --no-columns");
	if (actions[i].mode == VERIFY && !s->symbols.file)
		return usage_error("symtab", "verify: which file was the table made from? -e FILE");
	if (actions[i].run(s, path, &err) == 0)
		return EXIT_DONE;
	err_in(&err, "%s", path);
	return tell_error("symtab", &err);
}

const struct command command_symtab = {
	.name = "symtab",
	.args = "build|dump|verify FILE",
	.summary = "make, print and check symbol tables",
	.examples = "  lode symtab build -o vmlinux.sym vmlinux\n"
		    "  lode symtab dump --summary vmlinux.sym\n"
		    "  lode symtab verify -e vmlinux vmlinux.sym\n",
	.groups = { &symtab_group },
	.min_args = 2,
	.max_args = 2,
	.missing = "no action given: build, dump or verify, and a FILE",
	.run = run_symtab,
};
