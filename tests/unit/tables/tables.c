/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <unistd.h>

#include <errno.h>
#include <stdio.h>
#include "base/budget.h"
#include "packed.h"
#include "tables_fixture.h"

static void an_address_becomes_a_function_file_and_line(void **state)
{
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1010), "f1 /src/a.c:11");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x2000), "outside");
	assert_string_equal(tables_fixture_ask_at_once(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void a_return_address_is_that_of_its_call(void **state)
{
	struct tables_query q = { .addr = 0x1010, .is_return = true },
			    end = { .addr = 0x1100, .is_return = true };
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_answer a;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	tables_fixture_put_debug(&p, 1);
	tables_request_new(p.s, &id, 1, 0, (struct tables_wait){ INT64_MAX }, &h);
	tables_find(h, &q, &a);
	assert_int_equal(a.frames->list[0].line, 10);
	assert_int_equal(a.addr, 0x1010);
	/* A call that does not return may be the last instruction of its function. */
	tables_find(h, &end, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	q.addr = 0;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_OUTSIDE);
	tables_request_free(h);
	tables_fixture_close(&p);
}

static void a_request_that_does_not_wait_is_pending(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
	assert_string_equal(tables_fixture_ask_at_once(&p, 1, 0x1000), "pending");
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static enum frame_reason reason_at_hand(struct tables_fixture *p, uint32_t n, struct tables_module *m)
{
	struct build_id id = tables_fixture_id(n);
	struct tables_request *req;

	assert_int_equal(tables_request_new(p->s, &id, 1, TABLES_AT_HAND | TABLES_LAYOUTS,
					    (struct tables_wait){ INT64_MAX }, &req),
			 0);
	tables_request_module(req, 0, m);
	tables_request_free(req);
	return m->reason;
}

/* In memory or in the store; nothing is built for it. */
static void a_request_for_tables_at_hand_searches_for_nothing(void **state)
{
	struct tables_stats stats;
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	tables_fixture_put_program(&p, 1, true);
	assert_int_equal(reason_at_hand(&p, 1, &m), FRAME_PENDING);
	assert_false(m.layout_known);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_builds, 0);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_int_equal(reason_at_hand(&p, 1, &m), FRAME_FOUND);
	/* No one asked for the layout so far, and the store has none. */
	assert_false(m.layout_known);
	tables_fixture_reopen(&p);
	assert_int_equal(reason_at_hand(&p, 1, &m), FRAME_FOUND);
	assert_true(m.lacking);
	assert_true(m.due);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_builds, 0);
	assert_int_equal(stats.n_made, 0);
	/* Another request still looks for a better one. */
	tables_fixture_put_debug(&p, 1);
	tables_fixture_expect(&p, 1, 0x1000, "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void a_deadline_ends_the_wait(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
	tables_request_new(p.s, &id, 1, 0, (struct tables_wait){ clock_mono_ms() + 50 }, &h);
	tables_request_module(h, 0, &m);
	assert_int_equal(m.reason, FRAME_PENDING);
	assert_true(frame_reason_passes(m.reason));
	tables_request_free(h);
	tables_fixture_close(&p);
}

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
		/* What is in the store now is not made again. */
		tables_fixture_reopen(&p);
		for (int i = 0; i < 5; i++)
			assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
		tables_stats(p.s, &stats);
		assert_int_equal(stats.n_made, 0);
		tables_fixture_close(&p);
	}
}

static void without_a_debug_file_the_programs_symbols_do(void **state)
{
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	p.opts.miss_ms = 1;
	tables_fixture_reopen(&p);
	tables_fixture_put_program(&p, 1, true);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	/* Until one turns up. */
	tables_fixture_put_debug(&p, 1);
	tables_fixture_expect(&p, 1, 0x1000, "f1 /src/a.c:10");
	tables_fixture_reopen(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

/* The debug file has DWARF of [0x1000, 0x1100), and no symbol table. */
static void symbols_that_only_the_program_has(void **state)
{
	AUTO(buf_done) struct buf file = { 0 };
	struct tables_fixture p;
	struct code_writer w;
	struct build_id id = tables_fixture_id(1);

	tables_fixture_open(&p, true);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_unit_begin(&w);
	code_die(&w, T_COMPILE, true, A_LANGUAGE, F_DATA1, (uint64_t)0x1d, 0u);
	code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRING, (uint64_t)(uintptr_t) "f1", A_LOW, F_ADDR,
		 (uint64_t)0x1000, A_HIGH, F_DATA4, (uint64_t)0x100, 0u);
	code_up(&w);
	code_unit_end(&w);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, "by_hand", STT_FUNC, STB_GLOBAL, 0x1800, 0x10);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_EXECUTABLE, 1, &file);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1800), "by_hand");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1");
	/* The table in the store has them, too. */
	tables_fixture_reopen(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1800), "by_hand");
	tables_fixture_close(&p);
}

static void names_of_the_supplementary_file_come_when_it_turns_up(void **state)
{
	struct tables_stats stats;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	p.opts.miss_ms = 1;
	tables_fixture_reopen(&p);
	tables_fixture_debug_with_alt(1, 2, &file);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "alt-missing  /src/a.c:10");
	tables_fixture_alt(2, &file);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 2, &file);
	tables_fixture_expect(&p, 1, 0x1000, "shared /src/a.c:10");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_replaced, 1);
	tables_fixture_close(&p);
}

static void each_miss_has_its_reason(void **state)
{
	struct build_id timeout = tables_fixture_id(5), broken = tables_fixture_id(6),
			upstream = tables_fixture_id(7), none = { 0 };
	struct err late = { .kind = ERR_UPSTREAM, .os = ETIMEDOUT, .text = "no answer" },
		   bad = { .kind = ERR_INVALID, .text = "damaged" },
		   failed = { .kind = ERR_UPSTREAM, .text = "500" };
	struct tables_query q = { .module = 0 };
	struct tables_answer a;
	struct tables_request *h;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	tables_fixture_put_program(&p, 2, false);
	assert_string_equal(tables_fixture_ask(&p, 2, 0x1000), "no-symbols");
	buf_add_str(&file, STR("<html>"));
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 3, &file);
	assert_string_equal(tables_fixture_ask(&p, 3, 0x1000), "not-elf");
	resolve_mem_fail(p.r, RESOLVE_DEBUGINFO, &timeout, STR(""), &late);
	resolve_mem_fail(p.r, RESOLVE_DEBUGINFO, &broken, STR(""), &bad);
	resolve_mem_fail(p.r, RESOLVE_DEBUGINFO, &upstream, STR(""), &failed);
	assert_string_equal(tables_fixture_ask(&p, 5, 0x1000), "timed-out");
	assert_string_equal(tables_fixture_ask(&p, 6, 0x1000), "damaged");
	assert_string_equal(tables_fixture_ask(&p, 7, 0x1000), "upstream-failed");
	tables_request_new(p.s, &none, 1, 0, (struct tables_wait){ INT64_MAX }, &h);
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_NO_BUILD_ID);
	q.module = TABLES_NO_MODULE;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_NO_BUILD_ID);
	tables_request_free(h);
	tables_fixture_close(&p);
}

static void a_miss_is_forgotten_after_a_while(void **state)
{
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	p.opts.miss_ms = 1;
	tables_fixture_reopen(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	tables_fixture_put_debug(&p, 1);
	tables_fixture_expect(&p, 1, 0x1000, "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

struct order {
	size_t n;
	uint64_t sum;
	char seen[8];
};

static void note(void *arg, size_t i, const struct tables_answer *a)
{
	struct order *o = arg;

	o->n++;
	o->seen[i]++;
	o->sum += a->frames ? a->frames->list[0].line : 0;
}

static void all_addresses_are_answered_once(void **state)
{
	struct build_id ids[2] = { tables_fixture_id(1), tables_fixture_id(2) };
	struct tables_query q[8] = { { .module = 1, .addr = 0x1000 },
				     { .module = 0, .addr = 0x1020 },
				     { .module = 7 },
				     { .module = 0, .addr = 0x1000 },
				     { .module = 0, .addr = 0x1000 },
				     { .module = 1, .addr = 9 },
				     { .module = 1, .addr = 0x1010 },
				     { .module = 0, .addr = UINT64_MAX } };
	struct order o = { 0 };
	struct tables_request *h;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	for (uint32_t n = 1; n <= 2; n++)
		tables_fixture_put_debug(&p, n);
	tables_request_new(p.s, ids, 2, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_find_all(h, q, ARRAY_SIZE(q), note, &o);
	assert_int_equal(o.n, 8);
	assert_int_equal(o.sum, 10 + 12 + 10 + 10 + 11);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(o.seen[i], 1);
	tables_request_free(h);
	tables_fixture_close(&p);
}

static void more_flights_than_allowed_are_busy(void **state)
{
	struct build_id a = tables_fixture_id(1), b = tables_fixture_id(2);
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	p.opts.max_builds = 1;
	tables_fixture_reopen(&p);
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &a, STR(""));
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &b, STR(""));
	assert_string_equal(tables_fixture_ask_at_once(&p, 1, 0x1000), "pending");
	assert_string_equal(tables_fixture_ask(&p, 2, 0x1000), "busy");
	tables_fixture_close(&p);
}

static void count_ready(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* One request whose files never come does not use up the builds of others. */
static void a_request_for_many_leaves_room_for_others(void **state)
{
	enum { MANY = 500 };
	AUTO(mem_freep) struct build_id *ids = NEW_N(struct build_id, MANY);
	const int64_t later = clock_mono_ms() + 60000;
	struct tables_request *req;
	struct tables_stats st;
	struct tables_fixture p;
	atomic_uint n_ready = 0;

	tables_fixture_open(&p, false);
	p.opts.max_builds = 64;
	tables_fixture_reopen(&p);
	for (uint32_t i = 0; i < MANY; i++) {
		ids[i] = tables_fixture_id(100 + i);
		resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &ids[i], STR(""));
	}
	tables_fixture_put_debug(&p, 1);
	assert_int_equal(tables_request_new(p.s, ids, MANY, 0,
					    (struct tables_wait){ later, count_ready, &n_ready }, &req),
			 TABLES_WAITS);
	tables_stats(p.s, &st);
	assert_in_range(st.n_builds, 1, 40);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	assert_int_equal(n_ready, 0);
	tables_stop(p.s);
	assert_int_equal(n_ready, 1);
	tables_request_free(req);
	tables_fixture_close(&p);
}

/* All of a long list are asked for in the end, and answered. */
static void a_request_for_many_gets_all(void **state)
{
	enum { MANY = 150 };
	struct build_id ids[MANY];
	struct tables_request *req;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	for (uint32_t i = 0; i < MANY; i++) {
		ids[i] = tables_fixture_id(1 + i);
		if (i % 3)
			tables_fixture_put_debug(&p, 1 + i);
	}
	tables_request_new(p.s, ids, MANY, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 },
			   &req);
	for (size_t i = 0; i < MANY; i++) {
		struct tables_module m;

		tables_request_module(req, i, &m);
		assert_int_equal(m.reason, i % 3 ? FRAME_FOUND : FRAME_UNKNOWN);
	}
	tables_request_free(req);
	tables_fixture_close(&p);
}

static void a_relocatable_file_is_asked_by_section(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_query q = { .kind = FRAME_SECTION, .addr = 0x10 };
	struct frame_mapping map = { .start = 0xffffffffc0001000, .limit = 0xffffffffc0002000 };
	struct tables_request *h;
	struct tables_answer a;
	struct code_writer w;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	w.text = 0;
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, "m", STT_FUNC, STB_GLOBAL, 0, 0x100);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_find(h, &q, &a);
	if (a.reason == FRAME_FOUND)
		assert_str(a.frames->list[0].name, "m");
	q = (struct tables_query){ .kind = FRAME_SECTION, .addr = 0x10, .section = STR(".nothing") };
	tables_find(h, &q, &a);
	assert_int_not_equal(a.reason, FRAME_FOUND);
	q = (struct tables_query){
		.kind = FRAME_RUNTIME, .addr = 0xffffffffc0001010, .maps = &map, .n_maps = 1
	};
	tables_find(h, &q, &a);
	q.addr = 5;
	tables_find(h, &q, &a);
	assert_int_not_equal(a.reason, FRAME_FOUND);
	tables_request_free(h);
	tables_fixture_close(&p);
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
	assert_int_equal(reason_at_hand(&p, 1, &m), FRAME_FOUND);
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
	assert_int_equal(reason_at_hand(&p, 1, &m), FRAME_FOUND);
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

#define MANY_SECTIONS 20000u

/* Each address names its section; of two with one name the first counts. */
static void a_file_of_many_sections_is_asked_by_section(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_query *q = NEW_N(struct tables_query, MANY_SECTIONS);
	char(*names)[16] = mem_alloc(MANY_SECTIONS * sizeof(*names));
	const struct symtab_info *info;
	struct tables_request *h;
	struct tables_module m;
	struct code_writer w;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	code_symbol(&w, "m", STT_FUNC, STB_GLOBAL, 1, 1);
	for (unsigned i = 0; i < MANY_SECTIONS; i++) {
		/* The last has the name of the first. */
		snprintf(names[i], sizeof(names[i]), ".text.%u", i + 1 == MANY_SECTIONS ? 0 : i);
		elf_writer_section(&w.elf, names[i], SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR,
				   bytes_of("\xc3\xc3\xc3\xc3\xc3\xc3\xc3\xc3", 8));
		q[i] = (struct tables_query){ .kind = FRAME_SECTION, .addr = 3, .section = str_of(names[i]) };
	}
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_request_module(h, 0, &m);
	info = m.info;
	assert_non_null(info);
	assert_int_equal(info->n_sections, MANY_SECTIONS + 1);
	for (unsigned i = 0; i < MANY_SECTIONS; i++) {
		const struct symtab_section *sec = &info->sections[i + 1 == MANY_SECTIONS ? 0 : i];
		struct tables_answer a;

		tables_find(h, &q[i], &a);
		assert_str(sec->name, names[i]);
		assert_int_equal(a.addr, sec->base + 3);
		q[i].addr = 8;
		tables_find(h, &q[i], &a);
		assert_int_equal(a.reason, FRAME_OUTSIDE);
		assert_int_equal(a.addr, 0);
	}
	tables_request_free(h);
	tables_fixture_close(&p);
	free(q);
	free(names);
}

/* Code of 0x1000 bytes, a page into the file, with one function. */
static void put_object(struct tables_fixture *p, enum resolve_kind kind, uint64_t text, bool prelinked)
{
	struct build_id id = tables_fixture_id(1);
	struct elf_writer_segment *s;
	struct buf file = { 0 };
	struct code_writer w;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	w.text = text;
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, "f", STT_FUNC, STB_GLOBAL, text + 0x100, 0x100);
	if (prelinked)
		elf_writer_section(&w.elf, ".gnu.prelink_undo", SHT_PROGBITS, 0, bytes_of("before", 6));
	s = elf_writer_segment_at(&w.elf, elf_writer_segment(&w.elf, PT_LOAD, PF_R | PF_X, 0));
	s->off = s->align = 0x1000;
	s->vaddr = text;
	s->filesz = kind == RESOLVE_EXECUTABLE ? 0x1000 : 0;
	s->memsz = 0x1000;
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(p, kind, 1, &file);
}

/*
 * The table is of the debug file, from before prelinking; the program has the places of the code in memory
 * and in the file.
 */
static void addresses_of_a_prelinked_object_are_moved_back(void **state)
{
	const struct frame_mapping map = { 0x7f0000001000, 0x7f0000002000, 0x1000, { 0 } };
	const struct tables_query queries[] = {
		{ .kind = FRAME_RUNTIME, .addr = 0x7f0000001110, .maps = &map, .n_maps = 1 },
		{ .kind = FRAME_OFFSET, .addr = 0x1110 },
		{ .kind = FRAME_VADDR, .addr = 0x1110 },
	};
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_answer a;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	put_object(&p, RESOLVE_DEBUGINFO, 0x1000, false);
	put_object(&p, RESOLVE_EXECUTABLE, 0x3000001000, true);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		tables_find(h, &queries[i], &a);
		assert_int_equal(a.reason, FRAME_FOUND);
		assert_int_equal(a.addr, 0x1110);
		assert_str(a.frames->list[0].name, "f");
		assert_int_equal(a.frames->start, 0x1100);
	}
	tables_request_free(h);
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_becomes_a_function_file_and_line),
		cmocka_unit_test(a_return_address_is_that_of_its_call),
		cmocka_unit_test(a_request_that_does_not_wait_is_pending),
		cmocka_unit_test(a_request_for_tables_at_hand_searches_for_nothing),
		cmocka_unit_test(a_deadline_ends_the_wait),
		cmocka_unit_test(a_built_table_is_found_in_the_store_by_the_next_process),
		cmocka_unit_test(a_damaged_table_in_the_store_is_made_again),
		cmocka_unit_test(a_table_in_the_store_that_is_another_one_is_made_again),
		cmocka_unit_test(a_table_of_an_earlier_maker_is_made_again_behind_its_answer),
		cmocka_unit_test(without_a_debug_file_the_programs_symbols_do),
		cmocka_unit_test(symbols_that_only_the_program_has),
		cmocka_unit_test(names_of_the_supplementary_file_come_when_it_turns_up),
		cmocka_unit_test(each_miss_has_its_reason),
		cmocka_unit_test(a_miss_is_forgotten_after_a_while),
		cmocka_unit_test(all_addresses_are_answered_once),
		cmocka_unit_test(more_flights_than_allowed_are_busy),
		cmocka_unit_test(a_request_for_many_leaves_room_for_others),
		cmocka_unit_test(a_request_for_many_gets_all),
		cmocka_unit_test(a_relocatable_file_is_asked_by_section),
		cmocka_unit_test(a_table_that_lacked_memory_is_not_stored),
		cmocka_unit_test(a_file_of_many_sections_is_asked_by_section),
		cmocka_unit_test(addresses_of_a_prelinked_object_are_moved_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
