/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd: the commands of the program, in folders by subject; table.c lists them.
 *
 * Exit status: 0 done, 1 not found or failed, 2 usage. Errors go to stderr as "lode: what: why".
 */
#pragma once

/* Run the command that argv names: `lode COMMAND ...`, or `debuginfod ...` when called by that name. Returns
 * the exit status. */
int cmd_run(int argc, char **argv);
