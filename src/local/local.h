/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local: where on this machine the debug file of an ELF file, the file of a build ID, a supplementary (dwz)
 * file lies, by gdb's rules (gdb manual, "Debugging Information in Separate Files"; where it is silent, as
 * gdb 13 does it).
 *
 * Build ID first: "<directory>/.build-id/nn/nnnn.debug" for each global debug directory, and the same below
 * the sysroot. A file there is taken if its own build ID is the one that is wanted. Then the debug link's
 * name: beside the file, in ".debug" there, in each global debug directory below the file's own directory;
 * and where the file lies in the sysroot, by its path within it. There the CRC-32 over the whole debug file
 * decides, and a link that leads back to the file is passed over.
 *
 * Nothing here fails: a place that cannot be looked at is told in the trail, and the next one is tried.
 */
#pragma once

#include "elf/elf.h"

/* Where debug files lie if nothing else is said: as gdb's `debug-file-directory`, several are separated by
 * ':'. */
#define LOCAL_DEBUG_DIRECTORIES "/usr/lib/debug"

enum { LOCAL_MISSING = 1 };

struct local_options {
	const char *debug_directories; /* NULL: LOCAL_DEBUG_DIRECTORIES. An empty entry is "/" */
	/*
	 * As gdb's `sysroot`. NULL is gdb's default ("target:"): no other root. "" is something else: there a
	 * file's real directory is looked up under the debug directories too, not only the one that it was
	 * named by.
	 */
	const char *sysroot;
};

/* The CRCs of files that were read are remembered by their inode, size and times. Belongs to one thread. */
struct local;
struct local *local_new(const struct local_options *opts); /* copies; NULL: the defaults */
void local_free(struct local *l);
void local_freep(struct local **l);

/* ---- what was looked at ---- */

enum local_way {
	LOCAL_BY_ITSELF, /* the file has its own DWARF */
	LOCAL_BY_BUILD_ID,
	LOCAL_BY_LINK,     /* the debug link */
	LOCAL_BY_ALT_LINK, /* the path in the link to a supplementary file */
};
const char *local_way_name(enum local_way way); /* "itself", "build ID", "debug link", "alt link" */

enum local_verdict {
	LOCAL_TAKEN,
	LOCAL_ABSENT,
	LOCAL_UNREADABLE, /* no permission, not a regular file, ... */
	LOCAL_NOT_ELF,
	LOCAL_NO_ID, /* it has no build ID */
	LOCAL_OTHER_ID,
	LOCAL_OTHER_CRC,
	LOCAL_SELF,    /* it is the file that we come from */
	LOCAL_NOTHING, /* not a place: why there was nothing to look for, "there is no debug link" */
};

struct local_step {
	enum local_way way;
	enum local_verdict verdict;
	const char *path; /* NULL with LOCAL_NOTHING */
	const char *said; /* for people: "its CRC is 12345678, the link says 9abcdef0" */
};

/* Every place, in the order of looking. Zeroed is empty; calls add to it. */
struct local_trail {
	struct arena arena;
	struct local_step *steps; /* in the arena, as the texts */
	size_t n_steps, room;
};
void local_trail_done(struct local_trail *t);
void local_trail_add(struct local_trail *t, enum local_way way, enum local_verdict verdict, const char *path,
		     const char *fmt, ...)
	__attribute__((format(printf, 5,
			      6))); /* @t NULL: not kept. Also for those who look elsewhere, after us */

/* ---- looking ---- */

struct local_found {
	char *path;
	struct source *src; /* open, and the one whose CRC or build ID was looked at */
	enum local_way way;
};
void local_found_done(struct local_found *f); /* zeroed is empty */

/*
 * The debug file of @img, the file named @path. 0, also with the file itself (LOCAL_BY_ITSELF, src NULL) when
 * it has DWARF of its own; LOCAL_MISSING. @trail may be NULL.
 *
 * LOCAL_AS_NAMED: @path as a dynamic linker had it, whose symbolic links gdb keeps; a path that a user gave
 * (gdb's `file`) is made real first. @path need not be there (a file that was deleted): then it is taken as
 * it is.
 */
enum { LOCAL_AS_NAMED = 1 << 0 };
int local_debug_file(struct local *l, const struct elf_image *img, const char *path, unsigned flags,
		     struct local_trail *trail, struct local_found *ret);

/* The file of a build ID in the debug directories: the debug file, or what it was made from
 * (".build-id/nn/nnnn"). */
enum local_kind { LOCAL_DEBUGINFO, LOCAL_EXECUTABLE };
int local_build_id(struct local *l, const struct build_id *id, enum local_kind kind,
		   struct local_trail *trail, struct local_found *ret);

/*
 * The supplementary file that @debug_path links to (elf_alt_link()): at @alt_path, relative to the real
 * directory of @debug_path; by
 * @id; then "/.dwz/..." of the path under the other debug directories.
 */
int local_alt_file(struct local *l, const char *debug_path, const char *alt_path, const struct build_id *id,
		   struct local_trail *trail, struct local_found *ret);
