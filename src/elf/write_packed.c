/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed sections (gABI, "Section Compression"), written while they are compressed: neither form of a
 * section has to be in memory. compress.c reads them.
 */
#include "elf/write.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define OUT_SIZE KIB(128)

struct packer {
	struct elf_out *o;
	uint64_t limit; /* of o->pos: from there on the section is not smaller */
	bool larger;
	z_stream z;
	bool z_open;
	ZSTD_CStream *zstd;
	uint8_t *out; /* OUT_SIZE */
};

static void packer_done(struct packer *p)
{
	if (p->z_open)
		deflateEnd(&p->z);
	ZSTD_freeCStream(p->zstd);
	free(p->out);
}

static int packer_open(struct packer *p, enum elf_split_packing packing, uint64_t size, struct err *err)
{
	if (packing == ELF_SPLIT_ZLIB) {
		if (deflateInit(&p->z, Z_DEFAULT_COMPRESSION) != Z_OK)
			return err_set(err, ERR_LIMIT, "no memory to compress");
		p->z_open = true;
		return 0;
	}
	p->zstd = ZSTD_createCStream();
	if (!p->zstd || ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(p->zstd, size)))
		return err_set(err, ERR_LIMIT, "no memory to compress");
	return 0;
}

static int packer_flush(struct packer *p, size_t n, struct err *err)
{
	if (p->o->pos + n >= p->limit) {
		p->larger = true;
		return 0;
	}
	return elf_out_add(p->o, p->out, n, err);
}

static int pack_zlib(struct packer *p, struct bytes in, bool end, struct err *err)
{
	p->z.next_in = (uint8_t *)in.p;
	p->z.avail_in = (uInt)in.size;
	do {
		p->z.next_out = p->out;
		p->z.avail_out = OUT_SIZE;
		deflate(&p->z, end ? Z_FINISH : Z_NO_FLUSH);
		if (packer_flush(p, OUT_SIZE - p->z.avail_out, err) < 0)
			return -1;
	} while (!p->z.avail_out && !p->larger);
	return 0;
}

static int pack_zstd(struct packer *p, struct bytes in, bool end, struct err *err)
{
	ZSTD_inBuffer ib = { in.p, in.size, 0 };
	size_t left;

	do {
		ZSTD_outBuffer ob = { p->out, OUT_SIZE, 0 };

		left = ZSTD_compressStream2(p->zstd, &ob, &ib, end ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return err_set(err, ERR_LIMIT, "zstd: %s", ZSTD_getErrorName(left));
		if (packer_flush(p, ob.pos, err) < 0)
			return -1;
	} while ((end ? left != 0 : ib.pos < ib.size) && !p->larger);
	return 0;
}

static int compression_header_add(struct elf_out *o, uint32_t type, uint64_t size, uint64_t align,
				  struct err *err)
{
	uint8_t head[24] = { 0 };

	elf_put(o->big, head, type, 4);
	if (o->is64) {
		elf_put(o->big, head + 8, size, 8);
		elf_put(o->big, head + 16, align, 8);
	} else {
		elf_put(o->big, head + 4, size, 4);
		elf_put(o->big, head + 8, align, 4);
	}
	return elf_out_add(o, head, o->is64 ? 24 : 12, err);
}

int elf_content_align(const struct elf_image *img, const struct elf_section *sec, uint64_t *ret,
		      struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	unsigned at = img->h.is64 ? 16 : 8, word = img->h.is64 ? 8 : 4;
	struct bytes head;

	*ret = sec->align;
	if (!(sec->flags & SHF_COMPRESSED))
		return 0;
	if (elf_section_head(img, sec, at + word, &a, &head, err))
		return -1;
	if (head.size == at + word)
		*ret = elf_get(img->h.big, head.p + at, word);
	return 0;
}

static int packer_run(struct packer *p, struct stream *s, bool zlib, struct err *err)
{
	struct bytes chunk;

	do {
		if (stream_next(s, KIB(256), &chunk, err) < 0)
			return -1;
		if ((zlib ? pack_zlib : pack_zstd)(p, chunk, !chunk.size, err) < 0)
			return -1;
	} while (chunk.size && !p->larger);
	return 0;
}

int elf_out_packed(struct elf_out *o, const struct elf_image *img, const struct elf_section *sec,
		   enum elf_split_packing packing, struct err *err)
{
	AUTO(packer_done) struct packer p = { .o = o };
	AUTO(stream_closep) struct stream *s = NULL;
	bool zlib = packing == ELF_SPLIT_ZLIB;
	uint64_t start = o->pos, size, align;

	if (elf_content_align(img, sec, &align, err) < 0 || elf_section_content_size(img, sec, &size, err) ||
	    elf_section_stream(img, sec, &s, err))
		return -1;
	p.limit = start + size;
	p.out = mem_alloc(OUT_SIZE);
	if (packer_open(&p, packing, size, err) < 0 ||
	    compression_header_add(o, zlib ? ELFCOMPRESS_ZLIB : ELFCOMPRESS_ZSTD, size, align, err) < 0 ||
	    packer_run(&p, s, zlib, err) < 0)
		return -1;
	if (!p.larger)
		return 0;
	return elf_out_back(o, start, err) < 0 ? -1 : ELF_PACKED_LARGER;
}
