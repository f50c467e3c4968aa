/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client's own: the cache folder in parts, the environment, and checking.
 */
#pragma once

#include <sys/stat.h>
#include "client/client.h"

/* ---- environment (env.c) ---- */

#define ENV_MAX_SERVERS 64u

struct client_env {
	char **urls; /* heap; scheme added, without trailing slashes, each once */
	size_t n_urls;
	char *nonsense;      /* the first of what is no URL, and why; NULL: none */
	int64_t timeout_ms;  /* 0: none */
	int64_t max_time_ms; /* 0: none */
	unsigned retries;
	unsigned connect_retries; /* only if somebody has asked for retries */
	uint64_t max_size;        /* 0: none */
	char **headers;           /* heap; from DEBUGINFOD_HEADERS_FILE */
	size_t n_headers;
};
/* @urls NULL: $DEBUGINFOD_URLS. What is nonsense is told by say() and left out. */
void client_env_read(struct client_env *e, const char *urls, const struct client_watch *watch);
void client_env_done(struct client_env *e);
/* "Name: value", without anything that would make it two lines. */
bool client_header_ok(struct str line);
/* There is nobody to ask: why, in @ret's err, and errno. */
void client_no_servers(const struct client_env *e, struct client_result *ret);
void client_say(const struct client_watch *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- names of entries (name.c) ---- */

/* Names of one want in its folder: today's, then the one that elfutils up to 0.191 gives to sources and
 * sections, if it fits. */
#define ENTRY_NAMES 2
struct cache_entry {
	char id[BUILD_ID_HEX_SIZE];
	char *names[ENTRY_NAMES]; /* heap; [1] may be NULL */
};
void entry_init(struct cache_entry *e, const struct client_request *w);
void entry_done(struct cache_entry *e);
/* "HHHHHHHH-tail" of a source's path or a section's name, as elfutils has it since 0.192. */
char *entry_escape(const char *name);
/* The same up to 0.191, behind "source" or "section-". */
char *entry_escape_old(const char *name);

/* ---- the folder (folder.c) ---- */

struct folder {
	char *path;     /* NULL: there is none */
	bool read_only; /* nothing can be made in it, and read_only_why says why */
	struct err read_only_why;
};

/* The customary place; nothing is made. */
char *folder_usual(const char *given);
/* See whether it can be written to; makes it, 0700, where it is missing. */
void folder_open(struct folder *f, char *path); /* takes @path */
/*
 * The place for what the customary one cannot take: $TMPDIR/debuginfod_client-UID, else below /var/tmp or
 * /tmp. Only one that is ours and closed to others is used. @make it where it is missing. false: there is
 * none; f->read_only_why says why.
 */
bool folder_open_spare(struct folder *f, bool make);
void folder_done(struct folder *f);

/* A control file: a decimal, made with @usual where it is missing. *ret_mtime may be NULL; 0 where there is
 * no file. */
int64_t folder_control(const struct folder *f, const char *name, int64_t usual, int64_t *ret_mtime);
#define CONTROL_CLEAN_INTERVAL "cache_clean_interval_s"
#define CONTROL_MAX_UNUSED     "max_unused_age_s"
#define CONTROL_MISS           "cache_miss_s"
#define CONTROL_RETENTION      "metadata_retention_s"
#define CONTROL_MAX_SIZE       "cache_max_size_mb" /* ours alone */
#define USUAL_CLEAN_INTERVAL_S 86400
#define USUAL_MAX_UNUSED_S     604800
#define USUAL_MISS_S           600
#define USUAL_RETENTION_S      3600
#define USUAL_MAX_SIZE_MB      32768

/* ---- looking up (lookup.c) ---- */

/* What was used within this time is left alone by cleaning, whatever the folder's size, and its access time
 * by a hit. */
#define YOUNG_S 600

enum lookup { LOOKUP_MISS, LOOKUP_HIT, LOOKUP_ABSENT };

struct cache_hit {
	int fd;
	char *path;
	uint64_t size;
	char *headers; /* NULL: none */
};
/*
 * A hit is at offset 0 and its access time is not older than YOUNG_S. LOOKUP_ABSENT: a negative entry that is
 * not too old yet; one that is has been removed.
 */
enum lookup lookup(const struct folder *f, const struct cache_entry *e, struct cache_hit *ret);
void hit_done(struct cache_hit *h);
/* Note that @e is nowhere: an empty file, unless something is there. */
void lookup_note_absent(const struct folder *f, const struct cache_entry *e);
void lookup_touch(int fd); /* the access time is now, whatever the mount says of it */

/* ---- putting (put.c) ---- */

/*
 * A file on its way into a folder: beside its final name until it is complete and checked. Should the folder
 * be full it moves to the spare one.
 */
struct put {
	struct folder *spare; /* for ENOSPC; opened when it is needed. NULL: there is none, or this is it */
	char *dir, *temp;     /* dir: <folder>/<id>; temp: NULL once it is committed */
	int fd;
	uint64_t size; /* end of what was written */
	bool moved;    /* it is in the spare folder now */
};
/* Where files are put. */
struct put_folders {
	struct folder *folder;
	struct folder
		*spare; /* for files that @folder cannot take, opened when needed; NULL: there is none */
};
/*
 * Create a file of @to. @dir_name: the build ID, or "metadata". @expected: its size, 0: unknown; without room for
 * that many bytes it fails here, before they are fetched.
 */
int put_begin(struct put *p, struct put_folders to, const char *dir_name, const char *name, uint64_t expected,
	      struct err *err);
int put_write(struct put *p, const void *data, size_t n, uint64_t off, struct err *err);
int put_restart(struct put *p, struct err *err); /* what was written is void */
/*
 * Make it what all look up. @mtime 0: now. @headers may be NULL. *ret_path is heap; the descriptor stays
 * p->fd, at offset 0.
 */
int put_commit(struct put *p, const struct cache_entry *e, int64_t mtime, const char *headers,
	       char **ret_path, struct err *err);
/* Under this name, and that is all. */
int put_commit_plain(struct put *p, const char *name, char **ret_path, struct err *err);
void put_done(struct put *p); /* what was not committed goes, its folder too if it is empty */

/* ---- cleaning (clean.c) ---- */

/*
 * A part of the cleaning that is due, for about @budget_ms: what was not used for long, then, where the
 * folder is larger than it may be, what was not used for longest. @added: bytes put into it since the last
 * call. Nothing of
 * what is not an entry is touched.
 */
void clean_step(const struct folder *f, uint64_t added, int64_t budget_ms);

/* ---- checking (check.c) ---- */

/* 0, or ERR_INVALID with what is wrong, to be read behind "what SERVER sent "; CHECK_MORE: more of the head
 * is needed. */
enum { CHECK_MORE = 1 };
#define CHECK_HEAD 64u /* an ELF header */
int check_head(const struct client_request *w, struct bytes head, bool all, struct err *err);
int check_whole(const struct client_request *w, int fd, uint64_t size, struct err *err);
bool check_is_not_elf(int fd);

/* ---- sections out of whole files (slice.c) ---- */

enum slice {
	SLICE_FOUND,
	SLICE_NONE,    /* there is certainly no such section with contents in this build ID's files */
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
	char **headers; /* for the next call */
	size_t n_headers;
	struct net *net; /* made when it is needed */
	int pid;         /* of the process that made it: a child must not touch its connections */
	uint64_t breakers_epoch;
};

/* The network, with what earlier processes knew of the servers. NULL: it cannot be had. */
struct net *client_net(struct client *c, const struct folder *f, struct err *err);
/* Note for others what this process has learned of the servers. */
void client_save_breakers(struct client *c, const struct folder *f);
void client_forget_headers(struct client *c);

/* ---- one call (find.c, item.c) ---- */

#define FIND_TICK_MS 50 /* between two calls of progress(), and to notice that it wants to stop */

struct find {
	struct client *client;
	struct client_env env;
	const char **headers; /* of env and client; borrowed from them */
	size_t n_headers;
	struct folder folder, spare; /* spare: opened when it is needed */
	const struct client_watch *watch;
	struct item *items;
	size_t n, n_done, n_found;
	uint64_t done_bytes; /* fetched by items that are done */
	uint64_t added;      /* put into the folder */
	char *last_url;      /* that a file came from; for the last progress */
	struct map leaders;  /* id + name -> item that fetches it */
	bool cancelled;
};

/* What an item fetches now. A section that servers do not cut out is cut out of the whole file here. */
enum item_stage { STAGE_ASKED, STAGE_WHOLE_DEBUG, STAGE_WHOLE_EXECUTABLE };

struct item {
	struct find *find;
	const struct client_request *want;
	struct client_result *result;
	enum item_stage stage;
	struct client_request fetched; /* what is on its way: the want, or the whole file that has it */
	struct cache_entry entry;      /* its */
	struct put put;
	struct net_fetch *fetch;
	struct cache_hit suspect; /* lies in the folder and is not what it should be */
	struct item *next;        /* waits for the same */
	bool done;
};

/* Look here; start what has to be fetched. The item may be done when it returns. */
void item_start(struct item *it);
/* The net's handle to it is gone, all else too; the result stays. */
void item_done(struct item *it);
/* To be called once for each, with its outcome in result (find.c). */
void find_item_is_done(struct item *it);
bool find_open(struct find *f, struct client *c, const struct client_watch *watch);
void find_close(struct find *f);
/* One line of why, and told to who watches. */
void result_why(struct client_result *r, const struct client_watch *w, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int result_fail(struct client_result *r, enum client_outcome outcome, int os);
