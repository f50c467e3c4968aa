/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include "base/budget.h"
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

/* In memory or in the store; nothing is built for it. */
static void a_request_for_tables_at_hand_searches_for_nothing(void **state)
{
	struct tables_stats stats;
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	tables_fixture_put_program(&p, 1, true);
	assert_int_equal(tables_fixture_reason(&p, 1, &m), FRAME_PENDING);
	assert_false(m.layout_known);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_builds, 0);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_int_equal(tables_fixture_reason(&p, 1, &m), FRAME_FOUND);
	/* No one asked for the layout so far, and the store has none. */
	assert_false(m.layout_known);
	tables_fixture_reopen(&p);
	assert_int_equal(tables_fixture_reason(&p, 1, &m), FRAME_FOUND);
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

/* 64-bit PowerPC's first ABI: symbols name descriptors, which a debug file has no bytes of. */
static void descriptors_that_only_the_program_has(void **state)
{
	AUTO(buf_done) struct buf file = { 0 }, opd = { 0 };
	struct tables_fixture p;
	struct code_writer w;
	struct build_id id = tables_fixture_id(1);

	tables_fixture_open(&p, true);
	for (unsigned debug = 0; debug < 2; debug++) {
		unsigned at;

		code_writer_init(&w, ELF_WRITER_S390X, ET_DYN);
		w.elf.machine = EM_PPC64;
		elf_writer_build_id(&w.elf, build_id_bytes(&id));
		opd.size = 0;
		elf_writer_put(&w.elf, &opd, 0x1000, 8);
		elf_writer_put(&w.elf, &opd, 0, 8);
		elf_writer_put(&w.elf, &opd, 0, 8);
		at = debug ? elf_writer_nobits(&w.elf, ".opd", SHF_ALLOC | SHF_WRITE, opd.size)
			   : elf_writer_section(&w.elf, ".opd", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE,
						buf_bytes(&opd));
		elf_writer_at(&w.elf, at)->addr = 0x8000;
		if (debug)
			code_symbol(&w, "described", STT_FUNC, STB_GLOBAL, 0x8000, 0x20);
		code_writer_finish(&w, &file);
		code_writer_done(&w);
		tables_fixture_put(&p, debug ? RESOLVE_DEBUGINFO : RESOLVE_EXECUTABLE, 1, &file);
	}
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "described");
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

/* A program with symbols: what may be missing at other addresses is in the debug file that could not be had. */
static void an_address_without_a_symbol_has_the_reason_of_the_debug_file(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct err late = { .kind = ERR_UPSTREAM, .os = ETIMEDOUT, .text = "no answer" };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	tables_fixture_put_program(&p, 1, true);
	tables_fixture_put_program(&p, 2, true);
	resolve_mem_fail(p.r, RESOLVE_DEBUGINFO, &id, STR(""), &late);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x3000), "timed-out");
	assert_string_equal(tables_fixture_ask(&p, 2, 0x3000), "no-debug-info");
	tables_fixture_close(&p);
}

/* Offsets in the file and addresses at run time need the program headers. */
static void an_address_that_needs_a_layout_says_why_there_is_none(void **state)
{
	struct build_id id = tables_fixture_id(1), other = tables_fixture_id(2);
	struct frame_mapping map = { .start = 0x7f0000001000, .limit = 0x7f0000002000, .offset = 0x1000 };
	struct tables_query off = { .kind = FRAME_OFFSET, .addr = 0x1000 },
			    relative = { .kind = FRAME_RELATIVE, .addr = 0x1000 },
			    no_maps = { .kind = FRAME_RUNTIME, .addr = 0x7f0000001000 },
			    runtime = {
				    .kind = FRAME_RUNTIME, .addr = 0x7f0000001000, .maps = &map, .n_maps = 1
			    };
	struct tables_request *h;
	struct tables_answer a;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	p.opts.max_builds = 1;
	tables_fixture_reopen(&p);
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_request_new(p.s, &id, 1, 0, (struct tables_wait){ INT64_MAX }, &h);
	tables_find(h, &off, &a);
	assert_int_equal(a.reason, FRAME_NO_LAYOUT); /* it was not asked for */
	tables_find(h, &runtime, &a);
	assert_int_equal(a.reason, FRAME_NO_LAYOUT);
	tables_find(h, &no_maps, &a);
	assert_int_equal(a.reason, FRAME_NO_MAPPING);
	tables_find(h, &relative, &a); /* its pages begin at 0, as far as is known */
	assert_int_equal(a.reason, FRAME_FOUND);
	tables_request_free(h);
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &other, STR(""));
	while (strcmp(tables_fixture_ask_at_once(&p, 2, 0x1000), "pending") != 0)
		usleep(1000); /* the first build has answered, but may not have ended */
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ INT64_MAX }, &h);
	tables_find(h, &off, &a);
	assert_int_equal(a.reason, FRAME_BUSY); /* asking again helps */
	tables_request_free(h);
	tables_fixture_close(&p);
}

struct order {
	size_t n;
	uint64_t sum;
	char seen[8];
	size_t at[8];
};

static void note(void *arg, size_t i, const struct tables_answer *a)
{
	struct order *o = arg;

	o->at[o->n++] = i;
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
	/* A table's rows are read on from address to address. */
	static const size_t rising[8] = { 3, 4, 1, 7, 5, 0, 6, 2 };
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
	assert_memory_equal(o.at, rising, sizeof(rising));
	tables_request_free(h);
	tables_fixture_close(&p);
}

static bool nobody_waits(void *arg)
{
	return true;
}

static void count_answer(void *arg, size_t i, const struct tables_answer *a)
{
	++*(size_t *)arg;
}

static void addresses_that_nobody_waits_for_are_not_looked_up(void **state)
{
	const size_t n = 1000;
	AUTO(mem_freep) struct tables_query *q = NEW_N(struct tables_query, n);
	struct deadline d = { .cancelled = nobody_waits };
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_fixture p;
	size_t answered = 0;

	tables_fixture_open(&p, false);
	tables_fixture_put_debug(&p, 1);
	tables_request_new(p.s, &id, 1, 0, (struct tables_wait){ INT64_MAX }, &h);
	tables_find_all(h, q, n, count_answer, &answered);
	assert_int_equal(answered, n);
	answered = 0;
	tables_request_set_deadline(h, &d);
	tables_find_all(h, q, n, count_answer, &answered);
	assert_true(answered < 100);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_becomes_a_function_file_and_line),
		cmocka_unit_test(a_return_address_is_that_of_its_call),
		cmocka_unit_test(a_request_that_does_not_wait_is_pending),
		cmocka_unit_test(a_request_for_tables_at_hand_searches_for_nothing),
		cmocka_unit_test(a_deadline_ends_the_wait),
		cmocka_unit_test(without_a_debug_file_the_programs_symbols_do),
		cmocka_unit_test(symbols_that_only_the_program_has),
		cmocka_unit_test(descriptors_that_only_the_program_has),
		cmocka_unit_test(names_of_the_supplementary_file_come_when_it_turns_up),
		cmocka_unit_test(each_miss_has_its_reason),
		cmocka_unit_test(a_miss_is_forgotten_after_a_while),
		cmocka_unit_test(an_address_without_a_symbol_has_the_reason_of_the_debug_file),
		cmocka_unit_test(an_address_that_needs_a_layout_says_why_there_is_none),
		cmocka_unit_test(all_addresses_are_answered_once),
		cmocka_unit_test(addresses_that_nobody_waits_for_are_not_looked_up),
		cmocka_unit_test(more_flights_than_allowed_are_busy),
		cmocka_unit_test(a_request_for_many_leaves_room_for_others),
		cmocka_unit_test(a_request_for_many_gets_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
