/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that a file is the one requested. A debug file and an executable carry their build ID. Of a source
 * only an empty file is detected; for sections, see slice_check().
 */
#include <elf.h>
#include <errno.h>
#include <unistd.h>
#include "client/internal.h"
#include "elf/elf.h"

static int check_wrong_id(const struct build_id *got, struct err *err)
{
	char hex[BUILD_ID_HEX_SIZE];

	return err_set(err, ERR_INVALID, "is a file of another build ID, %s", build_id_hex(got, hex));
}

static int check_not_elf(struct bytes head, struct err *err)
{
	const char *name, *help;

	elf_foreign_name(head, &name, &help);
	(void)err_set(err, ERR_INVALID, "is %s, not an ELF file", name);
	err->os = ENOEXEC;
	return -1;
}

/* The head of a file is enough to read the notes of its segments: a GNU build ID found there is the file's.
 * Anything else is left to check_whole(): a kernel module has no segments, notes may be far back, and the segment of
 * notes of a Go program has Go's note only, with GNU's in a section outside of it. */
static int check_head_id(const struct client_request *w, struct bytes head, struct err *err)
{
	AUTO(source_closep) struct source *src = source_of_mem(head, "the head");
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct build_id id;

	if (elf_open(src, &img, NULL) != 0 || elf_build_id(img, &id, NULL) != 0 || build_id_eq(&id, &w->id))
		return 0;
	/* The hash of both ends needs the whole file. */
	if (build_id_kind_of(&id) == BUILD_ID_GO || build_id_may_be_alias(&w->id))
		return 0;
	return check_wrong_id(&id, err);
}

/* The page that a portal or a proxy sends in place of the file, with status 200. Sources may be such pages
 * themselves. */
static int check_page(const struct client_request *w, struct bytes head, bool all, struct err *err)
{
	static const char *const starts[] = { "<!doctype html", "<html" };
	struct str name = str_of(w->name), text = { (const char *)head.p, head.size };

	if (w->kind == CLIENT_SOURCE && (str_ends(name, STR("html")) || str_ends(name, STR(".htm"))))
		return 0;
	if (head.size < CHECK_HEAD && !all)
		return CHECK_MORE;
	text = str_trim(text);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (text.size >= strlen(starts[i]) && strncasecmp(text.p, starts[i], strlen(starts[i])) == 0)
			return err_set(err, ERR_INVALID, "is a page of HTML");
	return 0;
}

int check_head(const struct client_request *w, struct bytes head, bool all, struct err *err)
{
	if (all && head.size == 0)
		return err_set(err, ERR_INVALID, "is empty");
	if (w->kind != CLIENT_DEBUGINFO && w->kind != CLIENT_EXECUTABLE)
		return check_page(w, head, all, err);
	if (memcmp(head.p, ELFMAG, MIN(head.size, (size_t)SELFMAG)) != 0)
		return check_not_elf(head, err);
	if (head.size < CHECK_HEAD)
		return all ? check_not_elf(head, err) : CHECK_MORE;
	return check_head_id(w, head, err);
}

int check_whole(const struct client_request *w, int fd, uint64_t size, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct build_id id = { 0 };
	int copy, r;

	if (size == 0)
		return err_set(err, ERR_INVALID, "is empty");
	if (w->kind != CLIENT_DEBUGINFO && w->kind != CLIENT_EXECUTABLE)
		return 0;
	copy = dup(fd);
	if (copy < 0)
		return err_set(err, ERR_LIMIT, "no descriptors left");
	src = source_of_fd(copy, size, 0, "it");
	r = elf_open(src, &img, err);
	if (r < 0)
		return -1;
	if (r == ELF_NOT_ELF) {
		uint8_t head[CHECK_HEAD];
		size_t got = 0;

		(void)!fd_pread(fd, head, sizeof(head), 0, &got, NULL);
		return check_not_elf(bytes_of(head, got), err);
	}
	if (img->sections_err.kind != ERR_NONE) {
		*err = img->sections_err;
		return err_in(err, "is cut short or damaged");
	}
	r = elf_build_id(img, &id, err);
	if (r < 0)
		return -1;
	if (elf_is_answer_to(src, img, &w->id, w->kind == CLIENT_DEBUGINFO))
		return 0;
	return r == ELF_NO_BUILD_ID ? err_set(err, ERR_INVALID, "has no build ID") : check_wrong_id(&id, err);
}

bool check_is_not_elf(int fd)
{
	uint8_t head[SELFMAG];
	size_t got = 0;

	return fd_pread(fd, head, sizeof(head), 0, &got, NULL) == 0 &&
	       (got < sizeof(head) || memcmp(head, ELFMAG, SELFMAG) != 0);
}
