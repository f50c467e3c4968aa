/* SPDX-License-Identifier: Apache-2.0 */
#include "damaged.h"

#include <stdlib.h>
#include <unistd.h>

struct buf damaged_file;
int damaged_n_notices;

void damaged_note(void *arg, enum log_level level, const char *text)
{
	damaged_n_notices++;
	if (getenv("LODE_TALK"))
		print_message("%s\n", text);
}

void damaged_remove(const struct stored *t, const char *name)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", t->dir, name);

	unlink(path);
}

void damaged_flip_labels(void)
{
	static const char label[] = "\x07service\x03web";
	const size_t size = sizeof(label) - 1;
	const uint8_t *at;

	for (size_t from = 0; (at = memmem(damaged_file.p + from, damaged_file.size - from, label, size));) {
		size_t off = (size_t)(at - damaged_file.p);

		damaged_file.p[off + size - 1] ^= 1;
		damaged_file.p[off / 8192 * 8192 + 3000] ^= 1;
		from = off + size;
	}
}

void damaged_check_labels(struct stored *t)
{
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	struct profilestore_list *list;
	struct err err = { 0 };

	assert_done(profilestore_label_values(t->s, &all, STR("service"), &list, &err));
	for (size_t i = 0; i < list->n; i++)
		if (!str_eq(list->v[i], STR("db")) && !str_eq(list->v[i], STR("web")))
			fail_msg("a label is wrong: " STR_FMT, STR_ARG(list->v[i]));
	free(list);
}
