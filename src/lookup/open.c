/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a table is built of. A file named by its path has its debug file on this machine, by gdb's
 * rules; else, and for a build ID alone, the debug file comes from the cache folder of debug files or from
 * servers, as for `lode find`.
 */
#include <errno.h>
#include <stdlib.h>
#include "lookup/internal.h"
#include "pkg/pkg.h"
#include "s3/s3.h"
#include "symtab/go.h"

static int open_named_file(const char *path, struct source **ret, struct err *err)
{
	int r = s3_open_path(path, ret, err);

	return r == FILE_MISSING ? err_set(err, ERR_IO, "there is no such file") : r;
}

static void close_files(struct lookup_file *f)
{
	companion_close(TAKE(f->alt));
	companion_close(TAKE(f->dwp));
	if (f->debug != f->img)
		elf_close(f->debug);
	f->debug = NULL;
	elf_close(TAKE(f->img));
	local_found_done(&f->found);
	source_close(TAKE(f->src));
	free(TAKE(f->named));
	free(TAKE(f->sent_url));
	free(TAKE(f->sent_path));
}

void lookup_file_done(struct lookup_file *f)
{
	symtab_finder_free(f->finder);
	symtab_close(f->table);
	mapping_done(&f->mapping);
	buf_done(&f->made);
	close_files(f);
	free(f->cached_as);
	free(f->keep_as);
	free(atomic_load(&f->no_dwo));
	*f = (struct lookup_file){ 0 };
}

/* ERR_INVALID: not an ELF file, or without a sound section table. */
static int open_elf(struct source *src, struct elf_image **ret, struct err *err)
{
	return companion_open_elf(src, ret, err) == 0 ? 0 : -1;
}

/* ---- servers ---- */

static enum frame_reason reason_of_result(const struct client_result *r)
{
	if (r->outcome == CLIENT_ABSENT)
		return FRAME_UPSTREAM_404;
	if (r->os == ENOSYS || r->os == EINVAL)
		return FRAME_UNKNOWN; /* no server is known */
	if (r->outcome == CLIENT_CANCELLED || r->os == ETIME || r->os == ETIMEDOUT)
		return FRAME_TIMED_OUT;
	return r->err.os == ENOEXEC ? FRAME_NOT_ELF : FRAME_UPSTREAM_FAILED;
}

/* @ret_url: its URL (heap), if a server was asked now. */
static char *fetch_file(const struct lookup_options *o, const struct client_request *want, char **ret_url,
			enum frame_reason *ret_reason, struct err *err)
{
	const struct client_options opts = { .urls = o->urls,
					     .ignore_misses = o->urls,
					     .unread_wait_ms = o->unread_wait_ms };
	struct client_result result = { .fd = -1 };
	struct client *c;
	char *path = NULL;

	*ret_reason = FRAME_UNKNOWN;
	if (o->local_only) {
		(void)err_set(err, ERR_IO, "not on this machine, and no server is asked with --local");
		return NULL;
	}
	c = client_new(&opts);
	client_find(c, want, 1, o->watch, &result);
	if (result.outcome == CLIENT_FOUND) {
		path = mem_strdup(result.path);
		if (result.url) {
			free(*ret_url);
			*ret_url = TAKE(result.url);
		}
	} else {
		*err = result.err;
		/* That no server has it, or that none is known, is no error of its own: the errno is beside it. */
		if (!err->os)
			err->os = result.os;
	}
	if (!path)
		*ret_reason = reason_of_result(&result);
	client_result_done(&result);
	client_free(c);
	return path;
}

char *lookup_fetch(const struct lookup_options *o, enum client_kind kind, const struct build_id *id,
		   const char *name, struct err *err)
{
	AUTO(mem_freep) char *url = NULL;
	enum frame_reason ignored;

	return fetch_file(o, &(struct client_request){ .kind = kind, .id = *id, .name = name }, &url,
			  &ignored, err);
}

static int fetch_alt(const struct companion_place *p, const char *link, const struct build_id *id,
		     struct source **ret)
{
	struct err ignored = { 0 };
	AUTO(mem_freep)
	char *path = id->size ? lookup_fetch(p->arg, CLIENT_DEBUGINFO, id, NULL, &ignored) : NULL;

	return path && source_open_file(path, ret, &ignored) == 0 ? 0 : COMPANION_NONE;
}

/* ---- companions ---- */

static int open_dwo(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct lookup_file *f = arg;
	char *none = NULL, *mine;

	if (companion_open_dwo(&f->disk, 1, comp_dir, name, ret) == 0)
		return 0;
	if (atomic_load(&f->no_dwo))
		return DWARF_NO_SPLIT;
	companion_describe_dwo(comp_dir, name, id, &text);
	mine = mem_strndup((const char *)text.p, text.size);
	/* Several threads read units. */
	if (!atomic_compare_exchange_strong(&f->no_dwo, &none, mine))
		free(mine);
	return DWARF_NO_SPLIT;
}

/* The table lists the split files that are missing. */
static void find_split_files(struct lookup_file *f, const char *path)
{
	struct err ignored = { 0 };
	struct source *src;

	f->disk = companion_disk(NULL, f->found.path, path);
	f->split = (struct dwarf_split){ .open = open_dwo, .arg = f };
	if (companion_open_dwp(&f->disk, 1, &src) != 0)
		return;
	if (companion_open_elf(src, &f->dwp, &ignored) != 0)
		source_close(src);
	f->split.dwp = f->dwp;
}

static int open_named_alt(struct lookup_file *f, const char *path, struct err *err)
{
	struct source *src;

	if (open_named_file(path, &src, err) < 0)
		return err_in(err, "%s", path);
	if (open_elf(src, &f->alt, err) == 0)
		return 0;
	source_close(src);
	return err_in(err, "%s", path);
}

/*
 * A missing supplementary file is not a failure: the table says that names are missing. @servers: search
 * there too.
 */
static int find_companions(struct lookup_file *f, const struct lookup_options *o, struct local *local,
			   const char *path, bool servers, struct err *err)
{
	const struct companion_place places[] = {
		companion_disk(local, f->found.path, path),
		{ .open_alt = fetch_alt, .arg = (void *)(uintptr_t)o },
	};

	find_split_files(f, path);
	if (o->alt)
		return open_named_alt(f, o->alt, err);
	(void)!companion_open_alt(f->debug, places, servers ? 2 : 1, &f->alt);
	return 0;
}

/* ---- the debug file ---- */

static int open_program(struct lookup_file *f, const char *path, struct err *err)
{
	if (!f->src && open_named_file(path, &f->src, err) < 0)
		return -1;
	if (open_elf(f->src, &f->img, err) < 0)
		return -1;
	f->debug = f->img;
	return elf_refuse_core(f->img->h.type, err);
}

/* f->found.src is the debug file. A damaged one does not prevent the use of the file's own symbols. */
static void use_debug_file(struct lookup_file *f)
{
	f->no_debug = FRAME_FOUND;
	if (open_elf(f->found.src, &f->debug, &f->no_debug_err) == 0)
		return;
	f->debug = f->img;
	f->no_debug = FRAME_DAMAGED;
}

static int open_with_debug_file(struct lookup_file *f, struct local *local, const char *path, struct err *err)
{
	if (open_program(f, path, err) < 0)
		return -1;
	if (local_debug_file(local, f->img, path, 0, NULL, &f->found) == 0 && f->found.src)
		use_debug_file(f);
	return 0;
}

int lookup_find_files(struct lookup_file *f, const struct lookup_options *o, const char *path,
		      struct err *err)
{
	AUTO(local_freep) struct local *local = local_new(NULL);

	if (open_with_debug_file(f, local, path, err) < 0)
		return -1;
	return find_companions(f, o, local, path, false, err);
}

/* Where this machine has no debug file: the one of the servers. */
static void fetch_debug_file(struct lookup_file *f, const struct lookup_options *o)
{
	struct err ignored = { 0 };
	enum frame_reason reason;
	struct build_id id;
	AUTO(mem_freep) char *path = NULL;

	if (f->debug != f->img || elf_debug_section(f->img, ".debug_info") ||
	    elf_build_id(f->img, &id, &ignored) != 0)
		return;
	path = fetch_file(o, &(struct client_request){ .kind = CLIENT_DEBUGINFO, .id = id }, &f->sent_url,
			  &reason, &ignored);
	/* A damaged file on this machine is the better reason, unless a server has another. */
	if (!path && f->no_debug == FRAME_FOUND) {
		f->no_debug = reason;
		f->no_debug_err = ignored;
	}
	if (!path)
		return;
	local_found_done(&f->found);
	if (source_open_file(path, &f->found.src, &ignored) != 0)
		return;
	f->sent_path = mem_strdup(path);
	f->found.path = TAKE(path);
	use_debug_file(f);
}

/* ---- by build ID ---- */

static bool find_by_id(struct local *local, const struct build_id *id, enum local_kind kind,
		       struct source **ret, char **ret_path)
{
	struct local_found found = { 0 };

	if (local_build_id(local, id, kind, NULL, &found) != 0)
		return false;
	*ret = TAKE(found.src);
	*ret_path = TAKE(found.path);
	local_found_done(&found);
	return true;
}

/*
 * The program of the debug file f->debug, which was found by its build ID, if it has names that the debug file lacks.
 * Without it the table is built all the same. A server that has to read its packages first is waited for only if the
 * names are those of Go: else most are in the debug file.
 */
static void add_program(struct lookup_file *f, const struct lookup_options *o, struct local *local,
			const struct build_id *id, const char *path)
{
	AUTO(mem_freep) char *named = NULL;
	struct elf_image *img = NULL;
	struct lookup_options asked = *o;
	struct source *src = NULL;
	struct err ignored = { 0 };

	if (!symtab_needs_program(f->debug))
		return;
	if (!go_in_program(f->debug))
		asked.unread_wait_ms = -1;
	if (!find_by_id(local, id, LOCAL_EXECUTABLE, &src, &named))
		named = lookup_fetch(&asked, CLIENT_EXECUTABLE, id, path, &ignored);
	if (!named || (!src && source_open_file(named, &src, &ignored) != 0))
		return;
	if (open_elf(src, &img, &ignored) < 0 || frame_moved(img, f->debug)) {
		elf_close(img);
		source_close(src);
		return;
	}
	if (f->debug == f->img) {
		local_found_done(&f->found);
		f->found.src = f->src;
		f->found.path = f->named;
	} else {
		/* fetch_debug_file() has found the debug file in f->found, beside the first one. */
		elf_close(f->img);
		source_close(f->src);
		free(f->named);
	}
	f->src = src;
	f->img = img;
	f->named = TAKE(named);
}

/*
 * The debug file of this build ID, or the program, whose file a process called @path (NULL: not known). *ret_is_debug: it
 * is the debug file.
 */
static int open_by_id(struct lookup_file *f, const struct lookup_options *o, struct local *local,
		      const struct build_id *id, const char *path, bool *ret_is_debug, struct err *err)
{
	struct err ignored = { 0 };

	if (!find_by_id(local, id, LOCAL_DEBUGINFO, &f->src, &f->named))
		f->named = fetch_file(o, &(struct client_request){ .kind = CLIENT_DEBUGINFO, .id = *id },
				      &f->sent_url, &f->no_debug, err);
	*ret_is_debug = f->named != NULL;
	if (!f->named && !find_by_id(local, id, LOCAL_EXECUTABLE, &f->src, &f->named))
		f->named = lookup_fetch(o, CLIENT_EXECUTABLE, id, path, &ignored);
	if (!f->named)
		return -1;
	if (open_program(f, f->named, err) == 0)
		return 0;
	f->no_debug = FRAME_DAMAGED;
	return -1;
}

/* A path that is not there is that of a file of another machine: only a build ID could name it. */
static void note_not_opened(struct lookup_file *f, const struct err *err)
{
	f->no_debug = err->kind == ERR_IO && err->os != EACCES ? FRAME_NO_BUILD_ID : FRAME_DAMAGED;
}

int lookup_open_module(struct lookup_file *f, const struct lookup_options *o, const char *path,
		       const struct build_id *id, struct err *err)
{
	AUTO(local_freep) struct local *local = local_new(NULL);
	bool by_id = id && id->size, is_debug = false;
	int r = -1;

	if (path) {
		r = open_with_debug_file(f, local, path, err);
		/* The file at a path may be another one by now. Profilers call it by any of its identities. */
		if (r == 0 && by_id && !elf_is_identified_by(f->src, f->img, id))
			r = -1;
	}
	if (r < 0 && by_id) {
		close_files(f);
		f->no_debug = FRAME_FOUND;
		r = open_by_id(f, o, local, id, path, &is_debug, err);
	} else if (r < 0) {
		if (!path)
			(void)err_set(err, ERR_IO, "neither its path nor its build ID is known");
		note_not_opened(f, err);
	}
	if (r < 0)
		return -1;
	fetch_debug_file(f, o);
	if (is_debug)
		add_program(f, o, local, id, path);
	if (find_companions(f, o, local, f->named ? f->named : path, true, err) < 0)
		return -1;
	return lookup_table(f, o, err);
}

/* ---- tables ---- */

static int open_table(struct lookup_file *f, const struct lookup_options *o, const char *path,
		      struct err *err)
{
	int r = mapping_open(path, &f->mapping, err);

	if (r > 0)
		return err_set(err, ERR_INVALID, "a symbol table in an archive: extract it first");
	if (r < 0 || symtab_open_mem(f->mapping.bytes, &f->table, err) < 0)
		return -1;
	if (o->discriminators && !(symtab_info(f->table)->flags & SYMTAB_HAS_DISCRIMINATORS))
		return err_set(err, ERR_INVALID,
			       "this table was made without discriminators: make one with lode symtab build "
			       "--discriminators");
	f->finder = symtab_finder_new(f->table);
	return 0;
}

int lookup_open(struct lookup_file *f, const struct lookup_options *o, const char *path, struct err *err)
{
	uint8_t magic[8];
	size_t got;

	if (open_named_file(path, &f->src, err) < 0 ||
	    source_read(f->src, 0, magic, sizeof(magic), SOURCE_RANDOM, &got, err) < 0)
		return -1;
	return symtab_is_table(bytes_of(magic, got)) ? open_table(f, o, path, err)
						     : lookup_open_module(f, o, path, NULL, err);
}
