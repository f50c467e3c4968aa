/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deep pass: a package's payload is decoded once, from front to back. Members stream by: each is probed
 * for what it is as an ELF file, nothing is written anywhere, and the codec collects resume points as it
 * goes. What comes out is the package map, the points, and the rows that the index needs.
 *
 * A member whose tables lie where the probe did not keep bytes is looked at again at the end, by random
 * access through the points that were just made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include "scan/internal.h"

#define MAX_AGAIN      100000u
#define MAX_AGAIN_SLOW 16u /* where each is a decoding from the start */
#define SNAPSHOT_SHARE 4   /* between two snapshots, this many times what the last one took */

struct deep {
	struct source *src;
	const struct deep_tap *tap;
	struct pkg_info info;
	struct arena info_arena;
	struct codec_scan *scan; /* NULL: an archive that libarchive reads */
	struct pkg_reader *reader;
	struct elf_probe *probe;
	struct pkg_map_builder *builder;
	struct deep_result *out;

	struct pkg_entry *entries; /* all regular files so far; paths in names */
	size_t n_entries, room_entries;
	struct arena names;
	struct map by_path; /* path -> entry number + 1, for hard links */
	struct hard_link {
		struct str path, target;
		uint32_t number;
	} * hard_links;
	size_t n_hard_links, room_hard_links;
	uint32_t *again; /* numbers of members that the probe could not tell, rising */
	size_t n_again, room_again;
	bool snapshot_due;
	int64_t snapshot_end_ns, snapshot_took_ns;
	size_t n_told;  /* entries that `seen` was asked about */
	unsigned wants; /* the last answer of `wanted` */
	uint32_t number;
};

static void deep_done(struct deep *d)
{
	pkg_reader_close(d->reader);
	codec_scan_close(d->scan);
	elf_probe_free(d->probe);
	pkg_map_builder_free(d->builder);
	free(d->entries);
	free(d->hard_links);
	free(d->again);
	map_done(&d->by_path);
	arena_done(&d->names);
	arena_done(&d->info_arena);
}

void deep_result_done(struct deep_result *r)
{
	buf_done(&r->map);
	buf_done(&r->points);
	arena_done(&r->arena);
}

static int told(struct deep *d, struct err *err)
{
	uint64_t done = d->scan ? codec_scan_stream(d->scan)->off : 0;

	if (d->tap && d->tap->progress && d->tap->progress(d->tap->arg, done) != 0)
		return err_set(err, ERR_CANCELLED, "the scan was stopped");
	return 0;
}

static int told_by_digest(void *arg, struct err *err)
{
	return told(arg, err);
}

/* ---- who waits ---- */

static void add_all(struct deep *d, struct pkg_map_builder *b)
{
	for (size_t i = 0; i < d->n_entries; i++)
		pkg_map_add(b, &d->entries[i]);
}

/* A request waits for something that has just gone by: give it the map and the points as they stand. */
static void snapshot(struct deep *d)
{
	struct pkg_map_builder *b = pkg_map_builder_new(&d->info, &d->out->identity);
	AUTO(buf_done) struct buf map = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	const char *why = NULL;
	bool complete;
	struct err ignored;

	add_all(d, b);
	/* As far as we got: a source over it must not promise more. */
	pkg_map_set_decoded_size(b, codec_scan_stream(d->scan)->off);
	pkg_map_encode(b, &map);
	pkg_map_builder_free(b);
	/* Without points the asker decodes from the start, once. */
	(void)codec_scan_points(d->scan, &points, &complete, &why, &ignored);
	d->tap->partial(d->tap->arg, &map, &points);
}

/*
 * One holds all that went by: where thousands of files of a large package are asked for at once, one for each
 * would take longer than the pass. The first is made at once, others when they are due.
 */
static void snapshot_now_and_then(struct deep *d)
{
	int64_t now_ns = clock_mono_ns();

	if (now_ns - d->snapshot_end_ns < SNAPSHOT_SHARE * d->snapshot_took_ns)
		return;
	d->snapshot_due = false;
	snapshot(d);
	d->snapshot_end_ns = clock_mono_ns();
	d->snapshot_took_ns = d->snapshot_end_ns - now_ns;
}

/*
 * What the package's own check sums do not vouch for yet is nobody's: were it damaged, its reply would be out
 * before that is known.
 */
static void tell_waiters(struct deep *d)
{
	unsigned wants = d->tap && d->scan ? d->tap->wanted(d->tap->arg) : 0;
	uint64_t checked;

	if (!wants)
		return;
	if (wants != d->wants) {
		/* Somebody new: what he waits for may have gone by long ago. */
		d->wants = wants;
		d->n_told = 0;
	}
	checked = codec_scan_checked(d->scan);
	for (; d->n_told < d->n_entries; d->n_told++) {
		const struct pkg_entry *e = &d->entries[d->n_told];

		if (e->off != PKG_NO_OFF && e->off + e->size > checked)
			break;

		if (e->is_elf && e->elf.build_id.size && e->off != PKG_NO_OFF &&
		    d->tap->seen(d->tap->arg, &e->elf))
			d->snapshot_due = true;
	}
	if (d->snapshot_due)
		snapshot_now_and_then(d);
}

/* ---- one member ---- */

static enum codec_kind inner_codec(struct str path)
{
	if (str_ends(path, STR(".ko.xz")))
		return CODEC_XZ;
	if (str_ends(path, STR(".ko.zst")))
		return CODEC_ZSTD;
	if (str_ends(path, STR(".ko.gz")))
		return CODEC_GZIP;
	return CODEC_NONE;
}

static struct pkg_entry *entry_new(struct deep *d)
{
	if (d->n_entries == d->room_entries) {
		d->room_entries = d->room_entries ? 2 * d->room_entries : 256;
		d->entries = mem_realloc(d->entries, d->room_entries, sizeof(*d->entries));
	}
	memset(&d->entries[d->n_entries], 0, sizeof(*d->entries));
	return &d->entries[d->n_entries++];
}

/*
 * The next piece of the current member. One of an archive that libarchive reads may be compressed in a way
 * that it does not know: that is the end of this member, not of the package (of the reader it is if the next
 * member fails, too).
 */
static int next_piece(struct deep *d, struct bytes *ret, struct err *err)
{
	if (pkg_reader_data(d->reader, ret, err) == 0)
		return 0;
	*ret = (struct bytes){ 0 };
	return d->info.kind == PKG_OTHER ? 0 : -1;
}

/* The current member goes by, piece by piece (a stop or a new waiter is noticed in a 600 MB one too). */
static int probe_plain(struct deep *d, struct err *err)
{
	for (;;) {
		struct bytes piece;

		if (next_piece(d, &piece, err) < 0)
			return -1;
		if (!piece.size)
			return 0;
		if (elf_probe_wants(d->probe))
			elf_probe_feed(d->probe, piece);
		if (told(d, err) < 0)
			return -1;
		tell_waiters(d);
	}
}

/* A compressed module: gather it (small), decode it into the probe. A damaged one is no ELF file; the scan
 * goes on. */
static int probe_inner(struct deep *d, struct pkg_entry *e, bool *ret_is_elf, struct err *err)
{
	AUTO(buf_done) struct buf raw = { 0 };
	AUTO(buf_done) struct buf module = { 0 };
	struct err inner_err = { 0 };
	int r;

	*ret_is_elf = false;
	for (;;) {
		struct bytes piece;

		if (next_piece(d, &piece, err) < 0 || told(d, err) < 0)
			return -1;
		if (!piece.size)
			break;
		if (raw.size + piece.size > SCAN_MAX_INNER)
			return 0;
		buf_add(&raw, piece.p, piece.size);
	}
	if (codec_decode_all(e->inner, buf_bytes(&raw), SCAN_MAX_INNER, &module, &inner_err) < 0)
		return 0;

	struct source *src = source_of_mem(buf_bytes(&module), "module");

	r = elf_facts_read(src, &e->elf, &inner_err);
	source_close(src);
	e->inner_size = module.size;
	*ret_is_elf = r == 0;
	return 0;
}

static void again_add(struct deep *d, uint32_t number)
{
	if (d->n_again == MAX_AGAIN)
		return;
	if (d->n_again == d->room_again) {
		d->room_again = d->room_again ? 2 * d->room_again : 16;
		d->again = mem_realloc(d->again, d->room_again, sizeof(*d->again));
	}
	d->again[d->n_again++] = number;
}

static int regular(struct deep *d, const struct pkg_member *m, struct err *err)
{
	struct pkg_entry e = {
		.path = arena_str(&d->names, m->path),
		.number = d->number,
		.mode = m->mode,
		.size = m->size,
		.off = m->off,
		.mtime = m->mtime,
	};
	int r;

	if (d->scan && m->size >= SCAN_LANDMARK_SIZE && m->off != PKG_NO_OFF)
		codec_scan_landmark(d->scan, m->off);

	e.inner = inner_codec(e.path);
	if (e.inner != CODEC_NONE) {
		if (probe_inner(d, &e, &e.is_elf, err) < 0)
			return -1;
		if (!e.is_elf)
			e.inner = CODEC_NONE;
	} else if (m->size >= 4) {
		struct err elf_err = { 0 };

		elf_probe_start(d->probe, m->size);
		if (probe_plain(d, err) < 0)
			return -1;
		r = elf_probe_finish(d->probe, &e.elf, &elf_err);
		/* One that is ELF by its magic but broken is served as a file by its path, not by any build
		 * ID. */
		e.is_elf = r == 0;
		if (e.is_elf && m->size >= SCAN_LANDMARK_SIZE)
			e.n_places = (uint32_t)elf_probe_places(d->probe, &d->names, &e.places);
		if (r == ELF_PROBE_AGAIN && !m->unsafe)
			again_add(d, d->number);
	}
	if (!m->unsafe) {
		*entry_new(d) = e;
		map_put(&d->by_path, bytes_of(e.path.p, e.path.size), (void *)d->n_entries);
	}
	return 0;
}

static void hard_link(struct deep *d, const struct pkg_member *m)
{
	if (m->unsafe)
		return;
	if (d->n_hard_links == d->room_hard_links) {
		d->room_hard_links = d->room_hard_links ? 2 * d->room_hard_links : 16;
		d->hard_links = mem_realloc(d->hard_links, d->room_hard_links, sizeof(*d->hard_links));
	}
	d->hard_links[d->n_hard_links++] = (struct hard_link){
		.path = arena_str(&d->names, m->path),
		.target = arena_str(&d->names, m->link),
		.number = d->number,
	};
}

static int members(struct deep *d, struct err *err)
{
	for (;; d->number++) {
		struct pkg_member m;
		int r = pkg_reader_next(d->reader, &m, err);

		if (r == PKG_END)
			return 0;
		if (r < 0)
			return err_in(err, "member %u", d->number);
		if (d->number >= PKG_MAX_MEMBERS)
			return err_set(err, ERR_LIMIT, "more than %u members", PKG_MAX_MEMBERS);
		switch (m.type) {
		case PKG_FILE:
			if (regular(d, &m, err) < 0)
				return err_in(err, "member " STR_FMT, STR_ARG(m.path));
			break;
		case PKG_HARDLINK:
			hard_link(d, &m);
			break;
		case PKG_SYMLINK:
			if (!m.unsafe)
				pkg_map_add_link(d->builder, m.path, m.link);
			break;
		case PKG_DIR:
		case PKG_SPECIAL:
			break;
		}
		if (told(d, err) < 0)
			return -1;
		tell_waiters(d);
	}
}

/* ---- the end ---- */

/* A hard link is its target under another name. The target may come behind it (cpio), or be a link itself,
 * so: until nothing changes. */
static void settle_hard_links(struct deep *d)
{
	bool again = true;

	for (unsigned round = 0; again && round < 4; round++) {
		again = false;
		for (size_t i = 0; i < d->n_hard_links; i++) {
			struct hard_link *l = &d->hard_links[i];
			size_t at = (size_t)map_get(&d->by_path, bytes_of(l->target.p, l->target.size));

			if (!l->path.p)
				continue;
			if (!at) {
				again = true;
				continue;
			}

			struct pkg_entry *e = entry_new(d);

			*e = d->entries[at - 1];
			e->path = l->path;
			e->number = l->number;
			map_put(&d->by_path, bytes_of(e->path.p, e->path.size), (void *)d->n_entries);
			l->path.p = NULL;
		}
	}
}

/* What the probe could not tell: read those members by random access, now that there are points. */
static int look_again(struct deep *d, struct err *err)
{
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *map = NULL;
	int r;

	if (!d->n_again)
		return 0;
	struct pkg_map_builder *b = pkg_map_builder_new(&d->info, &d->out->identity);

	add_all(d, b);
	pkg_map_set_decoded_size(b, d->scan ? codec_scan_stream(d->scan)->off : 0);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	r = pkg_map_decode(buf_bytes(&blob), &map, err);
	if (r < 0)
		return -1;

	/* Without random access the payload is decoded from its start for each: a package full of them would
	 * keep us for days. */
	size_t at = 0, max = d->n_again;

	if (!d->scan || (d->info.payload.codec != CODEC_NONE && !d->out->points.size))
		max = MIN(max, (size_t)MAX_AGAIN_SLOW);
	for (size_t i = 0; i < d->n_entries && at < max; i++) {
		struct pkg_entry *e = &d->entries[i];
		struct codec_source_options opts = { .points = buf_bytes(&d->out->points) };
		const struct pkg_entry *placed;
		struct source *member = NULL, *whole = NULL;
		struct err elf_err = { 0 };
		int fd;
		uint64_t off;

		if (e->number != d->again[at])
			continue;
		at++;
		placed = pkg_map_by_number(map, e->number);
		if (!placed)
			continue;
		/* pkg_entry_open() takes its source; ours is borrowed. */
		if (source_raw_fd(d->src, &fd, &off) && off == 0) {
			int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

			if (own < 0) {
				r = err_os(err, errno, "dup");
				break;
			}
			whole = source_of_fd(own, d->src->size, d->src->mtime, d->src->name);
		} else if (source_open_part(d->src, false, range_of(0, d->src->size), NULL, &whole, err) <
			   0) {
			r = -1;
			break;
		}
		if (pkg_entry_open(map, placed, whole, &opts, &member, &elf_err) == 0) {
			e->is_elf = elf_facts_read(member, &e->elf, &elf_err) == 0;
			source_close(member);
		}
		r = told(d, err);
		if (r < 0)
			break;
	}
	pkg_map_free(map);
	return r;
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void collect(struct deep *d)
{
	struct deep_result *out = d->out;
	size_t n = 0;

	out->artifacts = ARENA_NEW_N(&out->arena, struct index_artifact, d->n_entries + 1);
	out->dirs = ARENA_NEW_N(&out->arena, uint64_t, d->n_entries + 1);
	for (size_t i = 0; i < d->n_entries; i++) {
		const struct pkg_entry *e = &d->entries[i];

		out->dirs[i] = index_dir_hash(path_dirname(e->path));
		if (!e->is_elf || !e->elf.build_id.size)
			continue;
		if (!(e->elf.flags & (ELF_IS_EXECUTABLE | ELF_IS_DEBUG)))
			continue;
		out->artifacts[out->n_artifacts++] = (struct index_artifact){
			.build_id = e->elf.build_id,
			.flags = e->elf.flags,
			.member = e->number,
		};
	}
	qsort(out->dirs, d->n_entries, sizeof(*out->dirs), cmp_u64);
	for (size_t i = 0; i < d->n_entries; i++)
		if (!i || out->dirs[i] != out->dirs[i - 1])
			out->dirs[n++] = out->dirs[i];
	out->n_dirs = n;
}

static int pass(struct deep *d, struct str name, unsigned threads, struct err *err)
{
	struct codec_scan_options opts = { .threads = threads };
	const char *why = NULL;
	bool complete = false;
	int r;

	r = pkg_open(d->src, name, &d->info_arena, &d->info, err);
	if (r == PKG_NOT_A_PACKAGE)
		return err_set(err, ERR_INVALID, "no package or archive of a known kind");
	if (r < 0)
		return -1;
	if (digest_check(&d->info, d->src, told_by_digest, d, err) < 0)
		return -1;
	d->builder = pkg_map_builder_new(&d->info, &d->out->identity);
	if (d->info.kind != PKG_OTHER &&
	    codec_scan_open(d->info.payload.codec, d->src,
			    range_of(d->info.payload.off, d->info.payload.size), &opts, &d->scan, err) < 0)
		return -1;
	if (pkg_reader_open(&d->info, d->scan ? codec_scan_stream(d->scan) : NULL, d->src, &d->reader, err) <
	    0)
		return -1;
	if (members(d, err) < 0)
		return -1;
	if (d->scan) {
		/* Behind the archive's end there is padding; the codec's own checks come with its end. */
		struct bytes piece;

		do {
			if (stream_next(codec_scan_stream(d->scan), MIB(1), &piece, err) < 0 ||
			    told(d, err) < 0)
				return err_in(err, "behind the last member");
		} while (piece.size);
		tell_waiters(d);
		if (d->snapshot_due)
			snapshot(d);
		r = codec_scan_points(d->scan, &d->out->points, &complete, &why, err);
		if (r < 0)
			return -1;
	}
	if (look_again(d, err) < 0)
		return -1;
	/* Behind that: a link takes over what its target turned out to be. */
	settle_hard_links(d);
	add_all(d, d->builder);
	pkg_map_set_decoded_size(d->builder, d->scan ? codec_scan_stream(d->scan)->off : 0);
	pkg_map_encode(d->builder, &d->out->map);
	collect(d);
	return 0;
}

int deep_pass(const struct deep_input *in, const struct deep_tap *tap, struct deep_result *ret,
	      struct err *err)
{
	struct deep d = { .src = in->src, .tap = tap, .out = ret, .probe = elf_probe_new() };
	int r;

	memset(ret, 0, sizeof(*ret));
	arena_init(&ret->arena);
	arena_init(&d.info_arena);
	arena_init(&d.names);
	r = pkg_identity_read(in->src, in->st, &ret->identity, err);
	if (r == 0)
		r = pass(&d, in->name, in->threads, err);
	deep_done(&d);
	if (r < 0)
		deep_result_done(ret);
	return r;
}
