/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in formats other than pprof's: the text of `perf script`, folded stacks, the formats of Go,
 * gperftools and jemalloc, recordings of Java's Flight Recorder.
 */
#pragma once

#include "profile/jfr.h"

enum profile_format {
	PROFILE_FORMAT_AUTO,
	PROFILE_FORMAT_PPROF,
	PROFILE_FORMAT_PERF,   /* perf script, best with --show-mmap-events: then addresses can be named */
	PROFILE_FORMAT_FOLDED, /* "main;f;g 12" */
	PROFILE_FORMAT_LEGACY, /* text: Go's profiles with debug=1, heap dumps of gperftools and jemalloc */
	PROFILE_FORMAT_CPU,    /* gperftools' CPU profiles */
	PROFILE_FORMAT_JFR,    /* Java's Flight Recorder (jfr.h) */
	/*
	 * perf's own file. It is detected, but not read here: perf script converts it to text. It has no name for
	 * profile_format_parse().
	 */
	PROFILE_FORMAT_PERF_DATA,
};
/* "auto", "pprof", "perf", "folded", "legacy", "cpu", "jfr". */
bool profile_format_parse(struct str s, enum profile_format *ret);

/*
 * The format of a profile that is not compressed, by its content; never PROFILE_FORMAT_AUTO. A damaged pprof is one.
 * Text of no other format is taken for folded stacks. ERR_INVALID: it is certainly something else; the message says
 * what it is.
 */
int profile_detect(struct bytes in, enum profile_format *ret, struct err *err);

/*
 * Read a profile. @in may be compressed (gzip, zstd, xz, bzip2). PROFILE_FORMAT_AUTO: the format is that of
 * profile_detect(). ERR_INVALID: the text has the line.
 */
int profile_read(struct bytes in, enum profile_format format, const struct profile_limits *limits,
		 struct profile **ret, struct err *err);
/*
 * The same, but a recording becomes a profile for each kind of event (jfr.h), or none if it has no samples; other
 * formats one, whose name is empty. @jfr may be NULL.
 */
int profile_read_each(struct bytes in, enum profile_format format, const struct profile_limits *limits,
		      const struct jfr_options *jfr, struct profile_sink sink, struct err *err);

/* These take text that is not compressed. */
int profile_read_perf(struct str text, const struct profile_limits *limits, struct profile **ret,
		      struct err *err);
int profile_read_folded(struct str text, const struct profile_limits *limits, struct profile **ret,
			struct err *err);
int profile_read_legacy(struct str text, const struct profile_limits *limits, struct profile **ret,
			struct err *err);
bool profile_is_perf(struct str head);
bool profile_is_legacy(struct str head);

int profile_read_cpu(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		     struct err *err);
bool profile_is_cpu(struct bytes head);

/* PROFILE_FORMAT_PERF_DATA, by the first 8 bytes. */
bool profile_is_perf_data(struct bytes head);
