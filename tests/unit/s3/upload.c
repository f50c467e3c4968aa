/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads in parts, by this client and by others with a presigned URL.
 */
#include "served.h"

#include <sys/mman.h>
#include <unistd.h>

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
	struct fault_http *h = fault_http_new(rules, ARRAY_SIZE(rules));
	const struct s3_name name = { STR("b"), STR("k") };
	struct s3 *s = served_client(h);
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
	struct fault_http *h = fault_http_new(&rule, 1);
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
	struct fault_http *h = fault_http_new(&served_whole, 1);
	struct s3 *s = served_client(h);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uploads_in_parts),
		cmocka_unit_test(a_completion_may_take_longer_than_other_requests),
		cmocka_unit_test(a_presigned_url_is_of_one_size_and_part),
	};

	return cmocka_run_group_tests(tests, served_set_up, NULL);
}
