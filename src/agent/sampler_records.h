/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of perf events, as the kernel puts them into a ring: one record of bytes -> its fields. Pure.
 */
#pragma once

#include "agent/sampler.h"

/* Which fields a sample has; more than these are never asked for. */
enum {
	RECORD_KERNEL = 1 << 0, /* the stack of the kernel */
	RECORD_CGROUP = 1 << 1,
};

/* PERF_SAMPLE_* and the registers (by asm/perf_regs.h) that go with these flags. */
uint64_t sampler_record_sample_type(unsigned flags);
uint64_t sampler_record_registers(void);

enum sampler_record_kind { RECORD_SAMPLE, RECORD_EXEC, RECORD_COMM, RECORD_FORK, RECORD_EXIT, RECORD_LOST };
enum sampler_record_mode {
	RECORD_NO_USER, /* a thread of the kernel */
	RECORD_USER_32,
	RECORD_USER_64,
};

struct sampler_record {
	enum sampler_record_kind kind;
	uint32_t pid, tid, cpu;
	uint32_t parent_tid; /* RECORD_FORK */
	int64_t time_ns;
	uint64_t cgroup, lost;
	struct str comm; /* RECORD_COMM, RECORD_EXEC; borrowed from the bytes */
	uint64_t kernel[SAMPLER_MAX_KERNEL];
	size_t n_kernel;
	bool kernel_cut;
	enum sampler_record_mode mode;
	struct sampler_raw raw; /* its stack is borrowed */
};

#define RECORD_OTHER 1 /* of a kind that is not used */
/*
 * Read the record @b, with its header, which is as long as the header says. ERR_INVALID: its parts do not fit into it.
 */
int sampler_record_read(struct bytes b, unsigned flags, struct sampler_record *ret, struct err *err);

/*
 * The next record of a ring: bytes [tail, head) of @ring, whose size is a power of two. Returns its length, or 0: there is none
 * that is complete. *ret is in the ring, or in @copy, 64 KiB, if it wraps around.
 */
size_t sampler_ring_next(struct bytes ring, uint64_t head, uint64_t tail, uint8_t *copy, struct bytes *ret);
#define RECORD_MAX 65536
