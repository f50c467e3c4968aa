/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probing one candidate: the header pass of a package, or the facts of an ELF file. Runs on the probing
 * threads; the result is one change for the writer.
 */
#include <errno.h>
#include <stdlib.h>
#include "s3/s3.h"
#include "scan/internal.h"

#define MIN_FILE_SIZE 52 /* an ELF header of 32 bits */

static void probe_describe(struct change *c, const struct candidate *l, enum index_kind kind,
			   enum index_state state)
{
	c->file.path = arena_str(&c->arena, str_of(l->path));
	c->file.kind = kind;
	c->file.state = state;
	c->file.size = (uint64_t)l->st.st_size;
	c->file.mtime_ns = file_mtime_ns(&l->st);
	c->file.inode = l->st.st_ino;
	c->file.dev = l->st.st_dev;
	c->file.tries = l->tries;
	c->file.scanned_s = clock_wall_s();
}

static void probe_failed(struct scan *s, const struct candidate *l, enum index_kind kind,
			 const struct err *why)
{
	struct change *c = change_new(CHANGE_FAIL);

	probe_describe(c, l, kind, INDEX_FAILED);
	c->fail_after_put = true;
	c->why = *why;
	c->next_try_s = retry_at(clock_wall_s(), l->tries);
	scan_failed(s, str_of(l->path), why);
	writer_push(s->writer, c);
}

/* The header pass. */
static bool probe_package(struct scan *s, const struct candidate *l, struct source *src)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct pkg_info info = { 0 };
	struct err err = { 0 };
	struct change *c;
	int r;

	arena_init(&a);
	r = pkg_open(src, path_basename(str_of(l->path)), &a, &info, &err);
	if (r == PKG_NOT_A_PACKAGE)
		err_set(&err, ERR_INVALID, "not a package or archive, although its name ends like one");
	if (r != 0) {
		probe_failed(s, l, INDEX_PACKAGE, &err);
		return true;
	}
	c = change_new(CHANGE_PUT);
	probe_describe(c, l, INDEX_PACKAGE, INDEX_HEADER);
	c->artifacts = ARENA_NEW_N(&c->arena, struct index_artifact, info.n_build_ids + 1);
	for (size_t i = 0; i < info.n_build_ids; i++)
		c->artifacts[c->n_artifacts++] = (struct index_artifact){
			.build_id = info.build_ids[i],
			.member = INDEX_NO_MEMBER,
		};
	writer_push(s->writer, c);
	return true;
}

static enum codec_kind probe_module_codec(const char *path)
{
	struct str p = str_of(path);

	if (str_ends(p, STR(".ko.xz")))
		return CODEC_XZ;
	if (str_ends(p, STR(".ko.zst")))
		return CODEC_ZSTD;
	if (str_ends(p, STR(".ko.gz")))
		return CODEC_GZIP;
	return CODEC_NONE;
}

struct probed_elf {
	struct elf_facts facts;
	enum build_id_kind kind;
	struct elf_aliases aliases;
	uint64_t inner_size; /* 0: not compressed */
};

static int probe_read_facts(const struct candidate *l, struct source *src, enum codec_kind inner,
			    struct probed_elf *ret, struct err *err)
{
	AUTO(buf_done) struct buf raw = { 0 };
	AUTO(buf_done) struct buf module = { 0 };
	AUTO(source_closep) struct source *mem = NULL;
	AUTO(budget_hold_done) struct budget_hold hold = { 0 };

	if (inner == CODEC_NONE)
		return elf_identify(src, &ret->facts, &ret->kind, &ret->aliases, err);
	if (src->size > SCAN_MAX_INNER)
		return err_set(err, ERR_LIMIT, "compressed module of %llu bytes",
			       (unsigned long long)src->size);
	inner_begin(&hold);
	if (budget_hold_add(&hold, src->size, err) < 0 ||
	    source_read_full(src, 0, buf_reserve(&raw, src->size), src->size, SOURCE_SEQUENTIAL, err) < 0)
		return -1;
	raw.size = src->size;
	if (inner_unpack(inner, buf_bytes(&raw), &hold, &module, err) < 0)
		return -1;
	ret->inner_size = module.size;
	mem = source_of_mem(buf_bytes(&module), l->path);
	return elf_identify(mem, &ret->facts, &ret->kind, &ret->aliases, err);
}

static bool probe_file(struct scan *s, const struct candidate *l, struct source *src)
{
	enum codec_kind inner = probe_module_codec(l->path);
	struct probed_elf elf = { 0 };
	struct err err = { 0 };
	struct change *c;
	int r;

	r = probe_read_facts(l, src, inner, &elf, &err);
	if (r < 0) {
		probe_failed(s, l, INDEX_PLAIN, &err);
		return true;
	}
	if (r == ELF_NOT_ELF || !elf.facts.build_id.size ||
	    !(elf.facts.flags & (ELF_IS_EXECUTABLE | ELF_IS_DEBUG)))
		return false;
	c = change_new(CHANGE_PUT);
	probe_describe(c, l, INDEX_PLAIN, INDEX_SCANNED);
	c->file.inner = inner;
	c->file.inner_size = elf.inner_size;
	c->artifacts = ARENA_NEW(&c->arena, struct index_artifact);
	c->artifacts[0] = (struct index_artifact){
		.build_id = elf.facts.build_id,
		.flags = elf.facts.flags,
		.member = INDEX_NO_MEMBER,
	};
	c->n_artifacts = 1;
	for (unsigned i = 0; i < elf.aliases.n; i++)
		c->aliases[c->n_aliases++] = (struct index_alias){ elf.aliases.v[i].id, elf.facts.build_id };
	writer_push(s->writer, c);
	return true;
}

/* Delete the old row: the file held something before, and no longer does. */
static void probe_forget(struct scan *s, const struct candidate *l)
{
	struct change *c;

	if (!l->old)
		return;
	c = change_new(CHANGE_DEL);
	c->file.path = arena_str(&c->arena, str_of(l->path));
	c->file.id = l->old;
	c->file.generation = l->old_generation;
	c->file.points_size = l->old_points_size;
	writer_push(s->writer, c);
}

static int candidate_source(const struct candidate *l, struct source **ret, struct err *err)
{
	struct s3 *s3;
	int r;

	if (!s3_is_url(str_of(l->path)))
		return source_open_file(l->path, ret, err);
	r = s3_shared(&s3, err) < 0 ? -1 : s3_open(s3, l->path, &l->st, ret, NULL, err);
	/* The heads of all packages would take the disk from the members that are asked for. */
	if (r == 0)
		source_pass(*ret);
	return r;
}

static bool probe_open(struct scan *s, const struct candidate *l)
{
	AUTO(source_closep) struct source *src = NULL;
	struct err err = { 0 };
	int r;

	if (!l->by_name && l->st.st_size < MIN_FILE_SIZE)
		return false;
	r = candidate_source(l, &src, &err);
	if (r == FILE_MISSING)
		return true; /* it has vanished since the walk: nothing to keep */
	if (r < 0) {
		/* We may not read it, which only a change of its mode can end: it gets no row, and another
		 * try. */
		if (err.os == EACCES && !l->by_name)
			return true;
		probe_failed(s, l, l->by_name ? INDEX_PACKAGE : INDEX_PLAIN, &err);
		return true;
	}
	if (!l->by_name)
		return probe_file(s, l, src);
	return probe_package(s, l, src);
}

bool probe_run(struct scan *s, const struct candidate *l)
{
	bool holds = probe_open(s, l);

	if (!holds)
		probe_forget(s, l);
	return holds;
}
