/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a database: SQLite keeps a WAL and its index beside it. */
#include "db/db.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const companions[] = { "-wal", "-shm" };

void db_files_remove(const char *path)
{
	unlink(path);
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		AUTO(mem_freep) char *name = mem_printf("%s%s", path, companions[i]);

		unlink(name);
	}
}

int db_files_move(const char *path, const char *to, bool keep, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		AUTO(mem_freep) char *name = mem_printf("%s%s", path, companions[i]);
		AUTO(mem_freep) char *name_to = mem_printf("%s%s", to, companions[i]);

		if (rename(name, name_to) != 0 && errno != ENOENT)
			return err_os(err, errno, "cannot rename %s", name);
	}
	if ((keep ? link(path, to) : rename(path, to)) != 0 && errno != ENOENT)
		return err_os(err, errno, "cannot set %s aside", path);
	return 0;
}

static uint64_t blocks_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

uint64_t db_files_size(const char *path)
{
	uint64_t size = blocks_of(path);

	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		AUTO(mem_freep) char *name = mem_printf("%s%s", path, companions[i]);

		size += blocks_of(name);
	}
	return size;
}
