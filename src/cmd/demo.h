/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode demo, in parts:
 *
 *   demo.c          the command: a server, sending, telling
 *   demo_program.c  the program that is profiled, run
 *   demo/           that program
 */
#pragma once

#include "cmd/internal.h"
#include "profile/profile.h"

/* A folder in which programs can be run, with the program in it; heap. */
int demo_folder_make(char **ret, struct err *err);
void demo_folder_remove(char *folder); /* and all in it; frees it. Takes NULL */

/* Run it. @slice is called for each profile, in their order, with the number of its slice and the name of the
 * thread. Non-zero ends. */
struct demo_program {
	const char *folder;
	unsigned n_slices, slice_ms;
	int (*slice)(void *arg, unsigned slice, struct str thread, struct profile *p, struct err *err);
	void *arg;
};
int demo_program_run(const struct demo_program *d, struct err *err);
/* Its debug information, and a tar of its sources. */
struct bytes demo_program_debug(void);
struct bytes demo_program_sources(void);
