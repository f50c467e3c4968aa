/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights that are given up, each tried in a process of its own.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/confine.h"

/* Whether @fn, in a child that is confined first, returns true. */
static bool in_child(bool (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_refused(long r)
{
	return r < 0 && errno == EPERM;
}

static bool parser_confined(void)
{
	const char *lacks;
	struct err err;

	return confine_parser(&lacks, &err) == 0 && !lacks;
}

static bool parser_opens_nothing(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char byte;

	return fd >= 0 && parser_confined() && read(fd, &byte, 1) == 1 && byte == 0x7f &&
	       is_refused(open("/proc/self/exe", O_RDONLY)) && is_refused(socket(AF_INET, SOCK_STREAM, 0)) &&
	       is_refused(socket(AF_UNIX, SOCK_STREAM, 0)) && is_refused(unlink("/nothing"));
}

static bool parser_starts_and_ends_nothing(void)
{
	char *args[] = { (char[]){ "true" }, NULL };

	return parser_confined() && is_refused(syscall(SYS_execve, "/bin/true", args, args)) &&
	       is_refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) && is_refused(kill(getppid(), 0)) &&
	       is_refused(syscall(SYS_ptrace, PTRACE_ATTACH, getppid(), 0, 0)) &&
	       is_refused(syscall(SYS_bpf, BPF_MAP_CREATE, NULL, 0)) &&
	       is_refused(syscall(SYS_memfd_create, "x", 0));
}

static bool parser_memory_is_limited(void)
{
	size_t size = (size_t)1 << 30;

	return parser_confined() && malloc(size) == NULL && malloc(1 << 20) != NULL;
}

static void *do_nothing(void *arg)
{
	return arg;
}

static bool agent_confined(void)
{
	struct err err;

	return confine_agent(&err) == 0;
}

static bool agent_starts_nothing(void)
{
	char *args[] = { (char[]){ "true" }, NULL };
	union bpf_attr attr = { 0 };

	return agent_confined() && is_refused(syscall(SYS_execve, "/bin/true", args, args)) &&
	       is_refused(fork()) && is_refused(syscall(SYS_ptrace, PTRACE_ATTACH, getppid(), 0, 0)) &&
	       is_refused(syscall(SYS_pidfd_getfd, -1, 0, 0)) &&
	       is_refused(mount("x", "/nothing", "tmpfs", 0, NULL)) && is_refused(unshare(0)) &&
	       is_refused(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr))) &&
	       is_refused(syscall(SYS_init_module, NULL, 0, "")) && is_refused(setuid(getuid()));
}

static bool agent_goes_on(void)
{
	int pair[2], fd;
	pthread_t t;

	if (!agent_confined() || pthread_create(&t, NULL, do_nothing, NULL) || pthread_join(t, NULL))
		return false;
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	/* bpf() is there, for maps: it fails for another reason. */
	return fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 &&
	       socket(AF_INET, SOCK_STREAM, 0) >= 0 && kill(getpid(), 0) == 0 &&
	       syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, NULL, 0) < 0;
}

static atomic_int thread_errno;
static atomic_bool may_try;

static void *try_execve(void *arg)
{
	char *args[] = { (char[]){ "true" }, NULL };

	while (!atomic_load(&may_try))
		usleep(1000);
	atomic_store(&thread_errno, syscall(SYS_execve, "/nonexistent", args, args) < 0 ? errno : 0);
	return NULL;
}

static bool threads_from_before_are_confined(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, try_execve, NULL) || !agent_confined())
		return false;
	atomic_store(&may_try, true);
	return pthread_join(t, NULL) == 0 && atomic_load(&thread_errno) == EPERM;
}

static void the_parser_reads_and_nothing_else(void **state)
{
	assert_true(in_child(parser_opens_nothing));
	assert_true(in_child(parser_starts_and_ends_nothing));
}

static void the_parsers_memory_is_limited(void **state)
{
	if (!CONFINE_SANITIZED)
		assert_true(in_child(parser_memory_is_limited));
}

static void the_agent_starts_nothing_and_goes_on(void **state)
{
	assert_true(in_child(agent_starts_nothing));
	assert_true(in_child(agent_goes_on));
	assert_true(in_child(threads_from_before_are_confined));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_parser_reads_and_nothing_else),
		cmocka_unit_test(the_parsers_memory_is_limited),
		cmocka_unit_test(the_agent_starts_nothing_and_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
