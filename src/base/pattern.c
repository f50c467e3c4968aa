/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: reckoned, then compiled by the C library.
 */
#include "base/pattern.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

struct pattern {
	regex_t re;
};

/* One pass over the text. An open parenthesis keeps what was before it. */
struct reckoning {
	const char *p, *end;
	unsigned depth;
	uint64_t n_anchors;
	struct level {
		uint64_t all;                   /* what was read of this level costs */
		uint64_t last;                  /* ... and the last thing of it, which may be repeated */
		bool last_empty;                /* the last thing may be empty; */
		bool before_empty;              /* so may all before it, of this alternative; */
		bool any_empty;                 /* so may one of the alternatives before */
		uint64_t anchors, last_anchors; /* in all of it, in the last thing */
	} levels[PATTERN_MAX_DEPTH + 1];
};

static void skip_brackets(struct reckoning *r)
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

static uint64_t number(struct reckoning *r)
{
	uint64_t n = 0;

	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		n = MIN(n * 10 + (uint64_t)(*r->p - '0'), (uint64_t)PATTERN_MAX_COST + 1);
	return n;
}

/* "3,5}": how often that is, at the most; "3,}" is without an end. */
static uint64_t interval(struct reckoning *r, bool *ret_none, bool *ret_endless)
{
	uint64_t least = number(r), most = least;

	*ret_endless = false;
	if (r->p < r->end && *r->p == ',') {
		r->p++;
		*ret_endless = r->p < r->end && *r->p == '}';
		most = MAX(number(r), least + 1);
	}
	if (r->p < r->end && *r->p == '}')
		r->p++;
	*ret_none = !least;
	return MAX(most, UINT64_C(1));
}

static void add(struct level *l, uint64_t cost, bool empty)
{
	l->all += cost;
	l->last = cost;
	l->before_empty &= l->last_empty;
	l->last_empty = empty;
	l->last_anchors = 0;
}

static int more_anchors(struct reckoning *r, struct level *l, uint64_t n, struct err *err)
{
	l->anchors += n;
	r->n_anchors += n;
	return r->n_anchors <= PATTERN_MAX_ANCHORS
		       ? 0
		       : err_set(err, ERR_LIMIT, "more than %u anchors", PATTERN_MAX_ANCHORS);
}

static int anchor(struct reckoning *r, struct level *l, struct err *err)
{
	add(l, 1, true);
	l->last_anchors = 1;
	return more_anchors(r, l, 1, err);
}

static void alternative(struct level *l)
{
	l->any_empty |= l->before_empty && l->last_empty;
	l->before_empty = l->last_empty = true;
	l->all++;
	l->last = l->last_anchors = 0;
}

static int repeat(struct reckoning *r, struct level *l, uint64_t times, bool none, bool endless,
		  struct err *err)
{
	uint64_t before = l->last, more = l->last_anchors * (times - 1);

	if (endless && l->last_empty)
		return err_set(err, ERR_INVALID,
			       "what may be empty is repeated without end, as in (a*)*: that is a*");
	l->last = MIN(l->last * times + 1, (uint64_t)PATTERN_MAX_COST + 1);
	l->all += l->last - MIN(before, l->last);
	l->last_empty |= none;
	l->last_anchors += more;
	return more_anchors(r, l, more, err);
}

static int escaped(struct reckoning *r, struct level *l, struct err *err)
{
	char c;

	if (r->p == r->end)
		return err_set(err, ERR_INVALID, "it ends in a backslash");
	c = *r->p++;
	if (c >= '1' && c <= '9')
		return err_set(err, ERR_INVALID, "references back are not taken");
	/* Of GNU: borders of words and of the text. */
	if (c && strchr("bB<>`'", c))
		return anchor(r, l, err);
	add(l, 1, false);
	return 0;
}

static int step(struct reckoning *r, struct err *err)
{
	struct level *l = &r->levels[r->depth];
	bool none, endless;
	uint64_t times;
	char c = *r->p++;

	switch (c) {
	case '\0':
		return err_set(err, ERR_INVALID, "a NUL in it");
	case '\\':
		return escaped(r, l, err);
	case '[':
		skip_brackets(r);
		add(l, 1, false);
		return 0;
	case '(':
		if (r->depth == PATTERN_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "more than %u parentheses within each other",
				       PATTERN_MAX_DEPTH);
		r->levels[++r->depth] = (struct level){ .all = 1, .last_empty = true, .before_empty = true };
		return 0;
	case ')':
		if (!r->depth)
			return err_set(err, ERR_INVALID, "a ) without its (");
		r->depth--;
		alternative(l);
		add(l - 1, l->all - 1, l->any_empty);
		l[-1].anchors += l->anchors;
		l[-1].last_anchors = l->anchors;
		return 0;
	case '|':
		alternative(l);
		return 0;
	case '^':
	case '$':
		return anchor(r, l, err);
	case '*':
		return repeat(r, l, 1, true, true, err);
	case '?':
		return repeat(r, l, 1, true, false, err);
	case '+':
		return repeat(r, l, 2, false, true, err);
	case '{':
		times = interval(r, &none, &endless);
		return repeat(r, l, times, none, endless, err);
	default:
		add(l, 1, false);
		return 0;
	}
}

static int reckon(struct str text, struct err *err)
{
	struct reckoning r = { .p = text.p, .end = text.p + text.size };

	r.levels[0].last_empty = r.levels[0].before_empty = true;
	if (text.size > PATTERN_MAX_SIZE)
		return err_set(err, ERR_LIMIT, "more than %u bytes", PATTERN_MAX_SIZE);
	while (r.p < r.end) {
		if (step(&r, err) < 0)
			return -1;
		if (r.levels[r.depth].all > PATTERN_MAX_COST)
			return err_set(err, ERR_LIMIT, "it repeats too much");
	}
	return r.depth ? err_set(err, ERR_INVALID, "a ( without its )") : 0;
}

int pattern_new(struct str text, bool whole, struct pattern **ret, struct err *err)
{
	AUTO(mem_freep) char *z = NULL;
	struct pattern *p;
	char why[128];
	int r;

	if (reckon(text, err) < 0)
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
	/* glibc's way of giving a text without a NUL behind it. */
	regmatch_t all = { .rm_so = 0, .rm_eo = (regoff_t)MIN(s.size, (size_t)1 << 20) };

	return regexec(&p->re, s.p ? s.p : "", 0, &all, REG_STARTEND) == 0;
}
