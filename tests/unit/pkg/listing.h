/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All members of an archive with their content, for comparison; read in lent chunks of any size.
 */
#pragma once

#include "test.h"

#include "pkg_walk.h"
#include "pkg_writer.h"

struct listed {
	struct pkg_member m; /* path and link belong to the listing */
	struct buf content;
};
struct listing {
	struct arena arena;
	struct listed *list;
	size_t n;
};

/* 0 at the archive's end, or the reader's failure; @ret has the members before it in either case. */
int listing_of_payload(struct listing *ret, const struct pkg_info *info, struct bytes payload, size_t chunk,
		       struct err *err);
/* The payload is an archive of this format without a package around it. */
int listing_of(struct listing *ret, enum pkg_format format, struct bytes payload, size_t chunk,
	       struct err *err);
/* pkg_open() and all members. @ret_info, which may be NULL, is in the listing's arena. */
int listing_of_package(struct listing *ret, struct bytes package, const char *name, struct pkg_info *ret_info,
		       struct err *err);
void listing_done(struct listing *l);

/* NULL: none. */
const struct listed *listing_find(const struct listing *l, const char *path);
/* Both listings are equal, except for offsets. */
void assert_listings_same(const struct listing *a, const struct listing *b);
/* @l has the files @files, in this order; @mtimes: compare them too. */
void assert_listing_is(const struct listing *l, const struct pw_file *files, size_t n_files);
/* The bytes at `off` of the payload are the content, for every member that has one. */
void assert_places(const struct listing *l, struct bytes payload);

/* Files of all kinds and sizes, valid in every format except for the length of names. Static. */
const struct pw_file *sample_files(size_t *ret_n);
