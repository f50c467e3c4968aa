/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First the server is asked whether it wants these bytes; then it gets parts of 1 MiB, each in memory, with pauses between
 * them. A part is small enough that the connection is never busy for long.
 */
#include "agent/upload.h"

#include <stdlib.h>
#include <time.h>

#include "agent/sender.h"
#include "base/json.h"
#include "client/answer.h"

#define PART       MIB(1)
#define TURN_MS    100
#define SILENT_MS  300000 /* the server checks and syncs a file before it answers */
#define TRIES      5u
#define MAX_ANSWER MIB(1)

/* An upload on its way. */
struct upload_state {
	uint64_t off;
	int64_t retry_after_s; /* as the last answer asked for; -1: it did not */
};

/* One request. Negative: there is no answer. */
static int upload_ask(const struct upload_way *w, struct net_call_request *req, struct upload_state *st,
		      struct net_answer *ret, struct err *err)
{
	int r;

	req->max_answer = MAX_ANSWER;
	req->silent_ms = SILENT_MS;
	r = net_call_wait(w->net, req, w->stopped, w->arg, ret, err);
	st->retry_after_s = r == 0 ? ret->retry_after_s : -1;
	return r;
}

static int upload_pause(const struct upload_way *w, int64_t ms, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + ms;

	while (clock_mono_ms() < until_ms) {
		struct timespec t = { .tv_nsec = TURN_MS * 1000000L };

		if (w->stopped(w->arg))
			return err_set(err, ERR_CANCELLED, "the agent ends");
		nanosleep(&t, NULL);
	}
	return 0;
}

/* How long @size bytes take at the rate. */
static int64_t rate_ms(const struct upload_way *w, uint64_t size)
{
	return (int64_t)(size * 1000 / w->rate);
}

/* The upload has ended with a part of @size bytes; the next one may begin at once. */
static void pause_after_part(const struct upload_way *w, uint64_t size)
{
	struct err ignored = { 0 };

	(void)upload_pause(w, rate_ms(w, size), &ignored);
}

static int upload_status_error(const struct net_answer *k, struct err *err)
{
	AUTO(mem_freep) char *message = client_message(buf_bytes(&k->body));

	(void)err_set(err, ERR_UPSTREAM, "the server answered %u: %.160s", k->status, message);
	if (agent_is_mendable(k->status))
		return UPLOAD_DENIED;
	return net_answer_is_final(k->status) ? UPLOAD_REFUSED : -1;
}

/* ---- does it want the file? ---- */

struct want_reading {
	int r;
	uint64_t off;
	struct err *err;
};

static void read_want(void *arg, size_t i, const struct client_want *w)
{
	struct want_reading *x = arg;

	switch (w->kind) {
	case CLIENT_WANT_YES:
		x->off = w->off;
		return;
	case CLIENT_WANT_BUSY:
		x->r = err_set(x->err, ERR_UPSTREAM, "another client is uploading it");
		return;
	case CLIENT_WANT_SAME:
	case CLIENT_WANT_BETTER:
	case CLIENT_WANT_HELD:
		x->r = UPLOAD_HERE;
		break;
	case CLIENT_WANT_OWNED:
	case CLIENT_WANT_TOO_LARGE:
	case CLIENT_WANT_NO:
		x->r = UPLOAD_REFUSED;
		break;
	}
	(void)err_set(x->err, ERR_UPSTREAM, "the server does not take it: %.100s", w->why);
}

static int read_want_answer(const struct net_answer *k, uint64_t *ret_off, struct err *err)
{
	struct want_reading x = { .err = err };
	int r = client_answer_want(k->status, buf_bytes(&k->body), 1, read_want, &x, err);

	if (r == CLIENT_REFUSED)
		return upload_status_error(k, err);
	*ret_off = x.off;
	return r < 0 ? r : x.r;
}

static int ask_want(const struct upload_way *w, const struct upload_file *f, const char *sum,
		    struct upload_state *st, struct err *err)
{
	AUTO(mem_freep) char *url = mem_printf("%s/push/want", w->url);
	AUTO(mem_freep) char *auth = NULL;
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer j = { .out = &text };
	char id[BUILD_ID_HEX_SIZE];
	struct net_answer k;
	const char *headers[2];
	struct bytes body;
	int r;

	json_open_object(&j, NULL);
	json_open_array(&j, "objects");
	json_open_object(&j, NULL);
	json_put_text(&j, "id", build_id_hex(&f->key.id, id));
	json_put_text(&j, "kind", store_kind_name(f->key.kind));
	json_put_uint(&j, "size", f->size);
	json_put_text(&j, "sha256", sum);
	json_put_text(&j, "quality", store_quality_name(f->quality));
	json_close(&j);
	json_close(&j);
	json_close(&j);
	body = buf_bytes(&text);
	r = upload_ask(w,
		       &(struct net_call_request){
			       .method = "POST",
			       .url = url,
			       .headers = headers,
			       .n_headers = agent_headers(w->token, "Content-Type: application/json", &auth,
							  headers),
			       .body = &body },
		       st, &k, err);
	if (r == 0)
		r = read_want_answer(&k, &st->off, err);
	net_answer_done(&k);
	return r;
}

/* ---- parts ---- */

/* Moves *off after a part that the server has taken. */
static int read_part_answer(const struct net_answer *k, uint64_t size, uint64_t *off, struct err *err)
{
	int r = client_answer_upload(k->status, buf_str(&k->headers), size, off, err);

	switch (r) {
	case CLIENT_UPLOAD_STORED:
	case CLIENT_UPLOAD_HELD:
		*off = size;
		return 0;
	case CLIENT_UPLOAD_SAME:
	case CLIENT_UPLOAD_BETTER:
		*off = size;
		return UPLOAD_HERE;
	case CLIENT_UPLOAD_PARTIAL:
		return 0;
	case CLIENT_UPLOAD_OWNED:
		(void)upload_status_error(k, err);
		return UPLOAD_REFUSED;
	default:
		return r < 0 ? r : upload_status_error(k, err);
	}
}

/* Send the part at the offset, and move that to the next one; to the file's size after the last one. */
static int put_part(const struct upload_way *w, const struct upload_file *f, const char *sum, uint8_t *part,
		    struct upload_state *st, struct err *err)
{
	size_t size = (size_t)MIN(f->size - st->off, (uint64_t)PART), got;
	char id[BUILD_ID_HEX_SIZE];
	AUTO(mem_freep)
	char *url = mem_printf("%s/buildid/%s/%s", w->url, build_id_hex(&f->key.id, id),
			       store_kind_name(f->key.kind));
	AUTO(mem_freep) char *sha = mem_printf("X-LODE-SHA256: %s", sum);
	AUTO(mem_freep)
	char *range = mem_printf("Content-Range: bytes %llu-%llu/%llu", (unsigned long long)st->off,
				 (unsigned long long)(st->off + size - 1), (unsigned long long)f->size);
	AUTO(mem_freep) char *auth = NULL;
	AUTO(buf_done) struct buf name = { 0 };
	struct bytes body;
	const char *headers[6];
	struct net_answer k;
	size_t n = agent_headers(w->token, sha, &auth, headers);
	int r;

	if (fd_pread(f->fd, part, size, st->off, &got, err) < 0)
		return -1;
	if (got != size)
		return err_set(err, ERR_CHANGED, "the file became shorter while it was sent");
	if (size < f->size)
		headers[n++] = range;
	if (f->name) {
		buf_add_str(&name, STR("X-LODE-FILE: "));
		net_escape(&name, str_of(f->name), true);
		headers[n++] = buf_cstr(&name);
	}
	body = bytes_of(part, size);
	r = upload_ask(
		w,
		&(struct net_call_request){
			.method = "PUT", .url = url, .headers = headers, .n_headers = n, .body = &body },
		st, &k, err);
	if (r == 0)
		r = read_part_answer(&k, f->size, &st->off, err);
	net_answer_done(&k);
	if (r >= 0)
		w->sent(w->arg, size);
	return r;
}

int agent_upload(const struct upload_way *w, const struct upload_file *f, struct err *err)
{
	const struct file_range all = { f->fd, 0, f->size };
	AUTO(mem_freep) uint8_t *part = mem_alloc(PART);
	uint8_t sha256[SHA256_SIZE];
	char sum[2 * SHA256_SIZE + 1];
	struct upload_state st = { 0 };
	int r = sha256_of_file(&all, w->stopped, w->arg, sha256, err);

	if (r == 0)
		hex_encode(bytes_of(sha256, sizeof(sha256)), sum);

	for (unsigned tries = 0; r == 0 && tries < TRIES; tries++) {
		uint64_t sent = 0; /* bytes of the last part */

		r = ask_want(w, f, sum, &st, err);
		if (r == 0 && st.off >= f->size)
			st.off = 0;
		while (r == 0) {
			uint64_t before = st.off;

			sent = MIN(f->size - st.off, (uint64_t)PART);
			r = put_part(w, f, sum, part, &st, err);
			if (r < 0)
				break;
			if (r > 0 || st.off == f->size) {
				pause_after_part(w, sent);
				return r;
			}
			/* The rate counts the sent bytes: a server could want the same bytes over and over. */
			r = upload_pause(w, rate_ms(w, sent), err);
			if (st.off < before + sent)
				break;
		}
		/*
		 * After a failure the server says from which byte on it wants the file. The rate counts the bytes of a part
		 * that failed, too.
		 */
		if (r < 0 && err->kind == ERR_UPSTREAM && tries + 1 < TRIES)
			r = upload_pause(w,
					 MAX(agent_pause_ms(tries, SENDER_FIRST_MS, st.retry_after_s),
					     rate_ms(w, sent)),
					 err);
		else if (r < 0)
			pause_after_part(w, sent);
	}
	return r ? r : err_set(err, ERR_UPSTREAM, "the upload does not end");
}
