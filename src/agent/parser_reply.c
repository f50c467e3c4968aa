/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the parser's replies. Pure.
 */
#include "agent/parser_reply.h"

#include <ctype.h>
#include <stdio.h>

#include "unwind/unwind.h"

void parser_text_take(char *to, const char *from)
{
	size_t n = 0;

	for (; n + 1 < PARSER_WHY_SIZE && from[n]; n++)
		to[n] = isprint((unsigned char)from[n]) ? from[n] : '?';
	to[n] = '\0';
}

/* Ends that cannot be computed would be mappings that end before they start. */
static bool is_sound_segment(const struct file_segment *s)
{
	return s->size && s->vaddr <= UINT64_MAX - s->size && s->off <= UINT64_MAX - s->size;
}

static bool is_sound_head(const struct file_head *h)
{
	uint8_t flags[2];

	/* A bool with another value is undefined. */
	memcpy(&flags[0], &h->is_64, 1);
	memcpy(&flags[1], &h->is_stripped, 1);
	if (flags[0] > 1 || flags[1] > 1 || h->n_segments > FILES_MAX_SEGMENTS || h->id.size > BUILD_ID_MAX ||
	    (unsigned)h->id_kind >= BUILD_ID_N_KINDS)
		return false;
	for (unsigned i = 0; i < h->n_segments; i++)
		if (!is_sound_segment(&h->segments[i]))
			return false;
	return true;
}

bool parser_reply_is_sound(const struct parser_reply *r, const struct parser_job *job)
{
	return r->table_size <= PARSER_MAX_TABLE && (!r->table_size || job->kind == PARSER_TABLE) &&
	       is_sound_head(&r->head);
}

void parser_reply_take(struct parser_reply *r, const struct parser_job *job, struct parser_result *ret)
{
	struct unwind_table t;
	struct err err = { 0 };

	ret->head = r->head;
	ret->cpu_ns = MIN(MAX(r->cpu_ns, INT64_C(0)), (int64_t)PARSER_WALL_MS * 1000000);
	if (r->is_python && job->name && python_image_recheck(&r->python)) {
		ret->python = NEW(struct python_image);
		*ret->python = r->python;
	}
	parser_text_take(ret->why, r->why);
	if (job->kind == PARSER_TABLE && !ret->why[0] &&
	    unwind_table_open(buf_bytes(&ret->table), &t, &err) != 0)
		snprintf(ret->why, sizeof(ret->why), "its parser made a table that is not sound");
}
