/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _init and _fini, in the sections .init and .fini. The linker puts them together of pieces of assembly code: a beginning
 * and an end, from the C library, and calls in between, of any object file. They have no entries in .eh_frame.
 *
 * Glibc's beginning is "sub $8, %rsp", musl's "push %rax"; an endbr64 may be before it. The calls are read one instruction
 * after the other, since each of a form that is not known here might change the stack.
 */
#include "unwind/internal.h"

#define MOST 256u /* bytes of such a section */

struct form {
	uint8_t n, size; /* bytes that are compared, and of the whole instruction */
	uint8_t bytes[4];
};

static const struct form between[] = {
	{ 3, 7, { 0x48, 0x8b, 0x05 } },       /* mov word, %rax */
	{ 3, 3, { 0x48, 0x85, 0xc0 } },       /* test %rax, %rax */
	{ 3, 8, { 0x48, 0x83, 0x3d } },       /* cmpq $n, word */
	{ 1, 2, { 0x74 } },                   /* je */
	{ 2, 2, { 0xff, 0xd0 } },             /* call *%rax */
	{ 2, 6, { 0xff, 0x15 } },             /* call *word */
	{ 1, 5, { 0xe8 } },                   /* call */
	{ 1, 1, { 0x90 } },                   /* nop */
	{ 2, 2, { 0x66, 0x90 } },             /* nop */
	{ 4, 4, { 0x0f, 0x1f, 0x40, 0x00 } }, /* nop */
};

static const struct form begins[] = { { 4, 4, { 0x48, 0x83, 0xec, 8 } }, { 1, 1, { 0x50 } } };
static const struct form ends[] = { { 4, 4, { 0x48, 0x83, 0xc4, 8 } }, { 1, 1, { 0x58 } } };

static bool is_form(const struct form *f, const uint8_t *p, size_t n)
{
	return n >= f->size && memcmp(p, f->bytes, f->n) == 0;
}

/* The size of the instruction between the beginning and the end; 0: another one. */
static size_t size_between(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(between); i++)
		if (is_form(&between[i], p, n))
			return between[i].size;
	return 0;
}

static bool read_form(const uint8_t *p, size_t n, struct init_code *ret)
{
	static const struct form endbr = { 4, 4, { 0xf3, 0x0f, 0x1e, 0xfa } };
	size_t at = is_form(&endbr, p, n) ? endbr.size : 0, size, k = 0;

	while (k < ARRAY_SIZE(begins) && !is_form(&begins[k], p + at, n - at))
		k++;
	if (k == ARRAY_SIZE(begins))
		return false;
	at += begins[k].size;
	ret->begun = at;
	while ((size = size_between(p + at, n - at)))
		at += size;
	if (!is_form(&ends[k], p + at, n - at))
		return false;
	at += ends[k].size;
	ret->ends = at;
	return at + 1 == n && p[at] == 0xc3;
}

int init_find(const struct build *b, uint64_t start, uint64_t end, struct init_code *ret, struct err *err)
{
	uint8_t code[MOST];
	size_t n;

	if (end - start > sizeof(code))
		return 0;
	if (gap_read_code(b, start, code, (size_t)(end - start), &n, err) < 0)
		return -1;
	return n == end - start && read_form(code, n, ret);
}
