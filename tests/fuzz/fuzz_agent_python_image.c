/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file that may be an interpreter, and bytes that may be the offsets of 3.13 and 3.14: what is taken from them fits
 * into the records of the sampler.
 */
#include "fuzz.h"

#include "agent/python_image.h"

static void check_layout(const struct python_layout *l)
{
	const struct bpf_python *f = &l->frames;

	FUZZ_CHECK(l->minor >= 9 && l->minor <= 14);
	FUZZ_CHECK(f->frame_size <= BPF_PYTHON_BLOCK);
	FUZZ_CHECK(f->frame_previous + 8u <= f->frame_size && f->frame_code + 8u <= f->frame_size);
	FUZZ_CHECK(f->frame_instr + 4u <= f->frame_size && f->frame_owner < MAX(f->frame_size, 1));
	FUZZ_CHECK(f->frame_previous % 8 == 0 && f->frame_code % 8 == 0 && f->frame_instr % 4 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(source_closep) struct source *src = source_of_mem(bytes_of(data, size), "file");
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct python_layout layout;
	struct python_image image;
	struct err err;

	for (unsigned minor = 8; minor < 16; minor++)
		if (python_layout_get(minor, bytes_of(data, MIN(size, (size_t)PYTHON_DEBUG_OFFSETS)), &layout,
				      &err) == 0)
			check_layout(&layout);
	if (elf_open(src, &img, &err))
		return 0;
	if (python_image_read(img, "/usr/bin/python3.11", &image, &err) == 0) {
		check_layout(&image.layout);
		FUZZ_CHECK(image.n_ranges <= PYTHON_MAX_RANGES);
		for (unsigned i = 0; i < image.n_ranges; i++)
			FUZZ_CHECK(image.ranges[i].start < image.ranges[i].limit);
	}
	return 0;
}
