/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "elf_writer.h"

char *fixture_path(struct scan_fixture *h, const char *name)
{
	return arena_printf(&h->a, "%s/%s", h->root, name);
}

int fixture_set_up(void **state)
{
	struct scan_fixture *h = NEW(struct scan_fixture);
	struct err err = { 0 };

	test_dir_make(h->dir);
	arena_init(&h->a);
	snprintf(h->root, sizeof(h->root), "%s/root", h->dir);
	snprintf(h->points, sizeof(h->points), "%s/points", h->dir);
	snprintf(h->index, sizeof(h->index), "%s/index.db", h->dir);
	assert_done(dir_make(h->root, 0755, &err));
	h->roots[0] = str_of(h->root);
	h->opts = (struct scan_options){
		.index_path = h->index,
		.points_dir = h->points,
		.max_inline_points = 1,
		.roots = h->roots,
		.n_roots = 1,
		.files = true,
		.packages = true,
		.threads = 2,
	};
	sample_init(&h->s, 1, 3000);
	*state = h;
	return 0;
}

void fixture_stop(struct scan_fixture *h)
{
	index_close(h->ix);
	h->ix = NULL;
	scan_free(h->scan);
	h->scan = NULL;
}

int fixture_tear_down(void **state)
{
	struct scan_fixture *h = *state;

	fixture_stop(h);
	sample_done(&h->s);
	arena_done(&h->a);
	test_dir_remove(h->dir);
	free(h);
	return 0;
}

void fixture_begin(struct scan_fixture *h)
{
	struct index_options opts = { .read_only = true };
	struct err err = { 0 };

	assert_done(scan_new(&h->opts, &h->scan, &err));
	assert_done(scan_start(h->scan, &err));
	assert_done(index_open(h->index, &opts, &h->ix, &err));
}

void fixture_settle(struct scan_fixture *h)
{
	assert_true(scan_wait_idle(h->scan, LONG_MS));
}

struct scan_progress fixture_progress(struct scan_fixture *h)
{
	struct scan_progress p;

	scan_progress(h->scan, &p);
	return p;
}

void fixture_run(struct scan_fixture *h)
{
	fixture_begin(h);
	fixture_settle(h);
}

void fixture_put_program(struct scan_fixture *h, const char *name, const char *id)
{
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_program(&b, ET_DYN, id, 1000);
	test_file_write(fixture_path(h, name), b.p, b.size);
}

void fixture_put_package(struct scan_fixture *h, const char *name, enum sample_kind kind,
			 enum codec_kind codec)
{
	AUTO(buf_done) struct buf b = { 0 };

	sample_package(&h->s, kind, codec, &b);
	test_file_write(fixture_path(h, name), b.p, b.size);
}

size_t fixture_n_hits(struct scan_fixture *h, const struct build_id *id)
{
	struct index_hit *hits;
	struct err err = { 0 };
	size_t n = 0;
	int r = index_find(h->ix, id, &h->a, &hits, &n, &err);

	assert_true(r >= 0);
	return r == 0 ? n : 0;
}

size_t fixture_n_hits_of(struct scan_fixture *h, const char *id)
{
	struct build_id b;

	assert_true(build_id_parse(&b, str_of(id)));
	return fixture_n_hits(h, &b);
}

bool fixture_row(struct scan_fixture *h, const char *name, struct index_file *ret)
{
	struct err err = { 0 };
	int r = index_file_by_path(h->ix, str_of(fixture_path(h, name)), &h->a, ret, &err);

	assert_true(r >= 0);
	return r == 0;
}

struct index_file fixture_row_of(struct scan_fixture *h, const char *name)
{
	struct index_file f;

	if (!fixture_row(h, name, &f))
		fail_msg("%s is not in the index", name);
	return f;
}

bool fixture_has(struct scan_fixture *h, const char *name)
{
	struct index_file f;

	return fixture_row(h, name, &f);
}
