/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

int fixture_set_up(void **state)
{
	struct fixture *h = NEW(struct fixture);
	struct resolve_index_options opts = { .n_source_roots = 1 };
	const char *roots[] = { h->dir };
	struct err err = { 0 };

	arena_init(&h->a);
	test_dir_make(h->dir);
	assert_done(dir_make(fixture_path(h, "points"), 0755, &err));
	assert_done(index_open(fixture_path(h, "index.db"), &(struct index_options){ 0 }, &h->ix, &err));
	opts.source_roots = roots;
	opts.index_path = fixture_path(h, "index.db");
	opts.points_dir = fixture_path(h, "points");
	assert_done(resolve_index_open(&opts, &h->r, &err));
	*state = h;
	return 0;
}

int fixture_tear_down(void **state)
{
	struct fixture *h = *state;

	resolve_close(h->r);
	index_close(h->ix);
	arena_done(&h->a);
	test_dir_remove(h->dir);
	free(h);
	return 0;
}

struct resolver_index *fixture_inside(struct fixture *h)
{
	return CONTAINER_OF(h->r, struct resolver_index, resolver);
}

char *fixture_path(struct fixture *h, const char *name)
{
	return arena_printf(&h->a, "%s/%s", h->dir, name);
}

const char *fixture_hex(uint32_t n)
{
	static char hex[8][41];
	static unsigned at;

	snprintf(hex[++at % 8], 41, "%032x%08x", n * 2654435761u, n);
	return hex[at % 8];
}

struct build_id fixture_id(uint32_t n)
{
	struct build_id id;

	assert_true(build_id_parse(&id, str_of(fixture_hex(n))));
	return id;
}

static struct bytes keep(struct fixture *h, struct buf *b)
{
	struct bytes ret = arena_bytes(&h->a, buf_bytes(b));

	buf_done(b);
	return ret;
}

struct bytes fixture_program(struct fixture *h, uint32_t n, size_t size)
{
	struct buf out = { 0 };

	elf_writer_program(&out, ET_DYN, fixture_hex(n), size);
	return keep(h, &out);
}

struct bytes fixture_debug(struct fixture *h, uint32_t n, size_t size)
{
	struct buf out = { 0 };

	elf_writer_debug_file(&out, ET_DYN, fixture_hex(n), size);
	return keep(h, &out);
}

struct bytes fixture_deb(struct fixture *h, enum codec_kind codec, const struct pw_file *files, size_t n)
{
	struct pw_deb d = { .control = CODEC_NONE, .data = codec, .files = files, .n_files = n };
	struct buf out = { 0 };

	pw_deb(&out, &d);
	return keep(h, &out);
}

void fixture_touch(struct fixture *h, const char *name, int64_t mtime_s)
{
	struct timespec times[2] = { { mtime_s, 7 }, { mtime_s, 7 } };

	assert_int_equal(utimensat(AT_FDCWD, fixture_path(h, name), times, 0), 0);
}

/* Writes the file, and its row as a scan would. */
static struct index_file file_of(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content)
{
	struct index_file f = { .path = str_of(fixture_path(h, name)) };
	struct stat st;

	test_file_write(f.path.p, content.p, content.size);
	fixture_touch(h, name, mtime_s);
	assert_int_equal(stat(f.path.p, &st), 0);
	f.size = (uint64_t)st.st_size;
	f.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	f.inode = st.st_ino;
	f.dev = st.st_dev;
	return f;
}

int64_t fixture_plain(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content,
		      enum codec_kind inner)
{
	struct buf packed = { 0 };
	struct elf_facts facts;
	struct index_artifact art = { .member = INDEX_NO_MEMBER };
	struct source *src = source_of_mem(content, name);
	struct index_file f;
	struct err err = { 0 };

	assert_done(elf_facts_read(src, &facts, &err));
	source_close(src);
	if (inner != CODEC_NONE)
		pw_compress(&packed, inner, 0, content);
	f = file_of(h, name, mtime_s, inner ? buf_bytes(&packed) : content);
	buf_done(&packed);
	f.kind = INDEX_PLAIN;
	f.state = INDEX_SCANNED;
	f.inner = inner;
	f.inner_size = content.size;
	art.build_id = facts.build_id;
	art.flags = facts.flags;
	assert_done(index_put(h->ix, &f, &err));
	assert_done(index_add_artifacts(h->ix, f.id, &art, 1, &err));
	return f.id;
}

int64_t fixture_header(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content,
		       const uint32_t *ids, size_t n)
{
	struct index_file f = file_of(h, name, mtime_s, content);
	struct err err = { 0 };

	f.kind = INDEX_PACKAGE;
	f.state = INDEX_HEADER;
	assert_done(index_put(h->ix, &f, &err));
	for (size_t i = 0; i < n; i++) {
		struct index_artifact art = { .build_id = fixture_id(ids[i]), .member = INDEX_NO_MEMBER };

		assert_done(index_add_artifacts(h->ix, f.id, &art, 1, &err));
	}
	return f.id;
}

/* For large files the places of the sections are kept, as a scan does. */
#define LARGE 200000

static void find_places(struct pkg_entry *e, struct bytes content, struct arena *a)
{
	struct elf_probe *p = elf_probe_new();
	struct elf_facts f;
	struct err err;

	elf_probe_start(p, content.size);
	elf_probe_feed(p, content);
	assert_int_equal(elf_probe_finish(p, &f, &err), 0);
	e->n_places = (uint32_t)elf_probe_places(p, a, &e->places);
	assert_true(e->n_places > 0);
	elf_probe_free(p);
}

static void add_member(struct pkg_map_builder *b, const struct pkg_member *m, uint32_t number,
		       struct bytes content, struct fixture *h, struct index_artifact *arts, size_t *n_arts)
{
	struct pkg_entry e = { .path = m->path,
			       .number = number,
			       .mode = m->mode,
			       .size = m->size,
			       .off = m->off,
			       .mtime = m->mtime };
	struct source *src = source_of_mem(content, "member");
	struct buf inner = { 0 };
	struct err err = { 0 };

	e.inner = codec_detect(content);
	if (e.inner != CODEC_NONE && str_ends(m->path, STR(".xz"))) {
		assert_done(codec_decode_all(e.inner, content, MIB(16), &inner, &err));
		source_close(src);
		src = source_of_mem(buf_bytes(&inner), "inner");
		e.inner_size = inner.size;
	} else {
		e.inner = CODEC_NONE;
	}
	if (elf_facts_read(src, &e.elf, &err) == 0) {
		e.is_elf = true;
		arts[(*n_arts)++] = (struct index_artifact){ e.elf.build_id, e.elf.flags, number };
	}
	source_close(src);
	buf_done(&inner);
	if (e.is_elf && e.inner == CODEC_NONE && content.size >= LARGE)
		find_places(&e, content, &h->a);
	pkg_map_add(b, &e);
}

void fixture_map(struct fixture *h, const char *name, struct buf *map, struct buf *points,
		 struct index_artifact **ret_list, size_t *ret_n, uint64_t **ret_dirs, size_t *ret_n_dirs)
{
	struct codec_scan_options opts = { .min_size = 1, .spacing = KIB(64) };
	struct pkg_identity identity;
	struct pkg_map_builder *b;
	struct pkg_reader *reader;
	struct codec_scan *scan;
	struct pkg_info info;
	struct pkg_member m;
	struct source *src;
	struct stat st;
	struct err err = { 0 };
	const char *why;
	bool complete;
	int r;

	*ret_list = ARENA_NEW_N(&h->a, struct index_artifact, 100);
	*ret_dirs = ARENA_NEW_N(&h->a, uint64_t, 100);
	*ret_n = *ret_n_dirs = 0;
	assert_done(source_open_file(fixture_path(h, name), &src, &err));
	assert_int_equal(stat(fixture_path(h, name), &st), 0);
	assert_done(pkg_open(src, str_of(name), &h->a, &info, &err));
	assert_done(pkg_identity_read(src, &st, &identity, &err));
	assert_done(codec_scan_open(info.payload.codec, src, range_of(info.payload.off, info.payload.size),
				    &opts, &scan, &err));
	assert_done(pkg_reader_open(&info, codec_scan_stream(scan), src, &reader, &err));
	b = pkg_map_builder_new(&info, &identity);
	for (uint32_t number = 0; (r = pkg_reader_next(reader, &m, &err)) == 0; number++) {
		struct buf content = { 0 };
		struct bytes piece;

		if (m.type == PKG_SYMLINK)
			pkg_map_add_link(b, m.path, m.link);
		if (m.type != PKG_FILE)
			continue;
		m.path = arena_str(&h->a, m.path);
		for (;;) {
			assert_done(pkg_reader_data(reader, &piece, &err));
			if (!piece.size)
				break;
			buf_add(&content, piece.p, piece.size);
		}
		add_member(b, &m, number, buf_bytes(&content), h, *ret_list, ret_n);
		(*ret_dirs)[(*ret_n_dirs)++] = index_dir_hash(path_dirname(m.path));
		buf_done(&content);
	}
	assert_int_equal(r, PKG_END);
	pkg_map_set_decoded_size(b, codec_scan_stream(scan)->off);
	r = codec_scan_points(scan, points, &complete, &why, &err);
	assert_true(r == 0 || r == CODEC_NO_POINTS);
	pkg_map_encode(b, map);
	pkg_map_builder_free(b);
	pkg_reader_close(reader);
	codec_scan_close(scan);
	source_close(src);
}

void fixture_set_map(struct fixture *h, int64_t file, const char *name)
{
	struct buf map = { 0 }, points = { 0 }, path = { 0 };
	struct index_artifact *list;
	struct index_file f;
	uint64_t *dirs;
	struct err err = { 0 };
	size_t n, n_dirs;

	fixture_map(h, name, &map, &points, &list, &n, &dirs, &n_dirs);
	assert_done(index_file_by_id(h->ix, file, &h->a, &f, &err));
	scan_points_path(fixture_path(h, "points"), &f, &path);
	if (points.size)
		test_file_write(buf_cstr(&path), points.p, points.size);
	assert_done(index_set_map(
		h->ix, file, &(struct index_content){ buf_bytes(&map), points.size, list, n, dirs, n_dirs },
		&err));
	buf_done(&map);
	buf_done(&points);
	buf_done(&path);
}

int64_t fixture_package(struct fixture *h, const char *name, int64_t mtime_s, struct bytes content)
{
	int64_t id = fixture_header(h, name, mtime_s, content, NULL, 0);

	fixture_set_map(h, id, name);
	return id;
}

static void woken(void *arg)
{
	((struct fixture *)arg)->n_woken++;
}

int fixture_ask(struct fixture *h, enum resolve_kind kind, uint32_t id, const char *arg)
{
	struct resolve_request req = { kind, fixture_id(id), str_of(arg) };

	resolve_why_init(&h->why, &h->a);
	memset(&h->got, 0, sizeof(h->got));
	memset(&h->err, 0, sizeof(h->err));
	return resolve(h->r, &req, (struct resolve_wake){ woken, h }, &h->got, &h->why, &h->err);
}

static void print_why(struct fixture *h)
{
	for (struct resolve_step *s = h->why.first; s; s = s->next)
		fprintf(stderr, "# " STR_FMT ": " STR_FMT "\n", STR_ARG(s->place), STR_ARG(s->text));
	fprintf(stderr, "# error: %s\n", h->err.text);
}

bool fixture_said(struct fixture *h, const char *part)
{
	for (struct resolve_step *s = h->why.first; s; s = s->next)
		if (strstr(arena_printf(&h->a, STR_FMT ": " STR_FMT, STR_ARG(s->place), STR_ARG(s->text)),
			   part))
			return true;
	print_why(h);
	return false;
}

struct bytes fixture_read(struct fixture *h, struct source *s)
{
	uint8_t *p = arena_alloc(&h->a, (size_t)s->size + 1);
	struct err err = { 0 };

	assert_done(source_read_full(s, 0, p, (size_t)s->size, SOURCE_SEQUENTIAL, &err));
	return bytes_of(p, (size_t)s->size);
}

void fixture_expect(struct fixture *h, enum resolve_kind kind, uint32_t id, const char *arg,
		    struct bytes want)
{
	int r = fixture_ask(h, kind, id, arg);

	if (r) {
		print_why(h);
		fail_msg("resolve %s: %d", resolve_kind_name(kind), r);
	}
	assert_true(bytes_eq(fixture_read(h, h->got.source), want));
	source_close(h->got.source);
	h->got.source = NULL;
}

struct bytes fixture_section(struct bytes elf, const char *name)
{
	struct source *src = source_of_mem(elf, "elf");
	struct elf_image *img;
	struct err err = { 0 };
	uint64_t off, size;

	assert_done(elf_open(src, &img, &err));
	assert_done(elf_section_range(img, elf_section_find(img, name), &off, &size, &err));
	elf_close(img);
	source_close(src);
	return bytes_of(elf.p + off, (size_t)size);
}
