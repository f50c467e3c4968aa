/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver over the store, and resolvers in a row. */
#include "test.h"

#include "elf_writer.h"
#include "pkg_writer.h"
#include "resolve_mem.h"

struct fixture {
	struct store *st;
	struct resolver *r;
	struct arena arena;
	struct build_id id;
	struct resolve_why why;
	struct resolve_answer ans;
};

static int set_up(void **state)
{
	struct fixture *f = NEW(struct fixture);

	f->st = store_open_memory(&(struct store_options){ 0 });
	f->r = resolve_store_new(f->st);
	arena_init(&f->arena);
	build_id_parse(&f->id, STR("00112233445566778899aabbccddeeff00112233"));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	resolve_close(f->r);
	store_close(f->st);
	arena_done(&f->arena);
	free(f);
	return 0;
}

static void put(struct fixture *f, enum store_kind kind, const char *arg, enum store_quality quality,
		struct bytes b)
{
	struct store_key key = { f->id, kind, str_of(arg) };
	struct store_meta meta = {
		.origin = STORE_PUSHED, .quality = quality, .file = STR("x.debug"), .mtime = 5
	};
	struct err err = { 0 };

	assert_done(store_put_bytes(f->st, &key, &meta, false, b, STORE_ALWAYS, &err));
}

static int ask(struct fixture *f, enum resolve_kind kind, const char *arg)
{
	struct resolve_request req = { kind, f->id, str_of(arg) };
	struct err err = { 0 };
	int r;

	resolve_why_init(&f->why, &f->arena);
	r = resolve(f->r, &req, (struct resolve_wake){ 0 }, &f->ans, &f->why, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

static void check(struct fixture *f, enum resolve_kind kind, const char *arg, struct bytes want)
{
	struct err err = { 0 };
	struct bytes got;

	assert_int_equal(ask(f, kind, arg), 0);
	assert_done(source_read_arena(f->ans.source, range_of(0, f->ans.source->size), MIB(1), &f->arena,
				      &got, &err));
	assert_true(bytes_eq(got, want));
	source_close(f->ans.source);
}

static struct bytes text(const char *s)
{
	return bytes_of(s, strlen(s));
}

static void each_kind_is_found(void **state)
{
	struct fixture *f = *state;

	put(f, STORE_DEBUGINFO, "", STORE_DWARF, text("debug"));
	put(f, STORE_EXECUTABLE, "", STORE_STRIPPED, text("program"));
	put(f, STORE_SOURCE, "/usr/src/x.c", STORE_DWARF, text("int x;"));
	check(f, RESOLVE_DEBUGINFO, "", text("debug"));
	check(f, RESOLVE_EXECUTABLE, "", text("program"));
	check(f, RESOLVE_SOURCE, "/usr/src/x.c", text("int x;"));
	assert_int_equal(ask(f, RESOLVE_SOURCE, "/usr/src/y.c"), RESOLVE_MISSING);
	assert_non_null(f->why.first);
	f->id.b[0] ^= 1;
	assert_int_equal(ask(f, RESOLVE_DEBUGINFO, ""), RESOLVE_MISSING);
}

static void an_unstripped_program_is_its_own_debug_file(void **state)
{
	struct fixture *f = *state;

	put(f, STORE_EXECUTABLE, "", STORE_SYMBOLS, text("stripped"));
	assert_int_equal(ask(f, RESOLVE_DEBUGINFO, ""), RESOLVE_MISSING);
	put(f, STORE_EXECUTABLE, "", STORE_DWARF, text("with debug"));
	check(f, RESOLVE_DEBUGINFO, "", text("with debug"));
}

static void a_section_is_a_part_of_a_file(void **state)
{
	AUTO(buf_done) struct buf elf = { 0 };
	struct fixture *f = *state;
	struct elf_writer w = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, build_id_bytes(&f->id));
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, text("code"));
	elf_writer_section(&w, ".debug_str", SHT_PROGBITS, 0, text("strings"));
	elf_writer_finish(&w, &elf);
	elf_writer_done(&w);
	put(f, STORE_DEBUGINFO, "", STORE_DWARF, buf_bytes(&elf));
	check(f, RESOLVE_SECTION, ".debug_str", text("strings"));
	assert_int_equal(ask(f, RESOLVE_SECTION, ".nothing"), RESOLVE_MISSING);
	put(f, STORE_SECTION, ".nothing", STORE_DWARF, text("fetched"));
	check(f, RESOLVE_SECTION, ".nothing", text("fetched"));
}

static void a_source_is_taken_out_of_a_tar(void **state)
{
	static const struct pw_file files[] = {
		{ .path = "usr/src/x.c", .content = { (const uint8_t *)"int x;", 6 }, .mtime = 99 },
		{ .path = "./usr/src/empty.h" },
		{ .path = "../../etc/passwd", .content = { (const uint8_t *)"root", 4 } },
	};
	AUTO(buf_done) struct buf tar = { 0 };
	struct fixture *f = *state;

	pw_tar(&tar, PW_PAX, files, ARRAY_SIZE(files));
	put(f, STORE_SOURCES, "", STORE_DWARF, buf_bytes(&tar));
	check(f, RESOLVE_SOURCE, "/usr/src/x.c", text("int x;"));
	assert_int_equal(f->ans.mtime, 99);
	assert_str(f->ans.file, "/usr/src/x.c");
	check(f, RESOLVE_SOURCE, "/usr/src/../src/./x.c", text("int x;"));
	check(f, RESOLVE_SOURCE, "/usr/src/empty.h", text(""));
	assert_int_equal(ask(f, RESOLVE_SOURCE, "/etc/passwd"), RESOLVE_MISSING);
	assert_int_equal(ask(f, RESOLVE_SOURCE, "/../../etc/passwd"), RESOLVE_MISSING);
}

static void a_chain_asks_one_after_the_other(void **state)
{
	struct fixture *f = *state;
	struct resolver *first = resolve_mem_new(), *last = resolve_mem_new();
	struct resolver *links[] = { first, f->r, last };
	const struct err broken = { .kind = ERR_IO, .text = "broken" };
	struct resolve_request req = { RESOLVE_DEBUGINFO, f->id, STR("") };
	struct err err = { 0 };

	put(f, STORE_EXECUTABLE, "", STORE_STRIPPED, text("store"));
	resolve_mem_put(last, RESOLVE_DEBUGINFO, &f->id, STR(""), text("last"), STR("l"), STR(""), 1);
	resolve_mem_put(last, RESOLVE_EXECUTABLE, &f->id, STR(""), text("last"), STR("l"), STR(""), 1);
	f->r = resolve_chain_new(links, 3);
	check(f, RESOLVE_DEBUGINFO, "", text("last"));
	check(f, RESOLVE_EXECUTABLE, "", text("store"));
	resolve_mem_fail(first, RESOLVE_EXECUTABLE, &f->id, STR(""), &broken);
	check(f, RESOLVE_EXECUTABLE, "", text("store"));
	f->id.b[0] ^= 1;
	req.id = f->id;
	assert_int_equal(ask(f, RESOLVE_DEBUGINFO, ""), RESOLVE_MISSING);
	resolve_mem_fail(first, RESOLVE_DEBUGINFO, &f->id, STR(""), &broken);
	assert_fails(resolve(f->r, &req, (struct resolve_wake){ 0 }, &f->ans, &f->why, &err), ERR_IO,
		     "broken");
}

static int gather(void *arg, const struct index_metadata *m)
{
	char id[BUILD_ID_HEX_SIZE];

	buf_printf(arg, "%.4s %c " STR_FMT " " STR_FMT ";", build_id_hex(&m->build_id, id),
		   m->debuginfo ? 'd' : 'e', STR_ARG(m->file), STR_ARG(m->archive));
	return 0;
}

#define QUERY(k, v, from, n, to)         \
	(&(struct index_metadata_query){ \
		.key = (k), .value = (v), .cursor = (from), .max = (n), .fn = gather, .arg = (to) })

/* All results, from pages of @max. */
static const char *metadata(struct fixture *f, const char *key, const char *value, size_t max)
{
	AUTO(buf_done) struct buf b = { 0 }, cursor = { 0 };
	struct index_metadata_page page = { 0 };
	struct err err = { 0 };

	do {
		cursor.size = 0;
		buf_add_str(&cursor, buf_str(&page.next));
		assert_done(resolve_metadata(
			f->r, QUERY(str_of(key), str_of(value), buf_str(&cursor), max, &b), &page, &err));
		assert_true(page.complete);
	} while (page.next.size);
	buf_done(&page.next);
	return arena_strdup(&f->arena, buf_str(&b));
}

static void put_named(struct fixture *f, const char *id, enum store_kind kind, enum store_quality quality,
		      const char *file, const char *archive)
{
	struct store_meta meta = {
		.origin = STORE_PUSHED, .quality = quality, .file = str_of(file), .archive = str_of(archive)
	};
	struct store_key key = { .kind = kind };
	struct err err = { 0 };

	build_id_parse(&key.id, str_of(id));
	assert_done(store_put_bytes(f->st, &key, &meta, false, text(id), STORE_ALWAYS, &err));
}

static void paths_and_build_ids_are_known(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	struct index_metadata_page page = { 0 };

	resolve_close(f->r);
	store_close(f->st);
	f->st = store_open_memory(&(struct store_options){ .object_list = true });
	f->r = resolve_store_new(f->st);
	put_named(f, "ab01", STORE_EXECUTABLE, STORE_DWARF, "app", "");
	put_named(f, "ab02", STORE_EXECUTABLE, STORE_STRIPPED, "/usr/bin/app", "");
	put_named(f, "ab02", STORE_DEBUGINFO, STORE_DWARF, "/usr/lib/debug/app", "/pool/a.deb");
	put_named(f, "ab03", STORE_DEBUGINFO, STORE_DWARF, "", "");
	for (size_t max = 1; max < 5; max++) {
		assert_string_equal(metadata(f, "file", "/usr/./bin//app", max), "ab02 e /usr/bin/app ;");
		assert_string_equal(metadata(f, "file", "/app", max), "ab01 e /app ;ab01 d /app ;");
		assert_string_equal(metadata(f, "glob", "/a*", max), "ab01 e /app ;ab01 d /app ;");
		assert_string_equal(metadata(f, "glob", "/usr/*/a*", max), "ab02 e /usr/bin/app ;");
		assert_string_equal(metadata(f, "glob", "*", max), "");
		assert_string_equal(metadata(f, "buildid", "ab01", max), "ab01 e /app ;ab01 d /app ;");
		assert_string_equal(metadata(f, "buildid", "ab02", max),
				    "ab02 d /usr/lib/debug/app /pool/a.deb;ab02 e /usr/bin/app ;");
		assert_string_equal(metadata(f, "buildid", "ab03", max), "ab03 d  ;");
		assert_string_equal(metadata(f, "buildid", "ab04", max), "");
	}
	assert_fails(
		resolve_metadata(f->r, QUERY(STR("buildid"), STR("x"), STR(""), 1, &page.next), &page, &err),
		ERR_INVALID, "build ID");
	assert_fails(
		resolve_metadata(f->r, QUERY(STR("file"), STR("/x"), STR("y"), 1, &page.next), &page, &err),
		ERR_INVALID, "cursor");
	buf_done(&page.next);
}

static void a_chain_gives_the_metadata_of_all_links(void **state)
{
	struct fixture *f = *state;
	struct resolver *first = resolve_mem_new(), *last = resolve_mem_new(), *inner[2], *outer[2];
	struct build_id id;
	struct index_metadata_page page = { 0 };
	struct err err = { 0 };

	build_id_parse(&id, STR("ab01"));
	resolve_mem_put(first, RESOLVE_DEBUGINFO, &id, STR(""), text("x"), STR("/x/1"), STR(""), 1);
	resolve_mem_put(first, RESOLVE_EXECUTABLE, &id, STR(""), text("x"), STR("/x/2"), STR(""), 1);
	resolve_mem_put(last, RESOLVE_EXECUTABLE, &id, STR(""), text("x"), STR("/x/4"), STR(""), 1);
	put_named(f, "ab01", STORE_EXECUTABLE, STORE_DWARF, "/x/3", "");
	inner[0] = first;
	inner[1] = f->r;
	outer[0] = resolve_chain_new(inner, 2);
	outer[1] = last;
	f->r = resolve_chain_new(outer, 2);
	for (size_t max = 1; max < 7; max++) {
		const char *all = metadata(f, "buildid", "ab01", max);

		assert_string_equal(all + strlen(all) - 39, "ab01 e /x/3 ;ab01 d /x/3 ;ab01 e /x/4 ;");
		assert_int_equal(strlen(all), 5 * 13);
	}
	assert_fails(resolve_metadata(f->r, QUERY(STR("buildid"), STR("ab01"), STR("@7:x"), 1, &page.next),
				      &page, &err),
		     ERR_INVALID, "cursor");
	buf_done(&page.next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_kind_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_unstripped_program_is_its_own_debug_file, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_section_is_a_part_of_a_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_source_is_taken_out_of_a_tar, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_chain_asks_one_after_the_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(paths_and_build_ids_are_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_chain_gives_the_metadata_of_all_links, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
