/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that parses files: its results, its walls, and what becomes of a file that ends it. This program is the file.
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/parser.h"

struct parser_fixture {
	struct parser *p;
	int fd;
	struct stat st;
};

static int parser_setup(void **state)
{
	struct parser_fixture *f = NEW(struct parser_fixture);
	struct err err = { 0 };

	assert_done(parser_new(&f->p, &err));
	f->fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	assert_int_equal(fstat(f->fd, &f->st), 0);
	*state = f;
	return 0;
}

static int parser_teardown(void **state)
{
	struct parser_fixture *f = *state;

	parser_free(f->p);
	fd_close(&f->fd);
	free(f);
	return 0;
}

static struct parser_result run_kind(struct parser_fixture *f, enum parser_kind kind)
{
	const struct parser_job job = { .kind = kind, .fd = f->fd, .size = (uint64_t)f->st.st_size };
	struct parser_result r = { 0 };

	parser_run(f->p, &job, &r);
	return r;
}

static int pid_of_parser(struct parser_fixture *f)
{
	struct parser_stats st;

	parser_stats(f->p, &st);
	assert_true(st.pid > 0);
	return st.pid;
}

static void results_are_those_of_this_process(void **state)
{
	struct parser_fixture *f = *state;
	AUTO(source_closep)
	struct source *src = file_source_of(fcntl(f->fd, F_DUPFD_CLOEXEC, 0), (uint64_t)f->st.st_size);
	AUTO(buf_done) struct buf table = { 0 };
	struct python_image *python = NULL;
	struct file_head head = { 0 };
	struct parser_result r;
	struct err err;

	assert_done(file_head_of(src, NULL, &head, &python, &err));
	r = run_kind(f, PARSER_HEAD);
	assert_string_equal(r.why, "");
	assert_true(head.n_segments > 0);
	assert_int_equal(r.head.is_64, head.is_64);
	assert_true(head.id.size && build_id_eq(&r.head.id, &head.id));
	assert_int_equal(r.head.n_segments, head.n_segments);
	assert_memory_equal(r.head.segments, head.segments, head.n_segments * sizeof(*head.segments));
	assert_int_equal(r.table.size, 0);
	assert_null(python);
	assert_null(r.python);
	assert_done(file_table_of(src, &table, &err));
	r = run_kind(f, PARSER_TABLE);
	assert_string_equal(r.why, "");
	assert_int_equal(r.table.size, table.size);
	assert_memory_equal(r.table.p, table.p, table.size);
	assert_true(r.cpu_ns > 0);
	buf_done(&r.table);
}

static void a_file_that_is_none_costs_itself(void **state)
{
	struct parser_fixture *f = *state;
	struct parser_fixture none = { .p = f->p, .fd = open("/dev/null", O_RDONLY | O_CLOEXEC) };
	struct parser_result r;

	none.st.st_size = 4096;
	r = run_kind(&none, PARSER_HEAD);
	assert_true(r.why[0]);
	assert_null(strstr(r.why, "parser"));
	fd_close(&none.fd);
	r = run_kind(f, PARSER_HEAD);
	assert_string_equal(r.why, "");
}

static void wait_until_ended(int pid)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%d/stat", pid);

	for (unsigned i = 0; i < 1000; i++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct err err;
		const char *last;

		if (file_read(path, KIB(4), &b, &err) != 0)
			return;
		last = strrchr(buf_cstr(&b), ')');
		if (last && last[2] == 'Z')
			return;
		usleep(2000);
	}
	fail_msg("process %d does not end", pid);
}

/* Killed while it has nothing to do: the next file is read. */
static void a_parser_that_ended_is_started_anew(void **state)
{
	struct parser_fixture *f = *state;
	int pid = pid_of_parser(f);
	struct parser_result r;
	struct parser_stats st;

	assert_int_equal(kill(pid, SIGSEGV), 0);
	wait_until_ended(pid);
	r = run_kind(f, PARSER_HEAD);
	assert_string_equal(r.why, "");
	parser_stats(f->p, &st);
	assert_int_equal(st.n_failed, 1);
	assert_non_null(strstr(st.why, "signal 11"));
	assert_int_not_equal(pid_of_parser(f), pid);
}

/* A stopped process stands for one that waits for a file system. */
static void run_stopped(struct parser_fixture *f, const char *why)
{
	const struct parser_job job = {
		.kind = PARSER_HEAD, .fd = f->fd, .size = (uint64_t)f->st.st_size, .wall_ms = 300
	};
	int pid = pid_of_parser(f);
	struct parser_result r = { 0 };

	assert_int_equal(kill(pid, SIGSTOP), 0);

	parser_run(f->p, &job, &r);
	assert_non_null(strstr(r.why, why));
	assert_int_equal(r.head.n_segments, 0);
	r = run_kind(f, PARSER_HEAD);
	assert_string_equal(r.why, "");
	assert_true(r.head.n_segments > 0);
}

static void a_parser_that_hangs_costs_one_file(void **state)
{
	run_stopped(*state, "did not answer in time");
}

static void the_limit_of_cpu_time_has_its_text(void **state)
{
	struct parser_fixture *f = *state;
	int pid = pid_of_parser(f);
	struct parser_stats st;

	assert_int_equal(kill(pid, SIGPROF), 0);
	wait_until_ended(pid);
	(void)run_kind(f, PARSER_HEAD);
	parser_stats(f->p, &st);
	assert_non_null(strstr(st.why, "20 s of CPU time"));
}

static void many_in_a_row_are_replaced(void **state)
{
	struct parser_fixture *f = *state;

	for (unsigned i = 0; i < 20; i++) {
		int pid = pid_of_parser(f);

		assert_int_equal(kill(pid, SIGKILL), 0);
		wait_until_ended(pid);
		assert_string_equal(run_kind(f, PARSER_HEAD).why, "");
	}
}

static int starter_of(int pid)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%d/status", pid);
	AUTO(buf_done) struct buf b = { 0 };
	const char *line;
	struct err err;

	assert_done(file_read(path, KIB(16), &b, &err));
	line = strstr(buf_cstr(&b), "PPid:");
	assert_non_null(line);
	return (int)strtol(line + strlen("PPid:"), NULL, 10);
}

/* The machine is overloaded: the replies of the starter that were given up do not stand for later ones. */
static void a_starter_that_is_late_costs_one_file(void **state)
{
	struct parser_fixture *f = *state;
	const struct parser_job job = {
		.kind = PARSER_HEAD, .fd = f->fd, .size = (uint64_t)f->st.st_size, .wall_ms = 100
	};
	int pid = pid_of_parser(f), starter = starter_of(pid);
	struct parser_result r = { 0 };

	assert_int_equal(kill(starter, SIGSTOP), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	wait_until_ended(pid);
	parser_run(f->p, &job, &r);
	assert_non_null(strstr(r.why, "no process can be started"));
	assert_true(r.is_unread);
	assert_int_equal(kill(starter, SIGCONT), 0);
	r = run_kind(f, PARSER_HEAD);
	assert_string_equal(r.why, "");
	assert_false(r.is_unread);
	pid = pid_of_parser(f);
	for (unsigned i = 0; i < 100; i++) {
		assert_string_equal(run_kind(f, PARSER_HEAD).why, "");
		assert_int_equal(pid_of_parser(f), pid);
		usleep(2000);
	}
}

static bool status_has(int pid, const char *line)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%d/status", pid);
	AUTO(buf_done) struct buf b = { 0 };
	struct err err;

	assert_done(file_read(path, KIB(16), &b, &err));
	return strstr(buf_cstr(&b), line) != NULL;
}

static void it_has_no_rights(void **state)
{
	struct parser_fixture *f = *state;
	int pid = pid_of_parser(f);

	assert_true(status_has(pid, "CapEff:\t0000000000000000\n"));
	assert_true(status_has(pid, "CapPrm:\t0000000000000000\n"));
	assert_true(status_has(pid, "NoNewPrivs:\t1\n"));
	assert_true(status_has(pid, "Seccomp:\t2\n"));
	assert_true(status_has(pid, "Name:\tlode-parse\n"));
}

/* Neither the terminal of the agent, nor the profile that it writes to its standard output. */
static void it_has_no_streams_of_its_owner(void **state)
{
	int pid = pid_of_parser(*state);

	for (int fd = 0; fd <= STDOUT_FILENO; fd++) {
		AUTO(mem_freep) char *path = mem_printf("/proc/%d/fd/%d", pid, fd);
		char target[TEST_PATH_SIZE] = "";

		/* Only root sees descriptors of a process that gave up its rights. */
		if (readlink(path, target, sizeof(target) - 1) < 0)
			skip();
		assert_string_equal(target, "/dev/null");
	}
}

static void it_ends_with_its_owner(void **state)
{
	struct parser_fixture *f = *state;
	int pid = pid_of_parser(f);

	parser_free(f->p);
	f->p = NULL;
	for (unsigned i = 0; i < 1000 && kill(pid, 0) == 0; i++)
		usleep(2000);
	assert_int_equal(kill(pid, 0), -1);
}

static void a_stop_ends_the_wait(void **state)
{
	struct parser_fixture *f = *state;
	struct parser_result r;

	parser_stop(f->p);
	r = run_kind(f, PARSER_HEAD);
	assert_non_null(strstr(r.why, "the agent ends"));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, parser_setup, parser_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(results_are_those_of_this_process),
		WITH(a_file_that_is_none_costs_itself),
		WITH(a_parser_that_ended_is_started_anew),
		WITH(a_parser_that_hangs_costs_one_file),
		WITH(the_limit_of_cpu_time_has_its_text),
		WITH(many_in_a_row_are_replaced),
		WITH(a_starter_that_is_late_costs_one_file),
		WITH(it_has_no_rights),
		WITH(it_ends_with_its_owner),
		WITH(a_stop_ends_the_wait),
		WITH(it_has_no_streams_of_its_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
