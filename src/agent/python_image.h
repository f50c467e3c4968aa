/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file that is an interpreter of CPython: its version, and where its state and its evaluation loop are.
 */
#pragma once

#include "agent/python_layout.h"
#include "elf/elf.h"

#define PYTHON_MAX_RANGES 16u

struct python_range {
	uint64_t start, limit; /* addresses of the ELF file */
	bool is_loop;          /* the evaluation loop; else a function that only calls it */
};

struct python_image {
	struct python_layout layout;
	uint64_t runtime; /* address of _PyRuntime in the ELF file */
	/* The bytes there, of which the layout was made. */
	uint8_t debug[PYTHON_DEBUG_OFFSETS];
	uint32_t debug_size;
	struct python_range ranges[PYTHON_MAX_RANGES];
	unsigned n_ranges;
};

/* The file's name may be one of an interpreter: only then it is worth a look at its symbols. */
bool python_image_may_be(const char *path);
enum { PYTHON_NO_IMAGE = 1 };
/* PYTHON_NO_IMAGE: not an interpreter. Negative: it is one, but of a version that is not supported, or damaged. */
int python_image_read(const struct elf_image *img, const char *path, struct python_image *ret,
		      struct err *err);
/* One that another process has read: make its layout again. false: it cannot be. */
bool python_image_recheck(struct python_image *p);
/* The range with @vaddr; NULL: none. */
const struct python_range *python_image_range(const struct python_image *p, uint64_t vaddr);
