/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Frames of CPython, read in the interrupt; included by sample.bpf.c, after struct scratch. A sample has, after the frames
 * of the native walk, those of Python: code object, instruction, and where the C stack has their evaluation loop. User
 * space names them, and puts them in the places of the interpreter's own frames (agent/python_stack.c).
 *
 * All of it is the memory of a stranger: each address is read by bpf_probe_read_user(), each loop is bounded.
 */

#define BPF_PTHREAD_KEYS 0x310 /* of struct pthread in glibc, x86-64: the values of the first 32 keys */

struct {
	__uint(type,
	       BPF_MAP_TYPE_HASH); /* preallocated: before Linux 6.1 a perf event program may use no other */
	__uint(max_entries, BPF_MAX_PYTHONS);
	__type(key, uint32_t);
	__type(value, struct bpf_python);
} pythons SEC(".maps");

/* Hashes of code objects that samples had: a new one wakes the reader, which names it while the process lives. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPF_PYTHON_KNOWN);
	__type(key, uint32_t);
	__type(value, uint64_t);
} python_known SEC(".maps");

static __attribute__((always_inline)) uint64_t python_word(uint64_t address)
{
	uint64_t word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (const void *)address))
		return 0;
	return word;
}

/* The thread's state, by the value that glibc keeps for the interpreter's key. 0: none, or another C library. */
static __attribute__((always_inline)) uint64_t python_thread_by_key(const struct bpf_python *p, uint64_t self)
{
	uint64_t key = p->tss ? python_word(p->tss) : 0, state;

	/* int is_initialized, unsigned key; the first 32 keys are in struct pthread itself. */
	if (!(uint32_t)key || (key >> 32) >= 32)
		return 0;
	state = python_word(self + BPF_PTHREAD_KEYS + (key >> 32) * 16 + 8);
	return state && python_word(state + p->thread_id) == self ? state : 0;
}

static __attribute__((always_inline)) uint64_t python_thread_by_list(const struct bpf_python *p,
								     uint64_t self)
{
	uint64_t state = python_word(p->interpreters);

	state = state ? python_word(state + p->threads) : 0;
	for (uint32_t i = 0; i < BPF_PYTHON_THREADS && state; i++) {
		if (python_word(state + p->thread_id) == self)
			return state;
		state = python_word(state + p->thread_next);
	}
	return 0;
}

static __attribute__((always_inline)) uint32_t python_place(const struct scratch *s, uint64_t address)
{
	uint64_t far = (address - s->memory.regs[7]) >> 3;

	return far && far < BPF_PLACE_FAR ? far : BPF_PLACE_FAR;
}

/* Note the code object of the process. Returns whether it is a new one. A child has its parent's at the same addresses. */
static __attribute__((always_inline)) int python_is_new(uint32_t pid, uint64_t code, uint64_t hash)
{
	uint32_t i = (uint32_t)((hash >> 20) + pid) % BPF_PYTHON_KNOWN;
	uint64_t *known = bpf_map_lookup_elem(&python_known, &i), key = hash ^ code ^ (uint64_t)pid << 32;

	if (!known || *known == key)
		return 0;
	*known = key;
	return 1;
}

/* Record the frame in the block. Returns 0, or how the frames end. */
static __attribute__((always_inline)) int python_record(struct scratch *s, const struct bpf_python *p,
							const uint8_t *block)
{
	uint64_t n = s->n_user + 2 * s->n_python;
	uint64_t code = *(const uint64_t *)(block + (p->frame_code & 0x78)) & ~7ull; /* 3.14 has tags in it */
	uint64_t words[4], instr;
	struct bpf_python_frame *to;

	if (bpf_probe_read_user(words, sizeof(words), (const void *)(code + p->code_window)))
		return BPF_PYTHON_UNREADABLE;
	OPAQUE(n);
	if (n > BPF_MAX_USER + 2 * BPF_MAX_PYTHON - 2)
		return BPF_PYTHON_DEEP;
	to = (struct bpf_python_frame *)&s->user[n];
	to->code = code;
	to->hash = python_hash(words);
	to->entry = 0;
	to->reserved = 0;
	if (p->flags & BPF_PYTHON_INDEX) {
		to->instr = *(const uint32_t *)(block + (p->frame_instr & 0x7c));
	} else {
		/* Before the first instruction, or in a thread's own copy of the code: no instruction of it. */
		instr = *(const uint64_t *)(block + (p->frame_instr & 0x78)) - code - p->code_bytes;
		to->instr = instr > 0x7fffffff ? BPF_PYTHON_NOWHERE : (uint32_t)instr;
	}
	if (python_is_new(s->sample.pid, code, to->hash))
		s->python_new = 1;
	s->n_python++;
	return 0;
}

/* The last recorded frame is the outermost of its evaluation loop, which has @address on the C stack. */
static __attribute__((always_inline)) void python_mark_entry(struct scratch *s, uint64_t address)
{
	uint64_t n = s->n_user + 2 * s->n_python - 2;

	OPAQUE(n);
	if (s->n_python && n <= BPF_MAX_USER + 2 * BPF_MAX_PYTHON - 2)
		((struct bpf_python_frame *)&s->user[n])->entry = python_place(s, address);
}

/* One frame of Python of the sample of processor @cpu. Returns 0, or how the frames end. */
__attribute__((noinline)) int python_step(uint32_t cpu)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	const struct bpf_python *p;
	uint64_t size, frame;
	uint8_t owner;
	int how;

	if (!s)
		return BPF_PYTHON_NONE + 1;
	p = &s->python;
	frame = s->python_frame;
	if (s->n_python >= BPF_MAX_PYTHON)
		return 1 + BPF_PYTHON_DEEP;
	size = p->frame_size;
	OPAQUE(size);
	if (size > sizeof(s->python_block) || bpf_probe_read_user(s->python_block, size, (const void *)frame))
		return 1 + BPF_PYTHON_UNREADABLE;
	owner = s->python_block[p->frame_owner & 0x7f];
	s->python_frame = *(uint64_t *)(s->python_block + (p->frame_previous & 0x78));
	if (p->flags & BPF_PYTHON_SHIM && owner >= 3) {
		python_mark_entry(s, frame);
	} else {
		how = python_record(s, p, s->python_block);
		if (how)
			return 1 + how;
		if (p->flags & BPF_PYTHON_EACH || (p->flags & BPF_PYTHON_ENTRY && owner)) {
			python_mark_entry(s, s->python_cframe);
			if (s->python_cframe)
				s->python_cframe = python_word(s->python_cframe + p->cframe_previous);
		}
	}
	return s->python_frame ? 0 : 1 + BPF_PYTHON_COMPLETE;
}

/* Read the frames of Python of the current thread, if it has any. */
static __attribute__((always_inline)) void walk_python(struct scratch *s, struct task_struct *task,
						       uint32_t cpu)
{
	uint64_t self = BPF_CORE_READ(task, thread.fsbase), state;
	struct bpf_python *p = bpf_map_lookup_elem(&pythons, &s->sample.pid);

	if (!p || (p->start_ticks && p->start_ticks != s->sample.start_ticks))
		return;
	s->python = *p;
	state = python_thread_by_key(&s->python, self);
	/* Where the key is right, a thread without a value is none of the interpreter, as those of OpenMP. */
	if (state)
		p->is_keyed = 1;
	else if (!p->is_keyed)
		state = python_thread_by_list(&s->python, self);
	if (!state)
		return;
	s->python_cframe = s->python.thread_cframe ? python_word(state + s->python.thread_cframe) : 0;
	if (s->python.flags & BPF_PYTHON_CFRAME)
		s->python_frame = python_word(s->python_cframe + s->python.cframe_frame);
	else
		s->python_frame = python_word(state + s->python.thread_frame);
	if (!s->python_frame)
		return;
	for (uint32_t i = 0; i < BPF_PYTHON_STEPS; i++) {
		int how = python_step(cpu);

		if (how) {
			s->sample.python_end = how - 1;
			return;
		}
	}
	s->sample.python_end = BPF_PYTHON_DEEP;
}
