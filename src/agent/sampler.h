/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler: interrupts every processor @frequency_hz times a second, and reports which process ran and its stack.
 *
 * Two implementations: a BPF program walks the stack in the kernel (Linux 5.10 or later with BTF, and CAP_BPF,
 * CAP_PERFMON); else perf events copy registers and part of the stack, and the walk is done here (as an ordinary user,
 * too, for one's own processes as far as perf_event_paranoid permits). Both walk with the same unwind_step().
 *
 * The sampler opens no file of a process (by perf events it reads the names of threads in /proc). Its caller tells it, for
 * each process, the executable mappings (sampler_process_set()) and, for each mapped file, the table of unwind rows
 * (sampler_file_table()). A sample of a process that the caller has not set yet, or of a file whose table is not there yet,
 * is kept with its registers and a copy of its stack, and delivered complete once both are there, or after @hold_ms with
 * the reason.
 *
 * A sampler belongs to one thread. Handlers are called from sampler_poll() only, and may call any function of the
 * sampler but sampler_poll() and sampler_close().
 */
#pragma once

#include "base/base.h"

struct sampler;

enum sampler_clock {
	SAMPLER_CLOCK_CPU, /* the kernel's CPU clock: everywhere, also in virtual machines */
	/* The processor's cycle counter: also sees code that runs with interrupts disabled. Without one: the CPU clock. */
	SAMPLER_CLOCK_CYCLES,
};

enum sampler_kind {
	SAMPLER_BPF,
	SAMPLER_PERF,
	SAMPLER_FAKE, /* of tests */
};

/* Zero is the default of each field. */
struct sampler_options {
	unsigned frequency_hz; /* samples a second and processor, 1 to SAMPLER_MAX_HZ; default 19 */
	enum sampler_clock clock;
	const int *pids; /* sample these processes only; n_pids 0: all, but the calling one */
	size_t n_pids;
	bool no_bpf;    /* use perf events even if BPF would load */
	bool no_kernel; /* no kernel frames */
	bool off_cpu; /* also samples of threads that leave their processor, with the time until they run again */
	bool measure;     /* sampler_stats.bpf_ns is counted: two reads of a clock a sample */
	size_t ring_size; /* bytes for samples not polled yet, rounded up to a power of two; default 8 MiB */
	size_t table_memory;   /* limit of all tables in bytes; default 64 MiB */
	size_t mapping_memory; /* limit of all mappings in bytes; default 32 MiB */
	/*
	 * Bytes of stack that a raw sample has, at most SAMPLER_MAX_STACK. Default: that with BPF, where few samples have
	 * one and its end ends the copy; 32 KiB with perf events.
	 */
	size_t stack_copy;
	size_t hold_memory; /* limit of the raw samples that wait; default 16 MiB */
	unsigned hold_ms;   /* how long they wait; default 2 000 */
	bool keep_raw;      /* every sample has @raw: for tests against another unwinder. Costs copies */
};

#define SAMPLER_MAX_HZ       10000
#define SAMPLER_MAX_STACK    ((size_t)65528)
#define SAMPLER_MAX_USER     512 /* frames; the stack of a deeper one ends with SAMPLER_TOO_DEEP */
#define SAMPLER_MAX_KERNEL   127
#define SAMPLER_MAX_FILES    16384
#define SAMPLER_MAX_MAPPINGS 262144 /* of one process; more of them: the first ones */
#define SAMPLER_MAX_PYTHON   512    /* frames of Python */
#define SAMPLER_COMM         16

/*
 * Open a sampler, and start to sample. -1: neither BPF nor perf events can be had; the text says what would permit it.
 * ERR_INVALID: an option is out of range.
 */
int sampler_open(const struct sampler_options *options, struct sampler **ret, struct err *err);
void sampler_close(struct sampler *s); /* takes NULL; waiting samples are dropped */

/* The kind of the sampler, and the abilities that this kernel or these privileges take away. Valid until sampler_close(). */
struct sampler_about {
	enum sampler_kind kind;
	const char *text; /* one line: "BPF (4 processors, 19 Hz, CPU clock)" */
	const char *const
		*lost; /* a line each: "tracepoint sched_process_exec: ...; new processes are seen later" */
	size_t n_lost;
	bool no_kernel; /* samples have no frames of the kernel */
};
const struct sampler_about *sampler_about(const struct sampler *s);

/*
 * Why a user stack ends. Only the first two are complete stacks. The names are stable: they become a mark in profiles,
 * and labels in metrics.
 */
enum sampler_end {
	SAMPLER_COMPLETE, /* the outermost frame by its unwind rows */
	SAMPLER_FRAME_END, /* the outermost frame by a chain of frame pointers, which may have left out frames */
	/* There is no user stack: a thread of the kernel, or a process that ends or is about to run another program. */
	SAMPLER_KERNEL_ONLY,
	SAMPLER_NO_PROCESS,   /* the process ended before sampler_process_set() */
	SAMPLER_NO_MAPPING,   /* an address that no mapping contains */
	SAMPLER_NO_TABLE,     /* the table of the file did not come in time */
	SAMPLER_EVICTED,      /* the table was evicted under @table_memory */
	SAMPLER_NO_ROW,       /* the file has no row for the address, and the frame pointer leads nowhere */
	SAMPLER_BAD_RULE,     /* a row that the walk cannot follow */
	SAMPLER_UNREADABLE,   /* the stack is not readable at that address (or is swapped out) */
	SAMPLER_TRUNCATED,    /* the copy of the stack ends */
	SAMPLER_LOOP,         /* the next frame is not above this one */
	SAMPLER_TOO_DEEP,     /* SAMPLER_MAX_USER frames */
	SAMPLER_NO_REGISTERS, /* the registers of user mode could not be had */
	SAMPLER_N_ENDS,
};
const char *sampler_end_name(enum sampler_end end); /* "complete", "no mapping", ... */
static inline bool sampler_end_complete(enum sampler_end end)
{
	return end == SAMPLER_COMPLETE || end == SAMPLER_FRAME_END || end == SAMPLER_KERNEL_ONLY;
}

/* A frame outside of files: @addr is an address of the process. Code of a JIT compiler, mostly. */
#define SAMPLER_NO_FILE UINT32_MAX

struct sampler_frame {
	/*
	 * The address in the file (of an ELF file: a virtual address of its program headers, since @bias makes it so), to be
	 * looked up as it is: of a caller it is the one before the return address, so that it belongs to the call; of the
	 * innermost frame, and of one that a signal interrupted, it is the instruction itself (@exact).
	 */
	uint64_t addr;
	uint32_t file; /* of sampler_file_new(), or SAMPLER_NO_FILE */
	bool exact;    /* false: a caller, so that addr + 1 is the return address */
	uint32_t
		place; /* where its stack pointer is: SAMPLER_FAR, or units of 8 bytes after the innermost frame's */
};
#define SAMPLER_FAR 0x7fffffffu

/*
 * A frame of CPython (sampler_process_python()). Those of one evaluation loop in C follow each other; the outermost of them has
 * @entry, a place in the C frame of the loop.
 */
struct sampler_python_frame {
	uint64_t code;  /* the address of the code object */
	uint64_t hash;  /* python_hash() of it at the sample */
	uint32_t instr; /* as in struct bpf_python_frame */
	uint32_t
		entry; /* 0: the caller is a frame of the same loop; SAMPLER_FAR: it is not known where the loop is */
};
enum sampler_python_end {
	SAMPLER_PYTHON_NONE, /* the thread runs no Python */
	SAMPLER_PYTHON_COMPLETE,
	SAMPLER_PYTHON_DEEP, /* more than SAMPLER_MAX_PYTHON */
	SAMPLER_PYTHON_UNREADABLE,
};

/* Registers and stack at a sample. x86-64. */
struct sampler_raw {
	uint64_t ip;
	uint64_t regs[16];  /* DWARF's numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15 */
	struct bytes stack; /* the bytes at @sp */
};

struct sampler_sample {
	int64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, tid, cpu;
	uint64_t start_ticks;    /* of the process, as in /proc/PID/stat; 0: unknown */
	uint64_t cgroup;         /* ID of the cgroup (v2), the inode of its folder; 0: unknown */
	char comm[SAMPLER_COMM]; /* of the thread; ends with a NUL, and is otherwise any bytes */
	const uint64_t *kernel;  /* addresses, innermost first */
	size_t n_kernel;
	bool kernel_cut;                  /* more than SAMPLER_MAX_KERNEL */
	const struct sampler_frame *user; /* innermost first */
	size_t n_user;
	const struct sampler_python_frame *python; /* innermost first */
	size_t n_python;
	enum sampler_python_end python_end;
	enum sampler_end end;
	/*
	 * Not 0: a sample of time off the processor, of so many nanoseconds: this sleep's, or the part of it since
	 * sampler_asleep(), times the number of sleeps that it stands for.
	 */
	int64_t off_ns;
	bool preempted; /* with @off_ns: it did not sleep, but lost the processor */
	/*
	 * Of samplers: the thread (of the initial PID namespace) that leaves its processor, 0: none; and that number of
	 * sleeps.
	 */
	uint32_t sleeper, weight;
	bool held;                     /* it waited for its process or a table */
	bool not_set;                  /* of samplers: its process was not set when it was taken */
	const struct sampler_raw *raw; /* with @keep_raw; else NULL */
};

enum sampler_event_kind {
	SAMPLER_NEW, /* a sample of a process that is not set: read its mappings and set it */
	SAMPLER_UNMAPPED, /* @addr of the process is in no mapping: read them again. At most one in 20 ms and process */
	SAMPLER_EXEC,   /* runs another program; the process is no longer set */
	SAMPLER_EXIT,   /* its last thread is gone, and so are its mappings */
	SAMPLER_WANTED, /* the table of @file is evicted or was never set, and a sample needs it */
};
struct sampler_event {
	enum sampler_event_kind kind;
	uint32_t pid;         /* SAMPLER_WANTED: one that needs it */
	uint64_t start_ticks; /* 0: unknown */
	uint64_t addr;
	uint32_t file;
	int64_t time_ns;
	/* SAMPLER_NEW, SAMPLER_UNMAPPED: */
	uint32_t parent; /* 0: not known */
	bool is_fork;    /* it runs the program of its parent, since it has run no other */
};

struct sampler_handler {
	void (*sample)(void *ctx, const struct sampler_sample *sample); /* valid during the call */
	void (*event)(void *ctx, const struct sampler_event *event);
	void *ctx;
};

/*
 * Wait up to @timeout_ms for an event or for an eighth of the ring to be full, then deliver events, all samples of the
 * ring, and those that waited long enough. Samples do not end the wait: call it at least every second. Also notices
 * processors that were added. -1: a lasting failure; close the sampler.
 */
int sampler_poll(struct sampler *s, int timeout_ms, const struct sampler_handler *h, struct err *err);
#define SAMPLER_MORE 1 /* its time was over, and samples are left for the next call */

/* At the end of a run: deliver the samples that wait, without their process or table if it has not come. */
void sampler_flush(struct sampler *s, const struct sampler_handler *h);

/* Likewise, after SAMPLER_MORE: drop the samples that are left, and their events, and count the samples as lost. */
void sampler_drop_rest(struct sampler *s);

/*
 * With @off_cpu: deliver the time until now of the threads that still sleep, which counts from now on again. So the time of
 * long sleeps is in the window in which it passed.
 */
void sampler_asleep(struct sampler *s, const struct sampler_handler *h);

/* A descriptor that becomes readable when sampler_poll() has an event to deliver; owned by the sampler. */
int sampler_fd(const struct sampler *s);

/*
 * A new file, without a table. Numbers are not used again while samples of an earlier file may be under way: they are
 * opaque, and sampler_file_index() is a dense index below SAMPLER_MAX_FILES for arrays. ERR_LIMIT: too many files.
 */
int sampler_file_new(struct sampler *s, uint32_t *ret_file, struct err *err);
static inline uint32_t sampler_file_index(uint32_t file)
{
	return file & 0xffff;
}
/*
 * Set the table of a file: bytes as unwind's builder makes them, copied; checked before use. A table that another file has
 * is not kept twice: the same library in many containers has one. An empty @table: there
 * will be none; its frames are walked by frame pointers. May evict tables, the least recently
 * sampled first. ERR_LIMIT: larger than @table_memory; then it counts as one that will never come.
 */
int sampler_file_table(struct sampler *s, uint32_t file, struct bytes table, struct err *err);
void sampler_file_drop(struct sampler *s, uint32_t file); /* no process may name it any more */

/* An executable mapping. */
struct sampler_mapping {
	uint64_t start, end; /* addresses in the process */
	uint64_t bias;       /* address in the file = address - bias, modulo 2^64 */
	uint32_t file;       /* or SAMPLER_NO_FILE: then @bias is 0 */
};

/* Whose mappings, and as of when. */
struct sampler_owner {
	uint32_t pid;
	uint64_t start_ticks; /* field 22 of /proc/PID/stat; 0: do not compare */
	int64_t read_ns;      /* CLOCK_MONOTONIC before the mappings were read; 0: now */
	bool has_ended; /* no sample of it will be taken any more: the mappings are for those that are under way */
	/* With @has_ended, CLOCK_MONOTONIC: it ran the program of the mappings from then, until then; 0: not known. */
	int64_t from_ns, until_ns;
	uint32_t
		copy_of; /* before @from_ns it ran the program of this process, which had started it; 0: not known */
};

/*
 * Set the executable mappings of a process, in place of earlier ones: sorted by @start, and not overlapping. Samples
 * of the process that wait are walked at the next sampler_poll(). By the start time a process
 * that got the same number later is not mistaken for this one. Samples of a program that it ran before
 * (SAMPLER_EXEC) are not walked with mappings of the present one. By the time of reading, an address that they lack may be in
 * a mapping that was made later, and waits for the next call. ERR_INVALID: not sorted,
 * or a file that does not exist. ERR_LIMIT: @mapping_memory is used up; the process counts as not set.
 */
int sampler_process_set(struct sampler *s, const struct sampler_owner *of,
			const struct sampler_mapping *mappings, size_t n_mappings, struct err *err);
void sampler_process_drop(struct sampler *s, uint32_t pid); /* also one that is not set */

/*
 * The process has an interpreter of CPython: its samples get the frames of Python from the next sampler_process_set() on,
 * until it is dropped; @layout is copied. Only SAMPLER_BPF reads them. 1: this sampler does not.
 */
struct bpf_python;
int sampler_process_python(struct sampler *s, uint32_t pid, const struct bpf_python *layout, struct err *err);

struct sampler_stats {
	uint64_t samples;              /* delivered */
	uint64_t lost;                 /* the ring was full, or the kernel dropped it */
	uint64_t lost_events;          /* the same of events: processes are then seen by their next sample */
	uint64_t ends[SAMPLER_N_ENDS]; /* of the delivered samples */
	uint64_t held,
		hold_full; /* raw samples that waited; those delivered early since @hold_memory was used up */
	uint64_t evicted;  /* tables */
	uint64_t bpf_runs, bpf_ns;    /* with @measure: samples and their time in BPF */
	uint64_t switches, switch_ns; /* with @measure and @off_cpu: the same of switches */
	uint64_t rows,
		row_misses; /* with @measure: frames that needed a row; those whose row was looked up in a table */
	uint64_t lost_sleeps; /* whose end was lost, or for which there was no room */
	size_t n_asleep;      /* whose stack was taken, and that have not ended */
	size_t n_files, n_processes, n_mappings;
	size_t n_tables, n_table_files;     /* n_table_files: files that have one of these tables */
	size_t table_bytes, table_reserved; /* of tables; of the memory taken for them */
	size_t mapping_reserved, ring_size, held_bytes;
};
void sampler_stats(struct sampler *s, struct sampler_stats *ret);
