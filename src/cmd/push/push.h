/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode push, in parts:
 *
 *   push.c       the command: options, progress, summary
 *   push_find.c  the walk: what there is to push, and its SHA-256; a thread of its own
 *   push_split.c what split (.dwo, .dwp) files belong to a debug file
 *   push_tar.c   a tar of these and of the sources that a debug file names
 *   push_send.c  asking what is wanted, uploads, retries
 *
 * The walk finds and hashes while uploads run; it is held back when too much waits. All bodies are read from
 * their files as they are sent: no file is ever in memory.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "cmd/internal.h"
#include "net/net.h"
#include "store/store.h"

enum push_state {
	PUSH_FOUND,  /* hashed; it is not known yet whether it is wanted */
	PUSH_ASKED,  /* ... and is being asked */
	PUSH_WANTED, /* at next_ms */
	PUSH_SENDING,
	PUSH_STORED,
	PUSH_HERE, /* the same or a better one is there already */
	PUSH_FAILED,
	PUSH_N_STATES,
};

struct push_item {
	struct push_item *next;
	struct push *push;
	struct store_key key;
	enum store_quality quality;
	char *path; /* for messages */
	char *name; /* that the server is told; NULL: none */
	int fd;     /* a tar of sources; -1: opened when it is sent */
	int64_t mtime;
	uint64_t size;
	uint8_t sha256[STORE_SHA256_SIZE];
	/* under the lock */
	enum push_state state;
	uint64_t off;        /* where the next part begins */
	unsigned n_failures; /* in a row */
	int64_t next_ms;
	const char *result; /* static: "stored", "same", "better", "failed" */
	char *why;          /* of a failure */
	/* of the part that is sent, the loop's */
	int sending_fd;
	uint64_t part_off, part_size, part_sent;
};

struct push_options {
	const char *to;    /* URL, without the slash at the end */
	const char *token; /* NULL: none */
	unsigned parallel, retries;
	bool sources;
};

struct push {
	struct push_options o;
	struct net *net;
	const struct setting_list *paths;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct push_item *first, **last; /* all */
	struct push_item *open;          /* all before it are over; NULL: none is yet */
	struct map known;                /* "key sha256" of them */
	unsigned n_items, n_state[PUSH_N_STATES], n_asking, n_sending;
	unsigned n_skipped; /* ELF files without a build ID, in folders */
	unsigned n_errors;  /* files that could not be looked at */
	uint64_t bytes_found, bytes_sent, bytes_stored;
	bool walked;
	char *fatal;      /* nothing more can be done, and why */
	atomic_bool stop; /* no more work; written under the lock */
};

/* Beyond so many that wait, the walk does; tars of sources each hold a file open. */
#define PUSH_MAX_WAITING 2000u
#define PUSH_MAX_TARS    32u

/* ---- push_find.c ---- */

void *push_find(void *push); /* a thread */

/* ---- push_tar.c ---- */

/* What goes into a tar: files of this machine, and their paths there. */
struct push_members {
	struct arena arena;
	struct push_member {
		struct str place, file;
		uint64_t max; /* bytes of it; a larger one is left out */
	} * v;
	size_t n, room;
};
void push_members_init(struct push_members *m);
void push_members_done(struct push_members *m);
void push_member_add(struct push_members *m, struct str place, struct str file, uint64_t max);

/* Those source files that the debug file @img names. */
int push_sources(const struct elf_image *img, struct push_members *to, struct err *err);
/*
 * A tar of those that are on this machine, in a nameless file. *ret_n may be 0: none. *ret_fd is the
 * caller's.
 */
int push_tar(struct push_members *m, int *ret_fd, uint64_t *ret_size, size_t *ret_n, struct err *err);

/* ---- push_split.c ---- */

/* The split files of @img, which is at @path, and of which the server is told that it is called @name. */
int push_split(const struct elf_image *img, const char *path, const char *name, struct push_members *to,
	       struct err *err);
bool push_is_split(struct source *src); /* is a split file itself */

/* ---- push_send.c ---- */

/* Start what can be started. Under the lock; returns when to be called again at the latest. */
int64_t push_pump(struct push *p, int64_t now_ms);
/* Change an item's state. Under the lock. */
void push_set_state(struct push_item *item, enum push_state state);
static inline bool push_is_over(enum push_state s)
{
	return s == PUSH_STORED || s == PUSH_HERE || s == PUSH_FAILED;
}
