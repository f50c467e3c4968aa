/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_event_open(2), "MMAP layout". The kernel writes these bytes; they are checked as if a stranger did.
 */
#include "agent/sampler_records.h"

#include <linux/perf_event.h>

/* The place of each register of DWARF's order in asm/perf_regs.h's order. */
static const uint8_t dwarf_to_perf[16] = { 0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23 };
#define PERF_IP 8

#define SAMPLE_TYPE                                                                     \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER | \
	 PERF_SAMPLE_STACK_USER)

uint64_t sampler_record_sample_type(unsigned flags)
{
	uint64_t type = SAMPLE_TYPE;

	if (flags & RECORD_KERNEL)
		type |= PERF_SAMPLE_CALLCHAIN;
	if (flags & RECORD_CGROUP)
		type |= UINT64_C(1) << 21; /* PERF_SAMPLE_CGROUP: newer than the oldest headers */
	return type;
}

uint64_t sampler_record_registers(void)
{
	uint64_t mask = UINT64_C(1) << PERF_IP;

	for (size_t i = 0; i < ARRAY_SIZE(dwarf_to_perf); i++)
		mask |= UINT64_C(1) << dwarf_to_perf[i];
	return mask;
}

static void read_kernel_chain(struct cursor *c, struct sampler_record *r)
{
	uint64_t n = cursor_u64(c);

	if (n > cursor_left(c) / 8) {
		cursor_skip(c, UINT64_MAX);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t addr = cursor_u64(c);

		if (addr >=
		    (uint64_t)-4095) /* PERF_CONTEXT_*: whose frames follow; only the kernel's were asked for */
			continue;
		if (r->n_kernel < SAMPLER_MAX_KERNEL)
			r->kernel[r->n_kernel++] = addr;
		else
			r->kernel_cut = true;
	}
}

static void read_registers(struct cursor *c, struct sampler_record *r)
{
	uint64_t abi = cursor_u64(c), regs[64] = { 0 };
	uint64_t mask = sampler_record_registers();

	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	for (unsigned i = 0; i < 64; i++)
		if (mask >> i & 1)
			regs[i] = cursor_u64(c);
	r->mode = abi == PERF_SAMPLE_REGS_ABI_64 ? RECORD_USER_64 : RECORD_USER_32;
	r->raw.ip = regs[PERF_IP];
	for (size_t i = 0; i < ARRAY_SIZE(dwarf_to_perf); i++)
		r->raw.regs[i] = regs[dwarf_to_perf[i]];
}

static void read_stack_copy(struct cursor *c, struct sampler_record *r)
{
	uint64_t size = cursor_u64(c), used;

	if (!size)
		return;
	r->raw.stack = cursor_bytes(c, size);
	used = cursor_u64(c); /* of them: the rest was not readable */
	r->raw.stack.size = MIN(used, (uint64_t)r->raw.stack.size);
}

/* Fields in the order of the manual page. */
static void read_sample_record(struct cursor *c, unsigned flags, struct sampler_record *r)
{
	r->kind = RECORD_SAMPLE;
	r->pid = cursor_u32(c);
	r->tid = cursor_u32(c);
	r->time_ns = (int64_t)cursor_u64(c);
	r->cpu = cursor_u32(c);
	cursor_skip(c, 4);
	if (flags & RECORD_KERNEL)
		read_kernel_chain(c, r);
	read_registers(c, r);
	read_stack_copy(c, r);
	if (flags & RECORD_CGROUP)
		r->cgroup = cursor_u64(c);
}

static void read_task(struct cursor *c, struct sampler_record *r)
{
	r->pid = cursor_u32(c);
	cursor_skip(c, 4);
	r->tid = cursor_u32(c);
	r->parent_tid = cursor_u32(c);
	r->time_ns = (int64_t)cursor_u64(c);
}

int sampler_record_read(struct bytes b, unsigned flags, struct sampler_record *ret, struct err *err)
{
	struct cursor c = cursor_of(b);
	uint32_t type = cursor_u32(&c);
	uint16_t misc = cursor_u16(&c);

	cursor_skip(&c, 2);
	ret->n_kernel = 0;
	ret->kernel_cut = false;
	ret->mode = RECORD_NO_USER;
	ret->pid = ret->tid = ret->cpu = ret->parent_tid = 0;
	ret->time_ns = 0;
	ret->cgroup = ret->lost = 0;
	ret->comm = (struct str){ 0 };
	ret->raw = (struct sampler_raw){ 0 };
	switch (type) {
	case PERF_RECORD_SAMPLE:
		read_sample_record(&c, flags, ret);
		break;
	case PERF_RECORD_COMM:
		ret->kind = misc & PERF_RECORD_MISC_COMM_EXEC ? RECORD_EXEC : RECORD_COMM;
		ret->pid = cursor_u32(&c);
		ret->tid = cursor_u32(&c);
		ret->comm = cursor_cstr(&c);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		ret->kind = type == PERF_RECORD_FORK ? RECORD_FORK : RECORD_EXIT;
		read_task(&c, ret);
		break;
	case PERF_RECORD_LOST:
		ret->kind = RECORD_LOST;
		cursor_skip(&c, 8);
		ret->lost = cursor_u64(&c);
		break;
	default:
		return RECORD_OTHER;
	}
	return cursor_ok(&c) ? 0 : cursor_err(&c, "a record of perf events", err);
}

size_t sampler_ring_next(struct bytes ring, uint64_t head, uint64_t tail, uint8_t *copy, struct bytes *ret)
{
	size_t mask = ring.size - 1, at = tail & mask, first;
	uint64_t waiting = head - tail;
	uint16_t size;

	/* Records are aligned to 8 bytes, so a header does not wrap around. */
	if (waiting < sizeof(struct perf_event_header) || waiting > ring.size || at % 8)
		return 0;
	memcpy(&size, ring.p + at + offsetof(struct perf_event_header, size), sizeof(size));
	if (size < sizeof(struct perf_event_header) || size > waiting)
		return 0;
	first = MIN((size_t)size, ring.size - at);
	if (first == size) {
		*ret = bytes_of(ring.p + at, size);
		return size;
	}
	memcpy(copy, ring.p + at, first);
	memcpy(copy + first, ring.p, size - first);
	*ret = bytes_of(copy, size);
	return size;
}
