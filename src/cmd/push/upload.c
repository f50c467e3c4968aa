/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking which files the server wants, and sending them: in parts, so that an error is known early and a lost
 * connection costs little; several files at once.
 *
 * After any failure the server is asked about the item again after a pause: it answers whether it has the
 * item by now, and else from which offset on it wants it. A final refusal (token, size, content) is not
 * retried.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include "client/answer.h"
#include "cmd/push/direct.h"
#include "cmd/push/target.h"

#define ASK_AT_ONCE 1000u
#define ASK_MAX     (MIB(4))
#define PART        MIB(64)
#define PAUSE_MS    500 /* doubled with each failure */
#define MAX_PAUSE   30000

void push_set_state(struct push_item *item, enum push_state state)
{
	struct push *p = item->push;

	p->n_state[item->state]--;
	p->n_state[state]++;
	item->state = state;
	if (push_is_over(state))
		fd_close(&item->fd);
	pthread_cond_broadcast(&p->changed);
}

static void end_item(struct push_item *item, enum push_state state, const char *result)
{
	item->result = result;
	push_set_state(item, state);
}

void push_fail_item(struct push_item *item, char *why)
{
	free(item->why);
	item->why = why;
	end_item(item, PUSH_FAILED, "failed");
}

/* Ask about the item again after a pause; after too many failures, give up. Takes @why. */
static void retry_item(struct push_item *item, char *why, int64_t retry_after_s)
{
	struct push *p = item->push;
	int64_t pause_ms = clock_backoff(PAUSE_MS, item->n_failures, MAX_PAUSE);

	if (item->n_failures++ >= p->o.retries) {
		push_fail_item(item, why);
		return;
	}
	free(item->why);
	item->why = why;
	pause_ms = MIN(MAX(pause_ms, retry_after_s * 1000), (int64_t)MAX_PAUSE);
	item->next_ms = clock_mono_ms() + pause_ms;
	push_set_state(item, PUSH_FOUND);
}

static void set_fatal(struct push *p, char *why)
{
	if (p->fatal)
		free(why);
	else
		p->fatal = why;
	pthread_cond_broadcast(&p->changed);
}

void push_add_token(struct push *p, char **auth, const char **list, size_t *n)
{
	*auth = p->o.token ? mem_printf("Authorization: Bearer %s", p->o.token) : NULL;
	if (*auth)
		list[(*n)++] = *auth;
}

/* ---- asking ---- */

struct push_query {
	struct push *p;
	struct push_item **items;
	size_t n;
	struct buf text;
	struct json_writer json; /* into the text */
	struct bytes body;       /* the text */
};

static void query_free(struct push_query *k)
{
	buf_done(&k->text);
	free(k->items);
	free(k);
}

static char *owned_text(const char *owner)
{
	return mem_printf("the server has another file of that build ID, which belongs to '%s': only that "
			  "owner's token, or one with the scope admin, may replace it",
			  owner);
}

static void apply_want(void *arg, size_t i, const struct client_want *w)
{
	struct push_query *k = arg;
	struct push_item *item = k->items[i];

	switch (w->kind) {
	case CLIENT_WANT_YES:
		item->off = w->off < item->size ? w->off : 0;
		item->is_signed = !item->direct && k->p->o.signed_too && !item->off && w->is_signed;
		push_set_state(item, PUSH_WANTED);
		break;
	case CLIENT_WANT_BUSY:
		retry_item(item, mem_strdup("another client is uploading it"), 1);
		break;
	case CLIENT_WANT_SAME:
		end_item(item, PUSH_HERE, "same");
		break;
	case CLIENT_WANT_BETTER:
		end_item(item, PUSH_HERE, "better");
		break;
	case CLIENT_WANT_HELD:
		end_item(item, PUSH_HERE, "held");
		break;
	case CLIENT_WANT_OWNED:
		push_fail_item(item, owned_text(w->owner));
		break;
	case CLIENT_WANT_TOO_LARGE:
		push_fail_item(item, mem_strdup("larger than the server accepts (its --max-push)"));
		break;
	case CLIENT_WANT_NO:
		push_fail_item(item, mem_printf("the server does not take it: %.100s", w->why));
		break;
	}
}

static void query_refused(struct push_query *k, const struct net_call_answer *a)
{
	AUTO(mem_freep) char *line = client_message(a->body);

	if (a->status == 404 || a->status == 405 || a->status == 501)
		set_fatal(k->p, mem_strdup("the server does not accept pushes; is it a lode serve "
					   "without --no-store?"));
	else if (net_answer_is_final(a->status))
		set_fatal(k->p, mem_printf("%s (%u)", line, a->status));
	else
		for (size_t i = 0; i < k->n; i++)
			retry_item(k->items[i], mem_printf("%s (%u)", line, a->status), a->retry_after_s);
}

static void apply_query_answer(struct push_query *k, const struct net_call_answer *a)
{
	struct err err = { 0 };
	int r = client_answer_want(a->status, a->body, k->n, apply_want, k, &err);

	if (r < 0)
		set_fatal(k->p, mem_strdup(err.text));
	else if (r == CLIENT_REFUSED)
		query_refused(k, a);
}

static void on_query_answer(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			    const struct err *err)
{
	struct push_query *k = arg;
	struct push *p = k->p;

	pthread_mutex_lock(&p->lock);
	p->n_asking--;
	if (outcome == 0)
		apply_query_answer(k, a);
	else
		for (size_t i = 0; i < k->n; i++)
			retry_item(k->items[i], mem_strdup(err->text), 0);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	query_free(k);
}

static void add_query_item(struct push_query *k, struct push_item *item)
{
	char id[BUILD_ID_HEX_SIZE], sum[2 * STORE_SHA256_SIZE + 1];

	json_open_object(&k->json, NULL);
	json_put_text(&k->json, "id", build_id_hex(&item->key.id, id));
	json_put_text(&k->json, "kind", store_kind_name(item->key.kind));
	json_put_uint(&k->json, "size", item->size);
	json_put_text(&k->json, "sha256", hex_encode(bytes_of(item->sha256, STORE_SHA256_SIZE), sum));
	json_put_text(&k->json, "quality", store_quality_name(item->quality));
	json_close(&k->json);
	k->items[k->n++] = item;
	push_set_state(item, PUSH_ASKED);
}

static void ask_server(struct push *p, int64_t now_ms)
{
	AUTO(mem_freep) char *url = mem_printf("%s/push/want", p->o.to);
	AUTO(mem_freep) char *auth = NULL;
	struct push_query *k = NEW(struct push_query);
	const char *headers[4] = { "Content-Type: application/json" };
	size_t n = 1;

	k->p = p;
	k->items = NEW_N(struct push_item *, ASK_AT_ONCE);
	k->json.out = &k->text;
	json_open_object(&k->json, NULL);
	json_open_array(&k->json, "objects");
	for (struct push_item *item = p->open; item && k->n < ASK_AT_ONCE && k->text.size < ASK_MAX;
	     item = item->next)
		if (item->state == PUSH_FOUND && item->next_ms <= now_ms)
			add_query_item(k, item);
	json_close(&k->json);
	json_close(&k->json);
	k->body = buf_bytes(&k->text);
	push_add_token(p, &auth, headers, &n);
	p->n_asking++;
	net_call_start(p->net,
		       &(struct net_call_request){ .method = "POST",
						   .url = url,
						   .headers = headers,
						   .n_headers = n,
						   .max_answer = MIB(8),
						   .silent_ms = PUSH_SILENT_MS,
						   .body = &k->body,
						   .arg = k,
						   .done = on_query_answer },
		       NULL);
}

/* ---- sending ---- */

int push_read(struct push_item *item, uint64_t off, uint64_t left, void *buf, size_t n, size_t *ret_got,
	      struct err *err)
{
	struct push *p = item->push;

	if (fd_pread(item->sending_fd, buf, (size_t)MIN((uint64_t)n, left), off, ret_got, err) < 0)
		return -1;
	pthread_mutex_lock(&p->lock);
	p->bytes_sent += *ret_got;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static int read_upload(void *arg, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct push_item *item = arg;

	if (push_read(item, item->part_off + item->part_sent, item->part_size - item->part_sent, buf, n,
		      ret_got, err) < 0)
		return -1;
	item->part_sent += *ret_got;
	return 0;
}

/* Go on at @off. Only a part that was taken as a whole ends a row of failures: else a server that always wants the
 * same bytes would be sent them for ever. */
static void part_taken(struct push_item *item, uint64_t off)
{
	if (off < item->part_off + item->part_size) {
		retry_item(item, mem_strdup("the server did not take all of a part"), 0);
		return;
	}
	if (off > item->farthest) {
		item->farthest = off;
		item->n_failures = 0;
	}
	item->off = off;
	push_set_state(item, PUSH_WANTED);
}

/* A refusal that is none of those in enum client_upload. */
static void upload_refused(struct push_item *item, const struct net_call_answer *a)
{
	AUTO(mem_freep) char *line = client_message(a->body);

	if (a->status == 401 || a->status == 403)
		set_fatal(item->push, mem_printf("%s (%u)", line, a->status));
	if (net_answer_is_final(a->status))
		push_fail_item(item, mem_printf("%s (%u)", line, a->status));
	else
		retry_item(item, mem_printf("%s (%u)", line, a->status), a->retry_after_s);
}

void push_answered(struct push_item *item, const struct net_call_answer *a)
{
	struct push *p = item->push;
	struct err err = { 0 };
	uint64_t off = 0;
	int r = client_answer_upload(a->status, a->headers, item->size, &off, &err);

	switch (r) {
	case CLIENT_UPLOAD_STORED:
	case CLIENT_UPLOAD_HELD:
		p->bytes_stored += item->size;
		p->n_held += r == CLIENT_UPLOAD_HELD;
		end_item(item, PUSH_STORED, r == CLIENT_UPLOAD_HELD ? "held" : "stored");
		return;
	case CLIENT_UPLOAD_SAME:
		end_item(item, PUSH_HERE, "same");
		return;
	case CLIENT_UPLOAD_BETTER:
		end_item(item, PUSH_HERE, "better");
		return;
	case CLIENT_UPLOAD_PARTIAL:
		part_taken(item, off);
		return;
	case CLIENT_UPLOAD_OFFSET:
		retry_item(item, mem_strdup("the server expected another offset"), 0);
		return;
	case CLIENT_UPLOAD_OWNED:
		push_fail_item(item, client_message(a->body));
		return;
	}
	if (r < 0)
		retry_item(item, mem_strdup(err.text), 0);
	else
		upload_refused(item, a);
}

void push_close_part(struct push_item *item)
{
	if (item->fd < 0)
		fd_close(&item->sending_fd);
	item->sending_fd = -1;
}

static void on_part_sent(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			 const struct err *err)
{
	struct push_item *item = arg;
	struct push *p = item->push;

	pthread_mutex_lock(&p->lock);
	p->n_sending--;
	push_close_part(item);
	if (outcome == 0)
		push_answered(item, a);
	else if (err->kind == ERR_INVALID || err->kind == ERR_IO)
		push_fail_item(item,
			       mem_printf("changed or became unreadable while it was sent: %s", err->text));
	else
		retry_item(item, mem_strdup(err->text), 0);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

int push_open_part(struct push_item *item, struct err *err)
{
	struct stat st;
	int r;

	if (item->fd >= 0) {
		item->sending_fd = item->fd;
		return 0;
	}
	r = file_open(item->path, &item->sending_fd, &st, err);
	if (r == 0 && (uint64_t)st.st_size == item->size)
		return 0;
	fd_close(&item->sending_fd);
	return r < 0 ? -1 : err_set(err, ERR_CHANGED, "changed since it was hashed; push it again");
}

void push_add_names(struct push_item *item, struct buf *file, char **mtime, const char **list, size_t *n)
{
	if (!item->name)
		return;
	buf_printf(file, "X-LODE-FILE: ");
	net_escape(file, str_of(item->name), true);
	list[(*n)++] = buf_cstr(file);
	list[(*n)++] = *mtime = mem_printf("X-LODE-MTIME: %lld", (long long)item->mtime);
}

static void send_part(struct push *p, struct push_item *item)
{
	char id[BUILD_ID_HEX_SIZE], sum[2 * STORE_SHA256_SIZE + 1];
	AUTO(mem_freep) char *url = NULL;
	AUTO(mem_freep) char *auth = NULL;
	AUTO(mem_freep) char *range = NULL;
	AUTO(mem_freep) char *sha = NULL;
	AUTO(mem_freep) char *mtime = NULL;
	AUTO(buf_done) struct buf file = { 0 };
	const char *headers[8];
	struct err err = { 0 };
	size_t n = 0;

	if (push_open_part(item, &err) < 0) {
		push_fail_item(item, mem_strdup(err.text));
		return;
	}
	item->part_off = item->off;
	item->part_size = MIN(PART, item->size - item->off);
	item->part_sent = 0;
	url = mem_printf("%s/buildid/%s/%s", p->o.to, build_id_hex(&item->key.id, id),
			 store_kind_name(item->key.kind));
	headers[n++] = sha = mem_printf("X-LODE-SHA256: %s",
					hex_encode(bytes_of(item->sha256, STORE_SHA256_SIZE), sum));
	if (item->part_size < item->size)
		headers[n++] = range = mem_printf("Content-Range: bytes %llu-%llu/%llu",
						  (unsigned long long)item->part_off,
						  (unsigned long long)(item->part_off + item->part_size - 1),
						  (unsigned long long)item->size);
	push_add_names(item, &file, &mtime, headers, &n);
	push_add_token(p, &auth, headers, &n);
	p->n_sending++;
	push_set_state(item, PUSH_SENDING);
	net_call_start(p->net,
		       &(struct net_call_request){ .method = "PUT",
						   .url = url,
						   .headers = headers,
						   .n_headers = n,
						   .silent_ms = PUSH_SILENT_MS,
						   .read = read_upload,
						   .body_size = item->part_size,
						   .arg = item,
						   .done = on_part_sent },
		       NULL);
}

/* ---- the pump ---- */

int64_t push_pump(struct push *p, int64_t now_ms)
{
	int64_t next_ms = now_ms + 1000;
	bool questions = false;

	if (p->fatal || p->stop)
		return next_ms;
	while (p->open && push_is_over(p->open->state) && p->open->next)
		p->open = p->open->next;
	if (!p->open)
		p->open = p->first;
	for (struct push_item *item = p->open; item; item = item->next) {
		if (item->state == PUSH_FOUND && item->next_ms > now_ms)
			next_ms = MIN(next_ms, item->next_ms);
		else if (item->state == PUSH_FOUND)
			questions = true;
		else if (item->state == PUSH_SENDING && item->direct)
			next_ms = MIN(next_ms, direct_step(p, item, now_ms));
		if (item->state != PUSH_WANTED || p->n_sending >= p->o.parallel)
			continue;
		if (item->is_signed && !p->not_signed)
			direct_start(p, item);
		else
			send_part(p, item);
	}
	/* Items found while a query is under way go into the next one. */
	if (questions && !p->n_asking)
		ask_server(p, now_ms);
	return next_ms;
}
