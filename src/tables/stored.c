/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables in the store: a table of another version of the format is another object there.
 */
#include <stdio.h>
#include "tables/internal.h"

#define VERSION_TEXT(v)  VERSION_TEXT_(v)
#define VERSION_TEXT_(v) #v

static struct store_key symtab_key(const struct build_id *id)
{
	return (struct store_key){ *id, STORE_SYMTAB, STR(VERSION_TEXT(SYMTAB_VERSION)) };
}

void stored_set_origin(struct tables_entry *e, struct str file, struct str archive)
{
	snprintf(e->origin, sizeof(e->origin), STR_FMT "%s" STR_FMT, STR_ARG(archive),
		 archive.size && file.size ? ": " : "", STR_ARG(file));
}

struct tables_entry *stored_open(struct tables *t, const struct entry_key *key, struct arena *a)
{
	struct store_key stored = symtab_key(&key->id);
	struct store_meta meta;
	struct source *src;
	struct err err = { 0 };
	struct tables_entry *e;

	if (!t->opts.store || store_open_object(t->opts.store, &stored, a, &meta, &src, &err) != 0)
		return NULL;
	e = entry_new(key);
	stored_set_origin(e, meta.file, meta.archive);
	snprintf(e->missing, sizeof(e->missing), STR_FMT, STR_ARG(meta.lacks));
	if (entry_take_source(e, src, &err) == 0) {
		if (!t->opts.discriminators || (symtab_info(e->table)->flags & SYMTAB_HAS_DISCRIMINATORS))
			return e;
		(void)err_set(&err, ERR_INVALID, "was made without discriminators");
	}
	log_debug("tables", "a table in the store cannot be used: %s", err.text);
	entry_unref(e);
	return NULL;
}

void stored_put(struct tables *t, const struct tables_entry *e, const struct resolve_answer *made_of)
{
	uint32_t flags = symtab_info(e->table)->flags;
	const struct store_meta meta = { .origin = STORE_MADE,
					 .quality = flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO)
							    ? STORE_DWARF
							    : STORE_SYMBOLS,
					 .mtime = made_of->mtime,
					 .file = made_of->file,
					 .archive = made_of->archive,
					 .lacks = str_of(e->missing) };
	struct store_key stored = symtab_key(&e->key.id);
	struct err err = { 0 };

	if (t->opts.store &&
	    store_put_bytes(t->opts.store, &stored, &meta, true, buf_bytes(&e->made), STORE_ALWAYS, &err) < 0)
		log_debug("tables", "a table is not kept in the store: %s", err.text);
}

void stored_forget(struct tables *t, const struct build_id *id)
{
	struct store_key stored = symtab_key(id);
	struct err err = { 0 };

	if (t->opts.store && store_remove(t->opts.store, &stored, STR(""), &err) < 0)
		log_warn("tables", "the table of a replaced file is still in the store: %s", err.text);
}
