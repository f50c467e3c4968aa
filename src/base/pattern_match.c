/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: the matcher.
 *
 * At each byte of the text a match may have got to several operations: a state is a set of these, as they are
 * before assertions are tried, with the kind of the byte before. The state after a byte is computed when it is first
 * needed, and kept: usually a match takes one table lookup for each byte. When the kept states take more than
 * PATTERN_CACHE bytes all are dropped, so a pattern with very many states costs a computation for each byte, and
 * no more memory.
 */
#include <stdlib.h>
#include <string.h>
#include "base/base.h"
#include "base/pattern_ops.h"

#define CHECK_EVERY 256u /* bytes of text */

enum before { BEFORE_TEXT, AFTER_WORD, AFTER_OTHER };

struct pattern_state {
	enum before before;
	uint16_t n;                   /* operations */
	struct pattern_state *next[]; /* of each class, NULL: not known; then the operations, in order */
};

/* These two have no operations. */
static struct pattern_state matched_state, dead_state;

/* ---- classes of bytes ---- */

/* Tell the bytes of @s from others. */
static void classes_refine(struct pattern *p, const struct byte_set *s)
{
	int16_t inside[256];
	unsigned n = p->n_classes;
	bool has_outside[256] = { false };

	memset(inside, -1, sizeof(inside));
	for (unsigned b = 0; b < 256; b++)
		has_outside[p->class_of[b]] |= !set_has(s, b);
	for (unsigned b = 0; b < 256; b++) {
		unsigned c = p->class_of[b];

		if (!set_has(s, b) || !has_outside[c])
			continue;
		if (inside[c] < 0)
			inside[c] = (int16_t)n++;
		p->class_of[b] = (uint8_t)inside[c];
	}
	p->n_classes = n;
}

static void classes_find(struct pattern *p)
{
	struct byte_set word = { { 0 } }, alone = { { 0 } };

	p->n_classes = 1;
	for (unsigned b = 0; b < 256; b++)
		if (byte_is_word(b))
			set_add(&word, b);
	classes_refine(p, &word);
	for (size_t i = 0; i < p->n_sets; i++)
		classes_refine(p, &p->sets[i]);
	for (size_t i = 0; i < p->n_ops; i++) {
		struct byte_set one = { { 0 } };

		if (p->ops[i].kind != OP_BYTE || set_has(&alone, p->ops[i].byte))
			continue;
		set_add(&alone, p->ops[i].byte);
		set_add(&one, p->ops[i].byte);
		classes_refine(p, &one);
	}
	for (unsigned b = 0; b < 256; b++)
		p->byte_of[p->class_of[b]] = (uint8_t)b;
}

/* ---- states ---- */

static size_t state_size(const struct pattern *p, size_t n)
{
	return sizeof(struct pattern_state) + (p->n_classes + 1) * sizeof(struct pattern_state *) +
	       n * sizeof(uint16_t);
}

static uint16_t *state_ops(const struct pattern *p, struct pattern_state *s)
{
	return (uint16_t *)&s->next[p->n_classes + 1];
}

static void states_drop(struct pattern *p)
{
	struct bytes key;
	void *value;

	map_each (&p->states, it, &key, &value)
		free(value);
	map_done(&p->states);
	p->states = (struct map){ 0 };
	p->states_size = 0;
	p->first = NULL;
}

/* The state with the operations in p->list[1] and on; p->list[0] is @before. */
static struct pattern_state *state_of_list(struct pattern *p, enum before before, size_t n, bool *ret_dropped)
{
	struct bytes key;
	struct pattern_state *s;

	if (!n)
		return &dead_state;
	p->list[0] = (uint16_t)before;
	key = bytes_of(p->list, (n + 1) * sizeof(*p->list));
	s = map_get(&p->states, key);
	if (s)
		return s;
	*ret_dropped = p->states_size > PATTERN_CACHE;
	if (*ret_dropped)
		states_drop(p);
	s = mem_zalloc(state_size(p, n));
	s->before = before;
	s->n = (uint16_t)n;
	memcpy(state_ops(p, s), p->list + 1, n * sizeof(*p->list));
	map_put(&p->states, key, s);
	/* The key and its entry in the map take about as much again as the operations. */
	p->states_size += state_size(p, n) + n * sizeof(uint16_t) + 64;
	return s;
}

static struct pattern_state *first_state(struct pattern *p)
{
	bool ignored;

	if (!p->first) {
		p->list[1] = 0;
		p->first = state_of_list(p, BEFORE_TEXT, 1, &ignored);
	}
	return p->first;
}

/* ---- a step ---- */

static bool assertion_holds(enum assertion what, enum before before, bool at_end, bool word_next)
{
	bool word_before = before == AFTER_WORD;

	switch (what) {
	case AT_BEGIN:
		return before == BEFORE_TEXT;
	case AT_END:
		return at_end;
	case AT_BORDER:
		return word_before != word_next;
	case AT_NO_BORDER:
		return word_before == word_next;
	case AT_WORD_BEGIN:
		return !word_before && word_next;
	case AT_WORD_END:
		break;
	}
	return word_before && !word_next;
}

static void stack_push(struct pattern *p, size_t *n, size_t op)
{
	if (p->seen[op] == p->round)
		return;
	p->seen[op] = p->round;
	p->stack[(*n)++] = (uint16_t)op;
}

static void next_add(struct pattern *p, size_t op)
{
	p->next[op / 64] |= UINT64_C(1) << op % 64;
}

/* All operations that @s gets to without a byte; those after a byte of @cls are left in p->next. true: a match. */
static bool state_step(struct pattern *p, struct pattern_state *s, unsigned cls)
{
	bool at_end = cls == p->n_classes;
	unsigned byte = at_end ? 0 : p->byte_of[cls];
	bool word = !at_end && byte_is_word(byte);
	const uint16_t *ops = state_ops(p, s);
	size_t n = 0;

	if (!++p->round) {
		memset(p->seen, 0, p->n_ops * sizeof(*p->seen));
		p->round = 1;
	}
	for (size_t i = 0; i < s->n; i++)
		stack_push(p, &n, ops[i]);
	while (n) {
		size_t i = p->stack[--n];
		const struct pattern_op *op = &p->ops[i];

		switch ((enum op_kind)op->kind) {
		case OP_MATCH:
			return true;
		case OP_SPLIT:
			stack_push(p, &n, i + (size_t)op->y);
			stack_push(p, &n, i + (size_t)op->x);
			break;
		case OP_JUMP:
			stack_push(p, &n, i + (size_t)op->x);
			break;
		case OP_ASSERT:
			if (assertion_holds((enum assertion)op->byte, s->before, at_end, word))
				stack_push(p, &n, i + 1);
			break;
		case OP_BYTE:
			if (!at_end && op->byte == byte)
				next_add(p, i + 1);
			break;
		case OP_SET:
			if (!at_end && set_has(&p->sets[op->set], byte))
				next_add(p, i + 1);
			break;
		}
	}
	return false;
}

/* The state after a byte of @cls. @s may be dropped. */
static struct pattern_state *state_after(struct pattern *p, struct pattern_state *s, unsigned cls)
{
	size_t n_words = p->n_ops / 64 + 1, n = 0;
	struct pattern_state *next = &matched_state;
	bool dropped = false;

	memset(p->next, 0, n_words * sizeof(*p->next));
	if (!state_step(p, s, cls)) {
		/* A match may begin anywhere. */
		if (!p->whole && cls < p->n_classes)
			next_add(p, 0);
		for (size_t w = 0; w < n_words; w++)
			for (uint64_t bits = p->next[w]; bits; bits &= bits - 1)
				p->list[1 + n++] = (uint16_t)(w * 64 + (size_t)__builtin_ctzll(bits));
		next = state_of_list(
			p, cls < p->n_classes && byte_is_word(p->byte_of[cls]) ? AFTER_WORD : AFTER_OTHER, n,
			&dropped);
	}
	if (!dropped)
		s->next[cls] = next;
	return next;
}

bool pattern_matches(struct pattern *p, struct str text, struct deadline *d)
{
	size_t size = MIN(text.size, (size_t)PATTERN_MAX_TEXT);
	struct pattern_state *s = first_state(p);

	for (size_t i = 0; i <= size; i++) {
		unsigned cls = i < size ? p->class_of[(uint8_t)text.p[i]] : p->n_classes;
		struct pattern_state *next = s->next[cls];

		/* Bytes after the last one that is looked at are not known. */
		if (i == size && size < text.size)
			break;
		if (!next) {
			if (deadline_over(d, (uint32_t)p->n_ops))
				return false;
			next = state_after(p, s, cls);
		} else if (i % CHECK_EVERY == CHECK_EVERY - 1 && deadline_over(d, CHECK_EVERY)) {
			return false;
		}
		if (next == &matched_state || next == &dead_state)
			return next == &matched_state;
		s = next;
	}
	return false;
}

/* ---- its memory ---- */

void pattern_match_init(struct pattern *p)
{
	size_t n = p->n_ops + 2;

	classes_find(p);
	p->seen = mem_zalloc(n * sizeof(*p->seen));
	p->stack = mem_zalloc(n * sizeof(*p->stack));
	p->list = mem_zalloc(n * sizeof(*p->list));
	p->next = mem_zalloc((n / 64 + 1) * sizeof(*p->next));
}

void pattern_match_done(struct pattern *p)
{
	states_drop(p);
	free(p->seen);
	free(p->stack);
	free(p->list);
	free(p->next);
}
