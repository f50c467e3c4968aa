/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include "net/net.h"

struct fixture {
	struct arena a;
	struct net_url_list l;
};

static struct fixture parse(const char *text, bool commas)
{
	struct fixture f = { 0 };

	arena_init(&f.a);
	net_urls_parse(str_of(text), commas, &f.a, &f.l);
	return f;
}

static void servers_are_apart_by_blanks_and_get_a_scheme(void **state)
{
	struct fixture f = parse("  https://a.example/\tlocalhost:8002 \n HTTP://b/x/y// file:///srv/tree",
				 false);

	assert_int_equal(f.l.n, 4);
	assert_string_equal(f.l.urls[0], "https://a.example");
	assert_string_equal(f.l.urls[1], "http://localhost:8002");
	assert_string_equal(f.l.urls[2], "http://b/x/y");
	assert_string_equal(f.l.urls[3], "file:///srv/tree");
	assert_int_equal(f.l.n_notes, 0);
	arena_done(&f.a);
}

static void commas_part_only_where_they_are_asked_for(void **state)
{
	struct fixture f = parse("http://a,http://b", true);

	assert_int_equal(f.l.n, 2);
	arena_done(&f.a);
	f = parse("http://a/x,y", false);
	assert_int_equal(f.l.n, 1);
	assert_string_equal(f.l.urls[0], "http://a/x,y");
	arena_done(&f.a);
}

static void the_same_server_is_asked_once(void **state)
{
	struct fixture f = parse("http://a http://a/ a http://b a", false);

	assert_int_equal(f.l.n, 2);
	assert_int_equal(f.l.n_notes, 0);
	arena_done(&f.a);
}

static void a_unix_socket_is_a_server(void **state)
{
	struct fixture f = parse(
		"unix:/run/a_b/lode.sock unix:///run/a_b/lode.sock/ http+unix://%2Frun%2Fx/base/ "
		"unix:/run/a%20b",
		false);

	assert_int_equal(f.l.n, 3);
	assert_int_equal(f.l.n_notes, 0);
	assert_string_equal(f.l.urls[0], "http+unix://%2Frun%2Fa_b%2Flode.sock");
	assert_string_equal(f.l.urls[1], "http+unix://%2Frun%2Fx/base");
	/* Nothing in a path is an escape. */
	assert_string_equal(f.l.urls[2], "http+unix://%2Frun%2Fa%2520b");
	assert_string_equal(net_url_shown(str_of(f.l.urls[0]), &f.a).p, "unix:/run/a_b/lode.sock");
	assert_string_equal(net_url_shown(str_of(f.l.urls[1]), &f.a).p, "unix:/run/x/base");
	assert_string_equal(net_url_shown(str_of(f.l.urls[2]), &f.a).p, "unix:/run/a%20b");
	assert_string_equal(net_url_shown(STR("http+unix://%2Fa%0Ab"), &f.a).p, "unix:/a?b");
	arena_done(&f.a);
}

static void invalid_tokens_are_noted_and_the_others_used(void **state)
{
	static const char *const bad[] = {
		"ftp://a",
		"http://",
		"http://a:0",
		"http://a:99999",
		"http://a:x",
		"://a",
		"http://a?b=c",
		"http://a#b",
		"http://[::1",
		"http://[::1]x",
		"http://[x y]",
		"file://",
		"file://host/x",
		"http://a|b",
		"http://a\x01"
		"b",
		"javascript:alert(1)",
		"http://a:b:c",
		"http://u:p@",
		"'http://a'",
		"unix:",
		"unix:run/x",
		"unix://host/x",
		"unix:/",
		"unix:/"
		"xx123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
		"1234567"
		"89012345678901",
		"http+unix://",
		"http+unix://run",
		"http+unix://%2Fa%00b",
		"http+unix://%2Fa%",
		"http+unix://%2Fa%zz",
		"http+unix:///run/x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO(mem_freep) char *text = mem_printf("http://good1 %s http://good2", bad[i]);
		struct fixture f = parse(text, false);

		if (f.l.n_notes < 1 || f.l.notes[0].ignored)
			fail_msg("%s is taken", bad[i]);
		assert_string_equal(f.l.urls[0], "http://good1");
		assert_string_equal(f.l.urls[f.l.n - 1], "http://good2");
		arena_done(&f.a);
	}
}

static void a_server_with_enforced_signatures_is_not_asked(void **state)
{
	struct fixture f = parse("http://a ima:enforcing https://b http://a ftp://x ima:ignore https://c "
				 "ima:permissive https://d ima:enforce https://e ima: https://f",
				 false);

	assert_int_equal(f.l.n, 3);
	assert_string_equal(f.l.urls[0], "http://a");
	assert_string_equal(f.l.urls[1], "https://c");
	assert_string_equal(f.l.urls[2], "https://d");
	assert_int_equal(f.l.n_notes, 7);
	assert_str(f.l.notes[0].token, "https://b");
	assert_true(!f.l.notes[0].ignored && strstr(f.l.notes[0].text, "cannot be checked"));
	assert_str(f.l.notes[1].token, "ftp://x");
	assert_true(f.l.notes[2].ignored && strstr(f.l.notes[2].text, "not checked"));
	assert_str(f.l.notes[3].token, "ima:enforce");
	assert_str(f.l.notes[4].token, "https://e");
	assert_str(f.l.notes[5].token, "ima:");
	assert_str(f.l.notes[6].token, "https://f");
	arena_done(&f.a);
}

static void too_long_and_too_many_are_noted(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct fixture f;

	for (unsigned i = 0; i < NET_SERVERS_MAX + 3; i++)
		buf_printf(&b, "http://h%u ", i);
	f = parse(buf_cstr(&b), false);
	assert_int_equal(f.l.n, NET_SERVERS_MAX);
	assert_int_equal(f.l.n_notes, 3);
	arena_done(&f.a);
	b.size = 0;
	buf_add_str(&b, STR("http://"));
	for (unsigned i = 0; i < NET_URL_MAX; i++)
		buf_add_char(&b, 'x');
	f = parse(buf_cstr(&b), false);
	assert_int_equal(f.l.n, 0);
	assert_int_equal(f.l.n_notes, 1);
	assert_true(f.l.notes[0].token.size <= 80);
	arena_done(&f.a);
}

static void passwords_are_not_shown(void **state)
{
	struct fixture f = parse("http://me:secret@a.example/x http://me:secret@:1", false);

	assert_int_equal(f.l.n, 1);
	assert_string_equal(f.l.urls[0], "http://me:secret@a.example/x");
	assert_str(net_url_shown(str_of(f.l.urls[0]), &f.a), "http://a.example/x");
	assert_null(memmem(f.l.notes[0].token.p, f.l.notes[0].token.size, "secret", 6));
	arena_done(&f.a);
}

static void paths_are_escaped(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	net_escape(&b, STR("/usr/src/a b+c%2F..~\xc3\xa9"), true);
	assert_string_equal(buf_cstr(&b), "/usr/src/a%20b%2Bc%252F..~%C3%A9");
	b.size = 0;
	net_escape(&b, STR("a/b"), false);
	assert_string_equal(buf_cstr(&b), "a%2Fb");
}

static void assert_path(const char *url, enum net_file_kind kind, const char *name, const char *path)
{
	AUTO(buf_done) struct buf b = { 0 };
	const struct net_file f = { kind, STR("0123456789abcdef"), str_of(name) };
	const char *plain;
	enum net_layout layout = net_url_layout(url, &plain);
	enum net_unasked why = net_layout_path(layout, plain, &f, &b);

	if (!path)
		assert_int_not_equal(why, NET_ASKED);
	else if (why)
		fail_msg("%s: reason %d", url, (int)why);
	else
		assert_string_equal(buf_cstr(&b), path);
}

static void a_prefix_names_the_kind_of_a_server(void **state)
{
	struct fixture f = parse(
		"SSQP+https://a/symbols/ tree+http://b unified+file:///c ssqp+d git+https://e tree+ftp://f",
		false);
	const char *plain;

	assert_int_equal(f.l.n, 3);
	assert_string_equal(f.l.urls[0], "ssqp+https://a/symbols");
	assert_int_equal(net_url_layout(f.l.urls[0], &plain), NET_SSQP);
	assert_string_equal(plain, "https://a/symbols");
	assert_int_equal(net_url_layout(f.l.urls[1], &plain), NET_TREE);
	assert_int_equal(net_url_layout(f.l.urls[2], &plain), NET_UNIFIED);
	assert_string_equal(plain, "file:///c");
	assert_int_equal(net_url_layout("https://a", &plain), NET_DEBUGINFOD);
	arena_done(&f.a);
}

static void each_kind_has_its_paths(void **state)
{
	assert_path("ssqp+http://a", NET_FILE_DEBUGINFO, "",
		    "_.debug/elf-buildid-sym-0123456789abcdef000000000000000000000000/_.debug");
	assert_path("ssqp+http://a", NET_FILE_EXECUTABLE, "libA b.so",
		    "liba%20b.so/elf-buildid-0123456789abcdef000000000000000000000000/liba%20b.so");
	assert_path("ssqp+http://a", NET_FILE_EXECUTABLE, "", NULL);
	assert_path("ssqp+http://a", NET_FILE_EXECUTABLE, "..", NULL);
	assert_path("ssqp+http://a", NET_FILE_EXECUTABLE, "a/b", NULL);
	assert_path("tree+http://a", NET_FILE_DEBUGINFO, "", ".build-id/01/23456789abcdef.debug");
	assert_path("tree+http://a/.build-id", NET_FILE_EXECUTABLE, "", "01/23456789abcdef");
	assert_path("unified+http://a", NET_FILE_DEBUGINFO, "", "01/23456789abcdef/debuginfo");
	assert_path("unified+http://a", NET_FILE_EXECUTABLE, "x", "01/23456789abcdef/executable");
	assert_path("unified+http://a", NET_FILE_OTHER, "", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_are_apart_by_blanks_and_get_a_scheme),
		cmocka_unit_test(commas_part_only_where_they_are_asked_for),
		cmocka_unit_test(the_same_server_is_asked_once),
		cmocka_unit_test(a_unix_socket_is_a_server),
		cmocka_unit_test(invalid_tokens_are_noted_and_the_others_used),
		cmocka_unit_test(a_server_with_enforced_signatures_is_not_asked),
		cmocka_unit_test(too_long_and_too_many_are_noted),
		cmocka_unit_test(passwords_are_not_shown),
		cmocka_unit_test(paths_are_escaped),
		cmocka_unit_test(a_prefix_names_the_kind_of_a_server),
		cmocka_unit_test(each_kind_has_its_paths),
	};

	return cmocka_run_group_tests_name("net-urls", tests, NULL, NULL);
}
