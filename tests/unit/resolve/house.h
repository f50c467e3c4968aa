/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder with files and packages, the index of them, and a resolver over it.
 */
#pragma once

#include "test.h"
#include "elf_writer.h"
#include "pkg_writer.h"
#include "resolve/internal.h"

struct house {
	char dir[TEST_PATH_SIZE];
	struct index *ix; /* for writing */
	struct resolver *r;
	struct arena a;
	int n_woken;
	/* of the last question */
	struct resolve_why why;
	struct resolve_answer got;
	struct err err;
};

int house_set_up(void **state);
int house_tear_down(void **state);
struct resolver_index *house_inside(struct house *h);
char *house_path(struct house *h, const char *name); /* in the arena */

/* Build IDs, programs and debug files of a number. */
const char *house_hex(uint32_t n);
struct build_id house_id(uint32_t n);
struct bytes house_program(struct house *h, uint32_t n, size_t size);
struct bytes house_debug(struct house *h, uint32_t n, size_t size);

/* Write the file and tell the index what it is. @mtime_s: of both. Returns its id. */
int64_t house_plain(struct house *h, const char *name, int64_t mtime_s, struct bytes content,
		    enum codec_kind inner);
int64_t house_package(struct house *h, const char *name, int64_t mtime_s, struct bytes content);
/* The same, but only its header is known to the index: it has these build IDs. */
int64_t house_header(struct house *h, const char *name, int64_t mtime_s, struct bytes content,
		     const uint32_t *ids, size_t n);
/* What a deep pass makes of it. */
void house_map(struct house *h, const char *name, struct buf *map, struct buf *points,
	       struct index_artifact **ret_list, size_t *ret_n, uint64_t **ret_dirs, size_t *ret_n_dirs);
void house_set_map(struct house *h, int64_t file, const char *name);
struct bytes house_deb(struct house *h, enum codec_kind codec, const struct pw_file *files, size_t n);
void house_touch(struct house *h, const char *name, int64_t mtime_s);

/* Ask; what came of it is in h->got, h->why, h->err. */
int house_ask(struct house *h, enum resolve_kind kind, uint32_t id, const char *arg);
/* Ask, and have just these bytes. */
void house_expect(struct house *h, enum resolve_kind kind, uint32_t id, const char *arg, struct bytes want);
bool house_said(struct house *h, const char *part); /* some step has this in it */
struct bytes house_read(struct house *h, struct source *s);
