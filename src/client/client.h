/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client: debug information from debuginfod servers, by way of the cache folder that gdb, drgn, perf and
 * elfutils' own client use on this machine too.
 *
 * A want is looked up in the cache folder; a section is cut out of a whole file that lies there; what remains
 * is fetched, many at once over few connections, checked, and put into the folder under the customary name.
 * docs/formats/client-cache.md tells of the folder.
 *
 * What is told about a want is one of four things, and only the first two are facts about the artifact:
 *	found	here it is, and it is what was asked for as far as that can be known
 *	absent	every server that was asked said 404 or 410 (or one of them did within the last ten minutes: a
 * negative entry)
 *	failed	it is not known: a server did not answer, lied, or this machine failed; err and why say what
 *	cancelled
 *
 * A client belongs to one thread at a time. It starts no threads and no processes. Before the first want that
 * is not in the cache folder it has no network state at all.
 */
#pragma once

#include "elf/elf.h"
#include "io/io.h"

struct client;

enum client_kind {
	CLIENT_DEBUGINFO,
	CLIENT_EXECUTABLE,
	CLIENT_SOURCE,  /* .name is the path, absolute or as the DWARF has it */
	CLIENT_SECTION, /* .name is the section's */
};
const char *client_kind_name(enum client_kind kind); /* as in the URL: "debuginfo" */

struct client_request {
	enum client_kind kind;
	struct build_id id;
	const char *name; /* borrowed */
	bool open;        /* also give the descriptor; of thousands one would run out */
};

enum client_outcome { CLIENT_FAILED, CLIENT_FOUND, CLIENT_ABSENT, CLIENT_CANCELLED };

struct client_result {
	enum client_outcome outcome;
	int fd;         /* found, and .open was set: at offset 0; else -1 */
	char *path;     /* found: an absolute path. Owned */
	uint64_t size;  /* found */
	bool cached;    /* found: it was there already, or cut out of what was */
	char *url;      /* where it came from, NULL: nowhere */
	char *headers;  /* found: "X-DEBUGINFOD-FILE: ...\n"..., NULL: none */
	int os;         /* not found: the errno that libdebuginfod's callers know: ENOENT, ENOSYS, ETIME... */
	struct err err; /* not found: why, in one line */
	struct buf why; /* every step in order, a line each: the folder, the servers and what each said */
};
void client_result_done(struct client_result *r);

struct client_progress {
	size_t n, n_done, n_found;      /* wants */
	size_t n_unsized;               /* that are neither done nor of a known size yet */
	uint64_t bytes, bytes_expected; /* fetched; expected as far as servers have said: less than bytes
					   where some did not */
	const char *url;                /* one that delivers now, NULL: none does yet */
};

/* What a caller wants to see meanwhile. All may be NULL. */
struct client_watch {
	void *arg;
	/* At least ten times a second from the start, also while nobody answers. Non-zero cancels all that is
	 * not done. */
	int (*progress)(void *arg, const struct client_progress *p);
	/* A want is done; @r may be taken over by copying it and zeroing the original, else it stays in
	 * client_find()'s results. */
	void (*done)(void *arg, size_t i, struct client_result *r);
	/* What happens, a line each without newline: `debuginfod-find -v -v`. */
	void (*say)(void *arg, const char *line);
};

/*
 * What a client works by. NULL or 0: what the environment says at the time of each call (DEBUGINFOD_URLS,
 * _CACHE_PATH, _TIMEOUT, _RETRY_LIMIT, _MAXTIME, _MAXSIZE, _HEADERS_FILE), and where that says nothing the
 * usual. Borrowed; must outlive the client.
 */
struct client_options {
	const char *urls; /* separated by blanks */
	const char *cache_path;
	unsigned connections; /* at once to one server */
};

struct client *client_new(const struct client_options *o); /* @o may be NULL */
void client_free(struct client *c);                        /* takes NULL */

/* A request header, "Name: value", for the next client_find() or client_metadata() only. ERR_INVALID when it
 * is none. */
int client_add_header(struct client *c, const char *line, struct err *err);

/*
 * Find all @n wants; results[i] is that of wants[i], to be undone by client_result_done(). Returns 0 when
 * every want has a result, whichever; CLIENT_STOPPED when progress() cancelled. Without servers to ask the
 * cache folder is looked into all the same, and what is not there is ENOSYS.
 */
enum { CLIENT_STOPPED = 1 };
int client_find(struct client *c, const struct client_request *wants, size_t n,
		const struct client_watch *watch, struct client_result *results);

/*
 * The section @want cut out of @img, a file of that build ID which lies elsewhere on this machine, into the
 * cache folder: there it has a path, and is found from now on. What is in the folder already is taken. @mtime
 * is that of @img's file. CLIENT_ABSENT: it is not in
 * @img, or has no contents there.
 */
void client_cut(struct client *c, const struct client_request *want, const struct elf_image *img,
		struct source *src, int64_t mtime, struct client_result *ret);

/*
 * Metadata: `key` is file, glob or buildid. All servers are asked; found is a JSON file of {"results": [...],
 * "complete": bool}, complete only if every server answered and said so.
 */
void client_metadata(struct client *c, const char *key, const char *value, const struct client_watch *watch,
		     struct client_result *ret);
