/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpio in all its formats: members, hard links, and damage.
 */
#include "listing.h"

static const size_t chunks[] = { 0, 1, 5, 109, 4096 };

static void read_cpio(struct listing *ret, const struct buf *cpio)
{
	struct err err = { 0 };

	assert_done(listing_of(ret, PKG_FORMAT_CPIO, buf_bytes(cpio), 0, &err));
	for (size_t i = 1; i < ARRAY_SIZE(chunks); i++) {
		struct listing l;

		assert_done(listing_of(&l, PKG_FORMAT_CPIO, buf_bytes(cpio), chunks[i], &err));
		assert_listings_same(ret, &l);
		listing_done(&l);
	}
}

static int fails(const struct buf *cpio, struct err *err)
{
	struct listing l;
	int r = listing_of(&l, PKG_FORMAT_CPIO, buf_bytes(cpio), 0, err);

	listing_done(&l);
	return r;
}

static void every_format_lists_the_same(void **state)
{
	size_t n;
	const struct pw_file *files = sample_files(&n);

	for (enum pw_cpio f = PW_NEWC; f <= PW_BIN_BIG; f++) {
		AUTO(buf_done) struct buf cpio = { 0 };
		struct listing l;

		pw_cpio(&cpio, f, files, n);
		read_cpio(&l, &cpio);
		assert_listing_is(&l, files, n);
		assert_places(&l, buf_bytes(&cpio));
		listing_done(&l);
	}
}

/* The content comes with the last name; that is returned first, and the others after it. */
static void hard_links_follow_their_content(void **state)
{
	struct pw_file files[] = {
		{ .path = "./a", .inode = 7, .mtime = 1, .mode = S_IFREG | 0755 },
		{ .path = "./other", .content = bytes_of("o", 1) },
		{ .path = "./b", .inode = 7 },
		{ .path = "./empty1", .inode = 9 },
		{ .path = "./c", .inode = 7, .content = bytes_of("abc", 3) },
		{ .path = "./empty2", .inode = 9 },
	};

	for (enum pw_cpio f = PW_NEWC; f <= PW_BIN_BIG; f++) {
		AUTO(buf_done) struct buf cpio = { 0 };
		struct listing l;

		pw_cpio(&cpio, f, files, ARRAY_SIZE(files));
		read_cpio(&l, &cpio);
		assert_int_equal(l.n, 6);
		assert_str(l.list[0].m.path, "other");
		assert_str(l.list[1].m.path, "c");
		assert_int_equal(l.list[1].m.type, PKG_FILE);
		assert_str(buf_str(&l.list[1].content), "abc");
		assert_str(l.list[2].m.path, "a");
		assert_int_equal(l.list[2].m.type, PKG_HARDLINK);
		assert_int_equal(l.list[2].m.mode, S_IFREG | 0755);
		assert_str(l.list[2].m.link, "c");
		assert_str(l.list[3].m.path, "b");
		assert_str(l.list[3].m.link, "c");
		/* If no name of an inode has content, every name is an empty file. */
		assert_str(l.list[4].m.path, "empty1");
		assert_int_equal(l.list[4].m.type, PKG_FILE);
		assert_str(l.list[5].m.path, "empty2");
		assert_int_equal(l.list[5].m.type, PKG_FILE);
		assert_places(&l, buf_bytes(&cpio));
		listing_done(&l);
	}
}

/* odc writers store it with every name, or with the first. */
static void content_may_come_more_than_once_or_first(void **state)
{
	struct pw_file file = { .path = "a", .inode = 7, .content = bytes_of("abc", 3) };
	AUTO(buf_done) struct buf one = { 0 }, cpio = { 0 };
	struct listing l;
	const char *const names[] = { "a", "b", "c" };

	for (int i = 0; i < 3; i++) {
		one.size = 0;
		file.path = names[i];
		file.content.size = i < 2 ? 3 : 0;
		pw_cpio(&one, PW_ODC, &file, 1);
		/* nlink is the sixth number: three of them. */
		memcpy(one.p + 6 + 5 * 6, "000003", 6);
		buf_add(&cpio, one.p, 76 + 2 + file.content.size);
	}
	one.size = 0;
	pw_cpio(&one, PW_ODC, NULL, 0);
	buf_add(&cpio, one.p, one.size);
	read_cpio(&l, &cpio);
	assert_int_equal(l.n, 3);
	assert_int_equal(l.list[0].m.type, PKG_FILE);
	assert_int_equal(l.list[1].m.type, PKG_FILE);
	assert_str(buf_str(&l.list[1].content), "abc");
	assert_int_equal(l.list[2].m.type, PKG_HARDLINK);
	assert_str(l.list[2].m.link, "a");
	listing_done(&l);
}

/* Its names and sizes come from the rpm's header. */
static void stripped_headers(void **state)
{
	struct pw_file files[] = {
		{ .path = "0", .inode = 7 },
		{ .path = "1", .mode = S_IFLNK | 0777, .link = "0" },
		{ .path = "2", .content = bytes_of("second", 6) },
		{ .path = "3", .inode = 7, .content = bytes_of("abc", 3) },
		{ .path = "4", .mode = S_IFDIR | 0755 },
	};
	struct pkg_header_file list[] = {
		{ .path = STR("usr/zero"), .mode = S_IFREG | 0644, .size = 3, .content = 3, .n_links = 2 },
		{ .path = STR("usr/one"),
		  .mode = S_IFLNK | 0777,
		  .size = 1,
		  .content = 1,
		  .n_links = 1,
		  .link = STR("0") },
		{ .path = STR("usr/two"),
		  .mode = S_IFREG | 0600,
		  .size = 6,
		  .content = 2,
		  .n_links = 1,
		  .mtime = 5 },
		{ .path = STR("usr/three"), .mode = S_IFREG | 0644, .size = 3, .content = 3, .n_links = 2 },
		{ .path = STR("usr/four"), .mode = S_IFDIR | 0755, .size = 0, .content = 4, .n_links = 1 },
	};
	struct pkg_info info = {
		.kind = PKG_RPM, .payload.format = PKG_FORMAT_CPIO, .files = list, .n_files = ARRAY_SIZE(list)
	};
	AUTO(buf_done) struct buf cpio = { 0 };

	pw_cpio(&cpio, PW_STRIPPED, files, ARRAY_SIZE(files));
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		struct err err = { 0 };
		struct listing l;

		assert_done(listing_of_payload(&l, &info, buf_bytes(&cpio), chunks[i], &err));
		assert_int_equal(l.n, 5);
		assert_str(l.list[0].m.path, "usr/one");
		assert_str(l.list[0].m.link, "0");
		assert_str(l.list[1].m.path, "usr/two");
		assert_int_equal(l.list[1].m.mtime, 5);
		assert_str(buf_str(&l.list[1].content), "second");
		assert_str(buf_str(&listing_find(&l, "usr/three")->content), "abc");
		assert_int_equal(listing_find(&l, "usr/zero")->m.type, PKG_HARDLINK);
		assert_str(listing_find(&l, "usr/zero")->m.link, "usr/three");
		assert_int_equal(listing_find(&l, "usr/four")->m.type, PKG_DIR);
		assert_places(&l, buf_bytes(&cpio));
		listing_done(&l);
	}
	/* An index that the header does not have. */
	struct err err = { 0 };
	struct listing l;

	info.n_files = 4;
	assert_fails(listing_of_payload(&l, &info, buf_bytes(&cpio), 0, &err), ERR_INVALID,
		     "file number 4, but the package's header has 4");
	listing_done(&l);
}

/* More than 4 GiB: only the header is read. */
static void large_files(void **state)
{
	struct pkg_header_file list[] = {
		{ .path = STR("big"), .mode = S_IFREG, .size = UINT64_C(5) << 30, .n_links = 1 },
	};
	struct pkg_info info = {
		.kind = PKG_RPM, .payload.format = PKG_FORMAT_CPIO, .files = list, .n_files = 1
	};
	struct stream *s = stream_in_chunks(bytes_of("07070X00000000\0\0abc", 19), 0);
	struct err err = { 0 };
	struct pkg_reader *r;
	struct pkg_member m;

	assert_done(pkg_reader_open(&info, s, NULL, &r, &err));
	assert_done(pkg_reader_next(r, &m, &err));
	assert_true(m.size == UINT64_C(5) << 30);
	assert_int_equal(m.off, 16);
	assert_fails(pkg_reader_next(r, &m, &err), ERR_INVALID, "ends");
	pkg_reader_close(r);
	stream_close(s);
}

static void cut_anywhere(void **state)
{
	struct pw_file files[] = {
		{ .path = "a", .inode = 7 },
		{ .path = "bb", .content = bytes_of("12345", 5) },
		{ .path = "link", .mode = S_IFLNK | 0777, .link = "somewhere" },
		{ .path = "c", .inode = 7, .content = bytes_of("abc", 3) },
	};

	for (enum pw_cpio f = PW_NEWC; f <= PW_BIN_BIG; f++) {
		AUTO(buf_done) struct buf cpio = { 0 };
		size_t trailer;

		pw_cpio(&cpio, f, files, ARRAY_SIZE(files));
		trailer = (size_t)((uint8_t *)memmem(cpio.p, cpio.size, "TRAILER!!!", 10) - cpio.p);
		for (cpio.size = 0; cpio.size < trailer + 11; cpio.size++) {
			struct err err = { 0 };

			assert_fails(fails(&cpio, &err), ERR_INVALID, "end");
		}
	}
}

/* The bytes after a directory's header are skipped, not returned as content. */
static void a_directory_with_a_size(void **state)
{
	struct pw_file files[] = { { .path = "d", .content = bytes_of("abc", 3) }, { .path = "f" } };
	AUTO(buf_done) struct buf cpio = { 0 };
	struct listing l;

	pw_cpio(&cpio, PW_NEWC, files, 2);
	memcpy(cpio.p + 6 + 8, "000041ED", 8);
	read_cpio(&l, &cpio);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.list[0].m.type, PKG_DIR);
	assert_int_equal(l.list[0].content.size, 0);
	listing_done(&l);
}

static void wrong_headers_are_errors(void **state)
{
	AUTO(buf_done) struct buf cpio = { 0 };
	struct pw_file file = { .path = "a", .content = bytes_of("abc", 3) };
	struct err err = { 0 };

	pw_cpio(&cpio, PW_NEWC, &file, 1);
	/* namesize */
	memcpy(cpio.p + 6 + 8 * 11, "00000000", 8);
	assert_fails(fails(&cpio, &err), ERR_INVALID, "cpio header at 0: a name of 0 bytes");
	memcpy(cpio.p + 6 + 8 * 11, "FFFFFFFF", 8);
	assert_fails(fails(&cpio, &err), ERR_INVALID, "a name of 4294967295 bytes");
	memcpy(cpio.p + 6 + 8 * 11, "0000000g", 8);
	assert_fails(fails(&cpio, &err), ERR_INVALID, "not a number");
	memcpy(cpio.p + 6 + 8 * 11, "00000002", 8);
	/* filesize */
	memcpy(cpio.p + 6 + 8 * 6, "FFFFFFFF", 8);
	assert_fails(fails(&cpio, &err), ERR_INVALID, "ends");
	/* A symbolic link of gigabytes. */
	memcpy(cpio.p + 6 + 8 * 1, "0000A1FF", 8);
	assert_fails(fails(&cpio, &err), ERR_LIMIT, "a link of 4294967295 bytes");
	memcpy(cpio.p, "070709", 6);
	assert_fails(fails(&cpio, &err), ERR_INVALID, "no cpio header");
}

/* Names of inodes that never get content are stored, up to a limit. */
static void hard_links_that_wait_are_bounded(void **state)
{
	AUTO(mem_freep) char *name = mem_alloc(60001);
	struct pw_file file = { .path = name, .inode = 7 };
	AUTO(buf_done) struct buf one = { 0 }, cpio = { 0 };
	struct err err = { 0 };
	size_t header;

	memset(name, 'n', 60000);
	name[60000] = 0;
	pw_cpio(&one, PW_NEWC, &file, 1);
	memcpy(one.p + 6 + 8 * 4, "00000002", 8);
	header = (110 + 60001 + 3) & ~(size_t)3;
	for (int i = 0; i < 1200; i++)
		buf_add(&cpio, one.p, header);
	assert_fails(fails(&cpio, &err), ERR_LIMIT, "hard links");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_lists_the_same),
		cmocka_unit_test(hard_links_follow_their_content),
		cmocka_unit_test(content_may_come_more_than_once_or_first),
		cmocka_unit_test(stripped_headers),
		cmocka_unit_test(large_files),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(a_directory_with_a_size),
		cmocka_unit_test(wrong_headers_are_errors),
		cmocka_unit_test(hard_links_that_wait_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
