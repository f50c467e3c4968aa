/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile that a command reads: a file or standard input, in any format of profile_read(), or perf.data,
 * which perf has to read.
 */
#include <unistd.h>
#include "cmd/child.h"
#include "cmd/profile/profile.h"
#include "codec/codec.h"
#include "elf/elf.h"
#include "profile/input.h"

static int read_profile_input(struct buf *b, struct err *err)
{
	int r = child_read(STDIN_FILENO, PROFILE_MAX_SIZE, 0, b, err);

	if (r == CHILD_TOO_MUCH)
		return err_set(err, ERR_LIMIT, "the profile is larger than the limit of %llu MiB",
			       (unsigned long long)(PROFILE_MAX_SIZE >> 20));
	return r;
}

static bool is_perf_data(const char *path)
{
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };
	struct stat st;
	uint8_t head[8];
	size_t got = 0;

	return file_open(path, &fd, &st, &err) == 0 && fd_pread(fd, head, sizeof(head), 0, &got, &err) == 0 &&
	       profile_is_perf_data(bytes_of(head, got));
}

/* Pass the profile on, or with @each those of a recording of Java. */
static int read_profile_bytes(struct bytes in, enum profile_format format, bool each,
			      struct profile_sink sink, struct err *err)
{
	struct profile *p = NULL;

	if (each && !profile_is_perf_data(in))
		return profile_read_each(in, format, NULL, NULL, sink, err);
	if ((profile_is_perf_data(in) ? perf_script_read_bytes(in, &p, err)
				      : profile_read(in, format, NULL, &p, err)) < 0)
		return -1;
	return sink.fn(sink.arg, p, STR(""), err);
}

/* Replace the error of file_read(): the kind of a file is a better reason than its size. */
static int refuse_profile_file(const char *path, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	enum profile_format format;
	struct err other = { 0 };
	uint8_t head[KIB(4)];
	struct stat st;
	size_t got = 0;

	/* A lack of memory or descriptors is a limit, too, with an errno. */
	if (elf_refuse_folder(path, err) < 0 || err->kind != ERR_LIMIT || err->os)
		return -1;
	if (file_open(path, &fd, &st, &other) == 0 &&
	    fd_pread(fd, head, sizeof(head), 0, &got, &other) == 0 &&
	    codec_detect(bytes_of(head, got)) == CODEC_NONE &&
	    profile_detect(bytes_of(head, got), &format, &other) < 0) {
		*err = other;
		return -1;
	}
	return err_set(err, ERR_LIMIT, "larger than the limit of %llu MiB for a profile",
		       (unsigned long long)(PROFILE_MAX_SIZE >> 20));
}

static int read_profile_file(const char *path, enum profile_format format, bool each,
			     struct profile_sink sink, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	bool is_input = strcmp(path, "-") == 0;
	struct profile *p = NULL;
	int r;

	if (!is_input && is_perf_data(path)) {
		r = perf_script_read(path, &p, err);
		return r < 0 ? r : sink.fn(sink.arg, p, STR(""), err);
	}
	r = is_input ? read_profile_input(&b, err) : file_read(path, PROFILE_MAX_SIZE, &b, err);
	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no such file");
	if (r < 0)
		return is_input ? -1 : refuse_profile_file(path, err);
	return read_profile_bytes(buf_bytes(&b), format, each, sink, err);
}

static int read_path(const struct settings *s, const char *path, bool each, struct profile_sink sink,
		     struct err *err)
{
	enum profile_format format = PROFILE_FORMAT_AUTO;

	if (s->profile.input_format && !profile_format_parse(str_of(s->profile.input_format), &format))
		return err_set(err, ERR_INVALID,
			       "--input-format: '%s' is not auto, pprof, perf, folded, legacy, cpu or jfr",
			       s->profile.input_format);
	if (read_profile_file(path, format, each, sink, err) < 0)
		return err_in(err, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
	return 0;
}

static int keep_profile(void *arg, struct profile *p, struct str name, struct err *err)
{
	*(struct profile **)arg = p;
	return 0;
}

int profile_read_path(const struct settings *s, const char *path, struct profile **ret, struct err *err)
{
	return read_path(s, path, false, (struct profile_sink){ keep_profile, ret }, err);
}

int profile_read_path_each(const struct settings *s, const char *path, struct profile_sink sink,
			   struct err *err)
{
	return read_path(s, path, true, sink, err);
}

/* ---- build IDs ---- */

static bool mapped_file_build_id(const char *path, uint64_t size, struct build_id *ret)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct source *src = NULL;
	struct err err = { 0 };
	bool found;

	if (source_open_file(path, &src, &err) != 0)
		return false;
	found = size <= src->size && elf_open(src, &img, &err) == 0 && elf_build_id(img, ret, &err) == 0;
	elf_close(TAKE(img));
	source_close(src);
	return found;
}

void profile_fill_build_ids(struct profile *p)
{
	for (uint32_t i = 0; i < p->mappings.n; i++) {
		struct profile_mapping *m = &p->mappings.p[i];
		struct str file = profile_str(p, m->file);
		AUTO(mem_freep) char *path = NULL;
		char hex[BUILD_ID_HEX_SIZE];
		struct build_id id;

		/* "//anon", "[vdso]" */
		if (m->build_id || file.size < 2 || file.p[0] != '/' || file.p[1] == '/' ||
		    memchr(file.p, '\0', file.size))
			continue;
		path = mem_strndup(file.p, file.size);
		/* A file that is shorter than the mapping is another file. */
		if (mapped_file_build_id(path, m->offset, &id))
			m->build_id = profile_add_string(p, str_of(build_id_hex(&id, hex)));
	}
}
