/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

struct script_artifact stage_scripts[N_SCRIPTS] = {
	[GATED] = { "a0", .size = BIG, .seed = 1, .gate_at = KIB(900) },
	[FAILS] = { "a1", .size = BIG, .seed = 2, .gate_at = KIB(900), .fail_at = MIB(1) },
	[SHORT] = { "a2", .size = BIG, .seed = 3, .gate_at = KIB(900), .short_at = MIB(1) },
	[WAITS] = { "a3", .size = BIG, .seed = 4, .n_waits = 1 },
	[BUSY] = { "a4", .busy = true },
	[HUGE_ONE] = { "a5", .size = MIB(20), .seed = 5 },
	[SEQUENTIAL] = { "a6", .size = MIB(20), .seed = 6, .sequential_only = true },
	[SMALL] = { "a7", .size = 1000, .seed = 7 },
	[SMALL_FAILS] = { "a8", .size = 1000, .seed = 8, .fail_at = 500 },
	[PLAIN] = { "a9", .seed = 9 },
	[PLAIN_BIG] = { "aa", .seed = 10 },
	[BAD] = { "ab", .error = ERR_CHANGED, .error_text = "x.deb: changed while it was read" },
	[TINY_GATED] = { "ac", .size = 1000, .seed = 11, .gate_at = 1 },
};

struct fixture stage;
struct resolver *stage_script;
char stage_plain[TEST_PATH_SIZE + 16], stage_plain_big[TEST_PATH_SIZE + 16];

int stage_setup_with(void (*change)(struct server_options *o))
{
	fixture_init(&stage);
	snprintf(stage_plain, sizeof(stage_plain), "%s/plain", stage.dir);
	snprintf(stage_plain_big, sizeof(stage_plain_big), "%s/plain_big", stage.dir);
	stage_scripts[PLAIN].plain = stage_plain;
	stage_scripts[PLAIN_BIG].plain = stage_plain_big;
	stage_script = script_new(stage_scripts, N_SCRIPTS);
	stage.opts.resolver = stage_script;
	stage.opts.cache_max_bytes = MIB(32); /* half of it is the most for one */
	if (change)
		change(&stage.opts);
	fixture_start(&stage);
	return 0;
}

int stage_setup(void **state)
{
	return stage_setup_with(NULL);
}

int stage_teardown(void **state)
{
	script_open_gate(stage_script);
	fixture_stop(&stage);
	assert_int_equal(script_n_open(stage_script), 0);
	resolve_close(stage_script);
	fixture_done(&stage);
	return 0;
}

static void no_cache(struct server_options *o)
{
	o->cache_dir = NULL;
}

int stage_setup_no_cache(void **state)
{
	return stage_setup_with(no_cache);
}

const char *stage_path(unsigned which)
{
	static char path[64];

	snprintf(path, sizeof(path), "/buildid/%s/debuginfo", stage_scripts[which].hex);
	return path;
}

void stage_check_bytes(const struct http_answer *a, unsigned which, uint64_t off)
{
	if (!script_same(&stage_scripts[which], off, a->body.p, a->body.size))
		fail_msg("wrong bytes among %zu at %llu", a->body.size, (unsigned long long)off);
}

void stage_check_whole(struct http_client *c, unsigned which)
{
	struct http_answer a = http_client_answer(c, false);

	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, stage_scripts[which].size);
	assert_true(a.whole);
	stage_check_bytes(&a, which, 0);
	http_answer_done(&a);
}

void stage_check_fetched(unsigned which)
{
	struct http_client c;

	http_client_open(&c, stage.url);
	http_client_ask(&c, "GET", stage_path(which), NULL);
	stage_check_whole(&c, which);
	http_client_close(&c);
}

void stage_wait_until(bool (*ok)(void))
{
	for (int i = 0; i < 3000 && !ok(); i++)
		usleep(10000);
	assert_true(ok());
}

bool stage_nothing_open(void)
{
	return script_n_open(stage_script) == 0;
}

void stage_wait_for_metric(const char *name, int least, int most)
{
	AUTO(mem_freep) char *line = mem_printf("\n%s ", name);
	int now = -1;

	for (int i = 0; i < 3000; i++) {
		struct http_answer a = http_fetch(stage.url, "GET", "/metrics", NULL);
		const char *at = strstr(buf_cstr(&a.body), line);

		now = at ? atoi(at + strlen(line)) : -1;
		http_answer_done(&a);
		if (now >= least && now <= most)
			return;
		usleep(10000);
	}
	fail_msg("%s stays at %d", name, now);
}
