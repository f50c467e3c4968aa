/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of whole ELF files with the files beside them. The input is one ELF file, or a bundle: "LODEPART", then
 * parts, each a byte for its role, its size (4 bytes, little endian) and its bytes.
 *
 * The file in .gnu_debugdata is a part of its own, which is compressed here: so the mutator, which knows ELF and
 * abbreviations (elf_mutate.h), reaches what is within. At the end the share of runs that made a table goes to
 * stderr, if $LODE_FUZZ_SHARE is set.
 */
#include "symtab_check.h"

#include <lzma.h>
#include <string.h>
#include "elf_mutate.h"

#define MAGIC "LODEPART"

enum role { ROLE_MAIN, ROLE_MINI, ROLE_ALT, ROLE_SPLIT, ROLE_DWP, N_ROLES };

struct bundle {
	struct buf parts[N_ROLES];
};

static void bundle_done(struct bundle *b)
{
	for (size_t i = 0; i < N_ROLES; i++)
		buf_done(&b->parts[i]);
}

static void bundle_read(struct bytes in, struct bundle *ret)
{
	struct cursor c = cursor_of(in);

	*ret = (struct bundle){ 0 };
	if (in.size < sizeof(MAGIC) - 1 || memcmp(in.p, MAGIC, sizeof(MAGIC) - 1) != 0) {
		if (in.size)
			buf_add(&ret->parts[ROLE_MAIN], in.p, in.size);
		return;
	}
	(void)cursor_bytes(&c, sizeof(MAGIC) - 1);
	while (cursor_left(&c) >= 5) {
		enum role role = cursor_u8(&c) % N_ROLES;
		size_t size = cursor_u32(&c);
		struct bytes b = cursor_bytes(&c, MIN(size, cursor_left(&c)));

		if (b.size && !ret->parts[role].size)
			buf_add(&ret->parts[role], b.p, b.size);
	}
}

static void bundle_write(const struct bundle *b, struct buf *ret)
{
	buf_add(ret, MAGIC, sizeof(MAGIC) - 1);
	for (unsigned i = 0; i < N_ROLES; i++) {
		uint8_t head[5] = { (uint8_t)i };

		for (unsigned k = 0; k < 4; k++)
			head[1 + k] = (uint8_t)(b->parts[i].size >> 8 * k);
		if (!b->parts[i].size)
			continue;
		buf_add(ret, head, sizeof(head));
		buf_add(ret, b->parts[i].p, b->parts[i].size);
	}
}

/* ---- mutation ---- */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
				 uint8_t *out, size_t max_size, unsigned seed);

/* A part of @b that is there. */
static struct buf *some_part(struct bundle *b, uint64_t *random)
{
	for (unsigned tries = 0; tries < 16; tries++) {
		struct buf *part = &b->parts[mutate_random(random, N_ROLES)];

		if (part->size)
			return part;
	}
	return &b->parts[ROLE_MAIN];
}

static void move_part(struct bundle *b, uint64_t *random)
{
	size_t from = mutate_random(random, N_ROLES), to = mutate_random(random, N_ROLES);

	if (from == to || !b->parts[from].size)
		return;
	buf_done(&b->parts[to]);
	buf_add(&b->parts[to], b->parts[from].p, b->parts[from].size);
}

static size_t mutate_bundle(struct bundle *b, struct bundle *donor, uint8_t *out, size_t max_size,
			    uint64_t random)
{
	AUTO(buf_done) struct buf text = { 0 };
	unsigned n = 1 + (unsigned)mutate_random(&random, 3);

	for (unsigned i = 0; i < n; i++) {
		struct bundle *from = donor ? donor : b;

		if (!mutate_random(&random, 40))
			move_part(b, &random);
		else
			elf_mutate(some_part(b, &random), some_part(from, &random), max_size / 2, &random);
	}
	bundle_write(b, &text);
	if (text.size > max_size)
		return 0;
	memcpy(out, text.p, text.size);
	return text.size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	AUTO(bundle_done) struct bundle b;
	size_t n;

	bundle_read(bytes_of(data, size), &b);
	n = mutate_bundle(&b, NULL, data, max_size, seed);
	return n ? n : size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
				 uint8_t *out, size_t max_size, unsigned seed)
{
	AUTO(bundle_done) struct bundle x, y;
	uint64_t random = seed;

	bundle_read(bytes_of(a, a_size), &x);
	bundle_read(bytes_of(b, b_size), &y);
	if (!mutate_random(&random, 3)) {
		struct buf *part = some_part(&y, &random);
		size_t role = (size_t)(part - y.parts);

		buf_done(&x.parts[role]);
		if (part->size)
			buf_add(&x.parts[role], part->p, part->size);
	}
	return mutate_bundle(&x, &y, out, max_size, random);
}

/* ---- the run ---- */

/* Make .gnu_debugdata of @main from the file @mini. */
static void put_mini(struct buf *main, const struct buf *mini)
{
	size_t room = lzma_stream_buffer_bound(mini->size), n = 0;
	AUTO(mem_freep) uint8_t *xz = mem_alloc(room);
	uint64_t section = elf_edit_find(main, ".gnu_debugdata");

	if (lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, mini->p, mini->size, xz, &n, room) != LZMA_OK)
		return;
	if (section)
		elf_edit_set_content(main, section, bytes_of(xz, n));
}

static int open_split(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		      struct err *err)
{
	*ret = source_of_mem(buf_bytes(arg), "a.dwo");
	return 0;
}

static struct elf_image *part_open(const struct buf *part, struct source **src)
{
	struct elf_image *img = NULL;
	struct err err = { 0 };

	if (!part->size)
		return NULL;
	*src = source_of_mem(buf_bytes(part), "x");
	return elf_open(*src, &img, &err) == 0 ? img : NULL;
}

static bool check_quickly(const struct elf_image *img, const struct symtab_options *o)
{
	AUTO(buf_done) struct buf table = { 0 };
	AUTO(symtab_closep) struct symtab *t = NULL;
	struct symtab_stats st;
	struct err err = { 0 };
	int r = symtab_build(img, o, &table, &st, &err);

	FUZZ_CHECK(r >= 0 || err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	if (r)
		return false;
	FUZZ_CHECK(symtab_open_mem(buf_bytes(&table), &t, &err) == 0);
	check_answers(t);
	return true;
}

static unsigned long n_runs, n_tables;

static void print_share(void)
{
	fprintf(stderr, "%lu of %lu runs made a table\n", n_tables, n_runs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(source_closep) struct source *src = NULL, *alt_src = NULL, *dwp_src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL, *alt = NULL, *dwp = NULL;
	AUTO(bundle_done) struct bundle b;
	struct dwarf_split split = { .open = open_split };
	struct symtab_options o = { .n_threads = 1 };

	if (!n_runs++ && getenv("LODE_FUZZ_SHARE"))
		atexit(print_share);
	bundle_read(bytes_of(data, size), &b);
	if (b.parts[ROLE_MINI].size)
		put_mini(&b.parts[ROLE_MAIN], &b.parts[ROLE_MINI]);
	img = part_open(&b.parts[ROLE_MAIN], &src);
	if (!img)
		return 0;
	o.alt = alt = part_open(&b.parts[ROLE_ALT], &alt_src);
	split.dwp = dwp = part_open(&b.parts[ROLE_DWP], &dwp_src);
	split.arg = &b.parts[ROLE_SPLIT];
	if (dwp || b.parts[ROLE_SPLIT].size)
		o.split = &split;
	/* The whole check takes four times as long. */
	n_tables += hash64(data, size, 0) % 8 ? check_quickly(img, &o) : check_image(img, &o);
	return 0;
}
