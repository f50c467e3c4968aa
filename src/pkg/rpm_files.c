/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file list of an rpm's header: names, either complete (OLDFILENAMES) or as directory and base name, and
 * the attributes of each file; the groups of hard links; and the build IDs in the list and in the provides.
 */
#include "pkg/internal.h"

#include <stdlib.h>

enum {
	TAG_OLDFILENAMES = 1027,
	TAG_FILESIZES = 1028,
	TAG_FILEMODES = 1030,
	TAG_FILEMTIMES = 1034,
	TAG_FILELINKTOS = 1036,
	TAG_FILEFLAGS = 1037,
	TAG_PROVIDENAME = 1047,
	TAG_FILEDEVICES = 1095,
	TAG_FILEINODES = 1096,
	TAG_PROVIDEVERSION = 1113,
	TAG_DIRINDEXES = 1116,
	TAG_BASENAMES = 1117,
	TAG_DIRNAMES = 1118,
	TAG_LONGFILESIZES = 5008,
};

#define FLAG_GHOST (1u << 6)

struct file_list {
	const struct rpm_header *h;
	struct arena *a;
	struct pkg_header_file *files;
	uint32_t n;
};

/* One number per file, or none. */
static int file_ints(const struct file_list *l, uint32_t tag, struct rpm_ints *ret, struct err *err)
{
	if (rpm_header_ints(l->h, tag, ret, err) < 0)
		return -1;
	if (ret->n && ret->n != l->n)
		return err_set(err, ERR_INVALID, "tag %u has %u values for %u files", tag, ret->n, l->n);
	return 0;
}

static int read_dirs(const struct file_list *l, struct str **ret, uint32_t *ret_n, struct err *err)
{
	struct rpm_texts t;

	if (rpm_header_texts(l->h, TAG_DIRNAMES, &t, err) < 0)
		return -1;
	/* Each directory has a file. A string takes a byte of the header, and 16 here. */
	if (t.n > PKG_MAX_MEMBERS)
		return err_set(err, ERR_LIMIT, "%u directories", t.n);
	*ret_n = t.n;
	*ret = ARENA_NEW_N(l->a, struct str, t.n);
	for (uint32_t i = 0; t.n; i++)
		if (rpm_text_next(&t, &(*ret)[i], err) < 0)
			return -1;
	return 0;
}

/* @names are base names if there are directories (@split). All paths go into one block of memory. */
static int read_paths(struct file_list *l, struct rpm_texts *names, bool split, struct err *err)
{
	AUTO(buf_done) struct buf all = { 0 }, path = { 0 }, whole = { 0 };
	struct rpm_ints dir_of = { 0 };
	struct str *dirs = NULL, name;
	uint32_t n_dirs = 0;
	bool unsafe;
	char *p;

	if (split &&
	    (file_ints(l, TAG_DIRINDEXES, &dir_of, err) < 0 || read_dirs(l, &dirs, &n_dirs, err) < 0))
		return -1;
	if (split && !dir_of.n)
		return err_set(err, ERR_INVALID, "base names without directories");
	for (uint32_t i = 0; i < l->n; i++) {
		if (rpm_text_next(names, &name, err) < 0)
			return -1;
		if (split) {
			uint64_t d = rpm_int(&dir_of, i);

			if (d >= n_dirs)
				return err_set(err, ERR_INVALID, "file %u is in directory %llu of %u", i,
					       (unsigned long long)d, n_dirs);
			if (dirs[d].size > PKG_MAX_NAME)
				return err_set(err, ERR_LIMIT, "a directory's name of %zu bytes",
					       dirs[d].size);
			whole.size = 0;
			buf_add_str(&whole, dirs[d]);
			buf_add_str(&whole, name);
			name = buf_str(&whole);
		}
		if (member_path(name, &path, &unsafe, err) < 0)
			return -1;
		if (all.size + path.size > PKG_MAX_NAMES)
			return err_set(err, ERR_LIMIT, "names of more than %zu bytes in all", PKG_MAX_NAMES);
		buf_add_str(&all, buf_str(&path));
		l->files[i].path.size = path.size;
	}
	p = (char *)arena_bytes(l->a, buf_bytes(&all)).p;
	for (uint32_t i = 0; i < l->n; i++) {
		l->files[i].path.p = p;
		p += l->files[i].path.size;
	}
	return 0;
}

static int read_attributes(struct file_list *l, struct err *err)
{
	struct rpm_ints sizes, modes, mtimes;
	struct rpm_texts links;

	if (file_ints(l, TAG_LONGFILESIZES, &sizes, err) < 0)
		return -1;
	if (!sizes.n && file_ints(l, TAG_FILESIZES, &sizes, err) < 0)
		return -1;
	if (file_ints(l, TAG_FILEMODES, &modes, err) < 0 || file_ints(l, TAG_FILEMTIMES, &mtimes, err) < 0 ||
	    rpm_header_texts(l->h, TAG_FILELINKTOS, &links, err) < 0)
		return -1;
	if (links.n && links.n != l->n)
		return err_set(err, ERR_INVALID, "%u link targets for %u files", links.n, l->n);
	for (uint32_t i = 0; i < l->n; i++) {
		struct pkg_header_file *f = &l->files[i];

		f->size = sizes.n ? rpm_int(&sizes, i) : 0;
		f->mode = modes.n ? (uint32_t)rpm_int(&modes, i) : S_IFREG;
		f->mtime = mtimes.n ? (int64_t)rpm_int(&mtimes, i) : 0;
		/* Bytes of the header, which lives as long as the list. */
		if (links.n && rpm_text_next(&links, &f->link, err) < 0)
			return -1;
	}
	return 0;
}

struct inode {
	uint64_t dev, ino;
	uint32_t file;
};

static int inode_cmp(const void *a, const void *b)
{
	const struct inode *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

/* The last name of an inode carries the content in the payload. */
static int find_hard_links(struct file_list *l, struct err *err)
{
	struct rpm_ints inodes, devices, flags;
	AUTO(mem_freep) struct inode *list = NULL;
	size_t n = 0;

	if (file_ints(l, TAG_FILEINODES, &inodes, err) < 0 ||
	    file_ints(l, TAG_FILEDEVICES, &devices, err) < 0 || file_ints(l, TAG_FILEFLAGS, &flags, err) < 0)
		return -1;
	list = NEW_N(struct inode, l->n);
	for (uint32_t i = 0; i < l->n; i++) {
		bool ghost = flags.n && (rpm_int(&flags, i) & FLAG_GHOST);

		l->files[i].content = i;
		l->files[i].n_links = ghost ? 0 : 1;
		if (ghost || !S_ISREG(l->files[i].mode) || !inodes.n || !devices.n || !rpm_int(&inodes, i))
			continue;
		list[n++] = (struct inode){ rpm_int(&devices, i), rpm_int(&inodes, i), i };
	}
	qsort(list, n, sizeof(*list), inode_cmp);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && list[end].dev == list[i].dev && list[end].ino == list[i].ino;
		     end++)
			;
		for (size_t k = i; k < end; k++) {
			l->files[list[k].file].content = list[end - 1].file;
			l->files[list[k].file].n_links = (uint32_t)(end - i);
		}
	}
	return 0;
}

/* ---- build IDs ---- */

bool build_id_of_path(struct str path, struct build_id *ret)
{
	static const struct str roots[] = { { "usr/lib/debug/.build-id/", 24 },
					    { "usr/lib/.build-id/", 18 } };
	char hex[BUILD_ID_HEX_SIZE];
	struct str rest = { 0 }, first, last;

	for (size_t i = 0; i < ARRAY_SIZE(roots) && !rest.p; i++)
		if (str_starts(path, roots[i]))
			rest = (struct str){ path.p + roots[i].size, path.size - roots[i].size };
	if (!rest.p)
		return false;
	first = str_cut(&rest, '/');
	/* "cdef", "cdef.debug"; "cdef.1.debug" if two files have the same ID. */
	last = str_cut(&rest, '.');
	if (first.size != 2 || last.size < 2 || last.size + 2 >= sizeof(hex))
		return false;
	memcpy(hex, first.p, 2);
	memcpy(hex + 2, last.p, last.size);
	return build_id_parse(ret, (struct str){ hex, last.size + 2 });
}

static int add_provides(const struct rpm_header *h, struct buf *ids, struct err *err)
{
	struct rpm_texts names, versions;
	struct str name, version;
	struct build_id id;

	if (rpm_header_texts(h, TAG_PROVIDENAME, &names, err) < 0 ||
	    rpm_header_texts(h, TAG_PROVIDEVERSION, &versions, err) < 0)
		return -1;
	/* Very old packages have names only. */
	while (names.n && versions.n) {
		if (rpm_text_next(&names, &name, err) < 0 || rpm_text_next(&versions, &version, err) < 0)
			return -1;
		if (str_eq(name, STR("debuginfo(build-id)")) && build_id_parse(&id, version))
			buf_add(ids, &id, sizeof(id));
	}
	return 0;
}

static int build_id_cmp(const void *a, const void *b)
{
	const struct build_id *x = a, *y = b;
	int r = memcmp(x->b, y->b, MIN(x->size, y->size));

	return r ? r : (int)x->size - (int)y->size;
}

/* Sort and remove duplicates: an ID is named by its links in two trees, and by the provides. */
static void take_unique(struct buf *ids, struct arena *a, struct pkg_info *ret)
{
	size_t n = ids->size / sizeof(struct build_id);

	ret->build_ids = ARENA_NEW_N(a, struct build_id, n);
	if (!n)
		return;
	qsort(ids->p, n, sizeof(struct build_id), build_id_cmp);
	for (const struct build_id *id = (void *)ids->p; n; id++, n--)
		if (!ret->n_build_ids || !build_id_eq(id, &ret->build_ids[ret->n_build_ids - 1]))
			ret->build_ids[ret->n_build_ids++] = *id;
}

int rpm_files_read(const struct rpm_header *h, struct arena *a, struct pkg_info *ret, struct err *err)
{
	AUTO(buf_done) struct buf ids = { 0 };
	struct file_list l = { .h = h, .a = a };
	struct rpm_texts names;
	struct build_id id = { 0 };
	bool split = true;

	if (rpm_header_texts(h, TAG_BASENAMES, &names, err) < 0)
		return -1;
	if (!names.n) {
		split = false;
		if (rpm_header_texts(h, TAG_OLDFILENAMES, &names, err) < 0)
			return -1;
	}
	if (names.n > PKG_MAX_MEMBERS)
		return err_set(err, ERR_LIMIT, "%u files", names.n);
	l.n = names.n;
	l.files = ARENA_NEW_N(a, struct pkg_header_file, l.n);
	if (l.n && (read_paths(&l, &names, split, err) < 0 || read_attributes(&l, err) < 0 ||
		    find_hard_links(&l, err) < 0))
		return -1;
	for (uint32_t i = 0; i < l.n; i++)
		if (!S_ISDIR(l.files[i].mode) && build_id_of_path(l.files[i].path, &id))
			buf_add(&ids, &id, sizeof(id));
	if (add_provides(h, &ids, err) < 0)
		return -1;
	take_unique(&ids, a, ret);
	ret->has_file_list = true;
	ret->files = l.files;
	ret->n_files = l.n;
	return 0;
}
