/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions, out of a memory that a stranger wrote. The layout is that of 3.11. */
#include "test.h"

#include "agent/python.h"

#define BASE  0x7f0000000000u
#define CODE  0x100u
#define NAME  0x400u
#define FILE_ 0x600u
#define LINES 0x800u

struct memory {
	uint8_t bytes[0x2000];
	unsigned n_reads;
	unsigned change_at; /* the code object becomes another one before this read; 0: never */
};

struct python_fixture {
	struct memory m;
	struct python_reader reader;
	struct python_layout layout;
	struct python_process *p;
	struct sampler_python_frame frame;
};

static void put_word(struct memory *m, size_t at, uint64_t value, size_t size)
{
	memcpy(m->bytes + at, &value, size);
}

static size_t read_fixture(void *arg, uint32_t pid, uint64_t address, void *to, size_t size)
{
	struct memory *m = arg;

	if (m->change_at && ++m->n_reads == m->change_at)
		put_word(m, CODE + 136, BASE + LINES + 8, 8);
	if (address < BASE || address - BASE > sizeof(m->bytes) || size > sizeof(m->bytes) - (address - BASE))
		return 0;
	memcpy(to, m->bytes + (address - BASE), size);
	return size;
}

/* A compact string; @kind 0: ASCII. */
static void put_string(struct memory *m, size_t at, unsigned kind, uint64_t length, const void *data,
		       size_t size)
{
	put_word(m, at + 16, length, 8);
	put_word(m, at + 32, (kind ? kind : 1) << 2 | 1 << 5 | (kind ? 0 : 1 << 6), 4);
	memcpy(m->bytes + at + (kind ? 72 : 48), data, size);
}

static void put_code(struct memory *m)
{
	static const uint8_t lines[] = { 0x80 | 10 << 3 | 0, 0, 0, 0x80 | 11 << 3 | 1, 0, 0 };

	put_word(m, CODE + 72, 40, 4);
	put_word(m, CODE + 112, BASE + FILE_, 8);
	put_word(m, CODE + 128, BASE + NAME, 8);
	put_word(m, CODE + 136, BASE + LINES, 8);
	put_string(m, FILE_, 0, 6, "/a/b.x", 6);
	put_string(m, NAME, 0, 3, "C.f", 3);
	put_word(m, LINES + 16, sizeof(lines), 8);
	memcpy(m->bytes + LINES + 32, lines, sizeof(lines));
}

static void hash_code(struct python_fixture *f)
{
	uint64_t words[4];

	memcpy(words, f->m.bytes + CODE + 112, sizeof(words));
	f->frame.hash = python_hash(words);
}

static int python_setup(void **state)
{
	struct python_fixture *f = NEW(struct python_fixture);
	struct err err;

	f->reader = (struct python_reader){ .read = read_fixture, .arg = &f->m };
	assert_done(python_layout_get(11, bytes_of(NULL, 0), &f->layout, &err));
	f->p = python_process_new(&f->reader, 1, &f->layout);
	put_code(&f->m);
	f->frame = (struct sampler_python_frame){ .code = BASE + CODE };
	hash_code(f);
	*state = f;
	return 0;
}

static int python_teardown(void **state)
{
	struct python_fixture *f = *state;

	python_process_free(f->p);
	assert_int_equal(f->reader.bytes, 0);
	free(f);
	return 0;
}

static void a_function_has_name_file_and_line(void **state)
{
	struct python_fixture *f = *state;
	struct python_function got;

	f->frame.instr = 2;
	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	assert_str(got.name, "C.f");
	assert_str(got.file, "/a/b.x");
	assert_int_equal(got.line, 41);
	assert_int_equal(got.first_line, 40);
	f->frame.instr = 0;
	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	assert_int_equal(got.line, 40);
	assert_int_equal(f->reader.n_read, 1);
	/* It is kept when the memory is gone. */
	memset(f->m.bytes, 0, sizeof(f->m.bytes));
	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	assert_str(got.name, "C.f");
}

static void another_code_object_at_the_address_lends_no_name(void **state)
{
	struct python_fixture *f = *state;
	struct python_function got;

	f->frame.hash++;
	assert_int_equal(python_function_of(f->p, &f->frame, &got), PYTHON_GONE);
	f->frame.hash--;
	for (unsigned at = 2; at < 8; at++) {
		struct python_process *p = python_process_new(&f->reader, 1, &f->layout);

		put_code(&f->m);
		f->m.n_reads = 0;
		f->m.change_at = at;
		assert_int_equal(python_function_of(p, &f->frame, &got), PYTHON_GONE);
		python_process_free(p);
	}
}

static void strings_of_all_kinds_become_utf8(void **state)
{
	static const uint16_t two[] = { 0x65e5, 0x202e, 'x', 0xd800 };
	static const uint32_t four[] = { 0x1f600, 0xffffffff, '\n' };
	static const uint8_t one[] = { 0xe9, 't', 0x9b };
	struct python_fixture *f = *state;
	const struct {
		unsigned kind;
		size_t length;
		const void *data;
		size_t size;
		const char *expected;
	} rows[] = {
		{ 0, 4, "a\033[m", 4, "a?[m" },
		{ 1, 3, one, sizeof(one), "\xc3\xa9t?" },
		{ 2, 4, two, sizeof(two), "\xe6\x97\xa5?x?" },
		{ 4, 3, four, sizeof(four), "\xf0\x9f\x98\x80??" },
		{ 0, 0, "", 0, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct python_process *p = python_process_new(&f->reader, 1, &f->layout);
		struct python_function got;

		put_string(&f->m, NAME, rows[i].kind, rows[i].length, rows[i].data, rows[i].size);
		assert_int_equal(python_function_of(p, &f->frame, &got), 0);
		assert_str(got.name, rows[i].expected);
		python_process_free(p);
	}
}

static void sizes_of_a_stranger_are_limited(void **state)
{
	struct python_fixture *f = *state;
	struct python_process *p = python_process_new(&f->reader, 1, &f->layout);
	struct python_function got;

	/* A name of 1 GB is cut, a line table of 1 GB is not read. */
	memset(f->m.bytes + NAME + 48, 'x', FILE_ - NAME - 48);
	memmove(f->m.bytes + 0x1000, f->m.bytes + NAME, FILE_ - NAME);
	memset(f->m.bytes + 0x1000 + 48, 'x', 0x1000 - 48);
	put_word(&f->m, CODE + 128, BASE + 0x1000, 8);
	put_word(&f->m, 0x1000 + 16, 1 << 30, 8);
	put_word(&f->m, LINES + 16, 1 << 30, 8);
	hash_code(f);
	assert_int_equal(python_function_of(p, &f->frame, &got), 0);
	assert_int_equal(got.name.size, PYTHON_MAX_NAME);
	assert_int_equal(got.line, 40);
	python_process_free(p);
	/* No string, and a length that no string has. */
	for (unsigned i = 0; i < 3; i++) {
		p = python_process_new(&f->reader, 1, &f->layout);
		put_code(&f->m);
		put_word(&f->m, NAME + (i == 0 ? 32 : 16), i == 1 ? UINT64_MAX : 0, i == 0 ? 4 : 8);
		put_word(&f->m, CODE + 128, i == 2 ? 8 : BASE + NAME, 8);
		hash_code(f);
		assert_int_equal(python_function_of(p, &f->frame, &got), PYTHON_GONE);
		python_process_free(p);
	}
}

static void reading_stops_when_its_share_is_used_up(void **state)
{
	struct python_fixture *f = *state;
	struct python_function got;

	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	f->reader.reading.credit_ns = -INT64_C(100000000000);
	/* Known names stay; another process may use the share up all the time. */
	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	assert_str(got.name, "C.f");
	assert_int_equal(got.line, 40);
	f->frame.instr = 2;
	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	assert_int_equal(got.line, 0);
	put_word(&f->m, CODE + 136, BASE + LINES + 8, 8);
	hash_code(f);
	assert_int_equal(python_function_of(f->p, &f->frame, &got), PYTHON_LATE);
	f->reader.reading.credit_ns = 1000;
	assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
}

static void functions_without_end_are_forgotten(void **state)
{
	struct python_fixture *f = *state;
	struct python_function got;

	for (unsigned i = 0; i < PYTHON_MAX_CODES + 10; i++) {
		/* Another line table each time. */
		put_word(&f->m, CODE + 136, i, 8);
		hash_code(f);
		f->reader.reading.credit_ns = 1000000000;
		assert_int_equal(python_function_of(f->p, &f->frame, &got), 0);
	}
	assert_true(f->reader.bytes < PYTHON_MAX_MEMORY);
}

/* The code object becomes another one: its line table is at @i. */
static void call_function(struct python_fixture *f, struct python_process *p, unsigned i)
{
	struct python_function got;

	put_word(&f->m, CODE + 136, i, 8);
	hash_code(f);
	f->reader.reading.credit_ns = 1000000000;
	assert_int_equal(python_function_of(p, &f->frame, &got), 0);
}

/* The memory of all is full by processes that have no new functions. */
static void a_process_keeps_names_beside_those_that_have_many(void **state)
{
	struct python_fixture *f = *state;
	struct python_process *others[5];
	char text[PYTHON_MAX_FILE];
	uint64_t before;

	memset(text, 'x', sizeof(text));
	put_string(&f->m, 0xa00, 0, PYTHON_MAX_NAME, text, PYTHON_MAX_NAME);
	put_string(&f->m, 0x1000, 0, PYTHON_MAX_FILE, text, PYTHON_MAX_FILE);
	put_word(&f->m, CODE + 112, BASE + 0x1000, 8);
	put_word(&f->m, CODE + 128, BASE + 0xa00, 8);
	for (size_t k = 0; k < ARRAY_SIZE(others); k++) {
		others[k] = python_process_new(&f->reader, 2, &f->layout);
		for (unsigned i = 0; f->reader.bytes < PYTHON_ALL_MEMORY / ARRAY_SIZE(others) * (k + 1) + 10;
		     i++)
			call_function(f, others[k], i);
	}
	assert_true(f->reader.bytes >= PYTHON_ALL_MEMORY);
	before = f->reader.n_read;
	for (unsigned i = 0; i < 10; i++)
		call_function(f, f->p, i % 2);
	assert_int_equal(f->reader.n_read, before + 2);
	assert_true(f->reader.bytes < PYTHON_ALL_MEMORY);
	assert_true(f->reader.bytes > PYTHON_ALL_MEMORY / 2);
	/* In another order than they were made. */
	python_process_free(others[2]);
	python_process_free(others[4]);
	python_process_free(others[0]);
	python_process_free(others[1]);
	python_process_free(others[3]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, python_setup, python_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_function_has_name_file_and_line),
		TEST(another_code_object_at_the_address_lends_no_name),
		TEST(strings_of_all_kinds_become_utf8),
		TEST(sizes_of_a_stranger_are_limited),
		TEST(reading_stops_when_its_share_is_used_up),
		TEST(functions_without_end_are_forgotten),
		TEST(a_process_keeps_names_beside_those_that_have_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
