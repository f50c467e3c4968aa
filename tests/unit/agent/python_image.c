/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are interpreters, of which version, and where their evaluation loop is. */
#include "test.h"

#include <elf.h>

#include "agent/python_image.h"
#include "elf_writer.h"

#define DATA_AT 0x5000u

struct image_fixture {
	struct elf_writer w;
	struct buf symbols, names, file;
	struct source *src;
	struct elf_image *img;
};

static void add_symbol(struct image_fixture *f, const char *name, unsigned type, uint64_t value,
		       uint64_t size, unsigned section)
{
	elf_writer_put(&f->w, &f->symbols, f->names.size, 4);
	elf_writer_put(&f->w, &f->symbols, ELF64_ST_INFO(STB_GLOBAL, type), 1);
	elf_writer_put(&f->w, &f->symbols, 0, 1);
	elf_writer_put(&f->w, &f->symbols, section, 2);
	elf_writer_put(&f->w, &f->symbols, value, 8);
	elf_writer_put(&f->w, &f->symbols, size, 8);
	buf_add(&f->names, name, strlen(name) + 1);
}

/* Write the symbols that were added as section @type. */
static void put_symbols(struct image_fixture *f, uint32_t type)
{
	unsigned names = elf_writer_section(&f->w, type == SHT_DYNSYM ? ".dynstr" : ".strtab", SHT_STRTAB, 0,
					    buf_bytes(&f->names));
	unsigned table = elf_writer_section(&f->w, type == SHT_DYNSYM ? ".dynsym" : ".symtab", type, 0,
					    buf_bytes(&f->symbols));

	elf_writer_at(&f->w, table)->link = names;
	elf_writer_at(&f->w, table)->entsize = sizeof(Elf64_Sym);
	f->symbols.size = f->names.size = 0;
}

static void open_image(struct image_fixture *f)
{
	struct err err;

	elf_writer_finish(&f->w, &f->file);
	f->src = source_of_mem(buf_bytes(&f->file), "file");
	assert_done(elf_open(f->src, &f->img, &err));
}

static int image_setup(void **state)
{
	struct image_fixture *f = NEW(struct image_fixture);
	static const uint8_t version[8] = { 0xf0, 0x02, 0x0b, 0x03 };
	unsigned data;

	elf_writer_init(&f->w, ELF_WRITER_X86_64, ET_DYN);
	data = elf_writer_section(&f->w, ".data", SHT_PROGBITS, SHF_ALLOC, bytes_of(version, 8));
	elf_writer_at(&f->w, data)->addr = DATA_AT;
	elf_writer_segment_at(&f->w, elf_writer_segment(&f->w, PT_LOAD, PF_R, data))->vaddr = DATA_AT;
	*state = f;
	return 0;
}

static int image_teardown(void **state)
{
	struct image_fixture *f = *state;

	elf_close(f->img);
	source_close(f->src);
	elf_writer_done(&f->w);
	buf_done(&f->symbols);
	buf_done(&f->names);
	buf_done(&f->file);
	free(f);
	return 0;
}

static void an_interpreter_has_its_version_and_loop(void **state)
{
	struct image_fixture *f = *state;
	struct python_image p;
	struct err err;

	add_symbol(f, "_PyRuntime", STT_OBJECT, 0x9000, 100, 1);
	add_symbol(f, "Py_Version", STT_OBJECT, DATA_AT, 8, 1);
	add_symbol(f, "_PyEval_EvalFrameDefault", STT_FUNC, 0x1000, 0x500, 1);
	add_symbol(f, "PyLong_FromLong", STT_FUNC, 0x1600, 0x100, 1);
	put_symbols(f, SHT_DYNSYM);
	add_symbol(f, "_PyEval_EvalFrameDefault", STT_FUNC, 0x1000, 0x500, 1);
	add_symbol(f, "_PyEval_EvalFrameDefault.cold", STT_FUNC, 0x800, 0x80, 1);
	add_symbol(f, "_PyEval_EvalFrameDefaultNot", STT_FUNC, 0x900, 0x80, 1);
	add_symbol(f, "_PyEval_Vector", STT_FUNC, 0x1800, 0x10, 1);
	put_symbols(f, SHT_SYMTAB);
	open_image(f);
	assert_done(python_image_read(f->img, "/opt/libpython3.so", &p, &err));
	assert_int_equal(p.layout.minor, 11);
	assert_int_equal(p.runtime, 0x9000);
	assert_int_equal(p.n_ranges, 3);
	assert_true(python_image_range(&p, 0x14ff)->is_loop);
	assert_true(python_image_range(&p, 0x810)->is_loop);
	assert_false(python_image_range(&p, 0x1800)->is_loop);
	assert_null(python_image_range(&p, 0x1500));
	assert_null(python_image_range(&p, 0x910));
	/* Other files are not looked at. */
	assert_int_equal(python_image_read(f->img, "/opt/lib.so", &p, &err), PYTHON_NO_IMAGE);
}

static void a_version_without_a_symbol_is_that_of_the_name(void **state)
{
	static const struct {
		const char *path;
		int minor; /* negative: refused */
	} rows[] = { { "/usr/bin/python3.9", 9 },     { "/usr/lib/libpython3.10.so.1.0", 10 },
		     { "/usr/bin/python3.8", -1 },    { "/usr/bin/python3", -1 },
		     { "/usr/bin/python3.9999", -1 }, { "/usr/bin/python3.", -1 },
		     { "/usr/bin/python3.13", -1 } };
	struct image_fixture *f = *state;
	struct python_image p;
	struct err err;

	add_symbol(f, "_PyRuntime", STT_OBJECT, 0x9000, 100, 1);
	put_symbols(f, SHT_DYNSYM);
	open_image(f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(python_image_read(f->img, rows[i].path, &p, &err),
				 rows[i].minor < 0 ? -1 : 0);
		if (rows[i].minor > 0)
			assert_int_equal(p.layout.minor, rows[i].minor);
	}
}

static void a_program_that_is_linked_with_one_is_none(void **state)
{
	struct image_fixture *f = *state;
	struct python_image p;
	struct err err;

	add_symbol(f, "_PyRuntime", STT_OBJECT, 0, 0, SHN_UNDEF);
	put_symbols(f, SHT_DYNSYM);
	open_image(f);
	assert_int_equal(python_image_read(f->img, "/usr/bin/python3.11", &p, &err), PYTHON_NO_IMAGE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, image_setup, image_teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_interpreter_has_its_version_and_loop),
		TEST(a_version_without_a_symbol_is_that_of_the_name),
		TEST(a_program_that_is_linked_with_one_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
