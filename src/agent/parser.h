/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser: a process that reads ELF files of strangers for the agent, with no right but to read the descriptors that it is
 * given (confine.h). A file that makes it crash, run for too long or ask for too much memory costs that file; the process is
 * started anew.
 *
 * It is a child of a second process, the starter, which is made while the agent has one thread, and only forks: so the agent
 * itself never forks while it has threads, and may lose the right to start programs.
 */
#pragma once

#include "agent/read.h"

#define PARSER_CPU_S     20 /* of CPU time for a file's head or table, then the parser is ended by a signal */
#define PARSER_WALL_MS   60000    /* for the same, on a file system that hangs, too */
#define PARSER_MAX_TABLE MIB(256) /* bytes of a table */
#define PARSER_MAX_STUCK \
	8u /* parsers that wait for a file system and cannot be ended; then no file is read */
#define PARSER_WHY_SIZE 120u

enum parser_kind { PARSER_HEAD, PARSER_TABLE };
struct parser_job {
	enum parser_kind kind;
	int fd; /* borrowed */
	uint64_t size;
	const char *name; /* of a file that may be an interpreter of CPython; NULL: it is none */
	int nice;
	int64_t wall_ms; /* 0: PARSER_WALL_MS */
};

struct parser_result {
	struct file_head head;
	struct python_image *python; /* on the heap; NULL: it is no interpreter */
	struct buf table;            /* of PARSER_TABLE; sound, as unwind_table_open() has it */
	int64_t cpu_ns;              /* of the parser's process */
	char why[PARSER_WHY_SIZE];   /* why there is no result; "": there is */
	bool is_unread;              /* there was no parser: that says nothing of the file */
};

struct parser;
/* While the process has one thread. */
int parser_new(struct parser **ret, struct err *err);
void parser_free(struct parser *p); /* takes NULL */
/* From one thread. Fills in @ret, which is zeroed. */
void parser_run(struct parser *p, const struct parser_job *job, struct parser_result *ret);
/* parser_run() ends soon, in all calls from now on. From any thread. */
void parser_stop(struct parser *p);

struct parser_stats {
	uint64_t n_failed;           /* parsers that crashed, were ended, or could not be started */
	char why[PARSER_WHY_SIZE];   /* the last one; "": none */
	char lacks[PARSER_WHY_SIZE]; /* a wall that this kernel does not have; "": none */
	int64_t cpu_ns;              /* of all of them */
	int pid;                     /* of the parser; 0: none now */
};
/* From the thread of parser_run(). */
void parser_stats(const struct parser *p, struct parser_stats *ret);
