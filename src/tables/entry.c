/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry: a table, a layout, or why there is none. The LRU and requests have references to it.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tables/internal.h"

#define ENTRY_OVERHEAD 4096u               /* bytes of memory, beside the mapped ones */
#define READ_MAX       (UINT64_C(4) << 30) /* a table that cannot be mapped is read up to this size */

void split_state_done(struct split_state *st)
{
	free(st->comp_dir);
	free(st->name);
	*st = (struct split_state){ 0 };
}

struct tables_entry *entry_new(const struct entry_key *key)
{
	struct tables_entry *e = NEW(struct tables_entry);

	atomic_init(&e->refs, 1);
	atomic_init(&e->spoiled, false);
	atomic_init(&e->replaced, false);
	e->key = *key;
	atomic_init(&e->good_until_ms, INT64_MAX);
	e->weight = ENTRY_OVERHEAD;
	return e;
}

struct tables_entry *entry_ref(struct tables_entry *e)
{
	atomic_fetch_add(&e->refs, 1);
	return e;
}

void entry_unref(struct tables_entry *e)
{
	if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
		return;
	symtab_close(e->table);
	split_state_done(&e->split);
	if (e->mapped)
		munmap(e->mapped, e->mapped_size);
	source_close(e->src);
	buf_done(&e->made);
	free(e->layout);
	free(e);
}

void entry_expire_in(struct tables_entry *e, int64_t ms)
{
	atomic_store(&e->good_until_ms, clock_mono_ms() + ms);
}

bool entry_is_expired(const struct tables_entry *e)
{
	return clock_mono_ms() >= atomic_load(&e->good_until_ms);
}

void entry_note_lacking(struct tables_entry *e, int64_t ms)
{
	uint32_t flags = symtab_info(e->table)->flags;

	e->lacking = (flags & (SYMTAB_ALT_MISSING | SYMTAB_SPLIT_MISSING)) || e->missing[0] ||
		     !(flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO)) ||
		     symtab_info(e->table)->maker < SYMTAB_MAKER;
	if (e->lacking)
		entry_expire_in(e, ms);
	/* A sound copy of the file may turn up, and is reported then: it is not looked for. */
	e->lacking = e->lacking || (flags & SYMTAB_PARTIAL);
}

bool entry_is_usable(const struct tables_entry *e)
{
	return e->reason == FRAME_FOUND && !atomic_load(&e->spoiled);
}

static int entry_use(struct tables_entry *e, struct bytes b, struct err *err)
{
	if (symtab_open_mem(b, &e->table, err) < 0)
		return -1;
	if (symtab_info(e->table)->build_id.size &&
	    !build_id_eq(&symtab_info(e->table)->build_id, &e->key.id)) {
		symtab_close(TAKE(e->table));
		return err_set(err, ERR_INVALID, "is the table of another build ID");
	}
	e->weight = ENTRY_OVERHEAD + b.size;
	return 0;
}

int entry_take_bytes(struct tables_entry *e, struct buf *b, struct err *err)
{
	int r = entry_use(e, buf_bytes(b), err);

	if (r < 0)
		return -1;
	e->made = *b;
	*b = (struct buf){ 0 };
	return 0;
}

static int entry_read(struct tables_entry *e, struct source *src, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (src->size > READ_MAX || !buf_try_reserve(&b, (size_t)src->size))
		return err_set(err, ERR_LIMIT, "no memory for %llu bytes", (unsigned long long)src->size);
	if (source_read_full(src, 0, b.p, (size_t)src->size, SOURCE_SEQUENTIAL, err) < 0)
		return -1;
	b.size = (size_t)src->size;
	return entry_take_bytes(e, &b, err);
}

static int entry_map(struct tables_entry *e, int fd, uint64_t off, size_t size, struct err *err)
{
	uint64_t before = off % (uint64_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size + before, PROT_READ, MAP_SHARED, fd, (off_t)(off - before));

	if (p == MAP_FAILED)
		return 1;
	e->mapped = p;
	e->mapped_size = size + before;
	if (entry_use(e, bytes_of((uint8_t *)p + before, size), err) == 0)
		return 0;
	munmap(TAKE(e->mapped), e->mapped_size);
	return -1;
}

int entry_take_source(struct tables_entry *e, struct source *src, struct err *err)
{
	const uint8_t *mem = source_raw_mem(src);
	uint64_t off;
	int fd, r = 1;

	if (mem) {
		r = entry_use(e, bytes_of(mem, (size_t)src->size), err);
		if (r == 0) {
			e->src = src;
			return 0;
		}
	} else if (src->size && source_raw_fd(src, &fd, &off)) {
		r = entry_map(e, fd, off, (size_t)src->size, err);
	}
	if (r > 0)
		r = entry_read(e, src, err);
	source_close(src);
	return r;
}
