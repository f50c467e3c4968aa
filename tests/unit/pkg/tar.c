/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar: every dialect, and the quirks of real archives.
 */
#include "listing.h"

static const size_t chunks[] = { 0, 1, 7, 511, 512, 513, 4096 };

/* Chunks of every size give the same result. */
static void read_tar(struct listing *ret, const struct buf *tar)
{
	struct err err = { 0 };

	assert_done(listing_of(ret, PKG_FORMAT_TAR, buf_bytes(tar), 0, &err));
	for (size_t i = 1; i < ARRAY_SIZE(chunks); i++) {
		struct listing l;

		assert_done(listing_of(&l, PKG_FORMAT_TAR, buf_bytes(tar), chunks[i], &err));
		assert_listings_same(ret, &l);
		listing_done(&l);
	}
}

static int fails(const struct buf *tar, struct err *err)
{
	struct listing l;
	int r = listing_of(&l, PKG_FORMAT_TAR, buf_bytes(tar), 0, err);

	listing_done(&l);
	return r;
}

static void every_dialect_lists_the_same(void **state)
{
	size_t n;
	const struct pw_file *files = sample_files(&n);

	for (enum pw_tar d = PW_V7; d <= PW_PAX; d++) {
		AUTO(buf_done) struct buf tar = { 0 };
		struct listing l;

		pw_tar(&tar, d, files, n);
		read_tar(&l, &tar);
		assert_listing_is(&l, files, n);
		assert_places(&l, buf_bytes(&tar));
		listing_done(&l);
	}
}

static void long_names_and_links(void **state)
{
	char deep[251], longer[3001], target[301];
	struct pw_file files[] = {
		{ .path = deep, .content = bytes_of("abc", 3) },
		{ .path = longer, .content = bytes_of("defg", 4) },
		{ .path = "link", .mode = S_IFLNK | 0777, .link = target },
		{ .path = "short", .content = bytes_of("hi", 2) },
		{ .path = "hard", .link = deep },
	};

	memset(deep, 'd', sizeof(deep));
	memset(longer, 'l', sizeof(longer));
	memset(target, 't', sizeof(target));
	for (size_t i = 50; i < 3000; i += 50)
		longer[i] = '/';
	for (size_t i = 50; i < 250; i += 50)
		deep[i] = target[i] = '/';
	deep[250] = longer[3000] = target[300] = '\0';
	for (enum pw_tar d = PW_GNU; d <= PW_PAX; d++) {
		AUTO(buf_done) struct buf tar = { 0 };
		struct listing l;

		pw_tar(&tar, d, files, ARRAY_SIZE(files));
		read_tar(&l, &tar);
		assert_listing_is(&l, files, ARRAY_SIZE(files));
		listing_done(&l);
	}
	/* ustar has a prefix, up to 255 together. */
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;

	pw_tar(&tar, PW_USTAR, files, 1);
	read_tar(&l, &tar);
	assert_listing_is(&l, files, 1);
	listing_done(&l);
}

static void names_are_made_canonical(void **state)
{
	static const struct {
		const char *raw, *path;
		bool unsafe;
	} names[] = {
		{ "./usr/bin/x", "usr/bin/x", false },
		{ "/usr//bin/./x", "usr/bin/x", false },
		{ "../etc/passwd", "etc/passwd", true },
		{ "a/../../b", "b", true },
		{ "a/b/../c", "a/c", true },
		{ "..", "", true },
		{ "a/..b/c..", "a/..b/c..", false },
		{ "/", "", true },
	};
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		pw_tar_header(&tar, PW_USTAR, names[i].raw, i == 7 ? '7' : '0', 0);
	pw_tar_header(&tar, PW_USTAR, "./", '5', 0);
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_str(l.list[i].m.path, names[i].path);
		assert_int_equal(l.list[i].m.unsafe, names[i].unsafe);
	}
	/* The root directory has an empty path. */
	assert_int_equal(l.list[8].m.type, PKG_DIR);
	assert_false(l.list[8].m.unsafe);
	listing_done(&l);
}

static void hard_links_are_canonical_too(void **state)
{
	struct pw_file files[] = {
		{ .path = "./a/x", .content = bytes_of("abc", 3) },
		{ .path = "./b", .link = "./a/x" },
		{ .path = "./c", .link = "../a/x" },
	};
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;

	pw_tar(&tar, PW_GNU, files, ARRAY_SIZE(files));
	read_tar(&l, &tar);
	assert_str(l.list[1].m.link, "a/x");
	assert_false(l.list[1].m.unsafe);
	assert_true(l.list[2].m.unsafe);
	listing_done(&l);
}

static void a_hard_links_size_may_mean_content_or_not(void **state)
{
	enum pw_tar dialects[] = { PW_V7, PW_USTAR, PW_GNU, PW_USTAR };

	for (size_t i = 0; i < ARRAY_SIZE(dialects); i++) {
		AUTO(buf_done) struct buf tar = { 0 };
		bool stored = i == 3;
		struct listing l;
		size_t at;

		pw_tar_header(&tar, dialects[i], "a", '0', 600);
		pw_tar_body(&tar, bytes_of(memset((char[600]){ 0 }, 'a', 600), 600));
		at = pw_tar_header(&tar, dialects[i], "b", '1', 600);
		tar.p[at + 157] = 'a';
		pw_tar_sum(&tar, at);
		if (stored)
			pw_tar_body(&tar, bytes_of(memset((char[600]){ 0 }, 'b', 600), 600));
		pw_tar_header(&tar, dialects[i], "c", '0', 0);
		pw_tar_end(&tar);
		read_tar(&l, &tar);
		assert_int_equal(l.n, 3);
		assert_int_equal(l.list[1].m.type, stored ? PKG_FILE : PKG_HARDLINK);
		assert_int_equal(l.list[1].content.size, stored ? 600 : 0);
		assert_str(l.list[2].m.path, "c");
		listing_done(&l);
	}
}

static void pax_overrides_the_header(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 }, records = { 0 };
	struct listing l;

	/* Global values hold until they are cancelled; a member's own take precedence. */
	pw_pax_record(&records, "mtime", "1234567890.999999999");
	pw_pax_record(&records, "comment", "0123456789012345678901234567890123456789");
	pw_tar_pax(&tar, 'g', buf_bytes(&records));
	records.size = 0;
	pw_pax_record(&records, "path", "long/name");
	pw_pax_record(&records, "size", "5");
	pw_tar_pax(&tar, 'x', buf_bytes(&records));
	pw_tar_header(&tar, PW_PAX, "short", '0', 0);
	pw_tar_body(&tar, bytes_of("12345", 5));
	records.size = 0;
	pw_pax_record(&records, "mtime", "-1.5");
	pw_pax_record(&records, "linkpath", "there");
	pw_tar_pax(&tar, 'x', buf_bytes(&records));
	pw_tar_header(&tar, PW_PAX, "symlink", '2', 0);
	pw_tar_header(&tar, PW_PAX, "plain", '0', 0);
	records.size = 0;
	pw_pax_record(&records, "mtime", "");
	pw_tar_pax(&tar, 'g', buf_bytes(&records));
	pw_tar_header(&tar, PW_PAX, "after", '0', 0);
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	assert_int_equal(l.n, 4);
	assert_str(l.list[0].m.path, "long/name");
	assert_str(buf_str(&l.list[0].content), "12345");
	assert_int_equal(l.list[0].m.mtime, 1234567890);
	assert_int_equal(l.list[1].m.mtime, -2);
	assert_str(l.list[1].m.link, "there");
	assert_int_equal(l.list[2].m.mtime, 1234567890);
	assert_int_equal(l.list[3].m.mtime, 0);
	listing_done(&l);
}

static void wrong_pax_records_are_errors(void **state)
{
	static const char *const lies[] = {
		"99 path=x\n",      "7 path=\n",     "3 x",        "x path=y\n",
		"10 path=xyzabc\n", "9 path=x!",     "0 path=x\n", "18446744073709551615 path=x\n",
		"10 size=1x\n",     "11 mtime=1e\n", "6 abc\n",    "11 size=-5\n\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		AUTO(buf_done) struct buf tar = { 0 };
		struct err err = { 0 };

		pw_tar_pax(&tar, 'x', bytes_of(lies[i], strlen(lies[i])));
		pw_tar_header(&tar, PW_PAX, "x", '0', 0);
		pw_tar_end(&tar);
		assert_fails(fails(&tar, &err), ERR_INVALID, "pax record at ");
	}
}

static void numbers_beyond_octal(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct err err = { 0 };
	struct listing l;
	size_t at;

	/* mtime -2 in base-256; size 3 in base-256; octal with blanks around. */
	at = pw_tar_header(&tar, PW_GNU, "x", '0', 3);
	memset(tar.p + at + 136, 0xff, 12);
	tar.p[at + 147] = 0xfe;
	memcpy(tar.p + at + 124, "\x80\0\0\0\0\0\0\0\0\0\0\3", 12);
	memcpy(tar.p + at + 100, "  755 \0", 8);
	pw_tar_sum(&tar, at);
	pw_tar_body(&tar, bytes_of("abc", 3));
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	assert_int_equal(l.list[0].m.mtime, -2);
	assert_int_equal(l.list[0].m.size, 3);
	assert_int_equal(l.list[0].m.mode & 07777, 0755);
	listing_done(&l);
	/* A negative size, one of more than 64 bits, one with other characters. */
	memset(tar.p + at + 124, 0xff, 12);
	pw_tar_sum(&tar, at);
	assert_fails(fails(&tar, &err), ERR_INVALID, "negative");
	tar.p[at + 124] = 0x81;
	pw_tar_sum(&tar, at);
	assert_fails(fails(&tar, &err), ERR_INVALID, "size");
	memcpy(tar.p + at + 124, "12345678901", 12);
	pw_tar_sum(&tar, at);
	assert_fails(fails(&tar, &err), ERR_INVALID, "size");
}

static void old_checksums_of_signed_chars(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;
	size_t at = pw_tar_header(&tar, PW_V7, "n\xe4me", '0', 0);
	int sum = 0;

	memset(tar.p + at + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += (int8_t)tar.p[at + (size_t)i];
	snprintf((char *)tar.p + at + 148, 7, "%06o", (unsigned)sum);
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	assert_str(l.list[0].m.path, "n\xe4me");
	listing_done(&l);
	tar.p[at] ^= 1;
	struct err err = { 0 };
	assert_fails(fails(&tar, &err), ERR_INVALID, "no tar header at 0: its checksum is wrong");
}

static void v7_names_directories_by_a_slash(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;
	size_t at = pw_tar_header(&tar, PW_V7, "dir/", '0', 0);

	tar.p[at + 156] = 0;
	pw_tar_sum(&tar, at);
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	assert_int_equal(l.list[0].m.type, PKG_DIR);
	assert_str(l.list[0].m.path, "dir");
	listing_done(&l);
}

static void types_that_are_not_files(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;

	pw_tar_header(&tar, PW_GNU, "volume", 'V', 0);
	pw_tar_header(&tar, PW_GNU, "dump", 'D', 5);
	pw_tar_body(&tar, bytes_of("Yx\0\0\0", 5));
	pw_tar_header(&tar, PW_GNU, "fifo", '6', 0);
	pw_tar_header(&tar, PW_GNU, "unknown", 'Q', 2);
	pw_tar_body(&tar, bytes_of("ab", 2));
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	assert_int_equal(l.n, 4);
	assert_int_equal(l.list[0].m.type, PKG_SPECIAL);
	assert_int_equal(l.list[1].m.type, PKG_DIR);
	assert_int_equal(l.list[2].m.type, PKG_SPECIAL);
	assert_int_equal(l.list[3].m.type, PKG_FILE);
	assert_str(buf_str(&l.list[3].content), "ab");
	listing_done(&l);
}

static void ends_of_a_tar(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct err err = { 0 };
	struct listing l;
	size_t n;
	const struct pw_file *files = sample_files(&n);

	pw_tar(&tar, PW_GNU, files, n);
	/* Both zero blocks, one, none. */
	for (int i = 0; i < 3; i++, tar.size -= 512) {
		read_tar(&l, &tar);
		assert_int_equal(l.n, n);
		listing_done(&l);
	}
	/* tar.size is now one block too short: in the last member's content. */
	assert_fails(fails(&tar, &err), ERR_INVALID, "ends");
	/* An empty payload is an empty archive; after zeros anything may follow. */
	tar.size = 0;
	read_tar(&l, &tar);
	listing_done(&l);
	pw_tar_end(&tar);
	buf_add(&tar, "garbage", 7);
	read_tar(&l, &tar);
	assert_int_equal(l.n, 0);
	listing_done(&l);
}

/* Every cut is an error, except those between members. */
static void cut_anywhere(void **state)
{
	char long_name[151];
	struct pw_file files[] = {
		{ .path = "a", .content = bytes_of("abc", 3) },
		{ .path = long_name, .content = bytes_of("defg", 4) },
		{ .path = "c", .mode = S_IFLNK | 0777, .link = "a" },
	};

	memset(long_name, 'n', 150);
	long_name[150] = 0;
	for (enum pw_tar d = PW_GNU; d <= PW_PAX; d++) {
		AUTO(buf_done) struct buf tar = { 0 };
		size_t whole, n_fine = 0;

		pw_tar(&tar, d, files, ARRAY_SIZE(files));
		whole = tar.size - 1024;
		for (tar.size = 0; tar.size < whole; tar.size++) {
			struct err err = { 0 };
			struct listing l;
			int r = listing_of(&l, PKG_FORMAT_TAR, buf_bytes(&tar), 100, &err);

			assert_true(r == 0 || err.kind == ERR_INVALID);
			if (r == 0) {
				assert_int_equal(tar.size % 512, 0);
				n_fine++;
			}
			listing_done(&l);
		}
		assert_int_equal(n_fine, 3);
	}
}

static void claimed_sizes_meet_their_limits(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	AUTO(mem_freep) char *name = mem_alloc(PKG_MAX_NAME + 2);
	struct err err = { 0 };
	struct listing l;

	memset(name, 'x', PKG_MAX_NAME + 1);
	name[PKG_MAX_NAME] = 0;
	pw_tar(&tar, PW_GNU, &(struct pw_file){ .path = name }, 1);
	read_tar(&l, &tar);
	assert_int_equal(l.list[0].m.path.size, PKG_MAX_NAME);
	listing_done(&l);
	name[PKG_MAX_NAME] = 'x';
	name[PKG_MAX_NAME + 1] = 0;
	for (enum pw_tar d = PW_GNU; d <= PW_PAX; d++) {
		tar.size = 0;
		pw_tar(&tar, d, &(struct pw_file){ .path = name }, 1);
		assert_fails(fails(&tar, &err), ERR_LIMIT, "bytes");
	}
	/* Headers that claim enormous sizes. */
	tar.size = 0;
	pw_tar_header(&tar, PW_PAX, "x", 'x', UINT64_C(1) << 40);
	assert_fails(fails(&tar, &err), ERR_LIMIT, "pax header");
	tar.size = 0;
	pw_tar_header(&tar, PW_GNU, "x", 'L', UINT64_C(1) << 62);
	assert_fails(fails(&tar, &err), ERR_LIMIT, "long name");
	tar.size = 0;
	pw_tar_header(&tar, PW_GNU, "x", '0', UINT64_MAX >> 1);
	assert_fails(fails(&tar, &err), ERR_INVALID, "ends");
	/* The same claimed by pax. */
	AUTO(buf_done) struct buf records = { 0 };
	pw_pax_record(&records, "size", "18446744073709551615");
	tar.size = 0;
	pw_tar_pax(&tar, 'x', buf_bytes(&records));
	pw_tar_header(&tar, PW_PAX, "x", '0', 0);
	assert_fails(fails(&tar, &err), ERR_INVALID, "18446744073709551615 bytes");
}

/* The same header for ever. */
struct endless {
	struct stream s;
	uint8_t block[512];
	uint64_t n_lent;
};

static int endless_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct endless *e = (struct endless *)s;

	e->n_lent++;
	*ret = bytes_of(e->block, MIN(max, sizeof(e->block)));
	return 0;
}

static int endless_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	*ret_got = MIN(n, (size_t)512);
	memcpy(buf, ((struct endless *)s)->block, *ret_got);
	return 0;
}

static void endless_close(struct stream *s)
{
}

static const struct stream_ops endless_ops = { .read = endless_read,
					       .next = endless_next,
					       .close = endless_close };

/* Endless members and names reach their limits, in little memory. */
static void members_without_end(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct pkg_info info = { .kind = PKG_TAR, .payload.format = PKG_FORMAT_TAR };
	struct endless e = { .s.ops = &endless_ops };
	struct err err = { 0 };
	struct pkg_reader *r;
	struct pkg_member m;
	int res;

	pw_tar_header(&tar, PW_USTAR, "x", '0', 0);
	memcpy(e.block, tar.p, 512);
	assert_done(pkg_reader_open(&info, &e.s, NULL, &r, &err));
	while ((res = pkg_reader_next(r, &m, &err)) == 0)
		;
	assert_int_equal(res, -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_int_equal(e.n_lent, PKG_MAX_MEMBERS + 1);
	assert_fails(pkg_reader_next(r, &m, &err), ERR_LIMIT, "more than 1048576 members");
	pkg_reader_close(r);
}

/* A name in a pax record may contain a NUL, which no path can. */
static void names_end_at_a_nul(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct listing l;

	pw_tar_pax(&tar, 'x', bytes_of("14 path=ab\0cd\n", 14));
	pw_tar_header(&tar, PW_PAX, "x", '0', 0);
	pw_tar_end(&tar);
	read_tar(&l, &tar);
	assert_str(l.list[0].m.path, "ab");
	listing_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_dialect_lists_the_same),
		cmocka_unit_test(long_names_and_links),
		cmocka_unit_test(names_are_made_canonical),
		cmocka_unit_test(hard_links_are_canonical_too),
		cmocka_unit_test(a_hard_links_size_may_mean_content_or_not),
		cmocka_unit_test(pax_overrides_the_header),
		cmocka_unit_test(wrong_pax_records_are_errors),
		cmocka_unit_test(numbers_beyond_octal),
		cmocka_unit_test(old_checksums_of_signed_chars),
		cmocka_unit_test(v7_names_directories_by_a_slash),
		cmocka_unit_test(types_that_are_not_files),
		cmocka_unit_test(ends_of_a_tar),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(claimed_sizes_meet_their_limits),
		cmocka_unit_test(members_without_end),
		cmocka_unit_test(names_end_at_a_nul),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
