/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>

void fixture_open(struct fixture *h)
{
	static const char *const names[] = { "URLS",     "CACHE_PATH", "TIMEOUT",      "RETRY_LIMIT",
					     "MAXTIME",  "MAXSIZE",    "HEADERS_FILE", "IMA_CERT_PATH",
					     "PROGRESS", "VERBOSE" };

	*h = (struct fixture){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char name[64];

		snprintf(name, sizeof(name), "DEBUGINFOD_%s", names[i]);
		unsetenv(name);
	}
	test_dir_make(h->top);
	snprintf(h->cache, sizeof(h->cache), "%s/cache", h->top);
	setenv("TMPDIR", h->top, 1);
	elf_writer_debug_file(&h->debug, ET_DYN, ID_A, 200000);
	elf_writer_program(&h->program, ET_DYN, ID_A, 100000);
	elf_writer_debug_file(&h->other, ET_DYN, ID_B, 50000);
}

void fixture_close(struct fixture *h)
{
	client_free(h->client);
	buf_done(&h->debug);
	buf_done(&h->program);
	buf_done(&h->other);
	unsetenv("TMPDIR"); /* the next fixture is created there */
	test_dir_remove(h->top);
}

void fixture_ask(struct fixture *h, const char *urls)
{
	client_free(h->client);
	h->client = client_new(&(struct client_options){ .urls = urls, .cache_path = h->cache });
}

struct client_request fixture_want(enum client_kind kind, const char *id, const char *name)
{
	struct client_request w = { .kind = kind, .name = name, .open = true };

	build_id_parse(&w.id, str_of(id));
	return w;
}

struct client_result fixture_find(struct fixture *h, enum client_kind kind, const char *id, const char *name)
{
	struct client_request w = fixture_want(kind, id, name);
	struct client_result r;

	assert_int_equal(client_find(h->client, &w, 1, NULL, &r), 0);
	return r;
}

char *fixture_path(struct fixture *h, const char *name)
{
	return mem_printf("%s/%s", h->cache, name);
}

long long fixture_size(struct fixture *h, const char *name)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (long long)st.st_size;
}

void fixture_put(struct fixture *h, const char *name, struct bytes content)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	struct str dir = path_dirname(str_of(path));
	AUTO(mem_freep) char *dir_text = mem_strndup(dir.p, dir.size);
	struct err err = { 0 };

	assert_done(dir_make(dir_text, 0700, &err));
	test_file_write(path, content.p, content.size);
}

void assert_found(struct client_result *r, struct bytes content)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) uint8_t *read_back = mem_alloc(content.size + 1);
	struct err err = { 0 };
	size_t got;

	if (r->outcome != CLIENT_FOUND)
		fail_msg("not found: %s\n%s", r->err.text, buf_cstr(&r->why));
	assert_done(file_read(r->path, MIB(64), &b, &err));
	assert_true(bytes_eq(buf_bytes(&b), content));
	assert_int_equal(r->size, content.size);
	assert_true(r->fd >= 0);
	assert_int_equal(lseek(r->fd, 0, SEEK_CUR), 0);
	assert_done(fd_pread(r->fd, read_back, content.size + 1, 0, &got, &err));
	assert_true(bytes_eq(bytes_of(read_back, got), content));
	client_result_done(r);
}

static void assert_tidy_folder(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO(mem_freep) char *child = mem_printf("%s/%s", path, e->d_name);
		size_t n = strlen(e->d_name);

		if (e->d_name[0] == '.')
			continue;
		if (n > 7 && e->d_name[n - 7] == '.')
			fail_msg("%s was not removed", child);
		if (e->d_type == DT_DIR)
			assert_tidy_folder(child);
	}
	if (d)
		closedir(d);
}

void assert_tidy(struct fixture *h)
{
	assert_tidy_folder(h->cache);
}
