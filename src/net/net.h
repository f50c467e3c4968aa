/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net: an HTTP client for debuginfod-like servers.
 *
 * A *fetch* is one artifact from an ordered list of servers. They are asked in order with a hedge: the next
 * one is started when the one before has not answered soon, at once when it failed. The first answer that its
 * checker believes wins. A winner that stalls or breaks off is replaced by another server (or asked once
 * more) and goes on from the same place: by Range where that server can, by passing over what was had where
 * it cannot, from the start where the sizes differ. A *call* is one plain request to one URL.
 *
 * Everything happens in a loop, net_run(). Either the owner of the struct net runs it on its own thread (a
 * command, a library), or net_start_thread() gives it a thread (a service). Callbacks come from that loop:
 * they must not block for long, and a sink that cannot take more now says NET_PAUSE. Nothing of a body is
 * held in memory but its head until it is checked, and one piece of 16 KiB. All other functions may be called
 * from any thread, also from callbacks.
 *
 * A *breaker* per server: one that cannot be connected, or does not answer, is passed over for a while,
 * longer each time (a second where the connection is refused); then one request may try it. 429, and 503 with
 * a Retry-After, do the same for as long as they say.
 */
#pragma once

#include "base/base.h"

/* ---- lists of servers ---- */

#define NET_URL_MAX     16384u /* a source's path of 4096 bytes, escaped */
#define NET_SERVERS_MAX 64u

/*
 * What DEBUGINFOD_URLS holds: URLs apart by blanks (and commas, if @commas). Without a scheme it is http.
 * http, https and file are taken; the slash at the end goes; the same one again is dropped without a word.
 * What is no URL is noted with the reason and the others are used. Signatures are not checked: what stands
 * behind "ima:enforcing" is noted as not asked, until "ima:permissive" (noted as ignored) or "ima:ignore".
 */
struct net_url_note {
	struct str token; /* printable: at most 80 bytes, control characters and passwords replaced */
	const char *text; /* "not a URL: ...", "not asked: ...": static */
	bool ignored;     /* harmless: known and not supported */
};
struct net_url_list {
	const char **urls; /* in the arena, as all of it */
	size_t n;
	struct net_url_note *notes;
	size_t n_notes;
};
void net_urls_parse(struct str text, bool commas, struct arena *a, struct net_url_list *ret);
/* Add @s to a path, percent-escaped as elfutils' client does: all but letters, digits, "-._~", and '/' where
 * @slashes. */
void net_escape(struct buf *out, struct str s, bool slashes);
/* A URL for people: without user and password. */
struct str net_url_shown(struct str url, struct arena *a);

/* ---- the loop ---- */

struct net;

struct net_options {
	const char *user_agent;    /* NULL: lode/VERSION */
	const char *ca_file;       /* PEM; NULL: $SSL_CERT_FILE, else the system's */
	unsigned max_fetches;      /* that run at once; others wait in order. 0: 16 */
	unsigned max_per_server;   /* connections to one server. 0: 8 */
	unsigned breaker_first_ms; /* a server that failed is passed over for so long, then twice that, ... 0:
				      10 s */
	unsigned breaker_max_ms;   /* ... up to here. 0: 300 s */
};

int net_new(const struct net_options *opts, struct net **ret, struct err *err); /* @opts may be NULL */
/* Cancels what runs (done is called for each), ends the thread, closes the connections. Takes NULL. */
void net_free(struct net *n);
/*
 * Do what can be done now; with nothing to do, wait for something for at most @timeout_ms. Returns the number
 * of fetches and calls that are not done. Only the thread that made @n, unless net_start_thread() was called.
 */
size_t net_run(struct net *n, int64_t timeout_ms);
/* A thread of its own runs the loop until net_free(). All its signals are blocked. */
int net_start_thread(struct net *n, struct err *err);

/* ---- breakers, for who keeps or shows them ---- */

struct net_server_state {
	const char *url;                                /* as given, good during the call */
	bool open;                                      /* passed over now */
	int64_t again_s;                                /* then: asked again in so many seconds */
	bool slow;                                      /* asked last for a while */
	unsigned n_failures;                            /* in a row */
	const char *said;                               /* the last failure; "" */
	uint64_t n_asked, n_found, n_missing, n_failed; /* by this process */
	uint64_t n_bytes;
};
void net_each_server(struct net *n, void (*fn)(void *arg, const struct net_server_state *s), void *arg);
/* All breakers that are not at rest as text, good for net_breakers_load() in another process. Times are wall
 * time. */
void net_breakers_save(struct net *n, struct buf *out);
/* Take over what another process knew. What cannot be read of it is ignored. */
void net_breakers_load(struct net *n, struct str text);
/* Changes whenever a breaker opens or closes: save then. */
uint64_t net_breakers_epoch(struct net *n);

/* ---- fetch ---- */

/* Zero in any: the default that stands beside it. */
struct net_patience {
	unsigned hedge_ms;   /* the next server is started beside one that has not answered by then: 400 */
	unsigned stall_ms;   /* a winner that was silent for so long gets a second beside it: 1500 */
	unsigned connect_ms; /* name, connection, TLS: 1500 */
	/* no byte for so long is a failure; also the wait for the reply's headers: 90 s */
	unsigned silent_ms;
	unsigned busy_ms; /* the longest Retry-After that is waited for within a fetch, if no other server has
			     it: 3 s */
	int64_t deadline_ms; /* for the whole fetch, from its start: none */
	unsigned retries;    /* of one server that failed, beside the first try: 2; UINT_MAX: none */
	/* As many of them also where no connection was made because somebody said no at once (no route,
	 * nobody listens): none. Of a machine that does not answer there are never any: that costs seconds
	 * each. */
	unsigned connect_retries;
};

#define NET_HEAD_MAX KIB(64)

/* What a server says of its body. */
struct net_reply {
	const char *server; /* as in the request's list */
	const char *url;    /* that the bytes come from, after redirects; without password */
	unsigned status;    /* 200, also of file:// */
	bool size_known;
	uint64_t size;      /* of the whole artifact */
	int64_t mtime;      /* 0: unknown */
	struct str type;    /* Content-Type; empty: none */
	struct str etag;    /* with its quotes; empty: none */
	struct str headers; /* the X-DEBUGINFOD-* lines, "Name: value\n" each */
};

enum {
	NET_MISSING = 1,   /* every server was asked and says 404 or 410 */
	NET_TOO_LARGE = 2, /* it is there, but larger than max_size; and no server has it smaller */
	NET_MORE = 3,      /* a checker: not before more bytes are here */
	NET_PAUSE = 4,     /* a sink: not now; net_fetch_resume() will be called */
	NET_REFUSED = 5,   /* a sink: it is too late to begin again */
};

struct net_fetch;

/* Where the bytes go. All calls come from the loop. */
struct net_sink {
	void *arg;
	/*
	 * Are these the first bytes of what was asked for? @all: there are no more. 0; negative: no (@err
	 * says why, and if its os is not 0 that becomes the os of the fetch's error; the server is noted as lying,
	 * and others are asked); NET_MORE. It gets all that there are
	 * from the start each time, at most NET_HEAD_MAX: then NET_MORE is taken as yes. May be called for
	 * several servers' replies in turn; must change nothing. NULL: believed.
	 */
	int (*check)(void *arg, const struct net_reply *reply, struct bytes head, bool all, struct err *err);
	/*
	 * A winner is known: its body follows from byte 0. Called again where all that was written so far is
	 * void; NET_REFUSED if it cannot be taken back: the fetch fails then. May be NULL: then it is as if
	 * it always refused the second time.
	 */
	int (*begin)(void *arg, const struct net_reply *reply, struct err *err);
	/* The next bytes, all of them; or NET_PAUSE, and none was taken. Negative ends the fetch with that
	 * error. */
	int (*write)(void *arg, struct bytes piece, struct err *err);
	/* All bytes were written: is the whole what was asked for? Negative as in check. NULL: yes. */
	int (*verify)(void *arg, struct err *err);
	/*
	 * The end, called exactly once: 0, NET_MISSING, NET_TOO_LARGE, or negative and @err (kinds
	 * ERR_UPSTREAM; ERR_CANCELLED for cancel and deadline, err->os ECANCELED or ETIME; or what the sink
	 * said). err->os is an errno for who needs one: ECONNREFUSED, EHOSTUNREACH, ETIME, ECONNRESET, EIO,
	 * ... @f is good during the call and as long as somebody holds it.
	 */
	void (*done)(void *arg, struct net_fetch *f, int outcome, const struct err *err);
};

struct net_request {
	const char *const *urls; /* the servers in order, as net_urls_parse() has them; copied */
	size_t n_urls;
	const char *path; /* below each of them, escaped, without leading slash: "buildid/ID/debuginfo" */
	const char *const *headers; /* further ones, "Name: value"; copied */
	size_t n_headers;
	uint64_t max_size; /* sent as X-DEBUGINFOD-MAXSIZE, and held to; 0: no limit but one of sanity, 64 GiB
			    */
	struct net_patience patience;
	uint64_t max_unknown; /* the same of a body whose size is not announced; 0: 1 GiB */
	bool compressed; /* the transfer may be: asks for gzip. Not with a sink that wants to know the size
			    before */
	struct net_sink sink;
};

/* Begin. The handle is the caller's to unref; it may be NULL in @ret's place when nobody will cancel. */
void net_fetch_start(struct net *n, const struct net_request *req, struct net_fetch **ret);
/* done is called soon, within one turn of the loop. After the end it does nothing. */
void net_fetch_cancel(struct net_fetch *f);
void net_fetch_resume(struct net_fetch *f); /* after NET_PAUSE */
struct net_fetch *net_fetch_ref(struct net_fetch *f);
void net_fetch_unref(struct net_fetch *f); /* does not cancel; takes NULL */

struct net_progress {
	uint64_t have; /* bytes written to the sink */
	bool size_known;
	uint64_t size;
	const char *server; /* of the winner, else the one that was asked last; static for the fetch's life;
			       NULL: none yet */
	bool done;
};
void net_fetch_progress(struct net_fetch *f, struct net_progress *ret);

/*
 * What became of each server, for people; in the order in which it was learned. From done on, until the last
 * unref; the texts live as long.
 */
struct net_note {
	const char *server; /* without password */
	/* "404", "no connection: Connection refused; will be asked again in 10 s", "used" */
	const char *said;
	unsigned status;  /* HTTP's; 0: it did not come to that */
	unsigned n_tries; /* so often it was asked */
	bool missing;     /* 404, 410 */
	bool passed_over; /* its breaker is open: nothing was sent */
	int64_t again_s;  /* -1: any time */
};
size_t net_fetch_notes(struct net_fetch *f, const struct net_note **ret);
/* Of the winner; NULL: there was none. Good as the notes. */
const struct net_reply *net_fetch_reply(struct net_fetch *f);

/* ---- call: one request, one answer in memory ---- */

struct net_call;
struct net_call_answer {
	unsigned status;
	struct str type, headers; /* all of them, "Name: value\n" each */
	struct bytes body;
	int64_t retry_after_s; /* -1: none */
};
struct net_call_request {
	const char *method; /* NULL: GET */
	const char *url;    /* the whole of it */
	const char *const *headers;
	size_t n_headers;
	size_t max_answer;              /* a longer body is ERR_LIMIT; 0: 1 MiB */
	unsigned connect_ms, silent_ms; /* 0: 5 s, 90 s */
	int64_t deadline_ms;            /* 0: none */
	bool breaker;                   /* heed and feed the breaker of `server` */
	const char *server;             /* the base URL whose breaker it is */
	/* A body, sent with Content-Length. @read: up to @n bytes; *ret_got 0 is an error, there are
	 * @body_size. */
	int (*read)(void *arg, void *buf, size_t n, size_t *ret_got, struct err *err);
	uint64_t body_size;
	/* Or one that lies in memory until done is called. NULL: none. */
	const struct bytes *body;
	void *arg;
	/* 0 and @a (any status; good during the call), or negative and @err. Exactly once, from the loop. */
	void (*done)(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
		     const struct err *err);
};
/* As net_fetch_start(), cancel, unref. Calls do not count against max_fetches. */
void net_call_start(struct net *n, const struct net_call_request *req, struct net_call **ret);
void net_call_cancel(struct net_call *c);
void net_call_unref(struct net_call *c); /* takes NULL */
