/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of options: how a text becomes a field of the settings.
 */
#include <ctype.h>
#include "cmd/internal.h"

#define MAX_SECONDS (UINT64_C(100) * 366 * 86400)

void settings_init(struct settings *s, const struct command *cmd, const struct command *const *all)
{
	*s = (struct settings){ .command = cmd->name, .commands = all, .find.unread_wait_s = UNREAD_WAIT_S };
	arena_init(&s->arena);
	s->own = arena_zalloc(&s->arena, cmd->own_size);
}

void settings_done(struct settings *s)
{
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
	if (l->n == l->room) {
		struct str *more;

		l->room = vec_room(l->room, l->n + 1);
		more = ARENA_NEW_N(&s->arena, struct str, l->room);
		if (l->n)
			memcpy(more, l->items, l->n * sizeof(*more));
		l->items = more;
	}
	l->items[l->n++] = str_of(arena_strdup(&s->arena, text));
	return 0;
}

static int number_parse(const char *value, uint64_t max, uint64_t *ret, struct err *err)
{
	if (!str_to_u64(str_of(value), ret))
		return err_set(err, ERR_INVALID, "'%s' is not a number", value);
	if (*ret > max)
		return err_set(err, ERR_INVALID, "%s is more than %llu", value, (unsigned long long)max);
	return 0;
}

static int size_parse(const char *value, uint64_t *ret, struct err *err)
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

static int bool_parse(const char *value, bool *ret, struct err *err)
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

/* The field that a row sets. */
static void *option_field(const struct settings *s, const struct option_row *row)
{
	return row->at & OPTION_OWN ? (char *)s->own + (row->at & ~OPTION_OWN) : (char *)s + row->at;
}

int option_set(struct settings *s, const struct option_row *row, const char *value, enum setting_rank rank,
	       struct err *err)
{
	void *at = option_field(s, row);
	bool yes = true;
	uint64_t v;

	/* A file may set a switch of any kind to "no". */
	if (!row->arg && bool_parse(value, &yes, err) < 0)
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
		if (number_parse(value, UINT32_MAX, &v, err) < 0)
			return -1;
		*(unsigned *)at = (unsigned)v;
		return 0;
	case OPTION_SIZE:
		return size_parse(value, at, err);
	case OPTION_SECONDS:
	case OPTION_MS:
		if (number_parse(value, MAX_SECONDS, &v, err) < 0)
			return -1;
		if (row->kind == OPTION_MS)
			v = (v ? v : MAX_SECONDS) * 1000;
		*(int64_t *)at = (int64_t)v;
		return 0;
	case OPTION_IGNORED:
		log_warn("options", "--%s has no effect: %s", row->name, row->help);
		return 0;
	case OPTION_SILENT:
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "option kind %d", (int)row->kind);
}

bool option_is_set(const struct settings *s, const struct option_row *row)
{
	const void *at = option_field(s, row);

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
