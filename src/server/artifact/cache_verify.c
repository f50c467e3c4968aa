/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `lode store verify` compares the files in the cache of artifacts with their digests, also while a server uses it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "server/artifact/cache_name.h"

int server_cache_verify(const char *dir, const struct cache_verify_options *o,
			struct cache_verify_result *ret, struct err *err)
{
	struct cache_verify_result result = { 0 };
	struct dirent *d;
	DIR *folder = opendir(dir);

	*ret = result;
	if (!folder)
		return errno == ENOENT ? 0 : err_os(err, errno, "cache %s", dir);
	while ((d = readdir(folder))) {
		AUTO(mem_freep) char *name = NULL;
		AUTO(fd_close) int fd = -1;
		struct str key = { 0 }, digest = { 0 };
		struct err why = { 0 };

		if (cache_name_kind_of(str_of(d->d_name), &key, &digest) != CACHE_NAME_KEPT)
			continue;
		fd = openat(dirfd(folder), d->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		name = mem_strndup(key.p, key.size);
		/* A server may have evicted it meanwhile. */
		if (fd < 0 && errno == ENOENT)
			continue;
		result.n_files++;
		if (fd >= 0 && cache_name_check(fd, name, digest.p, NULL, &why) == 0)
			continue;
		if (fd < 0)
			(void)err_os(&why, errno, "cannot be opened");
		result.n_bad++;
		result.n_removed += o->remove && unlinkat(dirfd(folder), d->d_name, 0) == 0;
		o->bad(o->arg, str_of(d->d_name), &why);
	}
	closedir(folder);
	*ret = result;
	return 0;
}
