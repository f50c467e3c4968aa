/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items, and the plain targets: a build ID, an ELF file, the files of a package, installed or not.
 */
#include "cmd/find/find.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "codec/codec.h"
#include "elf/elf.h"
#include "pkg/pkg.h"
#include "scan/scan.h"
#include "s3/s3.h"

#define MAX_UNPACKED MIB(512) /* of a compressed kernel module */
#define MAX_LIST     MIB(64)
#define DPKG_INFO    "/var/lib/dpkg/info"

struct find_item *find_add(struct finder *f, const char *name, const char *open_path,
			   const struct build_id *id, struct err *err)
{
	struct find_item *item;

	if (f->n_items == FIND_MAX_ITEMS) {
		err_set(err, ERR_LIMIT, "there are more than %u files; give fewer targets", FIND_MAX_ITEMS);
		return NULL;
	}
	if (f->n_items == f->room_items) {
		size_t room = vec_room(f->room_items, f->n_items + 1);
		struct find_item **more = ARENA_NEW_N(&f->a, struct find_item *, room);

		if (f->n_items)
			memcpy(more, f->items, f->n_items * sizeof(*more));
		f->items = more;
		f->room_items = room;
	}
	item = ARENA_NEW(&f->a, struct find_item);
	item->name = arena_strdup(&f->a, str_of(name));
	item->open_path = open_path ? arena_strdup(&f->a, str_of(open_path)) : NULL;
	if (id)
		item->id = *id;
	f->items[f->n_items++] = item;
	return item;
}

int find_add_damaged(struct finder *f, const char *name, struct err *why, struct err *err)
{
	(void)err_in(why, "%s", name);
	tell_error("find", why);
	return find_add(f, name, NULL, NULL, err) ? 0 : -1;
}

const char *find_path(struct finder *f, const char *path)
{
	return f->s->find.sysroot ? arena_printf(&f->a, "%s%s", f->s->find.sysroot, path) : path;
}

static int add_unpacked(void *arg, struct bytes piece, struct err *err)
{
	struct buf *b = arg;

	if (piece.size > MAX_UNPACKED - b->size)
		return err_set(err, ERR_LIMIT, "more than %zu bytes when decoded", (size_t)MAX_UNPACKED);
	buf_add(b, piece.p, piece.size);
	return 0;
}

static int unpack_source(struct source *src, struct source **ret, struct err *err)
{
	AUTO(source_closep) struct source *in = src;
	AUTO(stream_closep) struct stream *stream = NULL;
	AUTO(buf_done) struct buf content = { 0 };
	enum codec_kind codec;

	if (codec_detect_at(in, 0, SOURCE_RANDOM, &codec, err) < 0)
		return -1;
	if (codec == CODEC_NONE) {
		*ret = TAKE(in);
		return 0;
	}
	if (codec_stream_open(codec, stream_of_source(in, false, 0, in->size), &stream, err) < 0 ||
	    stream_each(stream, add_unpacked, &content, err) < 0)
		return err_in(err, "%s", codec_name(codec));
	*ret = source_of_heap(TAKE(content.p), content.size, in->name);
	return 0;
}

int find_open_file(const char *path, bool packed, struct source **ret, struct err *err)
{
	struct source *file;
	int r = packed ? s3_open_path(path, &file, err) : source_open_file(path, &file, err);

	if (r == 0 && packed)
		return unpack_source(file, ret, err);
	if (r == 0)
		*ret = file;
	return r;
}

static int source_build_id(struct source *src, bool may_be_core, struct build_id *ret, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	int r = elf_open(src, &img, err);

	*ret = (struct build_id){ 0 };
	if (r == 0 &&
	    ((!may_be_core && elf_refuse_core(img->h.type, err) < 0) || elf_build_id(img, ret, err) < 0))
		return -1;
	return r;
}

int find_read_id(const char *path, bool packed, struct build_id *ret, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	int r = find_open_file(path, packed, &src, err);

	if (r == 0)
		r = source_build_id(src, true, ret, err);
	return MIN(r, 1);
}

static int target_file(struct finder *f, const char *path, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	struct find_item *item;
	struct build_id id;
	int r;

	if (pkg_kind_by_name(path_basename(str_of(path))) &&
	    (s3_is_url(str_of(path)) || access(path, F_OK) == 0)) {
		r = find_package_file(f, path, err);
		if (r <= 0)
			return r;
	}
	r = find_open_file(path, true, &src, err);
	if (r == FILE_MISSING)
		return err_set(
			err, ERR_IO,
			"there is no such file, and it is not a build ID (two hexadecimal digits a byte, "
			"at most %u bytes; or the text of a Go build ID)",
			BUILD_ID_MAX);
	if (r < 0)
		return -1;
	r = source_build_id(src, false, &id, err);
	if (r)
		return r < 0 ? -1 : elf_foreign_source_err(src, err);
	item = find_add(f, path, path, &id, err);
	if (!item)
		return -1;
	item->packed = true;
	return 0;
}

int find_target(struct finder *f, struct str target, struct err *err)
{
	AUTO(mem_freep) char *text = mem_strndup(target.p, target.size);
	struct build_id id;

	/*
	 * Hexadecimal digits of either case are a build ID; a file of such a name is "./abcd". Go's build ID could be a
	 * relative path, too, so a file comes first.
	 */
	if (build_id_read(&id, target) &&
	    (memchr(target.p, '/', target.size) == NULL || access(text, F_OK) < 0)) {
		char hex[BUILD_ID_HEX_SIZE];

		return find_add(f, build_id_hex(&id, hex), NULL, &id, err) ? 0 : -1;
	}
	return target_file(f, text, err);
}

/* ---- packages ---- */

/* dpkg's list of the package's files. */
static int read_dpkg_list(struct finder *f, const char *name, struct buf *ret, struct err *err)
{
	AUTO(buf_done) struct buf arch = { 0 };
	const char *dir = find_path(f, DPKG_INFO);
	struct str line;
	int r;

	r = file_read(arena_printf(&f->a, "%s/%s.list", dir, name), MAX_LIST, ret, err);
	if (r != FILE_MISSING)
		return r;
	/*
	 * The name of a package that can be installed for several architectures at once ends in its own. dpkg
	 * keeps the list of architectures only if there is a foreign one, so all usual ones are tried, too.
	 */
	if (file_read(find_path(f, "/var/lib/dpkg/arch"), KIB(64), &arch, err) < 0)
		return -1;
	buf_add_str(&arch,
		    STR("\namd64\narm64\narmhf\narmel\ni386\nppc64el\nriscv64\ns390x\nmips64el\nloong64\n"));
	for (struct str rest = buf_str(&arch); rest.size;) {
		line = str_trim(str_cut(&rest, '\n'));
		if (!line.size)
			continue;
		r = file_read(arena_printf(&f->a, "%s/%s:%.*s.list", dir, name, STR_ARG(line)), MAX_LIST, ret,
			      err);
		if (r != FILE_MISSING)
			return r;
	}
	return FILE_MISSING;
}

static int add_packaged(struct finder *f, const char *path, struct err *err)
{
	struct build_id id;
	struct stat st;
	int r;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	/* An error is ignored: the search opens the file again and reports it. */
	r = find_read_id(path, false, &id, err);
	if (r == 0 && !find_add(f, path, path, &id, err))
		return -1;
	return 0;
}

static int no_such_package(struct finder *f, const char *name, struct err *err)
{
	const char *dir = find_path(f, DPKG_INFO);
	bool dpkg = access(dir, F_OK) == 0, rpm = find_has_rpm(f);

	if (!dpkg && !rpm)
		return err_set(err, ERR_IO,
			       "package %s: there is neither dpkg here (%s) nor a database of rpm; give the "
			       "package file, or its programs",
			       name, dir);
	return err_set(err, ERR_IO, "package %s is not installed: it is not in %s%s%s", name, dpkg ? dir : "",
		       dpkg && rpm ? ", nor in " : "", rpm ? "the database of rpm" : "");
}

/* The files are in the package, not on disk: one item a build ID, since a debug file has that of its
 * program. */
int find_package_file(struct finder *f, const char *path, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(map_done) struct map seen = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	struct pkg_map *map = NULL;
	struct pkg_info info;
	int r = s3_open_path(path, &src, err);

	if (r)
		return r < 0 ? -1 : err_os(err, ENOENT, "%s", path);
	r = pkg_open(src, path_basename(str_of(path)), &f->a, &info, err);
	if (r)
		return r < 0 ? -1 : 1;
	if (scan_one(path, pool_cpus(), &map, &points, err) < 0)
		return -1;
	for (uint32_t i = 0; r == 0 && i < map->n_entries; i++) {
		const struct pkg_entry *e = &map->entries[i];
		const struct build_id *id = &e->elf.build_id;

		if (!e->is_elf || !id->size || map_put(&seen, build_id_bytes(id), map))
			continue;
		r = find_add(f, arena_printf(&f->a, "%s: /" STR_FMT, path, STR_ARG(e->path)), NULL, id, err)
			    ? 0
			    : -1;
	}
	pkg_map_free(map);
	if (r == 0 && !seen.n)
		return err_set(err, ERR_INVALID, "it has no ELF file with a build ID");
	return r;
}

int find_package(struct finder *f, const char *name, struct err *err)
{
	AUTO(buf_done) struct buf list = { 0 };
	size_t before = f->n_items;
	int r;

	/* Package names have no slash and no suffix of a package file. */
	if (strchr(name, '/') || pkg_kind_by_name(str_of(name))) {
		r = find_package_file(f, name, err);
		return r < 0 ? err_in(err, "%s", name)
		       : r   ? err_set(err, ERR_INVALID, "%s: not a package", name)
			     : 0;
	}
	if (!*name)
		return err_set(err, ERR_INVALID, "the name of a package cannot be empty");
	r = read_dpkg_list(f, name, &list, err);
	if (r == FILE_MISSING)
		r = find_rpm_files(f, name, &list, err);
	if (r < 0)
		return -1;
	if (r == FILE_MISSING)
		return no_such_package(f, name, err);
	for (struct str rest = buf_str(&list); rest.size;) {
		struct str line = str_trim(str_cut(&rest, '\n'));
		const char *path;

		if (!str_starts(line, STR("/")))
			continue;
		path = find_path(f, arena_strdup(&f->a, line));
		if (add_packaged(f, path, err) < 0)
			return -1;
	}
	if (f->n_items == before)
		return err_set(err, ERR_INVALID, "package %s has no ELF file", name);
	return 0;
}
