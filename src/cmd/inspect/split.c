/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode split: of an ELF file, the stripped file and the debug file that belongs to it.
 *
 * Both are made aside. The debug file is there, and durable, before the stripped one takes the place of the
 * original: a crash between the two costs nothing.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cmd/internal.h"
#include "codec/codec.h"
#include "elf/split.h"

struct job {
	const struct settings *s;
	struct arena a;
	struct source *src;
	struct elf_image *img;
	struct build_id id; /* size 0: none */
	const char *in;     /* real path of the original */
	const char *out;    /* of the stripped file */
	const char *debug;  /* of the debug file */
	struct stat st;     /* of the original */
	bool is_signed;     /* a kernel module */
	uint64_t out_size, debug_size;
};

static void job_done(struct job *j)
{
	elf_close(j->img);
	source_close(j->src);
	arena_done(&j->a);
}

static int packing_of(const char *word, enum elf_split_packing *ret, struct err *err)
{
	static const char *const words[] = {
		[ELF_SPLIT_UNPACKED] = "none",
		[ELF_SPLIT_ZLIB] = "zlib",
		[ELF_SPLIT_ZSTD] = "zstd",
	};

	*ret = ELF_SPLIT_AS_THEY_ARE;
	for (size_t i = 1; word && i < ARRAY_SIZE(words); i++)
		if (strcmp(word, words[i]) == 0)
			*ret = (enum elf_split_packing)i;
	if (word && *ret == ELF_SPLIT_AS_THEY_ARE)
		return err_set(err, ERR_INVALID, "--compress is zstd, zlib or none, not '%s'", word);
	return 0;
}

/* ---- one file ---- */

static int not_elf(struct source *src, struct err *err)
{
	enum codec_kind codec;

	if (codec_detect_at(src, 0, SOURCE_RANDOM, &codec, err) < 0)
		return -1;
	if (codec == CODEC_NONE)
		return err_set(err, ERR_INVALID, "not an ELF file");
	return err_set(err, ERR_INVALID,
		       "compressed as a whole (%s): unpack it first, and pack the stripped file again",
		       codec_name(codec));
}

static int open_original(struct job *j, const char *path, struct err *err)
{
	char real[PATH_MAX];
	uint64_t off;
	int fd, r;

	/* A symbolic link stays; what it leads to is replaced. */
	if (!realpath(path, real))
		return err_os(err, errno, "open");
	j->in = arena_strdup(&j->a, str_of(real));
	r = source_open_file(j->in, &j->src, err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "there is no such file");
	if (!source_raw_fd(j->src, &fd, &off) || fstat(fd, &j->st) < 0)
		return err_os(err, errno, "stat");
	r = elf_open(j->src, &j->img, err);
	if (r)
		return r < 0 ? -1 : not_elf(j->src, err);
	r = elf_split_check(j->img, &j->is_signed, err);
	if (r)
		return r < 0 ? -1
			     : err_set(err, ERR_INVALID,
				       "has no debug sections: it was stripped, or built without -g");
	return elf_build_id(j->img, &j->id, err) < 0 ? -1 : 0;
}

/* Where the two files go. */
static int choose_places(struct job *j, struct err *err)
{
	const struct split_settings *s = &j->s->split;
	char hex[BUILD_ID_HEX_SIZE];

	j->out = s->output ? s->output : j->in;
	if (s->debug_file) {
		j->debug = s->debug_file;
	} else if (s->tree) {
		if (!j->id.size)
			return err_set(err, ERR_INVALID,
				       "has no build ID: link it with --build-id, or use --debug-file");
		build_id_hex(&j->id, hex);
		j->debug = arena_printf(&j->a, "%s/.build-id/%.2s/%s.debug", s->tree, hex, hex + 2);
	} else {
		j->debug = arena_printf(&j->a, "%s.debug", j->out);
	}
	if (strcmp(j->debug, j->out) == 0 || strcmp(j->debug, j->in) == 0)
		return err_set(err, ERR_INVALID, "the debug file would take the place of the file itself");
	return 0;
}

static int make_parent(const char *path, struct err *err)
{
	struct str d = path_dirname(str_of(path));
	AUTO(mem_freep) char *dir = mem_strndup(d.p, d.size);

	return d.size ? dir_make(dir, 0755, err) : 0;
}

/* Owner and extended attributes (file capabilities are one), as far as we may. */
static void keep_properties(const struct job *j, int fd)
{
	char names[4096], value[4096];
	ssize_t n = listxattr(j->in, names, sizeof(names));

	if (fchown(fd, j->st.st_uid, j->st.st_gid) == 0)
		(void)fchmod(fd, j->st.st_mode & 07777); /* changing the owner takes set-user-ID away */
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t size = getxattr(j->in, names + at, value, sizeof(value));

		if (size >= 0)
			(void)fsetxattr(fd, names + at, value, (size_t)size, 0);
	}
}

/* ".build-id/nn/nnnn" in the tree, to the stripped file. */
static int link_executable(struct job *j, struct err *err)
{
	const char *link = arena_strdup(&j->a, (struct str){ j->debug, strlen(j->debug) - strlen(".debug") });
	char real[PATH_MAX];

	if (!realpath(j->out, real))
		return err_os(err, errno, "%s", j->out);
	if (unlink(link) < 0 && errno != ENOENT)
		return err_os(err, errno, "%s: remove", link);
	if (symlink(real, link) < 0)
		return err_os(err, errno, "%s: link", link);
	return 0;
}

static uint64_t size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int split(struct job *j, struct err *err)
{
	AUTO(file_temp_done) struct file_temp debug = FILE_TEMP_NONE;
	AUTO(file_temp_done) struct file_temp out = FILE_TEMP_NONE;
	struct str link_name = path_basename(str_of(j->debug));
	enum elf_split_packing packing;
	uint32_t crc;

	if (packing_of(j->s->split.compress, &packing, err) < 0 || make_parent(j->debug, err) < 0 ||
	    file_temp_open(j->debug, j->st.st_mode & 0666, &debug, err) < 0 ||
	    elf_split_debug(j->img, debug.fd, packing, &crc, err) < 0)
		return -1;
	if (file_temp_open(j->out, j->st.st_mode, &out, err) < 0 ||
	    elf_split_strip(j->img, out.fd, link_name.p, crc, err) < 0)
		return -1;
	keep_properties(j, out.fd);
	j->debug_size = size_of(debug.fd);
	j->out_size = size_of(out.fd);
	if (file_temp_commit(&debug, err) < 0 || file_temp_commit(&out, err) < 0)
		return -1;
	return j->s->split.executable_link ? link_executable(j, err) : 0;
}

static int show(const struct job *j)
{
	char a[32], b[32], c[32], hex[BUILD_ID_HEX_SIZE];

	if (j->s->json)
		return json_print(json_pack("{s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:b}", "path",
					    json_text(str_of(j->in)), "output", json_text(str_of(j->out)),
					    "debug_file", json_text(str_of(j->debug)), "build_id",
					    build_id_hex(&j->id, hex), "size", (json_int_t)j->src->size,
					    "output_size", (json_int_t)j->out_size, "debug_size",
					    (json_int_t)j->debug_size, "signature_dropped", j->is_signed));
	if (j->is_signed) {
		fprintf(stderr, "lode: split: ");
		print_text(stderr, str_of(j->out));
		fprintf(stderr, ": is not signed any more, for the signature was over the debug sections "
				"too: sign it again (scripts/sign-file of "
				"the kernel)\n");
	}
	print_text(stdout, str_of(j->debug));
	printf("  %s = %s + %s\n", size_text(j->src->size, a), size_text(j->out_size, b),
	       size_text(j->debug_size, c));
	return EXIT_DONE;
}

static int split_one(const struct settings *s, const char *path)
{
	AUTO(job_done) struct job j = { .s = s };
	struct err err = { 0 };

	if (open_original(&j, path, &err) < 0 || choose_places(&j, &err) < 0 || split(&j, &err) < 0) {
		err_in(&err, "%s", path);
		return tell_error("split", &err);
	}
	return show(&j);
}

static int check(const struct settings *s, struct err *err)
{
	const struct split_settings *p = &s->split;
	enum elf_split_packing packing;

	if (packing_of(p->compress, &packing, err) < 0)
		return -1;
	if (s->paths.n > 1 && (p->output || p->debug_file))
		return err_set(err, ERR_INVALID,
			       "--output and --debug-file name one file, and there are %zu FILEs",
			       s->paths.n);
	if (p->debug_file && p->tree)
		return err_set(err, ERR_INVALID, "--debug-file and --build-id-tree: one of the two");
	if (p->executable_link && !p->tree)
		return err_set(err, ERR_INVALID, "--executable-link needs --build-id-tree");
	return 0;
}

static int run(struct settings *s)
{
	int status = EXIT_DONE;
	struct err err = { 0 };

	if (check(s, &err) < 0) {
		tell_error("split", &err);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < s->paths.n; i++)
		if (split_one(s, s->paths.items[i].p) != EXIT_DONE)
			status = EXIT_FAILED;
	return status;
}

static const struct option_row rows[] = {
	{ 'o', "output", "FILE", "the stripped file goes there [in place of the original]",
	  OPT_TEXT(split.output) },
	{ 'f', "debug-file", "FILE",
	  "the debug file goes there [beside the stripped one, with .debug behind its name]",
	  OPT_TEXT(split.debug_file) },
	{ 0, "build-id-tree", "DIR", "debug files go to DIR/.build-id/nn/nnnn.debug", OPT_TEXT(split.tree) },
	{ 0, "executable-link", NULL, "with it, DIR/.build-id/nn/nnnn is a link to the stripped file",
	  OPT_ON(split.executable_link) },
	{ 'z', "compress", "HOW", "debug sections in the debug file: zstd, zlib or none [as they are]",
	  OPT_TEXT(split.compress) },
	{ 0 },
};
static const struct option_group group = { "Where to", rows };

const struct command command_split = {
	.name = "split",
	.args = "FILE...",
	.summary = "split programs, libraries, kernel modules into a stripped file and its debug file",
	.examples = "  lode split program                            # program, program.debug\n"
		    "  lode split -o /srv/out/program program\n"
		    "  lode split --compress zstd --build-id-tree /usr/lib/debug /usr/local/bin/*\n",
	.groups = { &group, &group_output },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "which FILE?",
	.run = run,
};
