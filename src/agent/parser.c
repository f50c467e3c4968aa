/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side, the starter, and the parser. Nothing that the parser sends is believed (parser_reply.c).
 */
#include "agent/parser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/confine.h"
#include "agent/parser_reply.h"

#define TURN_MS         250
#define START_WALL_MS   5000
#define OPEN_MAX_FD     65536
#define PARSE_NAME_SIZE 256u

struct parser {
	pid_t starter;
	int control, worker; /* sockets; worker -1: none */
	atomic_bool stop;
	uint32_t n_asked; /* requests to the starter */
	struct parser_stats stats;
};

/* From the agent, with the file's descriptor. */
struct parse_request {
	uint32_t kind;
	int32_t nice;
	uint64_t size;
	char name[PARSE_NAME_SIZE]; /* empty: none */
};

/* From the starter, with a socket of the new parser. */
struct start_reply {
	uint32_t number;    /* of the request */
	int32_t pid;        /* 0: there is none */
	int32_t old_status; /* of wait(); -1: it has not ended yet */
	int32_t n_stuck;
	char lacks[PARSER_WHY_SIZE];
};

/* ---- messages with a descriptor ---- */

union fd_room {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_with_fd(int sock, const void *p, size_t size, int fd)
{
	union fd_room room = { 0 };
	struct iovec v = { (void *)p, size };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		m.msg_control = room.bytes;
		m.msg_controllen = sizeof(room.bytes);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	do {
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)size ? 0 : -1;
}

/* The message and its descriptor, -1 if it has none. Negative: the other end is gone, or talks nonsense. */
static int recv_with_fd(int sock, void *p, size_t size, int *ret_fd)
{
	union fd_room room = { 0 };
	struct iovec v = { p, size };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = room.bytes,
			    .msg_controllen = sizeof(room.bytes) };
	ssize_t n;

	*ret_fd = -1;
	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); n > 0 && c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	if (n == (ssize_t)size)
		return 0;
	fd_close(ret_fd);
	return -1;
}

/* ---- the parser ---- */

/* Of its one thread: the clock of a process counts by ticks while it has a timer of CPU time. */
static int64_t parsing_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Takes @fd. */
static void parse_file(const struct parse_request *q, int fd, struct parser_reply *reply, struct buf *table)
{
	AUTO(source_closep) struct source *src = file_source_of(fd, q->size);
	struct python_image *python = NULL;
	struct err err = { 0 };
	int r;

	if (q->kind == PARSER_HEAD)
		r = file_head_of(src, q->name[0] ? q->name : NULL, &reply->head, &python, &err);
	else
		r = file_table_of(src, table, &err);
	if (python)
		reply->python = *python;
	reply->is_python = python != NULL;
	free(python);
	if (r >= 0)
		return;
	table->size = 0;
	snprintf(reply->why, sizeof(reply->why), "%.*s", (int)sizeof(reply->why) - 1, err.text);
}

static void answer_request(int sock, const struct parse_request *q, int fd)
{
	const struct itimerval limit = { .it_value.tv_sec = PARSER_CPU_S }, none = { 0 };
	AUTO(buf_done) struct buf table = { 0 };
	struct parser_reply reply;
	int64_t from_ns = parsing_cpu_ns();
	struct err err = { 0 };

	memset(&reply, 0, sizeof(reply));
	setitimer(ITIMER_PROF, &limit, NULL);
	if (q->nice)
		(void)setpriority(PRIO_PROCESS, 0, q->nice);
	parse_file(q, fd, &reply, &table);
	setitimer(ITIMER_PROF, &none, NULL);
	reply.cpu_ns = parsing_cpu_ns() - from_ns;
	reply.table_size = table.size;
	if (send_with_fd(sock, &reply, sizeof(reply), -1) < 0 ||
	    (table.size && fd_write(sock, table.p, table.size, &err) < 0))
		_exit(0);
}

static _Noreturn void parser_main(int sock)
{
	struct parse_request q;
	int fd;

	while (recv_with_fd(sock, &q, sizeof(q), &fd) == 0)
		if (fd >= 0)
			answer_request(sock, &q, fd);
	_exit(0);
}

/* ---- the starter ---- */

struct starter {
	int control;
	pid_t worker;
	pid_t stuck[PARSER_MAX_STUCK];
	int n_stuck;
};

static void reap_stuck(struct starter *s)
{
	for (int i = 0; i < s->n_stuck;) {
		if (waitpid(s->stuck[i], NULL, WNOHANG) == 0)
			i++;
		else
			s->stuck[i] = s->stuck[--s->n_stuck];
	}
}

/* One that waits for a file system cannot be waited for. */
static int32_t end_worker(struct starter *s)
{
	const struct timespec turn = { .tv_nsec = 5000000 };
	int status = -1;

	if (s->worker <= 0)
		return -1;
	for (unsigned i = 0; i < 40; i++) {
		if (waitpid(s->worker, &status, WNOHANG) != 0) {
			s->worker = 0;
			return status;
		}
		/* One that crashed is about to end by itself: its own signal says more. */
		if (i == 4)
			kill(s->worker, SIGKILL);
		nanosleep(&turn, NULL);
	}
	s->stuck[s->n_stuck++] = s->worker;
	s->worker = 0;
	return -1;
}

/* The parser confines itself before the agent is told of it; an error leaves no parser. */
static int start_worker(struct starter *s, struct start_reply *reply)
{
	int pair[2], ready[2];
	const char *lacks = NULL;
	struct err err = { 0 };
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	if (pipe2(ready, O_CLOEXEC) < 0) {
		close(pair[0]);
		close(pair[1]);
		return -1;
	}
	s->worker = fork();
	if (s->worker == 0) {
		close(s->control);
		close(pair[0]);
		close(ready[0]);
		prctl(PR_SET_NAME, "lode-parse");
		if (confine_parser(&lacks, &err) < 0)
			_exit(1);
		memset(reply->lacks, 0, sizeof(reply->lacks));
		if (lacks)
			snprintf(reply->lacks, sizeof(reply->lacks), "%s", lacks);
		if (write(ready[1], reply->lacks, sizeof(reply->lacks)) != sizeof(reply->lacks))
			_exit(1);
		close(ready[1]);
		parser_main(pair[1]);
	}
	close(pair[1]);
	close(ready[1]);
	n = s->worker > 0 ? read(ready[0], reply->lacks, sizeof(reply->lacks)) : -1;
	close(ready[0]);
	reply->pid = s->worker;
	if (n == sizeof(reply->lacks))
		return pair[0];
	close(pair[0]);
	reply->pid = 0;
	return -1;
}

static _Noreturn void starter_main(int control)
{
	struct starter s = { .control = control };
	uint32_t number;

	prctl(PR_SET_NAME, "lode-parse-0");
	while (read(control, &number, sizeof(number)) == sizeof(number)) {
		struct start_reply reply;
		int fd = -1, sent;

		memset(&reply, 0, sizeof(reply));
		reply.number = number;
		reap_stuck(&s);
		if (s.n_stuck < (int)PARSER_MAX_STUCK) {
			reply.old_status = end_worker(&s);
			fd = start_worker(&s, &reply);
		}
		reply.n_stuck = s.n_stuck;
		sent = send_with_fd(control, &reply, sizeof(reply), fd);
		fd_close(&fd);
		if (sent < 0)
			break;
	}
	if (s.worker > 0)
		kill(s.worker, SIGKILL);
	_exit(0);
}

/* Descriptors of the command that runs the agent, and of its child, are none of the parser's. */
static void close_all_but(int keep)
{
	struct rlimit l;
	int last = OPEN_MAX_FD;

	if (dup2(keep, 3) < 0)
		_exit(1);
#ifdef SYS_close_range
	if (syscall(SYS_close_range, 4u, ~0u, 0u) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < OPEN_MAX_FD)
		last = (int)l.rlim_cur;
	for (int fd = 4; fd < last; fd++)
		close(fd);
}

/*
 * The parser must not reach the terminal, log or profile that the agent has here. A sanitizer writes its reports to the
 * last one.
 */
static void drop_streams(int nothing)
{
	if (dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
	    (!CONFINE_SANITIZED && dup2(nothing, STDERR_FILENO) < 0))
		_exit(1);
	if (nothing > STDERR_FILENO)
		close(nothing);
}

static _Noreturn void become_starter(int control)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	struct err err = { 0 };
	sigset_t none;
	int nothing;

	/* No handler of the agent's runs here. */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* They go to the whole process group; the agent ends its parser itself. */
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	close_all_but(control);
	/* With the rights that it still has: containers may have a device that others cannot open. */
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0)
		(void)err_os(&err, errno, "/dev/null");
	if (nothing < 0 || confine_drop_rights(&err) < 0) {
		fprintf(stderr, "lode: agent: the parser of files: %s\n", err.text);
		_exit(1);
	}
	drop_streams(nothing);
	starter_main(3);
}

/* ---- the agent's side ---- */

static bool is_parser_stopped(const struct parser *p)
{
	return atomic_load_explicit(&p->stop, memory_order_relaxed);
}

/* Wait for bytes. false: the time is over. */
static bool wait_for_bytes(const struct parser *p, int fd, int64_t until_ms)
{
	while (!is_parser_stopped(p)) {
		struct pollfd f = { .fd = fd, .events = POLLIN };
		int64_t left_ms = until_ms - clock_mono_ms();
		int r = left_ms > 0 ? poll(&f, 1, (int)MIN(left_ms, (int64_t)TURN_MS)) : -1;

		if (r > 0)
			return true;
		if (r < 0 && (left_ms <= 0 || errno != EINTR))
			return false;
	}
	return false;
}

/* false: the parser has ended, or takes too long. */
static bool recv_all(const struct parser *p, void *to, size_t size, int64_t until_ms)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n;

		if (!wait_for_bytes(p, p->worker, until_ms))
			return false;
		n = recv(p->worker, (char *)to + got, size - got, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return false;
		got += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void old_parser_text(int status, bool late, char *out)
{
	if (status > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
		snprintf(out, PARSER_WHY_SIZE, "its parser needed more than %d s of CPU time", PARSER_CPU_S);
	else if (late)
		snprintf(out, PARSER_WHY_SIZE, "its parser did not answer in time");
	else if (status > 0 && WIFSIGNALED(status))
		snprintf(out, PARSER_WHY_SIZE, "its parser was ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(out, PARSER_WHY_SIZE, "its parser ended without an answer");
}

/*
 * A new parser, in place of the one that is there. *ret_status: how that one ended.
 *
 * A reply that did not come in time is still to come: the starter has ended that reply's parser for the one of this request.
 */
static bool renew_parser(struct parser *p, int64_t wall_ms, int *ret_status)
{
	int64_t until_ms = clock_mono_ms() + MIN(wall_ms, (int64_t)START_WALL_MS);
	uint32_t number = ++p->n_asked;
	struct start_reply reply;

	fd_close(&p->worker);
	p->stats.pid = 0;
	*ret_status = -1;
	if (is_parser_stopped(p) ||
	    send(p->control, &number, sizeof(number), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(number))
		return false;
	do {
		fd_close(&p->worker);
		if (!wait_for_bytes(p, p->control, until_ms) ||
		    recv_with_fd(p->control, &reply, sizeof(reply), &p->worker) < 0)
			return false;
	} while (reply.number != number);
	*ret_status = reply.old_status;
	p->stats.pid = reply.pid;
	parser_text_take(p->stats.lacks, reply.lacks);
	return p->worker >= 0;
}

static bool take_reply(struct parser *p, const struct parser_job *job, struct parser_result *ret,
		       int64_t until_ms)
{
	struct parser_reply reply;

	if (!recv_all(p, &reply, sizeof(reply), until_ms) || !parser_reply_is_sound(&reply, job))
		return false;
	if (reply.table_size && !recv_all(p, buf_reserve(&ret->table, (size_t)reply.table_size),
					  (size_t)reply.table_size, until_ms))
		return false;
	ret->table.size = (size_t)reply.table_size;
	parser_reply_take(&reply, job, ret);
	p->stats.cpu_ns += ret->cpu_ns;
	return true;
}

/* It ended while it had nothing to do: that is not the fault of the next file. */
static bool is_parser_gone(const struct parser *p)
{
	char byte;

	return p->worker >= 0 && recv(p->worker, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* The parser failed: another one takes its place. */
static void replace_parser(struct parser *p, int64_t wall_ms, bool late, char *why)
{
	int status;

	(void)renew_parser(p, wall_ms, &status);
	old_parser_text(status, late, why);
	p->stats.n_failed++;
	memcpy(p->stats.why, why, sizeof(p->stats.why));
}

void parser_run(struct parser *p, const struct parser_job *job, struct parser_result *ret)
{
	struct parse_request q = { .kind = job->kind, .nice = job->nice, .size = job->size };
	int64_t wall_ms = job->wall_ms ? job->wall_ms : PARSER_WALL_MS, until_ms;
	int status;

	if (job->name)
		snprintf(q.name, sizeof(q.name), STR_FMT, STR_ARG(path_basename(str_of(job->name))));
	if (is_parser_gone(p))
		replace_parser(p, wall_ms, false, ret->why);
	ret->why[0] = '\0';
	if (p->worker < 0 && !renew_parser(p, wall_ms, &status)) {
		snprintf(ret->why, sizeof(ret->why), "no process can be started that parses it");
		ret->is_unread = true;
		p->stats.n_failed++;
		memcpy(p->stats.why, ret->why, sizeof(p->stats.why));
		return;
	}
	until_ms = clock_mono_ms() + wall_ms;
	if (send_with_fd(p->worker, &q, sizeof(q), job->fd) == 0 && take_reply(p, job, ret, until_ms)) {
		if (ret->why[0])
			ret->table.size = 0;
		return;
	}
	ret->head = (struct file_head){ 0 };
	ret->table.size = 0;
	if (is_parser_stopped(p)) {
		snprintf(ret->why, sizeof(ret->why), "the agent ends");
		return;
	}
	replace_parser(p, wall_ms, clock_mono_ms() >= until_ms, ret->why);
}

void parser_stop(struct parser *p)
{
	atomic_store_explicit(&p->stop, true, memory_order_relaxed);
}

void parser_stats(const struct parser *p, struct parser_stats *ret)
{
	*ret = p->stats;
}

int parser_new(struct parser **ret, struct err *err)
{
	struct parser *p = NEW(struct parser);
	int pair[2], status;

	p->control = p->worker = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		free(p);
		return err_os(err, errno, "a socket for the parser of files");
	}
	fflush(NULL);
	p->starter = fork();
	if (p->starter == 0)
		become_starter(pair[1]);
	close(pair[1]);
	p->control = pair[0];
	if (p->starter < 0) {
		status = errno;
		parser_free(p);
		return err_os(err, status, "the process that parses files");
	}
	if (!renew_parser(p, START_WALL_MS, &status)) {
		parser_free(p);
		return err_set(err, ERR_IO, "the process that parses files does not start");
	}
	*ret = p;
	return 0;
}

void parser_free(struct parser *p)
{
	if (!p)
		return;
	fd_close(&p->worker);
	fd_close(&p->control);
	if (p->starter > 0)
		waitpid(p->starter, NULL, 0);
	free(p);
}
