/* SPDX-License-Identifier: Apache-2.0 */
/*
 * companion: the files that complete a debug file. Its supplementary (dwz) file has names and types that
 * several debug files share; a link names it by path and build ID. Its split files (.dwp, .dwo) have the
 * other halves of its skeleton units, which name them by path.
 *
 * The order of the search is here, once. Where the files are is up to *places*, asked one after the other:
 * this machine's disk, a resolver, servers.
 */
#pragma once

#include "dwarf/dwarf.h"
#include "local/local.h"

enum {
	COMPANION_NONE = 1,  /* no place has it, or it cannot be read */
	COMPANION_WAITS = 2, /* open_alt() only: the place will report; search again then */
};

#define COMPANION_PATHS 2u

struct companion_place {
	/*
	 * Where the debug file, and the program that it belongs to, are in this place; NULL: not there. Split
	 * files may be beside them.
	 */
	const char *paths[COMPANION_PATHS];
	/* Open the file at a path. 0, COMPANION_NONE. Several threads may call it at once. */
	int (*open_path)(const struct companion_place *p, const char *path, struct source **ret);
	/*
	 * Open the supplementary file; @id may have size 0. 0, COMPANION_NONE, COMPANION_WAITS. NULL: none.
	 */
	int (*open_alt)(const struct companion_place *p, const char *link, const struct build_id *id,
			struct source **ret);
	void *arg;
};

/*
 * This machine's files. @debug_path: of the debug file; @path: of the program; either may be NULL. The
 * supplementary file is searched for from @debug_path by gdb's rules; @l NULL: it is not. @l is borrowed.
 */
struct companion_place companion_disk(struct local *l, const char *debug_path, const char *path);

/*
 * Open @src as ELF with a sound section table. ELF_NOT_ELF: then err says so, for callers to whom that is a
 * failure too. @src stays the caller's.
 */
int companion_open_elf(struct source *src, struct elf_image **ret, struct err *err);
/* Close an image and its source. Takes NULL. */
void companion_close(struct elf_image *img);

/*
 * Open the supplementary file of @debug. 0, COMPANION_NONE (also where @debug links to none),
 * COMPANION_WAITS. The image is closed with companion_close().
 */
int companion_open_alt(const struct elf_image *debug, const struct companion_place *places, size_t n,
		       struct elf_image **ret);
/* Open the .dwp beside a path: "prog.dwp", of "prog.debug" too. 0, COMPANION_NONE. */
int companion_open_dwp(const struct companion_place *places, size_t n, struct source **ret);
/*
 * Open the .dwo file of a unit: @name itself, from @comp_dir or from beside a path; then its last part beside
 * a path. 0, COMPANION_NONE. The caller checks that it is the right one.
 */
int companion_open_dwo(const struct companion_place *places, size_t n, struct str comp_dir, struct str name,
		       struct source **ret);
/* Append for people: "x.dwo, compiled in /build, DWO ID 0123456789abcdef". */
void companion_describe_dwo(struct str comp_dir, struct str name, uint64_t id, struct buf *out);
