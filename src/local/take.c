/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one place: a file must be there, with the requested build ID or CRC.
 */
#include "local/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static int take_refuse(struct local_search *s, enum local_verdict verdict, const char *path, const char *said)
{
	local_trail_add(s->trail, s->way, verdict, path, "%s", said);
	return LOCAL_MISSING;
}

/* The trail has "not there" for a missing file, and the reason for one that could not be opened. */
static int open_place(struct local_search *s, const char *path, int *ret_fd, struct stat *ret_st)
{
	struct err err = { 0 };
	int r = local_open(s->l, path, ret_fd, ret_st, &err);

	if (r == FILE_MISSING)
		return take_refuse(s, LOCAL_ABSENT, path, "not there");
	return r < 0 ? take_refuse(s, LOCAL_UNREADABLE, path, err.text) : 0;
}

static int take_accept(struct local_search *s, const char *path, struct source *src, const char *said,
		       struct local_found *ret)
{
	local_trail_add(s->trail, s->way, LOCAL_TAKEN, path, "%s", said);
	*ret = (struct local_found){ .path = mem_strdup(path), .src = src, .way = s->way };
	return 0;
}

static int take_check_id(struct local_search *s, const char *path, struct source *src,
			 const struct build_id *id)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	char hex[BUILD_ID_HEX_SIZE];
	struct err err = { 0 };
	struct build_id found;
	int r = elf_open(src, &img, &err);

	if (r == ELF_NOT_ELF)
		(void)!elf_foreign_source_err(src, &err);
	if (r)
		return take_refuse(s, LOCAL_NOT_ELF, path, err.text);
	r = elf_build_id(img, &found, &err);
	if (r)
		return take_refuse(s, LOCAL_NO_ID, path, r < 0 ? err.text : "it has no build ID");
	if (build_id_eq(&found, id))
		return 0;
	local_trail_add(s->trail, s->way, LOCAL_OTHER_ID, path, "it has another build ID, %s",
			build_id_hex(&found, hex));
	return LOCAL_MISSING;
}

static int take_id(struct local_search *s, const char *path, const struct build_id *id, const char *self,
		   struct local_found *ret)
{
	AUTO(source_closep) struct source *src = NULL;
	int fd, r;
	struct stat st;

	r = open_place(s, path, &fd, &st);
	if (r)
		return r;
	src = source_of_fd(fd, (uint64_t)st.st_size, st.st_mtime, path);
	r = take_check_id(s, path, src, id);
	if (r)
		return r;
	if (self && strcmp(self, path) == 0) {
		take_refuse(s, LOCAL_SELF, path, "this is the file itself, and it has no debug information");
		return LOCAL_IS_SELF;
	}
	return take_accept(s, path, TAKE(src), "its build ID matches", ret);
}

int local_take_id(struct local_search *s, const char *path, const struct build_id *id,
		  struct local_found *ret)
{
	return take_id(s, path, id, NULL, ret);
}

int local_take_id_real(struct local_search *s, const char *path, const struct build_id *id, const char *self,
		       struct local_found *ret)
{
	char real[PATH_MAX];

	if (local_realpath(s->l, path, real))
		return take_id(s, real, id, self, ret);
	if (errno == ENOENT || errno == ENOTDIR)
		return take_refuse(s, LOCAL_ABSENT, path, "not there");
	return take_refuse(s, LOCAL_UNREADABLE, path, strerror(errno));
}

int local_take_linked(struct local_search *s, const char *path, const struct local_linked *link,
		      struct local_found *ret)
{
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };
	struct stat st;
	uint32_t crc;
	int r;

	if (strcmp(path, link->self) == 0)
		return take_refuse(s, LOCAL_SELF, path, "this is the file itself");
	r = open_place(s, path, &fd, &st);
	if (r)
		return r;
	if (st.st_ino && st.st_ino == link->self_st.st_ino && st.st_dev == link->self_st.st_dev)
		return take_refuse(s, LOCAL_SELF, path, "this is the file itself, by another name");
	if ((uint64_t)st.st_size > s->l->max_file)
		return take_refuse(s, LOCAL_UNREADABLE, path,
				   "it is larger than the debug files that are read");
	if (local_crcs_of(s->l->crcs, fd, &st, &crc, &err) < 0)
		return take_refuse(s, LOCAL_UNREADABLE, path, err.text);
	if (crc != link->crc) {
		local_trail_add(s->trail, s->way, LOCAL_OTHER_CRC, path,
				"its CRC is %08x, the link says %08x", crc, link->crc);
		return LOCAL_MISSING;
	}
	return take_accept(s, path, source_of_fd(TAKE_FD(fd), (uint64_t)st.st_size, st.st_mtime, path),
			   "its CRC matches", ret);
}
