/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF: skeletons in the file, functions in .dwo files or in a .dwp.
 */
#include "test.h"

#include "answers.h"

#include <pthread.h>

#define ID 0x1122334455667788u

enum { SKELETON = 4, SPLIT_COMPILE = 5 };

/* The files that open_dwo() has, and its last arguments. */
struct files {
	struct {
		const char *name;
		struct buf content;
	} list[4];
	size_t n;
	pthread_mutex_t lock;
	struct buf asked; /* locked */
	unsigned n_asked; /* locked */
	struct buf dwp;
	struct source *dwp_src;
	struct elf_image *dwp_img;
	struct dwarf_split split;
};

static int open_dwo(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err)
{
	struct files *f = arg;

	pthread_mutex_lock(&f->lock);
	f->n_asked++;
	f->asked.size = 0;
	buf_printf(&f->asked, STR_FMT "|" STR_FMT "|%llx", STR_ARG(comp_dir), STR_ARG(name),
		   (unsigned long long)id);
	pthread_mutex_unlock(&f->lock);
	for (size_t i = 0; i < f->n; i++)
		if (str_eq(name, str_of(f->list[i].name))) {
			*ret = source_of_mem(buf_bytes(&f->list[i].content), f->list[i].name);
			return 0;
		}
	return DWARF_NO_SPLIT;
}

static void files_done(struct files *f)
{
	for (size_t i = 0; i < f->n; i++)
		buf_done(&f->list[i].content);
	elf_close(f->dwp_img);
	source_close(f->dwp_src);
	buf_done(&f->dwp);
	buf_done(&f->asked);
}

static void files_add(struct files *f, const char *name, struct code_writer *w)
{
	f->list[f->n].name = name;
	code_writer_finish(w, &f->list[f->n++].content);
}

static void use(struct answers *a, struct files *f)
{
	struct err err = { 0 };

	f->split = (struct dwarf_split){ .open = open_dwo, .arg = f };
	if (f->dwp.size) {
		f->dwp_src = source_of_mem(buf_bytes(&f->dwp), "x.dwp");
		assert_done(elf_open(f->dwp_src, &f->dwp_img, &err));
		f->split.dwp = f->dwp_img;
	}
	a->split = &f->split;
}

/* Addresses of the code: [0] is the unit's, then that of each function. */
static void add_addresses(struct code_writer *w)
{
	static const uint64_t addrs[] = { 0x1000, 0x1010, 0x1080 };

	if (w->version >= 5) {
		elf_writer_put(&w->elf, &w->addr, 0x1c, 4);
		elf_writer_put(&w->elf, &w->addr, 5, 2);
		elf_writer_put(&w->elf, &w->addr, elf_writer_word(&w->elf), 2);
	}
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++)
		elf_writer_put(&w->elf, &w->addr, addrs[i], elf_writer_word(&w->elf));
}

static void add_skeleton(struct answers *a, const char *dwo, uint64_t id, uint64_t lines)
{
	struct code_writer *w = &a->w;

	w->unit_type = SKELETON;
	w->dwo_id = id;
	code_unit_begin(w);
	if (w->version >= 5)
		code_die(w, T_SKELETON, false, A_DWO_NAME, F_STRING, S(dwo), A_COMP_DIR, F_STRING, S("/src"),
			 A_LOW, F_ADDRX, U(0), A_STMT_LIST, F_SEC_OFFSET, lines, A_ADDR_BASE, F_SEC_OFFSET,
			 U(8), 0u);
	else
		code_die(w, T_COMPILE, false, A_GNU_DWO_NAME, F_STRING, S(dwo), A_COMP_DIR, F_STRING,
			 S("/src"), A_GNU_DWO_ID, F_DATA8, id, A_LOW, F_ADDR, U(0x1000), A_STMT_LIST,
			 F_SEC_OFFSET, lines, A_GNU_ADDR_BASE, F_SEC_OFFSET, U(0), A_GNU_RANGES_BASE,
			 F_SEC_OFFSET, U(16), 0u);
	code_unit_end(w);
}

/* f at [0x1000, 0x1040) and, by a list, [0x1080, 0x10a0), with g inlined at [0x1010, 0x1020). */
static void split_init(struct code_writer *w, enum elf_writer_target target, unsigned version, uint64_t id,
		       const char *name)
{
	unsigned addr = version >= 5 ? F_ADDRX : F_GNU_ADDR_INDEX,
		 str = version >= 5 ? F_STRX : F_GNU_STR_INDEX;
	uint64_t g;

	code_writer_init(w, target, ET_REL);
	w->version = version;
	w->dwo = true;
	w->unit_type = SPLIT_COMPILE;
	w->dwo_id = id;
	if (version >= 5) {
		elf_writer_put(&w->elf, &w->rnglists, 0, 4);
		elf_writer_put(&w->elf, &w->rnglists, 5, 2);
		elf_writer_put(&w->elf, &w->rnglists, elf_writer_word(&w->elf), 2);
		elf_writer_put(&w->elf, &w->rnglists, 1, 4);
		elf_writer_put(&w->elf, &w->rnglists, 4, 4);
		buf_add(&w->rnglists, "\x04\x00\x40\x03\x02\x20\x00",
			7); /* from the unit's start; startx_length */
	}
	code_unit_begin(w);
	if (version >= 5)
		code_die(w, T_COMPILE, true, A_NAME, str, S("a.c"), A_LANGUAGE, F_DATA1, U(0x1d), 0u);
	else
		code_die(w, T_COMPILE, true, A_NAME, str, S("a.c"), A_LANGUAGE, F_DATA1, U(0x1d),
			 A_GNU_DWO_ID, F_DATA8, id, 0u);
	g = code_die(w, T_SUBPROGRAM, false, A_NAME, str, S("g"), A_INLINE, F_DATA1, U(1), 0u);
	code_die(w, T_SUBPROGRAM, true, A_NAME, str, S(name), A_RANGES,
		 version >= 5 ? F_RNGLISTX : F_SEC_OFFSET, U(0), A_DECL_FILE, F_DATA1, U(1), A_DECL_LINE,
		 F_DATA1, U(9), 0u);
	code_die(w, T_INLINED, false, A_ORIGIN, F_REF4, g, A_LOW, addr, U(1), A_HIGH, F_DATA4, U(0x10),
		 A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(77), 0u);
	code_up(w);
	code_up(w);
	code_unit_end(w);
}

/* The list of a split unit of version 4 is in the file with the skeletons, after the lists of another unit. */
static void add_ranges(struct code_writer *w)
{
	static const uint64_t list[] = { 0x666, 0x667, 0, 0x40, 0x80, 0xa0, 0, 0 };

	for (size_t i = 0; w->version < 5 && i < ARRAY_SIZE(list); i++)
		elf_writer_put(&w->elf, &w->ranges, list[i], elf_writer_word(&w->elf));
}

static void assert_split_answers(struct answers *a, const char *name)
{
	char text[200];

	snprintf(text, sizeof(text), "%s at /src/a.c:10", name);
	assert_answer(a, 0x1000, text);
	snprintf(text, sizeof(text), "g at /src/a.c:11 in %s at /src/a.c:77", name);
	assert_answer(a, 0x1010, text);
	snprintf(text, sizeof(text), "%s at /src/a.c:12", name);
	assert_answer(a, 0x1020, text);
	snprintf(text, sizeof(text), "%s at /src/a.c:18", name);
	assert_answer(a, 0x1080, text);
	assert_answer(a, 0x10b0, " at /src/a.c:21");
	assert_int_equal(symtab_info(a->t)->flags & (SYMTAB_SPLIT_MISSING | SYMTAB_PARTIAL), 0);
}

static void functions_of_a_dwo_file(void **state)
{
	static const enum elf_writer_target targets[] = { ELF_WRITER_X86_64, ELF_WRITER_S390X };

	for (unsigned version = 4; version <= 5; version++)
		for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
			AUTO(answers_done) struct answers a;
			AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
			AUTO(code_writer_done) struct code_writer dwo;

			answers_init(&a, targets[i], ET_DYN);
			a.w.version = version;
			add_addresses(&a.w);
			add_ranges(&a.w);
			add_skeleton(&a, "out/a.dwo", ID, add_lines(&a));
			split_init(&dwo, targets[i], version, ID, "f");
			files_add(&f, "out/a.dwo", &dwo);
			use(&a, &f);
			answers_open(&a);
			assert_split_answers(&a, "f");
			assert_str(buf_str(&f.asked), "/src|out/a.dwo|1122334455667788");
		}
}

static void functions_of_a_dwp(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		AUTO(answers_done) struct answers a;
		AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
		struct code_writer dwos[3], *list[] = { &dwos[0], &dwos[1], &dwos[2] };

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = version;
		add_addresses(&a.w);
		add_ranges(&a.w);
		add_skeleton(&a, "a.dwo", ID, add_lines(&a));
		/* Ids with the same slot. */
		split_init(&dwos[0], ELF_WRITER_X86_64, version, ID + 0x100, "not_this");
		split_init(&dwos[1], ELF_WRITER_X86_64, version, ID + 0x200, "nor_this");
		split_init(&dwos[2], ELF_WRITER_X86_64, version, ID, "f");
		code_writer_dwp(list, 3, version >= 5 ? 5 : 2, &f.dwp);
		use(&a, &f);
		answers_open(&a);
		assert_split_answers(&a, "f");
		assert_int_equal(f.asked.size, 0);
		for (int i = 0; i < 3; i++)
			code_writer_done(&dwos[i]);
	}
}

static void a_unit_missing_in_the_dwp_is_read_from_its_dwo(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct code_writer dwos[2], *list[] = { &dwos[1] };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	add_addresses(&a.w);
	add_skeleton(&a, "a.dwo", ID, add_lines(&a));
	split_init(&dwos[0], ELF_WRITER_X86_64, 5, ID, "f");
	split_init(&dwos[1], ELF_WRITER_X86_64, 5, ID + 4, "other");
	files_add(&f, "a.dwo", &dwos[0]);
	code_writer_dwp(list, 1, 5, &f.dwp);
	use(&a, &f);
	answers_open(&a);
	assert_split_answers(&a, "f");
	code_writer_done(&dwos[0]);
	code_writer_done(&dwos[1]);
}

static void assert_missing(struct answers *a, const char *why)
{
	const struct symtab_info *info = symtab_info(a->t);

	assert_answer(a, 0x1000, "sym at /src/a.c:10");
	assert_answer(a, 0x1090, " at /src/a.c:19");
	assert_true(info->flags & SYMTAB_SPLIT_MISSING);
	assert_int_equal(info->n_skipped, 1);
	if (!memmem(info->skipped[0].p, info->skipped[0].size, why, strlen(why)))
		fail_msg(STR_FMT " does not say %s", STR_ARG(info->skipped[0]), why);
}

/* The skeleton's lines and the symbols remain. */
static void a_missing_dwo_or_one_of_another_build_is_reported(void **state)
{
	for (int kind = 0; kind < 4; kind++)
		for (unsigned version = 4; version <= 5; version++) {
			static const char *const whys[] = { "a.dwo: was not found",
							    "a.dwo: has no unit with the id 1122334455667788",
							    "a.dwo: has no .debug_info.dwo",
							    "a.dwo: not an ELF file, but" };
			AUTO(answers_done) struct answers a;
			AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
			AUTO(code_writer_done) struct code_writer dwo;

			answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
			a.w.version = version;
			code_symbol(&a.w, "sym", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
			add_addresses(&a.w);
			add_ranges(&a.w);
			add_skeleton(&a, "a.dwo", ID, add_lines(&a));
			split_init(&dwo, ELF_WRITER_X86_64, version, kind == 1 ? ID - 1 : ID, "f");
			dwo.dwo = kind != 2;
			files_add(&f, kind ? "a.dwo" : "b.dwo", &dwo);
			if (kind == 3)
				f.list[0].content.p[0] = 0;
			use(&a, &f);
			answers_open(&a);
			assert_missing(&a, whys[kind]);
		}
}

/* clang's -gmodules: a unit of types alone has the name of a .pcm, which has no functions and is no .dwo. */
static void a_unit_without_addresses_needs_no_dwo(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		AUTO(answers_done) struct answers a;
		AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = version;
		code_symbol(&a.w, "sym", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
		code_unit_begin(&a.w);
		code_die(&a.w, T_COMPILE, false, version >= 5 ? A_DWO_NAME : A_GNU_DWO_NAME, F_STRING,
			 S("m.pcm"), A_COMP_DIR, F_STRING, S("/src"), A_GNU_DWO_ID, F_DATA8, U(ID),
			 A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), 0u);
		code_unit_end(&a.w);
		use(&a, &f);
		answers_open(&a);
		assert_answer(&a, 0x1000, "sym at /src/a.c:10");
		assert_false(symtab_info(a.t)->flags & SYMTAB_SPLIT_MISSING);
		assert_int_equal(symtab_info(a.t)->n_skipped, 0);
	}
}

/* A program compiled as a whole has many units in one file. */
static void units_that_share_a_dwo(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
	AUTO(code_writer_done) struct code_writer dwo;
	static const char *const names[] = { "one", "two", "three" };
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	add_addresses(&a.w);
	lines = add_lines(&a);
	code_writer_init(&dwo, ELF_WRITER_X86_64, ET_REL);
	dwo.version = 5;
	dwo.dwo = true;
	dwo.unit_type = SPLIT_COMPILE;
	for (unsigned i = 0; i < 3; i++) {
		/* In another order than the skeletons. */
		add_skeleton(&a, "all.dwo", 100 + (i + 1) % 3, lines);
		dwo.dwo_id = 100 + i;
		code_unit_begin(&dwo);
		code_die(&dwo, T_COMPILE, true, A_NAME, F_STRX, S("a.c"), A_LANGUAGE, F_DATA1, U(0x1d), 0u);
		code_die(&dwo, T_SUBPROGRAM, false, A_NAME, F_STRX, S(names[i]), A_LOW, F_ADDRX, U(i), A_HIGH,
			 F_DATA1, U(0x10), 0u);
		code_up(&dwo);
		code_unit_end(&dwo);
	}
	files_add(&f, "all.dwo", &dwo);
	use(&a, &f);
	answers_open(&a);
	assert_answer(&a, 0x1000, "one at /src/a.c:10");
	assert_answer(&a, 0x1010, "two at /src/a.c:11");
	assert_answer(&a, 0x1080, "three at /src/a.c:18");
}

/* The skeletons are in the order of their units, so the open file is the right one each time. */
static void skeletons_that_name_one_dwo_open_it_once(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
	AUTO(code_writer_done) struct code_writer dwo;
	AUTO(buf_done) struct buf table = { 0 };
	struct symtab_options o = { .split = &f.split };
	struct symtab_stats stats;
	struct err err = { 0 };
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	add_addresses(&a.w);
	lines = add_lines(&a);
	split_init(&dwo, ELF_WRITER_X86_64, 5, ID, "f");
	for (unsigned i = 0; i < 8; i++)
		add_skeleton(&a, "a.dwo", ID, lines);
	files_add(&f, "a.dwo", &dwo);
	use(&a, &f);
	answers_open(&a);
	f.n_asked = 0;
	assert_done(symtab_build(a.img, &o, &table, &stats, &err));
	assert_int_equal(f.n_asked, 1);
}

/*
 * A large unit whose types are read by each of many skeletons that name it: only the first adds to the budget,
 * so the file is given up long before all are read.
 */
static void many_skeletons_of_one_large_unit_exhaust_the_budget(void **state)
{
	enum { N_SKELETONS = 3000 };
	AUTO(answers_done) struct answers a;
	AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
	AUTO(code_writer_done) struct code_writer dwo;
	AUTO(buf_done) struct buf table = { 0 };
	struct symtab_options o = { .split = &f.split };
	struct symtab_stats stats;
	struct err err = { 0 };
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	add_addresses(&a.w);
	lines = add_lines(&a);
	code_writer_init(&dwo, ELF_WRITER_X86_64, ET_REL);
	dwo.version = 5;
	dwo.dwo = true;
	dwo.unit_type = SPLIT_COMPILE;
	dwo.dwo_id = ID;
	code_unit_begin(&dwo);
	code_die(&dwo, T_COMPILE, true, A_NAME, F_STRX, S("a.c"), A_LANGUAGE, F_DATA1, U(0x1d), 0u);
	for (unsigned i = 0; i < 4000; i++)
		code_die(&dwo, 0x34, false, A_DECL_LINE, F_DATA8, U(i), A_CALL_LINE, F_DATA8, U(i), 0u);
	code_up(&dwo);
	code_unit_end(&dwo);
	for (unsigned i = 0; i < N_SKELETONS; i++)
		add_skeleton(&a, "a.dwo", ID, lines);
	files_add(&f, "a.dwo", &dwo);
	use(&a, &f);
	code_writer_finish(&a.w, &a.file);
	a.src = source_of_mem(buf_bytes(&a.file), "x");
	assert_done(elf_open(a.src, &a.img, &err));
	assert_done(symtab_build(a.img, &o, &table, &stats, &err));
	assert_true(stats.n_skipped > 0);
}

/* clang's skeletons may have the inlined calls, too, for users without the .dwo. */
static void functions_of_the_skeleton_hold_without_a_dwo(void **state)
{
	for (int there = 0; there < 2; there++) {
		AUTO(answers_done) struct answers a;
		AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
		AUTO(code_writer_done) struct code_writer dwo;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		add_addresses(&a.w);
		add_ranges(&a.w);
		code_unit_begin(&a.w);
		code_die(&a.w, T_COMPILE, true, A_GNU_DWO_NAME, F_STRING, S("a.dwo"), A_COMP_DIR, F_STRING,
			 S("/src"), A_GNU_DWO_ID, F_DATA8, U(ID), A_LOW, F_ADDR, U(0x1000), A_STMT_LIST,
			 F_SEC_OFFSET, add_lines(&a), A_GNU_ADDR_BASE, F_SEC_OFFSET, U(0), A_GNU_RANGES_BASE,
			 F_SEC_OFFSET, U(16), 0u);
		/* Its own lists have absolute offsets, without the base. */
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("short"), A_RANGES, F_SEC_OFFSET,
			 U(16), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		split_init(&dwo, ELF_WRITER_X86_64, 4, ID, "f");
		if (there)
			files_add(&f, "a.dwo", &dwo);
		use(&a, &f);
		answers_open(&a);
		assert_answer(&a, 0x1000, there ? "f at /src/a.c:10" : "short at /src/a.c:10");
		assert_answer(&a, 0x1080, there ? "f at /src/a.c:18" : "short at /src/a.c:18");
	}
}

static void a_damaged_dwp_is_ignored(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(files_done) struct files f = { .lock = PTHREAD_MUTEX_INITIALIZER };
	AUTO(code_writer_done) struct code_writer dwo;
	struct code_writer *list[] = { &dwo };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	add_addresses(&a.w);
	add_skeleton(&a, "a.dwo", ID, add_lines(&a));
	split_init(&dwo, ELF_WRITER_X86_64, 5, ID, "f");
	code_writer_dwp(list, 1, 9, &f.dwp);
	files_add(&f, "a.dwo", &dwo);
	use(&a, &f);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
	assert_non_null(
		memmem(symtab_info(a.t)->skipped[0].p, symtab_info(a.t)->skipped[0].size, "version 9", 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_a_dwo_file),
		cmocka_unit_test(functions_of_a_dwp),
		cmocka_unit_test(a_unit_missing_in_the_dwp_is_read_from_its_dwo),
		cmocka_unit_test(a_missing_dwo_or_one_of_another_build_is_reported),
		cmocka_unit_test(a_unit_without_addresses_needs_no_dwo),
		cmocka_unit_test(units_that_share_a_dwo),
		cmocka_unit_test(skeletons_that_name_one_dwo_open_it_once),
		cmocka_unit_test(many_skeletons_of_one_large_unit_exhaust_the_budget),
		cmocka_unit_test(functions_of_the_skeleton_hold_without_a_dwo),
		cmocka_unit_test(a_damaged_dwp_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
