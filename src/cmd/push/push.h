/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode push, in parts:
 *
 *   push.c    the command: options, progress, summary
 *   find.c    the walk, a thread of its own: files to push and their SHA-256
 *   split.c   the split (.dwo, .dwp) files that belong to a debug file
 *   tar.c     a tar of these and of the sources that a debug file names
 *   upload.c  asking which files the server wants; uploads, retries
 *   direct.c  uploads to the bucket of the server's store
 *
 * send.c is lode send, which sends profiles; target.c is the server that all of these send to.
 *
 * The walk finds and hashes while uploads run; it waits when too many files are queued. Bodies are read from
 * their files as they are sent: no file is ever in memory.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "cmd/internal.h"
#include "net/net.h"
#include "store/store.h"

enum push_state {
	PUSH_FOUND,  /* hashed; the server was not asked yet */
	PUSH_ASKED,  /* the server is being asked */
	PUSH_WANTED, /* the server wants it; sent from next_ms on */
	PUSH_SENDING,
	PUSH_STORED,
	PUSH_HERE, /* the server has it already, or a better one */
	PUSH_FAILED,
	PUSH_N_STATES,
};

struct push_direct;

struct push_item {
	struct push_item *next;
	struct push *push;
	struct store_key key;
	enum store_quality quality;
	char *path; /* for messages */
	char *name; /* sent to the server; NULL: none */
	int fd;     /* a tar of sources, or a member of an archive; -1: path is opened for sending */
	int64_t mtime;
	uint64_t size;
	uint8_t sha256[STORE_SHA256_SIZE];
	/* under the lock */
	enum push_state state;
	uint64_t off;        /* where the next part begins */
	uint64_t farthest;   /* the largest one so far */
	bool is_signed;      /* to be sent to the bucket */
	unsigned n_failures; /* in a row */
	int64_t next_ms;
	const char *result; /* static: "stored", "held", "same", "better", "failed" */
	char *why;          /* of a failure */
	/* the part that is being sent; of the net thread */
	int sending_fd;
	uint64_t part_off, part_size, part_sent;
	struct push_direct *direct; /* its upload to the bucket; NULL: none was tried. Under the lock */
};

struct push_options {
	const char *to;    /* URL, without the slash at the end */
	const char *token; /* NULL: none */
	unsigned parallel, retries;
	bool sources;
	bool signed_too; /* to the bucket, where the server offers it */
};

struct push {
	struct push_options o;
	struct net *net;
	const struct setting_list *paths;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct push_item *first, **last; /* all */
	struct push_item *open;          /* all items before it are over; NULL: none is */
	struct map known;                /* "key sha256" of them */
	unsigned n_items, n_state[PUSH_N_STATES], n_asking, n_sending;
	unsigned n_skipped; /* ELF files without a build ID, in folders */
	unsigned n_errors;  /* files that could not be read */
	uint64_t bytes_found, bytes_sent, bytes_stored;
	unsigned n_held;   /* of the stored ones: on the server's disk, since its bucket is away */
	unsigned n_signed; /* stored by way of the bucket */
	char *not_signed;  /* why one could not be sent there: then no more are. NULL: all could */
	bool walked;
	char *fatal;      /* the reason why no file can be pushed; NULL: none */
	atomic_bool stop; /* end all work; written under the lock */
};

/* With so many items queued the walk waits; each tar of sources holds a file open. */
#define PUSH_MAX_WAITING 2000u
#define PUSH_MAX_TARS    32u

/* ---- find.c ---- */

void *push_find(void *push); /* a thread */

/* ---- tar.c ---- */

/* The members of a tar: files of this machine, and their paths in it. */
struct push_members {
	struct arena arena;
	struct push_member {
		struct str place, file;
		uint64_t max;  /* a larger file is left out */
		bool is_split; /* a file that is no split file is left out */
	} * v;
	size_t n, room;
};
void push_members_init(struct push_members *m);
void push_members_done(struct push_members *m);
/* A source file of at most @max bytes. */
void push_source_add(struct push_members *m, struct str place, struct str file, uint64_t max);
void push_split_add(struct push_members *m, struct str place, struct str file);

/* Add the source files that the debug file @img names. */
int push_sources(const struct elf_image *img, struct push_members *to, struct err *err);
/* A tar, in a file without a name, of the members that are on this machine. *ret_n may be 0. *ret_fd is the
 * caller's. */
int push_tar(struct push_members *m, int *ret_fd, uint64_t *ret_size, size_t *ret_n, struct err *err);

/* ---- split.c ---- */

/* Add the split files of @img, which is at @path; the server gets it under @name. */
int push_split(const struct elf_image *img, const char *path, const char *name, struct push_members *to,
	       struct err *err);
/* Is it a split file itself? 0; 1: no, or damaged; negative: it cannot be read. */
int push_check_split(struct source *src, struct err *err);
bool push_is_split(struct source *src); /* the same; a failure to read it is no */

/* ---- upload.c ---- */

/* Start requests, as many as may run. Under the lock; returns the time of the next call at the latest. */
int64_t push_pump(struct push *p, int64_t now_ms);
/* Change an item's state. Under the lock. */
void push_set_state(struct push_item *item, enum push_state state);
static inline bool push_is_over(enum push_state s)
{
	return s == PUSH_STORED || s == PUSH_HERE || s == PUSH_FAILED;
}
