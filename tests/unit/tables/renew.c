/* SPDX-License-Identifier: Apache-2.0 */
/* A new file for a build ID is used at once, whatever is remembered, being built or kept in the store. */
#include "test.h"

#include <errno.h>
#include <stdatomic.h>
#include "tables_fixture.h"

static void renew(struct tables_fixture *p, uint32_t n, bool replaced)
{
	struct build_id id = tables_fixture_id(n);

	tables_renew(p->s, &id, replaced, NULL, NULL);
}

/* The answer to a request that waits for the best table; @ret may be NULL. */
static const char *ask_fresh(struct tables_fixture *p, uint32_t n, struct tables_module *ret)
{
	struct tables_query q = { .addr = 0x1000 };
	struct build_id id = tables_fixture_id(n);
	struct tables_request *h;
	struct tables_module m;
	struct tables_answer a;

	tables_request_new(p->s, &id, 1, TABLES_FRESH | TABLES_LAYOUTS,
			   (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_request_module(h, 0, &m);
	if (ret)
		*ret = (struct tables_module){ .reason = m.reason, .lacking = m.lacking };
	tables_find(h, &q, &a);
	p->text.size = 0;
	tables_fixture_answer_text(&a, &p->text);
	if (m.info)
		buf_printf(&p->text, " of %s", m.origin);
	tables_request_free(h);
	return buf_cstr(&p->text);
}

static void a_miss_is_forgotten_when_something_new_is_here(void **state)
{
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	renew(&p, 1, false);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void a_table_that_lacks_something_is_replaced_before_the_answer(void **state)
{
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	tables_fixture_put_program(&p, 1, true);
	assert_string_equal(ask_fresh(&p, 1, &m), "s1 of /file");
	assert_true(m.lacking);
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(ask_fresh(&p, 1, NULL), "s1 of /file");
	renew(&p, 1, false);
	assert_string_equal(ask_fresh(&p, 1, &m), "f1 /src/a.c:10 of /file");
	assert_false(m.lacking);
	tables_fixture_close(&p);
}

/* Its debug file turns up, and its table cannot be made now: what is there names on, and the debug file is tried again. */
static void a_table_outlives_a_better_one_that_fails(void **state)
{
	struct tables_stats stats;
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	p.opts.error_ms = 1;
	tables_fixture_put_program(&p, 1, true);
	assert_string_equal(ask_fresh(&p, 1, NULL), "s1 of /file");
	p.opts.temp_dir = "/nowhere/at/all";
	tables_fixture_reopen(&p);
	assert_string_equal(ask_fresh(&p, 1, NULL), "s1 of /file");
	tables_fixture_put_debug(&p, 1);
	for (int i = 0; i < 3; i++) {
		renew(&p, 1, false);
		assert_string_equal(ask_fresh(&p, 1, &m), "s1 of /file");
		assert_true(m.lacking);
		assert_string_equal(tables_fixture_ask_at_once(&p, 1, 0x1000), "s1");
	}
	/* An address outside of its symbols has the reason of the debug file. */
	assert_string_equal(tables_fixture_ask(&p, 1, 0x2000), "damaged");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 0);
	p.opts.temp_dir = NULL;
	tables_fixture_reopen(&p);
	(void)ask_fresh(&p, 1, NULL);
	assert_string_equal(ask_fresh(&p, 1, &m), "f1 /src/a.c:10 of /file");
	assert_false(m.lacking);
	tables_fixture_close(&p);
}

/* A layout of the debug file alone, while that cannot be read. */
static void a_layout_outlives_its_file(void **state)
{
	const struct err gone = { .kind = ERR_IO, .text = "read error" };
	struct build_id id = tables_fixture_id(1);
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	tables_fixture_put_debug(&p, 1);
	(void)ask_fresh(&p, 1, NULL);
	assert_int_equal(tables_fixture_reason(&p, 1, &m), FRAME_FOUND);
	assert_non_null(m.layout);
	resolve_mem_fail(p.r, RESOLVE_DEBUGINFO, &id, STR(""), &gone);
	renew(&p, 1, false);
	(void)ask_fresh(&p, 1, NULL);
	(void)tables_fixture_reason(&p, 1, &m);
	assert_non_null(m.layout);
	tables_fixture_close(&p);
}

/* Go's table, of layout 1.2, of one function at 0x1000. */
static void go_table_write(struct elf_writer *w, struct buf *out)
{
	elf_writer_put(w, out, 0xfffffffb, 4);
	elf_writer_put(w, out, 0x08010000, 4); /* the sizes of instructions and words */
	elf_writer_put(w, out, 1, 8);
	elf_writer_put(w, out, 0x1000, 8);
	elf_writer_put(w, out, 48, 8);
	elf_writer_put(w, out, 0x1100, 8);
	elf_writer_put(w, out, 0, 8); /* files */
	elf_writer_put(w, out, 0x1000, 8);
	elf_writer_put(w, out, 88, 4);
	for (unsigned i = 0; i < 7; i++)
		elf_writer_put(w, out, 0, 4); /* no files, lines, calls, data */
	buf_add(out, "main.main", 10);
	buf_add(out, "12345678", 8);
}

enum go_file { GO_PROGRAM, GO_DEBUG, GO_DEBUG_OF_C };

/*
 * A Go program without DWARF, or its debug file, which has a symbol and no bytes of Go's table; or the same with DWARF of a
 * function of C.
 */
static void put_go_file(struct tables_fixture *p, uint32_t n, enum go_file what)
{
	AUTO(buf_done) struct buf table = { 0 };
	static const char *const files[] = { "a.c", NULL };
	struct build_id id = tables_fixture_id(n);
	struct buf file = { 0 };
	struct code_writer w;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_EXEC);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	go_table_write(&w.elf, &table);
	if (what == GO_DEBUG_OF_C) {
		uint64_t lines = code_lines_begin(&w, files);

		code_row(&w, 0x1800, 1, 7);
		code_sequence_end(&w, 0x1900);
		code_lines_end(&w);
		code_unit_c(&w, lines);
		code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRING, (uint64_t)(uintptr_t) "c", A_LOW, F_ADDR,
			 UINT64_C(0x1800), A_HIGH, F_DATA4, UINT64_C(0x100), 0u);
		code_up(&w);
		code_unit_end(&w);
	}
	if (what != GO_PROGRAM) {
		code_symbol(&w, "plain", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
		elf_writer_nobits(&w.elf, ".gopclntab", SHF_ALLOC, table.size);
	} else {
		elf_writer_section(&w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&table));
	}
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(p, what == GO_PROGRAM ? RESOLVE_EXECUTABLE : RESOLVE_DEBUGINFO, n, &file);
}

static void gos_table_comes_with_the_program(void **state)
{
	for (int i = 0; i < 4; i++) {
		enum go_file debug = i % 2 ? GO_DEBUG_OF_C : GO_DEBUG;
		bool kept = i / 2;
		struct tables_stats stats;
		struct tables_module m;
		struct tables_fixture p;

		tables_fixture_open(&p, true);
		put_go_file(&p, 1, debug);
		assert_string_equal(ask_fresh(&p, 1, &m), "plain of /file");
		assert_true(m.lacking);
		/* Without the program no other table is made. */
		renew(&p, 1, false);
		assert_string_equal(ask_fresh(&p, 1, NULL), "plain of /file");
		tables_stats(p.s, &stats);
		assert_int_equal(stats.n_made, 1);
		put_go_file(&p, 1, GO_PROGRAM);
		/* The table in the store is the first answer of another process. */
		if (kept) {
			tables_fixture_reopen(&p);
			(void)ask_fresh(&p, 1, NULL);
		} else {
			renew(&p, 1, false);
		}
		assert_string_equal(ask_fresh(&p, 1, &m), "main.main of /file");
		assert_false(m.lacking);
		tables_fixture_close(&p);
	}
}

/* Move the table of @n from one store to the other, as one of an earlier maker. */
static void move_aged_table(struct tables_fixture *from, struct tables_fixture *to, uint32_t n)
{
	struct store_key key = { tables_fixture_id(n), STORE_SYMTAB, STR("") };
	AUTO(buf_done) struct buf table = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	struct store_meta meta;
	struct source *src;
	struct err err = { 0 };
	char version[12];

	snprintf(version, sizeof(version), "%d", SYMTAB_VERSION);
	key.arg = str_of(version);
	assert_done(store_open_object(from->store, &key, &a, &meta, &src, &err));
	assert_done(
		source_read_full(src, 0, buf_reserve(&table, src->size), src->size, SOURCE_SEQUENTIAL, &err));
	table.size = src->size;
	source_close(src);
	tables_fixture_age(&table);
	assert_done(store_put_bytes(to->store, &key, &meta, true, buf_bytes(&table), STORE_ALWAYS, &err));
}

static void gos_table_stays_when_the_program_is_gone(void **state)
{
	struct tables_fixture p, later;
	struct tables_module m;

	tables_fixture_open(&p, true);
	put_go_file(&p, 1, GO_DEBUG);
	put_go_file(&p, 1, GO_PROGRAM);
	assert_string_equal(ask_fresh(&p, 1, NULL), "main.main of /file");
	tables_fixture_open(&later, true);
	put_go_file(&later, 1, GO_DEBUG);
	move_aged_table(&p, &later, 1);
	for (int i = 0; i < 3; i++) {
		assert_string_equal(ask_fresh(&later, 1, &m), "main.main of /file");
		assert_true(m.lacking);
		renew(&later, 1, false);
	}
	put_go_file(&later, 1, GO_PROGRAM);
	renew(&later, 1, false);
	assert_string_equal(ask_fresh(&later, 1, &m), "main.main of /file");
	assert_false(m.lacking);
	tables_fixture_close(&later);
	tables_fixture_close(&p);
}

static void a_table_of_a_replaced_file_is_made_again(void **state)
{
	struct tables_stats stats;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(ask_fresh(&p, 1, NULL), "f1 /src/a.c:10 of /file");
	/* For a table that lacks nothing no better one is looked for, */
	renew(&p, 1, false);
	assert_string_equal(ask_fresh(&p, 1, NULL), "f1 /src/a.c:10 of /file");
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 1);
	/* unless its file is another. */
	tables_fixture_put_debug_named(&p, 1, "g");
	renew(&p, 1, true);
	assert_string_equal(ask_fresh(&p, 1, NULL), "g /src/a.c:10 of /file");
	/* Also when the table is not in memory: the one in the store is of the other file. */
	tables_fixture_reopen(&p);
	tables_fixture_put_debug_named(&p, 1, "h");
	renew(&p, 1, true);
	assert_string_equal(ask_fresh(&p, 1, NULL), "h /src/a.c:10 of /file");
	tables_fixture_reopen(&p);
	assert_string_equal(ask_fresh(&p, 1, NULL), "h /src/a.c:10 of /file");
	tables_fixture_close(&p);
}

static void put_debug_with_alt(struct tables_fixture *p, uint32_t n, uint32_t alt)
{
	struct buf file = { 0 };

	tables_fixture_debug_with_alt(n, alt, &file);
	tables_fixture_put(p, RESOLVE_DEBUGINFO, n, &file);
}

/* What the old table lacks is of the old file. */
static void a_table_that_lacks_something_of_a_replaced_file_is_made_again(void **state)
{
	struct tables_module m;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	put_debug_with_alt(&p, 1, 2);
	assert_string_equal(ask_fresh(&p, 1, NULL), "alt-missing  /src/a.c:10 of /file");
	tables_fixture_put_debug_named(&p, 1, "g");
	renew(&p, 1, true);
	assert_string_equal(ask_fresh(&p, 1, &m), "g /src/a.c:10 of /file");
	assert_false(m.lacking);
	tables_fixture_close(&p);
}

static void count_other(void *arg, const struct build_id *id)
{
	unsigned *n = arg;
	struct build_id first = tables_fixture_id(1), third = tables_fixture_id(3);

	assert_true(build_id_eq(id, &first) || build_id_eq(id, &third));
	(*n)++;
}

static void a_supplementary_file_renews_the_tables_that_lack_it(void **state)
{
	struct build_id alt = tables_fixture_id(2);
	struct buf file = { 0 };
	struct tables_fixture p;
	unsigned n = 0;

	tables_fixture_open(&p, true);
	put_debug_with_alt(&p, 1, 2);
	put_debug_with_alt(&p, 3, 2);
	put_debug_with_alt(&p, 4, 5);
	assert_string_equal(ask_fresh(&p, 1, NULL), "alt-missing  /src/a.c:10 of /file");
	assert_string_equal(ask_fresh(&p, 3, NULL), "alt-missing  /src/a.c:10 of /file");
	assert_string_equal(ask_fresh(&p, 4, NULL), "alt-missing  /src/a.c:10 of /file");
	/* Tables in the store get onto the list with their first search. */
	tables_fixture_reopen(&p);
	tables_fixture_ask(&p, 1, 0x1000);
	tables_fixture_expect(&p, 3, 0x1000, "alt-missing  /src/a.c:10");
	while (strcmp(ask_fresh(&p, 1, NULL), "alt-missing  /src/a.c:10 of /file") != 0)
		;
	ask_fresh(&p, 3, NULL);
	tables_fixture_alt(2, &file);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 2, &file);
	tables_renew(p.s, &alt, false, count_other, &n);
	assert_int_equal(n, 2);
	assert_string_equal(ask_fresh(&p, 1, NULL), "shared /src/a.c:10 of /file");
	assert_string_equal(ask_fresh(&p, 3, NULL), "shared /src/a.c:10 of /file");
	tables_renew(p.s, &alt, false, count_other, &n);
	assert_int_equal(n, 2);
	tables_fixture_close(&p);
}

/* ---- a resolver that never says when, until something is pushed ---- */

struct slow {
	struct resolver resolver;
	struct resolver *here;
	atomic_bool pushed;
	atomic_int n_waiting;
	struct resolve_wake wake;
};

static int slow_resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
			struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct slow *s = CONTAINER_OF(r, struct slow, resolver);

	if (atomic_load(&s->pushed))
		return resolve(s->here, req, wake, ret, why, err);
	/* The other server does not answer before the end. */
	s->wake = wake;
	atomic_fetch_add(&s->n_waiting, 1);
	return RESOLVE_WAIT;
}

static void ready(void *arg)
{
	atomic_store((atomic_bool *)arg, true);
}

static void a_request_that_waits_for_upstream_gets_the_pushed_file(void **state)
{
	static const struct resolver_ops ops = { .resolve = slow_resolve };
	struct slow slow = { .resolver.ops = &ops };
	struct tables_query q = { .addr = 0x1000 };
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_answer a;
	atomic_bool is_ready = false;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	slow.here = p.r;
	p.opts.resolver = &slow.resolver;
	tables_fixture_reopen(&p);
	assert_int_equal(tables_request_new(p.s, &id, 1, TABLES_FRESH,
					    (struct tables_wait){ INT64_MAX, ready, &is_ready }, &h),
			 TABLES_WAITS);
	while (!atomic_load(&slow.n_waiting))
		usleep(1000);
	tables_fixture_put_debug(&p, 1);
	atomic_store(&slow.pushed, true);
	renew(&p, 1, true);
	while (!atomic_load(&is_ready))
		usleep(1000);
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	tables_request_free(h);
	slow.wake.fn(slow.wake.arg);
	tables_fixture_close(&p);
}

/* ---- a resolver whose other servers may be asked for naming only ---- */

struct thrifty {
	struct resolver resolver;
	struct resolver *here;
	atomic_uint n_refused;
};

static int thrifty_resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
			   struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct thrifty *s = CONTAINER_OF(r, struct thrifty, resolver);

	if (req->client == RESOLVE_FOR_NAMING)
		return resolve(s->here, req, wake, ret, why, err);
	assert_int_equal(req->client, RESOLVE_FOR_ADDRESSES);
	atomic_fetch_add(&s->n_refused, 1);
	why->reason = RESOLVE_UPSTREAM_FAILED;
	(void)err_set(err, ERR_UPSTREAM, "not asked");
	err->os = EBUSY;
	return -1;
}

static enum frame_reason reason_for(struct tables_fixture *p, unsigned flags)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_module m;

	tables_request_new(p->s, &id, 1, flags, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_request_module(h, 0, &m);
	tables_request_free(h);
	return m.reason;
}

/* Clients that ask for addresses have used up their budget of questions; naming has one of its own. */
static void a_question_that_was_not_asked_is_asked_for_the_next_caller(void **state)
{
	static const struct resolver_ops ops = { .resolve = thrifty_resolve };
	struct thrifty thrifty = { .resolver.ops = &ops };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	thrifty.here = p.r;
	p.opts.resolver = &thrifty.resolver;
	tables_fixture_reopen(&p);
	tables_fixture_put_debug(&p, 1);
	assert_int_equal(reason_for(&p, TABLES_UNSCANNED), FRAME_UPSTREAM_FAILED);
	assert_int_equal(reason_for(&p, TABLES_UNSCANNED), FRAME_UPSTREAM_FAILED);
	assert_true(atomic_load(&thrifty.n_refused) >= 2);
	assert_int_equal(reason_for(&p, TABLES_FRESH), FRAME_FOUND);
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_miss_is_forgotten_when_something_new_is_here),
		cmocka_unit_test(a_table_that_lacks_something_is_replaced_before_the_answer),
		cmocka_unit_test(a_table_outlives_a_better_one_that_fails),
		cmocka_unit_test(a_layout_outlives_its_file),
		cmocka_unit_test(gos_table_comes_with_the_program),
		cmocka_unit_test(gos_table_stays_when_the_program_is_gone),
		cmocka_unit_test(a_table_of_a_replaced_file_is_made_again),
		cmocka_unit_test(a_table_that_lacks_something_of_a_replaced_file_is_made_again),
		cmocka_unit_test(a_supplementary_file_renews_the_tables_that_lack_it),
		cmocka_unit_test(a_request_that_waits_for_upstream_gets_the_pushed_file),
		cmocka_unit_test(a_question_that_was_not_asked_is_asked_for_the_next_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
