/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: an ELF file.
 */
#include "cmd/inspect/inspect.h"

void inspect_elf_facts(json_t *out, const struct elf_facts *f)
{
	AUTO(buf_done) struct buf what = { 0 };

	elf_facts_print(f, &what);
	inspect_put_text(out, "elf", buf_str(&what));
	if (f->build_id.size)
		json_object_set_new(out, "build_id", inspect_build_id(&f->build_id));
}

/* A link that is there and cannot be read is told, in its place. */
static void put_unreadable(json_t *out, const char *key, const struct err *err)
{
	json_object_set_new(out, key, json_pack("{s:o}", "error", json_text(str_of(err->text))));
}

static void put_links(json_t *out, const struct elf_image *img)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id alt_id;
	struct err err = { 0 };
	char crc_text[16];
	struct str name;
	uint32_t crc;
	int r;

	arena_init(&a);
	if (elf_go_build_id(img, &a, &name, &err) == 0)
		inspect_put_text(out, "go_build_id", name);
	r = elf_debug_link(img, &a, &name, &crc, &err);
	if (r == 0) {
		snprintf(crc_text, sizeof(crc_text), "%08x", crc);
		json_object_set_new(out, "debug_link",
				    json_pack("{s:o, s:s}", "name", json_text(name), "crc", crc_text));
	} else if (r < 0) {
		put_unreadable(out, "debug_link", &err);
	}
	r = elf_alt_link(img, &a, &name, &alt_id, &err);
	if (r == 0)
		json_object_set_new(out, "alt_link",
				    json_pack("{s:o, s:o}", "path", json_text(name), "build_id",
					      inspect_build_id(&alt_id)));
	else if (r < 0)
		put_unreadable(out, "alt_link", &err);
}

static json_t *section(const struct elf_image *img, const struct elf_section *sec)
{
	/* Addresses go over what a JSON integer holds for most readers. */
	char addr[32], flags[32];
	uint64_t content;
	json_t *one;

	snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)sec->addr);
	snprintf(flags, sizeof(flags), "0x%llx", (unsigned long long)sec->flags);
	one = json_pack("{s:I, s:o, s:I, s:s, s:s, s:I, s:I}", "index", (json_int_t)sec->index, "name",
			json_text(sec->name), "type", (json_int_t)sec->type, "flags", flags, "addr", addr,
			"off", (json_int_t)sec->off, "size", (json_int_t)sec->size);
	if (elf_section_content_size(img, sec, &content, NULL) == 0 && content != sec->size)
		inspect_put_size(one, "content_size", content);
	return one;
}

static json_t *sections(const struct elf_image *img)
{
	json_t *list = json_array();

	for (uint32_t i = 1; i < img->n_sections; i++)
		json_array_append_new(list, section(img, &img->sections[i]));
	return list;
}

int inspect_elf(const struct settings *s, struct source *src, json_t *out, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct elf_facts facts;
	int r = elf_facts_read(src, &facts, err);

	if (r != 0)
		return r;
	json_object_set_new(out, "kind", json_string("elf"));
	inspect_elf_facts(out, &facts);
	if (elf_open(src, &img, err) < 0)
		return -1;
	put_links(out, img);
	if (img->sections_err.kind != ERR_NONE)
		json_object_set_new(out, "sections_error", json_text(str_of(img->sections_err.text)));
	if (s->sections)
		json_object_set_new(out, "sections", sections(img));
	return 0;
}
