/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of symbols share.
 *
 *   file    a file with what belongs to it on this machine, and its table
 *   module  one that may be another by now, or of which only the build ID is known; servers
 *   cache   tables that were made before
 */
#pragma once

#include "lookup/lookup.h"

/* The ELF file's image; what is none, or has no sound section table, is ERR_INVALID. */
int lookup_open_image(struct source *src, struct elf_image **ret, struct err *err);
/* f->alt by the link in f->debug, and split files, on this machine. */
int lookup_find_more(struct lookup_file *f, const struct lookup_options *o, struct local *local,
		     const char *path, struct err *err);
/* The table of what was found: kept before, or made now. */
int lookup_table(struct lookup_file *f, const struct lookup_options *o, struct err *err);
int lookup_build(struct lookup_file *f, unsigned n_threads, struct err *err); /* into f->made */

char *lookup_cache_name(const struct lookup_file *f); /* heap; NULL: its table is not kept */
bool lookup_cache_open(struct lookup_file *f, const char *name);
void lookup_cache_keep(const struct lookup_file *f, const char *name);
void lookup_cache_make_later(struct lookup_file *f, const char *name);
