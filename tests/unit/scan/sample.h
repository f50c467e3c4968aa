/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of the packages in these tests, as one list: programs, debug files, compressed modules, links,
 * and files that only look like ELF.
 */
#pragma once

#include "test.h"
#include "pkg_writer.h"
#include "scan/internal.h"

#define SAMPLE_MAX 32

struct sample_file {
	char path[64];
	char id[41];        /* hex; empty: no build ID is expected */
	struct buf stored;  /* as stored in the package */
	struct buf content; /* as read: a compressed module is decoded */
	char link[64];      /* hard link to this one */
};

struct sample {
	struct sample_file files[SAMPLE_MAX];
	size_t n;
	struct pw_file list[SAMPLE_MAX];
};

/* @salt makes the build IDs of one sample differ from those of another; each file has about @size bytes. */
void sample_init(struct sample *s, unsigned salt, size_t size);
void sample_done(struct sample *s);
struct build_id sample_id(const struct sample *s, size_t file);

enum sample_kind { SAMPLE_DEB, SAMPLE_RPM, SAMPLE_TAR, SAMPLE_N };
/* The package, and a name for it. */
void sample_package(const struct sample *s, enum sample_kind kind, enum codec_kind codec, struct buf *ret);
const char *sample_name(enum sample_kind kind, enum codec_kind codec);
