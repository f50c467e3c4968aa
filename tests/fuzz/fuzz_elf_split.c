/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting any ELF file: it is refused, or both resulting files are sound and hold the expected sections.
 */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "elf/split.h"

#define MAX_SIZE KIB(256) /* a header can ask for large sections, but not for ones past the end of the file */

static void check_failure(int r, const struct err *err)
{
	FUZZ_CHECK(r >= 0 || err->kind == ERR_INVALID || err->kind == ERR_LIMIT);
}

/* Open the written file again. */
static struct elf_image *reopen(int fd, struct source **ret_src)
{
	struct err err = { 0 };
	struct elf_image *img;
	off_t size = lseek(fd, 0, SEEK_END);

	FUZZ_CHECK(size > 0);
	*ret_src = source_of_fd(fd, (uint64_t)size, 0, "made");
	FUZZ_CHECK(elf_open(*ret_src, &img, &err) == 0);
	FUZZ_CHECK(img->sections_err.kind == ERR_NONE);
	return img;
}

static void check_ranges(const struct elf_image *img)
{
	struct err err = { 0 };
	uint64_t off, size;

	for (uint32_t i = 1; i < img->n_sections; i++)
		FUZZ_CHECK(elf_section_range(img, &img->sections[i], &off, &size, &err) >= 0);
}

/* Neither file is found by the build ID of another one. A damaged file may have it in no section: then they have none. */
static void check_build_id(const struct elf_image *img, const struct elf_image *made)
{
	struct build_id want = { 0 }, got = { 0 };
	struct err err = { 0 };

	if (elf_build_id(made, &got, &err) == 0)
		FUZZ_CHECK(elf_build_id(img, &want, &err) == 0 && build_id_eq(&got, &want));
}

static void check_debug(const struct elf_image *img, const struct elf_image *made)
{
	/* One more section: of a build ID that is in a segment alone. */
	FUZZ_CHECK(made->n_sections == img->n_sections || made->n_sections == img->n_sections + 1);
	FUZZ_CHECK(made->n_segments == img->n_segments);
	for (uint32_t i = 1; i < img->n_sections; i++)
		FUZZ_CHECK(str_eq(made->sections[i].name, img->sections[i].name) ||
			   str_starts(img->sections[i].name, STR(".zdebug_")) || i == img->h.names_index);
	check_build_id(img, made);
	check_ranges(made);
}

static void check_stripped(const struct elf_image *img, const struct elf_image *made, uint32_t want_crc)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct err err = { 0 };
	struct str name;
	uint32_t crc;

	FUZZ_CHECK(elf_debug_link(made, &a, &name, &crc, &err) == 0);
	FUZZ_CHECK(str_eq(name, STR("x.debug")) && crc == want_crc);
	check_build_id(img, made);
	check_ranges(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum elf_split_packing packing = size ? data[size - 1] % 4 : 0;
	struct source *src, *made_src = NULL;
	struct elf_image *img = NULL, *made;
	struct err err = { 0 };
	uint32_t crc = 0;
	bool is_signed;
	int fd, r;

	if (size > MAX_SIZE)
		return 0;
	src = source_of_mem(bytes_of(data, size), "x");
	r = elf_open(src, &img, &err);
	if (r == 0)
		r = elf_split_check(img, &is_signed, &err);
	check_failure(r, &err);
	if (r == 0) {
		fd = memfd_create("debug", MFD_CLOEXEC);
		r = elf_split_debug(img, fd, packing, &crc, &err);
		check_failure(r, &err);
		if (r == 0) {
			made = reopen(fd, &made_src);
			check_debug(img, made);
			elf_close(made);
			source_close(made_src);
		} else {
			close(fd);
		}
		fd = memfd_create("stripped", MFD_CLOEXEC);
		r = elf_split_strip(img, fd, "x.debug", crc, &err);
		check_failure(r, &err);
		if (r == 0) {
			made = reopen(fd, &made_src);
			check_stripped(img, made, crc);
			elf_close(made);
			source_close(made_src);
		} else {
			close(fd);
		}
	}
	elf_close(img);
	source_close(src);
	return 0;
}
