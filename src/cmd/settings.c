/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What options set: one struct for all commands, and how text becomes a value of it.
 */
#include <ctype.h>
#include <stdlib.h>
#include "cmd/internal.h"

#define MAX_SECONDS (UINT64_C(100) * 366 * 86400)

void settings_init(struct settings *s)
{
	*s = (struct settings){ 0 };
	arena_init(&s->arena);
}

void settings_done(struct settings *s)
{
	free(s->paths.items);
	free(s->listen.items);
	free(s->suffixes.items);
	free(s->labels.items);
	free(s->find.pids.items);
	free(s->find.cores.items);
	free(s->find.packages.items);
	free(s->find.sources.items);
	free(s->find.sections.items);
	free(s->find.servers.items);
	free(s->upstream.servers.items);
	arena_done(&s->arena);
}

int setting_list_add(struct settings *s, struct setting_list *l, struct str text, enum setting_rank rank,
		     struct err *err)
{
	if (rank > l->rank)
		l->n = 0;
	l->rank = rank;
	if (l->n == SETTING_LIST_MAX)
		return err_set(err, ERR_LIMIT, "given more than %u times", SETTING_LIST_MAX);
	l->items = mem_realloc(l->items, l->n + 1, sizeof(*l->items));
	/* with a NUL behind, for those who need one */
	l->items[l->n++] = str_of(arena_strdup(&s->arena, text));
	return 0;
}

static int to_number(const char *value, uint64_t max, uint64_t *ret, struct err *err)
{
	if (!str_to_u64(str_of(value), ret))
		return err_set(err, ERR_INVALID, "'%s' is not a number", value);
	if (*ret > max)
		return err_set(err, ERR_INVALID, "%s is more than %llu", value, (unsigned long long)max);
	return 0;
}

static int to_size(const char *value, uint64_t *ret, struct err *err)
{
	static const char units[] = "KMGT";
	struct str s = str_of(value);
	const char *unit = s.size ? memchr(units, toupper((unsigned char)s.p[s.size - 1]), sizeof(units) - 1)
				  : NULL;
	unsigned shift = 0;
	uint64_t v;

	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		s.size--;
	}
	if (!str_to_u64(s, &v) || v > UINT64_MAX >> shift)
		return err_set(err, ERR_INVALID, "'%s' is not a size (such as 64K, 256M, 2G)", value);
	*ret = v << shift;
	return 0;
}

static int to_bool(const char *value, bool *ret, struct err *err)
{
	static const char *const words[][2] = {
		{ "no", "yes" }, { "false", "true" }, { "0", "1" }, { "off", "on" }
	};

	*ret = true;
	if (!value)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (unsigned yes = 0; yes < 2; yes++)
			if (strcmp(value, words[i][yes]) == 0) {
				*ret = yes;
				return 0;
			}
	return err_set(err, ERR_INVALID, "'%s' is neither yes nor no", value);
}

int option_set(struct settings *s, const struct option_row *row, const char *value, enum setting_rank rank,
	       struct err *err)
{
	void *at = (char *)s + row->at;
	bool yes = true;
	uint64_t v;

	/* Switches of every kind can be told "no" in a file. */
	if (!row->arg && to_bool(value, &yes, err) < 0)
		return -1;
	switch (row->kind) {
	case OPTION_CALL:
		return yes ? row->call(s, value, rank, err) : 0;
	case OPTION_ON:
	case OPTION_OFF:
		*(bool *)at = yes == (row->kind == OPTION_ON);
		return 0;
	case OPTION_TEXT:
		*(const char **)at = arena_strdup(&s->arena, str_of(value));
		return 0;
	case OPTION_LIST:
		return setting_list_add(s, at, str_of(value), rank, err);
	case OPTION_NUMBER:
		if (to_number(value, UINT32_MAX, &v, err) < 0)
			return -1;
		*(unsigned *)at = (unsigned)v;
		return 0;
	case OPTION_SIZE:
		return to_size(value, at, err);
	case OPTION_SECONDS:
	case OPTION_MS:
		if (to_number(value, MAX_SECONDS, &v, err) < 0)
			return -1;
		if (row->kind == OPTION_MS)
			v = (v ? v : MAX_SECONDS) * 1000;
		*(int64_t *)at = (int64_t)v;
		return 0;
	case OPTION_IGNORED:
		log_warn("options", "--%s changes nothing: %s", row->name, row->help);
		return 0;
	case OPTION_SILENT:
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "option kind %d", (int)row->kind);
}

bool option_is_set(const struct settings *s, const struct option_row *row)
{
	const void *at = (const char *)s + row->at;

	switch (row->kind) {
	case OPTION_ON:
		return *(const bool *)at;
	case OPTION_TEXT:
		return *(const char *const *)at;
	case OPTION_LIST:
		return ((const struct setting_list *)at)->n;
	case OPTION_NUMBER:
		return *(const unsigned *)at;
	default:
		return false;
	}
}

const struct option_row *option_useless(const struct settings *s, const struct option_use *uses,
					unsigned mode)
{
	for (; uses->group; uses++)
		for (const struct option_row *row = uses->group->rows; row->name; row++)
			if ((!uses->name || strcmp(uses->name, row->name) == 0) && !(uses->modes & mode) &&
			    option_is_set(s, row))
				return row;
	return NULL;
}
