/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client: the interface between its files.
 */
#pragma once

#include <sys/stat.h>
#include "client/client.h"

/* ---- results and the log (result.c) ---- */

/* Log one line. @w may be NULL. */
void client_say(const struct client_watch *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Add a line to why, and report it to the watcher. */
void result_why(struct client_result *r, const struct client_watch *w, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int result_fail(struct client_result *r, enum client_outcome outcome, int os);

/* ---- environment (env.c) ---- */

#define ENV_MAX_SERVERS 64u

struct client_env {
	char **urls; /* heap; scheme added, without trailing slashes, each once */
	size_t n_urls;
	char *nonsense;      /* the first token that is not a URL, and why; NULL: none */
	int64_t timeout_ms;  /* 0: none */
	int64_t max_time_ms; /* 0: none */
	unsigned retries;
	unsigned connect_retries; /* only if the user has asked for retries */
	uint64_t max_size;        /* 0: none */
	char **headers;           /* heap; from DEBUGINFOD_HEADERS_FILE */
	size_t n_headers, room_headers;
};
/* @urls NULL: $DEBUGINFOD_URLS. Invalid tokens are reported by say() and left out. */
void client_env_read(struct client_env *e, const char *urls, const struct client_watch *watch);
void client_env_done(struct client_env *e);
/* "Name: value", without bytes that would make it two lines. */
bool client_header_ok(struct str line);
/* No server is configured: sets the reason and the errno in @ret. */
void client_no_servers(const struct client_env *e, struct client_result *ret);

/* ---- names of entries (name.c) ---- */

/* Names of a request in its folder: the current one, then the one of elfutils up to 0.191 for sources and
 * sections, if it is short enough. */
#define ENTRY_NAMES 2
struct cache_entry {
	char id[BUILD_ID_HEX_SIZE];
	char *names[ENTRY_NAMES]; /* heap; [1] may be NULL */
};
void entry_init(struct cache_entry *e, const struct client_request *w);
void entry_done(struct cache_entry *e);
/* "HHHHHHHH-tail" of a source's path or a section's name, as elfutils has it since 0.192. */
char *entry_escape(const char *name);
/* The same up to 0.191, after "source" or "section-". */
char *entry_escape_old(const char *name);

/* ---- the folder (folder.c) ---- */

struct folder {
	char *path;     /* NULL: there is none */
	bool read_only; /* nothing can be created in it; read_only_why has the reason */
	struct err read_only_why;
};

/* The customary path; creates nothing. */
char *folder_usual(const char *given);
/* Check that it is writable; a missing folder is created, with mode 0700. */
void folder_open(struct folder *f, char *path); /* takes @path */
/*
 * The folder for files that the customary one cannot take: $TMPDIR/debuginfod_client-UID, else below /var/tmp
 * or /tmp. It must belong to this user, without access for others. With @make a missing one is created.
 * false: there is none; f->read_only_why has the reason.
 */
bool folder_open_spare(struct folder *f, bool make);
void folder_done(struct folder *f);

/* The number in a control file, which is created with @usual where it is missing. *ret_mtime may be NULL; 0
 * where there is no file. */
int64_t folder_control(const struct folder *f, const char *name, int64_t usual, int64_t *ret_mtime);
/*
 * An entry of this time may be used for @keep_s. It may be in the future: a file server sets its own time, and its clock may be
 * a little ahead. More than @keep_s ahead it is from a wrong clock.
 */
bool folder_time_is_fresh(int64_t time_s, int64_t keep_s);
#define CONTROL_CLEAN_INTERVAL "cache_clean_interval_s"
#define CONTROL_MAX_UNUSED     "max_unused_age_s"
#define CONTROL_MISS           "cache_miss_s"
#define CONTROL_RETENTION      "metadata_retention_s"
#define CONTROL_MAX_SIZE       "cache_max_size_mb" /* lode's own */
#define USUAL_CLEAN_INTERVAL_S 86400
#define USUAL_MAX_UNUSED_S     604800
#define USUAL_MISS_S           600
#define USUAL_RETENTION_S      3600
#define USUAL_MAX_SIZE_MB      32768

/* ---- looking up (lookup.c) ---- */

/* A file used within this time is not removed by cleaning, whatever the folder's size, and a hit does not
 * update an access time that is younger. */
#define YOUNG_S 600

enum lookup { LOOKUP_MISS, LOOKUP_HIT, LOOKUP_ABSENT };

struct cache_hit {
	int fd;
	char *path;
	uint64_t size;
	char *headers; /* NULL: none */
};
/* A hit is at offset 0 and has an access time within YOUNG_S. LOOKUP_ABSENT: a negative entry that is not too
 * old; an old one is removed. */
enum lookup lookup(const struct folder *f, const struct cache_entry *e, struct cache_hit *ret);
void hit_done(struct cache_hit *h);
/* Write a negative entry for @e: an empty file, unless a file is there. */
void lookup_note_absent(const struct folder *f, const struct cache_entry *e);
void lookup_touch(int fd); /* set the access time to now, also on a noatime mount */

/* ---- putting (put.c) ---- */

/* A file being written: beside its final name until it is complete and checked. If the folder is full, it
 * moves to the spare one. */
struct put {
	struct folder *spare; /* for ENOSPC; opened when needed. NULL: there is none, or this is it */
	char *dir, *temp;     /* dir: <folder>/<id>; temp: NULL once it is committed */
	int fd;
	uint64_t size; /* end of the written bytes */
	bool moved;    /* it is in the spare folder now */
};

/* Where files are put. */
struct put_folders {
	struct folder *folder;
	/* For files that @folder cannot take; opened when needed. NULL: there is none. */
	struct folder *spare;
};
/*
 * Create a file of @to. @dir_name: the build ID, or "metadata". @expected: its size, 0: unknown; without room
 * for that many bytes it fails here, before they are fetched.
 */
int put_begin(struct put *p, struct put_folders to, const char *dir_name, const char *name, uint64_t expected,
	      struct err *err);
int put_write(struct put *p, const void *data, size_t n, uint64_t off, struct err *err);
int put_restart(struct put *p, struct err *err); /* bytes written so far are void */
/* Rename it to its final name. @mtime 0: now. @headers may be NULL. *ret_path is heap; the descriptor stays
 * in p->fd, at offset 0. */
int put_commit(struct put *p, const struct cache_entry *e, int64_t mtime, const char *headers,
	       char **ret_path, struct err *err);
/* Rename it to @name, without headers or links. */
int put_commit_plain(struct put *p, const char *name, char **ret_path, struct err *err);
void put_done(struct put *p); /* removes the file if it was not committed, and its folder if that is empty */

/* ---- cleaning (clean.c) ---- */

/*
 * Clean for about @budget_ms, if cleaning is due: first files not used for long, then, if the folder is too
 * large, those not used for longest. @added: bytes put into it since the last call. Only entries are touched.
 */
void clean_step(const struct folder *f, uint64_t added, int64_t budget_ms);

/* ---- checking (check.c) ---- */

/* 0, or ERR_INVALID with the reason, which follows the name of the file; CHECK_MORE: more of the head is
 * needed. */
enum { CHECK_MORE = 1 };
#define CHECK_HEAD 64u /* an ELF header */
int check_head(const struct client_request *w, struct bytes head, bool all, struct err *err);
int check_whole(const struct client_request *w, int fd, uint64_t size, struct err *err);
bool check_is_not_elf(int fd);

/* ---- sections out of whole files (slice.c) ---- */

enum slice {
	SLICE_FOUND,
	SLICE_NONE,    /* files of this build ID have no such section, or without contents */
	SLICE_UNKNOWN, /* ask elsewhere */
};
/* Cut the section @w out of a whole file of its build ID in @to's folder. It is put into @to, and is *ret. */
enum slice slice(struct put_folders to, const struct client_request *w, struct cache_hit *ret,
		 struct err *err);
/* Cut it out of any file of that build ID. */
struct slice_file {
	struct source *src;
	const struct elf_image *img; /* @src, opened */
	int64_t mtime;
};
enum slice slice_of(struct put_folders to, const struct client_request *w, const struct slice_file *file,
		    struct cache_hit *ret, struct err *err);
/* Compare a fetched section with the header in the cached debug file, if there is one. 0, or ERR_INVALID. */
int slice_check(const struct folder *f, const struct client_request *w, uint64_t size, struct err *err);

/* ---- the client (client.c) ---- */

struct net;

struct client {
	char *urls, *cache_path; /* NULL: the environment's */
	unsigned connections;
	int64_t unread_wait_ms;
	bool ignore_misses;
	char **headers; /* for the next call */
	size_t n_headers, room_headers;
	struct net *net; /* made when it is needed */
	int pid;         /* of the process that made it: a child must not touch its connections */
	uint64_t breakers_epoch;
};

/* The network, with the state of the servers from earlier processes. NULL: it cannot be created. */
struct net *client_net(struct client *c, const struct folder *f, struct err *err);
/* Save the state of the servers for other processes. */
void client_save_breakers(struct client *c, const struct folder *f);

/* ---- one call (find.c, item.c) ---- */

#define FIND_TICK_MS 50 /* between two calls of progress(), which may cancel */

struct find {
	struct client *client;
	struct client_env env;
	const char **headers; /* of env and client; borrowed from them */
	size_t n_headers;
	struct folder folder, spare; /* spare: opened when needed */
	const struct client_watch *watch;
	struct item *items;
	size_t n, n_done, n_found;
	uint64_t done_bytes; /* fetched by items that are done */
	uint64_t added;      /* put into the folder */
	char *last_url;      /* that the last file came from; for the last progress() */
	struct map leaders;  /* id + name -> item that fetches it */
	bool cancelled;
};

/* The file that an item fetches now. A section that servers cannot cut out is cut out of the whole file
 * here. */
enum item_stage { STAGE_ASKED, STAGE_WHOLE_DEBUG, STAGE_WHOLE_EXECUTABLE };

struct item {
	struct find *find;
	const struct client_request *request;
	struct client_result *result;
	enum item_stage stage;
	/* being fetched: the request, or the whole file that has the section */
	struct client_request fetched;
	struct cache_entry entry; /* of `fetched` */
	struct put put;
	struct net_fetch *fetch;
	struct cache_hit suspect; /* in the cache folder, but refused by the check */
	struct item *next;        /* waits for the same file */
	bool done;
};

/* Look it up, and start the fetch if needed. The item may be done when it returns. */
void item_start(struct item *it);
/* Free the item's state; the result stays. */
void item_done(struct item *it);
/* To be called once for each item, with its outcome in result (find.c). */
void find_item_is_done(struct item *it);
void find_open(struct find *f, struct client *c, const struct client_watch *watch);
void find_close(struct find *f);
