/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to the resolver over the index: its failure, and its answer.
 */
#include "resolve/internal.h"

#include <errno.h>
#include "s3/s3.h"

int work_failed(struct work *w, struct str place, const struct err *why)
{
	work_note(w, place, "%s", why->text);
	/* An object that was removed is as a file that was. */
	if (why->kind == ERR_CHANGED && why->os == ENOENT)
		return NOT_THIS;
	if (w->failed.kind == ERR_NONE) {
		w->failed = *why;
		(void)err_in(&w->failed, STR_FMT, STR_ARG(place));
	}
	return NOT_THIS;
}

/* An object is not asked for here: the first answer with its bytes tells whether it is the one that was scanned. */
static int work_open_object(struct work *w, const struct index_file *f, struct source **ret,
			    struct stat *ret_st)
{
	struct err why = { 0 };
	struct s3 *s3;

	if (!pool_may_wait()) {
		work_note(w, f->path, "too many requests wait for object storage already");
		return RESOLVE_BUSY;
	}
	index_file_stat(f, ret_st);
	if (s3_shared(&s3, &why) < 0 || s3_open(s3, f->path.p, ret_st, ret, NULL, &why) < 0)
		return work_failed(w, f->path, &why);
	w->far = true;
	if (w->again)
		source_distrust(*ret);
	return 0;
}

int work_open(struct work *w, const struct index_file *f, struct source **ret, struct stat *ret_st)
{
	struct str path = f->path;
	struct err why = { 0 };
	int fd, r;

	if (s3_is_url(path))
		return work_open_object(w, f, ret, ret_st);
	r = file_open(path.p, &fd, ret_st, &why);
	if (r == FILE_MISSING) {
		work_note(w, path, "does not exist any more");
		return NOT_THIS;
	}
	if (r < 0)
		return work_failed(w, path, &why);
	*ret = source_of_fd(fd, (uint64_t)ret_st->st_size, ret_st->st_mtime, path.p);
	return 0;
}

struct str answer_place(struct work *w, const struct resolve_answer *ans)
{
	if (!ans->archive.size)
		return ans->file;
	return str_of(arena_printf(w->a, STR_FMT ": " STR_FMT, STR_ARG(ans->archive), STR_ARG(ans->file)));
}

void answer_drop(struct resolve_answer *ans)
{
	source_close(ans->source);
	ans->source = NULL;
}

int work_missing(struct work *w, struct err *err)
{
	if (w->failed.kind == ERR_NONE)
		return RESOLVE_MISSING;
	if (err)
		*err = w->failed;
	return -1;
}

void work_note_absent(struct work *w, const struct build_id *id)
{
	char hex[BUILD_ID_HEX_SIZE];

	work_note(w, STR("index"), "no file or package here has build ID %s", build_id_hex(id, hex));
}
