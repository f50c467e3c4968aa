/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other processes, below a folder in the place of /proc.
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process.h"

struct fake_proc {
	char folder[64];
};

static const char *in_proc(const struct fake_proc *p, const char *rest)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", p->folder, rest);
	return path;
}

static uint64_t make_file(const struct fake_proc *p, const char *rest)
{
	int fd = open(in_proc(p, rest), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_ino;
}

static int fake_proc_setup(void **state)
{
	struct fake_proc *p = NEW(struct fake_proc);

	snprintf(p->folder, sizeof(p->folder), "/tmp/lode-proc-XXXXXX");
	assert_non_null(mkdtemp(p->folder));
	mkdir(in_proc(p, "1"), 0700);
	mkdir(in_proc(p, "1/root"), 0700);
	mkdir(in_proc(p, "7"), 0700);
	mkdir(in_proc(p, "7/root"), 0700);
	*state = p;
	return 0;
}

static int fake_proc_teardown(void **state)
{
	struct fake_proc *p = *state;
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", p->folder);
	assert_int_equal(system(command), 0);
	free(p);
	return 0;
}

static uint64_t inode_of_open(int fd)
{
	struct stat st;

	if (fd < 0)
		return 0;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_ino;
}

/* An agent in a container: the parent has ended, too, so that its root is gone. */
static void files_of_ended_processes_are_below_the_first_one(void **state)
{
	const struct fake_proc *p = *state;
	struct maps_line line = { .path = STR("/lode-test-program"), .exec = true };

	line.inode = make_file(p, "1/root/lode-test-program");
	assert_int_equal(inode_of_open(process_open_path(p->folder, 99, &line)), line.inode);
	/* Its own root counts first; a file of that name that is not the mapped one is passed over. */
	make_file(p, "7/root/lode-test-program");
	assert_int_equal(inode_of_open(process_open_path(p->folder, 7, &line)), 0);
	line.inode = make_file(p, "7/root/lode-test-program");
	assert_int_equal(inode_of_open(process_open_path(p->folder, 7, &line)), line.inode);
	line.inode = UINT64_MAX;
	assert_int_equal(inode_of_open(process_open_path(p->folder, 99, &line)), 0);
	line.path = STR("");
	assert_int_equal(process_open_path(p->folder, 7, &line), -1);
}

/* A container maps a file, removes it, and knows a file of the machine with the same path and inode. */
static void a_process_with_a_root_gets_no_file_of_the_machine(void **state)
{
	const struct fake_proc *p = *state;
	struct maps_line line = { .start = 0x1000, .limit = 0x2000, .path = STR("/secret"), .exec = true };

	line.inode = make_file(p, "1/root/secret");
	assert_int_equal(process_open_mapped(p->folder, 7, &line), -1);
	assert_int_equal(process_open_path(p->folder, 7, &line), -1);
}

/* It has ended after its mappings were read: a stranger may choose that moment. */
static void a_file_is_opened_again_only_below_the_root_of_its_process(void **state)
{
	const struct fake_proc *p = *state;
	uint64_t inode = make_file(p, "1/root/secret");
	AUTO(mem_freep)
	char *maps = mem_printf("1000-2000 r-xp 00000000 00:00 %llu /secret\n", (unsigned long long)inode);

	test_file_write(in_proc(p, "7/maps"), maps, strlen(maps));
	assert_int_equal(process_open_at(p->folder, 7, 0x1000), -1);
	assert_int_equal(rmdir(in_proc(p, "7/root")), 0);
	assert_int_equal(process_open_at(p->folder, 7, 0x1000), -1);
	/* Its own file is. */
	mkdir(in_proc(p, "7/root"), 0700);
	inode = make_file(p, "7/root/secret");
	free(maps);
	maps = mem_printf("1000-2000 r-xp 00000000 00:00 %llu /secret\n", (unsigned long long)inode);
	test_file_write(in_proc(p, "7/maps"), maps, strlen(maps));
	assert_int_equal(inode_of_open(process_open_at(p->folder, 7, 0x1000)), inode);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_of_ended_processes_are_below_the_first_one,
						fake_proc_setup, fake_proc_teardown),
		cmocka_unit_test_setup_teardown(a_process_with_a_root_gets_no_file_of_the_machine,
						fake_proc_setup, fake_proc_teardown),
		cmocka_unit_test_setup_teardown(a_file_is_opened_again_only_below_the_root_of_its_process,
						fake_proc_setup, fake_proc_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
