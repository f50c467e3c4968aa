/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find --kernel: the running kernel and its modules, by their notes in /sys; or an installed kernel, by
 * its files.
 */
#include "cmd/find/find.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include "elf/elf.h"

#define MAX_NOTES KIB(64)

static bool is_big(void)
{
	return __BYTE_ORDER == __BIG_ENDIAN;
}

/* The build ID in a file of bare notes. 1: there is no such file, or none in it. */
static int read_sys_notes(const char *path, struct build_id *ret)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	if (file_read(path, MAX_NOTES, &b, &err) != 0)
		return 1;
	return elf_notes_build_id(buf_bytes(&b), is_big(), ret) == 0 ? 0 : 1;
}

/* ---- vmlinux ---- */

/* The vmlinux with this build ID, or any if it is unknown, where distributions put it. */
static const char *find_vmlinux(struct finder *f, const char *release, struct build_id *id)
{
	static const char *const places[] = {
		"/usr/lib/debug/boot/vmlinux-%s", "/usr/lib/debug/lib/modules/%s/vmlinux",
		"/usr/lib/modules/%s/vmlinux",    "/lib/modules/%s/vmlinux",
		"/lib/modules/%s/build/vmlinux",  "/boot/vmlinux-%s",
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct str form = str_of(places[i]), head = str_cut(&form, '%');
		const char *path = find_path(f, arena_printf(&f->a, STR_FMT "%s" STR_FMT, STR_ARG(head),
							     release, (int)form.size - 1, form.p + 1));
		struct build_id found;
		struct err err = { 0 };

		if (find_read_id(path, false, &found, &err) != 0)
			continue;
		if (id->size && !build_id_eq(&found, id))
			continue;
		*id = found;
		return path;
	}
	return NULL;
}

static int add_vmlinux(struct finder *f, const char *release, bool running, struct err *err)
{
	struct build_id id = { 0 };
	const char *path;

	if (running && read_sys_notes(find_path(f, "/sys/kernel/notes"), &id) != 0)
		fprintf(stderr, "lode: find: %s has no build ID; the kernel is searched by its release\n",
			find_path(f, "/sys/kernel/notes"));
	path = find_vmlinux(f, release, &id);
	return find_add(f, path ? path : arena_printf(&f->a, "vmlinux %s", release), path,
			id.size ? &id : NULL, err)
		       ? 0
		       : -1;
}

/* ---- modules that are loaded ---- */

static int add_loaded(struct finder *f, const char *name, struct err *err)
{
	const char *dir = find_path(f, arena_printf(&f->a, "/sys/module/%s/notes", name));
	DIR *d = opendir(dir);
	struct dirent *e;
	struct build_id id;
	int r = 0;

	/* A module that is built in has no notes of its own. */
	while (d && r == 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.' && (!e->d_name[1] || (e->d_name[1] == '.' && !e->d_name[2])))
			continue;
		if (read_sys_notes(arena_printf(&f->a, "%s/%s", dir, e->d_name), &id) != 0)
			continue;
		r = find_add(f, name, NULL, &id, err) ? 1 : -1;
	}
	if (d)
		closedir(d);
	return r < 0 ? -1 : 0;
}

static int dirent_name_cmp(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int add_all_loaded(struct finder *f, struct err *err)
{
	struct dirent **names;
	int n = scandir(find_path(f, "/sys/module"), &names, no_dots, dirent_name_cmp), r = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", find_path(f, "/sys/module"));
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add_loaded(f, names[i]->d_name, err);
		free(names[i]);
	}
	free(names);
	return r;
}

/* ---- modules that are installed ---- */

static bool is_module(struct str name)
{
	static const struct str ends[] = { STR(".ko"), STR(".ko.xz"), STR(".ko.zst"), STR(".ko.gz") };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (str_ends(name, ends[i]))
			return true;
	return false;
}

static int add_installed(struct finder *f, const char *path, struct err *err)
{
	struct find_item *item;
	struct build_id id;
	struct err why = { 0 };
	int r = find_read_id(path, true, &id, &why);

	if (r)
		return r < 0 ? find_add_damaged(f, path, &why, err) : 0;
	item = find_add(f, path, path, &id, err);
	if (!item)
		return -1;
	item->packed = true;
	return 0;
}

/* A stack of folders to walk. */
struct kernel_folders {
	const char **paths; /* heap */
	size_t n, room;
};

static int walk_kernel_folder(struct finder *f, const char *dir, struct kernel_folders *todo, struct err *err)
{
	struct dirent **names;
	int n = scandir(dir, &names, no_dots, dirent_name_cmp), r = 0;

	for (int i = 0; i < n; i++) {
		const char *path = arena_printf(&f->a, "%s/%s", dir, names[i]->d_name);
		struct stat st;

		/* "build" and "source" are links out of the tree. */
		if (r == 0 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && todo->n < FIND_MAX_ITEMS)
			VEC_PUSH(todo->paths, todo->n, todo->room) = path;
		else if (r == 0 && is_module(str_of(names[i]->d_name)))
			r = add_installed(f, path, err);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return r;
}

static int add_all_installed(struct finder *f, const char *release, struct err *err)
{
	const char *top = find_path(f, arena_printf(&f->a, "/lib/modules/%s", release));
	struct kernel_folders todo = { 0 };
	struct stat st;
	int r = 0;

	if (stat(top, &st) < 0)
		return err_os(err, errno, "%s", top);
	VEC_PUSH(todo.paths, todo.n, todo.room) = top;
	while (r == 0 && todo.n)
		r = walk_kernel_folder(f, todo.paths[--todo.n], &todo, err);
	free(todo.paths);
	return r;
}

int find_kernel(struct finder *f, const char *release, struct err *err)
{
	struct utsname u;

	if (uname(&u) < 0)
		return err_os(err, errno, "uname");
	if (release && (strchr(release, '/') || strchr(release, '%') || !*release))
		return err_set(err, ERR_INVALID, "'%s' is not a kernel release; uname -r prints one",
			       release);
	if (!release || strcmp(release, u.release) == 0)
		return add_vmlinux(f, u.release, true, err) < 0 ? -1 : add_all_loaded(f, err);
	return add_vmlinux(f, release, false, err) < 0 ? -1 : add_all_installed(f, release, err);
}
