/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection, whichever transport it is of.
 */
#include "http/conn.h"

#include <strings.h>
#include "http/peer.h"

#define QUERY_KEPT KIB(1) /* bytes that a connection keeps between two requests */

/* ---- the query ---- */

void http_query_done(struct http_query *q)
{
	buf_done(&q->text);
	buf_done(&q->pairs);
	*q = (struct http_query){ 0 };
}

static void query_part_drop(struct buf *b)
{
	b->size = 0;
	if (b->room > QUERY_KEPT)
		buf_done(b);
}

void http_query_drop(struct http_query *q)
{
	query_part_drop(&q->text);
	query_part_drop(&q->pairs);
}

/* At the first call for this query: cut the text into pairs. The result stays as it is until the request ends. */
static struct str query_pairs(struct http_query *q)
{
	struct str rest = buf_str(&q->text);

	if (rest.size)
		buf_reserve(&q->pairs, rest.size + 2);
	for (size_t i = 0; i < rest.size; i++)
		if (rest.p[i] == '+')
			q->text.p[i] = ' ';
	while (rest.size) {
		struct str value = str_cut(&rest, '&'), name = str_cut(&value, '=');

		buf_add_str(&q->pairs, name);
		buf_add_char(&q->pairs, '\0');
		buf_add_str(&q->pairs, value);
		buf_add_char(&q->pairs, '\0');
	}
	query_part_drop(&q->text);
	return buf_str(&q->pairs);
}

/* The next pair, which is removed from @pairs. false: there is none. */
static bool query_next(struct str *pairs, const char **ret_name, const char **ret_value)
{
	if (!pairs->size)
		return false;
	*ret_name = str_cut(pairs, '\0').p;
	*ret_value = str_cut(pairs, '\0').p;
	return true;
}

const char *http_arg(struct http_conn *c, const char *name)
{
	struct str pairs = query_pairs(&c->query);
	const char *one, *value;

	while (query_next(&pairs, &one, &value))
		if (strcasecmp(one, name) == 0)
			return value;
	return NULL;
}

void http_args(struct http_conn *c, const char *name, void (*fn)(void *arg, const char *value), void *arg)
{
	struct str pairs = query_pairs(&c->query);
	const char *one, *value;

	while (query_next(&pairs, &one, &value))
		if (strcmp(one, name) == 0)
			fn(arg, value);
}

void http_all_args(struct http_conn *c, void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
	struct str pairs = query_pairs(&c->query);
	const char *name, *value;

	while (query_next(&pairs, &name, &value))
		fn(arg, name, value);
}

/* ---- heads ---- */

static bool header_name_is(struct str name, struct str other)
{
	return name.size == other.size && strncasecmp(name.p, other.p, name.size) == 0;
}

static bool header_name_starts(struct str name, struct str start)
{
	return name.size >= start.size && strncasecmp(name.p, start.p, start.size) == 0;
}

/*
 * Headers that name the client of a proxy. A list, and not all that begins with X-: clients send headers of their
 * own.
 */
static bool is_of_proxy(struct str name)
{
	static const struct str names[] = {
		STR("Forwarded"),
		STR("Via"),
		STR("X-Real-IP"),
		STR("X-Client-IP"),
		STR("X-ProxyUser-IP"),
		STR("X-Cluster-Client-IP"),
		STR("X-Original-Forwarded-For"),
		STR("True-Client-IP"),
		STR("CF-Connecting-IP"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (header_name_is(name, names[i]))
			return true;
	return header_name_starts(name, STR("X-Forwarded-"));
}

static void add_user_agent(struct http_head *head, const char *value)
{
	if (!head->user_agent)
		head->user_agent = value;
	head->browser |= strncmp(value, "Mozilla/", 8) == 0;
}

/* By the first letter, since this runs for each header of each request. A page cannot leave out all headers of its browser. */
void http_head_add(struct http_head *head, struct str name, const char *value)
{
	switch (name.p[0] | 0x20) {
	case 'a':
		if (header_name_is(name, STR("Authorization")))
			head->authorization = value;
		head->browser |= header_name_is(name, STR("Accept-Language"));
		break;
	case 'c':
		head->browser |= header_name_is(name, STR("Cookie"));
		head->forwarded |= is_of_proxy(name);
		break;
	case 'i':
		head->conditional = true;
		break;
	case 'o':
		head->browser |= header_name_is(name, STR("Origin"));
		break;
	case 'r':
		head->conditional = true;
		head->browser |= header_name_is(name, STR("Referer"));
		break;
	case 's':
		head->browser |= header_name_starts(name, STR("Sec-"));
		break;
	case 'u':
		if (header_name_is(name, STR("User-Agent")))
			add_user_agent(head, value);
		head->browser |= header_name_is(name, STR("Upgrade-Insecure-Requests"));
		break;
	case 'x':
		head->conditional = true;
		if (!head->forwarded_for && header_name_is(name, STR("X-Forwarded-For")))
			head->forwarded_for = value;
		head->forwarded |= is_of_proxy(name);
		break;
	case 'f':
	case 't':
	case 'v':
		head->forwarded |= is_of_proxy(name);
		break;
	}
}

/* ---- a connection ---- */

const struct http_head *http_head(struct http_conn *c)
{
	return &c->head;
}

const char *http_header(struct http_conn *c, const char *name)
{
	return c->transport->header(c, name);
}

const struct sockaddr *http_peer(struct http_conn *c)
{
	return c->transport->peer(c);
}

bool http_peer_trusted(struct http_conn *c)
{
	if (!c->trust_known)
		c->trusted = peer_is_trusted(c->transport->socket(c), http_peer(c));
	c->trust_known = true;
	return c->trusted;
}

bool http_both_ways(struct http_conn *c)
{
	c->both_ways = c->head.two;
	return c->both_ways;
}

bool http_is_crowded(struct http_conn *c)
{
	return c->crowded;
}

void http_shut(struct http_conn *c)
{
	c->transport->shut(c);
}

void http_suspend(struct http_conn *c)
{
	c->transport->suspend(c);
}

void http_resume(struct http_conn *c)
{
	c->transport->resume(c);
}

bool http_gone(struct http_conn *c)
{
	return c->transport->gone(c);
}

enum http_result http_send(struct http_conn *c, unsigned status, struct http_reply *reply)
{
	return c->transport->send(c, reply->status ? reply->status : status, reply);
}
