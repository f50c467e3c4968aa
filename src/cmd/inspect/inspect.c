/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: what a file or a package is.
 */
#include "cmd/inspect/inspect.h"

#define MAX_DECODED MIB(1024) /* of a compressed ELF file, which is looked at in memory */

json_t *inspect_build_id(const struct build_id *id)
{
	char out[BUILD_ID_HEX_SIZE];

	return json_string(build_id_hex(id, out));
}

void inspect_put_text(json_t *o, const char *key, struct str value)
{
	if (value.size)
		json_object_set_new(o, key, json_text(value));
}

void inspect_put_size(json_t *o, const char *key, uint64_t value)
{
	json_object_set_new(o, key, json_integer((json_int_t)value));
}

static int keep(void *arg, struct bytes piece, struct err *err)
{
	struct buf *b = arg;
	uint8_t *to;

	if (piece.size > MAX_DECODED - b->size)
		return err_set(err, ERR_LIMIT, "more than %zu bytes when decoded", MAX_DECODED);
	to = buf_try_reserve(b, piece.size);
	if (!to)
		return err_set(err, ERR_LIMIT, "no memory for %zu bytes", b->size + piece.size);
	memcpy(to, piece.p, piece.size);
	b->size += piece.size;
	return 0;
}

/* An ELF file compressed by itself, such as a kernel's module.ko.xz. ELF_NOT_ELF. */
static int inspect_compressed(const struct settings *s, struct source *src, json_t *out, struct err *err)
{
	AUTO(stream_closep) struct stream *stream = NULL;
	AUTO(source_closep) struct source *decoded = NULL;
	AUTO(buf_done) struct buf content = { 0 };
	enum codec_kind codec;
	int r;

	if (codec_detect_at(src, 0, SOURCE_RANDOM, &codec, err) < 0)
		return -1;
	if (codec == CODEC_NONE)
		return ELF_NOT_ELF;
	if (codec_stream_open(codec, stream_of_source(src, false, 0, src->size), &stream, err) < 0 ||
	    stream_each(stream, keep, &content, err) < 0)
		return err_in(err, "%s", codec_name(codec));
	decoded = source_of_mem(buf_bytes(&content), src->name);
	r = inspect_elf(s, decoded, out, err);
	if (r == 0) {
		json_object_set_new(out, "codec", json_string(codec_name(codec)));
		inspect_put_size(out, "decoded_size", content.size);
	}
	return r;
}

static int inspect_file(const struct settings *s, const char *path, json_t *out, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	int r = source_open_file(path, &src, err);

	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no such file");
	if (r < 0)
		return r;
	json_object_set_new(out, "path", json_text(str_of(path)));
	inspect_put_size(out, "size", src->size);
	r = inspect_elf(s, src, out, err);
	if (r == ELF_NOT_ELF)
		r = inspect_package(s, path, src, out, err);
	if (r == PKG_NOT_A_PACKAGE)
		r = inspect_compressed(s, src, out, err);
	if (r == ELF_NOT_ELF)
		return err_set(err, ERR_INVALID, "is neither an ELF file nor a package");
	return r;
}

static int show(const struct settings *s, const char *path, json_t *out)
{
	if (s->json)
		return json_print(json_incref(out));
	if (!s->ids) {
		inspect_print(out);
		return EXIT_DONE;
	}
	if (inspect_print_ids(out))
		return EXIT_DONE;
	fprintf(stderr, "lode: inspect: ");
	print_text(stderr, str_of(path));
	fprintf(stderr, ": no build ID\n");
	return EXIT_FAILED;
}

static int inspect(struct settings *s)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < s->paths.n; i++) {
		const char *path = s->paths.items[i].p;
		json_t *out = json_object();
		struct err err = { 0 };

		if (inspect_file(s, path, out, &err) < 0) {
			err_in(&err, "%s", path);
			status = tell_error("inspect", &err);
		} else if (show(s, path, out) != EXIT_DONE) {
			status = EXIT_FAILED;
		}
		json_decref(out);
		if (!s->json && !s->ids && i + 1 < s->paths.n)
			putchar('\n');
	}
	return status;
}

static const struct option_row rows[] = {
	{ 0, "sections", NULL, "an ELF file's sections", OPT_ON(sections) },
	{ 0, "members", NULL, "a package's files, and its resume points: decodes all of it",
	  OPT_ON(members) },
	{ 0, "build-id", NULL, "build IDs alone, one a line", OPT_ON(ids) },
	{ 0, "json", NULL, "for programs: one object a FILE", OPT_ON(json) },
	{ 0 },
};
static const struct option_group group = { "What is shown", rows };

const struct command command_inspect = {
	.name = "inspect",
	.args = "FILE...",
	.summary = "what a file or a package is: build IDs, links, sections, members, resume points",
	.examples = "  lode inspect /usr/bin/ls\n"
		    "  lode inspect --build-id /usr/bin/ls\n"
		    "  lode inspect --sections /usr/lib/debug/.build-id/ab/cdef.debug\n"
		    "  lode inspect --members --json libc6-dbg_2.36-9_amd64.deb\n",
	.groups = { &group },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "which FILE?",
	.run = inspect,
};
