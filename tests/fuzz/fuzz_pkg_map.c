/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A package map. The input is its unpacked content: two bytes with the number of trailing bytes that are
 * build IDs, one byte for the resume points after them, then the columns and these. The target packs them and
 * prepends a right hash, which no mutation would find. A decoded map must be in order, be searchable, and be
 * the same after another round trip.
 */
#include "fuzz.h"

#include "pkg/map_format.h"

#include <zstd.h>

#define N_NUMBERS 3 /* bytes before the input */

static void make_blob(const uint8_t *data, size_t size, struct buf *ret)
{
	AUTO(buf_done) struct buf hashed = { 0 };
	size_t left = size - N_NUMBERS, n_points = MIN((size_t)data[2], left),
	       n_ids = MIN((size_t)(data[0] | data[1] << 8), left - n_points), n = left - n_points - n_ids,
	       room = ZSTD_compressBound(n);

	buf_add_u32(&hashed, (uint32_t)n);
	buf_add_u32(&hashed, 0);
	buf_add_u32(&hashed, (uint32_t)n_points);
	hashed.size += ZSTD_compress(buf_reserve(&hashed, room), room, data + N_NUMBERS, n, 1);
	for (int i = 0; i < 4; i++)
		hashed.p[4 + i] = (uint8_t)((hashed.size - 12) >> 8 * i);
	buf_add(&hashed, data + N_NUMBERS + n, n_ids + n_points);
	buf_add_u32(ret, MAP_MAGIC);
	buf_add_u32(ret, MAP_VERSION);
	buf_add_u64(ret, hash64(hashed.p, hashed.size, 0));
	buf_add(ret, hashed.p, hashed.size);
}

/* A map of ours, taken apart and rebuilt by make_blob(): if that fails, the target and the reader disagree on
 * the format, and all inputs would be rejected unread. */
static void check_format(void)
{
	AUTO(buf_done) struct buf blob = { 0 }, input = { 0 }, made = { 0 };
	struct pkg_info info = { .kind = PKG_DEB, .payload = { CODEC_NONE, 0, 100, PKG_FORMAT_TAR } };
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &(struct pkg_identity){ .size = 100 });
	struct pkg_entry e = { .path = STR("usr/bin/x"), .size = 10, .off = 20, .is_elf = true };
	struct cursor c;
	uint32_t n, n_packed;
	struct bytes packed, rest;
	struct pkg_map *m;

	e.elf.build_id.size = 3;
	pkg_map_add(b, &e);
	pkg_map_set_decoded_size(b, 100);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	pkg_map_attach_points(&blob, bytes_of("points", 6));
	c = cursor_of(buf_bytes(&blob));
	cursor_skip(&c, MAP_HASH_FROM);
	n = cursor_u32(&c);
	n_packed = cursor_u32(&c);
	FUZZ_CHECK(cursor_u32(&c) == 6 && cursor_off(&c) == MAP_HEADER_SIZE);
	packed = cursor_bytes(&c, n_packed);
	rest = cursor_bytes(&c, cursor_left(&c));
	FUZZ_CHECK(cursor_ok(&c) && rest.size == 3 + 6);
	buf_add(&input, "\3\0\6", N_NUMBERS);
	FUZZ_CHECK(ZSTD_decompress(buf_reserve(&input, n), n, packed.p, packed.size) == n);
	input.size += n;
	buf_add(&input, rest.p, rest.size);
	make_blob(input.p, input.size, &made);
	FUZZ_CHECK(pkg_map_decode(buf_bytes(&made), &m, NULL) == 0);
	FUZZ_CHECK(m->n_entries == 1 && bytes_eq(m->points, bytes_of("points", 6)));
	pkg_map_free(m);
}

static void check_map(const struct pkg_map *m)
{
	for (uint32_t i = 0; i < m->n_entries; i++) {
		const struct pkg_entry *e = &m->entries[i], *found = pkg_map_find(m, e->path);

		FUZZ_CHECK(!i || str_cmp(m->entries[i - 1].path, e->path) <= 0);
		FUZZ_CHECK(e->path.size > PKG_MAX_NAME || (found && str_eq(found->path, e->path)));
		FUZZ_CHECK(pkg_map_by_number(m, e->number)->number == e->number);
		FUZZ_CHECK(e->off == PKG_NO_OFF ||
			   (e->off <= m->decoded_size && e->size <= m->decoded_size - e->off));
	}
	for (uint32_t i = 0; i < MIN(m->n_links, 64u); i++)
		(void)pkg_map_find(m, m->links[i].path);
}

static int number_cmp(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The entry found by its number is the same; of several members that share one, any may come first. */
static void check_same(const struct pkg_map *m, const struct pkg_map *other)
{
	uint32_t *numbers = NEW_N(uint32_t, m->n_entries + 1);

	for (uint32_t i = 0; i < m->n_entries; i++) {
		numbers[i] = m->entries[i].number;
		FUZZ_CHECK(str_eq(m->entries[i].path, other->entries[i].path));
	}
	qsort(numbers, m->n_entries, sizeof(*numbers), number_cmp);
	for (uint32_t i = 0; i < m->n_entries; i++) {
		const struct pkg_entry *x = pkg_map_by_number(m, numbers[i]),
				       *y = pkg_map_by_number(other, numbers[i]);

		FUZZ_CHECK(x && y && x->number == y->number);
		if ((i && numbers[i - 1] == numbers[i]) ||
		    (i + 1 < m->n_entries && numbers[i + 1] == numbers[i]))
			continue;
		FUZZ_CHECK(str_eq(x->path, y->path) && x->is_elf == y->is_elf && x->size == y->size);
		FUZZ_CHECK(!x->is_elf ||
			   (x->elf.flags == y->elf.flags && build_id_eq(&x->elf.build_id, &y->elf.build_id)));
	}
	free(numbers);
}

static void again(const struct pkg_map *m)
{
	struct pkg_info info = { .kind = m->kind,
				 .name = m->name,
				 .version = m->version,
				 .arch = m->arch,
				 .source_name = m->source_name,
				 .payload = m->payload };
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &m->identity);
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *other;

	for (uint32_t i = 0; i < m->n_entries; i++)
		pkg_map_add(b, &m->entries[i]);
	for (uint32_t i = 0; i < m->n_links; i++)
		pkg_map_add_link(b, m->links[i].path, m->links[i].target);
	pkg_map_set_decoded_size(b, m->decoded_size);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	FUZZ_CHECK(pkg_map_decode(buf_bytes(&blob), &other, NULL) == 0);
	FUZZ_CHECK(other->n_entries == m->n_entries && other->n_links == m->n_links);
	check_same(m, other);
	pkg_map_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool format_checked;
	AUTO(buf_done) struct buf blob = { 0 };
	struct err err = { 0 };
	struct pkg_map *m;

	if (!format_checked)
		check_format();
	format_checked = true;
	if (size < N_NUMBERS)
		return 0;
	make_blob(data, size, &blob);
	if (pkg_map_decode(buf_bytes(&blob), &m, &err) == 0) {
		check_map(m);
		if (m->n_entries + m->n_links < 2000 && m->weight < MIB(1))
			again(m);
		pkg_map_free(m);
	} else {
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	}
	/* Also as it came: the outer format. */
	if (pkg_map_decode(bytes_of(data, size), &m, &err) == 0)
		pkg_map_free(m);
	return 0;
}
