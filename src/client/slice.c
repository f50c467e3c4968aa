/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts sections out of debug files and executables in the cache folder, so that they need not be fetched.
 */
#include <elf.h>
#include <stdlib.h>
#include <unistd.h>
#include "client/internal.h"
#include "elf/elf.h"

#define PIECE KIB(256)

/* A whole file of this build ID from the folder, checked and opened. */
struct whole {
	struct cache_hit hit;
	struct source *src;
	struct elf_image *img;
};

static void whole_done(struct whole *w)
{
	elf_close(w->img);
	source_close(w->src);
	hit_done(&w->hit);
}

static bool whole_open(const struct folder *f, const struct client_request *section, enum client_kind kind,
		       struct whole *ret)
{
	struct client_request request = { .kind = kind, .id = section->id };
	struct cache_entry e;
	struct cache_hit hit = { .fd = -1 };
	bool found;

	entry_init(&e, &request);
	found = lookup(f, &e, &hit) == LOOKUP_HIT;
	entry_done(&e);
	if (found && check_whole(&request, hit.fd, hit.size, NULL) == 0) {
		ret->hit = hit;
		ret->src = source_of_fd(dup(hit.fd), hit.size, 0, hit.path);
		if (elf_open(ret->src, &ret->img, NULL) == 0)
			return true;
		ret->img = NULL;
		whole_done(ret);
	} else {
		hit_done(&hit);
	}
	*ret = (struct whole){ .hit.fd = -1 };
	return false;
}

enum place { PLACE_FOUND, PLACE_EMPTY, PLACE_NONE, PLACE_ODD };

static enum place section_find_place(const struct elf_image *img, const char *name, struct byte_range *ret)
{
	const struct elf_section *sec = elf_section_find(img, name);
	int r;

	if (!sec)
		return PLACE_NONE;
	r = elf_section_range(img, sec, &ret->off, &ret->size, NULL);
	return r == 0 ? PLACE_FOUND : r == ELF_NO_SECTION ? PLACE_EMPTY : PLACE_ODD;
}

static int section_copy(struct source *src, struct byte_range range, struct put *p, struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(PIECE);
	size_t n;

	for (uint64_t at = 0; at < range.size; at += n) {
		n = (size_t)MIN((uint64_t)PIECE, range.size - at);
		if (source_read_full(src, range.off + at, piece, n, SOURCE_SEQUENTIAL, err) < 0)
			return -1;
		if (put_write(p, piece, n, at, err) < 0)
			return -1;
	}
	return 0;
}

static int slice_cut(const struct slice_file *file, struct byte_range range, struct put_folders to,
		     const struct client_request *request, struct cache_hit *ret, struct err *err)
{
	AUTO(put_done) struct put p = { .fd = -1 };
	AUTO(entry_done) struct cache_entry e = { 0 };
	char *path;

	entry_init(&e, request);
	if (put_begin(&p, to, e.id, e.names[0], range.size, err) < 0 ||
	    section_copy(file->src, range, &p, err) < 0)
		return -1;
	if (put_commit(&p, &e, file->mtime, NULL, &path, err) < 0)
		return -1;
	*ret = (struct cache_hit){ TAKE_FD(p.fd), path, range.size, NULL };
	return 0;
}

static int64_t fd_mtime(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_mtime : 0;
}

enum slice slice_of(struct put_folders to, const struct client_request *w, const struct slice_file *file,
		    struct cache_hit *ret, struct err *err)
{
	struct byte_range range = { 0 };
	enum place place = section_find_place(file->img, w->name, &range);

	if (place == PLACE_NONE || place == PLACE_EMPTY)
		return SLICE_NONE;
	if (place == PLACE_ODD) {
		err_set(err, ERR_INVALID, "%s: section %s: its place is not in the file", file->src->name,
			w->name);
		return SLICE_UNKNOWN;
	}
	return slice_cut(file, range, to, w, ret, err) == 0 ? SLICE_FOUND : SLICE_UNKNOWN;
}

enum slice slice(struct put_folders to, const struct client_request *w, struct cache_hit *ret,
		 struct err *err)
{
	static const enum client_kind kinds[] = { CLIENT_DEBUGINFO, CLIENT_EXECUTABLE };
	bool certain = false;

	if (!to.folder->path)
		return SLICE_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct whole whole;
		struct byte_range range = { 0 };
		struct slice_file file;
		enum place place;
		int r = 1;

		if (!whole_open(to.folder, w, kinds[i], &whole))
			continue;
		place = section_find_place(whole.img, w->name, &range);
		file = (struct slice_file){ whole.src, whole.img, fd_mtime(whole.hit.fd) };
		if (place == PLACE_FOUND)
			r = slice_cut(&file, range, to, w, ret, err);
		whole_done(&whole);
		if (r == 0)
			return SLICE_FOUND;
		/*
		 * A debug file has every section of the executable at least by name: a name that it lacks
		 * exists in no file of this build ID. A section without contents in it may have them in the
		 * executable.
		 */
		if (kinds[i] == CLIENT_DEBUGINFO && place == PLACE_NONE)
			return SLICE_NONE;
		certain = kinds[i] == CLIENT_EXECUTABLE
				  ? certain && (place == PLACE_EMPTY || place == PLACE_NONE)
				  : place == PLACE_EMPTY;
		if (kinds[i] == CLIENT_EXECUTABLE && certain)
			return SLICE_NONE;
	}
	return SLICE_UNKNOWN;
}

int slice_check(const struct folder *f, const struct client_request *w, uint64_t size, struct err *err)
{
	struct whole whole;
	const struct elf_section *sec;
	uint64_t expected = size;

	/* With contents there it would have been cut out, so the size to compare is the one that it has in
	 * the executable. */
	if (!f->path || !whole_open(f, w, CLIENT_DEBUGINFO, &whole))
		return 0;
	sec = elf_section_find(whole.img, w->name);
	if (sec && sec->type == SHT_NOBITS && !(sec->flags & SHF_COMPRESSED))
		expected = sec->size;
	whole_done(&whole);
	if (expected != size)
		return err_set(err, ERR_INVALID, "has %llu bytes; by the debug file it must have %llu",
			       (unsigned long long)size, (unsigned long long)expected);
	return 0;
}
