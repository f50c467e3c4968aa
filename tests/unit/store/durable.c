/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a power cut leaves: this program's fsync() and fdatasync() note each synced file and, for a folder, the
 * names in it. An object is on disk if its record, its content and each folder above them were synced.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include "fixture.h"
#include "store/internal.h"

struct synced_file {
	ino_t ino;
};
struct synced_name {
	ino_t folder, ino;
	char name[256];
};

static struct {
	struct synced_file files[4096];
	struct synced_name names[4096];
	size_t n_files, n_names;
	const char *part;       /* a sync of a path that contains it: */
	bool fails;             /* ... fails once */
	void (*before)(void *); /* ... calls this once, before */
	void *arg;
	unsigned n_syncs;
	const char *root;
} disk;

static void disk_forget(void)
{
	memset(&disk, 0, sizeof(disk));
}

static void disk_note_folder(int fd, ino_t folder)
{
	char path[64];
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	for (size_t i = 0; i < disk.n_names; i++)
		if (disk.names[i].folder != folder)
			disk.names[n++] = disk.names[i];
	disk.n_names = n;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d))) {
		struct synced_name *at = &disk.names[disk.n_names++];

		at->folder = folder;
		at->ino = e->d_ino;
		snprintf(at->name, sizeof(at->name), "%s", e->d_name);
	}
	closedir(d);
}

static int sync_note(int fd)
{
	char link[64], path[4096] = "";
	void (*before)(void *) = NULL;
	struct stat st;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) < 0 || fstat(fd, &st) < 0)
		return -1;
	disk.n_syncs++;
	if (disk.part && strstr(path, disk.part)) {
		disk.part = NULL;
		if (disk.fails) {
			errno = EIO;
			return -1;
		}
		before = disk.before;
	}
	if (before)
		before(disk.arg);
	if (S_ISDIR(st.st_mode))
		disk_note_folder(fd, st.st_ino);
	else
		disk.files[disk.n_files++].ino = st.st_ino;
	return 0;
}

/* In place of libc's. */
int fsync(int fd)
{
	return sync_note(fd);
}

int fdatasync(int fd)
{
	return sync_note(fd);
}

static int sync_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	sync_note(fd);
	close(fd);
	return 0;
}

int syncfs(int fd)
{
	return nftw(disk.root, sync_path, 16, FTW_PHYS);
}

static bool disk_has_name(ino_t folder, const char *name, ino_t ino)
{
	for (size_t i = 0; i < disk.n_names; i++)
		if (disk.names[i].folder == folder && disk.names[i].ino == ino &&
		    strcmp(disk.names[i].name, name) == 0)
			return true;
	return false;
}

/* Is this blob there after a power cut, as it is now? */
static bool disk_has(const char *dir, const char *blob)
{
	AUTO(mem_freep) char *rest = mem_strdup(blob);
	AUTO(mem_freep) char *path = mem_strdup(dir);
	struct stat folder, st;
	char *at = rest, *name;

	while ((name = strsep(&at, "/"))) {
		char *next = mem_printf("%s/%s", path, name);

		assert_int_equal(stat(path, &folder), 0);
		free(path);
		path = next;
		if (stat(path, &st) < 0 || !disk_has_name(folder.st_ino, name, st.st_ino))
			return false;
	}
	for (size_t i = 0; i < disk.n_files; i++)
		if (disk.files[i].ino == st.st_ino)
			return true;
	return false;
}

#define KEY    "ab01/debuginfo"
#define RECORD "keys/ab/ab01.debuginfo"

static void content_of(const char *text, char out[STORE_CONTENT_NAME_SIZE])
{
	uint8_t sum[STORE_SHA256_SIZE];

	sha256_of(bytes_of(text, strlen(text)), sum);
	store_content_name(sum, true, out);
}

static bool object_is_on_disk(struct store_fixture *f, const char *record, const char *text)
{
	char content[STORE_CONTENT_NAME_SIZE];

	content_of(text, content);
	return disk_has(f->dir, record) && disk_has(f->dir, content);
}

static int put_of(struct store *st, enum store_origin origin, const char *key_text, const char *text,
		  struct err *err)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta = { .origin = origin, .quality = STORE_DWARF, .from = STR("ci") };

	return store_put_bytes(st, &key, &meta, true, bytes_of(text, strlen(text)), STORE_IF_BETTER, err);
}

static int put_in(struct store *st, const char *key_text, const char *text, struct err *err)
{
	return put_of(st, STORE_PUSHED, key_text, text, err);
}

/* Would the object be acknowledged? */
static bool acknowledged(struct store_fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta;
	struct err err = { 0 };

	return store_find_sure(f->st, &key, STORE_ON_DISK, &f->arena, &meta, &err) == 0;
}

static void acknowledge_within(void *arg)
{
	struct store_fixture *f = arg;

	if (acknowledged(f, KEY))
		assert_true(object_is_on_disk(f, RECORD, "one"));
}

static void nothing_is_acknowledged_between_rename_and_sync(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct store_meta meta;
	struct err err = { 0 };

	disk.part = "/keys/ab";
	disk.before = acknowledge_within;
	disk.arg = f;
	assert_done(put_in(f->st, KEY, "one", &err));
	assert_null(disk.part);
	assert_true(object_is_on_disk(f, RECORD, "one"));
	/* Its own commit made it durable: no more syncs are needed. */
	disk.n_syncs = 0;
	assert_done(store_find_sure(f->st, &key, STORE_AS_KNOWN, &f->arena, &meta, &err));
	assert_true(acknowledged(f, KEY));
	assert_int_equal(disk.n_syncs, 0);
}

static void nothing_is_acknowledged_after_a_failed_sync(void **state)
{
	static const char *const where[] = { "/keys/ab", "/data/", "/tmp/" };
	struct store_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		struct err err = { 0 };
		char key[32], record[64];

		snprintf(key, sizeof(key), "ab0%zu/debuginfo", i);
		snprintf(record, sizeof(record), "keys/ab/ab0%zu.debuginfo", i);
		disk.part = where[i];
		disk.fails = true;
		assert_true(put_in(f->st, key, key, &err) < 0);
		assert_null(disk.part);
		/* Pages of a failed sync count as clean: another sync alone would prove nothing. */
		assert_false(acknowledged(f, key));
		disk.fails = false;
		assert_true(put_in(f->st, key, key, &err) >= 0);
		assert_true(object_is_on_disk(f, record, key));
		assert_true(acknowledged(f, key));
	}
}

/* Overwrite the content of @text in place: it has the right size and other bytes. */
static void damage_content(struct store_fixture *f, const char *text)
{
	char content[STORE_CONTENT_NAME_SIZE];
	AUTO(mem_freep) char *path = NULL;
	AUTO(fd_close) int fd = -1;

	content_of(text, content);
	path = mem_printf("%s/%s", f->dir, content);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0 && pwrite(fd, "?", 1, 0) == 1);
	/* Another version: what is known of the one before does not count. */
	clock_test_advance(60000);
	assert_int_equal(futimens(fd, (struct timespec[2]){ { .tv_sec = 1 }, { .tv_sec = 1 } }), 0);
}

/* Its record was on disk before; the content that takes the place of the damaged one is not. */
static void nothing_is_acknowledged_before_a_mended_content_is_on_disk(void **state)
{
	struct store_fixture *f = *state;
	struct err err = { 0 };

	assert_done(put_in(f->st, KEY, "one", &err));
	damage_content(f, "one");
	disk.part = "/data/";
	disk.before = acknowledge_within;
	disk.arg = f;
	assert_int_equal(put_in(f->st, KEY, "one", &err), STORE_SAME);
	assert_null(disk.part);
	assert_true(object_is_on_disk(f, RECORD, "one"));
	assert_true(acknowledged(f, KEY));
}

static void nothing_is_acknowledged_after_a_failed_sync_of_a_mended_content(void **state)
{
	struct store_fixture *f = *state;
	struct err err = { 0 };

	assert_done(put_in(f->st, KEY, "one", &err));
	damage_content(f, "one");
	disk.part = "/data/";
	disk.fails = true;
	assert_true(put_in(f->st, KEY, "one", &err) < 0);
	assert_null(disk.part);
	assert_false(acknowledged(f, KEY));
	assert_int_equal(put_in(f->st, KEY, "one", &err), STORE_SAME);
	assert_true(object_is_on_disk(f, RECORD, "one"));
	assert_true(acknowledged(f, KEY));
}

/* Of many objects, which one sync of the file system makes durable, one has such a content. */
static void one_sync_for_all_does_not_settle_a_content_whose_sync_failed(void **state)
{
	enum { N = 20 };
	struct store_fixture *f = *state;
	struct store_key keys[N];
	char names[N][32];
	struct err err = { 0 };

	for (size_t i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "ab%02zu/debuginfo", i);
		keys[i] = key_of(names[i]);
		assert_done(put_in(f->st, names[i], names[i], &err));
	}
	reopen(f, &(struct store_options){ 0 });
	damage_content(f, names[3]);
	disk.part = "/data/";
	disk.fails = true;
	assert_true(put_in(f->st, names[3], names[3], &err) < 0);
	disk.root = f->dir;
	assert_done(store_settle(f->st, keys, N, &err));
	for (size_t i = 0; i < N; i++)
		assert_int_equal(acknowledged(f, names[i]), i != 3);
	assert_int_equal(put_in(f->st, names[3], names[3], &err), STORE_SAME);
	assert_true(acknowledged(f, names[3]));
}

static void after_a_start_it_is_synced_before_it_is_acknowledged(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct store_meta meta;
	struct err err = { 0 };

	assert_done(put_in(f->st, KEY, "one", &err));
	/* The process before may have been killed in the middle of its syncs. */
	disk_forget();
	reopen(f, &(struct store_options){ 0 });
	disk.n_syncs = 0;
	assert_int_equal(store_find_sure(f->st, &key, STORE_AS_KNOWN, &f->arena, &meta, &err), STORE_UNSURE);
	assert_int_equal(disk.n_syncs, 0);
	assert_true(acknowledged(f, KEY));
	assert_true(object_is_on_disk(f, RECORD, "one"));
	disk.n_syncs = 0;
	assert_true(acknowledged(f, KEY));
	assert_int_equal(disk.n_syncs, 0);
	disk_forget();
	reopen(f, &(struct store_options){ 0 });
	assert_int_equal(put_in(f->st, KEY, "one", &err), STORE_SAME);
	assert_true(object_is_on_disk(f, RECORD, "one"));
}

static void put_beside(void *arg)
{
	struct store_fixture *f = arg;
	struct err err = { 0 };

	assert_done(put_in(f->st, "ab02/debuginfo", "two", &err));
	assert_true(object_is_on_disk(f, "keys/ab/ab02.debuginfo", "two"));
}

static void a_folder_made_by_another_put_is_synced(void **state)
{
	struct store_fixture *f = *state;
	struct err err = { 0 };

	disk.part = "/keys";
	disk.before = put_beside;
	disk.arg = f;
	assert_done(put_in(f->st, KEY, "one", &err));
	assert_null(disk.part);
}

static void collect_within(void *arg)
{
	struct store_fixture *f = arg;
	char old[STORE_CONTENT_NAME_SIZE];
	struct store_gc_result gc;
	AUTO(mem_freep) char *path = NULL;
	struct err err = { 0 };

	clock_test_advance(60000);
	disk.root = f->dir;
	(void)store_gc(f->st, NULL, NULL, &gc, &err);
	content_of("one", old);
	path = mem_printf("%s/%s", f->dir, old);
	if (access(path, F_OK) != 0)
		assert_true(object_is_on_disk(f, RECORD, "two, and other bytes"));
}

/* Replace "one"; @before is called before the new record is on disk. */
static void replace_during(struct store_fixture *f, void (*before)(void *arg))
{
	struct err err = { 0 };

	assert_done(put_of(f->st, STORE_FETCHED, KEY, "one", &err));
	clock_test_advance(60000);
	disk.part = "/keys/ab";
	disk.before = before;
	disk.arg = f;
	assert_done(put_of(f->st, STORE_FETCHED, KEY, "two, and other bytes", &err));
	assert_null(disk.part);
}

/* Else the old record, which is on disk still, would name a removed content. */
static void garbage_is_collected_by_records_on_disk(void **state)
{
	replace_during(*state, collect_within);
}

static void evict_within(void *arg)
{
	struct store_fixture *f = arg;
	char old[STORE_CONTENT_NAME_SIZE];
	struct store_evict_result ev;
	AUTO(mem_freep) char *path = NULL;
	struct err err = { 0 };

	disk.root = f->dir;
	assert_done(store_evict(f->st, sizeof("two, and other bytes") - 1, &ev, &err));
	assert_int_equal(ev.n_objects, 0);
	content_of("one", old);
	path = mem_printf("%s/%s", f->dir, old);
	assert_int_equal(access(path, F_OK), -1);
	assert_true(object_is_on_disk(f, RECORD, "two, and other bytes"));
}

/* The same of contents that go to make room. */
static void room_is_made_by_records_on_disk(void **state)
{
	replace_during(*state, evict_within);
}

static void a_removed_object_does_not_come_back(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct err err = { 0 };

	assert_done(put_in(f->st, KEY, "one", &err));
	assert_done(store_remove(f->st, &key, STR(""), &err));
	for (size_t i = 0; i < disk.n_names; i++)
		assert_string_not_equal(disk.names[i].name, "ab01.debuginfo");
}

static struct store_put *named_begin(struct store_fixture *f)
{
	const struct store_put_options opts = { .later = true, .size = MIB(4), .name = STR("an upload") };
	struct store_put *p = NULL;
	struct err err = { 0 };

	assert_done(store_put_begin(f->st, &opts, &p, &err));
	return p;
}

/* Its pages may be lost when they are evicted, and the next sync of the file would not say so. */
static void an_upload_whose_sync_failed_is_not_continued(void **state)
{
	AUTO(mem_freep) uint8_t *bytes = mem_zalloc(MIB(2));
	struct store_fixture *f = *state;
	struct err err = { 0 };

	for (unsigned fails = 0; fails < 2; fails++) {
		struct store_put *p = named_begin(f);

		assert_done(store_put_write(p, bytes_of(bytes, MIB(2)), &err));
		disk.part = "/tmp/part-";
		disk.fails = fails;
		store_put_leave(p);
		assert_null(disk.part);
		p = named_begin(f);
		assert_int_equal(store_put_size(p), fails ? 0 : MIB(2));
		store_put_abort(p);
	}
}

static int set_up_disk(void **state)
{
	disk_forget();
	return set_up_frozen(state);
}

#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, set_up_disk, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_DISK(nothing_is_acknowledged_between_rename_and_sync),
		ON_DISK(nothing_is_acknowledged_after_a_failed_sync),
		ON_DISK(nothing_is_acknowledged_before_a_mended_content_is_on_disk),
		ON_DISK(nothing_is_acknowledged_after_a_failed_sync_of_a_mended_content),
		ON_DISK(one_sync_for_all_does_not_settle_a_content_whose_sync_failed),
		ON_DISK(after_a_start_it_is_synced_before_it_is_acknowledged),
		ON_DISK(a_folder_made_by_another_put_is_synced),
		ON_DISK(garbage_is_collected_by_records_on_disk),
		ON_DISK(room_is_made_by_records_on_disk),
		ON_DISK(a_removed_object_does_not_come_back),
		ON_DISK(an_upload_whose_sync_failed_is_not_continued),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
