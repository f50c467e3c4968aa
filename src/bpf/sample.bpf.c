/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sampler in the kernel: one perf event program that walks the stack of the interrupted process, and two raw
 * tracepoints that notice programs that start and processes that are gone. agent/sampler_bpf.c loads it and fills its maps.
 *
 * All state of a walk is in `scratch`, an element a processor; a perf event program does not interrupt itself (the kernel's
 * bpf_prog_active), also not in an NMI, so one is enough.
 *
 * Kernels from 5.10. Newer helpers are called only if the kernel's BTF has them, tested when the object is loaded.
 * No vmlinux.h: the few kernel structs are written by hand in maps.bpf.h, and relocated (CO-RE).
 */
#include "bpf/maps.bpf.h"
#include "bpf/walk.bpf.h"
#include "bpf/python.bpf.h"
#include "bpf/record.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __attribute__((always_inline)) uint64_t ticks_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime) / TICK_NS;
}

/* The registers of user mode when @task entered the kernel, from the top of its kernel stack. */
static __attribute__((always_inline)) int saved_registers(struct task_struct *task, struct pt_regs *to)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		return bpf_probe_read_kernel(to, sizeof(*to), regs);
	}
	return bpf_probe_read_kernel(to, sizeof(*to),
				     BPF_CORE_READ(task, stack) + KERNEL_STACK - sizeof(struct pt_regs));
}

static __attribute__((always_inline)) void set_registers(struct walk_memory *to, const struct pt_regs *r)
{
	to->ip = r->rip;
	to->regs[0] = r->rax;
	to->regs[1] = r->rdx;
	to->regs[2] = r->rcx;
	to->regs[3] = r->rbx;
	to->regs[4] = r->rsi;
	to->regs[5] = r->rdi;
	to->regs[6] = r->rbp;
	to->regs[7] = r->rsp;
	to->regs[8] = r->r8;
	to->regs[9] = r->r9;
	to->regs[10] = r->r10;
	to->regs[11] = r->r11;
	to->regs[12] = r->r12;
	to->regs[13] = r->r13;
	to->regs[14] = r->r14;
	to->regs[15] = r->r15;
}

/*
 * In execve(), when the memory of the old program is gone and the registers are not yet those of the new one: the stack to
 * which they point does not exist. The kernel sets end_code last, before the registers.
 */
static __attribute__((always_inline)) int is_between_programs(struct task_struct *task,
							      const struct pt_regs *r)
{
	uint64_t call = r->orig_rax;

	if (r->cs == USER_CODE_64 ? call != EXECVE_64 && call != EXECVEAT_64
				  : call != EXECVE_32 && call != EXECVEAT_32)
		return 0;
	return !BPF_CORE_READ(task, mm, end_code);
}

enum { NO_REGISTERS = -1, NO_STACK = -2 };

/* Fill the registers of user mode. Returns the code segment, NO_REGISTERS or NO_STACK. */
static __attribute__((always_inline)) long user_registers(struct bpf_perf_event_data *ctx, struct scratch *s,
							  struct task_struct *task)
{
	struct pt_regs regs;

	if (ctx->regs.cs & 3) {
		/* Field by field: the compiler would merge the loads through the context with those of the copy. */
		regs.r15 = ctx->regs.r15;
		regs.r14 = ctx->regs.r14;
		regs.r13 = ctx->regs.r13;
		regs.r12 = ctx->regs.r12;
		regs.rbp = ctx->regs.rbp;
		regs.rbx = ctx->regs.rbx;
		regs.r11 = ctx->regs.r11;
		regs.r10 = ctx->regs.r10;
		regs.r9 = ctx->regs.r9;
		regs.r8 = ctx->regs.r8;
		regs.rax = ctx->regs.rax;
		regs.rcx = ctx->regs.rcx;
		regs.rdx = ctx->regs.rdx;
		regs.rsi = ctx->regs.rsi;
		regs.rdi = ctx->regs.rdi;
		regs.rip = ctx->regs.rip;
		regs.cs = ctx->regs.cs;
		regs.rsp = ctx->regs.rsp;
	} else if (saved_registers(task, &regs) || !(regs.cs & 3)) {
		return NO_REGISTERS;
	} else if (is_between_programs(task, &regs)) {
		return NO_STACK;
	}
	set_registers(&s->memory, &regs);
	return (long)(regs.cs & 0xffff);
}

/* Threads of the kernel have no user stack. */
static __attribute__((always_inline)) int has_user_stack(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & (PF_KTHREAD | PF_IO_WORKER));
}

/* No frames of the user yet. */
static __attribute__((always_inline)) void start_frames(struct scratch *s)
{
	s->n_user = s->n_python = s->python_new = s->n_rows = s->n_row_misses = 0;
	s->sample.python_end = BPF_PYTHON_NONE;
	s->process.is_python = 0;
}

/* Walk the user stack from the registers of scratch @index, in code segment @cs. Returns how it ended. */
static __attribute__((always_inline)) uint32_t walk_user(struct scratch *s, uint32_t index, long cs)
{
	uint32_t pid = s->sample.pid;
	struct bpf_process *p;

	s->mapping.start = s->mapping.end = 0;
	s->memory.window_size = 0;
	s->frame.pc = s->memory.ip;
	s->frame.sp = s->memory.regs[7];
	s->frame.bp = s->memory.regs[6];
	s->frame.saved = s->frame.rbx_at = 0; /* the last walk's are of another stack */
	s->frame.flags = UNWIND_EXACT | UNWIND_TOP;
	p = bpf_map_lookup_elem(&processes, &pid);
	if (!p || (p->start_ticks && p->start_ticks != s->sample.start_ticks))
		return UNWIND_NO_PROCESS;
	s->process = *p;
	for (uint32_t i = 0; i <= BPF_MAX_USER; i++) {
		int how = walk_step(index);

		if (how)
			return how - 1;
		if (cs != USER_CODE_64) /* 32-bit code: the rows of such files are of another machine */
			return UNWIND_NO_ROW;
	}
	return UNWIND_TOO_DEEP;
}

/* The process and thread in the loader's PID namespace. Returns 0, or -1: it is not in it, or not to be sampled. */
static __attribute__((always_inline)) int fill_ids(struct bpf_sample *sample)
{
	uint64_t id = bpf_get_current_pid_tgid();

	if (!(uint32_t)id)
		return -1; /* idle */
	if (config.pid_ns_ino) {
		struct bpf_pidns_info ns = { 0 };

		if (bpf_get_ns_current_pid_tgid(config.pid_ns_dev, config.pid_ns_ino, &ns, sizeof(ns)))
			return -1;
		id = (uint64_t)ns.tgid << 32 | ns.pid;
	}
	sample->pid = id >> 32;
	sample->tid = (uint32_t)id;
	return 0;
}

/* A process that is not to be sampled. */
static __attribute__((always_inline)) int is_filtered(uint32_t pid)
{
	return config.filter_pids ? !bpf_map_lookup_elem(&chosen, &pid) : pid == config.own_pid;
}

/* The fields that stand for the current thread, whose IDs are set. */
static __attribute__((always_inline)) void fill_sample(struct bpf_sample *sample, struct task_struct *task)
{
	sample->record = BPF_RECORD_SAMPLE;
	sample->flags = 0;
	sample->task = 0;
	sample->shift = 0;
	sample->start_ticks = ticks_of(task);
	sample->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(sample->comm, sizeof(sample->comm));
}

SEC("perf_event")
int take_sample(struct bpf_perf_event_data *ctx)
{
	uint32_t cpu = bpf_get_smp_processor_id(), zero = 0, how = BPF_END_KERNEL_ONLY;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	struct bpf_counters *c = bpf_map_lookup_elem(&counters, &zero);
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!s || !c || fill_ids(&s->sample) || is_filtered(s->sample.pid))
		return 0;
	s->sample.time_ns = bpf_ktime_get_ns();
	s->sample.cpu = cpu;
	start_frames(s);
	fill_sample(&s->sample, task);
	if (has_user_stack(task)) {
		long cs = user_registers(ctx, s, task);

		if (cs >= 0)
			how = walk_user(s, cpu, cs);
		else if (cs == NO_REGISTERS)
			how = BPF_END_NO_REGISTERS;
		if (s->process.is_python)
			walk_python(s, task, cpu);
	}
	note_end(s, task, how);
	send_sample(ctx, s, c, how, !(ctx->regs.cs & 3));
	if (config.measure_time) {
		c->runs++;
		c->rows += s->n_rows;
		c->row_misses += s->n_row_misses;
		c->ns += bpf_ktime_get_ns() - s->sample.time_ns;
	}
	return 0;
}

/* Forget a process that was set, and report it. Processes that were never sampled pass in silence. */
static __attribute__((always_inline)) void forget_process(struct task_struct *task, uint32_t pid,
							  uint32_t record)
{
	struct bpf_event e = { .record = record, .pid = pid, .file = BPF_NO_FILE };
	uint32_t i = pid % BPF_RECENT;
	struct bpf_recent *r = bpf_map_lookup_elem(&recent, &i);

	if (bpf_map_delete_elem(&processes, &pid) && (!r || r->pid != pid))
		return;
	if (r && r->pid == pid)
		r->event_ns = r->raw_ns = 0;
	e.start_ticks = ticks_of(task);
	e.time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count_lost_event();
}

SEC("raw_tracepoint/sched_process_exec")
int see_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_sample ids = { 0 };

	if (!fill_ids(&ids))
		forget_process((struct task_struct *)ctx->args[0], ids.pid, BPF_RECORD_EXEC);
	return 0;
}

/*
 * Not sched_process_exit: exiting takes time, in which the process is sampled. Not loaded in a PID namespace: the process
 * has no number any more.
 */
SEC("raw_tracepoint/sched_process_free")
int see_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	uint32_t pid = BPF_CORE_READ(task, tgid);

	if (BPF_CORE_READ(task, pid) == (int)pid)
		forget_process(task, pid, BPF_RECORD_EXIT);
	return 0;
}

#include "bpf/off_cpu.h"
