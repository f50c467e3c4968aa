/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode serve: the service over files and packages, and its options.
 */
#include <stdlib.h>
#include "cmd/service/service.h"
#include "naming/naming.h"

static int set_archive_path(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	if (strcmp(value, "full") != 0 && strcmp(value, "hide") != 0)
		return err_set(err, ERR_INVALID, "'%s' is neither full nor hide", value);
	service_settings(s)->server.hide_archive = value[0] == 'h';
	return 0;
}

static const struct option_row http_rows[] = {
	{ 0, "listen", "ADDR:PORT",
	  "the address to listen on; :PORT is all addresses; unix:PATH a socket; may be given again "
	  "[localhost:8002]",
	  SERVICE_LIST(listen) },
	{ 0, "listen-grpc", "ADDR:PORT",
	  "the address to listen on for gRPC and other HTTP/2; in the forms of --listen; may be given again "
	  "[none]",
	  SERVICE_LIST(listen_grpc) },
	{ 0, "public-url", "URL",
	  "a URL by which browsers reach this server, such as a proxy's; may be given again [localhost, this "
	  "machine's name, IP addresses]",
	  SERVICE_LIST(public_urls) },
	{ 0, "tls-cert", "FILE", "serve https with this certificate chain, PEM",
	  SERVICE_TEXT(server.tls_cert) },
	{ 0, "tls-key", "FILE", "the certificate's key, PEM", SERVICE_TEXT(server.tls_key) },
	{ 0, "cors", NULL, "let pages of other sites send requests", SERVICE_ON(server.cors) },
	{ 0, "archive-path", "full|hide",
	  "the header X-DEBUGINFOD-ARCHIVE has whole paths, or file names only [full]",
	  OPT_CALL(set_archive_path) },
	{ 0, "home-redirect", "URL", "redirect / there, instead of showing the page",
	  SERVICE_TEXT(server.home_redirect) },
	{ 0, "home-html", "FILE", "show this file at /, instead of the page",
	  SERVICE_TEXT(server.home_html) },
	{ 0, "web-dir", "DIR", "read the page's files from DIR; instead of the built-in ones",
	  SERVICE_TEXT(server.web_dir) },
	{ 0, "no-access-log", NULL, "do not log requests", SERVICE_OFF(server.access_log) },
	{ 0, "http-threads", "N", "threads that talk HTTP [CPUs]", SERVICE_NUMBER(server.http_threads) },
	{ 0 },
};
static const struct option_group http_group = { "HTTP", http_rows };

static const struct option_row limit_rows[] = {
	{ 0, "memory", "SIZE",
	  "memory for requests, profiles, queries and symbol tables, together; over it they wait or get 503 "
	  "[half of the machine's or the cgroup's]",
	  SERVICE_SIZE(memory) },
	{ 0, "min-free", "SIZE",
	  "disk space to keep free: fetches, pushes, copies and cached files that would leave less are "
	  "refused [a "
	  "twentieth of the disk, at most 1G]",
	  SERVICE_SIZE(min_free) },
	{ 0, "max-connections", "N", "connections at once [from the limit of open files]",
	  SERVICE_NUMBER(server.max_connections) },
	{ 0, "max-connections-per-ip", "N",
	  "connections at once from one address; 0: no limit [256; from this machine: no limit]",
	  SERVICE_NUMBER(server.max_connections_per_ip) },
	{ 0, "rate", "N", "requests a second from one address [no limit]",
	  SERVICE_NUMBER(server.rate_per_ip) },
	{ 0, "idle-timeout", "SECONDS", "close a connection that was silent for so long [60]",
	  SERVICE_NUMBER(server.idle_timeout_s) },
	{ 0, "min-rate", "SIZE",
	  "close a connection whose body or reply moves slower than so many bytes a second; 0: never [1K]",
	  SERVICE_SIZE(server.min_rate) },
	{ 0, "body-deadline", "SECONDS",
	  "how long a body may take, beside a second for each 16 KiB of it; 0: no limit [600]",
	  SERVICE_MS(server.body_deadline_ms) },
	{ 0, "max-queued", "N", "requests of one class of work that may wait; further ones get 503 [1024]",
	  SERVICE_NUMBER(server.max_queued) },
	{ 0, "deadline", "SECONDS",
	  "how long a request waits for a scan, or a query takes; 0: no limit [120]",
	  SERVICE_MS(server.request_deadline_ms) },
	{ 0, "unread-wait", "SECONDS",
	  "how long a request for an unknown build ID waits while packages are still being read; 0: it does "
	  "not wait [750]",
	  SERVICE_SECONDS(server.unread_wait_s) },
	{ 0, "redirect-wait", "SECONDS",
	  "redirect a waiting elfutils client to the same path this often, before it gives up; 0: never [25]",
	  SERVICE_MS(server.redirect_ms) },
	{ 0, "unread-waiters", "N",
	  "unknown build IDs that may wait at once (--unread-wait); requests for more get 404 or 503 [256]",
	  SERVICE_NUMBER(server.max_unread) },
	{ 0, "metadata-maxtime", "SECONDS", "how long a /metadata search may take; 0: no limit [5]",
	  SERVICE_MS(server.metadata_max_ms) },
	{ 0 },
};
static const struct option_group limit_group = { "Limits", limit_rows };

static const struct option_row rescan_rows[] = {
	{ 0, "rescan", "SECONDS", "scan the PATHs again this often; 0: only at the start [300]",
	  SERVICE_SECONDS(scan.rescan_s) },
	{ 0, "groom", "SECONDS",
	  "remove deleted files from the index this often; 0: only at the start [86400]",
	  SERVICE_SECONDS(scan.groom_s) },
	{ 0, "no-watch", NULL, "do not use inotify: only the scans see changes", SERVICE_OFF(scan.watch) },
	{ 0, "groom-regex", NULL, "also remove files that --include and --exclude leave out now",
	  SERVICE_ON(scan.regex_groom) },
	{ 0, "compact", NULL, "groom and compact the index at the start", SERVICE_ON(scan.tidy_all) },
	{ 0, "passive", NULL,
	  "scan nothing: serve the index of another process that has the same data directory",
	  SERVICE_ON(scan.passive) },
	{ 0, "sources", "DIR",
	  "another folder of sources: they are served if debug files on disk name them; may be given again "
	  "[the PATHs, "
	  "/usr/include]",
	  SERVICE_LIST(sources) },
	{ 0, "any-source", NULL,
	  "serve every file on disk that a source request names, not only files named by debug files. Never "
	  "in "
	  "public!",
	  SERVICE_ON(source_any) },
	{ 0 },
};
static const struct option_group rescan_group = { "Rescans", rescan_rows };

static const struct option_row cache_rows[] = {
	{ 0, "workers", "N", "threads that decode [CPUs, at least 2]", SERVICE_NUMBER(server.workers) },
	{ 0, "cache-dir", "DIR", "the folder for decoded files that are requested often [DATA/cache]",
	  SERVICE_TEXT(server.cache_dir) },
	{ 0, "cache-size", "SIZE", "its size; 0: no cache [a quarter of the free space, at most 10G]",
	  SERVICE_SIZE(server.cache_max_bytes) },
	{ 0, "s3-disk-cache", "SIZE",
	  "parts of objects kept in the folder s3-cache of the data folder; 0: none [1G]",
	  SERVICE_SIZE(s3.disk_size) },
	{ 0, "memory-cache", "SIZE", "decoded blocks and parked decoders kept in memory [256M]",
	  SERVICE_SIZE(span_cache) },
	{ 0, "map-cache", "SIZE", "package maps kept in memory [64M]", SERVICE_SIZE(map_cache) },
	{ 0, "sources-cache", "SIZE", "names of debug files' sources kept in memory [64M]",
	  SERVICE_SIZE(sources_cache) },
	{ 0, "discriminators", NULL,
	  "symbol tables have discriminators: the block within a line; a few per cent larger",
	  SERVICE_ON(discriminators) },
	{ 0 },
};
static const struct option_group cache_group = { "Decoding and caches", cache_rows };

static const struct option_row store_rows[] = {
	{ 0, "store", "DIR", "the folder for pushed and fetched files, or s3://BUCKET/PREFIX [DATA/store]",
	  SERVICE_TEXT(store.dir) },
	{ 0, "store-quota", "SIZE", "its size; the files unused for longest are removed; 0: no limit [0]",
	  SERVICE_SIZE(store.quota) },
	{ 0, "store-keep-pushed", NULL, "never remove pushed files: refuse new ones instead",
	  SERVICE_ON(store.keep_pushed) },
	{ 0, "store-cache", "SIZE",
	  "of a store in a bucket: the size of its cache in DATA/bucket/cache; 0: none [10G]",
	  SERVICE_SIZE(store.cache_size) },
	{ 0, "keep-pushes", "SIZE",
	  "of a store in a bucket: bytes of pushes that are kept on this machine while the bucket is away, "
	  "and put later; 0: pushes are refused then [0]",
	  SERVICE_SIZE(store.hold_size) },
	{ 0, "signed-uploads", "WHO",
	  "of a store in a bucket: let these clients send files to the bucket themselves, by URLs that are "
	  "signed for them: push (lode push), parca (Parca's clients), all [nobody]",
	  SERVICE_TEXT(store.signed_for) },
	{ 0, "signed-endpoint", "URL",
	  "the endpoint by which the clients of --signed-uploads reach the bucket [that of --s3-endpoint]",
	  SERVICE_TEXT(store.signed_endpoint) },
	{ 0, "tokens", "FILE", "the tokens of clients that may push, see lode help token [DATA/tokens]",
	  SERVICE_TEXT(tokens) },
	{ 0, "max-push", "SIZE", "the largest file that is accepted [16G]", SERVICE_SIZE(server.max_push) },
	{ 0, "max-uploads-per-token", "N", "uploads at once with the same token; 0: no limit [32]",
	  SERVICE_NUMBER(server.max_uploads_per_token) },
	{ 0, "require-read-token", NULL, "serve nothing to clients without a token, either",
	  SERVICE_ON(server.require_read_token) },
	{ 0, "no-store", NULL, "keep no fetched files, accept no pushes", SERVICE_ON(store.off) },
	{ 0 },
};
static const struct option_group store_group = { "Store and pushing", store_rows };

/* "30d"; a number alone is in seconds, as with other options. */
static int duration_parse(const char *value, int64_t *ret_ms, struct err *err)
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
	return duration_parse(value, &service_settings(s)->profiles.max_age_ms, err);
}

static int set_symbolize_interval(struct settings *s, const char *value, enum setting_rank rank,
				  struct err *err)
{
	return duration_parse(value, &service_settings(s)->profiles.symbolize_ms, err);
}

static const struct option_row profile_rows[] = {
	{ 0, "profiles", "DIR", "the folder for profiles that clients send [DATA/profiles]",
	  SERVICE_TEXT(profiles.dir) },
	{ 0, "profiles-max-age", "TIME",
	  "how long they are kept: 12h, 30d, 8w; 0: as long as there is room [0]", OPT_CALL(set_max_age) },
	{ 0, "profiles-max-size", "SIZE",
	  "their size on disk; the oldest are removed first; 0: no limit [10G]",
	  SERVICE_SIZE(profiles.max_size) },
	{ 0, "profiles-sender-share", "PERCENT",
	  "the share of all series and of all metadata that one token may use once half of either is in use; "
	  "100: all [25]",
	  SERVICE_NUMBER(profiles.sender_share) },
	{ 0, "symbolize-interval", "TIME",
	  "look for names of the addresses in profiles this often, and when profiles or debug files come in; "
	  "0: never, they stay addresses [10s]",
	  OPT_CALL(set_symbolize_interval) },
	{ 0, "scrape", "FILE",
	  "pull profiles from the programs in FILE, in the form of Prometheus' file_sd (JSON), and read it "
	  "again "
	  "when it changes; may be given again",
	  SERVICE_LIST(scrape) },
	{ 0, "no-profiles", NULL, "accept no profiles", SERVICE_OFF(profiles.on) },
	{ 0 },
};
static const struct option_group profile_group = { "Profiles", profile_rows };

static void serve_defaults(struct settings *s)
{
	struct service_settings *o = service_settings(s);

	service_defaults(s);
	o->profiles.on = true;
	o->profiles.max_size = (uint64_t)10 << 30;
	o->profiles.symbolize_ms = NAMING_INTERVAL_MS;
	o->upstream.by_default = true;
	o->s3.disk_size = (uint64_t)1 << 30;
	o->scan.files = o->scan.packages = o->scan.watch = true;
}

static int run_serve(struct settings *s)
{
	struct service_places places = { .command = "serve",
					 .option = "--data",
					 .other_port = "--listen localhost:8003" };
	struct service_settings *o = service_settings(s);
	AUTO(mem_freep) char *data = NULL, *disk = NULL;
	struct err err = { 0 };

	data = data_dir(s->data, &err);
	if (!data)
		return tell_error("serve", &err);
	if (!s->paths.n)
		add_own_files(s);
	if (!o->listen.n)
		setting_list_add(s, &o->listen, STR("localhost:8002"), RANK_DEFAULT, NULL);
	disk = mem_printf("%s/s3-cache", data);
	o->s3.disk_dir = disk;
	o->s3.min_free = o->min_free;
	s3_shared_options(&o->s3);
	places.data = data;
	return service_run(s, &places);
}

const struct command command_serve = {
	.name = "serve",
	.args = "[PATH...]",
	.summary = "serve debug information from files and packages, by the debuginfod protocol",
	.examples = "  lode serve                              this machine's own files, at localhost:8002\n"
		    "  lode serve --listen :8002 /srv/debs     a package archive, for all machines\n"
		    "  DEBUGINFOD_URLS=http://localhost:8002 gdb /usr/bin/ls\n",
	.groups = { &group_state, &http_group, &group_scanning, &rescan_group, &group_bucket, &group_upstream,
		    &store_group, &profile_group, &cache_group, &limit_group },
	.configured = true,
	.max_args = SIZE_MAX,
	.own_size = sizeof(struct service_settings),
	.defaults = serve_defaults,
	.run = run_serve,
};
