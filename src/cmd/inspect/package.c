/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: the facts about a package: those of its header, and with --members those of the deep pass.
 */
#include "cmd/inspect/inspect.h"

static void put_member(struct json_writer *out, const struct pkg_entry *e)
{
	json_open_object(out, NULL);
	json_put_str(out, "path", e->path);
	inspect_put_size(out, "size", e->size);
	json_put_printf(out, "mode", "%04o", e->mode & 07777);
	json_put_int(out, "mtime", e->mtime);
	json_put_uint(out, "number", e->number);
	if (e->off != PKG_NO_OFF)
		inspect_put_size(out, "off", e->off);
	if (e->inner != CODEC_NONE) {
		json_put_text(out, "codec", codec_name(e->inner));
		inspect_put_size(out, "decoded_size", e->inner_size);
	}
	if (e->is_elf)
		inspect_elf_facts(out, &e->elf);
	json_close(out);
}

static void put_members(struct json_writer *out, const struct pkg_map *m)
{
	json_open_array(out, "members");
	for (uint32_t i = 0; i < m->n_entries; i++)
		put_member(out, &m->entries[i]);
	json_close(out);
	json_open_array(out, "links");
	for (uint32_t i = 0; i < m->n_links; i++) {
		json_open_object(out, NULL);
		json_put_str(out, "path", m->links[i].path);
		json_put_str(out, "target", m->links[i].target);
		json_close(out);
	}
	json_close(out);
}

static int put_resume_points(struct json_writer *out, struct bytes points, struct err *err)
{
	struct codec_points_info info;

	if (!points.size)
		return 0;
	if (codec_points_info(points, &info, err) < 0)
		return err_in(err, "resume points");
	json_open_object(out, "resume_points");
	inspect_put_size(out, "spans", info.n_spans);
	inspect_put_size(out, "size", info.size);
	inspect_put_size(out, "longest_span", info.max_span);
	json_close(out);
	return 0;
}

static int put_package_content(const char *path, struct json_writer *out, struct err *err)
{
	AUTO(buf_done) struct buf points = { 0 };
	struct pkg_map *map = NULL;

	if (scan_one(path, pool_cpus(), &map, &points, err) < 0)
		return -1;
	inspect_put_size(out, "decoded_size", map->decoded_size);
	put_members(out, map);
	pkg_map_free(map);
	return put_resume_points(out, buf_bytes(&points), err);
}

/* An archive that is no package, such as an APK or lib.a, is called by its name. */
static int put_archive_name(struct source *src, struct json_writer *out, struct err *err)
{
	uint8_t head[KIB(1)];
	const char *name, *help;
	size_t got;

	if (source_read(src, 0, head, sizeof(head), SOURCE_RANDOM, &got, err) < 0)
		return -1;
	if (!elf_foreign_name(bytes_of(head, got), &name, &help))
		return 0;
	json_put_text(out, "content", name);
	json_put_text(out, "help", help);
	return 0;
}

int inspect_package(const struct settings *s, const char *path, struct source *src, struct json_writer *out,
		    struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct pkg_info info = { 0 };
	int r;

	arena_init(&a);
	r = pkg_open(src, path_basename(str_of(path)), &a, &info, err);
	if (r != 0)
		return r;
	json_put_text(out, "kind", pkg_kind_name(info.kind));
	if (info.kind == PKG_OTHER && put_archive_name(src, out, err) < 0)
		return -1;
	inspect_put_text(out, "name", info.name);
	inspect_put_text(out, "version", info.version);
	inspect_put_text(out, "arch", info.arch);
	inspect_put_text(out, "source", info.source_name);
	json_put_text(out, "codec", codec_name(info.payload.codec));
	inspect_put_size(out, "payload_size", info.payload.size);
	if (info.has_file_list)
		inspect_put_size(out, "header_files", info.n_files);
	json_open_array(out, "header_build_ids");
	for (size_t i = 0; i < info.n_build_ids; i++)
		inspect_put_build_id(out, NULL, &info.build_ids[i]);
	json_close(out);
	return s->members ? put_package_content(path, out, err) : 0;
}
