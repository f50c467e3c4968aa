/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main: the program's entry. Everything is in the library, so that tests can call it.
 */
#include "cmd/cmd.h"

int main(int argc, char **argv)
{
	return cmd_run(argc, argv);
}
