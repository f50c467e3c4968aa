/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file being written, and the names read from it.
 */
#pragma once

#include "dwarf/dwarf.h"
#include "dwarf_writer.h"

struct input {
	struct elf_writer elf;
	struct dwarf_writer dwarf;
	struct buf file;
	struct source *src;
	struct elf_image *img;
	/* Results of input_sources(). */
	struct buf names; /* each with a newline, in order */
	struct dwarf_sources_note note;
	struct err err;
};

void input_init(struct input *in, enum elf_writer_target target, uint16_t type);
void input_open(struct input *in); /* finish the file, open it */
void input_done(struct input *in);
/* Open the file if it is not open. Returns the result of dwarf_sources_each(). */
int input_sources(struct input *in, const struct elf_image *alt);
/* Check that the names are these, one a line. */
void assert_sources(struct input *in, const struct elf_image *alt, const char *want);
