/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-pkg: how fast packages are read, in CPU seconds of this process.
 *
 *   bench-pkg open FILE...     the header pass over all files, repeatedly for some seconds
 *   bench-pkg members FILE...  the headers of the payload's members; an uncompressed payload is not read further
 *   bench-pkg map FILE...      decode, find the ELF facts of every member, make the map; its size and the time to
 *                              decode it
 */
#include "pkg/pkg.h"

#include <stdio.h>
#include <stdlib.h>

#define OPEN_NS INT64_C(3000000000)

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

static int open_package(const char *path, struct arena *a, struct source **ret_src, struct pkg_info *ret,
			struct err *err)
{
	int r = source_open_file(path, ret_src, err);

	if (r != 0)
		return r < 0 ? r : err_set(err, ERR_IO, "no such file");
	r = pkg_open(*ret_src, str_of(path), a, ret, err);
	return r > 0 ? err_set(err, ERR_INVALID, "not a package") : r;
}

/* ---- open ---- */

static int bench_open(char **paths, int n, struct err *err)
{
	int64_t start = clock_cpu_ns(), wall = clock_mono_ns(), cpu;
	size_t n_opened = 0, n_ids = 0;
	struct pkg_info info;
	struct arena a;

	arena_init(&a);
	do {
		for (int i = 0; i < n; i++) {
			AUTO(source_closep) struct source *src = NULL;

			if (open_package(paths[i], &a, &src, &info, err) < 0)
				return err_in(err, "%s", paths[i]);
			n_opened++;
			n_ids += info.n_build_ids;
			arena_reset(&a);
		}
		cpu = clock_cpu_ns() - start;
	} while (cpu < OPEN_NS);
	arena_done(&a);
	printf("%zu packages opened, %zu build IDs, %.2f s CPU, %.2f s wall: %.0f packages per CPU second\n",
	       n_opened, n_ids, seconds(cpu), seconds(clock_mono_ns() - wall),
	       (double)n_opened / seconds(cpu));
	return 0;
}

/* ---- members, map ---- */

struct totals {
	uint64_t n_members, n_elf, n_ids, decoded, map_size, raw_ids;
	int64_t cpu, encode_ns, decode_ns;
	size_t weight;
};

static int probe(struct pkg_reader *r, struct elf_probe *p, const struct pkg_member *m, struct pkg_entry *e,
		 struct err *err)
{
	struct bytes piece;
	struct err why;

	elf_probe_start(p, m->size);
	while (elf_probe_wants(p)) {
		if (pkg_reader_data(r, &piece, err) < 0)
			return -1;
		if (!piece.size)
			break;
		elf_probe_feed(p, piece);
	}
	/* A failed probe counts as not ELF here. */
	e->is_elf = elf_probe_finish(p, &e->elf, &why) == 0;
	return 0;
}

static int add_member(struct pkg_reader *r, struct elf_probe *p, struct pkg_map_builder *b,
		      const struct pkg_member *m, uint32_t number, struct totals *t, struct err *err)
{
	struct pkg_entry e = { .path = m->path,
			       .number = number,
			       .mode = m->mode,
			       .size = m->size,
			       .off = m->off,
			       .mtime = m->mtime };

	if (m->type == PKG_SYMLINK)
		pkg_map_add_link(b, m->path, m->link);
	if (m->type != PKG_FILE)
		return 0;
	/* The reader frees the path at its next call. */
	e.path = str_of(mem_strndup(m->path.p ? m->path.p : "", m->path.size));
	if (m->size >= 4 && probe(r, p, m, &e, err) < 0)
		return -1;
	pkg_map_add(b, &e);
	free((void *)e.path.p);
	t->n_elf += e.is_elf;
	t->n_ids += e.is_elf && e.elf.build_id.size;
	t->raw_ids += e.is_elf ? e.elf.build_id.size : 0;
	return 0;
}

static int finish_map(struct pkg_map_builder *b, uint64_t decoded, struct totals *t, struct err *err)
{
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *m;
	int64_t start = clock_cpu_ns();

	pkg_map_set_decoded_size(b, decoded);
	pkg_map_encode(b, &blob);
	t->encode_ns += clock_cpu_ns() - start;
	start = clock_cpu_ns();
	if (pkg_map_decode(buf_bytes(&blob), &m, err) < 0)
		return -1;
	t->decode_ns += clock_cpu_ns() - start;
	t->map_size += blob.size;
	t->weight += m->weight;
	pkg_map_free(m);
	return 0;
}

static int read_package(const char *path, bool with_map, struct totals *t, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(stream_closep) struct stream *payload = NULL;
	struct pkg_map_builder *b;
	struct elf_probe *p;
	struct pkg_identity id;
	struct pkg_reader *r;
	struct pkg_member m;
	struct pkg_info info;
	int64_t start = clock_cpu_ns();
	uint32_t number = 0;
	int res;

	arena_init(&a);
	if (open_package(path, &a, &src, &info, err) < 0 || pkg_identity_read(src, NULL, &id, err) < 0)
		return -1;
	if (info.kind != PKG_OTHER &&
	    codec_stream_open(info.payload.codec,
			      stream_of_source(src, false, info.payload.off, info.payload.size), &payload,
			      err) < 0)
		return -1;
	if (pkg_reader_open(&info, payload, src, &r, err) < 0)
		return -1;
	b = pkg_map_builder_new(&info, &id);
	p = elf_probe_new();
	while ((res = pkg_reader_next(r, &m, err)) == 0) {
		if (with_map && add_member(r, p, b, &m, number, t, err) < 0)
			return -1;
		number++;
	}
	pkg_reader_close(r);
	elf_probe_free(p);
	if (res == PKG_END && with_map && finish_map(b, payload ? payload->off : 0, t, err) < 0)
		return -1;
	pkg_map_builder_free(b);
	t->n_members += number;
	t->decoded += payload ? payload->off : 0;
	t->cpu += clock_cpu_ns() - start;
	return res < 0 ? res : 0;
}

static int bench_members(char **paths, int n, bool with_map, struct err *err)
{
	struct totals t = { 0 };

	for (int i = 0; i < n; i++)
		if (read_package(paths[i], with_map, &t, err) < 0)
			return err_in(err, "%s", paths[i]);
	printf("%d packages, %llu members, %.0f MB decoded, %.3f s CPU\n", n, (unsigned long long)t.n_members,
	       (double)t.decoded / 1e6, seconds(t.cpu));
	if (with_map)
		printf("%llu ELF files, %llu build IDs (%llu bytes); maps: %llu bytes, %zu in memory, "
		       "encoded in %.1f ms, decoded in %.2f ms\n",
		       (unsigned long long)t.n_elf, (unsigned long long)t.n_ids,
		       (unsigned long long)t.raw_ids, (unsigned long long)t.map_size, t.weight,
		       (double)t.encode_ns / 1e6, (double)t.decode_ns / 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	const char *what = argc > 2 ? argv[1] : "";
	int r;

	if (!strcmp(what, "open")) {
		r = bench_open(argv + 2, argc - 2, &err);
	} else if (!strcmp(what, "members") || !strcmp(what, "map")) {
		r = bench_members(argv + 2, argc - 2, !strcmp(what, "map"), &err);
	} else {
		fprintf(stderr, "usage: bench-pkg open|members|map FILE...\n");
		return 2;
	}
	if (r < 0)
		fprintf(stderr, "bench-pkg: %s\n", err.text);
	return r < 0;
}
