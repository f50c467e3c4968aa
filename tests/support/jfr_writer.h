/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes recordings of Java's Flight Recorder: one chunk with metadata, constants and events, or several after each
 * other. The metadata have fields that no reader knows (floats, structs, arrays), as those of later JDKs do.
 */
#pragma once

#include "base/base.h"
#include "base/buf.h"

#define JFR_TICKS_PER_S 500000000u /* two nanoseconds each */
#define JFR_START_NS    INT64_C(1760000000000000000)

enum { JFR_INTERPRETED, JFR_COMPILED, JFR_INLINED, JFR_NATIVE_FRAME, JFR_KERNEL_FRAME };
/*
 * Methods: "a/b/Main.main", "a/b/Main.f", "a/b/Main$$Lambda$7+0x00007f0001/12.run", "read" of "/lib/libc.so.6",
 * "tcp_recvmsg", without a class.
 */
enum { JFR_MAIN = 1, JFR_F, JFR_LAMBDA, JFR_READ, JFR_TCP, JFR_NO_METHOD = 99 };
/*
 * Stack traces: 1: main, f; 2: the same, f inlined; 3: main, lambda, read, tcp_recvmsg; 4: truncated, f; 5: no frames;
 * 6: main, a method that is not in the recording. 77 is not there.
 */

/* What differs from a recording as it should be. */
struct jfr_how {
	bool plain;         /* numbers are not compressed */
	bool no_size;       /* the header was not completed */
	uint64_t size;      /* of the chunk, instead of the right one; 0: the right one */
	bool no_kernel;     /* of the JDK: no frames of the kernel */
	uint16_t major;     /* 0: 2 */
	uint8_t text;       /* encoding of the symbols; 0: UTF-8 */
	uint64_t n_frames;  /* of stack 1, claimed; 0: the right one */
	bool loop;          /* the class of a frame has a frame as a field */
	const char *lambda; /* the name of that class; NULL: as above */
};

struct jfr_writer {
	struct buf out, part; /* chunks; the event that is being made */
	struct jfr_how how;
	size_t start; /* of the chunk */
	uint64_t now; /* ticks since the start */
};
void jfr_begin(struct jfr_writer *w, struct jfr_how how);
/* Constants and the header; the chunk took @duration_ns. */
void jfr_end(struct jfr_writer *w, int64_t duration_ns);
void jfr_writer_done(struct jfr_writer *w);

/* Events. States of threads: 1: STATE_RUNNABLE, 2: STATE_SLEEPING. */
void jfr_setting(struct jfr_writer *w, const char *event, const char *name, const char *value);
void jfr_sample(struct jfr_writer *w, uint64_t stack, unsigned state, uint64_t context);
void jfr_cpu_time(struct jfr_writer *w, uint64_t stack, uint64_t ticks);
void jfr_wall(struct jfr_writer *w, uint64_t stack, unsigned state, uint64_t samples);
void jfr_alloc(struct jfr_writer *w, uint64_t stack, uint64_t size, uint64_t tlab);
void jfr_monitor(struct jfr_writer *w, uint64_t stack, uint64_t ticks);
/* An event of a class that is not read. */
void jfr_unknown(struct jfr_writer *w);
