/* SPDX-License-Identifier: Apache-2.0 */
/* Older formats of pprof: lists of threads, Java's profiles, frames of signal handlers, short memory maps. */
#include "folded.h"

#include "profile/input.h"

static struct profile *read_bytes(struct bytes in)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_done(profile_read(in, PROFILE_FORMAT_AUTO, NULL, &p, &err));
	return p;
}

static struct profile *read_legacy_text(const char *text)
{
	return read_bytes(bytes_of(text, strlen(text)));
}

static void assert_refused(const char *text, const char *why)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_fails(profile_read(bytes_of(text, strlen(text)), PROFILE_FORMAT_AUTO, NULL, &p, &err),
		     ERR_INVALID, why);
}

/* ---- threads ---- */

static const char threads[] = "--- threadz 1 ---\n\n"
			      "--- Thread 7f01 (name: main/1) stack: ---\n"
			      "  PC: 0x401010 0x401010 0x401101\n"
			      "--- Thread 7f02 (name: a b/2) stack: ---\n"
			      "  PC:  0x401020: wait(int)\n"
			      "  0x401101: run\n"
			      "      creator: 0x401201 0x401301\n"
			      "--- Thread 7f03 (name: c/3) stack: ---\n"
			      "  [same as previous thread]\n"
			      "--- Thread 7f04 (name: d/4) stack: ---\n"
			      "--- Memory map: ---\n"
			      "  build=/home/x\n"
			      "  00401000-00402000: $build/app (@1000) 0123abcd\n"
			      "  7f0000000000-7f0000001000: /lib/libx.so\n";

static void lists_of_threads(void **state)
{
	AUTO(profile_freep) struct profile *p = read_legacy_text(threads);

	assert_int_equal(profile_total(p, 0), 4);
	/* The leaf is on the stack twice, the second time as a return address. */
	assert_folded_type(p, "thread", "app+0x1300;app+0x1200;run;wait(int) 3\napp+0x1100;app+0x1010 1\n");
	assert_int_equal(p->mappings.n, 2);
	assert_str(profile_str(p, p->mappings.p[0].file), "/home/x/app");
	assert_str(profile_str(p, p->mappings.p[0].build_id), "0123abcd");
	assert_int_equal(p->mappings.p[0].offset, 0x1000);
}

static void lists_of_threads_may_end_early(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_legacy_text("# comment\n--- Thread 7f01 (name: x/1) stack: ---\n 0x10\n"
					     "---- no stack trace for 0x12\n garbage ---\n");

	assert_int_equal(profile_total(p, 0), 1);
	assert_refused("--- threadz 1 ---\n--- Thread 1 (name: x/1) stack: ---\n 0x10\n--- oops\n", "line 4");
	assert_refused("--- threadz 1 ---\n", "has no samples");
	assert_refused("--- threadz 1 ---\n--- Thread 1 (name: x/1) stack: ---\n", "has no samples");
}

static void addresses_that_cannot_be_read(void **state)
{
	assert_refused(
		"--- threadz 1 ---\n--- Thread 1 (name: x/1) stack: ---\n PC: 0x10 0x473add693e639c6f0\n",
		"line 3: has an invalid address");
}

/* ---- sections and memory maps ---- */

#define LOG "W1220 15:07:15.201776    8272 logger.cc:12033] "

static void lines_of_a_log(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_legacy_text(LOG "heap profile: 1: 8 [1: 8] @ heapz_v2/1\n" LOG
						 " 1: 8 [1: 8] @ 0x401011 0x700111 0x800011\n" LOG
						 "--- Memory map: ---\n" LOG "  build = /home/x\n" LOG
						 "  build2=/home/y\n" LOG
						 "00400000-00402000: $build/app (@1000) 0123abcd\n" LOG
						 "0x700000 0x701000 r-xp $build2/lib 87c4d547f895cfd6\n" LOG
						 "0x800000-0x801000 /bin/a b\n" LOG "MAPPED_LIBRARIES:\n");

	assert_folded_type(p, "objects", "a b+0x10;lib+0x110;app+0x2010 1\n");
	assert_str(profile_str(p, p->mappings.p[0].file), "/home/x/app");
	assert_str(profile_str(p, p->mappings.p[1].file), "/home/y/lib");
	assert_str(profile_str(p, p->mappings.p[1].build_id), "87c4d547f895cfd6");
}

static void comments_before_the_first_line(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_legacy_text("# ignored\n\nsub/dir-ect_o.ry profile: total 9\n2 @ 0x11\n"
					     "--- other ---\nother text\n");
	AUTO(profile_freep)
	struct profile *q = read_legacy_text("\nheap profile: 1: 8 [1: 8] @ heap_v2/1\n1: 8 [1: 8] @ 0x11\n");

	assert_folded_type(p, "sub/dir-ect_o.ry", "0x10 2\n");
	assert_folded_type(q, "space", "0x10 8\n");
}

/* As google/pprof: no pair of allocations, and no rate. */
static void growth_of_heaps(void **state)
{
	static const char *const whats[] = { "growthz", "growth", "fragmentationz", "fragmentation" };

	for (size_t i = 0; i < ARRAY_SIZE(whats); i++) {
		AUTO(buf_done) struct buf b = { 0 };
		AUTO(profile_freep) struct profile *p = NULL;

		buf_printf(&b,
			   "heap profile: 2: 600 [9: 4608] @ %s\n 2: 600 [9: 4608] @ 0x11\n 0: 0 [3: 9] @ "
			   "0x21\n",
			   whats[i]);
		p = read_bytes(buf_bytes(&b));
		assert_int_equal(p->types.n, 2);
		assert_folded_type(p, "space", "0x10 600\n");
		assert_int_equal(p->sample_labels[1], 0);
	}
}

static void contentions_with_other_sections(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_legacy_text(
		"--- contentionz 1 ---\ncycles/second = 1000\nsampling period = 2\n"
		" 1 3 @ 0x11\n--- other ---\n 1 9 @ 0x21\n");

	assert_folded_type(p, "contentions", "0x10 6\n");
	assert_refused("--- contentionz 1 ---\nsampling period = x\n 1 3 @ 0x11\n", "line 2: has no number");
}

/* ---- Java ---- */

static const char java_names[] = "\n 0x00000003 com.example.f (F.java:10)\n 0x04 com.example.g (G.java:-1)\n"
				 " 0x5 JVM_Sleep (/usr/lib/libjvm.so)\n 0x6 GC\n 0x7 x generated stub/JIT "
				 "y\n 0x8 odd (a) (b.java:3)\n";

static void heaps_of_java(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;

	buf_printf(&b,
		   "--- heapz 1 ---\nformat = java\nresolution = bytes\n  7048 1 @ 0x3 0x4\n 880 2 @ 0x5 "
		   "0x8\n%s",
		   java_names);
	p = read_bytes(buf_bytes(&b));
	assert_str(profile_str(p, p->types.p[0].type), "inuse_objects");
	/* One of 7048 bytes in a sample of one in 512 KiB; the estimate is that of pprof. */
	assert_int_equal(profile_value(p, 0, 0), 74);
	assert_int_equal(profile_value(p, 0, 1), 527819);
	assert_folded_type(p, "inuse_objects", "odd (a);JVM_Sleep 2384\ncom.example.g;com.example.f 74\n");
	assert_str(profile_str(p, p->functions.p[p->lines.p[0].function].file), "F.java");
	assert_int_equal(p->lines.p[0].line, 10);
}

static void contentions_of_java(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;

	buf_printf(&b,
		   "--- contentionz 1 ---\nformat = java\nresolution = microseconds\nsampling period = "
		   "100\nms since reset = "
		   "60\n 14 1 @ 0x3 0x6\n 2 3 @ 0x7 0x99\n%s",
		   java_names);
	p = read_bytes(buf_bytes(&b));
	assert_folded_type(p, "contentions", "0x99;STUB 300\nGC;com.example.f 100\n");
	assert_str(profile_str(p, p->types.p[1].unit), "microseconds");
	assert_int_equal(profile_total(p, 1), 1600);
	assert_int_equal(p->duration_ns, 60000000);
}

static void java_without_a_format(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_legacy_text(
		"--- heapz 1 ---\nresolution = bytes\n 7048 1 @ 0x3\n 0x3 f (F.java:1)\n");

	assert_folded_type(p, "inuse_objects", "f 74\n");
}

static void bad_profiles_of_java(void **state)
{
	assert_refused("--- heapz 1 ---\nformat = java\n\n", "has no samples");
	assert_refused("--- heapz 1 ---\nformat = java\n 5 0 @ 0x3\n", "line 3: has no number of objects");
	assert_refused("--- contentionz 1 ---\nformat = java\nsampling period = x\n 5 1 @ 0x3\n",
		       "line 3: has no number");
	assert_refused("--- heapz 1 ---\nformat = java\n 5 1 @ zz\n", "line 3: has an invalid address");
}

/* ---- CPU ---- */

static void add_cpu_words(struct buf *b, const uint64_t *words, size_t n)
{
	buf_add(b, words, n * sizeof(*words));
}

static void cpu_profiles_of_java(void **state)
{
	static const uint64_t words[] = { 0, 3, 1, 10000, 0, 5, 2, 3, 4, 1, 1, 6, 0, 1, 0 };
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;

	add_cpu_words(&b, words, ARRAY_SIZE(words));
	buf_add_str(&b, str_of(java_names));
	p = read_bytes(buf_bytes(&b));
	assert_folded_type(p, "samples", "com.example.g;com.example.f 5\nGC 1\n");
}

static const char maps[] = "00400000-00410000 r-xp 00000000 00:00 1 /bin/app\n"
			   "7f0000000000-7f0000010000 r-xp 00000000 00:00 2 /lib/libpthread-2.15.so\n";

/* @n_handlers frames from @handler on after the leaf; with @n_callers different callers. */
static struct profile *sampled(uint64_t handler, unsigned n_handlers, unsigned n_callers)
{
	static const uint64_t head[] = { 0, 3, 0, 10000, 0 }, end[] = { 0, 1, 0 };
	AUTO(buf_done) struct buf b = { 0 };

	add_cpu_words(&b, head, ARRAY_SIZE(head));
	for (unsigned i = 0; i < 40; i++) {
		const uint64_t begin[] = { 1, n_handlers + 3, 0x400100 + i },
			       callers[] = { 0x400801 + i % n_callers, 0x400901 };

		add_cpu_words(&b, begin, ARRAY_SIZE(begin));
		for (unsigned k = 0; k < n_handlers; k++)
			add_cpu_words(&b, &(uint64_t){ handler + k }, 1);
		add_cpu_words(&b, callers, ARRAY_SIZE(callers));
	}
	add_cpu_words(&b, end, ARRAY_SIZE(end));
	buf_add_str(&b, str_of(maps));
	return read_bytes(buf_bytes(&b));
}

static unsigned depth_of(const struct profile *p, uint32_t sample)
{
	unsigned n = 0;

	for (uint32_t s = p->sample_stack[sample]; s; s = p->stacks.p[s].parent)
		n++;
	return n;
}

/* Two frames at most, as google/pprof does. */
static void handlers_are_removed(void **state)
{
	for (unsigned n = 1; n <= 3; n++) {
		AUTO(profile_freep) struct profile *p = sampled(0x7f0000000500, n, 8);

		for (uint32_t i = 0; i < p->n_samples; i++)
			assert_int_equal(depth_of(p, i), n == 3 ? 4 : 3);
	}
}

static void callers_are_not_handlers(void **state)
{
	/* The only caller, and a function of the program. */
	AUTO(profile_freep) struct profile *p = sampled(0x7f0000000500, 1, 1);
	AUTO(profile_freep) struct profile *q = sampled(0x400501, 1, 8);

	assert_int_equal(depth_of(p, 0), 4);
	assert_int_equal(depth_of(q, 0), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_threads),
		cmocka_unit_test(lists_of_threads_may_end_early),
		cmocka_unit_test(heaps_of_java),
		cmocka_unit_test(contentions_of_java),
		cmocka_unit_test(bad_profiles_of_java),
		cmocka_unit_test(cpu_profiles_of_java),
		cmocka_unit_test(addresses_that_cannot_be_read),
		cmocka_unit_test(lines_of_a_log),
		cmocka_unit_test(comments_before_the_first_line),
		cmocka_unit_test(growth_of_heaps),
		cmocka_unit_test(contentions_with_other_sections),
		cmocka_unit_test(java_without_a_format),
		cmocka_unit_test(handlers_are_removed),
		cmocka_unit_test(callers_are_not_handlers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
