/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C interface of libdebuginfod.so.1, as programs that use elfutils' know it, over lode's client.
 *
 * A client belongs to one thread at a time. The find functions return a descriptor at offset 0, or a negative
 * errno; *path, where @path is not NULL, is then the file's path, to be freed by the caller. @build_id is
 * @build_id_len bytes, or, if that is 0, text in lower-case hexadecimal. Every call reads DEBUGINFOD_URLS and
 * the other variables again.
 *
 * -ENOSYS: DEBUGINFOD_URLS names no server. -ENOENT: no server has it, or the progress function has
 * cancelled. Anything else is a failure, and asking again later may help: -ECONNREFUSED, -EHOSTUNREACH,
 * -ECONNRESET, -ETIME, -EFBIG, -EIO, -EINVAL, ...
 */
#ifndef LODE_DEBUGINFOD_H
#define LODE_DEBUGINFOD_H 1

#define DEBUGINFOD_URLS_ENV_VAR          "DEBUGINFOD_URLS"
#define DEBUGINFOD_CACHE_PATH_ENV_VAR    "DEBUGINFOD_CACHE_PATH"
#define DEBUGINFOD_TIMEOUT_ENV_VAR       "DEBUGINFOD_TIMEOUT"
#define DEBUGINFOD_PROGRESS_ENV_VAR      "DEBUGINFOD_PROGRESS"
#define DEBUGINFOD_VERBOSE_ENV_VAR       "DEBUGINFOD_VERBOSE"
#define DEBUGINFOD_RETRY_LIMIT_ENV_VAR   "DEBUGINFOD_RETRY_LIMIT"
#define DEBUGINFOD_MAXSIZE_ENV_VAR       "DEBUGINFOD_MAXSIZE"
#define DEBUGINFOD_MAXTIME_ENV_VAR       "DEBUGINFOD_MAXTIME"
#define DEBUGINFOD_HEADERS_FILE_ENV_VAR  "DEBUGINFOD_HEADERS_FILE"
#define DEBUGINFOD_IMA_CERT_PATH_ENV_VAR "DEBUGINFOD_IMA_CERT_PATH"

/* The libraries' soname. */
#define DEBUGINFOD_SONAME "libdebuginfod.so.1"

typedef struct debuginfod_client debuginfod_client;

#ifdef __cplusplus
extern "C" {
#endif

debuginfod_client *debuginfod_begin(void);
void debuginfod_end(debuginfod_client *client);

int debuginfod_find_debuginfo(debuginfod_client *client, const unsigned char *build_id, int build_id_len,
			      char **path);
int debuginfod_find_executable(debuginfod_client *client, const unsigned char *build_id, int build_id_len,
			       char **path);
int debuginfod_find_source(debuginfod_client *client, const unsigned char *build_id, int build_id_len,
			   const char *filename, char **path);
int debuginfod_find_section(debuginfod_client *client, const unsigned char *build_id, int build_id_len,
			    const char *section, char **path);
int debuginfod_find_metadata(debuginfod_client *client, const char *key, const char *value, char **path);

/*
 * Called several times a second while a find function waits. Before a server delivers, @a counts and @b is 0;
 * then @a is bytes received and @b bytes expected, 0 if that is not known. Non-zero cancels.
 */
typedef int (*debuginfod_progressfn_t)(debuginfod_client *client, long a, long b);
void debuginfod_set_progressfn(debuginfod_client *client, debuginfod_progressfn_t fn);
/* One line on stderr, overwritten: the progress of every client if DEBUGINFOD_PROGRESS is set. */
int debuginfod_default_progressfn(debuginfod_client *client, long a, long b);

/* Write messages about each step to @fd, in lines; -1: none. */
void debuginfod_set_verbose_fd(debuginfod_client *client, int fd);

void debuginfod_set_user_data(debuginfod_client *client, void *value);
void *debuginfod_get_user_data(debuginfod_client *client);

/*
 * The URL of the last file found, or of the one that is being fetched; and its X-DEBUGINFOD-* headers, a line
 * each. Valid until the next call.
 */
const char *debuginfod_get_url(debuginfod_client *client);
const char *debuginfod_get_headers(debuginfod_client *client);

/* "Name: value", for the next request only. -EINVAL: not a header. */
int debuginfod_add_http_header(debuginfod_client *client, const char *header);

#ifdef __cplusplus
}
#endif

#endif
