/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses asked of a request.
 */
#include <stdlib.h>
#include "tables/internal.h"

/* An address in the ELF file, and the one whose frames are wanted: of a return address that of the call. */
struct place {
	uint64_t addr, call;
};

/*
 * The sections of a relocatable file all begin at 0; its table has them one after the other. A call that does not
 * return may be the end of its section, and there is none before the start.
 */
static enum frame_reason find_in_section(const struct symtab *table, struct str name, uint64_t off,
					 bool is_return, struct place *ret)
{
	const struct symtab_section *sec = symtab_section(table, name.size ? name : STR(".text"));

	if (!sec)
		return FRAME_OUTSIDE;
	ret->addr = sec->base + off;
	off -= is_return && off;
	ret->call = sec->base + off;
	return off < sec->size ? FRAME_FOUND : FRAME_OUTSIDE;
}

/*
 * A kernel module is mapped section by section; a mapping without a name is that of its code. false: not
 * such an address.
 */
static bool find_in_relocatable(const struct symtab *table, const struct tables_query *q,
				enum frame_reason *ret_reason, struct place *ret)
{
	if (!(symtab_info(table)->flags & SYMTAB_RELOCATABLE) || q->kind != FRAME_RUNTIME)
		return false;
	if (q->prepared) {
		const struct frame_mapping *m = frame_maps_at(q->prepared, q->addr);

		*ret_reason = m ? find_in_section(table, m->symbol, q->addr - m->start, q->is_return, ret)
				: FRAME_NO_MAPPING;
		return true;
	}
	for (size_t i = 0; i < q->n_maps; i++) {
		const struct frame_mapping *m = &q->maps[i];

		if (q->addr < m->start || (m->limit && q->addr >= m->limit))
			continue;
		*ret_reason = find_in_section(table, m->symbol, q->addr - m->start, q->is_return, ret);
		return true;
	}
	*ret_reason = FRAME_NO_MAPPING;
	return true;
}

static enum frame_reason address_in_table(const struct tables_request *req, const struct tables_query *q,
					  const struct symtab *table, struct place *ret)
{
	const struct tables_entry *l = request_layout(req, q->module);
	enum frame_reason r;

	if (q->kind == FRAME_SECTION)
		return find_in_section(table, q->section, q->addr, q->is_return, ret);
	if (find_in_relocatable(table, q, &r, ret))
		return r;
	if (q->kind != FRAME_VADDR && q->kind != FRAME_RELATIVE && (!l || !l->layout)) {
		if (q->kind == FRAME_RUNTIME && !q->n_maps)
			return FRAME_NO_MAPPING;
		return l ? FRAME_NO_LAYOUT : req->per_id > 1 ? req->none_because : FRAME_NO_LAYOUT;
	}
	if (q->prepared)
		r = frame_translate_prepared(l ? l->layout : NULL, q->kind, q->prepared, q->addr, &ret->addr);
	else
		r = frame_translate(l ? l->layout : NULL, q->kind, q->maps, q->n_maps, q->addr, &ret->addr);
	ret->call = ret->addr - (q->is_return && ret->addr);
	return r;
}

void request_drop_finder(struct tables_request *req)
{
	symtab_finder_free(TAKE(req->finder));
	req->finder_table = NULL;
	budget_hold_done(&req->names);
}

static struct symtab_finder *finder_of(struct tables_request *req, struct symtab *table)
{
	if (req->finder_table != table) {
		request_drop_finder(req);
		req->finder = symtab_finder_new(table);
		budget_hold_init(&req->names, req->tables->opts.memory, BUDGET_FILE);
		symtab_finder_set_memory(req->finder, &req->names);
		req->finder_table = table;
		/* Each reads a block and its names, which takes longer than an address. */
		deadline_over(req->deadline, DEADLINE_STEPS);
	}
	return req->finder;
}

static bool is_refusal(const struct err *err)
{
	return err->kind == ERR_BUSY || err->kind == ERR_LIMIT;
}

static int find_frames(struct tables_request *req, struct symtab *table, uint64_t addr, struct err *err)
{
	int r = symtab_find(finder_of(req, table), addr, &req->frames, err);

	if (r >= 0 || !is_refusal(err))
		return r;
	/* The names of the addresses before may have used up the memory. */
	request_drop_finder(req);
	r = symtab_find(finder_of(req, table), addr, &req->frames, err);
	if (r < 0)
		request_drop_finder(req);
	return r;
}

void tables_find(struct tables_request *req, const struct tables_query *q, struct tables_answer *ret)
{
	const struct symtab_info *info;
	struct err err = { 0 };
	struct tables_entry *e;
	struct place place = { 0 };
	int r;

	*ret = (struct tables_answer){ .reason = FRAME_NO_BUILD_ID };
	if (q->module >= req->n || !req->ids[q->module].size)
		return;
	e = req->waiters[q->module].entry;
	if (!e || e->reason != FRAME_FOUND) {
		ret->reason = e ? e->reason : req->none_because;
		return;
	}
	info = symtab_info(e->table);
	ret->reason = address_in_table(req, q, e->table, &place);
	if (ret->reason != FRAME_FOUND)
		return;
	ret->addr = place.addr;
	r = find_frames(req, e->table, place.call, &err);
	if (r < 0 && is_refusal(&err)) {
		ret->reason = fetch_reason_of(&err);
	} else if (r < 0) {
		atomic_store(&e->spoiled, true);
		ret->reason = FRAME_DAMAGED;
	} else if (r == SYMTAB_NONE) {
		const struct tables_entry *l = request_layout(req, q->module);

		ret->reason = frame_reason_outside(info, (enum frame_reason)atomic_load(&e->no_debug),
						   l ? l->layout : NULL, place.addr);
	} else {
		ret->frames = &req->frames;
		ret->reason = frame_reason_lacking(info, &req->frames);
	}
}

/* ---- all at once ---- */

#define STEPS_OF_ADDRESS 1024u /* finding frames, and writing them */

void tables_request_set_deadline(struct tables_request *req, struct deadline *d)
{
	req->deadline = d;
}

struct turn {
	size_t module, i;
	uint64_t addr;
};

static int by_module_and_address(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->i < y->i ? -1 : 1;
}

void tables_find_all(struct tables_request *req, const struct tables_query *q, size_t n,
		     void (*fn)(void *arg, size_t i, const struct tables_answer *a), void *arg)
{
	AUTO(mem_freep) struct turn *turns = n > 1 ? NEW_N(struct turn, n) : NULL;

	for (size_t i = 0; turns && i < n; i++)
		turns[i] = (struct turn){ q[i].module, i, q[i].addr };
	if (turns)
		qsort(turns, n, sizeof(*turns), by_module_and_address);
	for (size_t k = 0; k < n && !deadline_over(req->deadline, STEPS_OF_ADDRESS); k++) {
		size_t i = turns ? turns[k].i : k;
		struct tables_answer a;

		tables_find(req, &q[i], &a);
		fn(arg, i, &a);
	}
	/* Until the next call its request may wait for a client that reads slowly. */
	request_drop_finder(req);
}
