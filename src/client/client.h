/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client: debug information from debuginfod servers, through the cache folder that gdb, drgn, perf and
 * elfutils' own client use on this machine too.
 *
 * A request is looked up in the cache folder; a section is cut out of a cached whole file; all others are
 * fetched, many at once over few connections, checked, and put into the folder under the customary name.
 * docs/formats/client-cache.md describes the folder.
 *
 * A request has one of four outcomes; only the first two are facts about the artifact:
 * 	found	the file is here and passed all checks that are possible
 * 	absent	every server that was asked answered 404 or 410 (now, or within the last ten minutes: a
 * 		negative entry)
 * 	failed	not known: a server did not answer or lied, or this machine failed; err and why have the cause
 * 	cancelled
 *
 * A client belongs to one thread at a time. It starts no threads and no processes. It has no network state
 * before the first request that the cache folder cannot answer.
 */
#pragma once

#include "elf/elf.h"
#include "io/io.h"

struct client;

enum client_kind {
	CLIENT_DEBUGINFO,
	CLIENT_EXECUTABLE,
	CLIENT_SOURCE,  /* .name is the path, absolute or as in the DWARF */
	CLIENT_SECTION, /* .name is the name of the section */
};
const char *client_kind_name(enum client_kind kind); /* as in the URL: "debuginfo" */

struct client_request {
	enum client_kind kind;
	struct build_id id;
	/* Borrowed. Of an executable: the path or name of its file, for servers that find it by that; NULL: not known */
	const char *name;
	bool open; /* return the descriptor too; thousands of requests would run out of descriptors */
};

enum client_outcome { CLIENT_FAILED, CLIENT_FOUND, CLIENT_ABSENT, CLIENT_CANCELLED };

struct client_result {
	enum client_outcome outcome;
	int fd;         /* found, and .open was set: at offset 0; else -1 */
	char *path;     /* found: an absolute path. Owned */
	uint64_t size;  /* found */
	bool cached;    /* found: it was in the cache, or cut out of a cached file */
	char *url;      /* the URL that it was fetched from, NULL: none */
	char *headers;  /* found: "X-DEBUGINFOD-FILE: ...\n"..., NULL: none */
	int os;         /* not found: the errno for libdebuginfod's callers: ENOENT, ENOSYS, ETIME... */
	struct err err; /* not found: the cause, in one line */
	struct buf why; /* every step in order, a line each: the folder, the servers and the result of each */
};
void client_result_done(struct client_result *r);

struct client_progress {
	size_t n, n_done, n_found; /* requests */
	size_t n_unsized;          /* neither done nor of a known size yet */
	/* fetched so far; expected, as far as servers announced sizes: lower than bytes where some did not */
	uint64_t bytes, bytes_expected;
	const char *url;     /* one that is sending now, NULL: none */
	size_t n_waiting;    /* of a lode server that has not read all of its packages yet; */
	const char *reading; /* the one of these that it reads: "NAME (41 %)", printable ASCII; NULL: none */
	const char *reading_at; /* the URL of the server */
};

/* Callbacks during a call. All may be NULL. */
struct client_watch {
	void *arg;
	/* Called at least ten times a second from the start, also without any answer. A return other than 0
	 * cancels all requests that are not done. */
	int (*progress)(void *arg, const struct client_progress *p);
	/* A request is done. @r may be taken over by copying it and zeroing the original; else it stays in
	 * client_find()'s results. */
	void (*done)(void *arg, size_t i, struct client_result *r);
	/* Log of the events, a line each without newline: `debuginfod-find -v -v`. */
	void (*say)(void *arg, const char *line);
};

/*
 * Options of a client. NULL or 0: the environment at the time of each call (DEBUGINFOD_URLS, _CACHE_PATH,
 * _TIMEOUT, _RETRY_LIMIT, _MAXTIME, _MAXSIZE, _HEADERS_FILE), else the default. Borrowed; must outlive the
 * client.
 */
struct client_options {
	const char *urls; /* separated by blanks */
	const char *cache_path;
	unsigned connections; /* at once to one server; 0: the default */
	/* ask the servers also for files that others did not have, by the notes in the cache folder, and make no such note */
	bool ignore_misses;
	/* how long a lode server that has not read all of its packages yet is asked again; 0: 750 s; negative: not at all */
	int64_t unread_wait_ms;
};

struct client *client_new(const struct client_options *o); /* @o may be NULL */
void client_free(struct client *c);                        /* takes NULL */

/* Add a request header, "Name: value", for the next client_find() or client_metadata() only. ERR_INVALID when
 * it is malformed. */
int client_add_header(struct client *c, const char *line, struct err *err);
void client_forget_headers(struct client *c); /* those added; the two functions do so at their end */

/*
 * Find all @n files; results[i] is the result of requests[i], to be freed by client_result_done(). Returns 0
 * when every request has an outcome, of any kind; CLIENT_STOPPED when progress() cancelled. Without servers
 * the cache folder is searched all the same, and files not found there are ENOSYS.
 */
enum { CLIENT_STOPPED = 1 };
int client_find(struct client *c, const struct client_request *requests, size_t n,
		const struct client_watch *watch, struct client_result *results);

/*
 * Cut the section @request out of @img, a file of that build ID from elsewhere on this machine, into the
 * cache folder: it gets a path there, and later requests find it. A section that is in the folder already is
 * returned as it is. @mtime is that of @img's file. CLIENT_ABSENT: @img has no such section, or without
 * contents.
 */
void client_cut(struct client *c, const struct client_request *request, const struct elf_image *img,
		struct source *src, int64_t mtime, struct client_result *ret);

/* Metadata: `key` is file, glob or buildid. All servers are asked; found is a JSON file of {"results": [...],
 * "complete": bool}, where complete means that every server answered, each with "complete": true. */
void client_metadata(struct client *c, const char *key, const char *value, const struct client_watch *watch,
		     struct client_result *ret);
