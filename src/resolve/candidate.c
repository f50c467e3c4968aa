/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One candidate: a row of the index with the build ID, which is a file or a member of a package.
 */
#include "resolve/internal.h"

#include <elf.h>
#include <stdio.h>

/* ---- opening ---- */

static int candidate_open_member(struct work *w, const struct index_hit *h, struct resolve_answer *ret)
{
	const struct pkg_entry *e;
	struct pin pin;
	struct mapped *m;
	int r = mapped_get(w, &h->file, &m, &pin);

	if (r)
		return r;
	e = pkg_map_by_number(m->map, h->artifact.member);
	if (!e) {
		pin_release(&pin);
		work_note(w, h->file.path, "its map has no member %u", h->artifact.member);
		return NOT_THIS;
	}
	return package_open(w, &h->file, m, &pin, e, ret);
}

int candidate_open(struct work *w, const struct index_hit *h, struct resolve_answer *ret)
{
	const struct index_file *f = &h->file;
	struct err why = { .kind = f->reason_kind };

	if (f->kind == INDEX_PLAIN)
		return plain_open(w, h, ret);
	if (f->state == INDEX_SCANNED && h->artifact.member != INDEX_NO_MEMBER)
		return candidate_open_member(w, h, ret);
	if (f->state != INDEX_FAILED)
		return LATER;
	snprintf(why.text, sizeof(why.text), "could not be scanned: " STR_FMT, STR_ARG(f->reason));
	if (why.kind == ERR_NONE)
		why.kind = ERR_INVALID;
	return work_failed(w, f->path, &why);
}

int candidate_open_partial(struct work *w, const struct index_file *f, const struct build_id *id,
			   uint32_t flags, struct resolve_answer *ret)
{
	const struct scan_wanted what = { f ? f->id : 0, id, flags };
	const struct pkg_entry *e;
	struct scan_partial p;
	struct index_file row;
	struct err why = { 0 };
	struct pin pin;
	struct mapped *m;
	int r = w->r->partial(w->r->scan, &what, &p, &why);

	if (r < 0)
		return work_failed(w, f ? f->path : STR("scan"), &why);
	if (r)
		return LATER;
	if (!f) {
		if (index_file_by_id(w->ix, p.file, w->a, &row, NULL) != 0) {
			pkg_map_free(p.map);
			buf_done(&p.points);
			return LATER;
		}
		f = &row;
	}
	m = mapped_of(f, p.map, &p.points, &pin);
	e = pkg_map_by_number(p.map, p.number);
	if (!e) {
		pin_release(&pin);
		return LATER;
	}
	return package_open(w, f, m, &pin, e, ret);
}

/* ---- checking ---- */

static int note_other_id(struct work *w, const struct build_id *id, struct str place)
{
	char hex[BUILD_ID_HEX_SIZE];

	w->doubt = true;
	work_note(w, place, "does not match the index: its build ID is %s", build_id_hex(id, hex));
	return NOT_THIS;
}

int candidate_check_head(struct work *w, const struct build_id *id, const struct resolve_answer *ans)
{
	struct build_id there;
	struct err why = { 0 };
	struct bytes head;

	if (pinned_source_head(ans->source, &head, &why) < 0)
		return work_failed(w, answer_place(w, ans), &why);
	if (head.size < SELFMAG || memcmp(head.p, ELFMAG, SELFMAG) != 0) {
		w->doubt = true;
		work_note(w, answer_place(w, ans), "does not match the index: not an ELF file");
		return NOT_THIS;
	}
	if (head_build_id(head, &there) && !build_id_eq(&there, id))
		return note_other_id(w, &there, answer_place(w, ans));
	return 0;
}

int candidate_check_image(struct work *w, const struct build_id *id, const struct elf_image *img,
			  struct str place)
{
	struct build_id there = { 0 };
	struct err why = { 0 };
	int r = elf_build_id(img, &there, &why);

	if (r < 0)
		return work_failed(w, place, &why);
	if (r && elf_is_identified_by(img->src, img, id))
		return 0;
	if (r) {
		w->doubt = true;
		work_note(w, place, "does not match the index: no build ID");
		return NOT_THIS;
	}
	return build_id_eq(&there, id) ? 0 : note_other_id(w, &there, place);
}
