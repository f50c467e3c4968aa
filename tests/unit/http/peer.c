/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of the other end of a connection. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "http/peer.h"

#define OTHER_UID 12345
#define NOBODY    65534

static bool no_netlink;

int socket(int domain, int type, int protocol)
{
	if (no_netlink && domain == AF_NETLINK) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

struct ends {
	int listener, client, accepted;
	struct sockaddr_storage peer, own;
};

static int listen_at(const char *address, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	struct sockaddr_storage a = { 0 };
	bool six = strchr(address, ':');
	int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;

	a.ss_family = six ? AF_INET6 : AF_INET;
	*ret_size = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	inet_pton(a.ss_family, address,
		  six ? (void *)&((struct sockaddr_in6 *)&a)->sin6_addr
		      : (void *)&((struct sockaddr_in *)&a)->sin_addr);
	if (six)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, *ret_size), 0);
	assert_int_equal(listen(fd, 4), 0);
	*ret_size = sizeof(*ret);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret, ret_size), 0);
	return fd;
}

/* A connection to a socket that listens at @at; its client connects to @to, as user @uid. */
static struct ends connect_as(const char *at, const char *to, uid_t uid)
{
	struct ends e;
	struct sockaddr_storage where;
	socklen_t size;
	struct sockaddr_in four = { .sin_family = AF_INET };

	e.listener = listen_at(at, &where, &size);
	if (uid)
		assert_int_equal(seteuid(uid), 0);
	if (to) {
		four.sin_port = ((struct sockaddr_in6 *)&where)->sin6_port;
		inet_pton(AF_INET, to, &four.sin_addr);
		e.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(e.client, (struct sockaddr *)&four, sizeof(four)), 0);
	} else {
		e.client = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(e.client, (struct sockaddr *)&where, size), 0);
	}
	if (uid)
		assert_int_equal(seteuid(0), 0);
	size = sizeof(e.peer);
	e.accepted = accept(e.listener, (struct sockaddr *)&e.peer, &size);
	assert_true(e.accepted >= 0);
	size = sizeof(e.own);
	getsockname(e.accepted, (struct sockaddr *)&e.own, &size);
	return e;
}

static void close_ends(struct ends *e)
{
	close(e->listener);
	if (e->client >= 0)
		close(e->client);
	close(e->accepted);
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	AUTO(fd_close) int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static void check_user(struct ends *e, uid_t want)
{
	uid_t uid = 4711;
	AUTO(buf_done) struct buf four = { 0 };
	AUTO(buf_done) struct buf six = { 0 };
	struct err err = { 0 };

	assert_true(peer_user(e->accepted, (struct sockaddr *)&e->peer, &uid));
	assert_int_equal(uid, want);
	assert_int_equal(peer_is_trusted(e->accepted, (struct sockaddr *)&e->peer),
			 want == 0 || want == geteuid());
	/* The kernel's tables say the same. */
	assert_done(file_read("/proc/net/tcp", MIB(16), &four, &err));
	assert_done(file_read("/proc/net/tcp6", MIB(16), &six, &err));
	uid = 4711;
	assert_true(peer_find_in_table(buf_str(&four), (struct sockaddr *)&e->peer,
				       (struct sockaddr *)&e->own, &uid) ||
		    peer_find_in_table(buf_str(&six), (struct sockaddr *)&e->peer, (struct sockaddr *)&e->own,
				       &uid));
	assert_int_equal(uid, want);
}

static void the_owner_is_the_user_who_made_the_socket(void **state)
{
	static const struct {
		const char *at, *to;
	} rows[] = {
		{ "127.0.0.1", NULL }, { "127.0.0.1", "127.0.0.1" }, { "::1", NULL }, { "::", "127.0.0.1" }
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ends e;

		if (rows[i].at[0] == ':' && !has_ipv6())
			continue;
		e = connect_as(rows[i].at, rows[i].to, 0);
		check_user(&e, geteuid());
		close_ends(&e);
		if (geteuid() != 0)
			continue;
		e = connect_as(rows[i].at, rows[i].to, OTHER_UID);
		check_user(&e, OTHER_UID);
		close_ends(&e);
		/* The kernel reports users that it cannot name as nobody. */
		e = connect_as(rows[i].at, rows[i].to, 65534);
		check_user(&e, 65534);
		close_ends(&e);
	}
}

/* Before the kernel has ever answered by netlink: after that it is not asked for its tables. */
static void without_netlink_the_tables_are_read(void **state)
{
	uid_t want = geteuid() == 0 ? OTHER_UID : geteuid(), uid = 4711;
	struct ends e = connect_as("127.0.0.1", NULL, geteuid() == 0 ? OTHER_UID : 0);

	no_netlink = true;
	assert_true(peer_user(e.accepted, (struct sockaddr *)&e.peer, &uid));
	assert_int_equal(uid, want);
	close(e.client);
	e.client = -1;
	assert_false(peer_user(e.accepted, (struct sockaddr *)&e.peer, &uid));
	no_netlink = false;
	close_ends(&e);
}

static bool is_trusted_by(const struct ends *e, uid_t uid)
{
	bool is;

	assert_int_equal(seteuid(uid), 0);
	is = peer_is_trusted(e->accepted, (const struct sockaddr *)&e->peer);
	assert_int_equal(seteuid(0), 0);
	return is;
}

static void root_is_trusted_by_all_and_nobody_by_none(void **state)
{
	struct ends e;

	if (geteuid() != 0) {
		skip(); /* to be another user */
		return;
	}
	e = connect_as("127.0.0.1", NULL, 0);
	assert_true(is_trusted_by(&e, OTHER_UID));
	close_ends(&e);
	e = connect_as("127.0.0.1", NULL, OTHER_UID);
	assert_true(is_trusted_by(&e, OTHER_UID));
	assert_false(is_trusted_by(&e, OTHER_UID + 1));
	close_ends(&e);
	/* A server that runs as nobody, too: users of other namespaces have that number. */
	e = connect_as("127.0.0.1", NULL, NOBODY);
	assert_false(is_trusted_by(&e, NOBODY));
	close_ends(&e);
}

/* The kernel reports a socket without a process as root's. */
static void a_closed_socket_is_nobodys(void **state)
{
	struct ends e = connect_as("127.0.0.1", NULL, geteuid() == 0 ? OTHER_UID : 0);
	uid_t uid;

	/* Half closed, it still has its owner. */
	shutdown(e.client, SHUT_WR);
	assert_true(peer_user(e.accepted, (struct sockaddr *)&e.peer, &uid));
	assert_int_equal(uid, geteuid() == 0 ? OTHER_UID : geteuid());
	close(e.client);
	e.client = -1;
	assert_false(peer_user(e.accepted, (struct sockaddr *)&e.peer, &uid));
	assert_false(peer_is_trusted(e.accepted, (struct sockaddr *)&e.peer));
	close_ends(&e);
}

/* Bind a new socket to the client's address after a reset of the connection. -1: another program has the port. */
static int bind_at_client(struct ends *e)
{
	struct linger now = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(e->client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(e->client);
	e->client = -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&e->peer, sizeof(struct sockaddr_in)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* A socket of ours that listens at the very port that the closed client had is not the client. */
static void a_listener_at_the_same_port_is_not_the_peer(void **state)
{
	int fd = -1;
	struct ends e;
	uid_t uid;

	for (;;) {
		e = connect_as("127.0.0.1", NULL, 0);
		fd = bind_at_client(&e);
		if (fd >= 0)
			break;
		close_ends(&e);
	}
	assert_int_equal(listen(fd, 1), 0);
	assert_false(peer_user(e.accepted, (struct sockaddr *)&e.peer, &uid));
	close(fd);
	close_ends(&e);
}

/* Whoever gets the port of a client that is gone is not the owner of what that one has sent. */
static void the_next_connection_with_the_same_ends_is_not_the_peer(void **state)
{
	int fd = -1, accepted;
	struct ends e;
	uid_t uid;

	for (;;) {
		e = connect_as("127.0.0.1", NULL, geteuid() == 0 ? OTHER_UID : 0);
		fd = bind_at_client(&e);
		if (fd >= 0)
			break;
		close_ends(&e);
	}
	assert_int_equal(connect(fd, (struct sockaddr *)&e.own, sizeof(struct sockaddr_in)), 0);
	accepted = accept(e.listener, NULL, NULL);
	assert_true(accepted >= 0);
	assert_false(peer_user(e.accepted, (struct sockaddr *)&e.peer, &uid));
	assert_true(peer_user(accepted, (struct sockaddr *)&e.peer, &uid));
	assert_int_equal(uid, geteuid());
	close(accepted);
	close(fd);
	close_ends(&e);
}

static void an_address_elsewhere_has_no_owner(void **state)
{
	struct ends e = connect_as("127.0.0.1", NULL, 0);
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(4711) };
	uid_t uid;

	inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);
	assert_false(peer_user(e.accepted, (struct sockaddr *)&far, &uid));
	assert_false(peer_user(e.accepted, NULL, &uid));
	inet_pton(AF_INET, "127.0.0.1", &far.sin_addr);
	far.sin_port = htons(1);
	assert_false(peer_user(e.accepted, (struct sockaddr *)&far, &uid));
	close_ends(&e);
}

static void a_unix_socket_has_the_user_who_connected(void **state)
{
	int fds[2];
	uid_t uid = 4711;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(peer_user(fds[0], NULL, &uid));
	assert_int_equal(uid, geteuid());
	close(fds[0]);
	close(fds[1]);
}

static void only_addresses_of_this_machine_are_loopback(void **state)
{
	static const struct {
		const char *address;
		bool is;
	} cases[] = {
		{ "127.0.0.1", true },         { "127.255.255.255", true },  { "126.255.255.255", false },
		{ "128.0.0.0", false },        { "0.0.0.127", false },       { "::1", true },
		{ "::ffff:127.0.0.1", true },  { "::ffff:127.1.2.3", true }, { "::ffff:192.0.2.127", false },
		{ "::ffff:126.0.0.1", false }, { "::127.0.0.1", false },     { "::", false },
		{ "2001:db8::7f00:1", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sockaddr_storage a = { 0 };
		bool six = strchr(cases[i].address, ':');

		a.ss_family = six ? AF_INET6 : AF_INET;
		assert_int_equal(inet_pton(a.ss_family, cases[i].address,
					   six ? (void *)&((struct sockaddr_in6 *)&a)->sin6_addr
					       : (void *)&((struct sockaddr_in *)&a)->sin_addr),
				 1);
		assert_int_equal(peer_is_loopback((struct sockaddr *)&a), cases[i].is);
	}
}

static void a_table_may_have_any_text(void **state)
{
	static const char head[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
				   "retrnsmt   uid  timeout inode\n";
	static const struct {
		const char *line;
		bool found;
	} rows[] = {
		{ "   0: 0100007F:1267 0100007F:1F42 01 00000000:00000000 00:00000000 00000000  1000        "
		  "0 77 1 x\n",
		  true },
		{ "   0: 0100007F:1267 0100007F:1F42 01 00000000:00000000 00:00000000 00000000  1000        "
		  "0 0 1 x\n",
		  false },
		{ "   0: 0100007F:1267 0100007F:1F42 0A 00000000:00000000 00:00000000 00000000  1000        "
		  "0 77 1 x\n",
		  false },
		{ "   0: 0100007F:1267 0100007F:1F42 06 00000000:00000000 00:00000000 00000000  0        0 "
		  "77 1 x\n",
		  false },
		{ "   0: 0100007F:1267 0100007F:1F42 11 00000000:00000000 00:00000000 00000000  1000        "
		  "0 77 1 x\n",
		  false },
		/* Other connections of either end. */
		{ "   0: 0100007F:1267 0100007F:1F43 01 00000000:00000000 00:00000000 00000000  7        "
		  "0 77 1 x\n"
		  "   1: 0100007F:1268 0100007F:1F42 01 00000000:00000000 00:00000000 00000000  8        "
		  "0 77 1 x\n"
		  "   2: 0100007F:1267 0100007F:1F42 01 00000000:00000000 00:00000000 00000000  1000        "
		  "0 77 1 x\n",
		  true },
		{ "   0: 0100007F:1F42 0100007F:1267 01 00000000:00000000 00:00000000 00000000  1000        "
		  "0 77 1 x\n",
		  false },
		{ "   0: 0100007F:1267 0100007F:1F42 01 00000000:00000000 00:00000000 00000000  99999999999  "
		  "      0 77 1 x\n",
		  false },
		{ "   0: 0100007F:1267 0100007F:1F42 01", false },
		{ "   0: 0100007F:1267 0100007F:1F42", false },
		{ "\n\n 0:\n", false },
		{ "", false },
	};
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(0x1267) },
			   to = { .sin_family = AF_INET, .sin_port = htons(0x1f42) };

	inet_pton(AF_INET, "127.0.0.1", &from.sin_addr);
	to.sin_addr = from.sin_addr;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO(mem_freep) char *text = mem_printf("%s%s", head, rows[i].line);
		uid_t uid = 0;

		assert_int_equal(peer_find_in_table(str_of(text), (struct sockaddr *)&from,
						    (struct sockaddr *)&to, &uid),
				 rows[i].found);
		assert_int_equal(uid, rows[i].found ? 1000 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_netlink_the_tables_are_read), /* the first */
		cmocka_unit_test(the_owner_is_the_user_who_made_the_socket),
		cmocka_unit_test(root_is_trusted_by_all_and_nobody_by_none),
		cmocka_unit_test(a_closed_socket_is_nobodys),
		cmocka_unit_test(a_listener_at_the_same_port_is_not_the_peer),
		cmocka_unit_test(the_next_connection_with_the_same_ends_is_not_the_peer),
		cmocka_unit_test(an_address_elsewhere_has_no_owner),
		cmocka_unit_test(a_unix_socket_has_the_user_who_connected),
		cmocka_unit_test(only_addresses_of_this_machine_are_loopback),
		cmocka_unit_test(a_table_may_have_any_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
