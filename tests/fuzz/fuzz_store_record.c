/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary records with a valid sum: a record that is read is written and read again, and must be equal.
 */
#include "fuzz.h"

#include "store/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf b = { 0 }, again = { 0 };
	struct store_key key, key2;
	struct store_meta meta, meta2;
	struct err err = { 0 };

	(void)store_record_read(bytes_of(data, size), &a, &key, &meta, &err);
	(void)store_key_parse((struct str){ (const char *)data, size }, &key);
	buf_add(&b, data, size);
	buf_printf(&b, "sum: %016llx\n", (unsigned long long)hash64(data, size, 0));
	if (store_record_read(buf_bytes(&b), &a, &key, &meta, &err) < 0) {
		FUZZ_CHECK(err.kind && err.text[0]);
		return 0;
	}
	store_record_write(&key, &meta, &again);
	/* Each byte may have become three. */
	if (again.size > STORE_MAX_RECORD)
		return 0;
	FUZZ_CHECK(store_record_read(buf_bytes(&again), &a, &key2, &meta2, &err) == 0);
	FUZZ_CHECK(build_id_eq(&key.id, &key2.id) && key.kind == key2.kind && str_eq(key.arg, key2.arg));
	FUZZ_CHECK(str_eq(meta.from, meta2.from) && str_eq(meta.file, meta2.file) &&
		   meta.size == meta2.size && meta.mtime == meta2.mtime);
	return 0;
}
