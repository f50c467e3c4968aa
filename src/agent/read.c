/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Program headers, build ID, unwind rows. A file is read in blocks, since few of its bytes are needed.
 */
#include "agent/read.h"

#include <elf.h>
#include <stdlib.h>

#include "agent/python_image.h"
#include "unwind/unwind.h"

#define BLOCK  KIB(16)
#define BLOCKS 8u

static void take_segments(const struct elf_image *img, struct file_head *ret)
{
	for (uint32_t i = 0; i < img->n_segments && ret->n_segments < FILES_MAX_SEGMENTS; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (s->type == PT_LOAD && s->flags & PF_X && s->filesz &&
		    s->vaddr <= UINT64_MAX - s->filesz && s->off <= UINT64_MAX - s->filesz)
			ret->segments[ret->n_segments++] = (struct file_segment){ s->vaddr, s->off,
										  s->filesz };
	}
}

/* One that cannot be read as such is a file like any other. */
static struct python_image *read_python(const struct elf_image *img, const char *name)
{
	struct python_image *p = NEW(struct python_image);
	struct err err = { 0 };
	int r = python_image_read(img, name, p, &err);

	if (r < 0)
		log_debug("agent", "%s: %s", name, err.text);
	if (r == 0)
		return p;
	free(p);
	return NULL;
}

int file_head_of(struct source *src, const char *name, struct file_head *ret,
		 struct python_image **ret_python, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct elf_aliases aliases;
	struct elf_facts facts;
	int r = elf_open(src, &img, err);

	if (r)
		return r < 0 ? -1 : err_set(err, ERR_INVALID, "not an ELF file");
	if (img->h.type != ET_EXEC && img->h.type != ET_DYN)
		return err_set(err, ERR_INVALID, "an ELF file that is no program or library");
	take_segments(img, ret);
	ret->is_64 = img->h.is64 && !img->h.big;
	r = elf_identify(src, &facts, &ret->id_kind, &aliases, err);
	if (r == 0) {
		ret->id = facts.build_id;
		ret->is_stripped = !(facts.flags & (ELF_HAS_DWARF | ELF_HAS_SYMTAB));
	}
	*ret_python = r >= 0 && name ? read_python(img, name) : NULL;
	return r < 0 ? -1 : 0;
}

int file_table_of(struct source *src, struct buf *out, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct unwind_options o = { 0 };
	struct unwind_stats stats;
	int r = elf_open(src, &img, err);

	if (r == 0)
		r = unwind_build(img, &o, out, &stats, err);
	return r > 0 ? err_set(err, ERR_INVALID, "has no unwind rows") : r;
}

struct source *file_source_of(int fd, uint64_t size)
{
	return source_cached(source_of_fd(fd, size, 0, "file"), true, BLOCK, BLOCKS);
}
