/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode version.
 */
#include "cmd/internal.h"

static int run_version(struct settings *s)
{
	printf("lode %s\n", LODE_VERSION);
	return EXIT_DONE;
}

const struct command command_version = {
	.name = "version",
	.args = "",
	.summary = "print the version",
	.run = run_version,
};
