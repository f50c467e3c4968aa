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
	const uint8_t *p;
	struct cursor b;
	uint64_t size;

	if (left < 8)
		return FRAMES_END;
	p = section_at(&f->section, off, MIN(left, (uint64_t)24), err);
	if (!p)
		return -1;
	b = cursor_of(bytes_of(p, MIN(left, (uint64_t)24)));
	ret->off = off;
	size = cursor_u32(&b);
	ret->wide = size == UINT32_MAX;
	if (ret->wide)
		size = cursor_u64(&b);
	ret->id_at = off + (ret->wide ? 12 : 4);
	/* .eh_frame has pointers of 4 bytes in entries of either size, as binutils and LLVM read it. */
	ret->head = (ret->wide ? 12 : 4) + (ret->wide && f->debug ? 8 : 4);
	ret->id = cursor_uint(&b, ret->wide && f->debug ? 8 : 4);
	ret->size = size + (ret->wide ? 12 : 4);
	if (!size)
		return f->open ? FRAMES_END : 0;
	if (!cursor_ok(&b) || size > left || ret->size > left || ret->size < ret->head)
		return FRAMES_END;
	return 0;
}

static bool entry_is_cie(const struct frames *f, const struct entry_head *e)
{
	return f->debug ? e->id == (e->wide ? UINT64_MAX : UINT32_MAX) : e->id == 0;
}

/* ---- addresses ---- */

/* An address in @encoding; @at is that of its first byte. false: not supported, or damaged. */
static bool read_address(struct cursor *b, uint8_t encoding, uint64_t at, uint64_t *ret)
{
	uint64_t v;

	switch (encoding & PTR_FORM) {
	case 0x00:
	case 0x04:
	case 0x0c:
		v = cursor_u64(b);
		break;
	case 0x02:
		v = cursor_u16(b);
		break;
	case 0x0a:
		v = (uint64_t)(int16_t)cursor_u16(b);
		break;
	case 0x03:
		v = cursor_u32(b);
		break;
	case 0x0b:
		v = (uint64_t)(int32_t)cursor_u32(b);
		break;
	case 0x01:
		v = cursor_uleb(b);
		break;
	case 0x09:
		v = (uint64_t)cursor_sleb(b);
		break;
	default:
		return false;
	}
	if ((encoding & PTR_BASE) == PTR_PCREL)
		v += at;
	else if (encoding & PTR_BASE)
		return false;
	*ret = v;
	return cursor_ok(b) && !(encoding & PTR_INDIRECT);
}

/* ---- CIEs ---- */

/* The data of an augmentation that starts with z. */
static bool read_augmentation(struct cursor *b, const uint8_t *names, const uint8_t *names_end,
			      struct cfi_cie *cie)
{
	uint64_t ignored;

	for (; names < names_end; names++) {
		uint8_t encoding;

		switch (*names) {
		case 'L':
			cursor_u8(b);
			break;
		case 'R':
			cie->pointer = (uint8_t)cursor_u8(b);
			break;
		case 'P':
			encoding = (uint8_t)cursor_u8(b);
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
	return cursor_ok(b);
}

static bool parse_cie(const struct frames *f, struct cursor b, struct cfi_cie *cie)
{
	uint64_t version = cursor_u8(&b), size;
	const uint8_t *names = b.p, *end;

	if (version != 1 && version != 3 && version != 4)
		return false;
	while (b.p < b.end && *b.p)
		b.p++;
	end = b.p;
	cursor_u8(&b);
	if (version == 4 && (cursor_u8(&b) != 8 || cursor_u8(&b) != 0))
		return false;
	cie->code_align = cursor_uleb(&b);
	cie->data_align = cursor_sleb(&b);
	if ((version == 1 ? cursor_u8(&b) : cursor_uleb(&b)) != CFI_RA || !cie->code_align ||
	    cie->code_align > CODE_ALIGN_MAX)
		return false;
	cie->pointer = 0;
	if (names < end && *names == 'z') {
		struct cursor data = b;

		cie->has_size = true;
		size = cursor_uleb(&b);
		if (!cursor_ok(&b) || size > cursor_left(&b))
			return false;
		data = cursor_of(bytes_of(b.p, size));
		b.p += size;
		if (!read_augmentation(&data, names + 1, end, cie))
			return false;
	} else if (names < end && (f->debug || end - names != 1 || *names != 'S')) {
		return false;
	} else if (names < end) {
		cie->signal = true;
	}
	return cursor_ok(&b) && cfi_run_initial(b.p, b.end, cie);
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
	if (r || e.size < e.head || !entry_is_cie(f, &e))
		return cie;
	f->n_bytes += e.size;
	if (e.size > CIE_MAX)
		return cie;
	p = section_at(&f->section, off, e.size, err);
	if (!p) {
		cie->used = false;
		return NULL;
	}
	cie->sound = parse_cie(f, cursor_of(bytes_of(p + e.head, e.size - e.head)), cie);
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
	struct cursor b;
	struct entry_head e;
	uint64_t at, size, n, code = off;
	const uint8_t *p;
	int r = read_entry_head(f, off, &e, err);

	*ret_damaged = false;
	if (r)
		return r;
	*ret_next = off + e.size;
	/*
	 * An entry of size 0, in either form, is the end of a linked part; linkers leave some in the middle. It has no
	 * identifier.
	 */
	if (e.size < e.head || entry_is_cie(f, &e))
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
	b = cursor_of(bytes_of(p + e.head, n - e.head));
	if (!read_address(&b, cie->pointer, f->section.addr + off + e.head, &ret->start) ||
	    !read_address(&b, cie->pointer & PTR_FORM, 0, &size) ||
	    add_overflows(ret->start, size, &ret->end))
		return FRAMES_OTHER;
	if (cie->has_size) {
		uint64_t skip = cursor_uleb(&b);

		if (!cursor_ok(&b) || skip > e.size - (uint64_t)(b.p - p))
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
