/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of processes, below a folder in the place of /proc, with records of the kernel that are scripted here.
 */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process_internal.h"
#include "sampler_mem.h"

#define PARENT  100u
#define CHILD   101u
#define STARTED 500u
#define LONG    6000u /* more than PATH_MAX: a folder may be deeper, and maps shows it */

/* ---- the parser, and the kernel's records ---- */

static bool has_no_parser;

/* Files have one segment of code, which is at their start. */
void parser_run(struct parser *p, const struct parser_job *job, struct parser_result *ret)
{
	ret->is_unread = has_no_parser;
	if (has_no_parser || job->kind == PARSER_TABLE) {
		snprintf(ret->why, sizeof(ret->why), "nothing");
		return;
	}
	ret->head = (struct file_head){ .is_64 = true, .n_segments = 1 };
	ret->head.segments[0] = (struct file_segment){ 0, 0, 0x1000 };
}

void parser_stop(struct parser *p)
{
}

void parser_stats(const struct parser *p, struct parser_stats *ret)
{
	*ret = (struct parser_stats){ 0 };
}

static struct recent_process recorded; /* of any process */

const struct recent_process *recent_find(struct recent *r, uint32_t pid, int64_t start_ns, int64_t at_ns)
{
	return &recorded;
}

void recent_follow(struct recent *r)
{
}

/* ---- the agent ---- */

struct process_fixture {
	char dir[TEST_PATH_SIZE];
	struct sampler *sampler;
	struct files *files;
	struct label_maker *labels;
	struct processes *processes;
};

static int number_of_sampler(void *arg, uint32_t *ret, struct err *err)
{
	return sampler_file_new(((struct process_fixture *)arg)->sampler, ret, err);
}

static void drop_nothing(void *arg, struct mapped_file *file)
{
}

static void give_head(void *arg, struct mapped_file *file)
{
	processes_file_known(((struct process_fixture *)arg)->processes, file);
}

static void give_table(void *arg, struct mapped_file *file, struct bytes table)
{
}

static int process_setup(void **state)
{
	struct process_fixture *f = NEW(struct process_fixture);
	const struct files_handler h = { .arg = f,
					 .number = number_of_sampler,
					 .drop = drop_nothing,
					 .head = give_head,
					 .table = give_table };
	const struct label_options labels = { .exe = true };
	struct processes_options o = { .proc = f->dir, .recent = (struct recent *)&recorded };
	struct err err = { 0 };

	test_dir_make(f->dir);
	recorded = (struct recent_process){ .until_ns = INT64_MAX };
	f->sampler = sampler_mem_new(NULL);
	f->labels = label_maker_new(&labels, NULL);
	assert_done(files_new(&h, NULL, &f->files, &err));
	f->processes = processes_new(&o, f->files, f->labels, f->sampler);
	*state = f;
	return 0;
}

static int process_teardown(void **state)
{
	struct process_fixture *f = *state;

	processes_free(f->processes);
	files_free(f->files);
	label_maker_free(f->labels);
	sampler_close(f->sampler);
	buf_done(&recorded.paths);
	test_dir_remove(f->dir);
	free(f);
	return 0;
}

static void write_proc(struct process_fixture *f, const char *name, struct str text)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%u/%s", f->dir, PARENT, name);

	test_file_write(path, text.p, text.size);
}

/* @n mappings of memory without a file. */
static void write_maps(struct process_fixture *f, unsigned n)
{
	AUTO(buf_done) struct buf text = { 0 };

	for (unsigned i = 0; i < n; i++)
		buf_printf(&text, "%x-%x r-xp 00000000 00:00 0 \n", 0x100000 + i * 0x2000,
			   0x101000 + i * 0x2000);
	write_proc(f, "maps", buf_str(&text));
}

/* Process PARENT, with so many mappings. */
static void make_parent(struct process_fixture *f, unsigned n)
{
	AUTO(mem_freep) char *folder = mem_printf("%s/%u", f->dir, PARENT);
	AUTO(mem_freep) char *root = mem_printf("%s/root", folder);
	AUTO(buf_done) struct buf text = { 0 };

	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(symlink("/", root), 0);
	buf_printf(&text, "%u (parent) S 1 1 1 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 %u 0 0\n", PARENT, STARTED);
	write_proc(f, "stat", buf_str(&text));
	write_maps(f, n);
}

static void sample_of(struct process_fixture *f, uint32_t pid, uint64_t start_ticks)
{
	processes_event(f->processes, &(struct sampler_event){ .kind = SAMPLER_NEW,
							       .pid = pid,
							       .start_ticks = start_ticks,
							       .time_ns = clock_mono_ns(),
							       .parent = pid == PARENT ? 1 : PARENT,
							       .is_fork = pid != PARENT });
}

static size_t n_maps_of_all(struct process_fixture *f)
{
	struct processes_stats st;

	processes_stats(f->processes, &st);
	return st.n_maps;
}

static void a_process_that_gives_mappings_back_holds_no_memory_for_them(void **state)
{
	struct process_fixture *f = *state;
	const struct process *of;

	clock_test_freeze(1000);
	make_parent(f, 100000);
	sample_of(f, PARENT, STARTED);
	of = processes_find(f->processes, PARENT, STARTED);
	assert_int_equal(of->n_maps, 100000);
	write_maps(f, 2);
	clock_test_advance(1000);
	sample_of(f, PARENT, STARTED);
	assert_ptr_equal(processes_find(f->processes, PARENT, STARTED), of);
	assert_int_equal(of->n_maps, 2);
	assert_true(of->room_maps < 1000);
	clock_test_thaw();
}

/* The other processes of the machine, with --pid; but its parent or its container may be known a little later. */
static void a_process_that_is_dropped_is_judged_again_seldom(void **state)
{
	struct process_fixture *f = *state;
	static const int others[] = { 7 }, parent[] = { PARENT };
	const struct sampler_process *set;
	struct processes_stats st;

	clock_test_freeze(1000);
	make_parent(f, 3);
	f->processes->o.pids = others;
	f->processes->o.n_pids = 1;
	sample_of(f, PARENT, STARTED);
	assert_false(processes_find(f->processes, PARENT, STARTED)->is_kept);
	/* Its samples ask for nothing, and need not wait. */
	set = sampler_process_get(f->sampler, PARENT);
	assert_non_null(set);
	assert_int_equal(set->n_mappings, 1);
	assert_true(set->mappings[0].end > UINT64_C(0x7fffffffffff));
	for (unsigned i = 0; i < 400; i++) {
		clock_test_advance(250);
		sample_of(f, PARENT, STARTED);
		processes_tick(f->processes);
	}
	processes_stats(f->processes, &st);
	assert_in_range(st.n_read, 10, 25);
	f->processes->o.pids = parent;
	clock_test_advance(10000);
	processes_tick(f->processes);
	assert_true(processes_find(f->processes, PARENT, STARTED)->is_kept);
	assert_int_equal(processes_find(f->processes, PARENT, STARTED)->n_maps, 3);
	assert_int_equal(sampler_process_get(f->sampler, PARENT)->n_mappings, 3);
	clock_test_thaw();
}

static void poll_until_read(struct process_fixture *f)
{
	while (!files_idle(f->files))
		files_poll(f->files);
}

/* Process PARENT, with a mapping of a file. */
static void make_parent_of_file(struct process_fixture *f)
{
	AUTO(mem_freep) char *program = mem_printf("%s/program", f->dir);
	AUTO(buf_done) struct buf text = { 0 };
	struct stat st;

	test_file_write(program, "#", 1);
	assert_int_equal(stat(program, &st), 0);
	make_parent(f, 0);
	buf_printf(&text, "400000-401000 r-xp 00000000 00:00 %llu %s\n", (unsigned long long)st.st_ino,
		   program);
	write_proc(f, "maps", buf_str(&text));
}

/* With so many descriptors more. */
static void limit_open_files(unsigned n, struct rlimit *ret_before)
{
	int next = open("/", O_PATH | O_CLOEXEC);
	struct rlimit l;

	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
	l = *ret_before;
	l.rlim_cur = (rlim_t)next + n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &l), 0);
}

/* There is one for maps, but none for the file. */
static void a_file_that_no_descriptor_was_left_for_is_opened_later(void **state)
{
	struct process_fixture *f = *state;
	struct rlimit before;
	const struct process *of;

	clock_test_freeze(1000);
	make_parent_of_file(f);
	limit_open_files(1, &before);
	sample_of(f, PARENT, STARTED);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	of = processes_find(f->processes, PARENT, STARTED);
	assert_non_null(of);
	assert_int_equal(of->n_maps, 1);
	assert_null(of->maps[0].file);
	clock_test_advance(1000);
	processes_tick(f->processes);
	poll_until_read(f);
	assert_non_null(of->maps[0].file);
	clock_test_thaw();
}

/* Also by those that have it mapped all the time. */
static void a_file_that_is_read_again_is_known_to_its_processes(void **state)
{
	struct process_fixture *f = *state;
	const struct sampler_process *set;
	struct mapped_file *file;
	uint32_t pid;
	int fd;

	make_parent_of_file(f);
	has_no_parser = true;
	sample_of(f, PARENT, STARTED);
	poll_until_read(f);
	has_no_parser = false;
	set = sampler_process_get(f->sampler, PARENT);
	assert_non_null(set);
	assert_int_equal(set->mappings[0].file, SAMPLER_NO_FILE);
	file = processes_find(f->processes, PARENT, STARTED)->maps[0].file;
	assert_true(file->is_unread);
	fd = processes_open_file(f->processes, file, &pid);
	assert_true(fd >= 0);
	assert_int_equal(pid, PARENT);
	files_read_again(f->files, file, fd);
	poll_until_read(f);
	set = sampler_process_get(f->sampler, PARENT);
	assert_int_equal(set->n_mappings, 1);
	assert_int_equal(set->mappings[0].file, file->number);
	assert_int_equal(set->mappings[0].bias, 0x400000);
}

/* To open it the mappings of a process are read, and a stranger's tables may be evicted all the time. */
static void a_table_is_wanted_again_in_a_share_of_the_time(void **state)
{
	struct process_fixture *f = *state;
	struct cost_share *opening = &f->processes->opening, *reading = &f->processes->reading;
	struct sampler_event wanted = { .kind = SAMPLER_WANTED, .pid = PARENT };
	struct mapped_file *file;
	uint32_t pid;
	int64_t before;
	int fd;

	make_parent_of_file(f);
	sample_of(f, PARENT, STARTED);
	poll_until_read(f);
	file = processes_find(f->processes, PARENT, STARTED)->maps[0].file;
	wanted.file = file->number;
	opening->credit_ms = clock_mono_ms();
	opening->credit_ns = -INT64_C(1000000000000);
	processes_event(f->processes, &wanted);
	assert_false(file->wants_table);
	assert_int_equal(processes_open_file(f->processes, file, &pid), -1);
	opening->credit_ns = before = INT64_C(500000000);
	opening->credit_ms = clock_mono_ms();
	fd = processes_open_file(f->processes, file, &pid);
	assert_true(fd >= 0);
	fd_close(&fd);
	assert_int_not_equal(opening->credit_ns, before);
	opening->credit_ns = before;
	/* New processes may use up the time for reading all the time. */
	reading->credit_ns = -INT64_C(1000000000000);
	processes_event(f->processes, &wanted);
	assert_true(file->wants_table);
	poll_until_read(f);
}

/* A user may have a million mappings, and as many files as the server asks for. */
static void the_search_for_a_file_takes_its_time_from_the_share(void **state)
{
	struct process_fixture *f = *state;
	AUTO(mem_freep) char *program = mem_printf("%s/program", f->dir);
	struct cost_share *opening = &f->processes->opening;
	struct mapped_file *file;
	struct err err = { 0 };
	int64_t before;
	uint32_t pid;

	make_parent(f, 100000);
	sample_of(f, PARENT, STARTED);
	test_file_write(program, "#", 1);
	assert_done(files_get(f->files, open(program, O_RDONLY | O_CLOEXEC), program, &file, &err));
	poll_until_read(f);
	opening->credit_ns = before = INT64_C(400000000);
	opening->credit_ms = clock_mono_ms();
	assert_int_equal(processes_open_file(f->processes, file, &pid), -1);
	assert_int_not_equal(opening->credit_ns, before);
	files_unref(f->files, file);
}

/* It is sampled so seldom that its table is among the first to be evicted, and it is in no file system. */
static void the_table_of_the_vdso_is_built_again(void **state)
{
	struct process_fixture *f = *state;
	struct sampler_event wanted = { .kind = SAMPLER_WANTED, .pid = PARENT };
	struct mapped_file *file;

	make_parent(f, 0);
	write_proc(f, "maps", STR("7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0 [vdso]\n"));
	sample_of(f, PARENT, STARTED);
	poll_until_read(f);
	file = processes_find(f->processes, PARENT, STARTED)->maps[0].file;
	assert_non_null(file);
	wanted.file = file->number;
	processes_event(f->processes, &wanted);
	assert_true(file->wants_table);
	poll_until_read(f);
	assert_false(file->wants_table);
}

/* ---- processes that have ended ---- */

static void an_ended_child_has_the_mappings_of_its_parent(void **state)
{
	struct process_fixture *f = *state;
	const struct process *child;

	make_parent(f, 3);
	sample_of(f, PARENT, STARTED);
	sample_of(f, CHILD, STARTED + 1);
	child = processes_find(f->processes, CHILD, STARTED + 1);
	assert_non_null(child);
	assert_true(child->has_ended);
	assert_int_equal(child->n_maps, 3);
	assert_string_equal(child->comm, "parent");
	assert_int_equal(n_maps_of_all(f), 6);
}

/* At most four processes are tried, and a shell has more children that ended. */
static void a_file_is_opened_again_by_a_process_that_runs(void **state)
{
	struct process_fixture *f = *state;
	struct mapped_file *file;
	uint32_t pid;
	int fd;

	make_parent_of_file(f);
	sample_of(f, PARENT, STARTED);
	for (unsigned i = 0; i < 200; i++)
		sample_of(f, CHILD + i, STARTED + 1);
	poll_until_read(f);
	file = processes_find(f->processes, PARENT, STARTED)->maps[0].file;
	assert_ptr_equal(processes_find(f->processes, CHILD, STARTED + 1)->maps[0].file, file);
	fd = processes_open_file(f->processes, file, &pid);
	assert_true(fd >= 0);
	assert_int_equal(pid, PARENT);
	fd_close(&fd);
}

/* Some megabytes for each child would be as many as the process has children. */
static void mappings_of_ended_children_are_limited_as_those_of_others(void **state)
{
	struct process_fixture *f = *state;
	const unsigned n = 100000;

	make_parent(f, n);
	sample_of(f, PARENT, STARTED);
	assert_int_equal(n_maps_of_all(f), n);
	for (unsigned i = 0; i < 5; i++)
		sample_of(f, CHILD + i, STARTED + 1);
	assert_true(processes_find(f->processes, CHILD, STARTED + 1)->has_ended);
	assert_true(n_maps_of_all(f) <= MAPS_SHARED / 2);
}

/* Another process has it mapped by a path that is longer than any that can be opened. */
static void the_program_of_an_ended_process_has_its_name(void **state)
{
	struct process_fixture *f = *state;
	AUTO(mem_freep) char *program = mem_printf("%s/program", f->dir);
	AUTO(buf_done) struct buf path = { 0 };
	const struct agent_labels *labels;
	struct mapped_file *file;
	struct err err = { 0 };
	struct stat st;
	int fd;

	test_file_write(program, "#", 1);
	fd = open(program, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	while (path.size < LONG)
		buf_add_str(&path, STR("/deeper"));
	buf_add_str(&path, STR("/known"));
	assert_done(files_get(f->files, fd, buf_cstr(&path), &file, &err));
	poll_until_read(f);
	recorded.has_exec = true;
	recorded.n_maps = 1;
	recorded.maps[0].line = (struct maps_line){
		.start = 0x400000, .limit = 0x401000, .inode = st.st_ino, .exec = true
	};
	recorded.maps[0].line.path.size = strlen(program);
	buf_add(&recorded.paths, program, strlen(program));
	sample_of(f, CHILD, STARTED);
	assert_ptr_equal(processes_find(f->processes, CHILD, STARTED)->maps[0].file, file);
	labels = label_maker_set(f->labels, processes_find(f->processes, CHILD, STARTED)->labels);
	assert_true(str_eq(agent_labels_get(labels, STR("exe")), STR("known")));
	files_unref(f->files, file);
}

/* The kernel reports the end of a process some time after its number is free. */
static void the_end_of_another_process_of_that_number_is_not_its_own(void **state)
{
	struct process_fixture *f = *state;
	struct sampler_event end = { .kind = SAMPLER_EXIT, .pid = PARENT, .start_ticks = STARTED - 1 };

	make_parent(f, 1);
	sample_of(f, PARENT, STARTED);
	processes_event(f->processes, &end);
	assert_int_equal(processes_find(f->processes, PARENT, STARTED)->ended_ms, 0);
	end.start_ticks = STARTED;
	processes_event(f->processes, &end);
	assert_int_not_equal(processes_find(f->processes, PARENT, STARTED)->ended_ms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define UNIT(fn) cmocka_unit_test_setup_teardown(fn, process_setup, process_teardown)
		UNIT(a_process_that_gives_mappings_back_holds_no_memory_for_them),
		UNIT(a_file_that_no_descriptor_was_left_for_is_opened_later),
		UNIT(a_process_that_is_dropped_is_judged_again_seldom),
		UNIT(a_file_that_is_read_again_is_known_to_its_processes),
		UNIT(a_table_is_wanted_again_in_a_share_of_the_time),
		UNIT(the_search_for_a_file_takes_its_time_from_the_share),
		UNIT(the_table_of_the_vdso_is_built_again),
		UNIT(an_ended_child_has_the_mappings_of_its_parent),
		UNIT(a_file_is_opened_again_by_a_process_that_runs),
		UNIT(mappings_of_ended_children_are_limited_as_those_of_others),
		UNIT(the_program_of_an_ended_process_has_its_name),
		UNIT(the_end_of_another_process_of_that_number_is_not_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
