/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which places are asked, and the paths that they are asked for.
 */
#include "test.h"

#include <stdio.h>
#include "companion/companion.h"
#include "elf_writer.h"

/* A place that notes every path it is asked for, and has one of them. */
struct noted_place {
	struct companion_place place;
	const char *has; /* NULL: nothing */
	struct bytes content;
	int alt_result;
	struct buf asked;
};

static int noted_open(struct noted_place *n, const char *path, struct source **ret)
{
	buf_printf(&n->asked, "%s ", path);
	if (!n->has || strcmp(path, n->has) != 0)
		return COMPANION_NONE;
	*ret = source_of_mem(n->content, path);
	return 0;
}

static int noted_open_path(const struct companion_place *p, const char *path, struct source **ret)
{
	return noted_open(p->arg, path, ret);
}

static int noted_open_alt(const struct companion_place *p, const char *link, const struct build_id *id,
			  struct source **ret)
{
	struct noted_place *n = p->arg;

	assert_int_equal(id->size, 20);
	return n->alt_result ? n->alt_result : noted_open(n, link, ret);
}

static void noted_init(struct noted_place *n, const char *debug, const char *program)
{
	*n = (struct noted_place){ .place = { .paths = { debug, program },
					      .open_path = noted_open_path,
					      .open_alt = noted_open_alt,
					      .arg = n } };
}

static void expect_asked(struct noted_place *n, const char *want)
{
	assert_str(buf_str(&n->asked), want);
	buf_done(&n->asked);
	n->asked = (struct buf){ 0 };
}

static void a_dwp_is_beside_the_debug_file_or_the_program(void **state)
{
	struct source *src;
	struct noted_place n;

	noted_init(&n, "/d/p.debug", "/bin/p");
	assert_int_equal(companion_open_dwp(&n.place, 1, &src), COMPANION_NONE);
	expect_asked(&n, "/d/p.debug.dwp /d/p.dwp /bin/p.dwp ");
	n.has = "/d/p.dwp";
	assert_int_equal(0, companion_open_dwp(&n.place, 1, &src));
	source_close(src);
	expect_asked(&n, "/d/p.debug.dwp /d/p.dwp ");
}

static void a_dwo_is_where_it_was_compiled_or_beside_a_path(void **state)
{
	struct source *src;
	struct noted_place n;

	noted_init(&n, NULL, "/bin/p");
	assert_int_equal(companion_open_dwo(&n.place, 1, STR("/src"), STR("o/a.dwo"), &src), COMPANION_NONE);
	expect_asked(&n, "/src/o/a.dwo /bin/o/a.dwo /bin/a.dwo ");
	assert_int_equal(companion_open_dwo(&n.place, 1, STR("/src"), STR("a.dwo"), &src), COMPANION_NONE);
	expect_asked(&n, "/src/a.dwo /bin/a.dwo ");
	assert_int_equal(companion_open_dwo(&n.place, 1, STR("/src"), STR("/o/a.dwo"), &src), COMPANION_NONE);
	expect_asked(&n, "/o/a.dwo /bin/a.dwo ");
}

static void a_bad_name_is_not_looked_for(void **state)
{
	struct source *src;
	struct noted_place n;

	noted_init(&n, NULL, "/bin/p");
	assert_int_equal(companion_open_dwo(&n.place, 1, STR("/src"), STR(""), &src), COMPANION_NONE);
	assert_int_equal(companion_open_dwo(&n.place, 1, STR("/src"), STR("a\0b"), &src), COMPANION_NONE);
	expect_asked(&n, "");
}

static void places_are_asked_in_turn(void **state)
{
	struct noted_place n[2];
	struct companion_place places[2];
	struct source *src;

	noted_init(&n[0], "/a/p", NULL);
	noted_init(&n[1], "/b/p", NULL);
	n[1].has = "/b/x.dwo";
	places[0] = n[0].place;
	places[1] = n[1].place;
	assert_int_equal(0, companion_open_dwo(places, 2, STR(""), STR("x.dwo"), &src));
	source_close(src);
	expect_asked(&n[0], "/a/x.dwo ");
	expect_asked(&n[1], "/b/x.dwo ");
}

/* ---- supplementary files ---- */

static void make_elf(const char *alt, struct buf *out)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	uint8_t id[20] = { 1 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_EXEC);
	elf_writer_section(&w, ".debug_info", SHT_PROGBITS, 0, bytes_of("info", 4));
	if (alt)
		elf_writer_alt_link(&w, alt, bytes_of(id, sizeof(id)));
	elf_writer_finish(&w, out);
}

/* The outcome for a debug file that links to "x.dwz"; @ret is closed. */
static int find_alt(const struct companion_place *places, size_t n)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(buf_done) struct buf debug = { 0 };
	struct elf_image *alt = NULL;
	struct err err = { 0 };
	int r;

	make_elf("x.dwz", &debug);
	src = source_of_mem(buf_bytes(&debug), "debug");
	assert_done(elf_open(src, &img, &err));
	r = companion_open_alt(img, places, n, &alt);
	assert_int_equal(r == 0, alt != NULL);
	companion_close(alt);
	return r;
}

static void a_supplementary_file_that_is_not_elf_is_passed_over(void **state)
{
	AUTO(buf_done) struct buf good = { 0 };
	struct companion_place places[2];
	struct noted_place n[2];

	make_elf(NULL, &good);
	noted_init(&n[0], NULL, NULL);
	noted_init(&n[1], NULL, NULL);
	n[0].has = n[1].has = "x.dwz";
	n[0].content = bytes_of("no ELF", 6);
	n[1].content = buf_bytes(&good);
	places[0] = n[0].place;
	places[1] = n[1].place;
	assert_int_equal(find_alt(places, 1), COMPANION_NONE);
	assert_int_equal(0, find_alt(places, 2));
	expect_asked(&n[0], "x.dwz x.dwz ");
	expect_asked(&n[1], "x.dwz ");
}

static void a_place_that_waits_ends_the_search(void **state)
{
	struct companion_place places[2];
	struct noted_place n[2];

	noted_init(&n[0], NULL, NULL);
	noted_init(&n[1], NULL, NULL);
	n[0].alt_result = COMPANION_WAITS;
	places[0] = n[0].place;
	places[1] = n[1].place;
	assert_int_equal(find_alt(places, 2), COMPANION_WAITS);
	expect_asked(&n[1], "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dwp_is_beside_the_debug_file_or_the_program),
		cmocka_unit_test(a_dwo_is_where_it_was_compiled_or_beside_a_path),
		cmocka_unit_test(a_bad_name_is_not_looked_for),
		cmocka_unit_test(places_are_asked_in_turn),
		cmocka_unit_test(a_supplementary_file_that_is_not_elf_is_passed_over),
		cmocka_unit_test(a_place_that_waits_ends_the_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
