/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdebuginfod.so.1 over lode's client. Loading it and debuginfod_begin() do almost nothing: debuggers
 * create a client when they start, and mostly never use it.
 */
#include "debuginfod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "client/client.h"

struct debuginfod_client {
	struct client *client;
	debuginfod_progressfn_t progress;
	void *user_data;
	int verbose_fd;
	bool line_begun; /* by the default progress, on stderr */
	long n_ticks;    /* of this call */
	char *url, *headers;
};

debuginfod_client *debuginfod_begin(void)
{
	debuginfod_client *c = NEW(debuginfod_client);

	c->client = client_new(NULL);
	c->progress = getenv(DEBUGINFOD_PROGRESS_ENV_VAR) ? debuginfod_default_progressfn : NULL;
	c->verbose_fd = getenv(DEBUGINFOD_VERBOSE_ENV_VAR) ? STDERR_FILENO : -1;
	return c;
}

void debuginfod_end(debuginfod_client *c)
{
	if (!c)
		return;
	client_free(c->client);
	free(c->url);
	free(c->headers);
	free(c);
}

/* ---- progress ---- */

int debuginfod_default_progressfn(debuginfod_client *c, long a, long b)
{
	const char *url = c->url, *path = url ? strstr(url, "buildid/") : NULL;
	int size = (int)(path ? (size_t)(path - url) : url ? strlen(url) : 0);

	if (!url)
		dprintf(STDERR_FILENO, "\rDownloading %c", "-/|\\"[a % 4]);
	else if (b > 0)
		dprintf(STDERR_FILENO, "\rDownloading from %.*s %ld/%ld", size, url, a, b);
	else
		dprintf(STDERR_FILENO, "\rDownloading from %.*s %ld", size, url, a);
	c->line_begun = true;
	return 0;
}

static void progress_end_line(debuginfod_client *c)
{
	if (c->line_begun)
		dprintf(STDERR_FILENO, "\n");
	c->line_begun = false;
}

static int on_client_progress(void *arg, const struct client_progress *p)
{
	debuginfod_client *c = arg;

	if (!c->progress)
		return 0;
	if (p->url && (!c->url || strcmp(c->url, p->url) != 0)) {
		free(c->url);
		c->url = mem_strdup(p->url);
	}
	if (p->bytes == 0)
		return c->progress(c, ++c->n_ticks, 0);
	return c->progress(c, (long)p->bytes, p->bytes_expected >= p->bytes ? (long)p->bytes_expected : 0);
}

static void on_client_message(void *arg, const char *line)
{
	debuginfod_client *c = arg;

	if (c->verbose_fd == STDERR_FILENO)
		progress_end_line(c);
	dprintf(c->verbose_fd, "%s\n", line);
}

static struct client_watch watch_of(debuginfod_client *c)
{
	return (struct client_watch){ .arg = c,
				      .progress = on_client_progress,
				      .say = c->verbose_fd >= 0 ? on_client_message : NULL };
}

/* ---- finding ---- */

static void forget_last(debuginfod_client *c)
{
	c->n_ticks = 0;
	mem_freep(&c->url);
	mem_freep(&c->headers);
}

/* The result as callers expect it: a descriptor, or a negative errno. */
static int client_answer(debuginfod_client *c, struct client_result *r, char **path)
{
	int fd;

	progress_end_line(c);
	mem_freep(&c->url);
	c->url = TAKE(r->url);
	c->headers = TAKE(r->headers);
	if (r->outcome == CLIENT_FOUND) {
		fd = TAKE_FD(r->fd);
		if (path)
			*path = TAKE(r->path);
	} else {
		/* A caller that cancels does not expect a failure. */
		fd = r->outcome == CLIENT_CANCELLED || r->os == 0 ? -ENOENT : -r->os;
	}
	client_result_done(r);
	return fd;
}

/*
 * Even a file in the cache folder is not found: without the variable debuginfod is off. The headers were added for this
 * call: a program that adds some before each call would gather them, and send them all when it has servers.
 */
static bool is_without_servers(debuginfod_client *c)
{
	const char *urls = getenv(DEBUGINFOD_URLS_ENV_VAR);

	if (urls && *urls)
		return false;
	client_forget_headers(c->client);
	return true;
}

static bool set_build_id(struct build_id *id, const unsigned char *given, int size)
{
	if (!given || size < 0)
		return false;
	if (size > 0)
		return build_id_set(id, bytes_of(given, (size_t)size));
	return build_id_parse(id, str_of((const char *)given));
}

static int find_artifact(debuginfod_client *c, enum client_kind kind, const unsigned char *build_id,
			 int build_id_len, const char *name, char **path)
{
	struct client_request want = { .kind = kind, .name = name, .open = true };
	struct client_watch watch = watch_of(c);
	struct client_result r;

	if (is_without_servers(c))
		return -ENOSYS;
	if (!set_build_id(&want.id, build_id, build_id_len))
		want.id.size = 0; /* it is refused, after the verbose messages */
	forget_last(c);
	client_find(c->client, &want, 1, &watch, &r);
	return client_answer(c, &r, path);
}

int debuginfod_find_debuginfo(debuginfod_client *c, const unsigned char *build_id, int build_id_len,
			      char **path)
{
	return find_artifact(c, CLIENT_DEBUGINFO, build_id, build_id_len, NULL, path);
}

int debuginfod_find_executable(debuginfod_client *c, const unsigned char *build_id, int build_id_len,
			       char **path)
{
	return find_artifact(c, CLIENT_EXECUTABLE, build_id, build_id_len, NULL, path);
}

int debuginfod_find_source(debuginfod_client *c, const unsigned char *build_id, int build_id_len,
			   const char *filename, char **path)
{
	return find_artifact(c, CLIENT_SOURCE, build_id, build_id_len, filename, path);
}

int debuginfod_find_section(debuginfod_client *c, const unsigned char *build_id, int build_id_len,
			    const char *section, char **path)
{
	return find_artifact(c, CLIENT_SECTION, build_id, build_id_len, section, path);
}

int debuginfod_find_metadata(debuginfod_client *c, const char *key, const char *value, char **path)
{
	struct client_watch watch = watch_of(c);
	struct client_result r;

	if (is_without_servers(c))
		return -ENOSYS;
	forget_last(c);
	client_metadata(c->client, key, value, &watch, &r);
	return client_answer(c, &r, path);
}

/* ---- the rest ---- */

void debuginfod_set_progressfn(debuginfod_client *c, debuginfod_progressfn_t fn)
{
	c->progress = fn;
}

void debuginfod_set_verbose_fd(debuginfod_client *c, int fd)
{
	c->verbose_fd = fd;
}

void debuginfod_set_user_data(debuginfod_client *c, void *value)
{
	c->user_data = value;
}

void *debuginfod_get_user_data(debuginfod_client *c)
{
	return c->user_data;
}

const char *debuginfod_get_url(debuginfod_client *c)
{
	return c->url;
}

const char *debuginfod_get_headers(debuginfod_client *c)
{
	return c->headers;
}

int debuginfod_add_http_header(debuginfod_client *c, const char *header)
{
	return client_add_header(c->client, header, NULL) < 0 ? -EINVAL : 0;
}
