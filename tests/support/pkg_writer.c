/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simple writers of tar, cpio, ar and deb.
 */
#include "pkg_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static mode_t mode_of(const struct pw_file *f)
{
	return f->mode ? f->mode : S_IFREG | 0644;
}

static void pad(struct buf *out, size_t from, size_t align)
{
	while ((out->size - from) % align)
		buf_add_char(out, 0);
}

/* ---- tar ---- */

static void octal(uint8_t *p, size_t n, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%0*llo", (int)n - 1, (unsigned long long)v);
	if (strlen(text) >= n) {
		/* base-256 */
		memset(p, 0, n);
		for (size_t i = 0; i < 8; i++)
			p[n - 1 - i] = (uint8_t)(v >> 8 * i);
		p[0] |= 0x80;
		return;
	}
	memcpy(p, text, n);
}

void pw_tar_sum(struct buf *out, size_t header)
{
	uint8_t *h = out->p + header;
	unsigned sum = 0;
	char text[8];

	memset(h + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf(text, sizeof(text), "%06o", sum);
	memcpy(h + 148, text, 7);
}

size_t pw_tar_header(struct buf *out, enum pw_tar dialect, const char *name, char type, uint64_t size)
{
	size_t at = out->size;
	uint8_t *h = buf_reserve(out, 512);

	memset(h, 0, 512);
	out->size += 512;
	memcpy(h, name, MIN(strlen(name), (size_t)100));
	octal(h + 100, 8, 0644);
	octal(h + 108, 8, 0);
	octal(h + 116, 8, 0);
	octal(h + 124, 12, size);
	octal(h + 136, 12, 0);
	h[156] = (uint8_t)type;
	if (dialect == PW_GNU)
		memcpy(h + 257, "ustar  ", 8);
	else if (dialect != PW_V7)
		memcpy(h + 257, "ustar\00000", 8);
	pw_tar_sum(out, at);
	return at;
}

void pw_tar_body(struct buf *out, struct bytes content)
{
	size_t at = out->size;

	buf_add(out, content.p, content.size);
	pad(out, at, 512);
}

void pw_pax_record(struct buf *out, const char *key, const char *value)
{
	size_t n = strlen(key) + strlen(value) + 3, digits = 1;
	char text[24];

	/* The length counts its own digits. */
	while ((size_t)snprintf(text, sizeof(text), "%zu", n + digits) > digits)
		digits++;
	buf_printf(out, "%zu %s=%s\n", n + digits, key, value);
}

void pw_tar_pax(struct buf *out, char type, struct bytes records)
{
	pw_tar_header(out, PW_PAX, "PaxHeaders/x", type, records.size);
	pw_tar_body(out, records);
}

void pw_tar_end(struct buf *out)
{
	uint8_t *p = buf_reserve(out, 1024);

	memset(p, 0, 1024);
	out->size += 1024;
}

static void gnu_long(struct buf *out, char type, const char *text)
{
	pw_tar_header(out, PW_GNU, "././@LongLink", type, strlen(text) + 1);
	pw_tar_body(out, bytes_of(text, strlen(text) + 1));
}

static char tar_type(const struct pw_file *f)
{
	switch (mode_of(f) & S_IFMT) {
	case S_IFDIR:
		return '5';
	case S_IFLNK:
		return '2';
	case S_IFREG:
		return f->link ? '1' : '0';
	case S_IFCHR:
		return '3';
	case S_IFBLK:
		return '4';
	default:
		return '6';
	}
}

static void tar_member(struct buf *out, enum pw_tar dialect, const struct pw_file *f)
{
	AUTO(buf_done) struct buf records = { 0 };
	const char *name = f->path, *cut = NULL, *link = f->link ? f->link : "";
	char type = tar_type(f);
	size_t at;

	if (dialect == PW_GNU && strlen(name) > 100)
		gnu_long(out, 'L', name);
	if (dialect == PW_GNU && strlen(link) > 100)
		gnu_long(out, 'K', link);
	if (dialect == PW_PAX) {
		char text[48];

		if (strlen(name) > 100)
			pw_pax_record(&records, "path", name);
		if (strlen(link) > 100)
			pw_pax_record(&records, "linkpath", link);
		snprintf(text, sizeof(text), "%lld.25", (long long)f->mtime);
		pw_pax_record(&records, "mtime", text);
		pw_tar_pax(out, 'x', buf_bytes(&records));
	}
	if (dialect == PW_USTAR && strlen(name) > 100) {
		/* Split at a slash: prefix and name. */
		for (const char *p = name; (p = strchr(p, '/')); p++)
			if (p - name <= 155 && strlen(p + 1) <= 100) {
				cut = p;
				break;
			}
		assert(cut);
	}
	at = pw_tar_header(out, dialect, cut ? cut + 1 : name, type, type == '0' ? f->content.size : 0);
	if (cut)
		memcpy(out->p + at + 345, name, (size_t)(cut - name));
	if (dialect == PW_V7 && type == '0')
		out->p[at + 156] = 0;
	octal(out->p + at + 100, 8, mode_of(f) & 07777);
	octal(out->p + at + 136, 12, (uint64_t)f->mtime);
	memcpy(out->p + at + 157, link, MIN(strlen(link), (size_t)100));
	pw_tar_sum(out, at);
	if (type == '0')
		pw_tar_body(out, f->content);
}

void pw_tar(struct buf *out, enum pw_tar dialect, const struct pw_file *files, size_t n_files)
{
	for (size_t i = 0; i < n_files; i++)
		tar_member(out, dialect, &files[i]);
	pw_tar_end(out);
}

/* ---- cpio ---- */

struct cpio_values {
	uint32_t ino, mode, n_links, mtime, check;
	uint64_t size;
	const char *name;
};

static void cpio_head(struct buf *out, enum pw_cpio format, const struct cpio_values *v)
{
	unsigned name_size = (unsigned)strlen(v->name) + 1;
	size_t at = out->size;

	if (format == PW_NEWC || format == PW_CRC) {
		buf_printf(out, "07070%d%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
			   format == PW_CRC ? 2 : 1, v->ino, v->mode, 0, 0, v->n_links, v->mtime,
			   (uint32_t)v->size, 8, 1, 0, 0, name_size, v->check);
	} else if (format == PW_ODC) {
		buf_printf(out, "070707%06o%06o%06o%06o%06o%06o%06o%011o%06o%011llo", 0x801, v->ino & 0x3ffff,
			   v->mode, 0, 0, v->n_links, 0, v->mtime, name_size, (unsigned long long)v->size);
	} else {
		uint16_t w[13] = { 070707,
				   0x801,
				   (uint16_t)v->ino,
				   (uint16_t)v->mode,
				   0,
				   0,
				   (uint16_t)v->n_links,
				   0,
				   (uint16_t)(v->mtime >> 16),
				   (uint16_t)v->mtime,
				   (uint16_t)name_size,
				   (uint16_t)(v->size >> 16),
				   (uint16_t)v->size };

		for (int i = 0; i < 13; i++)
			buf_add_u16(out, format == PW_BIN_BIG ? (uint16_t)(w[i] << 8 | w[i] >> 8) : w[i]);
	}
	buf_add(out, v->name, name_size);
	pad(out, at, format == PW_ODC ? 1 : format == PW_NEWC || format == PW_CRC ? 4 : 2);
}

/* The names of @f's inode; *ret_last: @i is the last of them. */
static uint32_t links_of(const struct pw_file *files, size_t n_files, size_t i, bool *ret_last)
{
	uint32_t n = 0;
	size_t last = i;

	for (size_t k = 0; k < n_files; k++)
		if (k == i || (files[i].inode && files[k].inode == files[i].inode)) {
			n++;
			last = k;
		}
	*ret_last = last == i;
	return n;
}

void pw_cpio(struct buf *out, enum pw_cpio format, const struct pw_file *files, size_t n_files)
{
	unsigned align = format == PW_ODC ? 1 : format == PW_BIN_LITTLE || format == PW_BIN_BIG ? 2 : 4;

	for (size_t i = 0; i < n_files; i++) {
		const struct pw_file *f = &files[i];
		struct bytes content = { 0 };
		bool last;
		struct cpio_values v = {
			.ino = f->inode ? f->inode : 1000 + (uint32_t)i,
			.mode = mode_of(f),
			.n_links = links_of(files, n_files, i, &last),
			.mtime = (uint32_t)f->mtime,
			.name = f->path,
		};
		size_t at;

		if (S_ISLNK(v.mode))
			content = bytes_of(f->link, strlen(f->link));
		else if (S_ISREG(v.mode) && last)
			content = f->content;
		v.size = content.size;
		for (size_t k = 0; format == PW_CRC && k < content.size; k++)
			v.check += content.p[k];
		if (format == PW_STRIPPED) {
			buf_printf(out, "07070X%08X", (unsigned)i);
			buf_add_u16(out, 0);
		} else {
			cpio_head(out, format, &v);
		}
		at = out->size;
		buf_add(out, content.p, content.size);
		pad(out, at, align);
	}
	cpio_head(out, format == PW_STRIPPED ? PW_NEWC : format,
		  &(struct cpio_values){ .n_links = 1, .name = "TRAILER!!!" });
	pad(out, 0, 512);
}

/* ---- Debian ---- */

void pw_ar_begin(struct buf *out)
{
	buf_add_str(out, STR("!<arch>\n"));
}

void pw_ar_member(struct buf *out, const char *name, struct bytes content)
{
	buf_printf(out, "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name, 1700000000, 0, 0, 0100644, content.size);
	buf_add(out, content.p, content.size);
	if (content.size & 1)
		buf_add_char(out, '\n');
}

static const char *suffix_of(enum codec_kind kind)
{
	switch (kind) {
	case CODEC_GZIP:
		return ".gz";
	case CODEC_XZ:
		return ".xz";
	case CODEC_LZMA:
		return ".lzma";
	case CODEC_ZSTD:
		return ".zst";
	case CODEC_BZIP2:
		return ".bz2";
	default:
		return "";
	}
}

static void control_tar(struct buf *out, const struct pw_deb *d)
{
	AUTO(buf_done) struct buf text = { 0 }, tar = { 0 };
	struct pw_file files[] = {
		{ .path = "./", .mode = S_IFDIR | 0755 },
		{ .path = "./md5sums", .content = bytes_of("0  x\n", 5) },
		{ .path = "./control" },
	};

	buf_printf(&text,
		   "Package: %s\nVersion: %s\nArchitecture: %s\n%sDescription: a sample\n of a package\n",
		   d->name ? d->name : "sample", d->version ? d->version : "1.0-1",
		   d->arch ? d->arch : "amd64", d->more ? d->more : "");
	files[2].content = buf_bytes(&text);
	pw_tar(&tar, PW_GNU, files, ARRAY_SIZE(files));
	pw_compress(out, d->control, d->level, buf_bytes(&tar));
}

void pw_deb(struct buf *out, const struct pw_deb *d)
{
	AUTO(buf_done) struct buf control = { 0 }, tar = { 0 }, data = { 0 }, outer = { 0 };
	char control_name[32], data_name[32];
	struct bytes version = bytes_of("2.0\n", 4), data_tar = d->data_tar;

	control_tar(&control, d);
	if (!data_tar.size) {
		pw_tar(&tar, PW_GNU, d->files, d->n_files);
		data_tar = buf_bytes(&tar);
	}
	pw_compress(&data, d->data, d->level, data_tar);
	snprintf(control_name, sizeof(control_name), "%scontrol.tar%s", d->nested ? "./" : "",
		 suffix_of(d->control));
	snprintf(data_name, sizeof(data_name), "%sdata.tar%s", d->nested ? "./" : "", suffix_of(d->data));
	if (d->nested) {
		struct pw_file files[] = {
			{ .path = "./debian-binary", .content = version },
			{ .path = data_name, .content = buf_bytes(&data) },
			{ .path = control_name, .content = buf_bytes(&control) },
		};

		pw_tar(&outer, PW_GNU, files, ARRAY_SIZE(files));
		pw_compress(out, CODEC_GZIP, d->level, buf_bytes(&outer));
		return;
	}
	pw_ar_begin(out);
	pw_ar_member(out, "debian-binary", version);
	pw_ar_member(out, control_name, buf_bytes(&control));
	pw_ar_member(out, data_name, buf_bytes(&data));
}
