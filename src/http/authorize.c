/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may: by token, by being on this machine, by not being the page of another site.
 */
#include "http/request.h"

#include <netinet/in.h>
#include <strings.h>

bool http_is_loopback(struct http_conn *conn)
{
	const struct sockaddr *a = http_peer(conn);

	/* A proxy on this machine passes on requests from elsewhere. */
	if (!a || http_header(conn, "X-Forwarded-For") || http_header(conn, "Forwarded"))
		return false;
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	if (a->sa_family == AF_INET6) {
		const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

		return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
	}
	return false;
}

/*
 * A page of another site that is open in a browser on this machine could otherwise send requests in the name of
 * the browser's user.
 */
bool http_is_other_site(struct http_conn *conn)
{
	const char *origin = http_header(conn, "Origin"), *host = http_header(conn, "Host");
	struct str site = str_of(origin ? origin : ""), scheme;

	if (!origin || http_header(conn, "Authorization"))
		return false;
	scheme = str_cut(&site, ':');
	if (!host || (!str_eq(scheme, STR("http")) && !str_eq(scheme, STR("https"))) ||
	    !str_starts(site, STR("//")))
		return true;
	return !str_eq((struct str){ site.p + 2, site.size - 2 }, str_of(host));
}

unsigned http_authorize(struct http_service *sv, struct http_conn *conn, enum token_scope scope,
			char name[TOKEN_MAX_NAME], const char **ret_text)
{
	const char *auth = http_header(conn, "Authorization");

	if (!tokens_any(sv->tokens) && scope != TOKEN_READ) {
		if (http_is_loopback(conn)) {
			strcpy(name, "loopback");
			return 0;
		}
		*ret_text = "this server has no tokens, so only its own machine may push: make one there "
			    "with 'lode token add', and give it to lode push with --token-file";
		return 403;
	}
	if (!auth || strncasecmp(auth, "Bearer ", 7) != 0) {
		*ret_text = "a token is needed: --token-file FILE or LODE_TOKEN for lode push, "
			    "'Authorization: Bearer TOKEN' for others; the administrator of the server makes "
			    "one with 'lode token add'";
		return 401;
	}
	switch (tokens_check(sv->tokens, str_trim(str_of(auth + 7)), scope, name)) {
	case 0:
		return 0;
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
