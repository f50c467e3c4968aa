/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of a section, and of a file whose addresses were moved. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include "tables_fixture.h"

static void a_relocatable_file_is_asked_by_section(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_query q = { .kind = FRAME_SECTION, .addr = 0x10 };
	struct frame_mapping map = { .start = 0xffffffffc0001000, .limit = 0xffffffffc0002000 };
	struct tables_request *h;
	struct tables_answer a;
	struct code_writer w;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	w.text = 0;
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, "m", STT_FUNC, STB_GLOBAL, 0, 0x100);
	w.symbols.p[w.symbols.size - 24 + 6] = 2; /* .text, after the section of the build ID */
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	assert_str(a.frames->list[0].name, "m");
	q = (struct tables_query){ .kind = FRAME_SECTION, .addr = 0x10, .section = STR(".nothing") };
	tables_find(h, &q, &a);
	assert_int_not_equal(a.reason, FRAME_FOUND);
	q = (struct tables_query){
		.kind = FRAME_RUNTIME, .addr = 0xffffffffc0001010, .maps = &map, .n_maps = 1
	};
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	assert_str(a.frames->list[0].name, "m");
	q.addr = 5;
	tables_find(h, &q, &a);
	assert_int_not_equal(a.reason, FRAME_FOUND);
	q.addr = map.limit;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_NO_MAPPING);
	q.addr = map.start - 1;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_NO_MAPPING);
	map.limit = 0; /* it is not known */
	q.addr = map.start + 0xff;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	/* Mappings are for run-time addresses alone. */
	q.kind = FRAME_VADDR;
	q.addr = a.addr;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	assert_str(a.frames->list[0].name, "m");
	tables_request_free(h);
	tables_fixture_close(&p);
}

/* A call that does not return may be the last instruction of a section; there is none before the first. */
static void a_return_address_may_be_the_end_of_a_section(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_query q = { .kind = FRAME_SECTION, .addr = 0x1000, .is_return = true };
	struct tables_request *h;
	struct tables_answer a;
	struct code_writer w;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	w.text = 0;
	code_symbol(&w, "first", STT_FUNC, STB_GLOBAL, 0, 0x100);
	w.symbols.p[w.symbols.size - 24 + 6] = 2; /* .text, after the section of the build ID */
	code_symbol(&w, "last", STT_FUNC, STB_GLOBAL, 0xf00, 0x100);
	w.symbols.p[w.symbols.size - 24 + 6] = 2;
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	assert_int_equal(a.addr, 0x1000);
	assert_str(a.frames->list[0].name, "last");
	q.addr = 0x1001;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_OUTSIDE);
	q.addr = 0;
	tables_find(h, &q, &a);
	assert_int_equal(a.reason, FRAME_FOUND);
	assert_str(a.frames->list[0].name, "first");
	tables_request_free(h);
	tables_fixture_close(&p);
}

#define MANY_SECTIONS 20000u

/* Each address names its section; of two with one name the first counts. */
static void a_file_of_many_sections_is_asked_by_section(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_query *q = NEW_N(struct tables_query, MANY_SECTIONS);
	char(*names)[16] = mem_alloc(MANY_SECTIONS * sizeof(*names));
	const struct symtab_info *info;
	struct tables_request *h;
	struct tables_module m;
	struct code_writer w;
	struct buf file = { 0 };
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	code_symbol(&w, "m", STT_FUNC, STB_GLOBAL, 1, 1);
	for (unsigned i = 0; i < MANY_SECTIONS; i++) {
		/* The last has the name of the first. */
		snprintf(names[i], sizeof(names[i]), ".text.%u", i + 1 == MANY_SECTIONS ? 0 : i);
		elf_writer_section(&w.elf, names[i], SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR,
				   bytes_of("\xc3\xc3\xc3\xc3\xc3\xc3\xc3\xc3", 8));
		q[i] = (struct tables_query){ .kind = FRAME_SECTION, .addr = 3, .section = str_of(names[i]) };
	}
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(&p, RESOLVE_DEBUGINFO, 1, &file);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	tables_request_module(h, 0, &m);
	info = m.info;
	assert_non_null(info);
	assert_int_equal(info->n_sections, MANY_SECTIONS + 1);
	for (unsigned i = 0; i < MANY_SECTIONS; i++) {
		const struct symtab_section *sec = &info->sections[i + 1 == MANY_SECTIONS ? 0 : i];
		struct tables_answer a;

		tables_find(h, &q[i], &a);
		assert_str(sec->name, names[i]);
		assert_int_equal(a.addr, sec->base + 3);
		q[i].addr = 8;
		tables_find(h, &q[i], &a);
		assert_int_equal(a.reason, FRAME_OUTSIDE);
		assert_int_equal(a.addr, 0);
	}
	tables_request_free(h);
	tables_fixture_close(&p);
	free(q);
	free(names);
}

/* Code of 0x1000 bytes, a page into the file, with one function. */
static void put_object(struct tables_fixture *p, enum resolve_kind kind, uint64_t text, bool prelinked)
{
	struct build_id id = tables_fixture_id(1);
	struct elf_writer_segment *s;
	struct buf file = { 0 };
	struct code_writer w;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	w.text = text;
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, "f", STT_FUNC, STB_GLOBAL, text + 0x100, 0x100);
	if (prelinked)
		elf_writer_section(&w.elf, ".gnu.prelink_undo", SHT_PROGBITS, 0, bytes_of("before", 6));
	s = elf_writer_segment_at(&w.elf, elf_writer_segment(&w.elf, PT_LOAD, PF_R | PF_X, 0));
	s->off = s->align = 0x1000;
	s->vaddr = text;
	s->filesz = kind == RESOLVE_EXECUTABLE ? 0x1000 : 0;
	s->memsz = 0x1000;
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(p, kind, 1, &file);
}

/*
 * The table is of the debug file, from before prelinking; the program has the places of the code in memory
 * and in the file.
 */
static void addresses_of_a_prelinked_object_are_moved_back(void **state)
{
	const struct frame_mapping map = { 0x7f0000001000, 0x7f0000002000, 0x1000, { 0 } };
	const struct tables_query queries[] = {
		{ .kind = FRAME_RUNTIME, .addr = 0x7f0000001110, .maps = &map, .n_maps = 1 },
		{ .kind = FRAME_OFFSET, .addr = 0x1110 },
		{ .kind = FRAME_VADDR, .addr = 0x1110 },
	};
	struct build_id id = tables_fixture_id(1);
	struct tables_request *h;
	struct tables_answer a;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	put_object(&p, RESOLVE_DEBUGINFO, 0x1000, false);
	put_object(&p, RESOLVE_EXECUTABLE, 0x3000001000, true);
	tables_request_new(p.s, &id, 1, TABLES_LAYOUTS, (struct tables_wait){ clock_mono_ms() + 30000 }, &h);
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		tables_find(h, &queries[i], &a);
		assert_int_equal(a.reason, FRAME_FOUND);
		assert_int_equal(a.addr, 0x1110);
		assert_str(a.frames->list[0].name, "f");
		assert_int_equal(a.frames->start, 0x1100);
	}
	tables_request_free(h);
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_relocatable_file_is_asked_by_section),
		cmocka_unit_test(a_return_address_may_be_the_end_of_a_section),
		cmocka_unit_test(a_file_of_many_sections_is_asked_by_section),
		cmocka_unit_test(addresses_of_a_prelinked_object_are_moved_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
