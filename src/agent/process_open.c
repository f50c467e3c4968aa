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

static int open_below_process(const char *proc, uint32_t pid, const char *path)
{
	AUTO(fd_close) int root = -1;
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/%u/root", proc, pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
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

int process_open_mapped(const char *proc, uint32_t pid, const struct maps_line *line)
{
	char mapped[PATH_MAX];
	int fd;

	/* Also of a file that is deleted or replaced; needs CAP_CHECKPOINT_RESTORE. A device may be mapped, too. */
	snprintf(mapped, sizeof(mapped), "%s/%u/map_files/%llx-%llx", proc, pid,
		 (unsigned long long)line->start, (unsigned long long)line->limit);
	fd = open_file(mapped);
	return fd >= 0 ? fd : process_open_path(proc, pid, line);
}

int process_open_path(const char *proc, uint32_t pid, const struct maps_line *line)
{
	AUTO(buf_done) struct buf path = { 0 };
	int fd;

	if (!line->path.size || *line->path.p != '/')
		return -1;
	maps_path(line->path, &path);
	fd = open_below_process(proc, pid, buf_cstr(&path));
	/* One that has ended: its files are mostly the machine's, which a container has below the first process, or ours. */
	if (fd < 0 && errno != ELOOP)
		fd = open_below_process(proc, 1, buf_cstr(&path));
	if (fd < 0 && errno != ELOOP)
		fd = open_file(buf_cstr(&path));
	if (fd >= 0 && !is_mapped_file(fd, line))
		fd_close(&fd);
	return fd;
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
	l->fd = process_open_mapped(l->proc, l->pid, line);
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
