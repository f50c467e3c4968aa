/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "frame/frame.h"

static const char *name(const char *linkage, enum frame_demangling how)
{
	static char text[1024];
	struct symtab_frame f = { .linkage = str_of(linkage) };
	AUTO(buf_done) struct buf b = { 0 };

	frame_name(&f, how, &b);
	snprintf(text, sizeof(text), "%s", buf_cstr(&b));
	return text;
}

static void names_in_four_degrees(void **state)
{
	const char *n = "_ZN2ns1fIiSt6vectorIiEEEvT_T0_";

	assert_string_equal(name(n, FRAME_DEMANGLE_NONE), n);
	assert_string_equal(name(n, FRAME_DEMANGLE_FULL),
			    "void ns::f<int, std::vector<int> >(int, std::vector<int>)");
	assert_string_equal(name(n, FRAME_DEMANGLE_TEMPLATES), "ns::f<int, std::vector<int> >");
	assert_string_equal(name(n, FRAME_DEMANGLE_SIMPLE), "ns::f");
}

static void signs_of_operators_are_no_brackets(void **state)
{
	assert_string_equal(name("_ZN1AlsIiEERS_T_", FRAME_DEMANGLE_SIMPLE), "A::operator<<");
	assert_string_equal(name("_ZN1AltIiEEbT_", FRAME_DEMANGLE_SIMPLE), "A::operator<");
	assert_string_equal(name("_ZN1AptEv", FRAME_DEMANGLE_SIMPLE), "A::operator->");
	assert_string_equal(name("_ZN1BIiEcvT_IfEEv", FRAME_DEMANGLE_NONE), "_ZN1BIiEcvT_IfEEv");
}

/* As pprof's demangler has them without template arguments. */
static void conversions_have_no_template_arguments_either(void **state)
{
	static const char *const names[][2] = {
		{ "_ZN1BcvPT_IiEEv", "B::operator int*" },
		{ "_ZN1BcvRT_IiEEv", "B::operator int&" },
		{ "_ZN1BcvOT_IiEEv", "B::operator int&&" },
		{ "_ZNK1BcvPKPKT_IiEEv", "B::operator int const* const*" },
		{ "_ZN1BcvPFT_iEIiEEv", "B::operator int (*)(int)" },
		{ "_ZN1BcvRA3_T_IiEEv", "B::operator int (&) [3]" },
		{ "_ZN1BcvPSt6vectorIT_EIiEEv", "B::operator std::vector*" },
		{ "_ZN1BcvMSt6vectorIT_EFS2_iEIiEEv", "B::operator std::vector (std::vector::*)(int)" },
		{ "_ZN1BcvT_IlEEv", "B::operator long" },
		{ "_ZN1BIiEcvPT_ISt6vectorIcEEEv", "B::operator std::vector*" },
		{ "_ZN1BIiEcvPKcEv", "B::operator char const*" },
		{ "_ZZN1BcvRT_IiEEvENKUlvE_clEv", "B::operator int&()::{lambda()#1}::operator()" },
		{ "operator std::vector<int><int>", "operator std::vector" },
		/* A name that ends so is no operator. */
		{ "my_operator *<int>", "my_operator *<int>" },
	};

	assert_string_equal(name(names[0][0], FRAME_DEMANGLE_TEMPLATES), "B::operator int*<int>");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(name(names[i][0], FRAME_DEMANGLE_SIMPLE), names[i][1]);
}

static void operators_have_no_template_arguments_either(void **state)
{
	assert_string_equal(name("_ZNK1AclIiEET_S1_", FRAME_DEMANGLE_TEMPLATES), "A::operator()<int>");
	assert_string_equal(name("_ZNK1AclIiEET_S1_", FRAME_DEMANGLE_SIMPLE), "A::operator()");
	assert_string_equal(name("_ZNK1AeqIiEEbT_", FRAME_DEMANGLE_SIMPLE), "A::operator==");
	assert_string_equal(name("_ZNK1ApLIiEET_S1_", FRAME_DEMANGLE_SIMPLE), "A::operator+=");
	assert_string_equal(name("_ZNK1AcmIiEET_S1_", FRAME_DEMANGLE_SIMPLE), "A::operator,");
	assert_string_equal(name("_ZNK1AixIiEET_S1_", FRAME_DEMANGLE_SIMPLE), "A::operator[]");
	assert_string_equal(name("_ZNK1AclEi", FRAME_DEMANGLE_SIMPLE), "A::operator()");
}

static void rusts_turbofish_is_left_out(void **state)
{
	struct symtab_frame f = { .name = STR("m::<impl m::T<u8>>::f") };
	AUTO(buf_done) struct buf b = { 0 };

	assert_string_equal(
		name("_RINvCs6GmmlP4bgsG_1r3genRejNCNvB2_4mains0_0EB2_", FRAME_DEMANGLE_TEMPLATES),
		"r::gen::<&str, usize, r::main::{closure#2}>");
	assert_string_equal(name("_RINvCs6GmmlP4bgsG_1r3genRejNCNvB2_4mains0_0EB2_", FRAME_DEMANGLE_SIMPLE),
			    "r::gen");
	frame_name(&f, FRAME_DEMANGLE_SIMPLE, &b);
	assert_str(buf_str(&b), "m::<impl m::T>::f");
}

/* Of code made at run time, which perf inject writes into ELF files. */
static void brackets_that_are_a_part_of_a_name_stay(void **state)
{
	static const char *const names[] = { "C::<init>",
					     "C::<clinit>",
					     "P::<Main>$",
					     "C::<>c::<Main>b__0",
					     "C::<Run>d__1::MoveNext",
					     "main::<lambda(int)>::operator()" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(name(names[i], FRAME_DEMANGLE_SIMPLE), names[i]);
}

static void rusts_brackets_at_the_begin_of_a_name_stay(void **state)
{
	struct symtab_frame f = { .name = STR("f<T>") };
	AUTO(buf_done) struct buf b = { 0 };

	assert_string_equal(
		name("_ZN4core3fmt9Formatter9write_fmt17h0123456789abcdefE", FRAME_DEMANGLE_SIMPLE),
		"core::fmt::Formatter::write_fmt");
	frame_name(&f, FRAME_DEMANGLE_SIMPLE, &b);
	assert_str(buf_str(&b), "f");
}

/* A name of a hostile file: each of 32 000 brackets is open. Ten of them take a minute if each is searched for to the end. */
static void many_open_brackets_take_little_time(void **state)
{
	AUTO(buf_done) struct buf n = { 0 };

	for (unsigned i = 0; i < 32000; i++)
		buf_add_str(&n, STR("a<"));
	for (unsigned i = 0; i < 10; i++) {
		struct symtab_frame f = { .name = buf_str(&n) };
		AUTO(buf_done) struct buf b = { 0 };

		frame_name(&f, FRAME_DEMANGLE_SIMPLE, &b);
		assert_int_equal(b.size, n.size);
	}
	assert_string_equal(name("a<b<c<d<int>::e<f>", FRAME_DEMANGLE_SIMPLE), "a<b<c<d::e");
}

static void gos_escapes_are_undone(void **state)
{
	assert_string_equal(name("gopkg.in/yaml%2ev2.(*parser).parse", FRAME_DEMANGLE_FULL),
			    "gopkg.in/yaml.v2.(*parser).parse");
	assert_string_equal(name("gopkg.in/yaml%2ev2.f", FRAME_DEMANGLE_NONE), "gopkg.in/yaml%2ev2.f");
	assert_string_equal(name("a%", FRAME_DEMANGLE_FULL), "a%");
	assert_string_equal(name("a%zz%00", FRAME_DEMANGLE_FULL), "a%zz%00");
}

static void a_frame_without_a_name_has_none(void **state)
{
	assert_string_equal(name("", FRAME_DEMANGLE_FULL), "");
}

static void every_reason_has_a_name_and_a_text(void **state)
{
	for (unsigned i = 0; i < FRAME_N_REASONS; i++) {
		assert_non_null(frame_reason_name(i));
		assert_non_null(frame_reason_text(i));
	}
}

static void assert_advice(const struct frame_case *c, const char *want)
{
	AUTO(buf_done) struct buf b = { 0 };

	frame_advice(c, &b);
	assert_string_equal(buf_cstr(&b), want);
}

static void advice_names_servers_and_packages(void **state)
{
	struct frame_case c = { .reason = FRAME_NO_DEBUG_INFO,
				.asks_nobody = true,
				.server = STR("https://d"),
				.install = STR("apt install x-dbgsym"),
				.package = STR("x-dbgsym") };

	assert_advice(&c, "no server was asked: ask one by --server https://d; or apt install x-dbgsym");
	c.asks_nobody = false;
	c.asked = STR("http://a http://b");
	assert_advice(&c,
		      "it was asked for, in this order until one had a file, at http://a http://b; or ask "
		      "https://d too: --server URL; or apt install x-dbgsym");
	c.asked = STR("http://a https://d");
	assert_advice(
		&c,
		"it was asked for, in this order until one had a file, at http://a https://d; or apt install "
		"x-dbgsym");
	c.keeps_misses = true;
	assert_advice(
		&c, "it was asked for, in this order until one had a file, at http://a https://d (a miss is "
		    "remembered for minutes; --server URL asks again at once); or apt install x-dbgsym");
	c = (struct frame_case){ .reason = FRAME_UNKNOWN,
				 .at_server = true,
				 .asks_nobody = true,
				 .server = STR("https://d"),
				 .package = STR("x-dbgsym") };
	assert_advice(
		&c,
		"this server asks no other: start it with --debuginfod-upstream-servers https://d; or put "
		"the "
		"package x-dbgsym into a scanned folder; or push the debug file: lode push FILE --to URL");
	c = (struct frame_case){ .reason = FRAME_UPSTREAM_404,
				 .at_server = true,
				 .asked = STR("http://a"),
				 .server = STR("https://d") };
	assert_advice(&c, "it was asked for at http://a; or add --debuginfod-upstream-servers https://d to "
			  "lode serve; or "
			  "put its package (Debian: -dbgsym, Fedora: -debuginfo) into a scanned folder; or "
			  "push the debug "
			  "file: lode push FILE --to URL");
	c.reason = FRAME_TIMED_OUT;
	c.package = STR("x-dbgsym");
	assert_advice(
		&c, "wait, it will be asked for again at http://a; or add --debuginfod-upstream-servers "
		    "https://d to lode serve; or put the package x-dbgsym into a scanned folder; or push the "
		    "debug file: lode push FILE --to URL");
	/* Waiting mends neither a refusal nor a wrong file. */
	c = (struct frame_case){ .reason = FRAME_UPSTREAM_FAILED,
				 .at_server = true,
				 .asked = STR("http://a"),
				 .package = STR("x") };
	assert_advice(
		&c,
		"wait, it will be asked for again at http://a. If a server answered 401 or 403, add "
		"credentials to its URL (USER:PASSWORD@HOST); if one redirects to another host, allow that "
		"by --upstream-redirects, or name that host; if one sent a file of another build ID, "
		"replace the file there; or put the package x into a scanned folder; or push the debug "
		"file: lode push FILE --to URL");
	c = (struct frame_case){ .reason = FRAME_UPSTREAM_FAILED, .asked = STR("http://a") };
	assert_advice(
		&c,
		"run the command again later, when its server answers: it was asked for at http://a. If a "
		"server answered 401 or 403, put credentials into the file $DEBUGINFOD_HEADERS_FILE; if "
		"one redirects where no client may follow, name the server that has the file; if one sent "
		"a file of another build ID, replace the file there");
	c = (struct frame_case){ .reason = FRAME_ALT_MISSING };
	assert_advice(&c, "install the package that has the supplementary (dwz) file, put it at its path, or "
			  "name it: lode symbolize -e FILE --alt FILE");
	c.missing = STR("/x/y.debug");
	assert_advice(&c, "install the package that has the supplementary (dwz) file, put it at its path, or "
			  "name it: lode symbolize -e FILE --alt FILE; "
			  "missing: /x/y.debug");
	c = (struct frame_case){ .reason = FRAME_NO_SYMBOLS,
				 .asked = STR("http://a"),
				 .place = STR("/usr/bin/x.debug") };
	assert_advice(&c, "it was asked for at http://a; or put its debug file at /usr/bin/x.debug");
	for (unsigned i = 0; i < FRAME_N_REASONS; i++) {
		AUTO(buf_done) struct buf b = { 0 };

		frame_advice(&(struct frame_case){ .reason = (enum frame_reason)i }, &b);
		assert_int_equal(b.size != 0, i != FRAME_FOUND);
	}
}

static void servers_that_were_not_asked_are_not_named(void **state)
{
	struct frame_case c = { .reason = FRAME_NO_DEBUG_INFO,
				.asked = STR("http://a http://b"),
				.sent = STR("http://a/x"),
				.kept = STR("/cache/x") };

	assert_advice(
		&c,
		"its file without debug information was sent from http://a/x, so servers after that one were "
		"not asked: remove /cache/x, and ask another one alone by --server URL");
	c.sent = STR("");
	assert_advice(
		&c, "its file without debug information was sent before, so servers after that one were not "
		    "asked: remove /cache/x, and ask another one alone by --server URL");
	/* The distribution's server is named, unless it may be the one that sent the file. */
	c.server = STR("https://d");
	assert_advice(
		&c, "its file without debug information was sent before, so servers after that one were not "
		    "asked: remove /cache/x, and ask another one alone by --server https://d");
	c.asked = STR("http://a https://d");
	assert_advice(
		&c, "its file without debug information was sent before, so servers after that one were not "
		    "asked: remove /cache/x, and ask another one alone by --server URL");
	c = (struct frame_case){ .reason = FRAME_NO_DEBUG_INFO,
				 .at_server = true,
				 .asked = STR("http://a http://b"),
				 .package = STR("x") };
	assert_advice(&c, "it was asked for, in this order until one had a file, at http://a http://b; or "
			  "put the package x "
			  "into a scanned folder; or push the debug file: lode push FILE --to URL");
}

static void outside_of_symbols_is_not_outside_of_functions(void **state)
{
	const struct frame_layout l = { .n_segments = 1, .segments = { { 0, 0x100, 0x1000, 0x100, true } } };
	struct symtab_info symbols = { .flags = SYMTAB_HAS_SYMBOLS }, dwarf = { .flags = SYMTAB_HAS_DWARF },
			   go = { .flags = SYMTAB_HAS_GO };

	assert_int_equal(frame_reason_outside(&symbols, FRAME_FOUND, &l, 0x1010), FRAME_NO_DEBUG_INFO);
	assert_int_equal(frame_reason_outside(&symbols, FRAME_FOUND, NULL, 0x1010), FRAME_NO_DEBUG_INFO);
	assert_int_equal(frame_reason_outside(&symbols, FRAME_FOUND, &l, 0x10), FRAME_OUTSIDE);
	/* Of several reasons the one that a user can act on. */
	assert_int_equal(frame_reason_outside(&symbols, FRAME_UPSTREAM_404, &l, 0x1010), FRAME_NO_DEBUG_INFO);
	assert_int_equal(frame_reason_outside(&symbols, FRAME_TIMED_OUT, &l, 0x1010), FRAME_TIMED_OUT);
	assert_int_equal(frame_reason_outside(&symbols, FRAME_DAMAGED, NULL, 0x1010), FRAME_DAMAGED);
	assert_int_equal(frame_reason_outside(&symbols, FRAME_TIMED_OUT, &l, 0x10), FRAME_OUTSIDE);
	assert_int_equal(frame_reason_outside(&dwarf, FRAME_TIMED_OUT, &l, 0x1010), FRAME_OUTSIDE);
	assert_int_equal(frame_reason_outside(&go, FRAME_TIMED_OUT, &l, 0x1010), FRAME_OUTSIDE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_in_four_degrees),
		cmocka_unit_test(signs_of_operators_are_no_brackets),
		cmocka_unit_test(operators_have_no_template_arguments_either),
		cmocka_unit_test(conversions_have_no_template_arguments_either),
		cmocka_unit_test(rusts_turbofish_is_left_out),
		cmocka_unit_test(brackets_that_are_a_part_of_a_name_stay),
		cmocka_unit_test(rusts_brackets_at_the_begin_of_a_name_stay),
		cmocka_unit_test(many_open_brackets_take_little_time),
		cmocka_unit_test(gos_escapes_are_undone),
		cmocka_unit_test(a_frame_without_a_name_has_none),
		cmocka_unit_test(every_reason_has_a_name_and_a_text),
		cmocka_unit_test(advice_names_servers_and_packages),
		cmocka_unit_test(servers_that_were_not_asked_are_not_named),
		cmocka_unit_test(outside_of_symbols_is_not_outside_of_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
