/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of mapped files and the reader's thread, over a parser that is scripted here: which files are the same, the
 * order of reading, the cost of waiting files, and when a file is forgotten. Files are memfds: regular files that have
 * an inode and a time of change as others do.
 */
#include "test.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files.h"

#define MAX_NOTED   64u
#define KEPT_UNUSED 512u   /* as in files.c */
#define UNUSED_MS   600000 /* as there */

/* ---- the parser ---- */

struct noted_job {
	enum parser_kind kind;
	uint64_t size;
	int nice;
	uint8_t first[SELFMAG]; /* bytes of the file */
};

/* The reader's thread writes it between `begun` and `go`, or while the test waits in poll_until_idle(). */
static struct {
	bool gated, gated_tables;
	sem_t begun, go;
	struct noted_job jobs[MAX_NOTED];
	atomic_size_t n_jobs;
	/* the result of the next ones */
	const char *why;
	bool is_32, is_unread;
	int64_t cpu_ns;
} script;

void parser_run(struct parser *p, const struct parser_job *job, struct parser_result *ret)
{
	size_t n = atomic_load(&script.n_jobs);

	if (n < MAX_NOTED) {
		script.jobs[n] = (struct noted_job){ .kind = job->kind,
						     .size = job->size,
						     .nice = job->nice };
		if (pread(job->fd, script.jobs[n].first, SELFMAG, 0) < 0)
			abort();
	}
	atomic_store(&script.n_jobs, n + 1);
	if (script.gated || (script.gated_tables && job->kind == PARSER_TABLE)) {
		sem_post(&script.begun);
		sem_wait(&script.go);
	}
	ret->cpu_ns = script.cpu_ns;
	ret->head.is_64 = !script.is_32;
	ret->is_unread = script.is_unread;
	if (script.why)
		snprintf(ret->why, sizeof(ret->why), "%s", script.why);
	else if (job->kind == PARSER_TABLE)
		buf_printf(&ret->table, "%0100d", 0);
}

void parser_stop(struct parser *p)
{
	script.gated = script.gated_tables = false;
	sem_post(&script.go);
}

void parser_stats(const struct parser *p, struct parser_stats *ret)
{
	*ret = (struct parser_stats){ 0 };
}

/* ---- the file system ---- */

static const struct stat *next_stat; /* of the next file that is asked, instead of its own */

int fstat(int fd, struct stat *ret)
{
	if (!next_stat)
		return fstatat(fd, "", ret, AT_EMPTY_PATH);
	*ret = *next_stat;
	next_stat = NULL;
	return 0;
}

/* ---- the agent ---- */

struct files_fixture {
	struct files *files;
	uint32_t next_number, n_heads, n_dropped, n_tables;
	size_t table_size;
	bool no_number;
	int fds_before;
};

static int give_number(void *arg, uint32_t *ret, struct err *err)
{
	struct files_fixture *f = arg;

	if (f->no_number)
		return err_set(err, ERR_LIMIT, "no number is left");
	*ret = f->next_number++;
	return 0;
}

static void note_drop(void *arg, struct mapped_file *file)
{
	((struct files_fixture *)arg)->n_dropped++;
}

static void note_head(void *arg, struct mapped_file *file)
{
	((struct files_fixture *)arg)->n_heads++;
}

static void note_table(void *arg, struct mapped_file *file, struct bytes table)
{
	struct files_fixture *f = arg;

	f->n_tables++;
	f->table_size = table.size;
}

static int count_open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int files_setup(void **state)
{
	struct files_fixture *f = NEW(struct files_fixture);
	const struct files_handler h = {
		.arg = f, .number = give_number, .drop = note_drop, .head = note_head, .table = note_table
	};
	struct err err = { 0 };

	memset(&script, 0, sizeof(script));
	sem_init(&script.begun, 0, 0);
	sem_init(&script.go, 0, 0);
	f->fds_before = count_open_files();
	assert_done(files_new(&h, NULL, &f->files, &err));
	*state = f;
	return 0;
}

static int files_teardown(void **state)
{
	struct files_fixture *f = *state;
	int left;

	files_free(f->files);
	left = count_open_files() - f->fds_before;
	free(f);
	clock_test_thaw();
	return left; /* each descriptor that was given away is closed */
}

static int file_of_size(uint64_t size)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static int same_again(int fd)
{
	int again = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	assert_true(again >= 0);
	return again;
}

static struct mapped_file *get_file(struct files_fixture *f, int fd)
{
	struct mapped_file *ret = NULL;
	struct err err = { 0 };

	assert_done(files_get(f->files, fd, "/usr/lib/libx.so", &ret, &err));
	return ret;
}

/* Until the results of all files are delivered. */
static void poll_until_idle(struct files_fixture *f)
{
	while (!files_idle(f->files)) {
		struct pollfd p = { .fd = files_fd(f->files), .events = POLLIN };

		assert_int_equal(poll(&p, 1, 20000), 1);
		files_poll(f->files);
	}
}

static struct files_stats stats_of(struct files_fixture *f)
{
	struct files_stats st;

	files_stats(f->files, &st);
	return st;
}

/* ---- which files are the same ---- */

static void a_known_file_costs_no_reading(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(10);
	struct mapped_file *file = get_file(f, same_again(fd));

	poll_until_idle(f);
	assert_int_equal(f->n_heads, 1);
	assert_int_equal(f->n_tables, 1);
	assert_int_equal(f->table_size, 100);
	assert_true(file->has_table);
	assert_ptr_equal(get_file(f, fd), file);
	assert_int_equal(file->n_refs, 2);
	assert_true(files_idle(f->files));
	assert_int_equal(stats_of(f).n_files, 1);
	assert_int_equal(stats_of(f).n_tables, 1);
	assert_int_equal(stats_of(f).n_rows_bytes, 100);
	assert_int_equal(stats_of(f).n_failed, 0);
}

/* As a linker or a copy over the file does, which then sets the old mtime (cp -p, rsync --inplace). */
static void write_in_place(int fd)
{
	struct stat before, after;
	struct timespec times[2];

	assert_int_equal(fstat(fd, &before), 0);
	times[0] = before.st_atim;
	times[1] = before.st_mtim;
	do { /* the clock of files moves by some milliseconds at a time */
		assert_int_equal(pwrite(fd, "x", 1, 0), 1);
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &after), 0);
	} while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
		 after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void a_file_written_over_in_place_is_another(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(10);
	struct mapped_file *old = get_file(f, same_again(fd)), *file;

	poll_until_idle(f);
	write_in_place(fd);
	file = get_file(f, fd);
	assert_ptr_not_equal(file, old);
	assert_int_not_equal(file->number, old->number);
	poll_until_idle(f);
	assert_int_equal(f->n_heads, 2);
}

/* So many that a hash table has several in one place, whatever its hash. */
static void files_that_differ_in_anything_are_two(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(10);
	const unsigned n = 1200;

	script.is_32 = true; /* one job for each */
	for (unsigned i = 0; i < 4 * n; i++) {
		struct stat st = { .st_mode = S_IFREG | 0644, .st_dev = 1, .st_ino = 2, .st_size = 3 };
		uint32_t other;

		test_fill(&other, sizeof(other), i);
		st.st_dev += i % 4 == 0 ? other : 0;
		st.st_ino += i % 4 == 1 ? other : 0;
		st.st_size += i % 4 == 2 ? other : 0;
		st.st_ctim.tv_sec = i % 4 == 3 ? other : 0;
		next_stat = &st;
		get_file(f, same_again(fd));
		if (i % 200 == 199)
			poll_until_idle(f);
	}
	assert_int_equal(stats_of(f).n_files, 4 * n);
	assert_int_equal(f->n_heads, 4 * n);
	fd_close(&fd);
}

static void what_is_no_file_is_not_read(void **state)
{
	static const struct stat disk = { .st_mode = S_IFBLK | 0600, .st_size = 4096 };
	struct files_fixture *f = *state;
	struct mapped_file *file = NULL;
	struct err err = { 0 };

	next_stat = &disk;
	assert_int_equal(files_get(f->files, file_of_size(10), "/dev/sda", &file, &err), FILES_NO_FILE);
	assert_int_equal(files_get(f->files, file_of_size(0), "/empty", &file, &err), FILES_NO_FILE);
	assert_int_equal(files_get(f->files, file_of_size(FILES_MAX_SIZE + 1), "/large", &file, &err),
			 FILES_NO_FILE);
	assert_null(file);
	assert_int_equal(stats_of(f).n_files, 0);
	assert_done(files_get(f->files, file_of_size(FILES_MAX_SIZE), "/a\nb\x7f\x1b[1m c", &file, &err));
	assert_string_equal(file->path, "/a?b??[1m c");
	poll_until_idle(f);
}

static void without_a_number_there_is_no_file(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file *file = NULL;
	struct err err = { 0 };
	int fd = file_of_size(10);

	f->no_number = true;
	assert_fails(files_get(f->files, same_again(fd), "/x", &file, &err), ERR_LIMIT, "no number");
	assert_null(file);
	assert_int_equal(stats_of(f).n_files, 0);
	f->no_number = false;
	get_file(f, fd);
	poll_until_idle(f);
	assert_int_equal(f->n_heads, 1);
}

/* ---- the order of reading ---- */

static void wait_for_results(struct files_fixture *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		sem_wait(&script.begun);
		sem_post(&script.go);
	}
	sem_wait(&script.begun); /* the reader has put the last result away before it takes another job */
}

/* A process waits for the heads of its files; of the tables those are first that cost least. */
static void heads_are_read_before_tables_and_small_tables_first(void **state)
{
	static const struct {
		enum parser_kind kind;
		uint64_t size;
	} want[] = { { PARSER_HEAD, 20 },  { PARSER_HEAD, 10 },  { PARSER_HEAD, 30 },  { PARSER_HEAD, 40 },
		     { PARSER_HEAD, 50 },  { PARSER_TABLE, 10 }, { PARSER_TABLE, 20 }, { PARSER_TABLE, 30 },
		     { PARSER_TABLE, 40 }, { PARSER_TABLE, 50 } };
	struct files_fixture *f = *state;

	script.gated = true;
	get_file(f, file_of_size(20));
	get_file(f, file_of_size(10));
	get_file(f, file_of_size(30));
	get_file(f, file_of_size(40));
	wait_for_results(f, 3); /* now the reader is at the head of 40 bytes */
	files_poll(f->files);   /* three tables are wanted */
	assert_int_equal(f->n_heads, 3);
	get_file(f, file_of_size(50));
	for (size_t i = 3; i < 5; i++) { /* the heads of 40 and 50 bytes */
		sem_post(&script.go);
		sem_wait(&script.begun);
	}
	files_poll(f->files);
	script.gated = false;
	sem_post(&script.go);
	poll_until_idle(f);
	assert_int_equal(atomic_load(&script.n_jobs), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(script.jobs[i].kind, want[i].kind);
		assert_int_equal(script.jobs[i].size, want[i].size);
	}
}

/* Files that wait are open, and the agent may have no more than so many. */
static void too_many_that_wait_are_busy(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file *file, *first;
	struct err err = { 0 };
	int fd = file_of_size(1), one_more = file_of_size(2);

	script.gated = true;
	first = get_file(f, same_again(fd));
	sem_wait(&script.begun);
	for (unsigned i = 1; i < FILES_MAX_OPEN; i++)
		get_file(f, file_of_size(3));
	assert_int_equal(stats_of(f).n_waiting, FILES_MAX_OPEN);
	assert_int_equal(files_get(f->files, same_again(one_more), "/x", &file, &err), FILES_BUSY);
	assert_ptr_equal(get_file(f, fd), first); /* a known one needs no descriptor */
	assert_int_equal(stats_of(f).n_files, FILES_MAX_OPEN);
	script.gated = false;
	sem_post(&script.go);
	poll_until_idle(f);
	assert_int_equal(stats_of(f).n_waiting, 0);
	get_file(f, one_more);
	poll_until_idle(f);
	assert_int_equal(f->n_heads, FILES_MAX_OPEN + 1);
}

static void poll_until_heads(struct files_fixture *f, unsigned n)
{
	while (f->n_heads < n) {
		struct pollfd p = { .fd = files_fd(f->files), .events = POLLIN };

		assert_int_equal(poll(&p, 1, 20000), 1);
		files_poll(f->files);
	}
}

/*
 * Tables of strangers may take minutes, and a process that has a new file is not known until its head is read. Of too many
 * tables that of the largest file is left out, until it is asked for.
 */
static void tables_that_wait_keep_no_new_file_out(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file *large, *small;
	int fd = file_of_size(20);

	script.gated_tables = true;
	for (unsigned i = 0; i < FILES_MAX_OPEN; i++)
		get_file(f, file_of_size(10));
	poll_until_heads(f, FILES_MAX_OPEN);
	sem_wait(&script.begun); /* the reader has one of the tables */
	assert_int_equal(stats_of(f).n_waiting, FILES_MAX_OPEN);
	large = get_file(f, same_again(fd));
	small = get_file(f, file_of_size(15));
	sem_post(&script.go);
	poll_until_heads(f, FILES_MAX_OPEN + 2);
	assert_int_equal(stats_of(f).n_waiting, FILES_MAX_OPEN);
	assert_true(small->wants_table);
	assert_false(large->wants_table);
	assert_int_equal(large->n_refs, 1);
	script.gated_tables = false;
	sem_post(&script.go);
	poll_until_idle(f);
	assert_int_equal(f->n_tables, FILES_MAX_OPEN + 1);
	assert_true(small->has_table);
	assert_false(large->has_table);
	files_want_table(f->files, large, fd);
	poll_until_idle(f);
	assert_true(large->has_table);
}

/* After a second of the processor the reader steps back. */
static void the_reader_steps_back_after_its_burst(void **state)
{
	struct files_fixture *f = *state;

	script.cpu_ns = 499000000;
	get_file(f, file_of_size(1));
	poll_until_idle(f); /* head and table */
	get_file(f, file_of_size(2));
	poll_until_idle(f);
	get_file(f, file_of_size(3));
	while (f->n_heads < 3)
		files_poll(f->files);
	assert_int_equal(script.jobs[0].nice, 0);
	assert_int_equal(script.jobs[1].nice, 0);
	assert_int_equal(script.jobs[4].kind, PARSER_HEAD);
	assert_true(script.jobs[4].nice > 0);
	assert_true(stats_of(f).cpu_ns >= INT64_C(5) * 499000000);
}

/* ---- results ---- */

static void a_refused_file_says_why_and_has_no_table(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(10);
	struct mapped_file *file;

	script.why = "not an ELF file";
	file = get_file(f, same_again(fd));
	assert_int_equal(file->state, FILE_READING);
	assert_false(mapped_file_has_no_table(file));
	poll_until_idle(f);
	assert_int_equal(file->state, FILE_REFUSED);
	assert_true(mapped_file_has_no_table(file));
	assert_string_equal(file->why, "not an ELF file");
	assert_int_equal(f->n_heads, 1);
	assert_int_equal(stats_of(f).n_refused, 1);
	files_want_table(f->files, file, fd);
	assert_true(files_idle(f->files));
	assert_int_equal(f->n_tables, 0);
}

static void a_file_without_a_parser_is_read_when_there_is_one(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(10);
	struct mapped_file *file, *known = get_file(f, file_of_size(11));

	poll_until_idle(f);
	script.is_unread = true;
	script.why = "no process can be started";
	file = get_file(f, same_again(fd));
	files_read_again(f->files, file, same_again(fd)); /* it is on its way */
	poll_until_idle(f);
	assert_int_equal(file->state, FILE_REFUSED);
	assert_true(file->is_unread);
	assert_ptr_equal(files_next_unread(f->files), file);
	assert_false(file->is_again);
	/* Otherwise a table that is left out later would not be asked for: the walk would do without it for good. */
	assert_false(mapped_file_has_no_table(file));
	/* A table, too: it is asked for again. */
	files_want_table(f->files, known, file_of_size(11));
	poll_until_idle(f);
	assert_int_equal(f->n_tables, 1);
	assert_true(known->has_table);
	files_read_again(f->files, file, same_again(fd));
	poll_until_idle(f);
	assert_true(file->is_unread);
	assert_int_equal(stats_of(f).n_refused, 1);
	script.is_unread = false;
	script.why = NULL;
	files_read_again(f->files, file, same_again(fd));
	poll_until_idle(f);
	assert_int_equal(file->state, FILE_KNOWN);
	assert_true(file->is_again);
	assert_false(mapped_file_has_no_table(file));
	assert_null(files_next_unread(f->files));
	assert_true(file->has_table);
	assert_int_equal(stats_of(f).n_refused, 0);
	assert_int_equal(f->n_heads, 4);
	files_read_again(f->files, file, fd); /* it is known */
	assert_true(files_idle(f->files));
	assert_int_equal(file->n_refs, 1);
}

/* A build has hundreds of files that no process has any more; and those that were deleted cannot be opened. */
static void files_without_a_parser_have_their_turns(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file *file[3], *first;

	script.is_unread = true;
	script.why = "no process can be started";
	for (unsigned i = 0; i < 3; i++)
		file[i] = get_file(f, file_of_size(10 + i));
	poll_until_idle(f);
	files_unref(f->files, file[0]);
	first = files_next_unread(f->files);
	assert_true(first == file[1] || first == file[2]);
	assert_ptr_equal(files_next_unread(f->files), first == file[1] ? file[2] : file[1]);
	assert_ptr_equal(files_next_unread(f->files), first);
	files_ref(f->files, file[0]);
	assert_ptr_equal(files_next_unread(f->files), file[0]);
}

static void a_32_bit_program_has_no_table(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file *file;

	script.is_32 = true;
	file = get_file(f, file_of_size(10));
	poll_until_idle(f);
	assert_int_equal(file->state, FILE_KNOWN);
	assert_true(mapped_file_has_no_table(file));
	assert_int_equal(atomic_load(&script.n_jobs), 1);
	assert_int_equal(stats_of(f).n_refused, 0);
}

static void a_table_is_made_again_on_demand(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(10);
	struct mapped_file *file = get_file(f, same_again(fd));

	poll_until_idle(f);
	script.gated = true;
	script.why = "no rows";
	files_want_table(f->files, file, same_again(fd));
	files_want_table(f->files, file, same_again(fd)); /* it is on its way */
	assert_int_equal(stats_of(f).n_waiting, 1);
	assert_int_equal(file->n_refs, 2);
	script.gated = false;
	sem_post(&script.go);
	poll_until_idle(f);
	assert_false(file->has_table);
	assert_int_equal(file->state, FILE_KNOWN);
	assert_string_equal(file->why, "no rows");
	assert_int_equal(f->table_size, 0);
	assert_int_equal(stats_of(f).n_failed, 1);
	script.why = NULL;
	files_want_table(f->files, file, fd);
	poll_until_idle(f);
	assert_true(file->has_table);
	assert_int_equal(f->n_tables, 3);
	assert_int_equal(file->n_refs, 1);
}

static void the_vdso_is_one_file_of_its_own(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file *file = files_vdso(f->files);

	if (!file) {
		skip(); /* this machine has none */
		return;
	}
	assert_ptr_equal(files_vdso(f->files), file);
	poll_until_idle(f);
	assert_int_equal(f->n_heads, 1);
	assert_int_equal(script.jobs[0].size, file->key.size);
	assert_memory_equal(script.jobs[0].first, ELFMAG, SELFMAG);
	files_unref(f->files, file);
	files_unref(f->files, file);
	assert_int_equal(file->n_refs, 1); /* it is never forgotten */
}

/* ---- forgotten files ---- */

static void get_and_release(struct files_fixture *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		files_unref(f->files, get_file(f, file_of_size(10)));
		if (i % 200 == 199)
			poll_until_idle(f);
	}
	poll_until_idle(f);
}

static void files_that_no_process_maps_are_forgotten_in_time(void **state)
{
	struct files_fixture *f = *state;
	int fd = file_of_size(11);
	struct mapped_file *used, *last;
	uint32_t number;

	clock_test_freeze(1000000);
	used = get_file(f, file_of_size(10));
	poll_until_idle(f);
	script.why = "not an ELF file";
	get_and_release(f, KEPT_UNUSED);
	clock_test_advance(2 * UNUSED_MS);
	files_sweep(f->files); /* few enough */
	assert_int_equal(f->n_dropped, 0);
	last = get_file(f, same_again(fd));
	number = last->number;
	poll_until_idle(f);
	files_unref(f->files, last);
	files_sweep(f->files);
	assert_int_equal(f->n_dropped, KEPT_UNUSED); /* but not the one that was just used, nor one in use */
	assert_int_equal(stats_of(f).n_files, 2);
	assert_int_equal(stats_of(f).n_refused, 1);
	assert_int_equal(used->n_refs, 1);
	assert_ptr_equal(get_file(f, same_again(fd)), last);
	files_unref(f->files, last);
	get_and_release(f, KEPT_UNUSED);
	clock_test_advance(UNUSED_MS);
	files_sweep(f->files); /* not yet */
	assert_int_equal(f->n_dropped, KEPT_UNUSED);
	clock_test_advance(1);
	files_sweep(f->files);
	assert_int_equal(f->n_dropped, 2 * KEPT_UNUSED + 1);
	assert_int_equal(stats_of(f).n_files, 1);
	assert_int_not_equal(get_file(f, fd)->number, number);
	poll_until_idle(f);
}

static void more_files_than_the_sampler_takes_are_refused(void **state)
{
	struct files_fixture *f = *state;
	struct mapped_file **files = NEW_N(struct mapped_file *, FILES_MAX), *file = NULL;
	struct err err = { 0 };

	script.is_32 = true; /* one job for each */
	for (unsigned i = 0; i < FILES_MAX; i++) {
		files[i] = get_file(f, file_of_size(10));
		if (i % 200 == 199)
			poll_until_idle(f);
	}
	poll_until_idle(f);
	assert_fails(files_get(f->files, file_of_size(10), "/x", &file, &err), ERR_LIMIT,
		     "more than 12000 files");
	files_sweep(f->files);
	assert_int_equal(f->n_dropped, 0); /* all are in use */
	for (unsigned i = 0; i < 100; i++)
		files_unref(f->files, files[i]);
	files_sweep(f->files); /* where room is scarce no unused one is kept */
	assert_int_equal(f->n_dropped, 100);
	get_file(f, file_of_size(10));
	poll_until_idle(f);
	free(files);
}

/* ---- addresses ---- */

static void a_segment_has_its_first_and_its_last_byte(void **state)
{
	const struct mapped_file f = { .segments = { { 0x1000, 0, 0x800 }, { 0x2340, 0x1340, 0x1000 } },
				       .n_segments = 2 };
	struct file_span span;
	uint64_t bias;

	assert_int_equal(mapped_file_segment(&f, 0xfff), -1);
	assert_int_equal(mapped_file_segment(&f, 0x1000), 0);
	assert_int_equal(mapped_file_segment(&f, 0x17ff), 0);
	assert_int_equal(mapped_file_segment(&f, 0x1800), -1);
	assert_int_equal(mapped_file_segment(&f, 0x2340), 1);
	assert_int_equal(mapped_file_segment(&f, 0x333f), 1);
	assert_int_equal(mapped_file_segment(&f, 0x3340), -1);
	span = mapped_file_span(&f, 1);
	assert_int_equal(span.start, 0x2000);
	assert_int_equal(span.limit, 0x4000);
	assert_int_equal(span.off, 0x1000);
	/* A mapping of the second half of its last page */
	assert_true(mapped_file_bias(&f, 0x7f0000003000, 0x2000, 0, &bias));
	assert_int_equal(bias, 0x7f0000000000);
	assert_false(mapped_file_bias(&f, 0x7f0000003000, 0x2340, 0, &bias));
	assert_false(mapped_file_bias(&f, 0x7f0000000000, 0x800, 0, &bias));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define UNIT(fn) cmocka_unit_test_setup_teardown(fn, files_setup, files_teardown)
		UNIT(a_known_file_costs_no_reading),
		UNIT(a_file_written_over_in_place_is_another),
		UNIT(files_that_differ_in_anything_are_two),
		UNIT(what_is_no_file_is_not_read),
		UNIT(without_a_number_there_is_no_file),
		UNIT(heads_are_read_before_tables_and_small_tables_first),
		UNIT(too_many_that_wait_are_busy),
		UNIT(tables_that_wait_keep_no_new_file_out),
		UNIT(the_reader_steps_back_after_its_burst),
		UNIT(a_refused_file_says_why_and_has_no_table),
		UNIT(a_file_without_a_parser_is_read_when_there_is_one),
		UNIT(files_without_a_parser_have_their_turns),
		UNIT(a_32_bit_program_has_no_table),
		UNIT(a_table_is_made_again_on_demand),
		UNIT(the_vdso_is_one_file_of_its_own),
		UNIT(files_that_no_process_maps_are_forgotten_in_time),
		UNIT(more_files_than_the_sampler_takes_are_refused),
		cmocka_unit_test(a_segment_has_its_first_and_its_last_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
