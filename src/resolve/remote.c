/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One artifact being fetched from another server, shared by all requests for it. Net's thread writes its
 * bytes into a file without a name; followers read that file. After it is complete and checked, a keeper
 * thread copies it into the store; until then requests are answered from the file.
 *
 * No byte is given out before the first bytes are checked. Where these have no build ID (the note of a
 * relocatable file may be anywhere), a file of at most 32 MiB is held back until all of it is checked.
 */
#include "resolve/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SMALL       KIB(64)  /* a file of at most this size is given out when it is complete */
#define HELD_BACK   MIB(32)  /* ... as is one without a build ID in its first bytes */
#define WORTH_IT    MIB(16)  /* with at most this left, the fetch goes on after its last follower has left */
#define MAX_SOURCE  MIB(32)  /* when the server does not announce the size */
#define MAX_UNKNOWN MIB(256) /* debuginfod servers announce the size of large files */
#define MISS_MS     600000
#define ERROR_MS    5000

/* ---- references ---- */

struct remote *remote_ref(struct remote *m)
{
	atomic_fetch_add(&m->refs, 1);
	return m;
}

void remote_unref(struct remote *m)
{
	struct resolver_upstream *c = m->up;

	if (atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	room_release(&m->claim);
	net_fetch_unref(m->fetch);
	if (m->fd >= 0)
		close(m->fd);
	arena_done(&m->arena);
	pthread_mutex_destroy(&m->lock);
	free((void *)m->key.p);
	free(m);
	pthread_mutex_lock(&c->lock);
	c->n_remotes--;
	pthread_cond_broadcast(&c->gone);
	pthread_mutex_unlock(&c->lock);
}

void remote_land(struct remote *m)
{
	struct resolver_upstream *c = m->up;
	bool mine;

	pthread_mutex_lock(&c->lock);
	mine = map_get(&c->remotes, m->key) == m;
	if (mine)
		map_del(&c->remotes, m->key);
	pthread_mutex_unlock(&c->lock);
	if (mine)
		remote_unref(m);
}

/* ---- waiting ---- */

void remote_await(struct remote *m, uint64_t off, struct resolve_wake wake)
{
	struct remote_waiter *w = NEW(struct remote_waiter);

	w->ticket = ticket_new(wake);
	w->off = off;
	w->next = m->waiters;
	m->waiters = w;
}

uint64_t remote_visible(const struct remote *m)
{
	return m->state == REMOTE_FLOWING && m->have == m->size ? m->have - 1 : m->have;
}

/* Under the lock: unlink the waiters whose byte is there, or all. */
static struct remote_waiter *remote_take_waiters(struct remote *m, bool all)
{
	struct remote_waiter *woken = NULL, **at = &m->waiters;

	while (*at) {
		struct remote_waiter *w = *at;

		if (!all && w->off >= remote_visible(m)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = woken;
		woken = w;
	}
	return woken;
}

static void remote_wake(struct remote_waiter *w)
{
	while (w) {
		struct remote_waiter *next = w->next;

		/* Nothing cancels this ticket: the waiter handles its own end. */
		ticket_leave(w->ticket);
		ticket_fire(w->ticket);
		free(w);
		w = next;
	}
}

static void remote_enter(struct remote *m, enum remote_state state, const struct err *err)
{
	struct remote_waiter *woken;

	pthread_mutex_lock(&m->lock);
	m->state = state;
	if (err)
		m->err = *err;
	woken = remote_take_waiters(m, true);
	pthread_mutex_unlock(&m->lock);
	remote_wake(woken);
}

void remote_left(struct remote *m)
{
	bool stop;

	pthread_mutex_lock(&m->lock);
	/* A request for it will come again, so a fetch that is nearly done goes on. */
	stop = --m->n_followers == 0 && !m->waiters && m->state == REMOTE_FLOWING &&
	       m->size - m->have > WORTH_IT;
	m->given_up |= stop;
	pthread_mutex_unlock(&m->lock);
	if (!stop)
		return;
	remote_land(m);
	net_fetch_cancel(m->fetch);
}

/* ---- the sink: on the net's thread ---- */

static int remote_on_begin(void *arg, const struct net_reply *reply, struct err *err)
{
	struct remote *m = arg;
	bool refused, is_first;

	pthread_mutex_lock(&m->lock);
	/* Bytes may have been given out already. */
	refused = m->state != REMOTE_ASKING;
	is_first = m->have == 0;
	/* After a refusal the server of these bytes may go on. */
	if (!refused)
		m->have = 0;
	pthread_mutex_unlock(&m->lock);
	if (refused)
		return NET_REFUSED;
	if (m->fd < 0 && file_unnamed(m->up->opts.spool_dir, &m->fd, err) < 0)
		return -1;
	if (ftruncate(m->fd, 0) < 0)
		return err_os(err, errno, "%s", m->up->opts.spool_dir);
	room_release(&m->claim);
	/* The bytes of another server are gone by now: it must not continue after them. */
	if (reply->size_known && room_claim(m->up->opts.room, &m->claim, m->fd, reply->size, err) < 0)
		return err->os == ENOSPC && is_first ? NET_NO_ROOM : -1;
	m->size_known = reply->size_known;
	m->size = reply->size;
	m->mtime = reply->mtime;
	m->url = arena_str(&m->arena, str_of(reply->url));
	m->file = arena_str(&m->arena, net_header(reply->headers, "X-DEBUGINFOD-FILE"));
	m->archive = arena_str(&m->arena, net_header(reply->headers, "X-DEBUGINFOD-ARCHIVE"));
	return 0;
}

static bool remote_may_flow(const struct remote *m)
{
	return m->size_known && m->size > (m->confirmed ? SMALL : HELD_BACK);
}

static int remote_on_write(void *arg, struct bytes piece, struct err *err)
{
	struct remote *m = arg;
	struct remote_waiter *woken;

	/* Without a known size the claim grows with the file. */
	if (room_claim(m->up->opts.room, &m->claim, m->fd, m->have + piece.size, err) < 0)
		return -1;
	if (fd_pwrite(m->fd, piece.p, piece.size, m->have, err) < 0)
		return err_in(err, "%s", m->up->opts.spool_dir);
	room_written(&m->claim, m->have + piece.size);
	pthread_mutex_lock(&m->lock);
	m->have += piece.size;
	if (m->state == REMOTE_ASKING && remote_may_flow(m))
		m->state = REMOTE_FLOWING;
	woken = m->state == REMOTE_FLOWING ? remote_take_waiters(m, false) : NULL;
	pthread_mutex_unlock(&m->lock);
	remote_wake(woken);
	return 0;
}

/*
 * A server goes on reading its packages. All waiters are woken, to ask again: if none has come back at the next call, the
 * file is not wanted any more.
 */
static int remote_on_unread(void *arg)
{
	struct remote *m = arg;
	struct remote_waiter *woken;

	pthread_mutex_lock(&m->lock);
	woken = remote_take_waiters(m, true);
	pthread_mutex_unlock(&m->lock);
	if (!woken)
		return NET_REFUSED;
	remote_wake(woken);
	return 0;
}

/* ---- the end: on the net's thread ---- */

static void remote_found(struct remote *m)
{
	struct resolver_upstream *c = m->up;

	if (!m->size_known)
		m->size = m->have;
	atomic_fetch_add(&c->n_found, 1);
	atomic_fetch_add(&c->bytes, m->size);
	remote_enter(m, REMOTE_WHOLE, NULL);
	remote_ref(m);
	if (c->keepers && pool_submit(c->keepers, POOL_NORMAL, remote_keep, m) == 0)
		return;
	atomic_fetch_add(&c->n_not_stored, c->keepers != NULL);
	remote_land(m);
	remote_unref(m);
}

static void remote_on_done(void *arg, struct net_fetch *f, int outcome, const struct err *err)
{
	struct remote *m = arg;
	struct resolver_upstream *c = m->up;
	const struct resolve_upstream_options *o = &c->opts;
	bool missing = outcome == NET_MISSING || outcome == NET_TOO_LARGE;
	struct err why = { 0 };

	if (outcome == 0) {
		questions_give(c->questions, m->what.client);
		remote_found(m);
		remote_unref(m);
		return;
	}
	if (err)
		why = *err;
	else
		err_set(&why, ERR_UPSTREAM, "not found");
	atomic_fetch_add(missing ? &c->n_missing : &c->n_failed, 1);
	if (!missing)
		questions_give(c->questions, m->what.client);
	/* A fetch that this server cancelled says nothing about the others. */
	if (why.os != ECANCELED)
		miss_cache_put(c->misses, m->key,
			       clock_mono_ms() + (missing ? (o->miss_ms ? o->miss_ms : MISS_MS)
							  : (o->error_ms ? o->error_ms : ERROR_MS)),
			       outcome, err, f);
	remote_land(m);
	remote_enter(m, REMOTE_OVER, &why);
	remote_unref(m);
}

/* ---- asking ---- */

/* The name of a program counts where a server finds it by its name: a miss under one name is none under another. */
static void remote_key(const struct resolve_request *req, struct buf *ret)
{
	buf_add_char(ret, (char)req->kind);
	buf_add_char(ret, (char)MIN(req->n_hops, 255u));
	buf_add_char(ret, (char)req->id.size);
	buf_add(ret, req->id.b, req->id.size);
	buf_add_str(ret, req->arg);
	buf_add_str(ret, req->name);
}

void remote_forget(struct resolver_upstream *c, const struct build_id *id)
{
	struct resolve_request file = { .kind = RESOLVE_EXECUTABLE, .id = *id };
	AUTO(arena_done) struct arena a = { 0 };
	const struct str name = remote_name(c, &file, &a);
	const struct resolve_request files[] = { { .kind = RESOLVE_DEBUGINFO, .id = *id },
						 { .kind = RESOLVE_EXECUTABLE, .id = *id },
						 { .kind = RESOLVE_EXECUTABLE, .id = *id, .name = name } };
	AUTO(buf_done) struct buf key = { 0 };

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		key.size = 0;
		remote_key(&files[i], &key);
		lru_del(c->misses, buf_bytes(&key));
	}
	pthread_mutex_unlock(&c->lock);
}

/* false: no server may be asked for a name that leads out of its folder. */
static bool remote_url_path(const struct resolve_request *req, struct buf *ret)
{
	char hex[BUILD_ID_HEX_SIZE];

	buf_printf(ret, "buildid/%s/%s", build_id_hex(&req->id, hex), resolve_kind_name(req->kind));
	if (req->kind != RESOLVE_SOURCE && req->kind != RESOLVE_SECTION)
		return true;
	/* The slash before a source's name is that of an absolute path. */
	buf_add_char(ret, '/');
	if (req->kind == RESOLVE_SOURCE)
		return net_escape_source(ret, req->arg);
	net_escape(ret, req->arg, false);
	return net_path_is_inside(buf_str(ret));
}

/* The request as it is sent: one form for all spellings of a path, so that they share fetch, miss and object. false:
 * no server is asked. */
static bool remote_normal(struct resolver_upstream *c, const struct resolve_request *req, struct arena *a,
			  struct resolve_request *ret)
{
	AUTO(buf_done) struct buf path = { 0 };
	char *name;

	*ret = *req;
	if (!remote_url_path(req, &path))
		return false;
	ret->name = remote_name(c, req, a);
	if (req->kind != RESOLVE_SOURCE)
		return true;
	name = arena_alloc(a, req->arg.size + 2);
	ret->arg = (struct str){ name, path_rooted(req->arg, name) };
	return true;
}

static const enum net_file_kind file_kinds[RESOLVE_N_KINDS] = {
	[RESOLVE_DEBUGINFO] = NET_FILE_DEBUGINFO,
	[RESOLVE_EXECUTABLE] = NET_FILE_EXECUTABLE,
	[RESOLVE_SOURCE] = NET_FILE_OTHER,
	[RESOLVE_SECTION] = NET_FILE_OTHER,
};

static void remote_ask(struct remote *m)
{
	const struct resolve_upstream_options *o = &m->up->opts;
	AUTO(buf_done) struct buf path = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	const struct net_file file = { file_kinds[m->what.kind], str_of(build_id_hex(&m->what.id, hex)),
				       m->what.name };
	const char *headers[3];
	struct net_request req = {
		.file = &file,
		.urls = o->urls,
		.n_urls = o->n_urls,
		.headers = headers,
		.max_size = o->max_size,
		.max_unknown = m->what.kind == RESOLVE_SOURCE ? MAX_SOURCE : MAX_UNKNOWN,
		.patience = o->patience,
		.sink = { m, remote_check, remote_on_begin, remote_on_write, remote_verify, remote_on_done,
			  remote_on_unread },
	};

	(void)remote_url_path(&m->what, &path); /* remote_normal() has tried it */
	req.path = buf_cstr(&path);
	if (m->what.forwarded_for.size)
		headers[req.n_headers++] = arena_printf(&m->arena, "X-Forwarded-For: " STR_FMT,
							STR_ARG(m->what.forwarded_for));
	if (m->what.via.size)
		headers[req.n_headers++] = arena_printf(&m->arena, "Via: " STR_FMT, STR_ARG(m->what.via));
	if (m->what.user_agent.size)
		headers[req.n_headers++] = arena_printf(&m->arena, "User-Agent: " STR_FMT,
							STR_ARG(m->what.user_agent));
	atomic_fetch_add(&m->up->n_asked, 1);
	net_fetch_start(o->net, &req, &m->fetch);
}

/* Under the resolver's lock. One reference is the table's, one the sink's, one the caller's. */
static struct remote *remote_new(struct resolver_upstream *c, const struct resolve_request *req,
				 struct bytes key)
{
	struct remote *m = NEW(struct remote);
	uint8_t *copied = mem_alloc(key.size);

	memcpy(copied, key.p, key.size);
	m->key = bytes_of(copied, key.size);
	m->up = c;
	m->fd = -1;
	atomic_init(&m->refs, 3);
	pthread_mutex_init(&m->lock, NULL);
	arena_init(&m->arena);
	m->what = *req;
	m->what.arg = arena_str(&m->arena, req->arg);
	m->what.name = arena_str(&m->arena, req->name);
	m->what.forwarded_for = arena_str(&m->arena, req->forwarded_for);
	m->what.via = arena_str(&m->arena, req->via);
	m->what.user_agent = arena_str(&m->arena, req->user_agent);
	map_put(&c->remotes, m->key, m);
	c->n_remotes++;
	remote_ask(m);
	return m;
}

static int give_miss(struct resolver_upstream *c, struct lru_ref *h, struct resolve_why *why, struct err *err)
{
	const struct miss *r = lru_value(h);
	int res = RESOLVE_MISSING;

	atomic_fetch_add(&c->n_remembered, 1);
	for (size_t i = 0; i < r->n_steps; i++)
		resolve_why_add(why, r->steps[i].server, STR_FMT, STR_ARG(r->steps[i].message));
	if (r->missing) {
		why->reason = RESOLVE_UPSTREAM_404;
	} else {
		*err = r->err;
		res = -1;
	}
	lru_unref(c->misses, h);
	return res;
}

/* Under the lock of @m. */
static void remote_answer(struct remote *m, struct arena *a, struct resolve_answer *ret)
{
	*ret = (struct resolve_answer){
		.source = remote_source_new(m),
		.file = arena_str(a, m->file),
		.archive = arena_str(a, m->archive),
		.mtime = m->mtime,
		.tag = fetched_tag(&m->what, m->size, m->mtime),
		.origin = RESOLVE_UPSTREAM,
		.arrived = remote_arrived,
	};
}

bool remote_question(struct resolver_upstream *c, uint32_t client)
{
	bool ok = questions_take(c->questions, client, clock_mono_ms());

	atomic_fetch_add(&c->n_over, !ok);
	return ok;
}

static int refuse_question(struct resolver_upstream *c, struct err *err)
{
	(void)err_set(err, ERR_UPSTREAM,
		      "not asked: more than %u files a minute that they do not have; ask again in a minute "
		      "(--upstream-misses)",
		      c->opts.max_misses);
	err->os = EBUSY;
	return -1;
}

/* The fetch that is under way, referenced; NULL: *ret_miss, or neither: the client's budget is used up. */
static struct remote *remote_join(struct resolver_upstream *c, const struct resolve_request *req,
				  struct lru_ref **ret_miss)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct remote *m;

	remote_key(req, &key);
	pthread_mutex_lock(&c->lock);
	m = map_get(&c->remotes, buf_bytes(&key));
	if (m)
		remote_ref(m);
	else if (!(*ret_miss = miss_cache_get(c->misses, buf_bytes(&key))) && remote_question(c, req->client))
		m = remote_new(c, req, buf_bytes(&key));
	pthread_mutex_unlock(&c->lock);
	return m;
}

struct str remote_reading(struct resolver_upstream *c, const struct resolve_request *req, struct arena *a)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct resolve_request normal;
	struct net_progress now = { 0 };
	struct str text = { 0 };
	struct remote *m;

	/* The name of a program may be read from the database, and this must be quick. */
	if (req->not_further || (c->by_name && req->kind == RESOLVE_EXECUTABLE) ||
	    !remote_normal(c, req, a, &normal))
		return text;
	remote_key(&normal, &key);
	pthread_mutex_lock(&c->lock);
	m = map_get(&c->remotes, buf_bytes(&key));
	if (m)
		remote_ref(m);
	pthread_mutex_unlock(&c->lock);
	if (!m)
		return text;
	net_fetch_progress(m->fetch, &now);
	if (now.reading)
		text = arena_str(a, str_of(now.reading));
	remote_unref(m);
	return text;
}

int remote_find(struct resolver_upstream *c, const struct resolve_request *req, struct resolve_wake wake,
		struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct lru_ref *remembered = NULL;
	struct resolve_request normal;
	struct remote *m;
	bool again;
	int r = 0;

	if (!remote_normal(c, req, why->arena, &normal)) {
		resolve_why_add(why, STR("other servers"),
				"not asked for a name that leads out of their folder");
		return RESOLVE_MISSING;
	}
	do {
		m = remote_join(c, &normal, &remembered);
		if (!m)
			return remembered ? give_miss(c, remembered, why, err) : refuse_question(c, err);
		pthread_mutex_lock(&m->lock);
		/* It is leaving the table at this moment; the next round finds another fetch, or the cached
		 * miss. */
		again = m->given_up || m->state == REMOTE_OVER;
		if (!again && m->state == REMOTE_ASKING) {
			remote_await(m, 0, wake);
			r = RESOLVE_WAIT;
		} else if (!again) {
			remote_answer(m, why->arena, ret);
		}
		pthread_mutex_unlock(&m->lock);
		remote_unref(m);
	} while (again);
	return r;
}
