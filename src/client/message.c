/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a server's refusal.
 */
#include "client/answer.h"

#include <jansson.h>

#define MESSAGE_MAX 400u

char *client_message(struct bytes body)
{
	struct str text = { (const char *)body.p, body.size };
	json_error_t ignored;
	json_t *all = json_loadb(text.p ? text.p : "", text.size, 0, &ignored);
	const char *said = json_string_value(json_object_get(all, "error"));
	bool is_page = str_starts(str_trim(text), STR("<"));
	struct str line = said      ? str_of(said)
			  : is_page ? STR("a page of HTML, perhaps of a proxy before the server")
				    : str_trim(str_cut(&text, '\n'));
	char *out = mem_strndup(line.p ? line.p : "", MIN(line.size, (size_t)MESSAGE_MAX));

	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	json_decref(all);
	return out;
}
