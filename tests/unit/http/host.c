/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a service answers to. */
#include "test.h"

#include <unistd.h>
#include "http/host.h"

static const struct str listened[] = { STR(":8002"), STR("[::1]:8002"), STR("debug.example:8002"),
				       STR("unix:/run/lode.sock") };
static const struct str given[] = { STR("https://lode.example.org/debug"), STR("http://other.example:81"),
				    STR("plain.example") };

static struct hosts *make_hosts(void)
{
	struct hosts *h;
	struct err err = { 0 };

	log_set_level(LOG_ERROR);
	assert_done(hosts_new(listened, ARRAY_SIZE(listened), given, ARRAY_SIZE(given), &h, &err));
	return h;
}

static void names_and_addresses_are_ours(void **state)
{
	static const struct {
		const char *host;
		enum host_kind kind;
	} rows[] = {
		{ NULL, HOST_NONE },
		{ "localhost", HOST_LOCAL },
		{ "LocalHost:8002", HOST_LOCAL },
		{ "localhost.", HOST_LOCAL },
		{ "a.localhost:1", HOST_LOCAL },
		{ "127.0.0.1:8002", HOST_LOCAL },
		{ "127.1", HOST_LOCAL },
		{ "[::1]:8002", HOST_LOCAL },
		{ "[::1]", HOST_LOCAL },
		{ "192.0.2.7:8002", HOST_OURS },
		{ "[2001:db8::1]:8002", HOST_OURS },
		{ "debug.example:8002", HOST_OURS },
		{ "DEBUG.example.", HOST_OURS },
		{ "lode.example.org", HOST_OURS },
		{ "other.example:99", HOST_OURS },
		{ "plain.example", HOST_OURS },
		{ "", HOST_FOREIGN },
		{ ":8002", HOST_FOREIGN },
		{ ".", HOST_FOREIGN },
		{ "evil.example", HOST_FOREIGN },
		{ "xlocalhost", HOST_FOREIGN },
		{ "localhost.evil.example", HOST_FOREIGN },
		{ ".localhost.evil", HOST_FOREIGN },
		{ "127.0.0.1.evil.example", HOST_FOREIGN },
		{ "127.evil", HOST_FOREIGN },
		{ "evil.example:127.0.0.1", HOST_FOREIGN },
		{ "evil.1x", HOST_FOREIGN },
		{ "sub.lode.example.org", HOST_FOREIGN },
		{ "unix", HOST_FOREIGN },
	};
	struct hosts *h = make_hosts();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (hosts_judge(h, rows[i].host) != rows[i].kind)
			fail_msg("%s: %d", rows[i].host, hosts_judge(h, rows[i].host));
	hosts_free(h);
	hosts_free(NULL);
}

static void this_machines_name_is_ours(void **state)
{
	struct hosts *h = make_hosts();
	char name[256] = "", with_port[300];

	assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
	snprintf(with_port, sizeof(with_port), "%s:8002", name);
	assert_true(hosts_judge(h, with_port) == HOST_OURS || hosts_judge(h, with_port) == HOST_LOCAL);
	hosts_free(h);
}

static void an_url_without_a_name_is_refused(void **state)
{
	static const struct str bad[] = { STR(""),           STR("http://"),      STR("http://:80"),
					  STR("http://u@h"), STR("http://u:p@h"), STR("*.example") };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct hosts *h;
		struct err err = { 0 };

		assert_int_equal(hosts_new(NULL, 0, &bad[i], 1, &h, &err), -1);
		assert_int_equal(err.kind, ERR_INVALID);
		assert_non_null(strstr(err.text, "--public-url"));
	}
}

static void a_refusal_shows_no_control_characters(void **state)
{
	struct hosts *h = make_hosts();
	char text[400];

	hosts_refuse(h, "evil'\x1b[1m\r\n name", text, sizeof(text));
	assert_non_null(strstr(text, "'evil__[1m___name'"));
	assert_non_null(strstr(text, "--public-url"));
	hosts_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_addresses_are_ours),
		cmocka_unit_test(this_machines_name_is_ours),
		cmocka_unit_test(an_url_without_a_name_is_refused),
		cmocka_unit_test(a_refusal_shows_no_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
