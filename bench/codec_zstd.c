/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of zstd's resume points, and of reads with them, on one file:
 *
 *   codec_zstd FILE.zst [SPACING_MIB [THREADS [READS [DECODED_FILE]]]]
 *
 * Plain decoding and the scan take turns in the same run, so that the ratio of their CPU times is valid on a busy
 * machine too. Then READS random reads of 64 KiB, each with a new decoder; they are compared with DECODED_FILE
 * if it is given.
 */
#include "codec/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <zstd.h>

#define ROUNDS    3
#define READ_SIZE KIB(64)

static double cpu(void)
{
	return (double)clock_cpu_ns() / 1e9;
}

static double wall(void)
{
	return (double)clock_mono_ns() / 1e9;
}

static int die(const struct err *err)
{
	fprintf(stderr, "codec_zstd: %s\n", err->text);
	exit(1);
}

/* CPU seconds of libzstd for the same bytes, fed as an ordinary program does. */
static double plain(struct source *raw)
{
	ZSTD_DCtx *z = ZSTD_createDCtx();
	uint8_t *in = mem_alloc(KIB(128)), *out = mem_alloc(KIB(128));
	struct err err = { 0 };
	double start = cpu();
	uint64_t off = 0;

	ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, 29);
	while (off < raw->size) {
		ZSTD_inBuffer zin = { in, 0, 0 };
		ZSTD_outBuffer zout;

		if (source_read(raw, off, in, KIB(128), SOURCE_SEQUENTIAL, &zin.size, &err) < 0)
			die(&err);
		off += zin.size;
		do {
			size_t r;

			zout = (ZSTD_outBuffer){ out, KIB(128), 0 };
			r = ZSTD_decompressStream(z, &zout, &zin);
			if (ZSTD_isError(r)) {
				err_set(&err, ERR_INVALID, "%s", ZSTD_getErrorName(r));
				die(&err);
			}
		} while (zin.pos < zin.size || zout.pos == zout.size);
	}
	ZSTD_freeDCtx(z);
	free(in);
	free(out);
	return cpu() - start;
}

struct result {
	struct codec_scan *scan;
	double cpu, wall;
	uint64_t decoded;
};

static struct result scan(struct source *raw, const struct codec_scan_options *opts)
{
	struct result r = { .cpu = cpu(), .wall = wall() };
	struct err err = { 0 };
	struct bytes b;

	if (codec_zstd.scan_open(raw, range_of(0, raw->size), opts, &r.scan, &err) < 0)
		die(&err);
	for (;;) {
		if (stream_next(&r.scan->stream, SIZE_MAX, &b, &err) < 0)
			die(&err);
		if (!b.size)
			break;
	}
	r.decoded = r.scan->stream.off;
	r.cpu = cpu() - r.cpu;
	r.wall = wall() - r.wall;
	return r;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void reads(struct source *raw, const struct codec_span *spans, size_t n_spans, uint64_t size, size_t n,
		  const uint8_t *want)
{
	double *ms = NEW_N(double, n), *open_ms = NEW_N(double, n);
	uint8_t *buf = mem_alloc(READ_SIZE);
	uint64_t seed = 1, max_weight = 0;
	size_t n_wrong = 0;
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++) {
		uint64_t off, end;
		double start;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		off = (seed >> 20) % (size - READ_SIZE);
		/* Every 7th read crosses the end of a span, where mistakes are likely. */
		if (i % 7 == 6 && n_spans > 1)
			off = spans[1 + i / 7 % (n_spans - 1)].out - i % 3 * READ_SIZE / 2;
		end = off + READ_SIZE;
		start = wall();
		while (off < end) {
			size_t s = n_spans - 1, got;
			struct span_decoder *d;
			uint64_t skip, stop;
			double t = wall();

			while (spans[s].out > off)
				s--;
			if (codec_zstd.span_open(raw, &spans[s], &d, &err) < 0)
				die(&err);
			open_ms[i] = (wall() - t) * 1e3;
			max_weight = MAX(max_weight, d->weight);
			for (skip = off - spans[s].out; skip; skip -= got)
				if (codec_zstd.span_read(d, NULL, skip, &got, &err) < 0)
					die(&err);
			for (stop = MIN(end, spans[s].out_end); off < stop; off += got)
				if (codec_zstd.span_read(d, buf + READ_SIZE - (end - off), stop - off, &got,
							 &err) < 0)
					die(&err);
			codec_zstd.span_close(d);
		}
		ms[i] = (wall() - start) * 1e3;
		if (want && memcmp(want + end - READ_SIZE, buf, READ_SIZE))
			n_wrong++;
	}
	qsort(ms, n, sizeof(*ms), by_value);
	qsort(open_ms, n, sizeof(*open_ms), by_value);
	printf("%zu reads: median %.1f ms, p90 %.1f, p99 %.1f, max %.1f; opening: median %.2f, max %.2f; "
	       "weight up to %" PRIu64 " KiB; %zu wrong%s\n",
	       n, ms[n / 2], ms[n * 9 / 10], ms[n * 99 / 100], ms[n - 1], open_ms[n / 2], open_ms[n - 1],
	       max_weight >> 10, n_wrong, want ? "" : " (not compared)");
	free(ms);
	free(open_ms);
	free(buf);
}

int main(int argc, char **argv)
{
	struct codec_scan_options opts = { .budget_percent = 8 };
	size_t n_reads = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
	double best_plain = 1e9, best_scan = 1e9, best_wall = 1e9;
	AUTO(source_closep) struct source *raw = NULL;
	AUTO(arena_done) struct arena arena;
	struct codec_spans spans = { 0 };
	const uint8_t *want = NULL;
	uint64_t payloads = 0, largest = 0, longest = 0;
	struct result r = { 0 };
	struct err err = { 0 };
	struct rusage ru;
	int fd;

	arena_init(&arena);
	if (argc < 2) {
		fprintf(stderr,
			"usage: codec_zstd FILE.zst [SPACING_MIB [THREADS [READS [DECODED_FILE]]]]\n");
		return 2;
	}
	if (source_open_file(argv[1], &raw, &err) != 0)
		die(&err);
	opts.spacing = argc > 2 ? MIB(strtoul(argv[2], NULL, 10)) : 0;
	opts.threads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		double p = plain(raw);

		if (r.scan)
			codec_zstd.scan_close(r.scan);
		r = scan(raw, &opts);
		best_plain = MIN(best_plain, p);
		best_scan = MIN(best_scan, r.cpu);
		best_wall = MIN(best_wall, r.wall);
	}
	if (codec_zstd.scan_spans(r.scan, &arena, &spans, &err) != 0) {
		printf("no points: %s\n", spans.why);
		return 1;
	}
	for (size_t i = 0; i < spans.n; i++) {
		payloads += spans.v[i].payload.size + spans.v[i].sums.size;
		largest = MAX(largest, spans.v[i].payload.size);
		longest = MAX(longest, spans.v[i].out_end - spans.v[i].out);
	}
	getrusage(RUSAGE_SELF, &ru);
	printf("%s: %.1f MB, decoded %.1f MB\n", argv[1], (double)raw->size / 1e6, (double)r.decoded / 1e6);
	printf("plain %.3f s CPU; scan %.3f s CPU (x %.3f), %.3f s wall; peak %ld MiB\n", best_plain,
	       best_scan, best_scan / best_plain, best_wall, ru.ru_maxrss >> 10);
	printf("%zu spans, longest %.1f MiB; index %.1f MB = %.2f %% of compressed, %.2f %% of decoded; "
	       "largest payload %" PRIu64 " KiB\n",
	       spans.n, (double)longest / 1048576, (double)payloads / 1e6,
	       100.0 * (double)payloads / (double)raw->size, 100.0 * (double)payloads / (double)r.decoded,
	       largest >> 10);
	if (argc > 5) {
		fd = open(argv[5], O_RDONLY | O_CLOEXEC);
		want = fd < 0 ? MAP_FAILED : mmap(NULL, r.decoded, PROT_READ, MAP_SHARED, fd, 0);
		if (want == MAP_FAILED) {
			perror(argv[5]);
			return 1;
		}
	}
	if (n_reads)
		reads(raw, spans.v, spans.n, r.decoded, n_reads, want);
	codec_zstd.scan_close(r.scan);
	return 0;
}
