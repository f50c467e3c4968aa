/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pkg_dump FILE...: what pkg reads out of a package, as JSON lines, for comparison with other programs: one
 * line about the package, one per member with the CRC-32 of its content, one at the end. Bytes of names are
 * told as the characters of the same number.
 * pkg_dump --map FILE: its package map, as it is stored, on standard output.
 */
#include "pkg/pkg.h"

#include <stdio.h>
#include <zlib.h>

static void print_text(const char *key, struct str s)
{
	printf(", \"%s\": \"", key);
	for (size_t i = 0; i < s.size; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_info(const struct pkg_info *info)
{
	char hex[BUILD_ID_HEX_SIZE];

	printf("{\"kind\": \"%s\", \"codec\": \"%s\", \"format\": %d, \"off\": %llu, \"size\": %llu",
	       pkg_kind_name(info->kind), codec_name(info->payload.codec), info->payload.format,
	       (unsigned long long)info->payload.off, (unsigned long long)info->payload.size);
	print_text("name", info->name);
	print_text("version", info->version);
	print_text("arch", info->arch);
	print_text("source", info->source_name);
	printf(", \"build_ids\": [");
	for (size_t i = 0; i < info->n_build_ids; i++)
		printf("%s\"%s\"", i ? ", " : "", build_id_hex(&info->build_ids[i], hex));
	printf("], \"n_files\": %zu}\n", info->n_files);
	for (size_t i = 0; i < info->n_files; i++) {
		const struct pkg_header_file *f = &info->files[i];

		printf("{\"listed\": true, \"size\": %llu, \"mode\": %u, \"mtime\": %lld, \"in_payload\": %s",
		       (unsigned long long)f->size, f->mode, (long long)f->mtime,
		       f->n_links ? "true" : "false");
		print_text("path", f->path);
		print_text("link", f->link);
		printf("}\n");
	}
}

static int print_member(struct pkg_reader *r, const struct pkg_member *m, struct err *err)
{
	static const char *const types[] = { "file", "dir", "symlink", "hardlink", "special" };
	uLong crc = crc32(0, NULL, 0);
	uint64_t n = 0;
	struct bytes piece;

	printf("{\"type\": \"%s\", \"mode\": %u, \"size\": %llu, \"mtime\": %lld, \"off\": %lld, \"unsafe\": "
	       "%s, \"sparse\": %s",
	       types[m->type], m->mode, (unsigned long long)m->size, (long long)m->mtime,
	       m->off == PKG_NO_OFF ? -1 : (long long)m->off, m->unsafe ? "true" : "false",
	       m->sparse ? "true" : "false");
	print_text("path", m->path);
	print_text("link", m->link);
	if (m->type == PKG_FILE) {
		for (;;) {
			if (pkg_reader_data(r, &piece, err) < 0)
				return -1;
			if (!piece.size)
				break;
			crc = crc32_z(crc, piece.p, piece.size);
			n += piece.size;
		}
		if (n != m->size)
			return err_set(err, ERR_INTERNAL, "%llu bytes of content", (unsigned long long)n);
		printf(", \"crc\": %lu", crc);
	}
	printf("}\n");
	return 0;
}

static int print_members(struct pkg_reader *r, const char *path, struct err *err)
{
	struct pkg_member m;
	int res;

	while ((res = pkg_reader_next(r, &m, err)) == 0)
		if (print_member(r, &m, err) < 0) {
			/* Perhaps only this member's; the reader knows. */
			printf(", \"error\": true}\n");
			fprintf(stderr, "pkg_dump: %s: %s\n", path, err->text);
		}
	if (res == PKG_END)
		printf("{\"end\": true}\n");
	return res;
}

/* As the deep pass does, without hard links. */
static int add_members(struct pkg_reader *r, struct pkg_map_builder *b, struct err *err)
{
	struct elf_probe *probe = elf_probe_new();
	AUTO(arena_done) struct arena a = { 0 };
	struct bytes piece;
	struct pkg_member m;
	uint32_t number = 0;
	int res;

	arena_init(&a);
	for (; (res = pkg_reader_next(r, &m, err)) == 0; number++) {
		AUTO(mem_freep) char *path = mem_strndup(m.path.size ? m.path.p : "", m.path.size);
		struct pkg_entry e = {
			.path = { path, m.path.size },
			.number = number,
			.mode = m.mode,
			.size = m.size,
			.off = m.off,
			.mtime = m.mtime,
		};
		struct err ignored;

		if (m.type == PKG_SYMLINK && !m.unsafe)
			pkg_map_add_link(b, m.path, m.link);
		if (m.type != PKG_FILE || m.unsafe)
			continue;
		elf_probe_start(probe, m.size);
		while ((res = pkg_reader_data(r, &piece, err)) == 0 && piece.size)
			elf_probe_feed(probe, piece);
		if (res < 0)
			break;
		e.is_elf = elf_probe_finish(probe, &e.elf, &ignored) == 0;
		/* A scan keeps those of large files only. */
		if (e.is_elf)
			e.n_places = (uint32_t)elf_probe_places(probe, &a, &e.places);
		pkg_map_add(b, &e);
	}
	elf_probe_free(probe);
	return res;
}

static int write_map(const struct pkg_info *info, struct source *src, struct pkg_reader *r,
		     struct stream *payload, struct err *err)
{
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map_builder *b;
	struct pkg_identity id;
	int res;

	if (pkg_identity_read(src, NULL, &id, err) < 0)
		return -1;
	b = pkg_map_builder_new(info, &id);
	res = add_members(r, b, err);
	pkg_map_set_decoded_size(b, payload ? payload->off : 0);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	fwrite(blob.p, 1, blob.size, stdout);
	return res;
}

static int dump(const char *path, bool map, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(stream_closep) struct stream *payload = NULL;
	struct pkg_info info;
	struct pkg_reader *r;
	int res;

	arena_init(&a);
	res = source_open_file(path, &src, err);
	if (res != 0)
		return res < 0 ? res : err_set(err, ERR_IO, "no such file");
	res = pkg_open(src, str_of(path), &a, &info, err);
	if (res != 0)
		return res < 0 ? res : err_set(err, ERR_INVALID, "not a package");
	if (info.kind != PKG_OTHER &&
	    codec_stream_open(info.payload.codec,
			      stream_of_source(src, false, info.payload.off, info.payload.size), &payload,
			      err) < 0)
		return -1;
	if (pkg_reader_open(&info, payload, src, &r, err) < 0)
		return -1;
	if (map) {
		res = write_map(&info, src, r, payload, err);
	} else {
		print_info(&info);
		res = print_members(r, path, err);
	}
	pkg_reader_close(r);
	return res == PKG_END ? 0 : -1;
}

int main(int argc, char **argv)
{
	bool map = argc > 1 && !strcmp(argv[1], "--map");
	int status = 0;

	for (int i = map ? 2 : 1; i < argc; i++) {
		struct err err = { 0 };

		if (dump(argv[i], map, &err) < 0) {
			fflush(stdout);
			fprintf(stderr, "pkg_dump: %s: %s\n", argv[i], err.text);
			status = 1;
		}
	}
	return status;
}
