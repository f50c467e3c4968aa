/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode demo, in parts:
 *
 *   demo.c     the command: a server, sending, the report
 *   program.c  the program that is profiled: unpacked and run
 *
 * The program itself is examples/demo/.
 */
#pragma once

#include "cmd/internal.h"
#include "profile/profile.h"

/* Make a folder from which programs can be run, with the program in it. Heap. */
int demo_folder_make(char **ret, struct err *err);
void demo_folder_remove(char *folder); /* with all in it; frees the text. Takes NULL */

/* Run the program. slice() is called for each of its profiles, in order of time, with the number of the slice
 * and the name of the thread; non-zero ends the calls. */
struct demo_program {
	const char *folder;
	unsigned n_slices, slice_ms;
	int (*slice)(void *arg, unsigned slice, struct str thread, struct profile *p, struct err *err);
	void *arg;
};
int demo_program_run(const struct demo_program *d, struct err *err);
/* The program's debug information, and a tar of its sources. */
struct bytes demo_program_debug(void);
struct bytes demo_program_sources(void);
