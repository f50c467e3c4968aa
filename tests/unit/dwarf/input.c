/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "input.h"

void input_init(struct input *in, enum elf_writer_target target, uint16_t type)
{
	elf_writer_init(&in->elf, target, type);
	dwarf_writer_init(&in->dwarf, &in->elf);
}

void input_open(struct input *in)
{
	struct err err = { 0 };

	dwarf_writer_finish(&in->dwarf);
	elf_writer_finish(&in->elf, &in->file);
	in->src = source_of_mem(buf_bytes(&in->file), "x");
	assert_done(elf_open(in->src, &in->img, &err));
}

void input_done(struct input *in)
{
	elf_close(in->img);
	source_close(in->src);
	buf_done(&in->file);
	buf_done(&in->names);
	dwarf_writer_done(&in->dwarf);
	elf_writer_done(&in->elf);
}

static int add_name(void *arg, struct str name)
{
	buf_add_str(arg, name);
	buf_add_char(arg, '\n');
	return 0;
}

int input_sources(struct input *in, const struct elf_image *alt)
{
	if (!in->img)
		input_open(in);
	in->names.size = 0;
	return dwarf_sources_each(in->img, alt, add_name, &in->names, &in->note, &in->err);
}

void assert_sources(struct input *in, const struct elf_image *alt, const char *want)
{
	if (input_sources(in, alt))
		fail_msg("%s", in->err.text);
	assert_str(buf_str(&in->names), want);
	if (in->note.n_units_skipped)
		fail_msg("%u skipped: %s", in->note.n_units_skipped, in->note.reason);
}
