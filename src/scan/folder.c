/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in one folder. Not fts(3): that of glibc takes a folder whose reading fails half-way for a shorter one.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include "scan/internal.h"

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* 0: to the end. Else the errno. */
static int read_names(DIR *dir, struct arena *a, char ***names, size_t *n)
{
	size_t room = 0;

	for (;;) {
		const struct dirent *e;

		errno = 0;
		e = readdir(dir);
		if (!e)
			return errno;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			VEC_PUSH(*names, *n, room) = arena_strdup(a, str_of(e->d_name));
	}
}

int folder_names(const char *path, struct arena *a, char ***ret, size_t *ret_n)
{
	DIR *dir = opendir(path);
	char **names = NULL;
	size_t n = 0;
	int r;

	*ret = NULL;
	*ret_n = 0;
	if (!dir)
		return errno;
	r = read_names(dir, a, &names, &n);
	closedir(dir);
	if (n)
		qsort(names, n, sizeof(*names), compare_names);
	*ret = names;
	*ret_n = n;
	return r;
}
