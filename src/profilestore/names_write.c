/* SPDX-License-Identifier: Apache-2.0 */
/* Names and outcomes on their way to disk and then into the locations: one job of the writer. */
#include "profilestore/names_internal.h"

#include "base/vec.h"

struct naming_job {
	struct job job;
	const struct profilestore_name *names;
	size_t n;
	const struct profilestore_tried *tried;
	size_t n_tried;
	uint64_t *words; /* struct meta_names of each name */
};

/* ---- lines ---- */

static bool intern_line(struct meta *m, const struct profilestore_name_line *l, struct meta_line *ret)
{
	struct meta_function f = { meta_string(m, l->name), meta_string(m, l->system_name),
				   meta_string(m, l->file), meta_line_number(l->start_line) };

	if (f.name == META_FAILED || f.system_name == META_FAILED || f.file == META_FAILED)
		return false;
	*ret = (struct meta_line){ meta_function(m, &f), meta_line_number(l->line),
				   meta_line_number(l->column) };
	return ret->function != META_FAILED;
}

/* Another table mostly gives the same names. */
static bool same_lines(const struct meta *m, struct meta_names n, const struct meta_line *lines,
		       size_t n_lines)
{
	if (n.n_lines != n_lines)
		return false;
	for (size_t i = 0; i < n_lines; i++) {
		const struct meta_line l = meta_line_at(m, n.first_line + (uint32_t)i);

		if (l.function != lines[i].function || l.line != lines[i].line || l.column != lines[i].column)
			return false;
	}
	return true;
}

/*
 * *last: the lines of the name before. Names come by address, so many have the same lines, and share them: all
 * of a function that has a symbol only.
 */
static int intern_name_lines(struct meta *m, const struct profilestore_name *name, struct meta_names *last,
			     struct meta_names *ret, struct err *err)
{
	struct meta_line lines[NAMES_MAX_LINES];
	uint32_t n = MIN(name->n_lines, NAMES_MAX_LINES), first;

	ret->reason = (uint8_t)name->reason;
	/* A location keeps the name that it has. */
	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (!intern_line(m, &name->lines[i], &lines[i]))
			return meta_err_limit(m, err);
	if (same_lines(m, *ret, lines, n))
		return 0;
	if (!same_lines(m, *last, lines, n)) {
		first = meta_lines(m, lines, n);
		if (first == META_FAILED)
			return meta_err_limit(m, err);
		last->first_line = first;
		last->n_lines = (uint16_t)n;
	}
	ret->first_line = last->first_line;
	ret->n_lines = last->n_lines;
	return 0;
}

static struct named_binary *tracked_of(struct profilestore *s, uint32_t location)
{
	const struct meta_location l = meta_location_at(s->meta, location);

	return names_binary(s, s->meta, meta_binary_of(s->meta, &l));
}

/* ---- rows ---- */

/* The new row. Strings are owned by the try, or do not change while it is written. */
static struct profilestore_tried binary_row_of(struct profilestore *s, const struct named_binary *t,
					       const struct profilestore_tried *tried, int64_t *ret_last_ms)
{
	struct profilestore_tried row = { .binary = t->binary, .origin = str_of(t->origin) };

	if (tried) {
		row = *tried;
		row.origin = tried->origin.size ? tried->origin : str_of(t->origin);
		*ret_last_ms = tried->at_ms;
		if (!tried->is_look)
			return row;
	}
	pthread_mutex_lock(&s->names->lock);
	if (!tried) {
		row.state = t->state;
		row.reason = t->reason;
		row.why = str_of(t->why);
	}
	row.n_tries = tried && row.state == NAMING_DONE ? 0 : t->n_tries;
	row.next_try_ms = t->next_try_ms;
	*ret_last_ms = t->last_try_ms;
	pthread_mutex_unlock(&s->names->lock);
	return row;
}

int names_write_binary(struct profilestore *s, const struct named_binary *t, int64_t key,
		       const struct profilestore_tried *tried, struct err *err)
{
	int64_t last_ms;
	struct profilestore_tried row = binary_row_of(s, t, tried, &last_ms);
	struct db_stmt *st;

	if (db_prepare(s->db, "INSERT OR REPLACE INTO naming VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", &st,
		       err) < 0)
		return -1;
	db_bind_i64(st, 1, key);
	db_bind_i64(st, 2, (int)row.state);
	db_bind_i64(st, 3, row.reason);
	db_bind_bytes(st, 4, bytes_of(row.why.p, row.why.size));
	db_bind_bytes(st, 5, bytes_of(row.origin.p, row.origin.size));
	db_bind_bytes(st, 6, bytes_of(t->named_by, str_of(t->named_by).size));
	db_bind_i64(st, 7, t->generation);
	db_bind_i64(st, 8, row.n_tries);
	db_bind_i64(st, 9, last_ms);
	db_bind_i64(st, 10, row.next_try_ms);
	return db_step(st, err);
}

static int write_binary_row(struct profilestore *s, const struct named_binary *t,
			    const struct profilestore_tried *tried, struct err *err)
{
	return names_write_binary(
		s, t, generation_keys(s->meta->generation, NAMING_KEY_BITS).from + t->binary, tried, err);
}

/* A name of before a sweep: the location has another number now, if it is still there, and is still wanted. */
static bool name_is_stale(const struct profilestore *s, const struct profilestore_name *name)
{
	return name->location >> 32 != s->meta->generation;
}

static uint32_t named_location_of(const struct profilestore_name *name)
{
	return (uint32_t)name->location;
}

static int write_binary_rows(struct profilestore *s, const struct naming_job *j, struct err *err)
{
	const struct named_binary *last = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < j->n; i++) {
		const struct named_binary *t;

		if (name_is_stale(s, &j->names[i]))
			continue;
		t = tracked_of(s, named_location_of(&j->names[i]));
		/* Names without the generation of their table would only be looked up again. */
		if (t != last && t->unsaved)
			r = write_binary_row(s, t, NULL, err);
		last = t;
	}
	for (size_t i = 0; r == 0 && i < j->n_tried; i++) {
		const struct named_binary *t = names_of_id(s, j->tried[i].binary);

		if (t)
			r = write_binary_row(s, t, &j->tried[i], err);
	}
	return r;
}

/* ---- the job ---- */

static int names_apply(struct profilestore *s, struct job *job, struct err *err)
{
	struct naming_job *j = CONTAINER_OF(job, struct naming_job, job);
	struct meta_names last = { 0 };

	for (size_t i = 0; i < j->n; i++) {
		struct meta_names n;

		if (name_is_stale(s, &j->names[i]))
			continue;
		n = location_names(s->meta, named_location_of(&j->names[i]));
		if (intern_name_lines(s->meta, &j->names[i], &last, &n, err) < 0)
			return JOB_REFUSED;
		n.generation = tracked_of(s, named_location_of(&j->names[i]))->generation;
		j->words[i] = meta_names_word(n);
	}
	for (size_t i = 0; i < j->n; i++)
		if (!name_is_stale(s, &j->names[i]))
			segment_add_names(&s->segments, named_location_of(&j->names[i]),
					  meta_names_of(j->words[i]), j->names[i].elf_addr);
	return write_binary_rows(s, j, err);
}

static void publish_names(struct profilestore *s, const struct profilestore_name *name, uint64_t word)
{
	struct meta_names was = location_names(s->meta, named_location_of(name)), is = meta_names_of(word);
	struct named_binary *t = tracked_of(s, named_location_of(name));

	t->n_bare_named += !packed_location_at(s->meta, named_location_of(name))->n_lines && !was.n_lines &&
			   is.n_lines;
	t->unsaved = false;
	meta_set_names(s->meta, named_location_of(name), word, name->elf_addr);
	if (s->names->renamed.on)
		VEC_PUSH(s->names->renamed.v, s->names->renamed.n,
			 s->names->renamed.room) = named_location_of(name);
}

static void names_written(struct profilestore *s, struct job *job, const struct err *err)
{
	struct naming_job *j = CONTAINER_OF(job, struct naming_job, job);
	struct named_binary *last = NULL;

	if (err)
		return;
	pthread_mutex_lock(&s->names->lock);
	for (size_t i = 0; i < j->n; i++) {
		if (name_is_stale(s, &j->names[i]))
			continue;
		publish_names(s, &j->names[i], j->words[i]);
		if (last && last != tracked_of(s, named_location_of(&j->names[i])))
			wanted_shorten(s, last);
		last = tracked_of(s, named_location_of(&j->names[i]));
	}
	if (last)
		wanted_shorten(s, last);
	for (size_t i = 0; i < j->n_tried; i++) {
		struct named_binary *t = names_of_id(s, j->tried[i].binary);

		if (!t)
			continue;
		t->unsaved = false;
		names_tried(s->names, t, &j->tried[i]);
	}
	atomic_fetch_add(&s->names->n_namings, 1);
	pthread_mutex_unlock(&s->names->lock);
}

int profilestore_name(struct profilestore *s, const struct profilestore_name *names, size_t n,
		      const struct profilestore_tried *tried, size_t n_tried, struct err *err)
{
	AUTO(mem_freep) uint64_t *words = NEW_N(uint64_t, n + 1);
	struct naming_job j = { .job = { .apply = names_apply, .done = names_written },
				.names = names,
				.n = n,
				.tried = tried,
				.n_tried = n_tried,
				.words = words };

	return profilestore_writer_run(s, &j.job, err);
}
