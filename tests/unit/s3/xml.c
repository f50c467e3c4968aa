/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of XML.
 */
#include "test.h"

#include "s3/xml.h"

/* Events as text: "(a", "'text'b)". */
static int xml_events(const char *text, struct buf *out, struct err *err)
{
	struct xml x;
	int r;

	out->size = 0;
	xml_init(&x, bytes_of(text, strlen(text)));
	while ((r = xml_next(&x, err)) > 0) {
		if (r == XML_OPEN)
			buf_printf(out, "(%s ", xml_name(&x, x.depth - 1));
		else
			buf_printf(out, "'" STR_FMT "'%s) ", STR_ARG(buf_str(&x.text)),
				   xml_name(&x, x.depth));
	}
	xml_done(&x);
	return r;
}

static void reads_elements_and_text(void **state)
{
	static const struct {
		const char *text, *events;
	} cases[] = {
		{ "<a/>", "(a ''a) " },
		{ "<?xml version=\"1.0\"?>\n<a x='>'>b</a>\n", "(a 'b'a) " },
		{ "\xef\xbb\xbf<a><b>1</b> 2 <c/></a>", "(a (b '1'b) (c ''c) ''a) " },
		{ "<s:a xmlns:s=\"u\"><s:b>&lt;&amp;&#65;&#x20ac;&quot;</s:b></s:a>",
		  "(a (b '<&A\xe2\x82\xac\"'b) ''a) " },
		{ "<a><!-- <b> --><![CDATA[<c>&amp;]]></a>", "(a '<c>&amp;'a) " },
		{ "<a>1<b>2</b>3</a>", "(a (b '2'b) '3'a) " },
	};
	struct buf out = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_done(xml_events(cases[i].text, &out, &err));
		assert_str(buf_str(&out), cases[i].events);
	}
	buf_done(&out);
}

static void refuses_what_is_not_xml_or_has_no_bound(void **state)
{
	static const char *const cases[] = {
		"",
		"  ",
		"text",
		"<a>",
		"<a></b>",
		"</a>",
		"<a/><b/>",
		"<a",
		"<a x='",
		"<a>&unknown;</a>",
		"<a>&#0;</a>",
		"<a>&#xd800;</a>",
		"<a>&#x110000;</a>",
		"<a>&amp</a>",
		"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
		"<a><b</a>",
		"<a><!-- </a>",
		"<a><![CDATA[</a>",
		"<></>",
		"<a/>text",
		"&lt;",
		"<abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz/>",
		"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a/></a>",
	};
	AUTO(buf_done) struct buf out = { 0 }, big = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (xml_events(cases[i], &out, &err) >= 0)
			fail_msg("accepted: %s", cases[i]);
	buf_add_str(&big, STR("<a>"));
	for (size_t i = 0; i <= XML_TEXT_MAX; i++)
		buf_add_char(&big, 'x');
	buf_add_str(&big, STR("</a>"));
	assert_fails(xml_events(buf_cstr(&big), &out, &err), ERR_INVALID, "too much text");
}

static void finds_elements_by_path(void **state)
{
	static const char text[] = "<r><Key>1</Key><c><Key>2</Key></c></r>";
	struct err err = { 0 };
	unsigned n = 0;
	struct xml x;
	int r;

	xml_init(&x, bytes_of(text, strlen(text)));
	while ((r = xml_next(&x, &err)) > 0) {
		if (r != XML_CLOSE || !xml_is(&x, "r/c/Key"))
			continue;
		assert_str(buf_str(&x.text), "2");
		n++;
	}
	assert_int_equal(r, XML_END);
	assert_int_equal(n, 1);
	xml_done(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_elements_and_text),
		cmocka_unit_test(refuses_what_is_not_xml_or_has_no_bound),
		cmocka_unit_test(finds_elements_by_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
