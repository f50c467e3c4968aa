/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order and the verdicts; tests/differential/test_local.py compares the choice with gdb's.
 */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "elf_writer.h"
#include "local/local.h"

static const char ID[] = "aabbccddeeff00112233445566778899aabbccdd";
static const char OTHER_ID[] = "ffbbccddeeff00112233445566778899aabbccdd";

/* A folder: "bin/x" with @link to "x.debug" whose CRC is @crc; "debug" as the debug directory. */
struct tree {
	char top[TEST_PATH_SIZE];
	struct arena a;
	struct buf file;
	struct source *src;
	struct elf_image *img;
	struct local *l;
	struct local_trail trail;
	struct local_found found;
	const char *path;
};

static const char *at(struct tree *t, const char *name)
{
	return arena_printf(&t->a, "%s/%s", t->top, name);
}

static void put(struct tree *t, const char *name, const struct buf *b)
{
	struct err err = { 0 };
	const char *path = at(t, name);
	struct str dir = path_dirname(str_of(path));

	assert_done(dir_make(arena_strdup(&t->a, dir), 0755, &err));
	test_file_write(path, b->p, b->size);
}

static uint32_t debug_file(struct tree *t, const char *name, const char *id)
{
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_debug_file(&b, ET_DYN, id, 1000);
	put(t, name, &b);
	return (uint32_t)crc32(0, b.p, (uInt)b.size);
}

static void tree_open(struct tree *t, const char *link_name, uint32_t crc)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	struct local_options opts = { 0 };
	struct err err = { 0 };
	uint8_t id[20];
	size_t n;

	hex_decode(str_of(ID), false, id, sizeof(id), &n);
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, bytes_of(id, n));
	if (link_name)
		elf_writer_debug_link(&w, link_name, crc);
	elf_writer_finish(&w, &t->file);
	put(t, "bin/x", &t->file);
	t->path = at(t, "bin/x");
	assert_done(source_open_file(t->path, &t->src, &err));
	assert_done(elf_open(t->src, &t->img, &err));
	opts.debug_directories = at(t, "debug");
	t->l = local_new(&opts);
}

static void tree_init(struct tree *t)
{
	test_dir_make(t->top);
}

static void tree_done(struct tree *t)
{
	local_found_done(&t->found);
	local_trail_done(&t->trail);
	local_free(t->l);
	elf_close(t->img);
	source_close(t->src);
	buf_done(&t->file);
	test_dir_remove(t->top);
	arena_done(&t->a);
}

static int find(struct tree *t)
{
	return local_debug_file(t->l, t->img, t->path, 0, &t->trail, &t->found);
}

static void assert_step(struct tree *t, size_t i, enum local_verdict verdict, const char *name)
{
	assert_true(i < t->trail.n_steps);
	assert_int_equal(t->trail.steps[i].verdict, verdict);
	if (name)
		assert_true(str_ends(str_of(t->trail.steps[i].path), str_of(name)));
}

static void build_id_comes_first(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	uint32_t crc;

	tree_init(&t);
	crc = debug_file(&t, "bin/x.debug", ID);
	debug_file(&t, "debug/.build-id/aa/bbccddeeff00112233445566778899aabbccdd.debug", ID);
	tree_open(&t, "x.debug", crc);
	assert_int_equal(find(&t), 0);
	assert_int_equal(t.found.way, LOCAL_BY_BUILD_ID);
	assert_non_null(t.found.src);
	assert_int_equal(t.trail.n_steps, 1);
}

static void a_file_of_another_build_id_is_passed_over(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	uint32_t crc;

	tree_init(&t);
	crc = debug_file(&t, "bin/x.debug", ID);
	debug_file(&t, "debug/.build-id/aa/bbccddeeff00112233445566778899aabbccdd.debug", OTHER_ID);
	tree_open(&t, "x.debug", crc);
	assert_int_equal(find(&t), 0);
	assert_int_equal(t.found.way, LOCAL_BY_LINK);
	assert_step(&t, 0, LOCAL_OTHER_ID, NULL);
	assert_step(&t, 1, LOCAL_TAKEN, "/bin/x.debug");
}

static void places_of_a_link_in_order(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };

	tree_init(&t);
	debug_file(&t, "bin/x.debug", ID);
	tree_open(&t, "x.debug", 0x12345678);
	assert_int_equal(find(&t), LOCAL_MISSING);
	assert_int_equal(t.trail.n_steps, 4);
	assert_step(&t, 0, LOCAL_ABSENT, "/debug/.build-id/aa/bbccddeeff00112233445566778899aabbccdd.debug");
	assert_step(&t, 1, LOCAL_OTHER_CRC, "/bin/x.debug");
	assert_step(&t, 2, LOCAL_ABSENT, "/bin/.debug/x.debug");
	assert_step(&t, 3, LOCAL_ABSENT, arena_printf(&t.a, "/debug/%s/bin/x.debug", t.top));
}

static void a_link_to_itself_is_refused(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };

	tree_init(&t);
	tree_open(&t, "x", 0);
	assert_int_equal(mkdir(at(&t, "bin/.debug"), 0755), 0);
	assert_int_equal(symlink("../x", at(&t, "bin/.debug/x")), 0);
	assert_int_equal(find(&t), LOCAL_MISSING);
	assert_step(&t, 1, LOCAL_SELF, "/bin/x");
	assert_step(&t, 2, LOCAL_SELF, "/bin/.debug/x");
}

static void a_build_id_link_to_itself_is_refused(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	struct err err = { 0 };

	tree_init(&t);
	tree_open(&t, NULL, 0);
	assert_done(dir_make(at(&t, "debug/.build-id/aa"), 0755, &err));
	assert_int_equal(
		symlink(t.path, at(&t, "debug/.build-id/aa/bbccddeeff00112233445566778899aabbccdd.debug")),
		0);
	assert_int_equal(find(&t), LOCAL_MISSING);
	assert_step(&t, 0, LOCAL_SELF, "/bin/x");
	assert_step(&t, 1, LOCAL_NOTHING, NULL);
}

static void a_changed_file_is_read_again(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	uint32_t crc;

	tree_init(&t);
	debug_file(&t, "bin/x.debug", OTHER_ID);
	{
		/* The CRC that it will have. */
		AUTO(buf_done) struct buf b = { 0 };

		elf_writer_debug_file(&b, ET_DYN, ID, 1000);
		crc = (uint32_t)crc32(0, b.p, (uInt)b.size);
	}
	tree_open(&t, "x.debug", crc);
	assert_int_equal(find(&t), LOCAL_MISSING);
	assert_int_equal(unlink(at(&t, "bin/x.debug")), 0);
	debug_file(&t, "bin/x.debug", ID);
	assert_int_equal(find(&t), 0);
}

static void unreadable_places_are_in_the_trail(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	struct buf text = { (uint8_t *)"text", 4, 4 };

	tree_init(&t);
	tree_open(&t, "x.debug", 1);
	put(&t, "debug/.build-id/aa/bbccddeeff00112233445566778899aabbccdd.debug", &text);
	assert_int_equal(mkdir(at(&t, "bin/x.debug"), 0755), 0);
	assert_int_equal(mkdir(at(&t, "bin/.debug"), 0755), 0);
	assert_int_equal(mkfifo(at(&t, "bin/.debug/x.debug"), 0644), 0);
	assert_int_equal(find(&t), LOCAL_MISSING);
	assert_step(&t, 0, LOCAL_NOT_ELF, NULL);
	assert_step(&t, 1, LOCAL_UNREADABLE, NULL);
	assert_step(&t, 2, LOCAL_UNREADABLE, NULL);
}

static void executables_by_build_id(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	struct build_id id;

	tree_init(&t);
	tree_open(&t, NULL, 0);
	put(&t, "debug/.build-id/aa/bbccddeeff00112233445566778899aabbccdd", &t.file);
	assert_true(build_id_parse(&id, str_of(ID)));
	assert_int_equal(local_build_id(t.l, &id, LOCAL_DEBUGINFO, NULL, &t.found), LOCAL_MISSING);
	assert_int_equal(local_build_id(t.l, &id, LOCAL_EXECUTABLE, NULL, &t.found), 0);
}

static void one_byte_is_a_build_id_too(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	struct build_id id;

	tree_init(&t);
	tree_open(&t, NULL, 0);
	debug_file(&t, "debug/.build-id/aa/.debug", "aa");
	assert_true(build_id_parse(&id, STR("aa")));
	assert_int_equal(local_build_id(t.l, &id, LOCAL_DEBUGINFO, &t.trail, &t.found), 0);
}

/* ---- another root ---- */

static const char ID_PLACE[] = ".build-id/aa/bbccddeeff00112233445566778899aabbccdd.debug";

static void tree_enter_root(struct tree *t)
{
	const struct local_options o = { .debug_directories = "/debug", .root = t->top };

	local_free(t->l);
	t->l = local_new(&o);
}

static void link_to(struct tree *t, const char *target, const char *name)
{
	const char *path = at(t, name);
	struct err err = { 0 };

	assert_done(dir_make(arena_strdup(&t->a, path_dirname(str_of(path))), 0755, &err));
	(void)unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static int find_rooted(struct tree *t)
{
	local_found_done(&t->found);
	t->found = (struct local_found){ 0 };
	return local_debug_file(t->l, t->img, "/bin/x", LOCAL_AS_NAMED, NULL, &t->found);
}

static void links_stay_in_another_root(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	char outside[TEST_PATH_SIZE];
	const char *place;

	tree_init(&t);
	test_dir_make(outside);
	debug_file(&t, "store/f.debug", ID);
	tree_open(&t, NULL, 0);
	tree_enter_root(&t);
	place = arena_printf(&t.a, "debug/%s", ID_PLACE);
	assert_int_equal(find_rooted(&t), LOCAL_MISSING);
	/* An absolute link leads to the file of this root, and so does one that climbs above it. */
	link_to(&t, "/store/f.debug", place);
	assert_int_equal(find_rooted(&t), 0);
	assert_string_equal(t.found.path, "/store/f.debug");
	link_to(&t, "../../../../../../../../../../../store/f.debug", place);
	assert_int_equal(find_rooted(&t), 0);
	assert_string_equal(t.found.path, "/store/f.debug");
	/* A file with the right build ID outside is out of reach. */
	test_file_write(arena_printf(&t.a, "%s/f.debug", outside), t.file.p, t.file.size);
	link_to(&t, arena_printf(&t.a, "%s/f.debug", outside), place);
	assert_int_equal(find_rooted(&t), LOCAL_MISSING);
	link_to(&t, arena_printf(&t.a, "%s/store/f.debug", t.top), place);
	assert_int_equal(find_rooted(&t), LOCAL_MISSING);
	test_dir_remove(outside);
}

static void links_in_a_circle_and_folders_of_another_root(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };

	tree_init(&t);
	debug_file(&t, arena_printf(&t.a, "real/%s", ID_PLACE), ID);
	tree_open(&t, NULL, 0);
	tree_enter_root(&t);
	link_to(&t, "b", "a");
	link_to(&t, "a", "b");
	link_to(&t, "/a", "debug");
	assert_int_equal(find_rooted(&t), LOCAL_MISSING);
	link_to(&t, "./bin/.././real", "debug");
	assert_int_equal(find_rooted(&t), 0);
	assert_string_equal(t.found.path, arena_printf(&t.a, "/real/%s", ID_PLACE));
}

static void a_debug_link_is_followed_in_another_root(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	uint32_t crc;

	tree_init(&t);
	crc = debug_file(&t, "debug/bin/x.debug", OTHER_ID);
	tree_open(&t, "x.debug", crc);
	tree_enter_root(&t);
	assert_int_equal(find_rooted(&t), 0);
	assert_int_equal(t.found.way, LOCAL_BY_LINK);
	assert_string_equal(t.found.path, "/debug//bin/x.debug");
}

static void a_root_that_is_gone_has_no_files(void **state)
{
	AUTO(tree_done) struct tree t = { 0 };
	const struct local_options o = { .debug_directories = "/debug", .root = "/nonexistent" };

	tree_init(&t);
	debug_file(&t, arena_printf(&t.a, "debug/%s", ID_PLACE), ID);
	tree_open(&t, NULL, 0);
	local_free(t.l);
	t.l = local_new(&o);
	assert_int_equal(find_rooted(&t), LOCAL_MISSING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build_id_comes_first),
		cmocka_unit_test(a_file_of_another_build_id_is_passed_over),
		cmocka_unit_test(places_of_a_link_in_order),
		cmocka_unit_test(a_link_to_itself_is_refused),
		cmocka_unit_test(a_build_id_link_to_itself_is_refused),
		cmocka_unit_test(a_changed_file_is_read_again),
		cmocka_unit_test(unreadable_places_are_in_the_trail),
		cmocka_unit_test(executables_by_build_id),
		cmocka_unit_test(one_byte_is_a_build_id_too),
		cmocka_unit_test(links_stay_in_another_root),
		cmocka_unit_test(links_in_a_circle_and_folders_of_another_root),
		cmocka_unit_test(a_debug_link_is_followed_in_another_root),
		cmocka_unit_test(a_root_that_is_gone_has_no_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
