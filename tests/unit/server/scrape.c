/* SPDX-License-Identifier: Apache-2.0 */
/* Files of targets, the table of endpoints, and the times of pulls. */
#include "test.h"

#include <stdio.h>
#include <sys/resource.h>
#include "server/scrape/internal.h"

#define DIR STR("/etc/lode")

static struct scrape_list *parse(const char *text)
{
	struct scrape_list *l = NULL;
	struct err err = { 0 };

	if (scrape_list_parse(bytes_of(text, strlen(text)), DIR, &l, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return l;
}

static struct str label(const struct scrape_target *t, struct str name)
{
	for (size_t i = 0; i < t->n_labels; i++)
		if (str_eq(t->labels[i].name, name))
			return t->labels[i].value;
	return STR("none");
}

/* ---- files ---- */

static void a_file_of_prometheus_is_enough(void **state)
{
	struct scrape_list *l = parse(
		"[{\"targets\": [\"a:6060\", \"[::1]:80\", \"b\"], \"labels\": {\"job\": \"x\", "
		"\"__meta_consul\": \"1\"}}, {\"targets\": []}]");
	const struct scrape_target *t = &l->targets[0];

	assert_int_equal(l->n, 3);
	assert_string_equal(t->base, "http://a:6060");
	assert_string_equal(l->targets[1].base, "http://[::1]:80");
	assert_string_equal(l->targets[2].base, "http://b");
	assert_int_equal(t->n_labels, 3);
	assert_str(label(t, STR("job")), "x");
	assert_str(label(t, STR("service_name")), "x");
	assert_str(label(t, STR("instance")), "a:6060");
	assert_int_equal(t->group->interval_ms, 15000);
	assert_int_equal(t->group->timeout_ms, 10000);
	assert_int_equal(t->group->n_profiles, 5);
	assert_string_equal(t->group->profiles[0].name, "process_cpu");
	assert_int_equal(t->group->profiles[0].seconds, 14);
	scrape_list_unref(l);
}

static void settings_come_from_labels_and_members(void **state)
{
	struct scrape_list *l = parse(
		"[{\"targets\": [\"a:1\"], \"labels\": {\"__scheme__\": \"https\", \"__scrape_interval__\": "
		"\"2s\","
		"\"__scrape_timeout__\": \"500ms\", \"__profile_path_prefix__\": \"/x/\", \"__profiles__\": "
		"\"heap, mutex\","
		"\"service_name\": \"s\", \"instance\": \"i\"}},"
		"{\"targets\": [\"a:1\"], \"scrape_interval\": 60, \"scheme\": \"https\","
		"\"profiles\": {\"process_cpu\": {\"seconds\": 10}, \"block\": false, \"mine\": {\"path\": "
		"\"/p?a=1\", \"delta\": true}},"
		"\"authorization\": {\"credentials_file\": \"token\"},"
		"\"tls_config\": {\"ca_file\": \"/ca.pem\", \"server_name\": \"a.test\", "
		"\"insecure_skip_verify\": false}}]");
	const struct scrape_group *g = l->targets[0].group, *h = l->targets[1].group;
	AUTO(buf_done) struct buf url = { 0 };

	assert_string_equal(l->targets[0].base, "https://a:1/x");
	assert_str(label(&l->targets[0], STR("service_name")), "s");
	assert_str(label(&l->targets[0], STR("instance")), "i");
	assert_int_equal(g->interval_ms, 2000);
	assert_int_equal(g->timeout_ms, 500);
	assert_int_equal(g->n_profiles, 2);
	assert_string_equal(g->profiles[1].path, "/debug/pprof/mutex");
	assert_int_equal(h->interval_ms, 60000);
	assert_int_equal(h->n_profiles, 2);
	assert_int_equal(h->profiles[0].seconds, 10);
	assert_true(h->profiles[1].counts);
	assert_null(h->profiles[1].type_name);
	assert_string_equal(h->auth_file, "/etc/lode/token");
	assert_string_equal(h->tls.ca_file, "/ca.pem");
	scrape_url(&l->targets[1], &h->profiles[0], false, &url);
	assert_string_equal(buf_cstr(&url), "https://a:1/debug/pprof/profile?seconds=10");
	scrape_list_unref(l);
}

static void sockets_are_targets(void **state)
{
	struct scrape_list *l = parse("[{\"targets\": [\"unix:/run/a b.sock\"], \"path_prefix\": \"/x\"}]");

	assert_string_equal(l->targets[0].base, "http+unix://%2Frun%2Fa%20b.sock/x");
	assert_string_equal(l->targets[0].shown, "unix:/run/a b.sock/x");
	scrape_list_unref(l);
}

static void mistakes_are_told(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "not JSON: the body is empty" },
		{ "[{]", "not JSON: line 1" },
		{ "{}", "not a list of groups" },
		{ "[[]]", "group 1: it has no list 'targets'" },
		{ "[{\"targets\": \"a:1\"}]", "group 1: it has no list 'targets'" },
		{ "[{\"targets\": [7]}]", "group 1: target 1: it is not a text" },
		{ "[{\"targets\": [\"a:1\", \"\"]}]", "group 1: target 2: it is not a text" },
		{ "[{\"targets\": [\"u:p@h:1\"]}]", "target 1: it is none of HOST:PORT" },
		{ "[{\"targets\": [\"http://h:1\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"file:/etc/passwd\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"h:1/x\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"h:0\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"h:65536\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"h:\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"[::1\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"[]:1\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"h:1#x\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"h\\r\\nX: 1\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [\"unix:x\"]}]", "it is none of HOST:PORT" },
		{ "[{\"targets\": [], \"labels\": []}]", "labels must be an object" },
		{ "[{\"targets\": [], \"labels\": {\"a\": 1}}]", "the label a is not a text" },
		{ "[{\"targets\": [], \"labels\": {\"__scheme__\": \"ftp\"}}]",
		  "the label __scheme__: the scheme 'ftp'" },
		{ "[{\"targets\": [], \"labels\": {\"__profiles__\": \"cpu\"}}]",
		  "the profile 'cpu' is not known" },
		{ "[{\"targets\": [], \"interval\": \"1s\"}]", "'interval' is none of" },
		{ "[{\"targets\": [], \"scrape_interval\": \"1\"}]", "'1' is not a time" },
		{ "[{\"targets\": [], \"scrape_interval\": \"10ms\"}]", "'10ms' is not a time" },
		{ "[{\"targets\": [], \"scrape_interval\": -1}]", "-1 is not a number of seconds" },
		{ "[{\"targets\": [], \"scrape_interval\": \"2s\", \"scrape_timeout\": \"3s\"}]",
		  "longer than scrape_interval" },
		{ "[{\"targets\": [], \"path_prefix\": \"x\"}]", "must begin with a slash" },
		{ "[{\"targets\": [], \"path_prefix\": \"/a b\"}]", "must be escaped" },
		{ "[{\"targets\": [], \"path_prefix\": \"/a/%2e%2e\"}]", "has '..' in it" },
		{ "[{\"targets\": [], \"profiles\": []}]", "'profiles' must be" },
		{ "[{\"targets\": [], \"profiles\": [\"mutex\", \"mutex\"]}]", "'mutex' is there twice" },
		{ "[{\"targets\": [], \"profiles\": [\"memory\", \"heap\"]}]", "both memory and heap" },
		{ "[{\"targets\": [], \"profiles\": [\"block\", \"godeltaprof_block\"]}]",
		  "both block and godeltaprof_block" },
		{ "[{\"targets\": [], \"profiles\": {\"x\": true}}]", "the profile 'x' is not known" },
		{ "[{\"targets\": [], \"profiles\": {\"x\": {\"url\": \"/\"}}}]", "'url' is none of path" },
		{ "[{\"targets\": [], \"profiles\": {\"process_cpu\": {\"seconds\": 20}}}]",
		  "takes longer than" },
		{ "[{\"targets\": [], \"basic_auth\": {\"username\": \"u\", \"password\": \"p\"}}]",
		  "basic_auth: 'password' is neither" },
		{ "[{\"targets\": [], \"basic_auth\": {\"username\": \"u\"}}]", "and a password_file" },
		{ "[{\"targets\": [], \"authorization\": {}}]", "has no credentials_file" },
		{ "[{\"targets\": [], \"authorization\": {\"type\": \"A\\nB\", \"credentials_file\": "
		  "\"f\"}}]",
		  "is not a word" },
		{ "[{\"targets\": [], \"authorization\": {\"credentials_file\": \"f\"}, \"basic_auth\": "
		  "{\"username\": \"u\", "
		  "\"password_file\": \"p\"}}]",
		  "both authorization and basic_auth" },
		{ "[{\"targets\": [], \"tls_config\": {\"cert_file\": \"c\"}}]",
		  "both cert_file and key_file" },
		{ "[{\"targets\": [], \"tls_config\": {\"server_name\": \"a:b\"}}]", "is not a host name" },
		{ "[{\"targets\": [], \"tls_config\": true}]", "of the wrong type" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scrape_list *l = NULL;
		struct err err = { 0 };

		if (scrape_list_parse(bytes_of(cases[i].text, strlen(cases[i].text)), DIR, &l, &err) == 0)
			fail_msg("%s: taken", cases[i].text);
		if (!strstr(err.text, cases[i].why))
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_null(l);
	}
}

static void a_file_that_could_not_be_read_is_read_again(void **state)
{
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 8];
	struct scrape_file f = { .path = path };
	struct rlimit before, none;
	struct scrape_list *l;
	struct err err = { 0 };

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/t.json", dir);
	assert_done(file_write_durable(path, "[{\"targets\": [\"a:1\"]}]", 22, 0600, &err));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(scrape_file_changed(&f, &l, &err));
		assert_null(l);
		assert_int_equal(err.kind, ERR_LIMIT);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(scrape_file_changed(&f, &l, &err));
	assert_non_null(l);
	scrape_list_unref(l);
	assert_false(scrape_file_changed(&f, &l, &err));
	/* A mistake in it does not pass by itself. */
	assert_done(file_write_durable(path, "[", 1, 0600, &err));
	assert_true(scrape_file_changed(&f, &l, &err));
	assert_null(l);
	assert_false(scrape_file_changed(&f, &l, &err));
	test_dir_remove(dir);
}

/* ---- headers ---- */

static void a_secret_is_one_line_of_a_file(void **state)
{
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 8];
	struct scrape_group g = { .auth_type = "Bearer", .auth_file = path };
	static const struct {
		const char *content, *want;
	} cases[] = { { "  abc\n", "Authorization: Bearer abc" },
		      { "a\nX-Evil: 1\n", NULL },
		      { " \n", NULL },
		      { "a\x01", NULL } };

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/token", dir);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct err err = { 0 };

		assert_done(file_write_durable(path, cases[i].content, strlen(cases[i].content), 0600, &err));
		assert_int_equal(scrape_authorization(&g, &b, &err), cases[i].want ? 0 : -1);
		assert_string_equal(buf_cstr(&b), cases[i].want ? cases[i].want : "");
	}
	g = (struct scrape_group){ .user = "bob", .password_file = path };
	{
		AUTO(buf_done) struct buf b = { 0 };
		struct err err = { 0 };

		assert_done(file_write_durable(path, "hunter2\n", 8, 0600, &err));
		assert_done(scrape_authorization(&g, &b, &err));
		assert_string_equal(buf_cstr(&b), "Authorization: Basic Ym9iOmh1bnRlcjI=");
		remove(path);
		assert_int_equal(scrape_authorization(&g, &b, &err), -1);
		assert_non_null(strstr(err.text, "no such file"));
	}
	test_dir_remove(dir);
}

/* ---- times ---- */

static void places_are_spread_and_stay(void **state)
{
	unsigned slots[10] = { 0 };

	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t hash = hash64(&i, sizeof(i), 0);
		int64_t wait = schedule_first_ms(hash, 15000, 1000000007);

		assert_true(wait >= 0 && wait < 15000);
		slots[wait / 1500]++;
		/* A second later it is a second less. */
		assert_int_equal((schedule_first_ms(hash, 15000, 1000000007 + 1000) + 1000) % 15000, wait);
	}
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++)
		assert_true(slots[i] > 50 && slots[i] < 200);
}

static void the_next_time_is_on_the_grid(void **state)
{
	assert_int_equal(schedule_next_ms(1000, 100, 999), 1000);
	assert_int_equal(schedule_next_ms(1000, 100, 1000), 1100);
	assert_int_equal(schedule_next_ms(1000, 100, 1099), 1100);
	assert_int_equal(schedule_next_ms(1000, 100, 1350), 1400);
}

static void waits_after_failures_double_up_to_a_bound(void **state)
{
	for (uint64_t random = 0; random < 100000; random += 997) {
		assert_in_range(schedule_backoff_ms(1, 15000, random), 12000, 15000);
		assert_in_range(schedule_backoff_ms(2, 15000, random), 24000, 30000);
		assert_in_range(schedule_backoff_ms(1000000, 15000, random), 240000, 300000);
		assert_in_range(schedule_backoff_ms(5, 3600000, random), 2880000, 3600000);
	}
}

/* ---- endpoints ---- */

struct counts {
	unsigned n_first, n_gone;
};

static void count_first(void *arg, struct endpoint *e)
{
	((struct counts *)arg)->n_first++;
}

static void count_gone(void *arg, struct endpoint *e)
{
	((struct counts *)arg)->n_gone++;
}

static void replace(struct endpoints *e, const char *text, struct counts *c)
{
	const struct endpoints_events events = { count_first, count_gone, c };
	struct scrape_list *l = parse(text);

	*c = (struct counts){ 0 };
	endpoints_replace(e, &l, 1, &events);
	scrape_list_unref(l);
}

static void endpoints_are_kept_by_what_they_are(void **state)
{
	struct endpoints e = { 0 };
	struct counts c;

	replace(&e, "[{\"targets\": [\"a:1\", \"b:1\", \"a:1\"], \"profiles\": [\"memory\", \"mutex\"]}]",
		&c);
	assert_int_equal(e.n, 4);
	assert_int_equal(e.n_targets, 2);
	assert_int_equal(e.n_twice, 2);
	assert_int_equal(c.n_first, 4);
	e.v[0]->seen.n_stored = 7;
	/* Another order, other settings. */
	replace(&e,
		"[{\"targets\": [\"c:1\", \"a:1\"], \"profiles\": [\"memory\"], \"scrape_timeout\": \"1s\"}]",
		&c);
	assert_int_equal(e.n, 2);
	assert_int_equal(c.n_first, 1);
	assert_int_equal(c.n_gone, 3);
	assert_string_equal(e.v[1]->target->address, "a:1");
	assert_int_equal(e.v[1]->seen.n_stored, 7);
	assert_int_equal(e.v[1]->target->group->timeout_ms, 1000);
	/* Another interval: another place in it. Other labels: another target. */
	replace(&e, "[{\"targets\": [\"a:1\"], \"profiles\": [\"memory\"], \"scrape_interval\": \"1m\"}]",
		&c);
	assert_int_equal(c.n_first, 1);
	assert_int_equal(e.v[0]->seen.n_stored, 7);
	replace(&e, "[{\"targets\": [\"a:1\"], \"profiles\": [\"memory\"], \"labels\": {\"a\": \"b\"}}]", &c);
	assert_int_equal(e.v[0]->seen.n_stored, 0);
	assert_int_equal(c.n_gone, 1);
	endpoints_done(&e);
}

static void too_many_endpoints_are_left_out(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct endpoints e = { 0 };
	struct counts c;

	buf_printf(&b, "[{\"targets\": [\"a:1\"");
	for (unsigned i = 0; i < 4000; i++)
		buf_printf(&b, ",\"h%u:1\"", i);
	buf_printf(&b, "]}]");
	replace(&e, buf_cstr(&b), &c);
	assert_int_equal(e.n, SCRAPE_MAX_ENDPOINTS);
	assert_int_equal(e.n_over, 4001 * 5 - SCRAPE_MAX_ENDPOINTS);
	endpoints_done(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_prometheus_is_enough),
		cmocka_unit_test(settings_come_from_labels_and_members),
		cmocka_unit_test(sockets_are_targets),
		cmocka_unit_test(mistakes_are_told),
		cmocka_unit_test(a_file_that_could_not_be_read_is_read_again),
		cmocka_unit_test(a_secret_is_one_line_of_a_file),
		cmocka_unit_test(places_are_spread_and_stay),
		cmocka_unit_test(the_next_time_is_on_the_grid),
		cmocka_unit_test(waits_after_failures_double_up_to_a_bound),
		cmocka_unit_test(endpoints_are_kept_by_what_they_are),
		cmocka_unit_test(too_many_endpoints_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
