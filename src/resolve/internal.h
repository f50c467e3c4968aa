/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver over the index: the interface between its files.
 *
 *   resolve_index.c  the resolver: options, caches, the top of each flow
 *   elf_find.c       build ID -> candidates from the index, in order -> the first that is accepted
 *   await.c          waiting for packages that are not read yet
 *   candidate.c      one candidate: its kind, and whether it matches the index
 *   head.c           the build ID in the first bytes of an ELF file
 *   plain.c          a file on disk -> source
 *   package.c        a member of a mapped package -> source
 *   again.c          ... of a package in object storage, read once more when it is damaged
 *   section.c        ELF file -> a part of it
 *   source.c         path -> member of a package, or a file that the debug information names
 *   names.c          cache of the source names of debug files
 *   mapped.c         cache of package maps and their resume points
 *   pinned.c         pinned source: caches its first bytes, and keeps the objects that it reads by
 *   ticket.c         a wake that can be cancelled
 *   id_filter.c      Bloom filter of all build IDs here, to answer misses from memory
 *   work.c           one request: its failure, its answer
 *   tag.c            tags that identify content
 *   conn.c           connections to the index, one for each thread that uses it
 *
 * The other resolvers:
 *
 *   resolve_chain.c     resolvers in a row
 *   resolve_store.c, sources_tar.c, store_metadata.c   the store
 *   resolve_upstream.c  other servers
 *   remote.c         one artifact being fetched, shared by all requests for it
 *   remote_name.c    the name of a program, for servers that find it by that
 *   name_hints.c     names of programs from mappings
 *   remote_check.c   checks that a fetched file is the one requested
 *   remote_keep.c    a fetched file into the store, with its aliases
 *   remote_source.c  the bytes fetched so far, as a source
 *   miss_cache.c     requests that the other servers answered in vain
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "resolve/resolve.h"

/* ---- resolve.c ---- */

/* resolve() for a request whose build ID is no alias, as far as is known. */
int resolve_by_key(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
		   struct resolve_answer *ret, struct resolve_why *why, struct err *err);

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
	       struct err *err);  /* opens the first connection, to check that the database can be read */
void conns_done(struct conns *c); /* all connections must have been given back */
int conn_take(struct conns *c, struct conn **ret, struct err *err);
void conn_give(struct conns *c, struct conn *conn);

/* ---- id_filter.c ---- */

struct id_filter;
/* @watch is borrowed; only its mark is read. */
struct id_filter *id_filter_new(const char *index_path, struct index *watch);
void id_filter_free(struct id_filter *k); /* takes NULL */
/* true: certainly no file in the index has it. false: ask the index. */
bool id_filter_lacks(struct id_filter *k, const struct build_id *id);
/* For tests: do now the thread's work, if the index has changed. */
int id_filter_refresh(struct id_filter *k, struct err *err);

/* Checks and rescans of packages that this process has done already. */
struct facts {
	pthread_mutex_t lock;
	/* under the lock */
	struct map whole; /* keys of maps whose resume points were read whole */
	struct map again; /* IDs of files that were scanned again because of damage */
};

/* ---- resolve_index.c ---- */

struct resolver_index {
	struct resolver resolver;
	/* fixed */
	char *points_dir;                                            /* may be NULL */
	bool (*fetch_points)(void *arg, const struct index_file *f); /* may be NULL */
	void *fetch_points_arg;
	struct scan *scan; /* may be NULL */
	/* scan_want(), scan_partial() and scan_excludes(), except in tests */
	bool (*excludes)(const struct scan *s, const char *path);
	int (*want)(struct scan *s, const struct scan_wanted *what, void (*wake)(void *arg), void *arg);
	int (*partial)(struct scan *s, const struct scan_wanted *what, struct scan_partial *ret,
		       struct err *err);
	void (*again)(struct scan *s, const struct index_file *f); /* scan_again() */
	int (*seek)(struct scan *s, const struct scan_sought *what, void (*wake)(void *arg), void *arg);
	bool (*unfinished)(struct scan *s);
	void (*progress)(struct scan *s, struct scan_progress *ret);
	bool (*reading)(struct scan *s, const struct build_id *id, struct scan_reading *ret);
	struct pool *helpers;
	struct budget *memory;
	const char **source_roots; /* owned, as each of them */
	size_t n_source_roots;
	bool source_any;
	bool in_memory;
	/* each safe for many threads */
	struct conns conns;
	struct codec_cache *spans;
	struct lru *maps; /* struct mapped */
	struct facts facts;
	struct lru *names; /* struct source_names */
	struct id_filter *ids;
	/* for changes by other processes */
	_Atomic int64_t next_check_ms;
	_Atomic uint64_t n_others;
	pthread_mutex_t watch_lock;
	struct index *watch; /* under watch_lock */
	int64_t watch_version;
};

/* One request while it is processed. */
struct work {
	struct resolver_index *r;
	struct index *ix;
	const struct resolve_request *req;
	struct resolve_wake wake;
	struct arena *a;
	struct resolve_why *why;
	/* An object was opened; its bytes contradict the index. With `again` each object's ranges are read anew. */
	bool far, doubt, again;
	struct err failed; /* the first candidate that is here but could not be read; kind ERR_NONE: none */
	/* The candidate opened last, if its map has the places of its sections; valid as long as its
	 * source. */
	const struct pkg_entry *entry;
};

/* Results of one candidate; its step already has the reason. NOT_THIS: try the next. LATER: its content is
 * not known yet. */
enum { NOT_THIS = 100, LATER = 101 };

/* ---- work.c ---- */

/* It is here but cannot be read: add a step, and keep the failure in case nothing else is found. Returns
 * NOT_THIS. */
int work_failed(struct work *w, struct str place, const struct err *why);
/*
 * A file of the index; NOT_THIS: it is gone, or cannot be read. RESOLVE_BUSY (noted): too many requests wait for object
 * storage.
 */
int work_open(struct work *w, const struct index_file *f, struct source **ret, struct stat *ret_st);
/* The end of a search: RESOLVE_MISSING, or the failure of a file that is here but cannot be read. */
int work_missing(struct work *w, struct err *err);
void work_note_absent(struct work *w, const struct build_id *id); /* a step: the index does not have @id */
#define work_note(w, place, ...) resolve_why_add((w)->why, (place), __VA_ARGS__)

struct str answer_place(struct work *w, const struct resolve_answer *ans); /* the name for a step */
void answer_drop(struct resolve_answer *ans);                              /* closes the source */

/* ---- tag.c ---- */

/* Identifies the content of @f (its member @member): the same bytes have the same tag, also after a
 * restart. */
uint64_t content_tag(const struct index_file *f, uint32_t member);
/* Identifies fetched content: the same tag while it is being fetched and after it is stored. */
uint64_t fetched_tag(const struct resolve_request *req, uint64_t size, int64_t mtime);

/* ---- pinned.c ---- */

#define PINNED_HEAD KIB(4)

/* An object to be released together with another one; zeroed: nothing. */
struct pin {
	void (*release)(void *arg, void *thing);
	void *arg, *thing;
};
void pin_release(struct pin *h); /* and zero it */

/* @inner (taken), and an object to be released with it (taken). The first PINNED_HEAD bytes are cached when
 * they are read: a decoder that has read the head of a member need not start again for its beginning. */
struct source *pinned_source_new(struct source *inner, struct pin *pin);
/* The head, read now if it is not cached yet; shorter than PINNED_HEAD where the source is. Valid until
 * close. */
int pinned_source_head(struct source *s, struct bytes *ret, struct err *err);

/* ---- mapped.c ---- */

struct mapped {
	struct pkg_map *map;
	struct bytes points; /* empty: none */
	struct mapping file; /* the mapped file of @points, */
	struct buf heap;     /* or its memory */
	uint64_t cache_id;   /* of its decoded payload in the cache of spans */
	bool points_lost;    /* the index has a size for the points, but they are missing */
};
struct lru *mapped_lru(size_t max_weight);
/* The map of @f, valid until *ret_pin is released. NOT_THIS (noted): it is gone, or cannot be read. LATER: it was
 * damaged, and the package is being scanned again. */
int mapped_get(struct work *w, const struct index_file *f, struct mapped **ret, struct pin *ret_pin);
/* The same from parts, both taken; not shared with other requests. */
struct mapped *mapped_of(const struct index_file *f, struct pkg_map *map, struct buf *points,
			 struct pin *ret_pin);
/* The resume points of @f, if they exist and have the size that the index has. */
bool mapped_points(struct work *w, const struct index_file *f, struct mapping *ret);

/* ---- plain.c, package.c: one candidate's bytes. NOT_THIS (noted) ---- */

int plain_open(struct work *w, const struct index_hit *h, struct resolve_answer *ret);
/* @pin keeps @m alive; taken. */
int package_open(struct work *w, const struct index_file *f, const struct mapped *m, struct pin *pin,
		 const struct pkg_entry *e, struct resolve_answer *ret);
/* The first section of @e with this name; NULL: none. */
const struct elf_place *package_section(const struct pkg_entry *e, struct str name);

/* ---- again.c ---- */

/* Whether a read failed since bytes are other ones than they should be. */
bool work_is_damage(const struct err *why);
struct again_member {
	const struct index_file *file;
	const struct pkg_map *map; /* this and the next fields are used until the source is closed */
	const struct pkg_entry *entry;
	const struct codec_source_options *opts; /* copied */
};
/* @member (taken) of the object @raw, which it reads. */
struct source *again_source_new(struct source *member, struct source *raw, const struct again_member *m);

/* ---- candidate.c ---- */

/* 0, NOT_THIS (noted), LATER. */
int candidate_open(struct work *w, const struct index_hit *h, struct resolve_answer *ret);
/* A candidate of a package that is not scanned yet: take it from the deep pass that is running, if it is one
 * of @flags (ELF_IS_*). @f is that package; NULL: any in which a request that seeks @id has found it, for a build ID
 * that no row of the index has. Only with a scan. 0, NOT_THIS (noted), LATER. */
int candidate_open_partial(struct work *w, const struct index_file *f, const struct build_id *id,
			   uint32_t flags, struct resolve_answer *ret);
/*
 * NOT_THIS (noted) if the head of this ELF file contradicts @id: no magic, or a build ID note within the head
 * with another build ID.
 *
 * Where the note is not in the head (relocatable files, some debug files), the package's identity and its map
 * are trusted: the section table that leads to the note is at the end of the file, and decoding all of a
 * large member for it would cost more than the request itself. Code that reads the section table anyway
 * compares the build ID too.
 */
int candidate_check_head(struct work *w, const struct build_id *id, const struct resolve_answer *ans);
/* The same, by the notes of the whole file. */
int candidate_check_image(struct work *w, const struct build_id *id, const struct elf_image *img,
			  struct str place);

/* ---- elf_find.c ---- */

enum which {
	WHICH_DEBUG,
	WHICH_EXECUTABLE,
	WHICH_BOTH,          /* debug files first */
	WHICH_DEBUG_ON_DISK, /* plain files only, no members of packages */
};
/*
 * Called for each ELF file in turn. 0: it is the answer, and @visit has taken ans->source or closed it.
 * NOT_THIS: try the next file; @visit has noted why, and the caller closes ans->source. A failure ends the
 * search.
 */
struct elf_visitor {
	int (*visit)(void *arg, struct work *w, struct resolve_answer *ans, struct err *err);
	void *arg;
};
/* Visit the ELF files of @id until one is the answer. RESOLVE_MISSING, RESOLVE_WAIT and RESOLVE_BUSY as
 * resolve(). */
int elf_find(struct work *w, const struct build_id *id, enum which which, struct elf_visitor visitor,
	     struct err *err);

/* ---- await.c ---- */

/* See resolve_await(). */
int await_unread(struct work *w, const struct resolve_patience *p, struct err *err);
/* How well the name of a package fits a request: of @kind, for a file of this path or package (empty: not known). */
unsigned await_score(struct str package, enum resolve_kind kind, struct str hint);

/* ---- section.c, source.c, names.c ---- */

int section_find(struct work *w, struct resolve_answer *ret, struct err *err);
int source_find(struct work *w, struct resolve_answer *ret, struct err *err);

struct lru *names_lru(size_t max_weight);
/* *ret: the debug file of w->req->id names one of these paths. RESOLVE_WAIT, RESOLVE_BUSY, RESOLVE_MISSING as
 * resolve(). */
int names_have(struct work *w, const struct str *paths, size_t n_paths, bool *ret, struct err *err);

/* ---- sources_tar.c ---- */

/* The places of the files in a tar, cached by the content of the tar. */
struct sources_tar;
struct lru *sources_tar_lru(size_t max_weight);
/* Read through @tar, unless it is cached under @key. To be given back with lru_unref(). */
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

/* A callee that may wake cannot be told to forget a callback, but the ticket that it was given can be
 * cancelled. ticket_cancel() returns true when @wake was not called and never will be. */
struct ticket;
struct ticket *ticket_new(struct resolve_wake wake);
void ticket_fire(void *ticket);       /* by the callee: once, and gives up its reference */
bool ticket_cancel(struct ticket *t); /* by the caller: once, and gives up its reference */
void ticket_leave(struct ticket *t);  /* by the caller, without cancelling */
bool ticket_wanted(void *ticket);     /* by the callee: the caller may still wait for it */
void ticket_unused(struct ticket *t); /* free a ticket that was given to nobody */

/* ---- head.c ---- */

/* The build ID note within the first bytes of an ELF file, if its program headers lead to one there. */
bool head_build_id(struct bytes head, struct build_id *ret);

/* ---- miss_cache.c ---- */

/* The steps of a request that other servers answered in vain. Shared, never changed. */
struct miss {
	int64_t until_ms;
	bool missing; /* every server answered 404 or 410; else `err` */
	struct err err;
	struct arena arena;
	struct miss_step {
		struct str server, message;
	} * steps;
	size_t n_steps;
};
struct lru *miss_cache_new(void);
/* NULL: not cached, or too old. To be given back with lru_unref(). */
struct lru_ref *miss_cache_get(struct lru *l, struct bytes key);
void miss_cache_put(struct lru *l, struct bytes key, int64_t until_ms, int outcome, const struct err *err,
		    struct net_fetch *f);

/* ---- resolve_upstream.c ---- */

struct resolver_upstream {
	struct resolver resolver;
	/* fixed */
	struct resolve_upstream_options opts;
	struct arena arena;   /* of its strings */
	struct pool *keepers; /* copy files into the store; NULL: none */
	struct lru *misses;
	bool by_name;                /* a server finds programs by their names */
	struct name_hints *hints;    /* by_name: names that processes gave; else NULL */
	struct questions *questions; /* NULL: no limit */
	atomic_bool closing;
	_Atomic uint64_t n_asked, n_found, n_missing, n_failed, n_remembered, n_over, n_stored, n_not_stored,
		bytes;
	pthread_mutex_t lock;
	pthread_cond_t gone;
	/* under the lock */
	struct map remotes; /* key -> struct remote */
	unsigned n_remotes; /* that are not freed yet */
};

/* ---- questions.c ---- */

struct questions *questions_new(unsigned per_minute); /* NULL, which permits everything, for 0 */
void questions_free(struct questions *q);             /* takes NULL */
/* Any thread. */
bool questions_take(struct questions *q, uint32_t client, int64_t now_ms);
void questions_give(struct questions *q, uint32_t client); /* it was not in vain */

/* ---- remote.c ---- */

/* Take a question of @client's budget; a refusal is counted. Any thread. */
bool remote_question(struct resolver_upstream *c, uint32_t client);

enum remote_state {
	REMOTE_ASKING,  /* no byte may be given out yet */
	REMOTE_FLOWING, /* the first bytes were checked */
	REMOTE_WHOLE,   /* all bytes are there and were checked */
	REMOTE_OVER,    /* it failed; the miss cache has the reason */
};

struct remote_waiter {
	struct ticket *ticket;
	uint64_t off;
	struct remote_waiter *next;
};

struct remote {
	struct room_claim claim; /* of its file; of the net's thread */
	struct resolver_upstream *up;
	atomic_uint refs;
	struct bytes key; /* owned */
	/* Its strings are in @arena, which belongs to net's thread during the fetch. */
	struct resolve_request what;
	struct arena arena;
	pthread_mutex_t lock;
	/* under the lock */
	enum remote_state state;
	int fd; /* the body in a file; -1: none yet; constant from FLOWING on */
	uint64_t have;
	struct err err; /* when OVER */
	struct remote_waiter *waiters;
	unsigned n_followers; /* open sources */
	bool given_up;        /* its last follower has left: a new request starts anew */
	struct net_fetch *fetch;
	/* constant from FLOWING on */
	uint64_t size;
	int64_t mtime;
	struct str file, archive, url;
	/* net's thread only */
	bool size_known, confirmed; /* the first bytes had the build ID */
};
/* See resolve_upstream_forget(). */
void remote_forget(struct resolver_upstream *c, const struct build_id *id);
/* See resolve_reading(). */
struct str remote_reading(struct resolver_upstream *c, const struct resolve_request *req, struct arena *a);
/* As resolve(), for files that are not here. */
int remote_find(struct resolver_upstream *c, const struct resolve_request *req, struct resolve_wake wake,
		struct resolve_answer *ret, struct resolve_why *why, struct err *err);
struct remote *remote_ref(struct remote *m);
/* New requests do not find it any more. Drops the table's reference. */
void remote_land(struct remote *m);
/* Put the file into the store; @arg: a struct remote, whose reference it drops. For a keeper thread. */
void remote_keep(void *arg);
void remote_unref(struct remote *m);
/* wake is called when the byte at @off is there, or never will be. Under the lock. */
void remote_await(struct remote *m, uint64_t off, struct resolve_wake wake);
/* How many bytes may be given out; under the lock. The last byte is held back until all are checked, so that
 * a wrong file is never a complete reply. */
uint64_t remote_visible(const struct remote *m);
/* A source was closed: the fetch may have no follower left. */
void remote_left(struct remote *m);

/* ---- name_hints.c ---- */

struct name_hints *name_hints_new(void);
void name_hints_free(struct name_hints *h); /* takes NULL */
/* Any thread. A text that is no path of a program's file is ignored. */
void name_hints_put(struct name_hints *h, const struct build_id *id, struct str file, enum resolve_hint by);
struct str name_hints_get(struct name_hints *h, const struct build_id *id, struct arena *a); /* empty: none */

/* ---- remote_name.c ---- */

/* The name of the program's file, from the request, files of its build ID here, or a hint. Empty: not known or not needed. */
struct str remote_name(struct resolver_upstream *c, const struct resolve_request *req, struct arena *a);

/* ---- remote_check.c: callbacks of a net_sink ---- */

int remote_check(void *remote, const struct net_reply *reply, struct bytes head, bool all, struct err *err);
int remote_verify(void *remote, struct err *err);

/* ---- remote_source.c ---- */

struct source *remote_source_new(struct remote *m); /* under the lock of @m */
int remote_arrived(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		   struct err *err);
