/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find --pid, --core: the modules of a running process, and of a core dump.
 */
#include "cmd/find/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "cmd/mapped.h"
#include "elf/core.h"

#define MAX_MAPS  MIB(256)
#define VDSO_SIZE KIB(64)

/* ---- a process ---- */

/* Code of Windows' programs (wine) or of .NET has no debug information that lode could find. */
static void tell_not_elf(const char *open_path, const char *name)
{
	AUTO(source_closep) struct source *src = NULL;
	struct err err = { 0 };

	if (source_open_file(open_path, &src, &err) != 0)
		return;
	(void)!elf_foreign_source_err(src, &err);
	fprintf(stderr, "lode: find: ");
	print_text(stderr, str_of(name));
	fprintf(stderr, ": %s\n", err.text);
}

static int add_mapped(struct finder *f, const char *pid, const struct maps_line *m, struct err *err)
{
	AUTO(mem_freep) char *open_path = mapped_path(pid, m);
	const char *name = arena_strdup(&f->a, m->path);
	struct build_id id = { 0 };
	struct err why = { 0 };
	int r;

	if (!open_path) {
		fprintf(stderr, "lode: find: ");
		print_text(stderr, m->path);
		fprintf(stderr, ": was replaced or deleted since the process mapped it; only root can "
				"read the mapped file\n");
		return find_add(f, name, NULL, NULL, err) ? 0 : -1;
	}
	r = find_read_id(open_path, false, &id, &why);
	if (r < 0)
		return find_add_damaged(f, name, &why, err);
	if (r) {
		tell_not_elf(open_path, name);
		return 0;
	}
	return find_add(f, name, open_path, &id, err) ? 0 : -1;
}

static int add_optional(struct finder *f, const struct build_id *id, struct err *err)
{
	struct find_item *item = find_add(f, "[vdso]", NULL, id, err);

	if (!item)
		return -1;
	item->optional = true;
	return 0;
}

/* The kernel's own library has no file: its build ID is read from the memory of the process. */
static int add_vdso(struct finder *f, const char *pid, uint64_t start, struct err *err)
{
	AUTO(fd_close) int fd = open(arena_printf(&f->a, "/proc/%s/mem", pid), O_RDONLY | O_CLOEXEC);
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	uint8_t *bytes = arena_alloc(&f->a, VDSO_SIZE);
	struct err ignored = { 0 };
	struct build_id id;
	ssize_t n;

	n = fd < 0 ? -1 : pread(fd, bytes, VDSO_SIZE, (off_t)start);
	if (n <= 0)
		return 0;
	src = source_of_mem(bytes_of(bytes, (size_t)n), "[vdso]");
	if (elf_open(src, &img, &ignored) != 0 || elf_build_id(img, &id, &ignored) != 0)
		return 0;
	return add_optional(f, &id, err);
}

/* Add files with code, each once. */
static int add_maps_line(struct finder *f, const char *pid, struct str line, struct map *seen,
			 struct err *err)
{
	struct maps_line m;
	struct {
		uint64_t dev, ino;
	} key;

	if (!maps_line_parse(line, &m) || !m.exec)
		return 0;
	if (str_eq(m.path, STR("[vdso]")))
		return add_vdso(f, pid, m.start, err);
	if (!m.inode || !m.path.size || m.path.p[0] != '/')
		return 0;
	key.dev = makedev(m.major, m.minor);
	key.ino = m.inode;
	if (map_put(seen, bytes_of(&key, sizeof(key)), seen))
		return 0;
	return add_mapped(f, pid, &m, err);
}

int find_process(struct finder *f, const char *pid, struct err *err)
{
	AUTO(buf_done) struct buf maps = { 0 };
	AUTO(map_done) struct map seen = { 0 };
	size_t before = f->n_items;
	uint64_t number;
	int r;

	if (!str_to_u64(str_of(pid), &number))
		return err_set(err, ERR_INVALID, "'%s' is not the number of a process", pid);
	r = file_read(arena_printf(&f->a, "/proc/%s/maps", pid), MAX_MAPS, &maps, err);
	if (r < 0)
		return -1;
	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no process %s", pid);
	for (struct str rest = buf_str(&maps); rest.size;)
		if (add_maps_line(f, pid, str_cut(&rest, '\n'), &seen, err) < 0)
			return -1;
	if (f->n_items == before)
		return err_set(err, ERR_IO,
			       "process %s has no mapped files: it is a thread of the kernel, or has ended",
			       pid);
	return 0;
}

/* ---- core dumps ---- */

static bool file_is_of(const char *path, const struct build_id *id)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err ignored = { 0 };

	return source_open_file(path, &src, &ignored) == 0 && elf_open(src, &img, &ignored) == 0 &&
	       elf_is_identified_by(src, img, id);
}

static int add_core_module(struct finder *f, const struct elf_core_module *m, struct err *err)
{
	const char *name = arena_strdup(&f->a, m->path);
	const char *path = find_path(f, name);
	struct build_id id = { 0 };
	struct err ignored = { 0 };
	bool there = find_read_id(path, false, &id, &ignored) == 0;

	if (m->dumped && !m->is_elf)
		return 0; /* data */
	if (m->path.p[0] != '/')
		return m->id.size ? add_optional(f, &m->id, err) : 0;
	if (m->id.size) {
		/*
		 * The file on disk counts only if it is the one that ran. In the dump of a Go program is only Go's build ID;
		 * most servers know the file by its GNU build ID, which is in a section.
		 */
		there = there && file_is_of(path, &m->id);
		return find_add(f, name, there ? path : NULL, there ? &id : &m->id, err) ? 0 : -1;
	}
	if (!there)
		return 0; /* most likely data; it cannot be told from code that is gone and whose head was not
			     dumped */
	fprintf(stderr, "lode: find: ");
	print_text(stderr, m->path);
	fprintf(stderr, ": its build ID is not in the dump; that of the file on disk is used\n");
	return find_add(f, name, path, &id, err) ? 0 : -1;
}

int find_core(struct finder *f, const char *path, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct elf_core_module *modules;
	struct source *file;
	size_t n;
	int r = source_open_file(path, &file, err);

	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "%s: there is no such file", path);
	src = file;
	r = elf_open(src, &img, err);
	if (r == ELF_NOT_ELF)
		r = elf_foreign_source_err(src, err);
	if (r == 0)
		r = elf_core_modules(img, &f->a, &modules, &n, err);
	if (r < 0)
		return err_in(err, "%s", path);
	if (r == ELF_CORE_NO_FILES)
		return err_set(err, ERR_INVALID, "%s: it has no list of mapped files (NT_FILE note)", path);
	for (size_t i = 0; i < n; i++)
		if (add_core_module(f, &modules[i], err) < 0)
			return -1;
	return 0;
}
