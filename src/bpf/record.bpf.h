/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Records, a part of sample.bpf.c: events of processes and addresses that user space did not set, and samples with the kernel's
 * frames and, where the walk could not be done yet, registers and a copy of the stack.
 */
#pragma once

#include "bpf/walk.bpf.h"

static __attribute__((always_inline)) void count_lost_event(void)
{
	uint32_t zero = 0;
	struct bpf_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (c)
		c->lost_events++;
}

/* The entry of @pid, taken over from another process if need be. Races between processors lose a limit, no more. */
static __attribute__((always_inline)) struct bpf_recent *recent_of(uint32_t pid)
{
	uint32_t i = pid % BPF_RECENT;
	struct bpf_recent *r = bpf_map_lookup_elem(&recent, &i);

	if (r && r->pid != pid) {
		r->pid = pid;
		r->n_raw = 0;
		r->event_ns = r->raw_ns = 0;
	}
	return r;
}

/* Tell user space of a process or an address. */
static __attribute__((always_inline)) void note_unknown(struct scratch *s, uint32_t how)
{
	struct task_struct *leader = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(),
						   group_leader);
	struct bpf_recent *r = recent_of(s->sample.pid);
	struct bpf_event e = { .record = how == UNWIND_NO_PROCESS ? BPF_RECORD_NEW : BPF_RECORD_UNMAPPED,
			       .pid = s->sample.pid,
			       .start_ticks = s->sample.start_ticks,
			       .addr = unwind_pc(&s->frame),
			       .file = BPF_NO_FILE,
			       .time_ns = s->sample.time_ns };

	if (r) {
		if (e.time_ns - r->event_ns < EVENT_NS)
			return;
		r->event_ns = e.time_ns;
	}
	/* In a PID namespace the parent has another number. */
	if (!config.pid_ns_ino)
		e.parent = BPF_CORE_READ(leader, real_parent, tgid);
	e.is_fork = (BPF_CORE_READ(leader, flags) & PF_FORKNOEXEC) != 0;
	/* Forced: without it an event that wakes nobody (exec, end) and is not read yet would keep this one from it. */
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_FORCE_WAKEUP))
		count_lost_event();
}

/*
 * Report a process or an address that user space did not set. A process without a stack, as it ends or is about to run another
 * program, has labels all the same.
 */
static __attribute__((always_inline)) void note_end(struct scratch *s, struct task_struct *task, uint32_t how)
{
	uint32_t pid = s->sample.pid;

	if (how == UNWIND_NO_PROCESS || how == UNWIND_NO_MAPPING)
		note_unknown(s, how);
	else if (how == BPF_END_KERNEL_ONLY && !(BPF_CORE_READ(task, flags) & PF_KTHREAD) &&
		 !bpf_map_lookup_elem(&processes, &pid))
		note_unknown(s, UNWIND_NO_PROCESS);
}

/*
 * How many pages of stack a sample that ended so is to have, plus 1; 0: nothing raw. Fewer while much waits in the ring, so
 * that a reader that is slow at its start loses none.
 */
static __attribute__((always_inline)) uint32_t raw_pages(struct scratch *s, uint32_t how, uint64_t waiting)
{
	uint32_t most = BPF_MAX_PAGES;
	struct bpf_recent *r;

	if (config.always_raw)
		return 1 + config.stack_pages;
	if (how != UNWIND_NO_PROCESS && how != UNWIND_NO_MAPPING && how != UNWIND_NO_TABLE &&
	    how != BPF_END_EVICTED)
		return 0;
	if (waiting > 6 * config.wake_at)
		return 0;
	r = recent_of(s->sample.pid);
	if (!r)
		return 0;
	if (s->sample.time_ns - r->raw_ns >= SECOND_NS) {
		r->raw_ns = s->sample.time_ns;
		r->n_raw = 0;
	}
	if (r->n_raw++ >= (waiting > config.wake_at ? RAW_PER_SECOND : 4 * RAW_PER_SECOND))
		return 0;
	/* Interrupts are disabled during a switch. */
	if (s->sample.task || waiting > 4 * config.wake_at)
		most = 3;
	else if (waiting > 2 * config.wake_at)
		most = 8;
	return 1 + (config.stack_pages < most ? config.stack_pages : most);
}

#define USER_BYTES   ((BPF_MAX_USER + 2 * BPF_MAX_PYTHON) * sizeof(struct bpf_frame))
#define KERNEL_BYTES (BPF_MAX_KERNEL * 8)

/*
 * The offset in scratch.user up to which the record is filled. After it, add the kernel's frames. A thread in user mode has
 * none, and the helper would take 2 us, cold, to find that.
 */
static __attribute__((always_inline)) uint64_t add_kernel(void *ctx, struct scratch *s, uint64_t at,
							  int in_kernel)
{
	long size;

	OPAQUE(at);
	if (!config.with_kernel || !in_kernel || at > USER_BYTES)
		return at;
	size = bpf_get_stack(ctx, (uint8_t *)s->user + at, KERNEL_BYTES, 0);
	if (size <= 0 || size > KERNEL_BYTES)
		return at;
	s->sample.n_kernel = (uint32_t)size / 8;
	if (size == KERNEL_BYTES)
		s->sample.flags |= BPF_SAMPLE_KERNEL_CUT;
	return at + (uint64_t)size;
}

static __attribute__((always_inline)) uint64_t add_raw(struct scratch *s, uint64_t at, uint32_t pages)
{
	uint64_t size = 0;
	struct bpf_raw *raw;

	OPAQUE(at);
	if (at > USER_BYTES + KERNEL_BYTES)
		return at;
	raw = (void *)((uint8_t *)s->user + at);
	raw->ip = s->memory.ip;
	__builtin_memcpy(raw->regs, s->memory.regs, sizeof(raw->regs));
	at += sizeof(*raw);
	/* Page by page, to the end of each: the pages after the stack may not exist. */
	for (uint32_t i = 0; i < BPF_MAX_PAGES; i++) {
		uint64_t from = s->memory.regs[7] + size, to = at + size;
		uint64_t n = BPF_STACK_PAGE - (from & (BPF_STACK_PAGE - 1));

		OPAQUE(to);
		OPAQUE(n);
		if (i >= pages || to > config.rest_size + sizeof(s->user) - BPF_STACK_PAGE)
			break;
		if (n > BPF_STACK_PAGE || bpf_probe_read_user((uint8_t *)s->user + to, n, (const void *)from))
			break;
		size += n;
	}
	raw->stack_size = size;
	raw->reserved = 0;
	s->sample.flags |= BPF_SAMPLE_RAW;
	return at + size;
}

/* Send the sample, whose record, flags and identity are filled in. Returns 0, or not 0: it is lost. */
static __attribute__((always_inline)) long send_sample(void *ctx, struct scratch *s, struct bpf_counters *c,
						       uint32_t how, int in_kernel)
{
	uint64_t waiting = bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA);
	uint64_t at = (s->n_user + 2 * s->n_python) * sizeof(struct bpf_frame);
	uint32_t pages;

	s->sample.n_user = s->n_user;
	s->sample.n_kernel = 0;
	s->sample.n_python = s->n_python;
	s->sample.end = how;
	at = add_kernel(ctx, s, at, in_kernel);
	pages = raw_pages(s, how, waiting);
	if (pages)
		at = add_raw(s, at, pages - 1);
	at += sizeof(s->sample);
	s->sample.size = at;
	OPAQUE(at);
	if (at > sizeof(s->sample) + sizeof(s->user) + config.rest_size)
		return -1;
	if (bpf_ringbuf_output(&samples, &s->sample, at,
			       waiting > config.wake_at || s->python_new ? BPF_RB_FORCE_WAKEUP
									 : BPF_RB_NO_WAKEUP)) {
		c->lost++;
		return -1;
	}
	return 0;
}
