/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a WAL and the header of its index, as they are in the files (https://sqlite.org/walformat.html). SQLite is not
 * asked: it ends at the first damaged frame.
 */
#pragma once

#include "db/internal.h"

/* The magic of a WAL, by the order of the bytes in the words of its check sums. */
#define WAL_LITTLE  0x377f0682u
#define WAL_BIG     0x377f0683u
#define WAL_VERSION 3007000u

struct wal_frame {
	uint32_t page, n_pages; /* n_pages not 0: a commit */
	uint8_t salts[8];
	struct wal_sum sum;
};

struct wal_file {
	int fd;
	bool big; /* words of check sums */
	uint32_t page_size;
	uint8_t salts[8];
	struct wal_sum sum; /* computed from the header; stored_sum is in the file */
	struct wal_sum stored_sum;
	bool has_digests;
	uint64_t n_frames; /* that the file has room for */
	uint8_t *data;     /* of one page */
	int db;            /* the database; -1: none */
};

/* From the index. */
struct wal_expected {
	bool known; /* there is an index, and it is sound */
	uint32_t n_frames, n_copied, n_pages, page_size;
	uint8_t salts[8];
};

struct wal_scan {
	uint64_t n_sound;     /* frames before the first damaged one */
	uint64_t last_commit; /* of them; 0: none */
	struct wal_sum sum;   /* of frame n_sound */
	/* The last commit of frames that continue each other after a damaged one; 0: none. Most commits of such a chain. */
	uint64_t chain_commit, most_commits;
	uint32_t n_pages; /* of the database, at the last commit */
	uint32_t most_pages;
};

/*
 * @path: of the database. An index that cannot be read for an I/O error is not taken for a missing one: frames would be given
 * up.
 */
int wal_read_expected(const char *path, struct wal_expected *ret, struct err *err);
/* 1: @ret is the header of the database. 0: there is none. */
int wal_read_db_header(const struct wal_file *f, struct db_header *ret, struct err *err);
/*
 * Fill in @f, whose `fd` and `db` are set; f->data is the caller's to free, NULL if no size of pages is known. 1: the header is
 * sound. 0: it is not; what @x, or the first frame, says is used then.
 */
int wal_read_header(struct wal_file *f, const struct wal_expected *x, struct err *err);
uint64_t wal_frame_off(const struct wal_file *f, uint64_t i); /* of frame @i, from 1 */
/* Frame @i, its page in f->data, and what its check sum should be after that of @before. */
int wal_read_frame(struct wal_file *f, uint64_t i, struct wal_sum before, struct wal_frame *ret,
		   struct wal_sum *ret_sum, struct err *err);
int wal_scan(struct wal_file *f, bool header_is_sound, struct wal_scan *ret, struct err *err);
/* Another process has the database of this index open: every connection holds a lock on it. This process must not have it. */
bool wal_is_in_use(const char *index);
