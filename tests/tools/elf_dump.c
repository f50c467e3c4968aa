/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_dump FILE...: what the ELF reader says of each file, one JSON object a line, for comparison with other
 * readers.
 *
 * -p also sends the file through the streaming prober, in pieces of 64 KiB. -c also reads the content of
 * every debug section: its size and CRC-32. Without arguments the names come from stdin, one a line.
 */
#include "elf/elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

static bool with_probe, with_content;

static void json_str(struct buf *out, struct str s)
{
	buf_add_char(out, '"');
	for (size_t i = 0; i < s.size; i++) {
		unsigned char c = (unsigned char)s.p[i];

		/* Bytes, whatever they are: the other side reads latin-1. */
		if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7f)
			buf_printf(out, "\\u%04x", c);
		else
			buf_add_char(out, (char)c);
	}
	buf_add_char(out, '"');
}

static void json_key(struct buf *out, const char *key)
{
	buf_printf(out, "%s\"%s\": ", out->p[out->size - 1] == '{' ? "" : ", ", key);
}

static void dump_content(struct buf *out, const struct elf_image *img, const struct elf_section *sec)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct err err = { 0 };
	struct bytes b;
	int r = elf_section_read(img, sec, MIB(1024), &a, &b, &err);

	if (r == 0) {
		json_key(out, "content_size");
		buf_printf(out, "%zu", b.size);
		json_key(out, "crc");
		buf_printf(out, "%lu", crc32_z(0, b.p, b.size));
	} else if (r < 0) {
		json_key(out, "content_error");
		json_str(out, str_of(err.text));
	}
}

static void dump_sections(struct buf *out, const struct elf_image *img)
{
	json_key(out, "sections");
	buf_add_char(out, '[');
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];

		buf_add_str(out, str_of(i > 1 ? ", {" : "{"));
		json_key(out, "name");
		json_str(out, sec->name);
		json_key(out, "type");
		buf_printf(out, "%u", sec->type);
		json_key(out, "flags");
		buf_printf(out, "%llu", (unsigned long long)sec->flags);
		json_key(out, "addr");
		buf_printf(out, "%llu", (unsigned long long)sec->addr);
		json_key(out, "off");
		buf_printf(out, "%llu", (unsigned long long)sec->off);
		json_key(out, "size");
		buf_printf(out, "%llu", (unsigned long long)sec->size);
		if (with_content && str_starts(sec->name, STR(".debug_")))
			dump_content(out, img, sec);
		buf_add_char(out, '}');
	}
	buf_add_char(out, ']');
}

static void dump_links(struct buf *out, const struct elf_image *img)
{
	AUTO(arena_done) struct arena a = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	struct err err = { 0 };
	struct build_id id;
	struct str s;
	uint32_t crc;

	if (elf_debug_link(img, &a, &s, &crc, &err) == 0) {
		json_key(out, "debug_link");
		json_str(out, s);
		json_key(out, "debug_link_crc");
		buf_printf(out, "%u", crc);
	}
	if (elf_alt_link(img, &a, &s, &id, &err) == 0) {
		json_key(out, "alt_link");
		json_str(out, s);
		json_key(out, "alt_link_id");
		json_str(out, str_of(build_id_hex(&id, hex)));
	}
	if (elf_go_build_id(img, &a, &s, &err) == 0) {
		json_key(out, "go_build_id");
		json_str(out, s);
	}
}

static void dump_facts(struct buf *out, const struct elf_facts *f)
{
	AUTO(buf_done) struct buf text = { 0 };
	char hex[BUILD_ID_HEX_SIZE];

	elf_facts_print(f, &text);
	json_key(out, "facts");
	json_str(out, buf_str(&text));
	json_key(out, "flags");
	buf_printf(out, "%u", f->flags);
	json_key(out, "type");
	buf_printf(out, "%u", f->type);
	json_key(out, "build_id");
	json_str(out, str_of(build_id_hex(&f->build_id, hex)));
}

/* Compare the prober's facts and identity with those of elf_identify(), which reads the same file at random. */
static void probe_file(struct buf *out, struct source *src)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(stream_closep) struct stream *s = stream_of_source(src, false, 0, src->size);
	struct elf_facts facts = { 0 }, got = { 0 };
	struct elf_aliases aliases;
	enum build_id_kind kind;
	struct err err = { 0 };
	int facts_r = elf_identify(src, &facts, &kind, &aliases, NULL), r;
	struct bytes piece;

	elf_probe_start(p, src->size);
	while (elf_probe_wants(p) && stream_next(s, KIB(64), &piece, &err) == 0 && piece.size)
		elf_probe_feed(p, piece);
	r = elf_probe_finish(p, &got, &err);
	elf_probe_free(p);
	json_key(out, "probe");
	if (r == ELF_PROBE_AGAIN)
		buf_add_str(out, STR("\"again\""));
	else if (r == facts_r &&
		 (r || (got.flags == facts.flags && got.type == facts.type && got.machine == facts.machine &&
			build_id_eq(&got.build_id, &facts.build_id))))
		buf_add_str(out, STR("\"same\""));
	else
		buf_add_str(out, STR("\"different\""));
}

static void dump(const char *path)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(buf_done) struct buf out = { 0 };
	struct elf_facts facts = { 0 };
	struct err err = { 0 };
	int r;

	buf_add_char(&out, '{');
	json_key(&out, "path");
	json_str(&out, str_of(path));
	if (source_open_file(path, &src, &err) == 0) {
		r = elf_facts_read(src, &facts, &err);
		if (r == 0)
			dump_facts(&out, &facts);
		if (with_probe)
			probe_file(&out, src);
		if (elf_open(src, &img, &err) == 0) {
			dump_sections(&out, img);
			dump_links(&out, img);
			if (img->sections_err.kind != ERR_NONE) {
				json_key(&out, "sections_error");
				json_str(&out, str_of(img->sections_err.text));
			}
		}
	}
	if (err.kind != ERR_NONE) {
		json_key(&out, "error");
		json_str(&out, str_of(err.text));
	}
	buf_add_str(&out, STR("}"));
	puts(buf_cstr(&out));
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		with_probe |= strcmp(argv[i], "-p") == 0;
		with_content |= strcmp(argv[i], "-c") == 0;
	}
	for (int k = i; k < argc; k++)
		dump(argv[k]);
	while (i == argc && (n = getline(&line, &room, stdin)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		dump(line);
	}
	free(line);
	return 0;
}
