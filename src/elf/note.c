/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes, and the two kinds of build ID that are written in them.
 *
 * A note is three words (size of the owner, size of the descriptor, type), the owner with its NUL, the
 * descriptor; the latter two are padded. Padding is to 4 bytes, in 64-bit files too, as everyone but the
 * specification has it; areas with an alignment of 8 (GNU properties) pad to 8.
 */
#include "elf/internal.h"

#include <elf.h>

#define NOTE_BUILD_ID    3 /* of owner "GNU"; type 3 of Xen and of core dumps has another meaning */
#define NOTE_GO_BUILD_ID 4 /* of owner "Go" */

/* For all areas of one file together: 65536 segments may all claim the same MiB. */
#define NOTES_MAX_TOTAL MIB(16)

struct notes_walk {
	const struct elf_image *img;
	int (*fn)(void *arg, const struct elf_note *note);
	void *arg;
	uint64_t max;  /* bytes of one area */
	uint64_t left; /* of NOTES_MAX_TOTAL */
};

/* 0: a note. 1: no note is left, or the rest is damaged. */
static int note_next(struct cursor *c, unsigned align, struct elf_note *ret)
{
	uint32_t owner_size, desc_size;
	struct bytes owner, desc;
	uint32_t type;

	if (cursor_left(c) < 12)
		return 1;
	owner_size = cursor_u32(c);
	desc_size = cursor_u32(c);
	type = cursor_u32(c);
	owner = cursor_bytes(c, owner_size);
	cursor_align(c, align);
	desc = cursor_bytes(c, desc_size);
	cursor_align(c, align);
	if (!cursor_ok(c))
		return 1;
	/* Go's linker counts the padding of "Go" as part of it. */
	while (owner.size && owner.p[owner.size - 1] == '\0')
		owner.size--;
	*ret = (struct elf_note){ .type = type,
				  .owner = { (const char *)owner.p, owner.size },
				  .desc = desc };
	return 0;
}

/* The notes of one segment or section. An area outside of the file has none. */
static int notes_walk_area(struct notes_walk *w, uint64_t off, uint64_t size, uint64_t align, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	uint64_t file_size = w->img->src->size;
	struct elf_note note;
	struct bytes b;
	struct cursor c;

	if (off >= file_size)
		return 0;
	size = MIN(MIN(size, file_size - off), MIN(w->max, w->left));
	if (size < 12)
		return 0;
	w->left -= size;
	if (elf_view(w->img, off, size, &a, &b, err) < 0)
		return err_in(err, "notes");
	c = cursor_at(b, w->img->h.big, off);
	while (note_next(&c, align == 8 ? 8 : 4, &note) == 0) {
		int r = w->fn(w->arg, &note);

		if (r)
			return r;
	}
	return 0;
}

static int notes_walk_sections(struct notes_walk *w, struct err *err)
{
	int r = 0;

	for (uint32_t i = 1; i < w->img->n_sections && !r; i++) {
		const struct elf_section *sec = &w->img->sections[i];

		if (sec->type == SHT_NOTE)
			r = notes_walk_area(w, sec->off, sec->size, sec->align, err);
	}
	return r;
}

int elf_notes_each_within(const struct elf_image *img, uint64_t max,
			  int (*fn)(void *arg, const struct elf_note *note), void *arg, struct err *err)
{
	struct notes_walk w = { .img = img, .fn = fn, .arg = arg, .max = max, .left = NOTES_MAX_TOTAL };
	int r = 0;

	for (uint32_t i = 0; i < img->n_segments && !r; i++) {
		const struct elf_segment *seg = &img->segments[i];

		if (seg->type == PT_NOTE)
			r = notes_walk_area(&w, seg->off, seg->filesz, seg->align, err);
	}
	return r ? r : notes_walk_sections(&w, err);
}

int elf_notes_each_in_sections(const struct elf_image *img, int (*fn)(void *arg, const struct elf_note *note),
			       void *arg, struct err *err)
{
	struct notes_walk w = {
		.img = img, .fn = fn, .arg = arg, .max = ELF_MAX_NOTE_SIZE, .left = NOTES_MAX_TOTAL
	};

	return notes_walk_sections(&w, err);
}

int elf_notes_each(const struct elf_image *img, int (*fn)(void *arg, const struct elf_note *note), void *arg,
		   struct err *err)
{
	return elf_notes_each_within(img, ELF_MAX_NOTE_SIZE, fn, arg, err);
}

static bool note_is_go(const struct elf_note *note)
{
	return note->type == NOTE_GO_BUILD_ID && str_eq(note->owner, STR("Go"));
}

static bool note_is_gnu(const struct elf_note *note)
{
	return note->type == NOTE_BUILD_ID && str_eq(note->owner, STR("GNU"));
}

unsigned elf_note_identifies(const struct elf_note *note)
{
	struct build_id id;

	if (note_is_gnu(note) && build_id_set(&id, note->desc))
		return ELF_NOTE_GNU_ID;
	return note_is_go(note) && note->desc.size ? ELF_NOTE_GO_ID : 0;
}

/* The first note of each kind that identifies the file. */
struct note_ids {
	struct build_id gnu, go;
	bool both; /* do not stop at GNU's */
};

static int take_note_ids(void *arg, const struct elf_note *note)
{
	struct note_ids *ids = arg;

	if (!ids->gnu.size && note_is_gnu(note) && build_id_set(&ids->gnu, note->desc))
		return !ids->both || ids->go.size;
	if (!ids->go.size && note_is_go(note) &&
	    build_id_set_go(&ids->go, (struct str){ (const char *)note->desc.p, note->desc.size }))
		return ids->gnu.size != 0;
	return 0;
}

int elf_build_id(const struct elf_image *img, struct build_id *ret, struct err *err)
{
	struct note_ids ids = { 0 };

	if (elf_notes_each(img, take_note_ids, &ids, err) < 0)
		return -1;
	if (!ids.gnu.size && !ids.go.size)
		return ELF_NO_BUILD_ID;
	*ret = ids.gnu.size ? ids.gnu : ids.go;
	return 0;
}

int elf_note_identities(const struct elf_image *img, struct build_id *ret_gnu, struct build_id *ret_go,
			struct err *err)
{
	struct note_ids ids = { .both = true };

	if (elf_notes_each(img, take_note_ids, &ids, err) < 0)
		return -1;
	*ret_gnu = ids.gnu;
	*ret_go = ids.go;
	return 0;
}

int elf_notes_build_id(struct bytes notes, bool big, struct build_id *ret)
{
	struct cursor c = cursor_at(notes, big, 0);
	struct note_ids ids = { 0 };
	struct elf_note note;

	while (note_next(&c, 4, &note) == 0) {
		if (take_note_ids(&ids, &note)) {
			*ret = ids.gnu;
			return 0;
		}
	}
	return ELF_NO_BUILD_ID;
}

struct go_id {
	struct arena *a;
	struct str text;
};

static int take_go_build_id(void *arg, const struct elf_note *note)
{
	struct go_id *id = arg;

	if (!note_is_go(note) || !note->desc.size)
		return 0;
	id->text = arena_str(id->a, (struct str){ (const char *)note->desc.p, note->desc.size });
	return 1;
}

int elf_go_build_id(const struct elf_image *img, struct arena *a, struct str *ret, struct err *err)
{
	struct go_id id = { .a = a };
	int r = elf_notes_each(img, take_go_build_id, &id, err);

	if (r < 0)
		return -1;
	if (!r)
		return ELF_NO_BUILD_ID;
	*ret = id.text;
	return 0;
}
