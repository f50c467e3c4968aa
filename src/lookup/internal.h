/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of lookup, each of which calls only those below it:
 *
 *   open     the file, its debug file and their companions, on this machine and on servers
 *   later    building the table for the cache in a process of its own
 *   build    the table of the files found: opened from the cache, or built
 *   cache    tables that were built before
 *   address  addresses as people write them, their frames, and whether two files have the same ones
 */
#pragma once

#include "lookup/lookup.h"

/* f->table of the files found: from the cache, or built now. */
int lookup_table(struct lookup_file *f, const struct lookup_options *o, struct err *err);
int lookup_build(struct lookup_file *f, unsigned n_threads, struct err *err); /* into f->made */

char *lookup_cache_name(const struct lookup_file *f); /* heap; NULL: its table is not kept */
bool lookup_cache_open(struct lookup_file *f, const char *name);
void lookup_cache_keep(const struct lookup_file *f, const char *name);
