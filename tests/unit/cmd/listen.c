/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of an agent beside clients that connect and send nothing: the agent's thread does not wait for them. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmd/agent/agent.h"
#include "test.h"

#define N_SILENT 40

static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* A free port: that of a socket which is closed again. */
static struct sockaddr_in free_address(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
	close(fd);
	return a;
}

static struct agent_listener *open_at(const struct sockaddr_in *a)
{
	struct agent_listener *l = NULL;
	struct err err = { 0 };
	char port[16];

	snprintf(port, sizeof(port), "%u", ntohs(a->sin_port));
	assert_int_equal(agent_listener_open(port, &l, &err), 0);
	return l;
}

static int connected(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
	return fd;
}

static void ask(int fd)
{
	assert_int_equal(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), sizeof(request) - 1);
}

static bool is_answered(int fd)
{
	char text[16] = { 0 };

	return recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0 && !strncmp(text, "HTTP/1.0 200", 12);
}

static void a_request_that_comes_later_is_answered_in_the_next_turn(void **state)
{
	struct sockaddr_in a = free_address();
	struct agent_listener *l = open_at(&a);
	int fd = connected(&a);

	agent_listener_poll(l);
	assert_false(is_answered(fd));
	ask(fd);
	agent_listener_poll(l);
	assert_true(is_answered(fd));
	close(fd);
	agent_listener_close(l);
}

static void silent_clients_do_not_keep_others_from_their_answer(void **state)
{
	struct sockaddr_in a = free_address();
	struct agent_listener *l = open_at(&a);
	int silent[N_SILENT], fd;

	for (unsigned i = 0; i < N_SILENT; i++)
		silent[i] = connected(&a);
	fd = connected(&a);
	ask(fd);
	agent_listener_poll(l);
	assert_true(is_answered(fd));
	for (unsigned i = 0; i < N_SILENT; i++)
		close(silent[i]);
	close(fd);
	agent_listener_poll(l);
	agent_listener_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_that_comes_later_is_answered_in_the_next_turn),
		cmocka_unit_test(silent_clients_do_not_keep_others_from_their_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
