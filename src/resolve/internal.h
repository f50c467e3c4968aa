/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver over the index: what its files ask of each other.
 *
 *   resolve_index.c  the resolver itself: options, caches, the top of each flow
 *   elf_find.c       build ID -> candidates of the index, in order -> the first that is taken
 *   candidate.c      one candidate: which kind it is, and whether it is what the index says
 *   head.c           the build ID in the first bytes of an ELF file
 *   plain.c          a file on disk -> source
 *   package.c        a member of a mapped package -> source
 *   section.c        ELF file -> part of it
 *   source.c         path -> member of a package, or a file that the debug information names
 *   names.c          the source names of debug files, kept
 *   mapped.c         package maps and their resume points, kept
 *   held.c           a source that keeps its first bytes, and what it needs, until it is closed
 *   ticket.c         a wish to be woken that can be taken back
 *   known.c          which build IDs are here, in memory, for those who ask for one that is not
 *   conn.c           connections to the index, one for each thread that is in here
 *
 * And behind it:
 *
 *   resolve_chain.c     one resolver after the other
 *   resolve_store.c, sources_tar.c, store_metadata.c   out of the store
 *   resolve_upstream.c  from other servers
 *   remote.c         one artifact on its way from another server, shared by all who want it
 *   remote_check.c   whether it is what was asked for
 *   remote_source.c  its bytes, as far as they have come
 *   remembered.c     what nobody has
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "resolve/resolve.h"

/* ---- conn.c ---- */

struct conn {
	struct index *ix;
	struct conn *next;
};

struct conns {
	char *path; /* owned */
	pthread_mutex_t lock;
	struct conn *free; /* under the lock */
};
int conns_init(struct conns *c, const char *path,
	       struct err *err);  /* opens a first one: is it there, and sound? */
void conns_done(struct conns *c); /* all must be back */
int conn_take(struct conns *c, struct conn **ret, struct err *err);
void conn_give(struct conns *c, struct conn *conn);

/* ---- known.c ---- */

struct id_filter;
/* @watch: borrowed, and only its mark is taken. */
struct id_filter *id_filter_new(const char *index_path, struct index *watch);
void id_filter_free(struct id_filter *k); /* takes NULL */
/* true: it is certain that no file in the index has it. false: ask the index. */
bool id_filter_lacks(struct id_filter *k, const struct build_id *id);
/* Tests: do now what the thread does, if the index has changed. */
int id_filter_refresh(struct id_filter *k, struct err *err);

/* ---- resolve_index.c ---- */

struct resolver_index {
	struct resolver resolver;
	/* fixed */
	char *points_dir;  /* may be NULL */
	struct scan *scan; /* may be NULL */
	int (*want)(struct scan *s, int64_t file, const struct build_id *id, uint32_t flags,
		    void (*wake)(void *arg), void *arg, struct err *err); /* scan_want(), but in tests */
	int (*partial)(struct scan *s, int64_t file, const struct build_id *id, uint32_t flags,
		       struct pkg_map **ret_map, uint32_t *ret_number, struct buf *ret_points,
		       struct err *err); /* scan_partial() */
	struct pool *helpers;
	bool source_any;
	bool in_memory;
	/* each safe for many threads */
	struct conns conns;
	struct codec_cache *spans;
	struct lru *maps;  /* struct mapped */
	struct lru *names; /* struct names */
	struct id_filter *ids;
	/* of other processes' changes */
	_Atomic int64_t next_look_ms;
	_Atomic uint64_t n_others;
	pthread_mutex_t watch_lock;
	struct index *watch; /* under watch_lock */
	int64_t watch_version;
};

/* One request while it is worked on. */
struct work {
	struct resolver_index *r;
	struct index *ix;
	const struct resolve_request *req;
	struct resolve_wake wake;
	struct arena *a;
	struct resolve_why *why;
	struct err failed; /* the first candidate that is here but could not be read; kind ERR_NONE: none */
	/* The candidate that was opened last, if its sections' places are known; as long as its source. */
	const struct pkg_entry *entry;
};

/*
 * What came of one candidate. The reason is in the list of steps already.
 * NOT_THIS: look at the next. LATER: nothing is known of its content yet.
 */
enum { NOT_THIS = 100, LATER = 101 };

/* It is here, and cannot be read: noted as a step, and as the failure if nothing else is found. Returns
 * NOT_THIS. */
int work_failed(struct work *w, struct str place, const struct err *why);
#define work_said(w, place, ...) resolve_why_add((w)->why, (place), __VA_ARGS__)

/* ---- held.c ---- */

#define PINNED_HEAD KIB(4)

/* Something that must live as long as something else; zeroed is nothing. */
struct pin {
	void (*release)(void *arg, void *thing);
	void *arg, *thing;
};
void pin_release(struct pin *h); /* and zero it */

/*
 * @inner (taken) with what must live as long (taken). The first HELD_HEAD bytes are kept once they were asked
 * for: a decoder that has looked at the head of a member need not start again for its beginning.
 */
struct source *pinned_source_new(struct source *inner, struct pin *held);
/* The head, read now if it was not yet; shorter where the source is. Good until close. */
int pinned_source_head(struct source *s, struct bytes *ret, struct err *err);

/* ---- mapped.c ---- */

struct mapped {
	struct pkg_map *map;
	struct bytes points; /* empty: none */
	struct mapping file; /* that they are in, */
	struct buf heap;     /* or the memory */
	uint64_t cache_id;   /* of its decoded payload */
	bool points_lost;    /* the index knows of some, but they are not there */
};
struct lru *mapped_lru(size_t max_weight);
/* The map of @f; good until *ret_held is released. NOT_THIS (told): it has gone, or cannot be read. */
int mapped_get(struct work *w, const struct index_file *f, struct mapped **ret, struct pin *ret_held);
/* The same from parts, both taken; nobody else gets it. */
struct mapped *mapped_of(const struct index_file *f, struct pkg_map *map, struct buf *points,
			 struct pin *ret_held);
/* The resume points of @f, if they are there and as long as the index says. */
bool mapped_points(struct work *w, const struct index_file *f, struct mapping *ret);

/* ---- plain.c, package.c: one candidate's bytes. NOT_THIS (told) ---- */

int plain_open(struct work *w, const struct index_hit *h, struct resolve_answer *ret);
/* @held is what keeps @m; taken. */
int package_open(struct work *w, const struct index_file *f, const struct mapped *m, struct pin *held,
		 const struct pkg_entry *e, struct resolve_answer *ret);
/* A section of @e that has this name, the first of several; NULL: none. */
const struct elf_place *package_section(const struct pkg_entry *e, struct str name);
/* Names content of @f (its member @member): the same bytes give the same tag, also after a restart. */
uint64_t content_tag(const struct index_file *f, uint32_t member);

/* ---- candidate.c ---- */

/* 0, NOT_THIS (told), LATER. */
int candidate_open(struct work *w, const struct index_hit *h, struct resolve_answer *ret);
/* Of one whose package was not looked into: out of the pass that runs now, if it is one of @flags (ELF_IS_*).
 * 0, NOT_THIS (told), LATER. */
int candidate_open_partial(struct work *w, const struct index_hit *h, uint32_t flags,
			   struct resolve_answer *ret);
/*
 * Does the head of this ELF file speak against @id? No magic, or a build ID note within the head that is
 * another: NOT_THIS (told).
 *
 * Where the note is not in the head (relocatable files, some debug files), the package's identity and its map
 * are believed: the section table that leads to it is at the file's end, and to decode all of a large member
 * for it would cost more than the request itself. Whoever reads the section table anyway compares the build
 * ID too.
 */
int candidate_check_head(struct work *w, const struct build_id *id, const struct resolve_answer *ans);
/* The same by the whole file. */
int candidate_check_image(struct work *w, const struct build_id *id, const struct elf_image *img,
			  struct str place);
struct str answer_place(struct work *w, const struct resolve_answer *ans); /* for a step */
void answer_drop(struct resolve_answer *ans);                              /* closes the source */

/* ---- elf_find.c ---- */

enum which {
	WHICH_DEBUG,
	WHICH_EXECUTABLE,
	WHICH_BOTH,          /* debug files first */
	WHICH_DEBUG_ON_DISK, /* files of their own, none of a package */
};
/*
 * Called for each ELF file in turn. 0: it is the answer, and @visit has taken over ans->source or closed it.
 * NOT_THIS: try the next file; @visit has noted why, and ans->source is closed for it. An error ends the search.
 */
struct elf_visitor {
	int (*visit)(void *arg, struct work *w, struct resolve_answer *ans, struct err *err);
	void *arg;
};
/* Visit the ELF files of @id until one is the answer. RESOLVE_MISSING, RESOLVE_WAIT, RESOLVE_BUSY as resolve(). */
int elf_find(struct work *w, const struct build_id *id, enum which which, struct elf_visitor visitor,
	     struct err *err);

/* ---- section.c, source.c, names.c ---- */

int section_find(struct work *w, struct resolve_answer *ret, struct err *err);
int source_find(struct work *w, struct resolve_answer *ret, struct err *err);

struct lru *names_lru(size_t max_weight);
/* Does the debug file of w->req->id name one of these paths? 0 and *ret; RESOLVE_WAIT, RESOLVE_BUSY,
 * RESOLVE_MISSING. */
int names_have(struct work *w, const struct str *paths, size_t n_paths, bool *ret, struct err *err);

/* ---- sources_tar.c ---- */

/* Where the files of a tar lie, kept by the tar's content. */
struct sources_tar;
struct lru *sources_tar_lru(size_t max_weight);
/* Of @tar, read through if it is not known by @key yet; give it back with lru_unref(). */
int sources_tar_get(struct lru *l, struct bytes key, struct source *tar, struct lru_ref **ret,
		    struct err *err);
/* @path without leading slash. */
bool sources_tar_find(struct lru_ref *held, struct str path, uint64_t *ret_off, uint64_t *ret_size,
		      int64_t *ret_mtime);

/* ---- store_metadata.c ---- */

/* As index_metadata(). */
int store_metadata(struct store *st, const struct index_metadata_query *q, struct index_metadata_page *ret,
		   struct err *err);

/* ---- ticket.c ---- */

/*
 * Whoever may wake cannot be told to forget; but the ticket that it wakes can be torn up. ticket_cancel() is
 * true when @wake was not called and never will be.
 */
struct ticket;
struct ticket *ticket_new(void (*wake)(void *arg), void *arg);
void ticket_fire(void *ticket);       /* for the one who wakes: once, and it has the ticket no more */
bool ticket_cancel(struct ticket *t); /* for the one who asked: once, and it has the ticket no more */
void ticket_leave(struct ticket *t);  /* the same without taking it back */
void ticket_unused(struct ticket *t); /* nobody was given it */

/* ---- head.c ---- */

/* The build ID note within the first bytes of an ELF file, if its program headers lead to one there. */
bool head_build_id(struct bytes head, struct build_id *ret);

/* ---- remembered.c ---- */

/* What was said of something when it was asked for in vain. Shared, never changed. */
struct miss {
	int64_t until_ms;
	bool missing; /* every server says so; else `err` */
	struct err err;
	struct arena arena;
	struct miss_step {
		struct str server, said;
	} * steps;
	size_t n_steps;
};
struct lru *miss_cache_new(void);
/* NULL: nothing, or it is too old. To be given back by lru_unref(). */
struct lru_ref *miss_cache_get(struct lru *l, struct bytes key);
void miss_cache_put(struct lru *l, struct bytes key, int64_t until_ms, int outcome, const struct err *err,
		    struct net_fetch *f);

/* ---- resolve_upstream.c ---- */

struct resolver_upstream {
	struct resolver resolver;
	/* fixed */
	struct resolve_upstream_options opts;
	struct arena arena;   /* of its strings */
	struct pool *keepers; /* into the store; NULL: none */
	struct lru *misses;
	atomic_bool closing;
	_Atomic uint64_t n_asked, n_found, n_missing, n_failed, n_remembered, n_stored, n_not_stored, bytes;
	pthread_mutex_t lock;
	pthread_cond_t gone;
	/* under the lock */
	struct map remotes; /* key -> struct remote */
	unsigned n_remotes; /* that exist */
};
/* Names content that came from elsewhere: the same, whether it still comes or is stored already. */
uint64_t elsewhere_tag(const struct resolve_request *req, uint64_t size, int64_t mtime);

/* ---- remote.c ---- */

enum remote_state {
	REMOTE_ASKING,  /* no byte that could be given out */
	REMOTE_FLOWING, /* its first bytes were believed */
	REMOTE_WHOLE,   /* all are there and were checked */
	REMOTE_OVER,    /* it came to nothing; `remembered` knows why */
};

struct remote_waiter {
	struct ticket *ticket;
	uint64_t off;
	struct remote_waiter *next;
};

struct remote {
	struct resolver_upstream *up;
	atomic_uint refs;
	struct bytes key; /* owned */
	/* its strings are in the arena, which belongs to the net's thread while that fetches */
	struct resolve_request what;
	struct arena arena;
	pthread_mutex_t lock;
	/* under the lock */
	enum remote_state state;
	int fd; /* the spool; -1: none yet; fixed from FLOWING on */
	uint64_t have;
	struct err err; /* OVER */
	struct remote_waiter *waiters;
	unsigned n_followers; /* open sources */
	bool given_up;        /* nobody followed any more: who comes now starts anew */
	struct net_fetch *fetch;
	/* set before FLOWING, then fixed */
	uint64_t size;
	int64_t mtime;
	struct str file, archive, url;
	/* the net's thread */
	bool size_known, confirmed; /* the build ID was seen in the first bytes */
};
/* See resolve_upstream_forget(). */
void remote_forget(struct resolver_upstream *c, const struct build_id *id);
/* As resolve(), for what is not here. */
int remote_find(struct resolver_upstream *c, const struct resolve_request *req, struct resolve_wake wake,
		struct resolve_answer *ret, struct resolve_why *why, struct err *err);
struct remote *remote_ref(struct remote *m);
void remote_unref(struct remote *m);
/* wake is called when the byte at @off is there, or never will be. Under the lock. */
void remote_await(struct remote *m, uint64_t off, void (*wake)(void *arg), void *arg);
/* Bytes that may be given out, under the lock: the last one not before all were checked, so that a wrong file
 * is never a whole reply. */
uint64_t remote_visible(const struct remote *m);
/* A source was closed: nobody may want the rest any more. */
void remote_left(struct remote *m);

/* ---- remote_check.c: a net_sink's ---- */

int remote_check(void *remote, const struct net_reply *reply, struct bytes head, bool all, struct err *err);
int remote_verify(void *remote, struct err *err);

/* ---- remote_source.c ---- */

struct source *remote_source_new(struct remote *m); /* under its lock */
int remote_arrived(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		   struct err *err);
