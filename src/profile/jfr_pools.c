/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants: values that events refer to by class and key. Checkpoints have lists of them. Those of classes that are
 * needed are noted with their place, and found by hash; they are parsed when they are needed.
 */
#include "profile/jfr_read.h"

#include "base/hash.h"

static uint64_t constant_hash(const struct jfr_reader *r, const struct jfr_pool *p, uint32_t i)
{
	return hash_mix(p->list.p[i].key, r->seed);
}

static bool pool_reserve(struct jfr_reader *r, struct jfr_pool *p)
{
	uint64_t was = hash_index_room(&p->by_key), room = was ? was * 2 : 64;

	if (!hash_index_is_full(&p->by_key))
		return true;
	if (room > UINT32_MAX || !profile_charge(r->room, (room - was) * sizeof(uint32_t)))
		return false;
	return HASH_INDEX_GROW(&p->by_key, room, i, constant_hash(r, p, i));
}

/* The first of several with one key counts: they are the same. */
static bool add_constant(struct jfr_reader *r, struct jfr_pool *p, uint64_t key, uint32_t off)
{
	const struct jfr_constant new = { key, off };
	uint32_t at, i;

	if (!pool_reserve(r, p))
		return false;
	if (HASH_INDEX_FIND(&p->by_key, hash_mix(key, r->seed), at, i, p->list.p[i].key == key))
		return true;
	if (!profile_push(r->room, &p->list, new))
		return false;
	hash_index_put(&p->by_key, at, p->list.n - 1);
	return true;
}

/* The constants of one class. */
static int read_constants(struct jfr_reader *r, struct cursor *c, struct err *err)
{
	uint64_t id = jfr_int(r, c, 8), n = jfr_int(r, c, 4);
	const struct jfr_type *t = jfr_type_of(r, id);
	struct jfr_pool *pool;
	uint32_t type;

	if (!cursor_ok(c))
		return jfr_err_cut(err);
	if (!t)
		return err_set(err, ERR_INVALID, "the class %llu of constants is not in the metadata",
			       (unsigned long long)id);
	pool = t->pool == JFR_NO_POOL ? NULL : &r->pools[t->pool];
	type = (uint32_t)(t - r->types.p);
	while (n-- && cursor_ok(c)) {
		uint64_t key = jfr_int(r, c, 8);

		if (pool && !add_constant(r, pool, key, (uint32_t)cursor_off(c)))
			return jfr_err_memory(r, err);
		if (jfr_value_read(r, type, c, NULL, err) < 0)
			return err_in(err, "a constant of " STR_FMT,
				      STR_ARG(jfr_type_name(r, &r->types.p[type])));
	}
	return cursor_ok(c) ? 0 : jfr_err_cut(err);
}

/* It ends with its event: else many could claim the rest of the chunk each. */
static int read_checkpoint(struct jfr_reader *r, uint32_t off, struct err *err)
{
	struct cursor c = jfr_cursor(r, off);
	uint64_t n = jfr_int(r, &c, 4);

	/* The walk over the chunk has compared the size with the bytes that are left. */
	c.end = c.start + off + n;
	jfr_int(r, &c, 8); /* type */
	jfr_int(r, &c, 8); /* start, duration, distance to the one before */
	jfr_int(r, &c, 8);
	jfr_int(r, &c, 8);
	cursor_u8(&c); /* its kind */
	n = jfr_int(r, &c, 4);
	while (n-- && cursor_ok(&c))
		if (read_constants(r, &c, err) < 0)
			return -1;
	return cursor_ok(&c) ? 0 : jfr_err_cut(err);
}

int jfr_pools_read(struct jfr_reader *r, struct err *err)
{
	for (uint32_t i = 0; i < JFR_N_POOLS; i++) {
		struct jfr_pool *p = &r->pools[i];

		p->list.n = 0;
		profile_uncharge(r->room, hash_index_room(&p->by_key) * sizeof(uint32_t));
		free(p->by_key.slots);
		p->by_key = (struct hash_index){ 0 };
	}
	for (uint32_t i = 0; i < r->checkpoints.n; i++)
		if (read_checkpoint(r, r->checkpoints.p[i], err) < 0)
			return err_in(err, "the checkpoint at byte %u", r->checkpoints.p[i]);
	return 0;
}

uint32_t jfr_constant_find(const struct jfr_reader *r, enum jfr_pool_kind pool, uint64_t key)
{
	const struct jfr_pool *p = &r->pools[pool];
	uint32_t at, i;

	if (!p->list.n ||
	    !HASH_INDEX_FIND(&p->by_key, hash_mix(key, r->seed), at, i, p->list.p[i].key == key))
		return JFR_NONE;
	return i;
}

bool jfr_constant_read(struct jfr_reader *r, enum jfr_pool_kind pool, uint64_t key, struct jfr_value *slots)
{
	uint32_t i = jfr_constant_find(r, pool, key);
	struct cursor c;

	memset(slots, 0, JFR_N_SLOTS * sizeof(*slots));
	if (i == JFR_NONE)
		return false;
	/* It was read once, so it is sound. */
	c = jfr_cursor(r, r->pools[pool].list.p[i].off);
	return jfr_value_read(r, r->pools[pool].type, &c, slots, NULL) == 0;
}

struct str jfr_constant_text(struct jfr_reader *r, enum jfr_pool_kind pool, uint64_t key)
{
	struct jfr_value slots[JFR_N_SLOTS];

	if (!jfr_constant_read(r, pool, key, slots) || !slots[JFR_TEXT].there)
		return STR("");
	return jfr_string(r, slots[JFR_TEXT].off, JFR_MAX_NAME);
}
