/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers answer: sizes that lie, headers, limits, compression, redirects.
 */
#include "test.h"
#include "sink.h"

#include <zlib.h>

static void bodies_that_lie_about_their_size_are_not_believed(void **state)
{
	struct fault_rule rules[4] = { sink_good(), sink_good(), sink_good(), sink_good() };
	const struct net_patience patience = { .retries = UINT32_MAX, .silent_ms = 300 };

	rules[0].length = sink_artifact().size + 5; /* then it is silent */
	rules[1].chunked = true;
	rules[1].headers = "X-DEBUGINFOD-SIZE: 299999\r\n";
	rules[2].chunked = true;
	rules[2].headers = "X-DEBUGINFOD-SIZE: 300001\r\n";
	rules[3].chunked = true;
	rules[3].fault = FAULT_CUT;
	rules[3].at = 299999;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct fault_http *h = fault_http_new(&rules[i], 1);
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct sink s = { 0 };

		sink_fetch(n, &s, &patience, &url, 1);
		if (s.outcome >= 0)
			fail_msg("row %zu is believed", i);
		assert_int_equal(s.err.kind, ERR_UPSTREAM);
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

static void headers_go_out_and_come_in(void **state)
{
	const struct fault_rule rule = {
		.body = sink_artifact(),
		.headers = "x-debuginfod-file: /usr/lib/a\r\nX-DEBUGINFOD-ARCHIVE:  b.deb \r\n"
			   "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Other: c\r\n"
	};
	struct fault_http *h = fault_http_new(&rule, 1);
	const char *url = fault_http_url(h),
		   *headers[] = { "X-Forwarded-For: 10.0.0.1", "User-Agent: test/1" };
	struct net *n = sink_net();
	struct sink s = { 0 };
	struct net_request req = { .urls = &url,
				   .n_urls = 1,
				   .path = "p/q",
				   .headers = headers,
				   .n_headers = 2,
				   .max_size = 400000 };
	const struct net_reply *reply;

	sink_start(n, &s, NULL, &url, 1); /* for its functions */
	sink_wait(n, &s);
	reply = net_fetch_reply(s.fetch);
	assert_str(reply->headers, "x-debuginfod-file: /usr/lib/a\nX-DEBUGINFOD-ARCHIVE: b.deb\n");
	assert_int_equal(reply->mtime, 784111777);
	assert_int_equal(reply->size, 300000);
	sink_done(&s);
	sink_custom(n, &s, &req);
	assert_int_equal(s.outcome, 0);
	assert_non_null(strstr(fault_http_head(h, 1), "GET /p/q "));
	assert_non_null(strstr(fault_http_head(h, 1), "X-Forwarded-For: 10.0.0.1\r\n"));
	assert_non_null(strstr(fault_http_head(h, 1), "User-Agent: test/1\r\n"));
	assert_non_null(strstr(fault_http_head(h, 1), "X-DEBUGINFOD-MAXSIZE: 400000\r\n"));
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
}

static void bytes_above_the_limit_are_refused(void **state)
{
	struct fault_rule rules[2] = { sink_good(), sink_good() };

	rules[1].fault = FAULT_ENDLESS;
	for (size_t i = 0; i < 2; i++) {
		struct fault_http *h = fault_http_new(&rules[i], 1);
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct net_request req = {
			.urls = &url, .n_urls = 1, .path = "x", .max_size = i ? 1000000 : 299999
		};
		struct sink s = { 0 };

		sink_custom(n, &s, &req);
		/* After a fetch has begun and failed, "too large" is not the outcome. */
		assert_int_equal(s.outcome, i ? -1 : NET_TOO_LARGE);
		assert_true(s.got.size <= req.max_size);
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

/* @n times @in; 0: a bomb, 100 MB of zeros after an ELF magic. */
static void gzip(struct bytes in, unsigned n, struct buf *out)
{
	static uint8_t zeros[65536];
	unsigned rounds = n ? n : 1600;
	z_stream z = { 0 };

	memcpy(zeros,
	       "\x7f"
	       "ELF",
	       4);
	deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY);
	for (unsigned i = 0; i < rounds; i++) {
		z.next_in = n ? (uint8_t *)in.p : zeros;
		z.avail_in = n ? (unsigned)in.size : sizeof(zeros);
		do {
			z.next_out = buf_reserve(out, 65536);
			z.avail_out = 65536;
			deflate(&z, i + 1 == rounds ? Z_FINISH : Z_NO_FLUSH);
			out->size += 65536 - z.avail_out;
		} while (!z.avail_out);
		memset(zeros, 0, 4);
	}
	deflateEnd(&z);
}

static void compressed_transfers_are_unpacked_and_bombs_are_not(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 }, boom = { 0 };
	struct fault_rule rules[2];

	gzip(sink_artifact(), 1, &packed);
	gzip(sink_artifact(), 0, &boom);
	rules[0] = (struct fault_rule){
		.body = buf_bytes(&packed),
		.headers = "Content-Encoding: gzip\r\nX-DEBUGINFOD-SIZE: 300000\r\n"
	};
	rules[1] = (struct fault_rule){ .body = buf_bytes(&boom), .headers = "Content-Encoding: gzip\r\n" };
	for (size_t i = 0; i < 2; i++) {
		struct fault_http *h = fault_http_new(&rules[i], 1);
		const char *url = fault_http_url(h);
		struct net *n = sink_net();
		struct net_request req = { .urls = &url, .n_urls = 1, .path = "x", .compressed = true };
		struct sink s = { 0 };

		sink_custom(n, &s, &req);
		if (!i)
			sink_assert_got(&s);
		else
			assert_true(s.outcome < 0 && strstr(s.err.text, "hundred times"));
		sink_done(&s);
		net_free(n);
		fault_http_free(h);
	}
}

/* RFC 1952 allows them, but libcurl refuses all bytes after the first one. */
static void several_gzip_members_are_named(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 };
	struct fault_rule two = { .headers = "Content-Encoding: gzip\r\n" };
	struct net_request req = { .n_urls = 2, .path = "x", .compressed = true };
	struct sink s = { 0 };
	struct pair p;

	gzip(sink_artifact(), 1, &packed);
	gzip(sink_artifact(), 1, &packed);
	two.body = buf_bytes(&packed);
	p = pair_of(two, sink_good());
	req.urls = p.urls;
	sink_custom(p.n, &s, &req);
	sink_assert_got(&s);
	assert_string_equal(
		sink_said(&s, p.urls[0]),
		"its body has bytes after the first gzip member, and libcurl reads only that one: "
		"let the server send one member");
	pair_done(&p, &s);
}

/* Its checksum shows that at the end, when all bytes are written. Nothing verifies the whole, as of sources. */
static void nobody_continues_after_a_damaged_transfer(void **state)
{
	AUTO(buf_done) struct buf damaged = { 0 }, packed = { 0 };
	struct fault_rule bad = { .headers = "Content-Encoding: gzip\r\nX-DEBUGINFOD-SIZE: 300000\r\n" };
	struct net_request req = { .n_urls = 2, .path = "x", .compressed = true };
	struct sink s = { 0 };
	struct pair p;

	buf_add(&damaged, sink_artifact().p, sink_artifact().size);
	damaged.p[1000] ^= 1;
	gzip(buf_bytes(&damaged), 1, &packed);
	packed.p[packed.size - 8] ^= 1;
	bad.body = buf_bytes(&packed);
	p = pair_of(bad, sink_good());
	req.urls = p.urls;
	sink_custom(p.n, &s, &req);
	sink_assert_got(&s);
	assert_int_equal(s.n_begun, 2);
	assert_string_equal(sink_said(&s, p.urls[0]), "its body is not in the announced encoding");
	pair_done(&p, &s);
}

static void redirects_to_others_are_followed_if_allowed(void **state)
{
	struct fault_rule rule = sink_good();
	struct fault_http *b = fault_http_new(&rule, 1), *a;
	AUTO(mem_freep) char *to = mem_printf("Location: %s/elsewhere\r\n", fault_http_url(b));
	const struct fault_rule away[] = {
		{ .path = "/buildid/ab/debuginfo", .status = 302, .headers = to },
		{ .path = "/buildid/ab/here", .status = 307, .headers = "location: /there\r\n" },
		{ .path = "/there", .body = sink_artifact() }
	};
	const char *url;

	a = fault_http_new(away, ARRAY_SIZE(away));
	url = fault_http_url(a);
	for (enum net_redirects r = NET_REDIRECT_SAME_HOST; r <= NET_REDIRECT_ANY_HOST; r++) {
		const struct net_options o = { .redirects = r };
		struct net_request req = { .urls = &url, .n_urls = 1, .path = "buildid/ab/debuginfo" };
		struct sink s = { 0 };
		struct err err = { 0 };
		struct net *n;

		assert_done(net_new(&o, &n, &err));
		sink_custom(n, &s, &req);
		assert_int_equal(fault_http_requests(b, NULL), r == NET_REDIRECT_ANY_HOST);
		if (r == NET_REDIRECT_ANY_HOST) {
			sink_assert_got(&s);
		} else {
			assert_true(s.outcome < 0);
			assert_non_null(
				strstr(sink_said(&s, url), "it redirects to another port: name that one"));
		}
		sink_done(&s);
		req.path = "buildid/ab/here";
		sink_custom(n, &s, &req);
		sink_assert_got(&s);
		sink_done(&s);
		net_free(n);
	}
	fault_http_free(a);
	fault_http_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_that_lie_about_their_size_are_not_believed),
		cmocka_unit_test(headers_go_out_and_come_in),
		cmocka_unit_test(bytes_above_the_limit_are_refused),
		cmocka_unit_test(compressed_transfers_are_unpacked_and_bombs_are_not),
		cmocka_unit_test(several_gzip_members_are_named),
		cmocka_unit_test(nobody_continues_after_a_damaged_transfer),
		cmocka_unit_test(redirects_to_others_are_followed_if_allowed),
	};

	return cmocka_run_group_tests_name("net-fetch_replies", tests, NULL, NULL);
}
