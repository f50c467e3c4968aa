/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode token: the tokens of clients that may push to this machine's service. A running service sees a change
 * within a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include "cmd/service/service.h"
#include "http/token.h"

struct token_list {
	struct token *v;
	size_t n, room;
};

static void token_list_done(struct token_list *l)
{
	mem_freep(&l->v);
}

/* The file has its hash only. */
static int token_is_lost(struct err *err)
{
	return err_set(err, ERR_IO, "could not be printed; remove the token and add it again");
}

static int token_add(const struct settings *s, const char *path, struct token_list *l, struct err *err)
{
	const char *scope = service_settings(s)->scope;
	struct str name = s->paths.items[1];
	AUTO(buf_done) struct buf text = { 0 };
	struct buf json = { 0 };
	struct json_writer j = JSON_WRITER(&json);
	char secret[TOKEN_SECRET_SIZE];
	struct token *t;
	unsigned scopes;

	if (!token_name_ok(name))
		return err_set(err, ERR_INVALID,
			       "'" STR_FMT "' cannot be a name: up to %d letters, digits or signs, no blanks",
			       STR_ARG(name), TOKEN_MAX_NAME - 1);
	/* Objects that were pushed without a token have this owner. */
	if (str_eq(name, STR("local")) || str_eq(name, STR("loopback")))
		return err_set(err, ERR_INVALID,
			       "'" STR_FMT "' is the name of this machine's own user; choose another",
			       STR_ARG(name));
	if (!token_scopes_parse(str_of(scope ? scope : "push"), &scopes))
		return err_set(err, ERR_INVALID,
			       "--scope: '%s' is not read, push, admin, or several of them with commas",
			       scope);
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(name, str_of(l->v[i].name)))
			return err_set(err, ERR_INVALID,
				       "there is a token '" STR_FMT
				       "' already; remove it, or choose another name",
				       STR_ARG(name));
	if (l->n == TOKENS_MAX)
		return err_set(err, ERR_LIMIT, "there are %u tokens, the most there can be; remove some",
			       TOKENS_MAX);
	t = &VEC_PUSH(l->v, l->n, l->room);
	if (token_make(name, scopes, t, secret, err) < 0 || tokens_write(path, l->v, l->n, err) < 0)
		return -1;
	token_scopes_print(scopes, &text);
	if (s->json) {
		json_open_object(&j, NULL);
		json_put_text(&j, "name", t->name);
		json_put_text(&j, "scope", buf_cstr(&text));
		json_put_text(&j, "token", secret);
		json_close(&j);
		return json_print_end(&json) == EXIT_DONE ? 0 : token_is_lost(err);
	}
	printf("%s\n", secret);
	/* Of a terminal it is written by printf(), and nothing is left for fflush() to fail at. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return token_is_lost(err);
	fprintf(stderr, "lode: token: '%s' may %s. The token is printed only now: write it to a file, %s\n",
		t->name, buf_cstr(&text),
		scopes == TOKEN_READ
			? "as the line 'Authorization: Bearer TOKEN' for $DEBUGINFOD_HEADERS_FILE"
			: "for lode push --token-file");
	return 0;
}

static int token_ls(const struct settings *s, const char *path, struct token_list *l, struct err *err)
{
	AUTO(buf_done) struct buf json = { 0 };
	struct json_writer j = JSON_WRITER(&json);

	json_open_array(&j, NULL);
	for (size_t i = 0; i < l->n; i++) {
		AUTO(buf_done) struct buf scopes = { 0 };
		time_t when = (time_t)l->v[i].created;
		char date[32] = "-";
		struct tm tm;

		token_scopes_print(l->v[i].scopes, &scopes);
		if (localtime_r(&when, &tm))
			strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
		if (s->json) {
			json_open_object(&j, NULL);
			json_put_text(&j, "name", l->v[i].name);
			json_put_text(&j, "scope", buf_cstr(&scopes));
			json_put_int(&j, "created", l->v[i].created);
			json_close(&j);
		} else {
			printf("%-30s %-12s %s\n", l->v[i].name, buf_cstr(&scopes), date);
		}
	}
	json_close(&j);
	if (s->json)
		json_print_end(&json);
	return 0;
}

static int token_rm(const struct settings *s, const char *path, struct token_list *l, struct err *err)
{
	for (size_t k = 1; k < s->paths.n; k++) {
		size_t i = 0;

		while (i < l->n && !str_eq(s->paths.items[k], str_of(l->v[i].name)))
			i++;
		if (i == l->n)
			return err_set(err, ERR_INVALID,
				       "there is no token '" STR_FMT "'; no token was removed",
				       STR_ARG(s->paths.items[k]));
		memmove(&l->v[i], &l->v[i + 1], (--l->n - i) * sizeof(*l->v));
	}
	if (tokens_write(path, l->v, l->n, err) < 0)
		return -1;
	if (!l->n)
		fprintf(stderr,
			"lode: token: no token is left, so no client may push; remove %s to let root and the "
			"service's user push without one\n",
			path);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const struct settings *s, const char *path, struct token_list *l, struct err *err);
	size_t min_args, max_args;
} actions[] = {
	{ "add", token_add, 2, 2 },
	{ "ls", token_ls, 1, 1 },
	{ "rm", token_rm, 2, SIZE_MAX },
};

/* One process at a time reads the file and writes it anew. */
static int tokens_lock(const char *path, int *ret_fd, struct err *err)
{
	AUTO(mem_freep) char *lock_path = mem_printf("%s.lock", path);
	int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && file_own_as_folder(fd, lock_path, err) < 0) {
		fd_close(&fd);
		return -1;
	}
	if (fd < 0 || flock(fd, LOCK_EX) < 0) {
		fd_close(&fd);
		return err_os(err, errno, "%s", lock_path);
	}
	*ret_fd = fd;
	return 0;
}

static int run_on(const struct settings *s, int (*run)(const struct settings *s, const char *path,
						       struct token_list *l, struct err *err))
{
	const char *given = service_settings(s)->tokens;
	AUTO(token_list_done) struct token_list l = { 0 };
	AUTO(mem_freep) char *data = NULL;
	AUTO(mem_freep) char *path = NULL;
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };

	data = data_dir(s->data, &err);
	if (!data)
		return tell_error("token", &err);
	path = tokens_path(given, data);
	if (!given && dir_make(data, 0755, &err) < 0)
		return tell_error("token", &err);
	if (tokens_lock(path, &fd, &err) < 0 || tokens_read(path, &l.v, &l.n, &err) < 0)
		return tell_error("token", &err);
	l.room = l.n;
	return run(s, path, &l, &err) < 0 ? tell_error("token", &err) : EXIT_DONE;
}

static int run_token(struct settings *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (!str_eq(s->paths.items[0], str_of(actions[i].name)))
			continue;
		if (s->paths.n >= actions[i].min_args && s->paths.n <= actions[i].max_args)
			return run_on(s, actions[i].run);
		return usage_error("token", "%s: %s", actions[i].name,
				   s->paths.n < actions[i].min_args ? "no NAME given" : "too many arguments");
	}
	return usage_error("token", "the actions are add, ls and rm, not '" STR_FMT "'",
			   STR_ARG(s->paths.items[0]));
}

static const struct option_row token_rows[] = {
	{ 0, "tokens", "FILE", "the file of hashed tokens [DATA/tokens]", SERVICE_TEXT(tokens) },
	{ 0, "scope", "SCOPE",
	  "add: read; push, which includes read; admin, which includes removing; several with commas [push]",
	  SERVICE_TEXT(scope) },
	{ 0 },
};
static const struct option_group token_group = { "Tokens", token_rows };

const struct command command_token = {
	.name = "token",
	.args = "add NAME | ls | rm NAME...",
	.summary = "add and remove tokens of clients that may push to this machine's service",
	.examples = "  lode token add ci > ci.token       for: lode push --token-file ci.token\n"
		    "  lode token add ops --scope admin\n"
		    "  lode token rm ci\n",
	.groups = { &group_state, &token_group, &group_output },
	.configured = true,
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "no action given: add, ls or rm",
	.own_size = sizeof(struct service_settings),
	.run = run_token,
};
