/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in XML and in lines of text. Bytes that are not UTF-8 become U+FFFD.
 */
#include "profile/text.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Pass each character of @s to @one. */
static void each_char(struct str s, struct buf *out,
		      void (*one)(struct str character, char avoid, struct buf *out), char avoid)
{
	while (s.size)
		one(str_utf8_next(&s), avoid, out);
}

static void one_xml(struct str c, char avoid, struct buf *out)
{
	switch (c.p[0]) {
	case '&':
		buf_add_str(out, STR("&amp;"));
		break;
	case '<':
		buf_add_str(out, STR("&lt;"));
		break;
	case '>':
		buf_add_str(out, STR("&gt;"));
		break;
	case '"':
		buf_add_str(out, STR("&quot;"));
		break;
	case '\'':
		buf_add_str(out, STR("&#39;"));
		break;
	default:
		/* XML 1.0 has no control characters, and not U+FFFE and U+FFFF. */
		if ((unsigned char)c.p[0] < 0x20 || c.p[0] == 0x7f)
			buf_add_char(out, ' ');
		else if (c.size == 3 && memcmp(c.p, "\xef\xbf", 2) == 0 && (unsigned char)c.p[2] >= 0xbe)
			buf_add_str(out, STR(REPLACEMENT));
		else
			buf_add_str(out, c);
	}
}

void text_xml(struct str s, struct buf *out)
{
	each_char(s, out, one_xml, 0);
}

static void one_plain(struct str c, char avoid, struct buf *out)
{
	unsigned char b = (unsigned char)c.p[0];
	bool c1 = c.size == 2 && b == 0xc2 && (unsigned char)c.p[1] < 0xa0;

	if (b < 0x20 || b == 0x7f || c1)
		buf_add_char(out, ' ');
	else if (avoid && b == (unsigned char)avoid)
		buf_add_char(out, ':');
	else
		buf_add_str(out, c);
}

void text_line(struct str s, char avoid, struct buf *out)
{
	each_char(s, out, one_plain, avoid);
}
