/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of cgroup paths that are understood:
 *
 *   /system.slice/nginx.service                                                systemd
 *   /user.slice/user-1000.slice/user@1000.service/app.slice/foo.service        a user's
 *   /system.slice/docker-ID.scope, /docker/ID                                  Docker, by the systemd and cgroupfs drivers
 *   /machine.slice/libpod-ID.scope, /machine.slice/machine-NAME.scope          Podman, systemd-nspawn
 *   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
 *   /kubepods/burstable/podUID/ID, /kubepods-besteffort-podUID.slice:cri-containerd:ID
 *   /lxc/NAME, /lxc.payload.NAME
 */
#include "agent/cgroup.h"

#define PATH_PARTS_MAX 64u

static bool is_container_id(struct str s)
{
	for (size_t i = 0; i < s.size; i++)
		if (hex_digit(s.p[i], false) < 0)
			return false;
	return s.size >= CGROUP_ID_MIN;
}

static struct str text_without(struct str s, size_t head, size_t tail)
{
	return (struct str){ s.p + head, s.size - head - tail };
}

static bool cut_prefix(struct str *s, struct str prefix)
{
	if (!str_starts(*s, prefix))
		return false;
	*s = text_without(*s, prefix.size, 0);
	return true;
}

static bool cut_suffix(struct str *s, struct str suffix)
{
	if (!str_ends(*s, suffix))
		return false;
	s->size -= suffix.size;
	return true;
}

/* "docker-ID", "cri-containerd-ID", "crio-ID", "libpod-ID". */
static bool take_container(struct str s, struct cgroup_facts *f)
{
	static const struct {
		struct str prefix, runtime;
	} forms[] = {
		{ STR("docker-"), STR("docker") },      { STR("cri-containerd-"), STR("containerd") },
		{ STR("crio-conmon-"), STR("") },       { STR("crio-"), STR("crio") },
		{ STR("libpod-conmon-"), STR("") },     { STR("libpod-"), STR("podman") },
		{ STR("nerdctl-"), STR("containerd") },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct str id = s;

		/* The monitor of a container is not in the container. */
		if (!cut_prefix(&id, forms[i].prefix) || !is_container_id(id) || !forms[i].runtime.size)
			continue;
		f->container = id;
		f->runtime = forms[i].runtime;
		return true;
	}
	return false;
}

/* The part of @s after the last "pod", if it has the form of a UID. */
static bool take_pod(struct str s, struct cgroup_facts *f)
{
	size_t at = s.size;

	for (size_t i = 0; i + 3 < s.size; i++)
		if (memcmp(s.p + i, "pod", 3) == 0 && (!i || s.p[i - 1] == '-'))
			at = i + 3;
	if (s.size - MIN(at, s.size) < 32 || s.size - at > 36)
		return false;
	for (size_t i = at; i < s.size; i++)
		if (hex_digit(s.p[i], false) < 0 && s.p[i] != '-' && s.p[i] != '_')
			return false;
	f->pod = text_without(s, at, 0);
	return true;
}

static void take_scope(struct str s, struct cgroup_facts *f)
{
	if (take_container(s, f))
		return;
	if (cut_prefix(&s, STR("machine-")) && s.size) {
		f->container = s;
		f->runtime = STR("nspawn");
	}
}

/* One directory of the path, from the outermost to the innermost: an inner one wins. */
static void take_part(struct str part, struct str before, struct cgroup_facts *f)
{
	struct str s = part, pod;

	if (cut_suffix(&s, STR(".service"))) {
		f->unit = part;
		return;
	}
	if (cut_suffix(&s, STR(".scope"))) {
		take_scope(s, f);
		return;
	}
	cut_suffix(&s, STR(".slice"));
	/* containerd without the systemd driver: "kubepods-podUID.slice:cri-containerd:ID" */
	if (memchr(s.p, ':', s.size)) {
		pod = str_cut(&s, ':');
		cut_suffix(&pod, STR(".slice"));
		take_pod(pod, f);
		str_cut(&s, ':');
		if (is_container_id(s)) {
			f->container = s;
			f->runtime = STR("containerd");
		}
		return;
	}
	if (take_pod(s, f))
		return;
	if (cut_prefix(&s, STR("lxc.payload.")) || (str_eq(before, STR("lxc")) && s.size)) {
		f->container = s;
		f->runtime = STR("lxc");
	} else if (take_container(s, f)) {
		return;
	} else if (s.size == 64 && is_container_id(s)) {
		f->container = s;
		f->runtime = str_eq(before, STR("docker")) ? STR("docker") : STR("");
	}
}

void cgroup_parse(struct str path, struct cgroup_facts *ret)
{
	struct str before = STR(""), rest = path;

	*ret = (struct cgroup_facts){ .path = path };
	for (unsigned n = 0; rest.size && n < PATH_PARTS_MAX; n++) {
		struct str part = str_cut(&rest, '/');

		/* A process in another cgroup namespace is at "/../..". */
		if (!part.size || str_eq(part, STR("..")))
			continue;
		take_part(part, before, ret);
		before = part;
	}
	/* The unit of the container's own manager is not that of the process. */
	if (ret->container.size || ret->pod.size)
		ret->unit = STR("");
}

void cgroup_read(struct str text, struct cgroup_facts *ret)
{
	struct cgroup_facts best = { 0 };
	int rank = -1;

	while (text.size) {
		struct str line = str_cut(&text, '\n'), id = str_cut(&line, ':');
		struct str controllers = str_cut(&line, ':');
		struct cgroup_facts f;
		int r;

		if (!line.p)
			continue;
		cgroup_parse(line, &f);
		/* Of hierarchies that name as much, the unified one, then systemd's. */
		r = (f.container.size || f.pod.size ? 8
		     : f.unit.size                  ? 4
						    : 0) +
		    (str_eq(id, STR("0"))                       ? 2
		     : str_eq(controllers, STR("name=systemd")) ? 1
								: 0);
		if (r > rank) {
			rank = r;
			best = f;
		}
	}
	*ret = best;
}
