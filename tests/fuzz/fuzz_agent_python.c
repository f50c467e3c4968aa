/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects in the memory of a stranger, which may change between two reads: names are text of limited length, and the
 * hash holds.
 */
#include "fuzz.h"

#include "agent/python.h"

#define BASE 0x10000u

struct memory {
	struct bytes b;
	unsigned n_reads, change_at;
};

static size_t read_fuzzed(void *arg, uint32_t pid, uint64_t address, void *to, size_t size)
{
	struct memory *m = arg;
	uint64_t off = address - BASE;

	if (address < BASE || off > m->b.size || size > m->b.size - off)
		return 0;
	memcpy(to, m->b.p + off, size);
	if (m->n_reads++ == m->change_at && size)
		((uint8_t *)to)[0] ^= 1;
	return size;
}

static void check_text(struct str s, size_t max_characters)
{
	FUZZ_CHECK(s.size <= max_characters * 4);
	for (size_t i = 0; i < s.size; i++)
		FUZZ_CHECK((uint8_t)s.p[i] >= ' ' && s.p[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory m = { 0 };
	struct python_reader reader = { .read = read_fuzzed, .arg = &m };
	struct python_process *p;
	struct python_layout layout;
	struct sampler_python_frame frame;
	struct python_function f;
	uint64_t words[4];
	struct err err;

	if (size < 8)
		return 0;
	m.b = bytes_of(data + 8, size - 8);
	m.change_at = data[1];
	if (python_layout_get(9 + data[0] % 4, bytes_of(NULL, 0), &layout, &err))
		return 0;
	frame = (struct sampler_python_frame){ .code = BASE + data[2] * 8u, .instr = data[3] * 2u };
	m.change_at = UINT32_MAX;
	if (read_fuzzed(&m, 1, frame.code + layout.frames.code_window, words, sizeof(words)) != sizeof(words))
		return 0;
	m.change_at = data[1];
	frame.hash = python_hash(words);
	p = python_process_new(&reader, 1, &layout);
	for (unsigned i = 0; i < 3; i++) {
		int r = python_function_of(p, &frame, &f);

		FUZZ_CHECK(r == 0 || r == PYTHON_GONE || r == PYTHON_LATE);
		if (r == 0) {
			check_text(f.name, PYTHON_MAX_NAME);
			check_text(f.file, PYTHON_MAX_FILE);
		}
		frame.instr += 2;
	}
	python_process_free(p);
	FUZZ_CHECK(reader.bytes == 0);
	return 0;
}
