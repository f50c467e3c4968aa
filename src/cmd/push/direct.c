/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file to the bucket: announced to the server, sent in one or more PUTs, several at once, and finished by the server.
 *
 * Callbacks of the net thread note the event, and wake the command, whose pump starts the next step. The URLs are
 * secret: they are in no message.
 */
#include "cmd/push/direct.h"

#include <jansson.h>
#include <stdlib.h>

#include "client/answer.h"

#define AT_ONCE        4u
#define TRIES          4u /* of one PUT; two until one has succeeded, since the bucket may be out of reach */
#define PAUSE_MS       500
#define MAX_PAUSE      8000
#define BUSY_MS        1000
#define BUCKET_WAIT_MS 60000 /* a server may copy a part before it answers */
#define URLS_MAX       10000u
#define ANSWER_MAX     MIB(32)

enum direct_state {
	DIRECT_ANNOUNCING,
	DIRECT_SENDING,
	DIRECT_SENT, /* to be finished, from next_ms on */
	DIRECT_FINISHING,
};

/* A PUT that is under way, or to be tried again. */
struct direct_put {
	struct push_direct *d;
	bool used, runs;
	size_t i;     /* of the URL */
	bool renewed; /* its URL was refused once, and is another one */
	unsigned n_tries;
	int64_t next_ms;
	uint64_t off, size, sent;
};

struct push_direct {
	struct push_item *item;
	enum direct_state state;
	struct buf question; /* of the announcement */
	struct bytes body;
	char *upload;
	char **urls;
	size_t n_urls, next, n_done;
	uint64_t part_size;
	struct direct_put puts[AT_ONCE];
	bool expired;    /* URLs are refused: others are to be asked for */
	bool renews;     /* ... and are */
	char *failed;    /* the bucket does not take it: the reason */
	bool unreadable; /* the file, not the bucket */
	bool alone;      /* others can be sent there all the same */
	bool is_over;
	int64_t next_ms;
};

static void urls_free(struct push_direct *d)
{
	for (size_t i = 0; i < d->n_urls; i++)
		free(d->urls[i]);
	free(d->urls);
	free(d->upload);
}

void direct_free(struct push_direct *d)
{
	if (!d)
		return;
	urls_free(d);
	free(d->failed);
	buf_done(&d->question);
	free(d);
}

static void direct_fail(struct push_direct *d, char *why)
{
	if (d->failed)
		free(why);
	else
		d->failed = why;
}

/* ---- requests to the server ---- */

typedef void call_done_fn(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			  const struct err *err);
struct server_call {
	const char *method, *path;
	const char *const *headers;
	size_t n_headers;
	const struct bytes *body;
	call_done_fn *done;
	void *arg;
};

static void call_server(struct push *p, const struct server_call *call)
{
	AUTO(mem_freep) char *url = mem_printf("%s%s", p->o.to, call->path);
	AUTO(mem_freep) char *auth = NULL;
	const char *headers[6];
	size_t n = 0;

	while (n < call->n_headers) {
		headers[n] = call->headers[n];
		n++;
	}
	push_add_token(p, &auth, headers, &n);
	net_call_start(p->net,
		       &(struct net_call_request){ .method = call->method,
						   .url = url,
						   .headers = headers,
						   .n_headers = n,
						   .max_answer = ANSWER_MAX,
						   .silent_ms = PUSH_SILENT_MS,
						   .body = call->body,
						   .arg = call->arg,
						   .done = call->done },
		       NULL);
}

/* A POST without a body, about the upload. */
static void call_about(struct push *p, struct push_direct *d, const char *what, call_done_fn *done)
{
	AUTO(mem_freep) char *path = mem_printf("/push/signed/%s%s", d->upload, what);
	static const struct bytes none = { (const uint8_t *)"", 0 };

	call_server(p, &(struct server_call){ "POST", path, NULL, 0, &none, done, d });
}

static void leave_sending(struct push_direct *d)
{
	d->item->push->n_sending--;
	push_close_part(d->item);
}

/* ---- the announcement ---- */

/* Bytes that go to a server by TLS do not go elsewhere in the clear. */
static bool url_is_allowed(const struct push *p, const char *url)
{
	return str_starts(str_of(url), STR("https://")) ||
	       (str_starts(str_of(url), STR("http://")) && !str_starts(str_of(p->o.to), STR("https://")));
}

static bool read_urls(struct push_direct *d, const json_t *all)
{
	const json_t *urls = json_object_get(all, "urls"), *one;
	json_int_t part = json_integer_value(json_object_get(all, "part_size"));
	const char *upload = json_string_value(json_object_get(all, "upload"));
	size_t n = json_array_size(urls), i;

	if (!upload || strspn(upload, "0123456789abcdef") != strlen(upload) || part <= 0 || !n ||
	    n > URLS_MAX || (d->item->size + (uint64_t)part - 1) / (uint64_t)part != n)
		return false;
	d->upload = mem_strdup(upload);
	d->part_size = (uint64_t)part;
	d->urls = NEW_N(char *, n);
	json_array_foreach(urls, i, one)
	{
		const char *url = json_string_value(one);

		if (!url || !url_is_allowed(d->item->push, url))
			return false;
		d->urls[d->n_urls++] = mem_strdup(url);
	}
	return true;
}

/* NULL: it is no answer with URLs. */
static json_t *urls_json(int outcome, const struct net_call_answer *a)
{
	json_error_t ignored;

	if (outcome != 0 || a->status != 200)
		return NULL;
	return json_loadb((const char *)a->body.p, a->body.size, 0, &ignored);
}

/* It would be in the other way, too. */
static bool announcement_is_refused(const struct net_call_answer *a)
{
	return a->status == 409 ||
	       (net_answer_is_final(a->status) && a->status != 404 && a->status != 405 && a->status != 501);
}

static void on_announced(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			 const struct err *err)
{
	struct push_direct *d = arg;
	struct push *p = d->item->push;
	json_t *all = urls_json(outcome, a);

	pthread_mutex_lock(&p->lock);
	if (outcome != 0) {
		direct_fail(d, mem_strdup(err->text));
	} else if (announcement_is_refused(a)) {
		leave_sending(d);
		push_answered(d->item, a);
		d->is_over = true;
	} else if (a->status != 200) {
		AUTO(mem_freep) char *line = client_message(a->body);

		direct_fail(d, mem_printf("%s (%u)", line, a->status));
	} else if (!read_urls(d, all)) {
		direct_fail(d, mem_strdup("the server's URLs cannot be used"));
	}
	json_decref(all);
	d->state = DIRECT_SENDING;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void direct_start(struct push *p, struct push_item *item)
{
	char id[BUILD_ID_HEX_SIZE], sum[2 * STORE_SHA256_SIZE + 1];
	AUTO(mem_freep) char *mtime = NULL;
	AUTO(buf_done) struct buf file = { 0 };
	const char *headers[4] = { "Content-Type: application/json" };
	struct push_direct *d;
	struct json_writer j;
	struct err err = { 0 };
	size_t n = 1;

	if (push_open_part(item, &err) < 0) {
		push_fail_item(item, mem_strdup(err.text));
		return;
	}
	d = item->direct = NEW(struct push_direct);
	d->item = item;
	j = (struct json_writer)JSON_WRITER(&d->question);
	json_open_object(&j, NULL);
	json_open_array(&j, "objects");
	json_open_object(&j, NULL);
	json_put_text(&j, "id", build_id_hex(&item->key.id, id));
	json_put_text(&j, "kind", store_kind_name(item->key.kind));
	json_put_uint(&j, "size", item->size);
	json_put_text(&j, "sha256", hex_encode(bytes_of(item->sha256, STORE_SHA256_SIZE), sum));
	json_put_text(&j, "quality", store_quality_name(item->quality));
	json_close(&j);
	json_close(&j);
	json_close(&j);
	d->body = buf_bytes(&d->question);
	push_add_names(item, &file, &mtime, headers, &n);
	p->n_sending++;
	push_set_state(item, PUSH_SENDING);
	call_server(p,
		    &(struct server_call){ "POST", "/push/signed", headers, n, &d->body, on_announced, d });
}

/* ---- sending ---- */

static int read_put(void *arg, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct direct_put *t = arg;

	if (push_read(t->d->item, t->off + t->sent, t->size - t->sent, buf, n, ret_got, err) < 0)
		return -1;
	t->sent += *ret_got;
	return 0;
}

/* It was taken before, so it is too old now. */
static bool put_has_expired(const struct direct_put *t, int outcome, const struct net_call_answer *a)
{
	return outcome == 0 && a->status == 403 && t->d->n_done && !t->renewed;
}

/* Refusals are final: the URL has expired, or the bucket does not take such requests. */
static bool put_is_tried_again(const struct direct_put *t, int outcome, const struct net_call_answer *a)
{
	if (t->d->failed || t->n_tries >= (t->d->n_done ? TRIES : TRIES / 2))
		return false;
	return outcome < 0 || a->status >= 500 || a->status == 408 || a->status == 429;
}

static void on_put(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
		   const struct err *err)
{
	struct direct_put *t = arg;
	struct push_direct *d = t->d;
	struct push *p = d->item->push;

	pthread_mutex_lock(&p->lock);
	t->runs = false;
	if (outcome == 0 && a->status >= 200 && a->status < 300) {
		d->n_done++;
		t->used = false;
	} else if (outcome < 0 && (err->kind == ERR_INVALID || err->kind == ERR_IO)) {
		d->unreadable = true;
		direct_fail(d, mem_printf("changed or became unreadable while it was sent: %s", err->text));
	} else if (put_has_expired(t, outcome, a)) {
		t->renewed = d->expired = true;
	} else if (put_is_tried_again(t, outcome, a)) {
		t->next_ms = clock_mono_ms() + clock_backoff(PAUSE_MS, t->n_tries - 1, MAX_PAUSE);
	} else if (outcome < 0) {
		direct_fail(d, mem_strdup(err->text));
	} else {
		direct_fail(d, mem_printf("status %u", a->status));
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void put_start(struct push *p, struct direct_put *t)
{
	/* Of headers, the length alone is signed. Servers that know nothing of 100 Continue would cost a second. */
	static const char *const headers[] = { "Expect:" };
	struct push_direct *d = t->d;

	t->runs = true;
	t->n_tries++;
	t->sent = 0;
	t->off = (uint64_t)t->i * d->part_size;
	t->size = MIN(d->part_size, d->item->size - t->off);
	net_call_start(p->net,
		       &(struct net_call_request){ .method = "PUT",
						   .url = d->urls[t->i],
						   .headers = headers,
						   .n_headers = ARRAY_SIZE(headers),
						   .silent_ms = BUCKET_WAIT_MS,
						   .stays = true,
						   .read = read_put,
						   .body_size = t->size,
						   .arg = t,
						   .done = on_put },
		       NULL);
}

/* Returns the time of the next one that waits; *ret_running: those that run. */
static int64_t puts_start(struct push *p, struct push_direct *d, int64_t now_ms, unsigned *ret_running)
{
	bool stopped = d->failed || d->expired;
	int64_t next_ms = now_ms + 1000;

	*ret_running = 0;
	for (size_t i = 0; i < AT_ONCE; i++) {
		struct direct_put *t = &d->puts[i];

		if (!t->used && !stopped && d->next < d->n_urls)
			*t = (struct direct_put){ .d = d, .used = true, .i = d->next++ };
		if (t->used && !t->runs && !stopped && t->next_ms <= now_ms)
			put_start(p, t);
		if (t->used && !t->runs)
			next_ms = MIN(next_ms, t->next_ms);
		*ret_running += t->used && t->runs;
	}
	return next_ms;
}

/* ---- URLs that have expired ---- */

static void on_renewed(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
		       const struct err *err)
{
	struct push_direct *d = arg, got = { .item = d->item };
	struct push *p = d->item->push;
	json_t *all = urls_json(outcome, a);

	pthread_mutex_lock(&p->lock);
	if (all && read_urls(&got, all) && got.n_urls == d->n_urls && got.part_size == d->part_size) {
		char **old = d->urls;

		d->urls = got.urls;
		got.urls = old;
	} else {
		direct_fail(d, mem_strdup("its URLs have expired, and the server has no others"));
	}
	json_decref(all);
	urls_free(&got);
	d->expired = d->renews = false;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void renew_urls(struct push *p, struct push_direct *d)
{
	d->renews = true;
	call_about(p, d, "/urls", on_renewed);
}

/* ---- the end ---- */

static void on_given_up(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			const struct err *err)
{
}

/* The file goes through the server. */
static void fall_back(struct push *p, struct push_direct *d)
{
	struct push_item *item = d->item;

	if (d->upload) {
		AUTO(mem_freep) char *path = mem_printf("/push/signed/%s", d->upload);

		call_server(p, &(struct server_call){ "DELETE", path, NULL, 0, NULL, on_given_up, NULL });
	}
	leave_sending(d);
	item->is_signed = false;
	if (d->unreadable) {
		push_fail_item(item, TAKE(d->failed));
		return;
	}
	/* The others would wait for the same. */
	if (!p->not_signed && !d->alone)
		p->not_signed = TAKE(d->failed);
	item->off = 0;
	push_set_state(item, PUSH_WANTED);
}

static int end_answer(const struct push_item *item, const struct net_call_answer *a)
{
	struct err ignored = { 0 };
	uint64_t off;

	return client_answer_upload(a->status, a->headers, item->size, &off, &ignored);
}

static void on_finished(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			const struct err *err)
{
	struct push_direct *d = arg;
	struct push_item *item = d->item;
	struct push *p = item->push;
	bool ended = outcome == 0 && (a->status < 500 || net_answer_is_final(a->status));
	int end = ended ? end_answer(item, a) : -1;

	pthread_mutex_lock(&p->lock);
	d->state = DIRECT_SENT;
	if (end == CLIENT_UPLOAD_BUSY) {
		d->next_ms = clock_mono_ms() + BUSY_MS;
	} else if (ended && (a->status == 404 || a->status == 412 || end == CLIENT_UPLOAD_PARTIAL)) {
		/* Parts go through the server: it would be sent the same to the bucket for ever. */
		AUTO(mem_freep) char *line = client_message(a->body);

		direct_fail(d, mem_printf("%s (%u)", line, a->status));
		d->alone = true;
	} else if (ended) {
		leave_sending(d);
		push_answered(item, a);
		p->n_signed += item->state == PUSH_STORED;
	} else if (item->n_failures++ < p->o.retries) {
		d->next_ms = clock_mono_ms() + clock_backoff(PAUSE_MS, item->n_failures - 1, MAX_PAUSE);
	} else {
		AUTO(mem_freep) char *line = outcome == 0 ? client_message(a->body) : mem_strdup(err->text);

		leave_sending(d);
		push_fail_item(item, mem_strdup(line));
	}
	d->is_over = item->state != PUSH_SENDING;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void finish_start(struct push *p, struct push_direct *d)
{
	d->state = DIRECT_FINISHING;
	call_about(p, d, "", on_finished);
}

int64_t direct_step(struct push *p, struct push_item *item, int64_t now_ms)
{
	struct push_direct *d = item->direct;
	int64_t next_ms = now_ms + 1000;
	unsigned running = 0;

	if (d->is_over || d->state == DIRECT_ANNOUNCING || d->state == DIRECT_FINISHING)
		return next_ms;
	if (d->state == DIRECT_SENDING) {
		if (d->expired && !d->renews && !d->failed)
			renew_urls(p, d);
		next_ms = puts_start(p, d, now_ms, &running);
		running += d->renews;
		if (d->n_urls && d->n_done == d->n_urls)
			d->state = DIRECT_SENT;
	}
	if (d->failed && !running) {
		d->is_over = true;
		fall_back(p, d);
	} else if (d->state == DIRECT_SENT) {
		if (d->next_ms > now_ms)
			return MIN(next_ms, d->next_ms);
		finish_start(p, d);
	}
	return next_ms;
}
