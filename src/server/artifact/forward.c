/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers for requests to other servers: the client's address and the servers between. And whether
 * other servers are asked: not if the request has been here before (our name is in its Via), nor if it came
 * through too many servers.
 */
#include "server/artifact/artifact.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>
#include <sys/random.h>
#include "http/peer.h"

/*
 * A longer list is passed on without its names. Other servers refuse lists of more than 1 KiB, so that many of them in a row
 * may add their names to one that is passed on.
 */
#define MAX_LIST       512u
#define MAX_USER_AGENT 256u

void forward_make_id(char out[FORWARD_ID_SIZE])
{
	uint64_t random = (uint64_t)clock_mono_ns();

	/* A request for a few bytes is never answered with fewer. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random ^= (uint64_t)(uintptr_t)out;
	snprintf(out, FORWARD_ID_SIZE, "lode-%016llx", (unsigned long long)random);
}

static const char *peer_text(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN])
{
	const void *p = NULL;

	if (addr && addr->sa_family == AF_INET)
		p = &((const struct sockaddr_in *)addr)->sin_addr;
	else if (addr && addr->sa_family == AF_INET6)
		p = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	return p && inet_ntop(addr->sa_family, p, out, INET6_ADDRSTRLEN) ? out : "unknown";
}

/*
 * Empty elements count: elfutils' server counts the commas. If a client could make its list longer for the next server than
 * for this one, a miss because of it would be cached for the requests of all clients.
 */
static unsigned count_hops(const char *list)
{
	unsigned n = *list != '\0';

	for (; *list; list++)
		n += *list == ',';
	return n;
}

static bool is_long_list(const char *list)
{
	return list && strlen(list) > MAX_LIST;
}

/* Made printable, so that it is one line of a request. */
static struct str passed_on(struct request *req, const char *value, const char *also)
{
	char *text = arena_printf(&req->arena, "%s%s%s", value ? value : "", value && *value ? ", " : "",
				  also);

	for (char *p = text; *p; p++)
		if ((uint8_t)*p < 0x20 || (uint8_t)*p > 0x7e)
			*p = '?';
	return str_of(text);
}

/* As many hops as there are in @forwarded, and ours. Servers count them, so that requests do not run in circles. */
static struct str hidden_hops(struct request *req, const char *forwarded)
{
	AUTO(buf_done) struct buf text = { 0 };

	for (size_t i = count_hops(forwarded ? forwarded : ""); i; i--)
		buf_add_str(&text, STR("unknown, "));
	buf_add_str(&text, STR("unknown"));
	return arena_str(&req->arena, buf_str(&text));
}

/* Clients of a reverse proxy on this machine are told apart by the address that it adds. */
static uint32_t forward_client(struct request *req, const char *forwarded)
{
	struct str rest = str_of(forwarded ? forwarded : ""), last = { 0 };
	const struct sockaddr *peer = http_peer(req->conn);
	uint32_t client = req->client;

	while (rest.size)
		last = str_trim(str_cut(&rest, ','));
	if (last.size && peer && (peer->sa_family == AF_UNIX || peer_is_loopback(peer)))
		client ^= (uint32_t)hash64(last.p, last.size, 0);
	return MAX(client, RESOLVE_FIRST_CLIENT);
}

void forward_set(struct request *req, struct resolve_request *what)
{
	const struct server_options *o = &req->s->opts;
	const char *forwarded = http_header(req->conn, "X-Forwarded-For"),
		   *via = http_header(req->conn, "Via"), *agent = http_header(req->conn, "User-Agent");
	char peer[INET6_ADDRSTRLEN], here[FORWARD_ID_SIZE + 8];

	if (!o->net || !o->n_upstreams)
		return;
	what->n_hops = MAX(count_hops(forwarded ? forwarded : ""), count_hops(via ? via : ""));
	if (via && strstr(via, req->s->id)) {
		what->not_further = "not asked: the request came from this server, through other servers";
	} else if (what->n_hops >= o->forwarded_ttl_limit) {
		what->not_further = "not asked: X-Forwarded-For: the request came through too many servers";
		/* In the words of elfutils' server, with its spelling, for which scripts search. */
		log_debug("http", "forwared-ttl-limit reached and will not query the upstream servers");
	}
	if (what->not_further)
		return;
	what->client = forward_client(req, forwarded);
	what->forwarded_for = o->hide_clients || is_long_list(forwarded)
				      ? hidden_hops(req, forwarded)
				      : passed_on(req, forwarded, peer_text(http_peer(req->conn), peer));
	snprintf(here, sizeof(here), "1.1 %s", req->s->id);
	/* Names of proxies are hidden, too; a circle is found by ours, or by the hops in X-Forwarded-For. */
	what->via = passed_on(req, o->hide_clients || is_long_list(via) ? NULL : via, here);
	if (!o->hide_clients && agent && *agent && strlen(agent) <= MAX_USER_AGENT)
		what->user_agent = passed_on(req, NULL, agent);
}
