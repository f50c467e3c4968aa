/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CRC-32 in a debug link, over every byte of the debug file. Files of gigabytes are read for it, so a CRC
 * is cached for as long as inode, size and times identify the same file. All calls of zlib in this module are
 * here.
 */
#include "local/internal.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#define PIECE_SIZE MIB(1)

/* The key. Zeroed before it is filled in, so that equal keys have equal padding. */
struct file_key {
	uint64_t dev, ino, size, mtime_s, mtime_ns, ctime_s, ctime_ns;
};

struct local_crcs {
	struct map crcs; /* of struct file_key: the CRC, plus CRC_KNOWN so that it is not NULL */
};
#define CRC_KNOWN (1ull << 32)

static struct file_key crc_key(const struct stat *st)
{
	return (struct file_key){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_s = (uint64_t)st->st_mtim.tv_sec,
		.mtime_ns = (uint64_t)st->st_mtim.tv_nsec,
		.ctime_s = (uint64_t)st->st_ctim.tv_sec,
		.ctime_ns = (uint64_t)st->st_ctim.tv_nsec,
	};
}

/* Read, not mapped: if the file is truncated meanwhile, a mapping would end the process. */
static int read_crc(int fd, uint64_t size, uint32_t *ret, struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(PIECE_SIZE);
	uLong crc = crc32(0, NULL, 0);
	size_t got = 0;

	/* Only as much as the limits were checked for: files in /proc have a size of 0, and may never end. */
	for (uint64_t off = 0; off < size; off += got) {
		if (fd_pread(fd, piece, (size_t)MIN(size - off, (uint64_t)PIECE_SIZE), off, &got, err) < 0)
			return -1;
		if (!got)
			break;
		crc = crc32(crc, piece, (uInt)got);
	}
	*ret = (uint32_t)crc;
	return 0;
}

struct local_crcs *local_crcs_new(void)
{
	return NEW(struct local_crcs);
}

void local_crcs_free(struct local_crcs *c)
{
	if (!c)
		return;
	map_done(&c->crcs);
	free(c);
}

int local_crcs_of(struct local_crcs *c, int fd, const struct stat *st, uint32_t *ret, struct err *err)
{
	struct file_key key = crc_key(st);
	uintptr_t known = (uintptr_t)map_get(&c->crcs, bytes_of(&key, sizeof(key)));
	uint32_t crc;

	if (known) {
		*ret = (uint32_t)known;
		return 0;
	}
	if (read_crc(fd, (uint64_t)st->st_size, &crc, err) < 0)
		return -1;
	map_put(&c->crcs, bytes_of(&key, sizeof(key)), (void *)(uintptr_t)(CRC_KNOWN | crc));
	*ret = crc;
	return 0;
}
