/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode serve: the service over files and packages.
 */
#include <stdlib.h>
#include "cmd/internal.h"
#include "naming/naming.h"

static int set_archive_path(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	if (strcmp(value, "full") != 0 && strcmp(value, "hide") != 0)
		return err_set(err, ERR_INVALID, "full or hide, not '%s'", value);
	s->server.hide_archive = value[0] == 'h';
	return 0;
}

static const struct option_row http_rows[] = {
	{ 0, "listen", "ADDR:PORT",
	  "where to listen; :PORT is all addresses; may be given again [localhost:8002]", OPT_LIST(listen) },
	{ 0, "tls-cert", "FILE", "certificate chain, PEM: serve https", OPT_TEXT(server.tls_cert) },
	{ 0, "tls-key", "FILE", "its key, PEM", OPT_TEXT(server.tls_key) },
	{ 0, "cors", NULL, "let pages of other sites ask", OPT_ON(server.cors) },
	{ 0, "archive-path", "full|hide", "whether X-DEBUGINFOD-ARCHIVE tells the folders of packages [full]",
	  OPT_CALL(set_archive_path) },
	{ 0, "home-redirect", "URL", "where / leads, instead of the page", OPT_TEXT(server.home_redirect) },
	{ 0, "home-html", "FILE", "what / shows, instead of the page", OPT_TEXT(server.home_html) },
	{ 0, "web-dir", "DIR", "the page's files, instead of the ones built in", OPT_TEXT(server.web_dir) },
	{ 0, "no-access-log", NULL, "no line for each request", OPT_OFF(server.access_log) },
	{ 0, "http-threads", "N", "threads that talk HTTP [CPUs]", OPT_NUMBER(server.http_threads) },
	{ 0 },
};
static const struct option_group http = { "HTTP", http_rows };

static const struct option_row limit_rows[] = {
	{ 0, "max-connections", "N", "at once [from the limit of open files]",
	  OPT_NUMBER(server.max_connections) },
	{ 0, "max-connections-per-ip", "N", "of one address [no limit]",
	  OPT_NUMBER(server.max_connections_per_ip) },
	{ 0, "rate", "N", "requests a second of one address [no limit]", OPT_NUMBER(server.rate_per_ip) },
	{ 0, "idle-timeout", "SECONDS", "close a connection that is silent for so long [60]",
	  OPT_NUMBER(server.idle_timeout_s) },
	{ 0, "max-queued", "N", "requests that may wait for a worker; others are answered 503 [1024]",
	  OPT_NUMBER(server.max_queued) },
	{ 0, "deadline", "SECONDS",
	  "how long a request waits for its package to be looked into; 0: for ever [120]",
	  OPT_MS(server.request_deadline_ms) },
	{ 0, "metadata-maxtime", "SECONDS", "how long a /metadata search may take; 0: for ever [5]",
	  OPT_MS(server.metadata_max_ms) },
	{ 0 },
};
static const struct option_group limits = { "Limits", limit_rows };

static const struct option_row keeping_rows[] = {
	{ 0, "rescan", "SECONDS", "walk again this often; 0: only at the start [300]",
	  OPT_SECONDS(scan.rescan_s) },
	{ 0, "groom", "SECONDS", "drop what is gone this often; 0: only at the start [86400]",
	  OPT_SECONDS(scan.groom_s) },
	{ 0, "no-watch", NULL, "no inotify: changes are seen by walks alone", OPT_OFF(scan.watch) },
	{ 0, "groom-regex", NULL, "also drop what --include and --exclude leave out now",
	  OPT_ON(scan.regex_groom) },
	{ 0, "compact", NULL, "groom and compact the index at the start", OPT_ON(scan.tidy_all) },
	{ 0, "passive", NULL,
	  "scan nothing: serve what another process has scanned into the same data directory",
	  OPT_ON(scan.passive) },
	{ 0, "any-source", NULL,
	  "serve every file on disk that a source request names, not only what debug files name. Never in "
	  "public!",
	  OPT_ON(source_any) },
	{ 0 },
};
static const struct option_group keeping = { "Keeping up", keeping_rows };

static const struct option_row cache_rows[] = {
	{ 0, "workers", "N", "threads that decode [CPUs, at least 2]", OPT_NUMBER(server.workers) },
	{ 0, "cache-dir", "DIR", "where what is asked for often lies decoded [DATA/cache]",
	  OPT_TEXT(server.cache_dir) },
	{ 0, "cache-size", "SIZE", "how much of it; 0: none [a quarter of the free space, at most 10G]",
	  OPT_SIZE(server.cache_max_bytes) },
	{ 0, "memory-cache", "SIZE", "decoded blocks and parked decoders kept in memory [256M]",
	  OPT_SIZE(span_cache) },
	{ 0, "map-cache", "SIZE", "package maps kept in memory [64M]", OPT_SIZE(map_cache) },
	{ 0, "sources-cache", "SIZE", "names of debug files' sources kept in memory [64M]",
	  OPT_SIZE(sources_cache) },
	{ 0, "discriminators", NULL,
	  "symbol tables tell which of the blocks of its line an address is in; a few per cent larger",
	  OPT_ON(symbols.discriminators) },
	{ 0 },
};
static const struct option_group caches = { "Decoding and caches", cache_rows };

static const struct option_row store_rows[] = {
	{ 0, "store", "DIR", "where what was pushed or fetched is kept [DATA/store]", OPT_TEXT(store.dir) },
	{ 0, "store-quota", "SIZE", "how much of it; what was not used for longest goes; 0: no limit [0]",
	  OPT_SIZE(store.quota) },
	{ 0, "store-keep-pushed", NULL, "never remove what was pushed: rather refuse more",
	  OPT_ON(store.keep_pushed) },
	{ 0, "tokens", "FILE", "who may push, see lode help token [DATA/tokens]", OPT_TEXT(tokens) },
	{ 0, "max-push", "SIZE", "the largest file that is taken [16G]", OPT_SIZE(server.max_push) },
	{ 0, "require-read-token", NULL, "give nothing to who has no token either",
	  OPT_ON(server.require_read_token) },
	{ 0, "no-store", NULL, "keep nothing, take no pushes", OPT_ON(store.off) },
	{ 0 },
};
static const struct option_group storing = { "Store and pushing", store_rows };

/* "30d"; a number alone is seconds, as with other options. */
static int parse_time(const char *value, int64_t *ret_ms, struct err *err)
{
	static const struct {
		char name;
		int64_t ms;
	} units[] = {
		{ 's', 1000 }, { 'm', 60000 }, { 'h', 3600000 }, { 'd', 86400000 }, { 'w', 604800000 }
	};
	struct str number = str_of(value);
	int64_t unit = 1000;
	uint64_t n;

	for (size_t i = 0; number.size && i < ARRAY_SIZE(units); i++)
		if (number.p[number.size - 1] == units[i].name) {
			unit = units[i].ms;
			number.size--;
			break;
		}
	if (!str_to_u64(number, &n) || n > (uint64_t)(INT64_MAX / 604800000))
		return err_set(err, ERR_INVALID, "'%s' is not a time (such as 10s, 12h, 30d, 8w)", value);
	*ret_ms = (int64_t)n * unit;
	return 0;
}

static int set_max_age(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	return parse_time(value, &s->profiles.max_age_ms, err);
}

static int set_symbolize_interval(struct settings *s, const char *value, enum setting_rank rank,
				  struct err *err)
{
	return parse_time(value, &s->profiles.symbolize_ms, err);
}

static const struct option_row profile_rows[] = {
	{ 0, "profiles", "DIR", "where profiles that were sent are kept [DATA/profiles]",
	  OPT_TEXT(profiles.dir) },
	{ 0, "profiles-max-age", "TIME", "how long: 12h, 30d, 8w; 0: as long as there is room [0]",
	  OPT_CALL(set_max_age) },
	{ 0, "profiles-max-size", "SIZE", "how much of them; the oldest go first; 0: no limit [10G]",
	  OPT_SIZE(profiles.max_size) },
	{ 0, "symbolize-interval", "TIME",
	  "look so often for names of their addresses, beside when something comes in or turns up; 0: never "
	  "[10s]",
	  OPT_CALL(set_symbolize_interval) },
	{ 0, "no-profiles", NULL, "take no profiles", OPT_OFF(profiles.on) },
	{ 0 },
};
static const struct option_group profiles = { "Profiles", profile_rows };

static void defaults(struct settings *s)
{
	s->profiles.on = true;
	s->profiles.max_size = (uint64_t)10 << 30;
	s->profiles.symbolize_ms = NAMING_INTERVAL_MS;
	service_defaults(s);
	s->upstream.by_default = true;
	s->scan.files = s->scan.packages = s->scan.watch = true;
}

static int serve(struct settings *s)
{
	struct service_places places = { 0 };
	AUTO(mem_freep) char *data = NULL;
	struct err err = { 0 };

	data = data_dir(s->data, &err);
	if (!data)
		return tell_error("serve", &err);
	if (!s->paths.n)
		add_own_files(s);
	if (!s->listen.n)
		setting_list_add(s, &s->listen, STR("localhost:8002"), RANK_DEFAULT, NULL);
	places.data = data;
	return service_run(s, &places);
}

const struct command command_serve = {
	.name = "serve",
	.args = "[PATH...]",
	.summary = "serve debug information out of files and packages, by the debuginfod protocol",
	.examples = "  lode serve                              this machine's own files, at localhost:8002\n"
		    "  lode serve --listen :8002 /srv/debs     a package archive, for everybody\n"
		    "  DEBUGINFOD_URLS=http://localhost:8002 gdb /usr/bin/ls\n",
	.groups = { &group_state, &http, &group_scanning, &keeping, &group_upstream, &storing, &profiles,
		    &caches, &limits },
	.configured = true,
	.max_args = SIZE_MAX,
	.defaults = defaults,
	.run = serve,
};
