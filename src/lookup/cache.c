/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that were built before, in the user's cache folder: $XDG_CACHE_HOME/lode/symtab, else
 * ~/.cache/lode/symtab.
 *
 * The name of a table has the build ID and a hash over size, time and inode of the files that it was built
 * of: a changed file gives another name, and so do a debug file that is found later, discriminators and a later
 * SYMTAB_MAKER. A table that lacks its supplementary file or a split file is not kept. When the folder gets too large, the
 * least recently used tables are deleted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/vec.h"
#include "lookup/internal.h"

#define KEEP_FROM  KIB(256) /* a table of a smaller file is built faster than written */
#define FOLDER_MAX (UINT64_C(1) << 30)
#define SUFFIX     ".symtab"

/* Heap; NULL: no cache. */
static char *cache_folder(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"),
		   *off = getenv("LODE_SYMTAB_CACHE");

	if (off)
		return *off == '/' ? mem_strdup(off) : NULL;
	if (cache && *cache == '/')
		return mem_printf("%s/lode/symtab", cache);
	return home && *home == '/' ? mem_printf("%s/.cache/lode/symtab", home) : NULL;
}

static void hash_file_facts(struct hash64_state *h, struct source *src)
{
	uint64_t numbers[5] = { 0 }, off;
	struct stat st;
	int fd;

	if (src && source_raw_fd(src, &fd, &off) && fstat(fd, &st) == 0) {
		numbers[0] = (uint64_t)st.st_size;
		numbers[1] = (uint64_t)st.st_mtim.tv_sec;
		numbers[2] = (uint64_t)st.st_mtim.tv_nsec;
		numbers[3] = (uint64_t)st.st_ino;
		numbers[4] = (uint64_t)st.st_dev;
	}
	hash64_feed(h, bytes_of(numbers, sizeof(numbers)).p, sizeof(numbers));
}

static struct source *debug_source(const struct lookup_file *f)
{
	return f->debug && f->debug != f->img ? f->debug->src : f->src;
}

char *lookup_cache_name(const struct lookup_file *f)
{
	AUTO(mem_freep) char *dir = cache_folder();
	struct source *src = debug_source(f);
	char hex[BUILD_ID_HEX_SIZE];
	const uint64_t made_by = SYMTAB_VERSION | (uint64_t)SYMTAB_MAKER << 16;
	struct hash64_state h;
	struct build_id id;
	struct err ignored = { 0 };

	if (!dir || !src || src->size < KEEP_FROM || !f->debug || elf_build_id(f->debug, &id, &ignored) != 0)
		return NULL;
	hash64_init(&h, f->discriminators ? ~made_by : made_by);
	hash_file_facts(&h, src);
	hash_file_facts(&h, lookup_program(f) ? f->img->src : NULL);
	hash_file_facts(&h, f->alt ? f->alt->src : NULL);
	hash_file_facts(&h, f->dwp ? f->dwp->src : NULL);
	return mem_printf("%s/%s-%016llx" SUFFIX, dir, build_id_hex(&id, hex),
			  (unsigned long long)hash64_end(&h));
}

bool lookup_cache_open(struct lookup_file *f, const char *name)
{
	const struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
	struct err ignored = { 0 };
	struct build_id id;

	if (mapping_open(name, &f->mapping, &ignored) != 0)
		return false;
	if (symtab_open_mem(f->mapping.bytes, &f->table, &ignored) == 0) {
		/* The order in which tables are deleted. */
		utimensat(AT_FDCWD, name, now, 0);
		if (elf_build_id(f->debug, &id, &ignored) == 0 &&
		    build_id_eq(&id, &symtab_info(f->table)->build_id)) {
			f->cached_as = mem_strdup(name);
			return true;
		}
		symtab_close(TAKE(f->table));
	}
	mapping_done(&f->mapping);
	return false;
}

/* ---- making room ---- */

struct cached_table {
	char *name;
	uint64_t size;
	int64_t used_s;
};

static int by_last_use(const void *a, const void *b)
{
	const struct cached_table *x = a, *y = b;

	return x->used_s < y->used_s ? -1 : x->used_s > y->used_s;
}

static void cache_make_room(const char *dir)
{
	struct cached_table *list = NULL;
	size_t n = 0, room = 0;
	uint64_t sum = 0;
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d));) {
		AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, e->d_name);
		struct stat st;

		if (!str_ends(str_of(e->d_name), STR(SUFFIX)) || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		VEC_PUSH(list, n, room) = (struct cached_table){ TAKE(path), (uint64_t)st.st_size,
								 st.st_atim.tv_sec };
		sum += (uint64_t)st.st_size;
	}
	if (d)
		closedir(d);
	if (n)
		qsort(list, n, sizeof(*list), by_last_use);
	for (size_t i = 0; i < n; i++) {
		if (sum > FOLDER_MAX && unlink(list[i].name) == 0)
			sum -= list[i].size;
		free(list[i].name);
	}
	free(list);
}

/* ---- keeping ---- */

/* A table that cannot be kept is not a failure. */
static void cache_write(const char *name, struct bytes table)
{
	AUTO(mem_freep) char *dir = mem_strndup(name, (size_t)(strrchr(name, '/') - name));
	struct err err = { 0 };

	if (dir_make(dir, 0700, &err) < 0 || file_write_durable(name, table.p, table.size, 0600, &err) < 0) {
		log_debug("symbolize", "the table is not kept in the cache: %s", err.text);
		return;
	}
	cache_make_room(dir);
}

static bool lacks_nothing(const struct symtab *t)
{
	return !(symtab_info(t)->flags & (SYMTAB_ALT_MISSING | SYMTAB_SPLIT_MISSING));
}

void lookup_cache_keep(const struct lookup_file *f, const char *name)
{
	if (lacks_nothing(f->table))
		cache_write(name, buf_bytes(&f->made));
}
