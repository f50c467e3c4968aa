/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that a fetched file is the one requested: by its first bytes before any byte is given out, and by
 * the whole file before it is stored. A refusal has an errno that resolve_reason_of() reads: ENOEXEC for a
 * file that is not ELF, EBADMSG for any other.
 */
#include "resolve/internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

static bool is_elf_kind(const struct remote *m)
{
	return m->what.kind == RESOLVE_DEBUGINFO || m->what.kind == RESOLVE_EXECUTABLE;
}

static int refuse_not_elf(struct bytes head, struct err *err)
{
	const char *name, *help;

	elf_foreign_name(head, &name, &help);
	(void)err_set(err, ERR_INVALID, "it sends %s, not an ELF file", name);
	err->os = ENOEXEC;
	return -1;
}

static int refuse_other_id(const struct build_id *there, struct err *err)
{
	char hex[BUILD_ID_HEX_SIZE];

	return err_set(err, ERR_INVALID, "it sends a file of another build ID: %s", build_id_hex(there, hex));
}

static int remote_check_head(struct remote *m, const struct net_reply *reply, struct bytes head, bool all,
			     struct err *err)
{
	struct build_id there;

	if (!head.size)
		return all ? err_set(err, ERR_INVALID, "it sends an empty file") : NET_MORE;
	if (reply->type.size >= 9 && strncasecmp(reply->type.p, "text/html", 9) == 0) {
		(void)err_set(err, ERR_INVALID, "it sends a page of HTML instead of the file");
		err->os = is_elf_kind(m) ? ENOEXEC : 0;
		return -1;
	}
	if (!is_elf_kind(m))
		return 0;
	if (memcmp(head.p, ELFMAG, MIN(head.size, (size_t)SELFMAG)) != 0 || (all && head.size < SELFMAG))
		return refuse_not_elf(head, err);
	if (head_build_id(head, &there)) {
		m->confirmed = build_id_eq(&there, &m->what.id);
		/* A file of another build ID may have this one as an alias: the whole file says. */
		if (m->confirmed || !build_id_may_be_alias(&m->what.id))
			return m->confirmed ? 0 : refuse_other_id(&there, err);
	}
	return all ? 0 : NET_MORE;
}

/* 0 and NET_MORE as they are; a refusal without an errno gets EBADMSG. */
static int refusal_errno(int r, struct err *err)
{
	if (r < 0 && !err->os)
		err->os = EBADMSG;
	return r;
}

int remote_check(void *arg, const struct net_reply *reply, struct bytes head, bool all, struct err *err)
{
	return refusal_errno(remote_check_head(arg, reply, head, all, err), err);
}

/* A truncated file still has its build ID, but its section table is past its end. */
static int remote_check_image(const struct remote *m, struct source *src, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct build_id there = { 0 };
	int r = elf_open(src, &img, err);

	if (r < 0)
		return -1;
	if (r) {
		(void)!elf_foreign_source_err(src, err);
		err->os = ENOEXEC;
		return -1;
	}
	if (img->sections_err.kind != ERR_NONE)
		return err_set(err, ERR_INVALID, "it sends a damaged file: %s", img->sections_err.text);
	r = elf_build_id(img, &there, err);
	if (r < 0)
		return -1;
	if (elf_is_answer_to(src, img, &m->what.id, m->what.kind == RESOLVE_DEBUGINFO))
		return 0;
	return r ? err_set(err, ERR_INVALID, "it sends a file without build ID")
		 : refuse_other_id(&there, err);
}

int remote_verify(void *arg, struct err *err)
{
	struct remote *m = arg;
	struct source *src;
	int fd, r;

	if (!is_elf_kind(m))
		return 0;
	fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return err_os(err, errno, "the file's check");
	src = source_of_fd(fd, m->have, 0, "its file");
	r = remote_check_image(m, src, err);
	source_close(src);
	return refusal_errno(r, err);
}
