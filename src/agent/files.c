/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of files, and the reader's thread. Only the agent's thread has the list; the reader has jobs, each with a
 * descriptor of its own, has them done by the parser's process, and gives them back with the result. So a file that cannot
 * be read for minutes (a network file system) delays other files, but never a sample.
 */
#include "agent/files.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/python_image.h"
#include "base/condition.h"
#include "base/hash_index.h"

#define BUCKETS       4096u
#define KEPT_UNUSED   512u /* files that no process has mapped now */
#define UNUSED_MS     600000
#define BURST_NS      INT64_C(1000000000) /* of CPU time, for the files that run when the agent starts */
#define REST_TIMES    3                   /* after the burst: rest so many times as long as it works */
#define MAX_REST_MS   2000
#define READER_NICE   5 /* after the burst; a lower priority gets nothing on a busy machine, and stacks wait */
#define VDSO_MAX_SIZE KIB(64)

struct file_job {
	struct file_job *next;
	struct mapped_file *file; /* opaque to the reader */
	int fd;
	uint64_t size;
	bool is_head; /* else its table */
	char *name;   /* of one that may be an interpreter of Python; else NULL */
	int nice;
	struct parser_result result;
};

struct files {
	struct files_handler h;
	struct parser *parser;
	struct mapped_file *buckets[BUCKETS];
	struct mapped_file *vdso;
	size_t n_files, n_unused, n_refused, n_unread;
	uint64_t last_turn; /* of files_next_unread() */
	uint64_t n_tables, n_table_bytes, n_failed;
	int event;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* under the lock */
	struct file_job *heads, **last_head, *tables, *done, **last_done;
	size_t n_heads, n_tables_waiting; /* jobs, until their results are delivered */
	bool stop;
	int64_t cpu_ns;
	struct parser_stats parsing;
};

/* ---- the reader ---- */

static void job_free(struct file_job *j)
{
	fd_close(&j->fd);
	buf_done(&j->result.table);
	free(j->result.python);
	free(j->name);
	free(j);
}

static void run_job(struct files *f, struct file_job *j)
{
	const struct parser_job job = { .kind = j->is_head ? PARSER_HEAD : PARSER_TABLE,
					.fd = j->fd,
					.size = j->size,
					.name = j->name,
					.nice = j->nice };

	parser_run(f->parser, &job, &j->result);
}

static int64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Under the lock: heads in order, then the smallest table. */
static struct file_job *next_job(struct files *f)
{
	struct file_job **at = &f->heads, *j;

	if (!*at) {
		at = &f->tables;
		for (struct file_job **i = at; *i; i = &(*i)->next)
			if ((*i)->size < (*at)->size)
				at = i;
	}
	j = *at;
	if (!j)
		return NULL;
	*at = j->next;
	if (!f->heads)
		f->last_head = &f->heads;
	j->next = NULL;
	return j;
}

/* After the files that ran at the start, the reader never takes more than a part of a processor for tables. */
static void rest_of_reader(struct files *f, int64_t worked_ns)
{
	int64_t ms = MIN(worked_ns * REST_TIMES / 1000000, (int64_t)MAX_REST_MS);
	struct timespec until;

	if (f->cpu_ns < BURST_NS || ms <= 0)
		return;
	/* Not by the wall clock: it may be set back by hours at the start of a machine. */
	until = condition_deadline(ms);
	/* A head wakes it: a process waits for that. */
	while (!f->stop && !f->heads && pthread_cond_timedwait(&f->more, &f->lock, &until) == 0)
		;
}

static void *files_reader(void *arg)
{
	struct files *f = arg;

	pthread_mutex_lock(&f->lock);
	while (!f->stop) {
		struct file_job *j = next_job(f);
		int64_t worked_ns;
		uint64_t one = 1;

		if (!j) {
			pthread_cond_wait(&f->more, &f->lock);
			continue;
		}
		j->nice = f->cpu_ns >= BURST_NS ? READER_NICE : 0;
		pthread_mutex_unlock(&f->lock);
		worked_ns = thread_cpu_ns();
		run_job(f, j);
		worked_ns = thread_cpu_ns() - worked_ns + j->result.cpu_ns;
		pthread_mutex_lock(&f->lock);
		f->cpu_ns += worked_ns;
		parser_stats(f->parser, &f->parsing);
		*f->last_done = j;
		f->last_done = &j->next;
		if (write(f->event, &one, sizeof(one)) < 0)
			log_debug("agent", "eventfd: %s", strerror(errno));
		if (!j->is_head)
			rest_of_reader(f, worked_ns);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* Under the lock. The largest table is built last anyway. NULL: the reader has taken all of them. */
static struct file_job *cut_largest_table(struct files *f)
{
	struct file_job **at = &f->tables, *j;

	for (struct file_job **i = at; *i; i = &(*i)->next)
		if ((*i)->size > (*at)->size)
			at = i;
	j = *at;
	if (!j)
		return NULL;
	*at = j->next;
	f->n_tables_waiting--;
	return j;
}

/* Takes @fd. */
static void submit_job(struct files *f, struct mapped_file *file, int fd, bool is_head)
{
	struct file_job *j = NEW(struct file_job), *dropped = NULL;

	j->file = file;
	j->fd = fd;
	j->size = file->key.size;
	j->is_head = is_head;
	if (is_head && python_image_may_be(file->path))
		j->name = mem_strdup(file->path);
	file->n_refs++;
	pthread_mutex_lock(&f->lock);
	if (is_head) {
		*f->last_head = j;
		f->last_head = &j->next;
	} else {
		j->next = f->tables;
		f->tables = j;
		file->wants_table = true;
		if (f->n_tables_waiting >= FILES_MAX_OPEN)
			dropped = cut_largest_table(f);
	}
	f->n_heads += is_head;
	f->n_tables_waiting += !is_head;
	pthread_cond_signal(&f->more);
	pthread_mutex_unlock(&f->lock);
	/* The sampler asks for it again when it is sampled. */
	if (dropped) {
		dropped->file->wants_table = false;
		files_unref(f, dropped->file);
		job_free(dropped);
	}
}

/* ---- the list ---- */

static struct mapped_file **file_bucket(struct files *f, const struct file_key *k)
{
	return &f->buckets[hash_mix(k->device ^ (uint64_t)k->changed_ns, k->inode ^ k->size << 32) % BUCKETS];
}

static bool file_key_eq(const struct file_key *a, const struct file_key *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->changed_ns == b->changed_ns;
}

static void mapped_file_free(struct mapped_file *file)
{
	free(file->python);
	free(file->path);
	free(file);
}

static void forget_file(struct files *f, struct mapped_file *file)
{
	struct mapped_file **at = file_bucket(f, &file->key);

	while (*at != file)
		at = &(*at)->older;
	*at = file->older;
	f->h.drop(f->h.arg, file);
	f->n_files--;
	f->n_unused--;
	f->n_refused -= file->state == FILE_REFUSED;
	f->n_unread -= file->is_unread;
	mapped_file_free(file);
}

/* Names come from strangers, and go into profiles and logs. */
static char *file_shown_path(const char *path)
{
	char *s = mem_strdup(path);

	for (char *c = s; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return s;
}

static int add_mapped_file(struct files *f, const struct file_key *key, const char *path,
			   struct mapped_file **ret, struct err *err)
{
	struct mapped_file *file, **bucket = file_bucket(f, key);
	uint32_t number;

	if (f->n_files >= FILES_MAX)
		return err_set(err, ERR_LIMIT, "more than %u files are mapped", FILES_MAX);
	if (f->h.number(f->h.arg, &number, err) < 0)
		return -1;
	file = NEW(struct mapped_file);
	file->key = *key;
	file->number = number;
	file->path = file_shown_path(path);
	file->older = *bucket;
	*bucket = file;
	f->n_files++;
	f->n_unused++;
	*ret = file;
	return 0;
}

static struct mapped_file *ref_file(struct files *f, struct mapped_file *file)
{
	if (!file->n_refs++)
		f->n_unused--;
	file->used_ms = (uint64_t)clock_mono_ms();
	return file;
}

int files_get(struct files *f, int taken, const char *path, struct mapped_file **ret, struct err *err)
{
	AUTO(fd_close) int fd = taken;
	struct mapped_file *file;
	struct file_key key;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    (uint64_t)st.st_size > FILES_MAX_SIZE)
		return FILES_NO_FILE;
	key = (struct file_key){ .device = st.st_dev,
				 .inode = st.st_ino,
				 .size = (uint64_t)st.st_size,
				 .changed_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec };
	for (file = *file_bucket(f, &key); file && !file_key_eq(&file->key, &key);)
		file = file->older;
	if (file) {
		*ret = ref_file(f, file);
		return 0;
	}
	if (f->n_heads >= FILES_MAX_OPEN)
		return FILES_BUSY;
	if (add_mapped_file(f, &key, path, &file, err) < 0)
		return -1;
	*ret = ref_file(f, file);
	submit_job(f, file, TAKE_FD(fd), true);
	return 0;
}

void files_ref(struct files *f, struct mapped_file *file)
{
	if (file)
		ref_file(f, file);
}

void files_unref(struct files *f, struct mapped_file *file)
{
	if (file && !--file->n_refs)
		f->n_unused++;
}

void files_want_table(struct files *f, struct mapped_file *file, int fd)
{
	if (file->state == FILE_KNOWN && !file->wants_table)
		submit_job(f, file, fd, false);
	else
		fd_close(&fd);
}

void files_read_again(struct files *f, struct mapped_file *file, int fd)
{
	if (file->is_unread && f->n_heads < FILES_MAX_OPEN) {
		file->is_unread = false;
		f->n_unread--;
		submit_job(f, file, fd, true);
	} else {
		fd_close(&fd);
	}
}

struct mapped_file *files_next_unread(struct files *f)
{
	struct mapped_file *next = NULL;

	for (size_t i = 0; f->n_unread && i < BUCKETS; i++)
		for (struct mapped_file *file = f->buckets[i]; file; file = file->older)
			if (file->is_unread && file->n_refs && (!next || file->turn < next->turn))
				next = file;
	if (next)
		next->turn = ++f->last_turn;
	return next;
}

/* ---- the vDSO ---- */

/* Its image is in our own memory; its size follows from its section headers, which are at its end. */
static int copy_vdso(int *ret_fd, uint64_t *ret_size)
{
	const ElfW(Ehdr) *h = (const void *)getauxval(AT_SYSINFO_EHDR);
	AUTO(fd_close) int fd = -1;
	uint64_t size;

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return -1;
	size = h->e_shoff + (uint64_t)h->e_shnum * h->e_shentsize;
	if (size < sizeof(*h) || size > VDSO_MAX_SIZE)
		return -1;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0 || fd_write(fd, h, (size_t)size, NULL) < 0)
		return -1;
	*ret_fd = TAKE_FD(fd);
	*ret_size = size;
	return 0;
}

struct mapped_file *files_vdso(struct files *f)
{
	struct file_key key = { .device = UINT64_MAX };
	struct err ignored = { 0 };
	int fd;

	if (!f->vdso) {
		if (copy_vdso(&fd, &key.size) < 0)
			return NULL;
		if (add_mapped_file(f, &key, "[vdso]", &f->vdso, &ignored) < 0) {
			fd_close(&fd);
			return NULL;
		}
		ref_file(f, f->vdso); /* for good */
		submit_job(f, f->vdso, fd, true);
	}
	return ref_file(f, f->vdso);
}

bool files_is_vdso(const struct files *f, const struct mapped_file *file)
{
	return file == f->vdso;
}

int files_open_vdso(void)
{
	uint64_t ignored;
	int fd;

	return copy_vdso(&fd, &ignored) < 0 ? -1 : fd;
}

/* ---- results ---- */

static void deliver_head(struct files *f, struct file_job *j)
{
	struct mapped_file *file = j->file;
	const struct file_head *head = &j->result.head;

	f->n_refused -= file->state == FILE_REFUSED;
	file->is_again = file->state == FILE_REFUSED;
	file->is_unread = j->result.is_unread;
	f->n_unread += file->is_unread;
	file->state = j->result.why[0] ? FILE_REFUSED : FILE_KNOWN;
	file->id = head->id;
	file->id_kind = head->id_kind;
	file->is_64 = head->is_64;
	file->is_stripped = head->is_stripped;
	file->n_segments = head->n_segments;
	file->python = TAKE(j->result.python);
	memcpy(file->segments, head->segments, sizeof(file->segments));
	memcpy(file->why, j->result.why, sizeof(file->why));
	f->n_refused += file->state == FILE_REFUSED;
	f->h.head(f->h.arg, file);
	if (file->state == FILE_KNOWN && file->is_64)
		submit_job(f, file, TAKE_FD(j->fd), false);
}

static void deliver_table(struct files *f, struct file_job *j)
{
	struct mapped_file *file = j->file;

	file->wants_table = false;
	/* The sampler asks for it again when it is sampled. */
	if (j->result.is_unread)
		return;
	file->has_table = j->result.table.size != 0;
	f->n_tables += file->has_table;
	f->n_failed += !file->has_table;
	f->n_table_bytes += j->result.table.size;
	if (!file->has_table)
		memcpy(file->why, j->result.why, sizeof(file->why));
	f->h.table(f->h.arg, file, buf_bytes(&j->result.table));
}

void files_poll(struct files *f)
{
	struct file_job *list;
	uint64_t ignored;

	if (read(f->event, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
		log_debug("agent", "eventfd: %s", strerror(errno));
	pthread_mutex_lock(&f->lock);
	list = f->done;
	f->done = NULL;
	f->last_done = &f->done;
	for (const struct file_job *j = list; j; j = j->next) {
		f->n_heads -= j->is_head;
		f->n_tables_waiting -= !j->is_head;
	}
	pthread_mutex_unlock(&f->lock);
	while (list) {
		struct file_job *j = list;

		list = j->next;
		if (j->is_head)
			deliver_head(f, j);
		else
			deliver_table(f, j);
		files_unref(f, j->file);
		job_free(j);
	}
}

int files_fd(const struct files *f)
{
	return f->event;
}

void files_sweep(struct files *f)
{
	uint64_t now_ms = (uint64_t)clock_mono_ms();

	if (f->n_unused <= KEPT_UNUSED && f->n_files < FILES_MAX / 2)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct mapped_file *file = f->buckets[i], *older; file; file = older) {
			older = file->older;
			if (!file->n_refs &&
			    (now_ms - file->used_ms > UNUSED_MS || f->n_files >= FILES_MAX / 2))
				forget_file(f, file);
		}
	}
}

void files_stats(struct files *f, struct files_stats *ret)
{
	pthread_mutex_lock(&f->lock);
	*ret = (struct files_stats){ .n_files = f->n_files,
				     .n_waiting = f->n_heads + f->n_tables_waiting,
				     .n_refused = f->n_refused,
				     .n_tables = f->n_tables,
				     .n_rows_bytes = f->n_table_bytes,
				     .n_failed = f->n_failed,
				     .cpu_ns = f->cpu_ns,
				     .parsing = f->parsing };
	pthread_mutex_unlock(&f->lock);
}

bool files_idle(struct files *f)
{
	struct files_stats s;

	files_stats(f, &s);
	return !s.n_waiting;
}

/* ---- start and end ---- */

int files_new(const struct files_handler *h, struct parser *parser, struct files **ret, struct err *err)
{
	struct files *f = NEW(struct files);
	int r;

	f->h = *h;
	f->parser = parser;
	f->last_head = &f->heads;
	f->last_done = &f->done;
	pthread_mutex_init(&f->lock, NULL);
	condition_init(&f->more);
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = f->event < 0 ? errno : pthread_create(&f->thread, NULL, files_reader, f);
	if (r) {
		files_free(f);
		return err_os(err, r, "the thread that reads files");
	}
	f->started = true;
	pthread_setname_np(f->thread, "lode-files");
	*ret = f;
	return 0;
}

static void free_jobs(struct file_job *list)
{
	while (list) {
		struct file_job *next = list->next;

		job_free(list);
		list = next;
	}
}

void files_free(struct files *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	parser_stop(f->parser);
	pthread_cond_broadcast(&f->more);
	pthread_mutex_unlock(&f->lock);
	if (f->started)
		pthread_join(f->thread, NULL);
	free_jobs(f->heads);
	free_jobs(f->tables);
	free_jobs(f->done);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct mapped_file *file = f->buckets[i], *older; file; file = older) {
			older = file->older;
			mapped_file_free(file);
		}
	}
	fd_close(&f->event);
	pthread_cond_destroy(&f->more);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- addresses ---- */

bool mapped_file_bias(const struct mapped_file *f, uint64_t start, uint64_t off, uint64_t known,
		      uint64_t *ret)
{
	/* A mapping begins at a page, its segment perhaps within it. */
	const uint64_t page = 4095;
	bool found = false;

	for (unsigned i = 0; i < f->n_segments; i++) {
		const struct file_segment *s = &f->segments[i];
		uint64_t from = s->off & ~page, bias = start - (s->vaddr - (s->off - off));

		if (off < from || off - from >= s->size + (s->off - from) || (found && bias != known))
			continue;
		found = true;
		*ret = bias;
		if (bias == known)
			break;
	}
	return found;
}

int mapped_file_segment(const struct mapped_file *f, uint64_t vaddr)
{
	for (unsigned i = 0; i < f->n_segments; i++)
		if (vaddr - f->segments[i].vaddr < f->segments[i].size)
			return (int)i;
	return -1;
}

struct file_span mapped_file_span(const struct mapped_file *f, unsigned i)
{
	const uint64_t page = 4095;
	const struct file_segment *s = &f->segments[i];
	uint64_t before = MIN(s->off & page, s->vaddr), limit = s->vaddr + s->size;

	return (struct file_span){ s->vaddr - before,
				   limit > UINT64_MAX - page ? UINT64_MAX : (limit + page) & ~page,
				   s->off - before };
}
