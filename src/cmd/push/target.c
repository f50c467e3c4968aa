/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that a command sends files to.
 */
#include "cmd/push/target.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define TOKEN_FILE_MAX KIB(4)
#define MESSAGE_MAX    400u
#define TRIES          5u
#define FIRST_PAUSE_MS 500 /* doubled with each failure */
#define MAX_PAUSE_MS   30000
#define SILENT_MS      300000 /* the server may have much to write before it answers */
#define TURN_MS        200
#define MAX_ANSWER     MIB(64)

int target_token(const char *path, struct arena *a, const char **ret, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct str text;
	int r;

	if (!path) {
		const char *env = getenv("LODE_TOKEN");

		*ret = env && *env ? env : NULL;
		return 0;
	}
	r = file_read(path, TOKEN_FILE_MAX, &b, err);
	if (r)
		return r < 0 ? -1 : err_os(err, ENOENT, "--token-file %s", path);
	text = str_trim(buf_str(&b));
	for (size_t i = 0; i < text.size; i++)
		if ((unsigned char)text.p[i] <= ' ' || (unsigned char)text.p[i] > '~')
			return err_set(err, ERR_INVALID,
				       "--token-file %s: the file must hold one token, and nothing else",
				       path);
	*ret = text.size ? arena_strdup(a, text) : NULL;
	return text.size ? 0 : err_set(err, ERR_INVALID, "--token-file %s: the file is empty", path);
}

int target_url(const char *text, struct arena *a, const char **ret, struct err *err)
{
	struct net_url_list list;

	if (!text)
		return err_set(err, ERR_INVALID, "no server given: --to URL");
	net_urls_parse(str_of(text), false, a, &list);
	if (list.n != 1 || strncmp(list.urls[0], "http", 4) != 0)
		return err_set(err, ERR_INVALID,
			       "--to %s: not the URL of a server, as http://host:8002 or unix:/PATH", text);
	*ret = list.urls[0];
	return 0;
}

bool target_has_page(const char *url)
{
	return !str_starts(str_of(url), STR("http+"));
}

/* ---- answers ---- */

static char *printable_text(struct str s)
{
	char *out = mem_strndup(s.p ? s.p : "", MIN(s.size, (size_t)MESSAGE_MAX));

	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	return out;
}

char *target_message(struct bytes body)
{
	struct str text = { (const char *)body.p, body.size };
	json_error_t ignored;
	json_t *all = json_loadb(text.p ? text.p : "", text.size, 0, &ignored);
	const char *said = json_string_value(json_object_get(all, "error"));
	char *out = printable_text(said ? str_of(said) : str_trim(str_cut(&text, '\n')));

	json_decref(all);
	return out;
}

bool target_is_final(unsigned status)
{
	return status >= 400 && status < 500 && status != 408 && status != 409 && status != 425 &&
	       status != 429;
}

/* ---- requests ---- */

struct target_call {
	bool over;
	int outcome;
	unsigned status;
	int64_t retry_after_s;
	struct buf *answer;
	struct err *err;
};

int target_open(struct target *t, struct err *err)
{
	signal(SIGPIPE, SIG_IGN);
	return net_new(NULL, &t->net, err);
}

void target_close(struct target *t)
{
	net_free(t->net);
	t->net = NULL;
}

static void on_target_answer(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			     const struct err *err)
{
	struct target_call *k = arg;

	k->over = true;
	k->outcome = outcome;
	if (outcome < 0) {
		*k->err = *err;
		return;
	}
	k->status = a->status;
	k->retry_after_s = a->retry_after_s;
	k->answer->size = 0;
	buf_add(k->answer, a->body.p, a->body.size);
}

static bool is_target_stopped(const struct target *t)
{
	return t->stopped && t->stopped();
}

static int ask_once(struct target *t, struct net_call_request *req, struct target_call *k)
{
	struct net_call *call;

	k->over = false;
	k->retry_after_s = -1;
	req->arg = k;
	net_call_start(t->net, req, &call);
	while (!k->over) {
		net_run(t->net, TURN_MS);
		if (is_target_stopped(t))
			net_call_cancel(call);
	}
	net_call_unref(call);
	return k->outcome;
}

static void pause_ms(struct target *t, int64_t ms)
{
	int64_t until_ms = clock_mono_ms() + ms, left_ms;

	while ((left_ms = until_ms - clock_mono_ms()) > 0 && !is_target_stopped(t))
		usleep((unsigned)MIN(left_ms, (int64_t)TURN_MS) * 1000);
}

int target_ask(struct target *t, const struct target_request *req, unsigned *ret_status, struct buf *ret_body,
	       struct err *err)
{
	AUTO(mem_freep) char *url = mem_printf("%s%s", t->url, req->path);
	AUTO(mem_freep) char *auth = t->token ? mem_printf("Authorization: Bearer %s", t->token) : NULL;
	AUTO(mem_freep) char *content = req->type ? mem_printf("Content-Type: %s", req->type) : NULL;
	struct target_call k = { .answer = ret_body, .err = err };
	struct net_call_request call = { .method = req->method,
					 .url = url,
					 .max_answer = MAX_ANSWER,
					 .silent_ms = SILENT_MS,
					 .body = req->type ? &req->body : NULL,
					 .done = on_target_answer };
	const char *headers[2];

	call.headers = headers;
	if (auth)
		headers[call.n_headers++] = auth;
	if (content)
		headers[call.n_headers++] = content;
	for (unsigned i = 0;; i++) {
		int r = ask_once(t, &call, &k);

		if (r == 0 && (k.status < 400 || target_is_final(k.status) || i + 1 == TRIES))
			break;
		if (r < 0 && (!t->reached || i + 1 == TRIES || is_target_stopped(t)))
			return -1;
		pause_ms(t, MIN(MAX((int64_t)FIRST_PAUSE_MS << i, k.retry_after_s * 1000),
				(int64_t)MAX_PAUSE_MS));
	}
	t->reached = true;
	*ret_status = k.status;
	return 0;
}
