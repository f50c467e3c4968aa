/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: their cost is computed, then the C library compiles them.
 */
#include "base/pattern.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

struct pattern {
	regex_t re;
};

/* The computation in one pass over the text. An open parenthesis saves the level before it. */
struct pattern_reader {
	const char *p, *end;
	unsigned depth;
	uint64_t n_anchors;
	struct pattern_level {
		uint64_t all;                   /* the cost of this level so far */
		uint64_t last;                  /* the cost of its last part, which may be repeated */
		bool last_empty;                /* the last part may be empty */
		bool before_empty;              /* and all parts before it in this alternative */
		bool any_empty;                 /* and one of the alternatives before */
		uint64_t anchors, last_anchors; /* in the whole level, in the last part */
	} levels[PATTERN_MAX_DEPTH + 1];
};

static void brackets_skip(struct pattern_reader *r)
{
	if (r->p < r->end && *r->p == '^')
		r->p++;
	if (r->p < r->end && *r->p == ']')
		r->p++;
	while (r->p < r->end && *r->p != ']') {
		char kind = r->end - r->p > 1 && *r->p == '[' ? r->p[1] : 0;

		if (kind != ':' && kind != '.' && kind != '=') {
			r->p++;
			continue;
		}
		/* "[:alpha:]" */
		for (r->p += 2; r->p < r->end && !(*r->p == kind && r->end - r->p > 1 && r->p[1] == ']');)
			r->p++;
		r->p += MIN((ptrdiff_t)2, r->end - r->p);
	}
	r->p += r->p < r->end;
}

static uint64_t number_read(struct pattern_reader *r)
{
	uint64_t n = 0;

	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		n = MIN(n * 10 + (uint64_t)(*r->p - '0'), (uint64_t)PATTERN_MAX_COST + 1);
	return n;
}

/* "3,5}": the highest count; "3,}" has no limit. */
static uint64_t interval_read(struct pattern_reader *r, bool *ret_none, bool *ret_endless)
{
	uint64_t least = number_read(r), most = least;

	*ret_endless = false;
	if (r->p < r->end && *r->p == ',') {
		r->p++;
		*ret_endless = r->p < r->end && *r->p == '}';
		most = MAX(number_read(r), least + 1);
	}
	if (r->p < r->end && *r->p == '}')
		r->p++;
	*ret_none = !least;
	return MAX(most, UINT64_C(1));
}

static void part_add(struct pattern_level *l, uint64_t cost, bool empty)
{
	l->all += cost;
	l->last = cost;
	l->before_empty &= l->last_empty;
	l->last_empty = empty;
	l->last_anchors = 0;
}

static int anchors_add(struct pattern_reader *r, struct pattern_level *l, uint64_t n, struct err *err)
{
	l->anchors += n;
	r->n_anchors += n;
	return r->n_anchors <= PATTERN_MAX_ANCHORS
		       ? 0
		       : err_set(err, ERR_LIMIT, "more than %u anchors", PATTERN_MAX_ANCHORS);
}

static int part_anchor(struct pattern_reader *r, struct pattern_level *l, struct err *err)
{
	part_add(l, 1, true);
	l->last_anchors = 1;
	return anchors_add(r, l, 1, err);
}

static void level_alternative(struct pattern_level *l)
{
	l->any_empty |= l->before_empty && l->last_empty;
	l->before_empty = l->last_empty = true;
	l->all++;
	l->last = l->last_anchors = 0;
}

static int part_repeat(struct pattern_reader *r, struct pattern_level *l, uint64_t times, bool none,
		       bool endless, struct err *err)
{
	uint64_t before = l->last, more = l->last_anchors * (times - 1);

	if (endless && l->last_empty)
		return err_set(err, ERR_INVALID,
			       "a part that may be empty is repeated without limit, as in (a*)*: write a*");
	l->last = MIN(l->last * times + 1, (uint64_t)PATTERN_MAX_COST + 1);
	l->all += l->last - MIN(before, l->last);
	l->last_empty |= none;
	l->last_anchors += more;
	return anchors_add(r, l, more, err);
}

static int part_escaped(struct pattern_reader *r, struct pattern_level *l, struct err *err)
{
	char c;

	if (r->p == r->end)
		return err_set(err, ERR_INVALID, "ends in a backslash");
	c = *r->p++;
	if (c >= '1' && c <= '9')
		return err_set(err, ERR_INVALID, "back references are not supported");
	/* GNU extensions: borders of words and of the text. */
	if (c && strchr("bB<>`'", c))
		return part_anchor(r, l, err);
	part_add(l, 1, false);
	return 0;
}

static int pattern_step(struct pattern_reader *r, struct err *err)
{
	struct pattern_level *l = &r->levels[r->depth];
	bool none, endless;
	uint64_t times;
	char c = *r->p++;

	switch (c) {
	case '\0':
		return err_set(err, ERR_INVALID, "contains a NUL byte");
	case '\\':
		return part_escaped(r, l, err);
	case '[':
		brackets_skip(r);
		part_add(l, 1, false);
		return 0;
	case '(':
		if (r->depth == PATTERN_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "parentheses are nested more than %u deep",
				       PATTERN_MAX_DEPTH);
		r->levels[++r->depth] = (struct pattern_level){ .all = 1,
								.last_empty = true,
								.before_empty = true };
		return 0;
	case ')':
		if (!r->depth)
			return err_set(err, ERR_INVALID, "unmatched )");
		r->depth--;
		level_alternative(l);
		part_add(l - 1, l->all - 1, l->any_empty);
		l[-1].anchors += l->anchors;
		l[-1].last_anchors = l->anchors;
		return 0;
	case '|':
		level_alternative(l);
		return 0;
	case '^':
	case '$':
		return part_anchor(r, l, err);
	case '*':
		return part_repeat(r, l, 1, true, true, err);
	case '?':
		return part_repeat(r, l, 1, true, false, err);
	case '+':
		return part_repeat(r, l, 2, false, true, err);
	case '{':
		times = interval_read(r, &none, &endless);
		return part_repeat(r, l, times, none, endless, err);
	default:
		part_add(l, 1, false);
		return 0;
	}
}

static int pattern_cost(struct str text, struct err *err)
{
	struct pattern_reader r = { .p = text.p, .end = text.p + text.size };

	r.levels[0].last_empty = r.levels[0].before_empty = true;
	if (text.size > PATTERN_MAX_SIZE)
		return err_set(err, ERR_LIMIT, "more than %u bytes", PATTERN_MAX_SIZE);
	while (r.p < r.end) {
		if (pattern_step(&r, err) < 0)
			return -1;
		if (r.levels[r.depth].all > PATTERN_MAX_COST)
			return err_set(err, ERR_LIMIT, "too many repetitions");
	}
	return r.depth ? err_set(err, ERR_INVALID, "unmatched (") : 0;
}

int pattern_new(struct str text, bool whole, struct pattern **ret, struct err *err)
{
	AUTO(mem_freep) char *z = NULL;
	struct pattern *p;
	char why[128];
	int r;

	if (pattern_cost(text, err) < 0)
		return -1;
	z = mem_printf(whole ? "^(%.*s)$" : "%.*s", (int)text.size, text.size ? text.p : "");
	p = NEW(struct pattern);
	r = regcomp(&p->re, z, REG_EXTENDED | REG_NOSUB);
	if (r) {
		regerror(r, &p->re, why, sizeof(why));
		free(p);
		return err_set(err, ERR_INVALID, "%s", why);
	}
	*ret = p;
	return 0;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	regfree(&p->re);
	free(p);
}

bool pattern_matches(const struct pattern *p, struct str s)
{
	/* glibc's interface for a text without a NUL after it. */
	regmatch_t all = { .rm_so = 0, .rm_eo = (regoff_t)MIN(s.size, (size_t)1 << 20) };

	return regexec(&p->re, s.p ? s.p : "", 0, &all, REG_STARTEND) == 0;
}
