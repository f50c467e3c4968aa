/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string table: each text once, and one that is the end of another shares its bytes (".text" in
 * ".rela.text").
 *
 * The texts are sorted by their last bytes first, the longer one first where one ends another. So a text that
 * ends another one comes after it, and the last text that was stored is one that it ends, if there is any.
 */
#include "base/vec.h"
#include "elf/write.h"

#include <stdlib.h>

void elf_strings_done(struct elf_strings *t)
{
	free(t->items);
	free(t->offs);
	buf_done(&t->bytes);
}

size_t elf_strings_add(struct elf_strings *t, struct str s)
{
	VEC_PUSH(t->items, t->n, t->room) = s;
	return t->n - 1;
}

static int by_end(const void *pa, const void *pb, void *items)
{
	struct str a = ((struct str *)items)[*(const uint32_t *)pa],
		   b = ((struct str *)items)[*(const uint32_t *)pb];

	while (a.size && b.size) {
		uint8_t ca = (uint8_t)a.p[--a.size], cb = (uint8_t)b.p[--b.size];

		if (ca != cb)
			return ca < cb ? 1 : -1;
	}
	return a.size < b.size ? 1 : a.size > b.size ? -1 : 0;
}

int elf_strings_layout(struct elf_strings *t, struct err *err)
{
	AUTO(mem_freep) uint32_t *order = mem_realloc(NULL, t->n + 1, sizeof(*order));
	struct str last = { 0 };
	uint32_t last_off = 0;

	t->offs = mem_realloc(NULL, t->n + 1, sizeof(*t->offs));
	for (size_t i = 0; i < t->n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, t->n, sizeof(*order), by_end, t->items);
	buf_add_char(&t->bytes, '\0');
	for (size_t i = 0; i < t->n; i++) {
		struct str s = t->items[order[i]];

		if (!s.size) {
			t->offs[order[i]] = 0;
			continue;
		}
		if (!str_ends(last, s)) {
			if (t->bytes.size + s.size + 1 > ELF_SPLIT_MAX_TABLE)
				return err_set(err, ERR_LIMIT, "a string table exceeds the %zu bytes allowed",
					       (size_t)ELF_SPLIT_MAX_TABLE);
			last = s;
			last_off = (uint32_t)t->bytes.size;
			buf_add_str(&t->bytes, s);
			buf_add_char(&t->bytes, '\0');
		}
		t->offs[order[i]] = last_off + (uint32_t)(last.size - s.size);
	}
	return 0;
}
