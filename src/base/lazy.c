/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a library late.
 */
#include "base/lazy.h"

#include <dlfcn.h>
#include <string.h>

int lazy_load(const char *soname, const char *package, const char *const *names, void *table, size_t n,
	      struct err *err)
{
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!lib)
		return err_set(err, ERR_INTERNAL, "%s: install the package %s", dlerror(), package);
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(lib, names[i]);

		if (!f)
			return err_set(err, ERR_INTERNAL, "%s has no %s: it is too old", soname, names[i]);
		/* C has no pointers that may be data and code; POSIX has. */
		memcpy((char *)table + i * sizeof(f), &f, sizeof(f));
	}
	return 0;
}
