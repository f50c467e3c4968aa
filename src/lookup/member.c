/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of an archive as a file: "libx.a:member.o", "app.apk!lib/arm64-v8a/libx.so". It is copied to a file
 * without a name, and its size is limited by that of the archive, so that a small archive cannot fill the disk.
 */
#include "lookup/internal.h"
#include "pkg/pkg.h"

static void reader_closep(struct pkg_reader **r)
{
	pkg_reader_close(*r);
}

/* Copy the member at hand. */
static int member_copy(struct pkg_reader *r, uint64_t max, int fd, uint64_t *ret_size, struct err *err)
{
	struct bytes chunk;

	for (*ret_size = 0;; *ret_size += chunk.size) {
		if (pkg_reader_data(r, &chunk, err) < 0)
			return -1;
		if (!chunk.size)
			return 0;
		if (chunk.size > max - *ret_size)
			return err_set(err, ERR_LIMIT,
				       "more than the %llu bytes allowed for an archive of this size",
				       (unsigned long long)max);
		if (fd_pwrite(fd, chunk.p, chunk.size, *ret_size, err) < 0)
			return -1;
	}
}

static int member_find(struct pkg_reader *r, struct str name, struct pkg_member *ret, struct err *err)
{
	for (unsigned n = 0; n < PKG_MAX_MEMBERS; n++) {
		int rc = pkg_reader_next(r, ret, err);

		if (rc < 0)
			return -1;
		if (rc == PKG_END)
			break;
		if (ret->type == PKG_FILE && !ret->unsafe && str_eq(ret->path, name))
			return 0;
	}
	return err_set(err, ERR_INVALID, "it has no member " STR_FMT, STR_ARG(name));
}

static int member_open(const char *archive, struct str name, const char *path, struct source **ret,
		       struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(reader_closep) struct pkg_reader *reader = NULL;
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(fd_close) int fd = -1;
	struct pkg_info info;
	struct pkg_member m;
	uint64_t size;
	int r = source_open_file(archive, &src, err);

	if (r == 0)
		r = pkg_open(src, path_basename(str_of(archive)), &a, &info, err);
	if (r > 0 || (r == 0 && info.kind != PKG_OTHER))
		return err_set(err, ERR_INVALID, "only members of ar archives, zips and APKs can be named");
	while (name.size && name.p[0] == '/')
		name = (struct str){ name.p + 1, name.size - 1 };
	if (r < 0 || pkg_reader_open(&info, NULL, src, &reader, err) < 0 ||
	    member_find(reader, name, &m, err) < 0 || file_unnamed(file_temp_dir(), &fd, err) < 0)
		return -1;
	if (member_copy(reader, elf_held_max(src->size), fd, &size, err) < 0)
		return err_in(err, "member " STR_FMT, STR_ARG(name));
	*ret = source_of_fd(TAKE_FD(fd), size, src->mtime, path);
	return 0;
}

int lookup_open_source(const char *path, struct source **ret, struct err *err)
{
	int r = source_open_file(path, ret, err);

	if (r != FILE_MISSING)
		return r;
	for (const char *p = path; (p = strpbrk(p, ":!")); p++) {
		AUTO(mem_freep) char *archive = mem_strndup(path, (size_t)(p - path));
		struct stat st;

		if (p != path && p[1] && stat(archive, &st) == 0 && S_ISREG(st.st_mode))
			return member_open(archive, str_of(p + 1), path, ret, err);
	}
	return err_set(err, ERR_IO, "there is no such file");
}
