/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of entries in the cache folder. Other clients look for these names and create them: they are a
 * format.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "client/internal.h"

const char *client_kind_name(enum client_kind kind)
{
	static const char *const names[] = { "debuginfo", "executable", "source", "section" };

	return names[kind];
}

/* DJBX33A. The bytes are signed on machines whose char is: names depend on that. */
static uint32_t name_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint32_t)*name;
	return h;
}

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
	       c == '-' || c == '_';
}

char *entry_escape(const char *name)
{
	/* Half of NAME_MAX with its NUL, less the hash and its dash: some file systems allow short names
	 * only. */
	size_t size = strlen(name), keep = MIN(size, (size_t)NAME_MAX / 2 - 10);
	char *out = mem_alloc(9 + keep + 1);

	snprintf(out, 10, "%08x-", name_hash(name));
	for (size_t i = 0; i < keep; i++)
		out[9 + i] = is_plain(name[size - keep + i]) ? name[size - keep + i] : '#';
	out[9 + keep] = '\0';
	return out;
}

char *entry_escape_old(const char *name)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (; *name; name++) {
		if (*name == '/')
			buf_add_str(&b, STR("##"));
		else if (*name == '#')
			buf_add_str(&b, STR("#_"));
		else
			buf_add_char(&b, *name);
	}
	return mem_strdup(buf_cstr(&b));
}

void entry_init(struct cache_entry *e, const struct client_request *w)
{
	const char *kind = client_kind_name(w->kind);
	AUTO(mem_freep) char *now = NULL, *old = NULL;

	*e = (struct cache_entry){ 0 };
	build_id_hex(&w->id, e->id);
	if (w->kind != CLIENT_SOURCE && w->kind != CLIENT_SECTION) {
		e->names[0] = mem_strdup(kind);
		return;
	}
	now = entry_escape(w->name);
	e->names[0] = mem_printf("%s-%s", kind, now);
	old = entry_escape_old(w->name);
	/* Its temporary file has 7 more letters. */
	if (strlen(old) + sizeof("section-.XXXXXX") <= NAME_MAX)
		e->names[1] = mem_printf("%s%s%s", kind, w->kind == CLIENT_SECTION ? "-" : "", old);
}

void entry_done(struct cache_entry *e)
{
	for (size_t i = 0; i < ENTRY_NAMES; i++)
		free(e->names[i]);
	*e = (struct cache_entry){ 0 };
}
