/* SPDX-License-Identifier: Apache-2.0 */
/* The build IDs whose debug information is wanted. */
#include "test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include "agent/home.h"
#include "elf/elf.h"

static struct build_id id_of(uint32_t n)
{
	struct build_id id = { .size = 20 };

	memcpy(id.b, &n, sizeof(n));
	return id;
}

static uint64_t wanted(struct home *h)
{
	struct home_stats st;

	home_stats(h, &st);
	return st.n_wanted;
}

static void build_ids_that_are_done_make_room_for_others(void **state)
{
	const struct home_options o = { .url = "http://127.0.0.1:1", .dir = "/nonexistent" };
	struct build_id id, late = id_of(HOME_MAX_QUEUE);
	struct home *h = NULL;
	struct err err = { 0 };

	assert_done(home_new(&o, &h, &err));
	for (uint32_t i = 0; i < HOME_MAX_QUEUE; i++) {
		id = id_of(i);
		home_want(h, &id);
	}
	/* All of them wait. */
	home_want(h, &late);
	assert_int_equal(wanted(h), HOME_MAX_QUEUE);
	/* Nobody has the first one. */
	assert_true(home_next(h, &id));
	home_give(h, &id, -1, 0, "");
	home_want(h, &late);
	assert_int_equal(wanted(h), HOME_MAX_QUEUE + 1);
	/* The others are still in their order, the new one is the last. */
	for (uint32_t i = 1; i <= HOME_MAX_QUEUE; i++) {
		struct build_id expected = id_of(i);

		assert_true(home_next(h, &id));
		assert_true(build_id_eq(&id, &expected));
		home_give(h, &id, -1, 0, "");
	}
	assert_false(home_next(h, &id));
	home_free(h);
}

/* A library that was replaced while programs run it can never be opened, and the server asks for it with each profile. */
static void build_ids_that_cannot_be_opened_let_others_pass(void **state)
{
	const struct home_options o = { .url = "http://127.0.0.1:1", .dir = "/nonexistent" };
	struct build_id id, late = id_of(100);
	bool found = false;
	struct home *h = NULL;
	struct err err = { 0 };

	clock_test_freeze(1000);
	assert_done(home_new(&o, &h, &err));
	/* A profile each ten seconds, a file each second. */
	for (unsigned s = 0; s < 60 && !found; s++, clock_test_advance(1000)) {
		for (uint32_t i = 0; i < 20 && s % 10 == 0; i++) {
			id = id_of(i);
			home_want(h, &id);
		}
		if (s == 30)
			home_want(h, &late);
		if (!home_next(h, &id))
			continue;
		found = build_id_eq(&id, &late);
		if (!found)
			home_give(h, &id, -1, 0, "");
	}
	assert_true(found);
	home_free(h);
	clock_test_thaw();
}

/* Those of this program; without debug information the test is skipped. */
static void own_facts(struct elf_facts *ret)
{
	AUTO(source_closep) struct source *src = NULL;
	struct err err = { 0 };

	assert_done(source_open_file("/proc/self/exe", &src, &err));
	if (elf_facts_read(src, ret, &err) != 0 || !(ret->flags & ELF_IS_DEBUG) || !ret->build_id.size)
		skip();
}

/* This program is wanted, and given; its upload fails. */
static void upload_fails(struct home *h, const struct build_id *own, struct home_stats *ret)
{
	struct build_id id;

	home_want(h, own);
	assert_true(home_next(h, &id));
	home_give(h, &id, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 0, "/proc/self/exe");
	for (unsigned i = 0; i < 60000 && !ret->n_failed; i++) {
		usleep(1000);
		home_stats(h, ret);
	}
}

/* The folder for temporary files is not there, as if its disk were full. */
static void a_failure_of_this_machine_is_tried_again(void **state)
{
	const struct home_options o = { .url = "http://127.0.0.1:1", .dir = "/nonexistent" };
	struct home_stats st = { 0 };
	struct home *h = NULL;
	struct elf_facts facts;
	struct err err = { 0 };
	struct build_id id;

	own_facts(&facts);
	clock_test_freeze(1000);
	assert_done(home_new(&o, &h, &err));
	upload_fails(h, &facts.build_id, &st);
	assert_int_equal(st.n_failed, 1);
	home_want(h, &facts.build_id);
	assert_false(home_next(h, &id));
	clock_test_advance(60001);
	home_want(h, &facts.build_id);
	assert_true(home_next(h, &id));
	home_free(h);
	clock_test_thaw();
}

/* Answers one request. */
static void *deny_request(void *arg)
{
	static const char answer[] =
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	char text[4096];
	size_t n = 0;
	ssize_t got;
	int fd = accept(*(int *)arg, NULL, NULL);

	/* The body is one line of JSON. */
	while (n < sizeof(text) && (got = read(fd, text + n, sizeof(text) - n)) > 0) {
		n += (size_t)got;
		if (memmem(text, n, "]}", 2))
			break;
	}
	if (write(fd, answer, sizeof(answer) - 1) < 0)
		n = 0;
	close(fd);
	return NULL;
}

static void a_token_that_may_not_upload_is_tried_again(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct home_options o = { .executables = true };
	socklen_t size = sizeof(at);
	struct home_stats st = { 0 };
	AUTO(mem_freep) char *url = NULL;
	struct home *h = NULL;
	struct elf_facts facts;
	struct err err = { 0 };
	struct build_id id, other;
	pthread_t thread;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	own_facts(&facts);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	assert_int_equal(pthread_create(&thread, NULL, deny_request, &fd), 0);
	o.url = url = mem_printf("http://127.0.0.1:%u", ntohs(at.sin_port));
	clock_test_freeze(1000);
	assert_done(home_new(&o, &h, &err));
	upload_fails(h, &facts.build_id, &st);
	assert_non_null(strstr(st.error, "403"));
	/* Nor is another file. */
	id = id_of(1);
	home_want(h, &id);
	assert_false(home_next(h, &id));
	clock_test_advance(60001);
	home_want(h, &facts.build_id);
	/* The other one comes first: it may be the file. */
	other = id;
	assert_true(home_next(h, &id));
	assert_true(build_id_eq(&id, &other));
	home_give(h, &id, -1, 0, "");
	assert_true(home_next(h, &id));
	assert_true(build_id_eq(&id, &facts.build_id));
	home_free(h);
	clock_test_thaw();
	pthread_join(thread, NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build_ids_that_are_done_make_room_for_others),
		cmocka_unit_test(build_ids_that_cannot_be_opened_let_others_pass),
		cmocka_unit_test(a_failure_of_this_machine_is_tried_again),
		cmocka_unit_test(a_token_that_may_not_upload_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
