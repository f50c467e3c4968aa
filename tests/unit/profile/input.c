/* SPDX-License-Identifier: Apache-2.0 */
#include "folded.h"

#include "profile/input.h"
#include "profile_maker.h"
#include "profile_same.h"

static struct profile *read_text(const char *text, enum profile_format format)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_done(profile_read(bytes_of(text, strlen(text)), format, NULL, &p, &err));
	return p;
}

static const char chains[] = "swapper     0     0.000000: PERF_RECORD_MMAP -1/0: "
			     "[0xffffffff81000000(0x1206448) @ 0xffffffff81000000]: x "
			     "[kernel.kallsyms]_text\n"
			     "busy 17233 37957.981578: PERF_RECORD_MMAP2 17233/17233: "
			     "[0x55ec5e887000(0x2000) @ 0x1000 fe:00 871942 3739]: r-xp "
			     "/usr/bin/a b\n"
			     "busy 17233 37957.981579: PERF_RECORD_MMAP2 17233/17233: "
			     "[0x7f0000000000(0x2000) @ 0x3000 <0123abcd>]: r-xp /usr/lib/libx.so\n"
			     "busy 17233 37957.981580: PERF_RECORD_MMAP2 17233/17233: "
			     "[0x7f0000002000(0x2000) @ 0x5000 <0123abcd>]: rw-p /usr/lib/libx.so\n"
			     "busy worker 17233/17240 [003] 37957.982630:    1001001 cpu-clock:ppp: \n"
			     "\tffffffff815e0493 free_pgtables+0x143 ([kernel.kallsyms])\n"
			     "\t            3010 inner (inlined)\n"
			     "\t            3010 outer(int, char (*)(int))+0x8 (/usr/lib/libx.so)\n"
			     "\t            1200 [unknown] (/usr/bin/a b)\n"
			     "\t               0 [unknown] ([unknown])\n"
			     "\n"
			     "busy worker 17233/17240 [003] 37957.983630:    1001001 cpu-clock:ppp: \n"
			     "\t    7f0000000020 outer(int, char (*)(int))+0x18 (/usr/lib/libx.so)\n"
			     "\n"
			     "busy 17233 37957.983999: PERF_RECORD_FORK(17300:17300):(17233:17233)\n"
			     "busy 17300 37957.984630:    500 cycles:u: \n"
			     "\t    55ec5e887210 main+0x10 (/usr/bin/a b (deleted))\n";

static void call_chains_of_perf(void **state)
{
	AUTO(profile_freep) struct profile *p = read_text(chains, PROFILE_FORMAT_AUTO);
	const struct profile_mapping *m;
	const struct profile_location *l;
	const struct profile_label_set *set;

	assert_int_equal(p->types.n, 3);
	assert_str(profile_str(p, p->types.p[1].type), "cpu-clock");
	assert_str(profile_str(p, p->types.p[2].type), "cycles:u");
	assert_int_equal(p->period_type.type, p->types.p[1].type);
	assert_str(profile_str(p, p->types.p[1].unit), "nanoseconds");
	assert_int_equal(profile_total(p, 0), 3);
	assert_int_equal(p->duration_ns, 2000000);
	assert_int_equal(profile_total(p, 1), 2002002);
	assert_int_equal(profile_total(p, 2), 500);
	assert_folded(p, 0,
		      "0x0;a b+0x11ff;outer(int, char (*)(int));inner;free_pgtables 1\nmain 1\nouter(int, "
		      "char (*)(int)) 1\n");

	l = &p->locations.p[p->stacks.p[p->sample_stack[2]].location];
	assert_int_equal(l->addr, 0x55ec5e887210);
	m = &p->mappings.p[l->mapping];
	assert_str(profile_str(p, m->file), "/usr/bin/a b");
	assert_int_equal(m->start, 0x55ec5e887000);
	assert_int_equal(m->limit, 0x55ec5e889000);
	assert_int_equal(m->offset, 0x1000);

	/* The caller's file offset became an address, of the call. */
	l = &p->locations.p[p->stacks.p[p->stacks.p[p->sample_stack[0]].parent].location];
	assert_int_equal(l->addr, 0x7f000000000f);
	assert_int_equal(l->n_lines, 2);
	assert_str(profile_str(p, p->mappings.p[l->mapping].build_id), "0123abcd");

	l = &p->locations.p[p->stacks.p[p->sample_stack[0]].location];
	m = &p->mappings.p[l->mapping];
	assert_str(profile_str(p, m->file), "[kernel.kallsyms]_text");
	assert_int_equal(m->offset, 0xffffffff81000000);

	set = &p->label_sets.p[p->sample_labels[0]];
	assert_int_equal(set->n, 3);
	assert_str(profile_str(p, p->labels.p[set->first].str), "busy worker");
	assert_int_equal(p->labels.p[set->first + 1].num, 17233);
	assert_int_equal(p->labels.p[set->first + 2].num, 17240);
}

/* With build IDs its memory is not marked executable. */
static void kernels_that_have_a_build_id(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text(
		"swapper 0 0.000000: PERF_RECORD_MMAP2 -1/0: [0xffffffff81000000(0x1206448) @ "
		"0xffffffff81000000 <6ecd6ec2>]: ---p [kernel.kallsyms]_text\n"
		"busy 17233 37957.9: 1 cycles: \n\tffffffff815e0493 f+0x143 ([kernel.kallsyms])\n",
		PROFILE_FORMAT_AUTO);

	assert_int_equal(p->mappings.n, 1);
	assert_str(profile_str(p, p->mappings.p[0].build_id), "6ecd6ec2");
}

/* The newest one counts, a child has its parent's, the kernel's modules are in all processes. */
static void maps_by_process(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text(
		"swapper 0 0.0: PERF_RECORD_MMAP -1/0: [0xffffffffc0000000(0x1000) @ 0]: x [btrfs]\n"
		"a 7 1.0: PERF_RECORD_MMAP2 7/7: [0x1000(0x2000) @ 0 00:00 1 1]: r-xp /bin/old\n"
		"a 7 1.1: PERF_RECORD_MMAP2 7/7: [0x1000(0x1000) @ 0 00:00 1 1]: r-xp /bin/new\n"
		"a 7 1.2: PERF_RECORD_FORK(4103:4103):(7:7)\n"
		"a 4103 1.3: 1 cycles: \n\t1010 a1 (/bin/new)\n\tffffffffc0000010 k ([btrfs])\n\n"
		"a 7 1.4: 2 cycles: \n\t2010 a2 (/bin/old)\n\n"
		"b 9 1.5: 4 cycles: \n\t1010 a3 (/bin/b)\n\n"
		"a 7 1.6: PERF_RECORD_MMAP2 7/7: [0x2000(0x1000) @ 0 00:00 1 1]: r-xp /bin/newest\n"
		"a 7 1.7: 8 cycles: \n\t2010 a4 (/bin/newest)\n\n",
		PROFILE_FORMAT_AUTO);
	static const char *const files[] = { "/bin/new", "[btrfs]", "/bin/old", "/bin/b", "/bin/newest" };

	for (uint32_t i = 0; i < p->locations.n; i++)
		assert_str(profile_str(p, p->mappings.p[p->locations.p[i].mapping].file), files[i]);
	assert_int_equal(p->locations.n, 5);
	assert_int_equal(p->mappings.p[p->locations.p[1].mapping].start, 0xffffffffc0000000);
}

/* A program that is not position-independent, with offsets in a library and in itself that are addresses of its own. */
static void offsets_that_are_addresses_too(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text(
		"a 7 1.0: PERF_RECORD_MMAP2 7/7: [0x401000(0x800000) @ 0x1000 00:00 1 1]: r-xp /bin/a\n"
		"a 7 1.1: PERF_RECORD_MMAP2 7/7: [0x7f0000000000(0x1000000) @ 0 00:00 2 1]: r-xp /lib/b\n"
		"a 7 1.2: 1 cycles: \n\t450000 f (/lib/b)\n\t460000 g (/bin/a)\n\n",
		PROFILE_FORMAT_AUTO);

	assert_int_equal(p->locations.n, 2);
	assert_str(profile_str(p, p->mappings.p[p->locations.p[0].mapping].file), "/lib/b");
	assert_int_equal(p->locations.p[0].addr, 0x7f0000450000);
	assert_str(profile_str(p, p->mappings.p[p->locations.p[1].mapping].file), "/bin/a");
	assert_int_equal(p->locations.p[1].addr, 0x85ffff); /* a caller */
}

/* Without call chains perf prints addresses, also those that could be offsets. */
static void flat_addresses_of_a_large_program(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text(
		"a 7 1.0: PERF_RECORD_MMAP2 7/7: [0x401000(0x800000) @ 0x1000 00:00 1 1]: r-xp /bin/a\n"
		"a 7 1.2: 1 cycles: 450000 f (/bin/a)\n",
		PROFILE_FORMAT_AUTO);

	assert_int_equal(p->locations.n, 1);
	assert_int_equal(p->locations.p[0].addr, 0x450000);
}

static void flat_samples_of_perf(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text("            busy 17348 37960.931928:    1001001 cpu-clock:ppp:  "
				      "ffffffff821d06c4 mas_store+0xc4 ([kernel.kallsyms])\n"
				      "            cafe 17348 37960.937643:    1001001 cpu-clock:ppp:      "
				      "7f2dd615d0c0 do_lookup_x+0x360 (/usr/lib/ld.so)\n",
				      PROFILE_FORMAT_AUTO);

	assert_folded(p, 0, "do_lookup_x 1\nmas_store 1\n");
	assert_int_equal(profile_total(p, 1), 2002002);
}

static void perf_with_few_fields(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text("busy 17348 \n\t 12ab f+0x1 (/bin/x)\n\t 12ac g (/bin/x)\n\n"
				      "busy 17348 \n\t 12ab f+0x1 (/bin/x)\n",
				      PROFILE_FORMAT_AUTO);

	assert_folded(p, 0, "f 1\ng;f 1\n");
	assert_int_equal(p->types.n, 1);
}

/* Few bytes that ask for much work: each word once looked for the end of the line, through all blanks. */
static void a_line_of_many_words_and_blanks(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct profile *p = NULL;
	struct err err = { 0 };

	buf_add_char(&text, 'x');
	for (unsigned i = 0; i < 1u << 20; i++)
		buf_add_str(&text, STR(" a"));
	for (unsigned i = 0; i < 1u << 21; i++)
		buf_add_char(&text, ' ');
	buf_add_char(&text, '\n');
	assert_fails(profile_read(buf_bytes(&text), PROFILE_FORMAT_PERF, NULL, &p, &err), ERR_INVALID,
		     "line 1");
}

static void folded_stacks(void **state)
{
	AUTO(profile_freep)
	struct profile *p = read_text(
		"# made by hand\nmain;operator new(int) 3\r\n\nmain;operator new(int) 4\n;x -1\n",
		PROFILE_FORMAT_AUTO);
	struct profile *q = NULL;
	struct err err = { 0 };

	assert_int_equal(p->n_samples, 2);
	assert_int_equal(profile_total(p, 0), 6);
	assert_int_equal(p->functions.n, 4); /* the empty name is one, too: ";x" */
	assert_fails(profile_read_folded(STR("a 1\nb x\n"), NULL, &q, &err), ERR_INVALID, "line 2");
	assert_fails(profile_read_folded(STR("a 99999999999999999999\n"), NULL, &q, &err), ERR_INVALID,
		     "line 1");
	assert_fails(profile_read_folded(STR("\n"), NULL, &q, &err), ERR_INVALID, "no samples");
}

static void the_format_is_detected(void **state)
{
	const struct profile_maker m = { 3, 1, 30, 20, 5, false };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	AUTO(profile_freep) struct profile *q = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	char what[PROFILE_WHAT_SIZE];

	assert_done(profile_write_pprof(p, true, &b, &err));
	assert_done(profile_read(buf_bytes(&b), PROFILE_FORMAT_AUTO, NULL, &q, &err));
	assert_true(profile_same(p, q, what));
	profile_freep(&q);
	q = NULL;
	assert_fails(profile_read(bytes_of("PERFILE2abc", 11), PROFILE_FORMAT_AUTO, NULL, &q, &err),
		     ERR_INVALID, "perf script --show-mmap-events");
	assert_fails(profile_read(bytes_of("hello world\n", 12), PROFILE_FORMAT_AUTO, NULL, &q, &err),
		     ERR_INVALID, "line 1");
	assert_fails(profile_read(bytes_of("\0\0\0", 3), PROFILE_FORMAT_AUTO, NULL, &q, &err), ERR_INVALID,
		     "in no format that is read");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_chains_of_perf),
		cmocka_unit_test(flat_samples_of_perf),
		cmocka_unit_test(perf_with_few_fields),
		cmocka_unit_test(kernels_that_have_a_build_id),
		cmocka_unit_test(maps_by_process),
		cmocka_unit_test(folded_stacks),
		cmocka_unit_test(the_format_is_detected),
		cmocka_unit_test(a_line_of_many_words_and_blanks),
		cmocka_unit_test(offsets_that_are_addresses_too),
		cmocka_unit_test(flat_addresses_of_a_large_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
