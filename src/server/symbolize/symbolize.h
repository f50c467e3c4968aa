/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses to frames over HTTP: what its files share.
 *
 *   symbolize.c  handlers: a request is parsed, its tables are requested, it is answered
 *   ask.c        shared by the forms
 *   json.c       POST /symbolize, GET /buildid/ID/symbolize
 *   binary.c     the compact form of the first
 *   v5.c         POST /symbolicate/v5, the form of Mozilla's tools
 *   pprof.c      /symbolz, the form of pprof
 *
 * A worker parses the request, requests the tables, and returns. When they are there, or the deadline is
 * over, a worker writes the reply. No thread waits meanwhile.
 *
 * A long reply is written in chunks: when the client has taken one, a worker writes the next. So a client that does
 * not read holds the parsed request, its tables and one chunk. All of this memory is granted by the budget.
 */
#pragma once

#include "base/json.h"
#include "server/internal.h"
#include "server/json.h"
#include "tables/tables.h"

#define ASK_MAX_BODY   MIB(16)
#define ASK_MAX_BODIES MIB(256) /* of all bodies in memory */
#define ASK_MAX_IDS    4096u
#define ASK_MAX_MAPS   65536u
#define ASK_MAX_ADDRS  200000u
#define ASK_MAX_REPLY  MIB(128)
#define ASK_MAX_ANSWER MIB(1) /* of one address */
#define ASK_CHUNK      MIB(1) /* the first chunk has about so many bytes; a reply up to this has a length */
#define ASK_CHUNK_MOST MIB(8) /* later ones, as far as the budget has them */
#define ASK_TIMEOUT_MS 20000  /* unless the request has another */
#define ASK_MAX_STRING 4096u
#define ASK_MAX_LISTS \
	(ASK_MAX_ADDRS + ASK_MAX_MAPS + 2 * ASK_MAX_IDS) /* lists and objects in a body of JSON */
#define ASK_MAX_VALUES (2u << 20)

struct ask;

struct ask_form {
	/* Parse the body into the ask. ERR_INVALID, ERR_LIMIT: 400, 413, with the text. */
	int (*parse)(struct ask *a, struct err *err);
	/* Begin the reply in a->out; returns its type. NULL: the form writes all at its end, and has no parts. */
	const char *(*begin)(struct ask *a);
	/* Make one answer; @i is the index in a->queries. Those of a chunk come in any order. */
	void (*answer)(void *ask, size_t i, const struct tables_answer *ans);
	/* Write answer @i into a->out: each once, in their order. */
	void (*put)(struct ask *a, size_t i);
	/* Write the end of the reply into a->out; returns its type. */
	const char *(*end)(struct ask *a);
	/*
	 * Free what a->own holds outside of the arena, whether or not the reply has ended: the client may hang up, and the
	 * deadline may pass, before that. NULL: it holds nothing.
	 */
	void (*drop)(struct ask *a);
};
extern const struct ask_form ask_json, ask_get, ask_binary, ask_v5, ask_pprof;

struct ask {
	struct request *req; /* NULL: in fuzzing */
	struct arena *arena;
	const struct ask_form *form;
	struct build_id path_id; /* of the path; empty: none */
	struct bytes body;       /* borrowed */
	/* The parsed request; in the arena. */
	struct build_id *ids;
	struct str *files; /* paths or names of these modules; NULL: the form has none */
	struct tables_query *queries;
	size_t n_ids, n;
	unsigned request_flags;
	int64_t timeout_ms;
	enum frame_demangling demangling;
	bool discriminators;
	void *own; /* of the form */
	/* The answer. */
	struct tables_request *request;
	struct deadline deadline;
	bool passes; /* a later request may have a better answer for some */
	/* The chunk at hand: the answers of queries from `first` on. */
	size_t first, n_chunk;
	uint64_t chunk_bytes; /* about so many are to be written */
	struct buf parts;     /* in the order in which they come */
	struct ask_part {
		size_t off, size;
	} * at;                  /* the part of each, in `parts` */
	struct json_writer json; /* writes into `out` */
	struct buf out;          /* to be sent from `n_sent` on */
	size_t n_sent;
	bool too_long;   /* the answers of the chunk are dropped: it is repeated with fewer of them */
	uint64_t n_made; /* bytes of parts of earlier chunks */
	bool ended;      /* `out` has the end of the reply */
	bool cut;        /* the next chunk could not be written in time */
	struct budget_hold hold;
	uint64_t held, tree_size; /* of it; tree_size: while the body is parsed */
};

/* ---- handlers ---- */

/* The row's `arg`: the ask_form; NULL: ask_json or ask_binary, by the Content-Type. */
extern const struct http_handler symbolize_post;
extern const struct http_handler symbolize_get;       /* /buildid/ID/symbolize */
extern const struct http_handler symbolize_pprof_get; /* /symbolz */
extern const struct http_body symbolize_body;

/* ---- for the forms ---- */

/* Begin and end the part of answer @i. */
void ask_part_begin(struct ask *a, size_t i);
void ask_part_end(struct ask *a, size_t i);
struct str ask_part(const struct ask *a, size_t i); /* the part of answer @i */
bool ask_is_full(const struct ask *a);              /* the reply would get too long */
/* The part at hand is longer than an answer may be. */
bool ask_part_is_full(const struct ask *a, size_t i);
/*
 * Write the next chunk into a->out, which is empty: at least one answer, or the end. *ret_type: of the reply; known
 * with the first chunk. ERR_CANCELLED: the deadline has passed.
 */
int ask_write_chunk(struct ask *a, const char **ret_type, struct err *err);

/*
 * Parse the body as JSON. A body that would take much more memory than it has bytes is ERR_LIMIT. NULL:
 * err.
 */
json_t *ask_load_json(struct ask *a, struct err *err);
/* A number, or text such as "0x10" or "16", since numbers of JSON have less than 64 bits. */
bool ask_number(const json_t *j, uint64_t *ret);
bool ask_number_text(struct str s, bool hex, uint64_t *ret);
/*
 * Count the work of writing @f: an address may have thousands of frames, with names of 64 KiB. true: the deadline has
 * passed; the chunk is dropped, so nothing more has to be written into it.
 */
bool ask_frame_is_late(struct ask *a, const struct symtab_frame *f);
/* "function":NAME and "file":PATH */
void ask_put_name(const struct ask *a, const struct symtab_frame *f, struct json_writer *w);
void ask_put_path(const struct symtab_frame *f, struct json_writer *w);

/* The client's name for the file of a build ID: for resolve_name_hint(). */
void ask_hint_name(const struct ask *a, const struct build_id *id, struct str file);
/* The build ID that begins with these bytes; false: there is none, or several. */
bool ask_complete_id(struct server *s, struct bytes prefix, struct build_id *ret);
