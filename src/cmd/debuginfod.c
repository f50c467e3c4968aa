/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode debuginfod: the service under the options, signals and environment of elfutils' debuginfod, so that a
 * service file or a script made for that one runs unchanged. What makes no sense here is taken with a
 * warning.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/internal.h"

#define MAX_SUFFIXES 32

enum {
	KEY_FDCACHE_MBS = 256,
	KEY_FDCACHE_PREFETCH,
	KEY_FDCACHE_MINTMP,
	KEY_TTL,
	KEY_PASSIVE,
	KEY_NO_SOURCES,
	KEY_CHECKPOINT,
	KEY_METADATA_MAX,
	KEY_LISTEN,
	KEY_CORS,
	KEY_KOJI,
	KEY_FDS,
	KEY_PREFETCH_FDS,
	KEY_PREFETCH_MBS,
};

static const struct option_row options[] = {
	{ 'F', "scan-file-dir", NULL, "look at ELF files" },
	{ 'R', "scan-rpm-dir", NULL, "look at .rpm" },
	{ 'U', "scan-deb-dir", NULL, "look at .deb, .ddeb, .ipk" },
	{ 'Z', "scan-archive", "EXT[=CMD]",
	  "look at archives named so; CMD is never run: they are read directly" },
	{ 'L', "logical", NULL, "follow symbolic links and cross file systems" },
	{ 'M', "max-depth", "N", "no deeper than this" },
	{ 'r', "regex-groom", NULL, "use -I and -X while grooming too" },
	{ 'I', "include", "REGEX", "only paths that match" },
	{ 'X', "exclude", "REGEX", "no paths that match" },
	{ 't', "rescan-time", "SECONDS", "walk again this often; 0: once [300]" },
	{ 'g', "groom-time", "SECONDS", "groom this often; 0: once [86400]" },
	{ 'G', "maxigroom", NULL, "groom and compact the database at start" },
	{ 'c', "concurrency", "N", "scanning threads [CPUs]" },
	{ 'C', "connection-pool", "[N]", "HTTP threads [CPUs]" },
	{ 'd', "database", "FILE", "the index [$HOME/.debuginfod.sqlite]; :memory: too" },
	{ 'D', "ddl", "SQL", "not taken: the index has another schema" },
	{ 'p', "port", "PORT", "where to listen, on all addresses [8002]" },
	{ KEY_LISTEN, "listen-address", "ADDR", "only on this one" },
	{ KEY_CORS, "cors", NULL, "let pages of other sites ask" },
	{ 'h', "home-redirect", "URL", "where / leads" },
	{ 'H', "home-html", "FILE", "what / shows" },
	{ 'v', "verbose", NULL, "log more; may be given again" },
	{ KEY_FDCACHE_MBS, "fdcache-mbs", "MB", "hot artifacts kept on disk" },
	{ KEY_FDCACHE_PREFETCH, "fdcache-prefetch", "N", "not needed: members are read at random" },
	{ KEY_FDCACHE_MINTMP, "fdcache-mintmp", "PERCENT", "not needed: nothing is unpacked to TMPDIR" },
	{ KEY_TTL, "forwarded-ttl-limit", "N", "X-Forwarded-For hops [8]" },
	{ KEY_PASSIVE, "passive", NULL, "only serve what another process has scanned" },
	{ KEY_NO_SOURCES, "disable-source-scan", NULL, "not needed: sources are not scanned" },
	{ KEY_CHECKPOINT, "scan-checkpoint", "N", "not needed: changes are committed in batches" },
	{ KEY_METADATA_MAX, "metadata-maxtime", "SECONDS", "a /metadata search takes no longer [5]" },
	{ KEY_KOJI, "koji-sigcache", NULL, "not supported: no signatures are served" },
	{ KEY_FDS, "fdcache-fds", "N", NULL },
	{ KEY_PREFETCH_FDS, "fdcache-prefetch-fds", "N", NULL },
	{ KEY_PREFETCH_MBS, "fdcache-prefetch-mbs", "N", NULL },
	OPTION_END,
};

struct compat {
	struct service_options o;
	struct str suffixes[MAX_SUFFIXES];
	size_t n_suffixes;
	const char *database, *address;
	uint64_t port;
	unsigned verbose;
	bool packages;
};

static int add_suffix(struct compat *c, struct str suffix, struct err *err)
{
	if (c->n_suffixes == MAX_SUFFIXES)
		return err_set(err, ERR_LIMIT, "more than %d kinds of archives", MAX_SUFFIXES);
	c->suffixes[c->n_suffixes++] = suffix;
	c->packages = true;
	return 0;
}

static void ignored(const char *option, const char *why)
{
	log_warn("debuginfod", "%s makes no difference here: %s", option, why);
}

static int set_archive(struct compat *c, const char *value, struct err *err)
{
	struct str rest = str_of(value), suffix = str_cut(&rest, '=');

	if (!suffix.size)
		return err_set(err, ERR_INVALID, "-Z needs a file name's ending");
	if (rest.p && !str_eq(rest, STR("cat")) && rest.size)
		log_warn("debuginfod", "-Z " STR_FMT ": the command is not run, such files are read directly",
			 STR_ARG(suffix));
	return add_suffix(c, suffix, err);
}

static int set_small(const char *value, unsigned *ret, struct err *err)
{
	uint64_t v;

	if (value_u64(value, 100000, &v, err) < 0)
		return -1;
	*ret = (unsigned)v;
	return 0;
}

static int set(void *ctx, int key, const char *value, struct err *err)
{
	struct compat *c = ctx;
	struct scan_options *scan = &c->o.scan;
	struct server_options *server = &c->o.server;
	uint64_t v;

	switch (key) {
	case 'F':
		scan->files = true;
		return 0;
	case 'R':
		return add_suffix(c, STR(".rpm"), err);
	case 'U':
		return add_suffix(c, STR(".deb"), err) < 0 || add_suffix(c, STR(".ddeb"), err) < 0
			       ? -1
			       : add_suffix(c, STR(".ipk"), err);
	case 'Z':
		return set_archive(c, value, err);
	case 'L':
		scan->follow_links = true;
		return 0;
	case 'M':
		return set_small(value, &scan->max_depth, err);
	case 'r':
		scan->regex_groom = true;
		return 0;
	case 'I':
		scan->include_regex = value;
		return 0;
	case 'X':
		scan->exclude_regex = value;
		return 0;
	case 't':
	case 'g':
		if (value_u64(value, UINT32_MAX, &v, err) < 0)
			return -1;
		*(key == 't' ? &scan->rescan_s : &scan->groom_s) = (int64_t)v;
		return 0;
	case 'G':
		scan->tidy_all = true;
		return 0;
	case 'c':
		return set_small(value, &scan->threads, err);
	case 'C':
		return value ? set_small(value, &server->http_threads, err) : 0;
	case 'd':
		c->database = value;
		return 0;
	case 'D':
		ignored("-D", "the index has another schema");
		return 0;
	case 'p':
		return value_u64(value, 65535, &c->port, err);
	case KEY_LISTEN:
		c->address = value;
		return 0;
	case KEY_CORS:
		server->cors = true;
		return 0;
	case 'h':
		server->home_redirect = value;
		return 0;
	case 'H':
		server->home_html = value;
		return 0;
	case 'v':
		if (++c->verbose >= 2)
			log_set_level(LOG_DEBUG);
		return 0;
	case KEY_FDCACHE_MBS:
		if (value_u64(value, UINT32_MAX, &v, err) < 0)
			return -1;
		server->cache_max_bytes = MAX(v, (uint64_t)1) << 20;
		return 0;
	case KEY_FDCACHE_PREFETCH:
		ignored("--fdcache-prefetch", "members are read at random");
		return 0;
	case KEY_FDCACHE_MINTMP:
		ignored("--fdcache-mintmp", "nothing is unpacked to TMPDIR");
		return 0;
	case KEY_TTL:
		return set_small(value, &server->forwarded_ttl_limit, err);
	case KEY_PASSIVE:
		scan->passive = true;
		return 0;
	case KEY_NO_SOURCES:
	case KEY_CHECKPOINT:
	case KEY_FDS:
	case KEY_PREFETCH_FDS:
	case KEY_PREFETCH_MBS:
		return 0;
	case KEY_METADATA_MAX:
		if (value_u64(value, 86400, &v, err) < 0)
			return -1;
		server->metadata_max_ms = (int64_t)v * 1000;
		return 0;
	case KEY_KOJI:
		ignored("--koji-sigcache", "no signatures are served");
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "option %d", key);
}

/* The folder that holds points and cache: beside the database; for :memory: one that goes with the process.
 */
static char *state_beside(const char *database)
{
	const char *tmp = getenv("TMPDIR");

	if (strcmp(database, ":memory:") == 0)
		return mem_printf("%s/lode-%ld", tmp && *tmp ? tmp : "/tmp", (long)getpid());
	return mem_printf("%s.lode", database);
}

static int debuginfod(const struct command *cmd, int argc, char **argv)
{
	struct compat c = { .port = 8002 };
	struct str *roots = NEW_N(struct str, (size_t)argc + 1);
	AUTO(mem_freep) char *database = NULL;
	AUTO(mem_freep) char *listen = NULL;
	const char *home = getenv("HOME");
	struct str listen_str;
	int first, r, status = EXIT_USAGE;

	c.o.scan.rescan_s = 300;
	c.o.scan.groom_s = 86400;
	c.o.scan.watch = false; /* scripts made for the reference count its walks */
	c.o.server.access_log = true;
	c.o.server.forwarded_ttl_limit = 8;
	r = options_read(cmd, argc, argv, set, &c, &first);
	if (r != 0) {
		status = r > 0 ? EXIT_DONE : EXIT_USAGE;
		goto out;
	}
	for (int i = first; i < argc; i++)
		roots[c.o.scan.n_roots++] = str_of(argv[i]);
	if (c.o.scan.n_roots && !c.packages && !c.o.scan.files) {
		fail_usage(cmd, "a PATH needs at least one of -F -R -U -Z");
		goto out;
	}
	c.o.scan.roots = roots;
	c.o.scan.packages = c.packages;
	c.o.scan.package_suffixes = c.suffixes;
	c.o.scan.n_package_suffixes = c.n_suffixes;
	database = c.database ? mem_strdup(c.database)
			      : mem_printf("%s/.debuginfod.sqlite", home ? home : ".");
	c.o.data = state_beside(database);
	c.o.index_path = strcmp(database, ":memory:") == 0 ? ":memory:debuginfod" : database;
	listen = c.address && strchr(c.address, ':')
			 ? mem_printf("[%s]:%u", c.address, (unsigned)c.port)
			 : mem_printf("%s:%u", c.address ? c.address : "", (unsigned)c.port);
	listen_str = str_of(listen);
	c.o.server.listen = &listen_str;
	c.o.server.n_listen = 1;
	status = service_run(&c.o);
	free(c.o.data);
out:
	free(roots);
	return status;
}

const struct command command_debuginfod = {
	.name = "debuginfod",
	.args = "[PATH...]",
	.summary = "serve, with the options of elfutils' debuginfod",
	.options = options,
	.run = debuginfod,
	.examples = "  lode debuginfod -F -U -R /usr /srv/packages\n"
		    "  ln -s lode debuginfod && ./debuginfod -p 8002 -d :memory: -F /usr/bin\n",
};
