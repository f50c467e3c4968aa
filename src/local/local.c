/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings, the trail, and the result.
 */
#include "local/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/root.h"

/* "a:b": every entry counts, also an empty one (so "" is one entry, for "/.build-id"). */
static void set_dirs(struct local *l, const char *text)
{
	struct str rest = str_of(text);
	size_t n = 1;

	for (const char *p = text; *p; p++)
		n += *p == ':';
	l->dirs = ARENA_NEW_N(&l->arena, const char *, n);
	for (size_t i = 0; i < n; i++)
		l->dirs[i] = arena_strdup(&l->arena, str_cut(&rest, ':'));
	l->n_dirs = n;
}

/* ---- files ---- */

int local_open(const struct local *l, const char *path, int *ret_fd, struct stat *ret_st, struct err *err)
{
	AUTO(fd_close) int fd = -1;

	if (!l->is_rooted)
		return file_open(path, ret_fd, ret_st, err);
	if (l->root >= 0)
		fd = l->has_user ? root_open_of_user(l->root, path, l->user)
				 : root_open(l->root, path, O_RDONLY);
	if (l->root < 0 || (fd < 0 && (errno == ENOENT || errno == ENOTDIR)))
		return FILE_MISSING;
	if (fd < 0 && errno == ENXIO)
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	if (fd < 0)
		return err_os(err, errno, "%s: open", path);
	if (fstat(fd, ret_st) < 0)
		return err_os(err, errno, "%s: stat", path);
	if (!S_ISREG(ret_st->st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool local_realpath(const struct local *l, const char *path, char *ret)
{
	if (!l->is_rooted)
		return realpath(path, ret);
	errno = ENOENT;
	return l->root >= 0 && root_realpath(l->root, path, ret);
}

bool local_is_link(const struct local *l, const char *path)
{
	struct stat st;

	if (!l->is_rooted)
		return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
	return l->root >= 0 && root_is_link(l->root, path);
}

/* ---- the settings ---- */

struct local *local_new(const struct local_options *opts)
{
	const struct local_options defaults = { 0 };
	struct local *l = NEW(struct local);
	char real[PATH_MAX];

	if (!opts)
		opts = &defaults;
	arena_init(&l->arena);
	set_dirs(l, opts->debug_directories ? opts->debug_directories : LOCAL_DEBUG_DIRECTORIES);
	l->is_rooted = opts->root;
	l->root = opts->root ? open(opts->root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	l->max_file = opts->max_file ? opts->max_file : UINT64_MAX;
	l->has_user = opts->user;
	l->user = opts->user ? *opts->user : 0;
	if (opts->sysroot && strcmp(opts->sysroot, "target:") != 0) {
		l->sysroot = arena_strdup(&l->arena, str_of(opts->sysroot));
		l->real_sysroot = local_realpath(l, l->sysroot, real) ? arena_strdup(&l->arena, str_of(real))
								      : l->sysroot;
	}
	l->crcs = local_crcs_new();
	return l;
}

void local_free(struct local *l)
{
	if (!l)
		return;
	local_crcs_free(l->crcs);
	fd_close(&l->root);
	arena_done(&l->arena);
	free(l);
}

void local_freep(struct local **l)
{
	local_free(*l);
	*l = NULL;
}

const char *local_way_name(enum local_way way)
{
	static const char *const names[] = {
		[LOCAL_BY_ITSELF] = "itself",
		[LOCAL_BY_BUILD_ID] = "build ID",
		[LOCAL_BY_LINK] = "debug link",
		[LOCAL_BY_ALT_LINK] = "alt link",
	};

	return names[way];
}

void local_trail_done(struct local_trail *t)
{
	arena_done(&t->arena);
	*t = (struct local_trail){ 0 };
}

void local_trail_add(struct local_trail *t, enum local_way way, enum local_verdict verdict, const char *path,
		     const char *fmt, ...)
{
	char text[ERR_TEXT_SIZE];
	va_list ap;

	if (!t)
		return;
	if (t->n_steps == t->room) {
		size_t room = vec_room(t->room, t->n_steps + 1);
		struct local_step *steps = ARENA_NEW_N(&t->arena, struct local_step, room);

		if (t->n_steps)
			memcpy(steps, t->steps, t->n_steps * sizeof(*steps));
		t->steps = steps;
		t->room = room;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	t->steps[t->n_steps++] = (struct local_step){
		.way = way,
		.verdict = verdict,
		.path = path ? arena_strdup(&t->arena, str_of(path)) : NULL,
		.said = arena_strdup(&t->arena, str_of(text)),
	};
}

void local_found_done(struct local_found *f)
{
	free(f->path);
	source_close(f->src);
	*f = (struct local_found){ 0 };
}
