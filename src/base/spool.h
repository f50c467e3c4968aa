/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are made at once and sent at the pace of a client: in memory, or, if they are many, in a file without a
 * name. So a large reply takes neither memory nor a worker while its client reads it.
 *
 *	struct spool s = { .dir = dir, .room = room };
 *
 *	spool_add(&s, bytes, &err);      as often as there are some
 *	if (s.filed)
 *		spool_take_file(&s, head, &file, &err);
 *	else
 *		... s.mem
 *	spool_done(&s);
 */
#pragma once

#include "base/buf.h"
#include "base/room.h"

#define SPOOL_MEMORY (UINT64_C(8) << 20) /* more is in a file */
#define SPOOL_HEAD   64u                 /* bytes of the longest head */

struct spool {
	const char *dir;   /* borrowed: the folder of the file; NULL: file_temp_dir() */
	struct room *room; /* borrowed: grants the disk space; NULL: all of it */
	struct buf mem;    /* all bytes, if there is no file; its hold is the owner's to set */
	bool filed;        /* there is a file */
	/* spool.c's */
	int fd;
	uint64_t size; /* in the file, which has them from SPOOL_HEAD on */
	struct room_claim claim;
};
/* Append. An error with ENOSPC: the disk is full. */
int spool_add(struct spool *s, struct bytes b, struct err *err);
uint64_t spool_size(const struct spool *s);

/* A part of a file. */
struct spool_file {
	int fd;
	uint64_t off, size;
};
/* The file with @head before its content, of SPOOL_HEAD bytes at most; the caller owns it. Only if there is one. */
int spool_take_file(struct spool *s, struct bytes head, struct spool_file *ret, struct err *err);
/* Append all bytes to @out. ERR_BUSY, ERR_LIMIT: its hold does not grant them. */
int spool_read(struct spool *s, struct buf *out, struct err *err);
/* Pass all bytes on, in pieces. */
int spool_each(struct spool *s, int (*pass)(void *arg, struct bytes b, struct err *err), void *arg,
	       struct err *err);
/* Forget all bytes; more may be added then. Takes the zeroed. */
void spool_done(struct spool *s);
