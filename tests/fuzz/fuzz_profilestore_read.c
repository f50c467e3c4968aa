/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading back from disk: lists of samples, and rows of the metadata store one after the other,
 * [kind][n][size, two bytes][data]. Damage is an error; otherwise all references are to entries that exist.
 */
#include "fuzz.h"

#include "profilestore/internal.h"

static void samples(struct bytes data)
{
	struct sums x, y;
	struct meta m;
	struct buf b = { 0 };
	struct err err = { 0 };

	meta_init(&m, 1 << 24);
	for (uint32_t i = 0; i < 100; i++)
		meta_stack(&m, i, 0);
	FUZZ_CHECK(sums_init(&x, &m, NULL, &err) == 0 && sums_init(&y, &m, NULL, &err) == 0);
	if (sums_add(&x, data, &err) == 0) {
		sums_write(&x, &b);
		FUZZ_CHECK(sums_add(&y, buf_bytes(&b), &err) == 0);
		for (uint32_t i = 0; i < 101; i++)
			FUZZ_CHECK(x.values[i] == y.values[i]);
	} else {
		FUZZ_CHECK(err.kind == ERR_DAMAGED);
	}
	sums_clear(&x);
	for (uint32_t i = 0; i < 101; i++)
		FUZZ_CHECK(!x.values[i] && !sums_has(&x, i));
	sums_done(&x);
	sums_done(&y);
	buf_done(&b);
	meta_done(&m);
}

static void check(const struct meta *m)
{
	uint32_t n_strings = column_n(&m->strings), n_lines = column_n(&m->lines);

	for (uint32_t i = 1; i < column_n(&m->stacks); i++) {
		if (holes_has(&m->holes, i))
			continue; /* it has neither caller nor location */
		FUZZ_CHECK(meta_stack_at(m, i)->parent < i);
		FUZZ_CHECK(meta_stack_at(m, i)->location < column_n(&m->locations));
	}
	for (uint32_t i = 0; i < column_n(&m->locations); i++) {
		const struct meta_location l = meta_location_at(m, i);
		struct meta_names names = meta_names_of(meta_names_at(m, i));

		FUZZ_CHECK(l.first_line + l.n_lines <= n_lines && l.part < column_n(&m->parts));
		FUZZ_CHECK((uint64_t)names.first_line + names.n_lines <= n_lines);
		FUZZ_CHECK(meta_binary_of(m, &l) < column_n(&m->binaries));
	}
	for (uint32_t i = 0; i < n_lines; i++)
		FUZZ_CHECK(meta_line_at(m, i).function < column_n(&m->functions));
	for (uint32_t i = 0; i < column_n(&m->functions); i++)
		FUZZ_CHECK(meta_function_at(m, i)->name < n_strings &&
			   meta_function_at(m, i)->system_name < n_strings &&
			   meta_function_at(m, i)->file < n_strings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(bytes_of(data, size));
	struct err err = { 0 };
	struct meta m;

	samples(bytes_of(data, size));
	meta_init(&m, 1 << 24);
	while (cursor_left(&c)) {
		unsigned kind = cursor_u8(&c) % (SEGMENT_N_KINDS - 1) + 1, n = cursor_u8(&c);
		struct bytes b = cursor_bytes(&c, cursor_u16(&c));

		if (!cursor_ok(&c) || segment_read(&m, kind, n, b, &err) < 0)
			break;
	}
	check(&m);
	meta_done(&m);
	return 0;
}
