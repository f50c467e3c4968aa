/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request: facts for the receiver, and the forms that are refused.
 *
 * libmicrohttpd reads more forms than RFC 9112 allows: a line that ends in a bare LF, a line that continues the one
 * before it, a second Host or Content-Length, both lengths at once. A proxy before it may read such a request as
 * another one, or as two. Most of them show in the list of headers. The ends of lines do not; but version 0.9.75
 * parses in place, so the distance between one header and the next is known: the two bytes of a CR LF. Later
 * versions check the ends of lines themselves.
 *
 * The lines between the chunks of a body are read in the same way, and nobody sees them here. So a connection ends with
 * a request in chunks: bytes that a proxy takes for a part of its body are never read as the next request.
 */
#include "http/conn.h"

#include <strings.h>
#include "http/mhd_lazy.h"

#define IN_PLACE_VERSION "0.9.75"
#define LINE_END         2u /* CR LF, which the parser replaces by two NULs */
#define VERSION_SIZE     8u /* "HTTP/1.1" */
#define GET_BODY_MAX     KIB(64)

#define WRONG_LINES                                                                                         \
	"the lines of the request do not end in CR LF, or continue on the next line, or have spaces where " \
	"none may be"
#define WRONG_HOST   "a request has one Host"
#define WRONG_LENGTH "a request has one Content-Length, or one 'Transfer-Encoding: chunked', not both"
#define WRONG_BODY   "GET and HEAD take no body"

struct head_reader {
	struct http_head *head;
	const char *next; /* where the next line starts; NULL: not known */
	unsigned n_host, n_length, n_coding;
	bool is_chunked, is_large;
};

static bool name_is(const char *key, size_t size, struct str name)
{
	return size == name.size && strncasecmp(key, name.p, size) == 0;
}

static void read_framing(struct head_reader *r, const char *key, size_t size, const char *value)
{
	uint64_t n;

	if (name_is(key, size, STR("Host"))) {
		r->n_host++;
		r->head->host = value;
	} else if (name_is(key, size, STR("Content-Length"))) {
		r->n_length++;
		r->head->has_length = true;
		r->is_large = !str_to_u64(str_of(value), &n) || n > GET_BODY_MAX;
	} else if (name_is(key, size, STR("Transfer-Encoding"))) {
		r->n_coding++;
		r->is_chunked = strcasecmp(value, "chunked") == 0;
	}
}

/* A name has neither blanks nor control characters, so "Host : x" and " X: y" are none. */
static bool is_name(const char *key, size_t size)
{
	unsigned wrong = !size;

	for (size_t i = 0; i < size; i++)
		wrong |= (unsigned char)(key[i] - '!') > '~' - '!';
	return !wrong;
}

static enum MHD_Result mhd_read_header(void *arg, enum MHD_ValueKind kind, const char *key, size_t key_size,
				       const char *value, size_t value_size)
{
	struct head_reader *r = arg;
	const char *text = value ? value : "";

	if (!is_name(key, key_size) || memchr(text, '\r', value_size) || memchr(text, '\n', value_size))
		r->head->wrong = WRONG_LINES;
	if (r->next && (key != r->next || value < key || value[value_size] || value[value_size + 1]))
		r->head->wrong = WRONG_LINES;
	if (r->head->wrong)
		return MHD_NO;
	if (r->next)
		r->next = value + value_size + LINE_END;
	switch (key[0] | 0x20) {
	case 'h':
	case 'c':
	case 't':
		read_framing(r, key, key_size, text);
	}
	http_head_add(r->head, (struct str){ key, key_size }, text);
	return MHD_YES;
}

static bool parses_in_place(void)
{
	static _Atomic int known; /* 1: yes; -1: no */

	if (!known)
		known = strcmp(MHD_get_version(), IN_PLACE_VERSION) == 0 ? 1 : -1;
	return known > 0;
}

static const char *judge_framing(const struct head_reader *r)
{
	if (r->n_host > 1 || (!r->n_host && !r->head->old))
		return WRONG_HOST;
	if (r->n_length + r->n_coding > 1 || (r->n_coding && (!r->is_chunked || r->head->old)))
		return WRONG_LENGTH;
	return r->head->get && (r->n_coding || (r->n_length && r->is_large)) ? WRONG_BODY : NULL;
}

/* Its reply says "Connection: close", as if the client had asked for that. */
static void end_after_chunks(struct MHD_Connection *c, struct http_head *head)
{
	if (MHD_set_connection_value(c, MHD_HEADER_KIND, "Connection", "close") != MHD_YES)
		head->wrong = "the head is too long for a body in chunks";
}

void mhd_read_head(struct MHD_Connection *c, const struct mhd_line *line, struct http_head *ret)
{
	struct head_reader r = { .head = ret };
	const char *end = NULL;
	bool in_place = parses_in_place();

	/* The two methods differ in their first letter, so most comparisons end there. */
	*ret = (struct http_head){ .old = strcmp(line->version, "HTTP/1.0") == 0,
				   .get = strcmp(line->method, line->method[0] == 'H' ? "HEAD" : "GET") ==
					  0 };
	if (in_place) {
		end = line->method +
		      MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
		r.next = line->version + VERSION_SIZE + LINE_END;
		if (line->url != line->method + strlen(line->method) + 1)
			ret->wrong = WRONG_LINES;
	}
	if (strchr(line->url, ' ') || strchr(line->url, '\r'))
		ret->wrong = WRONG_LINES;
	if (!ret->wrong)
		MHD_get_connection_values_n(c, MHD_HEADER_KIND, mhd_read_header, &r);
	if (!ret->wrong && in_place && r.next + LINE_END != end)
		ret->wrong = WRONG_LINES;
	if (!ret->wrong)
		ret->wrong = judge_framing(&r);
	if (!ret->wrong && r.n_coding)
		end_after_chunks(c, ret);
}
