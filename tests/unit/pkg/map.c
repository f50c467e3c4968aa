/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The package map: it decodes to what was added, it is small, it is searched through links, and all damage is
 * noticed.
 */
#include "listing.h"

static const struct pkg_identity identity = { 123456789, 1600000000123456789, 42, 0xfedcba9876543210 };

static struct pkg_info info_of(enum pkg_format format)
{
	return (struct pkg_info){
		.kind = PKG_DEB,
		.name = STR("sample"),
		.version = STR("1:2.3-4"),
		.arch = STR("amd64"),
		.source_name = STR("parent"),
		.payload = { CODEC_XZ, 1234, 5678, format },
	};
}

static struct build_id id_of(uint64_t n, size_t size)
{
	struct build_id id = { .size = (uint8_t)size };

	test_fill(id.b, sizeof(id.b), n + 1);
	return id;
}

static struct pkg_map *decode(const struct pkg_map_builder *b)
{
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *m = NULL;
	struct err err = { 0 };

	pkg_map_encode(b, &blob);
	assert_done(pkg_map_decode(buf_bytes(&blob), &m, &err));
	return m;
}

static void assert_entry(const struct pkg_entry *got, const struct pkg_entry *want)
{
	assert_non_null(got);
	assert_true(str_eq(got->path, want->path));
	assert_int_equal(got->number, want->number);
	assert_int_equal(got->mode, want->mode);
	assert_true(got->size == want->size);
	assert_true(got->off == want->off);
	assert_true(got->mtime == want->mtime);
	assert_int_equal(got->inner, want->inner);
	assert_true(got->inner_size == want->inner_size);
	assert_int_equal(got->is_elf, want->is_elf);
	if (want->is_elf) {
		assert_int_equal(got->elf.flags, want->elf.flags);
		assert_int_equal(got->elf.type, want->elf.type);
		assert_int_equal(got->elf.machine, want->elf.machine);
		assert_true(build_id_eq(&got->elf.build_id, &want->elf.build_id));
	}
	assert_int_equal(got->n_places, want->n_places);
	for (uint32_t i = 0; i < want->n_places; i++) {
		assert_true(str_eq(got->places[i].name, want->places[i].name));
		assert_true(got->places[i].off == want->places[i].off);
		assert_true(got->places[i].size == want->places[i].size);
	}
}

static void a_map_decodes_to_its_entries(void **state)
{
	static const struct elf_place places[] = {
		{ STR(".text"), 64, 13 }, { STR(".bss"), 0, 0 },    { STR(".text"), 76, 1 },
		{ { 0 }, 0, 77 },         { STR(".symtab"), 1, 2 },
	};
	/* Not in the order of paths; extremes of every number; the same path twice. */
	struct pkg_entry entries[] = {
		{ .path = STR("usr/bin/z"),
		  .number = 3,
		  .mode = S_IFREG | 0755,
		  .size = 1000,
		  .off = 512,
		  .mtime = -5 },
		{ .path = STR("usr/bin/a"),
		  .number = 4,
		  .mode = S_IFREG | 04755,
		  .size = 77,
		  .off = 2048,
		  .mtime = INT64_MAX,
		  .is_elf = true,
		  .elf = { 0x7ff, 2, 62, id_of(1, 20) },
		  .places = places,
		  .n_places = ARRAY_SIZE(places) },
		{ .path = STR("usr/bin/a"),
		  .number = 9,
		  .mode = S_IFREG,
		  .size = 0,
		  .off = PKG_NO_OFF,
		  .mtime = INT64_MIN },
		{ .path = STR("\xff\x01 odd"),
		  .number = 9,
		  .mode = S_IFREG,
		  .size = 5,
		  .off = 1,
		  .is_elf = true,
		  .elf = { UINT32_MAX, UINT16_MAX, UINT16_MAX, id_of(2, 64) } },
		{ .path = STR("lib/x.ko.xz"),
		  .number = 2000000,
		  .size = 99999,
		  .off = UINT64_C(5) << 40,
		  .inner = CODEC_XZ,
		  .inner_size = UINT64_C(1) << 40,
		  .is_elf = true,
		  .elf = { 1, 1, 183, { 0 } } },
		{ .path = STR("huge"), .number = 2000001, .size = INT64_MAX, .off = PKG_NO_OFF },
		{ .path = { 0 }, .number = 2000002, .off = PKG_NO_OFF },
	};
	enum pkg_format forms[] = { PKG_FORMAT_TAR, PKG_FORMAT_CPIO };

	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		struct pkg_info info = info_of(forms[f]);
		struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
		struct pkg_map *m;

		for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
			pkg_map_add(b, &entries[i]);
		pkg_map_set_decoded_size(b, UINT64_C(6) << 40);
		m = decode(b);
		pkg_map_builder_free(b);
		assert_memory_equal(&m->identity, &identity, sizeof(identity));
		assert_int_equal(m->kind, PKG_DEB);
		assert_str(m->name, "sample");
		assert_str(m->version, "1:2.3-4");
		assert_str(m->arch, "amd64");
		assert_str(m->source_name, "parent");
		assert_memory_equal(&m->payload, &info.payload, sizeof(m->payload));
		assert_true(m->decoded_size == UINT64_C(6) << 40);
		assert_int_equal(m->n_entries, ARRAY_SIZE(entries));
		for (uint32_t i = 1; i < m->n_entries; i++)
			assert_true(str_cmp(m->entries[i - 1].path, m->entries[i].path) <= 0);
		assert_entry(pkg_map_find(m, STR("usr/bin/z")), &entries[0]);
		/* Of members with the same path, the archive's last one. */
		assert_entry(pkg_map_find(m, STR("usr/bin/a")), &entries[2]);
		assert_entry(pkg_map_by_number(m, 4), &entries[1]);
		assert_entry(pkg_map_find(m, STR("\xff\x01 odd")), &entries[3]);
		assert_entry(pkg_map_by_number(m, 2000000), &entries[4]);
		assert_entry(pkg_map_find(m, STR("huge")), &entries[5]);
		assert_null(pkg_map_by_number(m, 5));
		assert_null(pkg_map_by_number(m, 0));
		assert_null(pkg_map_by_number(m, UINT32_MAX));
		assert_null(pkg_map_find(m, STR("usr/bin/b")));
		assert_null(pkg_map_find(m, STR("usr/bin")));
		pkg_map_free(m);
	}
}

static void an_empty_map(void **state)
{
	struct pkg_info info = { .kind = PKG_OTHER };
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &(struct pkg_identity){ 0 });
	struct pkg_map *m = decode(b);

	assert_int_equal(m->n_entries, 0);
	assert_int_equal(m->n_links, 0);
	assert_null(pkg_map_find(m, STR("x")));
	assert_null(pkg_map_by_number(m, 0));
	pkg_map_free(m);
	pkg_map_builder_free(b);
	pkg_map_free(NULL);
	pkg_map_builder_free(NULL);
}

static void attached_points_are_read_back(void **state)
{
	struct pkg_info info = info_of(PKG_FORMAT_TAR);
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	struct pkg_entry e = {
		.path = STR("a"), .is_elf = true, .elf = { 1, 2, 3, id_of(7, 20) }, .off = PKG_NO_OFF
	};
	AUTO(buf_done) struct buf blob = { 0 };
	struct err err = { 0 };
	struct pkg_map *m;
	size_t bare;

	pkg_map_add(b, &e);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	assert_done(pkg_map_decode(buf_bytes(&blob), &m, &err));
	assert_int_equal(m->points.size, 0);
	pkg_map_free(m);
	bare = blob.size;
	pkg_map_attach_points(&blob, bytes_of("points", 6));
	assert_int_equal(blob.size, bare + 6);
	assert_done(pkg_map_decode(buf_bytes(&blob), &m, &err));
	assert_true(bytes_eq(m->points, bytes_of("points", 6)));
	assert_entry(pkg_map_find(m, STR("a")), &e);
	pkg_map_free(m);
	blob.p[bare] ^= 1;
	assert_fails(pkg_map_decode(buf_bytes(&blob), &m, &err), ERR_INVALID, "hash");
}

/* Sections of some entries are stored, then of none: a package of huge tables does not fill the database. */
static void sections_have_a_limit(void **state)
{
	struct pkg_info info = info_of(PKG_FORMAT_TAR);
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	struct elf_place *many = mem_zalloc(40000 * sizeof(*many));
	struct pkg_entry e = {
		.path = STR("a"), .size = 9, .off = PKG_NO_OFF, .is_elf = true, .places = many
	};
	struct pkg_map *m;

	for (e.number = 0; e.number < 3; e.number++) {
		e.n_places = e.number < 2 ? 40000 : 1;
		pkg_map_add(b, &e);
	}
	m = decode(b);
	assert_int_equal(pkg_map_by_number(m, 0)->n_places, 40000);
	assert_int_equal(pkg_map_by_number(m, 1)->n_places, 0);
	assert_int_equal(pkg_map_by_number(m, 2)->n_places, 1);
	pkg_map_free(m);
	pkg_map_builder_free(b);
	free(many);
}

static struct pkg_map *with_links(const char *const (*links)[2], size_t n)
{
	struct pkg_info info = info_of(PKG_FORMAT_TAR);
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	struct pkg_entry e = { .path = STR("usr/lib/x86/libx.so.1"), .off = PKG_NO_OFF };
	struct pkg_map *m;

	pkg_map_add(b, &e);
	e.path = STR("top");
	e.number = 1;
	pkg_map_add(b, &e);
	for (size_t i = 0; i < n; i++)
		pkg_map_add_link(b, str_of(links[i][0]), str_of(links[i][1]));
	m = decode(b);
	pkg_map_builder_free(b);
	assert_int_equal(m->n_links, n);
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		for (uint32_t k = 0; k < m->n_links; k++)
			found |= str_eq(m->links[k].path, str_of(links[i][0])) &&
				 str_eq(m->links[k].target, str_of(links[i][1]));
		assert_true(found);
	}
	return m;
}

static void links_are_followed(void **state)
{
	static const char *const links[][2] = {
		{ "lib", "usr/lib" },
		{ "usr/lib/x86/libx.so", "libx.so.1" },
		{ "usr/lib64", "/lib/x86" },
		{ "usr/lib/up", "../../top" },
		{ "usr/lib/out", "../../../../top" },
		{ "usr/lib/root", "/" },
		{ "usr/lib/slashes", "..//.././/top/" },
		{ "dangling", "nowhere" },
		{ "empty", "" },
		{ "a/loop", "../b/loop" },
		{ "b/loop", "../a/loop" },
		{ "self", "self" },
		{ "grow", "grow/grow" },
	};
	struct pkg_map *m = with_links(links, ARRAY_SIZE(links));
	const struct pkg_entry *lib = &m->entries[1], *top = &m->entries[0];

	assert_str(top->path, "top");
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib/x86/libx.so")), lib);
	assert_ptr_equal(pkg_map_find(m, STR("lib/x86/libx.so")), lib);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib64/libx.so.1")), lib);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib64/libx.so")), lib);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib/up")), top);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib/out")), top);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib/slashes")), top);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib/root/top")), top);
	assert_ptr_equal(pkg_map_find(m, STR("usr/lib/root/usr/lib/root/lib/x86/libx.so")), lib);
	assert_null(pkg_map_find(m, STR("dangling")));
	assert_null(pkg_map_find(m, STR("empty")));
	assert_null(pkg_map_find(m, STR("a/loop")));
	assert_null(pkg_map_find(m, STR("self/x")));
	assert_null(pkg_map_find(m, STR("grow")));
	assert_null(pkg_map_find(m, STR("usr/lib")));
	pkg_map_free(m);
}

static void at_most_sixteen_links(void **state)
{
	static char texts[18][2][8];
	const char *links[18][2];

	for (int i = 0; i < 18; i++) {
		snprintf(texts[i][0], 8, "l%02d", i);
		snprintf(texts[i][1], 8, i == 17 ? "top" : "l%02d", i + 1);
		links[i][0] = texts[i][0];
		links[i][1] = texts[i][1];
	}
	struct pkg_map *m = with_links(links, 18);

	assert_null(pkg_map_find(m, STR("l01")));
	assert_non_null(pkg_map_find(m, STR("l02")));
	pkg_map_free(m);
}

/* The members of a kernel's debug package: modules in a deep tree, and for each a link by its build ID. */
static void build_tree(struct pkg_map_builder *b, size_t n)
{
	char path[200], hex[BUILD_ID_HEX_SIZE], target[200];
	uint64_t off = 512;

	for (size_t i = 0; i < n; i++) {
		struct pkg_entry e = {
			.number = (uint32_t)(2 * i),
			.mode = S_IFREG | 0644,
			.mtime = 1600000000,
			.size = 100000 + hash64(&i, sizeof(i), 7) % 1000000,
			.off = off,
			.is_elf = true,
			.elf = { 0x6ff, 1, 62, id_of(i, 20) },
		};

		snprintf(path, sizeof(path),
			 "usr/lib/debug/lib/modules/6.1.0-56-amd64/kernel/drivers/d%03zu/module%05zu.ko",
			 i / 20, i);
		e.path = str_of(path);
		pkg_map_add(b, &e);
		off += e.size + 1024;
		build_id_hex(&e.elf.build_id, hex);
		snprintf(target, sizeof(target), "../../%s", path + strlen("usr/lib/debug/"));
		snprintf(path, sizeof(path), "usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
		pkg_map_add_link(b, str_of(path), str_of(target));
	}
	pkg_map_set_decoded_size(b, off);
}

static void paths_by_build_id_are_not_stored(void **state)
{
	enum { N = 4000 };
	struct pkg_info info = info_of(PKG_FORMAT_TAR);
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *m;
	struct err err = { 0 };

	build_tree(b, N);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	/* 20 bytes are the build ID itself, some 2.5 the size, 2 the link; the paths are regular. */
	assert_in_range(blob.size, N * 20, N * 29);
	assert_done(pkg_map_decode(buf_bytes(&blob), &m, &err));
	assert_int_equal(m->n_entries, N);
	assert_int_equal(m->n_links, N);
	for (uint32_t i = 0; i < N; i += 7) {
		const struct pkg_entry *e = pkg_map_find(m, m->links[i].path);
		char hex[BUILD_ID_HEX_SIZE];

		assert_non_null(e);
		build_id_hex(&e->elf.build_id, hex);
		assert_memory_equal(m->links[i].path.p + strlen("usr/lib/debug/.build-id/xx/"), hex + 2, 38);
		assert_true(str_starts(m->links[i].target, STR("../../lib/modules/")));
	}
	pkg_map_free(m);
}

static void a_damaged_map_is_an_error(void **state)
{
	struct pkg_info info = info_of(PKG_FORMAT_TAR);
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *m;
	struct err err = { 0 };

	build_tree(b, 50);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	for (size_t n = 0; n < blob.size; n++)
		assert_fails(pkg_map_decode(bytes_of(blob.p, n), &m, &err), ERR_INVALID, "package map: ");
	for (size_t bit = 0; bit < blob.size * 8; bit++) {
		blob.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_fails(pkg_map_decode(buf_bytes(&blob), &m, &err), ERR_INVALID, "package map: ");
		blob.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	blob.p[4]++;
	assert_fails(pkg_map_decode(buf_bytes(&blob), &m, &err), ERR_INVALID, "version 3 is not supported");
}

/* A right hash is no defence: the content may be wrong in itself. */
static void damage_under_a_right_hash(void **state)
{
	struct pkg_info info = info_of(PKG_FORMAT_TAR);
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *m;
	struct err err = { 0 };
	size_t n_fine = 0;

	build_tree(b, 20);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	for (size_t bit = 16 * 8; bit < blob.size * 8; bit++) {
		uint64_t hash;

		blob.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		hash = hash64(blob.p + 16, blob.size - 16, 0);
		memcpy(blob.p + 8, &hash, 8);
		if (pkg_map_decode(buf_bytes(&blob), &m, &err) == 0) {
			for (uint32_t i = 0; i < m->n_links; i++)
				(void)pkg_map_find(m, m->links[i].path);
			pkg_map_free(m);
			n_fine++;
		}
		blob.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	/* A build ID may be any bytes. */
	assert_true(n_fine > 0);
}

static void identity_is_size_head_and_tail(void **state)
{
	size_t size = 300000;
	AUTO(mem_freep) uint8_t *bytes = mem_alloc(size);
	struct pkg_identity a, b;
	struct stat st = { .st_ino = 7, .st_mtim = { 5, 6 } };
	struct err err = { 0 };

	test_fill(bytes, size, 1);
	for (size_t n = 0; n < size; n += 49999) {
		struct source *s = source_of_mem(bytes_of(bytes, n), "x");

		assert_done(pkg_identity_read(s, &st, &a, &err));
		assert_int_equal(a.size, n);
		assert_int_equal(a.mtime_ns, 5000000006);
		assert_int_equal(a.inode, 7);
		assert_done(pkg_identity_read(s, NULL, &b, &err));
		/* A copy of the file is accepted. */
		assert_true(pkg_identity_same(&a, &b));
		if (n) {
			bytes[n - 1] ^= 1;
			assert_done(pkg_identity_read(s, NULL, &b, &err));
			assert_false(pkg_identity_same(&a, &b));
			bytes[n - 1] ^= 1;
			bytes[0] ^= 1;
			assert_done(pkg_identity_read(s, NULL, &b, &err));
			assert_false(pkg_identity_same(&a, &b));
			bytes[0] ^= 1;
		}
		source_close(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_map_decodes_to_its_entries),
		cmocka_unit_test(an_empty_map),
		cmocka_unit_test(attached_points_are_read_back),
		cmocka_unit_test(sections_have_a_limit),
		cmocka_unit_test(links_are_followed),
		cmocka_unit_test(at_most_sixteen_links),
		cmocka_unit_test(paths_by_build_id_are_not_stored),
		cmocka_unit_test(a_damaged_map_is_an_error),
		cmocka_unit_test(damage_under_a_right_hash),
		cmocka_unit_test(identity_is_size_head_and_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
