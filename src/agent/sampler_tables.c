/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of unwind rows, under one limit of memory.
 *
 * A file that is in many containers has another device or inode in each, so that it is another file to the agent. Its table has
 * the same bytes, and is kept once. Equal bytes are the only key: a build ID is a claim of a stranger's file.
 */
#include <stdlib.h>
#include "agent/sampler_ops.h"

static struct sampler_table *equal_table(const struct sampler *s, struct bytes b)
{
	for (size_t i = 0; i < s->n_tables; i++)
		if (bytes_eq(s->tables[i]->bytes, b))
			return s->tables[i];
	return NULL;
}

static void drop_table(struct sampler *s, struct sampler_table *t)
{
	size_t i = 0;

	while (s->tables[i] != t)
		i++;
	s->tables[i] = s->tables[--s->n_tables];
	s->table_bytes -= t->bytes.size;
	s->ops->table_drop(s, t);
	free(t);
}

static void change_file(struct sampler *s, struct sampler_file *f, enum sampler_table_state state,
			struct sampler_table *t)
{
	f->state = state;
	f->table = t;
	if (s->ops->file_changed)
		s->ops->file_changed(s, f);
}

void sampler_table_leave(struct sampler *s, struct sampler_file *f, enum sampler_table_state state)
{
	struct sampler_table *t = f->table;

	/* First the file: walks in the kernel go by it. */
	change_file(s, f, state, NULL);
	if (!t)
		return;
	s->n_table_files--;
	if (--t->n_files == 0)
		drop_table(s, t);
}

static void evict_table(struct sampler *s, const struct sampler_table *t)
{
	/* The last file drops it. */
	for (size_t i = 0, left = t->n_files; left; i++) {
		if (s->files[i].table != t)
			continue;
		sampler_table_leave(s, &s->files[i], SAMPLER_TABLE_EVICTED);
		left--;
	}
	s->stats.evicted++;
}

/* The table whose last sample is the oldest. NULL: there is none. */
static struct sampler_table *least_recent(struct sampler *s)
{
	struct sampler_table *found = NULL;

	for (size_t i = 0; i < s->n_tables; i++)
		s->tables[i]->used_ns = INT64_MIN;
	for (size_t i = 0; i < s->n_files; i++) {
		struct sampler_file *f = &s->files[i];
		int64_t used_ns = f->last_use_ns;

		if (!f->table)
			continue;
		if (s->ops->file_used)
			used_ns = MAX(used_ns, s->ops->file_used(s, f->file));
		f->table->used_ns = MAX(f->table->used_ns, used_ns);
	}
	for (size_t i = 0; i < s->n_tables; i++)
		if (!found || s->tables[i]->used_ns < found->used_ns)
			found = s->tables[i];
	return found;
}

/* Evicts others if need be. NULL: there is no memory. */
static struct sampler_table *keep_table(struct sampler *s, struct bytes bytes, struct err *err)
{
	struct sampler_table *t, *old;

	while (s->table_bytes + bytes.size > s->options.table_memory && (old = least_recent(s)))
		evict_table(s, old);
	t = NEW(struct sampler_table);
	if (s->ops->table_keep(s, bytes, t, err)) {
		free(t);
		return NULL;
	}
	VEC_PUSH(s->tables, s->n_tables, s->room_tables) = t;
	s->table_bytes += bytes.size;
	return t;
}

int sampler_file_table(struct sampler *s, uint32_t file, struct bytes bytes, struct err *err)
{
	struct sampler_file *f = sampler_file_get(s, file);
	bool large = bytes.size > s->options.table_memory;
	struct sampler_table *t;

	if (!f)
		return err_set(err, ERR_INVALID, "there is no file %#x", file);
	sampler_table_leave(s, f, SAMPLER_TABLE_NONE);
	f->last_use_ns = clock_mono_ns();
	f->too_large = large;
	if (!bytes.size || large) {
		change_file(s, f, SAMPLER_TABLE_NEVER, NULL);
	} else {
		t = equal_table(s, bytes);
		if (!t && !(t = keep_table(s, bytes, err)))
			return -1;
		t->n_files++;
		s->n_table_files++;
		change_file(s, f, SAMPLER_TABLE_SET, t);
	}
	s->hold_changed = true;
	return large ? err_set(err, ERR_LIMIT, "the table is larger than the memory of all tables, %zu bytes",
			       s->options.table_memory)
		     : 0;
}

void sampler_tables_done(struct sampler *s)
{
	for (size_t i = 0; i < s->n_tables; i++) {
		s->ops->table_drop(s, s->tables[i]);
		free(s->tables[i]);
	}
	free(s->tables);
	s->tables = NULL;
	s->n_tables = 0;
}
