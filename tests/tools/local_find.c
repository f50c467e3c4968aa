/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where module local finds debug files, for comparisons with gdb. One question a line of stdin, its fields
 * apart by tabs:
 *
 *	file|named <debug directories> <sysroot, "-": none> <path>
 *	alt <debug directories> <sysroot> <path of a debug file>
 *
 * One line an answer: the path, or "-", then a tab, then the places looked at, by " ".
 */
#include <stdio.h>
#include <stdlib.h>
#include "local/local.h"

static int ask(struct local *l, struct str what, const char *path, struct local_trail *trail,
	       struct local_found *ret)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(arena_done) struct arena a = { 0 };
	struct err err = { 0 };
	struct build_id id;
	struct str alt;

	if (source_open_file(path, &src, &err) || elf_open(src, &img, &err))
		return LOCAL_MISSING;
	if (!str_eq(what, STR("alt")))
		return local_debug_file(l, img, path, str_eq(what, STR("named")) ? LOCAL_AS_NAMED : 0, trail,
					ret);
	if (elf_alt_link(img, &a, &alt, &id, &err))
		return LOCAL_MISSING;
	return local_alt_file(l, path, arena_strdup(&a, alt), &id, trail, ret);
}

static void answer(char *line)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct str rest = str_trim(str_of(line));
	struct str what = str_cut(&rest, '\t');
	const char *dirs = arena_strdup(&a, str_cut(&rest, '\t')),
		   *sysroot = arena_strdup(&a, str_cut(&rest, '\t'));
	const char *path = arena_strdup(&a, rest);
	const struct local_options opts = { .debug_directories = dirs,
					    .sysroot = strcmp(sysroot, "-") == 0 ? NULL : sysroot };
	AUTO(local_freep) struct local *l = local_new(&opts);
	AUTO(local_trail_done) struct local_trail trail = { 0 };
	struct local_found found = { 0 };
	int r = ask(l, what, path, &trail, &found);

	printf("%s\t", r == 0 ? found.path : "-");
	for (size_t i = 0; i < trail.n_steps; i++)
		if (trail.steps[i].path)
			printf("%s ", trail.steps[i].path);
	printf("\n");
	local_found_done(&found);
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0)
		answer(line);
	free(line);
	return 0;
}
