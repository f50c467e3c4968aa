/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: any text is a selector or is refused with a reason; and blanks around it do not change its answer.
 */
#include "fuzz.h"

#include "profilestore/profilestore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profilestore_label labels[] = {
		{ STR("host"), STR("a1") },
		{ STR("service"), STR("web") },
	};
	AUTO(buf_done) struct buf b = { 0 };
	struct selector *s = NULL, *again = NULL;
	struct err err = { 0 };

	/* The same text as one more selector of a query in PromQL. */
	if (selector_parse(STR(""), &s, &err) == 0 &&
	    selector_add_promql(s, (struct str){ (const char *)data, size }, &err) < 0)
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	selector_free(s);
	s = NULL;
	if (selector_parse((struct str){ (const char *)data, size }, &s, &err) < 0) {
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		FUZZ_CHECK(!s);
		return 0;
	}
	/* Blanks around it change nothing. */
	buf_add_char(&b, ' ');
	buf_add(&b, data, size);
	buf_add_char(&b, ' ');
	if (b.size <= SELECTOR_MAX_SIZE) {
		FUZZ_CHECK(selector_parse(buf_str(&b), &again, &err) == 0);
		FUZZ_CHECK(str_eq(selector_type(again), selector_type(s)));
		FUZZ_CHECK(selector_matches(again, selector_type(s), labels, 2) ==
			   selector_matches(s, selector_type(s), labels, 2));
	}
	selector_free(again);
	FUZZ_CHECK(!selector_type(s).size || !selector_matches(s, STR(""), labels, 2));
	selector_free(s);
	return 0;
}
