/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the packages of these tests hold, as one list: programs, debug files, compressed modules, links, and
 * files that only look like ELF.
 */
#pragma once

#include "test.h"
#include "pkg_writer.h"
#include "scan/internal.h"

#define SAMPLE_MAX 32

struct sample_file {
	char path[64];
	char id[41];        /* hex; empty: no build ID is to be found */
	struct buf stored;  /* as it lies in the package */
	struct buf content; /* as it is read: decoded, of a compressed module */
	char link[64];      /* hard link to this one */
};

struct sample {
	struct sample_file files[SAMPLE_MAX];
	size_t n;
	struct pw_file list[SAMPLE_MAX];
};

/* @salt tells the build IDs of one sample from those of another; each file has about @size bytes. */
void sample_init(struct sample *s, unsigned salt, size_t size);
void sample_done(struct sample *s);
struct build_id sample_id(const struct sample *s, size_t file);

enum sample_kind { SAMPLE_DEB, SAMPLE_RPM, SAMPLE_TAR, SAMPLE_N };
/* The package, and a name that fits. */
void sample_package(const struct sample *s, enum sample_kind kind, enum codec_kind codec, struct buf *ret);
const char *sample_name(enum sample_kind kind, enum codec_kind codec);
