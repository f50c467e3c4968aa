/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of files, and the reader's thread. Only the agent's thread has the list; the reader has jobs, each with a
 * descriptor of its own, and gives them back with the result. So a file that cannot be read for minutes (a network file
 * system) delays other files, but never a sample.
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
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hash_index.h"
#include "unwind/unwind.h"

#define BUCKETS       4096u
#define KEPT_UNUSED   512u /* files that no process has mapped now */
#define UNUSED_MS     600000
#define BLOCK         KIB(16)
#define BLOCKS        8u
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
	/* results */
	bool refused;
	struct mapped_file head; /* state, id, segments, why */
	struct buf table;
};

struct files {
	struct files_handler h;
	struct mapped_file *buckets[BUCKETS];
	struct mapped_file *vdso;
	size_t n_files, n_unused, n_refused;
	uint64_t n_tables, n_table_bytes, n_failed;
	int event;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* under the lock */
	struct file_job *heads, **last_head, *tables, *done, **last_done;
	size_t n_waiting;
	bool stop;
	int64_t cpu_ns;
};

/* ---- the reader ---- */

static void job_free(struct file_job *j)
{
	fd_close(&j->fd);
	buf_done(&j->table);
	free(j);
}

static void take_segments(const struct elf_image *img, struct mapped_file *ret)
{
	for (uint32_t i = 0; i < img->n_segments && ret->n_segments < FILES_MAX_SEGMENTS; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (s->type == PT_LOAD && s->flags & PF_X && s->filesz &&
		    s->vaddr <= UINT64_MAX - s->filesz && s->off <= UINT64_MAX - s->filesz)
			ret->segments[ret->n_segments++] = (struct file_segment){ s->vaddr, s->off,
										  s->filesz };
	}
}

static int read_file_head(struct source *src, struct mapped_file *ret, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct elf_aliases aliases;
	struct elf_facts facts;
	int r = elf_open(src, &img, err);

	if (r)
		return r < 0 ? -1 : err_set(err, ERR_INVALID, "not an ELF file");
	if (img->h.type != ET_EXEC && img->h.type != ET_DYN)
		return err_set(err, ERR_INVALID, "an ELF file that is no program or library");
	take_segments(img, ret);
	ret->is_64 = img->h.is64 && !img->h.big;
	r = elf_identify(src, &facts, &ret->id_kind, &aliases, err);
	if (r == 0) {
		ret->id = facts.build_id;
		ret->is_stripped = !(facts.flags & (ELF_HAS_DWARF | ELF_HAS_SYMTAB));
	}
	return r < 0 ? -1 : 0;
}

static int build_table(struct source *src, struct buf *out, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct unwind_options o = { 0 };
	struct unwind_stats stats;
	int r = elf_open(src, &img, err);

	if (r == 0)
		r = unwind_build(img, &o, out, &stats, err);
	return r > 0 ? err_set(err, ERR_INVALID, "has no unwind rows") : r;
}

static void run_job(struct file_job *j)
{
	/* The descriptor stays open for the table. */
	int fd = fcntl(j->fd, F_DUPFD_CLOEXEC, 0);
	AUTO(source_closep) struct source *src = NULL;
	struct err err = { 0 };

	if (fd < 0) {
		j->head.state = FILE_REFUSED;
		snprintf(j->head.why, sizeof(j->head.why), "%s", strerror(errno));
		return;
	}
	src = source_cached(source_of_fd(fd, j->size, 0, "file"), true, BLOCK, BLOCKS);

	if (j->is_head) {
		j->head.state = FILE_KNOWN;
		if (read_file_head(src, &j->head, &err) == 0)
			return;
		j->head.state = FILE_REFUSED;
	} else if (build_table(src, &j->table, &err) == 0) {
		return;
	}
	j->table.size = 0;
	snprintf(j->head.why, sizeof(j->head.why), "%.*s", (int)sizeof(j->head.why) - 1, err.text);
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
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	/* A head wakes it: a process waits for that. */
	while (!f->stop && !f->heads && pthread_cond_timedwait(&f->more, &f->lock, &until) == 0)
		;
}

static void *files_reader(void *arg)
{
	struct files *f = arg;

	bool niced = false;

	pthread_mutex_lock(&f->lock);
	while (!f->stop) {
		struct file_job *j = next_job(f);
		int64_t from_ns;
		uint64_t one = 1;

		if (!j) {
			pthread_cond_wait(&f->more, &f->lock);
			continue;
		}
		pthread_mutex_unlock(&f->lock);
		from_ns = thread_cpu_ns();
		run_job(j);
		from_ns = thread_cpu_ns() - from_ns;
		pthread_mutex_lock(&f->lock);
		f->cpu_ns += from_ns;
		*f->last_done = j;
		f->last_done = &j->next;
		if (write(f->event, &one, sizeof(one)) < 0)
			log_debug("agent", "eventfd: %s", strerror(errno));
		if (!niced && f->cpu_ns >= BURST_NS)
			niced = setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), READER_NICE) == 0;
		if (!j->is_head)
			rest_of_reader(f, from_ns);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* Takes @fd. */
static void submit_job(struct files *f, struct mapped_file *file, int fd, bool is_head)
{
	struct file_job *j = NEW(struct file_job);

	j->file = file;
	j->fd = fd;
	j->size = file->key.size;
	j->is_head = is_head;
	file->n_refs++;
	pthread_mutex_lock(&f->lock);
	if (is_head) {
		*f->last_head = j;
		f->last_head = &j->next;
	} else {
		j->next = f->tables;
		f->tables = j;
	}
	f->n_waiting++;
	pthread_cond_signal(&f->more);
	pthread_mutex_unlock(&f->lock);
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
	free(file->path);
	free(file);
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
				 .changed_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec };
	for (file = *file_bucket(f, &key); file && !file_key_eq(&file->key, &key);)
		file = file->older;
	if (file) {
		*ret = ref_file(f, file);
		return 0;
	}
	if (f->n_waiting >= FILES_MAX_OPEN)
		return FILES_BUSY;
	if (add_mapped_file(f, &key, path, &file, err) < 0)
		return -1;
	*ret = ref_file(f, file);
	submit_job(f, file, TAKE_FD(fd), true);
	return 0;
}

void files_unref(struct files *f, struct mapped_file *file)
{
	if (file && !--file->n_refs)
		f->n_unused++;
}

void files_want_table(struct files *f, struct mapped_file *file, int fd)
{
	if (file->state == FILE_KNOWN && !file->wants_table && f->n_waiting < FILES_MAX_OPEN) {
		file->wants_table = true;
		submit_job(f, file, fd, false);
	} else {
		fd_close(&fd);
	}
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

/* ---- results ---- */

static void deliver_head(struct files *f, struct file_job *j)
{
	struct mapped_file *file = j->file;

	file->state = j->head.state;
	file->id = j->head.id;
	file->id_kind = j->head.id_kind;
	file->is_64 = j->head.is_64;
	file->is_stripped = j->head.is_stripped;
	file->n_segments = j->head.n_segments;
	memcpy(file->segments, j->head.segments, sizeof(file->segments));
	memcpy(file->why, j->head.why, sizeof(file->why));
	f->n_refused += file->state == FILE_REFUSED;
	f->h.head(f->h.arg, file);
	if (file->state == FILE_KNOWN && file->is_64) {
		file->wants_table = true;
		submit_job(f, file, TAKE_FD(j->fd), false);
	}
}

static void deliver_table(struct files *f, struct file_job *j)
{
	struct mapped_file *file = j->file;

	file->wants_table = false;
	file->has_table = j->table.size != 0;
	f->n_tables += file->has_table;
	f->n_failed += !file->has_table;
	f->n_table_bytes += j->table.size;
	if (!file->has_table)
		memcpy(file->why, j->head.why, sizeof(file->why));
	f->h.table(f->h.arg, file, buf_bytes(&j->table));
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
	for (const struct file_job *j = list; j; j = j->next)
		f->n_waiting--;
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
				     .n_waiting = f->n_waiting,
				     .n_refused = f->n_refused,
				     .n_tables = f->n_tables,
				     .n_rows_bytes = f->n_table_bytes,
				     .n_failed = f->n_failed,
				     .cpu_ns = f->cpu_ns };
	pthread_mutex_unlock(&f->lock);
}

bool files_idle(struct files *f)
{
	struct files_stats s;

	files_stats(f, &s);
	return !s.n_waiting;
}

/* ---- start and end ---- */

int files_new(const struct files_handler *h, struct files **ret, struct err *err)
{
	struct files *f = NEW(struct files);
	int r;

	f->h = *h;
	f->last_head = &f->heads;
	f->last_done = &f->done;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->more, NULL);
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
			free(file->path);
			free(file);
		}
	}
	fd_close(&f->event);
	pthread_cond_destroy(&f->more);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- addresses ---- */

bool mapped_file_vaddr(const struct mapped_file *f, uint64_t off, uint64_t *ret_vaddr)
{
	/* A mapping begins at a page, its segment perhaps within it. */
	const uint64_t page = 4095;

	for (unsigned i = 0; i < f->n_segments; i++) {
		const struct file_segment *s = &f->segments[i];
		uint64_t from = s->off & ~page;

		if (off >= from && off - from < s->size + (s->off - from)) {
			*ret_vaddr = s->vaddr - (s->off - off);
			return true;
		}
	}
	return false;
}

int mapped_file_segment(const struct mapped_file *f, uint64_t vaddr)
{
	for (unsigned i = 0; i < f->n_segments; i++)
		if (vaddr - f->segments[i].vaddr < f->segments[i].size)
			return (int)i;
	return -1;
}
