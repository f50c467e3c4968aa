/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where split DWARF lies: .dwp files beside the program, .dwo files where the compiler wrote them or, if the
 * tree has been moved, beside the program.
 */
#include "local/local.h"

#include <limits.h>
#include <stdio.h>

static int dwo_open_at(const char *path, struct source **ret)
{
	struct err ignored = { 0 };

	return source_open_file(path, ret, &ignored) == 0 ? 0 : LOCAL_MISSING;
}

/* "@dir/@name" */
static int dwo_open_in(struct str dir, struct str name, struct source **ret)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), STR_FMT "%s" STR_FMT, STR_ARG(dir), dir.size ? "/" : "",
			 STR_ARG(name));

	return n > 0 && (size_t)n < sizeof(path) ? dwo_open_at(path, ret) : LOCAL_MISSING;
}

int local_dwp_file(const char *path, struct source **ret)
{
	static const struct str debug = STR(".debug");
	struct str p = str_of(path);
	char dwp[PATH_MAX];

	if (p.size + 5 > sizeof(dwp))
		return LOCAL_MISSING;
	snprintf(dwp, sizeof(dwp), "%s.dwp", path);
	if (dwo_open_at(dwp, ret) == 0)
		return 0;
	if (!str_ends(p, debug))
		return LOCAL_MISSING;
	snprintf(dwp + p.size - debug.size, 5, ".dwp");
	return dwo_open_at(dwp, ret);
}

int local_dwo_file(const char *path, struct str comp_dir, struct str name, struct source **ret)
{
	struct str beside = path_dirname(str_of(path));

	if (!name.size || memchr(name.p, 0, name.size))
		return LOCAL_MISSING;
	if (name.p[0] == '/') {
		if (dwo_open_in((struct str){ 0 }, name, ret) == 0)
			return 0;
	} else if ((comp_dir.size && dwo_open_in(comp_dir, name, ret) == 0) ||
		   dwo_open_in(beside, name, ret) == 0) {
		return 0;
	}
	return dwo_open_in(beside, path_basename(name), ret);
}
