/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode debuginfod: the service under the options, signals and environment of elfutils' debuginfod, so that a
 * service file or a script made for that one runs unchanged. What makes no sense here is taken with a
 * warning.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/internal.h"

static int add_suffixes(struct settings *s, const char *const *list, enum setting_rank rank, struct err *err)
{
	s->scan.packages = true;
	for (; *list; list++)
		if (setting_list_add(s, &s->suffixes, str_of(*list), rank, err) < 0)
			return -1;
	return 0;
}

static int set_rpm(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	static const char *const list[] = { ".rpm", NULL };

	return add_suffixes(s, list, rank, err);
}

static int set_deb(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	static const char *const list[] = { ".deb", ".ddeb", ".ipk", NULL };

	return add_suffixes(s, list, rank, err);
}

/* EXT, or EXT=CMD. Archives are read by us alone: a command would be run with the name of a file that
 * somebody else has chosen. */
static int set_archive(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	struct str cmd = str_of(value), suffix = str_cut(&cmd, '=');

	if (!suffix.size)
		return err_set(err, ERR_INVALID, "needs the ending of a file name, not '%s'", value);
	cmd = str_trim(cmd);
	if (cmd.size && !str_eq(cmd, STR("cat")))
		log_warn("debuginfod", "-Z %s: the command is not run, such files are read directly", value);
	s->scan.packages = true;
	return setting_list_add(s, &s->suffixes, suffix, rank, err);
}

/* -C, -C8, and -C=8 as its manual has it. Less than two the reference does not take either. */
static int set_pool(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	uint64_t n;

	if (!value)
		return 0;
	value += *value == '=';
	if (!str_to_u64(str_of(value), &n) || n > 100000)
		return err_set(err, ERR_INVALID, "'%s' is not a number of threads", value);
	s->server.http_threads = MAX((unsigned)n, 2u);
	return 0;
}

static int set_port(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	uint64_t n;

	if (!str_to_u64(str_of(value), &n) || n == 0 || n > 65535)
		return err_set(err, ERR_INVALID, "'%s' is not a port", value);
	s->debuginfod.port = (unsigned)n;
	return 0;
}

static int set_cache(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	uint64_t mb;

	if (!str_to_u64(str_of(value), &mb) || mb > UINT32_MAX)
		return err_set(err, ERR_INVALID, "'%s' is not a number of megabytes", value);
	s->server.cache_max_bytes = mb << 20;
	return 0;
}

static int more_verbose(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	/* Once is what we tell anyway. */
	s->verbose = ++s->debuginfod.verbosity >= 2;
	return 0;
}

static const struct option_row scanner_rows[] = {
	{ 'F', "scan-file-dir", NULL, "look at ELF files", OPT_ON(scan.files) },
	{ 'R', "scan-rpm-dir", NULL, "look at .rpm", OPT_CALL(set_rpm) },
	{ 'U', "scan-deb-dir", NULL, "look at .deb, .ddeb, .ipk", OPT_CALL(set_deb) },
	{ 'Z', "scan-archive", "EXT[=CMD]",
	  "look at archives named so; CMD is never run, they are read directly", OPT_CALL(set_archive) },
	{ 'L', "logical", NULL, "follow symbolic links, and cross file systems", OPT_ON(scan.follow_links) },
	{ 'M', "max-depth", "N", "go no deeper below a PATH [no limit]", OPT_NUMBER(scan.max_depth) },
	{ 'I', "include", "REGEX", "only paths that match", OPT_TEXT(scan.include_regex) },
	{ 'X', "exclude", "REGEX", "no paths that match", OPT_TEXT(scan.exclude_regex) },
	{ 'r', "regex-groom", NULL, "use -I and -X while grooming too", OPT_ON(scan.regex_groom) },
	{ 't', "rescan-time", "SECONDS", "walk again this often; 0: only at the start [300]",
	  OPT_SECONDS(scan.rescan_s) },
	{ 'g', "groom-time", "SECONDS", "groom this often; 0: only at the start [86400]",
	  OPT_SECONDS(scan.groom_s) },
	{ 'G', "maxigroom", NULL, "groom and compact the database at the start", OPT_ON(scan.tidy_all) },
	{ 'c', "concurrency", "N", "scanning threads [CPUs]", OPT_NUMBER(scan.threads) },
	{ 0, "passive", NULL, "only serve what another process has scanned", OPT_ON(scan.passive) },
	{ 'd', "database", "FILE", "the index [$HOME/.debuginfod.sqlite]; :memory: too",
	  OPT_TEXT(debuginfod.database) },
	{ 0 },
};
static const struct option_group scanners = { "Scanning", scanner_rows };

static const struct option_row web_rows[] = {
	{ 'p', "port", "PORT", "where to listen, on all addresses [8002]", OPT_CALL(set_port) },
	{ 0, "listen-address", "ADDR", "only on this one", OPT_TEXT(debuginfod.address) },
	{ 'C', "connection-pool", "[N]", "HTTP threads [CPUs]", OPT_CALL(set_pool) },
	{ 0, "cors", NULL, "let pages of other sites ask", OPT_ON(server.cors) },
	{ 'h', "home-redirect", "URL", "where / leads", OPT_TEXT(server.home_redirect) },
	{ 'H', "home-html", "FILE", "what / shows", OPT_TEXT(server.home_html) },
	{ 0, "forwarded-ttl-limit", "N", "hops in X-Forwarded-For from which on no other server is asked [8]",
	  OPT_NUMBER(server.forwarded_ttl_limit) },
	{ 0, "metadata-maxtime", "SECONDS", "how long a /metadata search may take; 0: for ever [5]",
	  OPT_MS(server.metadata_max_ms) },
	{ 0, "fdcache-mbs", "MB", "how much of what is asked for often lies decoded on disk",
	  OPT_CALL(set_cache) },
	{ 'v', "verbose", NULL, "log more; may be given again", OPT_CALL(more_verbose) },
	{ 0 },
};
static const struct option_group web = { "Serving", web_rows };

static const struct option_row ignored_rows[] = {
	{ 'D', "ddl", "SQL", "the index has another schema", OPTION_IGNORED },
	{ 0, "disable-source-scan", NULL,
	  "names of sources are not scanned, they are read when one is asked for", OPTION_IGNORED },
	{ 0, "fdcache-prefetch", "N", "members of packages are read at random", OPTION_IGNORED },
	{ 0, "fdcache-mintmp", "PERCENT", "nothing is unpacked to $TMPDIR", OPTION_IGNORED },
	{ 0, "scan-checkpoint", "N", "changes are committed in batches anyway", OPTION_IGNORED },
	{ 0, "koji-sigcache", NULL, "signatures are not served", OPTION_IGNORED },
	{ 0, "fdcache-fds", "N", NULL, OPTION_SILENT },
	{ 0, "fdcache-prefetch-fds", "N", NULL, OPTION_SILENT },
	{ 0, "fdcache-prefetch-mbs", "N", NULL, OPTION_SILENT },
	{ 0 },
};
static const struct option_group ignored = { "Taken, and without effect", ignored_rows };

static void defaults(struct settings *s)
{
	service_defaults(s);
	s->store.off = true;
	s->debuginfod.port = 8002;
	s->scan.watch = false; /* scripts made for the reference count its walks */
}

/* Does another program's database lie there? Ours among its tables would be no good to either. */
static bool is_foreign(const char *path)
{
	const struct db_options opts = { .read_only = true };
	struct db_stmt *q;
	struct db *db = NULL;
	bool foreign = false;

	if (access(path, F_OK) != 0 || db_open(path, &opts, &db, NULL) < 0)
		return false;
	if (db_prepare(db, "SELECT 1 FROM sqlite_master WHERE name GLOB 'buildids*'", &q, NULL) == 0)
		foreign = db_step(q, NULL) == DB_ROW;
	db_close(db);
	return foreign;
}

/* Index and folder from -d, in the arena. The folder is named like the database; of :memory: it goes with the
 * process. */
static int find_places(struct settings *s, struct service_places *places, struct err *err)
{
	const char *file = s->debuginfod.database, *tmp = getenv("TMPDIR"), *home = getenv("HOME");
	char *dir;

	if (file && strcmp(file, ":memory:") == 0) {
		dir = arena_printf(&s->arena, "%s/lode-XXXXXX", tmp && *tmp ? tmp : "/tmp");
		if (!mkdtemp(dir))
			return err_os(err, errno, "%s", dir);
		*places = (struct service_places){ .data = dir,
						   .index = ":memory:debuginfod",
						   .temporary = true };
		return 0;
	}
	if (!file)
		file = arena_printf(&s->arena, "%s/.debuginfod.sqlite", home && *home ? home : ".");
	dir = arena_printf(&s->arena, "%s.lode", file);
	*places = (struct service_places){ .data = dir, .index = file, .tidy = true };
	if (is_foreign(file)) {
		log_warn(
			"debuginfod",
			"%s is another program's database and is left as it is: the index is %s/index.sqlite",
			file, dir);
		places->index = NULL;
		places->tidy = false;
	}
	return 0;
}

static void set_listen(struct settings *s)
{
	const char *address = s->debuginfod.address ? s->debuginfod.address : "";
	bool bare_ipv6 = strchr(address, ':') && address[0] != '[';

	setting_list_add(
		s, &s->listen,
		str_of(arena_printf(&s->arena, bare_ipv6 ? "[%s]:%u" : "%s:%u", address, s->debuginfod.port)),
		RANK_COMMAND_LINE, NULL);
}

static int debuginfod(struct settings *s)
{
	struct service_places places;
	struct err err = { 0 };

	if (s->paths.n && !s->scan.packages && !s->scan.files) {
		log_warn("debuginfod", "without -F -R -U -Z every PATH is ignored");
		s->paths.n = 0;
	}
	if (s->scan.passive && s->paths.n) {
		log_warn("debuginfod", "with --passive every PATH is ignored");
		s->paths.n = 0;
	}
	/* What others have is kept, as the reference keeps it in the cache of its client. */
	s->store.off = !getenv("DEBUGINFOD_URLS") || !*getenv("DEBUGINFOD_URLS");
	if (find_places(s, &places, &err) < 0)
		return tell_error("debuginfod", &err);
	set_listen(s);
	return service_run(s, &places);
}

const struct command command_debuginfod = {
	.name = "debuginfod",
	.args = "[PATH...]",
	.summary = "the same service, with the options of elfutils' debuginfod",
	.examples = "  lode debuginfod -F -U -R /usr /srv/packages\n"
		    "  ln -s lode debuginfod && ./debuginfod -p 8002 -d :memory: -F /usr/bin\n",
	.groups = { &scanners, &web, &ignored },
	.max_args = SIZE_MAX,
	.defaults = defaults,
	.run = debuginfod,
};
