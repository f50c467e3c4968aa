/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deep pass: its results find every member again and give its bytes, for each kind of package.
 */
#include "sample.h"

#include <archive.h>
#include <archive_entry.h>
#include <lzma.h>
#include "fault_source.h"
#include "packed.h"
#include "base/sha256.h"

static const enum codec_kind kinds[] = {
	CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_LZMA, CODEC_ZSTD, CODEC_BZIP2
};

static int pass_source(struct source *src, const char *name, const struct deep_tap *tap,
		       struct deep_result *ret, struct err *err)
{
	struct stat st = { .st_size = (off_t)src->size, .st_ino = 7, .st_mtim.tv_sec = 1000 };

	const struct deep_input in = { src, &st, str_of(name), 0 };

	return deep_pass(&in, tap, ret, err);
}

static int pass_bytes(struct bytes package, const char *name, const struct deep_tap *tap,
		      struct deep_result *ret, struct err *err)
{
	struct source *src = source_of_mem(package, name);
	int r = pass_source(src, name, tap, ret, err);

	source_close(src);
	return r;
}

static bool has_artifact(const struct deep_result *r, const struct build_id *id, uint32_t member)
{
	for (size_t i = 0; i < r->n_artifacts; i++)
		if (build_id_eq(&r->artifacts[i].build_id, id) && r->artifacts[i].member == member)
			return true;
	return false;
}

static void expect_bytes(const struct pkg_map *m, const struct pkg_entry *e, struct bytes package,
			 struct bytes points, struct bytes want)
{
	struct codec_source_options opts = { .points = points };
	AUTO(source_closep) struct source *s = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(want.size + 1);
	struct err err = { 0 };

	assert_done(pkg_entry_open(m, e, source_of_mem(package, "p"), &opts, &s, &err));
	assert_int_equal(s->size, want.size);
	assert_done(source_read_full(s, 0, got, want.size, SOURCE_SEQUENTIAL, &err));
	assert_true(bytes_eq(bytes_of(got, want.size), want));
}

static void expect_sample(const struct sample *s, const struct deep_result *r, struct bytes package)
{
	struct pkg_map *m;
	struct err err = { 0 };
	size_t n_ids = 0;

	assert_done(pkg_map_decode(buf_bytes(&r->map), &m, &err));
	assert_int_equal(m->n_entries, s->n);
	for (size_t i = 0; i < s->n; i++) {
		const struct sample_file *f = &s->files[i];
		const struct pkg_entry *e = pkg_map_find(m, str_of(f->path));
		struct bytes want = buf_bytes(&f->content);

		if (!e)
			fail_msg("%s is not in the map", f->path);
		if (f->id[0]) {
			struct build_id id = sample_id(s, i);

			n_ids++;
			if (!e->is_elf || !build_id_eq(&e->elf.build_id, &id))
				fail_msg("%s has no build ID", f->path);
			assert_true(has_artifact(r, &id, e->number));
		} else {
			assert_int_equal(e->elf.build_id.size, 0);
		}
		expect_bytes(m, e, package, buf_bytes(&r->points), want);
	}
	assert_int_equal(r->n_artifacts, n_ids);
	for (size_t i = 1; i < r->n_dirs; i++)
		assert_true(r->dirs[i - 1] < r->dirs[i]);
	assert_int_equal(r->n_dirs, 6);
	pkg_map_free(m);
}

static void every_kind_and_codec_gives_every_member(void **state)
{
	struct sample s;

	sample_init(&s, 1, 5000);
	for (enum sample_kind kind = 0; kind < SAMPLE_N; kind++) {
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			AUTO(buf_done) struct buf package = { 0 };
			struct deep_result r;
			struct err err = { 0 };

			sample_package(&s, kind, kinds[i], &package);
			assert_done(
				pass_bytes(buf_bytes(&package), sample_name(kind, kinds[i]), NULL, &r, &err));
			expect_sample(&s, &r, buf_bytes(&package));
			deep_result_done(&r);
		}
	}
	sample_done(&s);
}

/* ---- waiters ---- */

struct watcher {
	unsigned n_asked, cancel_at; /* calls of progress(); 0: never */
	uint64_t done;               /* of the last call */
	unsigned from;               /* wanted() returns 1 from this call on; 0: never */
	unsigned n_wanted, n_seen, n_partial;
	struct build_id id;
	struct buf map, points;
};

static int on_progress(void *arg, uint64_t done)
{
	struct watcher *w = arg;

	w->done = done;
	return ++w->n_asked == w->cancel_at;
}

static unsigned on_wanted(void *arg)
{
	struct watcher *w = arg;

	return w->from && ++w->n_wanted >= w->from;
}

static bool on_seen(void *arg, const struct elf_facts *what)
{
	struct watcher *w = arg;

	w->n_seen++;
	return build_id_eq(&w->id, &what->build_id);
}

static void on_partial(void *arg, struct buf *map, struct buf *points)
{
	struct watcher *w = arg;

	w->n_partial++;
	buf_done(&w->map);
	buf_done(&w->points);
	w->map = *map;
	w->points = *points;
	memset(map, 0, sizeof(*map));
	memset(points, 0, sizeof(*points));
}

static struct deep_tap tap_of(struct watcher *w)
{
	return (struct deep_tap){ w, on_progress, on_wanted, on_seen, on_partial };
}

static void watcher_done(struct watcher *w)
{
	buf_done(&w->map);
	buf_done(&w->points);
}

static void a_stop_anywhere_is_a_clean_end(void **state)
{
	AUTO(buf_done) struct buf package = { 0 };
	struct sample s;
	unsigned n;

	sample_init(&s, 2, 3000);
	sample_package(&s, SAMPLE_DEB, CODEC_XZ, &package);
	for (n = 1;; n++) {
		struct watcher w = { .cancel_at = n };
		struct deep_tap tap = tap_of(&w);
		struct deep_result r;
		struct err err = { 0 };

		if (pass_bytes(buf_bytes(&package), "a.deb", &tap, &r, &err) == 0) {
			expect_sample(&s, &r, buf_bytes(&package));
			deep_result_done(&r);
			break;
		}
		assert_int_equal(err.kind, ERR_CANCELLED);
		assert_int_equal(w.n_asked, n);
	}
	assert_true(n > s.n);
	sample_done(&s);
}

/* A member that has gone by has its bytes, or an error where they are read. */
static void expect_no_other(const struct sample *s, size_t file, const struct watcher *w,
			    struct bytes package)
{
	struct codec_source_options opts = { .points = buf_bytes(&w->points) };
	AUTO(mem_freep) uint8_t *got = mem_alloc(s->files[file].content.size);
	struct source *member;
	const struct pkg_entry *e;
	struct pkg_map *m;
	struct err err = { 0 };

	assert_done(pkg_map_decode(buf_bytes(&w->map), &m, &err));
	e = pkg_map_find(m, str_of(s->files[file].path));
	if (e && pkg_entry_open(m, e, source_of_mem(package, "p"), &opts, &member, &err) == 0) {
		if (member->size == s->files[file].content.size &&
		    source_read_full(member, 0, got, member->size, SOURCE_SEQUENTIAL, &err) == 0)
			assert_memory_equal(got, s->files[file].content.p, member->size);
		source_close(member);
	}
	pkg_map_free(m);
}

/* A tar with @more bytes after its end, and as many in a first member that is no file. */
static void long_padded_tar(const struct sample *s, size_t more, enum codec_kind codec, struct buf *ret)
{
	AUTO(mem_freep) uint8_t *zeros = mem_zalloc(more);
	AUTO(buf_done) struct buf tar = { 0 };

	pw_tar_sum(&tar, pw_tar_header(&tar, PW_GNU, "volume", 'V', more));
	pw_tar_body(&tar, bytes_of(zeros, more));
	pw_tar(&tar, PW_GNU, s->list, s->n);
	buf_add(&tar, zeros, more);
	pw_compress(ret, codec, 1, buf_bytes(&tar));
}

/* How often a pass over such a tar looks for a stop, and for waiters. */
static struct watcher steps_of(const struct sample *s, size_t more, enum codec_kind codec)
{
	struct watcher w = { .from = UINT32_MAX };
	AUTO(buf_done) struct buf package = { 0 };
	struct deep_tap tap = tap_of(&w);
	struct deep_result r;
	struct err err = { 0 };

	long_padded_tar(s, more, codec, &package);
	assert_done(pass_bytes(buf_bytes(&package), sample_name(SAMPLE_TAR, codec), &tap, &r, &err));
	deep_result_done(&r);
	return w;
}

/* Bytes that the reader passes in one call are many steps for the one that stops the pass, and for waiters. */
static void a_stop_and_waiters_are_noticed_in_bytes_of_no_file(void **state)
{
	static const enum codec_kind codecs[] = { CODEC_NONE, CODEC_GZIP, CODEC_ZSTD, CODEC_XZ };
	struct sample s;

	sample_init(&s, 4, 3000);
	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		const char *name = sample_name(SAMPLE_TAR, codecs[i]);
		struct watcher few = steps_of(&s, 512, codecs[i]), all = steps_of(&s, MIB(8), codecs[i]), w;
		AUTO(buf_done) struct buf package = { 0 };
		struct deep_tap tap;
		struct deep_result r;
		struct err err = { 0 };
		unsigned n;

		/* A step is a MiB at most; but a source in memory lends the whole of a member that is skipped. */
		n = codecs[i] == CODEC_NONE ? 8 : 16;
		assert_true(all.n_asked >= few.n_asked + n && all.n_wanted >= few.n_wanted + n);
		long_padded_tar(&s, MIB(8), codecs[i], &package);
		for (unsigned eighth = 1; eighth < 8; eighth++) {
			w = (struct watcher){ .cancel_at = all.n_asked * eighth / 8 };
			tap = tap_of(&w);
			assert_fails(pass_bytes(buf_bytes(&package), name, &tap, &r, &err), ERR_CANCELLED,
				     "stopped");
			assert_int_equal(w.n_asked, w.cancel_at);

			w = (struct watcher){ .from = all.n_wanted * eighth / 8, .id = sample_id(&s, 1) };
			tap = tap_of(&w);
			assert_done(pass_bytes(buf_bytes(&package), name, &tap, &r, &err));
			deep_result_done(&r);
			assert_int_equal(w.n_partial, 1);
			expect_no_other(&s, 1, &w, buf_bytes(&package));
			watcher_done(&w);
		}
	}
	sample_done(&s);
}

/* A waiter that comes at any time gets the members that have gone by, and can read them. */
static void a_member_that_has_gone_by_can_be_read_during_the_pass(void **state)
{
	static const enum sample_kind packages[] = { SAMPLE_DEB, SAMPLE_RPM, SAMPLE_TAR };
	struct sample s;

	sample_init(&s, 3, 20000);
	for (size_t i = 0; i < ARRAY_SIZE(kinds) * ARRAY_SIZE(packages); i++) {
		enum codec_kind codec = kinds[i % ARRAY_SIZE(kinds)];
		enum sample_kind kind = packages[i / ARRAY_SIZE(kinds)];
		AUTO(buf_done) struct buf package = { 0 };
		unsigned n_served = 0;

		sample_package(&s, kind, codec, &package);
		for (unsigned from = 1; from < 12; from += 5) {
			struct watcher w = { .from = from, .id = sample_id(&s, 1) };
			struct deep_tap tap = tap_of(&w);
			struct deep_result r;
			struct pkg_map *m;
			struct err err = { 0 };

			assert_done(
				pass_bytes(buf_bytes(&package), sample_name(kind, codec), &tap, &r, &err));
			deep_result_done(&r);
			assert_true(w.n_seen > 0);
			assert_int_equal(w.n_partial, 1);
			n_served++;
			assert_done(pkg_map_decode(buf_bytes(&w.map), &m, &err));
			expect_bytes(m, pkg_map_find(m, str_of(s.files[1].path)), buf_bytes(&package),
				     buf_bytes(&w.points), buf_bytes(&s.files[1].content));
			pkg_map_free(m);
			watcher_done(&w);
		}
		assert_int_equal(n_served, 3);
	}
	sample_done(&s);
}

/* A waiter gets no bytes that the check sums do not cover yet, although they have gone by. */
static void waiters_get_no_damaged_members(void **state)
{
	static const enum codec_kind checked[] = { CODEC_GZIP, CODEC_XZ, CODEC_BZIP2 };
	struct sample s;
	unsigned n_bad = 0;

	sample_init(&s, 9, 3000);
	for (size_t i = 0; i < ARRAY_SIZE(checked); i++) {
		AUTO(buf_done) struct buf package = { 0 };

		sample_package(&s, SAMPLE_DEB, checked[i], &package);
		for (size_t at = package.size / 8; at < package.size; at += package.size / 97) {
			struct watcher w = { .from = 1, .id = sample_id(&s, 1) };
			struct deep_tap tap = tap_of(&w);
			struct deep_result r;
			struct err err = { 0 };

			package.p[at] ^= 0x20;
			if (pass_bytes(buf_bytes(&package), "a.deb", &tap, &r, &err) == 0)
				deep_result_done(&r);
			else
				n_bad++;
			if (w.n_partial)
				expect_no_other(&s, 1, &w, buf_bytes(&package));
			package.p[at] ^= 0x20;
			watcher_done(&w);
		}
	}
	assert_true(n_bad > 200);
	sample_done(&s);
}

static void sha256_hex(struct bytes b, char *ret)
{
	uint8_t digest[32];

	assert_int_equal(sha256_load(NULL), 0);
	sha256_of(b, digest);
	hex_encode(bytes_of(digest, sizeof(digest)), ret);
}

/* If the compression has no check sums, the header's digest is checked. */
static void the_payload_is_checked_against_the_digest_in_the_header(void **state)
{
	static const enum codec_kind unchecked[] = { CODEC_ZSTD, CODEC_LZMA, CODEC_NONE };
	struct sample s;

	sample_init(&s, 10, 3000);
	for (size_t i = 0; i < ARRAY_SIZE(unchecked); i++) {
		AUTO(buf_done) struct buf plain = { 0 }, package = { 0 }, unnamed = { 0 }, other = { 0 };
		AUTO(arena_done) struct arena a = { 0 };
		struct pw_rpm rpm = {
			.codec = unchecked[i], .files = s.list, .n_files = 2, .digest_kind = 8
		};
		char hex[65];
		struct source *src;
		struct pkg_info info;
		struct deep_result r;
		struct err err = { 0 };

		pw_rpm(&plain, &rpm);
		src = source_of_mem(buf_bytes(&plain), "a.rpm");
		assert_done(pkg_open(src, STR("a.rpm"), &a, &info, &err));
		sha256_hex(bytes_of(plain.p + info.payload.off, (size_t)info.payload.size), hex);
		source_close(src);
		rpm.payload_digest = hex;
		pw_rpm(&package, &rpm);
		assert_done(pass_bytes(buf_bytes(&package), "a.rpm", NULL, &r, &err));
		deep_result_done(&r);
		package.p[package.size - info.payload.size / 2] ^= 1;
		assert_fails(pass_bytes(buf_bytes(&package), "a.rpm", NULL, &r, &err), ERR_INVALID,
			     "SHA-256");
		/* In v6 the kind is not named. */
		rpm.digest_kind = 0;
		pw_rpm(&unnamed, &rpm);
		unnamed.p[unnamed.size - info.payload.size / 2] ^= 1;
		assert_fails(pass_bytes(buf_bytes(&unnamed), "a.rpm", NULL, &r, &err), ERR_INVALID,
			     "SHA-256");
		/* A digest of an unknown kind is ignored. */
		rpm.digest_kind = 1;
		hex[5] ^= 1;
		pw_rpm(&other, &rpm);
		assert_done(pass_bytes(buf_bytes(&other), "a.rpm", NULL, &r, &err));
		deep_result_done(&r);
	}
	sample_done(&s);
}

static void no_waiters_cost_nothing(void **state)
{
	AUTO(buf_done) struct buf package = { 0 };
	struct watcher w = { .id.size = 20 }, other = { .from = 1, .id.size = 20 };
	struct deep_tap tap = tap_of(&w), other_tap = tap_of(&other);
	struct deep_result r;
	struct err err = { 0 };
	struct sample s;

	sample_init(&s, 4, 3000);
	sample_package(&s, SAMPLE_RPM, CODEC_ZSTD, &package);
	assert_done(pass_bytes(buf_bytes(&package), "a.rpm", &tap, &r, &err));
	deep_result_done(&r);
	assert_int_equal(w.n_seen + w.n_partial, 0);
	/* A waiter for something else is called once for each file, and gets no snapshot. */
	assert_done(pass_bytes(buf_bytes(&package), "a.rpm", &other_tap, &r, &err));
	deep_result_done(&r);
	assert_true(other.n_seen > 0 && other.n_seen < s.n);
	assert_int_equal(other.n_partial, 0);
	sample_done(&s);
}

/* One request after another comes, each for a build ID that is not there: on a clock that each comparison moves. */
struct flood {
	unsigned n_requests, n_seen;
};

static int flood_progress(void *arg, uint64_t done)
{
	clock_test_advance(1);
	return 0;
}

static unsigned flood_wanted(void *arg)
{
	return ++((struct flood *)arg)->n_requests;
}

static bool flood_seen(void *arg, const struct elf_facts *what)
{
	((struct flood *)arg)->n_seen++;
	clock_test_advance(1);
	return false;
}

static void requests_at_any_rate_take_no_more_than_a_part_of_the_time(void **state)
{
	AUTO(mem_freep) struct pw_file *files = NEW_N(struct pw_file, 1000);
	AUTO(buf_done) struct buf tar = { 0 };
	struct flood flood = { 0 };
	struct deep_tap tap = { &flood, flood_progress, flood_wanted, flood_seen };
	struct deep_result r;
	struct err err = { 0 };
	struct sample s;

	sample_init(&s, 13, 1000);
	for (size_t i = 0; i < 1000; i++)
		files[i] = (struct pw_file){ .path = "program", .content = buf_bytes(&s.files[0].content) };
	pw_tar(&tar, PW_USTAR, files, 1000);
	clock_test_freeze(1000);
	assert_done(pass_bytes(buf_bytes(&tar), "a.tar", &tap, &r, &err));
	clock_test_thaw();
	assert_int_equal(r.n_artifacts, 1000);
	deep_result_done(&r);
	assert_true(flood.n_requests > 1000);
	/* Each file as it goes by, a fifth of the time for those before it, and all at the end. */
	assert_in_range(flood.n_seen, 2000, 5000);
	sample_done(&s);
}

/* The progress is told in bytes of the package, of which few may decode to many. */
static void progress_is_in_compressed_bytes(void **state)
{
	AUTO(buf_done) struct buf noise = { 0 }, zeros = { 0 }, tar = { 0 };

	test_fill(buf_reserve(&noise, 300000), 300000, 5);
	noise.size = 300000;
	memset(buf_reserve(&zeros, MIB(8)), 0, MIB(8));
	zeros.size = MIB(8);
	struct pw_file files[] = {
		{ .path = "noise", .content = buf_bytes(&noise) },
		{ .path = "zeros", .content = buf_bytes(&zeros) },
	};
	pw_tar(&tar, PW_GNU, files, ARRAY_SIZE(files));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		AUTO(buf_done) struct buf package = { 0 };
		struct watcher w = { 0 };
		struct deep_tap tap = tap_of(&w);
		struct deep_result r;
		struct err err = { 0 };

		pw_compress(&package, kinds[i], 0, buf_bytes(&tar));
		assert_done(pass_bytes(buf_bytes(&package), "a.tar", &tap, &r, &err));
		deep_result_done(&r);
		/* A few bytes are read twice: the head, and the index of an xz file. */
		assert_in_range(w.done, package.size, package.size + KIB(64));
	}
}

static void one_of_many_blocks_is_read_by_its_points(void **state)
{
	AUTO(buf_done) struct buf zeros = { 0 }, tar = { 0 }, package = { 0 };
	struct codec_points_info info;
	struct deep_result r;
	struct pkg_map *m;
	struct err err = { 0 };
	struct sample s;

	/* A small package has no points. */
	memset(buf_reserve(&zeros, MIB(20)), 0, MIB(20));
	zeros.size = MIB(20);
	pw_tar(&tar, PW_GNU, &(struct pw_file){ .path = "usr/bin/zeros", .content = buf_bytes(&zeros) }, 1);
	tar.size -= 1024;
	sample_init(&s, 5, 3000);
	pw_tar(&tar, PW_GNU, s.list, s.n);
	packed_xz(&package, buf_bytes(&tar), 0, MIB(1), LZMA_CHECK_CRC32);
	assert_done(pass_bytes(buf_bytes(&package), "a.tar.xz", NULL, &r, &err));
	assert_done(codec_points_info(buf_bytes(&r.points), &info, &err));
	assert_true(info.n_spans > 5);
	assert_done(pkg_map_decode(buf_bytes(&r.map), &m, &err));
	assert_int_equal(m->n_entries, s.n + 1);
	for (size_t i = 0; i < s.n; i++)
		expect_bytes(m, pkg_map_find(m, str_of(s.files[i].path)), buf_bytes(&package),
			     buf_bytes(&r.points), buf_bytes(&s.files[i].content));
	pkg_map_free(m);
	deep_result_done(&r);
	sample_done(&s);
}

/* ---- damage ---- */

static void a_cut_package_is_an_error(void **state)
{
	struct sample s;

	sample_init(&s, 6, 2000);
	for (enum sample_kind kind = 0; kind < SAMPLE_N; kind++) {
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			AUTO(buf_done) struct buf package = { 0 };

			sample_package(&s, kind, kinds[i], &package);
			for (size_t part = 0; part < 16; part++) {
				struct deep_result r;
				struct err err = { 0 };

				assert_true(pass_bytes(bytes_of(package.p, package.size * part / 16),
						       sample_name(kind, kinds[i]), NULL, &r, &err) < 0);
				assert_true(err.kind != ERR_NONE && err.text[0]);
			}
		}
	}
	sample_done(&s);
}

static void a_read_that_fails_is_an_error_wherever_it_is(void **state)
{
	struct sample s;

	sample_init(&s, 7, 2000);
	for (enum sample_kind kind = 0; kind < SAMPLE_N; kind++) {
		AUTO(buf_done) struct buf package = { 0 };
		unsigned n;

		sample_package(&s, kind, CODEC_GZIP, &package);
		for (n = 0;; n++) {
			struct source *src = fault_source_new(source_of_mem(buf_bytes(&package), "p"), true);
			struct deep_result r;
			struct err err = { 0 };
			int status;

			fault_fail_at(src, n);
			status = pass_source(src, sample_name(kind, CODEC_GZIP), NULL, &r, &err);
			if (status == 0 && fault_reads(src) <= n) {
				source_close(src);
				expect_sample(&s, &r, buf_bytes(&package));
				deep_result_done(&r);
				break;
			}
			if (status == 0) {
				/* Reading one file again failed: one file less. */
				deep_result_done(&r);
			} else {
				assert_int_equal(err.kind, ERR_IO);
			}
			source_close(src);
		}
		assert_true(n > 3);
	}
	sample_done(&s);
}

static void a_file_that_is_no_package_is_an_error(void **state)
{
	struct deep_result r;
	struct err err = { 0 };

	assert_fails(pass_bytes(bytes_of("just a line of text\n", 20), "a.deb", NULL, &r, &err), ERR_INVALID,
		     "not a package");
	assert_fails(pass_bytes((struct bytes){ 0 }, "a.rpm", NULL, &r, &err), ERR_INVALID, "not a package");
}

static void unsafe_names_are_not_served_and_hide_nothing(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct deep_result r;
	struct pkg_map *m;
	struct err err = { 0 };
	struct sample s;

	sample_init(&s, 8, 2000);
	/* Both have to be read a second time. */
	struct pw_file list[] = {
		{ .path = "../../etc/evil", .content = buf_bytes(&s.files[8].content) },
		{ .path = "usr/lib/good", .content = buf_bytes(&s.files[8].content) },
	};
	struct build_id id = sample_id(&s, 8);

	pw_tar(&tar, PW_GNU, list, 2);
	assert_done(pass_bytes(buf_bytes(&tar), "a.tar", NULL, &r, &err));
	assert_done(pkg_map_decode(buf_bytes(&r.map), &m, &err));
	assert_int_equal(m->n_entries, 1);
	assert_int_equal(r.n_artifacts, 1);
	assert_true(has_artifact(&r, &id, 1));
	assert_true(pkg_map_find(m, STR("usr/lib/good"))->is_elf);
	pkg_map_free(m);
	deep_result_done(&r);
	sample_done(&s);
}

/* ---- an archive that is read through libarchive ---- */

static void a_hard_link_is_the_file_that_was_there_before_it(void **state)
{
	static const struct pw_file files[] = {
		{ .path = "a.c", .content = { (const uint8_t *)"first\n", 6 } },
		{ .path = "h.c", .mode = S_IFREG | 0644, .link = "a.c" },
		{ .path = "a.c", .content = { (const uint8_t *)"the second\n", 11 } },
	};
	AUTO(buf_done) struct buf tar = { 0 };
	struct deep_result r;
	struct pkg_map *m;
	struct err err = { 0 };

	pw_tar(&tar, PW_USTAR, files, ARRAY_SIZE(files));
	assert_done(pass_bytes(buf_bytes(&tar), "t.tar", NULL, &r, &err));
	assert_done(pkg_map_decode(buf_bytes(&r.map), &m, &err));
	expect_bytes(m, pkg_map_find(m, STR("h.c")), buf_bytes(&tar), bytes_of(NULL, 0),
		     bytes_of("first\n", 6));
	expect_bytes(m, pkg_map_find(m, STR("a.c")), buf_bytes(&tar), bytes_of(NULL, 0),
		     bytes_of("the second\n", 11));
	pkg_map_free(m);
	deep_result_done(&r);
}

/* As tar extracts them: a hard link takes its path from the file before, and stays when another file takes that. */
static void a_hard_link_to_a_hard_link_is_the_file_of_that_time(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 };
	struct deep_result r;
	struct pkg_map *m;
	struct err err = { 0 };
	struct sample s;

	sample_init(&s, 12, 2000);
	struct bytes zero = buf_bytes(&s.files[0].content), one = buf_bytes(&s.files[1].content);
	struct pw_file files[] = {
		{ .path = "link", .content = one },     { .path = "first", .content = zero },
		{ .path = "link", .link = "first" },    { .path = "second", .link = "link" },
		{ .path = "link", .content = one },     { .path = "third", .link = "link" },
		{ .path = "fourth", .link = "second" },
	};
	struct build_id zero_id = sample_id(&s, 0);

	pw_tar(&tar, PW_USTAR, files, ARRAY_SIZE(files));
	assert_done(pass_bytes(buf_bytes(&tar), "t.tar", NULL, &r, &err));
	assert_done(pkg_map_decode(buf_bytes(&r.map), &m, &err));
	expect_bytes(m, pkg_map_find(m, STR("second")), buf_bytes(&tar), bytes_of(NULL, 0), zero);
	expect_bytes(m, pkg_map_find(m, STR("link")), buf_bytes(&tar), bytes_of(NULL, 0), one);
	expect_bytes(m, pkg_map_find(m, STR("third")), buf_bytes(&tar), bytes_of(NULL, 0), one);
	expect_bytes(m, pkg_map_find(m, STR("fourth")), buf_bytes(&tar), bytes_of(NULL, 0), zero);
	assert_true(has_artifact(&r, &zero_id, 3));
	pkg_map_free(m);
	deep_result_done(&r);
	sample_done(&s);
}

static void zip(const struct sample *s, size_t n, struct buf *ret)
{
	struct archive *a = archive_write_new();
	size_t used = 0;

	assert_int_equal(archive_write_set_format_zip(a), ARCHIVE_OK);
	assert_int_equal(archive_write_set_options(a, "zip:compression=store"), ARCHIVE_OK);
	archive_write_open_memory(a, buf_reserve(ret, MIB(4)), MIB(4), &used);
	for (size_t i = 0; i < n; i++) {
		struct archive_entry *e = archive_entry_new();

		archive_entry_set_pathname(e, s->list[i].path);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_size(e, (la_int64_t)s->list[i].content.size);
		assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
		archive_write_data(a, s->list[i].content.p, s->list[i].content.size);
		archive_entry_free(e);
	}
	archive_write_close(a);
	archive_write_free(a);
	ret->size = used;
}

static void other_archives_are_read_member_by_member(void **state)
{
	AUTO(buf_done) struct buf package = { 0 };
	struct deep_result r;
	struct pkg_map *m;
	struct err err = { 0 };
	struct sample s;

	sample_init(&s, 9, 3000);
	zip(&s, 10, &package);
	assert_done(pass_bytes(buf_bytes(&package), "a.zip", NULL, &r, &err));
	assert_done(pkg_map_decode(buf_bytes(&r.map), &m, &err));
	for (size_t i = 0; i < 10; i++) {
		const struct pkg_entry *e = pkg_map_find(m, str_of(s.files[i].path));

		assert_non_null(e);
		assert_int_equal(e->is_elf, s.files[i].id[0] != '\0');
		expect_bytes(m, e, buf_bytes(&package), (struct bytes){ 0 }, buf_bytes(&s.files[i].content));
	}
	pkg_map_free(m);
	deep_result_done(&r);
	sample_done(&s);
}

/* The first member of the zip claims an unknown compression method. */
static void a_member_that_cannot_be_unpacked_leaves_the_others(void **state)
{
	AUTO(buf_done) struct buf package = { 0 };
	struct deep_result r;
	struct pkg_map *m;
	struct err err = { 0 };
	struct sample s;
	bool local = false, central = false;

	sample_init(&s, 10, 3000);
	zip(&s, 5, &package);
	for (size_t i = 0; i + 12 < package.size; i++) {
		if (!local && memcmp(&package.p[i], "PK\3\4", 4) == 0) {
			package.p[i + 8] = 111;
			local = true;
		}
		if (!central && memcmp(&package.p[i], "PK\1\2", 4) == 0) {
			package.p[i + 10] = 111;
			central = true;
		}
	}
	assert_true(local && central);
	assert_done(pass_bytes(buf_bytes(&package), "a.zip", NULL, &r, &err));
	assert_done(pkg_map_decode(buf_bytes(&r.map), &m, &err));
	assert_int_equal(m->n_entries, 5);
	assert_false(pkg_map_find(m, str_of(s.files[0].path))->is_elf);
	assert_true(pkg_map_find(m, str_of(s.files[1].path))->is_elf);
	assert_true(pkg_map_find(m, str_of(s.files[4].path))->is_elf);
	pkg_map_free(m);
	deep_result_done(&r);
	sample_done(&s);
}

/* ---- one package by hand ---- */

static void one_package_by_its_path(void **state)
{
	AUTO(buf_done) struct buf package = { 0 }, points = { 0 };
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 16];
	struct pkg_map *m;
	struct err err = { 0 };
	struct sample s;

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/a.deb", dir);
	assert_fails(scan_one(path, 0, &m, &points, &err), ERR_IO, "no such file");
	sample_init(&s, 11, 3000);
	sample_package(&s, SAMPLE_DEB, CODEC_ZSTD, &package);
	test_file_write(path, package.p, package.size / 2);
	assert_true(scan_one(path, 0, &m, &points, &err) < 0);
	test_file_write(path, package.p, package.size);
	assert_done(scan_one(path, 2, &m, &points, &err));
	assert_int_equal(m->n_entries, s.n);
	pkg_map_free(m);
	sample_done(&s);
	test_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_and_codec_gives_every_member),
		cmocka_unit_test(a_stop_anywhere_is_a_clean_end),
		cmocka_unit_test(a_stop_and_waiters_are_noticed_in_bytes_of_no_file),
		cmocka_unit_test(a_member_that_has_gone_by_can_be_read_during_the_pass),
		cmocka_unit_test(waiters_get_no_damaged_members),
		cmocka_unit_test(the_payload_is_checked_against_the_digest_in_the_header),
		cmocka_unit_test(no_waiters_cost_nothing),
		cmocka_unit_test(requests_at_any_rate_take_no_more_than_a_part_of_the_time),
		cmocka_unit_test(progress_is_in_compressed_bytes),
		cmocka_unit_test(one_of_many_blocks_is_read_by_its_points),
		cmocka_unit_test(a_cut_package_is_an_error),
		cmocka_unit_test(a_read_that_fails_is_an_error_wherever_it_is),
		cmocka_unit_test(a_file_that_is_no_package_is_an_error),
		cmocka_unit_test(unsafe_names_are_not_served_and_hide_nothing),
		cmocka_unit_test(a_hard_link_is_the_file_that_was_there_before_it),
		cmocka_unit_test(a_hard_link_to_a_hard_link_is_the_file_of_that_time),
		cmocka_unit_test(other_archives_are_read_member_by_member),
		cmocka_unit_test(a_member_that_cannot_be_unpacked_leaves_the_others),
		cmocka_unit_test(one_package_by_its_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
