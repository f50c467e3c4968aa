/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of refusals that several resources have.
 */
#include "server/internal.h"

#include <ctype.h>
#include <string.h>

const char *server_bad_build_id(struct str id)
{
	return id.size > 2 * BUILD_ID_MAX ? "the build ID is too long"
					  : "bad build ID: it must be an even number of the digits 0-9 a-f";
}

bool server_build_id(struct build_id *id, struct str text)
{
	return build_id_parse(id, text) || build_id_set_go(id, text);
}

struct str server_hide_paths(struct arena *a, struct str text)
{
	char *out = arena_alloc(a, text.size + 1);
	size_t n = 0, word = 0; /* where the word in the output begins */
	bool absolute = false;

	for (size_t i = 0; i < text.size; i++) {
		char c = text.p[i];
		bool begins = n == word;

		if (c == '/' && begins)
			absolute = true;
		if (c == '/' && absolute) {
			n = word;
			continue;
		}
		out[n++] = c;
		if (isspace((unsigned char)c) || strchr(":,;()\"'", c)) {
			word = n;
			absolute = false;
		}
	}
	out[n] = '\0';
	return (struct str){ out, n };
}
