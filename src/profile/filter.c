/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames patterns match; the texts of frames. */
#include "profile/filter.h"

#include <stdio.h>
#include <string.h>

#define STRING_KNOWN 0x80u /* in profile_filtered.known: it was looked at */

/* ---- the texts of frames ---- */

const struct profile_mapping *profile_mapping_of(const struct profile *p, const struct profile_location *l)
{
	static const struct profile_mapping none;

	return l->mapping == PROFILE_NONE ? &none : &p->mappings.p[l->mapping];
}

uint64_t profile_address_in_file(const struct profile *p, const struct profile_location *l)
{
	const struct profile_mapping *m = profile_mapping_of(p, l);

	return l->addr >= m->start ? l->addr - m->start + m->offset : l->addr;
}

void profile_address_text(const struct profile *p, const struct profile_location *l,
			  char ret[PROFILE_ADDRESS_TEXT])
{
	struct str base = path_basename(profile_str(p, profile_mapping_of(p, l)->file));

	if (!base.size)
		base = l->mapping == PROFILE_NONE ? STR("") : STR("unknown");
	if (l->addr || !base.size)
		snprintf(ret, PROFILE_ADDRESS_TEXT, "%.*s%s0x%llx", (int)MIN(base.size, (size_t)240), base.p,
			 base.size ? "+" : "", (unsigned long long)profile_address_in_file(p, l));
	else
		snprintf(ret, PROFILE_ADDRESS_TEXT, "%.*s", (int)MIN(base.size, (size_t)240), base.p);
}

static uint32_t function_name(const struct profile_function *f)
{
	return f->name ? f->name : f->system_name;
}

void profile_line_text(const struct profile *p, const struct profile_line *line, struct buf *out)
{
	const struct profile_function *f = &p->functions.p[line->function];

	buf_printf(out, STR_FMT " " STR_FMT ":%lld", STR_ARG(profile_str(p, function_name(f))),
		   STR_ARG(profile_str(p, f->file)), (long long)line->line);
}

struct str profile_label_text(const struct profile *p, uint32_t labels, struct str key,
			      char room[PROFILE_LABEL_TEXT])
{
	const struct profile_label_set *set = &p->label_sets.p[labels];

	for (uint32_t i = 0; i < set->n; i++) {
		const struct profile_label *l = &p->labels.p[set->first + i];
		struct str unit = profile_str(p, l->unit);

		if (!str_eq(profile_str(p, l->key), key))
			continue;
		if (l->str)
			return profile_str(p, l->str);
		snprintf(room, PROFILE_LABEL_TEXT, "%lld%s%.*s", (long long)l->num, unit.size ? " " : "",
			 (int)MIN(unit.size, (size_t)32), unit.p);
		return str_of(room);
	}
	return STR("(no label)");
}

/* ---- patterns ---- */

/* Is @pattern (or NULL) "^...$" without another operator but "."? */
static bool is_whole_pattern(const char *pattern)
{
	size_t n = pattern ? strlen(pattern) : 0;

	if (n < 2 || pattern[0] != '^' || pattern[n - 1] != '$')
		return false;
	for (size_t i = 1; i < n - 1; i++) {
		if (pattern[i] == '\\' ? ++i == n - 1 : strchr("[](){}*+?^$|", pattern[i]) != NULL)
			return false;
	}
	return true;
}

/* How the texts that a pattern matches may end, up to one of its bytes. */
struct text_end {
	bool blank, colon, sign, number; /* " ", ":", ":-", ":-12" */
	bool begin, zero, x, hex;        /* the beginning or "+", then "0", "0x", "0x1f" */
};

/* One more byte of the text, which is @c, or, if that is '\0', any. */
static void text_end_add(struct text_end *e, char c)
{
	bool digit = !c || (c >= '0' && c <= '9'), hex = digit || (c >= 'a' && c <= 'f');

	e->number = digit && (e->colon || e->sign || e->number);
	e->sign = e->colon && (!c || c == '-');
	e->colon = e->blank && (!c || c == ':');
	e->blank |= !c || c == ' ';
	e->hex = hex && (e->x || e->hex);
	e->x = e->zero && (!c || c == 'x');
	e->zero = e->begin && (!c || c == '0');
	e->begin = !c || c == '+';
}

unsigned profile_filter_needs(const char *pattern)
{
	struct text_end e = { .begin = true };

	if (!is_whole_pattern(pattern))
		return 0;
	for (const char *c = pattern + 1; c[1]; c++) {
		bool escaped = *c == '\\';

		c += escaped;
		/* base/pattern.h: these match no byte, and the next ones one of several. */
		if (escaped && strchr("`'bB<>", *c))
			continue;
		text_end_add(&e, *c == '.'                       ? !escaped ? '\0' : '.'
				 : escaped && strchr("wWsS", *c) ? '\0'
								 : *c);
	}
	return (e.number ? PROFILE_FILTERS_LINES : 0u) | (e.hex ? PROFILE_FILTERS_ADDRESSES : 0u);
}

/* Matches of a text with the patterns of these bits. */
static uint8_t text_matches(const struct profile_filters *f, struct str text, uint8_t bits)
{
	uint8_t ret = 0;

	for (unsigned i = 0; i < N_MATCHES; i++)
		if (bits >> i & 1 && f->patterns[i] && pattern_matches(f->patterns[i], text, f->deadline))
			ret |= (uint8_t)(1u << i);
	return ret;
}

uint8_t profile_filters_text(const struct profile_filters *f, struct str text)
{
	return text_matches(f, text, MATCHES_OF_SAMPLES | MATCHES_OF_FRAMES);
}

int profile_filters_init(struct profile_filters *f, const struct profile_view *view,
			 struct deadline *deadline, struct err *err)
{
	static const char *const names[] = { "focus", "ignore", "hide", "show" };
	const char *const texts[] = { view->focus, view->ignore, view->hide, view->show };

	*f = (struct profile_filters){ .deadline = deadline };
	for (unsigned i = 0; i < N_MATCHES; i++) {
		unsigned needs = profile_filter_needs(texts[i]), bit = 1u << i & MATCHES_OF_SAMPLES;

		if (texts[i] && pattern_new(str_of(texts[i]), false, &f->patterns[i], err) < 0) {
			profile_filters_done(f);
			return err_in(err, "%s: '%s'", names[i], texts[i]);
		}
		f->whole |= is_whole_pattern(texts[i]) ? (uint8_t)bit : 0;
		f->of_lines |= needs & PROFILE_FILTERS_LINES ? (uint8_t)bit : 0;
		f->of_addresses |= needs & PROFILE_FILTERS_ADDRESSES ? (uint8_t)bit : 0;
	}
	f->of_no_name = text_matches(f, STR(PROFILE_NO_NAME), f->whole);
	f->of_no_file = text_matches(f, STR(PROFILE_NO_FILE), f->whole);
	f->of_no_binary = text_matches(f, STR(PROFILE_NO_BINARY), f->whole);
	return 0;
}

void profile_filters_done(struct profile_filters *f)
{
	for (unsigned i = 0; i < N_MATCHES; i++)
		pattern_free(TAKE(f->patterns[i]));
}

/* ---- matches ---- */

/* Matches of a string of the profile; @none: matches of the text that views show in place of an empty one. */
static uint8_t string_matches(const struct profile_filtered *in, uint32_t s, uint8_t none)
{
	uint8_t *known = &in->known[s];

	if (!s)
		return none;
	if (!*known)
		*known = (uint8_t)(STRING_KNOWN | profile_filters_text(in->filters, profile_str(in->p, s)));
	return (uint8_t)(*known & ~STRING_KNOWN);
}

static uint8_t line_text_matches(const struct profile_filtered *in, const struct profile_line *line)
{
	AUTO(buf_done) struct buf text = { 0 };

	if (!in->filters->of_lines)
		return 0;
	profile_line_text(in->p, line, &text);
	return text_matches(in->filters, buf_str(&text), in->filters->of_lines);
}

/*
 * Of the address of a location. One with functions is matched with it as a whole, and if its binary is all that is known
 * of it, any pattern may be that.
 */
static uint8_t address_matches(const struct profile_filtered *in, const struct profile_location *l)
{
	const struct profile_filters *f = in->filters;
	uint8_t bits = l->addr || l->mapping == PROFILE_NONE ? f->of_addresses : f->whole;
	char text[PROFILE_ADDRESS_TEXT];

	if (!l->n_lines)
		bits = MATCHES_OF_SAMPLES | MATCHES_OF_FRAMES;
	else if (!bits || l->addr_dropped)
		return 0;
	profile_address_text(in->p, l, text);
	return text_matches(f, str_of(text), bits);
}

static uint8_t binary_matches(const struct profile_filtered *in, const struct profile_location *l)
{
	return string_matches(in, profile_mapping_of(in->p, l)->file, in->filters->of_no_binary);
}

static uint8_t function_matches(const struct profile_filtered *in, const struct profile_line *line)
{
	const struct profile_function *f = &in->p->functions.p[line->function];

	return string_matches(in, function_name(f), in->filters->of_no_name) |
	       string_matches(in, f->file, in->filters->of_no_file);
}

uint8_t profile_filters_location(const struct profile_filtered *in, const struct profile_location *l)
{
	const uint8_t hide = 1u << MATCH_HIDE, binary = binary_matches(in, l);
	uint8_t any = 0, all = l->n_lines ? UINT8_MAX : 0;

	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &in->p->lines.p[l->first_line + i];
		uint8_t bits = function_matches(in, line);

		any |= bits | line_text_matches(in, line);
		all &= bits;
	}
	return (uint8_t)(binary | address_matches(in, l) | (any & ~hide) | (all & hide));
}

uint8_t profile_filters_line(const struct profile_filtered *in, const struct profile_location *l,
			     const struct profile_line *line)
{
	return (binary_matches(in, l) | function_matches(in, line)) & MATCHES_OF_FRAMES;
}
