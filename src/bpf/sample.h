/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Layouts that sample.bpf.c and its loader (agent/sampler_bpf.c) share: values of maps, records of the rings.
 */
#pragma once

#include "bpf/python.h"
#include "unwind/types.h"

#define BPF_MAX_USER     512u
#define BPF_MAX_KERNEL   127u
#define BPF_STACK_PAGE   4096u
#define BPF_MAX_PAGES    16u    /* of a copied stack */
#define BPF_MAX_FILES    16384u /* as SAMPLER_MAX_FILES */
#define BPF_MAX_PROCS    16384u
#define BPF_MAX_SEGMENTS 4096u
#define BPF_MAX_POOLS    1024u /* fits struct bpf_process */
#define BPF_RECENT       4096u
#define BPF_NO_FILE      0xffffffffu
/* A mapping search takes at most this many steps: of 2^18 mappings. */
#define BPF_MAPPING_STEPS 19

/* Of `.rodata.config`. */
struct bpf_config {
	uint32_t own_pid;
	uint32_t filter_pids; /* only the processes in `chosen` */
	uint32_t with_kernel; /* kernel frames */
	uint32_t always_raw;  /* every sample has registers and stack */
	uint32_t measure_time;
	uint32_t stack_pages; /* of a raw sample, at most BPF_MAX_PAGES */
	uint64_t rest_size;   /* BPF_REST(stack_pages) */
	uint64_t
		wake_at; /* bytes in the ring from which on the reader is woken; raw samples up to 6 times of it */
	uint64_t pid_ns_dev, pid_ns_ino; /* 0: the initial namespace */
	/* Of time off the processor. */
	uint32_t off_scratch;             /* the scratch of processor 0 for it; those of others follow */
	uint32_t off_rate, off_site_rate; /* walks a second: of a processor, of a place of a thread */
};
/* Bytes of a sample's record after room for the frames of the process. */
#define BPF_REST(pages) (BPF_MAX_KERNEL * 8 + sizeof(struct bpf_raw) + (pages)*BPF_STACK_PAGE)
/* The size of the scratch of a processor with that many bytes of rest: struct scratch without all of its rest. */
#define BPF_SCRATCH(scratch_size, pages) ((scratch_size) - (BPF_MAX_PAGES - (pages)) * BPF_STACK_PAGE)

/* An executable mapping, in an inner array of `pools`, or in the cache of a processor. */
struct bpf_mapping {
	uint64_t start, end, bias;
	uint32_t file;
	uint32_t serial; /* in the cache: of struct bpf_process */
};

/* Of `processes`: mappings [first, first + n) of pool @pool, sorted. */
struct bpf_process {
	uint64_t start_ticks; /* 0: not compared */
	uint16_t pool;
	uint16_t is_python; /* it is in `pythons` */
	uint32_t first, n;
	uint32_t serial; /* of these mappings, not 0: no others have it */
};

enum bpf_file_state { BPF_FILE_NONE, BPF_FILE_SET, BPF_FILE_NEVER, BPF_FILE_EVICTED };

/*
 * A row in the cache of rows is used without a look at its file for the rest of a period, 4.3 s: so a change of the table or
 * of its state is seen by then, and used_ns is at most so old.
 */
#define BPF_ROW_PERIOD(time_ns) ((uint32_t)((uint64_t)(time_ns) >> 32))

/* Of `files`: its table is n_chunks elements of an inner array of `segments`. */
struct bpf_file {
	uint32_t file; /* number with generation */
	uint32_t state;
	uint32_t segment, first, n_chunks;
	uint32_t set_period;         /* when state or table last changed: BPF_ROW_PERIOD() */
	uint64_t used_ns, wanted_ns; /* when BPF last used it; when it last asked for it */
};

/* Of `recent`, by pid modulo its size: limits events and raw samples of processes that are not set. */
struct bpf_recent {
	uint32_t pid;
	uint32_t n_raw;    /* since raw_ns */
	uint64_t event_ns; /* of the last event */
	uint64_t raw_ns;
};

struct bpf_counters {
	uint64_t lost, lost_events;
	uint64_t runs, ns;
	uint64_t switches, switch_ns; /* with measure_time */
	uint64_t rows, row_misses; /* with measure_time: frames that needed a row; those not in the cache */
};

/* Of `places` and `switch_limits`: takes some of many events at random, so that they are about so many a second. */
struct bpf_limit {
	uint64_t since_ns;       /* the start of the second */
	uint64_t place, last_ns; /* of which thread and address; of the last event */
	uint32_t seen, taken;
	uint32_t shift; /* one of 2^shift is taken */
	uint32_t reserved;
};
#define BPF_PLACES       8192u
#define BPF_MAX_SLEEPERS 16384u /* threads whose stack was taken when they went to sleep */
#define BPF_MAX_SHIFT    20u

enum bpf_record {
	BPF_RECORD_SAMPLE = 1,
	BPF_RECORD_NEW,
	BPF_RECORD_UNMAPPED,
	BPF_RECORD_EXEC,
	BPF_RECORD_EXIT,
	BPF_RECORD_WANTED,
	BPF_RECORD_WAKE
};

struct bpf_frame {
	uint64_t addr;
	uint32_t file;
	uint32_t place; /* bit 0: exact; above it: where the stack pointer is, BPF_PLACE */
};

enum {
	BPF_SAMPLE_KERNEL_CUT = 1,
	BPF_SAMPLE_RAW = 2,
	BPF_SAMPLE_PREEMPTED = 4, /* with @task: it did not sleep, but lost the processor */
};

/*
 * A record of `samples`: then n_user frames, n_python struct bpf_python_frame, n_kernel addresses, and with BPF_SAMPLE_RAW
 * struct bpf_raw.
 */
struct bpf_sample {
	uint32_t record, size; /* size of all of it */
	uint32_t pid, tid, cpu;
	uint16_t n_user, n_kernel, n_python, python_end;
	uint32_t end; /* enum unwind_outcome, or one of those below */
	uint32_t flags;
	uint64_t time_ns, start_ticks, cgroup;
	uint8_t comm[16];
	/* Not 0: the thread (of the initial PID namespace) that leaves its processor. It stands for 2^shift of such. */
	uint32_t task, shift;
};

/* A record of `samples`, too: the thread of an earlier one with @task runs again. */
struct bpf_wake {
	uint32_t record, task;
	uint64_t out_ns, in_ns; /* out_ns: time_ns of that sample */
};
/* Ends that unwind/step.h does not have. */
enum { BPF_END_KERNEL_ONLY = 64, BPF_END_EVICTED, BPF_END_NO_REGISTERS };

struct bpf_raw {
	uint64_t ip, regs[16];
	uint32_t stack_size, reserved; /* bytes at regs[7]; they follow */
};

/* A record of `events`. */
struct bpf_event {
	uint32_t record, pid;
	uint64_t start_ticks, addr, time_ns;
	uint32_t file;
	uint32_t parent; /* of BPF_RECORD_NEW and BPF_RECORD_UNMAPPED; 0: not known */
	uint32_t is_fork, reserved;
};
