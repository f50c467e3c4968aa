/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of frame: prepared mappings, and layouts of files without program headers. */
#pragma once

#include "base/base.h"
#include "frame/frame.h"

#define FRAME_NO_OWNER UINT32_MAX

struct frame_maps {
	const struct frame_mapping *v;
	size_t n;
	bool prepared; /* false: only v and n are set */
	/* Part i, from bounds[i] to before the next, belongs to mapping owners[i]. */
	uint64_t *bounds;
	uint32_t *owners;
	size_t n_bounds;
	uint32_t *opens; /* mappings without a limit, by start */
	size_t n_opens;
	const struct frame_mapping *lowest, *second; /* by start; NULL: none */
};

/* The segments of @l, which has none, by the sections of @img; none of a relocatable file. */
void frame_layout_by_sections(const struct elf_image *img, struct frame_layout *l);
