/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as they are in the source: C++ (Itanium), Rust (both schemes), D, by libiberty.
 *
 * A part of a mangled name can refer twice to another part, which refers twice to a third, and so on: a
 * hundred bytes can expand to more text than there is memory. So the output is counted, and a name whose text
 * is too long is not demangled. libiberty calls back with chunks of the text and keeps its state on the stack,
 * so a longjmp() out of the callback is sound, except in a chunk of Rust's that was decoded from Punycode: that is on
 * the heap. libiberty limits its own recursion, but neither D's text nor Rust's lifetimes: names that would have too
 * many of them stay as they are.
 */
#include "symtab/symtab.h"

#include <ctype.h>
#include <setjmp.h>
#include <libiberty/demangle.h>
#include <stdlib.h>

#define MANGLED_MAX KIB(16) /* libiberty's use of the stack grows with the name */
#define D_MAX       KIB(2)  /* D's text is not returned in chunks */
/* Types of a D name that refer to an earlier type. Each may repeat all text before it, so n of them multiply it by up
 * to 3^(n / 3). */
#define D_REFS_MAX 24u
/* Digits, in base 62, of the number of lifetimes that a type of Rust binds. libiberty counts them one by one, also where
 * nothing is printed. */
#define LIFETIME_DIGITS_MAX 2u

struct demangle_sink {
	struct buf *out;
	size_t from;
	bool over; /* the text is too long */
	jmp_buf full;
};

static bool is_ascii(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

static void sink_take(const char *text, size_t size, void *arg)
{
	struct demangle_sink *s = arg;

	if (!s->over && s->out->size - s->from + size <= SYMTAB_MAX_DEMANGLED) {
		buf_add(s->out, text, size);
		return;
	}
	s->over = true;
	/* A chunk on the heap has other bytes than ASCII; the one after it is on the stack. */
	if (is_ascii(text, size))
		longjmp(s->full, 1);
}

typedef int demangle_fn(const char *mangled, int options, demangle_callbackref callback, void *arg);

static bool demangle_run(struct demangle_sink *s, demangle_fn *fn, const char *mangled, int options)
{
	s->over = false;
	if (setjmp(s->full))
		return false;
	return fn(mangled, options, sink_take, s) && !s->over && s->out->size > s->from;
}

/*
 * Rust's old scheme is C++'s with a hash at the end: "17h" and 16 hex digits. Returns the size without the suffix that a pass
 * of the compiler has added (".llvm.123", ".cold"); 0: another name. There may be dots before: "alloc..string".
 */
static size_t old_rust_size(struct str s)
{
	for (size_t n = 23; n <= s.size; n++)
		if (s.p[n - 1] == 'E' && (n == s.size || s.p[n] == '.') &&
		    memcmp(s.p + n - 20, "17h", 3) == 0)
			return n;
	return 0;
}

/* Changes @z. As the demangler does for the new scheme, ".llvm." is left out: it only makes the name unique. */
static bool demangle_old_rust(struct demangle_sink *s, char *z, struct str name, int options)
{
	size_t n = old_rust_size(name);
	struct str suffix = { name.p + n, name.size - n };

	if (!n)
		return false;
	z[n] = 0;
	if (demangle_run(s, rust_demangle_callback, z, options)) {
		if (options & DMGL_PARAMS && !str_starts(suffix, STR(".llvm.")))
			buf_add_str(s->out, suffix);
		return true;
	}
	memcpy(z + n, suffix.p, suffix.size);
	return false;
}

/*
 * How many types of a D name refer to an earlier type: 'Q' and a distance in base 26, whose last digit is in lower case.
 * A reference to a digit is one to an identifier, which repeats only that.
 */
static unsigned d_type_refs(struct str s)
{
	unsigned n = 0;

	for (size_t i = 0; i < s.size; i++) {
		size_t back = 0, k = i + 1;

		if (s.p[i] != 'Q')
			continue;
		for (; k < s.size && s.p[k] >= 'A' && s.p[k] <= 'Z' && back < s.size; k++)
			back = back * 26 + (size_t)(s.p[k] - 'A');
		if (k == s.size || s.p[k] < 'a' || s.p[k] > 'z')
			continue;
		back = back * 26 + (size_t)(s.p[k] - 'a');
		n += back && back <= i && !isdigit((unsigned char)s.p[i - back]);
	}
	return n;
}

/*
 * A function ('F') or a trait object ('D') of a Rust name may bind ('G') more lifetimes than any program does. In the copy @z
 * of the name, the 'G' is replaced by a letter that is no type, so that the name is refused. The hash of a crate may have
 * such letters by chance: the name stays as valid there, and hashes are not printed. Whether any was replaced.
 */
static bool hide_many_lifetimes(struct str s, char *z)
{
	bool any = false;

	for (size_t i = 0; i + 1 < s.size; i++) {
		size_t k = i + 2;

		if ((s.p[i] != 'F' && s.p[i] != 'D') || s.p[i + 1] != 'G')
			continue;
		while (k < s.size && isalnum((unsigned char)s.p[k]))
			k++;
		if (k < s.size && s.p[k] == '_' && k - (i + 2) > LIFETIME_DIGITS_MAX) {
			z[i + 1] = 'g';
			any = true;
		}
	}
	return any;
}

/* Changes @z. */
static bool demangle_rust(struct demangle_sink *s, char *z, struct str name, int options)
{
	bool any_hidden = hide_many_lifetimes(name, z);

	if (!demangle_run(s, rust_demangle_callback, z, options))
		return false;
	/* An identifier with such letters would be printed with the other one. */
	for (size_t i = s->from; any_hidden && i + 1 < s->out->size; i++)
		if ((s->out->p[i] == 'F' || s->out->p[i] == 'D') && s->out->p[i + 1] == 'g')
			return false;
	return true;
}

static bool demangle_one(struct demangle_sink *s, char *z, struct str name, bool full)
{
	int options = full ? DMGL_PARAMS | DMGL_ANSI : 0;

	if (str_starts(name, STR("_Z"))) {
		if (demangle_old_rust(s, z, name, options))
			return true;
		s->out->size = s->from;
		return demangle_run(s, cplus_demangle_v3_callback, z, options);
	}
	if (str_starts(name, STR("_R")))
		return demangle_rust(s, z, name, options);
	if (str_starts(name, STR("_D")) && name.size <= D_MAX && d_type_refs(name) <= D_REFS_MAX) {
		AUTO(mem_freep) char *text = dlang_demangle(z, options);

		if (!text || strlen(text) > SYMTAB_MAX_DEMANGLED)
			return false;
		buf_add(s->out, text, strlen(text));
		return true;
	}
	return false;
}

void symtab_demangle(struct str name, enum symtab_demangling how, struct buf *out)
{
	struct demangle_sink s = { .out = out, .from = out->size };
	AUTO(mem_freep) char *z = NULL;
	const char *suffix;
	size_t n = name.size;

	/* Most names of C are recognized at once. */
	if (how == SYMTAB_MANGLED || name.size < 3 || name.size > MANGLED_MAX || name.p[0] != '_' ||
	    !memchr("ZRD", name.p[1], 3) || memchr(name.p, 0, name.size)) {
		buf_add_str(out, name);
		return;
	}
	z = mem_strndup(name.p, name.size);
	if (demangle_one(&s, z, name, how == SYMTAB_FULL))
		return;
	out->size = s.from;
	/* A suffix that the demangler does not know ("@@VERSION", ".lto_priv") is kept as it is. */
	suffix = memchr(name.p, '@', name.size);
	if (!suffix)
		suffix = memchr(name.p, '.', name.size);
	if (suffix && suffix > name.p) {
		n = (size_t)(suffix - name.p);
		z[n] = 0;
		if (demangle_one(&s, z, (struct str){ name.p, n }, how == SYMTAB_FULL)) {
			buf_add(out, suffix, name.size - n);
			return;
		}
		out->size = s.from;
	}
	buf_add_str(out, name);
}
