/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels out of a process's cgroup path: the systemd unit, the container, the Kubernetes pod. All of it is text that a
 * manager of services or containers has made; an unprivileged process may own a part of the hierarchy, and choose names in it.
 */
#pragma once

#include "base/base.h"

#define CGROUP_ID_MIN 12u /* hexadecimal digits of a container's ID; 64 is the usual number */

/* Views into the path; empty: none. */
struct cgroup_facts {
	struct str path; /* that the rest comes from */
	struct str unit; /* nginx.service, user@1000.service, docker-….scope is none */
	struct str
		container;  /* the ID: 64 digits in hexadecimal, or the name of a machine or LXC container */
	struct str runtime; /* "docker", "containerd", "crio", "podman", "lxc", "nspawn"; empty: not known */
	struct str pod;     /* the UID of the pod, as the path has it: with '-' or with '_' */
};

/*
 * The content of /proc/PID/cgroup: lines "ID:CONTROLLERS:PATH". The path is that of the unified hierarchy (cgroup v2), else
 * that of systemd's own, else the first one that names anything: a hybrid setup has several.
 */
void cgroup_read(struct str text, struct cgroup_facts *ret);
/* One path. */
void cgroup_parse(struct str path, struct cgroup_facts *ret);
