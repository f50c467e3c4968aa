/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes ELF files for tests. Layout: header, program headers, sections in their order, section names,
 * section headers.
 */
#include "elf_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

static const struct {
	bool is64, big;
	uint16_t machine;
} targets[ELF_WRITER_N_TARGETS] = {
	[ELF_WRITER_X86_64] = { true, false, EM_X86_64 },   [ELF_WRITER_I386] = { false, false, EM_386 },
	[ELF_WRITER_S390X] = { true, true, EM_S390 },       [ELF_WRITER_PPC] = { false, true, EM_PPC },
	[ELF_WRITER_AARCH64] = { true, false, EM_AARCH64 }, [ELF_WRITER_ARM] = { false, false, EM_ARM },
	[ELF_WRITER_RISCV64] = { true, false, EM_RISCV },   [ELF_WRITER_PPC64LE] = { true, false, EM_PPC64 },
};

void elf_writer_put(const struct elf_writer *w, struct buf *b, uint64_t v, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		buf_add_char(b, (char)(v >> 8 * (w->big ? size - 1 - i : i)));
}

static void put_word(const struct elf_writer *w, struct buf *b, uint64_t v)
{
	elf_writer_put(w, b, v, elf_writer_word(w));
}

static void pad(struct buf *b, size_t start, size_t align)
{
	while (align && (b->size - start) % align)
		buf_add_char(b, '\0');
}

void elf_writer_init(struct elf_writer *w, enum elf_writer_target target, uint16_t type)
{
	*w = (struct elf_writer){
		.is64 = targets[target].is64,
		.big = targets[target].big,
		.machine = targets[target].machine,
		.type = type,
		.n_sections = 1,
		.room_sections = 64,
	};
	w->sections = mem_zalloc(w->room_sections * sizeof(*w->sections));
}

void elf_writer_done(struct elf_writer *w)
{
	for (size_t i = 0; i < w->n_sections; i++) {
		free(w->sections[i].name);
		buf_done(&w->sections[i].data);
	}
	free(w->sections);
	free(w->segments);
	*w = (struct elf_writer){ 0 };
}

unsigned elf_writer_section(struct elf_writer *w, const char *name, uint32_t type, uint64_t flags,
			    struct bytes data)
{
	struct elf_writer_section *sec;

	assert(w->n_sections < ELF_WRITER_MAX_SECTIONS);
	if (w->n_sections == w->room_sections) {
		w->room_sections *= 2;
		w->sections = mem_realloc(w->sections, w->room_sections, sizeof(*w->sections));
	}
	sec = &w->sections[w->n_sections];
	*sec = (struct elf_writer_section){
		.name = mem_strdup(name), .type = type, .flags = flags, .align = 1, .size = data.size
	};
	buf_add(&sec->data, data.p, data.size);
	return (unsigned)w->n_sections++;
}

unsigned elf_writer_nobits(struct elf_writer *w, const char *name, uint64_t flags, uint64_t size)
{
	unsigned i = elf_writer_section(w, name, SHT_NOBITS, flags, (struct bytes){ 0 });

	w->sections[i].size = size;
	return i;
}

struct elf_writer_section *elf_writer_at(struct elf_writer *w, unsigned index)
{
	assert(index < w->n_sections);
	return &w->sections[index];
}

static void pack(uint32_t kind, struct bytes data, struct buf *out)
{
	size_t room = kind == ELFCOMPRESS_ZSTD ? ZSTD_compressBound(data.size) : compressBound(data.size), n;
	uint8_t *p = buf_reserve(out, room);
	uLongf zn = room;

	if (kind == ELFCOMPRESS_ZSTD) {
		n = ZSTD_compress(p, room, data.p, data.size, 3);
		assert(!ZSTD_isError(n));
	} else {
		int r = compress2(p, &zn, data.p, data.size, 6);

		assert(r == Z_OK);
		(void)r;
		n = zn;
	}
	out->size += n;
}

unsigned elf_writer_compressed(struct elf_writer *w, const char *name, uint32_t kind, struct bytes data)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *zname = mem_printf(".z%s", name + 1);

	if (!kind) {
		buf_add_str(&b, STR("ZLIB"));
		for (int i = 7; i >= 0; i--)
			buf_add_char(&b, (char)((uint64_t)data.size >> 8 * i));
		pack(ELFCOMPRESS_ZLIB, data, &b);
		return elf_writer_section(w, zname, SHT_PROGBITS, 0, buf_bytes(&b));
	}
	elf_writer_put(w, &b, kind, 4);
	if (w->is64)
		elf_writer_put(w, &b, 0, 4);
	put_word(w, &b, data.size);
	put_word(w, &b, 1);
	pack(kind, data, &b);
	return elf_writer_section(w, name, SHT_PROGBITS, SHF_COMPRESSED, buf_bytes(&b));
}

void elf_writer_note(const struct elf_writer *w, struct buf *b, unsigned align, uint32_t type,
		     const char *owner, struct bytes desc)
{
	size_t start = b->size;

	elf_writer_put(w, b, strlen(owner) + 1, 4);
	elf_writer_put(w, b, desc.size, 4);
	elf_writer_put(w, b, type, 4);
	buf_add(b, owner, strlen(owner) + 1);
	pad(b, start, align);
	buf_add(b, desc.p, desc.size);
	pad(b, start, align);
}

unsigned elf_writer_build_id(struct elf_writer *w, struct bytes id)
{
	AUTO(buf_done) struct buf b = { 0 };
	unsigned i;

	elf_writer_note(w, &b, 4, NT_GNU_BUILD_ID, "GNU", id);
	i = elf_writer_section(w, ".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, buf_bytes(&b));
	w->sections[i].align = 4;
	if (w->type != ET_REL)
		elf_writer_segment(w, PT_NOTE, PF_R, i);
	return i;
}

void elf_writer_debug_link(struct elf_writer *w, const char *name, uint32_t crc)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_add(&b, name, strlen(name) + 1);
	pad(&b, 0, 4);
	elf_writer_put(w, &b, crc, 4);
	elf_writer_section(w, ".gnu_debuglink", SHT_PROGBITS, 0, buf_bytes(&b));
}

void elf_writer_alt_link(struct elf_writer *w, const char *path, struct bytes id)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_add(&b, path, strlen(path) + 1);
	buf_add(&b, id.p, id.size);
	elf_writer_section(w, ".gnu_debugaltlink", SHT_PROGBITS, 0, buf_bytes(&b));
}

void elf_writer_debug_sup(struct elf_writer *w, bool is_supplementary, const char *path, struct bytes id)
{
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_put(w, &b, 5, 2);
	buf_add_char(&b, is_supplementary);
	buf_add(&b, path, strlen(path) + 1);
	buf_add_uleb(&b, id.size);
	buf_add(&b, id.p, id.size);
	elf_writer_section(w, ".debug_sup", SHT_PROGBITS, 0, buf_bytes(&b));
}

unsigned elf_writer_segment(struct elf_writer *w, uint32_t type, uint32_t flags, unsigned section)
{
	assert(w->n_segments < ELF_WRITER_MAX_SEGMENTS);
	if (w->n_segments == w->room_segments) {
		w->room_segments = w->room_segments ? w->room_segments * 2 : 16;
		w->segments = mem_realloc(w->segments, w->room_segments, sizeof(*w->segments));
	}
	w->segments[w->n_segments] = (struct elf_writer_segment){ .type = type,
								  .flags = flags,
								  .section = section };
	if (section)
		w->segments[w->n_segments].align = w->sections[section].align;
	return (unsigned)w->n_segments++;
}

struct elf_writer_segment *elf_writer_segment_at(struct elf_writer *w, unsigned index)
{
	assert(index < w->n_segments);
	return &w->segments[index];
}

/* ---- the file ---- */

static void put_header(const struct elf_writer *w, struct buf *out)
{
	bool many_sections = w->extended || w->n_sections >= SHN_LORESERVE;
	bool many_segments = w->extended || w->n_segments >= PN_XNUM;
	bool far_names = w->extended || w->names_index >= SHN_LORESERVE;
	const uint8_t ident[EI_NIDENT] = { 0x7f,
					   'E',
					   'L',
					   'F',
					   w->is64 ? ELFCLASS64 : ELFCLASS32,
					   w->big ? ELFDATA2MSB : ELFDATA2LSB,
					   EV_CURRENT };

	buf_add(out, ident, sizeof(ident));
	elf_writer_put(w, out, w->type, 2);
	elf_writer_put(w, out, w->machine, 2);
	elf_writer_put(w, out, EV_CURRENT, 4);
	put_word(w, out, w->entry);
	put_word(w, out, w->phoff);
	put_word(w, out, w->shoff);
	elf_writer_put(w, out, 0, 4);
	elf_writer_put(w, out, w->is64 ? 64 : 52, 2);
	elf_writer_put(w, out, w->is64 ? 56 : 32, 2);
	elf_writer_put(w, out, many_segments ? PN_XNUM : w->n_segments, 2);
	elf_writer_put(w, out, w->is64 ? 64 : 40, 2);
	elf_writer_put(w, out, w->no_sections || many_sections ? 0 : w->n_sections, 2);
	elf_writer_put(w, out, w->no_sections ? 0 : far_names ? SHN_XINDEX : w->names_index, 2);
}

static void put_segment(const struct elf_writer *w, const struct elf_writer_segment *s, struct buf *out)
{
	struct elf_writer_segment seg = *s;

	if (seg.section) {
		const struct elf_writer_section *sec = &w->sections[seg.section];

		seg.off = sec->off;
		seg.vaddr = sec->addr;
		seg.filesz = sec->type == SHT_NOBITS ? 0 : sec->size;
		seg.memsz = sec->size;
	}
	elf_writer_put(w, out, seg.type, 4);
	if (w->is64)
		elf_writer_put(w, out, seg.flags, 4);
	put_word(w, out, seg.off);
	put_word(w, out, seg.vaddr);
	put_word(w, out, seg.vaddr);
	put_word(w, out, seg.filesz);
	put_word(w, out, seg.memsz);
	if (!w->is64)
		elf_writer_put(w, out, seg.flags, 4);
	put_word(w, out, seg.align);
}

static void put_section(const struct elf_writer *w, size_t i, uint32_t name, struct buf *out)
{
	struct elf_writer_section sec = w->sections[i];

	if (i == 0) {
		if (w->extended || w->n_sections >= SHN_LORESERVE)
			sec.size = w->n_sections;
		if (w->extended || w->names_index >= SHN_LORESERVE)
			sec.link = w->names_index;
		if (w->extended || w->n_segments >= PN_XNUM)
			sec.info = (uint32_t)w->n_segments;
	}
	elf_writer_put(w, out, name, 4);
	elf_writer_put(w, out, sec.type, 4);
	put_word(w, out, sec.flags);
	put_word(w, out, sec.addr);
	put_word(w, out, sec.off);
	put_word(w, out, sec.size);
	elf_writer_put(w, out, sec.link, 4);
	elf_writer_put(w, out, sec.info, 4);
	put_word(w, out, sec.align);
	put_word(w, out, sec.entsize);
}

/* The names, each once, with their offsets. The last section holds them. */
static uint32_t *make_names(struct elf_writer *w)
{
	uint32_t *at = mem_zalloc((w->n_sections + 1) * sizeof(*at));
	AUTO(buf_done) struct buf names = { 0 };

	buf_add_char(&names, '\0');
	for (size_t i = 1; i < w->n_sections; i++) {
		at[i] = (uint32_t)names.size;
		buf_add(&names, w->sections[i].name, strlen(w->sections[i].name) + 1);
	}
	at[w->n_sections] = (uint32_t)names.size;
	buf_add(&names, ".shstrtab", 10);
	w->names_index = elf_writer_section(w, ".shstrtab", SHT_STRTAB, 0, buf_bytes(&names));
	return at;
}

void elf_writer_finish(struct elf_writer *w, struct buf *out)
{
	AUTO(mem_freep) uint32_t *names = NULL;
	AUTO(buf_done) struct buf head = { 0 }, body = { 0 }, table = { 0 };
	size_t headers = (w->is64 ? 64 : 52) + w->n_segments * (w->is64 ? 56 : 32), table_size;
	uint64_t start;

	if (!w->no_sections)
		names = make_names(w);
	table_size = w->n_sections * (w->is64 ? 64 : 40);
	w->phoff = w->n_segments ? (w->is64 ? 64 : 52) : 0;
	if (w->tables_first)
		headers = (headers + 7) & ~(size_t)7;
	start = headers + (w->tables_first ? table_size : 0);
	for (size_t i = 1; i < w->n_sections; i++) {
		struct elf_writer_section *sec = &w->sections[i];

		while ((start + body.size) % (sec->align ? sec->align : 1))
			buf_add_char(&body, '\0');
		if (!sec->off_set)
			sec->off = start + body.size;
		buf_add(&body, sec->data.p, sec->data.size);
	}
	for (uint64_t i = 0; i < w->gap; i++)
		buf_add_char(&body, 'g');
	while (!w->tables_first && (start + body.size) % 8)
		buf_add_char(&body, '\0');
	w->shoff = w->no_sections ? 0 : w->tables_first ? headers : start + body.size;
	put_header(w, &head);
	for (size_t i = 0; i < w->n_segments; i++)
		put_segment(w, &w->segments[i], &head);
	for (size_t i = 0; i < w->n_sections && !w->no_sections; i++)
		put_section(w, i, names[i], &table);
	pad(&head, 0, w->tables_first ? 8 : 1);
	buf_add_str(out, buf_str(&head));
	if (w->tables_first)
		buf_add_str(out, buf_str(&table));
	buf_add_str(out, buf_str(&body));
	if (!w->tables_first)
		buf_add_str(out, buf_str(&table));
}

/* ---- complete files ---- */

/* Compressible like code: words from a small set that the seed chooses. */
static void filler(struct buf *b, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t at = i / 64, v = hash64(&at, sizeof(at), seed);

		v = hash64(&i, sizeof(i), v % 64 + seed) & 0x0f0f00ff00ff00ff;
		buf_add(b, &v, MIN(size - i, sizeof(v)));
	}
}

static struct build_id id_of(const char *hex)
{
	struct build_id id = { 0 };
	bool ok = build_id_parse(&id, str_of(hex));

	assert(ok);
	(void)ok;
	return id;
}

static void make_file(struct buf *out, uint16_t type, const char *hex, size_t size, bool debug)
{
	static const char *const code[] = { ".text", ".rodata", ".data" };
	static const char *const info[] = { ".debug_info", ".debug_line", ".debug_str" };
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	struct build_id id = id_of(hex);
	uint64_t addr = 0x1000, seed = hash64(id.b, id.size, 0);

	elf_writer_init(&w, ELF_WRITER_X86_64, type);
	elf_writer_build_id(&w, build_id_bytes(&id));
	for (unsigned i = 0; i < ARRAY_SIZE(code); i++) {
		uint64_t flags = SHF_ALLOC | (i == 0 ? SHF_EXECINSTR : i == 2 ? SHF_WRITE : 0);
		AUTO(buf_done) struct buf b = { 0 };
		unsigned at;

		filler(&b, size / 3 + 1, seed + i);
		at = debug ? elf_writer_nobits(&w, code[i], flags, b.size)
			   : elf_writer_section(&w, code[i], SHT_PROGBITS, flags, buf_bytes(&b));
		elf_writer_at(&w, at)->addr = addr;
		elf_writer_at(&w, at)->align = 16;
		if (type != ET_REL)
			elf_writer_segment(&w, PT_LOAD, PF_R | (i == 0 ? PF_X : 0), at);
		addr += (b.size + 0xfff) & ~(uint64_t)0xfff;
	}
	if (type == ET_REL && debug)
		elf_writer_nobits(&w, ".modinfo", SHF_ALLOC, 12);
	else if (type == ET_REL)
		elf_writer_section(&w, ".modinfo", SHT_PROGBITS, SHF_ALLOC, bytes_of("license=GPL", 12));
	for (unsigned i = 0; i < ARRAY_SIZE(info) && debug; i++) {
		AUTO(buf_done) struct buf b = { 0 };

		filler(&b, size / 3 + 1, seed + 10 + i);
		elf_writer_section(&w, info[i], SHT_PROGBITS, 0, buf_bytes(&b));
	}
	elf_writer_finish(&w, out);
}

void elf_writer_program(struct buf *out, uint16_t type, const char *id, size_t size)
{
	make_file(out, type, id, size, false);
}

void elf_writer_debug_file(struct buf *out, uint16_t type, const char *id, size_t size)
{
	make_file(out, type, id, size, true);
}
