/* SPDX-License-Identifier: Apache-2.0 */
#include "maker.h"

int maker_set_up(void **state)
{
	struct maker *m = NEW(struct maker);
	struct err err = { 0 };

	test_dir_make(m->dir);
	snprintf(m->path, sizeof(m->path), "%s/index.db", m->dir);
	arena_init(&m->arena);
	assert_done(index_open(m->path, &(struct index_options){ 0 }, &m->ix, &err));
	*state = m;
	return 0;
}

int maker_tear_down(void **state)
{
	struct maker *m = *state;

	index_close(m->ix);
	arena_done(&m->arena);
	test_dir_remove(m->dir);
	free(m);
	return 0;
}

struct build_id maker_id(uint32_t n)
{
	struct build_id id = { .size = 20 };

	test_fill(id.b, 24, n);
	memset(id.b + 20, 0, 4);
	return id;
}

int64_t maker_plain(struct maker *m, const char *path, int64_t mtime_s, uint32_t id, uint32_t flags)
{
	struct index_file f = {
		.path = str_of(path),
		.kind = INDEX_PLAIN,
		.state = INDEX_SCANNED,
		.size = 1000,
		.mtime_ns = mtime_s * 1000000000,
	};
	struct index_artifact art = { .build_id = maker_id(id), .flags = flags, .member = INDEX_NO_MEMBER };
	struct err err = { 0 };

	assert_done(index_put(m->ix, &f, &err));
	assert_done(index_add_artifacts(m->ix, f.id, &art, 1, &err));
	return f.id;
}

int64_t maker_header(struct maker *m, const char *path, int64_t mtime_s, uint32_t first, uint32_t n)
{
	struct index_file f = {
		.path = str_of(path),
		.kind = INDEX_PACKAGE,
		.state = INDEX_HEADER,
		.size = 5000,
		.mtime_ns = mtime_s * 1000000000,
	};
	struct err err = { 0 };

	assert_done(index_put(m->ix, &f, &err));
	for (uint32_t i = 0; i < n; i++) {
		struct index_artifact art = { .build_id = maker_id(first + i), .member = INDEX_NO_MEMBER };

		assert_done(index_add_artifacts(m->ix, f.id, &art, 1, &err));
	}
	return f.id;
}

void maker_map(const struct maker_entry *entries, size_t n, struct buf *ret)
{
	struct pkg_info info = { .kind = PKG_TAR, .name = STR("some"), .version = STR("1.0") };
	struct pkg_identity identity = { .size = 5000 };
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	uint64_t off = 512;

	for (size_t i = 0; i < n; i++) {
		struct pkg_entry e = { .path = str_of(entries[i].path),
				       .number = (uint32_t)i,
				       .mode = 0100644,
				       .size = 100,
				       .off = off };

		if (entries[i].id) {
			e.is_elf = true;
			e.elf.build_id = maker_id(entries[i].id);
			e.elf.flags = entries[i].flags;
		}
		off += 1024;
		pkg_map_add(b, &e);
	}
	pkg_map_set_decoded_size(b, off + 1024);
	pkg_map_encode(b, ret);
	pkg_map_builder_free(b);
}

int64_t maker_package(struct maker *m, const char *path, int64_t mtime_s, const struct maker_entry *entries,
		      size_t n)
{
	AUTO(buf_done) struct buf map = { 0 };
	struct index_artifact *arts = ARENA_NEW_N(&m->arena, struct index_artifact, n + 1);
	uint64_t *dirs = ARENA_NEW_N(&m->arena, uint64_t, n + 1);
	struct err err = { 0 };
	size_t n_arts = 0;
	int64_t id;

	maker_map(entries, n, &map);
	for (size_t i = 0; i < n; i++) {
		dirs[i] = index_dir_hash(path_dirname(str_of(entries[i].path)));
		if (entries[i].id)
			arts[n_arts++] = (struct index_artifact){ .build_id = maker_id(entries[i].id),
								  .flags = entries[i].flags,
								  .member = (uint32_t)i };
	}
	id = maker_header(m, path, mtime_s, 0, 0);
	assert_done(index_set_map(
		m->ix, id, &(struct index_content){ buf_bytes(&map), 77, arts, n_arts, dirs, n }, &err));
	return id;
}
