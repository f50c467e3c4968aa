/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights that the agent and its parser give up once they are no longer needed. docs/decisions/0057 has the reasons for the
 * lists of system calls.
 */
#pragma once

#include "base/base.h"

#ifdef __has_feature
#define CONFINE_HAS_FEATURE(f) __has_feature(f)
#else
#define CONFINE_HAS_FEATURE(f) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	CONFINE_HAS_FEATURE(address_sanitizer) || CONFINE_HAS_FEATURE(thread_sanitizer)
#define CONFINE_SANITIZED true /* memory has no limit then */
#else
#define CONFINE_SANITIZED false
#endif

/* No capability, none to be had again; another user, if it is root and may be one. */
int confine_drop_rights(struct err *err);

/*
 * For the process that parses files of strangers: confine_drop_rights(), limits of memory and of files, and of the system
 * calls those that reading and computing need; others fail with EPERM. Before the first file. The process has one thread.
 * *ret_lacks: a part that this kernel does not have; NULL: none.
 */
int confine_parser(const char **ret_lacks, struct err *err);

/*
 * For the agent, all its threads: no program can be started, no process made, traced or written to, no descriptor of one taken,
 * no file system mounted, no module or BPF program loaded, no namespace or user changed. After the start.
 */
int confine_agent(struct err *err);
