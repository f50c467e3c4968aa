/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include "http/limit.h"

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage ss = { 0 };

	if (strchr(text, ':')) {
		ss.ss_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&ss)->sin6_addr), 1);
	} else {
		ss.ss_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&ss)->sin_addr), 1);
	}
	return ss;
}

static bool take(struct limit *l, const char *text, int64_t now_ms)
{
	struct sockaddr_storage ss = address(text);

	return limit_take(l, (struct sockaddr *)&ss, now_ms);
}

static void a_burst_is_ten_seconds_worth(void **state)
{
	struct limit *l = limit_new(2);

	for (int i = 0; i < 20; i++)
		assert_true(take(l, "192.0.2.1", 1000));
	assert_false(take(l, "192.0.2.1", 1000));
	assert_false(take(l, "192.0.2.1", 1499));
	assert_true(take(l, "192.0.2.1", 1500));
	assert_false(take(l, "192.0.2.1", 1500));
	/* After a long time the bucket is full, and not fuller. */
	for (int i = 0; i < 20; i++)
		assert_true(take(l, "192.0.2.1", INT64_C(1) << 50));
	assert_false(take(l, "192.0.2.1", INT64_C(1) << 50));
	limit_free(l);
	limit_free(NULL);
}

static void a_bucket_is_of_an_ipv4_address_or_an_ipv6_network(void **state)
{
	static const struct {
		const char *emptied, *other;
		bool is_same;
	} cases[] = {
		{ "192.0.2.1", "192.0.2.2", false },
		{ "192.0.2.1", "::ffff:192.0.2.1", true }, /* as an IPv6 socket shows it */
		{ "2001:db8::1", "2001:db8::ffff:2", true },
		{ "2001:db8::1", "2001:db8:0:1::1", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct limit *l = limit_new(1);

		for (int k = 0; k < 10; k++)
			assert_true(take(l, cases[i].emptied, 1000));
		assert_false(take(l, cases[i].emptied, 1000));
		if (take(l, cases[i].other, 1000) == cases[i].is_same)
			fail_msg("%s and %s", cases[i].emptied, cases[i].other);
		limit_free(l);
	}
}

/* More addresses than the table has places for: one may get too much, none too little. */
static void addresses_of_one_place_do_not_share_a_bucket(void **state)
{
	struct limit *l = limit_new(1);
	struct sockaddr_in a = { .sin_family = AF_INET };

	for (uint32_t i = 0; i < 500000; i++) {
		a.sin_addr.s_addr = htonl(i);
		assert_true(limit_take(l, (struct sockaddr *)&a, 1000));
	}
	limit_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_is_ten_seconds_worth),
		cmocka_unit_test(a_bucket_is_of_an_ipv4_address_or_an_ipv6_network),
		cmocka_unit_test(addresses_of_one_place_do_not_share_a_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
