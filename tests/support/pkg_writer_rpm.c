/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simple writer of rpm: lead, signature, header, payload.
 */
#include "pkg_writer.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the tag store ---- */

static void be(struct buf *b, uint64_t v, int width)
{
	while (width--)
		buf_add_char(b, (char)(v >> 8 * width));
}

void pw_tag_raw(struct pw_tags *t, uint32_t tag, uint32_t type, uint32_t off, uint32_t count)
{
	be(&t->index, tag, 4);
	be(&t->index, type, 4);
	be(&t->index, off, 4);
	be(&t->index, count, 4);
	t->n++;
}

static void begin(struct pw_tags *t, uint32_t tag, uint32_t type, size_t align, size_t n)
{
	while (t->data.size % align)
		buf_add_char(&t->data, 0);
	pw_tag_raw(t, tag, type, (uint32_t)t->data.size, (uint32_t)n);
}

void pw_tag_u16(struct pw_tags *t, uint32_t tag, const uint16_t *v, size_t n)
{
	begin(t, tag, 3, 2, n);
	for (size_t i = 0; i < n; i++)
		be(&t->data, v[i], 2);
}

void pw_tag_u32(struct pw_tags *t, uint32_t tag, const uint32_t *v, size_t n)
{
	begin(t, tag, 4, 4, n);
	for (size_t i = 0; i < n; i++)
		be(&t->data, v[i], 4);
}

void pw_tag_u64(struct pw_tags *t, uint32_t tag, const uint64_t *v, size_t n)
{
	begin(t, tag, 5, 8, n);
	for (size_t i = 0; i < n; i++)
		be(&t->data, v[i], 8);
}

void pw_tag_text(struct pw_tags *t, uint32_t tag, const char *s)
{
	begin(t, tag, 6, 1, 1);
	buf_add(&t->data, s, strlen(s) + 1);
}

void pw_tag_texts(struct pw_tags *t, uint32_t tag, const char *const *s, size_t n)
{
	begin(t, tag, 8, 1, n);
	for (size_t i = 0; i < n; i++)
		buf_add(&t->data, s[i], strlen(s[i]) + 1);
}

void pw_rpm_lead(struct buf *out, const char *name)
{
	size_t at = out->size;
	uint8_t *p = buf_reserve(out, 96);

	memset(p, 0, 96);
	out->size += 96;
	p = out->p + at;
	memcpy(p, "\xed\xab\xee\xdb\x03\x00\x00\x00\x00\x01", 10);
	memcpy(p + 10, name, MIN(strlen(name), (size_t)65));
	p[77] = 1;
	p[79] = 5;
}

void pw_rpm_header(struct buf *out, struct pw_tags *t)
{
	buf_add(out, "\x8e\xad\xe8\x01\x00\x00\x00\x00", 8);
	be(out, t->n, 4);
	be(out, t->data.size, 4);
	buf_add(out, t->index.p, t->index.size);
	buf_add(out, t->data.p, t->data.size);
	buf_done(&t->index);
	buf_done(&t->data);
	*t = (struct pw_tags){ 0 };
}

/* ---- the package ---- */

static void file_names(struct pw_tags *t, const struct pw_rpm *r)
{
	size_t n = r->n_files;
	const char **bases = NEW_N(const char *, n), **dirs = NEW_N(const char *, n);
	uint32_t *indexes = NEW_N(uint32_t, n);
	char **made = NEW_N(char *, n);

	/* Names begin with a slash in the header. One directory entry per file: the format allows it. */
	for (size_t i = 0; i < n; i++) {
		const char *path = r->files[i].path, *slash = strrchr(path, '/');

		made[i] = r->format == 3 ? mem_printf("/%s", path)
			  : slash        ? mem_printf("/%.*s/", (int)(slash - path), path)
					 : mem_strdup("/");
		dirs[i] = made[i];
		bases[i] = slash ? slash + 1 : path;
		indexes[i] = (uint32_t)i;
	}
	if (r->format == 3) {
		pw_tag_texts(t, 1027, dirs, n);
	} else {
		pw_tag_u32(t, 1116, indexes, n);
		pw_tag_texts(t, 1117, bases, n);
		pw_tag_texts(t, 1118, dirs, n);
	}
	for (size_t i = 0; i < n; i++)
		free(made[i]);
	free(made);
	free(bases);
	free(dirs);
	free(indexes);
}

static void file_tags(struct pw_tags *t, const struct pw_rpm *r)
{
	size_t n = r->n_files;
	uint32_t *sizes = NEW_N(uint32_t, n), *mtimes = NEW_N(uint32_t, n), *devs = NEW_N(uint32_t, n),
		 *inodes = NEW_N(uint32_t, n), *flags = NEW_N(uint32_t, n);
	uint64_t *long_sizes = NEW_N(uint64_t, n);
	uint16_t *modes = NEW_N(uint16_t, n);
	const char **links = NEW_N(const char *, n);

	for (size_t i = 0; i < n; i++) {
		const struct pw_file *f = &r->files[i];

		modes[i] = (uint16_t)(f->mode ? f->mode : S_IFREG | 0644);
		sizes[i] = (uint32_t)(S_ISLNK(modes[i]) ? strlen(f->link) : f->content.size);
		long_sizes[i] = sizes[i];
		mtimes[i] = (uint32_t)f->mtime;
		devs[i] = 1;
		inodes[i] = f->inode ? f->inode : 1000 + (uint32_t)i;
		flags[i] = 0;
		links[i] = f->link ? f->link : "";
	}
	if (r->stripped || r->format == 6)
		pw_tag_u64(t, 5008, long_sizes, n);
	else
		pw_tag_u32(t, 1028, sizes, n);
	pw_tag_u16(t, 1030, modes, n);
	pw_tag_u32(t, 1034, mtimes, n);
	pw_tag_texts(t, 1036, links, n);
	pw_tag_u32(t, 1037, flags, n);
	pw_tag_u32(t, 1095, devs, n);
	pw_tag_u32(t, 1096, inodes, n);
	free(sizes);
	free(long_sizes);
	free(mtimes);
	free(devs);
	free(inodes);
	free(flags);
	free(modes);
	free(links);
}

static void provides(struct pw_tags *t, const struct pw_rpm *r, const char *name, const char *version)
{
	size_t n = r->n_build_ids + 1;
	const char **names = NEW_N(const char *, n), **versions = NEW_N(const char *, n);

	for (size_t i = 0; i < r->n_build_ids; i++) {
		names[i] = "debuginfo(build-id)";
		versions[i] = r->build_ids[i];
	}
	names[n - 1] = name;
	versions[n - 1] = version;
	pw_tag_texts(t, 1047, names, n);
	pw_tag_texts(t, 1113, versions, n);
	free(names);
	free(versions);
}

static const char *compressor(enum codec_kind kind)
{
	static const char *const names[CODEC_N_KINDS] = {
		[CODEC_GZIP] = "gzip", [CODEC_XZ] = "xz",       [CODEC_LZMA] = "lzma",
		[CODEC_ZSTD] = "zstd", [CODEC_BZIP2] = "bzip2",
	};

	return names[kind];
}

static void payload_of(const struct pw_rpm *r, struct buf *ret)
{
	AUTO(buf_done) struct buf cpio = { 0 };
	AUTO(mem_freep) struct pw_file *files = NEW_N(struct pw_file, r->n_files);
	AUTO(mem_freep) char **names = NEW_N(char *, r->n_files);
	bool stripped = r->stripped || r->format == 6;

	if (r->payload.size) {
		pw_compress(ret, r->codec, r->level, r->payload);
		return;
	}
	for (size_t i = 0; i < r->n_files; i++) {
		files[i] = r->files[i];
		files[i].path = names[i] = mem_printf("./%s", r->files[i].path);
	}
	pw_cpio(&cpio, stripped ? PW_STRIPPED : PW_NEWC, files, r->n_files);
	for (size_t i = 0; i < r->n_files; i++)
		free(names[i]);
	pw_compress(ret, r->codec, r->level, buf_bytes(&cpio));
}

void pw_rpm(struct buf *out, const struct pw_rpm *r)
{
	const char *name = r->name ? r->name : "sample", *version = r->version ? r->version : "1.0",
		   *release = r->release ? r->release : "1";
	AUTO(buf_done) struct buf payload = { 0 }, header = { 0 };
	AUTO(mem_freep) char *nevr = mem_printf("%s-%s-%s", name, version, release);
	AUTO(mem_freep) char *source = mem_printf("source-of-%s%s", nevr, r->format == 6 ? "" : ".src.rpm");
	struct pw_tags sig = { 0 }, tags = { 0 };
	uint32_t size;

	payload_of(r, &payload);
	pw_tag_text(&tags, 1000, name);
	pw_tag_text(&tags, 1001, version);
	pw_tag_text(&tags, 1002, release);
	pw_tag_text(&tags, 1022, r->arch ? r->arch : "x86_64");
	pw_tag_text(&tags, r->format == 6 ? 5120 : 1044, source);
	if (r->n_files) {
		file_tags(&tags, r);
		file_names(&tags, r);
	}
	provides(&tags, r, name, version);
	if (r->format != 3)
		pw_tag_text(&tags, 1124, "cpio");
	if (compressor(r->codec))
		pw_tag_text(&tags, 1125, compressor(r->codec));
	if (r->payload_digest) {
		pw_tag_texts(&tags, 5092, &r->payload_digest, 1);
		if (r->digest_kind)
			pw_tag_u32(&tags, 5093, &r->digest_kind, 1);
	}
	pw_rpm_header(&header, &tags);
	size = (uint32_t)(header.size + payload.size);
	pw_tag_text(&sig, 269, "0000000000000000000000000000000000000000");
	if (r->format != 6)
		pw_tag_u32(&sig, 1000, &size, 1);
	pw_rpm_lead(out, nevr);
	pw_rpm_header(out, &sig);
	while (out->size % 8)
		buf_add_char(out, 0);
	buf_add(out, header.p, header.size);
	buf_add(out, payload.p, payload.size);
}
