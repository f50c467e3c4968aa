/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that are kept in the store, and found there by the next process. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include "packed.h"
#include "store/internal.h"
#include "tables_fixture.h"

static void a_built_table_is_found_in_the_store_by_the_next_process(void **state)
{
	struct tables_stats stats;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 1);
	tables_fixture_reopen(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 0);
	assert_int_equal(stats.n_from_store, 1);
	tables_fixture_close(&p);
}

/* @kept is in the store as the table of a file, and is not that file's table. */
static void assert_made_again(struct bytes kept)
{
	const struct store_meta meta = { .origin = STORE_MADE };
	struct store_key key = { tables_fixture_id(1), STORE_SYMTAB, STR("") };
	struct err err = { 0 };
	char version[12];
	struct tables_fixture p;

	snprintf(version, sizeof(version), "%d", SYMTAB_VERSION);
	key.arg = str_of(version);
	tables_fixture_open(&p, true);
	tables_fixture_put_debug(&p, 1);
	assert_done(store_put_bytes(p.store, &key, &meta, true, kept, STORE_ALWAYS, &err));
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void a_damaged_table_in_the_store_is_made_again(void **state)
{
	assert_made_again(bytes_of("no table", 8));
}

static void make_table(uint32_t n, struct buf *ret)
{
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct symtab_options o = { 0 };
	struct symtab_stats st;
	struct err err = { 0 };

	tables_fixture_debug(n, &file);
	src = source_of_mem(buf_bytes(&file), "file");
	assert_done(elf_open(src, &img, &err));
	assert_done(symtab_build(img, &o, ret, &st, &err));
}

/*
 * Under the build ID's name in the store: a table of another build ID, one of another version, half of one.
 */
static void a_table_in_the_store_that_is_another_one_is_made_again(void **state)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		AUTO(buf_done) struct buf table = { 0 };

		make_table(kind == 0 ? 2 : 1, &table);
		if (kind == 1)
			table.p[8]++;
		if (kind == 2)
			table.size /= 2;
		assert_made_again(buf_bytes(&table));
	}
}

/* Its head is sound: only the lookup of an address finds the damage, reports it, and has the table replaced. */
static void a_table_found_damaged_in_use_is_made_again(void **state)
{
	const struct store_meta meta = { .origin = STORE_MADE };
	struct store_key key = { tables_fixture_id(1), STORE_SYMTAB, STR("") };
	AUTO(buf_done) struct buf table = { 0 };
	struct tables_stats stats;
	struct err err = { 0 };
	char version[12];
	struct tables_fixture p;

	make_table(1, &table);
	table.p[table.size - 33] ^= 1; /* the last byte of its block: 32 bytes of padding follow */
	snprintf(version, sizeof(version), "%d", SYMTAB_VERSION);
	key.arg = str_of(version);
	tables_fixture_open(&p, true);
	tables_fixture_put_debug(&p, 1);
	assert_done(store_put_bytes(p.store, &key, &meta, true, buf_bytes(&table), STORE_ALWAYS, &err));
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "damaged");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 1);
	tables_fixture_reopen(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 0); /* the sound one is in the store */
	tables_fixture_close(&p);
}

/* It answers at once, and is made again, once, in the background: the debug file is here. */
static void a_table_of_an_earlier_maker_is_made_again_behind_its_answer(void **state)
{
	for (int has_file = 0; has_file < 2; has_file++) {
		const struct store_meta meta = { .origin = STORE_MADE };
		struct store_key key = { tables_fixture_id(1), STORE_SYMTAB, STR("") };
		AUTO(buf_done) struct buf table = { 0 };
		struct tables_stats stats;
		struct err err = { 0 };
		char version[12];
		struct tables_fixture p;

		make_table(1, &table);
		tables_fixture_age(&table);
		snprintf(version, sizeof(version), "%d", SYMTAB_VERSION);
		key.arg = str_of(version);
		tables_fixture_open(&p, true);
		p.opts.miss_ms = 1;
		tables_fixture_reopen(&p);
		if (has_file)
			tables_fixture_put_debug(&p, 1);
		assert_done(
			store_put_bytes(p.store, &key, &meta, true, buf_bytes(&table), STORE_ALWAYS, &err));
		for (int i = 0; i < 2000; i++) {
			assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
			tables_stats(p.s, &stats);
			if (stats.n_made)
				break;
			if (!has_file && i > 20)
				break;
			usleep(1000);
		}
		assert_int_equal(stats.n_made, has_file);
		/* The table in the store now is not made again. */
		tables_fixture_reopen(&p);
		for (int i = 0; i < 5; i++)
			assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
		tables_stats(p.s, &stats);
		assert_int_equal(stats.n_made, 0);
		tables_fixture_close(&p);
	}
}

/* A program with a symbol, and more that take 4 MiB when they are unpacked. */
static void put_program_with_mini_debug_info(struct tables_fixture *p)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct build_id id = tables_fixture_id(1);
	struct buf file = { 0 };
	struct code_writer w;

	content_add(&plain, CONTENT_ZEROS, MIB(4), 0);
	packed_xz(&packed, buf_bytes(&plain), 0, 0, 1);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	elf_writer_section(&w.elf, ".gnu_debugdata", SHT_PROGBITS, 0, buf_bytes(&packed));
	code_symbol(&w, "s1", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(p, RESOLVE_EXECUTABLE, 1, &file);
}

static void a_table_that_lacked_memory_is_not_stored(void **state)
{
	struct tables_module m;
	struct tables_stats stats;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	p.opts.memory = budget_new_undivided(MIB(2));
	tables_fixture_reopen(&p);
	put_program_with_mini_debug_info(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_int_equal(tables_fixture_reason(&p, 1, &m), FRAME_FOUND);
	assert_true(m.incomplete && m.lacking);
	/* Not again in this process: it has no more memory. */
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 1);
	tables_free(p.s);
	budget_free(TAKE(p.opts.memory));
	/* The next one has. */
	p.s = tables_new(&p.opts);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_int_equal(tables_fixture_reason(&p, 1, &m), FRAME_FOUND);
	assert_false(m.incomplete);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 1);
	assert_int_equal(stats.n_from_store, 0);
	tables_fixture_reopen(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 0);
	tables_fixture_close(&p);
}

/* ---- a file that is replaced while the table of the one before is opened ---- */

static struct {
	struct blobs_ops ops;
	const struct blobs_ops *real;
	struct tables *replaced_in; /* at the next opening; NULL: it was */
} opening;

static int open_late(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	int r = opening.real->open(b, name, ret, err);
	struct build_id id = tables_fixture_id(1);
	struct tables *t = opening.replaced_in;

	opening.replaced_in = NULL;
	if (t)
		tables_renew(t, &id, true, NULL, NULL);
	return r;
}

static const char *ask_at_hand(struct tables_fixture *p)
{
	struct tables_query q = { .addr = 0x1000 };
	struct build_id id = tables_fixture_id(1);
	struct tables_request *req;
	struct tables_answer a;

	assert_int_equal(tables_request_new(p->s, &id, 1, TABLES_AT_HAND,
					    (struct tables_wait){ INT64_MAX, NULL, NULL }, &req),
			 0);
	tables_find(req, &q, &a);
	p->text.size = 0;
	tables_fixture_answer_text(&a, &p->text);
	tables_request_free(req);
	return buf_cstr(&p->text);
}

static void a_table_that_is_outdated_when_it_is_open_is_not_used(void **state)
{
	struct blobs *blobs = blobs_open_memory();
	struct tables_fixture p;

	opening.real = blobs->ops;
	opening.ops = *blobs->ops;
	opening.ops.open = open_late;
	blobs->ops = &opening.ops;
	tables_fixture_open(&p, false);
	p.store = p.opts.store = store_open_blobs(blobs, &(struct store_options){ 0 });
	tables_fixture_reopen(&p);
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_reopen(&p);
	assert_string_equal(ask_at_hand(&p), "f1 /src/a.c:10");
	tables_fixture_reopen(&p);
	tables_fixture_put_debug_named(&p, 1, "g");
	opening.replaced_in = p.s;
	assert_string_equal(ask_at_hand(&p), "pending");
	assert_null(opening.replaced_in);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "g /src/a.c:10");
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_built_table_is_found_in_the_store_by_the_next_process),
		cmocka_unit_test(a_damaged_table_in_the_store_is_made_again),
		cmocka_unit_test(a_table_in_the_store_that_is_another_one_is_made_again),
		cmocka_unit_test(a_table_found_damaged_in_use_is_made_again),
		cmocka_unit_test(a_table_of_an_earlier_maker_is_made_again_behind_its_answer),
		cmocka_unit_test(a_table_that_lacked_memory_is_not_stored),
		cmocka_unit_test(a_table_that_is_outdated_when_it_is_open_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
