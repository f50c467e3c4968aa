/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sampler in the kernel: one perf event program that walks the stack of the interrupted process, and two raw
 * tracepoints that notice programs that start and processes that are gone. agent/sampler_bpf.c loads it and fills its maps.
 *
 * Shape, for the verifier: a step of the walk is a global function of numbers. It is verified once with unknown
 * arguments, so that the loop of 512 steps costs some instructions each, not 512 copies of the step with every path through
 * two binary searches. All state of a walk is in `scratch`, an element a processor; a perf event program does not
 * interrupt itself (the kernel's bpf_prog_active), also not in an NMI, so one is enough.
 *
 * Kernels from 5.10. Newer helpers are called only if the kernel's BTF has them, tested when the object is loaded.
 * No vmlinux.h: the few kernel structs are written by hand below, and relocated (CO-RE).
 */
#include "bpf/sample.h"

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* ---- the kernel's structs, as far as they are read ---- */

struct mm_struct;
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
struct task_struct {
	int pid, tgid;
	unsigned int flags;
	struct mm_struct *mm;
	void *stack;
	struct task_struct *group_leader;
	uint64_t start_boottime;
	struct thread_struct thread;
	unsigned int __state; /* since Linux 5.14 */
} __attribute__((preserve_access_index));

#define PF_IO_WORKER   0x00000010
#define PF_KTHREAD     0x00200000
#define KERNEL_STACK   16384
#define USER_CODE_64   0x33
#define TICK_NS        10000000
#define SECOND_NS      1000000000ull
#define EVENT_NS       20000000ull
#define RAW_PER_SECOND 128

/* Set by the loader, and constants for the verifier: code that they switch off is removed. */
const volatile struct bpf_config config SEC(".rodata.config");

/* ---- maps ---- */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPF_MAX_PROCS);
	__type(key, uint32_t);
	__type(value, struct bpf_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} chosen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BPF_MAX_FILES);
	__type(key, uint32_t);
	__type(value, struct bpf_file);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPF_RECENT);
	__type(key, uint32_t);
	__type(value, struct bpf_recent);
} recent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct bpf_counters);
} counters SEC(".maps");

/*
 * Inner arrays of any length: an element is a mapping, or a chunk of a table. Sizes, not types: clang leaves a struct that is
 * only behind pointers without its members in BTF.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, BPF_MAX_POOLS);
	__type(key, uint32_t);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
			__uint(max_entries, 1);
			__uint(key_size, 4);
			__uint(value_size, sizeof(struct bpf_mapping));
		});
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, BPF_MAX_SEGMENTS);
	__type(key, uint32_t);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
			__uint(max_entries, 1);
			__uint(key_size, 4);
			__uint(value_size, 4096); /* UNWIND_CHUNK_SIZE */
		});
} segments SEC(".maps");

/* ---- the table of a file, and the memory of a process, for the step ---- */

struct walk_table {
	uint32_t segment, first, n_chunks;
};

static __attribute__((always_inline)) const void *table_chunk(const struct walk_table *t, uint32_t n)
{
	uint32_t segment = t->segment, at = t->first + n;
	void *inner;

	if (n >= t->n_chunks)
		return NULL;
	inner = bpf_map_lookup_elem(&segments, &segment);
	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

struct walk_regs {
	uint64_t ip, regs[16];
};

#define UNWIND_TABLE                           const struct walk_table *
#define UNWIND_CHUNK(table, n)                 ((const union unwind_chunk *)table_chunk((table), (n)))
#define UNWIND_MEMORY                          const struct walk_regs *
#define UNWIND_READ(memory, address, to, size) bpf_probe_read_user((to), (size), (const void *)(address))
#define UNWIND_REGISTER(memory, n)             ((memory)->regs[(n)&15])
#define UNWIND_SEARCH(table, n, c, from, to, low) \
	search_rows((table)->segment, (table)->first + (n), (from), (to), (low))
int search_rows(uint32_t segment, uint32_t chunk, uint32_t from, uint32_t to, uint32_t low);
#include "unwind/step.h"

/* The search in a chunk's rows, verified by itself. Numbers only: kernels before 5.13 take no pointers here. */
__attribute__((noinline)) int search_rows(uint32_t segment, uint32_t chunk, uint32_t from, uint32_t to,
					  uint32_t low)
{
	const struct walk_table t = { segment, chunk, 1 };

	return unwind_search(table_chunk(&t, 0), from, to, low);
}

/*
 * Make the compiler forget how @x came about, so that a comparison after it bounds the very register that is used: else it
 * compares one copy and uses another, of which the verifier knows no bound. 64 bits, since -mcpu=v2 has no others.
 */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* ---- a walk ---- */

struct scratch {
	struct walk_regs regs;
	struct unwind_frame frame;
	struct bpf_process process;
	struct bpf_mapping mapping; /* of the last frame */
	uint64_t n_user;
	/* of the frames of Python */
	struct bpf_python python;
	uint64_t n_python, python_frame, python_cframe, python_new;
	uint8_t python_block[BPF_PYTHON_BLOCK];
	struct bpf_sample sample; /* the record, from here on */
	struct bpf_frame user[BPF_MAX_USER + 2 * BPF_MAX_PYTHON];
	uint8_t rest[BPF_REST(BPF_MAX_PAGES)]; /* the loader may make it smaller */
};

/* Sizes, not types: the loader sets them, to the number of processors and by the stack that is copied. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct scratch));
} scratches SEC(".maps");

/* Copy the mapping of @pc into the scratch @cpu. Returns 0, or -1: there is none. */
__attribute__((noinline)) int find_mapping(uint32_t cpu, uint64_t pc)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	uint32_t from, to, pool;
	struct bpf_mapping *m;
	void *inner;

	if (!s)
		return -1;
	pool = s->process.pool;
	from = s->process.first;
	to = from + s->process.n;
	inner = bpf_map_lookup_elem(&pools, &pool);
	if (!inner)
		return -1;
	/* The first mapping that ends after @pc. */
	for (int i = 0; i < BPF_MAPPING_STEPS; i++) {
		uint32_t middle = from + ((to - from) >> 1);

		if (from >= to)
			break;
		m = bpf_map_lookup_elem(inner, &middle);
		if (!m)
			return -1;
		if (m->end <= pc)
			from = middle + 1;
		else
			to = middle;
	}
	if (from >= s->process.first + s->process.n)
		return -1;
	m = bpf_map_lookup_elem(inner, &from);
	if (!m || pc < m->start || pc >= m->end)
		return -1;
	s->mapping = *m;
	return 0;
}

/* bpf_frame.place of @frame: how far its stack pointer is from the sample's. */
static __attribute__((always_inline)) uint32_t place_of(const struct scratch *s,
							const struct unwind_frame *frame)
{
	uint64_t far = (frame->sp - s->regs.regs[7]) >> 3;

	if (far > BPF_PLACE_FAR)
		far = BPF_PLACE_FAR;
	return (uint32_t)far << 1 | (frame->flags & UNWIND_EXACT);
}

static __attribute__((always_inline)) void note_wanted(struct bpf_file *f, uint32_t pid, uint64_t now)
{
	struct bpf_event e = { .record = BPF_RECORD_WANTED, .pid = pid, .file = f->file, .time_ns = now };

	if (now - f->wanted_ns < SECOND_NS)
		return;
	f->wanted_ns = now;
	bpf_ringbuf_output(&events, &e, sizeof(e), 0);
}

/* One frame of the walk of processor @cpu: record it, go to its caller. Returns 0, or 1 + how the walk ends. */
__attribute__((noinline)) int walk_step(uint32_t cpu)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	struct unwind_frame frame;
	struct walk_table t;
	struct bpf_file *f;
	uint32_t index;
	uint64_t pc, n;
	int how;

	if (!s)
		return 1 + UNWIND_NO_PROCESS;
	n = s->n_user;
	OPAQUE(n);
	if (n >= BPF_MAX_USER)
		return 1 + UNWIND_TOO_DEEP;
	frame = s->frame;
	pc = unwind_pc(&frame);
	if ((pc < s->mapping.start || pc >= s->mapping.end) && find_mapping(cpu, pc)) {
		s->user[n].addr = pc;
		s->user[n].file = BPF_NO_FILE;
		s->user[n].place = place_of(s, &frame);
		s->n_user = n + 1;
		return 1 + UNWIND_NO_MAPPING;
	}
	index = s->mapping.file;
	pc -= s->mapping.bias;
	s->user[n].addr = pc;
	s->user[n].file = index;
	s->user[n].place = place_of(s, &frame);
	s->n_user = n + 1;
	if (index == BPF_NO_FILE) {
		how = unwind_chain(&s->regs, &frame);
		goto out;
	}
	index &= 0xffff;
	f = bpf_map_lookup_elem(&files, &index);
	if (!f || f->file != s->mapping.file)
		return 1 + UNWIND_NO_TABLE;
	if (f->state != BPF_FILE_SET && f->state != BPF_FILE_NEVER) {
		note_wanted(f, s->sample.pid, s->sample.time_ns);
		return 1 + (f->state == BPF_FILE_EVICTED ? BPF_END_EVICTED : UNWIND_NO_TABLE);
	}
	if (f->used_ns != s->sample.time_ns)
		f->used_ns = s->sample.time_ns;
	if (f->state == BPF_FILE_NEVER) {
		how = unwind_chain(&s->regs, &frame);
		goto out;
	}
	t.segment = f->segment;
	t.first = f->first;
	t.n_chunks = f->n_chunks;
	how = unwind_step(&t, &s->regs, pc, &frame);
out:
	if (how >= UNWIND_END)
		return 1 + how;
	s->frame = frame;
	return 0;
}

#include "bpf/python.bpf.h"

/* ---- around the walk ---- */

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

static __attribute__((always_inline)) void set_registers(struct walk_regs *to, const struct pt_regs *r)
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

/* Tell user space of a process or an address that it did not set. */
static __attribute__((always_inline)) void note_unknown(struct scratch *s, uint32_t how)
{
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
	if (bpf_ringbuf_output(&events, &e, sizeof(e), 0))
		count_lost_event();
}

/*
 * How many pages of stack a sample that ended so is to have, plus 1; 0: nothing raw. Fewer while much waits in the ring, so that
 * a reader that is slow at its start loses none.
 */
static __attribute__((always_inline)) uint32_t raw_pages(struct scratch *s, uint32_t how, uint64_t waiting)
{
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
	return 1 + ((waiting > 2 * config.wake_at || s->sample.task) && config.stack_pages > 3
			    ? 3
			    : config.stack_pages);
}

#define USER_BYTES   ((BPF_MAX_USER + 2 * BPF_MAX_PYTHON) * sizeof(struct bpf_frame))
#define KERNEL_BYTES (BPF_MAX_KERNEL * 8)

/* The offset in scratch.user up to which the record is filled. After it, add the kernel's frames. */
static __attribute__((always_inline)) uint64_t add_kernel(void *ctx, struct scratch *s, uint64_t at)
{
	long size;

	OPAQUE(at);
	if (!config.with_kernel || at > USER_BYTES)
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
	raw->ip = s->regs.ip;
	__builtin_memcpy(raw->regs, s->regs.regs, sizeof(raw->regs));
	at += sizeof(*raw);
	/* Page by page, to the end of each: the pages after the stack may not exist. */
	for (uint32_t i = 0; i < BPF_MAX_PAGES; i++) {
		uint64_t from = s->regs.regs[7] + size, to = at + size;
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
						       uint32_t how)
{
	uint64_t waiting = bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA);
	uint64_t at = (s->n_user + 2 * s->n_python) * sizeof(struct bpf_frame);
	uint32_t pages;

	s->sample.n_user = s->n_user;
	s->sample.n_kernel = 0;
	s->sample.n_python = s->n_python;
	s->sample.end = how;
	at = add_kernel(ctx, s, at);
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

/* Fill the registers of user mode. Returns -1, or the code segment. */
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
		return -1;
	}
	set_registers(&s->regs, &regs);
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
	s->n_user = s->n_python = s->python_new = 0;
	s->sample.python_end = BPF_PYTHON_NONE;
	s->process.is_python = 0;
}

/* Walk the user stack from the registers of scratch @index, in code segment @cs. Returns how it ended. */
static __attribute__((always_inline)) uint32_t walk_user(struct scratch *s, uint32_t index, long cs)
{
	uint32_t pid = s->sample.pid;
	struct bpf_process *p;

	s->mapping.start = s->mapping.end = 0;
	s->frame.pc = s->regs.ip;
	s->frame.sp = s->regs.regs[7];
	s->frame.bp = s->regs.regs[6];
	s->frame.saved = 0;
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

		how = cs < 0 ? BPF_END_NO_REGISTERS : walk_user(s, cpu, cs);
		if (s->process.is_python)
			walk_python(s, task, cpu);
	}
	if (how == UNWIND_NO_PROCESS || how == UNWIND_NO_MAPPING)
		note_unknown(s, how);
	send_sample(ctx, s, c, how);
	if (config.measure_time) {
		c->runs++;
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
