/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of web/, built in (embed.py makes the table).
 */
#pragma once

#include <stddef.h>

struct page_file {
	const char *name; /* NULL: the end */
	const unsigned char *p;
	size_t size;
};
extern const struct page_file page_files[];
