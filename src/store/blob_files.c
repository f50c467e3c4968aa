/* SPDX-License-Identifier: Apache-2.0 */
#include "store/blob_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include "base/file_cache.h"
#include "store/internal.h"

#define FILES_USUAL 65536u
#define PART_MAX    4u /* of the budget, for one file */
#define FILES_PIECE MIB(1)

/* A file has the name of the content without its folders. */
static const char *file_name(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}

static bool name_is_raw(const char *file)
{
	return !str_ends(str_of(file), STR(".zst"));
}

static bool is_file_name(const char *s, uint64_t size)
{
	size_t n = strspn(s, "0123456789abcdef");

	return n == 2 * (size_t)STORE_SHA256_SIZE && (!s[n] || strcmp(s + n, ".zst") == 0);
}

bool blob_files_has(struct file_cache *f, const char *name, struct blob_stamp *ret)
{
	struct file_cache_stamp stamp;

	if (!file_cache_has(f, file_name(name), &stamp))
		return false;
	*ret = (struct blob_stamp){ stamp.id, stamp.size, stamp.time_s * 1000000000 };
	return true;
}

int blob_files_read(struct file_cache *f, const char *name, struct source **ret)
{
	uint64_t size;
	int fd, r = file_cache_open_file(f, file_name(name), &fd, &size);

	if (r == 0)
		*ret = source_of_fd(fd, size, 0, name);
	return r;
}

void blob_files_check(struct file_cache *f, const char *name)
{
	file_cache_check(f, file_name(name));
}

/* ---- keeping ---- */

/* Copy the bytes. The SHA-256 of a raw content is computed on the way. FILE_CACHE_NONE: a failure to write. */
static int copy_blob_bytes(struct file_cache_new *n, struct source *src, uint8_t ret[STORE_SHA256_SIZE],
			   struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(FILES_PIECE);
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	size_t got;

	if (sha256_new(&sha, err) < 0)
		return -1;
	/* Ranges on disk beside the file would be a second copy. */
	source_pass(src);
	source_expect(src, range_of(0, n->size));
	for (uint64_t off = 0; off < n->size; off += got) {
		if (source_read(src, off, piece, FILES_PIECE, SOURCE_SEQUENTIAL, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_INVALID, "ends at byte %llu of %llu", (unsigned long long)off,
				       (unsigned long long)n->size);
		sha256_add(sha, bytes_of(piece, got));
		if (!file_cache_add(n, bytes_of(piece, got)))
			return FILE_CACHE_NONE;
	}
	sha256_end(sha, ret);
	return 0;
}

/* Is it the content of its name? */
static int copy_verify(const struct file_cache_new *n, uint8_t sum[STORE_SHA256_SIZE], struct err *err)
{
	AUTO(source_closep) struct source *frames = NULL;
	char hex[2 * STORE_SHA256_SIZE + 1];
	int fd;

	if (!name_is_raw(n->name)) {
		fd = fcntl(n->fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return err_os(err, errno, "%s: dup", n->path);
		if (content_frames(source_of_fd(fd, n->size, 0, n->name), &frames, err) < 0 ||
		    content_hash(frames, NULL, NULL, sum, err) < 0)
			return -1;
	}
	hex_encode(bytes_of(sum, STORE_SHA256_SIZE), hex);
	return strncmp(hex, n->name, sizeof(hex) - 1) == 0 ? 0
							   : err_set(err, ERR_INVALID, "its SHA-256 differs");
}

int blob_files_keep(struct file_cache *f, const char *name, struct source *src, struct err *err)
{
	uint8_t sum[STORE_SHA256_SIZE];
	struct file_cache_new n;
	int r = file_cache_begin(f, file_name(name), src->size, &n, NULL) ? 0 : FILE_CACHE_NONE;

	if (r == 0)
		r = copy_blob_bytes(&n, src, sum, err);
	if (r == 0)
		r = copy_verify(&n, sum, err);
	if (r == 0)
		r = file_cache_end(&n) ? 0 : FILE_CACHE_NONE;
	file_cache_done(&n);
	return r;
}

void blob_files_forget(struct file_cache *f, const char *name)
{
	file_cache_forget(f, file_name(name));
}

int blob_files_open(const struct blob_cache_options *o, struct file_cache **ret, struct err *err)
{
	const struct file_cache_options f = {
		.dir = o->dir,
		.budget = o->budget,
		.max_files = o->max_files ? o->max_files : FILES_USUAL,
		.part_max = PART_MAX,
		.room = o->room,
		.log_name = "store",
		.is_name = is_file_name,
	};

	return file_cache_open(&f, ret, err);
}
