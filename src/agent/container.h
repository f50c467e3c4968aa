/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of containers and pods, by the files that container runtimes and the kubelet keep on the machine. No socket, no token
 * and no request: a file of a container is read once, when a process of it is labelled.
 *
 *   containerd, nerdctl   /run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json, also below /run/k3s
 *   Docker                /var/lib/docker/containers/ID/config.v2.json
 *   CRI-O, Podman         /run/containers/storage/overlay-containers/ID/userdata/config.json,
 *                         /var/lib/containers/storage/overlay-containers/containers.json
 *   any, by the kubelet   /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
 *
 * Their texts come from users of the machine's containers, and are not trusted: files have limits, and the maker of labels
 * replaces control characters.
 */
#pragma once

#include "agent/cgroup.h"

#define CONTAINERS_MAX      4096u  /* that are remembered */
#define CONTAINER_MAX_FILE  MIB(4) /* bytes of a file */
#define CONTAINER_MAX_NAMES 65536u /* entries of a folder */

/* On the heap; NULL: not known. */
struct container_name {
	char *container, *pod, *space; /* space: the namespace of the pod */
	char *service;                 /* of Docker Compose */
};
void container_name_done(struct container_name *n);

struct container_names;
/*
 * @root: the machine's root folder as this process sees it: "/", in a container with the machine's PID namespace
 * "/proc/1/root".
 */
struct container_names *container_names_new(const char *root);
void container_names_free(struct container_names *n); /* takes NULL */
/*
 * The names of a container. NULL: there are none, or none yet: *ret_again_ms is the monotonic time from which asking again may
 * help. The result is valid until the next call.
 */
const struct container_name *container_names_get(struct container_names *n, const struct cgroup_facts *c,
						 int64_t *ret_again_ms);
struct container_stats {
	uint64_t n_named, n_unnamed; /* containers: found; given up so far */
	char error[160];             /* of the last file that is there and cannot be read; "": none */
};
void container_names_stats(const struct container_names *n, struct container_stats *ret);

/* ---- container_parse.c: files in memory. false: they name nothing, and *ret is empty. ---- */

/* An OCI specification: its annotations. */
bool container_parse_spec(struct bytes json, struct container_name *ret);
/* Docker's description of a container. */
bool container_parse_docker(struct bytes json, struct container_name *ret);
/* The list of containers of containers/storage; @id: 64 digits. */
bool container_parse_storage(struct bytes json, struct str id, struct container_name *ret);
/* The name of a log file, if it is of the container @id. */
bool container_parse_log(struct str file, struct str id, struct container_name *ret);
