/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder with files and packages, an index of them, and a resolver over it.
 */
#pragma once

#include "test.h"
#include "elf_writer.h"
#include "pkg_writer.h"
#include "resolve/internal.h"

struct fixture {
	char dir[TEST_PATH_SIZE];
	struct index *ix; /* for writing */
	struct resolver *r;
	struct arena a;
	int n_woken;
	/* of the last request */
	struct resolve_why why;
	struct resolve_answer got;
	struct err err;
};

int fixture_set_up(void **state);
int fixture_tear_down(void **state);
struct resolver_index *fixture_inside(struct fixture *h);
char *fixture_path(struct fixture *h, const char *name); /* in the arena */

/* Build IDs, programs and debug files by a number. */
const char *fixture_hex(uint32_t n);
struct build_id fixture_id(uint32_t n);
struct bytes fixture_program(struct fixture *h, uint32_t n, size_t size);
struct bytes fixture_debug(struct fixture *h, uint32_t n, size_t size);

/* Write the file and add it to the index. @mtime_s: of both. Returns its id. */
int64_t fixture_plain(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content,
		      enum codec_kind inner);
int64_t fixture_package(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content);
/* The same, but only its header pass is done: it has these build IDs. */
int64_t fixture_header(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content,
		       const uint32_t *ids, size_t n);
/* Add the result of its deep pass. */
void fixture_map(struct fixture *h, const char *name, struct buf *map, struct buf *points,
		 struct index_artifact **ret_list, size_t *ret_n, uint64_t **ret_dirs, size_t *ret_n_dirs);
void fixture_set_map(struct fixture *h, int64_t file, const char *name);
struct bytes fixture_deb(struct fixture *h, enum codec_kind codec, const struct pw_file *files, size_t n);
void fixture_touch(struct fixture *h, const char *name, int64_t mtime_s);

/* Call resolve(); the result is in h->got, h->why, h->err. */
int fixture_ask(struct fixture *h, enum resolve_kind kind, uint32_t id, const char *arg);
/* Call resolve(), and get exactly these bytes. */
void fixture_expect(struct fixture *h, enum resolve_kind kind, uint32_t id, const char *arg,
		    struct bytes want);
bool fixture_said(struct fixture *h, const char *part); /* some step contains this text */
struct bytes fixture_read(struct fixture *h, struct source *s);
/* The bytes of a section in the ELF file @elf, which keeps them alive. */
struct bytes fixture_section(struct bytes elf, const char *name);
