/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver over the store: an object is the answer, or contains it.
 */
#include "resolve/internal.h"

#include <stdlib.h>

#define TARS_CACHE    MIB(32)
#define MAX_NAME      4096
#define TAIL_BLOCK    KIB(64)
#define N_TAIL_BLOCKS 4

struct resolver_store {
	struct resolver resolver;
	struct store *st; /* borrowed */
	struct lru *tars;
};

/* One request. */
struct store_request {
	struct resolver_store *r;
	const struct resolve_request *req;
	struct arena *a;
	struct resolve_why *why;
	struct store_meta meta; /* of the object opened last */
};

static struct resolver_store *store_resolver_of(struct resolver *base)
{
	return CONTAINER_OF(base, struct resolver_store, resolver);
}

static int store_missing(struct store_request *k, const char *what)
{
	resolve_why_add(k->why, STR("store"), "%s", what);
	return RESOLVE_MISSING;
}

/* RESOLVE_MISSING (noted). */
static int answer_object(struct store_request *k, enum store_kind kind, struct str arg,
			 struct resolve_answer *ret, struct err *err)
{
	const struct store_key key = { k->req->id, kind, arg };
	struct resolve_request asked = *k->req;
	struct resolve_answer ans = { 0 };
	int r = store_open_object(k->r->st, &key, k->a, &k->meta, &ans.source, err);

	if (r < 0)
		return -1;
	if (r)
		return store_missing(k,
				     arena_printf(k->a, "has no %s of that build ID", store_kind_name(kind)));
	asked.arg = arg;
	ans.file = k->meta.file;
	ans.archive = k->meta.archive;
	ans.mtime = k->meta.mtime ? k->meta.mtime : k->meta.created;
	ans.origin = RESOLVE_STORED;
	memcpy(&ans.bytes_tag, k->meta.sha256, sizeof(ans.bytes_tag));
	ans.tag = k->meta.origin == STORE_FETCHED ? fetched_tag(&asked, k->meta.size, k->meta.mtime)
						  : ans.bytes_tag;
	ans.plain = k->meta.raw;
	*ret = ans;
	return 0;
}

/* A program that was never stripped is its own debug file. */
static int find_unstripped(struct store_request *k, struct resolve_answer *ret, struct err *err)
{
	int r = answer_object(k, STORE_EXECUTABLE, STR(""), ret, err);

	if (r || k->meta.quality == STORE_DWARF)
		return r;
	answer_drop(ret);
	return store_missing(k, "has the executable, but that is stripped");
}

/*
 * The second object is asked for also when the first one failed: of a bucket that is away the program may be in the cache,
 * and it is right whether or not there is a debug file beside it. Else the first failure is the outcome.
 */
static int find_debuginfo(struct store_request *k, struct resolve_answer *ret, struct err *err)
{
	int r = answer_object(k, STORE_DEBUGINFO, STR(""), ret, err), second;
	struct err ignored;

	if (r == 0 && (k->meta.quality == STORE_DYNSYM) != k->req->dynsym) {
		answer_drop(ret);
		r = store_missing(k, "has a file with dynamic symbols alone");
	}
	if (r == 0 || k->req->dynsym)
		return r;
	second = find_unstripped(k, ret, r < 0 ? &ignored : err);
	return r < 0 && second ? r : second;
}

static int find_executable(struct store_request *k, struct resolve_answer *ret, struct err *err)
{
	return answer_object(k, STORE_EXECUTABLE, STR(""), ret, err);
}

struct file_part {
	struct byte_range range;
	int64_t mtime;
};

/* *ret is @part of @ans. Takes ans->source. */
static int answer_part(struct store_request *k, struct resolve_answer *ans, const struct file_part *part,
		       struct resolve_answer *ret, struct err *err)
{
	struct str name = k->req->arg;
	char *part_name = arena_printf(k->a, "%s: " STR_FMT, ans->source->name, STR_ARG(name));
	struct source *src = NULL;

	if (source_open_part(TAKE(ans->source), true, part->range, part_name, &src, err) < 0)
		return -1;
	src->mtime = part->mtime;
	*ret = *ans;
	ret->source = src;
	ret->mtime = part->mtime;
	ret->tag = hash64(name.p, name.size, ans->tag);
	ret->bytes_tag = hash64(name.p, name.size, ans->bytes_tag);
	return 0;
}

/* ---- sections ---- */

static int store_section_place(struct store_request *k, struct source *src, const char *name,
			       struct file_part *ret, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct elf_section *sec;
	int r = elf_open(src, &img, err);

	if (r < 0)
		return -1;
	if (r)
		return elf_foreign_source_err(src, err);
	if (img->sections_err.kind != ERR_NONE) {
		*err = img->sections_err;
		return -1;
	}
	sec = elf_section_find(img, name);
	if (!sec)
		return store_missing(k, "has the file, but that has no such section");
	r = elf_section_range(img, sec, &ret->range.off, &ret->range.size, err);
	return r > 0 ? store_missing(k, "has the file, but that section is empty or has no bytes in it") : r;
}

static int find_section_in(struct store_request *k, enum store_kind kind, const char *name,
			   struct resolve_answer *ret, struct err *err)
{
	struct resolve_answer ans;
	struct source *tables;
	struct file_part part = { 0 };
	int r = answer_object(k, kind, STR(""), &ans, err);

	if (r)
		return r;
	tables = source_cached(ans.source, false, TAIL_BLOCK, N_TAIL_BLOCKS);
	r = store_section_place(k, tables, name, &part, err);
	source_close(tables);
	if (r) {
		answer_drop(&ans);
		return r < 0 ? err_in(err, "store: %s", store_kind_name(kind)) : r;
	}
	part.mtime = ans.mtime;
	return answer_part(k, &ans, &part, ret, err);
}

static int find_section(struct store_request *k, struct resolve_answer *ret, struct err *err)
{
	struct str arg = k->req->arg;
	const char *name;
	struct err ignored;
	int r, second = 0;

	if (!arg.size || arg.size > MAX_NAME || memchr(arg.p, '\0', arg.size))
		return store_missing(k, "not a section name");
	name = arena_strdup(k->a, arg);
	r = find_section_in(k, STORE_DEBUGINFO, name, ret, err);
	if (r)
		second = find_section_in(k, STORE_EXECUTABLE, name, ret, r < 0 ? &ignored : err);
	/* As find_debuginfo(). */
	r = r < 0 && second ? r : second;
	/* A section fetched by itself, from another server. */
	if (r == RESOLVE_MISSING)
		r = answer_object(k, STORE_SECTION, arg, ret, err);
	return r;
}

/* ---- sources ---- */

static int find_in_tar(struct store_request *k, struct str path, struct resolve_answer *ret, struct err *err)
{
	struct resolve_answer ans;
	struct lru_ref *held;
	struct file_part part = { 0 };
	bool found;
	int r = answer_object(k, STORE_SOURCES, STR(""), &ans, err);

	if (r)
		return r;
	if (sources_tar_get(k->r->tars, bytes_of(k->meta.sha256, STORE_SHA256_SIZE), ans.source, &held, err) <
	    0) {
		answer_drop(&ans);
		return err_in(err, "store");
	}
	found = sources_tar_find(held, path, &part.range.off, &part.range.size, &part.mtime);
	lru_unref(k->r->tars, held);
	if (!found) {
		answer_drop(&ans);
		return store_missing(k, "has sources of that build ID, but not this one");
	}
	ans.archive = ans.file;
	ans.file = str_of(arena_printf(k->a, "/" STR_FMT, STR_ARG(path)));
	return answer_part(k, &ans, &part, ret, err);
}

static int find_source(struct store_request *k, struct resolve_answer *ret, struct err *err)
{
	struct str arg = k->req->arg, path;
	char *canonical;
	int r;

	if (!arg.size || arg.size > STORE_MAX_ARG || memchr(arg.p, '\0', arg.size))
		return store_missing(k, "not a path");
	canonical = arena_alloc(k->a, arg.size + 2);
	path = (struct str){ canonical, path_rooted(arg, canonical) };
	/* Fetched sources have their canonical path as name; those of older versions have that of the request. */
	r = answer_object(k, STORE_SOURCE, arg, ret, err);
	if (r == RESOLVE_MISSING && !str_eq(arg, path))
		r = answer_object(k, STORE_SOURCE, path, ret, err);
	return r == RESOLVE_MISSING ? find_in_tar(k, (struct str){ path.p + 1, path.size - 1 }, ret, err) : r;
}

/* ---- the resolver ---- */

static int (*const finders[RESOLVE_N_KINDS])(struct store_request *k, struct resolve_answer *ret,
					     struct err *err) = {
	[RESOLVE_DEBUGINFO] = find_debuginfo,
	[RESOLVE_EXECUTABLE] = find_executable,
	[RESOLVE_SOURCE] = find_source,
	[RESOLVE_SECTION] = find_section,
};

static int store_resolve(struct resolver *base, const struct resolve_request *req, struct resolve_wake wake,
			 struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct store_request k = { store_resolver_of(base), req, why->arena, why };

	return finders[req->kind](&k, ret, err);
}

static int store_find_metadata(struct resolver *base, const struct index_metadata_query *q,
			       struct index_metadata_page *ret, struct err *err)
{
	return store_metadata(store_resolver_of(base)->st, q, ret, err);
}

static bool store_find_alias(struct resolver *base, const struct build_id *alias, struct build_id *ret)
{
	return store_alias(store_resolver_of(base)->st, alias, ret);
}

static bool store_resolver_owns(struct resolver *base, const struct build_id *id)
{
	return store_owns(store_resolver_of(base)->st, id);
}

static uint64_t store_epoch(struct resolver *base)
{
	return store_generation(store_resolver_of(base)->st);
}

static void store_resolver_close(struct resolver *base)
{
	struct resolver_store *r = store_resolver_of(base);

	lru_free(r->tars);
	free(r);
}

struct resolver *resolve_store_new(struct store *st)
{
	static const struct resolver_ops ops = {
		.resolve = store_resolve,
		.alias = store_find_alias,
		.owns = store_resolver_owns,
		.metadata = store_find_metadata,
		.epoch = store_epoch,
		.close = store_resolver_close,
	};
	struct resolver_store *r = NEW(struct resolver_store);

	r->resolver.ops = &ops;
	r->st = st;
	r->tars = sources_tar_lru(TARS_CACHE);
	return &r->resolver;
}
