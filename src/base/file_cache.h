/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of files in one folder, within a budget: names, their order of use, room for new ones, damage.
 *
 * A file has the bytes of its user, from its first byte on, and then a trailer with their digest, their number and the file's
 * name. It is written under another name, and renamed when it is whole. Nothing is synced: after a crash a file may have
 * any bytes, so its digest is compared before its first use after a start. Files are never changed, only unlinked: a
 * descriptor or a mapping of one stays valid. The time of a file is that of its last use, to within a minute, so that the
 * order outlasts a restart.
 *
 * A failure of this disk is no error: it costs its user one more fetch. All calls may come from any thread.
 */
#pragma once

#include "base/base.h"
#include "base/room.h"

#define FILE_CACHE_TRAILER 32u /* bytes of a file after those of its user; they count for the budget */

struct file_cache;

struct file_cache_options {
	const char *dir; /* made if need be; for one process at a time */
	uint64_t budget;
	size_t max_files;     /* 0: any number */
	unsigned part_max;    /* the largest file is the budget divided by this */
	struct room *room;    /* borrowed; NULL: no reserve */
	const char *log_name; /* static */
	/* Is it a name of the user, for a file with so many bytes? All other files of the folder are removed at the start. */
	bool (*is_name)(const char *name, uint64_t size);
};
/* ERR_BUSY: another process has this folder. */
int file_cache_open(const struct file_cache_options *o, struct file_cache **ret, struct err *err);
void file_cache_close(struct file_cache *c); /* takes NULL */

/* Zeroed: none. */
struct file_cache_names {
	char **v;
	size_t n, room;
};
void file_cache_names_done(struct file_cache_names *l);
/* The names of all files, the least recently used first. */
void file_cache_list(struct file_cache *c, struct file_cache_names *ret);

/* ---- reading ---- */

struct file_cache_stamp {
	uint64_t id, size; /* each file has another id */
	int64_t time_s;    /* wall time of its last use when it was added */
};
/* Is there such a file? It may turn out to be damaged. */
bool file_cache_has(struct file_cache *c, const char *name, struct file_cache_stamp *ret);

/* Open a file. Counts as a use. FILE_CACHE_UNCHECKED: call file_cache_check() before. The caller closes @ret_fd. */
enum { FILE_CACHE_NONE = 1, FILE_CACHE_UNCHECKED = 2 };
int file_cache_open_file(struct file_cache *c, const char *name, int *ret_fd, uint64_t *ret_size);
/* Compare the file with its digest. A damaged one is removed. */
void file_cache_check(struct file_cache *c, const char *name);
/* Read all @size bytes of a file, and compare them with the digest. false: it is gone, or it was damaged and is removed. */
bool file_cache_read(struct file_cache *c, const char *name, uint8_t *p, size_t size);

void file_cache_forget(struct file_cache *c, const char *name);

struct file_cache_figures {
	uint64_t size, n_files, n_evicted, n_damaged;
};
void file_cache_figures(struct file_cache *c, struct file_cache_figures *ret);

/* ---- writing: begin, add, end, and done in any case ---- */

struct file_cache_new {
	struct file_cache *c;
	const char *name; /* of the caller */
	int fd;           /* readable; its bytes begin at 0 */
	char *path;
	uint64_t size, written;
	struct hash64_state hash;
	struct room_claim claim;
};
/*
 * Begin a file of @size bytes; @name stays valid until done(). Others are evicted to make room, and their names added to
 * @evicted, if not NULL. false: there is no room, or this disk fails; done() is permitted.
 */
bool file_cache_begin(struct file_cache *c, const char *name, uint64_t size, struct file_cache_new *ret,
		      struct file_cache_names *evicted);
/* false: this disk fails, or there are more than `size` bytes in all. */
bool file_cache_add(struct file_cache_new *n, struct bytes b);
/* The file gets its name, in place of a former one; it is the youngest. false: this disk fails, or bytes are missing. */
bool file_cache_end(struct file_cache_new *n);
void file_cache_done(struct file_cache_new *n); /* a file that has no name yet is removed */
