/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: the compiler. It reads the text once, with a stack of its own for parentheses, and emits
 * operations; a repeated part is copied. pattern_match.c matches.
 */
#include "base/pattern.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/pattern_ops.h"
#include "base/vec.h"

#define NO_PART   SIZE_MAX
#define NO_LIMIT  UINT32_MAX /* of an interval */
#define MAX_COUNT 32767u     /* RE_DUP_MAX */

struct pattern_level {
	size_t start;       /* of the parenthesis, or of the text */
	size_t alternative; /* the start of this alternative */
	size_t part;        /* the start of the last part, which may be repeated; NO_PART: none */
	int32_t ends; /* the last jump to the end of this level; each has the one before in x; -1: none */
};

struct pattern_reader {
	struct pattern *out;
	const char *p, *end;
	unsigned depth;
	struct pattern_level levels[PATTERN_MAX_DEPTH + 1];
};

/* ---- operations ---- */

static int ops_room(struct pattern_reader *r, size_t more, struct err *err)
{
	return r->out->n_ops + more <= PATTERN_MAX_OPS ? 0 : err_set(err, ERR_LIMIT, "too many repetitions");
}

/* Room was checked. */
static void op_add(struct pattern *p, struct pattern_op op)
{
	VEC_PUSH(p->ops, p->n_ops, p->room_ops) = op;
}

static void op_insert(struct pattern *p, size_t at, struct pattern_op op)
{
	op_add(p, op);
	memmove(p->ops + at + 1, p->ops + at, (p->n_ops - 1 - at) * sizeof(*p->ops));
	p->ops[at] = op;
}

static int pattern_op_emit(struct pattern_reader *r, struct pattern_op op, struct err *err)
{
	if (ops_room(r, 1, err) < 0)
		return -1;
	op_add(r->out, op);
	return 0;
}

static int part_emit(struct pattern_reader *r, struct pattern_op op, struct err *err)
{
	r->levels[r->depth].part = r->out->n_ops;
	return pattern_op_emit(r, op, err);
}

static int part_byte(struct pattern_reader *r, char c, struct err *err)
{
	return part_emit(r, (struct pattern_op){ .kind = OP_BYTE, .byte = (uint8_t)c }, err);
}

static int part_set(struct pattern_reader *r, const struct byte_set *set, struct err *err)
{
	struct pattern *p = r->out;
	size_t i = 0;

	while (i < p->n_sets && memcmp(&p->sets[i], set, sizeof(*set)) != 0)
		i++;
	if (i == p->n_sets)
		VEC_PUSH(p->sets, p->n_sets, p->room_sets) = *set;
	return part_emit(r, (struct pattern_op){ .kind = OP_SET, .set = (uint16_t)i }, err);
}

static int part_assert(struct pattern_reader *r, enum assertion what, struct err *err)
{
	r->levels[r->depth].part = NO_PART;
	return pattern_op_emit(r, (struct pattern_op){ .kind = OP_ASSERT, .byte = (uint8_t)what }, err);
}

/* ---- sets ---- */

static bool byte_is_of_class(unsigned b, struct str name)
{
	bool digit = b >= '0' && b <= '9', lower = b >= 'a' && b <= 'z', upper = b >= 'A' && b <= 'Z';
	bool graph = b > ' ' && b < 127;
	const struct {
		struct str name;
		bool is;
	} classes[] = {
		{ STR("alpha"), lower || upper },
		{ STR("digit"), digit },
		{ STR("alnum"), lower || upper || digit },
		{ STR("upper"), upper },
		{ STR("lower"), lower },
		{ STR("space"), b == ' ' || (b >= '\t' && b <= '\r') },
		{ STR("blank"), b == ' ' || b == '\t' },
		{ STR("punct"), graph && !lower && !upper && !digit },
		{ STR("print"), graph || b == ' ' },
		{ STR("graph"), graph },
		{ STR("cntrl"), b < ' ' || b == 127 },
		{ STR("xdigit"), digit || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F') },
	};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (str_eq(name, classes[i].name))
			return classes[i].is;
	return false;
}

static struct byte_set set_of_class(struct str name, bool with_underscore, bool negated)
{
	struct byte_set s = { { 0 } };

	for (unsigned b = 0; b < 256; b++)
		if ((byte_is_of_class(b, name) || (with_underscore && b == '_')) != negated)
			set_add(&s, b);
	return s;
}

static int brackets_end(struct err *err)
{
	return err_set(err, ERR_INVALID, "unmatched [");
}

/* After "[:", "[." or "[=", up to the same and "]". */
static int brackets_name(struct pattern_reader *r, char kind, struct str *ret, struct err *err)
{
	const char *from = r->p;

	while (r->end - r->p > 1 && !(r->p[0] == kind && r->p[1] == ']'))
		r->p++;
	if (r->end - r->p < 2)
		return brackets_end(err);
	*ret = (struct str){ from, (size_t)(r->p - from) };
	r->p += 2;
	return 0;
}

/* A byte, or "[.x.]" or "[=x=]". */
static int brackets_byte(struct pattern_reader *r, uint8_t *ret, struct err *err)
{
	char kind = r->end - r->p > 1 && r->p[0] == '[' ? r->p[1] : 0;
	struct str name;

	if (r->p == r->end)
		return brackets_end(err);
	if (kind != '.' && kind != '=') {
		*ret = (uint8_t)*r->p++;
		return 0;
	}
	r->p += 2;
	if (brackets_name(r, kind, &name, err) < 0)
		return -1;
	if (name.size != 1)
		return err_set(err, ERR_INVALID, "no such character: [%c" STR_FMT "%c]", kind, STR_ARG(name),
			       kind);
	*ret = (uint8_t)name.p[0];
	return 0;
}

static int brackets_class(struct pattern_reader *r, struct byte_set *to, struct err *err)
{
	struct str name;
	struct byte_set s;

	r->p += 2;
	if (brackets_name(r, ':', &name, err) < 0)
		return -1;
	s = set_of_class(name, false, false);
	if (!s.bits[0] && !s.bits[1])
		return err_set(err, ERR_INVALID, "no such class of characters: [:" STR_FMT ":]",
			       STR_ARG(name));
	for (size_t i = 0; i < ARRAY_SIZE(s.bits); i++)
		to->bits[i] |= s.bits[i];
	return 0;
}

static int brackets_item(struct pattern_reader *r, struct byte_set *to, struct err *err)
{
	uint8_t from, last;

	if (r->end - r->p > 1 && r->p[0] == '[' && r->p[1] == ':')
		return brackets_class(r, to, err);
	if (brackets_byte(r, &from, err) < 0)
		return -1;
	last = from;
	if (r->end - r->p > 1 && r->p[0] == '-' && r->p[1] != ']') {
		r->p++;
		if (r->end - r->p > 1 && r->p[0] == '[' && r->p[1] == ':')
			return err_set(err, ERR_INVALID, "a range ends in a class of characters");
		if (brackets_byte(r, &last, err) < 0)
			return -1;
	}
	if (last < from)
		return err_set(err, ERR_INVALID, "the range %c-%c is empty", from, last);
	for (unsigned b = from; b <= last; b++)
		set_add(to, b);
	return 0;
}

/* After "[". */
static int part_brackets(struct pattern_reader *r, struct err *err)
{
	struct byte_set s = { { 0 } };
	bool negated = r->p < r->end && *r->p == '^';

	r->p += negated;
	do {
		if (brackets_item(r, &s, err) < 0)
			return -1;
		if (r->p == r->end)
			return brackets_end(err);
	} while (*r->p != ']');
	r->p++;
	for (size_t i = 0; negated && i < ARRAY_SIZE(s.bits); i++)
		s.bits[i] = ~s.bits[i];
	return part_set(r, &s, err);
}

/* ---- repetition ---- */

static int number_read(struct pattern_reader *r, uint32_t *ret, struct err *err)
{
	uint32_t n = 0;

	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
		n = n * 10 + (uint32_t)(*r->p - '0');
		if (n > MAX_COUNT)
			return err_set(err, ERR_LIMIT, "too many repetitions");
	}
	*ret = n;
	return 0;
}

/* After "{": "3}", "3,}", "3,5}", ",5}". */
static int interval_read(struct pattern_reader *r, uint32_t *ret_least, uint32_t *ret_most, struct err *err)
{
	const char *from = r->p;

	if (number_read(r, ret_least, err) < 0)
		return -1;
	*ret_most = *ret_least;
	if (r->p < r->end && *r->p == ',') {
		const char *digits = ++r->p;

		if (number_read(r, ret_most, err) < 0)
			return -1;
		if (r->p == digits)
			*ret_most = NO_LIMIT;
	}
	if (r->p == r->end || *r->p != '}' || r->p == from || *ret_most < *ret_least)
		return err_set(err, ERR_INVALID,
			       "{ is not followed by numbers and }; write \\{ for the character");
	r->p++;
	return 0;
}

static struct pattern_op op_split(size_t x, size_t y)
{
	return (struct pattern_op){ .kind = OP_SPLIT, .x = (int16_t)x, .y = (int16_t)y };
}

/* Repeat the last part, the operations from @at on: @least times, then up to @most. */
static int part_repeat(struct pattern_reader *r, uint32_t least, uint32_t most, struct err *err)
{
	struct pattern *p = r->out;
	size_t at = r->levels[r->depth].part, n;
	uint64_t optional = most == NO_LIMIT ? 0 : most - least;
	AUTO(mem_freep) struct pattern_op *part = NULL;

	if (at == NO_PART)
		return err_set(err, ERR_INVALID, "there is nothing to repeat before *, +, ? or {");
	n = p->n_ops - at;
	if (at + least * n + optional * (n + 1) + 2 > PATTERN_MAX_OPS)
		return err_set(err, ERR_LIMIT, "too many repetitions");
	if (most == NO_LIMIT && !least) {
		op_insert(p, at, op_split(1, n + 2));
		op_add(p, (struct pattern_op){ .kind = OP_JUMP, .x = (int16_t) - (int)(n + 1) });
		return 0;
	}
	part = NEW_N(struct pattern_op, n + 1);
	if (n)
		memcpy(part, p->ops + at, n * sizeof(*part));
	p->n_ops = at;
	for (uint32_t i = 0; i < least; i++)
		for (size_t k = 0; k < n; k++)
			op_add(p, part[k]);
	if (most == NO_LIMIT)
		op_add(p, (struct pattern_op){ .kind = OP_SPLIT, .x = (int16_t) - (int)n, .y = 1 });
	for (uint64_t i = 0; i < optional; i++) {
		op_add(p, op_split(1, (size_t)(optional - i) * (n + 1)));
		for (size_t k = 0; k < n; k++)
			op_add(p, part[k]);
	}
	return 0;
}

/* ---- parentheses and alternatives ---- */

static int pattern_level_open(struct pattern_reader *r, struct err *err)
{
	size_t n = r->out->n_ops;

	if (r->depth == PATTERN_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "parentheses are nested more than %u deep", PATTERN_MAX_DEPTH);
	r->levels[++r->depth] = (struct pattern_level){ n, n, NO_PART, -1 };
	return 0;
}

static int level_alternative(struct pattern_reader *r, struct err *err)
{
	struct pattern_level *l = &r->levels[r->depth];
	struct pattern *p = r->out;

	if (ops_room(r, 2, err) < 0)
		return -1;
	op_insert(p, l->alternative, op_split(1, p->n_ops - l->alternative + 2));
	op_add(p, (struct pattern_op){ .kind = OP_JUMP, .x = (int16_t)l->ends });
	l->ends = (int32_t)p->n_ops - 1;
	l->alternative = p->n_ops;
	l->part = NO_PART;
	return 0;
}

/* All alternatives but the last jump here. */
static void level_end(struct pattern_reader *r)
{
	struct pattern_level *l = &r->levels[r->depth];
	struct pattern *p = r->out;

	for (int32_t at = l->ends; at >= 0;) {
		int32_t before = p->ops[at].x;

		p->ops[at].x = (int16_t)((int32_t)p->n_ops - at);
		at = before;
	}
}

static int level_close(struct pattern_reader *r, struct err *err)
{
	size_t start = r->levels[r->depth].start;

	if (!r->depth)
		return err_set(err, ERR_INVALID, "unmatched )");
	level_end(r);
	r->depth--;
	r->levels[r->depth].part = start;
	return 0;
}

/* ---- the text ---- */

static int part_escaped(struct pattern_reader *r, struct err *err)
{
	static const char borders[] = "`'bB<>";
	static const uint8_t what[] = {
		AT_BEGIN, AT_END, AT_BORDER, AT_NO_BORDER, AT_WORD_BEGIN, AT_WORD_END
	};
	const char *border;
	struct byte_set s;
	char c;

	if (r->p == r->end)
		return err_set(err, ERR_INVALID, "ends in a backslash");
	c = *r->p++;
	if (c >= '1' && c <= '9')
		return err_set(err, ERR_INVALID, "back references are not supported");
	border = c ? strchr(borders, c) : NULL;
	if (border)
		return part_assert(r, (enum assertion)what[border - borders], err);
	if (c != 'w' && c != 'W' && c != 's' && c != 'S')
		return c ? part_byte(r, c, err) : err_set(err, ERR_INVALID, "contains a NUL byte");
	s = c == 'w' || c == 'W' ? set_of_class(STR("alnum"), true, c == 'W')
				 : set_of_class(STR("space"), false, c == 'S');
	return part_set(r, &s, err);
}

static int pattern_step(struct pattern_reader *r, struct err *err)
{
	/* A dot is any byte but NUL. */
	static const struct byte_set any = { { ~UINT64_C(1), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0) } };
	uint32_t least, most;
	char c = *r->p++;

	switch (c) {
	case '\0':
		return err_set(err, ERR_INVALID, "contains a NUL byte");
	case '\\':
		return part_escaped(r, err);
	case '[':
		return part_brackets(r, err);
	case '(':
		return pattern_level_open(r, err);
	case ')':
		return level_close(r, err);
	case '|':
		return level_alternative(r, err);
	case '^':
		return part_assert(r, AT_BEGIN, err);
	case '$':
		return part_assert(r, AT_END, err);
	case '.':
		return part_set(r, &any, err);
	case '*':
		return part_repeat(r, 0, NO_LIMIT, err);
	case '+':
		return part_repeat(r, 1, NO_LIMIT, err);
	case '?':
		return part_repeat(r, 0, 1, err);
	case '{':
		if (interval_read(r, &least, &most, err) < 0)
			return -1;
		return part_repeat(r, least, most, err);
	default:
		return part_byte(r, c, err);
	}
}

static int pattern_compile(struct pattern *p, struct str text, struct err *err)
{
	struct pattern_reader r = { .out = p, .p = text.p, .end = text.p + text.size };

	if (text.size > PATTERN_MAX_SIZE)
		return err_set(err, ERR_LIMIT, "more than %u bytes", PATTERN_MAX_SIZE);
	if (p->whole)
		op_add(p, (struct pattern_op){ .kind = OP_ASSERT, .byte = AT_BEGIN });
	r.levels[0] = (struct pattern_level){ p->n_ops, p->n_ops, NO_PART, -1 };
	while (r.p < r.end)
		if (pattern_step(&r, err) < 0)
			return -1;
	if (r.depth)
		return err_set(err, ERR_INVALID, "unmatched (");
	if (ops_room(&r, 2, err) < 0)
		return -1;
	level_end(&r);
	if (p->whole)
		op_add(p, (struct pattern_op){ .kind = OP_ASSERT, .byte = AT_END });
	op_add(p, (struct pattern_op){ .kind = OP_MATCH });
	return 0;
}

int pattern_new(struct str text, bool whole, struct pattern **ret, struct err *err)
{
	struct pattern *p = NEW(struct pattern);

	p->whole = whole;
	if (pattern_compile(p, text, err) < 0) {
		pattern_free(p);
		return -1;
	}
	pattern_match_init(p);
	*ret = p;
	return 0;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	pattern_match_done(p);
	free(p->ops);
	free(p->sets);
	free(p);
}
