/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"

static const char go_text[] =
	"aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq";

struct program {
	struct elf_writer w;
	struct buf bytes;
	struct source *src;
};

static void program_done(struct program *p)
{
	source_close(p->src);
	buf_done(&p->bytes);
	elf_writer_done(&p->w);
}

/* A program with these notes, NULL: none. */
static void program_make(struct program *p, uint16_t type, const char *gnu, const char *go)
{
	AUTO(buf_done) struct buf note = { 0 };

	elf_writer_init(&p->w, ELF_WRITER_X86_64, type);
	elf_writer_section(&p->w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of("code", 4));
	if (go) {
		elf_writer_note(&p->w, &note, 4, 4, "Go", bytes_of(go, strlen(go)));
		elf_writer_section(&p->w, ".note.go.buildid", SHT_NOTE, SHF_ALLOC, buf_bytes(&note));
	}
	if (gnu)
		elf_writer_build_id(&p->w, bytes_of(gnu, strlen(gnu)));
	elf_writer_finish(&p->w, &p->bytes);
	p->src = source_of_mem(buf_bytes(&p->bytes), "x");
}

static enum build_id_kind program_identify(struct program *p, struct elf_facts *facts,
					   struct elf_aliases *aliases)
{
	struct err err = { 0 };
	enum build_id_kind kind;

	assert_done(elf_identify(p->src, facts, &kind, aliases, &err));
	return kind;
}

static void the_hash_of_the_published_vector(void **state)
{
	static const uint8_t file[] = { 0x7f, 'E', 'L', 'F', 0, 1, 2, 3, 4 };
	AUTO(source_closep) struct source *src = source_of_mem(bytes_of(file, sizeof(file)), "x");
	char hex[BUILD_ID_HEX_SIZE];
	struct err err = { 0 };
	struct build_id id;

	assert_done(elf_file_hash(src, &id, &err));
	assert_string_equal(build_id_hex(&id, hex), "caf6e5907166ac76eef618e5f7f59cd9");
}

static void hashes_of_files_around_both_ends(void **state)
{
	/* By another implementation: byte i of the file is i * 7 mod 251. */
	static const struct {
		size_t size;
		const char *hash;
	} files[] = {
		{ 0, "af5570f5a1810b7af78caf4bc70a660f" },      { 1, "52807a4607ea5debf0b7d4ccb452f4af" },
		{ 4095, "c93eadb0c03d3ccefc8d3fdb6f98607d" },   { 4096, "7a2050c7d90d2cf08bfbfeb3886ffa1e" },
		{ 4097, "ce2b62a4648c5c6501701c5fc31cf33e" },   { 8191, "75a042c043f284215e4628c9d7e263bb" },
		{ 8192, "c0e2fbd5fd4efaa422e4d8a78eaea634" },   { 8193, "e74fc8dab24d52cbd046f087cef754ed" },
		{ 100000, "d1d6bf7bb805bbf213749a3662a6433a" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		AUTO(mem_freep) uint8_t *b = mem_alloc(files[i].size + 1);
		AUTO(source_closep) struct source *src = NULL;
		char hex[BUILD_ID_HEX_SIZE];
		struct err err = { 0 };
		struct build_id id;

		for (size_t at = 0; at < files[i].size; at++)
			b[at] = (uint8_t)(at * 7 % 251);
		src = source_of_mem(bytes_of(b, files[i].size), "x");
		assert_done(elf_file_hash(src, &id, &err));
		assert_string_equal(build_id_hex(&id, hex), files[i].hash);
	}
}

static void a_gnu_build_id_comes_first(void **state)
{
	AUTO(program_done) struct program p = { 0 };
	struct elf_aliases aliases;
	struct elf_facts facts;
	struct build_id hash;
	struct err err = { 0 };

	program_make(&p, ET_EXEC, "0123456789abcdefghij", go_text);
	assert_int_equal(program_identify(&p, &facts, &aliases), BUILD_ID_GNU);
	assert_true(bytes_eq(build_id_bytes(&facts.build_id), bytes_of("0123456789abcdefghij", 20)));
	assert_int_equal(aliases.n, 2);
	assert_int_equal(aliases.v[0].kind, BUILD_ID_GO);
	assert_true(bytes_eq(build_id_bytes(&aliases.v[0].id), bytes_of(go_text, strlen(go_text))));
	assert_int_equal(aliases.v[1].kind, BUILD_ID_HASH);
	assert_done(elf_file_hash(p.src, &hash, &err));
	assert_true(build_id_eq(&aliases.v[1].id, &hash));
}

static void without_one_the_go_build_id_then_the_hash(void **state)
{
	AUTO(program_done) struct program go = { 0 }, redacted = { 0 }, bare = { 0 };
	struct elf_aliases aliases;
	struct elf_facts facts;
	struct build_id hash;
	struct err err = { 0 };

	program_make(&go, ET_EXEC, NULL, go_text);
	assert_int_equal(program_identify(&go, &facts, &aliases), BUILD_ID_GO);
	assert_true(bytes_eq(build_id_bytes(&facts.build_id), bytes_of(go_text, strlen(go_text))));
	assert_int_equal(build_id_kind_of(&facts.build_id), BUILD_ID_GO);
	assert_int_equal(aliases.n, 1);
	assert_int_equal(aliases.v[0].kind, BUILD_ID_HASH);

	program_make(&redacted, ET_EXEC, NULL, "redacted");
	assert_int_equal(program_identify(&redacted, &facts, &aliases), BUILD_ID_HASH);

	program_make(&bare, ET_DYN, NULL, NULL);
	assert_int_equal(program_identify(&bare, &facts, &aliases), BUILD_ID_HASH);
	assert_done(elf_file_hash(bare.src, &hash, &err));
	assert_true(build_id_eq(&facts.build_id, &hash));
	assert_int_equal(aliases.n, 0);
}

static void files_that_no_process_maps_have_no_hash(void **state)
{
	AUTO(program_done) struct program object = { 0 }, module = { 0 };
	struct elf_aliases aliases;
	struct elf_facts facts;

	program_make(&object, ET_REL, NULL, NULL);
	program_identify(&object, &facts, &aliases);
	assert_int_equal(facts.build_id.size, 0);
	assert_int_equal(aliases.n, 0);
	program_make(&module, ET_REL, "0123456789abcdefghij", NULL);
	program_identify(&module, &facts, &aliases);
	assert_int_equal(facts.build_id.size, 20);
	assert_int_equal(aliases.n, 0);
}

static void a_file_is_recognised_by_each_identity(void **state)
{
	AUTO(program_done) struct program p = { 0 };
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct elf_aliases aliases;
	struct elf_facts facts;
	struct err err = { 0 };

	program_make(&p, ET_EXEC, "0123456789abcdefghij", go_text);
	program_identify(&p, &facts, &aliases);
	assert_done(elf_open(p.src, &img, &err));
	assert_true(elf_is_identified_by(p.src, img, &facts.build_id));
	for (unsigned i = 0; i < aliases.n; i++) {
		assert_true(elf_is_identified_by(p.src, img, &aliases.v[i].id));
		aliases.v[i].id.b[0] ^= 1;
		assert_false(elf_is_identified_by(p.src, img, &aliases.v[i].id));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_of_the_published_vector),
		cmocka_unit_test(hashes_of_files_around_both_ends),
		cmocka_unit_test(a_gnu_build_id_comes_first),
		cmocka_unit_test(without_one_the_go_build_id_then_the_hash),
		cmocka_unit_test(files_that_no_process_maps_have_no_hash),
		cmocka_unit_test(a_file_is_recognised_by_each_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
