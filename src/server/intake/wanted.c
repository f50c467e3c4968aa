/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binaries of a received profile for which no debug information was found, so that the sender, if it is on the machine
 * with the files, can look for it there (docs/protocol.md, "POST /profiles").
 *
 * Naming has tried before: a binary that comes in for the first time is never wanted. So nothing is searched for here.
 */
#include "profilestore/names.h"
#include "server/intake/intake.h"
#include "server/push/offer.h"

#define WANTED_MAX 100u /* of one answer; the others are in the next one */

static bool is_wanted_id(struct api *a, struct str text)
{
	uint32_t reason = profilestore_binary_reason(a->store, text);
	struct build_id id;

	if (!reason || reason >= FRAME_N_REASONS || !frame_reason_lacks_file((enum frame_reason)reason))
		return false;
	if (!build_id_parse(&id, text))
		return false;
	switch (offer_judge(a, &id)) {
	case OFFER_NEW:
	case OFFER_DYNSYM:
		return true;
	case OFFER_RUNS:
	case OFFER_HERE:
		break;
	}
	return false;
}

size_t wanted_find(struct api *a, const struct profile *p, struct str *ret, size_t n)
{
	if (!a->req || !a->req->s->push)
		return n;
	for (uint32_t i = 0; i < p->mappings.n && n < WANTED_MAX; i++) {
		struct str id = profile_str(p, p->mappings.p[i].build_id);
		bool twice = false;

		for (size_t k = 0; k < n; k++)
			twice |= str_eq(ret[k], id);
		if (id.size && !twice && is_wanted_id(a, id))
			ret[n++] = arena_str(a->arena, id);
	}
	return n;
}

struct str *wanted_room(struct api *a)
{
	return ARENA_NEW_N(a->arena, struct str, WANTED_MAX);
}
