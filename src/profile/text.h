/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in texts of several kinds.
 */
#pragma once

#include "base/base.h"

/* A JSON string with its quotes. '<' is escaped too: it may stand in a page's script. */
void text_json(struct str s, struct buf *out);
/* For XML and HTML, between tags and in attributes. */
void text_xml(struct str s, struct buf *out);
/* On one line; control characters become blanks, @avoid (0: none) becomes ':'. */
void text_line(struct str s, char avoid, struct buf *out);
