/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: a package: what it says of itself, and with --members what the deep pass finds in it.
 */
#include "cmd/inspect/inspect.h"

static json_t *member(const struct pkg_entry *e)
{
	char mode[16];
	json_t *one;

	snprintf(mode, sizeof(mode), "%04o", e->mode & 07777);
	one = json_pack("{s:o, s:I, s:s, s:I, s:I}", "path", json_text(e->path), "size", (json_int_t)e->size,
			"mode", mode, "mtime", (json_int_t)e->mtime, "number", (json_int_t)e->number);
	if (e->off != PKG_NO_OFF)
		inspect_put_size(one, "off", e->off);
	if (e->inner != CODEC_NONE) {
		json_object_set_new(one, "codec", json_string(codec_name(e->inner)));
		inspect_put_size(one, "decoded_size", e->inner_size);
	}
	if (e->is_elf)
		inspect_elf_facts(one, &e->elf);
	return one;
}

static json_t *members(const struct pkg_map *m)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < m->n_entries; i++)
		json_array_append_new(list, member(&m->entries[i]));
	return list;
}

static json_t *links(const struct pkg_map *m)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < m->n_links; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "path", json_text(m->links[i].path),
						      "target", json_text(m->links[i].target)));
	return list;
}

static int put_points(json_t *out, struct bytes points, struct err *err)
{
	struct codec_points_info info;

	if (!points.size)
		return 0;
	if (codec_points_info(points, &info, err) < 0)
		return err_in(err, "resume points");
	json_object_set_new(out, "resume_points",
			    json_pack("{s:I, s:I, s:I}", "spans", (json_int_t)info.n_spans, "size",
				      (json_int_t)info.size, "longest_span", (json_int_t)info.max_span));
	return 0;
}

static int put_content(const char *path, json_t *out, struct err *err)
{
	AUTO(buf_done) struct buf points = { 0 };
	struct pkg_map *map = NULL;

	if (scan_one(path, pool_cpus(), &map, &points, err) < 0)
		return -1;
	inspect_put_size(out, "decoded_size", map->decoded_size);
	json_object_set_new(out, "members", members(map));
	json_object_set_new(out, "links", links(map));
	pkg_map_free(map);
	return put_points(out, buf_bytes(&points), err);
}

static json_t *header_ids(const struct pkg_info *info)
{
	json_t *list = json_array();

	for (size_t i = 0; i < info->n_build_ids; i++)
		json_array_append_new(list, inspect_build_id(&info->build_ids[i]));
	return list;
}

int inspect_package(const struct settings *s, const char *path, struct source *src, json_t *out,
		    struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct pkg_info info = { 0 };
	int r;

	arena_init(&a);
	r = pkg_open(src, path_basename(str_of(path)), &a, &info, err);
	if (r != 0)
		return r;
	json_object_set_new(out, "kind", json_string(pkg_kind_name(info.kind)));
	inspect_put_text(out, "name", info.name);
	inspect_put_text(out, "version", info.version);
	inspect_put_text(out, "arch", info.arch);
	inspect_put_text(out, "source", info.source_name);
	json_object_set_new(out, "codec", json_string(codec_name(info.payload.codec)));
	inspect_put_size(out, "payload_size", info.payload.size);
	if (info.has_file_list)
		inspect_put_size(out, "header_files", info.n_files);
	json_object_set_new(out, "header_build_ids", header_ids(&info));
	return s->members ? put_content(path, out, err) : 0;
}
