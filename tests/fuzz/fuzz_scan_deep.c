/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole package through the deep pass, with a request that waits for some of its members. Every member with
 * a position is then opened by the map and the points, during the pass and after it, and read from its end
 * and its start.
 */
#include "fuzz.h"

#include "scan/internal.h"

#define MAX_PIECES  2000   /* a small input may decode to gigabytes */
#define MAX_DECODED MIB(4) /* to be read member by member */
#define MAX_OPENED  32u

struct watch_over {
	struct bytes package;
	unsigned n_pieces, n_partial;
};

static void read_at(struct source *s, uint64_t off)
{
	uint8_t piece[KIB(4)];
	struct err err = { 0 };
	size_t n = 0;

	if (source_read(s, off, piece, sizeof(piece), SOURCE_SEQUENTIAL, &n, &err) < 0) {
		FUZZ_CHECK(err.kind != ERR_NONE);
		return;
	}
	FUZZ_CHECK(n <= sizeof(piece) && off + n <= s->size);
}

static void open_all(struct bytes package, struct bytes blob, struct bytes points)
{
	struct pkg_map *m;
	struct err err = { 0 };
	unsigned n = 0;

	/* A map made by the deep pass is never damaged. */
	FUZZ_CHECK(pkg_map_decode(blob, &m, &err) == 0);
	for (uint32_t i = 0; i < m->n_entries && n < MAX_OPENED && m->decoded_size <= MAX_DECODED; i++) {
		const struct pkg_entry *e = &m->entries[i];
		struct codec_source_options opts = { .points = points };
		struct source *s;

		if (e->off == PKG_NO_OFF || e->inner_size > MAX_DECODED)
			continue;
		n++;
		if (pkg_entry_open(m, e, source_of_mem(package, "x"), &opts, &s, &err) < 0)
			continue;
		FUZZ_CHECK(s->size == (e->inner == CODEC_NONE ? e->size : e->inner_size));
		read_at(s, s->size - MIN(s->size, UINT64_C(100)));
		read_at(s, 0);
		source_close(s);
	}
	pkg_map_free(m);
}

static int on_progress(void *arg, uint64_t done)
{
	struct watch_over *w = arg;

	return ++w->n_pieces > MAX_PIECES;
}

static unsigned on_wanted(void *arg)
{
	return 1;
}

static bool on_seen(void *arg, const struct elf_facts *what)
{
	const struct watch_over *w = arg;

	FUZZ_CHECK(what->build_id.size);
	return w->n_partial < 2 && (what->build_id.b[0] & 1);
}

static void on_partial(void *arg, struct buf *map, struct buf *points)
{
	struct watch_over *w = arg;

	w->n_partial++;
	open_all(w->package, buf_bytes(map), buf_bytes(points));
}

static void check(const struct deep_result *r)
{
	struct pkg_map *m;
	struct err err = { 0 };

	FUZZ_CHECK(pkg_map_decode(buf_bytes(&r->map), &m, &err) == 0);
	for (size_t i = 0; i < r->n_artifacts; i++) {
		const struct pkg_entry *e = pkg_map_by_number(m, r->artifacts[i].member);

		FUZZ_CHECK(e && e->is_elf && build_id_eq(&e->elf.build_id, &r->artifacts[i].build_id));
	}
	for (uint32_t i = 0; i < MIN(m->n_entries, MAX_OPENED); i++) {
		uint64_t dir = index_dir_hash(path_dirname(m->entries[i].path));
		bool found = false;

		for (size_t k = 0; k < r->n_dirs; k++)
			found |= r->dirs[k] == dir;
		FUZZ_CHECK(found);
	}
	pkg_map_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct watch_over w = { .package = bytes_of(data, size) };
	struct deep_tap tap = { &w, on_progress, on_wanted, on_seen, on_partial };
	struct source *src = source_of_mem(w.package, "x.tar");
	struct stat st = { .st_size = (off_t)size };
	const struct deep_input in = { src, &st, STR("x.tar"), 0 };
	struct deep_result r;
	struct err err = { 0 };

	if (deep_pass(&in, &tap, &r, &err) == 0) {
		check(&r);
		open_all(w.package, buf_bytes(&r.map), buf_bytes(&r.points));
		deep_result_done(&r);
	} else {
		FUZZ_CHECK(err.kind != ERR_NONE && err.kind != ERR_INTERNAL);
	}
	source_close(src);
	return 0;
}
