/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libbpf that the sampler uses, loaded with the first sampler, since libbpf brings libelf with it and
 * only the agent has a use for it. For the files of the sampler by BPF.
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

struct bpf_functions {
	BPF_FUNCTIONS(LAZY_FIELD)
};
extern struct bpf_functions bpf_functions; /* of sampler_bpf.c, which loads them */

#define bpf_link__destroy                  bpf_functions.bpf_link__destroy
#define bpf_map__fd                        bpf_functions.bpf_map__fd
#define bpf_map__set_initial_value         bpf_functions.bpf_map__set_initial_value
#define bpf_map__set_max_entries           bpf_functions.bpf_map__set_max_entries
#define bpf_map__set_value_size            bpf_functions.bpf_map__set_value_size
#define bpf_map__value_size                bpf_functions.bpf_map__value_size
#define bpf_map_create                     bpf_functions.bpf_map_create
#define bpf_map_delete_elem                bpf_functions.bpf_map_delete_elem
#define bpf_map_lookup_elem                bpf_functions.bpf_map_lookup_elem
#define bpf_map_update_elem                bpf_functions.bpf_map_update_elem
#define bpf_object__close                  bpf_functions.bpf_object__close
#define bpf_object__find_map_by_name       bpf_functions.bpf_object__find_map_by_name
#define bpf_object__find_program_by_name   bpf_functions.bpf_object__find_program_by_name
#define bpf_object__load                   bpf_functions.bpf_object__load
#define bpf_object__open_mem               bpf_functions.bpf_object__open_mem
#define bpf_program__attach_perf_event     bpf_functions.bpf_program__attach_perf_event
#define bpf_program__attach_raw_tracepoint bpf_functions.bpf_program__attach_raw_tracepoint
#define bpf_program__attach_trace          bpf_functions.bpf_program__attach_trace
#define bpf_program__set_autoload          bpf_functions.bpf_program__set_autoload
#define libbpf_num_possible_cpus           bpf_functions.libbpf_num_possible_cpus
#define libbpf_set_print                   bpf_functions.libbpf_set_print
#define ring_buffer__add                   bpf_functions.ring_buffer__add
#define ring_buffer__consume               bpf_functions.ring_buffer__consume
#define ring_buffer__epoll_fd              bpf_functions.ring_buffer__epoll_fd
#define ring_buffer__free                  bpf_functions.ring_buffer__free
#define ring_buffer__new                   bpf_functions.ring_buffer__new
#define ring_buffer__poll                  bpf_functions.ring_buffer__poll
