/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of requests about profiles: times, durations, the forms of other clients.
 */
#include "test.h"

#include <errno.h>

#include "server/profiles/profiles.h"
#include "profile/input.h"
#include "server/intake/forms.h"

#define NOW INT64_C(1795000000000)

static void is_time(const char *text, int64_t want)
{
	int64_t got = -1;

	if (!api_time_parse(str_of(text), NOW, &got) || got != want)
		fail_msg("%s: %lld", text, (long long)got);
}

static void no_time(const char *text)
{
	int64_t got;

	if (api_time_parse(str_of(text), NOW, &got))
		fail_msg("%s: %lld", text, (long long)got);
}

static void times_are_parsed_in_every_form(void **state)
{
	is_time("now", NOW);
	is_time("now-15m", NOW - 900000);
	is_time("now-1h30m", NOW - 5400000);
	is_time("now+2s", NOW + 2000);
	is_time("now-10000w", 0);
	is_time("0", 0);
	is_time("1795000000000", NOW);
	is_time("1970-01-01T00:00:00Z", 0);
	is_time("2000-02-29T23:59:60Z", INT64_C(951868800000));
	is_time("2026-11-21t07:29:00.5z", INT64_C(1795246140500));
	is_time("2026-11-21T07:29:00.123456789+01:00", INT64_C(1795242540123));
	is_time("2026-11-21 07:29:00-00:30", INT64_C(1795247940000));
	is_time("9999-12-31T23:59:59.999Z", INT64_C(253402300799999));
}

static void invalid_times_are_refused(void **state)
{
	static const char *const all[] = { "",
					   "yesterday",
					   "now-",
					   "now15m",
					   "now-15",
					   "now-1y",
					   "now-m",
					   "now-99999999999999999999h",
					   "now-9999999999999w",
					   "-1",
					   "+1",
					   "1.5",
					   "253402300800000",
					   "99999999999999999999",
					   "2026-11-21",
					   "2026-11-21T07:29:00",
					   "2026-02-29T00:00:00Z",
					   "2026-13-01T00:00:00Z",
					   "2026-00-01T00:00:00Z",
					   "2026-11-21T24:00:00Z",
					   "2026-11-21T07:29:00+1:00",
					   "2026-11-21T07:29:00Zx",
					   "2026-11-21T07:29:00.Z" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		no_time(all[i]);
}

static void durations_are_parsed(void **state)
{
	int64_t ms;

	assert_true(api_duration_parse(STR("500ms"), &ms) && ms == 500);
	assert_true(api_duration_parse(STR("1w2d3h4m5s6ms"), &ms) && ms == 788645006);
	assert_false(api_duration_parse(STR(""), &ms));
	assert_false(api_duration_parse(STR("s"), &ms));
	assert_false(api_duration_parse(STR("1"), &ms));
	assert_false(api_duration_parse(STR("1s2"), &ms));
	assert_false(api_duration_parse(STR("1 s"), &ms));
	assert_false(api_duration_parse(STR("9223372036854775807s"), &ms));
}

/* Only a fault of the request is 4xx: a sender drops a profile that is refused so. */
static void the_fault_decides_the_status(void **state)
{
	static const struct {
		enum err_kind kind;
		int os;
		unsigned get, post, store;
	} all[] = {
		{ ERR_INVALID, 0, 400, 400, 500 },
		{ ERR_LIMIT, 0, 422, 413, 507 },
		{ ERR_LIMIT, ENOMEM, 503, 503, 503 },
		{ ERR_LIMIT, EMFILE, 503, 503, 503 },
		{ ERR_LIMIT, PROFILESTORE_TOO_MANY_SERIES, 422, 422, 422 },
		{ ERR_IO, 0, 503, 503, 503 },
		{ ERR_IO, EIO, 503, 503, 503 },
		{ ERR_IO, EROFS, 503, 503, 503 },
		{ ERR_IO, ENOSPC, 507, 507, 507 },
		{ ERR_IO, EDQUOT, 507, 507, 507 },
		{ ERR_IO, EFBIG, 507, 507, 507 },
		{ ERR_CHANGED, 0, 503, 503, 503 },
		{ ERR_UPSTREAM, 0, 500, 500, 500 },
		{ ERR_CANCELLED, 0, 503, 503, 503 },
		{ ERR_INTERNAL, 0, 500, 500, 500 },
		{ ERR_DAMAGED, 0, 500, 500, 500 },
		{ ERR_BUSY, 0, 503, 503, 503 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct err err = { .kind = all[i].kind, .os = all[i].os };

		assert_int_equal(api_status_of(&err, false), all[i].get);
		assert_int_equal(api_status_of(&err, true), all[i].post);
		assert_int_equal(api_status_of_store(&err), all[i].store);
	}
}

static void is_base64(const char *text, const char *want)
{
	AUTO(buf_done) struct buf b = { 0 };

	assert_true(base64_decode(str_of(text), &b));
	assert_true(str_eq(buf_str(&b), str_of(want)));
}

static void base64_is_decoded(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	is_base64("", "");
	is_base64("Zg==", "f");
	is_base64("Zg", "f");
	is_base64("Zm9vYmE=", "fooba");
	is_base64("Zm9vYmFy", "foobar");
	is_base64("Pz8/Pz4-", "\x3f\x3f\x3f\x3f>>");
	is_base64("Pz8_Pz4+", "\x3f\x3f\x3f\x3f>>");
	assert_false(base64_decode(STR("Z"), &b));
	assert_false(base64_decode(STR("Zg==Zg=="), &b));
	assert_false(base64_decode(STR("Zm9v YmFy"), &b));
}

/* "name=value;" of each label; or "refused". */
static char *app_labels(const char *name)
{
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS];
	struct str app, rest;
	struct err err = { 0 };
	struct buf b = { 0 };
	size_t n = 0;

	if (form_app_split(str_of(name), &app, &rest, &err) < 0 ||
	    form_app_labels(app, rest, labels, &n, &err) < 0)
		return mem_strdup("refused");
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, STR_FMT "=" STR_FMT ";", STR_ARG(labels[i].name), STR_ARG(labels[i].value));
	return (char *)buf_cstr(&b);
}

static void the_name_of_a_program_is_split_into_labels(void **state)
{
	static const char *const cases[][2] = {
		{ "app.cpu{env=dev, host=x,}", "env=dev;host=x;service_name=app.cpu;" },
		{ "app{}", "service_name=app;" },
		{ "app", "service_name=app;" },
		{ "app{a=b=c}", "a=b=c;service_name=app;" },
		/* A service_name that the program sets counts; Alloy makes one that is equal. */
		{ "app{region=eu,service_name=app}", "region=eu;service_name=app;" },
		{ "app{service_name=web,region=eu}", "service_name=web;region=eu;app_name=app;" },
		{ "app{service_name=web,app_name=x}", "service_name=web;app_name=x;" },
		{ "app{service_name=}", "service_name=;service_name=app;" },
		{ "{a=b}", "refused" },
		{ "app{a=b", "refused" },
		{ "app{a}", "refused" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(mem_freep) char *got = app_labels(cases[i][0]);

		assert_string_equal(got, cases[i][1]);
	}
}

static void check_kind(const char *app, const char *units, const char *aggregation, const char *want)
{
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	const struct form_kind *kind;
	struct str name = str_of(app);
	struct err err = { 0 };
	uint32_t rate = 0;

	assert_done(profile_read_folded(STR("a;b 3\n"), NULL, &p, &err));
	assert_done(form_sample_rate(STR("250"), &rate, &err));
	kind = form_kind_of_app(&name);
	if (!kind)
		kind = form_kind_of_units(str_of(units), str_of(aggregation), &err);
	assert_non_null(kind);
	assert_done(form_set_kind(p, kind, rate, &err));
	buf_printf(&b, STR_FMT " " STR_FMT ":" STR_FMT ":" STR_FMT ":" STR_FMT ":" STR_FMT " %lld",
		   STR_ARG(name), STR_ARG(form_kind_name(kind)), STR_ARG(profile_str(p, p->types.p[0].type)),
		   STR_ARG(profile_str(p, p->types.p[0].unit)), STR_ARG(profile_str(p, p->period_type.type)),
		   STR_ARG(profile_str(p, p->period_type.unit)), (long long)profile_value(p, 0, 0));
	assert_string_equal(buf_cstr(&b), want);
}

static void the_name_or_the_units_say_what_text_counts(void **state)
{
	struct err err = { 0 };
	uint32_t rate;

	check_kind("app", "", "", "app process_cpu:cpu:nanoseconds:cpu:nanoseconds 12000000");
	check_kind("app", "samples", "sum", "app process_cpu:cpu:nanoseconds:cpu:nanoseconds 12000000");
	check_kind("app.cpu", "bytes", "", "app process_cpu:cpu:nanoseconds:cpu:nanoseconds 12000000");
	check_kind("app.wall", "", "", "app wall:wall:nanoseconds:wall:nanoseconds 12000000");
	check_kind("app", "bytes", "sum", "app memory:alloc_space:bytes:space:bytes 3");
	check_kind("app", "bytes", "average", "app memory:inuse_space:bytes:space:bytes 3");
	check_kind("app", "objects", "average", "app memory:inuse_objects:count:space:bytes 3");
	check_kind("a.b.inuse_space", "", "", "a.b memory:inuse_space:bytes:space:bytes 3");
	check_kind("app", "lock_nanoseconds", "", "app mutex:delay:nanoseconds:contentions:count 3");
	check_kind("app.block_count", "", "", "app block:contentions:count:contentions:count 3");
	check_kind("app.v2", "goroutines", "", "app.v2 goroutines:goroutine:count:goroutine:count 3");
	check_kind(".cpu", "bytes", "", ".cpu memory:alloc_space:bytes:space:bytes 3");
	assert_null(form_kind_of_units(STR("apples"), STR(""), &err));
	assert_non_null(strstr(err.text, "lock_samples"));
	assert_true(form_sample_rate(STR(""), &rate, &err) == 0 && rate == 100);
	assert_true(form_sample_rate(STR("0"), &rate, &err) < 0 &&
		    form_sample_rate(STR("-1"), &rate, &err) < 0 &&
		    form_sample_rate(STR("9999999999"), &rate, &err) < 0);
}

static void the_unit_of_a_time_follows_from_its_digits(void **state)
{
	int64_t ms;

	assert_true(form_unix_ms(STR("1795000000"), &ms) && ms == NOW);
	assert_true(form_unix_ms(STR("1795000000000"), &ms) && ms == NOW);
	assert_true(form_unix_ms(STR("1795000000000000"), &ms) && ms == NOW);
	assert_true(form_unix_ms(STR("1795000000000000000"), &ms) && ms == NOW);
	assert_false(form_unix_ms(STR("now"), &ms));
}

static void multipart_forms_are_parsed(void **state)
{
	static const char body[] =
		"preamble\r\n--X\r\nContent-Disposition: form-data; name=\"a\"; filename=\"f\"\r\n"
		"Content-Type: "
		"x\r\n\r\none\r\n--\r\n--X\r\ncontent-disposition:form-data;name=b\r\n\r\n\r\n--X--\r\n";
	struct form_part parts[FORM_MAX_PARTS];
	struct err err = { 0 };
	size_t n = 0;

	assert_int_equal(form_multipart(STR("multipart/form-data; boundary=\"X\""),
					bytes_of(body, sizeof(body) - 1), parts, &n, &err),
			 0);
	assert_int_equal(n, 2);
	assert_true(str_eq(parts[0].name, STR("a")));
	assert_true(bytes_eq(parts[0].data, bytes_of("one\r\n--", 7)));
	assert_true(str_eq(parts[1].name, STR("b")) && !parts[1].data.size);
	assert_int_equal(
		form_multipart(STR("multipart/form-data"), bytes_of(body, sizeof(body) - 1), parts, &n, &err),
		-1);
	assert_true(form_is_multipart(STR("Multipart/Form-Data; boundary=X")));
	assert_false(form_is_multipart(STR("text/plain")));
}

/* ---- queries ---- */

#define FUNCTIONS 12000u /* so many that the walk over all of them looks at the clock */

/* A store with one profile: calls of "f", which are the smallest, and of many other functions. */
static struct profilestore *store_of_many_functions(char dir[TEST_PATH_SIZE])
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profilestore_options o = { .dir = dir };
	struct profilestore_receipt receipt;
	struct profilestore *s;
	struct err err = { 0 };

	test_dir_make(dir);
	assert_done(profilestore_open(&o, &s, &err));
	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		AUTO(mem_freep) char *name = mem_printf("g%u", i);
		struct profile_function f = { .name = profile_add_string(p, str_of(i ? name : "f")) };
		struct profile_line line = { .function = profile_add_function(p, &f) };
		struct profile_location l = { .mapping = PROFILE_NONE };
		uint32_t stack = profile_add_stack(p, 0, profile_add_location(p, &l, &line, 1));

		profile_add_sample(p, stack, 0, &(int64_t){ i ? 2 : 1 });
	}
	assert_done(profile_build_end(p, &err));
	assert_done(profilestore_add_wait(s, p, NULL, 0, &receipt, &err));
	return s;
}

/* A deadline that passes when it is looked at for the @at-th time; 0: never. */
struct passing {
	struct deadline *deadline;
	unsigned n, at;
};

static void pass_at_look(void *arg)
{
	struct passing *x = arg;

	if (++x->n == x->at)
		x->deadline->end_mono_ms = 1;
}

static void query_begin(struct api *a, struct arena *arena, struct profilestore *s)
{
	struct err err = { 0 };

	arena_init(arena);
	*a = (struct api){ .arena = arena, .store = s, .now_ms = clock_wall_ms() };
	budget_hold_init(&a->memory, NULL, BUDGET_QUERY);
	a->json.out = &a->out;
	assert_done(api_arg_add(a, STR("from"), STR("0"), &err));
}

static void query_end(struct api *a)
{
	buf_done(&a->out);
	budget_hold_done(&a->memory);
	arena_done(a->arena);
}

static int ask_callers(struct profilestore *s, struct passing *x, unsigned *ret_status, struct err *ret_err)
{
	struct arena arena;
	struct err err = { 0 };
	struct api a;
	int r;

	query_begin(&a, &arena, s);
	assert_done(api_arg_add(&a, STR("function"), STR("f"), &err));
	a.deadline = (struct deadline){ .end_mono_ms = INT64_MAX, .give_way = pass_at_look, .arg = x };
	x->deadline = &a.deadline;
	x->n = 0;
	r = api_callers(&a, &err);
	/* As after all queries. */
	if (r == 0)
		r = deadline_check(&a.deadline, 0, &err);
	*ret_status = a.status;
	*ret_err = err;
	query_end(&a);
	return r;
}

/* Wherever it passes: not 404, which would say that there is no such function. */
static void a_query_that_is_late_is_no_answer(void **state)
{
	char dir[TEST_PATH_SIZE];
	struct profilestore *s = store_of_many_functions(dir);
	struct passing x = { 0 };
	struct err err = { 0 };
	unsigned status, n;

	assert_done(ask_callers(s, &x, &status, &err));
	n = x.n;
	assert_true(n > 3);
	for (x.at = 1; x.at <= n; x.at++) {
		assert_int_equal(ask_callers(s, &x, &status, &err), -1);
		assert_int_equal(err.kind, ERR_CANCELLED);
		assert_int_equal(status, 0);
	}
	profilestore_close(s);
	test_dir_remove(dir);
}

/* A lender that cannot make its answer of lent stacks. */
struct refusing {
	struct api_lender lender; /* first */
	unsigned n_begun, n_lent;
	bool has_memory;
};

static void refusing_begin(struct api_lender *lender)
{
	struct refusing *x = (struct refusing *)lender;

	x->n_begun++;
	x->has_memory = false;
}

static int refusing_stacks(struct api_lender *lender, const struct profilestore_merged *m,
			   struct profile_trie *in, struct err *err)
{
	struct refusing *x = (struct refusing *)lender;

	x->n_lent++;
	x->has_memory = true;
	return API_NEEDS_PROFILE;
}

static void what_was_made_of_lent_stacks_is_freed_before_they_are_copied(void **state)
{
	struct refusing x = { .lender = { .stacks = refusing_stacks, .begin = refusing_begin } };
	AUTO(api_merged_done) struct api_merged m = { 0 };
	char dir[TEST_PATH_SIZE];
	struct profilestore *s = store_of_many_functions(dir);
	struct arena arena;
	struct api a;
	struct err err = { 0 };

	query_begin(&a, &arena, s);
	assert_int_equal(api_merge(&a, PROFILESTORE_FUNCTIONS, &x.lender, &m, &err), 0);
	assert_int_equal(m.side[0].profile->n_samples, FUNCTIONS);
	assert_int_equal(x.n_lent, 1);
	assert_int_equal(x.n_begun, 2);
	assert_false(x.has_memory);
	api_merged_done(&m);
	m = (struct api_merged){ 0 };
	query_end(&a);
	profilestore_close(s);
	test_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_parsed_in_every_form),
		cmocka_unit_test(invalid_times_are_refused),
		cmocka_unit_test(durations_are_parsed),
		cmocka_unit_test(the_fault_decides_the_status),
		cmocka_unit_test(base64_is_decoded),
		cmocka_unit_test(the_name_of_a_program_is_split_into_labels),
		cmocka_unit_test(the_name_or_the_units_say_what_text_counts),
		cmocka_unit_test(the_unit_of_a_time_follows_from_its_digits),
		cmocka_unit_test(multipart_forms_are_parsed),
		cmocka_unit_test(a_query_that_is_late_is_no_answer),
		cmocka_unit_test(what_was_made_of_lent_stacks_is_freed_before_they_are_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
