/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian packages: the outer ar, the control file, every compression, and .ipk's second form.
 */
#include "listing.h"

static const enum codec_kind kinds[] = {
	CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_LZMA, CODEC_ZSTD, CODEC_BZIP2
};

static int open_deb(const struct buf *deb, struct arena *a, struct pkg_info *ret, struct err *err)
{
	AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(deb), "a.deb");

	return pkg_open(src, STR("a.deb"), a, ret, err);
}

static void every_compression(void **state)
{
	size_t n;
	const struct pw_file *files = sample_files(&n);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (int nested = 0; nested < 2; nested++) {
			struct pw_deb deb = {
				.control = kinds[ARRAY_SIZE(kinds) - 1 - i],
				.data = kinds[i],
				.files = files,
				.n_files = n,
				.nested = nested,
			};
			AUTO(buf_done) struct buf out = { 0 };
			struct err err = { 0 };
			struct pkg_info info;
			struct listing l;

			pw_deb(&out, &deb);
			assert_done(listing_of_package(&l, buf_bytes(&out), "a.deb", &info, &err));
			assert_int_equal(info.kind, PKG_DEB);
			assert_str(info.name, "sample");
			assert_str(info.version, "1.0-1");
			assert_str(info.arch, "amd64");
			assert_int_equal(info.source_name.size, 0);
			assert_int_equal(info.payload.codec, nested ? CODEC_GZIP : kinds[i]);
			assert_listing_is(&l, files, n);
			if (nested)
				for (size_t k = 0; k < l.n; k++)
					assert_true(l.list[k].m.off == PKG_NO_OFF);
			listing_done(&l);
		}
}

static void build_ids_of_the_control_file(void **state)
{
	struct pw_deb deb = {
		.more = "Source: parent (2.0)\nBuild-Ids: 0123456789abcdef0123456789abcdef01234567\n"
			" 89abcdef89abcdef89abcdef89abcdef89abcdef\tnonsense ABCD abc\n  0011\nSection: "
			"debug\n",
	};
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	char hex[BUILD_ID_HEX_SIZE];

	arena_init(&a);
	pw_deb(&out, &deb);
	assert_done(open_deb(&out, &a, &info, &err));
	assert_str(info.source_name, "parent");
	assert_int_equal(info.n_build_ids, 3);
	assert_string_equal(build_id_hex(&info.build_ids[0], hex),
			    "0123456789abcdef0123456789abcdef01234567");
	assert_string_equal(build_id_hex(&info.build_ids[1], hex),
			    "89abcdef89abcdef89abcdef89abcdef89abcdef");
	assert_string_equal(build_id_hex(&info.build_ids[2], hex), "0011");
	assert_false(info.has_file_list);
}

/* Only the first paragraph describes the package; field names in any case; CR at line ends. */
static void control_files_as_people_write_them(void **state)
{
	static const char text[] =
		"\n\npackage:   x  \r\nVERSION:1\nArchitecture: all\nno colon here\n:\n\nPackage: y\n";
	struct pw_file files[] = { { .path = "control", .content = bytes_of(text, sizeof(text) - 1) } };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf tar = { 0 }, deb = { 0 };
	struct err err = { 0 };
	struct pkg_info info;

	arena_init(&a);
	pw_tar(&tar, PW_USTAR, files, 1);
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("2.1\nmore\n", 9));
	pw_ar_member(&deb, "_gpgorigin", bytes_of("odd", 3));
	pw_ar_member(&deb, "control.tar/", buf_bytes(&tar));
	pw_ar_member(&deb, "extra", bytes_of("x", 1));
	pw_ar_member(&deb, "data.tar/", buf_bytes(&tar));
	assert_done(open_deb(&deb, &a, &info, &err));
	assert_str(info.name, "x");
	assert_str(info.version, "1");
	assert_str(info.arch, "all");
	assert_int_equal(info.payload.size, tar.size);
}

/* The control file is found after others, and its archive is not read to its end. */
static void long_member_names_of_gnu_and_bsd(void **state)
{
	struct pw_file file = { .path = "control", .content = bytes_of("Package: x\n", 11) };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf tar = { 0 }, deb = { 0 }, body = { 0 };
	struct err err = { 0 };
	struct pkg_info info;

	arena_init(&a);
	pw_tar(&tar, PW_USTAR, &file, 1);
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary   ", bytes_of("2.0\n", 4));
	pw_ar_member(&deb, "//", bytes_of("some-other-name-that-is-long/\ncontrol.tar/\n", 43));
	pw_ar_member(&deb, "/0", bytes_of("x", 1));
	pw_ar_member(&deb, "/30", buf_bytes(&tar));
	buf_add(&body, "data.tar\0\0\0\0", 12);
	buf_add(&body, tar.p, tar.size);
	pw_ar_member(&deb, "#1/12", buf_bytes(&body));
	assert_done(open_deb(&deb, &a, &info, &err));
	assert_str(info.name, "x");
	assert_int_equal(info.payload.size, tar.size);
	assert_memory_equal(deb.p + info.payload.off, tar.p, tar.size);
}

static void errors_name_the_problem(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf deb = { 0 }, good = { 0 };
	struct err err = { 0 };
	struct pkg_info info;

	arena_init(&a);
	pw_deb(&good, &(struct pw_deb){ .data = CODEC_XZ });

	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("3.0\n", 4));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "format \"3.0\" is not supported");
	deb.size = 0;
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("2.0\n", 4));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "no data.tar in the package");
	pw_ar_member(&deb, "data.tar.xz", bytes_of("x", 1));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "no control.tar before data.tar");
	deb.size = 0;
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("2.0\n", 4));
	pw_ar_member(&deb, "control.tar.pc", bytes_of("x", 1));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "unknown compression: \"control.tar.pc\"");
	deb.size = 0;
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("2.0\n", 4));
	pw_ar_member(&deb, "control.tar", bytes_of("x", 1));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "control.tar: ");
	deb.size = 0;
	buf_add(&deb, good.p, good.size);
	deb.size -= 2;
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "but the file ends after");
	/* The size field of the last member. */
	deb.size = good.size;
	memcpy(deb.p + 8 + 48, "x4", 2);
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "invalid size");
	memcpy(deb.p + 8 + 58, "xx", 2);
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, "no ar member header at 8");
}

static void wrong_long_names_are_errors(void **state)
{
	static const struct {
		const char *name, *text;
	} lies[] = {
		{ "/5", "outside of the table of long names" },
		{ "/99999999999999", "outside of the table of long names" },
		{ "#1/100", "longer than the member" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		AUTO(arena_done) struct arena a = { 0 };
		AUTO(buf_done) struct buf deb = { 0 };
		struct err err = { 0 };
		struct pkg_info info;

		arena_init(&a);
		pw_ar_begin(&deb);
		pw_ar_member(&deb, "debian-binary", bytes_of("2.0\n", 4));
		pw_ar_member(&deb, "//", bytes_of("a/\n", 3));
		pw_ar_member(&deb, lies[i].name, bytes_of("content", 7));
		assert_fails(open_deb(&deb, &a, &info, &err), ERR_INVALID, lies[i].text);
	}
}

/* A control archive that unpacks to more than its limit is refused. */
static void a_control_archive_that_is_a_bomb(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf tar = { 0 }, packed = { 0 }, deb = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	size_t size = MIB(20);

	arena_init(&a);
	pw_tar_header(&tar, PW_GNU, "control", '0', size);
	memset(buf_reserve(&tar, size), ' ', size);
	tar.size += size;
	pw_compress(&packed, CODEC_ZSTD, 1, buf_bytes(&tar));
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("2.0\n", 4));
	pw_ar_member(&deb, "control.tar.zst", buf_bytes(&packed));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_LIMIT, "control file: 20971520 bytes");
	/* Another member before it, of a size that would take forever to skip. */
	tar.size = packed.size = deb.size = 0;
	pw_tar_header(&tar, PW_GNU, "md5sums", '0', UINT64_C(1) << 32);
	pw_tar_header(&tar, PW_GNU, "control", '0', 0);
	pw_ar_begin(&deb);
	pw_ar_member(&deb, "debian-binary", bytes_of("2.0\n", 4));
	pw_ar_member(&deb, "control.tar", buf_bytes(&tar));
	assert_fails(open_deb(&deb, &a, &info, &err), ERR_LIMIT, "too long");
}

/* A frame of zstd that decodes to @n blocks of 128 KiB of zeros, in 4 bytes each. */
static void zstd_zeros(struct buf *out, uint32_t n)
{
	static const uint8_t head[] = { 0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3 };

	buf_add(out, head, sizeof(head));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t block = 1u << 20 | 1u << 1 | (i == n - 1);

		buf_add(out, &block, 3);
		buf_add_char(out, 0);
	}
}

/* The outer tar of an .ipk is not compressed, data.tar is: what it decodes to has the limit of every package. */
static void a_nested_data_archive_that_is_a_bomb(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 }, control = { 0 }, data = { 0 }, ipk = { 0 };
	struct pw_file file = { .path = "control", .content = bytes_of("Package: a\n", 11) };
	uint32_t n_blocks = (uint32_t)((PKG_MAX_DECODED + (UINT64_C(8) << 30)) >> 17);
	struct listing l;
	struct err err = { 0 };

	pw_tar(&control, PW_GNU, &file, 1);
	pw_tar_header(&tar, PW_GNU, "volume", 'V', (uint64_t)n_blocks << 17);
	pw_compress(&data, CODEC_ZSTD, 0, buf_bytes(&tar));
	zstd_zeros(&data, n_blocks);
	assert_true(data.size * PKG_MAX_FACTOR < UINT64_C(4) << 30);
	struct pw_file members[] = {
		{ .path = "debian-binary", .content = bytes_of("2.0\n", 4) },
		{ .path = "control.tar", .content = buf_bytes(&control) },
		{ .path = "data.tar.zst", .content = buf_bytes(&data) },
	};
	pw_tar(&ipk, PW_GNU, members, ARRAY_SIZE(members));
	assert_fails(listing_of_package(&l, buf_bytes(&ipk), "a.ipk", NULL, &err), ERR_LIMIT, "is too long");
	listing_done(&l);
}

static void cut_anywhere(void **state)
{
	struct pw_file file = { .path = "a", .content = bytes_of("abc", 3) };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (int nested = 0; nested < 2; nested++) {
			struct pw_deb deb = { .control = kinds[i],
					      .data = kinds[i],
					      .files = &file,
					      .n_files = 1,
					      .nested = nested };
			AUTO(buf_done) struct buf out = { 0 };
			size_t whole;

			pw_deb(&out, &deb);
			/* The padding after the last member may be missing. */
			whole = out.size - (out.p[out.size - 1] == '\n');
			for (out.size = 0; out.size < whole; out.size++) {
				struct err err = { 0 };
				struct listing l;
				int r = listing_of_package(&l, buf_bytes(&out), "a.deb", NULL, &err);

				listing_done(&l);
				assert_true(r != 0);
				if (r < 0)
					assert_true(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_compression),
		cmocka_unit_test(build_ids_of_the_control_file),
		cmocka_unit_test(control_files_as_people_write_them),
		cmocka_unit_test(long_member_names_of_gnu_and_bsd),
		cmocka_unit_test(errors_name_the_problem),
		cmocka_unit_test(wrong_long_names_are_errors),
		cmocka_unit_test(a_control_archive_that_is_a_bomb),
		cmocka_unit_test(a_nested_data_archive_that_is_a_bomb),
		cmocka_unit_test(cut_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
