/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of packages that rpm has installed. Its database has had four formats; rpm itself reads all of
 * them, so its command is run.
 */
#include <sys/wait.h>
#include <unistd.h>
#include "cmd/child.h"
#include "cmd/find/find.h"

#define MAX_OUTPUT  MIB(64)
#define PATIENCE_MS INT64_C(60000)

/* Folders of databases, and their files. */
static const char *const rpm_folders[] = { "/usr/lib/sysimage/rpm", "/var/lib/rpm" };
static const char *const rpm_files[] = { "rpmdb.sqlite", "Packages.db", "Packages" };

/* The folder of the database. rpm's --root is not used: it needs the right to chroot(), and rpm makes a
 * database if there is none. */
static const char *rpm_database(struct finder *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(rpm_folders); i++) {
		const char *path = find_path(f, rpm_folders[i]);

		for (size_t k = 0; k < ARRAY_SIZE(rpm_files); k++)
			if (access(arena_printf(&f->a, "%s/%s", path, rpm_files[k]), R_OK) == 0)
				return path;
	}
	return NULL;
}

/* FILE_MISSING: there is no rpm, or it does not know the package. */
static int run_rpm(const char *const *argv, struct buf *ret, struct err *err)
{
	const struct child c = { .argv = argv, .max = MAX_OUTPUT, .patience_ms = PATIENCE_MS, .said = -1 };
	int status = 0, r = child_run(&c, ret, &status, err);

	if (r == CHILD_TOO_MUCH)
		return err_set(err, ERR_LIMIT, "%s: more than %zu bytes", argv[0], MAX_OUTPUT);
	if (r)
		return r;
	/* The reason is on its stdout, in the user's language. */
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : FILE_MISSING;
}

bool find_has_rpm(struct finder *f)
{
	return rpm_database(f) != NULL;
}

int find_rpm_files(struct finder *f, const char *name, struct buf *ret, struct err *err)
{
	const char *db = rpm_database(f);
	const char *const argv[] = { "rpm", "-ql", "--dbpath", db, "--", name, NULL };

	return db ? run_rpm(argv, ret, err) : FILE_MISSING;
}
