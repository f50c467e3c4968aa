/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names out of the files of container runtimes. Containers of Kubernetes carry them as annotations, under a prefix of the
 * runtime: containerd has "io.kubernetes.cri.sandbox-name", CRI-O "io.kubernetes.pod.name". A sandbox, the container of a pod's
 * pause process, has no container's name.
 */
#include "agent/container.h"

#include <jansson.h>
#include <stdlib.h>

#define NAME_MAX_SIZE 256u /* a name is longer nowhere; a label is cut there */

void container_name_done(struct container_name *n)
{
	free(n->container);
	free(n->pod);
	free(n->space);
	free(n->service);
	*n = (struct container_name){ 0 };
}

static char *name_of_text(struct str s)
{
	s.size = s.size ? strnlen(s.p, MIN(s.size, (size_t)NAME_MAX_SIZE)) : 0;
	return s.size ? mem_strndup(s.p, s.size) : NULL;
}

/* The first of @keys, a list that ends with NULL, that has a text. */
static char *name_of_keys(const json_t *object, const char *const *keys)
{
	for (; *keys; keys++) {
		const json_t *v = json_object_get(object, *keys);

		if (json_is_string(v) && json_string_length(v))
			return name_of_text((struct str){ json_string_value(v), json_string_length(v) });
	}
	return NULL;
}

static json_t *load_state(struct bytes json)
{
	json_error_t ignored;

	return json_loadb((const char *)json.p, json.size, 0, &ignored);
}

/* A namespace alone names nothing. */
static bool has_any_name(struct container_name *n)
{
	if (n->container || n->pod)
		return true;
	container_name_done(n);
	return false;
}

/* CRI-O and dockershim name the sandbox of a pod "POD". */
static void drop_sandbox(struct container_name *n)
{
	if (n->container && n->pod && strcmp(n->container, "POD") == 0) {
		free(n->container);
		n->container = NULL;
	}
}

bool container_parse_spec(struct bytes json, struct container_name *ret)
{
	static const char *const containers[] = { "io.kubernetes.cri.container-name",
						  "io.kubernetes.container.name", "nerdctl/name", NULL };
	static const char *const pods[] = { "io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name",
					    NULL };
	static const char *const spaces[] = { "io.kubernetes.cri.sandbox-namespace",
					      "io.kubernetes.pod.namespace", NULL };
	json_t *all = load_state(json);
	const json_t *a = json_object_get(all, "annotations");

	*ret = (struct container_name){ name_of_keys(a, containers), name_of_keys(a, pods),
					name_of_keys(a, spaces), NULL };
	json_decref(all);
	drop_sandbox(ret);
	return has_any_name(ret);
}

bool container_parse_docker(struct bytes json, struct container_name *ret)
{
	static const char *const containers[] = { "io.kubernetes.container.name", NULL };
	static const char *const pods[] = { "io.kubernetes.pod.name", NULL };
	static const char *const spaces[] = { "io.kubernetes.pod.namespace", NULL };
	static const char *const services[] = { "com.docker.compose.service", "com.docker.swarm.service.name",
						NULL };
	json_t *all = load_state(json);
	const json_t *labels = json_object_get(json_object_get(all, "Config"), "Labels"),
		     *name = json_object_get(all, "Name");

	*ret = (struct container_name){ name_of_keys(labels, containers), name_of_keys(labels, pods),
					name_of_keys(labels, spaces), name_of_keys(labels, services) };
	if (!ret->container && json_is_string(name)) {
		struct str s = { json_string_value(name), json_string_length(name) };

		/* "/web" */
		while (s.size && *s.p == '/') {
			s.p++;
			s.size--;
		}
		ret->container = name_of_text(s);
	}
	json_decref(all);
	drop_sandbox(ret);
	return has_any_name(ret);
}

/* CRI-O's names: "k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT". None of the parts has an underscore. */
static void take_storage_name(struct str s, struct container_name *ret)
{
	struct str whole = s, head = str_cut(&s, '_'), container = str_cut(&s, '_'), pod = str_cut(&s, '_'),
		   space = str_cut(&s, '_');

	if (!str_eq(head, STR("k8s")) || !pod.size || !space.size || !s.size) {
		ret->container = name_of_text(whole);
		return;
	}
	ret->container = str_eq(container, STR("POD")) ? NULL : name_of_text(container);
	ret->pod = name_of_text(pod);
	ret->space = name_of_text(space);
}

bool container_parse_storage(struct bytes json, struct str id, struct container_name *ret)
{
	json_t *all = load_state(json), *one;
	size_t i;

	*ret = (struct container_name){ 0 };
	json_array_foreach(all, i, one)
	{
		const json_t *v = json_object_get(one, "id"),
			     *name = json_array_get(json_object_get(one, "names"), 0);

		if (!json_is_string(v) || !json_is_string(name) ||
		    !str_eq((struct str){ json_string_value(v), json_string_length(v) }, id))
			continue;
		take_storage_name((struct str){ json_string_value(name), json_string_length(name) }, ret);
		break;
	}
	json_decref(all);
	return has_any_name(ret);
}

bool container_parse_log(struct str file, struct str id, struct container_name *ret)
{
	struct str s = file, pod, space;

	*ret = (struct container_name){ 0 };
	if (!str_ends(s, STR(".log")))
		return false;
	s.size -= STR(".log").size;
	if (s.size <= id.size + 1 || !str_ends(s, id) || s.p[s.size - id.size - 1] != '-')
		return false;
	s.size -= id.size + 1;
	pod = str_cut(&s, '_');
	space = str_cut(&s, '_');
	if (!pod.size || !space.size || !s.size)
		return false;
	*ret = (struct container_name){ name_of_text(s), name_of_text(pod), name_of_text(space), NULL };
	return has_any_name(ret);
}
