/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by pattern.c, which compiles, and pattern_match.c, which matches: a pattern as operations. */
#pragma once

#include "base/map.h"
#include "base/pattern.h"

enum op_kind {
	OP_BYTE,   /* this byte, then the next operation */
	OP_SET,    /* a byte of this set, likewise */
	OP_SPLIT,  /* go on at x and at y */
	OP_JUMP,   /* go on at x */
	OP_ASSERT, /* if it holds here, go on with the next operation */
	OP_MATCH
};
enum assertion { AT_BEGIN, AT_END, AT_BORDER, AT_NO_BORDER, AT_WORD_BEGIN, AT_WORD_END };

/* x and y are relative to the operation, so that code can be moved and copied. */
struct pattern_op {
	uint8_t kind;
	uint8_t byte; /* or the assertion */
	uint16_t set;
	int16_t x, y;
};

struct byte_set {
	uint64_t bits[4];
};
static inline bool set_has(const struct byte_set *s, unsigned b)
{
	return s->bits[b / 64] >> b % 64 & 1;
}
static inline void set_add(struct byte_set *s, unsigned b)
{
	s->bits[b / 64] |= UINT64_C(1) << b % 64;
}
static inline bool byte_is_word(unsigned b)
{
	return (b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'z') || b == '_';
}

struct pattern_state;

struct pattern {
	struct pattern_op *ops;
	size_t n_ops, room_ops;
	struct byte_set *sets;
	size_t n_sets, room_sets;
	bool whole;
	/* Bytes that no operation tells apart are one class; the last class is the end of the text. */
	uint8_t class_of[256];
	uint8_t byte_of[256]; /* of each class: one of its bytes */
	unsigned n_classes;
	/* the matcher's: states that were met, at most PATTERN_CACHE bytes of them */
	struct map states;
	size_t states_size;
	struct pattern_state *first;
	uint32_t *seen; /* of each operation: the round in which it was met last */
	uint32_t round;
	uint16_t *stack, *list;
	uint64_t *next; /* a bit for each operation */
};

void pattern_match_init(struct pattern *p); /* after the operations are complete */
void pattern_match_done(struct pattern *p);
