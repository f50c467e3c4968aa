/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that several of these commands have. `lode serve` and `lode scan` take the same ones for the files
 * to scan, so that one configuration file serves both.
 */
#include "cmd/service/service.h"

static const struct option_row state_rows[] = {
	{ 0, "data", "DIR", "the data directory [/var/lib/lode for root, else $XDG_STATE_HOME/lode]",
	  OPT_TEXT(data) },
	{ 0, "config", "FILE",
	  "a file of options by their long names, lines 'name = value' [/etc/lode/lode.conf]",
	  OPT_TEXT(config) },
	{ 'v', "verbose", NULL, "log more; on a terminal, log each event as a line instead of the status",
	  OPT_ON(verbose) },
	{ 0 },
};
const struct option_group group_state = { "State", state_rows };

static const struct option_row scanning_rows[] = {
	{ 0, "path", "PATH",
	  "the same as PATH after the options, for the configuration file; may be given again",
	  OPT_LIST(paths) },
	{ 0, "no-files", NULL, "scan packages only", SERVICE_OFF(scan.files) },
	{ 0, "no-packages", NULL, "scan files only", SERVICE_OFF(scan.packages) },
	{ 0, "suffix", "EXT", "only packages whose names end in EXT; may be given again [all known kinds]",
	  SERVICE_LIST(suffixes) },
	{ 0, "include", "REGEX", "only paths that match (POSIX extended, anywhere in the real path)",
	  SERVICE_TEXT(scan.include_regex) },
	{ 0, "exclude", "REGEX", "no paths that match; wins over --include",
	  SERVICE_TEXT(scan.exclude_regex) },
	{ 0, "follow-links", NULL, "follow symbolic links, and cross file systems",
	  SERVICE_ON(scan.follow_links) },
	{ 0, "max-depth", "N", "folders below a PATH to go into [no limit]", SERVICE_NUMBER(scan.max_depth) },
	{ 0, "header-only", NULL, "decode a package only when one of its files is requested",
	  SERVICE_ON(scan.header_only) },
	{ 0, "scan-threads", "N", "threads that scan [CPUs]", SERVICE_NUMBER(scan.threads) },
	{ 0 },
};
const struct option_group group_scanning = { "Files to scan", scanning_rows };

static int set_s3_style(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	enum s3_style *style = &service_settings(s)->s3.style;

	if (strcmp(value, "path") == 0)
		*style = S3_STYLE_PATH;
	else if (strcmp(value, "host") == 0)
		*style = S3_STYLE_HOST;
	else
		return err_set(err, ERR_INVALID, "'%s' is neither path nor host", value);
	return 0;
}

static const struct option_row bucket_rows[] = {
	{ 0, "s3-endpoint", "URL",
	  "the server that has the buckets [$AWS_ENDPOINT_URL_S3, ..., else Amazon's]",
	  SERVICE_TEXT(s3.endpoint) },
	{ 0, "s3-region", "NAME", "its region [$AWS_REGION, ..., else us-east-1]", SERVICE_TEXT(s3.region) },
	{ 0, "s3-profile", "NAME",
	  "the profile in ~/.aws that has keys and settings [$AWS_PROFILE, else default]",
	  SERVICE_TEXT(s3.profile) },
	{ 0, "s3-style", "path|host",
	  "whether the bucket is in the path of a request, or in its host [path with an endpoint, else host]",
	  OPT_CALL(set_s3_style) },
	{ 0, "s3-ca", "FILE",
	  "certificates that the server's is checked by, PEM [$AWS_CA_BUNDLE, else the system's]",
	  SERVICE_TEXT(s3.ca_file) },
	{ 0, "s3-proxy", "URL", "the proxy to the server [$https_proxy, $http_proxy]",
	  SERVICE_TEXT(s3.proxy) },
	{ 0, "s3-anonymous", NULL, "sign no requests: the bucket is public", SERVICE_ON(s3.anonymous) },
	{ 0, "s3-cache", "SIZE", "parts of objects kept in memory [64M]", SERVICE_SIZE(s3.cache_size) },
	{ 0 },
};
const struct option_group group_bucket = { "Buckets (s3://BUCKET/PREFIX)", bucket_rows };
