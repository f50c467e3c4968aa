/* SPDX-License-Identifier: Apache-2.0 */
#include "stored.h"

#include <semaphore.h>

int64_t stored_now_ms = NOW_MS;

static int64_t now_ms(void)
{
	return stored_now_ms;
}

void stored_open_there(struct stored *t)
{
	struct err err = { 0 };

	t->o.dir = t->dir;
	t->o.now_ms = now_ms;
	assert_done(profilestore_open(&t->o, &t->s, &err));
}

void stored_open(struct stored *t)
{
	stored_now_ms = NOW_MS;
	test_dir_make(t->dir);
	stored_open_there(t);
}

void stored_again(struct stored *t)
{
	profilestore_close(t->s);
	stored_open_there(t);
}

void stored_done(struct stored *t)
{
	profilestore_close(t->s);
	test_dir_remove(t->dir);
}

struct profile *stored_profile(uint64_t seed, int64_t time_ms)
{
	const struct profile_maker m = { seed, 1, 60, 90, 12, seed % 3 == 0 };
	struct profile *p = profile_make(&m);

	p->time_ns = time_ms * 1000000;
	p->duration_ns = INT64_C(10000000000);
	return p;
}

struct profilestore_receipt stored_add(struct stored *t, const struct profile *p, const char *service)
{
	const struct profilestore_label l = { STR("service"), str_of(service) };
	struct profilestore_receipt r;
	struct err err = { 0 };

	assert_done(profilestore_add_wait(t->s, p, &l, 1, &r, &err));
	return r;
}

struct uploading {
	struct profilestore_receipt receipt;
	sem_t done;
};

static void on_uploaded(void *arg, const struct profilestore_receipt *r, const struct err *err)
{
	struct uploading *up = arg;

	assert_null(err);
	up->receipt = *r;
	sem_post(&up->done);
}

struct profilestore_receipt stored_upload(struct stored *t, const struct profilestore_upload *u)
{
	struct uploading up = { 0 };
	struct err err = { 0 };

	sem_init(&up.done, 0, 0);
	assert_done(profilestore_add(t->s, u, on_uploaded, &up, &err));
	while (sem_wait(&up.done) < 0)
		;
	sem_destroy(&up.done);
	return up.receipt;
}

void stored_two_services(struct stored *t, unsigned n)
{
	stored_open(t);
	for (uint64_t i = 0; i < n; i++) {
		struct profile *p = stored_profile(i, NOW_MS - (int64_t)(i + 1) * MINUTE);

		stored_add(t, p, i % 2 ? "web" : "shop");
		profile_free(p);
	}
}

struct profilestore_range stored_range(const char *selector, int64_t from_ms, int64_t to_ms)
{
	struct profilestore_range r = { NULL, from_ms, to_ms, 0 };
	struct err err = { 0 };

	if (selector)
		assert_done(selector_parse(str_of(selector), (struct selector **)&r.sel, &err));
	return r;
}

void stored_range_done(struct profilestore_range *r)
{
	selector_free((struct selector *)r->sel);
}

struct profilestore_merged stored_merge(struct stored *t, const char *selector, int64_t from_ms,
					int64_t to_ms)
{
	struct profilestore_range r = stored_range(selector, from_ms, to_ms);
	struct profilestore_merged m;
	struct err err = { 0 };

	assert_done(profilestore_merge(t->s, &r, NULL, NULL, &m, &err));
	stored_range_done(&r);
	return m;
}

/* ---- what a profile says ---- */

static void location_text(const struct profile *p, const struct profile_location *l, struct buf *b)
{
	if (l->mapping != PROFILE_NONE) {
		const struct profile_mapping *m = &p->mappings.p[l->mapping];

		buf_printf(b, " <" STR_FMT "|%llx>", STR_ARG(profile_str(p, m->file)),
			   (unsigned long long)(l->addr - m->start + m->offset));
	} else {
		buf_printf(b, " <%llx>", (unsigned long long)l->addr);
	}
	profile_lines_text(p, l, b);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char *stored_text(const struct profile *p, uint32_t type)
{
	struct map sums = { 0 };
	AUTO(buf_done) struct buf key = { 0 };
	struct buf out = { 0 };
	char **lines;
	size_t n = 0;
	struct bytes k;
	void *v;

	for (uint32_t i = 0; i < p->n_samples; i++) {
		int64_t *sum;

		key.size = 0;
		for (uint32_t s = p->sample_stack[i]; s; s = p->stacks.p[s].parent)
			location_text(p, &p->locations.p[p->stacks.p[s].location], &key);
		buf_add_char(&key, ' ');
		sum = map_get(&sums, buf_bytes(&key));
		if (!sum) {
			sum = NEW(int64_t);
			map_put(&sums, buf_bytes(&key), sum);
		}
		*sum += profile_value(p, i, type);
	}
	lines = NEW_N(char *, sums.n + 1);
	map_each (&sums, it, &k, &v) {
		int64_t *sum = v;

		if (*sum)
			lines[n++] = mem_printf("%.*s= %lld", (int)k.size, (const char *)k.p,
						(long long)*sum);
		free(sum);
	}
	map_done(&sums);
	qsort(lines, n, sizeof(*lines), by_text);
	for (size_t i = 0; i < n; i++) {
		buf_printf(&out, "%s\n", lines[i]);
		free(lines[i]);
	}
	free(lines);
	buf_add_char(&out, '\0');
	return (char *)out.p;
}

void stored_groom(struct stored *t)
{
	struct err err = { 0 };
	bool more = true;

	while (more)
		assert_done(profilestore_groom(t->s, &more, &err));
}
