/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of servers as users write them, and URLs as text. libcurl gets the URL that is made here, so a token
 * that could be read in two ways is refused.
 */
#include "net/internal.h"

#include <strings.h>

#define SHOWN_MAX     80u
#define SOCKET_TOKEN  "unix:"
#define SOCKET_SCHEME "http+unix://"

static bool url_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void net_escape(struct buf *out, struct str s, bool slashes)
{
	for (size_t i = 0; i < s.size; i++) {
		char c = s.p[i];

		if (is_alnum(c) || memchr("-._~", c, 4) || (c == '/' && slashes))
			buf_add_char(out, c);
		else
			buf_printf(out, "%%%02X", (uint8_t)c);
	}
}

bool net_escape_source(struct buf *out, struct str path)
{
	AUTO(mem_freep) char *canonical = mem_alloc(path.size + 2);
	struct str name = { canonical + 1, path_rooted(path, canonical) - 1 };

	if (!name.size || !net_path_is_inside(name))
		return false;
	net_escape(out, name, true);
	return true;
}

/* The part between "//" and the path, and its position. */
static struct str authority_of(struct str url, size_t *ret_at)
{
	const char *p = memmem(url.p, url.size, "://", 3);
	size_t at = p ? (size_t)(p - url.p) + 3 : 0, end = at;

	while (end < url.size && !memchr("/?#", url.p[end], 3))
		end++;
	*ret_at = at;
	return (struct str){ url.p + at, end - at };
}

bool net_socket_of(struct str url, char ret[NET_SOCKET_MAX + 1], struct str *ret_rest)
{
	char path[3 * NET_SOCKET_MAX];
	struct str authority;
	size_t at, n;

	if (!str_starts(url, STR(SOCKET_SCHEME)))
		return false;
	authority = authority_of(url, &at);
	if (authority.size > sizeof(path) || !hex_unescape(authority, true, path, &n) || n > NET_SOCKET_MAX ||
	    n < 2 || path[0] != '/' || memchr(path, '\0', n))
		return false;
	memcpy(ret, path, n);
	ret[n] = '\0';
	*ret_rest = (struct str){ url.p + at + authority.size, url.size - at - authority.size };
	return true;
}

struct str net_url_shown(struct str url, struct arena *a)
{
	char socket[NET_SOCKET_MAX + 1];
	struct str rest, shown;
	char *p;

	if (net_socket_of(url, socket, &rest)) {
		p = arena_printf(a, SOCKET_TOKEN "%s" STR_FMT, socket, STR_ARG(rest));
		shown = str_of(p);
	} else {
		size_t at;
		struct str authority = authority_of(url, &at);
		const char *sign = memrchr(authority.p, '@', authority.size);
		size_t cut = sign ? (size_t)(sign - authority.p) + 1 : 0;

		p = arena_alloc(a, url.size + 1);
		memcpy(p, url.p, at);
		memcpy(p + at, url.p + at + cut, url.size - at - cut);
		p[url.size - cut] = '\0';
		shown = (struct str){ p, url.size - cut };
	}
	for (size_t i = 0; i < shown.size; i++)
		if ((uint8_t)p[i] < 0x20 || p[i] == 0x7f)
			p[i] = '?';
	return shown;
}

static struct str token_shown(struct str token, struct arena *a)
{
	struct str shown = net_url_shown(token, a);

	return (struct str){ shown.p, MIN(shown.size, (size_t)SHOWN_MAX) };
}

/* host, host:port, [v6], [v6]:port; each may have user:password@ in front. */
static const char *host_fault(struct str authority)
{
	const char *sign = memrchr(authority.p, '@', authority.size);
	struct str host = authority, port = { 0 };
	uint64_t number;

	if (sign)
		host = (struct str){ sign + 1, authority.size - (size_t)(sign + 1 - authority.p) };
	if (host.size && host.p[0] == '[') {
		const char *close = memchr(host.p, ']', host.size);

		if (!close)
			return "not a URL: \"[\" without \"]\"";
		port = (struct str){ close + 1, host.size - (size_t)(close + 1 - host.p) };
		host = (struct str){ host.p + 1, (size_t)(close - host.p) - 1 };
		for (size_t i = 0; i < host.size; i++)
			if (!is_alnum(host.p[i]) && !memchr(":.%", host.p[i], 3))
				return "not a URL: no address in the brackets";
		if (port.size && port.p[0] != ':')
			return "not a URL: something other than a port after \"]\"";
	} else {
		const char *colon = memchr(host.p, ':', host.size);

		if (colon) {
			port = (struct str){ colon, host.size - (size_t)(colon - host.p) };
			host.size = (size_t)(colon - host.p);
		}
		for (size_t i = 0; i < host.size; i++)
			if (!is_alnum(host.p[i]) && !memchr("-._", host.p[i], 3) && (uint8_t)host.p[i] < 0x80)
				return "not a URL: a character that no host name has";
	}
	if (!host.size)
		return "not a URL: no host";
	if (!port.size)
		return NULL;
	port.p++;
	port.size--;
	if (!str_to_u64(port, &number) || number < 1 || number > 65535)
		return "not a URL: the port is not a number from 1 to 65535";
	return NULL;
}

/* "https" of "ssqp+https". */
static struct str scheme_without_kind(struct str scheme)
{
	const char *plus = memchr(scheme.p, '+', scheme.size), *plain;
	AUTO(mem_freep) char *text = mem_strndup(scheme.p, scheme.size);

	/* Of an unknown kind the whole scheme is unknown. */
	if (!plus || net_url_layout(text, &plain) == NET_DEBUGINFOD)
		return scheme;
	return (struct str){ plus + 1, scheme.size - (size_t)(plus + 1 - scheme.p) };
}

static const char *url_fault(struct str url)
{
	char path[NET_SOCKET_MAX + 1];
	struct str scheme = url, rest;
	size_t at;
	struct str authority = authority_of(url, &at);

	for (size_t i = 0; i < url.size; i++)
		if ((uint8_t)url.p[i] <= 0x20 || url.p[i] == 0x7f || memchr("\"<>\\^`{|}", url.p[i], 9))
			return "not a URL: a character that must be escaped in one";
	if (memchr(url.p, '#', url.size) || memchr(url.p, '?', url.size))
		return "not a server's URL: it has a \"?\" or \"#\", but paths are appended to it";
	scheme.size = at - 3;
	scheme = scheme_without_kind(scheme);
	if (str_eq(scheme, STR("file"))) {
		if (authority.size && !str_eq(authority, STR("localhost")))
			return "not a URL: file:// takes no host; is a slash missing?";
		return at + authority.size < url.size ? NULL : "not a URL: file:// without a path";
	}
	if (str_eq(scheme, STR("http+unix")))
		return net_socket_of(url, path, &rest)
			       ? NULL
			       : "not a Unix socket: it must have the form unix:/PATH, of at most 107 bytes";
	if (!str_eq(scheme, STR("http")) && !str_eq(scheme, STR("https")))
		return "unknown scheme: it must be http, https, file or unix; ssqp+, tree+ or unified+ "
		       "may be before one of the first three";
	return host_fault(authority);
}

static bool has_byte(const struct net_url_list *l, struct str url)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(str_of(l->urls[i]), url))
			return true;
	return false;
}

/* From "/run/x" or "///run/x/". */
static struct str socket_url(struct str path, struct arena *a)
{
	AUTO(buf_done) struct buf b = { 0 };

	while (path.size > 1 && path.p[path.size - 1] == '/')
		path.size--;
	if (str_starts(path, STR("//")))
		path = (struct str){ path.p + 2, path.size - 2 };
	buf_add_str(&b, STR(SOCKET_SCHEME));
	net_escape(&b, path, false);
	return arena_str(a, buf_str(&b));
}

/* The scheme in lower case, no slashes at the end. */
static struct str url_normal(struct str token, struct arena *a)
{
	const char *p = memmem(token.p, token.size, "://", 3);
	size_t n_scheme = p ? (size_t)(p - token.p) : 0, prefix = p ? 0 : strlen("http://"), size;
	char *url;

	while (token.size > (p ? n_scheme + 4 : 1) && token.p[token.size - 1] == '/')
		token.size--;
	size = prefix + token.size;
	url = arena_alloc(a, size + 1);
	memcpy(url, "http://", prefix);
	memcpy(url + prefix, token.p, token.size);
	url[size] = '\0';
	for (size_t i = 0; i < n_scheme; i++)
		if (url[i] >= 'A' && url[i] <= 'Z')
			url[i] = (char)(url[i] | 0x20);
	return (struct str){ url, size };
}

static void note_token(struct net_url_list *l, struct str token, const char *text, bool ignored,
		       struct arena *a)
{
	if (l->n_notes < NET_SERVERS_MAX)
		l->notes[l->n_notes++] = (struct net_url_note){ token_shown(token, a), text, ignored };
}

/*
 * A policy applies to the servers after it. Where signatures are enforced, elfutils' client asks a server for
 * signatures of its files and refuses files without one. We cannot check them, so such a server is not asked:
 * never less than requested.
 */
static void add_policy(struct net_url_list *l, struct str token, bool *enforced, struct arena *a)
{
	bool permissive = str_eq(token, STR("ima:permissive"));

	*enforced = !permissive && !str_eq(token, STR("ima:ignore"));
	if (permissive)
		note_token(l, token, "signatures of files are not checked; their build IDs are", true, a);
	else if (*enforced && !str_eq(token, STR("ima:enforcing")))
		note_token(l, token,
			   "not one of ima:enforcing, ima:permissive, ima:ignore: treated as ima:enforcing",
			   false, a);
}

static void add_token(struct net_url_list *l, struct str token, bool *enforced, struct arena *a)
{
	const char *fault;
	struct str url;

	if (str_starts(token, STR("ima:"))) {
		add_policy(l, token, enforced, a);
		return;
	}
	if (token.size > NET_URL_MAX) {
		note_token(l, (struct str){ token.p, SHOWN_MAX }, "not a URL: too long", false, a);
		return;
	}
	if (str_starts(token, STR(SOCKET_TOKEN)))
		url = socket_url(
			(struct str){ token.p + strlen(SOCKET_TOKEN), token.size - strlen(SOCKET_TOKEN) }, a);
	else
		url = url_normal(token, a);
	fault = url_fault(url);
	if (!fault && has_byte(l, url))
		return;
	if (!fault && *enforced)
		fault = "not asked: signatures of its files cannot be checked, and ima:enforcing requires "
			"that; with ima:ignore the server is asked, and build IDs are checked";
	if (!fault && l->n == NET_SERVERS_MAX)
		fault = "not used: there are too many servers";
	if (fault)
		note_token(l, token, fault, false, a);
	else
		l->urls[l->n++] = url.p;
}

void net_urls_parse(struct str text, bool commas, struct arena *a, struct net_url_list *ret)
{
	bool enforced = false;
	size_t i = 0;

	*ret = (struct net_url_list){
		.urls = arena_alloc(a, NET_SERVERS_MAX * sizeof(*ret->urls)),
		.notes = arena_alloc(a, NET_SERVERS_MAX * sizeof(*ret->notes)),
	};
	while (i < text.size) {
		size_t from;

		while (i < text.size && (url_is_blank(text.p[i]) || (commas && text.p[i] == ',')))
			i++;
		from = i;
		while (i < text.size && !url_is_blank(text.p[i]) && !(commas && text.p[i] == ','))
			i++;
		if (i > from)
			add_token(ret, (struct str){ text.p + from, i - from }, &enforced, a);
	}
}
