/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: the facts about an ELF file.
 */
#include <stdio.h>
#include "cmd/inspect/inspect.h"

void inspect_elf_facts(struct json_writer *out, const struct elf_facts *f)
{
	AUTO(buf_done) struct buf text = { 0 };

	elf_facts_print(f, &text);
	inspect_put_text(out, "elf", buf_str(&text));
	if (f->build_id.size)
		inspect_put_build_id(out, "build_id", &f->build_id);
}

/* The error of a link that is there and cannot be read. */
static void put_link_error(struct json_writer *out, const char *key, const struct err *err)
{
	json_open_object(out, key);
	json_put_text(out, "error", err->text);
	json_close(out);
}

static void put_links(struct json_writer *out, const struct elf_image *img)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id alt_id;
	struct err err = { 0 };
	struct str name;
	uint32_t crc;
	int r;

	arena_init(&a);
	if (elf_go_build_id(img, &a, &name, &err) == 0)
		inspect_put_text(out, "go_build_id", name);
	r = elf_debug_link(img, &a, &name, &crc, &err);
	if (r == 0) {
		json_open_object(out, "debug_link");
		json_put_str(out, "name", name);
		json_put_printf(out, "crc", "%08x", crc);
		json_close(out);
	} else if (r < 0) {
		put_link_error(out, "debug_link", &err);
	}
	r = elf_alt_link(img, &a, &name, &alt_id, &err);
	if (r == 0) {
		json_open_object(out, "alt_link");
		json_put_str(out, "path", name);
		inspect_put_build_id(out, "build_id", &alt_id);
		json_close(out);
	} else if (r < 0) {
		put_link_error(out, "alt_link", &err);
	}
}

static void put_section(struct json_writer *out, const struct elf_image *img, const struct elf_section *sec)
{
	uint64_t content;

	json_open_object(out, NULL);
	json_put_uint(out, "index", sec->index);
	json_put_str(out, "name", sec->name);
	json_put_uint(out, "type", sec->type);
	/* Addresses are larger than the JSON integers of most readers. */
	json_put_printf(out, "flags", "0x%llx", (unsigned long long)sec->flags);
	json_put_printf(out, "addr", "0x%llx", (unsigned long long)sec->addr);
	inspect_put_size(out, "off", sec->off);
	inspect_put_size(out, "size", sec->size);
	if (elf_section_content_size(img, sec, &content, NULL) == 0 && content != sec->size)
		inspect_put_size(out, "content_size", content);
	json_close(out);
}

#define DAMAGED_MAX 100u

/* The kind of the build ID, and the other names that profilers have for the file. */
static void put_identities(struct json_writer *out, const struct elf_facts *facts, enum build_id_kind kind,
			   const struct elf_aliases *aliases)
{
	if (facts->build_id.size)
		json_put_text(out, "build_id_kind", build_id_kind_name(kind));
	for (unsigned i = 0; i < aliases->n; i++) {
		char key[32];

		snprintf(key, sizeof(key), "build_id_%s", build_id_kind_name(aliases->v[i].kind));
		inspect_put_build_id(out, key, &aliases->v[i].id);
	}
}

/* The sections whose bytes are not in the file, or whose compression header cannot be true. */
static void put_damaged(struct json_writer *out, const struct elf_image *img)
{
	unsigned n = 0;

	for (uint32_t i = 1; i < img->n_sections && n < DAMAGED_MAX; i++) {
		const struct elf_section *sec = &img->sections[i];
		struct err err = { 0 };
		uint64_t off, size;

		if (elf_section_range(img, sec, &off, &size, &err) >= 0 &&
		    elf_section_content_size(img, sec, &size, &err) >= 0)
			continue;
		if (!n++)
			json_open_array(out, "damaged_sections");
		json_open_object(out, NULL);
		json_put_uint(out, "index", sec->index);
		json_put_str(out, "name", sec->name);
		json_put_text(out, "error", err.text);
		json_close(out);
	}
	if (n)
		json_close(out);
}

int inspect_elf(const struct settings *s, struct source *src, struct json_writer *out, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct elf_facts facts;
	enum build_id_kind kind;
	struct elf_aliases aliases;
	int r = elf_identify(src, &facts, &kind, &aliases, err);

	if (r != 0)
		return r;
	json_put_text(out, "kind", "elf");
	inspect_elf_facts(out, &facts);
	put_identities(out, &facts, kind, &aliases);
	if (elf_open(src, &img, err) < 0)
		return -1;
	put_links(out, img);
	if (img->sections_err.kind != ERR_NONE)
		json_put_text(out, "sections_error", img->sections_err.text);
	put_damaged(out, img);
	if ((s->unwind || s->unwind_at) && inspect_unwind(s, img, out, err) < 0)
		return -1;
	if (!s->sections)
		return 0;
	json_open_array(out, "sections");
	for (uint32_t i = 1; i < img->n_sections; i++)
		put_section(out, img, &img->sections[i]);
	json_close(out);
	return 0;
}
