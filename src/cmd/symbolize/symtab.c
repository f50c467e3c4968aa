/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symtab: symbol tables made, shown, and held against what they were made of.
 */
#include <stdlib.h>
#include "cmd/symbolize/write.h"

#define DUMP_HELD MIB(16) /* of texts */

static int build(struct settings *s, const char *path, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file f = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	const struct lookup_options places = symbols_options_of(s);
	struct symtab_options o = { .temp_dir = file_temp_dir(),
				    .n_threads = s->symbols.threads ? s->symbols.threads : pool_cpus(),
				    .no_columns = s->symbols.no_columns,
				    .discriminators = s->symbols.discriminators };
	struct symtab_stats st;
	char a[32];
	int r;

	if (lookup_find_files(&f, &places, path, err) < 0)
		return -1;
	o.alt = f.alt;
	o.split = &f.split;
	r = symtab_build(f.debug, &o, &out, &st, err);
	if (r == SYMTAB_NOTHING)
		return err_set(err, ERR_INVALID, "has no symbols, and no debug file of it was found");
	if (r < 0 || file_write_named(s->symbols.output, out.p, out.size, 0666, err) < 0)
		return -1;
	fprintf(stderr, "%s: %llu units, %llu functions, %llu inlined calls, %llu rows, %llu symbols\n",
		size_text(out.size, a), (unsigned long long)st.n_units, (unsigned long long)st.n_functions,
		(unsigned long long)st.n_inlined, (unsigned long long)st.n_rows,
		(unsigned long long)st.n_symbols);
	if (st.n_skipped)
		fprintf(stderr, "%llu parts were skipped: lode symtab dump %s tells which\n",
			(unsigned long long)st.n_skipped, s->symbols.output);
	return 0;
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
	if (info->n_skipped)
		printf("skipped %llu\n", (unsigned long long)info->n_skipped);
	for (size_t i = 0; i < info->n_reasons; i++) {
		printf("  ");
		print_text(stdout, info->skipped[i]);
		printf("\n");
	}
}

/* All rows of all pieces, in the order of addresses. */
static int dump(struct settings *s, const char *path, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file f = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(symbolize_writer_done) struct symbolize_writer w = { 0 };
	const struct symbolize_style *style = symbolize_style_find(STR("lode"));
	const struct lookup_options places = symbols_options_of(s);
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
		if (symbolize_writer_size(&w) > DUMP_HELD)
			symbolize_writer_forget(&w, 0);
		fwrite(out.p, 1, out.size, stdout);
		if (frames.hi <= at)
			break;
		at = frames.hi;
	}
	return s->symbols.summary || r >= 0 ? 0 : -1;
}

static void tell_difference(void *arg, uint64_t addr, const char *text)
{
	unsigned *n = arg;

	if (++*n <= 20) {
		printf("0x%llx: ", (unsigned long long)addr);
		print_text(stdout, str_of(text));
		printf("\n");
	}
}

static int verify(struct settings *s, const char *path, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file table = { 0 }, f = { 0 };
	const struct lookup_options places = symbols_options_of(s);
	struct symtab_options o = { .temp_dir = file_temp_dir() };
	struct symtab_check c;
	unsigned told = 0;

	if (lookup_open(&table, &places, path, err) < 0)
		return -1;
	if (lookup_find_files(&f, &places, s->symbols.file, err) < 0)
		return err_in(err, "%s", s->symbols.file);
	o.alt = f.alt;
	o.split = &f.split;
	if (symtab_verify(table.table, f.debug, &o, tell_difference, &told, &c, err) < 0)
		return -1;
	printf("%llu addresses: %llu as DWARF says, %llu of functions that lie under others, %llu "
	       "different\n",
	       (unsigned long long)c.n_rows, (unsigned long long)c.n_equal, (unsigned long long)c.n_shadowed,
	       (unsigned long long)c.n_different);
	return c.n_different ? err_set(err, ERR_INVALID, "the table is not that of the file") : 0;
}

static const struct option_row rows[] = {
	{ 'o', "output", "TABLE", "build: where the table goes", OPT_TEXT(symbols.output) },
	{ 'e', "exe", "FILE", "verify: the file that the table was made of", OPT_TEXT(symbols.file) },
	{ 0, "alt", "FILE", "the supplementary (dwz) file, where it is not found by itself",
	  OPT_TEXT(symbols.alt) },
	{ 0, "threads", "N",
	  "that make the table; without it one a CPU. The table is the same with any number",
	  OPT_NUMBER(symbols.threads) },
	{ 0, "no-columns", NULL, "build: lines alone; up to 30 % smaller", OPT_ON(symbols.no_columns) },
	{ 0, "discriminators", NULL, "build: which of the blocks of a line, too; a few per cent larger",
	  OPT_ON(symbols.discriminators) },
	{ 0, "summary", NULL, "dump: what the table says of itself, without its rows",
	  OPT_ON(symbols.summary) },
	{ 0 },
};
static const struct option_group group = { "Options", rows };

enum { BUILD = 1 << 0, DUMP = 1 << 1, VERIFY = 1 << 2 };

static const struct {
	const char *name;
	unsigned mode;
	int (*run)(struct settings *s, const char *path, struct err *err);
} actions[] = { { "build", BUILD, build }, { "dump", DUMP, dump }, { "verify", VERIFY, verify } };

static const struct option_use uses[] = {
	{ &group, "output", BUILD },
	{ &group, "exe", VERIFY },
	{ &group, "threads", BUILD | DUMP },
	{ &group, "no-columns", BUILD },
	{ &group, "discriminators", BUILD },
	{ &group, "summary", DUMP },
	{ 0 },
};

static int usage(const char *text)
{
	fprintf(stderr, "lode: symtab: %s\nlode: see: lode help symtab\n", text);
	return EXIT_USAGE;
}

static int symtab(struct settings *s)
{
	const char *path = s->paths.items[1].p;
	const struct option_row *useless;
	struct err err = { 0 };
	size_t i = 0;

	while (i < ARRAY_SIZE(actions) && !str_eq(s->paths.items[0], str_of(actions[i].name)))
		i++;
	if (i == ARRAY_SIZE(actions))
		return usage("the actions are build, dump and verify");
	useless = option_useless(s, uses, actions[i].mode);
	if (useless) {
		fprintf(stderr, "lode: symtab: %s: --%s changes nothing there\nlode: see: lode help symtab\n",
			actions[i].name, useless->name);
		return EXIT_USAGE;
	}
	if (actions[i].mode == BUILD && !s->symbols.output)
		return usage("where to? -o TABLE");
	if (s->symbols.no_columns && s->symbols.discriminators)
		return usage("--no-columns leaves no room for --discriminators");
	if (actions[i].mode == VERIFY && !s->symbols.file)
		return usage("against which file? -e FILE");
	if (actions[i].run(s, path, &err) == 0)
		return EXIT_DONE;
	err_in(&err, "%s", path);
	return tell_error("symtab", &err);
}

const struct command command_symtab = {
	.name = "symtab",
	.args = "build|dump|verify FILE",
	.summary = "make, show and check symbol tables",
	.examples = "  lode symtab build -o vmlinux.sym vmlinux\n"
		    "  lode symtab dump --summary vmlinux.sym\n"
		    "  lode symtab verify -e vmlinux vmlinux.sym\n",
	.groups = { &group },
	.min_args = 2,
	.max_args = 2,
	.missing = "build, dump or verify, and which FILE?",
	.run = symtab,
};
