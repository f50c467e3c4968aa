/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of an upload to the bucket, which others who may write there could have put: as they are, and with valid sums after
 * the lines before the record, and after the record.
 */
#include "fuzz.h"

#include "store/incoming.h"

#define RECORD "lode object 1\n"

static void add_with_sum(struct buf *out, const void *p, size_t n)
{
	size_t from = out->size;

	buf_add(out, p, n);
	buf_printf(out, "sum: %016llx\n", (unsigned long long)hash64(out->p + from, out->size - from, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	const uint8_t *record = size ? memmem(data, size, RECORD, sizeof(RECORD) - 1) : NULL;
	struct incoming_upload u;
	struct err err = { 0 };

	(void)incoming_facts_read(bytes_of(data, size), &a, &u, &err);
	if (!record || record == data)
		return 0;
	add_with_sum(&b, data, (size_t)(record - data));
	add_with_sum(&b, record, size - (size_t)(record - data));
	err = (struct err){ 0 };
	if (incoming_facts_read(buf_bytes(&b), &a, &u, &err) < 0) {
		FUZZ_CHECK(err.kind && err.text[0]);
		return 0;
	}
	FUZZ_CHECK(memchr(u.in_parts, 0, sizeof(u.in_parts)) && u.key.id.size);
	FUZZ_CHECK(!u.in_parts[0] == !incoming_n_parts(&u) || !u.meta.size || u.meta.size > UINT64_MAX / 2);
	return 0;
}
