/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparison with libarchive: archives that it writes, in every format that it has, read by both; and
 * archives of ours read by it.
 */
#include "listing.h"

#include <archive.h>
#include <archive_entry.h>

static la_ssize_t on_write(struct archive *ar, void *arg, const void *p, size_t n)
{
	buf_add(arg, p, n);
	return (la_ssize_t)n;
}

static const struct {
	const char *name;
	int (*set)(struct archive *);
	enum pkg_format format;
	bool keeps_sparse;
} formats[] = {
	{ "ustar", archive_write_set_format_ustar, PKG_FORMAT_TAR, false },
	{ "pax", archive_write_set_format_pax, PKG_FORMAT_TAR, true },
	{ "pax restricted", archive_write_set_format_pax_restricted, PKG_FORMAT_TAR, true },
	{ "gnutar", archive_write_set_format_gnutar, PKG_FORMAT_TAR, false },
	{ "v7", archive_write_set_format_v7tar, PKG_FORMAT_TAR, false },
	{ "newc", archive_write_set_format_cpio_newc, PKG_FORMAT_CPIO, false },
	{ "odc", archive_write_set_format_cpio_odc, PKG_FORMAT_CPIO, false },
	{ "bin", archive_write_set_format_cpio_bin, PKG_FORMAT_CPIO, false },
	{ "pwb", archive_write_set_format_cpio_pwb, PKG_FORMAT_CPIO, false },
};

/* Readers treat pwb like bin; but its mode bits differ, so it is not compared. */
#define N_FORMATS (ARRAY_SIZE(formats) - 1)

static struct archive_entry *entry(const char *path, mode_t mode, size_t size)
{
	struct archive_entry *e = archive_entry_new();

	archive_entry_set_pathname(e, path);
	archive_entry_set_mode(e, mode);
	archive_entry_set_size(e, (la_int64_t)size);
	archive_entry_set_mtime(e, 1600000000, 123456789);
	archive_entry_set_dev(e, 1);
	archive_entry_set_nlink(e, 1);
	return e;
}

static void write_archive(struct buf *out, size_t format, bool with_sparse)
{
	static uint8_t content[70000];
	static char long_path[400], deep_path[200];
	struct archive *ar = archive_write_new();
	struct archive_entry *e;
	bool short_names = formats[format].set == archive_write_set_format_v7tar;

	test_fill(content, sizeof(content), 5);
	memset(long_path, 'L', 300);
	memset(deep_path, 'd', 180);
	long_path[100] = long_path[200] = deep_path[90] = '/';
	assert_int_equal(formats[format].set(ar), ARCHIVE_OK);
	assert_int_equal(archive_write_open(ar, out, NULL, on_write, NULL), ARCHIVE_OK);
	for (size_t i = 0; i < 40; i++) {
		char path[64];
		size_t size = i * i * 41 % sizeof(content);

		snprintf(path, sizeof(path), "usr/lib/file%zu.so", i);
		e = entry(path, S_IFREG | 0644, size);
		archive_entry_set_ino(e, (la_int64_t)(100 + i));
		assert_true(archive_write_header(ar, e) >= ARCHIVE_WARN);
		assert_int_equal(archive_write_data(ar, content, size), size);
		archive_entry_free(e);
	}
	e = entry("usr/lib", S_IFDIR | 0755, 0);
	archive_entry_set_ino(e, 200);
	assert_true(archive_write_header(ar, e) >= ARCHIVE_WARN);
	archive_entry_free(e);
	e = entry("usr/lib/link", S_IFLNK | 0777, 0);
	archive_entry_set_symlink(e, "../file1.so");
	archive_entry_set_ino(e, 201);
	assert_true(archive_write_header(ar, e) >= ARCHIVE_WARN);
	archive_entry_free(e);
	for (int i = 0; i < 2 && !short_names; i++) {
		/* ustar cannot hold the longer name. */
		if (i && formats[format].set == archive_write_set_format_ustar)
			break;
		e = entry(i ? long_path : deep_path, S_IFREG | 0600, 10);
		archive_entry_set_ino(e, 202 + i);
		assert_true(archive_write_header(ar, e) >= ARCHIVE_WARN);
		assert_int_equal(archive_write_data(ar, content, 10), 10);
		archive_entry_free(e);
	}
	if (formats[format].format == PKG_FORMAT_TAR) {
		e = entry("usr/hard", S_IFREG | 0644, 0);
		archive_entry_set_hardlink(e, "usr/lib/file7.so");
		assert_true(archive_write_header(ar, e) >= ARCHIVE_WARN);
		archive_entry_free(e);
	}
	if (with_sparse) {
		e = entry("sparse", S_IFREG | 0644, 1000000);
		archive_entry_sparse_add_entry(e, 5000, 100);
		archive_entry_sparse_add_entry(e, 500000, 1000);
		archive_entry_sparse_add_entry(e, 999999, 1);
		assert_true(archive_write_header(ar, e) >= ARCHIVE_WARN);
		for (size_t at = 0; at < 1000000; at += 50000)
			assert_true(archive_write_data(ar, content, 50000) > 0);
		archive_entry_free(e);
	}
	assert_int_equal(archive_write_close(ar), ARCHIVE_OK);
	archive_write_free(ar);
}

/* ---- archives that libarchive reads ---- */

static struct archive *open_theirs(struct bytes b)
{
	struct archive *ar = archive_read_new();

	archive_read_support_format_tar(ar);
	archive_read_support_format_cpio(ar);
	assert_int_equal(archive_read_open_memory(ar, b.p, b.size), ARCHIVE_OK);
	return ar;
}

static void compare_content(struct archive *ar, struct archive_entry *e, const struct listed *ours)
{
	size_t size = (size_t)archive_entry_size(e);
	uint8_t *want = mem_zalloc(size + 1);
	const void *p;
	size_t n;
	la_int64_t off;

	while (archive_read_data_block(ar, &p, &n, &off) == ARCHIVE_OK) {
		assert_true((size_t)off + n <= size);
		memcpy(want + off, p, n);
	}
	assert_int_equal(ours->content.size, size);
	assert_memory_equal(ours->content.p ? ours->content.p : want, want, size);
	free(want);
}

static void compare(struct bytes b, enum pkg_format format)
{
	struct archive *ar = open_theirs(b);
	struct archive_entry *e;
	struct err err = { 0 };
	struct listing l;
	size_t i = 0;
	int r;

	assert_done(listing_of(&l, format, b, 1000, &err));
	for (; (r = archive_read_next_header(ar, &e)) >= ARCHIVE_WARN && r != ARCHIVE_EOF; i++) {
		const struct listed *ours = &l.list[i];
		const char *path = archive_entry_pathname(e);

		assert_true(i < l.n);
		if (ours->m.type == PKG_DIR && path[strlen(path) - 1] == '/')
			assert_int_equal(ours->m.path.size + 1, strlen(path));
		else
			assert_str(ours->m.path, path);
		assert_int_equal(ours->m.mtime, archive_entry_mtime(e));
		if (archive_entry_hardlink(e)) {
			assert_int_equal(ours->m.type, PKG_HARDLINK);
			assert_str(ours->m.link, archive_entry_hardlink(e));
			continue;
		}
		assert_int_equal(ours->m.mode, archive_entry_mode(e));
		if (archive_entry_filetype(e) == AE_IFLNK)
			assert_str(ours->m.link, archive_entry_symlink(e));
		if (archive_entry_filetype(e) == AE_IFREG)
			compare_content(ar, e, ours);
	}
	assert_int_equal(i, l.n);
	listing_done(&l);
	archive_read_free(ar);
}

static void archives_by_libarchive(void **state)
{
	for (size_t f = 0; f < N_FORMATS; f++)
		for (int sparse = 0; sparse <= formats[f].keeps_sparse; sparse++) {
			AUTO(buf_done) struct buf out = { 0 };

			write_archive(&out, f, sparse);
			compare(buf_bytes(&out), formats[f].format);
		}
}

static void archives_by_our_writer(void **state)
{
	size_t n;
	const struct pw_file *files = sample_files(&n);

	for (int f = 0; f < 9; f++) {
		AUTO(buf_done) struct buf out = { 0 };

		if (f < 4)
			pw_tar(&out, (enum pw_tar)f, files, n);
		else
			pw_cpio(&out, (enum pw_cpio)(f - 4), files, n);
		compare(buf_bytes(&out), f < 4 ? PKG_FORMAT_TAR : PKG_FORMAT_CPIO);
	}
}

/* Flipped bits: both fail or both succeed; neither may crash. The first members are then equal. */
static void damaged_archives(void **state)
{
	for (size_t f = 0; f < N_FORMATS; f++) {
		AUTO(buf_done) struct buf out = { 0 };

		write_archive(&out, f, false);
		for (unsigned round = 0; round < 300; round++) {
			uint64_t at = hash64(&round, sizeof(round), f);
			uint8_t *p = &out.p[at % MIN(out.size, (size_t)20000)], old = *p;
			struct err err = { 0 };
			struct listing l;

			*p ^= (uint8_t)(1u << (at >> 32) % 8);
			(void)listing_of(&l, formats[f].format, buf_bytes(&out), 0, &err);
			listing_done(&l);
			*p = old;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(archives_by_libarchive),
		cmocka_unit_test(archives_by_our_writer),
		cmocka_unit_test(damaged_archives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
