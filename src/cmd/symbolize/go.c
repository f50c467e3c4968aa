/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash texts of Go programs, and profiles of goroutines as text.
 *
 * A Go program prints function, file and line of the frames of a goroutine itself. It prints bare addresses
 * for a signal ("[signal SIGSEGV: ... pc=0x48f2c1]"), for frames of C ("	C: 0x7f00...", unknown pc),
 * for the register rip, and for stacks ("1 @ 0x43b4a5 0x407bc5"). These are addresses in the program that -e
 * names.
 */
#include "cmd/symbolize/text.h"

#define STACK_MAX 1024u

static struct module *program_of(struct text_filter *t)
{
	struct module *m;

	if (!t->s->symbols.file)
		return NULL;
	m = modules_get(&t->modules, str_of(t->s->symbols.file), NULL);
	if (m && !m->path)
		m->path = mem_strdup(t->s->symbols.file);
	return m;
}

static bool find_in_program(struct text_filter *t, uint64_t addr, bool is_return, struct symtab_frames *ret)
{
	struct module *m = program_of(t);
	const struct module_address a = { FRAME_VADDR, addr, is_return };
	uint64_t ignored;

	return m && (module_find(&t->modules, m, &a, &ignored, ret) || text_missed(m));
}

/* The program counter: "pc=0x48f2c1", "rip    0x48f2c1", or a line that is one address. */
static bool line_address(struct str line, uint64_t *ret)
{
	struct str rest = text_skip_blanks(line);

	if (text_find(line, STR(" pc=0x"), &rest))
		return text_take_hex(&rest, false, ret);
	if (text_take(&rest, STR("rip ")) || text_take(&rest, STR("pc "))) {
		rest = text_skip_blanks(rest);
		return text_take_hex(&rest, true, ret) && !str_trim(rest).size;
	}
	return text_take_hex(&rest, true, ret) && !str_trim(rest).size;
}

/* "17 @ 0x43b4a5 0x407bc5 ...": the first is the program counter, the others are return addresses. */
static bool stack_line(struct text_filter *t, struct str line, struct buf *out)
{
	struct str rest = text_skip_blanks(line);
	struct symtab_frames frames;
	bool first = true;
	uint64_t addr, n;

	if (!str_to_u64(str_cut(&rest, ' '), &n) || !text_take(&rest, STR("@ 0x")))
		return false;
	rest = str_after(line, (size_t)(rest.p - line.p) - 2);
	buf_add_str(out, line);
	buf_add_char(out, '\n');
	for (unsigned i = 0; i < STACK_MAX; i++) {
		rest = text_skip_blanks(rest);
		if (!text_take_hex(&rest, true, &addr))
			break;
		if (find_in_program(t, addr, !first, &frames))
			text_add_frames(t, &frames, out);
		first = false;
	}
	return true;
}

bool text_go_line(struct text_filter *t, struct str line, struct buf *out)
{
	struct symtab_frames frames;
	uint64_t addr;

	if (!t->s->symbols.file)
		return false;
	if (stack_line(t, line, out))
		return true;
	if (!line_address(line, &addr) || !find_in_program(t, addr, false, &frames))
		return false;
	text_add_below(t, line, &frames, out);
	return true;
}
