/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of .eh_frame (Linux Standard Base, "Exception Frames") and .debug_frame (DWARF 5, section 6.4.1).
 *
 * They differ in the id of a CIE, in the way an FDE refers to its CIE, and in the encoding of addresses.
 */
#include "unwind/internal.h"

#define CIE_MAX \
	512u /* bytes of a CIE: real ones have some 30, and each FDE may be the first to use its CIE */
#define CODE_ALIGN_MAX 64u

enum {
	PTR_FORM = 0x0f,
	PTR_BASE = 0x70,
	PTR_PCREL = 0x10,
	PTR_DATAREL = 0x30,
	PTR_INDIRECT = 0x80,
	PTR_OMIT = 0xff
};

/* ---- the head of an entry ---- */

struct entry_head {
	uint64_t off, size; /* all of it, with its length */
	uint64_t id_at;     /* the offset in the section of the id or pointer, which counts from there */
	uint64_t id;
	bool wide;     /* 64-bit DWARF */
	unsigned head; /* bytes up to the end of the id */
};

/* 0, or FRAMES_END. An entry that does not fit ends the section. */
static int read_entry_head(struct frames *f, uint64_t off, struct entry_head *ret, struct err *err)
{
	uint64_t left = f->section.size - MIN(off, f->section.size);
	struct cfi_bytes b;
	uint64_t size;

	if (left < 8)
		return FRAMES_END;
	b.p = section_at(&f->section, off, MIN(left, (uint64_t)24), err);
	if (!b.p)
		return -1;
	b.end = b.p + MIN(left, (uint64_t)24);
	b.failed = false;
	ret->off = off;
	size = cfi_fixed(&b, 4);
	ret->wide = size == UINT32_MAX;
	if (ret->wide)
		size = cfi_fixed(&b, 8);
	ret->id_at = off + (ret->wide ? 12 : 4);
	/* .eh_frame has pointers of 4 bytes in entries of either size, as binutils and LLVM read it. */
	ret->head = (ret->wide ? 12 : 4) + (ret->wide && f->debug ? 8 : 4);
	ret->id = cfi_fixed(&b, ret->wide && f->debug ? 8 : 4);
	ret->size = size + (ret->wide ? 12 : 4);
	if (!size)
		return f->open ? FRAMES_END : 0;
	if (b.failed || size > left || ret->size > left || ret->size < ret->head)
		return FRAMES_END;
	return 0;
}

static bool entry_is_cie(const struct frames *f, const struct entry_head *e)
{
	return f->debug ? e->id == (e->wide ? UINT64_MAX : UINT32_MAX) : e->id == 0;
}

/* ---- addresses ---- */

/* An address in @encoding; @at is that of its first byte. false: not supported, or damaged. */
static bool read_address(struct cfi_bytes *b, uint8_t encoding, uint64_t at, uint64_t *ret)
{
	uint64_t v;

	switch (encoding & PTR_FORM) {
	case 0x00:
	case 0x04:
	case 0x0c:
		v = cfi_fixed(b, 8);
		break;
	case 0x02:
		v = cfi_fixed(b, 2);
		break;
	case 0x0a:
		v = (uint64_t)(int16_t)cfi_fixed(b, 2);
		break;
	case 0x03:
		v = cfi_fixed(b, 4);
		break;
	case 0x0b:
		v = (uint64_t)(int32_t)cfi_fixed(b, 4);
		break;
	case 0x01:
		v = cfi_uleb(b);
		break;
	case 0x09:
		v = (uint64_t)cfi_sleb(b);
		break;
	default:
		return false;
	}
	if ((encoding & PTR_BASE) == PTR_PCREL)
		v += at;
	else if (encoding & PTR_BASE)
		return false;
	*ret = v;
	return !b->failed && !(encoding & PTR_INDIRECT);
}

/* ---- CIEs ---- */

/* The data of an augmentation that starts with z. */
static bool read_augmentation(struct cfi_bytes *b, const uint8_t *names, const uint8_t *names_end,
			      struct cfi_cie *cie)
{
	uint64_t ignored;

	for (; names < names_end; names++) {
		uint8_t encoding;

		switch (*names) {
		case 'L':
			cfi_fixed(b, 1);
			break;
		case 'R':
			cie->pointer = (uint8_t)cfi_fixed(b, 1);
			break;
		case 'P':
			encoding = (uint8_t)cfi_fixed(b, 1);
			/* Where the personality function is does not matter, only the size of its address. */
			if (!read_address(b, encoding & PTR_FORM, 0, &ignored))
				return false;
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B':
			break; /* of AArch64 */
		default:
			return false;
		}
	}
	return !b->failed;
}

static bool parse_cie(const struct frames *f, struct cfi_bytes b, struct cfi_cie *cie)
{
	uint64_t version = cfi_fixed(&b, 1), size;
	const uint8_t *names = b.p, *end;

	if (version != 1 && version != 3 && version != 4)
		return false;
	while (b.p < b.end && *b.p)
		b.p++;
	end = b.p;
	cfi_fixed(&b, 1);
	if (version == 4 && (cfi_fixed(&b, 1) != 8 || cfi_fixed(&b, 1) != 0))
		return false;
	cie->code_align = cfi_uleb(&b);
	cie->data_align = cfi_sleb(&b);
	if ((version == 1 ? cfi_fixed(&b, 1) : cfi_uleb(&b)) != CFI_RA || !cie->code_align ||
	    cie->code_align > CODE_ALIGN_MAX)
		return false;
	cie->pointer = 0;
	if (names < end && *names == 'z') {
		struct cfi_bytes data = b;

		cie->has_size = true;
		size = cfi_uleb(&b);
		if (b.failed || size > (size_t)(b.end - b.p))
			return false;
		data = (struct cfi_bytes){ b.p, b.p + size, false };
		b.p += size;
		if (!read_augmentation(&data, names + 1, end, cie))
			return false;
	} else if (names < end && (f->debug || end - names != 1 || *names != 'S')) {
		return false;
	} else if (names < end) {
		cie->signal = true;
	}
	return !b.failed && cfi_run_initial(b.p, b.end, cie);
}

/* The CIE at @off. NULL: an error. */
static const struct cfi_cie *find_cie(struct frames *f, uint64_t off, struct err *err)
{
	struct cfi_cie *cie = &f->cies[(off >> 2) % FRAMES_CIES];
	struct entry_head e;
	const uint8_t *p;
	int r;

	if (cie->used && cie->off == off)
		return cie;
	*cie = (struct cfi_cie){ .used = true, .off = off };
	r = read_entry_head(f, off, &e, err);
	if (r < 0) {
		cie->used = false;
		return NULL;
	}
	if (r || !entry_is_cie(f, &e))
		return cie;
	f->n_bytes += e.size;
	if (e.size > CIE_MAX)
		return cie;
	p = section_at(&f->section, off, e.size, err);
	if (!p) {
		cie->used = false;
		return NULL;
	}
	cie->sound = parse_cie(f, (struct cfi_bytes){ p + e.head, p + e.size, false }, cie);
	return cie;
}

/* ---- FDEs ---- */

/* The offset of an FDE's CIE. false: it is outside of the section. */
static bool cie_offset(const struct frames *f, const struct entry_head *e, uint64_t *ret)
{
	*ret = f->debug ? e->id : e->id_at - e->id;
	return *ret < f->section.size;
}

int frames_read(struct frames *f, uint64_t off, struct frames_function *ret, uint64_t *ret_next,
		bool *ret_damaged, struct err *err)
{
	const struct cfi_cie *cie;
	struct cfi_bytes b;
	struct entry_head e;
	uint64_t at, size, n, code = off;
	const uint8_t *p;
	int r = read_entry_head(f, off, &e, err);

	*ret_damaged = false;
	if (r)
		return r;
	*ret_next = off + e.size;
	/* An entry of size 0 is the end of a linked part; linkers leave some in the middle. */
	if (e.size == 4 || entry_is_cie(f, &e))
		return FRAMES_OTHER;
	*ret_damaged = true;
	if (!cie_offset(f, &e, &at))
		return FRAMES_OTHER;
	cie = find_cie(f, at, err);
	if (!cie)
		return -1;
	f->n_bytes += e.size;
	if (!cie->sound)
		return FRAMES_OTHER;
	/* The fixed part: two addresses and a size. */
	n = MIN(e.size, (uint64_t)64);
	p = section_at(&f->section, off, n, err);
	if (!p)
		return -1;
	b = (struct cfi_bytes){ p + e.head, p + n, false };
	if (!read_address(&b, cie->pointer, f->section.addr + off + e.head, &ret->start) ||
	    !read_address(&b, cie->pointer & PTR_FORM, 0, &size) ||
	    add_overflows(ret->start, size, &ret->end))
		return FRAMES_OTHER;
	if (cie->has_size) {
		uint64_t skip = cfi_uleb(&b);

		if (b.failed || skip > e.size - (uint64_t)(b.p - p))
			return FRAMES_OTHER;
		code += skip;
	}
	ret->code = code + (uint64_t)(b.p - p);
	ret->off = off;
	ret->code_size = off + e.size - ret->code;
	ret->cie = *cie;
	*ret_damaged = false;
	return 0;
}
