/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners: an object belongs to the token that pushed it first, and which of two objects under one key stays.
 */
#include "store/internal.h"

struct str store_owner(const struct store_meta *meta)
{
	if (meta->origin != STORE_PUSHED)
		return STR("");
	if (meta->owner.size)
		return meta->owner;
	/* The name of the local user in older records. */
	return str_eq(meta->from, STR("loopback")) ? STR("local") : meta->from;
}

bool store_takes_place(const struct store_key *key, const struct store_meta *meta)
{
	return key->kind != STORE_DEBUGINFO || meta->quality != STORE_DYNSYM;
}

int object_judge(const struct store_meta *old, const struct store_meta *meta, enum store_policy policy)
{
	if (memcmp(old->sha256, meta->sha256, STORE_SHA256_SIZE) == 0 &&
	    (meta->later || (old->raw == meta->raw && !old->later)))
		return old->origin >= meta->origin ? STORE_SAME : 0;
	if (policy == STORE_ALWAYS)
		return 0;
	if (old->quality > meta->quality)
		return STORE_KEPT;
	if (old->quality == meta->quality && old->origin == STORE_PUSHED && meta->origin != STORE_PUSHED)
		return STORE_KEPT;
	/* Anybody may bring the debug information that an agent did not have. */
	if (old->quality == STORE_DYNSYM && meta->quality > old->quality)
		return 0;
	if (policy == STORE_IF_OWNED && store_owner(old).size && !str_eq(store_owner(old), meta->owner))
		return STORE_OWNED;
	return 0;
}

struct str object_other_owner(struct store *st, const struct store_key *key, struct str owner,
			      const uint8_t *sha256, object_find_fn *find, struct arena *a, struct err *err)
{
	struct store_key of = *key;
	struct store_meta there = { 0 };
	bool same, is_there;
	struct err why = { 0 };
	int r = find(st, &of, a, &there, &why);

	is_there = r == 0;
	if (r < 0 && err)
		*err = why;
	/*
	 * Beside dynamic symbols alone the program answers still. Of a bucket that is away the second question takes as long as
	 * the first.
	 */
	if ((r || there.quality == STORE_DYNSYM) && of.kind == STORE_DEBUGINFO &&
	    !(r < 0 && blob_is_away(&why))) {
		of.kind = STORE_EXECUTABLE;
		is_there = find(st, &of, a, &there, err) == 0 && there.quality == STORE_DWARF;
	}
	/* Without a SHA-256 the bytes have to come before they can be compared. */
	same = of.kind == key->kind && (!sha256 || memcmp(there.sha256, sha256, STORE_SHA256_SIZE) == 0);
	/* A better file may replace one with dynamic symbols alone, if no program answers; the commit knows if it is. */
	if (!is_there || same || there.quality == STORE_DYNSYM || str_eq(store_owner(&there), owner))
		return STR("");
	return store_owner(&there);
}

struct str store_other_owner(struct store *st, const struct store_key *key, struct str owner,
			     const uint8_t *sha256, struct arena *a, struct err *err)
{
	return object_other_owner(st, key, owner, sha256, store_find, a, err);
}
