/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of libzstd, and memory for rings and dictionaries.
 */
#include "codec/zstd.h"

#include <sys/mman.h>
#include <zstd.h>
#include <zstd_errors.h>

int zstd_err(struct err *err, size_t code)
{
	ZSTD_ErrorCode c = ZSTD_getErrorCode(code);
	enum err_kind kind = ERR_INVALID;

	if (c == ZSTD_error_memory_allocation || c == ZSTD_error_frameParameter_windowTooLarge)
		kind = ERR_LIMIT;
	return err_set(err, kind, "zstd: %s", ZSTD_getErrorName(code));
}

void *zstd_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		       0);

	return p == MAP_FAILED ? NULL : p;
}

void zstd_unmap(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}
