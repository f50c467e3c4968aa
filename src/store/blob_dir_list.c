/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blobs in the folder of a store, in the order of their names: "A/BB/C" is the file of that path.
 */
#include "store/blob_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include "base/vec.h"

struct blob_stamp blob_file_stamp(const struct stat *st)
{
	return (struct blob_stamp){ st->st_ino, (uint64_t)st->st_size, file_mtime_ns(st) };
}

int blob_file_stat(const char *path, struct blob_stamp *ret, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? BLOB_MISSING
							   : err_os(err, errno, "%s: stat", path);
	*ret = blob_file_stamp(&st);
	return 0;
}

void folder_entries_done(struct folder_entries *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i]);
	free(n->v);
	*n = (struct folder_entries){ 0 };
}

static int entry_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int folder_entries_read(const char *path, struct folder_entries *ret, struct err *err)
{
	AUTO(folder_entries_done) struct folder_entries names = { 0 };
	struct dirent *e;
	DIR *dir = opendir(path);
	int os = 0;

	if (!dir && errno != ENOENT)
		return err_os(err, errno, "%s: open", path);
	/* A failure is no end: a collector would take the contents of the records that were not read for garbage. */
	while (dir && (errno = 0, e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		VEC_PUSH(names.v, names.n, names.room) = mem_strdup(e->d_name);
	}
	if (dir) {
		os = errno;
		closedir(dir);
	}
	if (os)
		return err_os(err, os, "%s: read", path);
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), entry_compare);
	*ret = names;
	names = (struct folder_entries){ 0 };
	return 0;
}

struct blob_range {
	const char *path; /* of the store */
	struct str prefix, after;
	blob_list_fn *fn;
	void *arg;
};

/* Can a name in the range begin with @s? */
static bool range_may_hold(const struct blob_range *l, struct str s)
{
	struct str head = { l->prefix.p, MIN(l->prefix.size, s.size) };
	struct str past = { l->after.p, MIN(l->after.size, s.size) };

	return str_starts(s, head) && str_cmp(s, past) >= 0;
}

static int list_folder(const struct blob_range *l, const char *folder, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", l->path, folder);
	AUTO(folder_entries_done) struct folder_entries leaves = { 0 };

	if (folder_entries_read(path, &leaves, err) < 0)
		return -1;
	for (size_t i = 0; i < leaves.n; i++) {
		AUTO(mem_freep) char *name = mem_printf("%s/%s", folder, leaves.v[i]);
		AUTO(mem_freep) char *full = NULL;
		struct blob_stamp stamp;
		int r;

		if (!str_starts(str_of(name), l->prefix) || str_cmp(str_of(name), l->after) <= 0)
			continue;
		full = mem_printf("%s/%s", l->path, name);
		r = blob_file_stat(full, &stamp, err);
		if (r < 0)
			return -1;
		if (r == 0)
			r = l->fn(l->arg, name, &stamp, err);
		else
			r = 0; /* it was removed meanwhile */
		if (r)
			return r;
	}
	return 0;
}

int blob_folder_list(const char *path, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		     struct err *err)
{
	struct blob_range l = { path, prefix, after, fn, arg };
	struct str rest = prefix, top = str_cut(&rest, '/');
	AUTO(mem_freep) char *top_name = mem_strndup(top.p, top.size);
	AUTO(mem_freep) char *top_path = mem_printf("%s/%s", path, top_name);
	AUTO(folder_entries_done) struct folder_entries folders = { 0 };
	int r = 0;

	if (folder_entries_read(top_path, &folders, err) < 0)
		return -1;
	for (size_t i = 0; i < folders.n && !r; i++) {
		AUTO(mem_freep) char *folder = mem_printf("%s/%s", top_name, folders.v[i]);

		if (range_may_hold(&l, str_of(folder)))
			r = list_folder(&l, folder, err);
	}
	return r;
}
