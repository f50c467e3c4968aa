/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: reckoned, then compiled by the C library.
 */
#include "base/pattern.h"

#include <regex.h>
#include <stdlib.h>
#include "base/mem.h"

struct pattern {
	regex_t re;
};

/* One pass over the text. An open parenthesis keeps what was before it. */
struct reckoning {
	const char *p, *end;
	unsigned depth;
	struct level {
		uint64_t all,
			last; /* of what was read of this level; of the last thing, which may be repeated */
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

/* "3,5}": how often that is. */
static uint64_t interval(struct reckoning *r)
{
	uint64_t least = number(r), most = least;

	if (r->p < r->end && *r->p == ',') {
		r->p++;
		most = MAX(number(r), least + 1);
	}
	if (r->p < r->end && *r->p == '}')
		r->p++;
	return MAX(most, UINT64_C(1));
}

static void add(struct level *l, uint64_t cost)
{
	l->all += cost;
	l->last = cost;
}

static void repeat(struct level *l, uint64_t times)
{
	uint64_t before = l->last;

	l->last = MIN(l->last * times + 1, (uint64_t)PATTERN_MAX_COST + 1);
	l->all += l->last - MIN(before, l->last);
}

static int step(struct reckoning *r, struct err *err)
{
	struct level *l = &r->levels[r->depth];
	char c = *r->p++;

	switch (c) {
	case '\0':
		return err_set(err, ERR_INVALID, "a NUL in it");
	case '\\':
		if (r->p == r->end)
			return err_set(err, ERR_INVALID, "it ends in a backslash");
		if (*r->p >= '1' && *r->p <= '9')
			return err_set(err, ERR_INVALID, "references back are not taken");
		r->p++;
		add(l, 1);
		return 0;
	case '[':
		skip_brackets(r);
		add(l, 1);
		return 0;
	case '(':
		if (r->depth == PATTERN_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "more than %u parentheses within each other",
				       PATTERN_MAX_DEPTH);
		r->levels[++r->depth] = (struct level){ 1, 0 };
		return 0;
	case ')':
		if (!r->depth)
			return err_set(err, ERR_INVALID, "a ) without its (");
		r->depth--;
		add(l - 1, l->all);
		return 0;
	case '*':
	case '?':
		repeat(l, 1);
		return 0;
	case '+':
		repeat(l, 2);
		return 0;
	case '{':
		repeat(l, interval(r));
		return 0;
	default:
		add(l, 1);
		return 0;
	}
}

static int reckon(struct str text, struct err *err)
{
	struct reckoning r = { .p = text.p, .end = text.p + text.size };

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
