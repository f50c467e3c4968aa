/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deep pass of one package by itself, without an index: for commands that inspect a package.
 */
#include <stdlib.h>
#include "scan/internal.h"

int scan_one(const char *path, unsigned threads, struct pkg_map **ret_map, struct buf *ret_points,
	     struct err *err)
{
	AUTO(fd_close) int fd = -1;
	AUTO(source_closep) struct source *src = NULL;
	struct deep_result deep;
	struct deep_input in;
	struct stat st;
	int r;

	r = file_open(path, &fd, &st, err);
	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no such file");
	if (r < 0)
		return r;
	src = source_of_fd(TAKE_FD(fd), (uint64_t)st.st_size, st.st_mtim.tv_sec, path);
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
