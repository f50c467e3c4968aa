/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a profile store, and its statistics. */
#include "base/background.h"
#include "profilestore/names_internal.h"
#include "profilestore/remake.h"
#include "profilestore/salvage.h"
#include "profilestore/sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SERIES_USUAL   100000u
#define SENDER_SHARE_USUAL 25u
#define MAX_METADATA_USUAL ((uint64_t)1 << 30)
#define MAX_METADATA_LEAST ((uint64_t)1 << 20)

#define CHECK_MAX MIB(512) /* a larger file is not checked when it is opened: that would take too long */

static int open_db(struct profilestore *s, struct err *err)
{
	unsigned n_corrected = 0;
	int r;

	if (db_open(s->path, &store_db_options, &s->db, err) < 0 ||
	    db_migrate(s->db, profilestore_migrations, profilestore_n_migrations, err) < 0)
		return -1;
	/* Damage is better known now than at the first query. */
	r = db_check(s->db, CHECK_MAX, &n_corrected, err);
	if (n_corrected)
		store_notice(s, LOG_ERROR,
			     "%u page%s of the database had one wrong byte each, which is corrected: nothing "
			     "is lost; check "
			     "the disk and the memory",
			     n_corrected, n_corrected == 1 ? "" : "s");
	return r;
}

/*
 * The clock goes on from the newest profile, or from the time that was reached without one. A time in the future, when
 * the clock was wrong, says nothing: nor does that of a profile which came long after the time that was last reached for
 * certain, even if the clock agrees with it. It may be wrong still, or again.
 */
static void open_clock(struct profilestore *s)
{
	int64_t now_ms = s->now_ms(), newest = INT64_MIN, latest = now_ms + PROFILESTORE_MAX_AHEAD_MS;
	bool any = false, known;

	s->clock_saved_ms = clock_saved_ms(s);
	known = s->clock_saved_ms >= 0 && s->clock_saved_ms <= latest;
	if (known)
		latest = MIN(latest, s->clock_saved_ms + CLOCK_SAVE_EVERY_MS + PROFILESTORE_MAX_AHEAD_MS);
	for (uint32_t i = 0; i < column_n(&s->series); i++) {
		const struct series *x = series_at(&s->series, i);
		int64_t last = x ? atomic_load(&x->last_ms) : INT64_MIN;

		any |= last != INT64_MIN;
		if (last <= latest)
			newest = MAX(newest, last);
	}
	/* The clock of a store without profiles is not doubted. */
	if (any && known)
		newest = MAX(newest, s->clock_saved_ms);
	age_clock_close(&s->clock);
	s->doubt_saved = true;
	s->steady_saved_ms = clock_steady_ms(s, now_ms);
	age_clock_open(&s->clock, now_ms, s->mono_ms(), newest, s->steady_saved_ms);
}

static struct profilestore *profilestore_new(const struct profilestore_options *o)
{
	struct profilestore *s = NEW(struct profilestore);

	s->dir = mem_strdup(o->dir);
	s->path = salvage_db_path(o->dir);
	s->max_age_ms = o->max_age_ms;
	s->max_size = o->max_size;
	s->max_series = o->max_series ? o->max_series : MAX_SERIES_USUAL;
	s->max_series_size = MAX((o->max_metadata ? o->max_metadata : MAX_METADATA_USUAL) / 4, MIB(64));
	s->now_ms = o->now_ms ? o->now_ms : clock_wall_ms;
	s->mono_ms = o->mono_ms ? o->mono_ms : o->now_ms ? o->now_ms : clock_mono_ms;
	s->notice = o->notice;
	s->notice_arg = o->notice_arg;
	age_clock_open(&s->clock, s->now_ms(), s->mono_ms(), INT64_MIN, 0);
	s->series.entry_size = sizeof(struct series *);
	s->next_series = 1;
	pthread_rwlock_init(&s->files.lock, NULL);
	s->remake_at_once = REMAKE_AT_ONCE;
	wal_init(&s->wal);
	damage_init(&s->damage);
	s->sweep = sweep_new();
	s->no_names = o->no_names;
	s->memory = o->memory;
	s->sender_share = o->sender_share ? MIN(o->sender_share, 100u) : SENDER_SHARE_USUAL;
	pthread_mutex_init(&s->readers_lock, NULL);
	pthread_mutex_init(&s->groom_lock, NULL);
	s->meta = NEW(struct meta);
	meta_init(s->meta, o->max_metadata ? MAX(o->max_metadata, MAX_METADATA_LEAST) : MAX_METADATA_USUAL);
	return s;
}

static int store_open(const struct profilestore_options *o, struct profilestore **ret, struct err *err)
{
	struct profilestore *s = profilestore_new(o);

	if (open_db(s, err) == 0 && profilestore_load(s, err) == 0 && names_open(s, s->db, err) == 0 &&
	    profilestore_writer_start(s, err) == 0) {
		open_clock(s);
		s->is_open = true;
		*ret = s;
		return 0;
	}
	profilestore_close(s);
	return -1;
}

/* ---- damage ---- */

static void tell(const struct profilestore_options *o, enum log_level level, const char *text)
{
	if (o->notice)
		o->notice(o->notice_arg, level, text);
}

/*
 * A file that marks a store that was opened before: if its database is missing, that is damage, and not a new
 * store.
 */
#define MARK_TEXT "profiles.db beside this file has profiles, or had some\n"

static int mark_begun(const char *mark, struct err *err)
{
	return access(mark, F_OK) == 0 ? 0
				       : file_write_durable(mark, MARK_TEXT, strlen(MARK_TEXT), 0640, err);
}

/* An empty file was not left by us, and SQLite would throw away its WAL. */
static int check_presence(const struct profilestore_options *o, const char *mark, int64_t now_ms,
			  struct err *err)
{
	AUTO(mem_freep) char *path = salvage_db_path(o->dir);
	AUTO(mem_freep) char *reason = NULL;
	struct stat st;
	bool there = stat(path, &st) == 0;

	/* A file that cannot be looked at is not missing. */
	if (!there && errno != ENOENT)
		return err_os(err, errno, "%s", path);
	if (there && st.st_size > 0)
		return 0;
	if (!there && access(mark, F_OK) != 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", mark);
	reason = mem_printf("%s is %s: all profiles stored until now are gone, unless a backup has them; the "
			    "store begins "
			    "anew, and the remains are set aside",
			    path, there ? "empty" : "missing");
	tell(o, LOG_ERROR, reason);
	return salvage_set_aside(o->dir, now_ms, reason, err);
}

/*
 * The WAL that a crash has left. ERR_DAMAGED in @why: committed profiles are in it that SQLite would not read; the repair
 * reads them. *ret_is_short: frames are missing, and nothing tells their profiles.
 */
static int check_wal(const struct profilestore_options *o, int64_t now_ms, bool *ret_is_short,
		     struct err *why, struct err *err)
{
	AUTO(mem_freep) char *path = salvage_db_path(o->dir);
	AUTO(mem_freep) char *aside = salvage_aside_name(o->dir, now_ms);
	AUTO(mem_freep) char *copy = mem_printf("%s-wal", aside);
	AUTO(mem_freep) char *text = NULL;
	struct db_wal_damage x;
	int r = db_wal_mend(path, copy, &x, err);

	*ret_is_short = r == DB_WAL_DAMAGED && x.n_there < x.n_committed;
	if (r == DB_WAL_DAMAGED)
		return err_set(why, ERR_DAMAGED,
			       "frame %llu of %llu of profiles.db-wal is damaged or missing",
			       (unsigned long long)x.frame, (unsigned long long)x.n_committed);
	if (r != DB_WAL_UNSURE && r != DB_WAL_COPIED)
		return r;
	if (r == DB_WAL_COPIED)
		text = mem_printf(
			"frame %llu of profiles.db-wal is damaged or missing, but the database has all of "
			"it: nothing is lost; the file is kept as %s; check the disk",
			(unsigned long long)x.frame, copy);
	else
		text = mem_printf(
			"the last transaction in profiles.db-wal is incomplete (frame %llu of %llu): a "
			"power cut ended it "
			"before it was acknowledged, or it is damaged, and the profiles in it are lost; "
			"the file is kept "
			"as %s",
			(unsigned long long)x.frame, (unsigned long long)x.n_committed, copy);
	tell(o, LOG_WARN, text);
	salvage_note_reason(aside, text);
	return 0;
}

static int repair(const struct profilestore_options *o, int64_t now_ms, const struct err *why, bool lost_more,
		  struct salvage_result *ret, struct err *err)
{
	AUTO(mem_freep) char *text = NULL;

	text = mem_printf("the database is damaged (%s): it is set aside, and what is sound is copied",
			  why->text);
	tell(o, LOG_ERROR, text);
	if (salvage_repair(o->dir, &store_db_options, now_ms, why->text, lost_more, ret, err) < 0)
		return -1;
	free(text);
	text = mem_printf(
		"repaired: %llu profiles are kept, %llu are lost, %llu names or places in stacks are lost",
		(unsigned long long)ret->n_profiles, (unsigned long long)ret->n_lost,
		(unsigned long long)ret->n_filled);
	tell(o, LOG_WARN, text);
	return 0;
}

int profilestore_open(const struct profilestore_options *o, struct profilestore **ret, struct err *err)
{
	AUTO(mem_freep) char *mark = mem_printf("%s/begun", o->dir);
	int64_t now_ms = o->now_ms ? o->now_ms() : clock_wall_ms();
	struct err why = { 0 }, local = { 0 };
	struct salvage_result repaired = { 0 };
	bool lost_more = false;
	int r;

	err = err ? err : &local;
	r = dir_make(o->dir, 0750, err);
	if (r == 0)
		remake_clean(o->dir);
	if (r == 0)
		r = check_presence(o, mark, now_ms, err);
	if (r == 0)
		r = check_wal(o, now_ms, &lost_more, &why, err);
	if (r == 0)
		r = store_open(o, ret, &why);
	if (r < 0 && why.kind == ERR_DAMAGED) {
		/* If the copy cannot be opened either, the store begins anew. */
		r = repair(o, now_ms, &why, lost_more, &repaired, err);
		if (r == 0)
			r = store_open(o, ret, err);
		if (r == 0)
			damage_note_repair(*ret, repaired.lost, repaired.n_listed, repaired.n_lost);
		if (r < 0 && err->kind == ERR_DAMAGED) {
			AUTO(mem_freep)
			char *text = mem_printf("the database cannot be repaired (%s): the store begins anew",
						err->text);

			tell(o, LOG_ERROR, text);
			r = salvage_set_aside(o->dir, now_ms, err->text, err);
			if (r == 0)
				r = store_open(o, ret, err);
		}
	} else if (r < 0 && why.kind != ERR_NONE) {
		*err = why;
	}
	free(repaired.lost);
	if (r < 0)
		return err_in(err, "profiles in %s", o->dir);
	/* With a full disk it is tried again at the next start. */
	(void)mark_begun(mark, NULL);
	return 0;
}

void profilestore_close(struct profilestore *s)
{
	if (!s)
		return;
	background_stop(s->check);
	if (s->is_open)
		clock_save(s, true);
	profilestore_writer_stop(s);
	remake_free(s);
	sweep_free(s);
	names_close(s);
	epoch_release(s);
	while (s->n_readers)
		store_disconnect(s, s->readers[--s->n_readers]);
	store_disconnect(s, s->copier);
	db_close(s->db);
	for (uint32_t i = 0; i < column_n(&s->series); i++)
		series_free(series_at(&s->series, i));
	column_done(&s->series);
	map_done(&s->series_by_key);
	senders_done(s);
	free(s->unsaved_series.v);
	free(s->free_series.v);
	buf_done(&s->segments.names);
	meta_done(s->meta);
	free(s->meta);
	free(s->retired.v);
	age_clock_close(&s->clock);
	wal_done(&s->wal);
	damage_done(&s->damage);
	pthread_rwlock_destroy(&s->files.lock);
	pthread_mutex_destroy(&s->groom_lock);
	pthread_mutex_destroy(&s->readers_lock);
	free(s->path);
	free(s->dir);
	free(s);
}

void store_notice(struct profilestore *s, enum log_level level, const char *fmt, ...)
{
	char text[ERR_TEXT_SIZE];
	va_list ap;

	if (!s->notice)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->notice(s->notice_arg, level, text);
}

void profilestore_stats(struct profilestore *s, struct profilestore_stats *ret)
{
	struct reader rd;
	struct salvage_list aside;
	struct series_span span;
	const struct meta *m;

	reader_hold(s, &rd);
	span = series_span(s);
	m = rd.meta;
	*ret = (struct profilestore_stats){
		.n_profiles = atomic_load(&s->n_profiles),
		.n_samples = atomic_load(&s->n_samples),
		.n_series = atomic_load(&s->n_series),
		.n_locations = column_n(&m->locations),
		.n_unnamed = names_n_unnamed(s),
		.n_stacks = column_n(&m->stacks) - 1 - m->holes.n,
		.n_functions = column_n(&m->functions) - 1,
		.n_strings = column_n(&m->strings),
		.n_binaries = column_n(&m->binaries) - 1,
		.data_size = db_files_size(s->path),
		.metadata_size = atomic_load(&m->memory),
		.n_added = atomic_load(&s->n_added),
		.n_duplicates = atomic_load(&s->n_duplicates),
		.n_refused = atomic_load(&s->n_refused),
		.n_labels_mended = atomic_load(&s->n_labels_mended),
		.n_labels_dropped = atomic_load(&s->n_labels_dropped),
		.n_expired = atomic_load(&s->n_expired),
		.n_sweeps = atomic_load(&s->n_sweeps),
		.oldest_ms = span.first_ms == INT64_MAX ? 0 : span.first_ms,
		.latest_ms = MAX(span.last_ms, INT64_C(0)),
	};
	reader_end(&rd);
	damage_stats(s, ret);
	salvage_listed(s->dir, &aside);
	ret->n_set_aside = aside.n;
	memcpy(ret->set_aside_why, aside.reason, sizeof(ret->set_aside_why));
}

uint64_t profilestore_n_namings(struct profilestore *s)
{
	return atomic_load(&s->names->n_namings);
}

bool profilestore_is_damaged(struct profilestore *s)
{
	return atomic_load(&s->damage.n_pages_mended) || atomic_load(&s->damage.kept);
}

unsigned profilestore_n_set_aside(struct profilestore *s)
{
	struct salvage_list aside;

	salvage_listed(s->dir, &aside);
	return aside.n;
}
