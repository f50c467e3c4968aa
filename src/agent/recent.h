/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of code that processes made lately, also of processes that have ended: /proc has nothing of a process that lived
 * for a millisecond, and samples of it could not be translated.
 *
 * The kernel writes a record of each such mapping and of each exec into a ring for each processor, over the oldest ones.
 * They are read when a process is asked for, back to its start. A ring of 64 KiB has some 450 records: 0.1 to 0.2 s of a
 * storm of 1000 programs a second.
 */
#pragma once

#include "agent/maps.h"

#define RECENT_RING_SIZE  KIB(64) /* of a processor */
#define RECENT_ALL_SIZE   MIB(8)  /* of all: with more than 128 processors the rings are smaller */
#define RECENT_LEAST_SIZE KIB(16)
#define RECENT_MAX_MAPS   256u    /* of a process */
#define RECENT_PATHS_SIZE KIB(64) /* of all paths of a process */
#define RECENT_COMM       16

struct recent;
/*
 * With @pids only of the first threads of these processes, and of all that they start: an ordinary user may ask for that.
 * @pids is borrowed, and none: all processes. @starters: also who started each process; a record for each thread, too, takes
 * their room. -1: the kernel does not permit it; the text says why.
 */
int recent_new(const int *pids, size_t n_pids, bool starters, struct recent **ret, struct err *err);
void recent_free(struct recent *r); /* takes NULL */
/* Processors that were added or removed since. */
void recent_follow(struct recent *r);

/* A process between two execs. */
struct recent_process {
	uint32_t pid;
	int64_t start_ns;
	bool has_exec; /* an exec is known: these are all its mappings. Else those that it made beside its parent's */
	/* CLOCK_MONOTONIC: it ran another program before @from_ns (0 without has_exec), and from @until_ns on. */
	int64_t from_ns, until_ns;
	uint32_t parent;  /* that started it, though another one may have taken its place; 0: not known */
	unsigned n_execs; /* until then */
	char comm[RECENT_COMM];
	struct recent_map {
		struct maps_line line; /* its path is in recent_process.paths; see recent_line() */
		size_t path_at;
		int64_t time_ns;
	} maps[RECENT_MAX_MAPS]; /* rising, not overlapping */
	size_t n_maps;
	struct buf paths;
};
/*
 * The mappings that process @pid, which started at @start_ns, had at @at_ns. The result is valid until the next call; it may be
 * empty.
 */
const struct recent_process *recent_find(struct recent *r, uint32_t pid, int64_t start_ns, int64_t at_ns);
/* Mapping @i, with its path. */
struct maps_line recent_line(const struct recent_process *p, size_t i);

/* ---- recent_records.c: records in memory. Pure ---- */

enum recent_kind { RECENT_EXEC, RECENT_MAP, RECENT_FORK, RECENT_OTHER };
struct recent_record {
	enum recent_kind kind;
	uint32_t pid;
	int64_t time_ns;
	uint32_t parent;      /* RECENT_FORK: of a process, not of a thread */
	struct str comm;      /* RECENT_EXEC; in the bytes */
	struct maps_line map; /* RECENT_MAP; its path is in the bytes */
};
/* One record, with its header. False: it is damaged, or no record. */
bool recent_record_read(struct bytes b, struct recent_record *ret);

/* A ring that is written backwards, over the oldest records: the newest one is at @head modulo @size. */
struct recent_view {
	const uint8_t *data;
	size_t size; /* a power of two */
	uint64_t head;
	const uint64_t *head_now; /* changes while the kernel writes */
};
#define RECENT_RECORD_MAX KIB(5) /* a mapping with a path of 4096 bytes; so much is being written at most */

/* Start a search for @pid, which started at @start_ns: earlier records are of another process of that number. */
void recent_search(struct recent_process *p, uint32_t pid, int64_t start_ns);
/* First for every ring: its parent, the last exec up to @at_ns, and the first one after it. */
void recent_scan_execs(struct recent_process *p, const struct recent_view *v, int64_t at_ns);
/* Then for every ring: the mappings between them. */
void recent_scan_maps(struct recent_process *p, const struct recent_view *v);
