/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, shared files, endpoints, and the answers of services that lend keys.
 */
#include "test.h"

#include <stdlib.h>
#include "s3/internal.h"

static void reads_names_of_objects(void **state)
{
	struct s3_name n;
	struct err err = { 0 };

	assert_done(s3_name_parse(STR("s3://bucket/a b/c+d%20.deb"), &n, &err));
	assert_str(n.bucket, "bucket");
	assert_str(n.key, "a b/c+d%20.deb");
	assert_done(s3_name_parse(STR("s3://bucket"), &n, &err));
	assert_str(n.key, "");
	assert_fails(s3_name_parse(STR("s3:///key"), &n, &err), ERR_INVALID, "s3://BUCKET/KEY");
	assert_fails(s3_name_parse(STR("s3://a@b/key"), &n, &err), ERR_INVALID, "letters");
	assert_fails(s3_name_parse(STR("s3://../key"), &n, &err), ERR_INVALID, "dot");
	assert_fails(s3_name_parse(STR("/srv/debs"), &n, &err), ERR_INVALID, "s3://BUCKET/KEY");
}

static void reads_shared_files(void **state)
{
	static const char text[] = "# a comment\n"
				   "[default]\n"
				   "region = eu-west-1\r\n"
				   "; another\n"
				   "[ profile  dev ]\n"
				   "region=eu-north-1\n"
				   "s3 =\n"
				   "  addressing_style = path\n"
				   "endpoint_url = http://localhost:9000\n"
				   "  region = not this\n"
				   "aws_secret_access_key = a/b+c==\n"
				   "[services x]\n"
				   "s3 = \n"
				   "\tendpoint_url = http://other\n";
	struct str all = str_of(text), v;

	assert_true(profile_get(all, "default", "region", NULL, &v));
	assert_str(v, "eu-west-1");
	assert_true(profile_get(all, "profile dev", "region", NULL, &v));
	assert_str(v, "eu-north-1");
	assert_true(profile_get(all, "profile dev", "s3", "addressing_style", &v));
	assert_str(v, "path");
	assert_true(profile_get(all, "profile dev", "aws_secret_access_key", NULL, &v));
	assert_str(v, "a/b+c==");
	assert_true(profile_get(all, "services x", "s3", "endpoint_url", &v));
	assert_str(v, "http://other");
	assert_false(profile_get(all, "default", "s3", "addressing_style", &v));
	assert_false(profile_get(all, "dev", "region", NULL, &v));
	assert_true(profile_has(all, "profile dev"));
	assert_false(profile_has(all, "profile"));
}

/* As the tools of AWS read them. */
static void reads_other_forms_of_shared_files(void **state)
{
	static const char text[] = "[profile default]\n"
				   "  Region = eu-west-2\n"
				   "  S3 =\n"
				   "    Addressing_Style = path\n"
				   "  aws_access_key_id = A\n"
				   "[profile \"my p\"]\n"
				   "\tregion = eu-west-3\n"
				   "\taws_access_key_id = B\n"
				   "[profile\tq]\n"
				   "region = eu-west-4\n"
				   "[services]\n"
				   "region = not this\n";
	struct str all = str_of(text), v;

	assert_true(profile_get(all, "profile default", "region", NULL, &v));
	assert_str(v, "eu-west-2");
	assert_true(profile_get(all, "profile default", "s3", "addressing_style", &v));
	assert_str(v, "path");
	assert_true(profile_get(all, "profile default", "aws_access_key_id", NULL, &v));
	assert_str(v, "A");
	assert_false(profile_get(all, "profile default", "addressing_style", NULL, &v));
	assert_true(profile_get(all, "profile my p", "region", NULL, &v));
	assert_str(v, "eu-west-3");
	assert_true(profile_get(all, "profile my p", "aws_access_key_id", NULL, &v));
	assert_str(v, "B");
	assert_true(profile_get(all, "profile q", "region", NULL, &v));
	assert_str(v, "eu-west-4");
	assert_false(profile_has(all, "default"));
	assert_false(profile_has(all, "services x"));
}

static void endpoints_may_be_ignored(void **state)
{
	struct s3_config c;
	struct err err = { 0 };

	setenv("AWS_ENDPOINT_URL_S3", "http://other", 1);
	assert_done(config_load(&(struct s3_options){ 0 }, &c, &err));
	assert_string_equal(c.endpoint, "http://other");
	config_done(&c);
	setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
	assert_done(config_load(&(struct s3_options){ 0 }, &c, &err));
	assert_null(c.endpoint);
	config_done(&c);
	assert_done(config_load(&(struct s3_options){ .endpoint = "http://option" }, &c, &err));
	assert_string_equal(c.endpoint, "http://option");
	config_done(&c);
	unsetenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
	unsetenv("AWS_ENDPOINT_URL_S3");
}

static void parses_endpoints(void **state)
{
	static const struct {
		const char *url, *scheme, *host;
	} cases[] = {
		{ "https://S3.Example.com", "https", "s3.example.com" },
		{ "http://127.0.0.1:7070/", "http", "127.0.0.1:7070" },
		{ "https://s3.example.com:443", "https", "s3.example.com" },
		{ "http://[::1]:80", "http", "[::1]" },
	};
	static const char *const wrong[] = { "localhost:9000",   "ftp://x",
					     "http://",          "http://user:word@host",
					     "http://host/path", "http://a b",
					     "https://" };
	struct err err = { 0 };
	struct place p;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_done(place_parse(cases[i].url, &p, &err));
		assert_string_equal(p.scheme, cases[i].scheme);
		assert_string_equal(p.host, cases[i].host);
		place_done(&p);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_fails(place_parse(wrong[i], &p, &err), ERR_INVALID, "an endpoint");
	/* A password is not repeated. */
	assert_null(strstr(err.text, "word"));
}

/* A client at @endpoint, with none of this machine's settings. */
static struct s3 *client_at(const char *endpoint, enum s3_style style)
{
	const struct s3_options o = {
		.endpoint = endpoint, .region = "us-east-1", .style = style, .anonymous = true
	};
	struct err err = { 0 };
	struct s3 *s;

	assert_done(s3_new(&o, &s, &err));
	return s;
}

static void check_place(struct s3 *s, const char *bucket, const char *host, const char *region)
{
	struct place p;

	place_of(s, str_of(bucket), &p);
	assert_string_equal(p.host, host);
	assert_string_equal(p.region, region);
	place_done(&p);
}

static void learns_where_a_bucket_is(void **state)
{
	struct s3 *s = client_at(NULL, S3_STYLE_AUTO);

	check_place(s, "b", "s3.us-east-1.amazonaws.com", "us-east-1");
	assert_true(place_learn(s, STR("b"), STR("eu-west-1"), STR("")));
	check_place(s, "b", "s3.eu-west-1.amazonaws.com", "eu-west-1");
	assert_false(place_learn(s, STR("b"), STR("eu-west-1"), STR("")));
	check_place(s, "c", "s3.us-east-1.amazonaws.com", "us-east-1");
	assert_true(place_learn(s, STR("c"), STR(""), STR("c.s3-eu-north-1.amazonaws.com")));
	check_place(s, "c", "s3-eu-north-1.amazonaws.com", "us-east-1");
	/* Not to just any server: with temporary keys a request carries their token. */
	assert_false(place_learn(s, STR("c"), STR(""), STR("evil.example.com")));
	assert_false(place_learn(s, STR("c"), STR(""), STR("amazonaws.com.evil.example")));
	assert_false(place_learn(s, STR("c"), STR(""), STR("a b\r\nX: y.amazonaws.com")));
	/* The region becomes part of a header. */
	assert_false(place_learn(s, STR("c"), STR("eu\r\nX-Evil: y"), STR("c.s3.amazonaws.com")));
	assert_false(place_learn(s, STR("c"), STR("eu/west,1"), STR("c.s3.amazonaws.com")));
	s3_free(s);
	s = client_at("http://s3.example.com:9000", S3_STYLE_PATH);
	assert_true(place_learn(s, STR("b"), STR("eu-west-1"), STR("")));
	check_place(s, "b", "s3.example.com:9000", "eu-west-1");
	assert_true(place_learn(s, STR("b"), STR(""), STR("eu.s3.example.com")));
	assert_false(place_learn(s, STR("b"), STR(""), STR("evils3.example.com")));
	s3_free(s);
}

static void reads_keys_that_services_lend(void **state)
{
	static const char json[] =
		"{\"Code\":\"Success\",\"AccessKeyId\":\"AKID\",\"SecretAccessKey\":\"s3cret\","
		"\"Token\":\"tok\",\"Expiration\":\"2100-01-02T03:04:05Z\"}";
	static const char sts[] =
		"<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
		"<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>tok</SessionToken>"
		"<SecretAccessKey>s3cret</SecretAccessKey><Expiration>2100-01-02T03:04:05.000Z</Expiration>"
		"<AccessKeyId>AKID</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
		"</AssumeRoleWithWebIdentityResponse>";
	struct lent_keys *k[2];
	struct err err = { 0 };

	assert_done(lender_read_json(bytes_of(json, strlen(json)), &k[0], &err));
	assert_done(lender_read_sts(bytes_of(sts, strlen(sts)), &k[1], &err));
	for (int i = 0; i < 2; i++) {
		assert_str(secret_str(&k[i]->id), "AKID");
		assert_str(secret_str(&k[i]->secret), "s3cret");
		assert_str(secret_str(&k[i]->token), "tok");
		assert_int_equal(k[i]->expires_s, 4102542245);
		lent_keys_unref(k[i]);
	}
	assert_fails(lender_read_json(bytes_of("[]", 2), &k[0], &err), ERR_INVALID, "object");
	assert_fails(lender_read_json(bytes_of("{}", 2), &k[0], &err), ERR_INVALID, "no keys");
	assert_fails(lender_read_sts(bytes_of("<a/>", 4), &k[0], &err), ERR_INVALID, "no keys");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_names_of_objects),
		cmocka_unit_test(reads_shared_files),
		cmocka_unit_test(reads_other_forms_of_shared_files),
		cmocka_unit_test(endpoints_may_be_ignored),
		cmocka_unit_test(parses_endpoints),
		cmocka_unit_test(learns_where_a_bucket_is),
		cmocka_unit_test(reads_keys_that_services_lend),
	};

	/* No file of this machine's. */
	setenv("AWS_CONFIG_FILE", "/nonexistent/config", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
