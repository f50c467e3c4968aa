/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of archives and packages, by name.
 */
#include "listing.h"

#define TREE "usr/lib/debug/.build-id/ab/cd.debug"

static const struct pw_file files[] = {
	{ "usr", 0040755 },
	{ "usr/bin/a:b", .content = { (const uint8_t *)"colon", 5 } },
	{ "usr/lib/one.so", .content = { (const uint8_t *)"one", 3 } },
	{ "usr/lib/two.so", .content = { (const uint8_t *)"two", 3 } },
	{ TREE, 0120777, .link = "../../../one.so" },
	{ "usr/lib/one.so.1", 0120777, .link = "one.so" },
	{ "usr/lib/loop", 0120777, .link = "loop" },
	{ "usr/lib/away", 0120777, .link = "../../../../etc/passwd" },
	{ "bad\x1b[31m\nname", .content = { (const uint8_t *)"bad", 3 } },
};

/* The content of member @name of @package, as text; the error's text if there is none. */
static const char *member_text(struct bytes package, const char *name, enum err_kind *ret_kind)
{
	AUTO(source_closep) struct source *src = source_of_mem(package, "x.deb"), *member = NULL;
	static char text[1200];
	struct err err = { 0 };
	size_t got = 0;

	*ret_kind = ERR_NONE;
	if (pkg_open_member(src, str_of(name), &member, &err) < 0) {
		*ret_kind = err.kind;
		snprintf(text, sizeof(text), "%s", err.text);
		return text;
	}
	assert_done(source_read(member, 0, text, sizeof(text) - 1, SOURCE_RANDOM, &got, &err));
	text[got] = '\0';
	return text;
}

static void assert_member(struct bytes package, const char *name, const char *content)
{
	enum err_kind kind;
	const char *text = member_text(package, name, &kind);

	if (kind != ERR_NONE || strcmp(text, content) != 0)
		fail_msg("%s: %s", name, text);
}

static void assert_no_member(struct bytes package, const char *name, enum err_kind want, const char *says)
{
	enum err_kind kind;
	const char *text = member_text(package, name, &kind);

	if (kind != want || !strstr(text, says))
		fail_msg("%s: %s", name, text);
}

static void make_package(struct buf *out, enum pkg_kind kind)
{
	if (kind == PKG_DEB)
		pw_deb(out, &(struct pw_deb){ .control = CODEC_GZIP,
					      .data = CODEC_XZ,
					      .files = files,
					      .n_files = ARRAY_SIZE(files) });
	else if (kind == PKG_RPM)
		pw_rpm(out,
		       &(struct pw_rpm){ .codec = CODEC_ZSTD, .files = files, .n_files = ARRAY_SIZE(files) });
	else if (kind == PKG_TAR)
		pw_tar(out, PW_GNU, files, ARRAY_SIZE(files));
	else
		pw_cpio(out, PW_NEWC, files, ARRAY_SIZE(files));
}

static void members_of_packages_are_files(void **state)
{
	static const enum pkg_kind kinds[] = { PKG_DEB, PKG_RPM, PKG_TAR, PKG_CPIO };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		AUTO(buf_done) struct buf b = { 0 };

		make_package(&b, kinds[i]);
		assert_member(buf_bytes(&b), "usr/lib/one.so", "one");
		assert_member(buf_bytes(&b), "/usr/lib//two.so", "two");
		assert_member(buf_bytes(&b), "./usr/lib/two.so", "two");
		assert_member(buf_bytes(&b), "usr/bin/a:b", "colon");
		/* Links. */
		assert_member(buf_bytes(&b), TREE, "one");
		assert_member(buf_bytes(&b), "usr/lib/one.so.1", "one");
		assert_no_member(buf_bytes(&b), "usr/lib/loop", ERR_LIMIT, "without an end");
		assert_no_member(buf_bytes(&b), "usr/lib/away", ERR_INVALID, "no such member");
		assert_no_member(buf_bytes(&b), "usr", ERR_INVALID, "a folder");
	}
}

static unsigned n_notices;

static void count_notice(void *arg, enum log_level level, const char *area, const char *text)
{
	n_notices += strstr(text,
			    "3 members have the name a.o; the first one is used; a.o[2] is the second") !=
		     NULL;
}

static void members_of_one_name_have_numbers(void **state)
{
	static const char *const members[][2] = { { "a.o", "one" },   { "b.o", "b" },
						  { "a.o", "two" },   { "b.o[2]", "exact" },
						  { "a.o", "three" }, { "b.o", "hidden" } };
	AUTO(buf_done) struct buf ar = { 0 };

	buf_add_str(&ar, STR("!<arch>\n"));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		size_t n = strlen(members[i][1]);

		buf_printf(&ar, "%s/%*s%-12u%-6u%-6u%-8o%-10zu`\n%s%s", members[i][0],
			   15 - (int)strlen(members[i][0]), "", 0, 0, 0, 0100644, n, members[i][1],
			   n % 2 ? "\n" : "");
	}
	n_notices = 0;
	log_set_sink(count_notice, NULL);
	assert_member(buf_bytes(&ar), "a.o", "one");
	assert_int_equal(n_notices, 1);
	assert_member(buf_bytes(&ar), "a.o[1]", "one");
	assert_member(buf_bytes(&ar), "a.o[2]", "two");
	assert_member(buf_bytes(&ar), "a.o[3]", "three");
	/* The whole name of a member is no number of another one. */
	assert_member(buf_bytes(&ar), "b.o[2]", "exact");
	assert_no_member(buf_bytes(&ar), "a.o[4]", ERR_INVALID, "the archive has 3 of the name a.o");
	assert_no_member(buf_bytes(&ar), "a.o[0]", ERR_INVALID, "no such member; the archive has");
	assert_no_member(buf_bytes(&ar), "a.o[x]", ERR_INVALID, "no such member; the archive has");
	assert_no_member(buf_bytes(&ar), "a.o]", ERR_INVALID, "no such member; the archive has");
	log_set_sink(NULL, NULL);
}

static void a_missing_member_has_neighbours(void **state)
{
	AUTO(buf_done) struct buf b = { 0 }, empty = { 0 }, cut = { 0 };

	make_package(&b, PKG_TAR);
	assert_no_member(buf_bytes(&b), "lib/two.so", ERR_INVALID, "the archive has usr/lib/two.so, ");
	assert_no_member(buf_bytes(&b), "usr/lib/twO.so", ERR_INVALID, "and others");
	pw_ar_begin(&empty);
	assert_no_member(buf_bytes(&empty), "x", ERR_INVALID, "has no members");
	buf_add(&cut, b.p, b.size - 1700);
	assert_no_member(buf_bytes(&cut), "lib/two.so", ERR_INVALID, "");
	assert_no_member(bytes_of("\177ELF\2\1\1", 7), "x", ERR_INVALID, "an ELF file, which has no members");
	assert_no_member(bytes_of("hello", 5), "x", ERR_INVALID, "a text file, which has no members");
	assert_no_member(bytes_of("!<thin>\n//", 10), "x", ERR_INVALID,
			 "only names of object files: name one of its object files");
	assert_no_member(bytes_of("!<thin>\n", 8), "x", ERR_INVALID, "thin archive");
	assert_no_member(bytes_of("", 0), "x", ERR_INVALID, "an empty file, which has no members");
}

/* An archive of object files in a package, and packages in packages, to a limit. */
static void archives_may_be_in_archives(void **state)
{
	AUTO(buf_done) struct buf ar = { 0 }, tar = { 0 }, outer = { 0 }, outermost = { 0 };
	struct pw_file one = { "usr/lib/libx.a" }, two = { "x.tar" }, three = { "y.tar" };

	pw_ar_begin(&ar);
	pw_ar_member(&ar, "y.o/", bytes_of("object", 6));
	one.content = buf_bytes(&ar);
	pw_tar(&tar, PW_PAX, &one, 1);
	assert_member(buf_bytes(&tar), "usr/lib/libx.a:y.o", "object");
	assert_no_member(buf_bytes(&tar), "usr/lib/libx.a:z.o", ERR_INVALID,
			 "member z.o: no such member; the archive has y.o");
	assert_no_member(buf_bytes(&tar), "usr/lib/libx.a!y.o!z", ERR_INVALID, "has no members");
	two.content = buf_bytes(&tar);
	pw_tar(&outer, PW_PAX, &two, 1);
	assert_member(buf_bytes(&outer), "x.tar!usr/lib/libx.a:y.o", "object");
	three.content = buf_bytes(&outer);
	pw_tar(&outermost, PW_PAX, &three, 1);
	assert_no_member(buf_bytes(&outermost), "y.tar!x.tar!usr/lib/libx.a:y.o", ERR_LIMIT,
			 "archives in archives");
}

/* 300 MiB of zeros, in some KiB. */
static void a_bomb_does_not_fill_the_disk(void **state)
{
	AUTO(buf_done) struct buf zeros = { 0 }, tar = { 0 }, b = { 0 };
	const size_t size = MIB(160);

	memset(buf_reserve(&zeros, size), 0, size);
	zeros.size = size;
	{
		const struct pw_file list[] = { { "bomb", .content = buf_bytes(&zeros) },
						{ "after", .content = { (const uint8_t *)"x", 1 } } };

		pw_tar(&tar, PW_PAX, list, 2);
	}
	pw_compress(&b, CODEC_ZSTD, 1, buf_bytes(&tar));
	assert_no_member(buf_bytes(&b), "bomb", ERR_LIMIT, "allowed for an archive of this size");
	assert_member(buf_bytes(&b), "after", "x");
}

/* A header that claims more than the archive has; a million members are too many for a map, not for a reader. */
static void claims_are_not_believed(void **state)
{
	AUTO(buf_done) struct buf huge = { 0 };
	size_t at = pw_tar_header(&huge, PW_GNU, "huge", '0', UINT64_C(1) << 40);

	pw_tar_sum(&huge, at);
	pw_tar_body(&huge, bytes_of("some", 4));
	assert_no_member(buf_bytes(&huge), "other", ERR_INVALID, "ends at 1024");
	assert_no_member(buf_bytes(&huge), "huge", ERR_INVALID, "");
}

static void a_file_is_never_taken_for_a_member(void **state)
{
	char dir[TEST_PATH_SIZE];
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *archive = mem_printf("%s/x.tar", test_dir_make(dir));
	AUTO(mem_freep) char *member = mem_printf("%s/x.tar:usr", dir);
	AUTO(mem_freep) char *other = mem_printf("%s/x.tar!usr/lib/one.so", dir);
	AUTO(mem_freep) char *none = mem_printf("%s/y.tar!usr/lib/one.so", dir);
	AUTO(mem_freep) char *folder = mem_printf("%s!x.tar", dir);
	struct source *src;
	struct err err = { 0 };

	make_package(&b, PKG_TAR);
	test_file_write(archive, b.p, b.size);
	test_file_write(member, "mine", 4);
	assert_done(pkg_open_path(member, &src, &err));
	assert_int_equal(src->size, 4);
	source_close(src);
	assert_done(pkg_open_path(other, &src, &err));
	assert_string_equal(src->name, other);
	source_close(src);
	assert_int_equal(pkg_open_path(none, &src, &err), FILE_MISSING);
	assert_int_equal(pkg_open_path(folder, &src, &err), FILE_MISSING);
	assert_int_equal(pkg_open_path("", &src, &err), FILE_MISSING);
	assert_int_equal(pkg_open_path(":x", &src, &err), FILE_MISSING);
	test_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_of_packages_are_files),
		cmocka_unit_test(members_of_one_name_have_numbers),
		cmocka_unit_test(a_missing_member_has_neighbours),
		cmocka_unit_test(archives_may_be_in_archives),
		cmocka_unit_test(a_bomb_does_not_fill_the_disk),
		cmocka_unit_test(claims_are_not_believed),
		cmocka_unit_test(a_file_is_never_taken_for_a_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
