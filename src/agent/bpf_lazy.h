/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libbpf that the sampler uses, loaded with the first sampler, since libbpf brings libelf with it and
 * only the agent has a use for it. Included by the one file that calls them.
 */
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "base/lazy.h"

#define BPF_FUNCTIONS(X)                      \
	X(bpf_link__destroy)                  \
	X(bpf_map__fd)                        \
	X(bpf_map__set_initial_value)         \
	X(bpf_map__set_max_entries)           \
	X(bpf_map__set_value_size)            \
	X(bpf_map__value_size)                \
	X(bpf_map_create)                     \
	X(bpf_map_delete_elem)                \
	X(bpf_map_lookup_elem)                \
	X(bpf_map_update_elem)                \
	X(bpf_object__close)                  \
	X(bpf_object__find_map_by_name)       \
	X(bpf_object__find_program_by_name)   \
	X(bpf_object__load)                   \
	X(bpf_object__open_mem)               \
	X(bpf_program__attach_perf_event)     \
	X(bpf_program__attach_raw_tracepoint) \
	X(bpf_program__attach_trace)          \
	X(bpf_program__set_autoload)          \
	X(libbpf_num_possible_cpus)           \
	X(libbpf_set_print)                   \
	X(ring_buffer__add)                   \
	X(ring_buffer__consume)               \
	X(ring_buffer__epoll_fd)              \
	X(ring_buffer__free)                  \
	X(ring_buffer__new)                   \
	X(ring_buffer__poll)

static struct {
	BPF_FUNCTIONS(LAZY_FIELD)
} libbpf;

static int libbpf_load(struct err *err)
{
	static const char *const names[] = { BPF_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libbpf.so.1", "libbpf1", names, &libbpf, ARRAY_SIZE(names), err);
}

#define bpf_link__destroy                  libbpf.bpf_link__destroy
#define bpf_map__fd                        libbpf.bpf_map__fd
#define bpf_map__set_initial_value         libbpf.bpf_map__set_initial_value
#define bpf_map__set_max_entries           libbpf.bpf_map__set_max_entries
#define bpf_map__set_value_size            libbpf.bpf_map__set_value_size
#define bpf_map__value_size                libbpf.bpf_map__value_size
#define bpf_map_create                     libbpf.bpf_map_create
#define bpf_map_delete_elem                libbpf.bpf_map_delete_elem
#define bpf_map_lookup_elem                libbpf.bpf_map_lookup_elem
#define bpf_map_update_elem                libbpf.bpf_map_update_elem
#define bpf_object__close                  libbpf.bpf_object__close
#define bpf_object__find_map_by_name       libbpf.bpf_object__find_map_by_name
#define bpf_object__find_program_by_name   libbpf.bpf_object__find_program_by_name
#define bpf_object__load                   libbpf.bpf_object__load
#define bpf_object__open_mem               libbpf.bpf_object__open_mem
#define bpf_program__attach_perf_event     libbpf.bpf_program__attach_perf_event
#define bpf_program__attach_raw_tracepoint libbpf.bpf_program__attach_raw_tracepoint
#define bpf_program__attach_trace          libbpf.bpf_program__attach_trace
#define bpf_program__set_autoload          libbpf.bpf_program__set_autoload
#define libbpf_num_possible_cpus           libbpf.libbpf_num_possible_cpus
#define libbpf_set_print                   libbpf.libbpf_set_print
#define ring_buffer__add                   libbpf.ring_buffer__add
#define ring_buffer__consume               libbpf.ring_buffer__consume
#define ring_buffer__epoll_fd              libbpf.ring_buffer__epoll_fd
#define ring_buffer__free                  libbpf.ring_buffer__free
#define ring_buffer__new                   libbpf.ring_buffer__new
#define ring_buffer__poll                  libbpf.ring_buffer__poll
