/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that adds is killed, again and again: every acknowledged profile is stored, once, and the store
 * opens.
 */
#include <signal.h>
#include <sys/wait.h>
#include "profilestore/sweep.h"
#include "stored.h"

#define TURNS 25

/* Add profiles and write the number of each that is acknowledged; never ends. */
static _Noreturn void child(struct stored *t, int fd, int64_t first)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	const struct profilestore_label l = { STR("service"), STR("web") };
	struct profilestore_receipt r;
	struct err err = { 0 };
	bool more;

	t->s = NULL;
	if (profilestore_open(&t->o, &t->s, &err) < 0)
		_exit(3);
	for (int64_t i = first;; i++) {
		/* New stacks now and then, and late ones. */
		if (i % 7 == 0) {
			profile_free(p);
			p = stored_profile((uint64_t)i % 5 * 3 + 1, NOW_MS);
		}
		p->time_ns = (NOW_MS - i * 1000) * 1000000;
		if (profilestore_add_wait(t->s, p, &l, 1, &r, &err) < 0 || r.duplicate ||
		    write(fd, &i, sizeof(i)) != sizeof(i))
			_exit(4);
		/* Sweeps, too: each takes some steps. */
		if (i % 40 == 0)
			sweep_ask(t->s->sweep);
		if (i % 3 == 0 && profilestore_groom(t->s, &more, &err) < 0)
			_exit(5);
	}
}

/* Everything from @first to the last acknowledged one is there, and perhaps one more. */
static void check(struct stored *t, const int64_t *acknowledged, size_t n, uint64_t *n_there)
{
	struct profilestore_range r = stored_range(CPU, 0, NOW_MS + 1);
	struct profilestore_entries *e;
	struct err err = { 0 };
	int64_t sum = 0;
	size_t found = 0;
	struct profilestore_merged m = stored_merge(t, CPU, 0, NOW_MS + 1);

	assert_done(profilestore_profiles(t->s, &r, 1000000, &e, &err));
	*n_there = 0;
	for (size_t i = 0; i < e->n; i++) {
		/* The number is the seconds before NOW_MS; later ones first, so they rise. */
		int64_t number = (NOW_MS - e->v[i].time_ms) / 1000;

		/* One profile is stored as several: one for each set of labels of its samples. */
		if (i)
			assert_true(e->v[i].time_ms <= e->v[i - 1].time_ms);
		*n_there += !i || e->v[i].time_ms != e->v[i - 1].time_ms;
		while (found < n && acknowledged[found] == number)
			found++;
		sum += e->v[i].total;
	}
	assert_int_equal(found, n);
	assert_int_equal(m.n_profiles, e->n);
	if (e->n)
		assert_int_equal(profile_total(m.profile, 0), sum);
	profile_free(m.profile);
	free(e);
	stored_range_done(&r);
}

static void acknowledged_profiles_are_stored(void **state)
{
	struct stored t = { 0 };
	int64_t *acknowledged = NULL, next = 1, number;
	size_t n = 0, room = 0;
	uint64_t n_there = 0, seed = 7;

	stored_open(&t);
	for (int turn = 0; turn < TURNS; turn++) {
		int fds[2], status;
		pid_t pid;

		profilestore_close(t.s);
		t.s = NULL;
		assert_int_equal(pipe(fds), 0);
		pid = fork();
		if (!pid)
			child(&t, fds[1], next);
		close(fds[1]);
		/* Kill it after some acknowledgement, at any point of the work that follows. */
		for (uint64_t left = profile_maker_next(&seed) % 12 + 1; left; left--) {
			if (read(fds[0], &number, sizeof(number)) != sizeof(number))
				break;
			if (n == room) {
				room = room ? 2 * room : 256;
				acknowledged = mem_realloc(acknowledged, room, sizeof(*acknowledged));
			}
			acknowledged[n++] = number;
			next = number + 1;
		}
		usleep((useconds_t)(profile_maker_next(&seed) % 20000));
		kill(pid, SIGKILL);
		while (read(fds[0], &number, sizeof(number)) == sizeof(number)) {
			if (n == room)
				acknowledged = mem_realloc(acknowledged, room *= 2, sizeof(*acknowledged));
			acknowledged[n++] = number;
			next = number + 1;
		}
		close(fds[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		/* The one after the last may be stored too: it is not sent again. */
		next += 2;
		stored_again(&t);
		check(&t, acknowledged, n, &n_there);
		assert_true(n_there >= n && n_there <= n + (uint64_t)turn + 1);
	}
	assert_true(n > TURNS);
	free(acknowledged);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acknowledged_profiles_are_stored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
