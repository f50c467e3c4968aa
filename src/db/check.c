/* SPDX-License-Identifier: Apache-2.0 */
/* All pages of a database's file, compared with their digests (sqlite_digest.c). */
#include "db/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERIFY_PAGES 64 /* read at once */

static int first_bad_page(int fd, uint64_t *ret_page, struct err *err)
{
	uint8_t header[32];
	uint32_t size;
	AUTO(mem_freep) uint8_t *pages = NULL;
	ssize_t n = pread(fd, header, sizeof(header), 0);
	uint64_t n_pages;
	struct stat st;

	*ret_page = 0;
	if (n != (ssize_t)sizeof(header) || header[20] != DIGEST_SIZE)
		return 0;
	size = (uint32_t)header[16] << 8 | header[17];
	size = size == 1 ? 65536 : size;
	if (size < 512 || size & (size - 1))
		return 0;
	n_pages = (uint64_t)header[28] << 24 | (uint64_t)header[29] << 16 | (uint64_t)header[30] << 8 |
		  header[31];
	if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < n_pages * size) {
		*ret_page = (uint64_t)st.st_size / size + 1;
		return 0;
	}
	pages = mem_alloc((size_t)VERIFY_PAGES * size);
	for (uint64_t page = 1;; page += VERIFY_PAGES) {
		n = pread(fd, pages, (size_t)VERIFY_PAGES * size, (off_t)((page - 1) * size));
		if (n < 0)
			return err_os(err, errno, "cannot be read");
		for (uint64_t i = 0; i < (uint64_t)n / size; i++)
			if (!db_page_is_sound(pages + i * size, size, page + i)) {
				*ret_page = page + i;
				return 0;
			}
		if ((size_t)n < (size_t)VERIFY_PAGES * size)
			return 0;
	}
}

int db_check_pages(const char *path, uint64_t *ret_page, struct err *err)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);

	*ret_page = 0;
	return fd < 0 ? err_os(err, errno, "%s", path) : first_bad_page(fd, ret_page, err);
}
