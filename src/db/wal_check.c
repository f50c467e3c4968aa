/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the WAL of a database that no process has open can be read as it is.
 *
 * The first connection recovers the WAL, and writes the index (-shm) anew. If a committed frame is damaged, SQLite's recovery
 * ends there, and the index, which tells how many frames there were, is lost for db_wal_mend(). So a copy looks first.
 */
#include "db/wal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/file.h"

/* The first frame that SQLite's recovery would not read, although it was committed; 0: none. Any commit after it counts. */
static int find_lost_frame(struct wal_file *f, const struct wal_expected *x, uint64_t *ret, struct err *err)
{
	struct wal_scan scan = { 0 };
	uint64_t end;
	int header = wal_read_header(f, x, err);

	if (header < 0 || (f->data && wal_scan(f, header, &scan, err) < 0))
		return -1;
	end = scan.chain_commit;
	/* The index of another WAL says nothing of this one. */
	if (x->known && memcmp(x->salts, f->salts, sizeof(f->salts)) == 0)
		end = MAX(end, (uint64_t)x->n_frames);
	*ret = end > scan.last_commit ? scan.n_sound + 1 : 0;
	return 0;
}

int db_wal_check(const char *path, struct err *err)
{
	AUTO(mem_freep) char *name = mem_printf("%s-wal", path);
	AUTO(mem_freep) char *index = mem_printf("%s-shm", path);
	AUTO(fd_close) int db = -1;
	AUTO(fd_close) int fd = -1;
	struct wal_file f = { 0 };
	struct wal_expected x;
	uint64_t lost = 0;
	int r = 0;

	if (wal_is_in_use(index))
		return 0;
	db = open(path, O_RDONLY | O_CLOEXEC);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (db < 0 || (fd < 0 && errno != ENOENT))
		return err_os(err, errno, "%s", db < 0 ? path : name);
	f.db = db;
	f.fd = fd;
	if (wal_read_expected(path, &x, err) < 0)
		return -1;
	if (fd >= 0)
		r = find_lost_frame(&f, &x, &lost, err);
	else
		lost = x.known && x.n_frames > x.n_copied;
	free(f.data);
	if (r < 0)
		return err_in(err, "%s", name);
	/* A process that has opened the database meanwhile has repaired or changed its WAL. */
	if (!lost || wal_is_in_use(index))
		return 0;
	return err_set(err, ERR_DAMAGED, "frame %llu of %s is damaged or missing", (unsigned long long)lost,
		       name);
}
