/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

void fixture_init(struct server_fixture *f)
{
	static const struct str listen[] = { STR("127.0.0.1:0") };

	memset(f, 0, sizeof(*f));
	log_set_level(LOG_ERROR);
	f->mem = resolve_mem_new();
	test_dir_make(f->dir);
	snprintf(f->cache_dir, sizeof(f->cache_dir), "%s/cache", f->dir);
	f->opts = (struct server_options){
		.resolver = f->mem,
		.listen = listen,
		.n_listen = 1,
		.http_threads = 2,
		.workers = 2,
		.cache_dir = f->cache_dir,
		.cache_max_bytes = MIB(64),
	};
}

void fixture_start(struct server_fixture *f)
{
	struct err err = { 0 };

	assert_done(server_start(&f->opts, &f->server, &err));
	f->url = server_urls(f->server)[0];
}

void fixture_stop(struct server_fixture *f)
{
	server_stop(f->server, 2000);
	f->server = NULL;
}

void fixture_done(struct server_fixture *f)
{
	fixture_stop(f);
	resolve_close(f->mem);
	test_dir_remove(f->dir);
}

struct build_id test_id(const char *hex)
{
	struct build_id id = { 0 };

	assert_true(build_id_parse(&id, str_of(hex)));
	return id;
}

struct bytes fixture_put(struct server_fixture *f, enum resolve_kind kind, const char *hex, const char *arg,
			 size_t size, const char *file, const char *archive)
{
	struct build_id id = test_id(hex);
	uint8_t *p = mem_alloc(size + 1);

	test_fill(p, size, size + kind);
	resolve_mem_put(f->mem, kind, &id, str_of(arg), bytes_of(p, size), str_of(file), str_of(archive),
			1700000000);
	return bytes_of(p, size);
}

void assert_body(const struct http_answer *a, struct bytes want)
{
	if (!a->whole || a->body.size != want.size)
		fail_msg("body of %zu bytes, wanted %zu\n%s", a->body.size, want.size,
			 a->head.p ? (char *)a->head.p : "");
	if (want.size)
		assert_memory_equal(a->body.p, want.p, want.size);
}

void assert_header(const struct http_answer *a, const char *name, const char *want)
{
	const char *got = http_answer_header(a, name);

	if (!want && !got)
		return;
	if (!got || !want || strcmp(got, want) != 0)
		fail_msg("%s is \"%s\", not \"%s\"", name, got ? got : "(none)", want ? want : "(none)");
}

void fixture_wait_for_metric(const struct server_fixture *f, const char *name, int least, int most)
{
	AUTO(mem_freep) char *line = mem_printf("\n%s ", name);
	int now = -1;

	for (int i = 0; i < 3000; i++) {
		struct http_answer a = http_fetch(f->url, "GET", "/metrics", NULL);
		const char *at = strstr(buf_cstr(&a.body), line);

		now = at ? atoi(at + strlen(line)) : -1;
		http_answer_done(&a);
		if (now >= least && now <= most)
			return;
		usleep(10000);
	}
	fail_msg("%s stays at %d", name, now);
}
