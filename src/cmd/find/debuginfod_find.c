/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode debuginfod-find: one artifact from the servers of DEBUGINFOD_URLS, with the arguments, output and exit
 * status of elfutils' program of that name, which valgrind, delve and scripts run.
 *
 * stdout has the path and nothing else. On success stderr is empty without -v: some callers read both as one.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "client/client.h"
#include "cmd/internal.h"
#include "elf/elf.h"
#include "pkg/pkg.h"
#include "s3/s3.h"

#define SHOW_MS      200 /* between two lines of progress */
#define METADATA_MAX MIB(256)

/* ---- progress ---- */

struct fetch_display {
	unsigned verbosity;
	bool line; /* DEBUGINFOD_PROGRESS is set: a line on stderr that is written over */
	bool line_begun;
	bool terminal;    /* stderr is one: it says which package is waited for */
	int64_t shown_ms; /* 0: not yet */
	unsigned long n_ticks;
};

static void end_display_line(struct fetch_display *s)
{
	if (s->line_begun && s->terminal && !s->line)
		progress_clear();
	else if (s->line_begun)
		fprintf(stderr, "\n");
	s->line_begun = false;
}

static void show_fetch_waiting(struct fetch_display *s, const struct client_progress *p)
{
	AUTO(buf_done) struct buf b = { 0 };

	progress_add_waiting(&b, p);
	if (s->terminal)
		progress_show(&b);
	else
		fprintf(stderr, s->line ? "\r%.*s" : "%.*s\n", (int)b.size, (const char *)b.p);
	s->line_begun = s->line || s->terminal;
}

static int on_fetch_progress(void *arg, const struct client_progress *p)
{
	struct fetch_display *s = arg;
	uint64_t total = p->bytes && p->bytes_expected >= p->bytes ? p->bytes_expected : 0;
	int64_t now_ms = clock_mono_ms();

	if (signals_stopped())
		return 1;
	s->n_ticks++;
	/* The end is always shown. */
	if (s->shown_ms && now_ms - s->shown_ms < SHOW_MS && !(p->n_done && p->bytes))
		return 0;
	s->shown_ms = now_ms;
	if (s->verbosity)
		fprintf(stderr, "Progress %llu / %llu\n",
			(unsigned long long)(p->bytes ? p->bytes : s->n_ticks), (unsigned long long)total);
	if (p->reading && (s->terminal || s->line || s->verbosity)) {
		show_fetch_waiting(s, p);
	} else if (s->line && p->url) {
		fprintf(stderr, "\rDownloading from %s %llu/%llu", p->url, (unsigned long long)p->bytes,
			(unsigned long long)total);
		s->line_begun = true;
	} else if (s->line && !p->n_done) {
		fprintf(stderr, "\rDownloading %c", "-/|\\"[s->n_ticks % 4]);
		s->line_begun = true;
	}
	return 0;
}

/* Lines with texts of servers, also of those that another client has left in the cache folder. */
static void print_lines(struct str text)
{
	while (text.size) {
		struct str line = str_cut(&text, '\n');

		line.size -= line.size && line.p[line.size - 1] == '\r';
		print_text(stderr, line);
		fputc('\n', stderr);
	}
}

static void on_client_step(void *arg, const char *line)
{
	end_display_line(arg);
	print_lines(str_of(line));
}

/* ---- the arguments ---- */

static int file_build_id(const char *path, struct build_id *ret, struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	int r = s3_open_path(path, &src, err);

	if (r == FILE_MISSING)
		return err_set(
			err, ERR_INVALID,
			"Cannot open %s: %s; and it is not a build ID, which is lower-case hexadecimal", path,
			strerror(ENOENT));
	if (r < 0)
		return err_in(err, "%s", path);
	r = elf_open(src, &img, err);
	if (r == ELF_NOT_ELF) {
		(void)!elf_foreign_source_err(src, err);
		return err_in(err, "%s", path);
	}
	if (r == 0 && elf_refuse_core(img->h.type, err) < 0)
		return err_in(err, "%s", path);
	if (r == 0)
		r = elf_build_id(img, ret, err);
	if (r == ELF_NO_BUILD_ID)
		return err_set(err, ERR_INVALID, "%s: has no build ID", path);
	return r;
}

/* Hexadecimal digits are a build ID, even if there is a file of that name; any other text is the name of a
 * file. */
static int argument_build_id(struct str text, struct build_id *ret, struct err *err)
{
	AUTO(mem_freep) char *path = mem_strndup(text.p, text.size);

	if (strspn(path, "0123456789abcdef") != text.size)
		return file_build_id(path, ret, err);
	if (build_id_parse(ret, text))
		return 0;
	if (text.size % 2)
		return err_set(err, ERR_INVALID, "%s: a build ID has an even number of digits, not %zu", path,
			       text.size);
	return err_set(err, ERR_INVALID, "a build ID has at most %u digits, not %zu", 2 * BUILD_ID_MAX,
		       text.size);
}

static const struct fetch_kind {
	const char *name, *missing;
} kinds[] = {
	[CLIENT_DEBUGINFO] = { "debuginfo", NULL },
	[CLIENT_EXECUTABLE] = { "executable", NULL },
	[CLIENT_SOURCE] = { "source", "which source? An absolute /FILENAME must be given" },
	[CLIENT_SECTION] = { "section", "which section? A section name must be given" },
};

static int fetch_usage(const char *why)
{
	fprintf(stderr, "lode: debuginfod-find: %s; see: lode help debuginfod-find\n", why);
	return EXIT_FAILED; /* as the other program */
}

/* ---- the answer ---- */

static int print_file(const struct client_result *r)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	if (file_read(r->path, METADATA_MAX, &b, &err) != 0)
		return tell_error("debuginfod-find", &err);
	fwrite(b.p, 1, b.size, stdout);
	if (!b.size || b.p[b.size - 1] != '\n')
		printf("\n");
	return EXIT_DONE;
}

static int print_result(struct fetch_display *s, const struct client_result *r, bool metadata)
{
	end_display_line(s);
	if (s->verbosity && r->headers) {
		fprintf(stderr, "Headers:\n");
		print_lines(str_of(r->headers));
	}
	if (s->verbosity && r->url) {
		fprintf(stderr, "Downloaded from ");
		print_lines(str_of(r->url));
	}
	if (r->outcome != CLIENT_FOUND) {
		fprintf(stderr, "Server query failed: %s\n", strerror(r->os ? r->os : ENOENT));
		tell_error("debuginfod-find", &r->err);
		return EXIT_FAILED;
	}
	if (metadata)
		return print_file(r);
	printf("%s\n", r->path);
	return EXIT_DONE;
}

static bool has_no_servers(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return !urls || !*urls;
}

/* Also if the file is in the cache folder: without the variable nothing is to be found. */
static int tell_no_servers(void)
{
	fprintf(stderr,
		"Server query failed: %s\nlode: debuginfod-find: DEBUGINFOD_URLS names no server; set it, "
		"for a lode serve "
		"on this machine to http://127.0.0.1:8002\n",
		strerror(ENOSYS));
	return EXIT_FAILED;
}

/* A build ID, and not the name of a file. */
static bool is_hex_text(const char *text)
{
	return text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
}

static int fetch_artifact(struct settings *s, struct client *c, const struct client_watch *w,
			  struct client_result *r)
{
	struct str kind = s->paths.items[0];
	struct client_request want = { 0 };
	struct err err = { 0 };
	AUTO(mem_freep) char *name = NULL;

	while (want.kind < ARRAY_SIZE(kinds) && !str_eq(kind, str_of(kinds[want.kind].name)))
		want.kind++;
	if (want.kind == ARRAY_SIZE(kinds))
		return fetch_usage(
			"the first argument is debuginfo, executable, source, section or metadata");
	if (kinds[want.kind].missing && s->paths.n < 3)
		return fetch_usage(kinds[want.kind].missing);
	if (s->paths.n > 2)
		want.name = name = mem_strndup(s->paths.items[2].p, s->paths.items[2].size);
	/* Of a program that was given as a file, for servers that find it by its name. */
	if (want.kind == CLIENT_EXECUTABLE && !name)
		want.name = name = mem_strndup(s->paths.items[1].p, s->paths.items[1].size);
	if (want.kind == CLIENT_EXECUTABLE && name && !strchr(name, '/'))
		want.name = is_hex_text(name) ? NULL : name;
	if (want.kind == CLIENT_SOURCE && name[0] != '/')
		return fetch_usage(kinds[CLIENT_SOURCE].missing);
	/* With -v the servers are printed even if the build ID is wrong: scripts read them. */
	if (argument_build_id(s->paths.items[1], &want.id, &err) < 0) {
		tell_error("debuginfod-find", &err);
		want.id.size = 0;
	} else if (has_no_servers()) {
		return tell_no_servers();
	}
	client_find(c, &want, 1, w, r);
	return EXIT_DONE;
}

static int fetch_metadata(struct settings *s, struct client *c, const struct client_watch *w,
			  struct client_result *r)
{
	AUTO(mem_freep) char *key = NULL, *value = NULL;

	if (s->paths.n != 3)
		return fetch_usage("metadata needs a key (file, glob or buildid) and a value");
	if (has_no_servers())
		return tell_no_servers();
	key = mem_strndup(s->paths.items[1].p, s->paths.items[1].size);
	value = mem_strndup(s->paths.items[2].p, s->paths.items[2].size);
	client_metadata(c, key, value, w, r);
	return EXIT_DONE;
}

static int run_debuginfod_find(struct settings *s)
{
	struct fetch_display showing = { .verbosity = s->find_verbosity +
						      (getenv("DEBUGINFOD_VERBOSE") ? 2 : 0),
					 .line = getenv("DEBUGINFOD_PROGRESS"),
					 .terminal = isatty(STDERR_FILENO) };
	struct client_watch watch = { .arg = &showing,
				      .progress = on_fetch_progress,
				      .say = showing.verbosity > 1 ? on_client_step : NULL };
	bool metadata = str_eq(s->paths.items[0], STR("metadata"));
	struct client *c = client_new(&(struct client_options){ .unread_wait_ms = unread_wait_ms(s) });
	struct client_result r = { .fd = -1, .os = EINVAL };
	int status;

	signals_catch();
	signal(SIGPIPE, SIG_IGN);
	status = metadata ? fetch_metadata(s, c, &watch, &r) : fetch_artifact(s, c, &watch, &r);
	if (status == EXIT_DONE)
		status = print_result(&showing, &r, metadata);
	client_result_done(&r);
	client_free(c);
	return status;
}

static int add_find_verbosity(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	s->find_verbosity++;
	return 0;
}

static const struct option_row fetch_rows[] = {
	{ 'v', "verbose", NULL, "print progress, headers and server; twice: every step",
	  OPT_CALL(add_find_verbosity) },
	UNREAD_WAIT_ROW,
	{ 0 },
};
static const struct option_group fetch_group = { "Options", fetch_rows };

const struct command command_debuginfod_find = {
	.name = "debuginfod-find",
	.args = "debuginfo|executable|source|section|metadata ID|FILE|KEY [NAME|VALUE]",
	.summary = "fetch one artifact from debuginfod servers, as elfutils' program of that name does",
	.examples = "  export DEBUGINFOD_URLS=https://debuginfod.elfutils.org\n"
		    "  lode debuginfod-find debuginfo /usr/bin/ls\n"
		    "  lode debuginfod-find source 4f3a...e1 /usr/src/coreutils/src/ls.c\n"
		    "  lode debuginfod-find section 4f3a...e1 .debug_line\n"
		    "  lode debuginfod-find metadata glob '/usr/bin/l*'\n",
	.groups = { &fetch_group },
	.min_args = 2,
	.max_args = 3,
	.missing = "no artifact given, or no build ID or file",
	.run = run_debuginfod_find,
};
