/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rpm has installed. Its database has had four formats by now, and rpm itself reads all of them: it is
 * asked, by its command.
 */
#include <sys/wait.h>
#include <unistd.h>
#include "cmd/child.h"
#include "cmd/find/find.h"

#define MAX_OUTPUT  MIB(64)
#define PATIENCE_MS INT64_C(60000)

/* Where databases lie, and what they consist of. */
static const char *const folders[] = { "/usr/lib/sysimage/rpm", "/var/lib/rpm" };
static const char *const files[] = { "rpmdb.sqlite", "Packages.db", "Packages" };

/* Not by rpm's --root, which needs the right to chroot(); and rpm makes a database where there is none. */
static const char *database(struct finder *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		const char *path = find_path(f, folders[i]);

		for (size_t k = 0; k < ARRAY_SIZE(files); k++)
			if (access(arena_printf(&f->a, "%s/%s", path, files[k]), R_OK) == 0)
				return path;
	}
	return NULL;
}

/* FILE_MISSING: there is no such command, or it does not know of any. */
static int run(const char *const *argv, struct buf *ret, struct err *err)
{
	const struct child c = { .argv = argv, .max = MAX_OUTPUT, .patience_ms = PATIENCE_MS, .said = -1 };
	int status = 0, r = child_run(&c, ret, &status, err);

	if (r == CHILD_TOO_MUCH)
		return err_set(err, ERR_LIMIT, "%s: more than %zu bytes", argv[0], MAX_OUTPUT);
	if (r)
		return r;
	/* Why not is on its stdout, in the user's language. */
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : FILE_MISSING;
}

bool find_has_rpm(struct finder *f)
{
	return database(f) != NULL;
}

int find_rpm_files(struct finder *f, const char *name, struct buf *ret, struct err *err)
{
	const char *db = database(f);
	const char *const argv[] = { "rpm", "-ql", "--dbpath", db, "--", name, NULL };

	return db ? run(argv, ret, err) : FILE_MISSING;
}
