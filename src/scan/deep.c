/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deep pass: a package's payload is decoded once, from front to back. Members stream by: each is probed
 * as an ELF file, nothing is written anywhere, and the codec collects resume points on the way. The results
 * are the package map, the points, and the rows for the index.
 *
 * If the tables of a member are in bytes that the probe did not keep, the member is read again at the end, by
 * random access through the new points.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/pool.h"
#include "scan/internal.h"

#define MAX_AGAIN      100000u
#define MAX_AGAIN_SLOW 16u /* where each costs decoding from the start */
/* Bytes that are decoded for all of them: so many times those of the payload, */
#define AGAIN_FACTOR   64u
#define AGAIN_MORE     (UINT64_C(16) << 30)
#define SNAPSHOT_SHARE 4 /* the pause between two snapshots, in multiples of the time for the last one */
#define LOOK_SHARE     4 /* the same between two calls of `seen` for all files that have gone by */

struct deep {
	struct source *src;
	struct source_counted *counted; /* over it; perhaps read on several threads */
	const struct deep_input *in;
	const struct deep_tap *tap;
	bool urgent;
	struct pkg_info info;
	struct arena info_arena;
	struct codec_scan *scan; /* NULL: an archive that libarchive reads */
	struct stream payload;   /* what `scan` decodes, for the reader */
	struct pkg_reader *reader;
	struct elf_probe *probe;
	struct pkg_map_builder *builder;
	struct deep_result *out;

	struct pkg_entry *entries; /* all regular files so far; paths in names */
	size_t n_entries, room_entries;
	struct arena names;
	struct map by_path; /* path, also of a hard link -> place in `entries` + 1, for hard links */
	struct deep_hard_link {
		struct str path, target;
		uint32_t number;
		size_t at; /* place in `entries` + 1 of the file that had the target's path then; 0: none did */
	} * hard_links;
	size_t n_hard_links, room_hard_links;
	uint32_t *again; /* numbers of members that the probe could not classify, rising */
	size_t n_again, room_again;
	bool snapshot_due;
	int64_t snapshot_end_ns, snapshot_took_ns;
	size_t n_seen;  /* entries for which `seen` was called */
	unsigned wants; /* the result of `wanted` when it was called for all */
	int64_t look_end_ns, look_took_ns;
	uint32_t number;
};

/* Long work yields to other processes, unless a request waits for it. */
static void deep_set_urgent(struct deep *d, bool urgent)
{
	int nice = urgent ? d->in->urgent_nice : d->in->nice;

	if (urgent == d->urgent)
		return;
	d->urgent = urgent;
	/* Without the privilege the pass goes on as it is. */
	if (thread_set_nice(nice) && d->scan)
		codec_scan_renice(d->scan, nice);
}

static void deep_done(struct deep *d)
{
	deep_set_urgent(d, false);
	pkg_reader_close(d->reader);
	codec_scan_close(d->scan);
	source_close(d->counted ? &d->counted->base : NULL);
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
	free(r->aliases);
	arena_done(&r->arena);
}

static int deep_progress(struct deep *d, struct err *err)
{
	uint64_t done = d->counted ? atomic_load_explicit(&d->counted->n_read, memory_order_relaxed) : 0;

	if (d->tap && d->tap->progress && d->tap->progress(d->tap->arg, done) != 0)
		return err_set(err, ERR_CANCELLED, "the scan was stopped");
	return 0;
}

static int deep_digest_progress(void *arg, struct err *err)
{
	return deep_progress(arg, err);
}

/* ---- waiters ---- */

static void deep_add_all(struct deep *d, struct pkg_map_builder *b)
{
	for (size_t i = 0; i < d->n_entries; i++)
		pkg_map_add(b, &d->entries[i]);
}

/* A request waits for a member that has just gone by: give it the map and the points so far. */
static void deep_snapshot(struct deep *d)
{
	struct pkg_map_builder *b = pkg_map_builder_new(&d->info, &d->out->identity);
	AUTO(buf_done) struct buf map = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	const char *why = NULL;
	bool complete;
	struct err ignored;

	deep_add_all(d, b);
	/* The size decoded so far: a source over the map must not promise more. */
	pkg_map_set_decoded_size(b, codec_scan_stream(d->scan)->off);
	pkg_map_encode(b, &map);
	pkg_map_builder_free(b);
	/* Without points the request decodes from the start, once. */
	(void)codec_scan_points(d->scan, &points, &complete, &why, &ignored);
	d->tap->partial(d->tap->arg, &map, &points);
}

/*
 * One snapshot holds all members so far. Where thousands of files of a large package are requested at once, a
 * snapshot for each would take longer than the pass. The first is made at once, others when they are due.
 */
static void deep_snapshot_due(struct deep *d)
{
	int64_t now_ns = clock_mono_ns();

	if (now_ns - d->snapshot_end_ns < SNAPSHOT_SHARE * d->snapshot_took_ns)
		return;
	d->snapshot_due = false;
	deep_snapshot(d);
	d->snapshot_end_ns = clock_mono_ns();
	d->snapshot_took_ns = d->snapshot_end_ns - now_ns;
}

/*
 * There are waiters whose files may have gone by long ago. Are all files to be compared now? A package may have a hundred
 * thousand, and requests for build IDs that nobody has may come at any rate: that must not take most of the pass's time.
 */
static bool deep_looks_again(const struct deep *d, unsigned wants, int64_t now_ns)
{
	return wants != d->wants && now_ns - d->look_end_ns >= LOOK_SHARE * d->look_took_ns;
}

/*
 * Members that the package's check sums do not cover yet are not served: if they were damaged, the reply
 * would be out before that is known.
 */
static void deep_notify_waiters(struct deep *d)
{
	unsigned wants = d->tap && d->scan ? d->tap->wanted(d->tap->arg) : 0;
	uint64_t checked;
	int64_t from_ns;
	bool looks;

	if (!wants)
		return;
	deep_set_urgent(d, d->tap->is_urgent && d->tap->is_urgent(d->tap->arg));
	from_ns = wants != d->wants ? clock_mono_ns() : 0;
	looks = deep_looks_again(d, wants, from_ns);
	if (looks) {
		d->wants = wants;
		d->n_seen = 0;
	}
	checked = codec_scan_checked(d->scan);
	for (; d->n_seen < d->n_entries; d->n_seen++) {
		const struct pkg_entry *e = &d->entries[d->n_seen];

		if (e->off != PKG_NO_OFF && e->off + e->size > checked)
			break;

		if (e->is_elf && e->elf.build_id.size && e->off != PKG_NO_OFF &&
		    d->tap->seen(d->tap->arg, &e->elf))
			d->snapshot_due = true;
	}
	if (looks) {
		d->look_end_ns = clock_mono_ns();
		d->look_took_ns = d->look_end_ns - from_ns;
	}
	if (d->snapshot_due)
		deep_snapshot_due(d);
}

/* ---- the payload ---- */

/*
 * The reader skips members that are not files, and reads on after the archive's end: gigabytes, in one call. So a stop and
 * new waiters are noticed here, too. Before each read: afterwards the reader has a view of the decoder's bytes.
 */
static int payload_progress(struct deep *d, struct err *err)
{
	if (deep_progress(d, err) < 0)
		return -1;
	deep_notify_waiters(d);
	return 0;
}

static int payload_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct deep *d = CONTAINER_OF(s, struct deep, payload);

	if (payload_progress(d, err) < 0)
		return -1;
	return stream_read(codec_scan_stream(d->scan), buf, n, ret_got, err);
}

static int payload_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct deep *d = CONTAINER_OF(s, struct deep, payload);

	if (payload_progress(d, err) < 0)
		return -1;
	return stream_next(codec_scan_stream(d->scan), max, ret, err);
}

static const struct stream_ops payload_ops = { .read = payload_read, .next = payload_next };

/* ---- one member ---- */

static enum codec_kind deep_inner_codec(struct str path)
{
	if (str_ends(path, STR(".ko.xz")))
		return CODEC_XZ;
	if (str_ends(path, STR(".ko.zst")))
		return CODEC_ZSTD;
	if (str_ends(path, STR(".ko.gz")))
		return CODEC_GZIP;
	return CODEC_NONE;
}

static struct pkg_entry *deep_entry_new(struct deep *d)
{
	VEC_GROW(d->entries, d->n_entries, d->room_entries);
	memset(&d->entries[d->n_entries], 0, sizeof(*d->entries));
	return &d->entries[d->n_entries++];
}

/*
 * The next chunk of the current member. A member of an archive that libarchive reads may be compressed by an
 * unknown method: this ends the member, not the package (it ends the archive if the next member fails, too).
 */
static int member_next_chunk(struct deep *d, struct bytes *ret, struct err *err)
{
	if (pkg_reader_data(d->reader, ret, err) == 0)
		return 0;
	*ret = (struct bytes){ 0 };
	return d->info.kind == PKG_OTHER ? 0 : -1;
}

/* Probe the current member chunk by chunk (a stop or a new waiter is noticed in a 600 MB member too). */
static int member_probe_plain(struct deep *d, struct err *err)
{
	for (;;) {
		struct bytes piece;

		if (member_next_chunk(d, &piece, err) < 0)
			return -1;
		if (!piece.size)
			return 0;
		if (elf_probe_wants(d->probe))
			elf_probe_feed(d->probe, piece);
		if (deep_progress(d, err) < 0)
			return -1;
		deep_notify_waiters(d);
	}
}

/* A compressed module: gather it (it is small), decode it into the probe. A damaged one is no ELF file; the
 * scan goes on. */
static int member_probe_inner(struct deep *d, struct pkg_entry *e, bool *ret_is_elf, struct err *err)
{
	AUTO(buf_done) struct buf raw = { 0 };
	AUTO(buf_done) struct buf module = { 0 };
	AUTO(budget_hold_done) struct budget_hold hold = { 0 };
	struct err inner_err = { 0 };
	int r;

	*ret_is_elf = false;
	inner_begin(&hold);
	for (;;) {
		struct bytes piece;

		if (member_next_chunk(d, &piece, err) < 0 || deep_progress(d, err) < 0)
			return -1;
		if (!piece.size)
			break;
		if (raw.size + piece.size > SCAN_MAX_INNER)
			return 0;
		if (budget_hold_add(&hold, piece.size, err) < 0)
			return -1;
		buf_add(&raw, piece.p, piece.size);
	}
	if (inner_unpack(e->inner, buf_bytes(&raw), &hold, &module, &inner_err) < 0) {
		if (inner_err.kind != ERR_BUSY)
			return 0;
		if (err)
			*err = inner_err;
		return -1;
	}

	struct source *src = source_of_mem(buf_bytes(&module), "module");

	r = elf_facts_read(src, &e->elf, &inner_err);
	source_close(src);
	e->inner_size = module.size;
	*ret_is_elf = r == 0;
	return 0;
}

static void deep_again_add(struct deep *d, uint32_t number)
{
	if (d->n_again == MAX_AGAIN)
		return;
	VEC_PUSH(d->again, d->n_again, d->room_again) = number;
}

/* Hard links to it have the same build ID, and need no aliases of their own. */
static void deep_add_aliases(struct deep *d, const struct elf_facts *facts, const struct elf_aliases *aliases)
{
	struct deep_result *out = d->out;

	if (!facts->build_id.size || !(facts->flags & (ELF_IS_EXECUTABLE | ELF_IS_DEBUG)))
		return;
	for (unsigned i = 0; i < aliases->n; i++)
		VEC_PUSH(out->aliases, out->n_aliases,
			 out->room_aliases) = (struct index_alias){ aliases->v[i].id, facts->build_id };
}

static int deep_regular(struct deep *d, const struct pkg_member *m, struct err *err)
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

	e.inner = deep_inner_codec(e.path);
	if (e.inner != CODEC_NONE) {
		if (member_probe_inner(d, &e, &e.is_elf, err) < 0)
			return -1;
		if (!e.is_elf)
			e.inner = CODEC_NONE;
	} else if (m->size >= 4) {
		struct err elf_err = { 0 };

		elf_probe_start(d->probe, m->size);
		if (member_probe_plain(d, err) < 0)
			return -1;
		r = elf_probe_finish(d->probe, &e.elf, &elf_err);
		/* A file with ELF magic that is broken is served by its path, not by any build ID. */
		e.is_elf = r == 0;
		if (e.is_elf && !m->unsafe)
			deep_add_aliases(d, &e.elf, elf_probe_aliases(d->probe));
		if (e.is_elf && m->size >= SCAN_LANDMARK_SIZE)
			e.n_places = (uint32_t)elf_probe_places(d->probe, &d->names, &e.places);
		if (r == ELF_PROBE_AGAIN && !m->unsafe)
			deep_again_add(d, d->number);
	}
	if (!m->unsafe) {
		*deep_entry_new(d) = e;
		map_put(&d->by_path, bytes_of(e.path.p, e.path.size), (void *)d->n_entries);
	}
	return 0;
}

static void deep_hard_link(struct deep *d, const struct pkg_member *m)
{
	struct deep_hard_link *l;

	if (m->unsafe)
		return;
	VEC_GROW(d->hard_links, d->n_hard_links, d->room_hard_links);
	l = &d->hard_links[d->n_hard_links++];
	*l = (struct deep_hard_link){
		.path = arena_str(&d->names, m->path),
		.target = arena_str(&d->names, m->link),
		.number = d->number,
		.at = (size_t)map_get(&d->by_path, bytes_of(m->link.p, m->link.size)),
	};
	/* A link to this path is one to that file, until another member has the path. */
	if (l->at)
		map_put(&d->by_path, bytes_of(l->path.p, l->path.size), (void *)l->at);
}

static int deep_members(struct deep *d, struct err *err)
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
			if (deep_regular(d, &m, err) < 0)
				return err_in(err, "member " STR_FMT, STR_ARG(m.path));
			break;
		case PKG_HARDLINK:
			deep_hard_link(d, &m);
			break;
		case PKG_SYMLINK:
			if (!m.unsafe)
				pkg_map_add_link(d->builder, m.path, m.link);
			break;
		case PKG_DIR:
		case PKG_SPECIAL:
			break;
		}
		if (deep_progress(d, err) < 0)
			return -1;
		deep_notify_waiters(d);
	}
}

/* ---- the end ---- */

/*
 * A hard link is its target under another name: the file that had that path when the link came, since an archive may have
 * another one of this path later (tar -r). If there was none, the target comes later, perhaps as another such link, so this
 * repeats until nothing changes.
 */
static void deep_resolve_links(struct deep *d)
{
	bool again = true;

	for (unsigned round = 0; again && round < 4; round++) {
		again = false;
		for (size_t i = 0; i < d->n_hard_links; i++) {
			struct deep_hard_link *l = &d->hard_links[i];
			size_t at = l->at ? l->at
					  : (size_t)map_get(&d->by_path,
							    bytes_of(l->target.p, l->target.size));

			if (!l->path.p)
				continue;
			if (!at) {
				again = true;
				continue;
			}

			struct pkg_entry *e = deep_entry_new(d);

			*e = d->entries[at - 1];
			e->path = l->path;
			e->number = l->number;
			/* Not in place of a file that came after the link. */
			if (!map_get(&d->by_path, bytes_of(e->path.p, e->path.size)))
				map_put(&d->by_path, bytes_of(e->path.p, e->path.size), (void *)d->n_entries);
			l->path.p = NULL;
		}
	}
}

/*
 * How many bytes may be decoded to read one member again: all before it in its span. Points do not bound that by themselves: a
 * file may have one span (a single block of xz) or long ones. 0: nothing is decoded.
 */
static uint64_t again_span_max(const struct deep *d)
{
	struct codec_points_info info;

	if (!d->scan || d->info.payload.codec == CODEC_NONE)
		return 0;
	if (codec_points_info(buf_bytes(&d->out->points), &info, NULL) < 0)
		return UINT64_MAX;
	return info.max_span;
}

/* A member without an offset is read from the start of the payload (slow.c). */
static uint64_t again_cost(const struct deep *d, const struct pkg_entry *e, uint64_t span_max)
{
	if (e->off == PKG_NO_OFF)
		return d->scan ? codec_scan_stream(d->scan)->off : 0;
	return MIN(e->off + e->size, span_max);
}

/* The limit of again_cost() over all members. */
static uint64_t again_decoded_max(const struct deep *d)
{
	uint64_t out = d->scan ? codec_scan_stream(d->scan)->off : 0, max;

	return mul_overflows(out, AGAIN_FACTOR, &max) || add_overflows(max, AGAIN_MORE, &max) ? UINT64_MAX
											      : max;
}

/* Read the members that the probe could not classify by random access, now that there are points. */
static int deep_probe_again(struct deep *d, struct err *err)
{
	AUTO(buf_done) struct buf blob = { 0 };
	struct pkg_map *map = NULL;
	int r;

	if (!d->n_again)
		return 0;
	struct pkg_map_builder *b = pkg_map_builder_new(&d->info, &d->out->identity);

	deep_add_all(d, b);
	pkg_map_set_decoded_size(b, d->scan ? codec_scan_stream(d->scan)->off : 0);
	pkg_map_encode(b, &blob);
	pkg_map_builder_free(b);
	r = pkg_map_decode(buf_bytes(&blob), &map, err);
	if (r < 0)
		return -1;

	/* Without random access each of these decodes the payload from its start: a package full of them
	 * would take days. */
	size_t at = 0, max = d->n_again;
	uint64_t span_max = again_span_max(d), decoded_max = again_decoded_max(d), decoded = 0;

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
		if (at >= MAX_AGAIN_SLOW && decoded > decoded_max)
			break;
		at++;
		decoded += again_cost(d, e, span_max);
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
			struct elf_aliases aliases;
			enum build_id_kind kind;

			e->is_elf = elf_identify(member, &e->elf, &kind, &aliases, &elf_err) == 0;
			if (e->is_elf)
				deep_add_aliases(d, &e->elf, &aliases);
			source_close(member);
		}
		r = deep_progress(d, err);
		if (r < 0)
			break;
	}
	d->out->n_left_out = d->n_again - at;
	pkg_map_free(map);
	return r;
}

static int dirs_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void deep_collect(struct deep *d)
{
	struct deep_result *out = d->out;
	size_t n = 0;

	out->artifacts = ARENA_NEW_N(&out->arena, struct index_artifact, d->n_entries + 1);
	out->paths = ARENA_NEW_N(&out->arena, struct str, d->n_entries + 1);
	out->dirs = ARENA_NEW_N(&out->arena, uint64_t, d->n_entries + 1);
	for (size_t i = 0; i < d->n_entries; i++) {
		const struct pkg_entry *e = &d->entries[i];

		out->dirs[i] = index_dir_hash(path_dirname(e->path));
		if (!e->is_elf || !e->elf.build_id.size)
			continue;
		if (!(e->elf.flags & (ELF_IS_EXECUTABLE | ELF_IS_DEBUG)))
			continue;
		out->paths[out->n_artifacts] = e->elf.flags & ELF_IS_EXECUTABLE
						       ? str_of(arena_printf(&out->arena, "/" STR_FMT,
									     STR_ARG(e->path)))
						       : STR("");
		out->artifacts[out->n_artifacts++] = (struct index_artifact){
			.build_id = e->elf.build_id,
			.flags = e->elf.flags,
			.member = e->number,
		};
	}
	qsort(out->dirs, d->n_entries, sizeof(*out->dirs), dirs_compare);
	for (size_t i = 0; i < d->n_entries; i++)
		if (!i || out->dirs[i] != out->dirs[i - 1])
			out->dirs[n++] = out->dirs[i];
	out->n_dirs = n;
}

static int deep_decode(struct deep *d, struct str name, unsigned threads, struct err *err)
{
	struct codec_scan_options opts = { .threads = threads };
	const char *why = NULL;
	bool complete = false;
	int r;

	r = pkg_open(d->src, name, &d->info_arena, &d->info, err);
	if (r == PKG_NOT_A_PACKAGE)
		return err_set(err, ERR_INVALID, "not a package or archive of a known kind");
	if (r < 0)
		return -1;
	if (digest_check(&d->info, d->src, deep_digest_progress, d, err) < 0)
		return -1;
	d->builder = pkg_map_builder_new(&d->info, &d->out->identity);
	d->counted = source_counted_new(d->src);
	if (d->info.kind != PKG_OTHER &&
	    codec_scan_open(d->info.payload.codec, &d->counted->base,
			    range_of(d->info.payload.off, d->info.payload.size), &opts, &d->scan, err) < 0)
		return -1;
	d->payload.ops = &payload_ops;
	if (pkg_reader_open(&d->info, d->scan ? &d->payload : NULL, &d->counted->base, &d->reader, err) < 0)
		return -1;
	if (deep_members(d, err) < 0)
		return -1;
	if (d->scan) {
		/* Padding follows the archive's end; the codec checks its sums at its own end. */
		struct bytes piece;

		do {
			if (stream_next(codec_scan_stream(d->scan), MIB(1), &piece, err) < 0 ||
			    deep_progress(d, err) < 0)
				return err_in(err, "after the last member");
		} while (piece.size);
		/* The last look: the reading of members again, after it, may take long. */
		d->look_took_ns = 0;
		deep_notify_waiters(d);
		if (d->snapshot_due)
			deep_snapshot(d);
		r = codec_scan_points(d->scan, &d->out->points, &complete, &why, err);
		if (r < 0)
			return -1;
		if (why)
			log_debug("scan", STR_FMT ": no resume points: %s", STR_ARG(name), why);
	}
	if (deep_probe_again(d, err) < 0)
		return -1;
	/* After that: a link takes over the facts of its target. */
	deep_resolve_links(d);
	deep_add_all(d, d->builder);
	pkg_map_set_decoded_size(d->builder, d->scan ? codec_scan_stream(d->scan)->off : 0);
	pkg_map_encode(d->builder, &d->out->map);
	deep_collect(d);
	return 0;
}

int deep_pass(const struct deep_input *in, const struct deep_tap *tap, struct deep_result *ret,
	      struct err *err)
{
	struct deep d = { .src = in->src, .in = in, .tap = tap, .out = ret, .probe = elf_probe_new() };
	int r;

	memset(ret, 0, sizeof(*ret));
	arena_init(&ret->arena);
	arena_init(&d.info_arena);
	arena_init(&d.names);
	r = pkg_identity_read(in->src, in->st, &ret->identity, err);
	if (r == 0)
		r = deep_decode(&d, in->name, in->threads, err);
	deep_done(&d);
	if (r < 0)
		deep_result_done(ret);
	return r;
}
