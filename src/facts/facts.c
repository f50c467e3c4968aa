/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in the bucket, listings, and the beginning and the end.
 */
#include "facts/internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include "base/condition.h"

#define SNAPSHOTS_MAX 10000u /* that are listed; nodes keep a few */

int facts_new(const struct facts_options *opts, struct facts **ret, struct err *err)
{
	struct facts *f = NEW(struct facts);
	size_t n = strlen(opts->store);

	pthread_mutex_init(&f->lock, NULL);
	condition_init(&f->changed);
	f->store = mem_printf("%s%s", opts->store, n && opts->store[n - 1] == '/' ? "" : "/");
	f->index_path = mem_strdup(opts->index_path);
	f->points_dir = opts->points_dir ? mem_strdup(opts->points_dir) : NULL;
	f->temp_dir = mem_strdup(opts->temp_dir);
	f->roots = opts->roots;
	f->n_roots = opts->n_roots;
	f->room = opts->room;
	if (s3_name_parse(str_of(f->store), &f->place, err) < 0 || s3_shared(&f->s3, err) < 0 ||
	    sha256_load(err) < 0) {
		facts_free(f);
		return -1;
	}
	*ret = f;
	return 0;
}

void facts_free(struct facts *f)
{
	if (!f)
		return;
	facts_stop(f);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f->store);
	free(f->index_path);
	free(f->points_dir);
	free(f->temp_dir);
	free(f);
}

const char *facts_store(const struct facts *f)
{
	return f->store;
}

struct s3_name facts_name(const struct facts *f, char **key, const char *fmt, ...)
{
	struct buf b = { 0 };
	va_list ap;

	buf_add_str(&b, f->place.key);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	(void)buf_cstr(&b);
	*key = (char *)b.p;
	return (struct s3_name){ f->place.bucket, { *key, b.size } };
}

struct listing {
	const struct facts *f;
	struct snapshot *list;
	size_t n, room;
};

/* "<prefix>index/<id>.manifest" */
static int note_manifest(void *arg, const struct s3_listed *o, struct err *err)
{
	struct listing *l = arg;
	struct str name = o->key;
	uint8_t raw[SNAPSHOT_NAME / 2];
	size_t n;

	name.p += l->f->place.key.size + strlen("index/");
	name.size -= l->f->place.key.size + strlen("index/");
	if (!str_ends(name, STR(MANIFEST_END)))
		return 0;
	name.size -= strlen(MANIFEST_END);
	if (name.size != SNAPSHOT_NAME - 1 || !hex_decode(name, false, raw, sizeof(raw), &n) ||
	    l->n == SNAPSHOTS_MAX)
		return 0;
	VEC_GROW(l->list, l->n, l->room);
	memcpy(l->list[l->n].name, name.p, name.size);
	l->list[l->n].name[name.size] = '\0';
	l->list[l->n++].time_s = o->info.mtime;
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	return strcmp(((const struct snapshot *)b)->name, ((const struct snapshot *)a)->name);
}

int facts_list(struct facts *f, struct snapshot **ret, size_t *ret_n, struct err *err)
{
	AUTO(mem_freep) char *prefix = NULL;
	struct listing l = { .f = f };
	struct s3_name name = facts_name(f, &prefix, "index/");

	if (s3_list(f->s3,
		    &(struct s3_listing){
			    .bucket = name.bucket, .prefix = name.key, .fn = note_manifest, .arg = &l },
		    err) < 0) {
		free(l.list);
		return -1;
	}
	if (l.n)
		qsort(l.list, l.n, sizeof(*l.list), newest_first);
	*ret = l.list;
	*ret_n = l.n;
	return 0;
}

int facts_manifest(struct facts *f, const char *name, struct manifest *ret, struct err *err)
{
	AUTO(mem_freep) char *key = NULL;
	AUTO(buf_done) struct buf text = { 0 };
	int r = s3_get(f->s3, facts_name(f, &key, "index/%s" MANIFEST_END, name), MANIFEST_MAX, &text, NULL,
		       err);

	return r ? r : manifest_read(buf_bytes(&text), ret, err);
}
