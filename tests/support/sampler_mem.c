/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler_mem.h"

#include <stdlib.h>

struct mem_item {
	bool is_event;
	struct sampler_event event;
	struct sampler_sample sample;
	struct sampler_raw raw;
};

struct mem_sampler {
	struct mem_item *items;
	size_t n_items, room_items;
	size_t n_sets, n_drops, n_tables;
	bool fail, awake;
	int64_t used_ns[SAMPLER_MAX_FILES];
};

static void *copy_of(const void *p, size_t n, size_t size)
{
	void *copy = mem_realloc(NULL, n + 1, size);

	if (n)
		memcpy(copy, p, n * size);
	return copy;
}

static void item_done(struct mem_item *item)
{
	free((void *)item->sample.kernel);
	free((void *)item->sample.user);
	if (item->sample.raw)
		free((void *)item->raw.stack.p);
}

static int mem_sampler_poll(struct sampler *s, int timeout_ms, struct err *err)
{
	struct mem_sampler *m = s->impl;
	struct mem_item *items = m->items;
	size_t n = m->n_items;

	m->items = NULL;
	m->n_items = m->room_items = 0;
	for (size_t i = 0; i < n; i++) {
		if (items[i].is_event) {
			sampler_tell(s, &items[i].event);
			continue;
		}
		if (items[i].sample.raw)
			items[i].sample.raw = &items[i].raw;
		sampler_take(s, &items[i].sample);
		item_done(&items[i]);
	}
	free(items);
	return 0;
}

static int mem_sampler_fd(const struct sampler *s)
{
	return -1;
}

static int mem_process_set(struct sampler *s, const struct sampler_process *p, struct err *err)
{
	struct mem_sampler *m = s->impl;

	if (m->fail)
		return err_set(err, ERR_LIMIT, "no room");
	m->n_sets++;
	return 0;
}

static void mem_process_drop(struct sampler *s, uint32_t pid)
{
	((struct mem_sampler *)s->impl)->n_drops++;
}

static int mem_table_keep(struct sampler *s, struct bytes table, struct sampler_table *ret, struct err *err)
{
	struct mem_sampler *m = s->impl;

	if (m->fail)
		return err_set(err, ERR_LIMIT, "no room");
	m->n_tables++;
	ret->bytes = (struct bytes){ copy_of(table.p, table.size, 1), table.size };
	return 0;
}

static void mem_table_drop(struct sampler *s, struct sampler_table *t)
{
	free((void *)t->bytes.p);
}

static int64_t mem_file_used(struct sampler *s, uint32_t file)
{
	return ((struct mem_sampler *)s->impl)->used_ns[sampler_file_index(file)];
}

static bool mem_is_asleep(struct sampler *s, uint32_t task, int64_t out_ns)
{
	return !((struct mem_sampler *)s->impl)->awake;
}

static void mem_sampler_stats(struct sampler *s, struct sampler_stats *add)
{
}

static void mem_sampler_close(struct sampler *s)
{
	struct mem_sampler *m = s->impl;

	for (size_t i = 0; i < m->n_items; i++)
		if (!m->items[i].is_event)
			item_done(&m->items[i]);
	free(m->items);
	free(m);
}

struct sampler *sampler_mem_new(const struct sampler_options *options)
{
	static const struct sampler_ops ops = {
		.poll = mem_sampler_poll,
		.fd = mem_sampler_fd,
		.process_set = mem_process_set,
		.process_drop = mem_process_drop,
		.table_keep = mem_table_keep,
		.table_drop = mem_table_drop,
		.file_used = mem_file_used,
		.is_asleep = mem_is_asleep,
		.stats = mem_sampler_stats,
		.close = mem_sampler_close,
	};
	struct sampler_options o = options ? *options : (struct sampler_options){ 0 };

	struct sampler *s;

	if (sampler_options_check(&o, NULL))
		abort();
	s = sampler_new(&ops, NEW(struct mem_sampler), SAMPLER_FAKE, &o);
	if (o.off_cpu)
		s->sleeps = sampler_sleeps_new();
	return s;
}

void sampler_mem_awake(struct sampler *s)
{
	((struct mem_sampler *)s->impl)->awake = true;
}

void sampler_mem_sample(struct sampler *s, const struct sampler_sample *sample)
{
	struct mem_sampler *m = s->impl;
	struct mem_item *item = &VEC_PUSH(m->items, m->n_items, m->room_items);

	*item = (struct mem_item){ .sample = *sample };
	item->sample.kernel = copy_of(sample->kernel, sample->n_kernel, sizeof(*sample->kernel));
	item->sample.user = copy_of(sample->user, sample->n_user, sizeof(*sample->user));
	if (sample->raw) {
		item->raw = *sample->raw;
		item->raw.stack.p = copy_of(sample->raw->stack.p, sample->raw->stack.size, 1);
	}
}

void sampler_mem_event(struct sampler *s, const struct sampler_event *event)
{
	struct mem_sampler *m = s->impl;

	VEC_PUSH(m->items, m->n_items, m->room_items) = (struct mem_item){ .is_event = true,
									   .event = *event };
}

size_t sampler_mem_n_process_sets(const struct sampler *s)
{
	return ((struct mem_sampler *)s->impl)->n_sets;
}

size_t sampler_mem_n_process_drops(const struct sampler *s)
{
	return ((struct mem_sampler *)s->impl)->n_drops;
}

size_t sampler_mem_n_tables(const struct sampler *s)
{
	return ((struct mem_sampler *)s->impl)->n_tables;
}

void sampler_mem_fail(struct sampler *s, bool fail)
{
	((struct mem_sampler *)s->impl)->fail = fail;
}

void sampler_mem_used(struct sampler *s, uint32_t file, int64_t time_ns)
{
	((struct mem_sampler *)s->impl)->used_ns[sampler_file_index(file)] = time_ns;
}
