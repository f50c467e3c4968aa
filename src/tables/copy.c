/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file out of a package, copied so that it can be read at random. A table is built of sections that are
 * read here and there, again and again; out of a package each of these reads would decode everything before
 * it. So the file is copied in order, each byte decoded once, into a file without a name.
 *
 * Sections that no table needs stay a hole. In a linked file these are the relocations that the linker left
 * in it: more than half of a kernel.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "tables/internal.h"

struct copy_range {
	uint64_t off, end;
};

static int copy_one_range(int fd, struct source *src, uint64_t off, uint64_t end,
			  const struct copy_options *o, struct err *err)
{
	struct stream *in = stream_of_source(src, false, off, end - off);
	struct bytes piece;
	int r;

	while ((r = stream_next(in, MIB(1), &piece, err)) == 0 && piece.size) {
		r = err_if_cancelled(o->cancel, err);
		if (r == 0)
			r = budget_hold_add(o->disk, piece.size, err);
		if (r == 0)
			r = fd_pwrite(fd, piece.p, piece.size, off, err);
		if (r < 0)
			break;
		off += piece.size;
	}
	stream_close(in);
	if (r == 0 && off != end)
		r = err_set(err, ERR_INVALID, "ends at %llu, %llu bytes were announced",
			    (unsigned long long)off, (unsigned long long)end);
	return r < 0 ? -1 : 0;
}

static int by_range_offset(const void *a, const void *b)
{
	const struct copy_range *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off);
}

/* Sorted; ranges may overlap. NULL: there is no section table, so all of the file may be needed. */
static struct copy_range *table_ranges(const struct elf_image *img, size_t *ret_n)
{
	uint64_t entry = img->h.is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	uint64_t program_entry = img->h.is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	struct copy_range *list;
	size_t n = 0;

	if (!img->n_sections || img->sections_err.kind != ERR_NONE)
		return NULL;
	list = mem_alloc((img->n_sections + (size_t)3) * sizeof(*list));
	list[n++] = (struct copy_range){ 0, sizeof(Elf64_Ehdr) };
	list[n++] = (struct copy_range){ img->h.phoff, img->h.phoff + img->n_segments * program_entry };
	list[n++] = (struct copy_range){ img->h.shoff, img->h.shoff + img->n_sections * entry };
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];
		bool left_behind = (sec->type == SHT_REL || sec->type == SHT_RELA) && img->h.type != ET_REL &&
				   !(sec->flags & SHF_ALLOC);
		struct copy_range r;

		if (!left_behind && elf_section_range(img, sec, &r.off, &r.end, NULL) == 0) {
			r.end += r.off;
			list[n++] = r;
		}
	}
	qsort(list, n, sizeof(*list), by_range_offset);
	*ret_n = n;
	return list;
}

static int copy_ranges(int fd, struct source *src, const struct copy_range *list, size_t n,
		       const struct copy_options *o, struct err *err)
{
	uint64_t done = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t off = MAX(list[i].off, done), end = MIN(list[i].end, src->size);

		if (off >= end)
			continue;
		if (copy_one_range(fd, src, off, end, o, err) < 0)
			return -1;
		done = end;
	}
	return 0;
}

/* The bytes that will be written. */
static uint64_t ranges_size(const struct copy_range *list, size_t n, uint64_t size)
{
	uint64_t done = 0, sum = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t off = MAX(list[i].off, done), end = MIN(list[i].end, size);

		if (off >= end)
			continue;
		sum += end - off;
		done = end;
	}
	return sum;
}

int tables_copy(struct source *src, const struct elf_image *img, const struct copy_options *o,
		struct source **ret, struct err *err)
{
	AUTO(room_release) struct room_claim claim = { 0 };
	AUTO(fd_close) int fd = -1;
	const struct copy_range all = { 0, src->size };
	AUTO(mem_freep) struct copy_range *list = NULL;
	size_t n = 0;

	if (file_unnamed(o->dir, &fd, err) < 0)
		return -1;
	if (img)
		list = table_ranges(img, &n);
	if (!list)
		n = 1;
	if (room_claim(o->room, &claim, fd, ranges_size(list ? list : &all, n, src->size), err) < 0)
		return -1;
	if (copy_ranges(fd, src, list ? list : &all, n, o, err) < 0)
		return -1;
	if (ftruncate(fd, (off_t)src->size) < 0)
		return err_os(err, errno, "%s", o->dir);
	*ret = source_of_fd(TAKE_FD(fd), src->size, src->mtime, src->name);
	return 0;
}
