/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode debuginfod: the service with the options, signals and environment of elfutils' debuginfod, so that a
 * service file or a script made for that program runs unchanged. Options without a meaning here are accepted
 * with a warning.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/service/service.h"

static int add_suffixes(struct settings *s, const char *const *list, enum setting_rank rank, struct err *err)
{
	struct service_settings *o = service_settings(s);

	o->scan.packages = true;
	for (; *list; list++)
		if (setting_list_add(s, &o->suffixes, str_of(*list), rank, err) < 0)
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

/* EXT, or EXT=CMD. The command is never run: its argument would be a file name that others can choose. */
static int set_archive(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	struct str cmd = str_of(value), suffix = str_cut(&cmd, '=');

	if (!suffix.size)
		return err_set(err, ERR_INVALID, "needs the ending of a file name, not '%s'", value);
	cmd = str_trim(cmd);
	if (cmd.size && !str_eq(cmd, STR("cat")))
		log_warn("debuginfod", "-Z %s: the command is not run; lode reads such files itself", value);
	service_settings(s)->scan.packages = true;
	return setting_list_add(s, &service_settings(s)->suffixes, suffix, rank, err);
}

/* -C, -C8, and -C=8 as in the reference's manual; as there, at least two threads. */
static int set_http_threads(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	uint64_t n;

	if (!value)
		return 0;
	value += *value == '=';
	if (!str_to_u64(str_of(value), &n) || n > 100000)
		return err_set(err, ERR_INVALID, "'%s' is not a number of threads", value);
	service_settings(s)->server.http_threads = MAX((unsigned)n, 2u);
	return 0;
}

static int set_debuginfod_port(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	uint64_t n;

	if (!str_to_u64(str_of(value), &n) || n == 0 || n > 65535)
		return err_set(err, ERR_INVALID, "'%s' is not a port", value);
	service_settings(s)->debuginfod.port = (unsigned)n;
	return 0;
}

static int set_cache_size(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	uint64_t mb;

	if (!str_to_u64(str_of(value), &mb) || mb > UINT32_MAX)
		return err_set(err, ERR_INVALID, "'%s' is not a number of megabytes", value);
	service_settings(s)->server.cache_max_bytes = mb << 20;
	return 0;
}

static int add_verbosity(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	/* Once gives what lode logs anyway. */
	s->verbose = ++service_settings(s)->debuginfod.verbosity >= 2;
	return 0;
}

static const struct option_row scanner_rows[] = {
	{ 'F', "scan-file-dir", NULL, "scan ELF files", SERVICE_ON(scan.files) },
	{ 'R', "scan-rpm-dir", NULL, "scan .rpm", OPT_CALL(set_rpm) },
	{ 'U', "scan-deb-dir", NULL, "scan .deb, .ddeb, .ipk", OPT_CALL(set_deb) },
	{ 'Z', "scan-archive", "EXT[=CMD]",
	  "scan archives whose names end in EXT; CMD is never run, lode reads them itself",
	  OPT_CALL(set_archive) },
	{ 'L', "logical", NULL, "follow symbolic links, and cross file systems",
	  SERVICE_ON(scan.follow_links) },
	{ 'M', "max-depth", "N", "folders below a PATH to go into [no limit]",
	  SERVICE_NUMBER(scan.max_depth) },
	{ 'I', "include", "REGEX", "only paths that match", SERVICE_TEXT(scan.include_regex) },
	{ 'X', "exclude", "REGEX", "no paths that match", SERVICE_TEXT(scan.exclude_regex) },
	{ 'r', "regex-groom", NULL, "use -I and -X while grooming too", SERVICE_ON(scan.regex_groom) },
	{ 't', "rescan-time", "SECONDS", "scan again this often; 0: only at the start [300]",
	  SERVICE_SECONDS(scan.rescan_s) },
	{ 'g', "groom-time", "SECONDS",
	  "remove deleted files from the index this often; 0: only at the start [86400]",
	  SERVICE_SECONDS(scan.groom_s) },
	{ 'G', "maxigroom", NULL, "groom and compact the database at the start", SERVICE_ON(scan.tidy_all) },
	{ 'c', "concurrency", "N", "scanning threads [CPUs]", SERVICE_NUMBER(scan.threads) },
	{ 0, "passive", NULL, "scan nothing: serve the index of another process", SERVICE_ON(scan.passive) },
	{ 'd', "database", "FILE", "the index, or :memory: [$HOME/.debuginfod.sqlite]",
	  SERVICE_TEXT(debuginfod.database) },
	{ 0 },
};
static const struct option_group scanner_group = { "Scanning", scanner_rows };

static const struct option_row web_rows[] = {
	{ 'p', "port", "PORT", "the port to listen on, on all addresses [8002]",
	  OPT_CALL(set_debuginfod_port) },
	{ 0, "listen-address", "ADDR", "listen on this address only", SERVICE_TEXT(debuginfod.address) },
	{ 'C', "connection-pool", "[N]", "HTTP threads [CPUs]", OPT_CALL(set_http_threads) },
	{ 0, "public-url", "URL", "a URL by which browsers reach this server; may be given again",
	  SERVICE_LIST(public_urls) },
	{ 0, "cors", NULL, "let pages of other sites send requests", SERVICE_ON(server.cors) },
	{ 'h', "home-redirect", "URL", "redirect / there", SERVICE_TEXT(server.home_redirect) },
	{ 'H', "home-html", "FILE", "show this file at /", SERVICE_TEXT(server.home_html) },
	{ 0, "forwarded-ttl-limit", "N",
	  "ask no other server for a request with this many hops in X-Forwarded-For [8]",
	  SERVICE_NUMBER(server.forwarded_ttl_limit) },
	{ 0, "metadata-maxtime", "SECONDS", "how long a /metadata search may take; 0: no limit [5]",
	  SERVICE_MS(server.metadata_max_ms) },
	{ 0, "fdcache-mbs", "MB", "size of the folder for decoded files that are requested often",
	  OPT_CALL(set_cache_size) },
	{ 'v', "verbose", NULL, "log more; may be given again", OPT_CALL(add_verbosity) },
	{ 0 },
};
static const struct option_group web_group = { "Serving", web_rows };

static const struct option_row ignored_rows[] = {
	{ 'D', "ddl", "SQL", "the index has another schema", OPTION_IGNORED },
	{ 0, "disable-source-scan", NULL,
	  "names of sources are not scanned, but read when a source is requested", OPTION_IGNORED },
	{ 0, "fdcache-prefetch", "N", "members of packages are read at random", OPTION_IGNORED },
	{ 0, "fdcache-mintmp", "PERCENT", "nothing is unpacked to $TMPDIR", OPTION_IGNORED },
	{ 0, "scan-checkpoint", "N", "changes are committed in batches anyway", OPTION_IGNORED },
	{ 0, "koji-sigcache", NULL, "signatures are not served", OPTION_IGNORED },
	{ 0, "fdcache-fds", "N", NULL, OPTION_SILENT },
	{ 0, "fdcache-prefetch-fds", "N", NULL, OPTION_SILENT },
	{ 0, "fdcache-prefetch-mbs", "N", NULL, OPTION_SILENT },
	{ 0 },
};
static const struct option_group ignored_group = { "Accepted, without effect", ignored_rows };

static void debuginfod_defaults(struct settings *s)
{
	struct service_settings *o = service_settings(s);

	service_defaults(s);
	o->store.off = true;
	o->debuginfod.port = 8002;
	o->scan.watch = false; /* scripts made for the reference count its walks */
}

/* Is it the database of another program, such as the reference? Then lode must not add tables to it. */
static bool is_foreign_database(const char *path)
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

/* Index and folder from -d, in the arena. The folder has the database's name; that of :memory: is removed at
 * the end. */
static int find_places(struct settings *s, struct service_places *places, struct err *err)
{
	const char *file = service_settings(s)->debuginfod.database;
	const char *tmp = getenv("TMPDIR"), *home = getenv("HOME");
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
	if (is_foreign_database(file)) {
		log_warn("debuginfod",
			 "%s is another program's database and stays as it is: the index is %s/index.sqlite",
			 file, dir);
		places->index = NULL;
		places->tidy = false;
	}
	return 0;
}

static void set_listen_address(struct settings *s)
{
	struct service_settings *o = service_settings(s);
	const char *address = o->debuginfod.address ? o->debuginfod.address : "";
	bool bare_ipv6 = strchr(address, ':') && address[0] != '[';

	setting_list_add(
		s, &o->listen,
		str_of(arena_printf(&s->arena, bare_ipv6 ? "[%s]:%u" : "%s:%u", address, o->debuginfod.port)),
		RANK_COMMAND_LINE, NULL);
}

static int run_debuginfod(struct settings *s)
{
	struct service_settings *o = service_settings(s);
	struct service_places places;
	struct err err = { 0 };

	if (s->paths.n && !o->scan.packages && !o->scan.files) {
		log_warn("debuginfod", "no PATH is scanned: give -F, -R, -U or -Z");
		s->paths.n = 0;
	}
	if (o->scan.passive && s->paths.n) {
		log_warn("debuginfod", "no PATH is scanned, because of --passive");
		s->paths.n = 0;
	}
	/* Files from other servers are kept, as the reference keeps them in the cache of its client. */
	o->store.off = !getenv("DEBUGINFOD_URLS") || !*getenv("DEBUGINFOD_URLS");
	if (find_places(s, &places, &err) < 0)
		return tell_error("debuginfod", &err);
	places.command = "debuginfod";
	places.option = "-d";
	places.other_port = "-p 8003";
	set_listen_address(s);
	return service_run(s, &places);
}

const struct command command_debuginfod = {
	.name = "debuginfod",
	.args = "[PATH...]",
	.summary = "run the service of lode serve with the options of elfutils' debuginfod",
	.examples = "  lode debuginfod -F -U -R /usr /srv/packages\n"
		    "  ln -s lode debuginfod && ./debuginfod -p 8002 -d :memory: -F /usr/bin\n",
	.groups = { &scanner_group, &web_group, &ignored_group },
	.max_args = SIZE_MAX,
	.own_size = sizeof(struct service_settings),
	.defaults = debuginfod_defaults,
	.run = run_debuginfod,
};
