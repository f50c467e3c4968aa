/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of mapped packages as sources: for every kind of package, the bytes are those of the reader.
 */
#include "listing.h"

static const enum codec_kind kinds[] = {
	CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_LZMA, CODEC_ZSTD, CODEC_BZIP2
};

/* As the deep pass makes it, hard links with their own number and their target's offset. */
static struct pkg_map *map_of(const struct pkg_info *info, const struct listing *l, uint64_t size)
{
	struct pkg_map_builder *b = pkg_map_builder_new(info, &(struct pkg_identity){ .size = UINT32_MAX });
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *m = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < l->n; i++) {
		const struct pkg_member *x = &l->list[i].m, *target = x;
		struct pkg_entry e;

		for (size_t k = 0; x->type == PKG_HARDLINK && k < l->n; k++)
			if (l->list[k].m.type == PKG_FILE && str_eq(l->list[k].m.path, x->link))
				target = &l->list[k].m;
		if (target->type == PKG_SYMLINK)
			pkg_map_add_link(b, x->path, x->link);
		if (target->type != PKG_FILE)
			continue;
		e = (struct pkg_entry){
			.path = x->path,
			.number = (uint32_t)i,
			.mode = x->mode,
			.size = target->size,
			.off = target->off,
			.mtime = x->mtime,
		};
		pkg_map_add(b, &e);
	}
	pkg_map_set_decoded_size(b, size);
	pkg_map_encode(b, &blob);
	assert_done(pkg_map_decode(buf_bytes(&blob), &m, &err));
	pkg_map_builder_free(b);
	return m;
}

static void assert_entry_is(const struct pkg_map *m, const struct pkg_entry *e, struct bytes package,
			    struct bytes want)
{
	struct codec_source_options opts = { 0 };
	AUTO(source_closep) struct source *s = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(want.size + 1);
	struct err err = { 0 };
	size_t n;

	assert_done(pkg_entry_open(m, e, source_of_mem(package, "p"), &opts, &s, &err));
	assert_int_equal(s->size, want.size);
	assert_int_equal(s->mtime, e->mtime);
	assert_done(source_read_full(s, 0, got, want.size, SOURCE_SEQUENTIAL, &err));
	assert_true(bytes_eq(bytes_of(got, want.size), want));
	/* Backwards, and at the end. */
	if (want.size > 2) {
		assert_done(source_read_full(s, want.size / 2, got, want.size - want.size / 2, SOURCE_RANDOM,
					     &err));
		assert_memory_equal(got, want.p + want.size / 2, want.size - want.size / 2);
		assert_done(source_read_full(s, 1, got, 1, SOURCE_RANDOM, &err));
		assert_int_equal(got[0], want.p[1]);
	}
	assert_done(source_read(s, want.size, got, 1, SOURCE_RANDOM, &n, &err));
	assert_int_equal(n, 0);
}

static uint64_t decoded_size(const struct pkg_info *info, struct bytes package)
{
	AUTO(buf_done) struct buf decoded = { 0 };
	struct err err = { 0 };

	assert_done(codec_decode_all(info->payload.codec,
				     bytes_of(package.p + info->payload.off, info->payload.size), MIB(64),
				     &decoded, &err));
	return decoded.size;
}

static void check_package(struct bytes package, const char *name)
{
	struct err err = { 0 };
	struct pkg_info info;
	struct listing l;
	struct pkg_map *m;
	size_t n = 0;

	assert_done(listing_of_package(&l, package, name, &info, &err));
	m = map_of(&info, &l, decoded_size(&info, package));
	for (uint32_t i = 0; i < m->n_entries; i++) {
		const struct pkg_entry *e = &m->entries[i];
		const struct listed *want = &l.list[e->number];

		if (want->m.type == PKG_HARDLINK) {
			AUTO(mem_freep) char *target = mem_strndup(want->m.link.p, want->m.link.size);

			want = listing_find(&l, target);
		}
		assert_entry_is(m, e, package, buf_bytes(&want->content));
		n++;
	}
	assert_true(n >= 4);
	pkg_map_free(m);
	listing_done(&l);
}

static const struct pw_file *files_with_links(size_t *ret_n)
{
	static struct pw_file files[12];
	size_t n;
	const struct pw_file *sample = sample_files(&n);

	memcpy(files, sample, n * sizeof(*files));
	files[n] = (struct pw_file){ .path = "usr/bin/again", .link = "usr/bin/hello" };
	*ret_n = n + 1;
	return files;
}

static void members_of_every_package(void **state)
{
	size_t n, n_tar;
	const struct pw_file *files = sample_files(&n), *tar_files = files_with_links(&n_tar);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		AUTO(buf_done) struct buf tar = { 0 }, out = { 0 };

		pw_tar(&tar, PW_GNU, tar_files, n_tar);
		for (int nested = 0; nested < 2; nested++) {
			out.size = 0;
			pw_deb(&out, &(struct pw_deb){ .control = kinds[i],
						       .data = kinds[i],
						       .files = tar_files,
						       .n_files = n_tar,
						       .nested = nested });
			check_package(buf_bytes(&out), "a.deb");
		}
		for (int format = 3; format <= 6; format++) {
			out.size = 0;
			pw_rpm(&out,
			       &(struct pw_rpm){
				       .format = format, .codec = kinds[i], .files = files, .n_files = n });
			check_package(buf_bytes(&out), "a.rpm");
		}
		out.size = 0;
		pw_compress(&out, kinds[i], 0, buf_bytes(&tar));
		check_package(buf_bytes(&out), "a.tar");
	}
}

static void sparse_members(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 }, records = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	struct listing l;
	struct pkg_map *m;

	pw_pax_record(&records, "GNU.sparse.map", "10,3,90000,2");
	pw_pax_record(&records, "GNU.sparse.size", "100000");
	pw_tar_pax(&tar, 'x', buf_bytes(&records));
	pw_tar_header(&tar, PW_PAX, "sparse", '0', 5);
	pw_tar_body(&tar, bytes_of("abcde", 5));
	pw_tar(&tar, PW_PAX, &(struct pw_file){ .path = "hard", .link = "sparse" }, 1);
	assert_done(listing_of_package(&l, buf_bytes(&tar), "a.tar", &info, &err));
	m = map_of(&info, &l, tar.size);
	assert_int_equal(m->n_entries, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(m->entries[i].size, 100000);
		assert_entry_is(m, &m->entries[i], buf_bytes(&tar), buf_bytes(&l.list[0].content));
	}
	pkg_map_free(m);
	listing_done(&l);
}

static void sparse_member(struct buf *tar, const char *name, const char *content)
{
	AUTO(buf_done) struct buf records = { 0 };

	pw_pax_record(&records, "GNU.sparse.map", "10,5");
	pw_pax_record(&records, "GNU.sparse.size", "1000");
	pw_tar_pax(tar, 'x', buf_bytes(&records));
	pw_tar_header(tar, PW_PAX, name, '0', 5);
	pw_tar_body(tar, bytes_of(content, 5));
}

/* No member whose name has ".." is served by a path, nor by a hard link to that path. */
static void an_unsafe_member_is_no_target_of_a_hard_link(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct codec_source_options opts = { 0 };
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };
	struct pkg_info info;
	struct listing l;
	struct pkg_map *m;
	char got[5];

	sparse_member(&tar, "sparse", "right");
	sparse_member(&tar, "a/../sparse", "wrong");
	pw_tar(&tar, PW_PAX, &(struct pw_file){ .path = "hard", .link = "sparse" }, 1);
	assert_done(listing_of_package(&l, buf_bytes(&tar), "a.tar", &info, &err));
	m = map_of(&info, &l, tar.size);
	m->entries[0].number = 2;
	assert_true(str_eq(m->entries[0].path, STR("hard")));
	assert_done(pkg_entry_open(m, &m->entries[0], source_of_mem(buf_bytes(&tar), "p"), &opts, &s, &err));
	assert_done(source_read_full(s, 10, got, 5, SOURCE_RANDOM, &err));
	assert_memory_equal(got, "right", 5);
	pkg_map_free(m);
	listing_done(&l);
}

/* A module that is compressed within the package: its source is the module. */
static void a_compressed_member_is_decoded(void **state)
{
	AUTO(mem_freep) uint8_t *module = mem_alloc(50000);

	test_fill(module, 50000, 9);
	for (size_t i = 1; i < ARRAY_SIZE(kinds); i++) {
		AUTO(buf_done) struct buf packed = { 0 }, out = { 0 };
		struct pw_file file = { .path = "lib/x.ko.xz" };
		struct err err = { 0 };
		struct pkg_info info;
		struct listing l;
		struct pkg_map *m;

		pw_compress(&packed, kinds[i], 0, bytes_of(module, 50000));
		file.content = buf_bytes(&packed);
		pw_deb(&out, &(struct pw_deb){ .data = CODEC_ZSTD, .files = &file, .n_files = 1 });
		assert_done(listing_of_package(&l, buf_bytes(&out), "a.deb", &info, &err));
		m = map_of(&info, &l, decoded_size(&info, buf_bytes(&out)));
		m->entries[0].inner = kinds[i];
		m->entries[0].inner_size = 50000;
		assert_entry_is(m, &m->entries[0], buf_bytes(&out), bytes_of(module, 50000));
		pkg_map_free(m);
		listing_done(&l);
	}
}

/* No codec: the bytes are in the package's own file. */
static void uncompressed_members_are_ranges_of_the_file(void **state)
{
	size_t n, size = 0;
	const struct pw_file *files = sample_files(&n);
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(source_closep) struct source *s = NULL;
	struct codec_source_options opts = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	struct listing l;
	struct pkg_map *m;

	pw_deb(&out, &(struct pw_deb){ .files = files, .n_files = n });
	assert_done(listing_of_package(&l, buf_bytes(&out), "a.deb", &info, &err));
	size = info.payload.size;
	m = map_of(&info, &l, size);
	assert_done(pkg_entry_open(m, pkg_map_find(m, STR("last")), source_of_mem(buf_bytes(&out), "p"),
				   &opts, &s, &err));
	assert_non_null(source_raw_mem(s));
	assert_string_equal(s->name, "p: last");
	pkg_map_free(m);
	listing_done(&l);
}

/* The package was replaced: an error is returned, and no wrong byte. */
static void a_changed_package_is_an_error(void **state)
{
	struct pw_file file = { .path = "a", .content = bytes_of("abcdef", 6) };
	AUTO(buf_done) struct buf out = { 0 };
	struct source *s = NULL;
	struct err err = { 0 };
	struct pkg_info info = { 0 };
	struct listing l;
	char got[6];

	pw_deb(&out, &(struct pw_deb){ .files = &file, .n_files = 1, .nested = true });
	assert_done(listing_of_package(&l, buf_bytes(&out), "a.ipk", &info, &err));
	assert_done(pkg_member_open_slow(source_of_mem(buf_bytes(&out), "p"), &info, 1, 6, &s, &err));
	assert_fails(source_read_full(s, 0, got, 6, SOURCE_RANDOM, &err), ERR_CHANGED,
		     "no longer has a member 1");
	source_close(s);
	assert_done(pkg_member_open_slow(source_of_mem(buf_bytes(&out), "p"), &info, 0, 7, &s, &err));
	assert_fails(source_read_full(s, 0, got, 6, SOURCE_RANDOM, &err), ERR_CHANGED, "6 bytes, not 7");
	source_close(s);
	listing_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_of_every_package),
		cmocka_unit_test(sparse_members),
		cmocka_unit_test(an_unsafe_member_is_no_target_of_a_hard_link),
		cmocka_unit_test(a_compressed_member_is_decoded),
		cmocka_unit_test(uncompressed_members_are_ranges_of_the_file),
		cmocka_unit_test(a_changed_package_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
