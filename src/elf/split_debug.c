/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debug file. Sections keep their numbers and their order, so no reference to a section changes: loaded
 * sections lose their bytes, the rest is copied, debug sections with the requested compression.
 */
#include "elf/write.h"

#include <elf.h>
#include <zlib.h>

struct debug_out {
	const struct elf_image *img;
	struct elf_out o;
	struct elf_out_section *sections; /* in the arena */
	uint32_t n_sections;              /* those of the file, and perhaps one of notes */
	struct elf_segment *segments;
	uint32_t *name_offs;
	struct buf names; /* the old table, followed by new names */
	struct arena a;
	enum elf_split_packing packing;
};

static void debug_done(struct debug_out *d)
{
	elf_out_done(&d->o);
	buf_done(&d->names);
	arena_done(&d->a);
}

/* Whether the section has no bytes in the debug file. Notes keep them: the build ID is one. */
static bool loses_bytes(const struct elf_section *s)
{
	return elf_is_alloc(s) && s->type != SHT_NOTE && s->type != SHT_NOBITS && s->type != SHT_NULL;
}

/* ---- names ---- */

/* Copy the old table of names. */
static int debug_read_names(struct debug_out *d, struct err *err)
{
	const struct elf_image *img = d->img;
	const struct elf_section *names = &img->sections[img->h.names_index];
	struct bytes b = { 0 };
	int r;

	if (img->h.names_index == SHN_UNDEF)
		return err_set(err, ERR_INVALID, "the sections have no names");
	r = elf_section_read(img, names, ELF_SPLIT_MAX_TABLE, &d->a, &b, err);
	if (r < 0)
		return -1;
	buf_add(&d->names, b.p, b.size);
	/* The last name of a damaged table may not end. */
	if (!b.size || b.p[b.size - 1])
		buf_add_char(&d->names, '\0');
	return 0;
}

static uint32_t debug_new_name(struct debug_out *d, struct str name)
{
	uint32_t off = (uint32_t)d->names.size;

	buf_add_str(&d->names, name);
	buf_add_char(&d->names, '\0');
	return off;
}

/* The offsets of the names in the old table: read once more from the raw headers. */
static int debug_read_name_offs(struct debug_out *d, struct err *err)
{
	const struct elf_header *h = &d->img->h;
	unsigned size = elf_section_size(h->is64);
	struct bytes b;

	d->name_offs = ARENA_NEW_N(&d->a, uint32_t, d->img->n_sections);
	/* elf_open() has checked that the table is within the file, and elf_split_check() that its entries
	 * have the usual size. */
	if (source_read_arena(d->img->src, range_of(h->shoff, (uint64_t)d->img->n_sections * size),
			      ELF_SPLIT_MAX_TABLE, &d->a, &b, err) < 0)
		return err_in(err, "section table");
	for (uint32_t i = 0; i < d->img->n_sections; i++) {
		d->name_offs[i] = (uint32_t)elf_get(h->big, b.p + (size_t)i * size, 4);
		/* One without a name may refer to a place after the old table, where new names will be. */
		if (!d->img->sections[i].name.size)
			d->name_offs[i] = (uint32_t)d->names.size - 1;
	}
	return 0;
}

/* ---- sections ---- */

static int debug_add_unpacked(struct debug_out *d, const struct elf_section *s, struct elf_section *out,
			      struct err *err)
{
	AUTO(stream_closep) struct stream *st = NULL;
	uint64_t start = d->o.pos;
	struct bytes chunk;

	if (elf_section_stream(d->img, s, &st, err))
		return -1;
	do {
		if (stream_next(st, KIB(256), &chunk, err) < 0 ||
		    elf_out_add(&d->o, chunk.p, chunk.size, err) < 0)
			return -1;
	} while (chunk.size);
	out->size = d->o.pos - start;
	return 0;
}

/* Write a debug section with the requested compression. */
static int debug_add_packed(struct debug_out *d, const struct elf_section *s, struct elf_out_section *out,
			    struct err *err)
{
	bool pack = d->packing != ELF_SPLIT_UNPACKED;
	int r = ELF_PACKED_LARGER;
	uint64_t align;

	if (elf_content_align(d->img, s, &align, err) < 0)
		return -1;
	if (str_starts(s->name, STR(".z")))
		out->name_off = debug_new_name(
			d, (struct str){ arena_printf(&d->a, ".%.*s", (int)s->name.size - 2, s->name.p + 2),
					 s->name.size - 1 });
	if (pack) {
		if (elf_out_align(&d->o, d->o.is64 ? 8 : 4, err) < 0)
			return -1;
		out->s.off = d->o.pos;
		r = elf_out_packed(&d->o, d->img, s, d->packing, err);
		if (r < 0)
			return -1;
	}
	if (r == 0) {
		out->s.flags |= SHF_COMPRESSED;
		out->s.align = d->o.is64 ? 8 : 4;
		out->s.size = d->o.pos - out->s.off;
		return 0;
	}
	out->s.flags &= ~(uint64_t)SHF_COMPRESSED;
	out->s.align = align;
	if (elf_out_align(&d->o, align, err) < 0)
		return -1;
	out->s.off = d->o.pos;
	return debug_add_unpacked(d, s, &out->s, err);
}

static int debug_add_section(struct debug_out *d, uint32_t i, struct err *err)
{
	const struct elf_section *s = &d->img->sections[i];
	struct elf_out_section *out = &d->sections[i];
	struct str base;

	*out = (struct elf_out_section){ *s, d->name_offs[i] };
	if (loses_bytes(s))
		out->s.type = SHT_NOBITS;
	if (out->s.type == SHT_NOBITS || s->type == SHT_NULL || !s->size) {
		out->s.off = d->o.pos;
		return 0;
	}
	if (d->packing != ELF_SPLIT_AS_THEY_ARE && !elf_is_alloc(s) && !elf_is_reloc_type(s->type) &&
	    elf_section_is_debug(s, &base))
		return debug_add_packed(d, s, out, err);
	/* Notes keep their offsets if nothing is in between: then the first segment's range stays right. */
	if (elf_is_alloc(s) && s->off >= d->o.pos && s->off - d->o.pos <= KIB(4) &&
	    elf_out_zeros(&d->o, s->off - d->o.pos, err) < 0)
		return -1;
	if (elf_out_align(&d->o, s->align, err) < 0)
		return -1;
	out->s.off = d->o.pos;
	return elf_out_copy(&d->o, d->img->src, s->off, s->size, err);
}

/* ---- a build ID in a segment alone ---- */

struct identity_notes {
	bool big;
	unsigned found; /* ELF_NOTE_GNU_ID, ELF_NOTE_GO_ID */
	struct buf copied;
};

static void identity_notes_done(struct identity_notes *n)
{
	buf_done(&n->copied);
}

static int note_identity_there(void *arg, const struct elf_note *note)
{
	struct identity_notes *n = arg;

	n->found |= elf_note_identifies(note);
	return 0;
}

static int copy_identity_note(void *arg, const struct elf_note *note)
{
	struct identity_notes *n = arg;
	unsigned kind = elf_note_identifies(note);
	uint8_t head[16] = { 0 };

	if (!(kind & ~n->found))
		return 0;
	n->found |= kind;
	/* Both owners have up to 4 bytes with their NUL; Go's linker counts the padding, too. */
	elf_put(n->big, head, 4, 4);
	elf_put(n->big, head + 4, note->desc.size, 4);
	elf_put(n->big, head + 8, note->type, 4);
	memcpy(head + 12, note->owner.p, note->owner.size);
	buf_add(&n->copied, head, sizeof(head));
	buf_add(&n->copied, note->desc.p, note->desc.size);
	while (n->copied.size % 4)
		buf_add_char(&n->copied, '\0');
	return 0;
}

/*
 * A build ID that is in a PT_NOTE segment, but in no section of notes, would be lost with the bytes of the segment, and the
 * debug file could not be found by it: it gets a section of its own, after all others.
 */
static int debug_add_identity(struct debug_out *d, struct err *err)
{
	AUTO(identity_notes_done) struct identity_notes n = { .big = d->o.big };
	struct elf_out_section *out = &d->sections[d->n_sections];

	if (elf_notes_each_in_sections(d->img, note_identity_there, &n, err) < 0 ||
	    elf_notes_each(d->img, copy_identity_note, &n, err) < 0)
		return -1;
	if (!n.copied.size)
		return 0;
	if (elf_out_align(&d->o, 4, err) < 0)
		return -1;
	*out = (struct elf_out_section){
		.s = { .type = SHT_NOTE, .off = d->o.pos, .size = n.copied.size, .align = 4 },
		.name_off = debug_new_name(d, STR(".note.gnu.build-id"))
	};
	d->n_sections++;
	return elf_out_add(&d->o, n.copied.p, n.copied.size, err);
}

static int debug_add_sections(struct debug_out *d, struct err *err)
{
	const struct elf_image *img = d->img;
	uint32_t names = img->h.names_index;

	for (uint32_t i = 1; i < img->n_sections; i++)
		if (i != names && debug_add_section(d, i, err) < 0)
			return err_in(err, "section %u " STR_FMT, i, STR_ARG(img->sections[i].name));
	if (debug_add_identity(d, err) < 0)
		return -1;
	/* The names last: sections that are no longer compressed, or are new, have new ones. */
	d->sections[names] = (struct elf_out_section){ img->sections[names], d->name_offs[names] };
	d->sections[names].s.off = d->o.pos;
	d->sections[names].s.size = d->names.size;
	return elf_out_add(&d->o, d->names.p, d->names.size, err);
}

/* ---- segments ---- */

/* Whether a section that keeps its bytes is in a segment of the old file. */
static bool segment_keeps(const struct debug_out *d, uint32_t i, const struct elf_segment *s)
{
	const struct elf_section *old = &d->img->sections[i];

	return elf_is_alloc(old) && d->sections[i].s.type != SHT_NOBITS && old->size && old->off >= s->off &&
	       old->off + old->size <= s->off + s->filesz;
}

/* The bytes from the segment's start that keep their layout: headers, and notes. *ret_off is their new
 * offset, *ret_end their end. */
static void segment_find_left(const struct debug_out *d, const struct elf_segment *s, uint64_t *ret_off,
			      uint64_t *ret_end)
{
	const struct elf_image *img = d->img;
	uint64_t head = (img->h.is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr)) +
			(uint64_t)img->n_segments * elf_segment_size(img->h.is64);
	uint64_t off = 0, end = s->off == 0 ? head : 0;

	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *old = &img->sections[i], *new = &d->sections[i].s;

		if (!segment_keeps(d, i, s))
			continue;
		if (!end && old->off == s->off)
			off = new->off;
		else if (!end || new->off - off != old->off - s->off)
			break; /* a section before it has lost its bytes */
		end = new->off + new->size;
	}
	*ret_off = off;
	*ret_end = end;
}

/* Addresses stay; the segment keeps those bytes of its start that are in the debug file. */
static void segment_place(struct debug_out *d, struct elf_segment *s)
{
	uint64_t off, end;

	if (s->type == PT_PHDR) {
		s->off = d->img->h.is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
		return;
	}
	segment_find_left(d, s, &off, &end);
	if (s->filesz && end) {
		s->off = off;
		s->filesz = MIN(s->filesz, end - off);
	} else {
		/* Offset and address must agree modulo the alignment, even without bytes. */
		s->off = s->align > 1 && s->align <= MIB(1) ? s->vaddr % s->align : 0;
		s->filesz = 0;
	}
}

static int debug_add_segments(struct debug_out *d, struct err *err)
{
	const struct elf_image *img = d->img;
	uint64_t pos = d->o.pos;

	if (!img->n_segments)
		return 0;
	d->segments = ARENA_NEW_N(&d->a, struct elf_segment, img->n_segments);
	memcpy(d->segments, img->segments, img->n_segments * sizeof(*d->segments));
	for (uint32_t i = 0; i < img->n_segments; i++)
		segment_place(d, &d->segments[i]);
	if (elf_out_flush(&d->o, err) < 0)
		return -1;
	d->o.pos = img->h.is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
	if (elf_out_segments(&d->o, d->segments, img->n_segments, err) < 0 || elf_out_flush(&d->o, err) < 0)
		return -1;
	d->o.pos = pos;
	return 0;
}

/* ---- the file ---- */

static int crc_of_output(int fd, uint32_t *ret, struct err *err)
{
	AUTO(mem_freep) uint8_t *chunk = mem_alloc(MIB(1));
	uLong crc = crc32(0, NULL, 0);
	uint64_t off = 0;
	size_t got;

	do {
		if (fd_pread(fd, chunk, MIB(1), off, &got, err) < 0)
			return -1;
		crc = crc32(crc, chunk, (uInt)got);
		off += got;
	} while (got == MIB(1));
	*ret = (uint32_t)crc;
	return 0;
}

int elf_split_debug(const struct elf_image *img, int fd, enum elf_split_packing packing, uint32_t *ret_crc,
		    struct err *err)
{
	AUTO(debug_done) struct debug_out d = { .img = img, .packing = packing };
	uint64_t head = img->h.is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
	struct elf_out_tables tables = { .phoff = img->n_segments ? head : 0,
					 .names_index = img->h.names_index };

	elf_out_init(&d.o, fd, img);
	d.n_sections = img->n_sections;
	d.sections = arena_try(&d.a, ((size_t)img->n_sections + 1) * sizeof(*d.sections));
	if (!d.sections)
		return err_set(err, ERR_LIMIT, "no memory for %u sections", img->n_sections);
	memset(&d.sections[0], 0, sizeof(d.sections[0]));
	tables.sections = d.sections;
	if (debug_read_names(&d, err) < 0 || debug_read_name_offs(&d, err) < 0 ||
	    elf_out_zeros(&d.o, head + (uint64_t)img->n_segments * elf_segment_size(img->h.is64), err) < 0 ||
	    debug_add_sections(&d, err) < 0 || debug_add_segments(&d, err) < 0)
		return -1;
	tables.n_sections = d.n_sections;
	if (elf_out_finish(&d.o, img, &tables, err) < 0)
		return -1;
	return crc_of_output(fd, ret_crc, err);
}
