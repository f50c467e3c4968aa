/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local: the interface between its files: the settings, and the checks of one place.
 */
#pragma once

#include "local/local.h"

struct local_crcs;

struct local {
	struct arena arena;
	const char **dirs; /* debug directories; "" is "/" */
	size_t n_dirs;
	const char *sysroot;      /* NULL: none */
	const char *real_sysroot; /* with symbolic links resolved, as far as it exists */
	struct local_crcs *crcs;
	bool is_rooted;
	int root; /* of is_rooted; -1: it cannot be opened */
	bool has_user;
	uid_t user; /* of has_user: whose rights count */
	uint64_t max_file;
};

/* file_open(), realpath() and "is a symbolic link", in the root of @l. */
int local_open(const struct local *l, const char *path, int *ret_fd, struct stat *ret_st, struct err *err);
bool local_realpath(const struct local *l, const char *path, char *ret);
bool local_is_link(const struct local *l, const char *path);

/* One search: the settings, and the trail that gets its steps. */
struct local_search {
	struct local *l;
	struct local_trail *trail;
	enum local_way way;
};

/*
 * The file at @path, if it has this build ID: 0 and *ret, else LOCAL_MISSING; adds a step either way.
 * local_take_id_real() uses the real path, as gdb does in the .build-id tree; if that is @self it returns
 * LOCAL_IS_SELF, and no other place is tried.
 */
enum { LOCAL_IS_SELF = 2 };
int local_take_id(struct local_search *s, const char *path, const struct build_id *id,
		  struct local_found *ret);
int local_take_id_real(struct local_search *s, const char *path, const struct build_id *id, const char *self,
		       struct local_found *ret);

/* A file named by a debug link. */
struct local_linked {
	const char *self;    /* the path that the link was read from */
	struct stat self_st; /* st_ino 0: unknown */
	const char *name;
	uint32_t crc;
};
int local_take_linked(struct local_search *s, const char *path, const struct local_linked *link,
		      struct local_found *ret);

/* The CRC-32 of a whole file, from the cache if the file was read before. */
struct local_crcs *local_crcs_new(void);
void local_crcs_free(struct local_crcs *c);
int local_crcs_of(struct local_crcs *c, int fd, const struct stat *st, uint32_t *ret, struct err *err);
