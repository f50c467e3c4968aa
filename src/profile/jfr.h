/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of Java's Flight Recorder (JFR, format 2.x): of the JDK (jcmd JFR.dump, -XX:StartFlightRecording), of
 * async-profiler, and of Pyroscope's agent, which sends async-profiler's. docs/decisions/0040-jfr.md says which events
 * are read and what becomes of them.
 *
 * Events are laid out by the metadata that each chunk has: a field that is not known here is skipped by its type, and
 * events of other kinds by their size. The chunk at the end of a file may be unfinished: its events are read as far as
 * they are complete, and the profile gets a comment.
 */
#pragma once

#include "profile/profile.h"

struct jfr_options {
	/*
	 * Pyroscope's LabelsSnapshot, compressed or not: the labels of the contexts that events have. Empty: none. It is
	 * needed during the call alone.
	 */
	struct bytes labels;
	/* Samples per second of a recording that does not have its own interval; 0: unknown. */
	uint32_t sample_rate;
	/*
	 * One profile with the types of all kinds of events, and the label `thread`: for a command. Otherwise one for
	 * each kind, without that label, which would make a series of each thread.
	 */
	bool together;
};

/*
 * Takes @p. @name: NAME of its type as Pyroscope has it (process_cpu, wall, memory, mutex, block), "" if together. A
 * failure ends the reading and is returned.
 */
struct profile_sink {
	int (*fn)(void *arg, struct profile *p, struct str name, struct err *err);
	void *arg;
};

/*
 * Read a recording that is not compressed. ERR_INVALID: it is damaged, and the message names chunk, event and byte; or
 * it has no events that make a profile. @limits hold for each profile and for the reader's own tables.
 */
int profile_read_jfr(struct bytes in, const struct profile_limits *limits, const struct jfr_options *options,
		     struct profile_sink sink, struct err *err);
/* By the first 4 bytes. */
bool profile_is_jfr(struct bytes head);
