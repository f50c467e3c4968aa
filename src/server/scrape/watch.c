/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of targets, read again when they change: by their size, time and inode, which are looked at every second.
 * Unlike inotify this sees files on network file systems, links that are switched (a ConfigMap), and atomic
 * replacements.
 */
#include "server/scrape/internal.h"

#include <errno.h>

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int scrape_file_parse(const char *path, struct scrape_list **ret, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct str dir = path_dirname(str_of(path));
	int r = file_read(path, SCRAPE_MAX_FILE, &text, err);

	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "no such file");
	if (r < 0)
		return -1;
	return scrape_list_parse(buf_bytes(&text), dir.size ? dir : STR("."), ret, err);
}

/* A right that was missing, an error of the storage, no free descriptor: the same file may be readable the next time. */
static bool may_pass(const struct err *err)
{
	return err->kind == ERR_IO || err->os;
}

bool scrape_file_changed(struct scrape_file *f, struct scrape_list **ret_list, struct err *err)
{
	struct stat st;
	bool missing = stat(f->path, &st) < 0;

	*ret_list = NULL;
	if (f->known && !f->unread && missing == f->missing && (missing || same_file(&st, &f->st)))
		return false;
	f->known = true;
	f->missing = missing;
	if (!missing)
		f->st = st;
	f->unread = scrape_file_parse(f->path, ret_list, err) < 0 && !missing && may_pass(err);
	return true;
}
