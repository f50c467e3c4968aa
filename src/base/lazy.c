/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a library when it is first needed.
 */
#include "base/lazy.h"

#include <dlfcn.h>
#include <string.h>

static int lazy_open(const char *soname, const char *package, const char *const *names, void *table, size_t n,
		     struct err *err)
{
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!lib)
		return err_set(err, ERR_INTERNAL, "%s: install the package %s", dlerror(), package);
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(lib, names[i]);

		if (!f)
			return err_set(err, ERR_INTERNAL, "%s has no %s: it is too old", soname, names[i]);
		/* C does not convert between pointers to data and to functions; POSIX allows it. */
		memcpy((char *)table + i * sizeof(f), &f, sizeof(f));
	}
	return 0;
}

int lazy_load(struct lazy *l, const char *soname, const char *package, const char *const *names, void *table,
	      size_t n, struct err *err)
{
	bool failed;

	pthread_mutex_lock(&l->lock);
	if (!l->tried)
		(void)!lazy_open(soname, package, names, table, n, &l->err);
	l->tried = true;
	failed = l->err.kind != ERR_NONE;
	if (failed && err)
		*err = l->err;
	pthread_mutex_unlock(&l->lock);
	return failed ? -1 : 0;
}

bool lazy_is_loaded(struct lazy *l)
{
	bool loaded;

	pthread_mutex_lock(&l->lock);
	loaded = l->tried && l->err.kind == ERR_NONE;
	pthread_mutex_unlock(&l->lock);
	return loaded;
}
