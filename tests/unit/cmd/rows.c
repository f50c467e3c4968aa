/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of commands and options are sound.
 */
#include "test.h"
#include "cmd/internal.h"

static void no_command_has_a_name_or_a_letter_twice(void **state)
{
	for (size_t c = 0; commands[c]; c++) {
		struct option_iter it = { 0 };
		const struct option_row *row;

		while ((row = option_next(commands[c], &it))) {
			assert_ptr_equal(option_find(commands[c], str_of(row->name)), row);
			if (row->letter)
				assert_ptr_equal(option_by_letter(commands[c], row->letter), row);
		}
		assert_ptr_equal(command_find(commands, str_of(commands[c]->name)), commands[c]);
	}
}

static void a_row_has_a_value_where_its_kind_needs_one(void **state)
{
	for (size_t c = 0; commands[c]; c++) {
		struct option_iter it = { 0 };
		const struct option_row *row;

		while ((row = option_next(commands[c], &it))) {
			bool is_switch = row->kind == OPTION_ON || row->kind == OPTION_OFF;
			bool is_free = row->kind == OPTION_CALL || row->kind == OPTION_IGNORED ||
				       row->kind == OPTION_SILENT;

			if (!is_free && is_switch == (row->arg != NULL))
				fail_msg("%s --%s", commands[c]->name, row->name);
			assert_true((row->kind == OPTION_CALL) == (row->call != NULL));
			assert_true(row->help || row->kind == OPTION_SILENT);
		}
	}
}

/* One configuration file serves all commands: a name means the same everywhere. */
static void configured_commands_agree_on_what_a_name_means(void **state)
{
	for (size_t a = 0; commands[a]; a++) {
		for (size_t b = 0; commands[b]; b++) {
			struct option_iter it = { 0 };
			const struct option_row *row, *other;

			if (!commands[a]->configured || !commands[b]->configured)
				continue;
			while ((row = option_next(commands[a], &it))) {
				other = option_find(commands[b], str_of(row->name));
				assert_true(!other || (other->kind == row->kind && other->at == row->at));
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_command_has_a_name_or_a_letter_twice),
		cmocka_unit_test(a_row_has_a_value_where_its_kind_needs_one),
		cmocka_unit_test(configured_commands_agree_on_what_a_name_means),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
