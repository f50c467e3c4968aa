/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file that streams by: the outcome does not depend on the chunks, and if there is one it is that of
 * the file.
 *
 * Distant ranges make the difference between a stream and a file, so the input describes gaps: a byte with
 * their number, for each its offset (2 bytes) and size (3 bytes), then the file without them.
 */
#include "fuzz.h"

#include <string.h>
#include "elf/elf.h"

#define MAX_GAPS 3u

static void expand(struct cursor *c, struct buf *ret)
{
	unsigned n = cursor_u8(c) % (MAX_GAPS + 1);
	struct {
		size_t at, size;
	} gaps[MAX_GAPS];
	size_t from = 0;
	struct bytes file;

	for (unsigned i = 0; i < n; i++) {
		gaps[i].at = cursor_u16(c);
		gaps[i].size = cursor_u24(c) % KIB(96);
	}
	file = cursor_bytes(c, cursor_left(c));
	for (unsigned i = 0; i < n; i++) {
		size_t to = MIN(MAX(gaps[i].at, from), file.size);

		buf_add(ret, file.p + from, to - from);
		memset(buf_reserve(ret, gaps[i].size), 0, gaps[i].size);
		ret->size += gaps[i].size;
		from = to;
	}
	if (from < file.size)
		buf_add(ret, file.p + from, file.size - from);
}

/* Feed up to @fed bytes of @file, declared as all of it, in chunks of which the last is the rest. */
static int probe(struct elf_probe *p, struct bytes file, size_t fed, size_t chunk, struct elf_facts *ret,
		 struct err *err)
{
	size_t at = 0;

	elf_probe_start(p, file.size);
	while (at < fed) {
		size_t n = MIN(chunk, fed - at);
		uint8_t *copy = mem_alloc(n);

		memcpy(copy, file.p + at, n);
		elf_probe_feed(p, bytes_of(copy, n));
		free(copy);
		at += n;
		/* Later bytes are of no use to it: feed some all the same. */
		if (!elf_probe_wants(p) && at > KIB(16) && chunk < KIB(4))
			break;
	}
	return elf_probe_finish(p, ret, err);
}

static void expect_same(int r, const struct elf_facts *f, const struct err *err, int r2,
			const struct elf_facts *f2, const struct err *err2)
{
	FUZZ_CHECK(r == r2);
	if (r == 0)
		FUZZ_CHECK(f->flags == f2->flags && f->type == f2->type && f->machine == f2->machine &&
			   build_id_eq(&f->build_id, &f2->build_id));
	if (r < 0)
		FUZZ_CHECK(err->kind == err2->kind && strcmp(err->text, err2->text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t chunks[] = { 1, 61, 4096, 65536 };
	struct cursor c = cursor_of(bytes_of(data, size));
	AUTO(buf_done) struct buf b = { 0 };
	struct elf_probe *p = elf_probe_new();
	struct elf_facts all = { 0 }, other = { 0 };
	struct err err_all = { 0 }, err = { 0 };
	struct elf_aliases aliases;
	enum build_id_kind kind;
	struct source *src;
	struct bytes file;
	int r, r2;

	expand(&c, &b);
	file = buf_bytes(&b);
	r = probe(p, file, file.size, SIZE_MAX, &all, &err_all);
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		if (chunks[i] < 4096 && file.size > chunks[i] * KIB(8))
			continue;
		r2 = probe(p, file, file.size, chunks[i], &other, &err);
		expect_same(r, &all, &err_all, r2, &other, &err);
	}
	if (r != ELF_PROBE_AGAIN && file.size) {
		src = source_of_mem(file, "member");
		r2 = elf_identify(src, &other, &kind, &aliases, &err);
		expect_same(r, &all, &err_all, r2, &other, &err);
		source_close(src);
	}
	/* A stream that ends early has the same outcome as the whole, or none. */
	r2 = probe(p, file, file.size / 2, SIZE_MAX, &other, &err);
	FUZZ_CHECK(r2 == ELF_PROBE_AGAIN || r2 == r || (r2 == ELF_NOT_ELF && !(file.size / 2)));
	elf_probe_free(p);
	return 0;
}
