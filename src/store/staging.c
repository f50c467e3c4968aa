/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging files, in which contents are gathered.
 */
#include "store/blob.h"

#include <errno.h>
#include <fcntl.h>

int staging_write(struct staging *s, struct bytes b, struct err *err)
{
	if (fd_pwrite(s->fd, b.p, b.size, s->size, err) < 0)
		return -1;
	s->size += b.size;
	return 0;
}

int staging_source(const struct staging *s, const char *name, struct source **ret, struct err *err)
{
	int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return err_os(err, errno, "%s: dup", name);
	*ret = source_of_fd(fd, s->size, 0, name);
	return 0;
}
