/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets. They are opened here and not by libmicrohttpd, so that an error names the address in
 * use, and so that one option can mean both address families.
 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG        1024
#define ANY_PORT_TRIES 16 /* tries to find a port that is free in both families */
#define HOST_MAX       255
/*
 * Bytes of replies that the kernel keeps unsent for a connection, instead of 2.5 MB and more. A slow reader costs less
 * memory, and libmicrohttpd sees it read: each half of this starts its idle time-out anew.
 */
#define UNSENT_MAX KIB(64)

static int listen_split(struct str where, char host[HOST_MAX + 1], char port[8], struct err *err)
{
	struct str h = where, p = { 0 };
	uint64_t number;

	for (size_t i = where.size; i-- > 0;)
		if (where.p[i] == ':') {
			h.size = i;
			p = (struct str){ where.p + i + 1, where.size - i - 1 };
			break;
		}
	if (h.size && h.p[0] == '[') {
		if (h.p[h.size - 1] != ']')
			return err_set(err, ERR_INVALID, "listen on " STR_FMT ": no ] after the address",
				       STR_ARG(where));
		h = (struct str){ h.p + 1, h.size - 2 };
	} else if (h.size && memchr(h.p, ':', h.size)) {
		return err_set(err, ERR_INVALID,
			       "listen on " STR_FMT ": an IPv6 address needs brackets: [::1]:8002",
			       STR_ARG(where));
	}
	if (!str_to_u64(p, &number) || number > UINT16_MAX)
		return err_set(err, ERR_INVALID, "listen on " STR_FMT ": it must have the form ADDRESS:PORT",
			       STR_ARG(where));
	if (h.size > HOST_MAX)
		return err_set(err, ERR_INVALID, "listen on " STR_FMT ": the name is too long",
			       STR_ARG(where));
	memcpy(host, h.p, h.size);
	host[h.size] = '\0';
	snprintf(port, 8, "%u", (unsigned)number);
	return 0;
}

/* 0, or an errno. @v6_only: leave IPv4 to another socket. */
static int open_one(const struct sockaddr *addr, socklen_t size, bool v6_only, int *ret)
{
	AUTO(fd_close) int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, only = v6_only, unsent = UNSENT_MAX;

	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Accepted sockets inherit it. */
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	if (bind(fd, addr, size) < 0 || listen(fd, BACKLOG) < 0)
		return errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static unsigned port_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss);

	if (getsockname(fd, (struct sockaddr *)&ss, &size) < 0)
		return 0;
	return ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
					      : ((struct sockaddr_in *)&ss)->sin_port);
}

static void set_port(struct sockaddr *addr, unsigned port)
{
	if (addr->sa_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons((uint16_t)port);
}

static void listen_name(const struct sockaddr *addr, int fd, struct listen_socket *ret)
{
	char text[INET6_ADDRSTRLEN] = "";
	bool six = addr->sa_family == AF_INET6;

	inet_ntop(addr->sa_family,
		  six ? (const void *)&((const struct sockaddr_in6 *)addr)->sin6_addr
		      : (const void *)&((const struct sockaddr_in *)addr)->sin_addr,
		  text, sizeof(text));
	*ret = (struct listen_socket){ .fd = fd };
	snprintf(ret->url_host, sizeof(ret->url_host), six ? "[%s]:%u" : "%s:%u", text, port_of(fd));
}

struct wanted {
	struct sockaddr_storage addr;
	socklen_t size;
};

static int listen_lookup(struct str where, const char *host, const char *port, struct wanted *list, size_t *n,
			 struct err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV },
			*found;
	int r;

	/* Both families, whatever /etc/hosts says. */
	if (strcmp(host, "localhost") == 0) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)&list[0].addr;
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&list[1].addr;

		*v4 = (struct sockaddr_in){ .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		*v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
		list[0].size = sizeof(*v4);
		list[1].size = sizeof(*v6);
		for (*n = 0; *n < 2; ++*n)
			set_port((struct sockaddr *)&list[*n].addr, (unsigned)strtoul(port, NULL, 10));
		return 0;
	}
	r = getaddrinfo(host, port, &hints, &found);
	if (r)
		return err_set(err, ERR_INVALID, "listen on " STR_FMT ": %s", STR_ARG(where),
			       gai_strerror(r));
	*n = 0;
	for (struct addrinfo *a = found; a && *n < LISTEN_MAX; a = a->ai_next)
		if (a->ai_family == AF_INET || a->ai_family == AF_INET6) {
			memcpy(&list[*n].addr, a->ai_addr, a->ai_addrlen);
			list[(*n)++].size = a->ai_addrlen;
		}
	freeaddrinfo(found);
	return 0;
}

/*
 * Open all of @list that this machine has; 0 or an errno. Port 0 is chosen once, for the first, and used
 * for all.
 */
static int open_list(struct wanted *list, size_t n_list, struct listen_socket *ret, size_t *n)
{
	size_t n_before = *n;
	int failed = 0;

	for (size_t i = 0; i < n_list && *n < LISTEN_MAX; i++) {
		struct sockaddr *addr = (struct sockaddr *)&list[i].addr;
		struct sockaddr_storage with_port = list[i].addr;
		int fd, r;

		if (*n > n_before)
			set_port((struct sockaddr *)&with_port, port_of(ret[n_before].fd));
		r = open_one((struct sockaddr *)&with_port, list[i].size, true, &fd);
		if (r == EADDRNOTAVAIL || r == EAFNOSUPPORT) {
			failed = r;
			continue;
		}
		if (r) {
			while (*n > n_before)
				close(ret[--*n].fd);
			return r;
		}
		listen_name(addr, fd, &ret[(*n)++]);
	}
	return *n > n_before ? 0 : failed;
}

static int open_all_addresses(unsigned port, struct listen_socket *ret, size_t *n)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd, r = open_one((struct sockaddr *)&six, sizeof(six), false, &fd);

	if (r == 0) {
		listen_name((struct sockaddr *)&six, fd, &ret[(*n)++]);
		return 0;
	}
	if (r != EAFNOSUPPORT && r != EADDRNOTAVAIL)
		return r;
	r = open_one((struct sockaddr *)&four, sizeof(four), false, &fd);
	if (r == 0)
		listen_name((struct sockaddr *)&four, fd, &ret[(*n)++]);
	return r;
}

/* Does no process listen at the socket any more? Then its file is removed. */
static void remove_stale_socket(const struct sockaddr_un *at)
{
	AUTO(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd >= 0 && lstat(at->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 && errno == ECONNREFUSED)
		(void)unlink(at->sun_path);
}

static int open_unix(struct str where, struct str path, struct listen_socket *ret, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	if (!path.size || path.p[0] != '/' || path.size >= sizeof(at.sun_path))
		return err_set(err, ERR_INVALID,
			       "listen on " STR_FMT
			       ": it must have the form unix:/PATH, of at most %zu bytes",
			       STR_ARG(where), sizeof(at.sun_path) - 1);
	memcpy(at.sun_path, path.p, path.size);
	remove_stale_socket(&at);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_os(err, errno, "listen on " STR_FMT, STR_ARG(where));
	if (chmod(at.sun_path, 0666) < 0 || listen(fd, BACKLOG) < 0) {
		err_os(err, errno, "listen on " STR_FMT, STR_ARG(where));
		unlink(at.sun_path);
		return -1;
	}
	*ret = (struct listen_socket){ .fd = TAKE_FD(fd) };
	memcpy(ret->path, at.sun_path, sizeof(ret->path));
	return 0;
}

int listen_open(struct str where, struct listen_socket *ret, size_t *n, struct err *err)
{
	struct wanted list[LISTEN_MAX];
	char host[HOST_MAX + 1], port[8];
	size_t n_list = 0;
	int r;

	memset(list, 0, sizeof(list));
	if (*n >= LISTEN_MAX)
		return err_set(err, ERR_LIMIT, "listen on " STR_FMT ": more than %u addresses",
			       STR_ARG(where), LISTEN_MAX);
	if (str_starts(where, STR("unix:"))) {
		if (open_unix(where, (struct str){ where.p + 5, where.size - 5 }, &ret[*n], err) < 0)
			return -1;
		++*n;
		return 0;
	}
	if (listen_split(where, host, port, err) < 0)
		return -1;
	if (!host[0]) {
		r = open_all_addresses((unsigned)strtoul(port, NULL, 10), ret, n);
	} else {
		if (listen_lookup(where, host, port, list, &n_list, err) < 0)
			return -1;
		r = open_list(list, n_list, ret, n);
		for (int i = 0; r == EADDRINUSE && strcmp(port, "0") == 0 && i < ANY_PORT_TRIES; i++)
			r = open_list(list, n_list, ret, n);
	}
	if (r)
		return err_os(err, r, "listen on " STR_FMT, STR_ARG(where));
	return 0;
}
