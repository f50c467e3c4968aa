/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deep pass of one package by itself, without an index: for commands that inspect a package.
 */
#include <errno.h>
#include <stdlib.h>
#include "s3/s3.h"
#include "scan/internal.h"

int scan_one(const char *path, unsigned threads, struct pkg_map **ret_map, struct buf *ret_points,
	     struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	struct deep_result deep;
	struct deep_input in;
	uint64_t off;
	struct stat st;
	int fd, r = s3_open_path(path, &src, err);

	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no such file");
	if (r < 0)
		return r;
	if (!source_raw_fd(src, &fd, &off))
		st = (struct stat){ .st_mode = S_IFREG,
				    .st_size = (off_t)src->size,
				    .st_mtim.tv_sec = src->mtime };
	else if (fstat(fd, &st) < 0)
		return err_os(err, errno, "stat");
	in = (struct deep_input){ src, &st, path_basename(str_of(path)), threads };
	if (deep_pass(&in, NULL, &deep, err) < 0)
		return -1;
	r = pkg_map_decode(buf_bytes(&deep.map), ret_map, err);
	if (r == 0) {
		*ret_points = deep.points;
		deep.points = (struct buf){ 0 };
	}
	deep_result_done(&deep);
	return r;
}
