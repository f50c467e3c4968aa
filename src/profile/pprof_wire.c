/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of fields of profile.proto, and the IDs of its entries. */
#include "profile/pprof_read.h"

int pprof_err_wire(const struct cursor *c, struct err *err)
{
	return err_set(err, ERR_INVALID, "is not a message of profile.proto at offset %llu",
		       (unsigned long long)cursor_off(c));
}

int pprof_err_kind(uint32_t number, uint32_t wire, struct err *err)
{
	return err_set(err, ERR_INVALID, "field %u is of wire type %u", number, wire);
}

uint32_t pprof_string(struct pprof_reader *r, uint64_t v)
{
	uint32_t s = (uint32_t)MIN(v, (uint64_t)UINT32_MAX);

	r->string_max = MAX(r->string_max, s);
	return s;
}

int pprof_numbers(struct pprof_reader *r, struct bytes b, uint32_t n, uint32_t strings, uint64_t *ret,
		  struct err *err)
{
	struct cursor c = pprof_cursor(r, b);
	struct proto_field f;

	memset(ret, 0, (n + 1) * sizeof(*ret));
	while (proto_next(&c, &f)) {
		if (f.number > n)
			continue;
		if (f.wire != PROTO_VARINT)
			return pprof_err_kind(f.number, f.wire, err);
		ret[f.number] = strings >> f.number & 1 ? pprof_string(r, f.v) : f.v;
	}
	return cursor_ok(&c) ? 0 : pprof_err_wire(&c, err);
}

/* ---- numbers of entries ---- */

int pprof_ids_end(struct pprof_reader *r, struct ids *ids, struct err *err)
{
	uint64_t room = 64;
	uint32_t i = 0;

	while (i < ids->list.n && ids->list.p[i] == (uint64_t)i + 1)
		i++;
	if (i == ids->list.n)
		return 0;
	while (room < (uint64_t)ids->list.n * 2)
		room *= 2;
	ids->slots = room <= UINT32_MAX ? profile_alloc(r->p, room, sizeof(*ids->slots)) : NULL;
	if (!ids->slots)
		return profile_err_memory(r->p, err);
	ids->mask = (uint32_t)(room - 1);
	for (i = 0; i < ids->list.n; i++) {
		uint64_t at = pprof_id_hash(ids->list.p[i]) & ids->mask;

		for (; ids->slots[at]; at = (at + 1) & ids->mask)
			if (ids->list.p[ids->slots[at] - 1] == ids->list.p[i])
				return err_set(err, ERR_INVALID, "two %ss have the ID %llu", ids->what,
					       (unsigned long long)ids->list.p[i]);
		ids->slots[at] = i + 1;
	}
	return 0;
}

void pprof_ids_done(struct pprof_reader *r, struct ids *ids)
{
	profile_table_free(r->p, &ids->list);
	profile_release(r->p, ids->slots, (uint64_t)ids->mask + 1, sizeof(*ids->slots));
}
