/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings of archives.
 */
#include "listing.h"

/* ---- listings ---- */

static int add(struct listing *l, struct pkg_reader *r, const struct pkg_member *m, struct err *err)
{
	struct listed *e;
	struct bytes chunk;

	l->list = mem_realloc(l->list, l->n + 1, sizeof(*l->list));
	e = &l->list[l->n++];
	*e = (struct listed){ .m = *m };
	e->m.path = arena_str(&l->arena, m->path);
	e->m.link = arena_str(&l->arena, m->link);
	for (;;) {
		if (pkg_reader_data(r, &chunk, err) < 0)
			return -1;
		if (!chunk.size)
			return 0;
		buf_add(&e->content, chunk.p, chunk.size);
	}
}

static int read_all(struct listing *l, const struct pkg_info *info, struct stream *payload,
		    struct source *src, struct err *err)
{
	struct pkg_member m;
	struct pkg_reader *r;
	int res, again;

	if (pkg_reader_open(info, payload, src, &r, err) < 0)
		return -1;
	while ((res = pkg_reader_next(r, &m, err)) == 0)
		if ((res = add(l, r, &m, err)) < 0)
			break;
	/* A failed reader returns the same failure again. */
	again = pkg_reader_next(r, &m, NULL);
	assert_int_equal(again, res);
	pkg_reader_close(r);
	return res == PKG_END ? 0 : res;
}

int listing_of_payload(struct listing *ret, const struct pkg_info *info, struct bytes payload, size_t chunk,
		       struct err *err)
{
	AUTO(stream_closep) struct stream *s = stream_in_chunks(payload, chunk);

	*ret = (struct listing){ 0 };
	arena_init(&ret->arena);
	return read_all(ret, info, s, NULL, err);
}

int listing_of(struct listing *ret, enum pkg_format format, struct bytes payload, size_t chunk,
	       struct err *err)
{
	struct pkg_info info = { .kind = PKG_TAR, .payload.format = format };

	return listing_of_payload(ret, &info, payload, chunk, err);
}

int listing_of_package(struct listing *ret, struct bytes package, const char *name, struct pkg_info *ret_info,
		       struct err *err)
{
	AUTO(source_closep) struct source *src = source_of_mem(package, name);
	AUTO(stream_closep) struct stream *payload = NULL;
	struct pkg_info info;
	int r;

	*ret = (struct listing){ 0 };
	arena_init(&ret->arena);
	r = pkg_open(src, str_of(name), &ret->arena, &info, err);
	if (r != 0)
		return r;
	if (ret_info)
		*ret_info = info;
	if (info.kind != PKG_OTHER &&
	    codec_stream_open(info.payload.codec,
			      stream_of_source(src, false, info.payload.off, info.payload.size), &payload,
			      err) < 0)
		return -1;
	return read_all(ret, &info, payload, src, err);
}

void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_done(&l->list[i].content);
	free(l->list);
	arena_done(&l->arena);
	*l = (struct listing){ 0 };
}

const struct listed *listing_find(const struct listing *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->list[i].m.path, str_of(path)))
			return &l->list[i];
	return NULL;
}

void assert_listings_same(const struct listing *a, const struct listing *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		const struct pkg_member *x = &a->list[i].m, *y = &b->list[i].m;

		if (!str_eq(x->path, y->path) || !str_eq(x->link, y->link) || x->type != y->type ||
		    x->mode != y->mode || x->size != y->size || x->mtime != y->mtime || x->off != y->off ||
		    x->unsafe != y->unsafe)
			fail_msg("member %zu: " STR_FMT " differs", i, STR_ARG(x->path));
		assert_true(bytes_eq(buf_bytes(&a->list[i].content), buf_bytes(&b->list[i].content)));
	}
}

void assert_listing_is(const struct listing *l, const struct pw_file *files, size_t n_files)
{
	assert_int_equal(l->n, n_files);
	for (size_t i = 0; i < n_files; i++) {
		const struct pw_file *f = &files[i];
		const struct listed *e = &l->list[i];
		mode_t mode = f->mode ? f->mode : S_IFREG | 0644;

		assert_str(e->m.path, f->path);
		assert_int_equal(e->m.mtime, f->mtime);
		assert_int_equal(e->m.mode & 07777, mode & 07777);
		if (S_ISLNK(mode) || (S_ISREG(mode) && f->link))
			assert_str(e->m.link, f->link);
		else
			assert_int_equal(e->m.link.size, 0);
		assert_int_equal(e->m.type, S_ISDIR(mode)    ? PKG_DIR
					    : S_ISLNK(mode)  ? PKG_SYMLINK
					    : !S_ISREG(mode) ? PKG_SPECIAL
					    : f->link        ? PKG_HARDLINK
							     : PKG_FILE);
		assert_int_equal(e->m.size, e->m.type == PKG_FILE ? f->content.size : 0);
		assert_true(bytes_eq(buf_bytes(&e->content),
				     e->m.type == PKG_FILE ? f->content : (struct bytes){ 0 }));
		assert_false(e->m.unsafe);
		if (e->m.size == 0)
			assert_true(e->m.off == PKG_NO_OFF);
	}
}

void assert_places(const struct listing *l, struct bytes payload)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct listed *e = &l->list[i];

		if (e->m.type != PKG_FILE || e->m.size == 0 || e->m.sparse)
			continue;
		assert_true(e->m.off <= payload.size && e->m.size <= payload.size - e->m.off);
		assert_memory_equal(payload.p + e->m.off, e->content.p, e->m.size);
	}
}

const struct pw_file *sample_files(size_t *ret_n)
{
	static uint8_t big[100001], blocks[1024];
	static struct pw_file files[] = {
		{ .path = "usr", .mode = S_IFDIR | 0755, .mtime = 1600000000 },
		{ .path = "usr/bin", .mode = S_IFDIR | 0755, .mtime = 1600000001 },
		{ .path = "usr/bin/hello",
		  .mode = S_IFREG | 0755,
		  .mtime = 1600000002,
		  .content = { big, 100001 } },
		{ .path = "usr/bin/hi", .mode = S_IFLNK | 0777, .mtime = 1600000003, .link = "hello" },
		{ .path = "usr/share/empty", .mtime = 1600000004 },
		{ .path = "usr/share/one", .mtime = 1, .content = { (const uint8_t *)"x", 1 } },
		{ .path = "usr/share/blocks", .mode = S_IFREG | 04711, .content = { blocks, 1024 } },
		{ .path = "usr/share/n\xc3\xa4me \xff\x01", .content = { blocks, 511 } },
		{ .path = "dev/null", .mode = S_IFCHR | 0666 },
		{ .path = "last", .mtime = 1700000000, .content = { big, 513 } },
	};

	if (!big[0]) {
		test_fill(big, sizeof(big), 1);
		test_fill(blocks, sizeof(blocks), 2);
		big[0] = 'b';
	}
	*ret_n = ARRAY_SIZE(files);
	return files;
}
