/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of symbol servers of other kinds, for their clients: Microsoft's by SSQP's keys, a tree of .build-id, and
 * Symbolicator's unified layout. net/layout.c makes such paths, for servers that we ask.
 */
#include "server/artifact/artifact.h"

#include <strings.h>

#define SSQP_ID 20u /* bytes; shorter build IDs have zeros after them */

const enum net_layout artifact_ssqp = NET_SSQP, artifact_tree = NET_TREE, artifact_unified = NET_UNIFIED;

/* Clients of these kinds may write digits in upper case. */
static bool id_of_text(struct str text, struct build_id *ret)
{
	char lower[BUILD_ID_HEX_SIZE];

	if (text.size >= sizeof(lower))
		return false;
	for (size_t i = 0; i < text.size; i++)
		lower[i] = text.p[i] >= 'A' && text.p[i] <= 'F' ? (char)(text.p[i] | 0x20) : text.p[i];
	return build_id_parse(ret, (struct str){ lower, text.size });
}

/* A hash of 20 bytes that ends in 4 zeros is one of 4 thousand million: such an ID was filled up from 16 or 8 bytes. */
static void ssqp_unfill(struct build_id *id)
{
	static const uint8_t zeros[SSQP_ID];
	static const uint8_t sizes[] = { 8, 16 };

	for (size_t i = 0; id->size == SSQP_ID && i < ARRAY_SIZE(sizes); i++)
		if (memcmp(id->b + sizes[i], zeros, SSQP_ID - sizes[i]) == 0)
			id->size = sizes[i];
}

/* "xx", "yyyy" */
static bool id_of_fan_out(struct str xx, struct str rest, struct build_id *ret)
{
	char text[BUILD_ID_HEX_SIZE];

	if (xx.size != 2 || rest.size < 2 || rest.size + 2 >= sizeof(text))
		return false;
	memcpy(text, xx.p, 2);
	memcpy(text + 2, rest.p, rest.size);
	return id_of_text((struct str){ text, rest.size + 2 }, ret);
}

static bool ssqp_read(const struct str *parts, struct resolve_request *ret)
{
	bool named = ret->kind == RESOLVE_EXECUTABLE;

	if (named &&
	    (parts[0].size != parts[2].size || strncasecmp(parts[0].p, parts[2].p, parts[0].size) != 0))
		return false;
	if (!id_of_text(parts[named ? 1 : 0], &ret->id))
		return false;
	ssqp_unfill(&ret->id);
	if (named)
		ret->name = parts[0];
	return true;
}

unsigned artifact_of_layout(const struct http_route *route, const struct str *parts,
			    struct resolve_request *ret, const char **ret_text)
{
	bool ok = *(const enum net_layout *)route->arg == NET_SSQP
			  ? ssqp_read(parts, ret)
			  : id_of_fan_out(parts[0], parts[1], &ret->id);

	*ret_text = "no such path: not the build ID of a file in it";
	return ok ? 0 : 404;
}
