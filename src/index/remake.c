/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged index in use: it is set aside, and a new one begins at its path, while other threads go on to read.
 *
 * All connections of this process to one path share a `struct index_place`. A connection that meets a damaged page notes
 * it there. The one thread that writes calls index_remake(). The other connections see that the index was made anew
 * before their next statement, and open it again. Their old database stays open until they are closed, since another
 * thread may be reading its mark; and nobody may close it in a way that touches the files of the new one, which have
 * the same names (db_abandon()).
 */
#include "index/internal.h"

#include <assert.h>
#include <stdlib.h>

static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static struct index_place *places; /* under the lock */
/* Held while files are opened by name, and for writing while they are renamed. */
static pthread_rwlock_t files_lock = PTHREAD_RWLOCK_INITIALIZER;

struct index_place *index_place_ref(const char *path)
{
	struct index_place *x;

	pthread_mutex_lock(&places_lock);
	for (x = places; x && strcmp(x->path, path) != 0;)
		x = x->next;
	if (!x) {
		x = NEW(struct index_place);
		x->path = mem_strdup(path);
		x->next = places;
		places = x;
	}
	x->n_refs++;
	pthread_mutex_unlock(&places_lock);
	return x;
}

void index_place_unref(struct index_place *x)
{
	struct index_place **at;

	if (!x)
		return;
	pthread_mutex_lock(&places_lock);
	if (--x->n_refs) {
		x = NULL;
	} else {
		for (at = &places; *at != x;)
			at = &(*at)->next;
		*at = x->next;
	}
	pthread_mutex_unlock(&places_lock);
	if (x)
		free(x->path);
	free(x);
}

/* From db, on any thread, within a call. */
static void note_damage(void *arg)
{
	struct index_place *x = arg;

	if (atomic_exchange(&x->damaged, true))
		return;
	pthread_mutex_lock(&places_lock);
	if (x->notify)
		x->notify(x->notify_arg);
	pthread_mutex_unlock(&places_lock);
}

void index_on_damage(struct index *ix, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&places_lock);
	ix->place->notify = fn;
	ix->place->notify_arg = arg;
	pthread_mutex_unlock(&places_lock);
}

bool index_is_damaged(const struct index *ix)
{
	return atomic_load_explicit(&ix->place->damaged, memory_order_relaxed);
}

static int open_at_place(struct index_place *x, bool read_only, struct db **ret, struct err *err)
{
	struct db_options o = {
		.read_only = read_only, .create = !read_only, .damaged = note_damage, .damaged_arg = x
	};
	struct db *db = NULL;

	if (db_open(x->path, &o, &db, err) < 0)
		return -1;
	if (db_migrate(db, index_migrations, index_n_migrations, err) < 0) {
		db_close(db);
		return -1;
	}
	*ret = db;
	return 0;
}

/* The database that is there now, and which one it is. */
static int open_newest(struct index *ix, struct db **ret, uint32_t *ret_made, struct err *err)
{
	int r;

	pthread_rwlock_rdlock(&files_lock);
	*ret_made = atomic_load(&ix->place->made);
	r = open_at_place(ix->place, ix->read_only, ret, err);
	pthread_rwlock_unlock(&files_lock);
	return r;
}

int index_connect(struct index *ix, struct err *err)
{
	struct db *db;
	uint32_t made;

	if (open_newest(ix, &db, &made, err) < 0)
		return -1;
	ix->db = db;
	atomic_store(&ix->made, made);
	return 0;
}

/* The old database is closed with the connection. */
static void remake_take_over(struct index *ix, struct db *db, uint32_t made)
{
	assert(ix->n_old < ARRAY_SIZE(ix->old));
	db_abandon(ix->db);
	ix->old[ix->n_old++] = ix->db;
	ix->db = db;
	ix->stats_known = false;
	atomic_store(&ix->made, made);
}

int index_prepare(struct index *ix, const char *sql, struct db_stmt **ret, struct err *err)
{
	struct db *db;

	if (atomic_load(&ix->made) != atomic_load(&ix->place->made) && !ix->open) {
		uint32_t made;

		if (open_newest(ix, &db, &made, err) < 0)
			return -1;
		remake_take_over(ix, db, made);
	}
	return db_prepare(ix->db, sql, ret, err);
}

int index_remake(struct index *ix, char **ret_aside, struct err *err)
{
	struct index_place *x = ix->place;
	AUTO(mem_freep) char *aside = mem_printf("%s.damaged.%lld", x->path, (long long)clock_wall_s());
	struct db *db = NULL;
	int r;

	assert(!ix->open);
	/* The next damage calls again. */
	atomic_store(&x->damaged, false);
	if (atomic_load(&x->made) == INDEX_REMAKES_MAX)
		return err_set(err, ERR_LIMIT, "it was made anew %u times since the start",
			       INDEX_REMAKES_MAX);
	pthread_rwlock_wrlock(&files_lock);
	db_abandon(ix->db);
	r = db_files_move(x->path, aside, false, err);
	if (r == 0)
		r = open_at_place(x, false, &db, err);
	if (r == 0) {
		uint32_t made = atomic_load(&x->made) + 1;

		/* Before anyone can miss a row in the new one: an answer whose epoch has changed is looked up again. */
		index_all_gone();
		remake_take_over(ix, db, made);
		atomic_store(&x->damaged, false);
		atomic_store(&x->made, made);
	}
	pthread_rwlock_unlock(&files_lock);
	if (r < 0)
		return -1;
	index_all_gone();
	(void)dir_sync_of(x->path, NULL);
	*ret_aside = TAKE(aside);
	return 0;
}
