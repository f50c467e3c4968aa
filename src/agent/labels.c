/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A label becomes a series in the store, so values that vary without need are made equal: a worker of the kernel has the name
 * of its kind, a systemd scope or session no unit.
 */
#include "agent/labels.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash_index.h"
#include "base/vec.h"

#define VALUE_MAX 256u

struct label_maker {
	struct label_options o;
	struct relabel *rules;
	struct arena arena;
	struct agent_labels *sets;
	size_t n, room;
	struct map known; /* text of a set -> number + 1 */
	uint32_t round;
	struct container_names *containers; /* NULL: IDs only */
	int64_t again_ms;
};

static void add_first_sets(struct label_maker *m)
{
	VEC_PUSH(m->sets, m->n, m->room) = (struct agent_labels){ 0 };
	VEC_PUSH(m->sets, m->n, m->room) = (struct agent_labels){ .v = { { STR("comm"), STR("[other]") } },
								  .n = 1 };
}

struct label_maker *label_maker_new(const struct label_options *o, struct relabel *rules)
{
	struct label_maker *m = NEW(struct label_maker);

	m->o = *o;
	m->rules = rules;
	arena_init(&m->arena);
	if (o->root)
		m->containers = container_names_new(o->root);
	add_first_sets(m);
	return m;
}

void label_maker_free(struct label_maker *m)
{
	if (!m)
		return;
	container_names_free(m->containers);
	map_done(&m->known);
	free(m->sets);
	arena_done(&m->arena);
	free(m);
}

/* "kworker/u8:3-events" is "kworker", "ksoftirqd/1" is "ksoftirqd", "irq/24-virtio" is "irq". */
static struct str kernel_thread_name(struct str comm)
{
	struct str name = str_cut(&comm, '/');

	while (name.size > 1 && isdigit((unsigned char)name.p[name.size - 1]))
		name.size--;
	return name;
}

/* A valid value: UTF-8 without control characters, of limited length. */
static struct str valid_label_value(struct arena *a, struct str s)
{
	char *out = arena_alloc(a, VALUE_MAX);
	size_t n = 0;

	while (s.size) {
		uint32_t code = 0;
		size_t size = str_utf8(s, &code);
		bool good = size && code >= 0x20 && !(code >= 0x7f && code < 0xa0);

		size = size ? size : 1;
		if (n + size > VALUE_MAX)
			break;
		if (good)
			memcpy(out + n, s.p, size);
		else
			out[n] = '?';
		n += good ? size : 1;
		s.p += size;
		s.size -= size;
	}
	return (struct str){ out, n };
}

static void add_process_label(struct agent_labels *l, struct arena *a, const char *name, struct str value)
{
	if (value.size)
		agent_labels_set(l, str_of(name), valid_label_value(a, value));
}

/* Units that are started by the thousand under names of their own are no services. */
static struct str service_of(const struct cgroup_facts *f)
{
	struct str s = f->unit;

	if (!str_ends(s, STR(".service")))
		return STR("");
	s.size -= STR(".service").size;
	/* An instance of a template: "getty@tty1", "user@1000". */
	for (size_t i = 0; i < s.size; i++)
		if (s.p[i] == '@')
			s.size = i;
	return s;
}

static void add_container_name(struct agent_labels *l, struct arena *a, const char *name, const char *value)
{
	if (value)
		add_process_label(l, a, name, str_of(value));
}

/* The names, else the IDs: "pod" is a UID then. */
static void add_container_labels(struct label_maker *m, struct cgroup_facts *c, struct agent_labels *l,
				 struct arena *a)
{
	const struct container_name *n = m->containers ? container_names_get(m->containers, c, &m->again_ms)
						       : NULL;

	if (n) {
		add_container_name(l, a, "service", n->service);
		add_container_name(l, a, "container", n->container);
		add_container_name(l, a, "pod", n->pod);
		add_container_name(l, a, "namespace", n->space);
		return;
	}
	/* As the tools of containers print it. */
	c->container.size = c->container.size == 64 ? 12 : c->container.size;
	add_process_label(l, a, "container", c->container);
	add_process_label(l, a, "pod", c->pod);
}

static void make_labels(struct label_maker *m, const struct label_facts *f, struct arena *a,
			struct agent_labels *ret)
{
	struct cgroup_facts c;
	char number[16];

	*ret = (struct agent_labels){ 0 };
	cgroup_read(f->cgroup, &c);
	add_process_label(ret, a, "comm", f->is_kernel ? kernel_thread_name(f->comm) : f->comm);
	add_process_label(ret, a, "service", service_of(&c));
	add_process_label(ret, a, "unit", c.unit);
	add_container_labels(m, &c, ret, a);
	if (m->o.exe && f->exe.size)
		add_process_label(ret, a, "exe", path_basename(f->exe));
	if (m->o.cgroup)
		add_process_label(ret, a, "cgroup", c.path);
	if (m->o.pid) {
		snprintf(number, sizeof(number), "%u", f->pid);
		add_process_label(ret, a, "pid", str_of(number));
	}
}

static int label_by_name(const void *a, const void *b)
{
	return str_cmp(((const struct agent_label *)a)->name, ((const struct agent_label *)b)->name);
}

static uint32_t intern_set(struct label_maker *m, struct agent_labels *l)
{
	AUTO(buf_done) struct buf key = { 0 };
	void *known;

	qsort(l->v, l->n, sizeof(*l->v), label_by_name);
	for (size_t i = 0; i < l->n; i++) {
		buf_add_str(&key, l->v[i].name);
		buf_add_char(&key, '\0');
		buf_add_str(&key, l->v[i].value);
		buf_add_char(&key, '\0');
	}
	known = map_get(&m->known, buf_bytes(&key));
	if (known)
		return (uint32_t)(uintptr_t)known - 1;
	if (m->n >= LABEL_SETS_MAX)
		return LABEL_SET_OTHER;
	for (size_t i = 0; i < l->n; i++)
		l->v[i] = (struct agent_label){ arena_str(&m->arena, l->v[i].name),
						arena_str(&m->arena, l->v[i].value) };
	VEC_PUSH(m->sets, m->n, m->room) = *l;
	map_put(&m->known, buf_bytes(&key), (void *)(uintptr_t)m->n);
	return (uint32_t)(m->n - 1);
}

bool label_maker_get(struct label_maker *m, const struct label_facts *f, uint32_t *ret)
{
	AUTO(arena_done) struct arena a;
	struct agent_labels l;

	arena_init(&a);
	m->again_ms = 0;
	make_labels(m, f, &a, &l);
	if (m->rules && !relabel_apply(m->rules, &l))
		return false;
	*ret = l.n ? intern_set(m, &l) : LABEL_SET_NONE;
	return true;
}

int64_t label_maker_again_ms(const struct label_maker *m)
{
	return m->again_ms;
}

bool label_maker_containers(const struct label_maker *m, struct container_stats *ret)
{
	if (m->containers)
		container_names_stats(m->containers, ret);
	return m->containers;
}

const struct agent_labels *label_maker_set(const struct label_maker *m, uint32_t number)
{
	return &m->sets[number < m->n ? number : LABEL_SET_OTHER];
}

size_t label_maker_n(const struct label_maker *m)
{
	return m->n;
}

void label_maker_renew(struct label_maker *m)
{
	if (m->n < LABEL_SETS_MAX)
		return;
	map_done(&m->known);
	m->known = (struct map){ 0 };
	arena_reset(&m->arena);
	m->n = 0;
	add_first_sets(m);
	m->round++;
}

uint32_t label_maker_round(const struct label_maker *m)
{
	return m->round;
}
