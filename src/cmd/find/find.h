/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `lode find`. Targets become items: build IDs, with the file that each came from if
 * there is one. For each item and kind there is a search (struct find_want): on this machine first, then on
 * servers.
 *
 *   find.c        options, output
 *   target.c, process.c, kernel.c, rpm.c   items
 *   probe.c       the searches
 *   section.c, alt.c   those for sections and supplementary files on this machine
 *   advice.c      what to do about debug files that were not found
 */
#pragma once

#include "client/client.h"
#include "cmd/internal.h"
#include "local/local.h"

#define FIND_MAX_ITEMS 262144u

struct find_item {
	const char *name;      /* for people, and for gdb's rules: the path, else a description */
	const char *open_path; /* to read the file; NULL: only its build ID is known */
	struct build_id id;    /* size 0: unknown */
	bool named;            /* the name is the dynamic linker's */
	bool packed;           /* the file may be compressed as a whole, or a member of an archive */
	bool optional; /* it is no failure if its debug file is missing: the kernel's own library in a process,
			  whose debug file is rarely installed */
};

struct find_want {
	const struct find_item *item;
	enum client_kind kind;
	const char *arg; /* of a source or a section */
	bool found, failed;
	bool nowhere;       /* servers need not be asked */
	const char *path;   /* found */
	const char *from;   /* found: "itself", "build ID", "cache", a URL, ... */
	const char *why;    /* not found: in one line */
	const char *alt_of; /* a supplementary file: the debug file that names it; else NULL */
	struct local_trail trail;
	struct buf steps;         /* the client's, a line each */
	struct local_trail after; /* steps after those */
};

struct finder {
	const struct settings *s;
	struct arena a;
	struct local *local;
	struct client *client;    /* NULL until it is needed */
	struct find_item **items; /* in the arena */
	size_t n_items, room_items;
	struct find_want *wants; /* in the arena */
	size_t n_wants;
	size_t n_advised; /* debug files that advice was given on */
};

/* A new item; the texts are copied. NULL: too many. */
struct find_item *find_add(struct finder *f, const char *name, const char *open_path,
			   const struct build_id *id, struct err *err);
/* "/sys/kernel/notes" below --sysroot. In the arena. */
const char *find_path(struct finder *f, const char *path);
/* Report that the ELF file of one item cannot be read, and add the item without a build ID: the others are searched. */
int find_add_damaged(struct finder *f, const char *name, struct err *why, struct err *err);
/* The build ID of an ELF file, size 0 if it has none. 1: it is not an ELF file, or missing. */
int find_read_id(const char *path, bool packed, struct build_id *ret, struct err *err);
/* Open a file; @packed: it may be the member of an archive, and is decoded if it is compressed as a whole. Outcome
 * FILE_MISSING. */
int find_open_file(const char *path, bool packed, struct source **ret, struct err *err);

/* Targets. Each adds items; an error says what to do. */
int find_target(struct finder *f, struct str target, struct err *err);
int find_process(struct finder *f, const char *pid, struct err *err);
int find_core(struct finder *f, const char *path, struct err *err);
int find_kernel(struct finder *f, const char *release, struct err *err); /* NULL: the running one */
/* An installed one, or a package file. */
int find_package(struct finder *f, const char *name, struct err *err);
/* The ELF files in a package file. 1: it is not a package. */
int find_package_file(struct finder *f, const char *path, struct err *err);

/* ---- rpm.c ---- */

bool find_has_rpm(struct finder *f); /* rpm has a database here */
/* The paths of an installed package's files, a line each; other lines may be among them. FILE_MISSING: it is
 * not installed, or rpm is not here. */
int find_rpm_files(struct finder *f, const char *name, struct buf *ret, struct err *err);

/* ---- probe.c, section.c, alt.c, advice.c, progress.c ---- */

/* Run all searches, on this machine and on servers. */
void find_all(struct finder *f);
void find_found(struct finder *f, struct find_want *w, const char *path, const char *from);
int find_open_item(const struct find_item *item, struct source **ret_src, struct elf_image **ret_img,
		   struct err *err);
struct client *find_client(struct finder *f);
/* Those of the options, separated by blanks; in the arena. NULL: those of the environment. */
const char *find_server_urls(struct finder *f);
/* Append what to do about a debug file that was not found. false: nothing. */
bool find_advice(struct finder *f, const struct find_want *w, struct buf *out);
void find_show_progress(const struct client_progress *p, int64_t started_mono_ms);
/* Search this machine for a section, for a supplementary file. */
void find_look_section(struct finder *f, struct find_want *w);
void find_look_alt(struct finder *f, struct find_want *w);
/* After the searches for debug files: add searches for the supplementary files that they name with --all;
 * else note these files in the trail. */
void find_alts(struct finder *f);
