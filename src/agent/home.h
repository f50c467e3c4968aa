/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing debug information home: the server says which build IDs it has nothing for; their files are looked for here, in the
 * file system of a process that has them mapped, and uploaded: one at a time, slowly, each once.
 *
 * The debug file is found by the rules of local.h. A program with debug information of its own is split, so that only the
 * debug file is sent. Programs themselves are sent only if that is allowed.
 */
#pragma once

#include "base/base.h"

#define HOME_USUAL_RATE MIB(1) /* bytes a second */
#define HOME_MAX_QUEUE  10000u /* build IDs that are known; those that are done make room for others */
#define HOME_MAX_FILE   ((uint64_t)4 << 30) /* a larger debug file is not sent */

struct home_options {
	const char *url, *token;
	uint64_t rate;    /* bytes a second; 0: HOME_USUAL_RATE */
	bool executables; /* send a program without a debug file, too */
	const char *dir;  /* for temporary files; NULL: file_temp_dir() */
};

struct home;
int home_new(const struct home_options *o, struct home **ret, struct err *err);
void home_free(struct home *h); /* an upload that runs is broken off; the server keeps its part. Takes NULL */
/* The server wants the debug information of @id. From any thread. */
void home_want(struct home *h, const struct build_id *id);
/* The next build ID whose file has to be opened, by the agent's thread. false: none. */
bool home_next(struct home *h, struct build_id *ret);
/* Its file, @fd, taken, which is at @path in the file system of process @pid. @fd negative: no process has it now. */
void home_give(struct home *h, const struct build_id *id, int fd, uint32_t pid, const char *path);

struct home_stats {
	uint64_t n_wanted, n_sent, n_here, n_missing, n_failed, bytes_sent;
	size_t n_waiting;
	char current[BUILD_ID_HEX_SIZE]; /* that is being uploaded; "": none */
	char error[200];
};
void home_stats(struct home *h, struct home_stats *ret);
