/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings: their pages, keys that XML cannot hold, listings without an end.
 */
#include "served.h"

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
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	struct s3 *s = served_client(h);
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
		struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
		struct s3 *s = served_client(h);
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
		struct fault_http *h = fault_http_new(&rule, 1);
		struct s3 *s = served_client(h);
		AUTO(buf_done) struct buf out = { 0 };
		struct err err = { 0 };

		if (list_all(s, &out, &err) >= 0 || !strstr(err.text, cases[i].text))
			fail_msg("%s: %s", cases[i].text, err.text);
		s3_free(s);
		fault_http_free(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_pages_in_order),
		cmocka_unit_test(keys_are_asked_for_escaped_where_xml_cannot_hold_them),
		cmocka_unit_test(a_listing_without_an_end_is_an_error),
	};

	return cmocka_run_group_tests(tests, served_set_up, NULL);
}
