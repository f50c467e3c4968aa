/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode split: split an ELF file into the stripped file and its debug file.
 *
 * Both are written to temporary files. The debug file is renamed into place, and durable, before the stripped
 * file replaces the original: a crash between the two loses nothing.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cmd/internal.h"
#include "codec/codec.h"
#include "elf/split.h"
#include "pkg/pkg.h"
#include "s3/s3.h"

struct split_job {
	const struct settings *s;
	struct arena a;
	struct source *src;
	struct elf_image *img;
	struct build_id id; /* size 0: none */
	const char *in;     /* real path of the original; of a member: as it was given */
	bool is_member;     /* of an archive, which stays as it is */
	const char *out;    /* of the stripped file */
	const char *debug;  /* of the debug file */
	struct stat st;     /* of the original */
	bool is_signed;     /* a kernel module */
	uint64_t out_size, debug_size;
};

static void split_job_done(struct split_job *j)
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
		return err_set(err, ERR_INVALID, "--compress: '%s' is not zstd, zlib or none", word);
	return 0;
}

/* ---- one file ---- */

static int not_elf_error(struct source *src, struct err *err)
{
	enum codec_kind codec;

	if (codec_detect_at(src, 0, SOURCE_RANDOM, &codec, err) < 0)
		return -1;
	if (codec == CODEC_NONE)
		return elf_foreign_source_err(src, err);
	return err_set(
		err, ERR_INVALID,
		"compressed as a whole (%s); decompress it first, and compress the stripped file again",
		codec_name(codec));
}

/* "libx.a:member.o", "app.apk!lib/x.so". */
static int open_split_member(struct split_job *j, const char *path, struct err *err)
{
	mode_t mask = umask(0);
	int r;

	umask(mask);
	r = s3_open_path(path, &j->src, err);
	if (r)
		return r < 0 ? -1 : err_os(err, ENOENT, "open");
	j->is_member = true;
	j->in = path;
	j->st = (struct stat){ .st_mode = 0666 & ~mask, .st_uid = geteuid(), .st_gid = getegid() };
	if (!j->s->split.output)
		return err_set(
			err, ERR_INVALID,
			"a member of an archive is not replaced: give the path of the stripped file by -o "
			"FILE");
	return 0;
}

static int open_split_file(struct split_job *j, const char *path, struct err *err)
{
	char real[PATH_MAX];
	uint64_t off;
	int fd, r;

	/* A symbolic link stays; its target is replaced. */
	if (!realpath(path, real))
		return errno == ENOENT || errno == ENOTDIR ? open_split_member(j, path, err)
							   : err_os(err, errno, "open");
	if (elf_refuse_folder(path, err) < 0)
		return -1;
	j->in = arena_strdup(&j->a, str_of(real));
	r = source_open_file(j->in, &j->src, err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "there is no such file");
	if (!source_raw_fd(j->src, &fd, &off) || fstat(fd, &j->st) < 0)
		return err_os(err, errno, "stat");
	return 0;
}

static int open_original(struct split_job *j, const char *path, struct err *err)
{
	int r;

	if (open_split_file(j, path, err) < 0)
		return -1;
	r = elf_open(j->src, &j->img, err);
	if (r)
		return r < 0 ? -1 : not_elf_error(j->src, err);
	r = elf_split_check(j->img, &j->is_signed, err);
	if (r)
		return r < 0 ? -1
			     : err_set(err, ERR_INVALID,
				       "no debug sections; it was stripped, or built without -g");
	/* An archive has no modes that count: a program is executable. */
	if (j->is_member && j->img->h.type != ET_REL)
		j->st.st_mode |= (j->st.st_mode & 0444) >> 2;
	return elf_build_id(j->img, &j->id, err) < 0 ? -1 : 0;
}

/* The folder of a path. Heap. */
static char *folder_of(const char *path)
{
	struct str dir = path_dirname(str_of(path));

	return dir.size ? mem_strndup(dir.p, dir.size) : mem_strdup(".");
}

/* Both paths name one entry of one folder: the file that is renamed there later would replace the other. */
static bool is_same_place(const char *a, const char *b)
{
	AUTO(mem_freep) char *dir_a = folder_of(a), *dir_b = folder_of(b);
	struct stat x, y;

	if (strcmp(a, b) == 0)
		return true;
	return str_eq(path_basename(str_of(a)), path_basename(str_of(b))) && stat(dir_a, &x) == 0 &&
	       stat(dir_b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* @path is the archive, or one of the archives, that the member is in. */
static bool is_archive_of(const struct split_job *j, const char *path)
{
	struct stat out, st;

	if (!j->is_member || stat(path, &out) < 0)
		return false;
	for (const char *p = j->in; (p = strpbrk(p, ":!")); p++) {
		AUTO(mem_freep) char *archive = mem_strndup(j->in, (size_t)(p - j->in));

		if (stat(archive, &st) == 0 && st.st_dev == out.st_dev && st.st_ino == out.st_ino)
			return true;
	}
	return false;
}

/* The paths of the two files. */
static int choose_places(struct split_job *j, struct err *err)
{
	const struct split_settings *s = &j->s->split;
	char hex[BUILD_ID_HEX_SIZE];

	j->out = s->output ? s->output : j->in;
	if (s->debug_file) {
		j->debug = s->debug_file;
	} else if (s->tree) {
		if (!j->id.size)
			return err_set(err, ERR_INVALID,
				       "no build ID; link it with --build-id, or use --debug-file");
		build_id_hex(&j->id, hex);
		j->debug = arena_printf(&j->a, "%s/.build-id/%.2s/%s.debug", s->tree, hex, hex + 2);
	} else {
		j->debug = arena_printf(&j->a, "%s.debug", j->out);
	}
	if (is_same_place(j->debug, j->out) || is_same_place(j->debug, j->in))
		return err_set(err, ERR_INVALID,
			       "the debug file would replace the file itself; give another --debug-file");
	if (is_archive_of(j, j->out) || is_archive_of(j, j->debug))
		return err_set(
			err, ERR_INVALID,
			"the archive itself would be replaced; give another path by -o or --debug-file");
	return 0;
}

static int make_parent_dir(const char *path, struct err *err)
{
	struct str d = path_dirname(str_of(path));
	AUTO(mem_freep) char *dir = mem_strndup(d.p, d.size);

	return d.size ? dir_make(dir, 0755, err) : 0;
}

/* Copy owner and extended attributes (such as file capabilities), as far as permissions allow. */
static void copy_properties(const struct split_job *j, int fd)
{
	char names[4096], value[4096];
	ssize_t n = j->is_member ? 0 : listxattr(j->in, names, sizeof(names));

	if (fchown(fd, j->st.st_uid, j->st.st_gid) == 0)
		(void)fchmod(fd, j->st.st_mode & 07777); /* a change of the owner clears set-user-ID */
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t size = getxattr(j->in, names + at, value, sizeof(value));

		if (size >= 0)
			(void)fsetxattr(fd, names + at, value, (size_t)size, 0);
	}
}

/* ".build-id/nn/nnnn" in the tree, to the stripped file. */
static int link_executable(struct split_job *j, struct err *err)
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

/* The program that was read replaces the original: a linker that wrote it meanwhile would lose its output. */
static int check_unchanged(const struct split_job *j, struct err *err)
{
	struct stat now;

	if (j->is_member)
		return 0;
	if (stat(j->in, &now) < 0)
		return err_os(err, errno, "%s", j->in);
	if (now.st_dev == j->st.st_dev && now.st_ino == j->st.st_ino && now.st_size == j->st.st_size &&
	    now.st_mtim.tv_sec == j->st.st_mtim.tv_sec && now.st_mtim.tv_nsec == j->st.st_mtim.tv_nsec)
		return 0;
	return err_set(err, ERR_CHANGED, "changed while it was split; no file was written");
}

static uint64_t fd_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int split_file(struct split_job *j, struct err *err)
{
	AUTO(file_temp_done) struct file_temp debug = FILE_TEMP_NONE;
	AUTO(file_temp_done) struct file_temp out = FILE_TEMP_NONE;
	struct str link_name = path_basename(str_of(j->debug));
	enum elf_split_packing packing;
	uint32_t crc;

	if (packing_of(j->s->split.compress, &packing, err) < 0 || make_parent_dir(j->debug, err) < 0 ||
	    file_temp_open(j->debug, j->st.st_mode & 0666, &debug, err) < 0 ||
	    elf_split_debug(j->img, debug.fd, packing, &crc, err) < 0)
		return -1;
	if (file_temp_open(j->out, j->st.st_mode, &out, err) < 0 ||
	    elf_split_strip(j->img, out.fd, link_name.p, crc, err) < 0)
		return -1;
	copy_properties(j, out.fd);
	j->debug_size = fd_size(debug.fd);
	j->out_size = fd_size(out.fd);
	if (check_unchanged(j, err) < 0 || file_temp_commit(&debug, err) < 0 ||
	    file_temp_commit(&out, err) < 0)
		return -1;
	return j->s->split.executable_link ? link_executable(j, err) : 0;
}

static int print_split_json(const struct split_job *j)
{
	struct buf text = { 0 };
	struct json_writer w = JSON_WRITER(&text);
	char hex[BUILD_ID_HEX_SIZE];

	json_open_object(&w, NULL);
	json_put_text(&w, "path", j->in);
	json_put_text(&w, "output", j->out);
	json_put_text(&w, "debug_file", j->debug);
	json_put_text(&w, "build_id", build_id_hex(&j->id, hex));
	json_put_uint(&w, "size", j->src->size);
	json_put_uint(&w, "output_size", j->out_size);
	json_put_uint(&w, "debug_size", j->debug_size);
	json_put_bool(&w, "signature_dropped", j->is_signed);
	json_close(&w);
	return json_print_end(&text);
}

static int print_split(const struct split_job *j)
{
	char a[32], b[32], c[32];

	if (j->s->json)
		return print_split_json(j);
	if (j->is_signed) {
		fprintf(stderr, "lode: split: ");
		print_text(stderr, str_of(j->out));
		fprintf(stderr, ": the signature was dropped, since it covered the debug sections, too; "
				"sign the file again (scripts/sign-file of the kernel)\n");
	}
	print_text(stdout, str_of(j->debug));
	printf(": %s of debug information; the stripped file has %s, before %s\n",
	       size_text(j->debug_size, a), size_text(j->out_size, b), size_text(j->src->size, c));
	return EXIT_DONE;
}

static int split_one(const struct settings *s, const char *path)
{
	AUTO(split_job_done) struct split_job j = { .s = s };
	struct err err = { 0 };

	if (open_original(&j, path, &err) < 0 || choose_places(&j, &err) < 0 || split_file(&j, &err) < 0) {
		err_in(&err, "%s", path);
		return tell_error("split", &err);
	}
	return print_split(&j);
}

static int check_options(const struct settings *s, struct err *err)
{
	const struct split_settings *p = &s->split;
	enum elf_split_packing packing;

	if (packing_of(p->compress, &packing, err) < 0)
		return -1;
	if (s->paths.n > 1 && (p->output || p->debug_file))
		return err_set(err, ERR_INVALID,
			       "--output and --debug-file name one file, but there are %zu FILEs",
			       s->paths.n);
	if (p->debug_file && p->tree)
		return err_set(err, ERR_INVALID, "give only one of --debug-file, --build-id-tree");
	if (p->executable_link && !p->tree)
		return err_set(err, ERR_INVALID, "--executable-link needs --build-id-tree");
	return 0;
}

static int run_split(struct settings *s)
{
	int status = EXIT_DONE;
	struct err err = { 0 };

	if (check_options(s, &err) < 0) {
		return usage_error("split", "%s", err.text);
	}
	for (size_t i = 0; i < s->paths.n; i++)
		if (split_one(s, s->paths.items[i].p) != EXIT_DONE)
			status = EXIT_FAILED;
	return status;
}

static const struct option_row split_rows[] = {
	{ 'o', "output", "FILE", "write the stripped file there [it replaces the original]",
	  OPT_TEXT(split.output) },
	{ 'f', "debug-file", "FILE", "write the debug file there [the stripped file's name and .debug]",
	  OPT_TEXT(split.debug_file) },
	{ 0, "build-id-tree", "DIR", "write debug files to DIR/.build-id/nn/nnnn.debug",
	  OPT_TEXT(split.tree) },
	{ 0, "executable-link", NULL,
	  "with --build-id-tree: make DIR/.build-id/nn/nnnn a link to the stripped file",
	  OPT_ON(split.executable_link) },
	{ 'z', "compress", "HOW", "compress the sections of the debug file: zstd, zlib or none [as they are]",
	  OPT_TEXT(split.compress) },
	{ 0 },
};
static const struct option_group split_group = { "Files", split_rows };

const struct command command_split = {
	.name = "split",
	.args = "FILE...",
	.summary = "split programs, libraries, kernel modules into a stripped file and its debug file",
	.examples = "  lode split program                            # program, program.debug\n"
		    "  lode split -o /srv/out/program program\n"
		    "  lode split -o libx.so 'app.apk!lib/arm64-v8a/libx.so'\n"
		    "  lode split --compress zstd --build-id-tree /usr/lib/debug /usr/local/bin/*\n",
	.groups = { &split_group, &group_output },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "no FILE given",
	.run = run_split,
};
