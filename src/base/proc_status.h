/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of a process by /proc/PID/status, proc(5).
 */
#pragma once

#include <sys/types.h>
#include "base/view.h"

struct proc_status {
	uid_t real, effective;
	uint64_t number; /* in its own PID namespace */
};

/* @pid in decimal. false: the process is gone, or it has no such facts. */
bool proc_status_read(const char *pid, struct proc_status *ret);
