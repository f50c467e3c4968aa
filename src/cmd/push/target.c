/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that a command sends files to.
 */
#include "cmd/push/target.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define TOKEN_FILE_MAX KIB(4)
#define TRIES          5u
#define FIRST_PAUSE_MS 500 /* doubled with each failure */
#define MAX_PAUSE_MS   30000
#define SILENT_MS      300000 /* the server may have much to write before it answers */
#define TURN_MS        200
#define MAX_ANSWER     MIB(64)

/* It becomes a header: a line break within it would end the line, and begin another. */
static bool is_token(struct str text)
{
	for (size_t i = 0; i < text.size; i++)
		if ((unsigned char)text.p[i] <= ' ' || (unsigned char)text.p[i] > '~')
			return false;
	return true;
}

/* Secrets that are kept in files have a newline at their end, also in a variable. */
static int token_of_variable(struct arena *a, const char **ret, struct err *err)
{
	const char *value = getenv("LODE_TOKEN");
	struct str text = value ? str_trim(str_of(value)) : STR("");

	if (!is_token(text))
		return err_set(err, ERR_INVALID, "$LODE_TOKEN must hold one token, and nothing else");
	*ret = text.size ? arena_strdup(a, text) : NULL;
	return 0;
}

int target_token(const char *path, struct arena *a, const char **ret, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct str text;
	int r;

	if (!path)
		return token_of_variable(a, ret, err);
	r = file_read(path, TOKEN_FILE_MAX, &b, err);
	if (r)
		return r < 0 ? -1 : err_os(err, ENOENT, "--token-file %s", path);
	text = str_trim(buf_str(&b));
	if (!is_token(text))
		return err_set(err, ERR_INVALID,
			       "--token-file %s: the file must hold one token, and nothing else", path);
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

/* ---- requests ---- */

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

static bool is_target_stopped(void *arg)
{
	const struct target *t = arg;

	return t->stopped && t->stopped();
}

static void pause_ms(struct target *t, int64_t ms)
{
	int64_t until_ms = clock_mono_ms() + ms, left_ms;

	while ((left_ms = until_ms - clock_mono_ms()) > 0 && !is_target_stopped(t))
		usleep((unsigned)MIN(left_ms, (int64_t)TURN_MS) * 1000);
}

int target_ask(struct target *t, const struct target_request *req, struct net_answer *ret, struct err *err)
{
	AUTO(mem_freep) char *url = mem_printf("%s%s", t->url, req->path);
	AUTO(mem_freep) char *auth = t->token ? mem_printf("Authorization: Bearer %s", t->token) : NULL;
	AUTO(mem_freep) char *content = req->type ? mem_printf("Content-Type: %s", req->type) : NULL;
	struct net_call_request call = { .method = req->method,
					 .url = url,
					 .max_answer = MAX_ANSWER,
					 .silent_ms = SILENT_MS,
					 .body = req->type ? &req->body : NULL };
	const char *headers[2];

	call.headers = headers;
	if (auth)
		headers[call.n_headers++] = auth;
	if (content)
		headers[call.n_headers++] = content;
	for (unsigned i = 0;; i++) {
		int r;

		/* A small request may reach the server before net_call_wait() looks at this. */
		if (is_target_stopped(t))
			return err_set(err, ERR_CANCELLED, "stopped");
		r = net_call_wait(t->net, &call, is_target_stopped, t, ret, err);
		if (r == 0 && (ret->status < 400 || net_answer_is_final(ret->status) || i + 1 == TRIES))
			break;
		net_answer_done(ret);
		if (r < 0 && (!t->reached || i + 1 == TRIES || is_target_stopped(t)))
			return -1;
		pause_ms(t,
			 MIN(MAX(clock_backoff(FIRST_PAUSE_MS, i, MAX_PAUSE_MS), ret->retry_after_s * 1000),
			     (int64_t)MAX_PAUSE_MS));
	}
	t->reached = true;
	return 0;
}
