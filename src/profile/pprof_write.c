/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing pprof's profile.proto in the order of Go's runtime: small fields that identify it first, the
 * strings last. Fields that are zero are left out, as in proto3.
 *
 * It is passed on in blocks as it is made, so that a profile whose stacks are kept elsewhere is never whole in memory.
 * Locations that are kept elsewhere come before the mappings, which are complete after the last of them.
 */
#include "profile/internal.h"

#include <stdlib.h>
#include "codec/codec.h"
#include "profile/trie.h"
#include "wire/proto.h"

#define GZIP_LEVEL     6 /* as in Go */
#define BLOCK          KIB(64)
#define STEPS_OF_FRAME 4u

/* ---- messages ---- */

static void put_type(struct buf *b, uint32_t field, const struct profile_type *t, struct buf *m)
{
	proto_put_number(m, 1, t->type);
	proto_put_number(m, 2, t->unit);
	proto_put_message(b, field, m);
}

static void put_mapping(struct buf *b, const struct profile_mapping *map, uint32_t id, struct buf *m)
{
	proto_put_number(m, 1, id);
	proto_put_number(m, 2, map->start);
	proto_put_number(m, 3, map->limit);
	proto_put_number(m, 4, map->offset);
	proto_put_number(m, 5, map->file);
	proto_put_number(m, 6, map->build_id);
	for (uint32_t i = 0; i < 4; i++)
		proto_put_number(m, 7 + i, map->flags >> i & 1);
	proto_put_message(b, PPROF_MAPPING, m);
}

static void put_function(struct buf *b, const struct profile_function *f, uint32_t id, struct buf *m)
{
	proto_put_number(m, 1, id);
	proto_put_number(m, 2, f->name);
	proto_put_number(m, 3, f->system_name);
	proto_put_number(m, 4, f->file);
	proto_put_number(m, 5, (uint64_t)f->start_line);
	proto_put_message(b, PPROF_FUNCTION, m);
}

static void put_location(struct buf *b, const struct profile_location *l, const struct profile_line *lines,
			 uint64_t id, struct buf *m, struct buf *sub)
{
	proto_put_number(m, 1, id);
	proto_put_number(m, 2, l->mapping == PROFILE_NONE ? 0 : (uint64_t)l->mapping + 1);
	proto_put_number(m, 3, l->addr);
	for (uint32_t k = 0; k < l->n_lines; k++) {
		proto_put_number(sub, 1, (uint64_t)lines[k].function + 1);
		proto_put_number(sub, 2, (uint64_t)lines[k].line);
		proto_put_number(sub, 3, (uint64_t)lines[k].column);
		proto_put_message(m, 4, sub);
	}
	proto_put_number(m, 5, l->folded);
	proto_put_message(b, PPROF_LOCATION, m);
}

static void put_label(struct buf *b, const struct profile_label *l, struct buf *m)
{
	proto_put_number(m, 1, l->key);
	proto_put_number(m, 2, l->str);
	proto_put_number(m, 3, (uint64_t)l->num);
	proto_put_number(m, 4, l->unit);
	proto_put_message(b, 3, m);
}

/* ---- in parts ---- */

struct profile_pprof {
	struct profile_writer to;
	struct codec_gzip *gzip; /* NULL: not compressed */
	struct deadline *deadline;
	struct buf out; /* not passed on yet */
	struct buf m, sub;
	bool begun; /* the types are written */
};

int profile_pprof_new(const struct profile_writer *to, bool gzip, struct deadline *deadline,
		      struct profile_pprof **ret, struct err *err)
{
	struct profile_pprof *w = NEW(struct profile_pprof);

	w->to = *to;
	w->deadline = deadline;
	w->gzip = gzip ? codec_gzip_new(GZIP_LEVEL, to->write, to->arg, err) : NULL;
	if (gzip && !w->gzip) {
		profile_pprof_free(w);
		return -1;
	}
	*ret = w;
	return 0;
}

void profile_pprof_free(struct profile_pprof *w)
{
	if (!w)
		return;
	codec_gzip_free(w->gzip);
	buf_done(&w->out);
	buf_done(&w->m);
	buf_done(&w->sub);
	free(w);
}

static int pprof_flush(struct profile_pprof *w, struct err *err)
{
	struct bytes b = buf_bytes(&w->out);

	w->out.size = 0;
	if (!b.size)
		return 0;
	return w->gzip ? codec_gzip_write(w->gzip, b, err) : w->to.write(w->to.arg, b, err);
}

/* After each entry. */
static inline int pprof_pass_on(struct profile_pprof *w, uint32_t steps, struct err *err)
{
	if (deadline_check(w->deadline, steps, err) < 0)
		return -1;
	return w->out.size < BLOCK ? 0 : pprof_flush(w, err);
}

static void pprof_begin(struct profile_pprof *w, const struct profile *p)
{
	for (uint32_t i = 0; i < p->types.n && !w->begun; i++)
		put_type(&w->out, PPROF_SAMPLE_TYPE, &p->types.p[i], &w->m);
	w->begun = true;
}

/* The stack's locations are in w->sub. */
static void pprof_put_sample(struct profile_pprof *w, const struct profile *p, const int64_t *values,
			     uint32_t labels)
{
	const struct profile_label_set *set = &p->label_sets.p[labels];

	if (w->sub.size)
		proto_put_message(&w->m, 1, &w->sub);
	for (uint32_t t = 0; t < p->types.n; t++)
		buf_add_uleb(&w->sub, (uint64_t)values[t]);
	proto_put_message(&w->m, 2, &w->sub);
	for (uint32_t k = 0; k < set->n; k++)
		put_label(&w->m, &p->labels.p[set->first + k], &w->sub);
	proto_put_message(&w->out, PPROF_SAMPLE, &w->m);
}

int profile_pprof_add(struct profile_pprof *w, const struct profile *p, struct err *err)
{
	pprof_begin(w, p);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		for (uint32_t s = p->sample_stack[i]; s; s = p->stacks.p[s].parent)
			buf_add_uleb(&w->sub, (uint64_t)p->stacks.p[s].location + 1);
		pprof_put_sample(w, p, p->values + (size_t)i * p->types.n, p->sample_labels[i]);
		if (pprof_pass_on(w, 1, err) < 0)
			return -1;
	}
	return 0;
}

/* The stack's value without that of the base. */
static int64_t pprof_difference(const struct profile_trie *in, uint64_t stack)
{
	int64_t base = in->base ? profile_scaled(in->base[stack], -in->scale) : 0;

	return add_saturating(in->values[stack], base);
}

int profile_pprof_add_trie(struct profile_pprof *w, const struct profile *p, const struct profile_trie *in,
			   struct err *err)
{
	pprof_begin(w, p);
	trie_each(in, first)
	{
		int64_t value = pprof_difference(in, first);
		uint32_t n = 1;

		if (!value)
			continue;
		for (uint32_t s = (uint32_t)first; s; n++) {
			struct profile_stack stack = in->stack(in->arg, s);

			buf_add_uleb(&w->sub, (uint64_t)stack.location + 1);
			s = stack.parent;
		}
		pprof_put_sample(w, p, &value, in->labels);
		if (pprof_pass_on(w, STEPS_OF_FRAME * n, err) < 0)
			return -1;
	}
	return deadline_check(w->deadline, 0, err);
}

static int put_lent_locations(struct profile_pprof *w, const struct profile *p,
			      const struct profile_lent_locations *from, struct err *err)
{
	const struct profile_line *lines;
	struct profile_location l;
	uint32_t number;

	while (from->next(from->arg, &number, &l, &lines)) {
		/* Its functions may be those of an empty table. */
		if (profile_has_failed(p))
			return profile_err_memory(p, err);
		put_location(&w->out, &l, lines, (uint64_t)number + 1, &w->m, &w->sub);
		if (pprof_pass_on(w, STEPS_OF_FRAME * (1 + l.n_lines), err) < 0)
			return -1;
	}
	return profile_has_failed(p) ? profile_err_memory(p, err) : 0;
}

static int put_tables(struct profile_pprof *w, const struct profile *p,
		      const struct profile_lent_locations *locations, struct err *err)
{
	if (locations && put_lent_locations(w, p, locations, err) < 0)
		return -1;
	for (uint32_t i = 0; i < p->mappings.n; i++)
		put_mapping(&w->out, &p->mappings.p[i], i + 1, &w->m);
	for (uint32_t i = 0; !locations && i < p->locations.n; i++) {
		const struct profile_location *l = &p->locations.p[i];

		put_location(&w->out, l, l->n_lines ? &p->lines.p[l->first_line] : NULL, (uint64_t)i + 1,
			     &w->m, &w->sub);
		if (pprof_pass_on(w, 1, err) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < p->functions.n; i++) {
		put_function(&w->out, &p->functions.p[i], i + 1, &w->m);
		if (pprof_pass_on(w, 1, err) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < p->strings.n; i++) {
		proto_put_bytes(&w->out, PPROF_STRING, p->strings.p[i].p, p->strings.p[i].size);
		if (pprof_pass_on(w, 1, err) < 0)
			return -1;
	}
	return 0;
}

static void put_numbers(struct profile_pprof *w, const struct profile *p)
{
	struct buf *out = &w->out;

	proto_put_number(out, PPROF_DROP_FRAMES, p->drop_frames);
	proto_put_number(out, PPROF_KEEP_FRAMES, p->keep_frames);
	proto_put_number(out, PPROF_TIME, (uint64_t)p->time_ns);
	proto_put_number(out, PPROF_DURATION, (uint64_t)p->duration_ns);
	if (p->period_type.type || p->period_type.unit)
		put_type(out, PPROF_PERIOD_TYPE, &p->period_type, &w->m);
	proto_put_number(out, PPROF_PERIOD, (uint64_t)p->period);
	for (uint32_t i = 0; i < p->comments.n; i++)
		buf_add_uleb(&w->sub, p->comments.p[i]);
	if (w->sub.size)
		proto_put_message(out, PPROF_COMMENT, &w->sub);
	proto_put_number(out, PPROF_DEFAULT_TYPE, p->default_type);
	proto_put_number(out, PPROF_DOC_URL, p->doc_url);
}

int profile_pprof_end(struct profile_pprof *w, const struct profile *p,
		      const struct profile_lent_locations *locations, struct err *err)
{
	pprof_begin(w, p);
	if (put_tables(w, p, locations, err) < 0)
		return -1;
	put_numbers(w, p);
	if (pprof_flush(w, err) < 0)
		return -1;
	return w->gzip ? codec_gzip_end(w->gzip, err) : 0;
}

/* ---- a profile ---- */

static int write_to_buf(void *arg, struct bytes b, struct err *err)
{
	struct buf *out = arg;

	buf_add(out, b.p, b.size);
	return buf_check(out, err);
}

int profile_write_pprof(const struct profile *p, bool gzip, struct buf *out, struct err *err)
{
	const struct profile_writer to = { write_to_buf, out };
	struct profile_pprof *w = NULL;
	int r = profile_pprof_new(&to, gzip, NULL, &w, err);

	if (r == 0)
		r = profile_pprof_add(w, p, err);
	if (r == 0)
		r = profile_pprof_end(w, p, NULL, err);
	profile_pprof_free(w);
	return r;
}
