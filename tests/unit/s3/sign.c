/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures, compared with those that AWS publishes: the examples of "Authenticating Requests" in the S3 API reference, and
 * some of its test suite for Signature Version 4.
 */
#include "test.h"

#include "base/sha256.h"
#include "boto_vectors.h"
#include "s3/sign.h"

#define MAX_FIELDS 4

struct vector {
	const char *name, *method, *host, *path;
	struct sign_field query[MAX_FIELDS], headers[MAX_FIELDS];
	const char *body, *token; /* NULL: none */
	const char *signature;
};

#define FIELD(name, value)                       \
	{                                        \
		{ name, sizeof(name) - 1 },      \
		{                                \
			value, sizeof(value) - 1 \
		}                                \
	}

/* The examples of the S3 API reference, of 2013-05-24T00:00:00Z in us-east-1. */
static const struct vector s3_vectors[] = {
	{ .name = "get a range",
	  .method = "GET",
	  .host = "examplebucket.s3.amazonaws.com",
	  .path = "/test.txt",
	  .headers = { FIELD("range", "bytes=0-9") },
	  .signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
	{ .name = "put, with an odd key",
	  .method = "PUT",
	  .host = "examplebucket.s3.amazonaws.com",
	  .path = "/test$file.text",
	  .headers = { FIELD("date", "Fri, 24 May 2013 00:00:00 GMT"),
		       FIELD("x-amz-storage-class", "REDUCED_REDUNDANCY") },
	  .body = "Welcome to Amazon S3.",
	  .signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd" },
	{ .name = "a field of the query without a value",
	  .method = "GET",
	  .host = "examplebucket.s3.amazonaws.com",
	  .path = "/",
	  .query = { FIELD("lifecycle", "") },
	  .signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
	{ .name = "a listing, its query out of order",
	  .method = "GET",
	  .host = "examplebucket.s3.amazonaws.com",
	  .path = "/",
	  .query = { FIELD("prefix", "J"), FIELD("max-keys", "2") },
	  .signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
};

#define LONG_TOKEN                                                                         \
	"AQoDYXdzEPT//////////"                                                            \
	"wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqT" \
	"flfKD8YUuwthAx7mSEI/qkPpKPi/"                                                     \
	"kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU"         \
	"9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"             \
	"scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KS"                                                 \
	"YvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="

/* Of the test suite, of 2015-08-30T12:36:00Z, for a service that wants no hash in a header. */
static const struct vector suite_vectors[] = {
	{ .name = "get-vanilla",
	  .method = "GET",
	  .path = "/",
	  .signature = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31" },
	{ .name = "get-vanilla-query-order-key-case",
	  .method = "GET",
	  .path = "/",
	  .query = { FIELD("Param2", "value2"), FIELD("Param1", "value1") },
	  .signature = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500" },
	{ .name = "get-utf8",
	  .method = "GET",
	  .path = "/\xe1\x88\xb4",
	  .signature = "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85" },
	{ .name = "get-unreserved",
	  .method = "GET",
	  .path = "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	  .signature = "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f" },
	{ .name = "get-space",
	  .method = "GET",
	  .path = "/example space/",
	  .signature = "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741" },
	{ .name = "get-header-key-duplicate",
	  .method = "GET",
	  .path = "/",
	  .headers = { FIELD("my-header1", "value2"), FIELD("my-header1", "value2"),
		       FIELD("my-header1", "value1") },
	  .signature = "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea" },
	{ .name = "get-header-value-trim",
	  .method = "GET",
	  .path = "/",
	  .headers = { FIELD("my-header1", " value1"), FIELD("my-header2", " \"a   b   c\"") },
	  .signature = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736" },
	{ .name = "post-vanilla",
	  .method = "POST",
	  .path = "/",
	  .signature = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b" },
	{ .name = "post-sts-header-before",
	  .method = "POST",
	  .path = "/",
	  .token = LONG_TOKEN,
	  .signature = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead" },
};

static void vector_request(const struct vector *v, char hash[2 * SHA256_SIZE + 1], struct sign_request *ret)
{
	struct str body = str_of(v->body ? v->body : "");
	uint8_t sum[SHA256_SIZE];

	sha256_of(bytes_of(body.p, body.size), sum);
	*ret = (struct sign_request){
		.method = str_of(v->method),
		.host = str_of(v->host ? v->host : "example.amazonaws.com"),
		.path = str_of(v->path),
		.query = v->query,
		.headers = v->headers,
		.body_hash = str_of(hex_encode(bytes_of(sum, sizeof(sum)), hash)),
		.region = STR("us-east-1"),
	};
	while (ret->n_query < MAX_FIELDS && v->query[ret->n_query].name.size)
		ret->n_query++;
	while (ret->n_headers < MAX_FIELDS && v->headers[ret->n_headers].name.size)
		ret->n_headers++;
}

static void check_signature(const struct vector *v, const struct sign_request *r,
			    const struct sign_keys *keys)
{
	const char *headers[SIGN_MAX_HEADERS];
	const char *signature;
	struct arena a;
	size_t n;

	arena_init(&a);
	sign_headers(r, keys, &a, headers, &n);
	signature = strstr(headers[0], "Signature=");
	assert_non_null(signature);
	if (strcmp(signature + strlen("Signature="), v->signature) != 0) {
		AUTO(buf_done) struct buf text = { 0 };

		sign_canonical(r, keys, &text);
		fail_msg("%s: %s\n%s", v->name, headers[0], buf_cstr(&text));
	}
	arena_done(&a);
}

static void signs_as_the_reference_of_s3(void **state)
{
	const struct sign_keys keys = { STR("AKIAIOSFODNN7EXAMPLE"),
					STR("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
					{ 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(s3_vectors); i++) {
		char hash[2 * SHA256_SIZE + 1];
		struct sign_request r;

		vector_request(&s3_vectors[i], hash, &r);
		r.service = STR("s3");
		r.time_s = 1369353600;
		check_signature(&s3_vectors[i], &r, &keys);
	}
}

static void signs_as_the_test_suite(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(suite_vectors); i++) {
		const struct sign_keys keys = { STR("AKIDEXAMPLE"),
						STR("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
						str_of(suite_vectors[i].token) };
		char hash[2 * SHA256_SIZE + 1];
		struct sign_request r;

		vector_request(&suite_vectors[i], hash, &r);
		r.service = STR("service");
		r.time_s = 1440938160;
		r.no_hash_header = true;
		check_signature(&suite_vectors[i], &r, &keys);
	}
}

static void presigns_as_the_reference_of_s3(void **state)
{
	const struct sign_keys keys = { STR("AKIAIOSFODNN7EXAMPLE"),
					STR("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
					{ 0 } };
	const struct sign_request r = { .method = STR("GET"),
					.host = STR("examplebucket.s3.amazonaws.com"),
					.path = STR("/test.txt"),
					.region = STR("us-east-1"),
					.service = STR("s3"),
					.time_s = 1369353600 };
	struct buf url = { 0 };

	sign_url(&r, &keys, 86400, &url);
	assert_str(buf_str(&url),
		   "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%"
		   "2F20130524%2F"
		   "us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
		   "X-Amz-SignedHeaders=host&X-Amz-Signature="
		   "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
	buf_done(&url);
}

/* A server decodes the path and gets the key again, whatever bytes it has. */
static void target_has_every_byte_of_an_odd_key(void **state)
{
	char key[257] = "/", plain[1024];
	struct sign_request r = { .method = STR("GET") };
	struct buf target = { 0 };
	size_t n;

	for (int i = 1; i < 256; i++)
		key[i] = (char)i;
	r.path = str_of(key);
	sign_target(&r, &target);
	for (size_t i = 0; i < target.size; i++)
		assert_true(target.p[i] > 0x20 && target.p[i] < 0x7f &&
			    !strchr("+&?#=;\"<>\\", (char)target.p[i]));
	assert_true(hex_unescape(buf_str(&target), true, plain, &n));
	assert_int_equal(n, strlen(key));
	assert_memory_equal(plain, key, n);
	buf_done(&target);
}

/* Odd keys, listings, tokens: the signatures of another implementation. */
static void signs_as_boto3(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(boto_vectors); i++) {
		const struct boto_vector *v = &boto_vectors[i];
		const struct sign_keys keys = { STR("AKTEST"), STR("hush/hush+hush"), str_of(v->token) };
		struct sign_field query[4];
		struct sign_request r = { .method = STR("GET"),
					  .host = STR("bucket.example:9000"),
					  .path = str_of(v->path),
					  .query = query,
					  .body_hash = SIGN_NO_BODY,
					  .region = STR("eu-west-1"),
					  .service = STR("s3"),
					  .time_s = 1795442400 };
		const char *headers[SIGN_MAX_HEADERS];
		struct arena a;
		bool found = false;
		size_t n;

		for (; r.n_query < 4 && v->query[2 * r.n_query]; r.n_query++)
			query[r.n_query] = (struct sign_field){ str_of(v->query[2 * r.n_query]),
								str_of(v->query[2 * r.n_query + 1]) };
		arena_init(&a);
		sign_headers(&r, &keys, &a, headers, &n);
		for (size_t k = 0; k < n; k++)
			found = found || strstr(headers[k], v->signature);
		if (!found)
			fail_msg("%s: not boto3's signature", v->path);
		arena_done(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_as_the_reference_of_s3),
		cmocka_unit_test(signs_as_the_test_suite),
		cmocka_unit_test(presigns_as_the_reference_of_s3),
		cmocka_unit_test(signs_as_boto3),
		cmocka_unit_test(target_has_every_byte_of_an_odd_key),
	};

	if (sha256_load(NULL) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
