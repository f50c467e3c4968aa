/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash text and stacks of other programs, copied with their frames filled in.
 *
 *   sanitizers        "    #1 0x4f3c8b  (/usr/bin/x+0x4f3c8b) (BuildId: 00ff...)"
 *   glibc             "/usr/lib/x.so(+0x123) [0x7f0012345678]", "./x(f+0x12) [0x...]"
 *   perf script       "	    7f0012345678 f+0x12 (/usr/lib/x.so)", also "(/usr/lib/x.so+0x123)"; with
 *                     --show-mmap-events addresses without a name, too
 *
 * and call traces of Linux (linux.c) and Go (go.c).
 *
 * Lines are independent but for two things: perf's mappings are remembered, and in a stack of perf's the
 * first line is the program counter, the others are return addresses. Sanitizers print addresses of calls;
 * glibc prints return addresses.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/symbolize/text.h"

/* ---- reading a line ---- */

struct str text_skip_blanks(struct str s)
{
	while (s.size && (*s.p == ' ' || *s.p == '\t'))
		s = (struct str){ s.p + 1, s.size - 1 };
	return s;
}

bool text_take_hex(struct str *s, bool prefix, uint64_t *ret)
{
	struct str t = *s;
	uint64_t v = 0;
	size_t n = 0;

	if (str_starts(t, STR("0x")))
		t = str_after(t, 2);
	else if (prefix)
		return false;
	for (; n < t.size && n < 16 && is_hex(t.p[n]); n++)
		v = v << 4 | (uint64_t)(t.p[n] <= '9' ? t.p[n] - '0' : (t.p[n] | 32) - 'a' + 10);
	if (!n || (n < t.size && is_hex(t.p[n])))
		return false;
	*s = str_after(t, n);
	*ret = v;
	return true;
}

bool text_take(struct str *s, struct str what)
{
	if (!str_starts(*s, what))
		return false;
	*s = str_after(*s, what.size);
	return true;
}

bool text_find(struct str s, struct str what, struct str *ret)
{
	const char *at = s.size ? memmem(s.p, s.size, what.p, what.size) : NULL;

	if (at)
		*ret = str_after(s, (size_t)(at - s.p) + what.size);
	return at;
}

/* "path+0x12", at the last plus. */
static bool split_offset(struct str s, struct str *ret_name, uint64_t *ret_off)
{
	const char *plus = s.size ? memrchr(s.p, '+', s.size) : NULL;
	struct str rest;

	if (!plus)
		return false;
	rest = str_after(s, (size_t)(plus + 1 - s.p));
	*ret_name = (struct str){ s.p, (size_t)(plus - s.p) };
	return text_take_hex(&rest, true, ret_off) && !rest.size;
}

bool text_missed(struct module *m)
{
	if (m)
		module_note_missed(m);
	return false;
}

/* ---- writing frames ---- */

static void add_frame_name(struct text_filter *t, const struct symtab_frame *f, struct buf *out)
{
	size_t before = out->size;

	frame_name(f, t->s->symbols.demangling, out);
	if (out->size == before)
		buf_add_str(out, STR("??"));
}

static void add_frame_place(struct text_filter *t, const struct symtab_frame *f, struct buf *out)
{
	if (!f->file.size)
		return;
	buf_add_char(out, ' ');
	if (t->s->symbols.basenames)
		buf_add_str(out, path_basename(f->file));
	else
		symtab_path(f->dir, f->file, out);
	if (f->line)
		buf_printf(out, ":%u", f->line);
	if (f->line && f->column)
		buf_printf(out, ":%u", f->column);
}

void text_add_frames(struct text_filter *t, const struct symtab_frames *frames, struct buf *out)
{
	for (size_t i = 0; i < frames->n; i++) {
		buf_add_str(out, STR("        "));
		add_frame_name(t, &frames->list[i], out);
		buf_add_char(out, ' ');
		add_frame_place(t, &frames->list[i], out);
		buf_add_str(out, frames->list[i].inlined ? STR("  inlined into\n") : STR("\n"));
	}
}

void text_add_below(struct text_filter *t, struct str line, const struct symtab_frames *frames,
		    struct buf *out)
{
	buf_add_str(out, line);
	buf_add_char(out, '\n');
	text_add_frames(t, frames, out);
}

/* ---- sanitizers ---- */

static bool sanitizer_line(struct text_filter *t, struct str line, struct buf *out)
{
	struct str rest = text_skip_blanks(line), head, module, id_text;
	struct symtab_frames frames;
	struct module_address a = { .kind = FRAME_VADDR };
	struct build_id id = { 0 };
	uint64_t pc, off;
	struct module *m;
	const char *open, *close;
	size_t n = 0;

	if (!text_take(&rest, STR("#")))
		return false;
	while (n < rest.size && rest.p[n] >= '0' && rest.p[n] <= '9')
		n++;
	rest = text_skip_blanks(str_after(rest, n));
	if (!n || !text_take_hex(&rest, true, &pc))
		return false;
	head = (struct str){ line.p, (size_t)(rest.p - line.p) };
	/* The last "(module+0x12)". */
	open = rest.size ? memmem(rest.p, rest.size, "+0x", 3) : NULL;
	while (open && open > rest.p && *open != '(')
		open--;
	if (!open || *open != '(')
		return false;
	close = memchr(open, ')', rest.size - (size_t)(open - rest.p));
	if (!close || !split_offset((struct str){ open + 1, (size_t)(close - open - 1) }, &module, &off))
		return false;
	rest = str_after(rest, (size_t)(close + 1 - rest.p));
	rest = text_skip_blanks(rest);
	if (text_take(&rest, STR("(BuildId: "))) {
		id_text = str_cut(&rest, ')');
		if (!build_id_read(&id, id_text))
			id.size = 0;
	}
	m = modules_get(&t->modules, module, id.size ? &id : NULL);
	a.addr = off;
	if (!m || !module_find(&t->modules, m, &a, &off, &frames))
		return text_missed(m);
	for (size_t i = 0; i < frames.n; i++) {
		buf_add_str(out, head);
		buf_add_str(out, STR(" in "));
		add_frame_name(t, &frames.list[i], out);
		add_frame_place(t, &frames.list[i], out);
		if (!frames.list[i].file.size)
			buf_printf(out, " (" STR_FMT "+0x%llx)", STR_ARG(module), (unsigned long long)off);
		buf_add_char(out, '\n');
	}
	return true;
}

/* ---- glibc's backtrace_symbols() ---- */

static bool glibc_line(struct text_filter *t, struct str line, struct buf *out)
{
	struct str rest = text_skip_blanks(line), module, place, name;
	struct symtab_frames frames;
	uint64_t off, ignored;
	const char *open = rest.size ? memchr(rest.p, '(', rest.size) : NULL, *close;
	struct module *m;

	close = open ? memchr(open, ')', rest.size - (size_t)(open - rest.p)) : NULL;
	if (!close || open == rest.p)
		return false;
	module = (struct str){ rest.p, (size_t)(open - rest.p) };
	place = (struct str){ open + 1, (size_t)(close - open - 1) };
	rest = text_skip_blanks(str_after(rest, (size_t)(close + 1 - rest.p)));
	if (!text_take(&rest, STR("[")) || !text_take_hex(&rest, true, &ignored) ||
	    !text_take(&rest, STR("]")) || !split_offset(place, &name, &off) ||
	    !memchr(module.p, '/', module.size))
		return false;
	m = modules_get(&t->modules, module, NULL);
	if (!m)
		return false;
	if (name.size ? !module_find_symbol(&t->modules, m, &(struct module_symbol){ name, off, 0, true },
					    &frames)
		      : !module_find(&t->modules, m, &(struct module_address){ FRAME_VADDR, off, true }, &off,
				     &frames))
		return text_missed(m);
	text_add_below(t, line, &frames, out);
	return true;
}

/* ---- perf script ---- */

/* "PERF_RECORD_MMAP2 1/1: [0x7f0000000000(0x1000) @ 0 fe:01 12 0]: r-xp /usr/bin/x" */
static void perf_mapping(struct text_filter *t, struct str line)
{
	const char *record = line.size ? memmem(line.p, line.size, "PERF_RECORD_MMAP", 16) : NULL;
	struct frame_mapping map = { 0 };
	struct str rest, path;
	const char *open, *slash;
	struct module *m;
	uint64_t size;

	if (!record)
		return;
	rest = str_after(line, (size_t)(record - line.p));
	open = memchr(rest.p, '[', rest.size);
	if (!open)
		return;
	rest = str_after(rest, (size_t)(open + 1 - rest.p));
	if (!text_take_hex(&rest, true, &map.start) || !text_take(&rest, STR("(")) ||
	    !text_take_hex(&rest, true, &size) || !text_take(&rest, STR(") @ ")) ||
	    !text_take_hex(&rest, false, &map.offset))
		return;
	slash = memmem(rest.p, rest.size, " /", 2);
	if (!slash)
		return;
	path = str_trim(str_after(rest, (size_t)(slash + 1 - rest.p)));
	map.limit = map.start + size;
	m = modules_get(&t->modules, path, NULL);
	if (m && m->n_maps < 65536)
		module_add_map(m, &map);
}

/*
 * With call chains perf prints offsets in the file in place of addresses. In a program that is not position-independent a
 * number may be both: then the start of the function decides, which perf knows.
 */
static bool perf_find(struct text_filter *t, struct module *m, uint64_t pc, const struct module_symbol *sym,
		      struct symtab_frames *ret)
{
	struct module_address a = { .kind = FRAME_RUNTIME, .addr = pc, .is_return = sym->is_return };
	bool named = sym->name.size != 0, is_addr, is_offset;
	uint64_t vaddr;

	is_addr = m->n_maps && module_find(&t->modules, m, &a, &vaddr, ret);
	if (is_addr && (!named || pc - ret->start == sym->off))
		return true;
	a.kind = FRAME_OFFSET;
	is_offset = (named || m->n_maps) && module_find(&t->modules, m, &a, &vaddr, ret);
	if (is_offset && (!named || pc - ret->start == sym->off))
		return true;
	/* Of several functions of one name the first would be taken. */
	if (named && (!is_addr || is_offset) && module_find_symbol(&t->modules, m, sym, ret))
		return true;
	a.kind = is_addr ? FRAME_RUNTIME : FRAME_OFFSET;
	return m->n_maps && module_find(&t->modules, m, &a, &vaddr, ret);
}

/* Only modules with a path: the names of "[kernel.kallsyms]", the running kernel, are there already. */
static bool perf_line(struct text_filter *t, struct str line, struct buf *out)
{
	bool is_caller = t->is_caller;
	struct str rest = text_skip_blanks(line), head, module, name, symbol;
	struct module_address a = { .is_return = is_caller };
	struct module_symbol sym = { .is_return = is_caller };
	struct symtab_frames frames;
	uint64_t pc, vaddr;
	const char *open;
	struct module *m;
	bool found;

	if (rest.size == line.size || !text_take_hex(&rest, false, &pc) || !rest.size || *rest.p != ' ') {
		t->is_caller = false;
		return false;
	}
	head = (struct str){ line.p, (size_t)(rest.p - line.p) };
	rest = str_trim(rest);
	open = rest.size ? memmem(rest.p, rest.size, " (/", 3) : NULL;
	t->is_caller = true;
	if (!open || rest.p[rest.size - 1] != ')')
		return false;
	symbol = (struct str){ rest.p, (size_t)(open - rest.p) };
	if (!split_offset(symbol, &sym.name, &sym.off))
		sym.name.size = 0;
	module = (struct str){ open + 2, (size_t)(rest.p + rest.size - open - 3) };
	if (split_offset(module, &name, &a.addr)) {
		a.kind = FRAME_OFFSET;
		m = modules_get(&t->modules, name, NULL);
		found = m && module_find(&t->modules, m, &a, &vaddr, &frames);
		module = name;
		if (!found)
			found = m && sym.name.size && module_find_symbol(&t->modules, m, &sym, &frames);
	} else {
		m = modules_get(&t->modules, module, NULL);
		found = m && perf_find(t, m, pc, &sym, &frames);
	}
	if (!found)
		return text_missed(m);
	for (size_t i = 0; i < frames.n; i++) {
		buf_add_str(out, head);
		buf_add_char(out, ' ');
		add_frame_name(t, &frames.list[i], out);
		/* As perf marks it, for flame graphs. */
		if (frames.list[i].inlined)
			buf_add_str(out, STR(" (inlined)"));
		else
			buf_printf(out, " (" STR_FMT ")", STR_ARG(module));
		add_frame_place(t, &frames.list[i], out);
		buf_add_char(out, '\n');
	}
	return true;
}

/* ---- the filter ---- */

struct text_filter *text_filter_new(struct settings *s)
{
	struct text_filter *t = NEW(struct text_filter);

	t->s = s;
	modules_init(&t->modules, s);
	return t;
}

void text_filter_free(struct text_filter *t)
{
	if (!t)
		return;
	modules_done(&t->modules);
	free(t->release);
	free(t);
}

void text_filter_line(struct text_filter *t, struct str line, struct buf *out)
{
	if (sanitizer_line(t, line, out) || glibc_line(t, line, out) || perf_line(t, line, out) ||
	    text_linux_line(t, line, out) || text_go_line(t, line, out))
		return;
	perf_mapping(t, line);
	buf_add_str(out, line);
	buf_add_char(out, '\n');
}

struct filtering {
	struct text_filter *t;
	struct buf out;
};

static void filter_line(void *arg, struct str line)
{
	struct filtering *f = arg;

	text_filter_line(f->t, line, &f->out);
}

static int write_filtered(void *arg, struct err *err)
{
	struct filtering *f = arg;
	int r = f->out.size ? fd_write(STDOUT_FILENO, f->out.p, f->out.size, err) : 0;

	f->out.size = 0;
	return r;
}

int symbolize_text(struct settings *s)
{
	struct filtering f = { .t = text_filter_new(s) };
	struct err err = { 0 };
	int r = symbolize_input(filter_line, write_filtered, &f, &err);

	modules_report_missed(&f.t->modules, "a name");
	text_filter_free(f.t);
	buf_done(&f.out);
	return r < 0 ? tell_error("symbolize", &err) : EXIT_DONE;
}
