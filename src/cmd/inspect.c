/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: what a file or a package is. What is collected is one JSON object, whichever way it is then
 * shown.
 */
#include <jansson.h>
#include <stdlib.h>
#include "cmd/internal.h"

enum { KEY_SECTIONS = 256, KEY_MEMBERS, KEY_JSON };

static const struct option_row options[] = {
	{ KEY_SECTIONS, "sections", NULL, "an ELF file's sections" },
	{ KEY_MEMBERS, "members", NULL,
	  "a package's files with their build IDs, and its resume points: reads all of it" },
	{ KEY_JSON, "json", NULL, "for programs" },
	OPTION_END,
};

struct inspect {
	bool sections, members, json;
};

static int set(void *ctx, int key, const char *value, struct err *err)
{
	struct inspect *o = ctx;

	switch (key) {
	case KEY_SECTIONS:
		o->sections = true;
		break;
	case KEY_MEMBERS:
		o->members = true;
		break;
	case KEY_JSON:
		o->json = true;
		break;
	}
	return 0;
}

static json_t *hex(const struct build_id *id)
{
	char out[BUILD_ID_HEX_SIZE];

	return json_string(build_id_hex(id, out));
}

static void put_text(json_t *o, const char *key, struct str value)
{
	if (value.size)
		json_object_set_new(o, key, json_text(value));
}

/* ---- ELF ---- */

static void facts(json_t *o, const struct elf_facts *f)
{
	AUTO(buf_done) struct buf what = { 0 };

	elf_facts_print(f, &what);
	put_text(o, "elf", buf_str(&what));
	if (f->build_id.size)
		json_object_set_new(o, "build_id", hex(&f->build_id));
}

static void elf_links(json_t *o, const struct elf_image *img)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id alt_id;
	struct str name;
	struct err err = { 0 };
	uint32_t crc;
	char crc_text[16];

	arena_init(&a);
	if (elf_go_build_id(img, &a, &name, &err) == 0)
		put_text(o, "go_build_id", name);
	if (elf_debug_link(img, &a, &name, &crc, &err) == 0) {
		snprintf(crc_text, sizeof(crc_text), "%08x", crc);
		json_object_set_new(o, "debug_link",
				    json_pack("{s:o, s:s}", "name", json_text(name), "crc", crc_text));
	}
	if (elf_alt_link(img, &a, &name, &alt_id, &err) == 0)
		json_object_set_new(
			o, "alt_link",
			json_pack("{s:o, s:o}", "path", json_text(name), "build_id", hex(&alt_id)));
}

static json_t *elf_sections(const struct elf_image *img)
{
	json_t *list = json_array();

	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];
		json_t *one = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "name", json_text(s->name), "type",
					(json_int_t)s->type, "flags", (json_int_t)s->flags, "addr",
					(json_int_t)s->addr, "off", (json_int_t)s->off, "size",
					(json_int_t)s->size);
		uint64_t content;
		struct err err;

		if (elf_section_content_size(img, s, &content, &err) == 0 && content != s->size)
			json_object_set_new(one, "content_size", json_integer((json_int_t)content));
		json_array_append_new(list, one);
	}
	return list;
}

/* 0, ELF_NOT_ELF or an error. */
static int inspect_elf(const struct inspect *o, struct source *src, json_t *out, struct err *err)
{
	struct elf_facts f;
	AUTO(elf_closep) struct elf_image *img = NULL;
	int r = elf_facts_read(src, &f, err);

	if (r != 0)
		return r;
	json_object_set_new(out, "kind", json_string("elf"));
	facts(out, &f);
	if (elf_open(src, &img, err) < 0)
		return -1;
	elf_links(out, img);
	if (img->sections_err.kind != ERR_NONE)
		json_object_set_new(out, "sections_error", json_string(img->sections_err.text));
	if (o->sections)
		json_object_set_new(out, "sections", elf_sections(img));
	return 0;
}

/* ---- packages ---- */

static json_t *members(const struct pkg_map *m)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < m->n_entries; i++) {
		const struct pkg_entry *e = &m->entries[i];
		json_t *one = json_pack("{s:o, s:I, s:I}", "path", json_text(e->path), "size",
					(json_int_t)e->size, "mtime", (json_int_t)e->mtime);

		if (e->off != PKG_NO_OFF)
			json_object_set_new(one, "off", json_integer((json_int_t)e->off));
		if (e->inner != CODEC_NONE)
			json_object_set_new(one, "compressed", json_string(codec_name(e->inner)));
		if (e->is_elf)
			facts(one, &e->elf);
		json_array_append_new(list, one);
	}
	return list;
}

static int package_content(const char *path, json_t *out, struct err *err)
{
	AUTO(buf_done) struct buf points = { 0 };
	struct codec_points_info info;
	struct pkg_map *map = NULL;

	if (scan_one(path, pool_cpus(), &map, &points, err) < 0)
		return -1;
	json_object_set_new(out, "decoded_size", json_integer((json_int_t)map->decoded_size));
	json_object_set_new(out, "members", members(map));
	pkg_map_free(map);
	if (!points.size)
		return 0;
	if (codec_points_info(buf_bytes(&points), &info, err) < 0)
		return -1;
	json_object_set_new(out, "resume_points",
			    json_pack("{s:I, s:I, s:I}", "n", (json_int_t)info.n_spans, "size",
				      (json_int_t)info.size, "longest_span", (json_int_t)info.max_span));
	return 0;
}

static int inspect_package(const struct inspect *o, const char *path, struct source *src, json_t *out,
			   struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct pkg_info info = { 0 };
	json_t *ids;
	int r;

	arena_init(&a);
	r = pkg_open(src, path_basename(str_of(path)), &a, &info, err);
	if (r != 0)
		return r;
	json_object_set_new(out, "kind", json_string(pkg_kind_name(info.kind)));
	put_text(out, "name", info.name);
	put_text(out, "version", info.version);
	put_text(out, "arch", info.arch);
	put_text(out, "source", info.source_name);
	json_object_set_new(out, "codec", json_string(codec_name(info.payload.codec)));
	json_object_set_new(out, "payload_size", json_integer((json_int_t)info.payload.size));
	ids = json_array();
	for (size_t i = 0; i < info.n_build_ids; i++)
		json_array_append_new(ids, hex(&info.build_ids[i]));
	json_object_set_new(out, "header_build_ids", ids);
	return o->members ? package_content(path, out, err) : 0;
}

static int inspect_file(const struct inspect *o, const char *path, json_t *out, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	int r = source_open_file(path, &src, err);

	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no such file");
	if (r < 0)
		return r;
	json_object_set_new(out, "path", json_text(str_of(path)));
	json_object_set_new(out, "size", json_integer((json_int_t)src->size));
	r = inspect_elf(o, src, out, err);
	if (r == ELF_NOT_ELF)
		r = inspect_package(o, path, src, out, err);
	if (r == PKG_NOT_A_PACKAGE)
		return err_set(err, ERR_INVALID, "is neither an ELF file nor a package");
	return r;
}

/* ---- showing ---- */

static void show_row(const json_t *row)
{
	const char *key;
	json_t *value;
	bool first = true;

	printf("  ");
	json_object_foreach((json_t *)row, key, value)
	{
		if (json_is_string(value))
			printf("%s%s", first ? "" : "  ", json_string_value(value));
		else if (json_is_integer(value))
			printf("%s%s %lld", first ? "" : "  ", key, (long long)json_integer_value(value));
		first = false;
	}
	printf("\n");
}

static void show(const json_t *all)
{
	const char *key;
	json_t *value, *row;
	size_t i;

	json_object_foreach((json_t *)all, key, value)
	{
		if (json_is_string(value)) {
			printf("%-16s %s\n", key, json_string_value(value));
		} else if (json_is_integer(value)) {
			printf("%-16s %lld\n", key, (long long)json_integer_value(value));
		} else if (json_is_object(value)) {
			printf("%-15s", key);
			show_row(value);
		} else if (json_is_array(value)) {
			printf("%-16s %zu\n", key, json_array_size(value));
			json_array_foreach(value, i, row)
			{
				if (json_is_object(row))
					show_row(row);
				else
					printf("  %s\n", json_string_value(row));
			}
		}
	}
}

static int inspect(const struct command *cmd, int argc, char **argv)
{
	struct inspect o = { 0 };
	int first, status = EXIT_DONE, r = options_read(cmd, argc, argv, set, &o, &first);

	if (r != 0)
		return r > 0 ? EXIT_DONE : EXIT_USAGE;
	if (first == argc)
		return fail_usage(cmd, "which FILE?");
	for (int i = first; i < argc; i++) {
		json_t *out = json_object();
		struct err err = { 0 };

		if (inspect_file(&o, argv[i], out, &err) < 0) {
			err_in(&err, "inspect: %s", argv[i]);
			status = fail(&err);
		} else if (o.json) {
			json_dumpf(out, stdout, JSON_INDENT(1));
			printf("\n");
		} else {
			show(out);
			if (i + 1 < argc)
				printf("\n");
		}
		json_decref(out);
	}
	return status;
}

const struct command command_inspect = {
	.name = "inspect",
	.args = "FILE...",
	.summary = "what a file or a package is: build IDs, links, sections, members, resume points",
	.options = options,
	.run = inspect,
	.examples = "  lode inspect /usr/bin/ls\n  lode inspect --sections "
		    "/usr/lib/debug/.build-id/ab/cdef.debug\n"
		    "  lode inspect --members --json libc6-dbg_2.36-9_amd64.deb\n",
};
