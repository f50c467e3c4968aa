/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the table for the cache after the answer was printed, in a process of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include "lookup/internal.h"

#define BUILDERS 2u /* processes at once, of one user */

/* The child: no terminal, no output, low priority. */
static void become_background(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int i = 0; i <= 2; i++)
		dup2(null, i);
	errno = 0;
	if (nice(10) < 0 && errno)
		_exit(0);
}

static void build_and_keep(struct lookup_file *f)
{
	struct err ignored = { 0 };

	f->n_only = 0;
	if (lookup_build(f, 1, &ignored) == 0 &&
	    symtab_open_mem(buf_bytes(&f->made), &f->table, &ignored) == 0)
		lookup_cache_keep(f, f->keep_as);
}

/*
 * A script may ask for hundreds of files, one after another, and a table of the kernel needs a gigabyte. A later call for the
 * same file comes again. The names have the user's number: the file that root made when it used the folder once, or
 * another user of a shared one, cannot be opened. Returns a lock's descriptor; -1: all are taken.
 */
static int take_builder_lock(const char *dir)
{
	for (unsigned i = 0; i < BUILDERS; i++) {
		AUTO(mem_freep) char *path = mem_printf("%s/builder-%u-%u.lock", dir, (unsigned)geteuid(), i);
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		fd_close(&fd);
	}
	return -1;
}

/*
 * The lock file keeps two processes of one user from building the same table at once. It stays if the process is killed, and that
 * of another user cannot be opened.
 */
void lookup_cache_later(struct lookup_file *f)
{
	AUTO(mem_freep) char *lock = NULL, *dir = NULL;
	struct err ignored = { 0 };
	int fd;

	if (!f->keep_as)
		return;
	lock = mem_printf("%s.%u.lock", f->keep_as, (unsigned)geteuid());
	dir = mem_strndup(f->keep_as, (size_t)(strrchr(f->keep_as, '/') - f->keep_as));
	if (dir_make(dir, 0700, &ignored) < 0)
		return;
	fflush(NULL);
	if (fork())
		return;
	become_background();
	if (take_builder_lock(dir) < 0)
		_exit(0);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		_exit(0);
	/* Another process may have built it since. A file that is no table, or a damaged one, does not count. */
	symtab_close(TAKE(f->table));
	buf_done(&f->made);
	if (!lookup_cache_open(f, f->keep_as))
		build_and_keep(f);
	unlink(lock);
	_exit(0);
}
