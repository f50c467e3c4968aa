/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may: by token; by the user who owns the other end of the connection; by not being the page of another site.
 */
#include "http/request.h"

#include <strings.h>
#include "http/host.h"
#include "http/peer.h"

#define BASIC_MAX  1024u /* of user and password in base64 */
#define MAKE_TOKEN "make a token there with 'lode token add', and give it to lode push with --token-file"

/* An outcome beside those of tokens_check(). */
enum { TOKEN_MISSING = 3 };

bool http_is_loopback(struct http_conn *conn)
{
	const struct sockaddr *a = http_peer(conn);

	return a && !http_head(conn)->forwarded && (a->sa_family == AF_UNIX || peer_is_loopback(a));
}

/*
 * A page of another site that is open in a browser on this machine could otherwise send requests in the name of
 * the browser's user.
 */
bool http_is_other_site(struct http_conn *conn)
{
	const char *origin = http_header(conn, "Origin"), *from = http_header(conn, "Sec-Fetch-Site"),
		   *host = http_head(conn)->host;
	struct str site = str_of(origin ? origin : ""), scheme;

	if (from && strcmp(from, "same-origin") != 0 && strcmp(from, "none") != 0)
		return true;
	if (!origin)
		return false;
	scheme = str_cut(&site, ':');
	if (!host || (!str_eq(scheme, STR("http")) && !str_eq(scheme, STR("https"))) ||
	    !str_starts(site, STR("//")))
		return true;
	return !str_eq((struct str){ site.p + 2, site.size - 2 }, str_of(host));
}

/*
 * Why this client may only read as long as there are no tokens; NULL: it may do everything.
 *
 * The kernel reports who made the connection, not for whom. A proxy of the service's own user would pass its rights
 * on to its clients: so a request must not look like one that was passed on. A proxy that adds no header of its own
 * sends HTTP/1.0, or a public name in Host.
 */
static const char *local_refusal(struct http_service *sv, struct http_conn *conn)
{
	const struct http_head *head = http_head(conn);
	const struct sockaddr *a = http_peer(conn);

	if (!a || (a->sa_family != AF_UNIX && !peer_is_loopback(a)))
		return "this server has no tokens, so only its own machine may push: " MAKE_TOKEN;
	if (head->forwarded || head->old)
		return "a proxy has passed this on, and proxies may only read: " MAKE_TOKEN;
	if (http_is_other_site(conn))
		return "pages of other sites may not do this without a token";
	if (a->sa_family != AF_UNIX && hosts_judge(sv->hosts, head->host) != HOST_LOCAL)
		return "without a token this may only be asked for under the name localhost: use "
		       "http://localhost:PORT on the server's own machine, or " MAKE_TOKEN;
	if (!http_peer_trusted(conn))
		return "this server has no tokens, so only root and the user who runs it may push: send it "
		       "as "
		       "one of them, or " MAKE_TOKEN;
	return NULL;
}

/* Has @auth this scheme? Then *ret is the rest. */
static bool auth_scheme(const char *auth, struct str scheme, struct str *ret)
{
	if (strncasecmp(auth, scheme.p, scheme.size) != 0 || auth[scheme.size] != ' ')
		return false;
	*ret = str_trim(str_of(auth + scheme.size + 1));
	return true;
}

/* The password of "user:password" in base64 (RFC 7617). false: there is none. */
static bool basic_password(struct str text, struct buf *room, struct str *ret)
{
	struct str rest;

	if (text.size > BASIC_MAX || !base64_decode(text, room))
		return false;
	rest = buf_str(room);
	(void)str_cut(&rest, ':');
	*ret = rest;
	return rest.p;
}

bool http_is_basic(struct http_conn *conn)
{
	const char *auth = http_head(conn)->authorization;
	struct str rest;

	return auth && auth_scheme(auth, STR("Basic"), &rest);
}

/* By the token in the header; TOKEN_MISSING: there is none. */
static int check_credentials(struct http_service *sv, const char *auth, enum token_scope scope,
			     char name[TOKEN_MAX_NAME])
{
	struct buf room = { 0 };
	struct str rest, secret;
	int r = TOKEN_MISSING;

	if (auth && auth_scheme(auth, STR("Bearer"), &rest))
		return tokens_check(sv->tokens, rest, scope, name);
	if (auth && auth_scheme(auth, STR("Basic"), &rest) && basic_password(rest, &room, &secret))
		r = tokens_check(sv->tokens, secret, scope, name);
	if (room.p)
		explicit_bzero(room.p, room.room);
	buf_done(&room);
	return r;
}

unsigned http_authorize(struct http_service *sv, struct http_conn *conn, enum token_scope scope,
			char name[TOKEN_MAX_NAME], const char **ret_text)
{
	const char *auth = http_head(conn)->authorization;

	if (!tokens_any(sv->tokens) && scope != TOKEN_READ) {
		*ret_text = local_refusal(sv, conn);
		if (*ret_text)
			return 403;
		strcpy(name, HTTP_LOCAL_NAME);
		return 0;
	}
	switch (check_credentials(sv, auth, scope, name)) {
	case 0:
		return 0;
	case TOKEN_MISSING:
		*ret_text =
			"a token is needed: --token-file FILE or LODE_TOKEN for lode push, 'Authorization: "
			"Bearer TOKEN' or, as the password, Basic authentication for others; the "
			"administrator of the server makes one with 'lode token add'";
		return 401;
	case TOKEN_NOT_ALLOWED:
		*ret_text = scope == TOKEN_ADMIN
				    ? "this token may not remove anything: one with the scope admin is needed"
			    : scope == TOKEN_PUSH
				    ? "this token may not push: one with the scope push is needed"
				    : "this token may not read: one with the scope read is needed";
		return 403;
	default:
		*ret_text = "this token is not known here: was it removed, or is it another server's?";
		return 401;
	}
}
