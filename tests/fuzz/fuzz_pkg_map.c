/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A package map. The input is what is inside of one: two bytes that say how many of the last bytes are build
 * IDs, then the columns. The target packs them and puts a right hash in front, which no mutation would find.
 * What is decoded must be in order, be found, and be the same again after another turn.
 */
#include "fuzz.h"

#include "pkg/map_format.h"

#include <zstd.h>

static void make_blob(const uint8_t *data, size_t size, struct buf *ret)
{
	AUTO(buf_done) struct buf hashed = { 0 };
	size_t n_ids = MIN((size_t)(data[0] | data[1] << 8), size - 2), n = size - 2 - n_ids,
	       room = ZSTD_compressBound(n);

	buf_add_u32(&hashed, (uint32_t)n);
	buf_add_u32(&hashed, 0);
	hashed.size += ZSTD_compress(buf_reserve(&hashed, room), room, data + 2, n, 1);
	for (int i = 0; i < 4; i++)
		hashed.p[4 + i] = (uint8_t)((hashed.size - 8) >> 8 * i);
	buf_add(&hashed, data + 2 + n, n_ids);
	buf_add_u32(ret, MAP_MAGIC);
	buf_add_u32(ret, MAP_VERSION);
	buf_add_u64(ret, hash64(hashed.p, hashed.size, 0));
	buf_add(ret, hashed.p, hashed.size);
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
	for (uint32_t i = 0; i < m->n_entries; i++) {
		const struct pkg_entry *x = pkg_map_by_number(m, m->entries[i].number),
				       *y = pkg_map_by_number(other, m->entries[i].number);

		FUZZ_CHECK(str_eq(m->entries[i].path, other->entries[i].path));
		FUZZ_CHECK(x && y && x->is_elf == y->is_elf &&
			   (!x->is_elf || x->elf.flags == y->elf.flags || x != y));
	}
	pkg_map_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf blob = { 0 };
	struct err err = { 0 };
	struct pkg_map *m;

	if (size < 2)
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
	/* As it came, too: the way in. */
	if (pkg_map_decode(bytes_of(data, size), &m, &err) == 0)
		pkg_map_free(m);
	return 0;
}
