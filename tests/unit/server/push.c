/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads without HTTP: sessions of parts, checks of files, want lists. */
#include "test.h"

#include <pthread.h>
#include "elf_writer.h"
#include "fault_source.h"
#include "pkg_writer.h"
#include "server/push/push.h"

struct push_fixture {
	char dir[TEST_PATH_SIZE];
	struct store *st;
	struct sessions *t;
	uint8_t *p;
};

#define ALL MIB(3)

static void open_all(struct push_fixture *f, uint64_t max_bytes)
{
	struct err err = { 0 };

	assert_done(store_open(f->dir, &(struct store_options){ .create = true }, &f->st, &err));
	f->t = sessions_new(f->st, max_bytes);
}

static void close_all(struct push_fixture *f)
{
	sessions_free(f->t);
	store_close(f->st);
}

static int set_up(void **state)
{
	struct push_fixture *f = NEW(struct push_fixture);

	log_set_level(LOG_ERROR);
	test_dir_make(f->dir);
	open_all(f, MIB(100));
	f->p = mem_alloc(ALL);
	test_fill(f->p, ALL, 5);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct push_fixture *f = *state;

	clock_test_thaw();
	close_all(f);
	test_dir_remove(f->dir);
	free(f->p);
	free(f);
	return 0;
}

/* A part of ALL bytes of the upload number @n. */
static struct push_request part(unsigned n, const char *token)
{
	struct push_request pr = { .has_sha256 = true, .total = ALL, .size = 1000 };

	assert_true(build_id_parse(&pr.key.id, STR("ab01")));
	pr.sha256[0] = (uint8_t)n;
	snprintf(pr.token, sizeof(pr.token), "%s", token);
	return pr;
}

static struct session *take(struct push_fixture *f, unsigned n)
{
	struct push_request pr = part(n, "ci");
	struct session *s = session_take(f->t, &pr);

	assert_non_null(s);
	return s;
}

static void write_to(struct push_fixture *f, struct session *s, uint64_t end)
{
	struct err err = { 0 };

	assert_done(session_open(f->t, s, ALL, NULL, &err));
	assert_done(
		store_put_write(s->put, bytes_of(f->p + session_offset(s), end - session_offset(s)), &err));
}

static bool peek(struct push_fixture *f, unsigned n, uint64_t *off, bool *busy)
{
	struct push_request pr = part(n, "ci");

	*off = 0;
	*busy = false;
	return session_peek(f->t, &pr, off, busy);
}

/* ---- sessions ---- */

static void an_upload_waits_for_its_next_part(void **state)
{
	struct push_fixture *f = *state;
	struct push_request other = part(1, "someone"), whole = part(1, "ci");
	struct session *s = take(f, 1), *t;
	uint64_t off;
	bool busy;

	assert_int_equal(session_offset(s), 0);
	write_to(f, s, 5000);
	assert_true(peek(f, 1, &off, &busy) && busy);
	/* The session is in use; an upload of the whole file gets another. */
	assert_null(session_take(f->t, &whole));
	whole.size = whole.total;
	t = session_take(f->t, &whole);
	assert_true(t && t != s && !t->named);
	session_drop(f->t, t);
	session_park(f->t, s);
	assert_true(peek(f, 1, &off, &busy) && !busy && off == 5000);
	assert_false(session_peek(f->t, &other, &off, &busy));
	s = take(f, 1);
	assert_int_equal(session_offset(s), 5000);
	session_reset(f->t, s);
	assert_int_equal(session_offset(s), 0);
	session_park(f->t, s); /* an empty session is not parked */
	assert_false(peek(f, 1, &off, &busy));
}

static void without_a_sha256_no_session_is_parked(void **state)
{
	struct push_fixture *f = *state;
	struct push_request pr = part(1, "ci");
	struct session *s, *t;

	pr.has_sha256 = false;
	s = session_take(f->t, &pr);
	t = session_take(f->t, &pr);
	assert_true(s && t && s != t);
	write_to(f, s, 5000);
	session_park(f->t, s);
	session_drop(f->t, t);
	s = session_take(f->t, &pr);
	assert_int_equal(session_offset(s), 0);
	session_drop(f->t, s);
}

static void the_oldest_sessions_expire_by_number_bytes_and_time(void **state)
{
	struct push_fixture *f = *state;
	uint64_t off;
	bool busy;

	clock_test_freeze(1000000);
	for (unsigned i = 0; i < 70; i++) {
		struct session *s = take(f, i);

		write_to(f, s, 100);
		session_park(f->t, s);
		clock_test_advance(1000);
	}
	for (unsigned i = 0; i < 70; i++)
		assert_int_equal(peek(f, i, &off, &busy), i >= 6);
	clock_test_advance(3600 * 1000 - 10500);
	session_drop(f->t, take(f, 100)); /* any other session */
	for (unsigned i = 0; i < 70; i++)
		assert_int_equal(peek(f, i, &off, &busy), i >= 60);
	close_all(f);
	open_all(f, 2 * ALL - 1);
	for (unsigned i = 200; i < 203; i++) {
		struct session *s = take(f, i);

		write_to(f, s, ALL - 1000);
		session_park(f->t, s);
		assert_true(peek(f, i, &off, &busy));
		assert_false(i > 201 && peek(f, i - 2, &off, &busy));
	}
}

static void parked_sessions_have_a_quarter_of_the_quota_and_an_hour(void **state)
{
	const struct store_options opts = { .create = true, .quota = 8 * ALL };
	struct push_fixture *f = *state;
	struct store_stats stats;
	struct err err = { 0 };
	uint64_t off, used;
	bool busy;

	clock_test_freeze(1000000);
	close_all(f);
	assert_done(store_open(f->dir, &opts, &f->st, &err));
	f->t = sessions_new(f->st, 100 * ALL);
	assert_done(store_stats(f->st, &stats, &err));
	for (unsigned i = 0; i < 5; i++) {
		struct session *s = take(f, i);

		write_to(f, s, ALL - 1000);
		session_park(f->t, s);
		clock_test_advance(1000);
	}
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(peek(f, i, &off, &busy), i >= 3);
	assert_true(store_usage(f->st, &used) && used == 2 * (ALL - 1000));
	/* They expire without further uploads. */
	sessions_expire(f->t);
	assert_true(peek(f, 3, &off, &busy));
	clock_test_advance(3600 * 1000);
	sessions_expire(f->t);
	assert_false(peek(f, 3, &off, &busy) || peek(f, 4, &off, &busy));
	assert_true(store_usage(f->st, &used) && used == 0);
}

static void sessions_of_the_last_process_are_found(void **state)
{
	struct push_fixture *f = *state;
	struct err err = { 0 };
	struct session *s;
	uint64_t off;
	bool busy;

	clock_test_freeze(10000000);
	for (unsigned i = 1; i < 4; i++) {
		s = take(f, i);
		write_to(f, s, MIB(1) + i * CODEC_FRAME_SIZE);
		session_park(f->t, s);
		clock_test_advance(1000000);
	}
	close_all(f);
	open_all(f, MIB(100));
	for (unsigned i = 1; i < 4; i++)
		assert_true(peek(f, i, &off, &busy) && !busy && off == MIB(1) + i * CODEC_FRAME_SIZE);
	/* One is dropped, one is started anew, one continues. */
	session_drop(f->t, take(f, 1));
	assert_false(peek(f, 1, &off, &busy));
	s = take(f, 2);
	session_reset(f->t, s);
	write_to(f, s, 100);
	assert_int_equal(session_offset(s), 100);
	session_drop(f->t, s);
	s = take(f, 3);
	assert_int_equal(session_offset(s), MIB(1) + 3 * CODEC_FRAME_SIZE);
	assert_done(session_open(f->t, s, ALL, NULL, &err));
	assert_int_equal(session_offset(s), MIB(1) + 3 * CODEC_FRAME_SIZE);
	session_park(f->t, s);
	/* A clock that is ahead at the start ends no session: it has an hour of this process. */
	close_all(f);
	clock_test_freeze(INT64_C(365) * 86400);
	open_all(f, MIB(100));
	assert_true(peek(f, 3, &off, &busy) && off == MIB(1) + 3 * CODEC_FRAME_SIZE);
	clock_test_advance(3500 * 1000);
	session_drop(f->t, take(f, 100));
	assert_true(peek(f, 3, &off, &busy));
	clock_test_advance(200 * 1000);
	session_drop(f->t, take(f, 100));
	assert_false(peek(f, 3, &off, &busy));
	close_all(f);
	open_all(f, MIB(100));
	assert_false(peek(f, 3, &off, &busy));
}

struct racer {
	struct push_fixture *f;
	pthread_t thread;
	unsigned n_taken, n_busy;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	for (unsigned i = 0; i < 300; i++) {
		struct push_request pr = part(i % 5, "ci");
		struct session *s = session_take(r->f->t, &pr);
		uint64_t off;
		bool busy;

		session_peek(r->f->t, &pr, &off, &busy);
		if (!s) {
			r->n_busy++;
			continue;
		}
		r->n_taken++;
		if (session_offset(s) + 100 > ALL || i % 37 == 0) {
			session_drop(r->f->t, s);
			continue;
		}
		write_to(r->f, s, session_offset(s) + 100);
		session_park(r->f->t, s);
	}
	return NULL;
}

static void many_take_and_park_at_once(void **state)
{
	struct racer racers[6];
	struct push_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(racers); i++) {
		racers[i] = (struct racer){ .f = f };
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(racers); i++) {
		pthread_join(racers[i].thread, NULL);
		assert_int_equal(racers[i].n_taken + racers[i].n_busy, 300);
	}
}

/* ---- checks ---- */

static int check(enum store_kind kind, const char *id, struct bytes b, enum store_quality *ret,
		 struct err *err)
{
	struct push_request pr = { .key.kind = kind };
	struct source *src = source_of_mem(b, "pushed");
	int r;

	assert_true(build_id_parse(&pr.key.id, str_of(id)));
	r = push_check_head(&pr, bytes_of(b.p, MIN(b.size, (size_t)1000)), err);
	if (r == 0)
		r = push_check(&pr, src, err);
	if (r == 0)
		*ret = pr.meta.quality;
	source_close(src);
	return r;
}

static void an_elf_file_is_what_its_key_says(void **state)
{
	static const char id[] = "00112233445566778899aabbccddeeff00112233";
	AUTO(buf_done) struct buf program = { 0 }, debug = { 0 };
	enum store_quality quality = STORE_STRIPPED;
	struct err err = { 0 };

	elf_writer_program(&program, ET_DYN, id, 5000);
	elf_writer_debug_file(&debug, ET_DYN, id, 5000);
	assert_done(check(STORE_DEBUGINFO, id, buf_bytes(&debug), &quality, &err));
	assert_int_equal(quality, STORE_DWARF);
	assert_done(check(STORE_EXECUTABLE, id, buf_bytes(&program), &quality, &err));
	assert_fails(check(STORE_EXECUTABLE, id, buf_bytes(&debug), &quality, &err), ERR_INVALID,
		     "push it as debuginfo");
	assert_fails(check(STORE_DEBUGINFO, "ab01", buf_bytes(&debug), &quality, &err), ERR_INVALID, id);
	assert_fails(check(STORE_DEBUGINFO, id, bytes_of("hello, world", 12), &quality, &err), ERR_INVALID,
		     "not an ELF file");
	assert_fails(check(STORE_DEBUGINFO, id, bytes_of("\177ELF", 4), &quality, &err), ERR_INVALID, "ELF");
	for (size_t n = 5; n < debug.size; n += n < 300 ? 7 : 499)
		if (check(STORE_DEBUGINFO, id, bytes_of(debug.p, n), &quality, &err) < 0)
			assert_int_equal(err.kind, ERR_INVALID);
}

/* A file whose dynamic symbols are all that it has. */
static void write_bare(struct buf *ret)
{
	static const uint8_t symbols[2 * sizeof(Elf64_Sym)];
	const uint8_t id[20] = { 0, 0x11 };
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, bytes_of(id, sizeof(id)));
	elf_writer_section(&w, ".dynsym", SHT_DYNSYM, SHF_ALLOC, bytes_of(symbols, sizeof(symbols)));
	elf_writer_finish(&w, ret);
	elf_writer_done(&w);
}

/* Each read fails once: the file is never taken for another one, nor for one without symbols. */
static void assert_no_read_fails_unseen(struct bytes file, enum store_kind kind)
{
	struct source *mem = source_of_mem(file, "pushed"), *src = fault_source_new(mem, false);
	struct err err = { 0 };
	bool failed = true;

	for (unsigned n = 0; failed; n++) {
		enum store_kind got = STORE_SOURCES;
		int r;

		fault_clear(src);
		fault_fail_at(src, n);
		r = push_kind_of(src, &got, &err);
		failed = r < 0;
		if (failed)
			assert_int_equal(err.kind, ERR_IO);
		else
			assert_int_equal(r, 0);
		if (!failed)
			assert_int_equal(got, kind);
	}
	source_close(src);
	source_close(mem);
}

static void a_file_that_cannot_be_read_is_not_judged(void **state)
{
	AUTO(buf_done) struct buf program = { 0 }, debug = { 0 }, bare = { 0 };

	elf_writer_program(&program, ET_DYN, "00112233445566778899aabbccddeeff00112233", 5000);
	elf_writer_debug_file(&debug, ET_DYN, "00112233445566778899aabbccddeeff00112233", 5000);
	write_bare(&bare);
	assert_no_read_fails_unseen(buf_bytes(&program), STORE_EXECUTABLE);
	assert_no_read_fails_unseen(buf_bytes(&debug), STORE_DEBUGINFO);
	assert_no_read_fails_unseen(buf_bytes(&bare), STORE_DEBUGINFO);
}

static void a_tar_holds_files_by_safe_names(void **state)
{
	static const struct {
		const char *name, *link;
		unsigned mode;
		const char *says; /* NULL: it is accepted */
	} members[] = {
		{ "usr/src/x.c", NULL, 0100644, NULL },
		{ "./usr/src/x.c", NULL, 0100644, NULL },
		{ "usr/src/../../etc/passwd", NULL, 0100644, "'..'" },
		{ "usr/src/x.c", "/etc/passwd", 0120777, "a link" },
	};
	enum store_quality quality;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const struct pw_file file = { .path = members[i].name,
					      .link = members[i].link,
					      .mode = members[i].mode,
					      .content = members[i].link ? bytes_of("", 0)
									 : bytes_of("int x;", 6) };
		AUTO(buf_done) struct buf tar = { 0 };

		pw_tar(&tar, PW_GNU, &file, 1);
		if (members[i].says)
			assert_fails(check(STORE_SOURCES, "ab01", buf_bytes(&tar), &quality, &err),
				     ERR_INVALID, members[i].says);
		else
			assert_done(check(STORE_SOURCES, "ab01", buf_bytes(&tar), &quality, &err));
	}
	assert_fails(check(STORE_SOURCES, "ab01", bytes_of("\x1f\x8b\x08 and more", 12), &quality, &err),
		     ERR_INVALID, "compressed tar");
}

static void a_tar_of_split_files_alone_is_less_than_one_with_sources(void **state)
{
	static const struct {
		const char *names[2];
		enum store_quality quality;
	} tars[] = {
		{ { "build/a.dwo", "build/b.dwo" }, STORE_SYMBOLS },
		{ { "build/x.dwp", "build/b.dwo" }, STORE_SYMBOLS },
		{ { "build/a.dwo", "src/a.c" }, STORE_DWARF },
		{ { "src/a.c", "src/dwo" }, STORE_DWARF },
	};
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(tars); i++) {
		const struct pw_file files[] = {
			{ .path = tars[i].names[0], .mode = 0100644, .content = bytes_of("1", 1) },
			{ .path = tars[i].names[1], .mode = 0100644, .content = bytes_of("2", 1) },
		};
		AUTO(buf_done) struct buf tar = { 0 };
		enum store_quality quality = STORE_STRIPPED;

		pw_tar(&tar, PW_GNU, files, 2);
		assert_done(check(STORE_SOURCES, "ab01", buf_bytes(&tar), &quality, &err));
		assert_int_equal(quality, tars[i].quality);
	}
}

/* ---- want lists, ranges ---- */

static int gather(void *arg, const struct push_request *pr, enum store_quality quality)
{
	char id[BUILD_ID_HEX_SIZE];

	buf_printf(arg, "%s/%s %llu %02x %s;", build_id_hex(&pr->key.id, id), store_kind_name(pr->key.kind),
		   (unsigned long long)pr->total, pr->sha256[31], store_quality_name(quality));
	return 0;
}

#define SUM "00000000000000000000000000000000000000000000000000000000000000ff"

static void a_want_list_is_parsed(void **state)
{
	static const char good[] =
		"{\"objects\": [{\"id\": \"ab01\", \"kind\": \"debuginfo\", \"size\": 5, \"sha256\": \"" SUM
		"\", \"quality\": \"symtab\"}, {\"id\": \"ab02\", \"kind\": \"sources\", \"size\": 6, "
		"\"sha256\": \"" SUM "\"}]}";
	static const char *const bad[][2] = {
		{ "", "not JSON" },
		{ "{\"objects\": 5}", "no list" },
		{ "{\"objects\": [5]}", "object 0" },
		{ "{\"objects\": [{\"id\": \"xx\"}]}", "'id'" },
		{ "{\"objects\": [{\"id\": \"ab01\", \"kind\": \"cake\"}]}", "'kind'" },
		{ "{\"objects\": [{\"id\": \"ab01\", \"kind\": \"debuginfo\", \"size\": -1}]}", "'size'" },
		{ "{\"objects\": [{\"id\": \"ab01\", \"kind\": \"debuginfo\", \"size\": 1, \"sha256\": "
		  "\"00\"}]}",
		  "'sha256'" },
		{ "{\"objects\": [{\"id\": \"ab01\", \"kind\": \"debuginfo\", \"size\": 1, \"sha256\": \"" SUM
		  "\", \"quality\": \"fine\"}]}",
		  "'quality'" },
		{ "{\"objects\": [], \"objects\": []}", "not JSON" },
	};
	AUTO(buf_done) struct buf got = { 0 }, many = { 0 };
	struct err err = { 0 };

	assert_done(want_parse(bytes_of(good, strlen(good)), gather, &got, &err));
	assert_str(buf_str(&got), "ab01/debuginfo 5 ff symtab;ab02/sources 6 ff dwarf;");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_fails(want_parse(bytes_of(bad[i][0], strlen(bad[i][0])), gather, &got, &err),
			     ERR_INVALID, bad[i][1]);
	buf_printf(&many, "{\"objects\": [5");
	for (unsigned i = 0; i < PUSH_WANT_ENTRIES; i++)
		buf_printf(&many, ",5");
	buf_printf(&many, "]}");
	assert_fails(want_parse(buf_bytes(&many), gather, &got, &err), ERR_LIMIT, "send several");
}

static void ranges_are_exact(void **state)
{
	static const char *const bad[] = { "",
					   "bytes",
					   "bytes 5-9",
					   "bytes 5-4/9",
					   "bytes 0-9/9",
					   "bytes -5/9",
					   "bytes 0-/9",
					   "lines 0-1/9",
					   "bytes 0-1/*",
					   "bytes 0-18446744073709551616/9",
					   "bytes 0-1/9 ",
					   "bytes  0-1/9" };
	uint64_t off, size, total;

	assert_true(push_range_parse(STR("bytes 5-9/100"), &off, &size, &total));
	assert_true(off == 5 && size == 5 && total == 100);
	assert_true(push_range_parse(STR("bytes 0-0/1"), &off, &size, &total));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (push_range_parse(str_of(bad[i]), &off, &size, &total))
			fail_msg("\"%s\" is a range", bad[i]);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(an_upload_waits_for_its_next_part),
		T(without_a_sha256_no_session_is_parked),
		T(the_oldest_sessions_expire_by_number_bytes_and_time),
		T(parked_sessions_have_a_quarter_of_the_quota_and_an_hour),
		T(sessions_of_the_last_process_are_found),
		T(many_take_and_park_at_once),
		cmocka_unit_test(an_elf_file_is_what_its_key_says),
		cmocka_unit_test(a_file_that_cannot_be_read_is_not_judged),
		cmocka_unit_test(a_tar_holds_files_by_safe_names),
		cmocka_unit_test(a_tar_of_split_files_alone_is_less_than_one_with_sources),
		cmocka_unit_test(a_want_list_is_parsed),
		cmocka_unit_test(ranges_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
