/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped files: who they are (build ID, program headers), and their tables of unwind rows. Files are read by a thread of its
 * own, of low priority, since they belong to strangers and may be large or on a slow file system, and parsed by a process
 * without rights (parser.h); the agent's thread only opens them.
 *
 * A file is known by device, inode, size and time of change, so that a process that maps a known file costs no reading. The
 * time is that of the inode (ctime), which no program can set: one that is written over in place may keep its mtime.
 */
#pragma once

#include "agent/parser.h"

struct python_image;

#define FILES_MAX_OPEN 256u   /* heads that wait to be read, and as many tables: each has a descriptor */
#define FILES_MAX      12000u /* below the limit of the sampler */
#define FILES_MAX_SIZE ((uint64_t)8 << 30)

struct file_key {
	uint64_t device, inode, size;
	int64_t changed_ns;
};

enum file_state {
	FILE_READING, /* its headers are not known yet */
	FILE_KNOWN,
	FILE_REFUSED, /* not an ELF file, or damaged: see why */
};

/* A job that the reader has done on a file. */
enum file_news { FILE_HEAD_READ, FILE_TABLE_BUILT, FILE_TABLE_NONE };

struct mapped_file {
	struct file_key key;
	uint32_t number; /* the sampler's */
	char *path;      /* in the file system of the process that first had it */
	unsigned n_refs; /* processes that have it mapped, and jobs */
	enum file_state state;
	bool wants_table, has_table, is_64, is_stripped;
	bool is_unread; /* FILE_REFUSED, since there was no parser: see files_read_again() */
	uint64_t turn;  /* files_next_unread() returned it then */
	bool is_again;  /* its head was read again: processes were given to the sampler without it */
	struct build_id id;
	enum build_id_kind id_kind;
	struct file_segment segments[FILES_MAX_SEGMENTS];
	unsigned n_segments;
	struct python_image *python; /* it is an interpreter of CPython; else NULL */
	char why[120];               /* of FILE_REFUSED, or why it has no table */
	uint64_t used_ms;            /* of the last process that got it */
	/* of the window that is being filled */
	uint64_t window;
	uint32_t mappings[FILES_MAX_SEGMENTS];
	struct mapped_file *older; /* of equal hash */
};

/* The results, for the agent's thread. */
struct files_handler {
	void *arg;
	/* *ret: a number for a new file. Negative: there is none left. */
	int (*number)(void *arg, uint32_t *ret, struct err *err);
	void (*drop)(void *arg, struct mapped_file *f); /* the file is forgotten */
	void (*head)(void *arg, struct mapped_file *f); /* its headers are read, or it is refused */
	/* Its table; empty: there will be none. */
	void (*table)(void *arg, struct mapped_file *f, struct bytes table);
};

struct files;
/* @parser: borrowed. */
int files_new(const struct files_handler *h, struct parser *parser, struct files **ret, struct err *err);
void files_free(struct files *f); /* ends the thread; takes NULL */

/*
 * The file that is open as @fd, which is taken. A new one is read: its head soon, its table in turn, small files first.
 * *ret has a reference more. FILES_BUSY: too many heads wait, ask again later; FILES_NO_FILE: not a regular file. If too many
 * tables wait, that of the largest file is left out: it is not built until files_want_table() is called.
 */
enum { FILES_BUSY = 1, FILES_NO_FILE = 2 };
int files_get(struct files *f, int fd, const char *path, struct mapped_file **ret, struct err *err);
/* The vDSO of this process, which all 64-bit processes have. NULL: none. A reference more. */
struct mapped_file *files_vdso(struct files *f);
bool files_is_vdso(const struct files *f, const struct mapped_file *file);
/* A copy of it as a file, to read it again: no file system has it. Negative: it cannot be made. */
int files_open_vdso(void);
void files_ref(struct files *f, struct mapped_file *file);   /* one that has references; takes NULL */
void files_unref(struct files *f, struct mapped_file *file); /* takes NULL */
/* Its head was read, and it never gets a table. One that no parser could read may get one. */
static inline bool mapped_file_has_no_table(const struct mapped_file *f)
{
	return f->state != FILE_READING && !f->is_unread && (f->state == FILE_REFUSED || !f->is_64);
}
/* Build the table of a file again, from @fd, which is taken. */
void files_want_table(struct files *f, struct mapped_file *file, int fd);
/* Read the head of a file again that could not be read for want of a parser, from @fd, which is taken. */
void files_read_again(struct files *f, struct mapped_file *file, int fd);
/* Such a file that a process has, each in its turn. NULL: there is none. */
struct mapped_file *files_next_unread(struct files *f);
/* Deliver the results of the reader. */
void files_poll(struct files *f);
int files_fd(const struct files *f); /* is readable when there is something to deliver */
/* Forget files that no process has mapped for some time. */
void files_sweep(struct files *f);

struct files_stats {
	size_t n_files, n_waiting, n_refused;
	uint64_t n_tables, n_rows_bytes, n_failed;
	int64_t cpu_ns; /* of the reader and the parser */
	struct parser_stats parsing;
};
void files_stats(struct files *f, struct files_stats *ret);
bool files_idle(struct files *f); /* nothing waits to be read */

/*
 * How far the addresses of a mapping, whose first byte is at @off in the file and at @start, are after those of the file.
 * Where segments share a page of the file, that counts which gives @known, the result for another mapping of the same file in
 * the process; else the first one. false: no code is there.
 */
bool mapped_file_bias(const struct mapped_file *f, uint64_t start, uint64_t off, uint64_t known,
		      uint64_t *ret);
/* The segment with @vaddr; -1: none. */
int mapped_file_segment(const struct mapped_file *f, uint64_t vaddr);
/* Segment @i as a mapping, in whole pages as far as its address allows. */
struct file_span {
	uint64_t start, limit, off;
};
struct file_span mapped_file_span(const struct mapped_file *f, unsigned i);
