/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks for each codec and each content: every way to read returns the same bytes.
 */
#pragma once

#include "codec/codec.h"
#include "fault_source.h"
#include "packed.h"
#include "test.h"

/* The points of a scan with these options, whose bytes must be @plain. */
void check_scan(enum codec_kind kind, struct bytes packed, struct bytes plain,
		const struct codec_scan_options *opts, struct buf *ret_points);
/* @n_reads at random offsets with random hints, sometimes many sequential ones. */
void check_reads(struct source *s, struct bytes plain, unsigned n_reads, uint64_t seed);
/* A source over @packed; @opts without size. */
struct source *open_packed(enum codec_kind kind, struct bytes packed, struct bytes plain,
			   const struct codec_source_options *opts);
/* Random and sequential reads of such a source. */
void check_source(enum codec_kind kind, struct bytes packed, struct bytes plain,
		  const struct codec_source_options *opts, unsigned n_reads);
/* All of the above, by stream, scan and source, with and without points, cache and helpers. Returns the
 * number of spans. */
unsigned check_all_ways(enum codec_kind kind, struct bytes packed, struct bytes plain,
			const struct codec_scan_options *opts);
/* Like check_all_ways(), but with bytes of @packed cut or flipped: errors or the right bytes. */
void check_truncated(enum codec_kind kind, struct bytes packed, struct bytes plain, unsigned n);
void check_flipped(enum codec_kind kind, struct bytes packed, struct bytes plain,
		   const struct codec_scan_options *opts, unsigned n);
/* The same without points: the format's own checksum decides. */
void check_flipped_whole(enum codec_kind kind, struct bytes packed, struct bytes plain, unsigned n);
/* Each read of the packed bytes fails once. */
void check_faults(enum codec_kind kind, struct bytes packed, struct bytes plain,
		  const struct codec_scan_options *opts);
