/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the BPF program's rings, as the sampler's samples and events.
 */
#include "agent/sampler_bpf_internal.h"
#include "unwind/unwind.h"

static enum sampler_end bpf_end_of(uint32_t how)
{
	switch (how) {
	case BPF_END_KERNEL_ONLY:
		return SAMPLER_KERNEL_ONLY;
	case BPF_END_EVICTED:
		return SAMPLER_EVICTED;
	case BPF_END_NO_REGISTERS:
		return SAMPLER_NO_REGISTERS;
	default:
		return sampler_end_of(how);
	}
}

static enum sampler_python_end bpf_python_end_of(uint32_t how)
{
	switch (how) {
	case BPF_PYTHON_NONE:
		return SAMPLER_PYTHON_NONE;
	case BPF_PYTHON_COMPLETE:
		return SAMPLER_PYTHON_COMPLETE;
	case BPF_PYTHON_DEEP:
		return SAMPLER_PYTHON_DEEP;
	default:
		return SAMPLER_PYTHON_UNREADABLE;
	}
}

static void take_bpf_wake(struct bpf_sampler *b, const void *data, size_t size)
{
	const struct bpf_wake *w = data;

	if (size >= sizeof(*w))
		sampler_sleep_ended(b->sampler, w->task, (int64_t)w->out_ns, (int64_t)w->in_ns);
}

/* The kernel wrote the record; its sizes are checked all the same. */
static void read_bpf_sample(struct bpf_sampler *b, void *data, size_t size)
{
	struct bpf_sample *r = data;
	size_t need = sizeof(*r);
	struct sampler_sample sample;
	const struct bpf_frame *user = (const struct bpf_frame *)(r + 1);
	const struct bpf_python_frame *python;
	struct sampler_raw raw;

	if (size >= sizeof(r->record) && r->record == BPF_RECORD_WAKE) {
		take_bpf_wake(b, data, size);
		return;
	}
	if (size < need || r->n_user > BPF_MAX_USER || r->n_kernel > BPF_MAX_KERNEL ||
	    r->n_python > BPF_MAX_PYTHON)
		return;
	need += r->n_user * sizeof(*user) + r->n_python * sizeof(*python) + r->n_kernel * sizeof(uint64_t);
	if (size < need)
		return;
	python = (const struct bpf_python_frame *)(user + r->n_user);
	sample = (struct sampler_sample){ .time_ns = (int64_t)r->time_ns,
					  .pid = r->pid,
					  .tid = r->tid,
					  .cpu = r->cpu,
					  .start_ticks = r->start_ticks,
					  .cgroup = r->cgroup,
					  .kernel = (const uint64_t *)(python + r->n_python),
					  .n_kernel = r->n_kernel,
					  .kernel_cut = r->flags & BPF_SAMPLE_KERNEL_CUT,
					  .user = b->frames,
					  .n_user = r->n_user,
					  .python = b->python,
					  .n_python = r->n_python,
					  .python_end = bpf_python_end_of(r->python_end),
					  .end = bpf_end_of(r->end),
					  .not_set = r->end == UNWIND_NO_PROCESS,
					  .preempted = r->flags & BPF_SAMPLE_PREEMPTED,
					  .sleeper = r->task,
					  .weight = UINT32_C(1) << (r->shift & 31) };
	memcpy(sample.comm, r->comm, sizeof(sample.comm));
	sample.comm[sizeof(sample.comm) - 1] = '\0';
	for (size_t i = 0; i < r->n_user; i++)
		b->frames[i] = (struct sampler_frame){ user[i].addr, user[i].file, user[i].place & 1,
						       user[i].place >> 1 };
	for (size_t i = 0; i < r->n_python; i++)
		b->python[i] = (struct sampler_python_frame){ python[i].code, python[i].hash, python[i].instr,
							      python[i].entry };
	if (r->flags & BPF_SAMPLE_RAW && size >= need + sizeof(struct bpf_raw)) {
		const struct bpf_raw *from = (const struct bpf_raw *)((uint8_t *)data + need);

		need += sizeof(*from);
		raw.ip = from->ip;
		memcpy(raw.regs, from->regs, sizeof(raw.regs));
		raw.stack = bytes_of(from + 1, MIN(from->stack_size, size - need));
		sample.raw = &raw;
	}
	sampler_take(b->sampler, &sample);
}

int take_bpf_sample(void *ctx, void *data, size_t size)
{
	struct bpf_sampler *b = ctx;

	if (b->drops) {
		b->n_dropped += size >= sizeof(uint32_t) && *(const uint32_t *)data == BPF_RECORD_SAMPLE;
		return 0;
	}
	read_bpf_sample(b, data, size);
	return clock_mono_ms() < b->poll_end_ms ? 0 : BPF_POLL_OVER;
}

int take_bpf_event(void *ctx, void *data, size_t size)
{
	static const enum sampler_event_kind kinds[] = {
		[BPF_RECORD_NEW] = SAMPLER_NEW,       [BPF_RECORD_UNMAPPED] = SAMPLER_UNMAPPED,
		[BPF_RECORD_EXEC] = SAMPLER_EXEC,     [BPF_RECORD_EXIT] = SAMPLER_EXIT,
		[BPF_RECORD_WANTED] = SAMPLER_WANTED,
	};
	struct bpf_sampler *b = ctx;
	const struct bpf_event *e = data;

	if (b->drops || size < sizeof(*e) || e->record < BPF_RECORD_NEW || e->record >= ARRAY_SIZE(kinds))
		return 0;
	sampler_tell(b->sampler, &(struct sampler_event){ .kind = kinds[e->record],
							  .pid = e->pid,
							  .start_ticks = e->start_ticks,
							  .addr = e->addr,
							  .file = e->file,
							  .time_ns = (int64_t)e->time_ns,
							  .parent = e->parent,
							  .is_fork = e->is_fork });
	return 0;
}
