/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in XML and in lines of text.
 */
#pragma once

#include "base/base.h"

/* For XML and HTML, between tags and in attributes. */
void text_xml(struct str s, struct buf *out);
/* On one line; control characters become blanks, @avoid (0: none) becomes ':'. */
void text_line(struct str s, char avoid, struct buf *out);
