/* SPDX-License-Identifier: Apache-2.0 */
#include "folded.h"

#include "profile/input.h"

static struct profile *read_text(const char *text)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_done(profile_read(bytes_of(text, strlen(text)), PROFILE_FORMAT_AUTO, NULL, &p, &err));
	return p;
}

static void assert_refused(const char *text, const char *why)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_int_equal(profile_read(bytes_of(text, strlen(text)), PROFILE_FORMAT_LEGACY, NULL, &p, &err),
			 -1);
	assert_string_equal(err.text, why);
}

/* As `go tool pprof -raw` has the numbers; the names are Go's own. */
static void heap_of_go(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text("heap profile: 767: 450256 [770: 552656] @ heap/2048\n"
				      "75: 13200 [75: 13200] @ 0x4b51af 0x4b5199 0x4374f2 0x4614e1\n"
				      "#\t0x4b51ae\tmain.inner+0x2e\t\t/src/a+b.go:14\n"
				      "#\t0x4b5198\tmain.hold+0x18\t\t/src/main.go:17\n"
				      "#\t0x4b5198\tmain.outer\t\t/src/main.go:20\n"
				      "#\t0x4374f1\truntime.main+0x211\t/usr/lib/go/src/runtime/proc.go:250\n"
				      "\n"
				      "0: 0 [1: 102400] @ 0x4b51af\n"
				      "\n# runtime.MemStats\n# Alloc = 1\n");
	const struct profile_location *l = &p->locations.p[p->stacks.p[p->sample_stack[0]].location];

	assert_int_equal(p->types.n, 4);
	assert_int_equal(p->period, 1024);
	assert_str(profile_str(p, p->types.p[3].type), "inuse_space");
	/* 75 samples of 176 bytes, one in 1024 bytes. */
	assert_int_equal(profile_value(p, 0, 2), 474);
	assert_int_equal(profile_value(p, 0, 3), 83588);
	assert_int_equal(profile_value(p, 1, 0), 1);
	assert_int_equal(profile_value(p, 1, 1), 102400);
	assert_int_equal(profile_value(p, 1, 2), 0);
	assert_folded_type(p, "inuse_objects", "0x4614e0;runtime.main;main.outer;main.hold;main.inner 474\n");
	assert_int_equal(p->labels.p[p->label_sets.p[p->sample_labels[0]].first].num, 176);
	assert_int_equal(l->addr, 0x4b51ae);
	assert_int_equal(p->lines.p[l->first_line].line, 14);
	assert_str(profile_str(p, p->functions.p[p->lines.p[l->first_line].function].file), "/src/a+b.go");
}

static void heap_of_tcmalloc(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text(
		"heap profile:   2000:  5100000 [ 22000: 86100000] @ heapprofile\n"
		"  2000:  5100000 [  2000:  5100000] @ 0x55e470d5e16e 0x7f9aa064524a\n"
		"     0:        0 [ 20000: 81000000] @ 0x55e470d5e16e 0x10\n"
		"\n"
		"MAPPED_LIBRARIES:\n"
		"7f9aa0644000-7f9aa079a000 r-xp 00026000 00:00 326269      /usr/lib/libc.so.6\n"
		"55e470d5d000-55e470d5e000 r--p 00000000 00:00 3661875     /src/busy\n"
		"55e470d5e000-55e470d5f000 r-xp 00001000 00:00 3661875     /src/busy (deleted)\n"
		"7fff0000-7fff1000 rw-p 00000000 00:00 0\n"
		"nonsense\n");
	const struct profile_location *l = &p->locations.p[p->stacks.p[p->sample_stack[0]].location];
	const struct profile_mapping *m = &p->mappings.p[l->mapping];

	assert_int_equal(profile_total(p, 3), 5100000);
	assert_int_equal(profile_total(p, 1), 86100000);
	assert_int_equal(p->mappings.n, 2);
	assert_int_equal(l->addr, 0x55e470d5e16d);
	assert_str(profile_str(p, m->file), "/src/busy");
	assert_int_equal(m->offset, 0x1000);
	assert_int_equal(m->limit, 0x55e470d5f000);
	assert_folded_type(p, "alloc_objects", "0xf;busy+0x116d 20000\nlibc.so.6+0x27249;busy+0x116d 2000\n");
}

static void heap_of_jemalloc(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text("heap_v2/4096\n"
				      "  t*: 1046: 2791643 [0: 0]\n"
				      "  t0: 1046: 2791643 [0: 0] worker\n"
				      "@ 0x7fa5ca8a2630 0x555c5760e16e\n"
				      "  t*: 1035: 2725752 [0: 0]\n"
				      "  t0: 1035: 2725752 [0: 0]\n"
				      "@ 0x7fa5ca8a2d21\n"
				      "  t*: 1: 81920 [0: 0]\n"
				      "  t0: 1: 81920 [0: 0]\n"
				      "\nMAPPED_LIBRARIES:\n"
				      "555c5760e000-555c5760f000 r-xp 00001000 00:00 3661875 /src/busy\n");

	assert_int_equal(p->types.n, 2);
	assert_int_equal(p->period, 4096);
	assert_folded_type(p, "objects", "busy+0x116d;0x7fa5ca8a262f 2182\n0x7fa5ca8a2d20 1\n");
	assert_int_equal(profile_value(p, 0, 1), 5747286);
	assert_int_equal(profile_value(p, 1, 1), 81920);
}

static void goroutines(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text("goroutine profile: total 8\n"
				      "7 @ 0x42d4f6 0x45cb05\n"
				      "# labels: {\"job\":\"wait \\\"q\\\"\", \"n\":\"1\"}\n"
				      "#\t0x45cb04\tmain.wait+0x24\t/src/main.go:46\n\n"
				      "1 @ 0x42d4f6\n\n");
	const struct profile_label_set *set = &p->label_sets.p[p->sample_labels[0]];

	assert_folded_type(p, "", "main.wait;0x42d4f5 7\n0x42d4f5 1\n");
	assert_str(profile_str(p, p->types.p[0].type), "goroutine");
	assert_int_equal(set->n, 2);
	assert_str(profile_str(p, p->labels.p[set->first].str), "wait \"q\"");
	assert_str(profile_str(p, p->labels.p[set->first + 1].key), "n");
}

static void contentions(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text("--- contention:\n"
				      "cycles/second=2000000000\n"
				      "sampling period = 10\n"
				      "ms since reset = 1500\n"
				      "discarded samples = 0\n"
				      "3000 2 @ 0x11 0x21\n");

	assert_int_equal(profile_value(p, 0, 0), 20);
	assert_int_equal(profile_value(p, 0, 1), 15000);
	assert_int_equal(p->duration_ns, 1500000000);
	assert_folded_type(p, "contentions", "0x20;0x10 20\n");
}

static void bad_input_is_refused_with_its_line(void **state)
{
	assert_refused("goroutine profile: total 8\n7 @ 0x42d4f6 zz\n", "line 2: has an invalid address");
	assert_refused("goroutine profile: total 8\n\nseven @ 0x42d4f6\n", "line 3: cannot be parsed");
	assert_refused("heap_v2/many\n@ 0x1\n", "line 1: has no number in its first line");
	assert_refused("heap_v2/4096\n  t*: 1: 1 [0: 0]\n", "has no samples");
	assert_refused("main;f 12\n", "line 1: is not a profile of Go, gperftools or jemalloc");
	assert_refused("heap profile: 1: 1 [1: 1] @ heapprofile\n99999999999999999999: 1 [1: 1] @ 0x1\n",
		       "line 2: cannot be parsed");
}

/* ---- CPU profiles ---- */

static void add_words(struct buf *b, const uint64_t *words, size_t n, bool wide, bool big)
{
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0, size = wide ? 8 : 4; k < size; k++) {
			uint8_t byte = (uint8_t)(words[i] >> 8 * (big ? size - 1 - k : k));

			buf_add(b, &byte, 1);
		}
}

static const uint64_t records[] = {
	0,
	3,
	0,
	10000,
	0,
	/* plain; with the leaf on the stack as well; with the frame of the handler too */
	2,
	3,
	0x1100,
	0x2201,
	0x3301,
	3,
	4,
	0x1100,
	0x1100,
	0x2201,
	0x3301,
	4,
	5,
	0x1100,
	0x9999,
	0x1100,
	0x2201,
	0x3301,
	1,
	2,
	0x1108,
	0x3301,
	0,
	1,
	0,
};
static const char cpu_maps[] = "00001000-00003000 r-xp 00000000 00:00 1 /src/busy\n";

static void cpu_profiles_of_any_machine(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		AUTO(buf_done) struct buf b = { 0 };
		AUTO(profile_freep) struct profile *p = NULL;
		struct err err = { 0 };

		add_words(&b, records, ARRAY_SIZE(records), i & 1, i & 2);
		buf_add_str(&b, str_of(cpu_maps));
		assert_done(profile_read(buf_bytes(&b), PROFILE_FORMAT_AUTO, NULL, &p, &err));
		assert_int_equal(p->period, 10000000);
		assert_int_equal(profile_total(p, 0), 10);
		assert_int_equal(profile_total(p, 1), 100000000);
		assert_folded_type(p, "samples", "0x3300;busy+0x1200;busy+0x100 9\n0x3300;busy+0x108 1\n");
	}
}

static void cut_cpu_profiles(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	unsigned n_read = 0;

	add_words(&b, records, ARRAY_SIZE(records), true, false);
	for (size_t size = 1; size <= b.size; size++) {
		AUTO(profile_freep) struct profile *p = NULL;
		struct err err = { 0 };
		int r = profile_read_cpu(bytes_of(b.p, size), NULL, &p, &err);

		n_read += r == 0;
		assert_true(r == 0 || err.kind == ERR_INVALID);
	}
	/* Where a record ends, and within the last. */
	assert_int_equal(n_read, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_of_go),
		cmocka_unit_test(heap_of_tcmalloc),
		cmocka_unit_test(heap_of_jemalloc),
		cmocka_unit_test(goroutines),
		cmocka_unit_test(contentions),
		cmocka_unit_test(bad_input_is_refused_with_its_line),
		cmocka_unit_test(cpu_profiles_of_any_machine),
		cmocka_unit_test(cut_cpu_profiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
