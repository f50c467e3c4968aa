/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the running kernel's functions, out of /proc/kallsyms: the kernel, its modules, BPF programs. Packed:
 * 35 bytes a function with its name, 4 MB for a kernel.
 */
#pragma once

#include "base/base.h"

#define KERNEL_MAX_BYTES ((uint64_t)256 << 20) /* of /proc/kallsyms */
#define KERNEL_MAX_NAMES (1u << 22)

struct kernel_names;

/* Why addresses have no names. */
enum kernel_state {
	KERNEL_NAMED,
	KERNEL_HIDDEN,  /* all addresses are 0: kernel.kptr_restrict, and no CAP_SYSLOG */
	KERNEL_MISSING, /* there is no kallsyms that can be read */
};

struct kernel_symbol {
	struct str name, module; /* module empty: the kernel itself. Valid until kernel_names_refresh() */
	uint64_t start;
};

/* Never fails: without names every address is "not found". */
struct kernel_names *kernel_names_new(const char *path); /* NULL: /proc/kallsyms */
void kernel_names_free(struct kernel_names *k);          /* takes NULL */
enum kernel_state kernel_names_state(const struct kernel_names *k,
				     uint64_t *ret_text); /* the address of _text; 0: not known */
/* The function at @addr. false: not known. */
bool kernel_names_at(struct kernel_names *k, uint64_t addr, struct kernel_symbol *ret);
/*
 * Read the file again if modules or BPF programs have changed, as far as that shows, or if it could not be read; at most once
 * a minute. true: it was. If it cannot be read, the names stay.
 */
bool kernel_names_refresh(struct kernel_names *k);
size_t kernel_names_size(const struct kernel_names *k, size_t *ret_n); /* bytes of memory; functions */
/* Use this text in place of a file: for tests. Returns the number of functions. */
size_t kernel_names_load(struct kernel_names *k, struct str text);
