/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core dumps. Note NT_FILE lists the mapped files; the first page of each is in the dump (the kernel's
 * coredump_filter, bit 4, is on by default) and holds headers and notes. So the build IDs are those of the
 * code that ran, even if the files on disk have changed.
 */
#include "elf/core.h"

#include <elf.h>
#include "base/search.h"
#include "base/sort.h"
#include "elf/internal.h"

#define AT_SYSINFO_EHDR_TYPE 33
/* The list of files alone has up to 4 MiB, or what the setting core_file_note_size_limit allows: 16 at most. */
#define CORE_MAX_NOTES MIB(16)

struct core {
	const struct elf_image *img;
	struct arena *a;
	struct elf_core_module *modules;
	size_t n, room;
	uint64_t vdso; /* its address; 0: none */
	bool has_files;
	struct sort_key *loads; /* segments with memory, by address: there may be as many as files */
	size_t n_loads;
	struct err *err;
};

static struct elf_core_module *core_add_module(struct core *c)
{
	if (c->n == c->room) {
		size_t room = MAX(2 * c->room, (size_t)32);
		struct elf_core_module *more = ARENA_NEW_N(c->a, struct elf_core_module, room);

		if (c->n)
			memcpy(more, c->modules, c->n * sizeof(*more));
		c->modules = more;
		c->room = room;
	}
	return &c->modules[c->n++];
}

/* NT_FILE: number, page size, {start, end, offset in pages} each, then their names. */
static int core_read_files(struct core *c, struct bytes desc)
{
	const struct elf_header *h = &c->img->h;
	unsigned word = h->is64 ? 8 : 4;
	struct cursor rows = cursor_at(desc, h->big, 0), names;
	uint64_t n = cursor_uint(&rows, word), size;

	cursor_uint(&rows, word); /* page size */
	if (n > ELF_CORE_MAX_FILES)
		return err_set(c->err, ERR_LIMIT, "%llu mapped files are more than the %u allowed",
			       (unsigned long long)n, ELF_CORE_MAX_FILES);
	size = n * 3 * word;
	names = rows;
	cursor_skip(&names, size);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t start = cursor_uint(&rows, word), off;
		struct str name = cursor_cstr(&names);

		cursor_uint(&rows, word);
		off = cursor_uint(&rows, word);
		if (!cursor_ok(&rows) || !cursor_ok(&names))
			return cursor_err(&names, "list of mapped files", c->err);
		if (off == 0 && name.size)
			*core_add_module(c) = (struct elf_core_module){ .path = arena_str(c->a, name),
									.start = start };
	}
	c->has_files = true;
	return 0;
}

/* NT_AUXV: the address of the vdso. */
static void core_read_auxv(struct core *c, struct bytes desc)
{
	const struct elf_header *h = &c->img->h;
	unsigned word = h->is64 ? 8 : 4;
	struct cursor pairs = cursor_at(desc, h->big, 0);

	while (cursor_left(&pairs) >= 2 * word) {
		uint64_t type = cursor_uint(&pairs, word), value = cursor_uint(&pairs, word);

		if (type == AT_SYSINFO_EHDR_TYPE)
			c->vdso = value;
	}
}

static int core_take_note(void *arg, const struct elf_note *note)
{
	struct core *c = arg;

	if (!str_eq(note->owner, STR("CORE")))
		return 0;
	if (note->type == NT_AUXV)
		core_read_auxv(c, note->desc);
	/* Kernels write a single list: a second one is ignored. */
	if (note->type == NT_FILE && !c->has_files)
		return core_read_files(c, note->desc);
	return 0;
}

static void core_sort_loads(struct core *c)
{
	const struct elf_image *img = c->img;

	c->loads = ARENA_NEW_N(c->a, struct sort_key, (size_t)img->n_segments + 1);
	for (uint32_t i = 0; i < img->n_segments; i++)
		if (img->segments[i].type == PT_LOAD && img->segments[i].filesz)
			c->loads[c->n_loads++] = (struct sort_key){ img->segments[i].vaddr, i };
	if (c->n_loads)
		sort_keys(c->loads, c->n_loads);
}

/* The dumped bytes from @addr on, as far as they are in one segment and in the file. */
static bool dumped_at(const struct core *c, uint64_t addr, uint64_t *ret_off, uint64_t *ret_size)
{
	size_t n = SEARCH(0, c->n_loads, i, c->loads[i].key <= addr);
	const struct elf_segment *s = n ? &c->img->segments[c->loads[n - 1].at] : NULL;
	uint64_t size = c->img->src->size, at = s ? addr - s->vaddr : 0;

	if (!s || at >= s->filesz || s->off >= size || at >= size - s->off)
		return false;
	*ret_off = s->off + at;
	*ret_size = MIN(s->filesz - at, size - *ret_off);
	return true;
}

/* Only a failing read is a failure: bytes that are no ELF file have no build ID. */
static int core_read_module(const struct core *c, struct elf_core_module *m, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err ignored = { 0 };
	uint64_t off, size;
	struct bytes head;

	m->dumped = dumped_at(c, m->start, &off, &size);
	if (!m->dumped)
		return 0;
	if (source_read_arena(c->img->src, range_of(off, MIN(size, (uint64_t)ELF_CORE_MODULE_HEAD)), SIZE_MAX,
			      &a, &head, err) < 0)
		return -1;
	m->is_elf = head.size >= SELFMAG && memcmp(head.p, ELFMAG, SELFMAG) == 0;
	src = source_of_mem(head, "module");
	if (elf_open(src, &img, &ignored) == 0)
		(void)elf_build_id(img, &m->id, &ignored);
	return 0;
}

/* The same file may be mapped from its start twice. */
static void core_drop_doubles(struct core *c)
{
	AUTO(map_done) struct map seen = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct str p = c->modules[i].path;

		if (map_put(&seen, bytes_of(p.p, p.size), &seen))
			continue;
		c->modules[n++] = c->modules[i];
	}
	c->n = n;
}

int elf_core_modules(const struct elf_image *img, struct arena *a, const struct elf_core_module **ret,
		     size_t *ret_n, struct err *err)
{
	struct core c = { .img = img, .a = a, .err = err };

	if (img->h.type != ET_CORE)
		return err_set(err, ERR_INVALID, "not a core dump");
	if (elf_notes_each_within(img, CORE_MAX_NOTES, core_take_note, &c, err) < 0)
		return -1;
	if (!c.has_files)
		return ELF_CORE_NO_FILES;
	core_drop_doubles(&c);
	core_sort_loads(&c);
	if (c.vdso)
		*core_add_module(&c) = (struct elf_core_module){ .path = STR("[vdso]"), .start = c.vdso };
	for (size_t i = 0; i < c.n; i++)
		if (core_read_module(&c, &c.modules[i], err) < 0)
			return -1;
	*ret = c.modules;
	*ret_n = c.n;
	return 0;
}
