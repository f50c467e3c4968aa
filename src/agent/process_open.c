/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of another process, opened as they are mapped: in its own mount namespace, and only if they are the mapped ones.
 */
#include "agent/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/maps.h"
#include "base/root.h"

/* *ret_no_root: why the root of the process cannot be opened, as errno; 0: it can. */
static int open_below_process(const char *proc, uint32_t pid, const char *path, int *ret_no_root)
{
	AUTO(fd_close) int root = -1;
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/%u/root", proc, pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret_no_root = root < 0 ? errno : 0;
	return root < 0 ? -1 : root_open(root, path, O_RDONLY);
}

/*
 * The same file. Some file systems (overlay, btrfs) show another device in maps than in stat; a changed file would have
 * another inode.
 */
static bool is_mapped_file(int fd, const struct maps_line *line)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == line->inode;
}

/* Without opening a device. */
static int open_file(const char *path)
{
	AUTO(fd_close) int at = open(path, O_PATH | O_CLOEXEC);

	return at < 0 ? -1 : root_reopen(at, O_RDONLY);
}

/*
 * A path below a root that is there is looked up nowhere else: a container could map a file of its own, remove it, and get that
 * of the machine with the same path and inode. @is_there: the process was there a moment ago, and may not have ended.
 */
static int open_path(const char *proc, uint32_t pid, const struct maps_line *line, bool is_there)
{
	AUTO(buf_done) struct buf path = { 0 };
	int fd, no_root;

	if (!line->path.size || *line->path.p != '/')
		return -1;
	maps_path(line->path, &path);
	fd = open_below_process(proc, pid, buf_cstr(&path), &no_root);
	if (is_there && no_root != EACCES && no_root != EPERM)
		no_root = 0;
	/* One that has ended: its files are mostly the machine's, which a container has below the first process, or ours. */
	if (no_root)
		fd = open_below_process(proc, 1, buf_cstr(&path), &no_root);
	if (no_root)
		fd = open_file(buf_cstr(&path));
	if (fd >= 0 && !is_mapped_file(fd, line))
		fd_close(&fd);
	return fd;
}

/* Also of a file that is deleted or replaced; needs CAP_CHECKPOINT_RESTORE. A device may be mapped, too. */
static int open_mapping(const char *proc, uint32_t pid, const struct maps_line *line)
{
	char mapped[PATH_MAX];

	snprintf(mapped, sizeof(mapped), "%s/%u/map_files/%llx-%llx", proc, pid,
		 (unsigned long long)line->start, (unsigned long long)line->limit);
	return open_file(mapped);
}

int process_open_mapped(const char *proc, uint32_t pid, const struct maps_line *line)
{
	int fd = open_mapping(proc, pid, line);

	return fd >= 0 ? fd : open_path(proc, pid, line, false);
}

int process_open_path(const char *proc, uint32_t pid, const struct maps_line *line)
{
	return open_path(proc, pid, line, false);
}

struct find_line {
	const char *proc;
	uint32_t pid;
	uint64_t start;
	int fd;
};

static int open_found_line(void *arg, const struct maps_line *line)
{
	struct find_line *l = arg;

	if (line->start != l->start)
		return 0;
	l->fd = open_mapping(l->proc, l->pid, line);
	if (l->fd < 0)
		l->fd = open_path(l->proc, l->pid, line, true);
	return 1;
}

int process_open_at(const char *proc, uint32_t pid, uint64_t start)
{
	struct find_line l = { proc, pid, start, -1 };
	AUTO(fd_close) int maps = -1;
	struct err ignored = { 0 };
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%u/maps", proc, pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	if (maps >= 0)
		maps_read(maps, open_found_line, &l, &ignored);
	return l.fd;
}
