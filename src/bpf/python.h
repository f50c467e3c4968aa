/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Layouts that python.bpf.h and the loader share: where the frames of a CPython interpreter are, and a frame of it in a sample.
 */
#pragma once

#include "unwind/types.h"

#define BPF_MAX_PYTHON     512u /* frames of a sample */
#define BPF_PYTHON_STEPS   768u /* frames, and the interpreter's own ones between them */
#define BPF_PYTHON_THREADS 64u  /* threads that a search by number visits */
#define BPF_PYTHON_BLOCK   128u /* bytes of an interpreter's frame */
#define BPF_PYTHON_KNOWN   8192u
#define BPF_PYTHON_NOWHERE 0xffffffffu /* not the offset of an instruction */
#define BPF_MAX_PYTHONS    4096u       /* processes with an interpreter */

/* Bits of bpf_python.flags. */
enum {
	BPF_PYTHON_CFRAME = 1 << 0, /* the innermost frame's address is in the thread's C frame */
	BPF_PYTHON_EACH = 1 << 1,   /* each frame has an evaluation loop of its own */
	BPF_PYTHON_ENTRY =
		1 << 2, /* a frame that is not 0 at `frame_owner` is the first of its evaluation loop */
	BPF_PYTHON_SHIM =
		1 << 3, /* one with 3 or more there is on the C stack, and stands for an evaluation loop */
	BPF_PYTHON_INDEX = 1 << 4, /* `frame_instr` is a 32-bit number, not an address */
};

/* Of `pythons`: addresses of the process, and offsets in the interpreter's structs. */
struct bpf_python {
	uint64_t start_ticks;  /* 0: not compared */
	uint64_t tss;          /* the address of the interpreter's Py_tss_t; 0: not known */
	uint64_t interpreters; /* the address of the pointer to the first interpreter */
	uint32_t flags;
	uint16_t threads, thread_next, thread_id;
	uint16_t thread_frame, thread_cframe; /* 0: there is none */
	uint16_t cframe_frame, cframe_previous;
	uint16_t frame_size; /* bytes that are read of a frame, at most BPF_PYTHON_BLOCK */
	uint16_t frame_code, frame_previous, frame_instr, frame_owner;
	uint16_t code_window; /* of the 32 bytes of a code object that make its hash */
	uint16_t code_bytes;  /* of the instructions in a code object; 0: with BPF_PYTHON_INDEX */
	uint16_t is_keyed;    /* BPF found a thread by its key */
	uint16_t reserved;
};

/* A frame of Python, in place of two of struct bpf_frame. */
struct bpf_python_frame {
	uint64_t code; /* the address of the code object */
	uint32_t
		instr; /* offset of the instruction in bytes, BPF_PYTHON_NOWHERE; or its number with BPF_PYTHON_INDEX */
	uint32_t
		entry; /* the outermost frame of its evaluation loop: where that is on the C stack, BPF_PLACE; 0: it is not */
	uint64_t hash; /* of the code object, python_hash() */
	uint64_t reserved;
};

/* Distance from the sample's stack pointer in units of 8 bytes, at most BPF_PLACE_FAR, which is also any that is not known. */
#define BPF_PLACE_FAR 0x7fffffffu

/* Why the frames of Python end. */
enum bpf_python_end {
	BPF_PYTHON_NONE,     /* not a thread of an interpreter */
	BPF_PYTHON_COMPLETE, /* all frames */
	BPF_PYTHON_DEEP,     /* more of them than are read */
	BPF_PYTHON_UNREADABLE,
};

/* The hash of the four words at a code object's `code_window`: pointers that another object at the same address has not. */
static inline __attribute__((always_inline)) uint64_t python_hash(const uint64_t *words)
{
	uint64_t h = words[0] * 0x9e3779b97f4a7c15ull;

	h = ((h ^ (h >> 29)) + words[1]) * 0xbf58476d1ce4e5b9ull;
	h = ((h ^ (h >> 32)) + words[2]) * 0x94d049bb133111ebull;
	h = ((h ^ (h >> 29)) + words[3]) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 31);
}
