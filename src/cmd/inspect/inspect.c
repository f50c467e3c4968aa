/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: the facts about files: ELF files, packages and symbol tables.
 */
#include "cmd/inspect/inspect.h"
#include "symtab/symtab.h"
#include "s3/s3.h"

#define MAX_DECODED MIB(1024) /* of a compressed ELF file, which is decoded in memory */

void inspect_put_build_id(struct json_writer *out, const char *key, const struct build_id *id)
{
	char hex[BUILD_ID_HEX_SIZE];

	json_put_text(out, key, build_id_hex(id, hex));
}

void inspect_put_text(struct json_writer *out, const char *key, struct str value)
{
	if (value.size)
		json_put_str(out, key, value);
}

void inspect_put_size(struct json_writer *out, const char *key, uint64_t value)
{
	json_put_int(out, key, (int64_t)value);
}

static int add_decoded(void *arg, struct bytes piece, struct err *err)
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
static int inspect_compressed(const struct settings *s, struct source *src, struct json_writer *out,
			      struct err *err)
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
	    stream_each(stream, add_decoded, &content, err) < 0)
		return err_in(err, "%s", codec_name(codec));
	decoded = source_of_mem(buf_bytes(&content), src->name);
	r = inspect_elf(s, decoded, out, err);
	if (r == 0) {
		json_put_text(out, "codec", codec_name(codec));
		inspect_put_size(out, "decoded_size", content.size);
	}
	return r;
}

static bool is_table(struct source *src)
{
	struct err ignored = { 0 };
	uint8_t head[8];
	size_t n;

	return source_read(src, 0, head, sizeof(head), SOURCE_RANDOM, &n, &ignored) == 0 &&
	       symtab_is_table(bytes_of(head, n));
}

static int inspect_file(const struct settings *s, const char *path, struct json_writer *out, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	int r = s3_open_path(path, &src, err);

	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "there is no such file");
	if (r < 0)
		return r;
	json_open_object(out, NULL);
	json_put_text(out, "path", path);
	inspect_put_size(out, "size", src->size);
	r = is_table(src) ? inspect_table(path, out, err) : inspect_elf(s, src, out, err);
	if (r == ELF_NOT_ELF)
		r = inspect_package(s, path, src, out, err);
	if (r == PKG_NOT_A_PACKAGE)
		r = inspect_compressed(s, src, out, err);
	if (r == ELF_NOT_ELF)
		return elf_foreign_source_err(src, err);
	if (r == 0)
		json_close(out);
	return r;
}

static int print_facts(const struct settings *s, const char *path, struct buf *text)
{
	json_error_t ignored;
	json_t *all;
	size_t n_ids = 1;

	if (s->json)
		return json_print_end(text);
	/* Names of counted size, as in a note of Go, may have a NUL. */
	all = json_loadb((const char *)text->p, text->size, JSON_ALLOW_NUL, &ignored);
	if (!s->ids)
		inspect_print(all);
	else
		n_ids = inspect_print_ids(all);
	json_decref(all);
	if (n_ids)
		return EXIT_DONE;
	fprintf(stderr, "lode: inspect: ");
	print_text(stderr, str_of(path));
	fprintf(stderr, ": no build ID\n");
	return EXIT_FAILED;
}

static int run_inspect(struct settings *s)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < s->paths.n; i++) {
		const char *path = s->paths.items[i].p;
		AUTO(buf_done) struct buf text = { 0 };
		struct json_writer out = JSON_WRITER(&text);
		struct err err = { 0 };

		if (inspect_file(s, path, &out, &err) < 0) {
			err_in(&err, "%s", path);
			status = tell_error("inspect", &err);
		} else if (print_facts(s, path, &text) != EXIT_DONE) {
			status = EXIT_FAILED;
		}
		if (!s->json && !s->ids && i + 1 < s->paths.n)
			putchar('\n');
	}
	return status;
}

static const struct option_row inspect_rows[] = {
	{ 0, "sections", NULL, "print the sections of an ELF file", OPT_ON(sections) },
	{ 0, "members", NULL, "decode a package and print its files and resume points", OPT_ON(members) },
	{ 0, "build-id", NULL, "print build IDs alone, one a line", OPT_ON(ids) },
	{ 0, "unwind", NULL, "print a summary of the agent's unwind table of an ELF file", OPT_ON(unwind) },
	{ 0, "unwind-at", "ADDR",
	  "print the rule by which callers are found at this address of the file, in hexadecimal",
	  OPT_TEXT(unwind_at) },
	{ 0, "json", NULL, "print JSON, an object a FILE, for programs", OPT_ON(json) },
	{ 0 },
};
static const struct option_group inspect_group = { "Output", inspect_rows };

const struct command command_inspect = {
	.name = "inspect",
	.args = "FILE...",
	.summary = "print the facts about a file or package: build IDs, links, sections, members",
	.examples = "  lode inspect /usr/bin/ls\n"
		    "  lode inspect --build-id /usr/bin/ls\n"
		    "  lode inspect --sections /usr/lib/debug/.build-id/ab/cdef.debug\n"
		    "  lode inspect --members --json libc6-dbg_2.36-9_amd64.deb\n",
	.groups = { &inspect_group },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "no FILE given",
	.run = run_inspect,
};
