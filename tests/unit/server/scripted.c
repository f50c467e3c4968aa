/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted.h"

struct script_artifact scripted_scripts[N_SCRIPTS] = {
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

struct server_fixture scripted;
struct resolver *scripted_script;
char scripted_plain[TEST_PATH_SIZE + 16], scripted_plain_big[TEST_PATH_SIZE + 16];

int scripted_setup_with(void (*change)(struct server_options *o))
{
	fixture_init(&scripted);
	snprintf(scripted_plain, sizeof(scripted_plain), "%s/plain", scripted.dir);
	snprintf(scripted_plain_big, sizeof(scripted_plain_big), "%s/plain_big", scripted.dir);
	scripted_scripts[PLAIN].plain = scripted_plain;
	scripted_scripts[PLAIN_BIG].plain = scripted_plain_big;
	scripted_script = script_new(scripted_scripts, N_SCRIPTS);
	scripted.opts.resolver = scripted_script;
	scripted.opts.cache_max_bytes = MIB(32); /* one artifact may use half of it */
	if (change)
		change(&scripted.opts);
	fixture_start(&scripted);
	return 0;
}

int scripted_setup(void **state)
{
	return scripted_setup_with(NULL);
}

int scripted_teardown(void **state)
{
	script_open_gate(scripted_script);
	fixture_stop(&scripted);
	assert_int_equal(script_n_open(scripted_script), 0);
	resolve_close(scripted_script);
	fixture_done(&scripted);
	return 0;
}

static void no_cache(struct server_options *o)
{
	o->cache_dir = NULL;
}

int scripted_setup_no_cache(void **state)
{
	return scripted_setup_with(no_cache);
}

const char *scripted_path(unsigned which)
{
	static char path[64];

	snprintf(path, sizeof(path), "/buildid/%s/debuginfo", scripted_scripts[which].hex);
	return path;
}

void scripted_check_bytes(const struct http_answer *a, unsigned which, uint64_t off)
{
	if (!script_same(&scripted_scripts[which], off, a->body.p, a->body.size))
		fail_msg("wrong bytes among %zu at %llu", a->body.size, (unsigned long long)off);
}

void scripted_check_whole(struct http_client *c, unsigned which)
{
	struct http_answer a = http_client_answer(c, false);

	assert_int_equal(a.status, 200);
	assert_int_equal(a.length, scripted_scripts[which].size);
	assert_true(a.whole);
	scripted_check_bytes(&a, which, 0);
	http_answer_done(&a);
}

void scripted_check_fetched(unsigned which)
{
	struct http_client c;

	http_client_open(&c, scripted.url);
	http_client_ask(&c, "GET", scripted_path(which), NULL);
	scripted_check_whole(&c, which);
	http_client_close(&c);
}

void scripted_wait_until(bool (*ok)(void))
{
	for (int i = 0; i < 3000 && !ok(); i++)
		usleep(10000);
	assert_true(ok());
}

bool scripted_nothing_open(void)
{
	return script_n_open(scripted_script) == 0;
}
