/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of a mapped file: its own, if that is still the mapped file; else through map_files, which also has deleted files
 * and those of other mount namespaces, but only for root; else its own in the namespace of the process.
 */
#include "cmd/mapped.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *mapped_path(const char *pid, const struct maps_line *m)
{
	AUTO(mem_freep) char *own = mem_strndup(m->path.p, m->path.size);
	AUTO(mem_freep) char *inside = mem_printf("/proc/%s/root%s", pid, own);
	AUTO(mem_freep)
	char *mapped = mem_printf("/proc/%s/map_files/%llx-%llx", pid, (unsigned long long)m->start,
				  (unsigned long long)m->limit);
	struct stat here, there;
	bool is_here, is_there;

	/* The inode of a deleted file may belong to another one by now. */
	is_here = !m->deleted && stat(own, &here) == 0 && here.st_ino == m->inode;
	is_there = !m->deleted && stat(inside, &there) == 0 && there.st_ino == m->inode;
	/*
	 * Some file systems (overlay, btrfs) show another device in maps, so that is not compared. But two file systems may
	 * have the same inode at one path: then the one that the process sees is mapped.
	 */
	if (is_here && (!is_there || here.st_dev == there.st_dev))
		return TAKE(own);
	if (access(mapped, R_OK) == 0)
		return TAKE(mapped);
	return is_there ? TAKE(inside) : NULL;
}
