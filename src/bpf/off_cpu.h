/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Time off the processor, a part of sample.bpf.c: the stack of a thread is walked when it leaves its processor, and its
 * time is known when it gets one again.
 *
 * At the switch the sleep to come is not known, so it cannot decide how likely a walk is. The place can: a thread that
 * leaves the processor often at the same address and stack pointer sleeps shortly there. So each place is walked about
 * off_site_rate times a second, at random, and each processor off_rate times. A walk at probability 2^-shift stands for
 * 2^shift sleeps: sums are right whatever the probability was, and a storm of switches costs a random number each.
 *
 * The tracepoint runs with interrupts disabled and the run queue locked. It has a scratch of its own, since a sample that is
 * taken by an NMI may interrupt it.
 */
#pragma once

#define TASK_DEAD   0x80
#define PF_EXITING  0x00000004
#define HASH_FACTOR 0x9e3779b97f4a7c15ull

/* Each has a limit of its own, so that a storm of one does not hide the others. */
enum { SWITCH_SLEEPS, SWITCH_SLEEPS_LONG, SWITCH_PREEMPTED, SWITCH_CLASSES };
#define LONG_NS 50000000ull /* a thread that was not at the place for so long most likely slept there long */

struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

/* Sizes of 1 but with --off-cpu. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPF_MAX_SLEEPERS);
	__type(key, uint32_t);
	__type(value, uint64_t); /* when it left */
} sleepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPF_PLACES);
	__type(key, uint32_t);
	__type(value, struct bpf_limit);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SWITCH_CLASSES);
	__type(key, uint32_t);
	__type(value, struct bpf_limit);
} switch_limits SEC(".maps");

/* Count an event. Returns 0, or 1: it is taken, one of 2^*ret_shift. */
static __attribute__((always_inline)) int take_one(struct bpf_limit *l, uint64_t now, uint32_t rate,
						   uint32_t *ret_shift)
{
	uint64_t passed = now - l->since_ns;
	uint32_t shift = l->shift;

	if (passed >= SECOND_NS) {
		uint64_t allowed = passed / SECOND_NS * rate, seen = l->seen;

		shift = 0;
		for (uint32_t i = 0; i < BPF_MAX_SHIFT; i++)
			if (seen >> i > allowed)
				shift = i + 1;
		l->since_ns = now;
		l->seen = l->taken = 0;
		l->shift = shift;
	}
	l->seen++;
	*ret_shift = shift & 31;
	if (shift && bpf_get_prandom_u32() & ((1u << (shift & 31)) - 1))
		return 0;
	/* More than in the second before: a quarter of them from here on. */
	if (++l->taken > rate && shift + 2 <= BPF_MAX_SHIFT) {
		l->taken = rate / 2;
		l->shift = shift + 2;
	}
	return 1;
}

/* Whether the switch at @place is to be walked; its weight in *ret_shift. */
static __attribute__((always_inline)) int take_switch(uint64_t place, uint64_t now, uint32_t preempted,
						      uint32_t *ret_shift)
{
	uint32_t i = (uint32_t)(place * HASH_FACTOR >> 40) % BPF_PLACES, shift = 0, more = 0;
	uint32_t class = SWITCH_PREEMPTED;
	struct bpf_limit *l;

	/* The place of a preempted thread is any instruction. */
	if (!preempted) {
		l = bpf_map_lookup_elem(&places, &i);
		if (!l)
			return 0;
		if (l->place != place) {
			l->place = place;
			l->since_ns = now;
			l->last_ns = 0;
			l->seen = l->taken = l->shift = 0;
		}
		class = l->last_ns && now - l->last_ns >= LONG_NS ? SWITCH_SLEEPS_LONG : SWITCH_SLEEPS;
		l->last_ns = now;
		if (!take_one(l, now, config.off_site_rate, &shift))
			return 0;
	}
	l = bpf_map_lookup_elem(&switch_limits, &class);
	if (!l || !take_one(l, now, config.off_rate, &more))
		return 0;
	*ret_shift = shift + more;
	return 1;
}

/* A number for the thread's address and stack pointer in user mode, in two loads where the kernel has the helper. */
static __attribute__((always_inline)) uint64_t switch_place_of(struct task_struct *task)
{
	uint64_t ip, sp;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		const struct pt_regs *r = (void *)bpf_task_pt_regs(task);

		ip = r->rip;
		sp = r->rsp;
	} else {
		struct pt_regs r;

		if (saved_registers(task, &r))
			return 0;
		ip = r.rip;
		sp = r.rsp;
	}
	return (ip * HASH_FACTOR ^ sp) * HASH_FACTOR ^ (uint32_t)task->pid;
}

static __attribute__((always_inline)) uint32_t state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (uint32_t)BPF_CORE_READ((struct task_struct___before_5_14 *)task, state);
}

static __attribute__((always_inline)) void leave_processor(void *ctx, struct task_struct *task,
							   uint32_t preempted, uint64_t now)
{
	uint32_t cpu = bpf_get_smp_processor_id(), index = cpu + config.off_scratch, zero = 0, how, shift = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &index);
	struct bpf_counters *c = bpf_map_lookup_elem(&counters, &zero);
	uint32_t state = state_of(task), id = task->pid;
	struct pt_regs regs;

	if (!s || !c || !task->mm || state & TASK_DEAD ||
	    task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING))
		return;
	if (fill_ids(&s->sample) || is_filtered(s->sample.pid))
		return;
	preempted |= state == 0;
	if (!take_switch(preempted ? 0 : switch_place_of(task), now, preempted, &shift))
		return;
	if (saved_registers(task, &regs) || !(regs.cs & 3))
		return;
	set_registers(&s->memory, &regs);
	s->sample.time_ns = now;
	s->sample.cpu = cpu;
	fill_sample(&s->sample, task);
	s->sample.task = id;
	s->sample.shift = shift;
	s->sample.flags = preempted ? BPF_SAMPLE_PREEMPTED : 0;
	start_frames(s);
	if (is_between_programs(task, &regs))
		how = BPF_END_KERNEL_ONLY;
	else
		how = walk_user(s, index, (long)(regs.cs & 0xffff));
	if (s->process.is_python)
		walk_python(s, task, index);
	note_end(s, task, how);
	/* Without its end a sleep has no time: one for which there is no room is not sent. */
	if (bpf_map_update_elem(&sleepers, &id, &now, BPF_ANY)) {
		c->lost++;
		return;
	}
	if (send_sample(ctx, s, c, how, 1))
		bpf_map_delete_elem(&sleepers, &id);
}

static __attribute__((always_inline)) void get_processor(uint32_t id, uint64_t now)
{
	uint64_t *out_ns = bpf_map_lookup_elem(&sleepers, &id);
	struct bpf_wake w = { .record = BPF_RECORD_WAKE, .task = id, .in_ns = now };

	if (!out_ns)
		return;
	w.out_ns = *out_ns;
	bpf_map_delete_elem(&sleepers, &id);
	/* If it is lost, user space finds the thread gone from the map. */
	bpf_ringbuf_output(&samples, &w, sizeof(w), BPF_RB_NO_WAKEUP);
}

/* Arguments: whether it was preempted in the kernel, the thread that leaves, the one that runs next. */
SEC("tp_btf/sched_switch")
int see_switch(uint64_t *ctx)
{
	struct task_struct *task = (void *)ctx[1], *next = (void *)ctx[2];
	uint64_t now = bpf_ktime_get_ns();
	uint32_t zero = 0, id = next->pid;
	struct bpf_counters *c;

	if (id)
		get_processor(id, now);
	if (task->pid)
		leave_processor(ctx, task, ctx[0] ? 1 : 0, now);
	c = config.measure_time ? bpf_map_lookup_elem(&counters, &zero) : NULL;
	if (c) {
		c->switches++;
		c->switch_ns += bpf_ktime_get_ns() - now;
	}
	return 0;
}
