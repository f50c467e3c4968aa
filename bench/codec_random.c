/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of random access to one compressed file, or to the data member of a .deb:
 *
 *   codec_random FILE [THREADS [READS [READ_SIZE [RANGE_MIB]]]]
 *
 * First the scan with THREADS helpers, since it has the peak of memory; then plain decoding; then READS reads of
 * READ_SIZE at random offsets, once each from a new source, once all through one cache; then RANGE_MIB (about a
 * kernel's vmlinux) in order, without and with one helper.
 */
#include "codec/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define HEAD_SIZE   16
#define AR_HEADER   60
#define CACHE_SIZE  MIB(256)
#define RANGE_PIECE KIB(64)
#define RANGE_AHEAD 2
#define MB(n)       ((double)(n) / 1e6)

struct subject {
	const char *path;
	uint64_t off, size;
	enum codec_kind kind;
	struct buf points;
	uint64_t decoded_size;
};

static double cpu(void)
{
	return (double)clock_cpu_ns() / 1e9;
}

static double wall(void)
{
	return (double)clock_mono_ns() / 1e9;
}

static void check(int r, const struct err *err)
{
	if (!r)
		return;
	fprintf(stderr, "codec_random: %s\n", r > 0 ? "missing" : err->text);
	exit(1);
}

static struct source *open_part(const struct subject *s)
{
	struct source *file, *part;
	struct err err = { 0 };

	check(source_open_file(s->path, &file, &err), &err);
	check(source_open_part(file, true, range_of(s->off, s->size ? s->size : file->size), NULL, &part,
			       &err),
	      &err);
	return part;
}

/* A .deb is an ar archive whose last member is data.tar.*. */
static void find_data(struct subject *s)
{
	struct source *file = open_part(s);
	struct err err = { 0 };
	uint8_t head[HEAD_SIZE];
	char h[AR_HEADER + 1] = "";
	uint64_t at = 8;

	s->size = file->size;
	check(source_read_full(file, 0, head, sizeof(head), SOURCE_RANDOM, &err), &err);
	while (memcmp(head, "!<arch>\n", 8) == 0 && at < file->size) {
		check(source_read_full(file, at, h, AR_HEADER, SOURCE_RANDOM, &err), &err);
		s->off = at + AR_HEADER;
		s->size = strtoull(h + 48, NULL, 10);
		at = s->off + s->size + s->size % 2;
		if (memcmp(h, "data.tar", 8) == 0)
			break;
	}
	check(source_read_full(file, s->off, head, sizeof(head), SOURCE_RANDOM, &err), &err);
	s->kind = codec_detect(bytes_of(head, sizeof(head)));
	source_close(file);
	printf("%s: %s, %.1f MB at %" PRIu64 "\n", s->path, codec_name(s->kind), MB(s->size), s->off);
}

static int ignore(void *arg, struct bytes piece, struct err *err)
{
	return 0;
}

static void run_scan(struct subject *s, unsigned threads)
{
	struct codec_scan_options opts = { .threads = threads };
	struct source *raw = open_part(s);
	struct codec_points_info info;
	struct codec_scan *scan;
	struct err err = { 0 };
	struct rusage usage;
	double c = cpu(), w = wall();
	const char *why = NULL;
	bool complete;

	check(codec_scan_open(s->kind, raw, range_of(0, raw->size), &opts, &scan, &err), &err);
	check(stream_each(codec_scan_stream(scan), ignore, NULL, &err), &err);
	check(codec_scan_points(scan, &s->points, &complete, &why, &err), &err);
	codec_scan_close(scan);
	source_close(raw);
	c = cpu() - c;
	w = wall() - w;
	getrusage(RUSAGE_SELF, &usage);
	check(codec_points_info(buf_bytes(&s->points), &info, &err), &err);
	s->decoded_size = info.decoded_size;
	printf("scan, %u helpers: %.2f s CPU, %.2f s wall (%.2f of CPU), peak %ld MB\n", threads, c, w, w / c,
	       usage.ru_maxrss / 1000);
	printf("  %.1f MB decoded, %u spans up to %.1f MB, points %" PRIu64
	       " bytes, %.3f %% of the compressed%s%s\n",
	       MB(info.decoded_size), info.n_spans, MB(info.max_span), info.size,
	       100 * (double)info.size / (double)s->size, why ? "; " : "", why ? why : "");
}

static void run_plain(const struct subject *s)
{
	struct source *raw = open_part(s);
	struct stream *decoded;
	struct err err = { 0 };
	double c = cpu();

	check(codec_stream_open(s->kind, stream_of_source(raw, true, 0, raw->size), &decoded, &err), &err);
	check(stream_each(decoded, ignore, NULL, &err), &err);
	stream_close(decoded);
	printf("plain decoding: %.2f s CPU\n", cpu() - c);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void run_random(const struct subject *s, unsigned n, size_t size, struct codec_cache *cache)
{
	double *times = NEW_N(double, n), total = 0;
	uint8_t *out = mem_alloc(size);

	for (unsigned i = 0; i < n; i++) {
		struct codec_source_options o = { .size = s->decoded_size,
						  .points = buf_bytes(&s->points),
						  .cache = cache,
						  .cache_id = 1 };
		uint64_t seed = i, off = hash64(&seed, sizeof(seed), 1) % (s->decoded_size - size);
		struct source *src;
		struct err err = { 0 };
		double c = cpu();

		check(codec_source_open(s->kind, open_part(s), &o, &src, &err), &err);
		check(source_read_full(src, off, out, size, SOURCE_RANDOM, &err), &err);
		source_close(src);
		total += times[i] = cpu() - c;
	}
	qsort(times, n, sizeof(*times), by_value);
	printf("%u reads of %zu bytes%s: CPU median %.1f ms, p90 %.1f, p99 %.1f, max %.1f; %.2f s in all\n",
	       n, size, cache ? ", one cache" : "", times[n / 2] * 1e3, times[n * 90 / 100] * 1e3,
	       times[n * 99 / 100] * 1e3, times[n - 1] * 1e3, total);
	free(times);
	free(out);
}

static void run_range(const struct subject *s, uint64_t size, struct pool *helpers)
{
	uint64_t from = s->decoded_size / 3, end;
	struct codec_source_options o = { .size = s->decoded_size,
					  .points = buf_bytes(&s->points),
					  .helpers = helpers,
					  .max_ahead = RANGE_AHEAD };
	struct source *src;
	struct err err = { 0 };
	uint8_t *out = mem_alloc(RANGE_PIECE);
	double c = cpu(), w = wall(), first = 0;

	end = o.read_end = MIN(from + size, s->decoded_size);
	check(codec_source_open(s->kind, open_part(s), &o, &src, &err), &err);
	for (uint64_t at = from; at < end;) {
		size_t got;

		check(source_read(src, at, out, (size_t)MIN(RANGE_PIECE, end - at), SOURCE_SEQUENTIAL, &got,
				  &err),
		      &err);
		at += got;
		if (!first)
			first = wall() - w;
	}
	source_close(src);
	c = cpu() - c;
	w = wall() - w;
	printf("%.0f MB in order, %s: %.2f s CPU, %.2f s wall (%.2f of CPU), first bytes after %.3f s\n",
	       MB(end - from), helpers ? "one helper" : "alone", c, w, w / c, first);
	free(out);
}

int main(int argc, char **argv)
{
	struct subject s = { .path = argc > 1 ? argv[1] : NULL };
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	unsigned n_reads = argc > 3 ? (unsigned)atoi(argv[3]) : 100;
	size_t read_size = argc > 4 ? (size_t)atol(argv[4]) : 300000;
	uint64_t range = MIB(argc > 5 ? (size_t)atol(argv[5]) : 604);
	struct codec_cache *cache = codec_cache_new(CACHE_SIZE);
	struct pool *pool = pool_new("helper", 1, 8);

	if (argc < 2) {
		fprintf(stderr, "usage: codec_random FILE [THREADS [READS [READ_SIZE [RANGE_MIB]]]]\n");
		return 2;
	}
	find_data(&s);
	run_scan(&s, threads);
	run_plain(&s);
	run_random(&s, n_reads, read_size, NULL);
	run_random(&s, n_reads, read_size, cache);
	run_range(&s, range, NULL);
	run_range(&s, range, pool);
	pool_free(pool);
	codec_cache_free(cache);
	buf_done(&s.points);
	return 0;
}
