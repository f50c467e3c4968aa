/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client and the source, with a server that misbehaves.
 */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fault_http.h"
#include "s3/internal.h"

#define SIZE 700000u
#define ETAG "ETag: \"abc\"\r\nLast-Modified: Sat, 23 Nov 2024 10:00:00 GMT\r\n"

static uint8_t content[SIZE];

static struct s3 *client_of(const struct fault_http *h)
{
	const struct s3_options o = { .endpoint = fault_http_url(h), .deadline_ms = 8000, .silent_ms = 4000 };
	struct err err = { 0 };
	struct s3 *s;

	assert_done(s3_new(&o, &s, &err));
	return s;
}

static struct fault_http *server_of(const struct fault_rule *rules, size_t n)
{
	return fault_http_new(rules, n);
}

static void check_bytes(struct source *src, uint64_t off, size_t n)
{
	uint8_t *p = mem_alloc(n);
	struct err err = { 0 };

	assert_done(source_read_full(src, off, p, n, SOURCE_RANDOM, &err));
	assert_memory_equal(p, content + off, n);
	free(p);
}

static const struct fault_rule whole = { .headers = ETAG, .body = { content, SIZE } };

static struct stat known_stat(void)
{
	const struct s3_info info = { .size = SIZE, .mtime = 1, .etag = "abc" };
	struct stat st;

	s3_stat(&info, &st);
	return st;
}

static struct source *open_known(struct s3 *s)
{
	struct stat st = known_stat();
	struct source *src;
	struct err err = { 0 };

	assert_done(s3_open(s, "s3://b/a key.deb", &st, &src, NULL, &err));
	return src;
}

static void signs_and_escapes_a_request(void **state)
{
	struct fault_http *h = server_of(&whole, 1);
	struct s3 *s = client_of(h);
	struct source *src;
	struct err err = { 0 };
	const char *head;

	assert_done(s3_open(s, "s3://b/a key+%.deb", NULL, &src, NULL, &err));
	assert_int_equal(src->size, SIZE);
	check_bytes(src, 1000, 10);
	head = fault_http_head(h, 0);
	assert_non_null(strstr(head, "HEAD /b/a%20key%2B%25.deb HTTP/1.1"));
	head = fault_http_head(h, 1);
	assert_non_null(strstr(head, "Range: bytes=1000-"));
	assert_non_null(strstr(head, "Authorization: AWS4-HMAC-SHA256 Credential=AKTEST/"));
	assert_null(strstr(head, "hush"));
	assert_null(strstr(head, "If-"));
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void a_range_is_fetched_once(void **state)
{
	struct fault_http *h = server_of(&whole, 1);
	struct s3 *s = client_of(h);
	struct source *a = open_known(s), *b = open_known(s);

	source_expect(a, range_of(1000, 300000));
	check_bytes(a, 1000, 1000);
	check_bytes(a, 100000, 100000);
	check_bytes(b, 200000, 101000);
	assert_int_equal(fault_http_requests(h, NULL), 1);
	/* What is missing is fetched, up to what is there. */
	check_bytes(b, 0, 5000);
	assert_int_equal(fault_http_requests(h, NULL), 2);
	assert_non_null(strstr(fault_http_head(h, 1), "Range: bytes=0-999\r\n"));
	check_bytes(b, 0, SIZE);
	source_close(a);
	source_close(b);
	s3_free(s);
	fault_http_free(h);
}

static void a_walk_backwards_takes_few_requests(void **state)
{
	struct fault_http *h = server_of(&whole, 1);
	struct s3 *s = client_of(h);
	struct source *src = open_known(s);

	for (uint64_t off = SIZE - 4000; off >= 4000; off -= 4000)
		check_bytes(src, off, 2000);
	assert_true(fault_http_requests(h, NULL) <= 10);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void a_body_that_breaks_off_is_continued(void **state)
{
	const struct fault_rule rules[] = {
		{ .headers = ETAG, .body = { content, SIZE }, .times = 1, .fault = FAULT_CUT, .at = 50000 },
		{ .headers = ETAG, .body = { content, SIZE }, .times = 1, .fault = FAULT_RESET, .at = 20000 },
		whole,
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	struct source *src = open_known(s);

	source_expect(src, range_of(0, 400000));
	check_bytes(src, 0, 400000);
	assert_true(fault_http_requests(h, NULL) >= 3);
	assert_non_null(strstr(fault_http_head(h, 1), "Range: bytes=50000-399999\r\n"));
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void slow_down_is_tried_again(void **state)
{
	static const char slow[] =
		"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>";
	const struct fault_rule rules[] = {
		{ .status = 503, .times = 1, .body = { (const uint8_t *)slow, sizeof(slow) - 1 } },
		{ .status = 500, .times = 1 },
		{ .fault = FAULT_HANG_UP, .times = 1 },
		whole,
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	struct source *src = open_known(s);

	check_bytes(src, 0, 1000);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

/* Read the first byte, with the error. */
static int read_fails(struct s3 *s, struct err *err)
{
	struct source *src = open_known(s);
	uint8_t c;
	int r = source_read_full(src, 0, &c, 1, SOURCE_RANDOM, err);

	source_close(src);
	return r;
}

static void a_removal_is_done_only_without_an_error_in_its_answer(void **state)
{
	static const char busy[] = "<?xml version='1.0'?><Error><Code>InternalError</Code></Error>";
	static const char denied[] = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
	static const char page[] = "<html>a proxy</html>";
	const struct fault_rule rules[] = {
		{ .path = "/b/busy", .times = 1, .body = { (const uint8_t *)busy, sizeof(busy) - 1 } },
		{ .path = "/b/busy", .status = 204 },
		{ .path = "/b/denied", .body = { (const uint8_t *)denied, sizeof(denied) - 1 } },
		{ .path = "/b/page", .times = 1, .body = { (const uint8_t *)page, sizeof(page) - 1 } },
		{ .path = "/b/page" },
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	struct s3_info info;
	struct err err = { 0 };

	assert_done(s3_delete(s, (struct s3_name){ STR("b"), STR("busy") }, &err));
	assert_int_equal(fault_http_requests(h, "/b/busy"), 2);
	assert_int_equal(s3_delete(s, (struct s3_name){ STR("b"), STR("denied") }, &err), -1);
	assert_non_null(strstr(err.text, "AccessDenied"));
	assert_done(s3_delete(s, (struct s3_name){ STR("b"), STR("page") }, &err));
	assert_int_equal(fault_http_requests(h, "/b/page"), 2);
	assert_int_equal(
		s3_put(s, (struct s3_name){ STR("b"), STR("denied") }, bytes_of("x", 1), &info, &err), -1);
	s3_free(s);
	fault_http_free(h);
}

/* Two reads with two answers. -1: the second one fails, -2: the first one. */
static int read_twice(const struct s3_info *listed, const char *first, const char *second)
{
	const struct fault_rule rules[] = {
		{ .headers = first, .body = { content, SIZE }, .times = 1 },
		{ .headers = second, .body = { content, SIZE } },
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	struct stat st;
	struct source *src;
	struct err err = { 0 };
	uint8_t c;
	int r = 0;

	s3_stat(listed, &st);
	assert_done(s3_open(s, "s3://b/k", &st, &src, NULL, &err));
	if (source_read_full(src, 0, &c, 1, SOURCE_RANDOM, &err) < 0)
		r = -2;
	else if (source_read_full(src, SIZE - 1, &c, 1, SOURCE_RANDOM, &err) < 0)
		r = -1;
	if (r)
		assert_int_equal(err.kind, ERR_CHANGED);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
	return r;
}

static void a_version_is_known_by_etag_else_by_time(void **state)
{
#define AT_10 "Last-Modified: Sat, 23 Nov 2024 10:00:00 GMT\r\n"
#define AT_11 "Last-Modified: Sat, 23 Nov 2024 11:00:00 GMT\r\n"
	const struct {
		const char *listed, *first, *second;
		int result;
	} cases[] = {
		{ "abc", ETAG, ETAG, 0 },
		{ "abc", ETAG, "ETag: \"other\"\r\n" AT_10, -1 },
		/* The answers alone have one. */
		{ "", ETAG, ETAG, 0 },
		{ "", ETAG, "ETag: \"other\"\r\n" AT_10, -1 },
		{ "", "ETag: \"abc\"\r\n" AT_11, ETAG, -2 },
		/* The listing alone. */
		{ "abc", AT_10, AT_10, 0 },
		{ "abc", AT_11, AT_10, -2 },
		{ "abc", "", "", -2 },
		/* None has. */
		{ "", AT_10, AT_10, 0 },
		{ "", AT_10, AT_11, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct s3_info listed = { .size = SIZE, .mtime = 1732356000 };

		strcpy(listed.etag, cases[i].listed);
		if (read_twice(&listed, cases[i].first, cases[i].second) != cases[i].result)
			fail_msg("case %zu", i);
	}
}

static void an_error_may_be_longer_than_the_object(void **state)
{
	static const char busy[] = "<Error><Code>SlowDown</Code><Message>Too many.</Message></Error>";
	static const char none[] = "<Error><Code>NoSuchKey</Code><Message>None.</Message></Error>";
	const struct fault_rule rules[] = {
		{ .status = 503, .body = { (const uint8_t *)busy, sizeof(busy) - 1 }, .times = 1 },
		{ .body = { content, 10 }, .times = 2 },
		{ .status = 404, .body = { (const uint8_t *)none, sizeof(none) - 1 } },
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	const struct s3_name name = { STR("b"), STR("k") };
	AUTO(buf_done) struct buf got = { 0 };
	struct err err = { 0 };

	assert_done(s3_get(s, name, 10, &got, NULL, &err));
	assert_int_equal(got.size, 10);
	assert_fails(s3_get(s, name, 9, &got, NULL, &err), ERR_LIMIT, "longer than 9 bytes");
	assert_int_equal(got.size, 10);
	assert_int_equal(s3_get(s, name, 10, &got, NULL, &err), S3_MISSING);
	s3_free(s);
	fault_http_free(h);
}

static void objects_of_two_times_are_two_files(void **state)
{
	struct s3_info a = { .size = SIZE, .mtime = 1732356000 }, b = a;
	struct stat x, y;

	s3_stat(&a, &x);
	b.mtime++;
	s3_stat(&b, &y);
	assert_true(x.st_ino && y.st_ino && x.st_ino != y.st_ino);
	/* With an ETag the time does not count: copies of a bucket have others. */
	strcpy(a.etag, "e");
	strcpy(b.etag, "e");
	s3_stat(&a, &x);
	s3_stat(&b, &y);
	assert_int_equal(x.st_ino, y.st_ino);
}

static void wrong_answers_are_errors(void **state)
{
	static const char denied[] =
		"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
	const struct {
		struct fault_rule rule;
		enum err_kind kind;
		const char *text;
	} cases[] = {
		{ { .headers = "ETag: \"other\"\r\n", .body = { content, SIZE } }, ERR_CHANGED, "replaced" },
		{ { .headers = ETAG, .body = { content, SIZE - 1 } }, ERR_CHANGED, "replaced" },
		{ { .headers = ETAG, .body = { content, SIZE }, .no_range = true },
		  ERR_INVALID,
		  "ignores Range" },
		{ { .headers = ETAG, .body = { content, SIZE }, .status = 206, .no_range = true },
		  ERR_INVALID,
		  "does not say which bytes" },
		{ { .headers = ETAG "Content-Range: bytes 5-699999/700000\r\n",
		    .body = { content, SIZE },
		    .status = 206,
		    .no_range = true },
		  ERR_INVALID,
		  "begins at byte 5" },
		{ { .status = 404 }, ERR_CHANGED, "not in the bucket any more" },
		{ { .status = 416 }, ERR_CHANGED, "shorter" },
		{ { .status = 403, .body = { (const uint8_t *)denied, sizeof(denied) - 1 } },
		  ERR_IO,
		  "access denied" },
		{ { .status = 301, .headers = "Location: http://elsewhere.example/b/k\r\n" },
		  ERR_IO,
		  "status 301" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_http *h = server_of(&cases[i].rule, 1);
		struct s3 *s = client_of(h);
		struct err err = { 0 };

		assert_fails(read_fails(s, &err), cases[i].kind, cases[i].text);
		assert_non_null(strstr(err.text, "s3://b/a key.deb"));
		assert_null(strstr(err.text, "hush"));
		s3_free(s);
		fault_http_free(h);
	}
}

static int count_listed(void *arg, const struct s3_listed *o, struct err *err)
{
	struct buf *b = arg;

	buf_printf(b, STR_FMT " %llu %s|", STR_ARG(o->key), (unsigned long long)o->info.size, o->info.etag);
	return 0;
}

static int list_all(struct s3 *s, struct buf *out, struct err *err)
{
	const struct s3_listing l = {
		.bucket = STR("b"), .prefix = STR("p/"), .fn = count_listed, .arg = out
	};

	out->size = 0;
	return s3_list(s, &l, err);
}

#define PAGE(more)                                                                                           \
	"<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>p/a+b%2Bc.deb</Key><Size>5</Size>" \
	"<ETag>&quot;e1&quot;</ETag><LastModified>2024-11-23T10:00:00.000Z</LastModified></Contents>" more   \
	"</ListBucketResult>"

static void lists_pages_in_order(void **state)
{
	static const char first[] = PAGE(
		"<IsTruncated>true</IsTruncated><NextContinuationToken>t/1=</NextContinuationToken>");
	static const char second[] =
		"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>p/z&amp;</Key>"
		"<Size>7</Size><ETag>e2</ETag></Contents><Contents><Key>q/no</Key><Size>1</Size>"
		"</Contents></ListBucketResult>";
	const struct fault_rule rules[] = {
		{ .times = 1, .body = { (const uint8_t *)first, sizeof(first) - 1 } },
		{ .body = { (const uint8_t *)second, sizeof(second) - 1 } },
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };

	assert_done(list_all(s, &out, &err));
	assert_str(buf_str(&out), "p/a b+c.deb 5 e1|p/z& 7 e2|");
	assert_non_null(
		strstr(fault_http_head(h, 0), "GET /b?list-type=2&max-keys=1000&prefix=p%2F HTTP/1.1"));
	assert_non_null(strstr(fault_http_head(h, 1), "continuation-token=t%2F1%3D&"));
	s3_free(s);
	fault_http_free(h);
}

static void keys_are_asked_for_escaped_where_xml_cannot_hold_them(void **state)
{
	static const char *const keys[] = { "p/\x01", "p/&#1;", "p/&#x1F;", "p/\xef\xbf\xbd" };
	static const char *const held[] = { "p/+",     "p/&#39;",        "p/&#x9;",
					    "p/&#10;", "p/\xef\xbb\xbf", "p/&amp;#1;" };
	static const char escaped[] = PAGE("");

	for (size_t i = 0; i < ARRAY_SIZE(keys) + ARRAY_SIZE(held); i++) {
		bool odd = i < ARRAY_SIZE(keys);
		AUTO(mem_freep)
		char *page = mem_printf("<ListBucketResult><Contents><Key>%s</Key><Size>1</Size></Contents>"
					"</ListBucketResult>",
					odd ? keys[i] : held[i - ARRAY_SIZE(keys)]);
		const struct fault_rule rules[] = {
			{ .times = 1, .body = { (const uint8_t *)page, strlen(page) } },
			{ .body = { (const uint8_t *)escaped, sizeof(escaped) - 1 } },
		};
		struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
		struct s3 *s = client_of(h);
		AUTO(buf_done) struct buf out = { 0 };
		struct err err = { 0 };

		assert_done(list_all(s, &out, &err));
		assert_int_equal(fault_http_requests(h, NULL), odd ? 2 : 1);
		assert_int_equal(!!strstr(fault_http_head(h, 1), "GET /b?encoding-type=url&"), odd);
		if (odd)
			assert_str(buf_str(&out), "p/a b+c.deb 5 e1|");
		s3_free(s);
		fault_http_free(h);
	}
}

static void a_listing_without_an_end_is_an_error(void **state)
{
	static const char again[] = PAGE(
		"<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
	static const char error[] = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
	static const char other[] = "<html><body>hello</body></html>";
	const struct {
		struct bytes body;
		const char *text;
	} cases[] = {
		{ { (const uint8_t *)again, sizeof(again) - 1 }, "does not end" },
		{ { (const uint8_t *)error, sizeof(error) - 1 }, "AccessDenied" },
		{ { (const uint8_t *)other, sizeof(other) - 1 }, "<html>" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct fault_rule rule = { .body = cases[i].body };
		struct fault_http *h = server_of(&rule, 1);
		struct s3 *s = client_of(h);
		AUTO(buf_done) struct buf out = { 0 };
		struct err err = { 0 };

		if (list_all(s, &out, &err) >= 0 || !strstr(err.text, cases[i].text))
			fail_msg("%s: %s", cases[i].text, err.text);
		s3_free(s);
		fault_http_free(h);
	}
}

static void a_slow_answer_is_hedged(void **state)
{
	const struct fault_rule rules[] = {
		{ .headers = ETAG, .body = { content, SIZE }, .times = 1, .fault = FAULT_SILENT },
		whole,
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	struct source *src = open_known(s);
	int64_t from_ms = clock_mono_ms();

	check_bytes(src, 0, 1000);
	/* Long before the silence is a failure. */
	assert_true(clock_mono_ms() - from_ms < 3500);
	assert_int_equal(fault_http_requests(h, NULL), 2);
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

static void an_unreachable_server_fails_at_once_the_next_time(void **state)
{
	struct fault_dead dead;
	struct s3_options o = { .deadline_ms = 3000 };
	struct err err = { 0 };
	char url[64];
	struct s3 *s;
	int64_t from_ms;

	fault_dead_refuses(&dead, url);
	o.endpoint = url;
	assert_done(s3_new(&o, &s, &err));
	assert_fails(read_fails(s, &err), ERR_IO, "s3://b/a key.deb");
	from_ms = clock_mono_ms();
	assert_fails(read_fails(s, &err), ERR_IO, "s3://b/a key.deb");
	assert_true(clock_mono_ms() - from_ms < 2000);
	s3_free(s);
	fault_dead_done(&dead);
}

static void uploads_in_parts(void **state)
{
	static const char begun[] =
		"<InitiateMultipartUploadResult><UploadId>id/1+</UploadId></InitiateMultipartUploadResult>";
	static const char parts[] =
		"<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber>"
		"<Size>3</Size><ETag>\"p1\"</ETag></Part></ListPartsResult>";
	static const char busy[] = "<Error><Code>InternalError</Code><Message>try again</Message></Error>";
	static const char done[] = "<CompleteMultipartUploadResult><ETag>&quot;all-1&quot;</ETag></"
				   "CompleteMultipartUploadResult>";
	const struct fault_rule rules[] = {
		{ .path = "/b/k?uploads=", .body = { (const uint8_t *)begun, sizeof(begun) - 1 } },
		{ .path = "/b/k?partNumber=1&uploadId=id%2F1%2B", .headers = "ETag: \"p1\"\r\n" },
		{ .path = "/b/k?part-number-marker=0&uploadId=",
		  .body = { (const uint8_t *)parts, sizeof(parts) - 1 } },
		/* The status of the first completion is 200. */
		{ .path = "/b/k?uploadId=", .times = 1, .body = { (const uint8_t *)busy, sizeof(busy) - 1 } },
		{ .path = "/b/k?uploadId=", .body = { (const uint8_t *)done, sizeof(done) - 1 } },
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	const struct s3_name name = { STR("b"), STR("k") };
	struct s3 *s = client_of(h);
	struct s3_upload u;
	struct s3_part part, *there;
	struct s3_info info;
	struct err err = { 0 };
	size_t n;
	int file;

	assert_done(s3_upload_begin(s, name, &u, &err));
	file = memfd_create("part", MFD_CLOEXEC);
	assert_done(fd_write(file, "xabcx", 5, &err));
	assert_done(s3_upload_part(s, &u, 1, &(struct file_range){ file, 1, 3 }, &part, &err));
	close(file);
	/* SHA-256 of abc. */
	assert_non_null(strstr(
		fault_http_head(h, 1),
		"x-amz-content-sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
	assert_non_null(strstr(fault_http_head(h, 1), "Content-Length: 3\r\n"));
	assert_string_equal(part.etag, "p1");
	assert_done(s3_upload_parts(s, &u, &there, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(there[0].size, 3);
	assert_done(s3_upload_complete(s, &u, there, n, &info, &err));
	assert_string_equal(info.etag, "all-1");
	assert_done(s3_upload_abort(s, &u, &err));
	free(there);
	s3_free(s);
	fault_http_free(h);
}

/* As long as it takes to copy the parts: its client neither gives up nor sends it again meanwhile. */
static void a_completion_may_take_longer_than_other_requests(void **state)
{
	static const char done[] = "<CompleteMultipartUploadResult/>";
	const struct fault_rule rule = { .path = "/b/k?uploadId=",
					 .delay_ms = 1000,
					 .body = { (const uint8_t *)done, sizeof(done) - 1 } };
	struct fault_http *h = server_of(&rule, 1);
	const struct s3_options o = { .endpoint = fault_http_url(h), .deadline_ms = 300, .silent_ms = 200 };
	const struct s3_upload u = { .name = { STR("b"), STR("k") }, .id = "id" };
	struct s3_part parts[8];
	struct err err = { 0 };
	struct s3 *s;

	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i] = (struct s3_part){ .number = i + 1, .size = MIB(8), .etag = "e" };
	assert_done(s3_new(&o, &s, &err));
	assert_done(s3_upload_complete(s, &u, parts, ARRAY_SIZE(parts), NULL, &err));
	assert_int_equal(fault_http_requests(h, NULL), 1);
	s3_free(s);
	fault_http_free(h);
}

static bool has_text(const struct buf *b, const char *text)
{
	return memmem(b->p, b->size, text, strlen(text)) != NULL;
}

static void a_presigned_url_is_of_one_size_and_part(void **state)
{
	const struct s3_upload u = { .id = "an id+1" };
	struct s3_presigned p = { .method = "PUT",
				  .name = { STR("b"), STR("a b") },
				  .expires_s = 60,
				  .endpoint = "https://Files.example:443/",
				  .size = 5 };
	struct fault_http *h = server_of(&whole, 1);
	struct s3 *s = client_of(h);
	struct buf url = { 0 };
	struct err err = { 0 };

	assert_done(s3_presign(s, &p, &url, &err));
	assert_true(has_text(&url, "https://files.example/b/a%20b?X-Amz-Algorithm="));
	assert_true(has_text(&url, "&X-Amz-Expires=60&X-Amz-SignedHeaders=content-length%3Bhost&"));
	url.size = 0;
	p.upload = &u;
	p.part = 7;
	p.endpoint = NULL;
	assert_done(s3_presign(s, &p, &url, &err));
	assert_true(str_starts(buf_str(&url), str_of(fault_http_url(h))));
	assert_true(has_text(&url, "partNumber=7&uploadId=an%20id%2B1"));
	p.endpoint = "https://files.example/path";
	assert_fails(s3_presign(s, &p, &url, &err), ERR_INVALID, "without a path");
	assert_fails(s3_endpoint_check("files.example", &err), ERR_INVALID, "http:// or https://");
	assert_int_equal(fault_http_requests(h, NULL), 0);
	buf_done(&url);
	s3_free(s);
	fault_http_free(h);
}

static void a_wrong_clock_is_corrected(void **state)
{
	static const char skewed[] = "<Error><Code>RequestTimeTooSkewed</Code><Message>x</Message></Error>";
	const struct fault_rule rules[] = {
		{ .status = 403,
		  .times = 1,
		  .headers = "Date: Sat, 24 May 2031 00:00:00 GMT\r\n",
		  .body = { (const uint8_t *)skewed, sizeof(skewed) - 1 } },
		whole,
	};
	struct fault_http *h = server_of(rules, ARRAY_SIZE(rules));
	struct s3 *s = client_of(h);
	struct source *src = open_known(s);

	check_bytes(src, 0, 10);
	assert_non_null(strstr(fault_http_head(h, 1), "x-amz-date: 20310524T0000"));
	source_close(src);
	s3_free(s);
	fault_http_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_and_escapes_a_request),
		cmocka_unit_test(a_range_is_fetched_once),
		cmocka_unit_test(a_walk_backwards_takes_few_requests),
		cmocka_unit_test(a_body_that_breaks_off_is_continued),
		cmocka_unit_test(slow_down_is_tried_again),
		cmocka_unit_test(a_removal_is_done_only_without_an_error_in_its_answer),
		cmocka_unit_test(a_version_is_known_by_etag_else_by_time),
		cmocka_unit_test(an_error_may_be_longer_than_the_object),
		cmocka_unit_test(objects_of_two_times_are_two_files),
		cmocka_unit_test(wrong_answers_are_errors),
		cmocka_unit_test(lists_pages_in_order),
		cmocka_unit_test(keys_are_asked_for_escaped_where_xml_cannot_hold_them),
		cmocka_unit_test(a_listing_without_an_end_is_an_error),
		cmocka_unit_test(a_slow_answer_is_hedged),
		cmocka_unit_test(an_unreachable_server_fails_at_once_the_next_time),
		cmocka_unit_test(uploads_in_parts),
		cmocka_unit_test(a_completion_may_take_longer_than_other_requests),
		cmocka_unit_test(a_presigned_url_is_of_one_size_and_part),
		cmocka_unit_test(a_wrong_clock_is_corrected),
	};

	test_fill(content, sizeof(content), 7);
	setenv("AWS_CONFIG_FILE", "/nonexistent/config", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", 1);
	setenv("AWS_ACCESS_KEY_ID", "AKTEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
