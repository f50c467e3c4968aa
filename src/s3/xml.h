/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader of the XML that S3's answers have: elements and text. Attributes, comments and processing
 * instructions are skipped; a document type is an error, so there are no entities but XML's own. Prefixes of
 * namespaces are dropped.
 */
#pragma once

#include "base/base.h"

#define XML_DEPTH_MAX 16u
#define XML_NAME_MAX  64u
#define XML_TEXT_MAX  KIB(64) /* of one element */

enum xml_kind { XML_END, XML_OPEN, XML_CLOSE };

struct xml {
	struct str in;
	size_t at;
	unsigned depth;
	char names[XML_DEPTH_MAX][XML_NAME_MAX];
	bool closes; /* an element without content: its end is the next event */
	bool rooted; /* the root element was there */
	bool stale;  /* the text is of an element that has ended */
	/* with XML_CLOSE: the text of the element that ends, after the last element within it */
	struct buf text;
};

void xml_init(struct xml *x, struct bytes in); /* @in is borrowed */
void xml_done(struct xml *x);                  /* AUTO(xml_done) */
/*
 * The next event. XML_OPEN: the element is xml_name(x, x->depth - 1). XML_CLOSE: it was at x->depth, and has x->text.
 * XML_END: the clean end. Negative: ERR_INVALID.
 */
int xml_next(struct xml *x, struct err *err);
/* The name of the open (or just closed) element at @depth; "" if there is none. */
const char *xml_name(const struct xml *x, unsigned depth);
/* After XML_CLOSE: the element that ends is @path, names from the root separated by slashes. */
bool xml_is(const struct xml *x, const char *path);
