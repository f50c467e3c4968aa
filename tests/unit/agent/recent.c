/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of a process by records in rings of two processors.
 */
#include "test.h"

#include <linux/perf_event.h>

#include "agent/recent.h"

#define RING_SIZE KIB(32)

/* A ring as the kernel writes it: backwards. */
struct test_ring {
	uint8_t data[RING_SIZE];
	uint64_t head;
};
struct recent_fixture {
	struct test_ring rings[2];
	struct recent_process found;
};

static void put_record(struct test_ring *r, uint32_t type, uint16_t misc, uint32_t pid, struct bytes body,
		       int64_t time_ns)
{
	struct {
		uint32_t type;
		uint16_t misc, size;
		uint32_t pid, tid;
	} head = { type, misc, (uint16_t)(sizeof(head) + body.size + sizeof(time_ns)), pid, pid };
	AUTO(buf_done) struct buf b = { 0 };

	assert_int_equal(head.size % 8, 0);
	buf_add(&b, &head, sizeof(head));
	buf_add(&b, body.p, body.size);
	buf_add(&b, &time_ns, sizeof(time_ns));
	r->head -= b.size;
	for (size_t i = 0; i < b.size; i++)
		r->data[(r->head + i) % RING_SIZE] = b.p[i];
}

static void put_exec(struct test_ring *r, uint32_t pid, const char *comm, int64_t time_ns)
{
	char text[16] = "";

	snprintf(text, sizeof(text), "%s", comm);
	put_record(r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, pid, bytes_of(text, sizeof(text)),
		   time_ns);
}

static void put_fork(struct test_ring *r, uint32_t pid, uint32_t parent, uint32_t tid, int64_t time_ns)
{
	const uint32_t threads[2] = { tid, parent };
	AUTO(buf_done) struct buf b = { 0 };

	buf_add(&b, threads, sizeof(threads));
	buf_add(&b, &time_ns, sizeof(time_ns));
	put_record(r, PERF_RECORD_FORK, 0, pid, buf_bytes(&b), time_ns);
	/* Where other records have the thread. */
	for (size_t i = 0; i < sizeof(parent); i++)
		r->data[(r->head + 12 + i) % RING_SIZE] = ((const uint8_t *)&parent)[i];
}

static void put_map(struct test_ring *r, uint32_t pid, uint64_t start, uint64_t size, const char *path,
		    int64_t time_ns)
{
	const uint64_t words[3] = { start, size, 0x1000 };
	const uint32_t device[2] = { 8, 1 }, rights[2] = { 5, 2 };
	const uint64_t inode[2] = { strlen(path) > 1 ? 77 : 0, 0 };
	AUTO(buf_done) struct buf b = { 0 };

	buf_add(&b, words, sizeof(words));
	buf_add(&b, device, sizeof(device));
	buf_add(&b, inode, sizeof(inode));
	buf_add(&b, rights, sizeof(rights));
	buf_add(&b, path, strlen(path) + 1);
	while (b.size % 8)
		buf_add_char(&b, '\0');
	put_record(r, PERF_RECORD_MMAP2, 0, pid, buf_bytes(&b), time_ns);
}

static const struct recent_process *search(struct recent_fixture *f, uint32_t pid, int64_t start_ns,
					   int64_t at_ns)
{
	recent_search(&f->found, pid, start_ns);
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < ARRAY_SIZE(f->rings); i++) {
			const struct test_ring *r = &f->rings[i];
			const struct recent_view v = { r->data, RING_SIZE, r->head, &r->head };

			if (pass == 0)
				recent_scan_execs(&f->found, &v, at_ns);
			else
				recent_scan_maps(&f->found, &v);
		}
	return &f->found;
}

static int recent_setup(void **state)
{
	*state = NEW(struct recent_fixture);
	return 0;
}

static int recent_teardown(void **state)
{
	struct recent_fixture *f = *state;

	buf_done(&f->found.paths);
	free(f);
	return 0;
}

static void assert_line(const struct recent_process *p, size_t i, uint64_t start, const char *path)
{
	struct maps_line m = recent_line(p, i);

	assert_int_equal(m.start, start);
	assert_int_equal(m.path.size, strlen(path));
	assert_memory_equal(m.path.p, path, m.path.size);
}

static void the_program_at_the_time_of_the_sample(void **state)
{
	struct recent_fixture *f = *state;
	const struct recent_process *p;

	/* Process 7 runs two programs, on two processors; 8 runs beside it. */
	put_exec(&f->rings[0], 7, "first", 100);
	put_map(&f->rings[0], 7, 0x7000, 0x1000, "/bin/first", 110);
	put_exec(&f->rings[0], 8, "other", 112);
	put_map(&f->rings[0], 8, 0x7000, 0x1000, "/bin/other", 113);
	put_map(&f->rings[1], 7, 0x5000, 0x1000, "/lib/libc.so (deleted)", 120);
	put_exec(&f->rings[1], 7, "second", 200);
	put_map(&f->rings[1], 7, 0x9000, 0x1000, "/bin/second", 210);
	p = search(f, 7, 90, 150);
	assert_true(p->has_exec);
	assert_string_equal(p->comm, "first");
	assert_int_equal(p->until_ns, 200);
	assert_int_equal(p->n_maps, 2);
	assert_line(p, 0, 0x5000, "/lib/libc.so");
	assert_true(p->maps[0].line.deleted);
	assert_line(p, 1, 0x7000, "/bin/first");
	assert_int_equal(p->maps[1].line.inode, 77);
	assert_int_equal(p->maps[1].line.offset, 0x1000);
	p = search(f, 7, 90, 205);
	assert_string_equal(p->comm, "second");
	assert_int_equal(p->n_maps, 1);
	assert_line(p, 0, 0x9000, "/bin/second");
}

/* Before its first exec it runs the program of its parent, and adds to it. */
static void a_fork_has_the_mappings_that_it_made(void **state)
{
	struct recent_fixture *f = *state;
	const struct recent_process *p;

	put_map(&f->rings[0], 7, 0x7000, 0x1000, "/lib/plugin.so", 110);
	put_exec(&f->rings[1], 7, "later", 200);
	put_map(&f->rings[1], 7, 0x9000, 0x1000, "/bin/later", 210);
	p = search(f, 7, 90, 150);
	assert_false(p->has_exec);
	assert_int_equal(p->n_maps, 1);
	assert_line(p, 0, 0x7000, "/lib/plugin.so");
}

static void the_process_that_started_it(void **state)
{
	struct recent_fixture *f = *state;

	put_fork(&f->rings[0], 7, 5, 7, 80);
	put_fork(&f->rings[0], 7, 6, 7, 100);
	/* A thread. */
	put_fork(&f->rings[1], 7, 7, 9, 120);
	assert_int_equal(search(f, 7, 90, 150)->parent, 6);
	assert_int_equal(search(f, 7, 110, 150)->parent, 0);
	assert_int_equal(search(f, 8, 90, 150)->parent, 0);
}

static void records_before_the_start_are_of_another_process(void **state)
{
	struct recent_fixture *f = *state;
	const struct recent_process *p;

	put_exec(&f->rings[0], 7, "old", 100);
	put_map(&f->rings[0], 7, 0x7000, 0x1000, "/bin/old", 110);
	p = search(f, 7, 150, 160);
	assert_false(p->has_exec);
	assert_int_equal(p->n_maps, 0);
}

static void of_overlapping_mappings_the_newest_is_there(void **state)
{
	struct recent_fixture *f = *state;
	const struct recent_process *p;

	put_exec(&f->rings[0], 7, "x", 100);
	put_map(&f->rings[0], 7, 0x4000, 0x4000, "/lib/old.so", 110);
	put_map(&f->rings[0], 7, 0x10000, 0x1000, "/lib/far.so", 111);
	put_map(&f->rings[1], 7, 0x5000, 0x1000, "/lib/new.so", 120);
	put_map(&f->rings[1], 7, UINT64_MAX - 0xfff, 0x2000, "/lib/none.so", 121);
	p = search(f, 7, 90, 150);
	assert_int_equal(p->n_maps, 2);
	assert_line(p, 0, 0x5000, "/lib/new.so");
	assert_line(p, 1, 0x10000, "/lib/far.so");
	/* Also of one ring, which is read from the newest on. */
	put_exec(&f->rings[0], 8, "y", 100);
	put_map(&f->rings[0], 8, 0x4000, 0x4000, "/lib/old.so", 110);
	put_map(&f->rings[0], 8, 0x5000, 0x1000, "/lib/new.so", 120);
	p = search(f, 8, 90, 150);
	assert_int_equal(p->n_maps, 1);
	assert_line(p, 0, 0x5000, "/lib/new.so");
}

/* The ring is full many times over: the oldest records are gone, and the one that is cut is none. */
static void an_overwritten_ring_has_its_newest_records(void **state)
{
	struct recent_fixture *f = *state;
	const struct recent_process *p;
	unsigned n = 0;

	for (int64_t i = 1; i <= 5000; i++) {
		put_exec(&f->rings[0], 7, "x", 10 * i);
		put_map(&f->rings[0], 7, 0x1000, 0x1000, "/bin/x", 10 * i + 1);
	}
	for (int64_t i = 5000; i > 0; i--) {
		p = search(f, 7, 0, 10 * i + 5);
		if (!p->has_exec)
			break;
		assert_int_equal(p->from_ns, 10 * i);
		n += p->n_maps == 1;
	}
	/* 40 and 88 bytes a program, but the room for one that is being written. */
	assert_in_range(n, (RING_SIZE - RECENT_RECORD_MAX) / 136 - 1, RING_SIZE / 100);
}

static void as_many_mappings_as_there_is_room(void **state)
{
	struct recent_fixture *f = *state;
	const struct recent_process *p;

	put_exec(&f->rings[0], 7, "x", 1);
	for (unsigned i = 0; i < 2 * RECENT_MAX_MAPS / 2; i++)
		put_map(&f->rings[0], 7, 0x10000 + 0x2000 * i, 0x1000, "/lib/x.so", 2 + i);
	for (unsigned i = 0; i < RECENT_MAX_MAPS; i++)
		put_map(&f->rings[1], 7, 0x10000000 + 0x2000 * i, 0x1000, "/lib/x.so", 2 + i);
	p = search(f, 7, 0, 1000);
	assert_int_equal(p->n_maps, RECENT_MAX_MAPS);
	for (size_t i = 1; i < p->n_maps; i++)
		assert_true(p->maps[i - 1].line.limit <= p->maps[i].line.start);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, recent_setup, recent_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(the_program_at_the_time_of_the_sample),
		WITH(a_fork_has_the_mappings_that_it_made),
		WITH(the_process_that_started_it),
		WITH(records_before_the_start_are_of_another_process),
		WITH(of_overlapping_mappings_the_newest_is_there),
		WITH(an_overwritten_ring_has_its_newest_records),
		WITH(as_many_mappings_as_there_is_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
