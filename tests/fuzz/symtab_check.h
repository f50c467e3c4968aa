/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that hold for every table, whatever its input: it is the same with several threads, it opens, all
 * addresses of an answer's range have that answer, and verify finds no difference from the DWARF unless the table lists
 * skipped parts.
 */
#pragma once

#include "code_writer.h"
#include "fuzz.h"
#include "symtab/symtab.h"

static inline void on_difference(void *arg, uint64_t addr, const char *text)
{
}

static inline void check_answers(struct symtab *t)
{
	struct symtab_finder *f = symtab_finder_new(t);
	struct symtab_frames frames;
	struct err err = { 0 };
	uint64_t at = 0;
	int r;

	while ((r = symtab_next(f, at, &frames, &err)) == 0) {
		FUZZ_CHECK(frames.lo >= at && frames.hi > frames.lo && frames.n >= 1);
		at = frames.hi;
	}
	FUZZ_CHECK(r == SYMTAB_NONE);
	symtab_finder_free(f);
}

/* Build and check the table of an image. False: it has none, or is too damaged. */
static inline bool check_image(const struct elf_image *img, const struct symtab_options *o)
{
	AUTO(buf_done) struct buf one = { 0 }, three = { 0 };
	AUTO(symtab_closep) struct symtab *t = NULL;
	struct symtab_options many = *o;
	struct symtab_check check = { .fn = on_difference };
	struct symtab_stats st;
	struct err err = { 0 };
	int r = symtab_build(img, o, &one, &st, &err);

	FUZZ_CHECK(r >= 0 || err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	if (r)
		return false;
	many.n_threads = 3;
	many.chunk_size = 1;
	FUZZ_CHECK(symtab_build(img, &many, &three, &st, &err) == 0);
	FUZZ_CHECK(bytes_eq(buf_bytes(&one), buf_bytes(&three)));
	FUZZ_CHECK(symtab_open_mem(buf_bytes(&one), &t, &err) == 0);
	check_answers(t);
	/* If the DWARF as a whole cannot be read, the table has symbols only, and says so. */
	FUZZ_CHECK(symtab_verify(t, img, o, &check, &err) == 0 ||
		   (err.kind == ERR_INVALID && symtab_info(t)->n_skipped));
	/* No row and no call is lost silently. */
	FUZZ_CHECK(!check.n_different || symtab_info(t)->n_skipped);
	return true;
}

/* The same for the bytes of a file. */
static inline bool check_bytes(struct bytes file, const struct symtab_options *o)
{
	AUTO(source_closep) struct source *src = source_of_mem(file, "x");
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	FUZZ_CHECK(elf_open(src, &img, &err) == 0);
	return check_image(img, o);
}

/* Finish the file, then build and check its table. */
static inline void check_file(struct code_writer *w)
{
	AUTO(buf_done) struct buf file = { 0 };
	const struct symtab_options o = { .n_threads = 1 };

	code_writer_finish(w, &file);
	check_bytes(buf_bytes(&file), &o);
}

/* The first bytes choose target, version and size of offsets. */
static inline void writer_of(struct code_writer *w, struct cursor *c, uint16_t type)
{
	enum elf_writer_target target = cursor_u8(c) % ELF_WRITER_N_TARGETS;
	uint8_t how = cursor_u8(c);

	code_writer_init(w, target, type);
	w->version = 2 + how % 4;
	w->dwarf64 = how & 4;
}

static inline void rest_add(struct buf *b, struct cursor *c)
{
	struct bytes rest = cursor_bytes(c, cursor_left(c));

	if (rest.size)
		buf_add(b, rest.p, rest.size);
}
