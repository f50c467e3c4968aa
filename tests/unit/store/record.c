/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "store/internal.h"

static const struct store_meta full = {
	.origin = STORE_PUSHED,
	.quality = STORE_DWARF,
	.mtime = -5,
	.from = { "ci at\nhome", 10 },
	.address = { "::1", 3 },
	.file = { "/usr/lib/100%/\xc3\xa9", 17 },
	.archive = { "/srv/a.deb", 10 },
	.lacks = { "a.dwo", 5 },
	.sha256 = { 1, 2, 255 },
	.size = UINT64_MAX - 1,
	.stored_size = 77,
	.raw = true,
	.created = 1700000000,
};

static void a_record_is_read_as_it_was_written(void **state)
{
	struct store_key key = key_of("abcd01/source/usr/src/a b/../x.c"), got_key;
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	struct store_meta got;

	store_record_write(&key, &full, &b);
	assert_done(store_record_read(buf_bytes(&b), &a, &got_key, &got, &err));
	assert_true(build_id_eq(&got_key.id, &key.id));
	assert_int_equal(got_key.kind, STORE_SOURCE);
	assert_str(got_key.arg, "/usr/src/a b/../x.c");
	assert_int_equal(got.origin, full.origin);
	assert_int_equal(got.quality, full.quality);
	assert_int_equal(got.mtime, full.mtime);
	assert_true(str_eq(got.from, full.from));
	assert_true(str_eq(got.address, full.address));
	assert_true(str_eq(got.file, full.file));
	assert_true(str_eq(got.archive, full.archive));
	assert_true(str_eq(got.lacks, full.lacks));
	assert_memory_equal(got.sha256, full.sha256, STORE_SHA256_SIZE);
	assert_true(got.size == full.size);
	assert_int_equal(got.stored_size, 77);
	assert_true(got.raw);
	assert_int_equal(got.created, full.created);
}

static void a_record_with_a_changed_or_missing_byte_is_refused(void **state)
{
	struct store_key key = key_of("abcd01/debuginfo"), got_key;
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	struct store_meta got;
	struct err err = { 0 };

	store_record_write(&key, &full, &b);
	for (size_t i = 0; i < b.size; i++) {
		assert_true(store_record_read(bytes_of(b.p, i), &a, &got_key, &got, &err) < 0);
		b.p[i] ^= 1;
		assert_true(store_record_read(buf_bytes(&b), &a, &got_key, &got, &err) < 0);
		b.p[i] ^= 1;
	}
}

static void unknown_fields_of_a_later_version_are_ignored(void **state)
{
	struct store_key key = key_of("abcd01/debuginfo"), got_key;
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	struct store_meta got;
	struct err err = { 0 };

	store_record_write(&key, &full, &b);
	b.size -= strlen("sum: 0123456789abcdef\n");
	buf_printf(&b, "colour: red\n");
	buf_printf(&b, "sum: %016llx\n", (unsigned long long)hash64(b.p, b.size, 0));
	assert_done(store_record_read(buf_bytes(&b), &a, &got_key, &got, &err));
}

static void keys_are_read_as_they_are_written(void **state)
{
	static const char *const good[] = { "ab/debuginfo",    "abcd/executable",    "abcd/sources",
					    "abcd/source/x.c", "abcd/section/.text", "abcd/symtab/3",
					    "abcd/symtab" };
	static const char *const bad[] = {
		"",         "ab",           "/debuginfo",     "abc/debuginfo", "AB/debuginfo",
		"ab/debug", "xx/debuginfo", "ab/../debuginfo"
	};
	AUTO(arena_done) struct arena a = { 0 };
	struct store_key key;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		key = key_of(good[i]);
		assert_str(store_key_text(&key, &a), good[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(store_key_parse(str_of(bad[i]), &key));
}

static void record_names_are_short_and_of_plain_characters(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	char path[STORE_MAX_ARG + 1];
	struct store_key key = key_of("abcd01/source/x");

	memset(path, '/', sizeof(path));
	key.arg = (struct str){ path, STORE_MAX_ARG };
	key.id.size = BUILD_ID_MAX;
	store_record_name(&key, &b);
	assert_true(b.size < 255);
	for (size_t i = 0; i < b.size; i++)
		assert_true(strchr("abcdefghijklmnopqrstuvwxyz0123456789/.-", b.p[i]) != NULL);
	b.size = 0;
	key = key_of("abcd01/debuginfo");
	store_record_name(&key, &b);
	assert_str(buf_str(&b), "keys/ab/abcd01.debuginfo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_read_as_it_was_written),
		cmocka_unit_test(a_record_with_a_changed_or_missing_byte_is_refused),
		cmocka_unit_test(unknown_fields_of_a_later_version_are_ignored),
		cmocka_unit_test(keys_are_read_as_they_are_written),
		cmocka_unit_test(record_names_are_short_and_of_plain_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
