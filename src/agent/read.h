/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of a mapped ELF file, and its table of unwind rows. The files are strangers'; these functions run in the parser's
 * process (parser.h).
 */
#pragma once

#include "base/base.h"
#include "elf/elf.h"

#define FILES_MAX_SEGMENTS 16u

/* A segment with code. */
struct file_segment {
	uint64_t vaddr, off, size;
};

struct file_head {
	bool is_64, is_stripped;
	struct build_id id; /* size 0: none */
	enum build_id_kind id_kind;
	struct file_segment segments[FILES_MAX_SEGMENTS];
	unsigned n_segments;
};

struct python_image;
/*
 * @name: of a file that may be an interpreter of CPython; NULL: it is none. *ret_python: the interpreter, on the heap;
 * NULL: it is none that can be read as such, but a file like any other.
 */
int file_head_of(struct source *src, const char *name, struct file_head *ret,
		 struct python_image **ret_python, struct err *err);
/* ERR_INVALID also for a file without rows. */
int file_table_of(struct source *src, struct buf *out, struct err *err);
/* A source for these two, of the file that is open as @fd, which is taken. */
struct source *file_source_of(int fd, uint64_t size);
