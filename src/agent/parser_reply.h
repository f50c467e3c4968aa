/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply of the parser's process, which strangers' bytes may have taken over: every bit of it is checked before use.
 */
#pragma once

#include "agent/parser.h"
#include "agent/python_image.h"

/* As it is sent; the table follows. */
struct parser_reply {
	struct file_head head;
	struct python_image python;
	uint8_t is_python;
	int64_t cpu_ns;
	uint64_t table_size;
	char why[PARSER_WHY_SIZE];
};

/* Before the table is received: sizes and counts are within their limits, and the reply is one to @job. */
bool parser_reply_is_sound(const struct parser_reply *r, const struct parser_job *job);
/* Fill in @ret from a sound reply; ret->table has its table. One that is not sound becomes a reason in ret->why. */
void parser_reply_take(struct parser_reply *r, const struct parser_job *job, struct parser_result *ret);
/* Copy a text of PARSER_WHY_SIZE bytes: up to its end, without control characters. */
void parser_text_take(char *to, const char *from);
