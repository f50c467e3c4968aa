/* SPDX-License-Identifier: Apache-2.0 */
/* Split DWARF in tables: the resolver has the .dwo file at its path, now or later. */
#include "test.h"

#include "tables_fixture.h"

#define S(text) ((uint64_t)(uintptr_t)(text))
#define U(n)    ((uint64_t)(n))
#define DWO_ID  0x1122334455667788u

enum { SKELETON = 4, SPLIT_COMPILE = 5 };

static void put_debug(struct tables_fixture *p, uint32_t n, const char *dwo)
{
	AUTO(buf_done) struct buf file = { 0 };
	static const char *const files[] = { "a.c", "a.c", NULL };
	struct build_id id = tables_fixture_id(n);
	struct code_writer w;
	uint64_t lines;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	lines = code_lines_begin(&w, files);
	code_row(&w, 0x1000, 1, 10);
	code_sequence_end(&w, 0x1100);
	code_lines_end(&w);
	elf_writer_put(&w.elf, &w.addr, 12, 4);
	elf_writer_put(&w.elf, &w.addr, 5, 2);
	elf_writer_put(&w.elf, &w.addr, 8, 2);
	elf_writer_put(&w.elf, &w.addr, 0x1000, 8);
	w.unit_type = SKELETON;
	w.dwo_id = DWO_ID;
	code_unit_begin(&w);
	code_die(&w, T_SKELETON, false, A_DWO_NAME, F_STRING, S(dwo), A_COMP_DIR, F_STRING, S("/build"),
		 A_LOW, F_ADDRX, U(0), A_STMT_LIST, F_SEC_OFFSET, lines, A_ADDR_BASE, F_SEC_OFFSET, U(8), 0u);
	code_unit_end(&w);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	resolve_mem_put(p->r, RESOLVE_DEBUGINFO, &id, STR(""), buf_bytes(&file),
			STR("/usr/lib/debug/x.debug"), STR("/pool/x.deb"), 5);
}

static void put_dwo(struct tables_fixture *p, uint32_t n, const char *path, const char *name)
{
	AUTO(buf_done) struct buf file = { 0 };
	struct build_id id = tables_fixture_id(n);
	struct code_writer w;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	w.dwo = true;
	w.unit_type = SPLIT_COMPILE;
	w.dwo_id = DWO_ID;
	code_unit_begin(&w);
	code_die(&w, T_COMPILE, true, A_NAME, F_STRX, S("a.c"), A_LANGUAGE, F_DATA1, U(0x1d), 0u);
	code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRX, S(name), A_LOW, F_ADDRX, U(0), A_HIGH, F_DATA4,
		 U(0x100), 0u);
	code_up(&w);
	code_unit_end(&w);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	resolve_mem_put(p->r, RESOLVE_SOURCE, &id, str_of(path), buf_bytes(&file), str_of(path), STR(""), 5);
}

static void open_fixture(struct tables_fixture *p, bool store)
{
	tables_fixture_open(p, store);
	p->opts.miss_ms = 1;
	tables_fixture_reopen(p);
}

static void a_dwo_is_found_by_its_path(void **state)
{
	static const char *const names[][2] = { { "out/a.dwo", "/build/out/a.dwo" },
						{ "/abs/a.dwo", "/abs/a.dwo" },
						{ "out/a.dwo", "/usr/lib/debug/a.dwo" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct tables_fixture p;

		open_fixture(&p, false);
		put_debug(&p, 1, names[i][0]);
		put_dwo(&p, 1, names[i][1], "f");
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f /build/a.c:10");
		tables_fixture_close(&p);
	}
}

static void a_dwo_that_turns_up_later_is_used_then(void **state)
{
	for (unsigned store = 0; store < 2; store++) {
		struct tables_fixture p;

		open_fixture(&p, store);
		put_debug(&p, 1, "a.dwo");
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "split-missing  /build/a.c:10");
		/* Nothing has changed, so the table is not built again. */
		for (unsigned i = 0; i < 20; i++)
			tables_fixture_ask(&p, 1, 0x1000);
		if (store)
			tables_fixture_reopen(&p);
		put_dwo(&p, 1, "/build/a.dwo", "f");
		for (int64_t end = clock_mono_ms() + 30000;
		     strcmp(tables_fixture_ask(&p, 1, 0x1000), "f /build/a.c:10") != 0;)
			assert_true(clock_mono_ms() < end);
		tables_fixture_close(&p);
	}
}

static void a_table_is_not_made_again_for_nothing(void **state)
{
	struct tables_stats st;
	struct tables_fixture p;

	open_fixture(&p, false);
	put_debug(&p, 1, "a.dwo");
	for (int64_t end = clock_mono_ms() + 100; clock_mono_ms() < end;)
		tables_fixture_ask(&p, 1, 0x1000);
	tables_stats(p.s, &st);
	assert_int_equal(st.n_made, 1);
	tables_fixture_close(&p);
}

static struct store_key table_key(char version[12])
{
	snprintf(version, 12, "%d", SYMTAB_VERSION);
	return (struct store_key){ tables_fixture_id(1), STORE_SYMTAB, str_of(version) };
}

/* The table in the store becomes one of an earlier maker. */
static void age_stored_table(struct tables_fixture *p, struct buf *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct source *src;
	struct store_meta meta;
	struct bytes all;
	struct err err = { 0 };
	char version[12];
	struct store_key key = table_key(version);

	arena_init(&a);
	assert_done(store_open_object(p->store, &key, &a, &meta, &src, &err));
	assert_done(source_read_arena(src, range_of(0, src->size), SIZE_MAX, &a, &all, &err));
	source_close(src);
	buf_add(ret, all.p, all.size);
	tables_fixture_age(ret);
}

static void put_stored_table(struct tables_fixture *p, const struct buf *table)
{
	const struct store_meta meta = { .origin = STORE_MADE };
	struct err err = { 0 };
	char version[12];
	struct store_key key = table_key(version);

	assert_done(store_put_bytes(p->store, &key, &meta, true, buf_bytes(table), STORE_ALWAYS, &err));
}

/* A table with split files is made again by a later maker if they are still here, and stays if one is gone. */
static void a_table_of_an_earlier_maker_keeps_its_split_files(void **state)
{
	AUTO(buf_done) struct buf table = { 0 };
	struct tables_stats st = { 0 };
	struct tables_fixture p;

	open_fixture(&p, true);
	put_debug(&p, 1, "a.dwo");
	put_dwo(&p, 1, "/build/a.dwo", "f");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f /build/a.c:10");
	age_stored_table(&p, &table);
	put_stored_table(&p, &table);
	tables_fixture_reopen(&p);
	for (int64_t end = clock_mono_ms() + 30000; !st.n_made; tables_stats(p.s, &st)) {
		assert_true(clock_mono_ms() < end);
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f /build/a.c:10");
	}
	tables_fixture_reopen(&p);
	for (int i = 0; i < 20; i++)
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f /build/a.c:10");
	tables_stats(p.s, &st);
	assert_int_equal(st.n_made, 0);
	tables_fixture_close(&p);
	/* The split file is gone: the old table is better. When it is back, the table is made again. */
	open_fixture(&p, true);
	put_debug(&p, 1, "a.dwo");
	put_stored_table(&p, &table);
	for (int64_t end = clock_mono_ms() + 100; clock_mono_ms() < end;)
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f /build/a.c:10");
	tables_stats(p.s, &st);
	assert_int_equal(st.n_made, 0);
	put_dwo(&p, 1, "/build/a.dwo", "g");
	tables_fixture_expect(&p, 1, 0x1000, "g /build/a.c:10");
	tables_fixture_close(&p);
}

static void a_name_of_nonsense_is_no_file(void **state)
{
	static const char *const names[] = { "", "/", "..", "../../../../etc/passwd", "/etc", "/dev/zero" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct tables_fixture p;

		open_fixture(&p, false);
		put_debug(&p, 1, names[i]);
		assert_true(str_ends(str_of(tables_fixture_ask(&p, 1, 0x1000)), STR("/build/a.c:10")));
		tables_fixture_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dwo_is_found_by_its_path),
		cmocka_unit_test(a_dwo_that_turns_up_later_is_used_then),
		cmocka_unit_test(a_table_is_not_made_again_for_nothing),
		cmocka_unit_test(a_table_of_an_earlier_maker_keeps_its_split_files),
		cmocka_unit_test(a_name_of_nonsense_is_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
