/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links from a file to its debug information: .gnu_debuglink (name and CRC of the debug file),
 * .gnu_debugaltlink and DWARF 5's .debug_sup (path and build ID of the supplementary file).
 */
#include "elf/internal.h"

#include <elf.h>

#define LINK_MAX KIB(8) /* a path, a NUL and a build ID */

/* The bytes of a link section; ELF_NO_LINK if there is no such section, or an empty one. */
static int link_bytes(const struct elf_image *img, const char *name, struct arena *a, struct bytes *ret,
		      struct err *err)
{
	const struct elf_section *sec = elf_section_find(img, name);
	int r;

	if (!sec)
		return ELF_NO_LINK;
	r = elf_section_read(img, sec, LINK_MAX, a, ret, err);
	if (r == ELF_NO_SECTION)
		return ELF_NO_LINK;
	return r < 0 ? err_in(err, "%s", name) : 0;
}

int elf_debug_link(const struct elf_image *img, struct arena *a, struct str *ret_name, uint32_t *ret_crc,
		   struct err *err)
{
	struct bytes b;
	struct cursor c;
	struct str name;
	uint32_t crc;
	int r = link_bytes(img, ".gnu_debuglink", a, &b, err);

	if (r)
		return r;
	c = cursor_at(b, img->h.big, 0);
	name = cursor_cstr(&c);
	cursor_align(&c, 4);
	crc = cursor_u32(&c);
	if (!cursor_ok(&c))
		return cursor_err(&c, ".gnu_debuglink", err);
	*ret_name = arena_str(a, name);
	*ret_crc = crc;
	return 0;
}

/* DWARF 5, section 7.3.6: version, is_supplementary, name, size of the checksum, checksum (the build ID). */
static int parse_sup(const struct elf_image *img, struct bytes b, bool *ret_is_sup, struct str *ret_path,
		     struct bytes *ret_id, struct err *err)
{
	struct cursor c = cursor_at(b, img->h.big, 0);
	uint16_t version = cursor_u16(&c);
	uint8_t is_sup = cursor_u8(&c);
	struct str path = cursor_cstr(&c);
	struct bytes id = cursor_bytes(&c, cursor_uleb(&c));

	if (!cursor_ok(&c))
		return cursor_err(&c, ".debug_sup", err);
	if (version < 2 || version > 5)
		return err_set(err, ERR_INVALID, ".debug_sup has the unknown version %u", version);
	*ret_is_sup = is_sup == 1;
	*ret_path = path;
	*ret_id = id;
	return 0;
}

int elf_alt_link(const struct elf_image *img, struct arena *a, struct str *ret_path, struct build_id *ret_id,
		 struct err *err)
{
	bool is_sup = false;
	struct build_id id;
	struct str path;
	struct bytes b, id_bytes;
	int r = link_bytes(img, ".gnu_debugaltlink", a, &b, err);

	if (r < 0)
		return -1;
	if (r == 0) {
		struct cursor c = cursor_of(b);

		path = cursor_cstr(&c);
		if (!cursor_ok(&c))
			return cursor_err(&c, ".gnu_debugaltlink", err);
		id_bytes = cursor_bytes(&c, cursor_left(&c));
	} else {
		r = link_bytes(img, ".debug_sup", a, &b, err);
		if (r)
			return r;
		if (parse_sup(img, b, &is_sup, &path, &id_bytes, err) < 0)
			return -1;
		if (is_sup)
			return ELF_NO_LINK;
	}
	if (!build_id_set(&id, id_bytes))
		return err_set(err, ERR_INVALID,
			       "the link to the supplementary file has a build ID of %zu bytes",
			       id_bytes.size);
	*ret_path = arena_str(a, path);
	*ret_id = id;
	return 0;
}
