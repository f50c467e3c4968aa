/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: which series a query is about. The syntax is that of PromQL's instant vector selectors, on a
 * profile type:
 *
 * 	profile:cpu:nanoseconds:cpu:nanoseconds:delta{service="web", host=~"a.*", job!="x", unit!~"y|z"}
 *
 * The type may be left out, the braces too. Strings are in "", '' or ``, with Go's escapes in the first two.
 * Regular expressions are POSIX extended and match the whole value; a missing label has the empty value. The
 * parser does not recurse and does not go back: it is safe on any text.
 */
#pragma once

#include "base/base.h"

#define SELECTOR_MAX_SIZE     65536u /* bytes of text */
#define SELECTOR_MAX_MATCHERS 64u

struct selector;

/* ERR_INVALID: the text has the character and the expected token. */
int selector_parse(struct str text, struct selector **ret, struct err *err);
void selector_free(struct selector *s); /* takes NULL */
void selector_freep(struct selector **s);

struct str selector_type(const struct selector *s); /* empty: any */

/*
 * Select the types with this ID of Pyroscope's (type.h) instead of the one type in the text: profiles of today and
 * those that came in under other names.
 */
void selector_set_type_id(struct selector *s, struct str id);
/*
 * The text's matchers, too, must hold for the selector to match; regular expressions in it are those of PromQL (RE2).
 * Its type is ERR_INVALID if the selector has one. If it fails, the selector can only be freed.
 */
int selector_add_promql(struct selector *s, struct str text, struct err *err);

struct profilestore_label;
/* @labels sorted by name. */
bool selector_matches(const struct selector *s, struct str type, const struct profilestore_label *labels,
		      size_t n);
/*
 * The same for the labels that @value returns: empty for one that is missing. Regular expressions count their steps towards
 * @d (NULL: none): after it the result may be wrong, so the caller checks it some time later.
 */
bool selector_holds(const struct selector *s, struct str type,
		    struct str (*value)(const void *arg, struct str name), const void *arg,
		    struct deadline *d);
