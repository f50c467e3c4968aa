/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of commands and options, searched.
 */
#include "cmd/internal.h"

const struct command *command_find(const struct command *const *all, struct str name)
{
	for (size_t i = 0; all[i]; i++)
		if (str_eq(name, str_of(all[i]->name)))
			return all[i];
	return NULL;
}

const struct option_row *option_next(const struct command *cmd, struct option_iter *it)
{
	while (it->group < COMMAND_MAX_GROUPS && cmd->groups[it->group]) {
		const struct option_row *row = &cmd->groups[it->group]->rows[it->row++];

		if (row->name)
			return row;
		it->group++;
		it->row = 0;
	}
	return NULL;
}

const struct option_row *option_find(const struct command *cmd, struct str name)
{
	struct option_iter it = { 0 };
	const struct option_row *row;

	while ((row = option_next(cmd, &it)) && !str_eq(name, str_of(row->name)))
		;
	return row;
}

const struct option_row *option_by_letter(const struct command *cmd, char letter)
{
	struct option_iter it = { 0 };
	const struct option_row *row;

	while ((row = option_next(cmd, &it)) && row->letter != letter)
		;
	return row;
}
