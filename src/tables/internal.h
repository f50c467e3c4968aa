/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of symbolize share.
 *
 *   symbolizer  the table of flights, the timer, beginning and end
 *   hold        who asks: wants of one or many entries, until a deadline
 *   entry       a table or a layout that is there, or why not
 *   make        makes an entry, in steps, on the symbolizer's pool
 *   split       the .dwo and .dwp files of a debug file
 *   spool       a file out of a package, to be read at random
 *   ask         questions to a hold
 *   layout, name, reason  pure functions
 *
 * One lock, of the symbolizer, for flights and for holds that wait. Nothing is called under it that waits.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/waker.h"
#include "tables/tables.h"

#define TABLES_SIZE    MIB(512)
#define BUILDING_SIZE  (UINT64_C(1) << 30)
#define MAX_BUILDS     4096u
#define MISS_MS        15000
#define ERROR_MS       5000
#define THREADS_MAX    4u
#define MAX_SEARCHES   1024u /* flights that wait for what is being scanned */
#define ENTRY_OVERHEAD 4096u /* of memory, beside what is mapped */

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

/* What a table was made with, and what would be worth making it again. */
struct split_state {
	bool known; /* else it is of an earlier process */
	bool has_dwp;
	char *comp_dir, *name; /* heap: the first .dwo file that was not to be had; NULL: none */
};
void split_state_done(struct split_state *st);

/* Shared, and does not change but for `spoiled`. */
struct entry {
	atomic_uint refs;
	struct entry_key key;
	enum frame_reason reason; /* FRAME_FOUND, or why there is nothing */
	char why[256];
	char origin[512];                  /* of a table: what file it was made of */
	atomic_int_fast64_t good_until_ms; /* then it is made again: a miss, a failure; or, while it is used
				  on, one that lacks something. INT64_MAX: for ever */
	bool lacking;                      /* a better one may be had */
	bool searching;                    /* a miss, while something was still being scanned */
	atomic_bool spoiled;               /* a block turned out to be damaged */
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
struct entry *entry_new(const struct entry_key *key);
struct entry *entry_ref(struct entry *e);
void entry_unref(struct entry *e); /* takes NULL */
/* Use what the store has. Takes @src. */
int entry_take_source(struct entry *e, struct source *src, struct err *err);
int entry_take_bytes(struct entry *e, struct buf *b, struct err *err); /* takes the buffer's content */
void entry_fail(struct entry *e, enum frame_reason reason, const char *why, int64_t for_ms);

/* ---- flights: entries that are being made ---- */

struct build {
	struct tables *s;
	struct entry_key key;
	/* under the symbolizer's lock */
	struct waiter *waiters;
	bool queued, again; /* a step is queued or runs; and was asked for once more meanwhile */
	bool parked;        /* waits for others to be through with their large files */
	struct entry *said; /* searched for: that nobody has it, so far; held */
	enum { NOTHING_NEW, SOMETHING_NEW, REPLACED } news; /* came while it was made */
	struct build *prev, *next;
	/* the maker's */
	struct maker *maker;
	struct entry *old;   /* what it is to replace; held */
	struct waker *waker; /* of who makes it wait; waker.h's own */
};

/* One step of making it, up to where it has to wait. NULL: it waits, and build_kick() will be called. Else
 * the entry, with one hold. */
struct entry *make_step(struct build *f);
void make_drop(struct build *f); /* what it holds */
/* Of what was made before nothing is kept in the store any more. */
void make_forget(struct tables *s, const struct build_id *id);

/* ---- split ---- */

/* Those of @img, which is the answer @debug. NULL: it has none. */
struct splits *splits_new(struct tables *s, const struct build_id *id, const struct elf_image *img,
			  const struct resolve_answer *debug);
void splits_free(struct splits *t); /* takes NULL, as all these do */
const struct dwarf_split *splits_finder(const struct splits *t);
/* When the table is made. */
struct split_state splits_take_state(struct splits *t);
/* Are there any that were missing then? */
bool splits_are_better(struct splits *t, const struct split_state *before);

/* ---- spool ---- */

/*
 * A copy of @src in a file without a name in @dir; of @img, if there is one, which lies in @src, only what a
 * table may be made of.
 */
int tables_copy(struct source *src, const struct elf_image *img, const char *dir, const atomic_bool *cancel,
		struct source **ret, struct err *err);

/* ---- symbolizer ---- */

struct waiter {
	struct tables_request *request;
	/* under the lock: */
	struct build *build;
	struct waiter *prev, *next; /* of the same flight */
	/* */
	struct entry *entry; /* when it is there */
};

struct tables {
	struct tables_options opts;
	char *temp_dir;
	struct pool *pool;
	struct lru *entries; /* of struct entry */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct map builds; /* key -> struct build */
	struct build *first_build;
	unsigned n_builds;
	unsigned n_searches;            /* flights that have `said` */
	struct tables_request *waiting; /* holds with a deadline */
	uint64_t building;              /* bytes of files that tables are made of now */
	unsigned n_building;
	bool stopping, closing;
	/* */
	pthread_t timer;
	bool has_timer;
	atomic_bool cancel; /* what is being made will not be wanted */
	atomic_uint_fast64_t n_made, n_from_store, n_failed, n_replaced, n_wanted, n_hits;
};

struct tables_request {
	struct tables *s;
	size_t n;
	unsigned per_id;        /* wants of each build ID: table, layout */
	bool unscanned;         /* TABLES_UNSCANNED */
	struct waiter *waiters; /* n * per_id: tables, then layouts */
	struct build_id *ids;
	struct symtab_finder **finders;
	struct symtab_frames frames; /* of the last answer */
	void (*ready)(void *arg);
	void *arg;
	int64_t deadline_ms;
	/* under the lock */
	size_t n_missing;
	bool listed;
	struct tables_request *prev, *next;
	enum frame_reason none_because; /* of wants without an entry */
};

/* The entry as it is now, held; NULL: it is not known. */
struct entry *tables_peek(struct tables *s, const struct entry_key *key, bool *ret_refresh);
/*
 * Under the lock: add @w to the flight of @key, or start it; @w NULL: nobody waits. FRAME_PENDING: it
 * waits; BUSY; FOUND: it is in w->entry by now.
 */
enum frame_reason tables_await(struct tables *s, const struct entry_key *key, struct waiter *w);
/* Run another step. Under the lock. */
void build_kick(struct build *f);
/* Room for making a table of a file of @size bytes. false: it waits, and is kicked. Not under the lock. */
bool building_begin(struct build *f, uint64_t size);
void building_end(struct tables *s, uint64_t size);

/* ---- hold ---- */

/* Under the lock: take it out of the list of those that wait, and its wants out of their flights. */
void request_unlist(struct tables_request *h);
