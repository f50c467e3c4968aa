/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages of a build. A table: the one in the store; else of the debug file, or of the program; with its
 * supplementary and its split files, and the program, if only that has the symbol table, the function descriptors or
 * Go's table; converted; put into the store. A layout: of the program, or of the debug file.
 *
 * Without any of these: of a file with the program's dynamic symbols, which an agent sent.
 *
 * A stage that has to wait ends the step, and the next step begins with it. No thread of the pool waits for
 * another thread's work.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "symtab/go.h"
#include "tables/internal.h"

#define INCOMPLETE_MS (10 * 60 * 1000)

enum make_stage { AT_STORE, AT_DEBUG, AT_EXECUTABLE, AT_DYNSYM, AT_ALT, AT_PROGRAM, AT_TABLE };

struct build_making {
	enum make_stage stage;
	struct tables_entry *entry; /* the end of the build */
	struct arena arena;
	struct fetched file, alt, symbols; /* symbols: the program, if they need it */
	struct splits *splits;             /* of `file` */
	bool from_executable;
	bool is_empty;                      /* the debug file has nothing in it */
	bool searching;                     /* a scan was still running when the build began */
	struct make_failure debug, program; /* why there is no such file */
};

void make_drop(struct build *b)
{
	struct build_making *m = b->making;

	task_waker_drop(&b->task);
	if (!m)
		return;
	splits_free(m->splits);
	fetched_done(&m->symbols);
	fetched_done(&m->alt);
	fetched_done(&m->file);
	arena_done(&m->arena);
	free(m);
	b->making = NULL;
}

/* ---- ends ---- */

static enum make_outcome end_with(struct build *b, struct tables_entry *e)
{
	b->making->entry = e;
	return MAKE_DONE;
}

static struct tables_entry *new_miss(struct build *b, enum frame_reason reason, const char *why,
				     int64_t for_ms)
{
	struct tables_entry *e = entry_new(&b->key);

	e->reason = reason;
	/* A longer reason is cut. */
	snprintf(e->why, sizeof(e->why), "%.*s", (int)sizeof(e->why) - 1, why);
	entry_expire_in(e, for_ms);
	return e;
}

static enum make_outcome end_missing(struct build *b, enum frame_reason reason, int64_t for_ms)
{
	return end_with(b, new_miss(b, reason, "", for_ms));
}

static bool is_miss(enum frame_reason reason)
{
	return reason == FRAME_UNKNOWN || reason == FRAME_UPSTREAM_404;
}

/* Nothing has it, so far. */
static enum make_outcome end_unknown(struct build *b, enum frame_reason reason)
{
	bool searching = b->making->searching;

	(void)end_missing(b, reason, searching ? FRAME_RETRY_MS : b->tables->opts.miss_ms);
	b->making->entry->searching = searching;
	return MAKE_DONE;
}

static bool can_stay(const struct tables_entry *e)
{
	return e && entry_is_usable(e) && !atomic_load(&e->replaced);
}

/* The table, or the layout, that was to be replaced can be used on. */
static bool has_old(const struct build *b)
{
	return can_stay(b->old);
}

/* The table that a local build has made meanwhile is as good as one that would be made now. */
static void adopt_local(struct build *b)
{
	struct tables_entry *e;

	if (b->is_local || has_old(b))
		return;
	e = cache_get(b->tables, &b->key);
	if (can_stay(e)) {
		entry_unref(b->old);
		b->old = e;
	} else {
		entry_unref(e);
	}
}

/* A better one cannot be made now. It may be soon, so an address outside of the old one is not without debug information. */
static enum make_outcome end_failed_with_old(struct build *b, enum frame_reason reason)
{
	if (reason == FRAME_BUSY)
		reason = FRAME_PENDING;
	if (frame_reason_hides_debug(reason))
		atomic_store(&b->old->no_debug, (int)reason);
	entry_expire_in(b->old, b->tables->opts.error_ms);
	return end_with(b, entry_ref(b->old));
}

static enum make_outcome end_failed(struct build *b, const struct make_failure *f)
{
	adopt_local(b);
	if (has_old(b))
		return end_failed_with_old(b, f->reason);
	if (f->reason == FRAME_BUSY)
		return end_missing(b, FRAME_BUSY, 0);
	if (is_miss(f->reason))
		return end_unknown(b, f->reason);
	if (atomic_load(&b->tables->cancel))
		return end_missing(b, FRAME_PENDING, 0);
	/* The budget of questions is that of the caller: the next caller may have another. */
	return end_with(
		b, new_miss(b, f->reason, f->err.text, f->err.os == EBUSY ? 0 : b->tables->opts.error_ms));
}

static enum make_outcome end_broken(struct build *b, const struct err *err)
{
	struct make_failure f = { .reason = fetch_reason_of(err), .err = *err };

	return end_failed(b, &f);
}

/* There is still nothing better. */
static enum make_outcome end_with_old(struct build *b)
{
	bool failed = frame_reason_hides_debug(b->making->debug.reason);

	entry_expire_in(b->old, failed ? b->tables->opts.error_ms : b->tables->opts.miss_ms);
	return end_with(b, entry_ref(b->old));
}

/* ---- layouts ---- */

static enum make_outcome make_layout_of(struct build *b)
{
	struct build_making *m = b->making;
	struct tables_entry *e = entry_new(&b->key);

	e->layout = NEW(struct frame_layout);
	frame_layout_of(m->file.img, e->layout);
	if (m->alt.img)
		frame_layout_move_back(e->layout, frame_moved(m->file.img, m->alt.img));
	if (!e->layout->offsets_known) {
		e->lacking = true;
		entry_expire_in(e, b->tables->opts.miss_ms);
	}
	e->weight += sizeof(*e->layout);
	return end_with(b, e);
}

static enum make_outcome end_without_layout(struct build *b, const struct make_failure *f)
{
	if (has_old(b))
		return is_miss(f->reason) ? end_with_old(b) : end_failed(b, f);
	if (f->reason == FRAME_BUSY)
		return end_missing(b, FRAME_NO_LAYOUT, 0);
	return is_miss(f->reason) ? end_unknown(b, FRAME_NO_LAYOUT) : end_failed(b, f);
}

/* It is in the store or nowhere. */
static enum make_outcome fetch_dynsym(struct build *b)
{
	struct build_making *m = b->making;
	struct make_failure ignored;

	m->file.dynsym = true;
	return fetch_elf(b, &m->file, RESOLVE_DEBUGINFO, &b->key.id, &m->arena, &ignored);
}

static enum make_outcome make_layout(struct build *b)
{
	struct build_making *m = b->making;
	struct make_failure failure;
	enum make_outcome r = MAKE_DONE;

	if (m->stage == AT_STORE)
		m->stage = AT_EXECUTABLE;
	if (m->stage == AT_EXECUTABLE && !m->file.img) {
		r = fetch_elf(b, &m->file, RESOLVE_EXECUTABLE, &b->key.id, &m->arena, &failure);
		if (r == MAKE_MISSING)
			m->stage = AT_DEBUG;
	}
	if (m->stage == AT_DEBUG)
		r = fetch_elf(b, &m->file, RESOLVE_DEBUGINFO, &b->key.id, &m->arena, &failure);
	if (r == MAKE_MISSING && fetch_dynsym(b) == MAKE_DONE)
		r = MAKE_DONE;
	if (r == MAKE_WAITS)
		return r;
	if (r == MAKE_MISSING)
		return end_without_layout(b, &failure);
	/* A prelinked program has other addresses than its debug file, whose table is asked. */
	if (m->stage == AT_EXECUTABLE && elf_section_find(m->file.img, ".gnu.prelink_undo") &&
	    fetch_elf(b, &m->alt, RESOLVE_DEBUGINFO, &b->key.id, &m->arena, &failure) == MAKE_WAITS)
		return MAKE_WAITS;
	return make_layout_of(b);
}

/* ---- tables ---- */

/* Mapped from the store a table costs no memory of ours. */
static struct tables_entry *map_stored(struct build *b, struct tables_entry *e)
{
	struct tables_entry *mapped = stored_open(b->tables, &b->key, &b->making->arena);

	if (!mapped)
		return e;
	/* A local build that ends at the same time, or another node, may have put another one there. */
	if (symtab_info(mapped->table)->hash != symtab_info(e->table)->hash) {
		entry_unref(mapped);
		return e;
	}
	atomic_store(&mapped->no_debug, atomic_load(&e->no_debug));
	mapped->split = e->split;
	memcpy(mapped->missing, e->missing, sizeof(mapped->missing));
	e->split = (struct split_state){ 0 };
	entry_unref(e);
	return mapped;
}

/* Its files are not replaced, and the build that a local one is for has no better table. */
static bool is_table_wanted(struct build *b)
{
	struct tables *t = b->tables;
	bool wanted;

	pthread_mutex_lock(&t->lock);
	wanted = b->is_local ? local_is_wanted(b) : b->news != NEWS_REPLACED;
	pthread_mutex_unlock(&t->lock);
	return wanted;
}

/* Before the better table goes into the store: a local build that ends from now on is late. */
static void outdate_local(struct build *b)
{
	pthread_mutex_lock(&b->tables->lock);
	if (!b->is_local)
		local_forget(b);
	pthread_mutex_unlock(&b->tables->lock);
}

/* Keep the table that @b has made in the store. Takes @e, and returns the same table, mapped from there if it can be. */
static struct tables_entry *keep_in_store(struct build *b, struct tables_entry *e)
{
	if (!is_table_wanted(b))
		return e;
	outdate_local(b);
	stored_put(b->tables, e, &b->making->file.answer);
	if (is_table_wanted(b))
		return map_stored(b, e);
	/* It may be in the place of a better one, which is made again when it is needed. */
	stored_forget(b->tables, &b->key.id);
	return e;
}

/*
 * Parts of the table were left out, since memory was not granted. It is used, but not stored: the next process may
 * have more memory. In this one it is made again if memory was only used up, not if it is too little.
 */
static enum make_outcome end_incomplete(struct build *b, struct tables_entry *e)
{
	char hex[BUILD_ID_HEX_SIZE];

	/* A file of the store has no path. */
	log_warn(
		"tables",
		"%s%sbuild ID %s: parts are left out, since memory for them was not granted; give lode serve "
		"more with --memory",
		e->origin, e->origin[0] ? ", " : "", build_id_hex(&b->key.id, hex));
	e->incomplete = e->lacking = true;
	if (b->refusals.busy)
		entry_expire_in(e, INCOMPLETE_MS);
	return end_with(b, e);
}

/* The debug file has no bytes of Go's table: they are in its program alone. */
static bool needs_go_table(const struct build *b)
{
	const struct build_making *m = b->making;

	return !m->from_executable && !m->file.dynsym && go_in_program(m->file.img);
}

/* The file that has the names which the table lacks. */
static void note_missing_file(struct build *b, struct tables_entry *e)
{
	uint32_t flags = symtab_info(e->table)->flags;
	AUTO(buf_done) struct buf dwo = { 0 };
	char hex[BUILD_ID_HEX_SIZE] = "";
	struct build_id id;
	struct str path;

	if (e->split.name)
		companion_describe_dwo(str_of(e->split.comp_dir), str_of(e->split.name), e->split.id, &dwo);
	if ((flags & SYMTAB_ALT_MISSING) &&
	    elf_alt_link(b->making->file.img, &b->making->arena, &path, &id, NULL) == 0)
		snprintf(e->missing, sizeof(e->missing), "%.*s%s%s", (int)MIN(path.size, (size_t)160), path.p,
			 id.size ? ", build ID " : "", build_id_hex(&id, hex));
	else if (flags & SYMTAB_SPLIT_MISSING)
		snprintf(e->missing, sizeof(e->missing), STR_FMT, STR_ARG(buf_str(&dwo)));
	else if (!b->making->symbols.img && needs_go_table(b))
		snprintf(e->missing, sizeof(e->missing), "the program, which has Go's table");
}

/* The old table was made by an earlier maker with split files that are not here any more. */
static bool has_lost_splits(const struct build *b, const struct tables_entry *e)
{
	const struct tables_entry *old = b->old;

	return has_old(b) && !old->incomplete && !frame_reason_is_damaged(symtab_info(old->table)) &&
	       symtab_info(old->table)->maker < SYMTAB_MAKER &&
	       !(symtab_info(old->table)->flags & SYMTAB_SPLIT_MISSING) &&
	       symtab_info(e->table)->flags & SYMTAB_SPLIT_MISSING;
}

static enum make_outcome end_with_table(struct build *b, struct buf *table)
{
	const struct resolve_answer *a = &b->making->file.answer;
	struct tables_entry *e = entry_new(&b->key);
	struct err err = { 0 };

	if (entry_take_bytes(e, table, &err) < 0) {
		entry_unref(e);
		return end_broken(b, &err);
	}
	e->split = splits_take_state(b->making->splits);
	if (has_lost_splits(b, e)) {
		split_state_done(&b->old->split);
		b->old->split = e->split;
		e->split = (struct split_state){ 0 };
		entry_unref(e);
		return end_with_old(b);
	}
	if (b->making->from_executable)
		atomic_store(&e->no_debug, (int)b->making->debug.reason);
	stored_set_origin(e, a->file, a->archive);
	note_missing_file(b, e);
	atomic_fetch_add(&b->tables->n_made, 1);
	if (b->refusals.busy || b->refusals.limit)
		return end_incomplete(b, e);
	e = keep_in_store(b, e);
	entry_note_lacking(e, frame_reason_hides_debug(atomic_load(&e->no_debug)) ? b->tables->opts.error_ms
										  : b->tables->opts.miss_ms);
	return end_with(b, e);
}

/* Of the files found. Of .dwo files one is open at a time, and the table's memory grows by what it needs. */
static uint64_t input_size(const struct build_making *m)
{
	const struct dwarf_split *split = splits_finder(m->splits);
	const struct elf_image *const images[] = { m->file.img, m->alt.img, m->symbols.img,
						   split ? split->dwp : NULL };
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		sum += images[i] ? images[i]->src->size : 0;
	return sum;
}

/* Build the table of the files found. MAKE_MISSING: they have nothing to make a table of. */
static enum make_outcome convert_files(struct build *b)
{
	struct build_making *m = b->making;
	struct tables *t = b->tables;
	struct symtab_options o = { .temp_dir = t->temp_dir,
				    .n_threads = 1,
				    .cancel = &t->cancel,
				    .discriminators = t->opts.discriminators };
	AUTO(buf_done) struct buf table = { 0 };
	struct symtab_stats stats;
	struct err err = { 0 };
	int r = -1;

	if (!build_memory_begin(b, input_size(m)))
		return MAKE_WAITS;
	if (fetched_make_random(b, &m->file, &err) == 0 && fetched_make_random(b, &m->alt, &err) == 0 &&
	    fetched_make_random(b, &m->symbols, &err) == 0) {
		o.program = m->symbols.img;
		o.alt = m->alt.img;
		o.split = splits_finder(m->splits);
		o.memory = &b->memory;
		o.disk = &b->disk;
		r = symtab_build(m->file.img, &o, &table, &stats, &err);
	}
	b->refusals.busy = atomic_load(&b->memory.n_busy) || atomic_load(&b->disk.n_busy);
	b->refusals.limit = atomic_load(&b->memory.n_limit) || atomic_load(&b->disk.n_limit);
	if (build_memory_end(b, r < 0 && err.kind == ERR_BUSY))
		return MAKE_WAITS;
	if (r == SYMTAB_NOTHING)
		return MAKE_MISSING;
	return r < 0 ? end_broken(b, &err) : end_with_table(b, &table);
}

/* Before the search: a file that arrives during it renews the build. */
static void note_lacking(struct build *b, const struct build_id *alt, bool lacks)
{
	struct tables *t = b->tables;

	pthread_mutex_lock(&t->lock);
	if (lacks)
		lacking_note(t, alt, &b->key.id);
	else
		lacking_forget(t, alt, &b->key.id);
	pthread_mutex_unlock(&t->lock);
}

static int open_alt_by_id(const struct companion_place *p, const char *link, const struct build_id *id,
			  struct source **ret)
{
	struct build *b = p->arg;
	struct build_making *m = b->making;
	struct make_failure ignored;

	if (!id->size)
		return COMPANION_NONE;
	note_lacking(b, id, true);
	switch (fetch_source(b, &m->alt, RESOLVE_DEBUGINFO, id, &m->arena, &ignored)) {
	case MAKE_DONE:
		note_lacking(b, id, false);
		*ret = TAKE(m->alt.src);
		return 0;
	case MAKE_WAITS:
		return COMPANION_WAITS;
	case MAKE_MISSING:
		break;
	}
	return COMPANION_NONE;
}

/* Without a supplementary file the table is built all the same. */
static enum make_outcome find_supplementary(struct build *b)
{
	const struct companion_place place = { .open_alt = open_alt_by_id, .arg = b };
	struct build_making *m = b->making;
	int r = companion_open_alt(m->file.img, &place, 1, &m->alt.img);

	if (r == COMPANION_WAITS)
		return MAKE_WAITS;
	if (r == 0)
		m->alt.src = m->alt.img->src;
	return MAKE_DONE;
}

/*
 * The old table is of an earlier maker, and all that it was made of is here: its supplementary file may have gone since.
 * Whether its split files have is known after a build only: end_with_table() keeps the old table, and notes the missing
 * one.
 */
static bool is_of_earlier_maker(const struct build *b)
{
	const struct build_making *m = b->making;
	const struct symtab_info *old = symtab_info(b->old->table);

	return old->maker < SYMTAB_MAKER && (m->alt.img || !(old->flags & SYMTAB_ALT_APPLIED)) &&
	       (!m->splits || splits_are_better(m->splits, &b->old->split)) &&
	       (!m->from_executable || !(old->flags & SYMTAB_HAS_DWARF));
}

/* A table of the files found would be better than the old one. */
static bool is_better_table(const struct build *b)
{
	const struct build_making *m = b->making;
	uint32_t flags = symtab_info(b->old->table)->flags;

	if (b->old->incomplete || frame_reason_is_damaged(symtab_info(b->old->table)) ||
	    is_of_earlier_maker(b))
		return true;
	if ((flags & SYMTAB_ALT_MISSING) && m->alt.img)
		return true;
	if ((flags & SYMTAB_SPLIT_MISSING) && splits_are_better(m->splits, &b->old->split))
		return true;
	if (flags & (SYMTAB_ALT_MISSING | SYMTAB_SPLIT_MISSING))
		return false;
	/* Only the program is missing, which stage_program() searches for: the table has all of the debug file. */
	if (b->old->missing[0] && flags & SYMTAB_HAS_LINES && needs_go_table(b))
		return false;
	/* Of an earlier maker, and made of more files than are here. */
	if (b->old->lacking && symtab_info(b->old->table)->maker < SYMTAB_MAKER &&
	    flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO))
		return false;
	return !m->from_executable && (elf_debug_section(m->file.img, ".debug_info") ||
				       elf_debug_section(m->file.img, ".debug_line"));
}

static bool old_has_go_table(const struct build *b)
{
	return symtab_info(b->old->table)->flags & SYMTAB_HAS_GO;
}

/* ---- the stages of a table: each sets the next stage, or the entry ---- */

static enum make_outcome stage_store(struct build *b)
{
	struct tables_entry *e;

	b->making->stage = AT_DEBUG;
	/*
	 * The table to be replaced may have come from there. That of a replaced file was removed, and a local build that is
	 * late may put it there again for a moment.
	 */
	if (b->was_replaced || (b->old && b->old->reason == FRAME_FOUND))
		return MAKE_DONE;
	e = stored_open(b->tables, &b->key, &b->making->arena);
	if (!e)
		return MAKE_DONE;
	atomic_fetch_add(&b->tables->n_from_store, 1);
	entry_note_lacking(e, 0);
	return end_with(b, e);
}

static enum make_outcome stage_debug(struct build *b)
{
	struct build_making *m = b->making;
	enum make_outcome r = fetch_elf(b, &m->file, RESOLVE_DEBUGINFO, &b->key.id, &m->arena, &m->debug);

	if (r == MAKE_WAITS)
		return r;
	m->stage = r == MAKE_DONE ? AT_ALT : AT_EXECUTABLE;
	if (r == MAKE_DONE)
		return r;
	if (m->debug.reason == FRAME_BUSY)
		return end_failed(b, &m->debug);
	adopt_local(b);
	if (!has_old(b))
		return MAKE_DONE;
	atomic_store(&b->old->no_debug, (int)m->debug.reason);
	return end_with_old(b);
}

/* There is neither a debug file nor a program: of both failures the one that says more. */
static enum make_outcome end_without_files(struct build *b, const struct make_failure *program)
{
	const struct make_failure *debug = &b->making->debug;

	if (debug->reason && !is_miss(debug->reason))
		return end_failed(b, debug);
	if (!is_miss(program->reason))
		return end_failed(b, program);
	if (b->making->is_empty)
		return end_missing(b, FRAME_NO_SYMBOLS, b->tables->opts.miss_ms);
	return end_failed(b, debug->reason == FRAME_UPSTREAM_404 ? debug : program);
}

static enum make_outcome stage_executable(struct build *b)
{
	struct build_making *m = b->making;
	enum make_outcome r = fetch_elf(b, &m->file, RESOLVE_EXECUTABLE, &b->key.id, &m->arena, &m->program);

	if (r == MAKE_WAITS)
		return r;
	m->from_executable = true;
	m->stage = r == MAKE_MISSING ? AT_DYNSYM : AT_ALT;
	return MAKE_DONE;
}

static enum make_outcome stage_dynsym(struct build *b)
{
	enum make_outcome r = fetch_dynsym(b);

	if (r == MAKE_MISSING)
		return end_without_files(b, &b->making->program);
	if (r == MAKE_DONE)
		b->making->stage = AT_ALT;
	return r;
}

static enum make_outcome stage_alt(struct build *b)
{
	struct build_making *m = b->making;

	if (find_supplementary(b) == MAKE_WAITS)
		return MAKE_WAITS;
	adopt_local(b);
	if (!m->splits)
		m->splits = splits_new(b->tables, &b->key.id, m->file.img, &m->file.answer);
	m->stage = AT_PROGRAM;
	if (!has_old(b) || is_better_table(b))
		return MAKE_DONE;
	/* The program may have come since. */
	return needs_go_table(b) && !old_has_go_table(b) ? MAKE_DONE : end_with_old(b);
}

/* Without the program the table is built all the same. */
static enum make_outcome stage_program(struct build *b)
{
	struct build_making *m = b->making;
	struct make_failure ignored;

	if (!m->from_executable && !m->file.dynsym && symtab_needs_program(m->file.img)) {
		if (fetch_elf(b, &m->symbols, RESOLVE_EXECUTABLE, &b->key.id, &m->arena, &ignored) ==
		    MAKE_WAITS)
			return MAKE_WAITS;
		if (m->symbols.img && frame_moved(m->symbols.img, m->file.img))
			fetched_done(&m->symbols);
	}
	/* Without the program the new table is no better than the old one, or it has lost the lines of Go. */
	if (has_old(b) && !m->symbols.img && needs_go_table(b) &&
	    (old_has_go_table(b) || !is_better_table(b)))
		return end_with_old(b);
	m->stage = AT_TABLE;
	return MAKE_DONE;
}

static enum make_outcome stage_table(struct build *b)
{
	struct build_making *m = b->making;
	enum make_outcome r = convert_files(b);

	if (r != MAKE_MISSING)
		return r;
	if (m->from_executable)
		return end_missing(b, FRAME_NO_SYMBOLS, b->tables->opts.miss_ms);
	/* The debug file is empty: the program may have symbols. */
	splits_free(TAKE(m->splits));
	fetched_done(&m->symbols);
	fetched_done(&m->alt);
	fetched_done(&m->file);
	m->is_empty = true;
	m->stage = AT_EXECUTABLE;
	return MAKE_DONE;
}

static enum make_outcome make_table(struct build *b)
{
	static enum make_outcome (*const stages[])(struct build * b) = {
		[AT_STORE] = stage_store,   [AT_DEBUG] = stage_debug, [AT_EXECUTABLE] = stage_executable,
		[AT_DYNSYM] = stage_dynsym, [AT_ALT] = stage_alt,     [AT_PROGRAM] = stage_program,
		[AT_TABLE] = stage_table,
	};

	while (!b->making->entry)
		if (stages[b->making->stage](b) == MAKE_WAITS)
			return MAKE_WAITS;
	return MAKE_DONE;
}

/* ---- steps ---- */

static void making_start(struct build *b)
{
	b->making = NEW(struct build_making);
	arena_init(&b->making->arena);
	b->making->searching = resolve_unfinished(b->tables->opts.resolver);
}

enum make_outcome make_step(struct build *b, struct tables_entry **ret)
{
	struct tables *t = b->tables;
	bool waiting = task_waits(&b->task), ends, parked, again;
	struct tables_entry *miss;
	enum make_outcome r;

	pthread_mutex_lock(&t->lock);
	ends = t->closing || (b->is_local && !local_is_wanted(b));
	miss = TAKE(b->miss);
	t->n_searches -= miss != NULL;
	again = b->news == NEWS_REPLACED || (b->news && (waiting || miss));
	if (again) {
		b->was_replaced = b->was_replaced || b->news == NEWS_REPLACED;
		if (b->news == NEWS_REPLACED && b->old)
			atomic_store(&b->old->replaced, true);
		b->news = NEWS_NONE;
		b->parked = false;
		local_forget(b);
	}
	parked = b->parked;
	pthread_mutex_unlock(&t->lock);
	entry_unref(miss);
	if (ends) {
		*ret = new_miss(b, FRAME_PENDING, "", 0);
		return MAKE_DONE;
	}
	/*
	 * A build that waits, perhaps long, for another server starts again with the file that is here now.
	 */
	if (again)
		make_drop(b);
	/* Kicked for another reason. */
	if (parked || task_waits(&b->task))
		return MAKE_WAITS;
	if (!b->making)
		making_start(b);
	r = b->key.kind == ENTRY_LAYOUT ? make_layout(b) : make_table(b);
	if (r == MAKE_DONE)
		*ret = TAKE(b->making->entry);
	return r;
}
