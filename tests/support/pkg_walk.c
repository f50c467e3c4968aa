/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over archives.
 */
#include "pkg_walk.h"

#include <stdio.h>
#include <stdlib.h>

#define MUST(cond)                                                                                \
	do {                                                                                      \
		if (!(cond)) {                                                                    \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                                  \
		}                                                                                 \
	} while (0)

/* Bytes that are read of each member, and of all; the rest is skipped. */
#define MEMBER_BYTES MIB(1)
#define MAX_MEMBERS  20000

/* ---- a stream in chunks ---- */

struct chunks {
	struct stream s;
	struct bytes left;
	size_t chunk;
	uint8_t *lent; /* new memory each time, so that the sanitizer notices a read of an old chunk */
};

static int chunks_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct chunks *p = (struct chunks *)s;
	size_t n = MIN(MIN(max, p->left.size), p->chunk ? p->chunk : SIZE_MAX);

	free(p->lent);
	p->lent = mem_alloc(n ? n : 1);
	if (n)
		memcpy(p->lent, p->left.p, n);
	*ret = bytes_of(p->lent, n);
	p->left.p += n;
	p->left.size -= n;
	return 0;
}

static int chunks_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct bytes b;

	chunks_next(s, n, &b, err);
	memcpy(buf, b.p, b.size);
	*ret_got = b.size;
	return 0;
}

static void chunks_close(struct stream *s)
{
	free(((struct chunks *)s)->lent);
	free(s);
}

static const struct stream_ops chunks_ops = { .read = chunks_read,
					      .next = chunks_next,
					      .close = chunks_close };

struct stream *stream_in_chunks(struct bytes b, size_t chunk)
{
	struct chunks *p = NEW(struct chunks);

	p->s.ops = &chunks_ops;
	p->left = b;
	p->chunk = chunk;
	return &p->s;
}

/* ---- the walk ---- */

static bool has_component(struct str path, struct str want)
{
	struct str rest = path;

	while (rest.p)
		if (str_eq(str_cut(&rest, '/'), want))
			return true;
	return false;
}

static void check_member(const struct pkg_member *m)
{
	MUST(m->path.size <= PKG_MAX_NAME && m->link.size <= PKG_MAX_NAME);
	if (m->path.size) {
		MUST(!memchr(m->path.p, 0, m->path.size));
		MUST(m->path.p[0] != '/' && m->path.p[m->path.size - 1] != '/');
		MUST(!has_component(m->path, STR("..")) && !has_component(m->path, STR(".")) &&
		     !has_component(m->path, STR("")));
	} else {
		MUST(m->unsafe || m->type == PKG_DIR);
	}
	MUST(m->type == PKG_FILE || m->size == 0);
	MUST(m->size || m->off == PKG_NO_OFF);
	MUST(!m->sparse || (m->off == PKG_NO_OFF && m->size <= PKG_MAX_SPARSE));
}

static void add(struct pkg_walk *w, const void *p, size_t n)
{
	w->sum = hash64(p, n, w->sum);
}

/* Add content to the sum byte by byte, since chunks differ between walks. */
static int walk_content(struct pkg_reader *r, const struct pkg_member *m, struct pkg_walk *w)
{
	struct hash64_state h;
	struct bytes chunk;
	uint64_t n = 0, v;

	hash64_init(&h, w->sum);
	while (n < MEMBER_BYTES) {
		if (pkg_reader_data(r, &chunk, &w->err) < 0)
			return -1;
		if (!chunk.size)
			break;
		chunk.size = (size_t)MIN((uint64_t)chunk.size, MEMBER_BYTES - n);
		hash64_feed(&h, chunk.p, chunk.size);
		n += chunk.size;
	}
	MUST(n == MIN(m->size, (uint64_t)MEMBER_BYTES));
	v = hash64_end(&h);
	add(w, &v, sizeof(v));
	return 0;
}

void pkg_walk_stream(const struct pkg_info *info, struct stream *payload, struct source *src,
		     struct pkg_walk *ret)
{
	struct pkg_reader *r;
	struct pkg_member m, ignored;

	*ret = (struct pkg_walk){ .end = -1 };
	if (pkg_reader_open(info, payload, src, &r, &ret->err) < 0) {
		MUST(ret->err.kind != ERR_NONE);
		return;
	}
	while (ret->n_members < MAX_MEMBERS && (ret->end = pkg_reader_next(r, &m, &ret->err)) == 0) {
		uint64_t numbers[] = { m.type, m.mode, m.size, (uint64_t)m.mtime, m.off, m.unsafe, m.sparse };

		check_member(&m);
		ret->n_members++;
		add(ret, m.path.p, m.path.size);
		add(ret, m.link.p, m.link.size);
		add(ret, numbers, sizeof(numbers));
		if (walk_content(r, &m, ret) < 0) {
			ret->end = -1;
			break;
		}
	}
	if (ret->end < 0)
		MUST(ret->err.kind != ERR_NONE && ret->err.kind != ERR_INTERNAL);
	if (ret->end < 0 && info->kind != PKG_OTHER)
		MUST(pkg_reader_next(r, &ignored, NULL) < 0);
	pkg_reader_close(r);
}

void pkg_walk_bytes(const struct pkg_info *info, struct bytes payload, size_t chunk, struct pkg_walk *ret)
{
	AUTO(stream_closep) struct stream *s = stream_in_chunks(payload, chunk);

	pkg_walk_stream(info, s, NULL, ret);
}

void pkg_walk_info(const struct pkg_info *info, uint64_t src_size)
{
	uint64_t sum = 0;

	MUST(info->kind > 0 && info->kind < PKG_N_KINDS);
	MUST(info->payload.off <= src_size && info->payload.size <= src_size - info->payload.off);
	for (size_t i = 0; i < info->n_build_ids; i++)
		MUST(info->build_ids[i].size > 0 && info->build_ids[i].size <= BUILD_ID_MAX);
	for (size_t i = 0; i < info->n_files; i++) {
		const struct pkg_header_file *f = &info->files[i];

		MUST(f->content < info->n_files);
		sum = hash64(f->path.p, f->path.size, sum);
		sum = hash64(f->link.p, f->link.size, sum);
	}
	sum = hash64(info->name.p, info->name.size, sum);
	sum = hash64(info->version.p, info->version.size, sum);
	sum = hash64(info->arch.p, info->arch.size, sum);
	sum = hash64(info->source_name.p, info->source_name.size, sum);
	(void)sum;
}
