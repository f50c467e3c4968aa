/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 in C beside libcrypto, and the examples of FIPS 180-4.
 */
#include "test.h"

#include "base/sha256.h"

static void assert_hash(struct str text, const char *hex)
{
	uint8_t sum[SHA256_SIZE];
	char got[2 * SHA256_SIZE + 1];

	sha256_portable(bytes_of(text.p, text.size), sum);
	for (unsigned i = 0; i < SHA256_SIZE; i++)
		snprintf(got + 2 * i, 3, "%02x", sum[i]);
	assert_string_equal(got, hex);
}

static void examples_of_the_standard(void **state)
{
	assert_hash(STR(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_hash(STR("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_hash(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
		    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void every_length_is_as_libcrypto_has_it(void **state)
{
	uint8_t bytes[8200], ours[SHA256_SIZE], theirs[SHA256_SIZE];
	uint32_t seed = 7;
	struct err err;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
	/* Not loaded yet: in C. */
	sha256_small(bytes_of(bytes, sizeof(bytes)), ours);
	assert_done(sha256_load(&err));
	sha256_small(bytes_of(bytes, sizeof(bytes)), theirs);
	assert_memory_equal(ours, theirs, SHA256_SIZE);
	for (size_t n = 0; n < 300; n++) {
		sha256_portable(bytes_of(bytes, n), ours);
		sha256_of(bytes_of(bytes, n), theirs);
		assert_memory_equal(ours, theirs, SHA256_SIZE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_of_the_standard),
		cmocka_unit_test(every_length_is_as_libcrypto_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
