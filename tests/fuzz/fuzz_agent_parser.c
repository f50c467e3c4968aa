/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the parser's process after strangers' bytes have taken it over: what is accepted can be used by the agent.
 *
 * Input: a byte for the job (bit 0: a table; bit 1: the file may be an interpreter; bit 2: the size of the table is made
 * right); the reply; the rest is the table.
 */
#include "fuzz.h"

#include <string.h>

#include "agent/files.h"
#include "agent/parser_reply.h"
#include "unwind/unwind.h"

static void check_text(const char *why)
{
	FUZZ_CHECK(memchr(why, '\0', PARSER_WHY_SIZE));
	for (; *why; why++)
		FUZZ_CHECK((unsigned char)*why >= ' ' && (unsigned char)*why < 0x7f);
}

/* As the lists of files and windows use it. */
static void check_head(const struct file_head *h)
{
	struct mapped_file f = { .id = h->id,
				 .id_kind = h->id_kind,
				 .is_64 = h->is_64,
				 .is_stripped = h->is_stripped,
				 .n_segments = h->n_segments };
	char hex[BUILD_ID_HEX_SIZE];
	uint64_t bias;

	memcpy(f.segments, h->segments, sizeof(f.segments));
	FUZZ_CHECK(strlen(build_id_hex(&f.id, hex)) == 2 * f.id.size);
	for (unsigned i = 0; i < f.n_segments; i++) {
		const struct file_segment *s = &f.segments[i];
		struct file_span span = mapped_file_span(&f, i);

		FUZZ_CHECK(span.start <= s->vaddr && span.limit >= s->vaddr + s->size &&
			   span.start < span.limit);
		FUZZ_CHECK(s->vaddr - span.start == s->off - span.off);
		FUZZ_CHECK(mapped_file_bias(&f, 0, s->off, 0, &bias));
		FUZZ_CHECK(mapped_file_segment(&f, s->vaddr) >= 0);
	}
	FUZZ_CHECK(mapped_file_segment(&f, 0) < (int)FILES_MAX_SEGMENTS);
}

static void check_python(const struct python_image *p)
{
	const struct bpf_python *f = &p->layout.frames;

	FUZZ_CHECK(p->layout.minor >= 9 && p->layout.minor <= 14 && p->n_ranges <= PYTHON_MAX_RANGES);
	FUZZ_CHECK(f->frame_size <= BPF_PYTHON_BLOCK && f->frame_code + 8u <= f->frame_size);
	for (unsigned i = 0; i < p->n_ranges; i++)
		FUZZ_CHECK(python_image_range(p, p->ranges[i].start));
}

static void check_table(struct bytes b)
{
	struct unwind_table t;
	struct unwind_rule rule;
	struct err err;

	FUZZ_CHECK(unwind_table_open(b, &t, &err) == 0);
	for (uint64_t addr = 1; addr; addr <<= 1)
		(void)unwind_find(&t, addr, &rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct parser_job job = { .kind = PARSER_HEAD };
	struct parser_result r = { 0 };
	struct parser_reply reply;
	size_t n, how;

	if (!size)
		return 0;
	how = data[0];
	data++;
	size--;
	job.kind = how & 1 ? PARSER_TABLE : PARSER_HEAD;
	job.name = how & 2 ? "/usr/bin/python3.11" : NULL;
	memset(&reply, 0, sizeof(reply));
	n = MIN(size, sizeof(reply));
	memcpy(&reply, data, n);
	if (how & 4)
		reply.table_size = size - n;
	/* One that is announced and not sent: the parser has ended. */
	if (!parser_reply_is_sound(&reply, &job) || reply.table_size > size - n)
		return 0;
	if (reply.table_size)
		buf_add(&r.table, data + n, (size_t)reply.table_size);
	parser_reply_take(&reply, &job, &r);
	FUZZ_CHECK(r.cpu_ns >= 0 && r.cpu_ns <= (int64_t)PARSER_WALL_MS * 1000000);
	check_text(r.why);
	check_head(&r.head);
	if (r.python)
		check_python(r.python);
	if (job.kind == PARSER_TABLE && !r.why[0])
		check_table(buf_bytes(&r.table));
	free(r.python);
	buf_done(&r.table);
	return 0;
}
