/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning the cache folder, a little at a time, after an answer and never before it.
 *
 * A pass visits the folders of build IDs in the order of their first byte. Its position, and how many bytes
 * of which age it has seen, are in the file `lode_clean`, so that the next query, in any process, continues
 * there; its lock keeps two processes from cleaning at once. A pass begins when other clients would clean too
 * (CONTROL_CLEAN_INTERVAL and its modification time are shared with them), or when added files make the
 * folder too large. If a pass ends and the folder is still too large, the next one follows, with the highest
 * age limit that makes it small enough.
 *
 * Only names that clients give are touched, and only in `metadata` and in folders named like build IDs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include "client/internal.h"

#define STATE_NAME      "lode_clean"
#define N_AGES          128 /* four to each power of two seconds: up to 136 years */
#define NEXT_METADATA   256
#define NEXT_IDLE       257
#define TEMP_AGE_S      86400 /* a download that was not written to for this long is dead */
#define FOLDERS_AT_ONCE 64    /* cleaned however short the time is, so that a pass comes to an end */
/* A hit may leave an access time that is YOUNG_S older than the use: a file used within YOUNG_S stays. */
#define YOUNG_MAX_S (2 * YOUNG_S)

struct clean_state {
	int64_t next;    /* bucket to continue with; NEXT_IDLE: no pass is under way */
	int64_t max_age; /* a file not used for this long is removed by this pass */
	uint64_t bytes;  /* seen by this pass; when idle: size of the folder */
	uint64_t ages[N_AGES];
};

struct clean_pass {
	struct clean_state state;
	int64_t now, deadline_ms;
	unsigned n_folders;
};

static unsigned age_slot(int64_t age)
{
	unsigned log;

	if (age < 4)
		return age < 0 ? 0 : (unsigned)age;
	log = 63 - (unsigned)__builtin_clzll((uint64_t)age);
	return MIN(4 * (log - 1) + (unsigned)((age >> (log - 2)) & 3), N_AGES - 1u);
}

/* The lowest age of a slot. */
static int64_t slot_age(unsigned slot)
{
	return slot < 4 ? (int64_t)slot : (int64_t)(4 + slot % 4) << (slot / 4 - 1);
}

/* ---- the state file: numbers separated by blanks ---- */

static void clean_state_read(int fd, struct clean_state *s)
{
	char text[KIB(4)], *p = text;
	uint64_t n[3 + N_AGES];
	size_t got;

	*s = (struct clean_state){ .next = NEXT_IDLE };
	if (fd_pread(fd, text, sizeof(text) - 1, 0, &got, NULL) < 0)
		return;
	text[got] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		char *end;

		n[i] = strtoull(p, &end, 10);
		if (end == p)
			return; /* of another version, or empty */
		p = end;
	}
	if (n[0] > NEXT_IDLE)
		return;
	s->next = (int64_t)n[0];
	s->max_age = (int64_t)(n[1] & INT64_MAX);
	s->bytes = n[2];
	memcpy(s->ages, n + 3, sizeof(s->ages));
}

static void clean_state_write(int fd, const struct clean_state *s)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b, "%lld %lld %llu", (long long)s->next, (long long)s->max_age,
		   (unsigned long long)s->bytes);
	for (size_t i = 0; i < N_AGES; i++)
		buf_printf(&b, " %llu", (unsigned long long)s->ages[i]);
	buf_add_char(&b, '\n');
	if (b.size >= KIB(4) || fd_pwrite(fd, b.p, b.size, 0, NULL) < 0 || ftruncate(fd, (off_t)b.size) < 0)
		(void)!ftruncate(fd, 0);
}

/* ---- names of entries ---- */

static bool is_temp_name(struct str name)
{
	return name.size > 7 && name.p[name.size - 7] == '.' && !memchr(name.p + name.size - 6, '.', 6);
}

static bool is_entry_name(struct str name)
{
	static const char *const starts[] = { "source",     "section-",    "hdr-debuginfo", "hdr-executable",
					      "hdr-source", "hdr-section", "debuginfo.",    "executable." };

	if (str_eq(name, STR("debuginfo")) || str_eq(name, STR("executable")))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (str_starts(name, str_of(starts[i])))
			return i < 6 || is_temp_name(name);
	return false;
}

static bool is_id_name(const char *name)
{
	return name[0] && strspn(name, "0123456789abcdef") == strlen(name);
}

static int id_bucket(const char *name)
{
	char first[3] = { name[0], name[1] ? name[1] : '0', '\0' };

	return (int)strtol(first, NULL, 16);
}

/* ---- one folder ---- */

static bool entry_is_old(const struct clean_pass *p, struct str name, const struct stat *st)
{
	int64_t unused = p->now - st->st_atime;

	/* It may be a download under way, or a source whose name ends like one. */
	if (is_temp_name(name))
		return unused >= MAX(p->state.max_age, (int64_t)TEMP_AGE_S) &&
		       p->now - st->st_mtime >= TEMP_AGE_S;
	/* So a file that was just given out stays. */
	return unused >= MAX(p->state.max_age, (int64_t)YOUNG_MAX_S);
}

/*
 * Times in the future are from a wrong clock: the file would seem to be used, or a temporary file to be written to, until
 * then. The modification time of other files is the server's.
 */
static void repair_times(const struct clean_pass *p, int dir, const char *name, const struct stat *st)
{
	bool is_accessed = st->st_atime > p->now;
	bool is_written = st->st_mtime > p->now && is_temp_name(str_of(name));
	const struct timespec t[2] = { { .tv_nsec = is_accessed ? UTIME_NOW : UTIME_OMIT },
				       { .tv_nsec = is_written ? UTIME_NOW : UTIME_OMIT } };

	if (is_accessed || is_written)
		(void)!utimensat(dir, name, t, AT_SYMLINK_NOFOLLOW);
}

static void clean_folder(struct clean_pass *p, int root, const char *name, bool metadata)
{
	int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	struct stat st;

	if (!d) {
		fd_close(&fd);
		return;
	}
	while ((e = readdir(d))) {
		struct str s = str_of(e->d_name);
		uint64_t size;

		if (metadata ? s.p[0] == '.' : !is_entry_name(s))
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (entry_is_old(p, s, &st)) {
			unlinkat(fd, e->d_name, 0);
			continue;
		}
		repair_times(p, fd, e->d_name, &st);
		size = (uint64_t)st.st_blocks * 512 / (st.st_nlink ? st.st_nlink : 1);
		p->state.bytes += size;
		p->state.ages[age_slot(p->now - st.st_atime)] += size;
	}
	/* A new folder may be empty because its file is about to be created. */
	if (!metadata && fstat(fd, &st) == 0 && p->now - st.st_mtime >= p->state.max_age)
		unlinkat(root, name, AT_REMOVEDIR);
	closedir(d);
}

/* ---- a pass ---- */

struct id_names {
	char **items; /* heap */
	size_t n, room;
};

static int cmp_bucket(const void *a, const void *b)
{
	return id_bucket(*(char *const *)a) - id_bucket(*(char *const *)b);
}

static void id_names_free(struct id_names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->items[i]);
	free(n->items);
}

/* The folders that this pass has not visited, in its order. */
static void id_names_read(struct id_names *n, int root, int64_t from)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		fd_close(&fd);
		return;
	}
	while ((e = readdir(d))) {
		if (!is_id_name(e->d_name) || id_bucket(e->d_name) < from)
			continue;
		VEC_PUSH(n->items, n->n, n->room) = mem_strdup(e->d_name);
	}
	closedir(d);
	if (n->n)
		qsort(n->items, n->n, sizeof(*n->items), cmp_bucket);
}

static bool pass_is_late(const struct clean_pass *p)
{
	return p->n_folders >= FOLDERS_AT_ONCE && clock_mono_ms() >= p->deadline_ms;
}

/* Goes on until the end of the bucket in which the time is up. */
static void clean_pass_run(struct clean_pass *p, int root)
{
	AUTO(id_names_free) struct id_names names = { 0 };

	if (p->state.next < NEXT_METADATA)
		id_names_read(&names, root, p->state.next);
	for (size_t i = 0; i < names.n; i++) {
		int at = id_bucket(names.items[i]);

		if (at > p->state.next && pass_is_late(p)) {
			p->state.next = at;
			return;
		}
		p->state.next = at;
		clean_folder(p, root, names.items[i], false);
		p->n_folders++;
	}
	p->state.next = NEXT_METADATA;
	if (pass_is_late(p))
		return;
	clean_folder(p, root, "metadata", true);
	p->state.next = NEXT_IDLE;
}

static void pass_begin(struct clean_state *s, int64_t max_age)
{
	*s = (struct clean_state){ .next = 0, .max_age = max_age };
}

/* The pass is complete. If the folder is too large, begin another, with the age limit that leaves nine tenths
 * of the maximum. */
static void pass_end(struct clean_state *s, uint64_t max_bytes)
{
	uint64_t left = 0;
	unsigned slot = 0;

	if (s->bytes <= max_bytes)
		return;
	while (slot < N_AGES - 1 && left + s->ages[slot] <= max_bytes / 10 * 9)
		left += s->ages[slot++];
	/* Young files stay, and without a lower limit than the last pass the next one would remove nothing
	 * more, forever. */
	if (MAX(slot_age(slot), (int64_t)YOUNG_MAX_S) < s->max_age)
		pass_begin(s, MAX(slot_age(slot), (int64_t)YOUNG_MAX_S));
}

/* true: a pass must begin. Its start is noted in the file that other clients check, so that only one
 * cleans. */
static bool clean_is_due(const struct folder *f, int64_t now)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" CONTROL_CLEAN_INTERVAL, f->path);
	int64_t mtime, interval = folder_control(f, CONTROL_CLEAN_INTERVAL, USUAL_CLEAN_INTERVAL_S, &mtime);

	/*
	 * A time in the future is from a wrong clock. A little ahead is usual: a file server sets its own time here, and
	 * where its clock is ahead, each call would find the time in the future, and clean.
	 */
	if (!mtime || (now - mtime < interval && mtime - now < interval))
		return false;
	(void)!utimensat(AT_FDCWD, path, NULL, 0);
	return true;
}

static uint64_t max_bytes_of(const struct folder *f)
{
	uint64_t bytes;
	int64_t mb = folder_control(f, CONTROL_MAX_SIZE, USUAL_MAX_SIZE_MB, NULL);

	return mb == 0 || mul_overflows((uint64_t)mb, 1000000, &bytes) ? UINT64_MAX : bytes;
}

static void pass_step(const struct folder *f, int state_fd, int root, bool due, uint64_t added,
		      int64_t budget_ms)
{
	struct clean_pass p = { .now = clock_wall_s(), .deadline_ms = clock_mono_ms() + budget_ms };
	int64_t usual_age = folder_control(f, CONTROL_MAX_UNUSED, USUAL_MAX_UNUSED_S, NULL);
	uint64_t max_bytes = max_bytes_of(f);

	clean_state_read(state_fd, &p.state);
	if (p.state.next == NEXT_IDLE) {
		bool full = p.state.bytes + added > max_bytes && added;

		p.state.bytes += added;
		if (due || full)
			pass_begin(&p.state, usual_age);
	}
	if (p.state.next != NEXT_IDLE) {
		clean_pass_run(&p, root);
		if (p.state.next == NEXT_IDLE)
			pass_end(&p.state, max_bytes);
	} else if (!added) {
		return;
	}
	clean_state_write(state_fd, &p.state);
}

void clean_step(const struct folder *f, uint64_t added, int64_t budget_ms)
{
	AUTO(mem_freep) char *path = NULL;
	AUTO(fd_close) int fd = -1, root = -1;
	bool due;

	if (!f->path || f->read_only)
		return;
	due = clean_is_due(f, clock_wall_s());
	path = mem_printf("%s/" STATE_NAME, f->path);
	fd = open(path, O_RDWR | (due || added ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	/* Another process is cleaning. The bytes added now are counted by the next pass. */
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	root = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0)
		pass_step(f, fd, root, due, added, budget_ms);
}
