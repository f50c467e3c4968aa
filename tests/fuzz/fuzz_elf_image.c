/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file and all queries on it, over a source that lends its memory and over one that must be read: both
 * return the same, and views of the file are the file's bytes.
 */
#include "fault_source.h"
#include "fuzz.h"

#include <string.h>
#include "elf/elf.h"

#define MAX_SECTIONS 300u     /* entries that are inspected; the rest is only counted */
#define MAX_CONTENT  KIB(256) /* of one section, decompressed */

struct file {
	struct bytes bytes;
	struct source *src;
	struct elf_image *img;
	struct err err;
	struct arena a;
};

static int hash_note(void *arg, const struct elf_note *note)
{
	uint64_t *sum = arg;

	*sum = hash64(&note->type, sizeof(note->type), *sum);
	*sum = hash64(note->owner.p, note->owner.size, *sum);
	*sum = hash64(note->desc.p, note->desc.size, *sum);
	return 0;
}

static void check_failure(int r, const struct err *err)
{
	FUZZ_CHECK(r >= 0 || (err->kind == ERR_INVALID || err->kind == ERR_LIMIT));
}

/* In chunks, compared with the whole read. */
static void check_stream(struct file *f, const struct elf_section *sec, int want_r, struct bytes want)
{
	struct stream *s;
	struct err err = { 0 };
	struct bytes chunk;
	int r = elf_section_stream(f->img, sec, &s, &err);

	check_failure(r, &err);
	if (r) {
		FUZZ_CHECK(want_r == r);
		return;
	}
	while ((r = stream_next(s, 1000, &chunk, &err)) == 0 && chunk.size) {
		if (want_r < 0)
			continue;
		FUZZ_CHECK(chunk.size <= want.size && memcmp(chunk.p, want.p, chunk.size) == 0);
		want = bytes_of(want.p + chunk.size, want.size - chunk.size);
	}
	check_failure(r, &err);
	FUZZ_CHECK((r < 0) == (want_r < 0) && (r < 0 || !want.size));
	stream_close(s);
}

static void check_section(struct file *f, struct file *other, uint32_t i)
{
	const struct elf_section *sec = &f->img->sections[i], *same = &other->img->sections[i], *found;
	uint64_t off, size, content;
	struct bytes got, again;
	struct err err = { 0 }, err2 = { 0 };
	char name[256];
	int r;

	FUZZ_CHECK(sec->index == i && str_eq(sec->name, same->name) && sec->off == same->off &&
		   sec->size == same->size && sec->flags == same->flags && sec->type == same->type);
	FUZZ_CHECK(!memchr(sec->name.size ? sec->name.p : "x", 0, sec->name.size));
	if (sec->name.size < sizeof(name)) {
		snprintf(name, sizeof(name), "%.*s", (int)sec->name.size, sec->name.p ? sec->name.p : "");
		found = elf_section_find(f->img, name);
		FUZZ_CHECK(i == 0 || (found && found->index <= i && str_eq(found->name, sec->name)));
		(void)elf_debug_section(f->img, name);
	}
	r = elf_section_range(f->img, sec, &off, &size, &err);
	check_failure(r, &err);
	FUZZ_CHECK(r || (size == sec->size && off <= f->bytes.size && size <= f->bytes.size - off));
	FUZZ_CHECK(r >= 0 || elf_section_read(f->img, sec, MAX_CONTENT, &f->a, &got, &err2) < 0);
	if (r)
		return;
	r = elf_section_read(f->img, sec, MAX_CONTENT, &f->a, &got, &err);
	check_failure(r, &err);
	FUZZ_CHECK(elf_section_read(other->img, same, MAX_CONTENT, &other->a, &again, &err2) == r);
	if (r == 0) {
		FUZZ_CHECK(got.size <= MAX_CONTENT && bytes_eq(got, again));
		FUZZ_CHECK(elf_section_content_size(f->img, sec, &content, &err) == 0 && content == got.size);
		if (!(sec->flags & 0x800) && !str_starts(sec->name, STR(".zdebug_")))
			FUZZ_CHECK(bytes_eq(got, bytes_of(f->bytes.p + off, size)));
	} else {
		FUZZ_CHECK(strcmp(err.text, err2.text) == 0);
	}
	if (r == 0 || err.kind == ERR_INVALID)
		check_stream(f, sec, r, r ? (struct bytes){ 0 } : got);
}

static void check_facts(struct file *f, struct file *other)
{
	struct elf_facts x = { 0 }, y = { 0 };
	struct err err_x = { 0 }, err_y = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct build_id id;
	int r = elf_facts_read(f->src, &x, &err_x), r_id = elf_build_id(f->img, &id, &err_y);

	FUZZ_CHECK(r <= 0 && r == elf_facts_read(other->src, &y, &err_y));
	check_failure(r, &err_x);
	if (r == 0) {
		FUZZ_CHECK(x.flags == y.flags && x.type == y.type && x.machine == y.machine);
		FUZZ_CHECK(build_id_eq(&x.build_id, &y.build_id) && (x.build_id.size == 0) == (r_id != 0));
		FUZZ_CHECK(x.type == f->img->h.type);
		elf_facts_print(&x, &text);
		FUZZ_CHECK(text.size);
	}
}

static void check_links(struct file *f, struct file *other)
{
	uint64_t sum = 0, sum2 = 0;
	struct build_id id, id2;
	struct str s, s2;
	uint32_t crc, crc2;
	struct err err = { 0 };
	int r;

	FUZZ_CHECK(elf_notes_each(f->img, hash_note, &sum, &err) == 0);
	FUZZ_CHECK(elf_notes_each(other->img, hash_note, &sum2, &err) == 0 && sum == sum2);
	r = elf_build_id(f->img, &id, &err);
	FUZZ_CHECK(r == 0 || r == ELF_NO_BUILD_ID);
	FUZZ_CHECK(elf_build_id(other->img, &id2, &err) == r && (r || build_id_eq(&id, &id2)));
	r = elf_go_build_id(f->img, &f->a, &s, &err);
	FUZZ_CHECK(elf_go_build_id(other->img, &other->a, &s2, &err) == r && (r || str_eq(s, s2)));
	r = elf_debug_link(f->img, &f->a, &s, &crc, &err);
	check_failure(r, &err);
	FUZZ_CHECK(elf_debug_link(other->img, &other->a, &s2, &crc2, &err) == r);
	FUZZ_CHECK(r || (str_eq(s, s2) && crc == crc2));
	r = elf_alt_link(f->img, &f->a, &s, &id, &err);
	check_failure(r, &err);
	FUZZ_CHECK(elf_alt_link(other->img, &other->a, &s2, &id2, &err) == r);
	FUZZ_CHECK(r || (str_eq(s, s2) && build_id_eq(&id, &id2)));
}

static void check(struct file *f, struct file *other)
{
	int r = elf_open(f->src, &f->img, &f->err), r2 = elf_open(other->src, &other->img, &other->err);

	FUZZ_CHECK(r == r2 && (r == 0 || r == ELF_NOT_ELF || strcmp(f->err.text, other->err.text) == 0));
	check_failure(r, &f->err);
	if (r)
		return;
	FUZZ_CHECK(f->img->n_sections == other->img->n_sections);
	FUZZ_CHECK(f->img->n_segments == other->img->n_segments);
	FUZZ_CHECK(f->img->n_sections <= ELF_MAX_SECTIONS && f->img->n_segments <= ELF_MAX_SEGMENTS);
	FUZZ_CHECK(f->img->sections_err.kind == other->img->sections_err.kind);
	FUZZ_CHECK(f->img->sections_err.kind == ERR_NONE || !f->img->n_sections);
	if (f->img->n_segments)
		FUZZ_CHECK(!memcmp(f->img->segments, other->img->segments,
				   f->img->n_segments * sizeof(struct elf_segment)));
	for (uint32_t i = 0; i < MIN(f->img->n_sections, MAX_SECTIONS); i++)
		check_section(f, other, i);
	check_links(f, other);
	check_facts(f, other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file lent = { .bytes = bytes_of(data, size) }, read = lent;

	lent.src = source_of_mem(lent.bytes, "x");
	read.src = fault_source_new(source_of_mem(lent.bytes, "x"), true);
	fault_short(read.src, 1000);
	check(&lent, &read);
	elf_close(lent.img);
	elf_close(read.img);
	arena_done(&lent.a);
	arena_done(&read.a);
	source_close(lent.src);
	source_close(read.src);
	return 0;
}
