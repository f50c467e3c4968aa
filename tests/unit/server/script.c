/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define MAX_ARTIFACTS 16u
#define MAX_WAKERS    64u

struct script {
	struct resolver resolver;
	struct script_artifact list[MAX_ARTIFACTS];
	struct build_id ids[MAX_ARTIFACTS];
	size_t n;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	bool open;
	unsigned n_at_gate, n_wakers, n_resolved, n_open;
	uint64_t n_read, epoch;
	struct {
		void (*fn)(void *arg);
		void *arg;
	} wakers[MAX_WAKERS];
};

struct script_source {
	struct source source;
	struct script *script;
	const struct script_artifact *artifact;
};

/*
 * One random-looking pattern is used for all artifacts, at different offsets. Its length is prime, so that
 * it has no shorter period.
 */
#define PATTERN 65521u

static uint8_t pattern[PATTERN];
static pthread_once_t pattern_once = PTHREAD_ONCE_INIT;

static void make_pattern(void)
{
	for (uint64_t i = 0; i < PATTERN; i++)
		pattern[i] = (uint8_t)((i * i * 0x9e3779b97f4a7c15ull + i) >> 56);
}

/* The part of the pattern at @at, at most @n bytes. */
static struct bytes stretch(const struct script_artifact *a, uint64_t at, size_t n)
{
	size_t place = (size_t)((at + a->seed * 4099) % PATTERN);

	pthread_once(&pattern_once, make_pattern);
	return bytes_of(pattern + place, MIN(n, PATTERN - place));
}

void script_fill(const struct script_artifact *a, uint64_t at, void *p, size_t n)
{
	for (struct bytes b; n; at += b.size, p = (uint8_t *)p + b.size, n -= b.size) {
		b = stretch(a, at, n);
		memcpy(p, b.p, b.size);
	}
}

bool script_same(const struct script_artifact *a, uint64_t at, const void *p, size_t n)
{
	for (struct bytes b; n; at += b.size, p = (const uint8_t *)p + b.size, n -= b.size) {
		b = stretch(a, at, n);
		if (memcmp(p, b.p, b.size) != 0)
			return false;
	}
	return true;
}

static int script_read(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		       size_t *ret_got, struct err *err)
{
	struct script_source *ss = CONTAINER_OF(s, struct script_source, source);
	const struct script_artifact *a = ss->artifact;
	struct script *sc = ss->script;

	if (a->gate_at && off < a->gate_at)
		n = MIN(n, (size_t)(a->gate_at - off));
	pthread_mutex_lock(&sc->lock);
	if (a->gate_at && off >= a->gate_at) {
		sc->n_at_gate++;
		pthread_cond_broadcast(&sc->changed);
		while (!sc->open)
			pthread_cond_wait(&sc->changed, &sc->lock);
		sc->n_at_gate--;
	}
	sc->n_read += n;
	pthread_mutex_unlock(&sc->lock);
	if (a->fail_at && off + n > a->fail_at) {
		if (off >= a->fail_at)
			return err_set(err, ERR_IO, "read error at %llu", (unsigned long long)off);
		n = (size_t)(a->fail_at - off);
	}
	if (a->short_at && off + n > a->short_at)
		n = off >= a->short_at ? 0 : (size_t)(a->short_at - off);
	script_fill(a, off, buf, n);
	*ret_got = n;
	return 0;
}

static void script_close_source(struct source *s)
{
	struct script_source *ss = CONTAINER_OF(s, struct script_source, source);

	pthread_mutex_lock(&ss->script->lock);
	ss->script->n_open--;
	pthread_cond_broadcast(&ss->script->changed);
	pthread_mutex_unlock(&ss->script->lock);
	source_fini(s);
	free(ss);
}

static const struct source_ops source_ops = { .read = script_read, .close = script_close_source };

static const struct script_artifact *find(struct script *sc, const struct build_id *id)
{
	for (size_t i = 0; i < sc->n; i++)
		if (build_id_eq(&sc->ids[i], id))
			return &sc->list[i];
	return NULL;
}

static int open_source(struct script *sc, const struct script_artifact *a, struct resolve_answer *ret,
		       struct err *err)
{
	struct script_source *ss;

	ret->tag = a->seed + 1;
	ret->mtime = 1700000000;
	ret->sequential_only = a->sequential_only;
	if (a->plain) {
		ret->plain = true;
		ret->file = str_of(a->plain);
		return source_open_file(a->plain, &ret->source, err);
	}
	ret->file = STR("/usr/lib/debug/member.debug");
	ret->archive = str_of(a->archive ? a->archive : "/srv/pool/x.deb");
	ss = NEW(struct script_source);
	ss->script = sc;
	ss->artifact = a;
	source_init(&ss->source, &source_ops, a->size, 1700000000, "script");
	ret->source = &ss->source;
	pthread_mutex_lock(&sc->lock);
	sc->n_open++;
	pthread_mutex_unlock(&sc->lock);
	return 0;
}

static int script_resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
			  struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct script *sc = CONTAINER_OF(r, struct script, resolver);
	struct script_artifact *a = (struct script_artifact *)find(sc, &req->id);
	bool wait = false;

	pthread_mutex_lock(&sc->lock);
	sc->n_resolved++;
	if (a && a->n_waits) {
		a->n_waits--;
		wait = true;
		assert(sc->n_wakers < MAX_WAKERS);
		sc->wakers[sc->n_wakers].fn = wake.fn;
		sc->wakers[sc->n_wakers++].arg = wake.arg;
		pthread_cond_broadcast(&sc->changed);
	}
	pthread_mutex_unlock(&sc->lock);
	if (wait)
		return RESOLVE_WAIT;
	if (!a) {
		resolve_why_add(why, STR("package /srv/pool/secret/a.deb"), "no such member\nnor\tany other");
		return RESOLVE_MISSING;
	}
	if (a->busy)
		return RESOLVE_BUSY;
	if (a->error)
		return err_set(err, (enum err_kind)a->error, "%s", a->error_text);
	return open_source(sc, a, ret, err);
}

static bool script_unknown(struct resolver *r, const struct resolve_request *req)
{
	return req->id.size == 1 && req->id.b[0] == 0;
}

static int script_metadata(struct resolver *r, const struct index_metadata_query *q,
			   struct index_metadata_page *ret, struct err *err)
{
	ret->complete = false;
	return 0;
}

static uint64_t script_epoch(struct resolver *r)
{
	struct script *sc = CONTAINER_OF(r, struct script, resolver);
	uint64_t epoch;

	pthread_mutex_lock(&sc->lock);
	epoch = sc->epoch;
	pthread_mutex_unlock(&sc->lock);
	return epoch;
}

static struct str script_reading(struct resolver *r, const struct resolve_request *req, struct arena *a)
{
	return arena_str(a, STR("slow.deb (41 %)"));
}

static void script_free(struct resolver *r)
{
	struct script *sc = CONTAINER_OF(r, struct script, resolver);

	script_wake(r);
	assert(!sc->n_open);
	pthread_mutex_destroy(&sc->lock);
	pthread_cond_destroy(&sc->changed);
	free(sc);
}

struct resolver *script_new(const struct script_artifact *list, size_t n)
{
	static const struct resolver_ops ops = { .resolve = script_resolve,
						 .unknown = script_unknown,
						 .metadata = script_metadata,
						 .epoch = script_epoch,
						 .close = script_free,
						 .reading = script_reading };
	struct script *sc = NEW(struct script);

	assert(n <= MAX_ARTIFACTS);
	sc->resolver.ops = &ops;
	sc->n = n;
	for (size_t i = 0; i < n; i++) {
		bool ok = build_id_parse(&sc->ids[i], str_of(list[i].hex));

		assert(ok);
		sc->list[i] = list[i];
	}
	pthread_mutex_init(&sc->lock, NULL);
	pthread_cond_init(&sc->changed, NULL);
	return &sc->resolver;
}

static struct script *locked(struct resolver *r)
{
	struct script *sc = CONTAINER_OF(r, struct script, resolver);

	pthread_mutex_lock(&sc->lock);
	return sc;
}

static void set_gate(struct resolver *r, bool open)
{
	struct script *sc = locked(r);

	sc->open = open;
	pthread_cond_broadcast(&sc->changed);
	pthread_mutex_unlock(&sc->lock);
}

void script_open_gate(struct resolver *r)
{
	set_gate(r, true);
}

void script_close_gate(struct resolver *r)
{
	set_gate(r, false);
}

void script_wait_at_gate(struct resolver *r, unsigned n)
{
	struct script *sc = locked(r);

	while (sc->n_at_gate < n)
		pthread_cond_wait(&sc->changed, &sc->lock);
	pthread_mutex_unlock(&sc->lock);
}

unsigned script_wake(struct resolver *r)
{
	unsigned n = 0;

	for (;;) {
		struct script *sc = locked(r);
		void (*fn)(void *arg) = NULL;
		void *arg = NULL;

		if (sc->n_wakers) {
			fn = sc->wakers[--sc->n_wakers].fn;
			arg = sc->wakers[sc->n_wakers].arg;
		}
		pthread_mutex_unlock(&sc->lock);
		if (!fn)
			return n;
		fn(arg);
		n++;
	}
}

void script_wait_waiting(struct resolver *r, unsigned n)
{
	struct script *sc = locked(r);

	while (sc->n_wakers < n)
		pthread_cond_wait(&sc->changed, &sc->lock);
	pthread_mutex_unlock(&sc->lock);
}

void script_bump_epoch(struct resolver *r)
{
	locked(r)->epoch++;
	pthread_mutex_unlock(&CONTAINER_OF(r, struct script, resolver)->lock);
}

uint64_t script_bytes_read(struct resolver *r)
{
	struct script *sc = locked(r);
	uint64_t n = sc->n_read;

	pthread_mutex_unlock(&sc->lock);
	return n;
}

unsigned script_n_resolved(struct resolver *r)
{
	struct script *sc = locked(r);
	unsigned n = sc->n_resolved;

	pthread_mutex_unlock(&sc->lock);
	return n;
}

unsigned script_n_open(struct resolver *r)
{
	struct script *sc = locked(r);
	unsigned n = sc->n_open;

	pthread_mutex_unlock(&sc->lock);
	return n;
}
