/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode serve: the service over files and packages.
 */
#include <stdlib.h>
#include "cmd/internal.h"

enum {
	KEY_LISTEN = 256,
	KEY_DATA,
	KEY_CONFIG,
	KEY_NO_PACKAGES,
	KEY_NO_FILES,
	KEY_INCLUDE,
	KEY_EXCLUDE,
	KEY_FOLLOW,
	KEY_MAX_DEPTH,
	KEY_RESCAN,
	KEY_GROOM,
	KEY_NO_WATCH,
	KEY_HEADER_ONLY,
	KEY_SCAN_THREADS,
	KEY_HTTP_THREADS,
	KEY_WORKERS,
	KEY_CACHE_DIR,
	KEY_CACHE_SIZE,
	KEY_SPAN_CACHE,
	KEY_MAX_CONNECTIONS,
	KEY_MAX_PER_IP,
	KEY_RATE,
	KEY_IDLE,
	KEY_MAX_QUEUED,
	KEY_DEADLINE,
	KEY_METADATA_MAX,
	KEY_ARCHIVE_PATH,
	KEY_CORS,
	KEY_NO_LOG,
	KEY_TLS_CERT,
	KEY_TLS_KEY,
	KEY_WEB_DIR,
	KEY_VERBOSE,
};

static const struct option_row options[] = {
	{ KEY_LISTEN, "listen", "ADDR:PORT", "where to listen; may be given again [localhost:8002]" },
	{ KEY_DATA, "data", "DIR", "where the state lies [$LODE_DATA, /var/lib/lode, $XDG_STATE_HOME/lode]" },
	{ KEY_CONFIG, "config", "FILE", "lines 'long-name = value' [/etc/lode/lode.conf]" },
	{ KEY_NO_PACKAGES, "no-packages", NULL, "look at files only" },
	{ KEY_NO_FILES, "no-files", NULL, "look at packages only" },
	{ KEY_INCLUDE, "include", "REGEX", "only paths that match (POSIX extended)" },
	{ KEY_EXCLUDE, "exclude", "REGEX", "no paths that match; stronger than --include" },
	{ KEY_FOLLOW, "follow-links", NULL, "follow symbolic links and cross file systems" },
	{ KEY_MAX_DEPTH, "max-depth", "N", "no deeper below a PATH than this [no limit]" },
	{ KEY_RESCAN, "rescan", "SECONDS", "walk again this often; 0: once [300]" },
	{ KEY_GROOM, "groom", "SECONDS", "drop what is gone this often; 0: once [86400]" },
	{ KEY_NO_WATCH, "no-watch", NULL, "no inotify" },
	{ KEY_HEADER_ONLY, "header-only", NULL,
	  "look into a package only when something of it is asked for" },
	{ KEY_SCAN_THREADS, "scan-threads", "N", "threads that scan [CPUs]" },
	{ KEY_HTTP_THREADS, "http-threads", "N", "threads that talk HTTP [CPUs]" },
	{ KEY_WORKERS, "workers", "N", "threads that decode [CPUs, at least 2]" },
	{ KEY_CACHE_DIR, "cache-dir", "DIR", "where hot artifacts lie [DATA/cache]" },
	{ KEY_CACHE_SIZE, "cache-size", "SIZE",
	  "how much of them [a quarter of the free space, at most 10G]" },
	{ KEY_SPAN_CACHE, "memory-cache", "SIZE", "decoded blocks kept in memory [256M]" },
	{ KEY_MAX_CONNECTIONS, "max-connections", "N", "at once [from the limit of open files]" },
	{ KEY_MAX_PER_IP, "max-connections-per-ip", "N", "of one address [no limit]" },
	{ KEY_RATE, "rate", "N", "requests a second of one address [no limit]" },
	{ KEY_IDLE, "idle-timeout", "SECONDS", "close a connection that is silent so long [60]" },
	{ KEY_MAX_QUEUED, "max-queued", "N", "requests that may wait for work; beyond that 503 [1024]" },
	{ KEY_DEADLINE, "deadline", "SECONDS",
	  "a request waits so long for its package to be looked into [120]" },
	{ KEY_METADATA_MAX, "metadata-maxtime", "SECONDS", "a /metadata search takes no longer [5]" },
	{ KEY_ARCHIVE_PATH, "archive-path", "full|hide",
	  "whether X-DEBUGINFOD-ARCHIVE tells folders [full]" },
	{ KEY_CORS, "cors", NULL, "let pages of other sites ask" },
	{ KEY_NO_LOG, "no-access-log", NULL, "no line for each request" },
	{ KEY_TLS_CERT, "tls-cert", "FILE", "certificate chain, PEM: serve https" },
	{ KEY_TLS_KEY, "tls-key", "FILE", "its key, PEM" },
	{ KEY_WEB_DIR, "web-dir", "DIR", "the page's files, instead of the ones built in" },
	{ KEY_VERBOSE, "verbose", NULL, "log more" },
	OPTION_END,
};

struct serve {
	struct service_options o;
	struct str listen[SERVICE_MAX_LISTEN];
	const char *data;
	struct arena arena;
};

static int seconds(const char *value, int64_t *ret, struct err *err)
{
	uint64_t v;

	if (value_u64(value, 100u * 365 * 86400, &v, err) < 0)
		return -1;
	*ret = (int64_t)v;
	return 0;
}

static int number(const char *value, unsigned *ret, struct err *err)
{
	uint64_t v;

	if (value_u64(value, UINT32_MAX, &v, err) < 0)
		return -1;
	*ret = (unsigned)v;
	return 0;
}

static int set(void *ctx, int key, const char *value, struct err *err)
{
	struct serve *s = ctx;
	struct scan_options *scan = &s->o.scan;
	struct server_options *server = &s->o.server;
	/* A value from a file or the environment does not outlive the call. */
	const char *kept = value ? arena_strdup(&s->arena, str_of(value)) : NULL;
	int64_t time_s = 0;
	uint64_t size = 0;
	int r;

	switch (key) {
	case KEY_LISTEN:
		if (server->n_listen == SERVICE_MAX_LISTEN)
			return err_set(err, ERR_LIMIT, "--listen more than %d times", SERVICE_MAX_LISTEN);
		s->listen[server->n_listen++] = str_of(kept);
		return 0;
	case KEY_DATA:
		s->data = kept;
		return 0;
	case KEY_CONFIG:
		return 0; /* was read first */
	case KEY_NO_PACKAGES:
		scan->packages = false;
		return 0;
	case KEY_NO_FILES:
		scan->files = false;
		return 0;
	case KEY_INCLUDE:
		scan->include_regex = kept;
		return 0;
	case KEY_EXCLUDE:
		scan->exclude_regex = kept;
		return 0;
	case KEY_FOLLOW:
		scan->follow_links = true;
		return 0;
	case KEY_MAX_DEPTH:
		return number(value, &scan->max_depth, err);
	case KEY_RESCAN:
		return seconds(value, &scan->rescan_s, err);
	case KEY_GROOM:
		return seconds(value, &scan->groom_s, err);
	case KEY_NO_WATCH:
		scan->watch = false;
		return 0;
	case KEY_HEADER_ONLY:
		scan->header_only = true;
		return 0;
	case KEY_SCAN_THREADS:
		return number(value, &scan->threads, err);
	case KEY_HTTP_THREADS:
		return number(value, &server->http_threads, err);
	case KEY_WORKERS:
		return number(value, &server->workers, err);
	case KEY_CACHE_DIR:
		server->cache_dir = kept;
		return 0;
	case KEY_CACHE_SIZE:
		return value_size(value, &server->cache_max_bytes, err);
	case KEY_SPAN_CACHE:
		r = value_size(value, &size, err);
		s->o.span_cache = size;
		return r;
	case KEY_MAX_CONNECTIONS:
		return number(value, &server->max_connections, err);
	case KEY_MAX_PER_IP:
		return number(value, &server->max_connections_per_ip, err);
	case KEY_RATE:
		return number(value, &server->rate_per_ip, err);
	case KEY_IDLE:
		return number(value, &server->idle_timeout_s, err);
	case KEY_MAX_QUEUED:
		return number(value, &server->max_queued, err);
	case KEY_DEADLINE:
		r = seconds(value, &time_s, err);
		server->request_deadline_ms = time_s * 1000;
		return r;
	case KEY_METADATA_MAX:
		r = seconds(value, &time_s, err);
		server->metadata_max_ms = time_s * 1000;
		return r;
	case KEY_ARCHIVE_PATH:
		if (strcmp(value, "full") != 0 && strcmp(value, "hide") != 0)
			return err_set(err, ERR_INVALID, "--archive-path is full or hide, not '%s'", value);
		server->hide_archive = value[0] == 'h';
		return 0;
	case KEY_CORS:
		server->cors = true;
		return 0;
	case KEY_NO_LOG:
		server->access_log = false;
		return 0;
	case KEY_TLS_CERT:
		server->tls_cert = kept;
		return 0;
	case KEY_TLS_KEY:
		server->tls_key = kept;
		return 0;
	case KEY_WEB_DIR:
		server->web_dir = kept;
		return 0;
	case KEY_VERBOSE:
		log_set_level(LOG_DEBUG);
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "option %d", key);
}

/* What is offered where no PATH is given: this machine's own files, as far as they are there. */
static size_t own_files(struct str *roots)
{
	static const char *const usual[] = { "/usr/bin",     "/usr/sbin",  "/usr/lib", "/usr/lib64",
					     "/usr/libexec", "/usr/local", "/usr/src", "/boot" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		struct stat st;

		if (stat(usual[i], &st) == 0)
			roots[n++] = str_of(usual[i]);
	}
	return n;
}

static int serve(const struct command *cmd, int argc, char **argv)
{
	struct serve s = { 0 };
	struct str *roots = NEW_N(struct str, (size_t)argc + 16);
	size_t n_defaults;
	int first, r, status = EXIT_USAGE;

	arena_init(&s.arena);
	s.o.scan.files = s.o.scan.packages = s.o.scan.watch = true;
	s.o.scan.rescan_s = 300;
	s.o.scan.groom_s = 86400;
	s.o.server.access_log = true;
	if (options_read_defaults(cmd, argc, argv, set, &s) < 0)
		goto out;
	/* Addresses on the command line replace the others. */
	n_defaults = s.o.server.n_listen;
	s.o.server.n_listen = 0;
	r = options_read(cmd, argc, argv, set, &s, &first);
	if (r != 0) {
		status = r > 0 ? EXIT_DONE : EXIT_USAGE;
		goto out;
	}
	if (!s.o.server.n_listen)
		s.o.server.n_listen = n_defaults;
	if (!s.o.server.n_listen)
		s.listen[s.o.server.n_listen++] = STR("localhost:8002");
	s.o.server.listen = s.listen;
	for (int i = first; i < argc; i++)
		roots[s.o.scan.n_roots++] = str_of(argv[i]);
	if (!s.o.scan.n_roots)
		s.o.scan.n_roots = own_files(roots);
	s.o.scan.roots = roots;
	s.o.data = data_dir(s.data);
	status = service_run(&s.o);
	free(s.o.data);
out:
	free(roots);
	arena_done(&s.arena);
	return status;
}

const struct command command_serve = {
	.name = "serve",
	.args = "[PATH...]",
	.summary = "serve debug information out of files and packages (the debuginfod protocol)",
	.options = options,
	.run = serve,
	.examples = "  lode serve                            this machine's own files, at localhost:8002\n"
		    "  lode serve --listen :8002 /srv/debs   a package archive, for everybody\n"
		    "  DEBUGINFOD_URLS=http://localhost:8002 gdb /usr/bin/ls\n",
};
