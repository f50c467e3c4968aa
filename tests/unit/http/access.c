/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the access log. */
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>
#include "http/access.h"
#include "http/conn.h"

struct fake {
	struct http_conn conn; /* first */
	const struct sockaddr *peer;
	const char *agent, *forwarded_for;
};

static const char *fake_header(struct http_conn *c, const char *name)
{
	const struct fake *f = (const struct fake *)c;

	return strcmp(name, "User-Agent") == 0        ? f->agent
	       : strcmp(name, "X-Forwarded-For") == 0 ? f->forwarded_for
						      : NULL;
}

static const struct sockaddr *fake_peer(struct http_conn *c)
{
	return ((const struct fake *)c)->peer;
}

static const struct http_transport fake_transport = { .header = fake_header, .peer = fake_peer };

static struct fake fake_conn(const void *peer, const char *agent, const char *forwarded_for)
{
	struct fake f = { .conn.transport = &fake_transport,
			  .peer = peer,
			  .agent = agent,
			  .forwarded_for = forwarded_for };

	f.conn.head = (struct http_head){ .user_agent = agent, .forwarded_for = forwarded_for };
	return f;
}

/* The line of @e but its time, in @line. */
static void line_of(struct fake *f, struct access_entry e, const char *secret_below, char line[4096])
{
	char text[4200];
	int ends[2];
	struct access_log *l;
	ssize_t n;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	l = access_new(ends[1], secret_below);
	assert_non_null(l);
	e.conn = &f->conn;
	access_line(l, &e);
	access_free(l);
	close(ends[1]);
	n = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	assert_true(n > 38);
	text[n] = '\0';
	/* "2026-11-21T07:29:00.123Z info  http: " */
	assert_int_equal(text[10], 'T');
	assert_memory_equal(text + 23, "Z info  http: ", 14);
	for (size_t i = 20; i < 23; i++)
		assert_in_range(text[i], '0', '9');
	strcpy(line, text + 37);
}

static void written_line(struct fake *f, struct access_entry e, char line[4096])
{
	line_of(f, e, NULL, line);
}

static const struct access_entry plain = {
	.method = "GET", .url = "/x", .status = 200, .bytes = 12345, .ns = 3999999, .complete = true
};

static void a_line_names_the_other_end(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(50212) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(1) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct fake f;
	char line[4096];

	inet_pton(AF_INET, "10.200.0.7", &in.sin_addr);
	inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr);
	f = fake_conn(&in, "curl/7.88", NULL);
	written_line(&f, plain, line);
	assert_string_equal(line, "10.200.0.7:50212 UA:curl/7.88 XFF: GET /x 200 12345 3ms\n");
	f = fake_conn(&in6, NULL, "192.0.2.1, 192.0.2.2");
	written_line(&f, plain, line);
	assert_string_equal(line, "[2001:db8::1]:1 UA: XFF:192.0.2.1,_192.0.2.2 GET /x 200 12345 3ms\n");
	f = fake_conn(&un, NULL, NULL);
	written_line(&f, plain, line);
	assert_string_equal(line, "unix:0 UA: XFF: GET /x 200 12345 3ms\n");
	f = fake_conn(NULL, NULL, NULL);
	written_line(&f, plain, line);
	assert_string_equal(line, "-:0 UA: XFF: GET /x 200 12345 3ms\n");
}

static void numbers_are_whole(void **state)
{
	struct fake f = fake_conn(NULL, NULL, NULL);
	struct access_entry e = plain;
	char line[4096];

	e.status = 0;
	e.bytes = 0;
	e.ns = 0;
	e.complete = false;
	written_line(&f, e, line);
	assert_string_equal(line, "-:0 UA: XFF: GET /x 0 0 0ms cut\n");
	e.status = UINT32_MAX;
	e.bytes = UINT64_MAX;
	e.ns = INT64_MAX;
	written_line(&f, e, line);
	assert_string_equal(line,
			    "-:0 UA: XFF: GET /x 4294967295 18446744073709551615 9223372036854ms cut\n");
	e.ns = -5000000; /* of a clock that went back */
	e.status = 7;
	written_line(&f, e, line);
	assert_string_equal(line, "-:0 UA: XFF: GET /x 7 18446744073709551615 0ms cut\n");
}

static void a_line_of_long_and_hostile_fields_is_one_line(void **state)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = 0xffff };
	char agent[3000], url[9000], line[4096];
	struct fake f = fake_conn(&in6, agent, agent);
	struct access_entry e = plain;

	memset(&in6.sin6_addr, 0xff, sizeof(in6.sin6_addr));
	memset(agent, 'a', sizeof(agent) - 1);
	memcpy(agent, "\r\n \x1b\x7f\xff", 6);
	agent[sizeof(agent) - 1] = '\0';
	memset(url, 'u', sizeof(url) - 1);
	url[sizeof(url) - 1] = '\0';
	e.url = url;
	e.bytes = UINT64_MAX;
	e.ns = INT64_MAX;
	written_line(&f, e, line);
	assert_non_null(strstr(line, "]:65535 UA:______aaaa"));
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
	assert_in_range(strlen(line), 1800, 2048);
	assert_non_null(strstr(line, " 200 18446744073709551615 9223372036854ms\n"));
}

static void a_malformed_head_is_logged_with_its_headers(void **state)
{
	struct fake f = fake_conn(NULL, "evil/1", "198.51.100.9");
	struct access_entry e = plain;
	char line[4096];

	f.conn.head = (struct http_head){ .wrong = "two lengths" };
	e.status = 400;
	written_line(&f, e, line);
	assert_string_equal(line, "-:0 UA:evil/1 XFF:198.51.100.9 GET /x 400 12345 3ms\n");
}

static void a_secret_in_a_path_is_in_no_line(void **state)
{
	static const struct {
		const char *url, *shown;
	} rows[] = {
		{ "/secret/0123456789abcdef", "/secret/..." },
		{ "/secret/", "/secret/..." },
		{ "/secret/a/b?c", "/secret/..." },
		{ "//secret/a", "/secret/..." },
		{ "///%73ecret%2fa", "/secret/..." },
		{ "http://host:80/secret/a", "/secret/..." },
		{ "HTTPS://host//secret/a", "/secret/..." },
		{ "/secret/%zz", "/secret/..." },
		{ "/secret", "/secret" },
		{ "//secre%", "//secre%" },
		{ "/%zz", "/%zz" },
		{ "/secret//", "/secret/..." },
		{ "/s/ecret/a", "/s/ecret/a" },
		{ "http://host", "http://host" },
		{ "*", "*" },
		{ "/x/secret/y", "/x/secret/y" },
		{ "", "" },
	};
	struct fake f = fake_conn(NULL, NULL, NULL);
	struct access_entry e = plain;
	char line[4096], expected[200];

	e.status = 429;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		e.url = rows[i].url;
		line_of(&f, e, "/secret/", line);
		snprintf(expected, sizeof(expected), "-:0 UA: XFF: GET %s 429 12345 3ms\n", rows[i].shown);
		assert_string_equal(line, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_names_the_other_end),
		cmocka_unit_test(numbers_are_whole),
		cmocka_unit_test(a_line_of_long_and_hostile_fields_is_one_line),
		cmocka_unit_test(a_malformed_head_is_logged_with_its_headers),
		cmocka_unit_test(a_secret_in_a_path_is_in_no_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
