/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local: finds files on this machine: the debug file of an ELF file, the file of a build ID, a supplementary
 * (dwz) file, by gdb's rules (gdb manual, "Debugging Information in Separate Files"; where it is silent, as
 * gdb 13 does it).
 *
 * The build ID comes first: "<directory>/.build-id/nn/nnnn.debug" for each global debug directory, and the
 * same below the sysroot. A file there is taken if it has the requested build ID. Then the name in the debug
 * link: beside the file, in ".debug" there, in each global debug directory below the directory of the file;
 * and if the file is in the sysroot, by its path within it. There the CRC-32 of the whole debug file decides,
 * and a link that leads back to the file itself is ignored.
 *
 * Nothing here fails: a place that cannot be read becomes a step of the trail, and the next one is tried.
 */
#pragma once

#include <sys/types.h>
#include "elf/elf.h"

/* The default: like gdb's `debug-file-directory`, a list separated by ':'. */
#define LOCAL_DEBUG_DIRECTORIES "/usr/lib/debug"

enum { LOCAL_MISSING = 1 };

struct local_options {
	const char *debug_directories; /* NULL: LOCAL_DEBUG_DIRECTORIES. An empty entry is "/" */
	/*
	 * As gdb's `sysroot`. NULL is gdb's default ("target:"): no other root. "" differs: then the real
	 * directory of a file is looked up under the debug directories too, not only the directory in its
	 * name.
	 */
	const char *sysroot;
	/*
	 * The folder of another root, as /proc/PID/root of a process in a mount namespace of its own: all paths here are within
	 * it, and no symbolic link leads out of it. NULL: there is none. A folder that cannot be opened has no files.
	 */
	const char *root;
	/* With @root: only files that this user may read, see root_open_of_user(). NULL: all that this process may. */
	const uid_t *user;
	/* Bytes of a file that is read for its CRC; a larger one is not taken. 0: no limit. */
	uint64_t max_file;
};

/* CRCs of files are cached by inode, size and times. Belongs to one thread. */
struct local;
struct local *local_new(const struct local_options *opts); /* copies; NULL: the defaults */
void local_free(struct local *l);
void local_freep(struct local **l);

/* ---- the trail ---- */

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
	LOCAL_SELF,    /* it is the file that the search is for */
	LOCAL_NOTHING, /* no place to try, and why: "there is no debug link" */
};

struct local_step {
	enum local_way way;
	enum local_verdict verdict;
	const char *path; /* NULL with LOCAL_NOTHING */
	const char *said; /* for people: "its CRC is 12345678, the link says 9abcdef0" */
};

/* Every place that was tried, in order. Zeroed is empty; calls add to it. */
struct local_trail {
	struct arena arena;
	struct local_step *steps; /* in the arena, as are their texts */
	size_t n_steps, room;
};
void local_trail_done(struct local_trail *t);
/* @t NULL: does nothing. Also for callers that go on to search elsewhere. */
void local_trail_add(struct local_trail *t, enum local_way way, enum local_verdict verdict, const char *path,
		     const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* ---- searching ---- */

struct local_found {
	char *path;
	struct source *src; /* open; the same file whose CRC or build ID was checked */
	enum local_way way;
};
void local_found_done(struct local_found *f); /* zeroed is empty */

/*
 * The debug file of @img, the file named @path. 0, also for the file itself (LOCAL_BY_ITSELF, src NULL) when
 * it has its own DWARF; LOCAL_MISSING. @trail may be NULL.
 *
 * LOCAL_AS_NAMED: @path is from a dynamic linker, and gdb keeps its symbolic links; those in a path from a
 * user (gdb's `file`) are resolved first. @path need not exist (a deleted file): then it is used as it is.
 */
enum { LOCAL_AS_NAMED = 1 << 0 };
int local_debug_file(struct local *l, const struct elf_image *img, const char *path, unsigned flags,
		     struct local_trail *trail, struct local_found *ret);

/* The file of a build ID in the debug directories: the debug file, or the executable
 * (".build-id/nn/nnnn"). */
enum local_kind { LOCAL_DEBUGINFO, LOCAL_EXECUTABLE };
int local_build_id(struct local *l, const struct build_id *id, enum local_kind kind,
		   struct local_trail *trail, struct local_found *ret);

/*
 * The supplementary file that @debug_path links to (elf_alt_link()): at @alt_path, relative to the real
 * directory of @debug_path; by @id; then the "/.dwz/..." part of the path under the other debug directories.
 */
int local_alt_file(struct local *l, const char *debug_path, const char *alt_path, const struct build_id *id,
		   struct local_trail *trail, struct local_found *ret);
