/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: its options, the network, created at the first request that the cache cannot answer, and the
 * state of the servers, shared with other processes in the file `lode_servers` of the cache folder.
 */
#include "client/client.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "client/internal.h"
#include "net/net.h"

#define BREAKERS_NAME  "lode_servers"
#define BREAKERS_MAX   KIB(64)
#define BREAKER_MAX_MS 60000 /* a user is waiting, and may have repaired the server */
#define OS_MAX         KIB(16)

struct client *client_new(const struct client_options *o)
{
	struct client *c = NEW(struct client);

	if (o) {
		c->urls = o->urls ? mem_strdup(o->urls) : NULL;
		c->cache_path = o->cache_path ? mem_strdup(o->cache_path) : NULL;
		c->connections = o->connections;
		c->unread_wait_ms = o->unread_wait_ms;
		c->ignore_misses = o->ignore_misses;
	}
	return c;
}

void client_forget_headers(struct client *c)
{
	for (size_t i = 0; i < c->n_headers; i++)
		free(c->headers[i]);
	c->n_headers = 0;
}

/* In a forked child, closing the connections would end the parent's TLS sessions. */
static void forget_net(struct client *c)
{
	if (c->net && c->pid == getpid())
		net_free(c->net);
	c->net = NULL;
}

void client_free(struct client *c)
{
	if (!c)
		return;
	forget_net(c);
	client_forget_headers(c);
	free(c->headers);
	free(c->urls);
	free(c->cache_path);
	free(c);
}

int client_add_header(struct client *c, const char *line, struct err *err)
{
	if (!client_header_ok(str_of(line)))
		return err_set(err, ERR_INVALID, "not a header: it must have the form Name: value");
	VEC_PUSH(c->headers, c->n_headers, c->room_headers) = mem_strdup(line);
	return 0;
}

/* ---- User-Agent: servers see from it which distribution asks ---- */

static struct str os_field(struct str text, struct str name)
{
	while (text.size) {
		struct str line = str_trim(str_cut(&text, '\n'));

		if (!str_starts(line, name))
			continue;
		line.p += name.size;
		line.size -= name.size;
		if (line.size >= 2 && (line.p[0] == '"' || line.p[0] == '\''))
			line = (struct str){ line.p + 1, line.size - 2 };
		return line;
	}
	return STR("");
}

static void add_plain(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.size; i++)
		if (s.p[i] > ' ' && s.p[i] < 127)
			buf_add_char(b, s.p[i]);
}

static void user_agent(struct buf *out)
{
	AUTO(buf_done) struct buf os = { 0 };
	struct utsname u;

	if (file_read("/etc/os-release", OS_MAX, &os, NULL) != 0)
		(void)!file_read("/usr/lib/os-release", OS_MAX, &os, NULL);
	buf_printf(out, "lode/" LODE_VERSION ",");
	if (uname(&u) == 0)
		buf_printf(out, "%s/%s", u.sysname, u.machine);
	buf_add_char(out, ',');
	add_plain(out, os_field(buf_str(&os), STR("ID=")));
	buf_add_char(out, '/');
	add_plain(out, os_field(buf_str(&os), STR("VERSION_ID=")));
}

/* ---- the network ---- */

static void load_breakers(struct client *c, const struct folder *f)
{
	AUTO(mem_freep) char *path = f->path ? mem_printf("%s/" BREAKERS_NAME, f->path) : NULL;
	AUTO(buf_done) struct buf b = { 0 };

	if (path && file_read(path, BREAKERS_MAX, &b, NULL) == 0)
		net_breakers_load(c->net, buf_str(&b));
	c->breakers_epoch = net_breakers_epoch(c->net);
}

struct net *client_net(struct client *c, const struct folder *f, struct err *err)
{
	AUTO(buf_done) struct buf agent = { 0 };
	/* Files may be on another host than the server: they are checked, and given to the user only. */
	struct net_options o = { .max_per_server = c->connections,
				 .breaker_max_ms = BREAKER_MAX_MS,
				 .redirects = NET_REDIRECT_ANY_HOST };

	if (c->net && c->pid != getpid())
		forget_net(c);
	if (c->net)
		return c->net;
	user_agent(&agent);
	o.user_agent = buf_cstr(&agent);
	if (net_new(&o, &c->net, err) < 0)
		return NULL;
	c->pid = getpid();
	load_breakers(c, f);
	return c->net;
}

void client_save_breakers(struct client *c, const struct folder *f)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *path = NULL, *temp = NULL;
	AUTO(fd_close) int fd = -1;

	if (!c->net || !f->path || f->read_only || net_breakers_epoch(c->net) == c->breakers_epoch)
		return;
	c->breakers_epoch = net_breakers_epoch(c->net);
	net_breakers_save(c->net, &b);
	path = mem_printf("%s/" BREAKERS_NAME, f->path);
	temp = mem_printf("%s.XXXXXX", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd >= 0 && (fd_write(fd, b.p, b.size, NULL) < 0 || rename(temp, path) < 0))
		unlink(temp);
}
