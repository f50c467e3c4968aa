/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core dumps: the list of mapped files, and the dumped parts of them.
 */
#include "test.h"

#include "elf/core.h"
#include "elf_writer.h"

static const uint8_t id_a[20] = "aaaaaaaaaaaaaaaaaaa", id_b[20] = "bbbbbbbbbbbbbbbbbbb";

/* A core dump under construction. */
struct dump {
	struct elf_writer w;
	struct buf notes, rows, names, bytes;
	uint64_t n;
	struct source *src;
	struct elf_image *img;
	struct arena arena;
};

static void dump_init(struct dump *d, enum elf_writer_target target)
{
	elf_writer_init(&d->w, target, ET_CORE);
	arena_init(&d->arena);
}

static void dump_done(struct dump *d)
{
	elf_close(d->img);
	source_close(d->src);
	buf_done(&d->notes);
	buf_done(&d->rows);
	buf_done(&d->names);
	buf_done(&d->bytes);
	elf_writer_done(&d->w);
	arena_done(&d->arena);
}

/* Add a row to the list of files. @off is in pages. */
static void map_file(struct dump *d, const char *path, uint64_t start, uint64_t off)
{
	unsigned word = elf_writer_word(&d->w);

	elf_writer_put(&d->w, &d->rows, start, word);
	elf_writer_put(&d->w, &d->rows, start + 0x1000, word);
	elf_writer_put(&d->w, &d->rows, off, word);
	buf_add(&d->names, path, strlen(path) + 1);
	d->n++;
}

/* Memory at @start, in the dump. */
static void dump_memory(struct dump *d, uint64_t start, struct bytes content)
{
	unsigned i = elf_writer_section(&d->w, "load", SHT_PROGBITS, SHF_ALLOC, content);

	elf_writer_at(&d->w, i)->addr = start;
	elf_writer_segment(&d->w, PT_LOAD, PF_R, i);
}

static void dump_module(struct dump *d, enum elf_writer_target target, uint64_t start, const uint8_t id[20])
{
	AUTO(elf_writer_done) struct elf_writer m = { 0 };
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_init(&m, target, ET_DYN);
	m.no_sections = true; /* they are not loaded */
	if (id)
		elf_writer_build_id(&m, bytes_of(id, 20));
	else
		elf_writer_section(&m, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4));
	elf_writer_finish(&m, &b);
	dump_memory(d, start, buf_bytes(&b));
}

static void add_files(struct dump *d, uint64_t n)
{
	AUTO(buf_done) struct buf desc = { 0 };
	unsigned word = elf_writer_word(&d->w);

	elf_writer_put(&d->w, &desc, n, word);
	elf_writer_put(&d->w, &desc, 0x1000, word);
	buf_add(&desc, d->rows.p, d->rows.size);
	buf_add(&desc, d->names.p, d->names.size);
	elf_writer_note(&d->w, &d->notes, 4, NT_FILE, "CORE", buf_bytes(&desc));
}

static void add_vdso(struct dump *d, uint64_t addr)
{
	AUTO(buf_done) struct buf desc = { 0 };
	const uint64_t pairs[] = { 6 /* AT_PAGESZ */, 4096, 33 /* AT_SYSINFO_EHDR */, addr, 0, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		elf_writer_put(&d->w, &desc, pairs[i], elf_writer_word(&d->w));
	elf_writer_note(&d->w, &d->notes, 4, NT_AUXV, "CORE", buf_bytes(&desc));
}

static void dump_open(struct dump *d)
{
	unsigned i = elf_writer_section(&d->w, "note0", SHT_NOTE, 0, buf_bytes(&d->notes));
	struct err err = { 0 };

	elf_writer_at(&d->w, i)->align = 4;
	elf_writer_segment(&d->w, PT_NOTE, PF_R, i);
	d->w.no_sections = true; /* as the kernel writes them */
	elf_writer_finish(&d->w, &d->bytes);
	d->src = source_of_mem(buf_bytes(&d->bytes), "core");
	assert_done(elf_open(d->src, &d->img, &err));
}

static int modules(struct dump *d, const struct elf_core_module **ret, size_t *ret_n, struct err *err)
{
	return elf_core_modules(d->img, &d->arena, ret, ret_n, err);
}

static void modules_have_the_build_ids_that_were_dumped(void **state)
{
	for (enum elf_writer_target target = 0; target < ELF_WRITER_N_TARGETS; target++) {
		AUTO(dump_done) struct dump d = { 0 };
		const struct elf_core_module *m;
		struct err err = { 0 };
		size_t n;

		dump_init(&d, target);
		map_file(&d, "/usr/bin/a", 0x10000, 0);
		map_file(&d, "/usr/bin/a", 0x11000, 1); /* another part of the file */
		map_file(&d, "/usr/lib/b.so", 0x20000, 0);
		map_file(&d, "/usr/lib/c.so", 0x30000, 0);
		map_file(&d, "/usr/share/data", 0x40000, 0);
		map_file(&d, "/usr/lib/none.so", 0x50000, 0);
		map_file(&d, "/usr/bin/a", 0x60000, 0); /* from its start once more */
		dump_module(&d, target, 0x10000, id_a);
		dump_module(&d, target, 0x20000, id_b);
		dump_memory(&d, 0x40000, bytes_of("some data", 9));
		dump_module(&d, target, 0x50000, NULL);
		dump_module(&d, target, 0x70000, id_b);
		add_files(&d, d.n);
		add_vdso(&d, 0x70000);
		dump_open(&d);
		assert_done(modules(&d, &m, &n, &err));
		assert_int_equal(n, 6);
		assert_str(m[0].path, "/usr/bin/a");
		assert_true(bytes_eq(build_id_bytes(&m[0].id), bytes_of(id_a, 20)));
		assert_true(m[0].dumped && m[0].is_elf && m[0].start == 0x10000);
		assert_str(m[1].path, "/usr/lib/b.so");
		assert_true(bytes_eq(build_id_bytes(&m[1].id), bytes_of(id_b, 20)));
		assert_str(m[2].path, "/usr/lib/c.so");
		assert_true(!m[2].dumped && m[2].id.size == 0);
		assert_str(m[3].path, "/usr/share/data");
		assert_true(m[3].dumped && !m[3].is_elf && m[3].id.size == 0);
		assert_str(m[4].path, "/usr/lib/none.so");
		assert_true(m[4].dumped && m[4].is_elf && m[4].id.size == 0);
		assert_str(m[5].path, "[vdso]");
		assert_true(bytes_eq(build_id_bytes(&m[5].id), bytes_of(id_b, 20)));
	}
}

static void other_files_and_dumps_without_a_list(void **state)
{
	AUTO(dump_done) struct dump empty = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(arena_done) struct arena a = { 0 };
	const struct elf_core_module *m;
	struct err err = { 0 };
	size_t n;

	elf_writer_program(&b, ET_DYN, "abcd", 100);
	src = source_of_mem(buf_bytes(&b), "x");
	assert_done(elf_open(src, &img, &err));
	assert_fails(elf_core_modules(img, &a, &m, &n, &err), ERR_INVALID, "not a core dump");
	dump_init(&empty, ELF_WRITER_X86_64);
	elf_writer_note(&empty.w, &empty.notes, 4, NT_FILE, "NOTCORE", bytes_of("", 0));
	dump_open(&empty);
	assert_int_equal(modules(&empty, &m, &n, &err), ELF_CORE_NO_FILES);
}

static void a_damaged_list_is_an_error(void **state)
{
	static const struct {
		uint64_t n;
		bool cut_name;
		enum err_kind kind;
		const char *text;
	} cases[] = {
		{ 3, false, ERR_INVALID, "list of mapped files" }, /* one more than the list has */
		{ ELF_CORE_MAX_FILES, false, ERR_INVALID, "list of mapped files" },
		{ ELF_CORE_MAX_FILES + 1, false, ERR_LIMIT, "65537 mapped files" },
		{ UINT64_MAX, false, ERR_LIMIT, "mapped files" },
		{ UINT64_MAX / 24 + 2, false, ERR_LIMIT,
		  "mapped files" },                               /* small only when multiplied by the size
								     of a row */
		{ 2, true, ERR_INVALID, "list of mapped files" }, /* a name without its NUL */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(dump_done) struct dump d = { 0 };
		const struct elf_core_module *m;
		struct err err = { 0 };
		size_t n;

		dump_init(&d, ELF_WRITER_X86_64);
		map_file(&d, "/a", 0x10000, 0);
		map_file(&d, "/bcd", 0x20000, 0);
		d.names.size -= cases[i].cut_name ? 2 : 0;
		add_files(&d, cases[i].n);
		dump_open(&d);
		assert_fails(modules(&d, &m, &n, &err), cases[i].kind, cases[i].text);
	}
}

/* As the kernel, or a full disk, leaves dumps: the list is there, the memory is not. */
static void a_dump_that_is_cut_has_its_list(void **state)
{
	AUTO(dump_done) struct dump d = { 0 };
	const struct elf_core_module *m;
	struct err err = { 0 };
	size_t n, whole;

	dump_init(&d, ELF_WRITER_X86_64);
	map_file(&d, "/a", 0x10000, 0);
	add_files(&d, d.n);
	dump_open(&d);
	whole = d.bytes.size;
	elf_close(d.img);
	source_close(d.src);
	for (size_t size = whole; size-- > 0;) {
		AUTO(arena_done) struct arena a = { 0 };

		d.src = source_of_mem(bytes_of(d.bytes.p, size), "core");
		if (elf_open(d.src, &d.img, &err) == 0 && elf_core_modules(d.img, &a, &m, &n, &err) == 0)
			assert_true(n == 1 && !m[0].dumped);
		elf_close(TAKE(d.img));
		source_close(TAKE(d.src));
	}
}

/* A segment claims more bytes than the file has, or starts past its end: the module was not dumped, or only
 * in part. */
static void memory_that_is_not_in_the_file_was_not_dumped(void **state)
{
	AUTO(dump_done) struct dump d = { 0 };
	const struct elf_core_module *m;
	struct elf_writer_segment *s;
	struct err err = { 0 };
	size_t n;

	dump_init(&d, ELF_WRITER_X86_64);
	map_file(&d, "/behind", 0x10000, 0);
	map_file(&d, "/around", UINT64_MAX - 0xfff, 0);
	map_file(&d, "/huge", 0x30000, 0);
	s = elf_writer_segment_at(&d.w, elf_writer_segment(&d.w, PT_LOAD, PF_R, 0));
	*s = (struct elf_writer_segment){
		.type = PT_LOAD, .off = 1 << 30, .vaddr = 0x10000, .filesz = 0x1000, .memsz = 0x1000
	};
	s = elf_writer_segment_at(&d.w, elf_writer_segment(&d.w, PT_LOAD, PF_R, 0));
	*s = (struct elf_writer_segment){
		.type = PT_LOAD, .off = UINT64_MAX - 10, .vaddr = UINT64_MAX - 0xfff, .filesz = UINT64_MAX
	};
	s = elf_writer_segment_at(&d.w, elf_writer_segment(&d.w, PT_LOAD, PF_R, 0));
	*s = (struct elf_writer_segment){
		.type = PT_LOAD, .off = 0, .vaddr = 0x30000, .filesz = UINT64_MAX, .memsz = UINT64_MAX
	};
	add_files(&d, d.n);
	dump_open(&d);
	assert_done(modules(&d, &m, &n, &err));
	assert_int_equal(n, 3);
	assert_false(m[0].dumped);
	assert_false(m[1].dumped);
	assert_true(m[2].dumped && m[2].is_elf); /* the offset is the dump's own header */
}

/* Of a process with thousands of mapped files the list is longer than the notes of any program. */
static void a_long_list_is_read_to_its_end(void **state)
{
	AUTO(dump_done) struct dump d = { 0 };
	const struct elf_core_module *m;
	struct err err = { 0 };
	char path[256];
	size_t n;

	dump_init(&d, ELF_WRITER_X86_64);
	for (unsigned i = 0; i < 6000; i++) {
		snprintf(path, sizeof(path), "/%0200u", i);
		map_file(&d, path, 0x100000 + i * 0x1000, 0);
	}
	dump_module(&d, ELF_WRITER_X86_64, 0x100000 + 5999 * 0x1000, id_b);
	dump_module(&d, ELF_WRITER_X86_64, 0x100000, id_a);
	add_files(&d, d.n);
	assert_true(d.notes.size > ELF_MAX_NOTE_SIZE);
	dump_open(&d);
	assert_done(modules(&d, &m, &n, &err));
	assert_int_equal(n, 6000);
	assert_memory_equal(m[0].id.b, id_a, 20);
	assert_memory_equal(m[5999].id.b, id_b, 20);
	assert_false(m[1].dumped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modules_have_the_build_ids_that_were_dumped),
		cmocka_unit_test(other_files_and_dumps_without_a_list),
		cmocka_unit_test(a_damaged_list_is_an_error),
		cmocka_unit_test(a_dump_that_is_cut_has_its_list),
		cmocka_unit_test(memory_that_is_not_in_the_file_was_not_dumped),
		cmocka_unit_test(a_long_list_is_read_to_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
