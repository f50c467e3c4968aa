/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the stack of each thread of a core dump, as unwind_step_cached() walks it: the way of BPF.
 *
 *	unwind_core CORE
 *
 * A line for each thread: "TID" and the addresses of the frames, then the outcome in brackets. Memory is that of the dump;
 * code that was not dumped is read from the files that were mapped. A dump is a stop in which nothing moves, so that other
 * unwinders see the same.
 */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>
#include "base/base.h"
#include "elf/elf.h"
#include "io/io.h"
#include "unwind/unwind.h"

struct core_file {
	struct str path;
	struct source *src;
	struct elf_image *img;
	struct buf out;
	struct unwind_table table;
	uint32_t number;
	bool has_table;
};
struct core_range {
	uint64_t start, limit, off;
	struct core_file *file;
};
struct core_thread {
	uint32_t tid;
	struct user_regs_struct regs;
};
struct core_dump {
	struct source *src;
	struct elf_image *img;
	struct arena arena;
	struct core_file *files[1024];
	size_t n_files;
	struct core_range *ranges;
	size_t n_ranges, room_ranges;
	struct core_thread *threads;
	size_t n_threads, room_threads;
	uint64_t vdso;
	struct unwind_set sets[UNWIND_SETS];
};

/* ---- memory ---- */

static bool read_dumped(const struct core_dump *c, uint64_t address, void *to, size_t size)
{
	for (uint32_t i = 0; i < c->img->n_segments; i++) {
		const struct elf_segment *s = &c->img->segments[i];

		if (s->type == PT_LOAD && address >= s->vaddr && address - s->vaddr <= s->filesz &&
		    size <= s->filesz - (address - s->vaddr))
			return source_read_full(c->src, s->off + (address - s->vaddr), to, size,
						SOURCE_RANDOM, NULL) == 0;
	}
	return false;
}

static int read_core(void *arg, uint64_t address, void *to, size_t size)
{
	const struct core_dump *c = arg;

	if (read_dumped(c, address, to, size))
		return 0;
	for (size_t i = 0; i < c->n_ranges; i++) {
		const struct core_range *r = &c->ranges[i];

		if (address >= r->start && address < r->limit && r->file->src)
			return source_read_full(r->file->src, r->off + (address - r->start), to, size,
						SOURCE_RANDOM, NULL);
	}
	return -1;
}

/* ---- files ---- */

static void build_core_table(struct core_file *f)
{
	struct unwind_stats stats;
	struct err err = { 0 };

	if (elf_open(f->src, &f->img, &err) == 0)
		f->has_table = unwind_build(f->img, NULL, &f->out, &stats, &err) == 0 &&
			       unwind_table_open(buf_bytes(&f->out), &f->table, &err) == 0;
}

static struct core_file *core_file_get(struct core_dump *c, struct str path)
{
	struct core_file *f;
	struct err err = { 0 };

	for (size_t i = 0; i < c->n_files; i++)
		if (str_eq(c->files[i]->path, path))
			return c->files[i];
	if (c->n_files == ARRAY_SIZE(c->files))
		return NULL;
	f = c->files[c->n_files++] = ARENA_NEW(&c->arena, struct core_file);
	f->number = (uint32_t)c->n_files;
	f->path = arena_str(&c->arena, path);
	if (source_open_file(arena_strdup(&c->arena, path), &f->src, &err) == 0)
		build_core_table(f);
	return f;
}

/* The vDSO is in the dump. */
static void add_core_vdso(struct core_dump *c)
{
	struct core_file *f = ARENA_NEW(&c->arena, struct core_file);
	size_t size = 0;

	for (uint32_t i = 0; i < c->img->n_segments; i++)
		if (c->img->segments[i].type == PT_LOAD && c->img->segments[i].vaddr == c->vdso)
			size = c->img->segments[i].filesz;
	if (size) {
		void *copy = mem_zalloc(size);

		read_dumped(c, c->vdso, copy, size);
		f->src = source_of_heap(copy, size, "[vdso]");
		build_core_table(f);
		c->files[c->n_files++] = f;
		f->number = (uint32_t)c->n_files;
		VEC_PUSH(c->ranges, c->n_ranges,
			 c->room_ranges) = (struct core_range){ c->vdso, c->vdso + size, 0, f };
	}
}

/* ---- notes ---- */

static void read_file_list(struct core_dump *c, struct bytes desc)
{
	struct cursor rows = cursor_of(desc), names;
	uint64_t n = cursor_u64(&rows), page = cursor_u64(&rows);

	if (n > desc.size / 24)
		return;
	names = rows;
	cursor_skip(&names, n * 24);
	for (uint64_t i = 0; i < n && cursor_ok(&names); i++) {
		struct core_range r;

		r.start = cursor_u64(&rows);
		r.limit = cursor_u64(&rows);
		r.off = cursor_u64(&rows) * page;

		r.file = core_file_get(c, cursor_cstr(&names));
		if (r.file)
			VEC_PUSH(c->ranges, c->n_ranges, c->room_ranges) = r;
	}
}

static int take_core_note(void *arg, const struct elf_note *note)
{
	struct core_dump *c = arg;
	struct elf_prstatus status;
	struct cursor pairs = cursor_of(note->desc);

	if (!str_eq(note->owner, STR("CORE")))
		return 0;
	if (note->type == NT_PRSTATUS && note->desc.size >= sizeof(status)) {
		struct core_thread *t = &VEC_PUSH(c->threads, c->n_threads, c->room_threads);

		memcpy(&status, note->desc.p, sizeof(status));
		t->tid = (uint32_t)status.pr_pid;
		memcpy(&t->regs, &status.pr_reg, sizeof(t->regs));
	}
	while (note->type == NT_AUXV && cursor_left(&pairs) >= 16) {
		uint64_t type = cursor_u64(&pairs), value = cursor_u64(&pairs);

		if (type == AT_SYSINFO_EHDR)
			c->vdso = value;
	}
	if (note->type == NT_FILE)
		read_file_list(c, note->desc);
	return 0;
}

/* ---- walks ---- */

/* The file that has a table for @pc, and the address in it. NULL: there is none. */
static const struct core_file *core_file_at(const struct core_dump *c, uint64_t pc, uint64_t *ret_addr,
					    bool *ret_mapped)
{
	*ret_mapped = false;
	for (size_t i = 0; i < c->n_ranges; i++) {
		const struct core_range *r = &c->ranges[i];
		uint64_t off = r->off + (pc - r->start);

		if (pc < r->start || pc >= r->limit)
			continue;
		*ret_mapped = true;
		for (uint32_t k = 0; r->file->has_table && k < r->file->img->n_segments; k++) {
			const struct elf_segment *s = &r->file->img->segments[k];

			if (s->type == PT_LOAD && off >= s->off && off - s->off < s->filesz) {
				*ret_addr = s->vaddr + (off - s->off);
				return r->file;
			}
		}
		return NULL;
	}
	for (uint32_t i = 0; i < c->img->n_segments; i++) {
		const struct elf_segment *s = &c->img->segments[i];

		*ret_mapped |= s->type == PT_LOAD && s->flags & PF_X && pc >= s->vaddr &&
			       pc - s->vaddr < s->memsz;
	}
	return NULL;
}

static void print_core_thread(struct core_dump *c, const struct core_thread *t)
{
	const struct user_regs_struct *r = &t->regs;
	const struct unwind_memory memory = { .read = read_core,
					      .arg = c,
					      .registers = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
							     r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11,
							     r->r12, r->r13, r->r14, r->r15 } };
	struct unwind_frame f = {
		.pc = r->rip, .sp = r->rsp, .bp = r->rbp, .flags = UNWIND_EXACT | UNWIND_TOP
	};
	enum unwind_outcome how = UNWIND_CALLER;

	printf("%u", t->tid);
	for (unsigned n = 0; how < UNWIND_END && n < 4096; n++) {
		const struct core_file *file;
		uint64_t addr = 0;
		bool mapped;

		printf(" %" PRIx64, f.pc);
		file = core_file_at(c, unwind_pc(&f), &addr, &mapped);
		if (file)
			how = unwind_step_cached(&file->table, c->sets, file->number, &memory, addr, &f);
		else
			how = mapped ? unwind_chain(&memory, &f) : UNWIND_NO_MAPPING;
	}
	printf(" (%s)\n", unwind_outcome_name(how < UNWIND_END ? UNWIND_TOO_DEEP : how));
}

int main(int argc, char **argv)
{
	struct core_dump *c = NEW(struct core_dump);
	struct err err = { 0 };

	if (argc != 2) {
		fputs("usage: unwind_core CORE\n", stderr);
		return 2;
	}
	arena_init(&c->arena);
	if (source_open_file(argv[1], &c->src, &err) < 0 || elf_open(c->src, &c->img, &err) != 0 ||
	    elf_notes_each(c->img, take_core_note, c, &err) < 0) {
		fprintf(stderr, "unwind_core: %s: %s\n", argv[1], err.text);
		return 2;
	}
	if (c->vdso)
		add_core_vdso(c);
	for (size_t i = 0; i < c->n_threads; i++)
		print_core_thread(c, &c->threads[i]);
	for (size_t i = 0; i < c->n_files; i++) {
		elf_close(c->files[i]->img);
		source_close(c->files[i]->src);
		buf_done(&c->files[i]->out);
	}
	elf_close(c->img);
	source_close(c->src);
	arena_done(&c->arena);
	free(c->ranges);
	free(c->threads);
	free(c);
	return 0;
}
