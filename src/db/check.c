/* SPDX-License-Identifier: Apache-2.0 */
/* All pages of a database's file, compared with their digests (sqlite_digest.c). */
#include "db/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

#define VERIFY_PAGES 64 /* read at once */

static int first_bad_page(int fd, uint64_t *ret_page, struct err *err)
{
	uint8_t start[DB_HEADER_START];
	AUTO(mem_freep) uint8_t *pages = NULL;
	struct db_header h;
	struct stat st;
	uint32_t size;
	size_t got;

	*ret_page = 0;
	if (fd_pread(fd, start, sizeof(start), 0, &got, NULL) < 0 || got < sizeof(start))
		return 0;
	db_header_read(start, &h);
	size = h.page_size;
	if (!h.has_digests || !size)
		return 0;
	if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < (uint64_t)h.n_pages * size) {
		*ret_page = (uint64_t)st.st_size / size + 1;
		return 0;
	}
	pages = mem_alloc((size_t)VERIFY_PAGES * size);
	for (uint64_t page = 1;; page += VERIFY_PAGES) {
		if (fd_pread(fd, pages, (size_t)VERIFY_PAGES * size, (page - 1) * size, &got, err) < 0)
			return -1;
		for (uint64_t i = 0; i < got / size; i++)
			if (!db_page_is_sound(pages + i * size, size, page + i)) {
				*ret_page = page + i;
				return 0;
			}
		if (got < (size_t)VERIFY_PAGES * size)
			return 0;
	}
}

int db_check_pages(const char *path, uint64_t *ret_page, struct err *err)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);

	*ret_page = 0;
	return fd < 0 ? err_os(err, errno, "%s", path) : first_bad_page(fd, ret_page, err);
}
