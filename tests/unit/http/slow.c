/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are shut down because they are slow, or too many. The times are short, but real. */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "http/slow.h"

#define N 6

struct slow_fixture {
	struct slow *s;
	int listener;
	struct sockaddr_in at;
	int client[N], fd[N];
	struct slow_conn conn[N];
	unsigned n;
};

static struct slow_fixture *begin(const struct slow_options *opts)
{
	struct slow_fixture *f = NEW(struct slow_fixture);
	socklen_t size = sizeof(f->at);
	struct err err = { 0 };
	int small = 4096;

	f->at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(f->listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(bind(f->listener, (struct sockaddr *)&f->at, size), 0);
	assert_int_equal(listen(f->listener, N), 0);
	assert_int_equal(getsockname(f->listener, (struct sockaddr *)&f->at, &size), 0);
	assert_done(slow_new(opts, &f->s, &err));
	return f;
}

static const struct sockaddr *address(const char *text)
{
	static struct sockaddr_storage ss;

	memset(&ss, 0, sizeof(ss));
	ss.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	inet_pton(ss.ss_family, text,
		  ss.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&ss)->sin_addr
					  : (void *)&((struct sockaddr_in6 *)&ss)->sin6_addr);
	return (struct sockaddr *)&ss;
}

static struct slow_conn *connect_from(struct slow_fixture *f, const char *from)
{
	unsigned i = f->n++;
	int small = 4096;

	f->client[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(f->client[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(connect(f->client[i], (struct sockaddr *)&f->at, sizeof(f->at)), 0);
	f->fd[i] = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(f->fd[i] >= 0);
	slow_add(f->s, &f->conn[i], f->fd[i], address(from));
	return &f->conn[i];
}

/* Was the socket shut down within @ms? */
static bool is_shut(struct slow_fixture *f, unsigned i, int ms)
{
	struct pollfd p = { .fd = f->fd[i], .events = POLLRDHUP };

	return poll(&p, 1, ms) == 1 && (p.revents & (POLLHUP | POLLRDHUP));
}

static void end(struct slow_fixture *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		slow_del(f->s, &f->conn[i]);
		close(f->fd[i]);
		close(f->client[i]);
	}
	close(f->listener);
	slow_free(f->s);
	free(f);
}

static const struct slow_options usual = { .head_ms = 400, .idle_ms = 200, .rate = 10000, .max = 100 };

static void a_head_must_arrive_in_time(void **state)
{
	struct slow_fixture *f = begin(&usual);
	struct slow_conn *answered;

	connect_from(f, "127.0.0.1");
	answered = connect_from(f, "127.0.0.1");
	slow_asked(answered);
	assert_true(is_shut(f, 0, 5000));
	assert_false(is_shut(f, 1, 0));
	slow_answered(answered);
	assert_true(is_shut(f, 1, 5000));
	end(f);
}

static void a_body_that_trickles_is_cut(void **state)
{
	struct slow_fixture *f = begin(&usual);
	struct slow_conn *slow, *fast, *waiting;
	int64_t end_ms;

	slow = connect_from(f, "127.0.0.1");
	fast = connect_from(f, "127.0.0.1");
	waiting = connect_from(f, "127.0.0.1");
	for (unsigned i = 0; i < f->n; i++) {
		slow_asked(&f->conn[i]);
		slow_body(f->s, &f->conn[i], 1000000, false);
	}
	/* The server does not take its bytes: it is not the client who is slow. */
	slow_fed(f->s, waiting, 1, false);
	end_ms = clock_mono_ms() + 5000;
	while (!is_shut(f, 0, 20) && clock_mono_ms() < end_ms) {
		slow_fed(f->s, slow, 1, true);
		slow_fed(f->s, fast, 10000, true);
	}
	assert_true(is_shut(f, 0, 0));
	assert_false(is_shut(f, 1, 0));
	assert_false(is_shut(f, 2, 0));
	end(f);
}

static void a_body_has_a_deadline(void **state)
{
	struct slow_options opts = usual;
	struct slow_fixture *f;
	struct slow_conn *c;
	int64_t began_ms, end_ms;

	opts.rate = 0;
	opts.body_ms = 100;
	f = begin(&opts);
	c = connect_from(f, "127.0.0.1");
	slow_asked(c);
	/* 300 ms, however its bytes come. */
	slow_body(f->s, c, SLOW_BODY_RATE / 5, false);
	began_ms = clock_mono_ms();
	end_ms = began_ms + 5000;
	while (!is_shut(f, 0, 10) && clock_mono_ms() < end_ms)
		slow_fed(f->s, c, 1000, true);
	assert_true(is_shut(f, 0, 0));
	assert_true(clock_mono_ms() - began_ms >= 250);
	end(f);
}

static void a_reader_that_trickles_is_cut(void **state)
{
	struct slow_fixture *f = begin(&usual);
	char block[65536] = "";
	int64_t end_ms = clock_mono_ms() + 8000;
	unsigned i;

	for (i = 0; i < 3; i++)
		slow_asked(connect_from(f, "127.0.0.1"));
	/* The third has nothing to read: it is the client who waits. */
	for (i = 0; i < 2; i++)
		while (send(f->fd[i], block, sizeof(block), MSG_NOSIGNAL) > 0)
			;
	while (!is_shut(f, 0, 20) && clock_mono_ms() < end_ms) {
		assert_int_equal(recv(f->client[0], block, 1, 0), 1);
		/* This one reads all there is; more than the server can send in one look. */
		while (recv(f->client[1], block, sizeof(block), MSG_DONTWAIT) > 0)
			;
		if (!is_shut(f, 1, 0))
			send(f->fd[1], block, sizeof(block), MSG_NOSIGNAL);
	}
	assert_true(is_shut(f, 0, 0));
	assert_false(is_shut(f, 1, 0));
	assert_false(is_shut(f, 2, 0));
	end(f);
}

static void too_many_connections_cost_the_oldest_idle_one(void **state)
{
	static const struct slow_options few = { .head_ms = 60000, .idle_ms = 60000, .rate = 1, .max = 4 };
	struct slow_fixture *f = begin(&few);

	for (unsigned i = 0; i < 4; i++) {
		assert_true(slow_admit(f->s, address("127.0.0.1")));
		connect_from(f, "127.0.0.1");
	}
	atomic_store(&f->conn[0].since_ms, INT64_MAX); /* is answered */
	atomic_store(&f->conn[2].since_ms, 1);
	assert_true(slow_admit(f->s, address("127.0.0.1")));
	assert_true(is_shut(f, 2, 0));
	assert_false(is_shut(f, 0, 0) || is_shut(f, 1, 0) || is_shut(f, 3, 0));
	connect_from(f, "127.0.0.1");
	/* All in use. */
	for (unsigned i = 0; i < f->n; i++)
		slow_asked(&f->conn[i]);
	assert_false(slow_admit(f->s, address("127.0.0.1")));
	assert_false(is_shut(f, 0, 0) || is_shut(f, 1, 0) || is_shut(f, 3, 0) || is_shut(f, 4, 0));
	end(f);
}

static void an_address_has_a_limit_of_its_own(void **state)
{
	static const struct slow_options few = {
		.head_ms = 60000, .idle_ms = 60000, .rate = 1, .max = 100, .max_remote = 2
	};
	struct slow_fixture *f = begin(&few);

	connect_from(f, "192.0.2.1");
	connect_from(f, "192.0.2.1");
	slow_asked(&f->conn[0]);
	assert_true(slow_admit(f->s, address("192.0.2.2")));
	assert_true(slow_admit(f->s, address("127.0.0.1")));
	assert_false(is_shut(f, 1, 0));
	/* The idle one makes room. */
	assert_true(slow_admit(f->s, address("192.0.2.1")));
	assert_true(is_shut(f, 1, 0));
	assert_false(is_shut(f, 0, 0));
	connect_from(f, "::ffff:192.0.2.1");
	slow_asked(&f->conn[2]);
	assert_false(slow_admit(f->s, address("192.0.2.1")));
	/* An IPv6 network is one address. */
	connect_from(f, "2001:db8::1");
	connect_from(f, "2001:db8::2:3");
	slow_asked(&f->conn[3]);
	slow_asked(&f->conn[4]);
	assert_false(slow_admit(f->s, address("2001:db8::4")));
	assert_true(slow_admit(f->s, address("2001:db8:1::4")));
	end(f);
}

/* ---- connections whose body is read and ignored ---- */

static struct {
	atomic_bool armed, reading, admitted, seen_admitted;
} draining;

/* In place of libc's: a client that sends so fast that it is always busy. */
ssize_t recv(int fd, void *buf, size_t size, int flags)
{
	if (atomic_load(&draining.armed) && !atomic_exchange(&draining.reading, true)) {
		for (int i = 0; i < 2000 && !atomic_load(&draining.admitted); i++)
			usleep(1000);
		atomic_store(&draining.seen_admitted, atomic_load(&draining.admitted));
	}
	return recvfrom(fd, buf, size, flags, NULL, NULL);
}

static void clients_connect_while_an_ignored_body_is_read(void **state)
{
	struct slow_fixture *f = begin(&usual);

	connect_from(f, "127.0.0.1");
	slow_asked(&f->conn[0]);
	atomic_store(&draining.armed, true);
	slow_linger(f->s, &f->conn[0]);
	/* Not for ever: a socket that is looked at after LINGER_MS is closed unread. */
	for (int i = 0; i < 10000 && !atomic_load(&draining.reading); i++)
		usleep(1000);
	assert_true(atomic_load(&draining.reading));
	assert_true(slow_admit(f->s, address("127.0.0.1")));
	atomic_store(&draining.admitted, true);
	end(f);
	atomic_store(&draining.armed, false);
	assert_true(atomic_load(&draining.seen_admitted));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_must_arrive_in_time),
		cmocka_unit_test(a_body_that_trickles_is_cut),
		cmocka_unit_test(a_body_has_a_deadline),
		cmocka_unit_test(a_reader_that_trickles_is_cut),
		cmocka_unit_test(too_many_connections_cost_the_oldest_idle_one),
		cmocka_unit_test(an_address_has_a_limit_of_its_own),
		cmocka_unit_test(clients_connect_while_an_ignored_body_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
