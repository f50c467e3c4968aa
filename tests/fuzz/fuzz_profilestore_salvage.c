/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair of a database from any bytes: it ends, and the store that it leaves can be opened.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <unistd.h>
#include "profilestore/internal.h"
#include "profilestore/salvage.h"

#define MAX_INPUT MIB(1)

static char dir[64], path[96];

static void remove_files(void)
{
	char name[160];

	db_files_remove(path);
	for (unsigned t = 1; t < 4; t++) {
		snprintf(name, sizeof(name), "%s.damaged.%u", path, t);
		db_files_remove(name);
		snprintf(name, sizeof(name), "%s.damaged.%u.txt", path, t);
		unlink(name);
	}
	snprintf(name, sizeof(name), "%s/begun", dir);
	unlink(name);
}

static void remove_folder(void)
{
	remove_files();
	rmdir(dir);
}

static int64_t one_second(void)
{
	return 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
	static const struct db_options o = { .create = true, .page_size = 8192 };
	struct profilestore_options opts = { .dir = dir, .now_ms = one_second, .max_metadata = MIB(16) };
	struct profilestore *s = NULL;
	struct salvage_result x = { 0 };
	struct err err = { 0 };

	if (size > MAX_INPUT)
		return 0;
	if (!*dir) {
		snprintf(dir, sizeof(dir), "%s/lode-fuzz-XXXXXX",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
		FUZZ_CHECK(mkdtemp(dir));
		snprintf(path, sizeof(path), "%s/profiles.db", dir);
		atexit(remove_folder);
	}
	remove_files();
	FUZZ_CHECK(file_write_durable(path, p, size, 0600, &err) == 0);
	if (salvage_repair(dir, &o, 1000, "fuzzing", false, &x, &err) == 0) {
		FUZZ_CHECK(profilestore_open(&opts, &s, &err) == 0);
		profilestore_close(s);
	}
	free(x.lost);
	remove_files();
	return 0;
}
