/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of the files, and the memory of names that were found. A container that has no name yet is looked for again,
 * at growing intervals, since the kubelet makes its links after the start; one that has a name is read again after ten
 * minutes, since it may have been renamed.
 *
 * An ID comes from a cgroup path, where any process with a part of the hierarchy of its own writes what it likes: only
 * hexadecimal digits become a part of a path.
 */
#include "agent/container.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/root.h"

#define FIRST_MS    1000
#define LAST_MS     600000
#define NAMESPACES  64u /* of containerd */
#define SPEC_SIZE   MIB(1)
#define ID_MAX_SIZE 128u

struct container_entry {
	char *id;
	struct container_name name;
	bool is_named;
	unsigned n_tries;
	int64_t next_ms;
};

struct container_names {
	int root;
	struct map by_id; /* struct container_entry * */
	size_t n;
	struct container_stats stats;
};

/* ---- files below the root ---- */

static int open_state(struct container_names *n, const char *path, int flags)
{
	int fd = n->root < 0 ? -1 : root_open(n->root, path, flags);

	if (fd < 0 && n->root >= 0 && errno != ENOENT && errno != ENOTDIR)
		snprintf(n->stats.error, sizeof(n->stats.error), "%.100s: %s", path, strerror(errno));
	return fd;
}

static bool read_state(struct container_names *n, const char *path, size_t max, struct buf *ret)
{
	AUTO(fd_close) int fd = open_state(n, path, O_RDONLY);
	struct err err = { 0 };
	struct stat st;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	if ((uint64_t)st.st_size > max) {
		snprintf(n->stats.error, sizeof(n->stats.error), "%.100s: more than %zu bytes", path, max);
		return false;
	}
	ret->size = 0;
	buf_reserve(ret, (size_t)st.st_size);
	if (fd_pread(fd, ret->p, (size_t)st.st_size, 0, &got, &err) < 0)
		return false;
	ret->size = got;
	return true;
}

/* Call @fn for the entries of a folder until it returns true. */
static bool each_entry(struct container_names *n, const char *path, unsigned max,
		       bool (*fn)(void *arg, const char *name), void *arg)
{
	int fd = open_state(n, path, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	bool found = false;

	if (!d) {
		fd_close(&fd);
		return false;
	}
	for (unsigned i = 0; i < max && !found && (e = readdir(d)); i++)
		if (e->d_name[0] != '.')
			found = fn(arg, e->d_name);
	closedir(d);
	return found;
}

/* ---- the places ---- */

struct container_search {
	struct container_names *n;
	const char *id;
	const char *folder;
	struct container_name *ret;
	struct buf text;
};

static bool spec_of_namespace(void *arg, const char *name)
{
	struct container_search *s = arg;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s/config.json", s->folder, name, s->id);
	return read_state(s->n, path, SPEC_SIZE, &s->text) &&
	       container_parse_spec(buf_bytes(&s->text), s->ret);
}

static bool search_containerd(struct container_search *s)
{
	static const char *const folders[] = { "run/containerd/io.containerd.runtime.v2.task",
					       "run/k3s/containerd/io.containerd.runtime.v2.task" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		s->folder = folders[i];
		if (each_entry(s->n, s->folder, NAMESPACES, spec_of_namespace, s))
			return true;
	}
	return false;
}

static bool search_docker(struct container_search *s)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "var/lib/docker/containers/%s/config.v2.json", s->id);
	return read_state(s->n, path, SPEC_SIZE, &s->text) &&
	       container_parse_docker(buf_bytes(&s->text), s->ret);
}

static bool search_storage(struct container_search *s)
{
	static const char *const lists[] = {
		"var/lib/containers/storage/overlay-containers/containers.json",
		"var/lib/containers/storage/overlay-containers/volatile-containers.json",
		"var/lib/containers/storage/vfs-containers/containers.json",
	};
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "run/containers/storage/overlay-containers/%s/userdata/config.json",
		 s->id);
	if (read_state(s->n, path, SPEC_SIZE, &s->text) && container_parse_spec(buf_bytes(&s->text), s->ret))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (read_state(s->n, lists[i], CONTAINER_MAX_FILE, &s->text) &&
		    container_parse_storage(buf_bytes(&s->text), str_of(s->id), s->ret))
			return true;
	return false;
}

static bool log_of_container(void *arg, const char *name)
{
	const struct container_search *s = arg;

	return container_parse_log(str_of(name), str_of(s->id), s->ret);
}

static bool search_logs(struct container_search *s)
{
	return each_entry(s->n, "var/log/containers", CONTAINER_MAX_NAMES, log_of_container, s);
}

static bool search_container(struct container_names *n, const char *id, struct container_name *ret)
{
	/* The kubelet's links come last: a folder of some hundred names, and they appear after the start of a container. */
	static bool (*const places[])(struct container_search * s) = { search_containerd, search_docker,
								       search_storage, search_logs };
	struct container_search s = { .n = n, .id = id, .ret = ret };
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !found; i++) {
		container_name_done(ret);
		found = places[i](&s);
	}
	buf_done(&s.text);
	return found;
}

/* ---- known names ---- */

struct container_names *container_names_new(const char *root)
{
	struct container_names *n = NEW(struct container_names);

	n->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n->root < 0)
		snprintf(n->stats.error, sizeof(n->stats.error), "%.100s: %s", root, strerror(errno));
	return n;
}

static void forget_containers(struct container_names *n)
{
	struct bytes ignored;
	void *value;

	map_each (&n->by_id, it, &ignored, &value) {
		struct container_entry *e = value;

		container_name_done(&e->name);
		free(e->id);
		free(e);
	}
	map_done(&n->by_id);
	n->by_id = (struct map){ 0 };
	n->n = 0;
}

void container_names_free(struct container_names *n)
{
	if (!n)
		return;
	forget_containers(n);
	fd_close(&n->root);
	free(n);
}

static bool is_searchable(struct str id)
{
	if (id.size < CGROUP_ID_MIN || id.size > ID_MAX_SIZE)
		return false;
	for (size_t i = 0; i < id.size; i++)
		if (hex_digit(id.p[i], false) < 0)
			return false;
	return true;
}

static struct container_entry *entry_of_container(struct container_names *n, struct str id)
{
	struct container_entry *e = map_get(&n->by_id, bytes_of(id.p, id.size));

	if (e)
		return e;
	if (n->n >= CONTAINERS_MAX)
		forget_containers(n);
	e = NEW(struct container_entry);
	e->id = mem_strndup(id.p, id.size);
	map_put(&n->by_id, bytes_of(e->id, id.size), e);
	n->n++;
	return e;
}

static void look_for_container(struct container_names *n, struct container_entry *e, int64_t now_ms)
{
	struct container_name found = { 0 };

	if (search_container(n, e->id, &found)) {
		n->stats.n_named += !e->is_named;
		container_name_done(&e->name);
		e->name = found;
		e->is_named = true;
		e->next_ms = now_ms + LAST_MS;
		return;
	}
	container_name_done(&found);
	n->stats.n_unnamed += !e->is_named && !e->n_tries;
	e->next_ms = now_ms + clock_backoff(FIRST_MS, e->n_tries++, LAST_MS);
}

const struct container_name *container_names_get(struct container_names *n, const struct cgroup_facts *c,
						 int64_t *ret_again_ms)
{
	int64_t now_ms = clock_mono_ms();
	struct container_entry *e;

	*ret_again_ms = 0;
	if (!is_searchable(c->container))
		return NULL;
	e = entry_of_container(n, c->container);
	if (now_ms >= e->next_ms)
		look_for_container(n, e, now_ms);
	if (e->is_named)
		return &e->name;
	*ret_again_ms = e->next_ms;
	return NULL;
}

void container_names_stats(const struct container_names *n, struct container_stats *ret)
{
	*ret = n->stats;
}
