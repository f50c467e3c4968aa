/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of ELF files, and of raw .eh_frame and .eh_frame_hdr sections in a file that is made around them: a table that was
 * made can be opened, each of its rows is found again, and making it twice gives the same bytes, also by windows.
 */
#include "fault_source.h"
#include "fuzz.h"

#include <string.h>
#include "elf_writer.h"
#include "unwind/unwind.h"

#define TEXT 0x10000u
#define SIZE 0x20000u

/* Input of the second kind: 4 bytes, which are not ELF's; the size of .eh_frame in 2 bytes; the sections. */
static void make_file(const uint8_t *data, size_t size, struct buf *out)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	size_t n = MIN((size_t)data[4] | (size_t)data[5] << 8, size - 6);
	uint64_t addr = TEXT + SIZE;
	const struct {
		const char *name;
		struct bytes b;
	} sections[] = { { data[0] & 1 ? ".debug_frame" : ".eh_frame", { data + 6, n } },
			 { ".eh_frame_hdr", { data + 6 + n, size - 6 - n } } };
	unsigned i;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	for (size_t k = 0; k < ARRAY_SIZE(sections); k++) {
		if (!sections[k].b.size)
			continue;
		i = elf_writer_section(&w, sections[k].name, SHT_PROGBITS, SHF_ALLOC, sections[k].b);
		elf_writer_at(&w, i)->addr = addr;
		addr += 0x10000;
	}
	i = elf_writer_segment(&w, PT_LOAD, PF_R | PF_X, 0);
	*elf_writer_segment_at(&w, i) = (struct elf_writer_segment){
		.type = PT_LOAD, .flags = PF_R | PF_X, .vaddr = TEXT, .memsz = SIZE, .filesz = 0
	};
	elf_writer_finish(&w, out);
}

static int build_table(struct source *src, struct buf *out, struct unwind_stats *stats)
{
	struct elf_image *img = NULL;
	struct err err = { 0 };
	int r = elf_open(src, &img, &err);

	if (r == 0)
		r = unwind_build(img, NULL, out, stats, &err);
	FUZZ_CHECK(r >= 0 || err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	elf_close(img);
	return r;
}

static void check_table(const struct buf *b, const struct unwind_stats *stats)
{
	struct unwind_table t;
	struct unwind_rows it;
	struct err err = { 0 };
	uint64_t n = 0, last = 0;

	FUZZ_CHECK(unwind_table_open(buf_bytes(b), &t, &err) == 0);
	for (unwind_rows_start(&it, &t); unwind_rows_next(&it); n++) {
		FUZZ_CHECK(!n || it.addr > last);
		last = it.addr;
	}
	FUZZ_CHECK(n <= stats->n_rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf file = { 0 }, a = { 0 }, b = { 0 };
	struct unwind_stats stats = { 0 }, again = { 0 };
	struct source *src;
	int r;

	if (size < 7)
		return 0;
	if (memcmp(data, "\177ELF", 4) == 0)
		buf_add(&file, data, size);
	else
		make_file(data, size, &file);
	src = source_of_mem(buf_bytes(&file), "file");
	r = build_table(src, &a, &stats);
	source_close(src);
	if (r)
		return 0;
	check_table(&a, &stats);
	/* Reading it by windows in place of lending its memory changes nothing. */
	src = fault_source_new(source_of_mem(buf_bytes(&file), "file"), true);
	FUZZ_CHECK(build_table(src, &b, &again) == 0);
	source_close(src);
	FUZZ_CHECK(bytes_eq(buf_bytes(&a), buf_bytes(&b)));
	return 0;
}
