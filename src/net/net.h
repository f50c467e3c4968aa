/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net: an HTTP client for debuginfod servers.
 *
 * A *fetch* gets one artifact from an ordered list of servers. They are asked with a hedge: the next server
 * is asked when the one before has not answered soon, at once when it failed. The first reply that passes its
 * check wins. A winner that stalls or breaks off is replaced by another server (or asked once more), which
 * continues at the same position: by Range where that server supports it, by skipping the bytes already
 * written where it does not, from the start where the sizes differ. A *call* is one plain request to one URL.
 *
 * All work is done in a loop, net_run(). Either the owner of the struct net runs it on its own thread (a
 * command, a library), or net_start_thread() gives it a thread (a service). Callbacks come from the loop:
 * they must not block for long. Of a body only the head, until it is checked, and one chunk of 16 KiB are held
 * in memory. All other functions may be called from any thread, also from callbacks.
 *
 * Each server has a *breaker*: a server that cannot be connected, or does not answer, is passed over for a
 * while, longer each time (for a second where the connection is refused); then one request probes it. 429,
 * and 503 with a Retry-After, do the same for the time that the server asks for. A lode server that has not read all of
 * its files says so: that is no miss, and not about other files. It is asked again, beside the others, until it knows, for
 * a time that is bounded (then os EAGAIN); such fetches take no turn from others.
 */
#pragma once

#include "base/budget.h"
#include "base/base.h"

/* ---- lists of servers ---- */

#define NET_URL_MAX     16384u /* the path of a source, 4096 bytes, escaped */
#define NET_SERVERS_MAX 64u

/*
 * Parse the value of DEBUGINFOD_URLS: URLs separated by blanks (and commas, if @commas). The scheme may be
 * http (the default), https or file, with the prefix of a kind of server other than debuginfod (net_url_layout());
 * slashes at the end are removed; duplicates are dropped silently. unix:/PATH is a
 * server on a Unix socket; its URL becomes http+unix://, with the escaped path as the host, which may also be given. A token
 * that is not a valid URL is noted with the reason, and the others are used. Signatures are not checked:
 * servers after "ima:enforcing" are noted as not asked, until "ima:permissive" (noted as ignored) or
 * "ima:ignore".
 */
struct net_url_note {
	struct str token; /* printable: at most 80 bytes, control characters and passwords replaced */
	const char *text; /* "not a URL: ...", "not asked: ...", static */
	bool ignored;     /* harmless: a known option that is not supported */
};
struct net_url_list {
	const char **urls; /* in the arena, like all pointers here */
	size_t n;
	struct net_url_note *notes;
	size_t n_notes;
};
void net_urls_parse(struct str text, bool commas, struct arena *a, struct net_url_list *ret);
/* Append @s to a path, percent-escaped as elfutils' client does it: all but letters, digits, "-._~", and '/'
 * if @slashes. */
void net_escape(struct buf *out, struct str s, bool slashes);
/*
 * Whether a server that gets @path, also one that decodes it more than once or takes a backslash for a slash,
 * stays below the path of its URL: no segment is "..", and no byte 0. A fetch of another path fails.
 */
bool net_path_is_inside(struct str path);
/* Append the path of a source file as net_escape() does, canonical, without slashes at the start. Servers find
 * a source by its canonical path, too (elfutils since 2020). false: no server may be asked for it, since the
 * path would not be inside. */
bool net_escape_source(struct buf *out, struct str path);
/* A date of HTTP (RFC 9110), in seconds since 1970; false: not a date. */
bool net_date(struct str s, int64_t *ret);
/* The value of the first header @name in @lines, each "Name: value\n", as answers have them; p NULL: there is none. */
struct str net_header(struct str lines, const char *name);
/* A URL to be shown: without user and password; of a Unix socket as unix:/PATH. */
struct str net_url_shown(struct str url, struct arena *a);

/* ---- kinds of servers ---- */

enum net_layout {
	NET_DEBUGINFOD,
	NET_SSQP,    /* ssqp+https://: Microsoft's, by SSQP's keys for ELF files */
	NET_TREE,    /* tree+https://: a folder with .build-id/xx/yyyy.debug, or its .build-id */
	NET_UNIFIED, /* unified+https://: Symbolicator's xx/yyyy/debuginfo */
};
/* The kind of the server @url, as from net_urls_parse(); *ret_plain: its URL without the prefix. */
enum net_layout net_url_layout(const char *url, const char **ret_plain);

/* A file that is wanted. */
enum net_file_kind { NET_FILE_DEBUGINFO, NET_FILE_EXECUTABLE, NET_FILE_OTHER };
struct net_file {
	enum net_file_kind kind;
	struct str id;   /* its build ID in hex */
	struct str name; /* of a program's file, if it is known; empty: not */
};
/* Why a server of a kind other than debuginfod is not asked for a file. */
enum net_unasked {
	NET_ASKED,
	NET_OTHER_KIND, /* the request has no form for servers of its kind */
	NET_WHOLE_ONLY, /* it has no sections and sources */
	NET_NEEDS_NAME, /* the name of the program is not known */
	NET_SHORT_ID,
};
/*
 * Append the path of @f below @plain, the URL without prefix of a server of @layout, a kind other than debuginfod; escaped.
 * Otherwise the reason why that server cannot have it.
 */
enum net_unasked net_layout_path(enum net_layout layout, const char *plain, const struct net_file *f,
				 struct buf *out);

/* ---- the loop ---- */

struct net;

/*
 * Redirects that are followed, at most 6 in a row. Never followed are those from https to http, and those from
 * a server with a public address to one with a private address (loopback, link-local, RFC 1918, ...).
 */
enum net_redirects {
	/* same scheme, host and port; or from http to https, both at their usual port. Servers of SSQP redirect to
	 * the hosts of their files: from ssqp+https:// any host */
	NET_REDIRECT_SAME_HOST,
	NET_REDIRECT_ANY_HOST,
};

struct net_options {
	const char *user_agent; /* NULL: lode/VERSION */
	const char *ca_file;    /* PEM; NULL: $SSL_CERT_FILE, else the system's */
	const char *ca_setting; /* for advice: the user's name of that setting; static. NULL: SSL_CERT_FILE */
	unsigned max_fetches;   /* fetches that run at once; others wait in order. 0: 16 */
	unsigned max_per_server; /* connections to one server. 0: 8 */
	/* how long a server is passed over after its first failure; then twice as long, ... 0: 10 s */
	unsigned breaker_first_ms;
	unsigned breaker_max_ms; /* ... up to here. 0: 300 s */
	enum net_redirects redirects;
	unsigned max_kept; /* connections that are kept open for later requests; 0: 32 */
	const char *proxy; /* for all requests; NULL: the environment's */
};

int net_new(const struct net_options *opts, struct net **ret, struct err *err); /* @opts may be NULL */
/* Cancels all fetches and calls (done is called for each), ends the thread, closes the connections. Takes
 * NULL. */
void net_free(struct net *n);
/* Do the work that is due; if there is none, wait for an event for at most @timeout_ms. Returns the number of
 * fetches and calls that are not done. Only for the thread that made @n, and not after net_start_thread(). */
size_t net_run(struct net *n, int64_t timeout_ms);
/* Start a thread that runs the loop until net_free(). All its signals are blocked. */
int net_start_thread(struct net *n, struct err *err);

/* ---- breakers: showing and keeping them ---- */

struct net_server_state {
	const char *url;                                /* as given, valid during the call */
	bool open;                                      /* passed over now */
	int64_t again_s;                                /* if open: seconds until it is asked again */
	bool slow;                                      /* asked last for now */
	unsigned n_failures;                            /* in a row */
	const char *message;                            /* the last failure; "": none */
	uint64_t n_asked, n_found, n_missing, n_failed; /* by this process */
	uint64_t n_bytes;
};
void net_each_server(struct net *n, void (*fn)(void *arg, const struct net_server_state *s), void *arg);
/* The state of all servers that failed, as text for net_breakers_load() in another process. Times are wall
 * time. */
void net_breakers_save(struct net *n, struct buf *out);
/* Load the state that another process saved. Lines that cannot be read are ignored. */
void net_breakers_load(struct net *n, struct str text);
/* Changes whenever a breaker opens or closes: then save. */
uint64_t net_breakers_epoch(struct net *n);

/* ---- fetch ---- */

/* Zero selects the default, which is given last. */
struct net_patience {
	unsigned hedge_ms;   /* after this time without an answer the next server is asked too: 400 */
	unsigned stall_ms;   /* after this time of silence of the winner a second server is asked: 1500 */
	unsigned connect_ms; /* name, connection, TLS: 1500 */
	/* silence of this length is a failure, also before the headers of the reply: 90 s */
	unsigned silent_ms;
	/* the longest Retry-After to wait out within a fetch, if no other server has the artifact: 3 s */
	unsigned busy_ms;
	int64_t deadline_ms; /* of the whole fetch, from its start: none */
	unsigned retries;    /* of one server that failed, after the first try: 2; UINT_MAX: none */
	/* Retries after a connection that failed at once (refused, no route): none. A machine that does not
	 * answer is never retried: each try would cost seconds. */
	unsigned connect_retries;
	/* How long a lode server that has not read all of its files yet is asked again: 750 s; UINT_MAX: not at all */
	unsigned unread_ms;
};

#define NET_HEAD_MAX KIB(64)

/* The head of a reply. */
struct net_reply {
	const char *server; /* as in the request's list */
	const char *url;    /* origin of the bytes, after redirects; without password */
	unsigned status;    /* 200, also for file:// */
	bool size_known;
	uint64_t size;      /* of the whole artifact */
	int64_t mtime;      /* 0: unknown */
	struct str type;    /* Content-Type; empty: none */
	struct str etag;    /* with its quotes; empty: none */
	struct str headers; /* the X-DEBUGINFOD-* lines, each "Name: value\n" */
};

enum {
	NET_MISSING = 1,   /* every server was asked and answered 404 or 410, and has read all of its files */
	NET_TOO_LARGE = 2, /* found, but larger than max_size, and no server has a smaller one */
	NET_MORE = 3,      /* from a check: call again with more bytes */
	NET_REFUSED = 4,   /* from a sink: too late to begin again */
	NET_NO_ROOM = 5,   /* from a sink's begin: a file of this size has no room here */
};

struct net_fetch;

/* The receiver of the bytes. All calls come from the loop. */
struct net_sink {
	void *arg;
	/*
	 * Check the first bytes. @all: there are no more. 0: accepted; negative: refused (@err says why; if
	 * its os is not 0 it becomes the os of the fetch's error; the server is noted as lying, and others
	 * are asked); NET_MORE. Each call gets all bytes from the start, at most NET_HEAD_MAX: with that
	 * many, NET_MORE counts as accepted. May be called for replies of several servers in turn; must
	 * change nothing. NULL: all are accepted.
	 */
	int (*check)(void *arg, const struct net_reply *reply, struct bytes head, bool all, struct err *err);
	/*
	 * A winner is chosen: its body follows from byte 0. If called again, all bytes written so far are
	 * void; NET_REFUSED if they cannot be taken back: then the fetch fails. NET_NO_ROOM and @err, while
	 * no byte is written: a size is only a claim, so other servers are asked; without one that has a smaller file the
	 * fetch fails, with os ENOSPC. May be NULL, which means NET_REFUSED at the second time.
	 */
	int (*begin)(void *arg, const struct net_reply *reply, struct err *err);
	/* Take the next bytes. Negative ends the fetch with that error. */
	int (*write)(void *arg, struct bytes piece, struct err *err);
	/* All bytes were written: check the whole. Negative as in check. NULL: accepted. */
	int (*verify)(void *arg, struct err *err);
	/*
	 * The end, called exactly once: 0, NET_MISSING, NET_TOO_LARGE, or negative and @err: of kind
	 * ERR_UPSTREAM; ERR_CANCELLED for cancel and deadline, with os ECANCELED or ETIME; or the error of
	 * the sink. err->os is an errno for callers that need one: ECONNREFUSED, EHOSTUNREACH, ETIME,
	 * ECONNRESET, EIO, ... @f is valid during the call and as long as it is referenced.
	 */
	void (*done)(void *arg, struct net_fetch *f, int outcome, const struct err *err);
	/* A server that has not read all of its files yet will be asked again. NET_REFUSED: it is not. NULL: it is. */
	int (*unread)(void *arg);
};

struct net_request {
	const char *const *urls; /* the servers in order, as from net_urls_parse(); copied */
	size_t n_urls;
	/* appended to each of them; escaped, without leading slash, inside: "buildid/ID/debuginfo". For
	 * file:// the file that it leads to must be below the server's folder, symbolic links resolved */
	const char *path;
	/* the same file, for servers of other kinds; strings are copied. NULL: they are not asked */
	const struct net_file *file;
	const char *const *headers; /* additional headers, "Name: value"; copied */
	size_t n_headers;
	uint64_t max_size; /* sent as X-DEBUGINFOD-MAXSIZE, and enforced; 0: 64 GiB */
	struct net_patience patience;
	uint64_t max_unknown; /* the same for a body of unannounced size; 0: 1 GiB */
	bool compressed;      /* ask for gzip. Not for a sink that needs the size in advance */
	struct net_sink sink;
};

/* Start a fetch. The caller must unref the handle; @ret may be NULL if the fetch will not be cancelled. */
void net_fetch_start(struct net *n, const struct net_request *req, struct net_fetch **ret);
/* done is called soon, within one turn of the loop. After the end it does nothing. */
void net_fetch_cancel(struct net_fetch *f);
struct net_fetch *net_fetch_ref(struct net_fetch *f);
void net_fetch_unref(struct net_fetch *f); /* does not cancel; takes NULL */

struct net_progress {
	uint64_t have; /* bytes written to the sink */
	bool size_known;
	uint64_t size;
	/* of the winner, else of the server asked last; valid as long as the fetch; NULL: none yet */
	const char *server;
	/* the package that a server reads, for which the fetch waits: "NAME (41 %)", printable ASCII; NULL: none. As long */
	const char *reading;
	bool done;
};
void net_fetch_progress(struct net_fetch *f, struct net_progress *ret);

/* The result of each server, for people, in the order of time. Valid from done until the last unref. */
struct net_note {
	const char *server; /* without password */
	/* "404", "no connection: Connection refused; will be asked again in 10 s", "used" */
	const char *message;
	unsigned status;          /* of HTTP; 0: there was no reply */
	unsigned n_tries;         /* requests sent to it */
	bool missing;             /* 404, 410 */
	bool unread;              /* a lode server that may have it, in files that it has not read yet */
	bool passed_over;         /* its breaker is open: no request was sent */
	enum net_unasked unasked; /* no request was sent, for this reason */
	int64_t again_s;          /* seconds until it is asked again; -1: any time */
};
size_t net_fetch_notes(struct net_fetch *f, const struct net_note **ret);
/* The head from the winner; NULL: there was none. Valid as long as the notes. */
const struct net_reply *net_fetch_reply(struct net_fetch *f);

/* ---- call: one request, one answer in memory ---- */

/* How TLS connections of a call are made. Paths are of PEM files; NULL: none. */
struct net_tls {
	const char *ca_file; /* instead of those of struct net_options; the system's are not trusted then */
	const char *cert_file, *key_file; /* the client's */
	/* The server's certificate has this name; requests have the Host of the URL all the same. NULL: the URL's */
	const char *server_name;
	bool insecure; /* any certificate is accepted */
};

struct net_call;
struct net_call_answer {
	unsigned status;
	struct str type, headers; /* all lines, each "Name: value\n" */
	struct bytes body;
	int64_t retry_after_s; /* -1: none */
};
struct net_call_request {
	const char *method; /* NULL: GET */
	const char *url;    /* complete */
	const char *const *headers;
	size_t n_headers;
	size_t max_answer;              /* a longer body is ERR_LIMIT; 0: 1 MiB */
	struct budget_hold *memory;     /* borrowed until done() has returned: of the body. NULL: no limit */
	unsigned connect_ms, silent_ms; /* 0: 5 s, 90 s */
	int64_t deadline_ms;            /* 0: none */
	bool compressed; /* ask for gzip; the answer is decompressed, and max_answer is of the result */
	bool direct;     /* without a proxy, whatever the environment says */
	bool stays;      /* redirects are not followed: a reply of status 3xx is the answer */
	const struct net_tls *tls; /* copied; NULL: the usual */
	bool breaker;              /* use and update the breaker of `server` */
	const char *server;        /* the base URL whose breaker it is */
	/* A body to send, with Content-Length. @read fills in up to @n bytes; *ret_got 0 is an error, since
	 * there are @body_size. */
	int (*read)(void *arg, void *buf, size_t n, size_t *ret_got, struct err *err);
	uint64_t body_size;
	/* Or a body in memory, valid until done is called. NULL: none. */
	const struct bytes *body;
	/*
	 * Takes the body of an answer of status 2xx as it comes, whatever its length; @a->body is empty then, and at
	 * done. Bytes may be missing at its end: done says so. Negative ends the call with that error. NULL: the body is
	 * gathered in memory.
	 */
	int (*write)(void *arg, const struct net_call_answer *a, struct bytes piece, struct err *err);
	void *arg;
	/* 0 and @a (any status; valid during the call), or negative and @err. Exactly once, from the loop. */
	void (*done)(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
		     const struct err *err);
};
/* As net_fetch_start(), cancel and unref. Calls do not count as part of max_fetches. */
void net_call_start(struct net *n, const struct net_call_request *req, struct net_call **ret);
void net_call_cancel(struct net_call *c);
void net_call_unref(struct net_call *c); /* takes NULL */

/* An answer that outlives its call. */
struct net_answer {
	unsigned status;
	struct buf headers, body;
	int64_t retry_after_s; /* -1: none */
};
void net_answer_done(struct net_answer *a); /* zeroed is fine */
/* The same request would get the same answer again: a refusal that neither time nor another offset changes. */
bool net_answer_is_final(unsigned status);
/*
 * Make a call, and run the loop in this thread, which has it, until the call has ended. @req->done and its arg are set here;
 * there is no @req->read. @stopped(arg) is called several times a second; true cancels the call. 0: any status, and *ret
 * is the caller's; negative: there is no answer, and *ret is empty.
 */
int net_call_wait(struct net *n, struct net_call_request *req, bool (*stopped)(void *arg), void *arg,
		  struct net_answer *ret, struct err *err);
