/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of tables, each of which calls only those below it:
 *
 *   tables   options, start and end
 *   timer    requests whose deadline has come; builds that wait for a scan, or for other servers
 *   find     addresses asked of a request
 *   request  the tables of some build IDs for one caller, until a deadline
 *   build    one table being built: started once, waited for by many, handed out
 *   local    a table of the files that are here, while a build waits for other servers
 *   make     the stages of a build
 *   fetch    a file, from the resolver
 *   split    the split files of a debug file
 *   stored   tables in the store
 *   budget   the memory of builds
 *   copy     a file out of a package, made one that can be read at random
 *   lacking  which tables lack which supplementary file
 *   waiters  which request waits for which build
 *   cache    the LRU of entries
 *   entry    a table or a layout, or why there is none
 *
 * One lock, of struct tables, for builds and for waiting requests. Nothing that waits is called under it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/map.h"
#include "base/task.h"
#include "companion/companion.h"
#include "tables/tables.h"

/* ---- entry ---- */

enum entry_kind { ENTRY_TABLE, ENTRY_LAYOUT };

struct entry_key {
	uint8_t kind; /* enum entry_kind */
	struct build_id id;
};
static inline struct bytes entry_key_bytes(const struct entry_key *k)
{
	return bytes_of(k, offsetof(struct entry_key, id.b) + k->id.size);
}

/* The split files that a table was built with, and one that would be worth building it again. */
struct split_state {
	bool known; /* false: the table is of an earlier process */
	bool has_dwp;
	char *comp_dir, *name; /* heap: the first .dwo file that was missing; NULL: none */
	uint64_t id;           /* of its unit */
};
void split_state_done(struct split_state *st);

/* Shared; only `good_until_ms`, `no_debug`, `spoiled` and `replaced` change. */
struct tables_entry {
	atomic_uint refs;
	struct entry_key key;
	enum frame_reason reason; /* FRAME_FOUND, or why there is nothing */
	char why[256];
	char origin[512]; /* of a table: the file it was built of */
	/* a supplementary or a split file, or the program with Go's table, that was not here; "": none, or not known */
	char missing[256];
	/* After that time it is built again: a miss, a failure; or, while it is used on, a table that lacks
	 * something. INT64_MAX: never. */
	atomic_int_fast64_t good_until_ms;
	bool lacking;    /* a better one may turn up, or can be made by now */
	bool incomplete; /* a table: parts were left out, since memory was not granted */
	bool searching;  /* a miss, while a scan was still running */
	/* of a table without a debug file: enum frame_reason of the last search for one; FRAME_FOUND: not known */
	atomic_int no_debug;
	atomic_bool spoiled;  /* a block turned out to be damaged */
	atomic_bool replaced; /* its file has become another: it answers until the table of that is made */
	size_t weight;
	/* of a table */
	struct symtab *table;
	struct split_state split;
	struct buf made;    /* its bytes are here, */
	struct source *src; /* or here, */
	void *mapped;       /* or mapped */
	size_t mapped_size;
	/* of a layout */
	struct frame_layout *layout;
};
struct tables_entry *entry_new(const struct entry_key *key);
struct tables_entry *entry_ref(struct tables_entry *e);
void entry_unref(struct tables_entry *e); /* takes NULL */
/* Use a table of the store. Takes @src. */
int entry_take_source(struct tables_entry *e, struct source *src, struct err *err);
int entry_take_bytes(struct tables_entry *e, struct buf *b, struct err *err); /* takes the buffer's content */
void entry_expire_in(struct tables_entry *e, int64_t ms);
bool entry_is_expired(const struct tables_entry *e);
/* Note whether something would be better than this table, if it turned up: to be looked for in @ms. */
void entry_note_lacking(struct tables_entry *e, int64_t ms);
/* It can be used: a table, or a layout. */
bool entry_is_usable(const struct tables_entry *e);

/* ---- cache ---- */

struct lru *cache_new(size_t size);
/* The entry as it is, with a reference; NULL: none. */
struct tables_entry *cache_get(struct tables *t, const struct entry_key *key);
/* The entry, if it can answer; NULL: it has to be built. *ret_refresh: a better one may be there by now. */
struct tables_entry *cache_peek(struct tables *t, const struct entry_key *key, bool *ret_refresh);
void cache_put(struct tables *t, struct tables_entry *e); /* in place of the one that is there */
/* The same, unless one is there: that one. Takes @e, returns a reference. */
struct tables_entry *cache_put_absent(struct tables *t, struct tables_entry *e);

/* ---- lacking: all under the lock ---- */

/* The table of @id lacks the supplementary file @alt; it does not any more. */
void lacking_note(struct tables *t, const struct build_id *alt, const struct build_id *id);
void lacking_forget(struct tables *t, const struct build_id *alt, const struct build_id *id);
/* The tables that lack @alt, which are forgotten: free() the list. */
struct build_id *lacking_take(struct tables *t, const struct build_id *alt, size_t *ret_n);
void lacking_done(struct tables *t);

/* ---- waiters ---- */

/* One entry that a request needs. */
struct waiter {
	struct tables_request *request;
	/* under the lock: */
	struct build *build;
	struct waiter *prev, *next; /* of the same build */
	bool out;                   /* counted in n_out */
	/* */
	struct tables_entry *entry; /* when it is there */
};
/* All under the lock. */
void waiter_add(struct waiter *w, struct build *b);
void request_list(struct tables_request *req);   /* among those that wait for a deadline */
void request_unlist(struct tables_request *req); /* and take its waiters out of their builds */
enum waiters_group {
	WAITERS_ALL,
	WAITERS_UNSEARCHING, /* that do not wait for the scan */
	WAITERS_EARLY,       /* TABLES_EARLY */
};
/*
 * Complete those waiters of @b with @e. Returns the requests that are ready now, as a list. *ret_hungry: those that may
 * ask for more builds, likewise.
 */
struct tables_request *waiters_complete(struct build *b, struct tables_entry *e, enum waiters_group group,
					struct tables_request **ret_hungry);
bool waiters_await_scan(const struct build *b); /* some do */
/* Not under the lock: call ready() of all in a list. A request may be freed by it. */
void requests_ready(struct tables_request *list);

/* ---- build ---- */

/* What turned up while a build ran. */
enum build_news { NEWS_NONE, NEWS_FILE, NEWS_REPLACED };

struct build {
	struct tables *tables;
	struct entry_key key;
	struct task task;
	/* under the lock */
	struct waiter *waiters;
	bool parked;               /* waits for memory */
	struct tables_entry *miss; /* waits for a scan: the miss to report meanwhile; with a reference */
	enum build_news news;
	bool was_replaced; /* its file, since the build began; set by the step that runs */
	struct build *prev, *next;
	/* A local build makes the entry of @whole of the files here; NULL: @whole has ended. */
	bool is_local;
	struct build *whole;
	/* Of a build that is not local: */
	struct build *local;
	bool had_local;
	int64_t local_at_ms; /* when to start one; 0: not */
	/* of the step that runs */
	struct build_making *making;
	struct tables_entry *old; /* to be replaced; with a reference */
	struct budget_hold memory, disk;
	struct build_refusals {
		bool busy, limit; /* of `memory` and `disk`, while the table was built */
	} refusals;
};
/*
 * Under the lock: add @w to the build of @key, or start one; @w NULL: nothing waits. FRAME_PENDING: it waits;
 * FRAME_BUSY; FRAME_FOUND: the entry is in w->entry.
 */
enum frame_reason build_await(struct tables *t, const struct entry_key *key, struct waiter *w);
/* A request of a client waits for it, or did. */
static inline bool build_is_for_client(const struct build *b)
{
	return atomic_load(&b->task.cls) == POOL_URGENT;
}
/* Start the build of @key. @req: that asks for it; NULL: none waits. */
struct build *build_start(struct tables *t, const struct entry_key *key, struct tables_entry *old,
			  const struct tables_request *req);
/* Under the lock: waiters_complete(), and the requests that may ask for more builds do so. */
struct tables_request *build_complete(struct build *b, struct tables_entry *e, enum waiters_group group);
/* It is not in the list of builds any more: end it. */
void build_free(struct build *b);
/* The entry in the LRU, also one that is expired, else the table in the store; NULL: neither. Not under the lock. */
struct tables_entry *build_take_at_hand(struct tables *t, const struct entry_key *key);

/*
 * Under the lock: ask for the builds of further waiters of @req, so that at most BUILDS_OUT of them wait at once
 * (@waits false: none waits, and so many are started). One request with thousands of build IDs then leaves room for
 * the builds of others, here and at upstream servers.
 */
void builds_ask(struct tables_request *req, bool waits);
#define BUILDS_OUT 32u

/* ---- make ---- */

/* ---- local: all under the lock ---- */

/* A step of @b waits for a file. */
void local_expect(struct build *b);
/* @b ends, or begins again: what its local build makes is not needed. */
void local_forget(struct build *b);
/* The local build @b: the build that it is for has no better entry, and does not begin again with another file. */
bool local_is_wanted(const struct build *b);
/* Start those that are due. */
void local_start_due(struct tables *t, int64_t now_ms, int64_t *next_ms);
/* Not under the lock. The end of a local build with @e, which it takes. */
void local_end(struct build *b, struct tables_entry *e);

/* ---- make ---- */

/* The outcome of a stage, and of all that a stage does. */
enum make_outcome {
	MAKE_DONE,
	MAKE_WAITS,   /* the build's task will be kicked */
	MAKE_MISSING, /* there is no such thing, or it cannot be used: a struct make_failure says why */
};
struct make_failure {
	enum frame_reason reason; /* FRAME_FOUND: none */
	struct err err;
};

/* Go on with a build, up to where it has to wait. MAKE_DONE: *ret is the entry, with one reference. */
enum make_outcome make_step(struct build *b, struct tables_entry **ret);
void make_drop(struct build *b); /* forget all that the build has gathered */

/* ---- fetch ---- */

/* A file, found by the resolver. */
struct fetched {
	struct resolve_answer answer;
	struct source *src;
	struct budget_hold copies; /* the disk space of @src, if that is a copy */
	struct elf_image *img;
	bool dynsym; /* before a fetch: a debug file with dynamic symbols alone, of the store */
};
void fetched_done(struct fetched *t);
/* Find the file of a build ID; all its bytes are here, in @t->src. @a is of what @t->answer has. */
enum make_outcome fetch_source(struct build *b, struct fetched *t, enum resolve_kind kind,
			       const struct build_id *id, struct arena *a, struct make_failure *ret);
/* The same, opened as ELF. */
enum make_outcome fetch_elf(struct build *b, struct fetched *t, enum resolve_kind kind,
			    const struct build_id *id, struct arena *a, struct make_failure *ret);
/* The reason for an error of the resolver, of one of its sources, or of the work on them. */
enum frame_reason fetch_reason_of(const struct err *err);
/* Copy the parts of @t that a table is built of into a file of ours, if it is not raw on disk. @t->img may be
 * NULL: then there is nothing to do. */
int fetched_make_random(struct build *b, struct fetched *t, struct err *err);

/* ---- split ---- */

/* The split files of @img, which the resolver found as @debug. NULL: it needs none. */
struct splits *splits_new(struct tables *t, const struct build_id *id, const struct elf_image *img,
			  const struct resolve_answer *debug);
void splits_free(struct splits *x); /* takes NULL, as all these do */
const struct dwarf_split *splits_finder(const struct splits *x);
/* After the table was built. */
struct split_state splits_take_state(struct splits *x);
/* Files that were missing then are here. */
bool splits_are_better(struct splits *x, const struct split_state *before);

/* ---- stored ---- */

/* The table in the store; NULL: none, or it cannot be used. @a: for the bytes read. */
struct tables_entry *stored_open(struct tables *t, const struct entry_key *key, struct arena *a);
/* Keep the table of @e in the store; one that cannot be kept stays in memory. */
void stored_put(struct tables *t, const struct tables_entry *e, const struct resolve_answer *made_of);
/* Remove the table of a build ID whose file has been replaced. */
void stored_forget(struct tables *t, const struct build_id *id);
void stored_set_origin(struct tables_entry *e, struct str file, struct str archive);

/* ---- budget ---- */

/* Before a table is built of files of @size bytes together: set b->memory and b->disk. false: the build is parked,
 * and kicked later. Not under the lock. */
bool build_memory_begin(struct build *b, uint64_t size);
/* After it: return them. @again: memory was used up, and the build is to be repeated; true: it is parked, false: no
 * other build is running, so memory is used up by other work. */
bool build_memory_end(struct build *b, bool again);
/* The budget of temporary copies in @dir. */
struct budget *build_disk_new(const char *dir);

/* ---- copy ---- */

/*
 * A copy of @src in a file without a name in @dir; of @img, if there is one, which is in @src, only the parts
 * that a table may be built of. @o->disk grants its space; the caller returns it after closing the copy.
 */
struct copy_options {
	const char *dir;
	struct budget_hold *disk;  /* NULL: no limit */
	const atomic_bool *cancel; /* NULL: it cannot be cancelled */
	struct room *room;         /* free space that is left alone; NULL: none */
};
int tables_copy(struct source *src, const struct elf_image *img, const struct copy_options *o,
		struct source **ret, struct err *err);

/* ---- timer ---- */

int timer_start(struct tables *t);
void timer_join(struct tables *t);
/* Under the lock: the requests whose deadline has come, as a list. *ret_next_ms: when to look again. */
struct tables_request *timer_expire(struct tables *t, int64_t *ret_next_ms);

/* ---- tables, request ---- */

struct tables {
	struct tables_options opts;
	char *temp_dir;
	struct pool *pool;
	/*
	 * Of struct tables_entry. Layouts are apart: they are small, cannot be kept in the store, and a few large
	 * tables must not drive them out.
	 */
	struct lru *entries, *layouts;
	struct budget *disk; /* of temporary copies */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct map lacking; /* build ID of a supplementary file -> struct lacking */
	size_t n_lacking;
	struct map builds; /* key -> struct build */
	struct build *first_build;
	unsigned n_builds;
	unsigned n_searches;            /* builds that have `miss` */
	unsigned n_expecting;           /* builds that have `local_at_ms` */
	uint64_t n_replacements;        /* of files, by tables_renew() */
	struct tables_request *waiting; /* requests with a deadline */
	unsigned n_building;            /* tables that are built now */
	bool stopping, closing;
	/* */
	pthread_t timer;
	bool has_timer;
	atomic_bool cancel; /* the results of running builds will not be needed */
	atomic_uint_fast64_t n_made, n_from_store, n_failed, n_replaced, n_wanted, n_hits;
};

struct tables_request {
	struct tables *tables;
	size_t n;
	unsigned per_id;        /* waiters of each build ID: table, layout */
	bool unscanned;         /* TABLES_UNSCANNED */
	bool early;             /* TABLES_EARLY */
	struct waiter *waiters; /* n * per_id: tables, then layouts */
	struct build_id *ids;
	/*
	 * Of one table at a time, and only while addresses are asked for: it may hold all names of a block, which
	 * `names` grants. NULL: none.
	 */
	struct symtab_finder *finder;
	struct budget_hold names;
	const struct symtab *finder_table; /* that of `finder` */
	struct symtab_frames frames;       /* of the last answer */
	struct deadline *deadline;         /* NULL: none */
	void (*ready)(void *arg);
	void *arg;
	int64_t deadline_ms;
	/* under the lock */
	size_t n_missing;
	size_t n_asked; /* waiters before this one have their entry or their build, or need none */
	size_t n_out;   /* waiters in builds that do not wait for a scan */
	bool listed;
	bool hungry; /* in the list of waiters_complete() */
	struct tables_request *next_hungry;
	struct tables_request *prev, *next;
	enum frame_reason none_because; /* of waiters without an entry */
};

/* The key of the @i-th waiter. */
static inline struct entry_key request_key(const struct tables_request *req, size_t i)
{
	return (struct entry_key){ .kind = i < req->n ? ENTRY_TABLE : ENTRY_LAYOUT,
				   .id = req->ids[i % req->n] };
}
/* The entry of the layout of the @i-th build ID; NULL: it was not asked for, or is not here. */
static inline const struct tables_entry *request_layout(const struct tables_request *req, size_t i)
{
	return req->per_id > 1 ? req->waiters[req->n + i].entry : NULL;
}
/* Free the memory of addresses that were asked for. Without the lock. */
void request_drop_finder(struct tables_request *req);
