/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the programs of sample.bpf.c: the kernel's structs as far as they are read, the configuration, and the maps.
 */
#pragma once

#include "bpf/sample.h"

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct mm_struct {
	unsigned long end_code;
} __attribute__((preserve_access_index));
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
struct task_struct {
	int pid, tgid;
	unsigned int flags;
	struct mm_struct *mm;
	void *stack;
	struct task_struct *group_leader, *real_parent;
	uint64_t start_boottime;
	struct thread_struct thread;
	unsigned int __state; /* since Linux 5.14 */
} __attribute__((preserve_access_index));

#define PF_IO_WORKER   0x00000010
#define PF_FORKNOEXEC  0x00000040 /* of a group leader: the process has not run another program */
#define PF_KTHREAD     0x00200000
#define KERNEL_STACK   16384
#define USER_CODE_64   0x33
#define EXECVE_64      59
#define EXECVEAT_64    322
#define EXECVE_32      11
#define EXECVEAT_32    358
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
 * only pointed to without its members in BTF.
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
