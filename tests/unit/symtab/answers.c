/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "answers.h"

void answers_init(struct answers *a, enum elf_writer_target target, uint16_t type)
{
	*a = (struct answers){ 0 };
	code_writer_init(&a->w, target, type);
}

void answers_done(struct answers *a)
{
	symtab_finder_free(a->f);
	symtab_close(a->t);
	elf_close(a->img);
	source_close(a->src);
	buf_done(&a->file);
	buf_done(&a->table);
	buf_done(&a->text);
	code_writer_done(&a->w);
}

static void on_difference(void *arg, uint64_t addr, const char *text)
{
	fail_msg("0x%llx: %s", (unsigned long long)addr, text);
}

void answers_open(struct answers *a)
{
	AUTO(buf_done) struct buf again = { 0 };
	struct symtab_options o = { .n_threads = 1,
				    .program = a->program,
				    .split = a->split,
				    .discriminators = a->discriminators },
			      three = o;
	struct symtab_check check = { .fn = on_difference };
	struct symtab_stats stats;
	struct err err = { 0 };

	three.temp_dir = a->temp_dir;
	three.n_threads = 3;
	three.chunk_size = 1;
	code_writer_finish(&a->w, &a->file);
	a->src = source_of_mem(buf_bytes(&a->file), "x");
	assert_done(elf_open(a->src, &a->img, &err));
	assert_done(symtab_build(a->img, &o, &a->table, &a->stats, &err));
	assert_done(symtab_build(a->img, &three, &again, &stats, &err));
	assert_true(bytes_eq(buf_bytes(&a->table), buf_bytes(&again)));
	assert_done(symtab_open_mem(buf_bytes(&a->table), &a->t, &err));
	if (a->lossy)
		check.fn = NULL;
	assert_done(symtab_verify(a->t, a->img, &o, &check, &err));
	assert_int_equal(check.n_different != 0, a->lossy);
	a->f = symtab_finder_new(a->t);
}

static void add_frame(struct buf *out, size_t i, const struct symtab_frame *f)
{
	struct str name = f->linkage.size ? f->linkage : f->name;

	buf_printf(out, "%s" STR_FMT, i ? " in " : "", STR_ARG(name));
	if (!f->file.size)
		return;
	buf_add_str(out, STR(" at "));
	symtab_path(f->dir, f->file, out);
	buf_printf(out, ":%u", f->line);
	if (f->discriminator)
		buf_printf(out, " (discriminator %u)", f->discriminator);
}

const char *answer(struct answers *a, uint64_t addr)
{
	struct symtab_frames frames;
	struct err err = { 0 };
	int r = symtab_find(a->f, addr, &frames, &err);

	a->text.size = 0;
	if (r < 0)
		fail_msg("0x%llx: %s", (unsigned long long)addr, err.text);
	if (r == SYMTAB_NONE)
		return "-";
	assert_true(frames.lo <= addr && addr < frames.hi && frames.start <= frames.lo &&
		    frames.hi <= frames.end);
	for (size_t i = 0; i < frames.n; i++) {
		assert_int_equal(frames.list[i].inlined, i + 1 < frames.n);
		add_frame(&a->text, i, &frames.list[i]);
	}
	return buf_cstr(&a->text);
}

void assert_answer(struct answers *a, uint64_t addr, const char *want)
{
	const char *got = answer(a, addr);

	if (strcmp(got, want) != 0)
		fail_msg("0x%llx is \"%s\", not \"%s\"", (unsigned long long)addr, got, want);
}

void assert_hidden(struct answers *a, uint64_t n_ranges, uint64_t size, uint64_t lines_size)
{
	const struct symtab_hidden *h = &symtab_info(a->t)->hidden;

	assert_int_equal(h->n_ranges, n_ranges);
	assert_int_equal(h->size, size);
	assert_int_equal(h->lines_size, lines_size);
	assert_memory_equal(&a->stats.hidden, h, sizeof(*h));
}

uint64_t add_lines(struct answers *a)
{
	static const char *const v4[] = { "a.c", "b.h", NULL };
	static const char *const v5[] = { "a.c", "a.c", "b.h", NULL };
	uint64_t at = code_lines_begin(&a->w, a->w.version >= 5 ? v5 : v4);

	for (unsigned i = 0; i < 16; i++)
		code_row(&a->w, 0x1000 + 16 * i, 1, 10 + i);
	code_sequence_end(&a->w, 0x1100);
	code_lines_end(&a->w);
	return at;
}

static uint64_t add_subprogram(struct answers *a, bool children, const char *name, uint64_t lo, uint64_t size)
{
	return code_die(&a->w, T_SUBPROGRAM, children, A_NAME, F_STRING, S(name), A_LOW, F_ADDR, lo, A_HIGH,
			F_DATA4, size, 0u);
}

uint64_t add_function(struct answers *a, const char *name, uint64_t lo, uint64_t size)
{
	return add_subprogram(a, false, name, lo, size);
}

uint64_t begin_function(struct answers *a, const char *name, uint64_t lo, uint64_t size)
{
	return add_subprogram(a, true, name, lo, size);
}

uint64_t add_abstract(struct answers *a, const char *name)
{
	return code_die(&a->w, T_SUBPROGRAM, false, A_NAME, F_STRING, S(name), A_INLINE, F_DATA1, U(1), 0u);
}

uint64_t add_inlined(struct answers *a, uint64_t origin, uint64_t lo, uint64_t size)
{
	return code_die(&a->w, T_INLINED, false, A_ORIGIN, F_REF4, origin, A_LOW, F_ADDR, lo, A_HIGH, F_DATA4,
			size, 0u);
}

uint64_t begin_inlined(struct answers *a, uint64_t origin, uint64_t lo, uint64_t size)
{
	return code_die(&a->w, T_INLINED, true, A_ORIGIN, F_REF4, origin, A_LOW, F_ADDR, lo, A_HIGH, F_DATA4,
			size, 0u);
}

void add_unit(struct answers *a, uint64_t lines, const char *name, uint64_t lo, uint64_t size)
{
	code_unit_c(&a->w, lines);
	add_function(a, name, lo, size);
	code_up(&a->w);
	code_unit_end(&a->w);
}

void add_plain(struct answers *a)
{
	code_unit_c(&a->w, add_lines(a));
	code_die(&a->w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, U(0x1000), A_HIGH,
		 F_DATA4, U(0x100), A_DECL_LINE, F_DATA1, U(9), 0u);
	code_up(&a->w);
	code_unit_end(&a->w);
}
