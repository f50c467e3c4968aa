/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a table or a layout, in steps: where the resolver has to wait (for a package to be looked into, for
 * another server) the step ends, and the next one begins when it says so. No thread of the pool waits for
 * anybody else.
 *
 * A table: what the store has; else the debug file, or the program; its supplementary and its split files;
 * converted; into the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "tables/internal.h"

/* The argument of a table's key: one of another version is another object. */
#define VERSION_TEXT(v)  VERSION_TEXT_(v)
#define VERSION_TEXT_(v) #v

enum { WAITS = 100 }; /* of a fetch, beside resolve()'s */

enum stage { AT_STORE, AT_DEBUG, AT_EXECUTABLE, AT_ALT, AT_TABLE };

/* A file on its way. */
struct fetched {
	struct resolve_answer answer;
	struct source *src;
	struct elf_image *img;
};

struct maker {
	enum stage stage;
	struct arena arena;
	struct resolve_why why;
	struct fetched file, alt;
	struct splits *splits; /* of `file` */
	bool from_executable;
	bool is_empty;  /* the debug file has nothing in it */
	bool said_404;  /* by another server */
	bool failed;    /* to look for the debug file; `err` says why */
	bool searching; /* something was still being scanned when it began to look */
	struct err err;
};

/* ---- being woken ---- */

static void wake(void *arg)
{
	struct build *f = arg;

	pthread_mutex_lock(&f->s->lock);
	build_kick(f);
	pthread_mutex_unlock(&f->s->lock);
}

/* ---- files ---- */

static void fetched_done(struct fetched *t)
{
	elf_close(t->img);
	source_close(t->src);
	*t = (struct fetched){ 0 };
}

void make_drop(struct build *f)
{
	struct maker *m = f->maker;

	waker_drop(&f->waker);
	if (!m)
		return;
	splits_free(m->splits);
	fetched_done(&m->alt);
	fetched_done(&m->file);
	arena_done(&m->arena);
	free(m);
	f->maker = NULL;
}

static void note_404(struct maker *m)
{
	for (const struct resolve_step *step = m->why.first; step; step = step->next)
		if (str_starts(step->place, STR("http")) &&
		    (str_starts(step->said, STR("404")) || str_starts(step->said, STR("410"))))
			m->said_404 = true;
}

/* From now on it is read from a file of ours. */
static int take_copy(struct build *f, struct fetched *t, struct err *err)
{
	struct source *src;

	if (tables_copy(t->src, t->img, f->s->temp_dir, &f->s->cancel, &src, err) < 0)
		return -1;
	elf_close(TAKE(t->img));
	source_close(t->src);
	t->src = src;
	return 0;
}

/* All bytes of what was found are here. 0, WAITS, -1. */
static int gather(struct build *f, struct fetched *t, struct err *err)
{
	if (t->answer.arrived) {
		struct waker *w = waker_new(&f->waker, wake, f);
		uint64_t have;
		int r = t->answer.arrived(t->src, t->src->size ? t->src->size - 1 : 0, waker_fire, w, &have,
					  err);

		if (r == RESOLVE_WAIT)
			return WAITS;
		waker_free(&f->waker, w);
		if (r < 0)
			return -1;
		t->answer.arrived = NULL;
	}
	return t->answer.sequential_only ? take_copy(f, t, err) : 0;
}

/* Find it, and open it as ELF. 0, RESOLVE_MISSING, RESOLVE_BUSY, WAITS, -1; FRAME_NOT_ELF is ERR_INVALID.
 */
static int fetch(struct build *f, struct fetched *t, enum resolve_kind kind, const struct build_id *id,
		 struct err *err)
{
	const struct resolve_request req = { .kind = kind, .id = *id };
	struct maker *m = f->maker;
	int r;

	if (!t->src) {
		struct waker *w = waker_new(&f->waker, wake, f);

		resolve_why_init(&m->why, &m->arena);
		r = resolve(f->s->opts.resolver, &req, (struct resolve_wake){ waker_fire, w }, &t->answer,
			    &m->why, err);
		if (r == RESOLVE_WAIT)
			return WAITS;
		waker_free(&f->waker, w);
		if (r == RESOLVE_MISSING)
			note_404(m);
		if (r)
			return r;
		t->src = t->answer.source;
	}
	r = gather(f, t, err);
	if (r == WAITS)
		return r;
	if (r == 0)
		r = elf_open(t->src, &t->img, err);
	if (r > 0)
		r = err_set(err, ERR_INVALID, "is no ELF file");
	if (r < 0)
		fetched_done(t);
	return r;
}

/* ---- ends ---- */

static enum frame_reason reason_of(const struct err *err)
{
	if (strstr(err->text, "is no ELF file"))
		return FRAME_NOT_ELF;
	if (err->kind == ERR_UPSTREAM)
		return err->os == ETIMEDOUT || err->os == ETIME ? FRAME_TIMED_OUT : FRAME_UPSTREAM_FAILED;
	if (err->kind == ERR_CANCELLED)
		return FRAME_TIMED_OUT;
	return FRAME_DAMAGED;
}

static struct entry *fail(struct build *f, enum frame_reason reason, const char *why, int64_t for_ms)
{
	struct entry *e = entry_new(&f->key);

	entry_fail(e, reason, why, for_ms);
	return e;
}

static struct entry *fail_by(struct build *f, const struct err *err)
{
	if (atomic_load(&f->s->cancel))
		return fail(f, FRAME_PENDING, "", 0);
	return fail(f, reason_of(err), err->text, f->s->opts.error_ms);
}

/* Nobody has it. */
static struct entry *fail_unknown(struct build *f, enum frame_reason reason)
{
	bool searching = f->maker->searching;
	struct entry *e = fail(f, reason, "", searching ? FRAME_RETRY_MS : f->s->opts.miss_ms);

	e->searching = searching;
	return e;
}

static struct entry *fail_missing(struct build *f)
{
	struct maker *m = f->maker;

	if (m->failed)
		return fail_by(f, &m->err);
	if (m->is_empty)
		return fail(f, FRAME_NO_SYMBOLS, "", f->s->opts.miss_ms);
	return fail_unknown(f, m->said_404 ? FRAME_UPSTREAM_404 : FRAME_UNKNOWN);
}

/* There is still nothing better. */
static struct entry *keep_old(struct build *f)
{
	atomic_store(&f->old->good_until_ms, clock_mono_ms() + f->s->opts.miss_ms);
	return entry_ref(f->old);
}

/* What is to be replaced can be used on. */
static bool has_old(const struct build *f)
{
	return f->old && f->old->reason == FRAME_FOUND && !atomic_load(&f->old->spoiled);
}

/* ---- layouts ---- */

static struct entry *make_layout(struct build *f)
{
	struct maker *m = f->maker;
	struct err err = { 0 };
	struct entry *e;
	int r = RESOLVE_MISSING;

	if (m->stage == AT_STORE)
		m->stage = AT_EXECUTABLE;
	if (m->stage == AT_EXECUTABLE) {
		r = fetch(f, &m->file, RESOLVE_EXECUTABLE, &f->key.id, &err);
		if (r == WAITS)
			return NULL;
		if (r)
			m->stage = AT_DEBUG;
	}
	if (m->stage == AT_DEBUG) {
		r = fetch(f, &m->file, RESOLVE_DEBUGINFO, &f->key.id, &err);
		if (r == WAITS)
			return NULL;
	}
	if (r)
		return r < 0               ? fail_by(f, &err)
		       : r == RESOLVE_BUSY ? fail(f, FRAME_NO_LAYOUT, "", 0)
					   : fail_unknown(f, FRAME_NO_LAYOUT);
	/* The table is the debug file's. */
	if (m->stage == AT_EXECUTABLE && elf_section_find(m->file.img, ".gnu.prelink_undo") &&
	    fetch(f, &m->alt, RESOLVE_DEBUGINFO, &f->key.id, &err) == WAITS)
		return NULL;
	e = entry_new(&f->key);
	e->layout = NEW(struct frame_layout);
	frame_layout_of(m->file.img, e->layout);
	if (m->alt.img)
		frame_layout_move_back(e->layout, frame_moved(m->file.img, m->alt.img));
	if (!e->layout->offsets_known) {
		e->lacking = true;
		atomic_store(&e->good_until_ms, clock_mono_ms() + f->s->opts.miss_ms);
	}
	e->weight += sizeof(*e->layout);
	return e;
}

/* ---- tables ---- */

static struct store_key store_key_of(const struct build *f)
{
	return (struct store_key){ f->key.id, STORE_SYMTAB, STR(VERSION_TEXT(SYMTAB_VERSION)) };
}

/* What would be better than this one, if it turned up. */
static void judge(struct build *f, struct entry *e, bool fresh)
{
	uint32_t flags = symtab_info(e->table)->flags;

	e->lacking = (flags & (SYMTAB_ALT_MISSING | SYMTAB_SPLIT_MISSING)) ||
		     !(flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO));
	if (e->lacking)
		atomic_store(&e->good_until_ms, clock_mono_ms() + (fresh ? f->s->opts.miss_ms : 0));
}

static void made_of(struct entry *e, struct str file, struct str archive)
{
	snprintf(e->origin, sizeof(e->origin), STR_FMT "%s" STR_FMT, STR_ARG(archive),
		 archive.size && file.size ? ": " : "", STR_ARG(file));
}

/* NULL: there is none, or it cannot be used. */
static struct entry *from_store(struct build *f)
{
	struct store_key key = store_key_of(f);
	struct store_meta meta;
	struct source *src;
	struct err err = { 0 };
	struct entry *e;

	if (!f->s->opts.store ||
	    store_open_object(f->s->opts.store, &key, &f->maker->arena, &meta, &src, &err) != 0)
		return NULL;
	e = entry_new(&f->key);
	made_of(e, meta.file, meta.archive);
	if (entry_take_source(e, src, &err) == 0) {
		if (!f->s->opts.discriminators || (symtab_info(e->table)->flags & SYMTAB_HAS_DISCRIMINATORS))
			return e;
		(void)err_set(&err, ERR_INVALID, "was made without discriminators");
	}
	log_debug("symbolize", "a table in the store: %s", err.text);
	entry_unref(e);
	return NULL;
}

void make_forget(struct tables *s, const struct build_id *id)
{
	struct store_key key = { *id, STORE_SYMTAB, STR(VERSION_TEXT(SYMTAB_VERSION)) };
	struct err err = { 0 };

	if (s->opts.store && store_remove(s->opts.store, &key, &err) < 0)
		log_warn("symbolize", "a table of another file is still in the store: %s", err.text);
}

/* That it cannot be kept is no failure: then it is in memory. */
static void into_store(struct build *f, struct bytes table, enum store_quality quality)
{
	const struct resolve_answer *a = &f->maker->file.answer;
	const struct store_meta meta = { .origin = STORE_MADE,
					 .quality = quality,
					 .mtime = a->mtime,
					 .file = a->file,
					 .archive = a->archive };
	struct store_key key = store_key_of(f);
	struct err err = { 0 };

	if (f->s->opts.store &&
	    store_put_bytes(f->s->opts.store, &key, &meta, true, table, STORE_ALWAYS, &err) < 0)
		log_debug("symbolize", "a table is not kept: %s", err.text);
}

static struct entry *built(struct build *f, struct buf *table)
{
	struct entry *e = entry_new(&f->key);
	struct err err = { 0 };
	uint32_t flags;

	if (entry_take_bytes(e, table, &err) < 0) {
		entry_unref(e);
		return fail_by(f, &err);
	}
	e->split = splits_take_state(f->maker->splits);
	flags = symtab_info(e->table)->flags;
	made_of(e, f->maker->file.answer.file, f->maker->file.answer.archive);
	into_store(f, buf_bytes(&e->made),
		   flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO) ? STORE_DWARF : STORE_SYMBOLS);
	atomic_fetch_add(&f->s->n_made, 1);
	/* Mapped it costs no memory of ours. */
	if (f->s->opts.store) {
		struct entry *mapped = from_store(f);

		if (mapped) {
			mapped->split = e->split;
			e->split = (struct split_state){ 0 };
			entry_unref(e);
			e = mapped;
		}
	}
	judge(f, e, true);
	return e;
}

/* Before all of it is read. */
static int make_cheap_to_read(struct build *f, struct fetched *t, struct err *err)
{
	uint64_t off;
	int fd;

	if (!t->img || source_raw_fd(t->src, &fd, &off))
		return 0;
	if (take_copy(f, t, err) < 0)
		return -1;
	return elf_open(t->src, &t->img, err) > 0 ? err_set(err, ERR_INVALID, "is no ELF file")
	       : t->img                           ? 0
						  : -1;
}

/* SYMTAB_NOTHING is told by *ret_nothing. NULL: it has to wait. */
static struct entry *convert(struct build *f, bool *ret_nothing)
{
	struct maker *m = f->maker;
	struct symtab_options o = { .temp_dir = f->s->temp_dir,
				    .n_threads = 1,
				    .cancel = &f->s->cancel,
				    .discriminators = f->s->opts.discriminators };
	AUTO(buf_done) struct buf table = { 0 };
	struct symtab_stats stats;
	uint64_t size = m->file.src->size;
	struct err err = { 0 };
	int r;

	if (!building_begin(f, size))
		return NULL;
	r = make_cheap_to_read(f, &m->file, &err) < 0 || make_cheap_to_read(f, &m->alt, &err) < 0 ? -1 : 0;
	o.alt = m->alt.img;
	o.split = splits_finder(m->splits);
	if (r == 0)
		r = symtab_build(m->file.img, &o, &table, &stats, &err);
	building_end(f->s, size);
	if (r == SYMTAB_NOTHING) {
		*ret_nothing = true;
		return NULL;
	}
	return r < 0 ? fail_by(f, &err) : built(f, &table);
}

/* 0, WAITS. Without it the table is made all the same. */
static int find_alt(struct build *f)
{
	struct maker *m = f->maker;
	struct build_id id = { 0 };
	struct err ignored = { 0 };
	struct str path;

	if (elf_alt_link(m->file.img, &m->arena, &path, &id, &ignored) != 0 || !id.size)
		return 0;
	return fetch(f, &m->alt, RESOLVE_DEBUGINFO, &id, &ignored) == WAITS ? WAITS : 0;
}

/* RESOLVE_MISSING: go on elsewhere. */
static int find_debug(struct build *f)
{
	struct maker *m = f->maker;
	struct err err = { 0 };
	int r = fetch(f, &m->file, RESOLVE_DEBUGINFO, &f->key.id, &err);

	if (r >= 0)
		return r;
	m->failed = true;
	m->err = err;
	return RESOLVE_MISSING;
}

/* Is a table of what was found worth more than the one that is there? */
static bool is_better(const struct build *f)
{
	const struct maker *m = f->maker;

	uint32_t flags = symtab_info(f->old->table)->flags;

	if ((flags & SYMTAB_ALT_MISSING) && m->alt.img)
		return true;
	if ((flags & SYMTAB_SPLIT_MISSING) && splits_are_better(m->splits, &f->old->split))
		return true;
	if (flags & (SYMTAB_ALT_MISSING | SYMTAB_SPLIT_MISSING))
		return false;
	return !m->from_executable && (elf_debug_section(m->file.img, ".debug_info") ||
				       elf_debug_section(m->file.img, ".debug_line"));
}

/* Steps of a table; each leaves the stage that comes next, or an end in *ret, or waits. */
enum { GOES_ON, ENDS };

static int at_store(struct build *f, struct entry **ret)
{
	f->maker->stage = AT_DEBUG;
	/* What is to be replaced may have come from there. */
	if (f->old && f->old->reason == FRAME_FOUND)
		return GOES_ON;
	*ret = from_store(f);
	if (!*ret)
		return GOES_ON;
	atomic_fetch_add(&f->s->n_from_store, 1);
	judge(f, *ret, false);
	return ENDS;
}

static int at_debug(struct build *f, struct entry **ret)
{
	struct maker *m = f->maker;
	int r = find_debug(f);

	if (r == WAITS)
		return ENDS;
	m->stage = r ? AT_EXECUTABLE : AT_ALT;
	if (r == RESOLVE_BUSY)
		*ret = fail(f, FRAME_BUSY, "", 0);
	else if (r && has_old(f))
		*ret = keep_old(f);
	return *ret ? ENDS : GOES_ON;
}

static int at_executable(struct build *f, struct entry **ret)
{
	struct maker *m = f->maker;
	struct err err = { 0 };
	int r = fetch(f, &m->file, RESOLVE_EXECUTABLE, &f->key.id, &err);

	if (r == WAITS)
		return ENDS;
	if (r)
		*ret = r < 0 && !m->failed ? fail_by(f, &err) : fail_missing(f);
	m->from_executable = true;
	m->stage = AT_ALT;
	return *ret ? ENDS : GOES_ON;
}

static int at_alt(struct build *f, struct entry **ret)
{
	struct maker *m = f->maker;

	if (find_alt(f) == WAITS)
		return ENDS;
	if (!m->splits)
		m->splits = splits_new(f->s, &f->key.id, m->file.img, &m->file.answer);
	if (has_old(f) && !is_better(f))
		*ret = keep_old(f);
	m->stage = AT_TABLE;
	return *ret ? ENDS : GOES_ON;
}

static int at_table(struct build *f, struct entry **ret)
{
	struct maker *m = f->maker;
	bool nothing = false;

	*ret = convert(f, &nothing);
	if (*ret || !nothing)
		return ENDS;
	if (m->from_executable) {
		*ret = fail(f, FRAME_NO_SYMBOLS, "", f->s->opts.miss_ms);
		return ENDS;
	}
	/* A debug file of nothing: the program may have symbols. */
	splits_free(TAKE(m->splits));
	fetched_done(&m->alt);
	fetched_done(&m->file);
	m->is_empty = true;
	m->stage = AT_EXECUTABLE;
	return GOES_ON;
}

static struct entry *make_table(struct build *f)
{
	static int (*const steps[])(struct build * f, struct entry * *ret) = {
		[AT_STORE] = at_store, [AT_DEBUG] = at_debug, [AT_EXECUTABLE] = at_executable,
		[AT_ALT] = at_alt,     [AT_TABLE] = at_table,
	};
	struct entry *e = NULL;

	while (steps[f->maker->stage](f, &e) == GOES_ON)
		;
	return e;
}

struct entry *make_step(struct build *f)
{
	bool waiting = waker_waits(&f->waker), closing, parked, again;
	struct entry *said;

	pthread_mutex_lock(&f->s->lock);
	closing = f->s->closing;
	said = TAKE(f->said);
	f->s->n_searches -= said != NULL;
	again = f->news == REPLACED || (f->news && (waiting || said));
	if (again) {
		f->news = NOTHING_NEW;
		f->parked = false;
	}
	parked = f->parked;
	pthread_mutex_unlock(&f->s->lock);
	entry_unref(said);
	if (closing)
		return fail(f, FRAME_PENDING, "", 0);
	/* Who waits, perhaps long, for what is elsewhere looks here once more. */
	if (again)
		make_drop(f);
	/* Woken too early: by nobody but a kick that was meant for the step before. */
	if (parked || waker_waits(&f->waker))
		return NULL;
	if (!f->maker) {
		f->maker = NEW(struct maker);
		arena_init(&f->maker->arena);
		f->maker->searching = resolve_unfinished(f->s->opts.resolver);
	}
	return f->key.kind == ENTRY_LAYOUT ? make_layout(f) : make_table(f);
}
