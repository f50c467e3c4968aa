/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions, in the detail asked for. */
#include "frame/frame.h"

#include <ctype.h>

/* Other bytes than ASCII are letters of other alphabets. */
static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool is_sign(char c)
{
	return c && strchr("+-*/%^&|~!=,", c);
}

/*
 * "operator<", "operator->", "operator<<": the sign is not a bracket. After any sign, as in "operator()<int>", there may be
 * one. Returns the length of "operator" and sign at @i; 0: there is none.
 */
static size_t operator_at(struct str s, size_t i)
{
	static const struct str word = STR("operator"),
				signs[] = { STR("<=>"), STR("<<="), STR(">>="), STR("->*"), STR("<<"),
					    STR(">>"),  STR("<="),  STR(">="),  STR("->"),  STR("<"),
					    STR(">"),   STR("()"),  STR("[]") };
	struct str rest = { s.p + i, s.size - i };
	size_t n = 0;

	if (!str_starts(rest, word) || (i && is_word(s.p[i - 1])))
		return 0;
	rest = (struct str){ rest.p + word.size, rest.size - word.size };
	for (size_t k = 0; k < ARRAY_SIZE(signs); k++)
		if (str_starts(rest, signs[k]))
			return word.size + signs[k].size;
	while (n < rest.size && is_sign(rest.p[n]))
		n++;
	return n ? word.size + n : 0;
}

/* "operator int*": a conversion, and "operator new" and delete. */
static bool is_conversion(struct str s, size_t i)
{
	return str_starts((struct str){ s.p + i, s.size - i }, STR("operator ")) &&
	       !(i && is_word(s.p[i - 1]));
}

/* The index of the bracket that closes the one at @i; 0: none. Brackets within parentheses do not count. */
static size_t closing_bracket(struct str s, size_t i)
{
	size_t depth = 0, round = 0;

	for (size_t n; i < s.size; i += n) {
		n = operator_at(s, i);
		if (n)
			continue;
		n = 1;
		if (s.p[i] == '(' || s.p[i] == '{')
			round++;
		else if ((s.p[i] == ')' || s.p[i] == '}') && round)
			round--;
		else if (round)
			continue;
		else if (s.p[i] == '<')
			depth++;
		else if (s.p[i] == '>' && s.p[i - 1] != '-' && --depth == 0)
			return i;
	}
	return 0;
}

/*
 * Brackets without an end, of which each is searched for up to the end of the name. Names have few: the operators of their
 * template arguments. The rest of one with more stays as it is.
 */
#define MAX_OPEN_BRACKETS 32u

static size_t find_closing_bracket(struct str s, size_t i, unsigned *n_open)
{
	size_t end = *n_open < MAX_OPEN_BRACKETS ? closing_bracket(s, i) : 0;

	*n_open += !end;
	return end;
}

/*
 * Rust's "f::<T>". In "m::<impl T>::f" the brackets are a part of the path. So they are in names of others:
 * "main::<lambda(int)>" of GCC, "C::<init>" of Java, "C::<>c::<Main>b__0" of .NET.
 */
static bool is_turbofish(struct str s, size_t i)
{
	struct str in = { s.p + i + 1, s.size - i - 1 };

	return i > 2 && s.p[i - 1] == ':' && s.p[i - 2] == ':' &&
	       (is_word(s.p[i - 3]) || s.p[i - 3] == '}') && !str_starts(in, STR("impl "));
}

/*
 * May template arguments follow @c, a character before "<"? Those of a conversion follow its type, which may end in any way:
 * "operator int*<int>", "operator int (*)(int)<int>", "operator std::vector<int><int>".
 */
static bool may_have_arguments(char c, bool converts)
{
	return is_word(c) || c == ']' || c == '}' || (converts && c && strchr("*&)>", c));
}

/* Leave out "<...>" after a name. Rust's "<T as Trait>::f" begins with one, which stays. */
static void add_without_templates(struct str s, bool rust, struct buf *out)
{
	bool converts = false;
	unsigned n_open = 0;

	for (size_t i = 0; i < s.size;) {
		size_t n = operator_at(s, i), end;

		if (n) {
			buf_add(out, s.p + i, n);
			i += n;
			/* In "operator<< <int>" a blank separates the sign from the bracket. */
			if (i + 1 < s.size && s.p[i] == ' ' && s.p[i + 1] == '<')
				i++;
			if (i < s.size && s.p[i] == '<' && (end = find_closing_bracket(s, i, &n_open)))
				i = end + 1;
			continue;
		}
		converts |= !rust && is_conversion(s, i);
		if (s.p[i] == '<' && i && may_have_arguments(s.p[i - 1], converts) &&
		    (end = find_closing_bracket(s, i, &n_open))) {
			i = end + 1;
			continue;
		}
		if (rust && s.p[i] == '<' && is_turbofish(s, i) &&
		    (end = find_closing_bracket(s, i, &n_open))) {
			out->size -= 2; /* "::" */
			i = end + 1;
			continue;
		}
		buf_add_char(out, s.p[i++]);
	}
}

/*
 * Go's linker writes dots (and other characters that it must escape) in the last part of a package's path as
 * "%2e".
 */
static void add_unescaped(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.size; i++) {
		uint8_t b;
		size_t n;

		if (s.p[i] == '%' && s.size - i > 2 &&
		    hex_decode((struct str){ s.p + i + 1, 2 }, true, &b, 1, &n) && b > ' ' && b < 0x7f) {
			buf_add_char(out, (char)b);
			i += 2;
		} else {
			buf_add_char(out, s.p[i]);
		}
	}
}

bool frame_demangling_parse(struct str s, enum frame_demangling *ret)
{
	static const struct str names[] = { STR("full"), STR("templates"), STR("simple"), STR("none") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(s, names[i])) {
			*ret = (enum frame_demangling)i;
			return true;
		}
	return false;
}

void frame_name(const struct symtab_frame *f, enum frame_demangling how, struct buf *out)
{
	struct str name = f->linkage.size ? f->linkage : f->name;
	AUTO(buf_done) struct buf b = { 0 };

	if (how == FRAME_DEMANGLE_NONE || !name.size) {
		buf_add_str(out, name);
		return;
	}
	if (name.p[0] != '_' && memchr(name.p, '%', name.size)) {
		add_unescaped(name, out);
		return;
	}
	if (how != FRAME_DEMANGLE_SIMPLE) {
		symtab_demangle(name, how == FRAME_DEMANGLE_FULL ? SYMTAB_FULL : SYMTAB_SIMPLE, out);
		return;
	}
	symtab_demangle(name, SYMTAB_SIMPLE, &b);
	add_without_templates(buf_str(&b), str_starts(name, STR("_R")), out);
}
