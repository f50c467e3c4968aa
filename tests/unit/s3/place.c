/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where requests for a bucket go, and where a server may send them.
 */
#include "test.h"

#include <stdlib.h>
#include "s3/internal.h"

static struct s3 *client(const char *endpoint, const char *region)
{
	const struct s3_options o = { .endpoint = endpoint, .region = region };
	struct s3 *s;
	struct err err = { 0 };

	assert_done(s3_new(&o, &s, &err));
	return s;
}

static void check_place(struct s3 *s, const char *host, const char *region)
{
	struct place p;

	place_of(s, STR("debs"), &p);
	assert_string_equal(p.host, host);
	assert_string_equal(p.region, region);
	place_done(&p);
}

static void another_region_of_amazons_is_followed(void **state)
{
	struct s3 *s = client(NULL, "us-east-1");

	check_place(s, "s3.us-east-1.amazonaws.com", "us-east-1");
	assert_true(place_learn(s, STR("debs"), STR("eu-north-1"), (struct str){ 0 }));
	check_place(s, "s3.eu-north-1.amazonaws.com", "eu-north-1");
	/* No news, or not a region. */
	assert_false(place_learn(s, STR("debs"), STR("eu-north-1"), (struct str){ 0 }));
	assert_false(place_learn(s, STR("debs"), STR("evil.example/"), (struct str){ 0 }));
	s3_free(s);
}

/* Its hosts are below another domain, and keys of one are not those of the other. */
static void another_region_in_china_is_followed_within_china(void **state)
{
	struct s3 *s = client(NULL, "cn-north-1");

	check_place(s, "s3.cn-north-1.amazonaws.com.cn", "cn-north-1");
	assert_true(place_learn(s, STR("debs"), STR("cn-northwest-1"), (struct str){ 0 }));
	check_place(s, "s3.cn-northwest-1.amazonaws.com.cn", "cn-northwest-1");
	assert_false(place_learn(s, STR("debs"), STR("eu-north-1"), (struct str){ 0 }));
	assert_false(place_learn(s, STR("debs"), (struct str){ 0 }, STR("x.amazonaws.com.cn.evil.example")));
	s3_free(s);
}

static void an_endpoint_keeps_its_host(void **state)
{
	struct s3 *s = client("http://minio.example:9000", "us-east-1");

	check_place(s, "minio.example:9000", "us-east-1");
	assert_true(place_learn(s, STR("debs"), STR("here"), (struct str){ 0 }));
	check_place(s, "minio.example:9000", "here");
	assert_false(place_learn(s, STR("debs"), STR("here"), STR("evil.example")));
	assert_false(place_learn(s, STR("debs"), STR("here"), STR("evilminio.example")));
	assert_true(place_learn(s, STR("debs"), STR("here"), STR("eu.minio.example:9000")));
	check_place(s, "eu.minio.example:9000", "here");
	s3_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_region_of_amazons_is_followed),
		cmocka_unit_test(another_region_in_china_is_followed_within_china),
		cmocka_unit_test(an_endpoint_keeps_its_host),
	};

	setenv("AWS_CONFIG_FILE", "/nonexistent/config", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", 1);
	unsetenv("AWS_ENDPOINT_URL");
	unsetenv("AWS_ENDPOINT_URL_S3");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
