/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing pprof's profile.proto in the order of Go's runtime: small fields that identify it first, the
 * strings last. Fields that are zero are left out, as in proto3.
 */
#include "profile/internal.h"

#include <stdlib.h>
#include "codec/codec.h"
#include "wire/proto.h"

#define GZIP_LEVEL 6 /* as in Go */

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

static void put_location(struct buf *b, const struct profile *p, uint32_t i, struct buf *m, struct buf *sub)
{
	const struct profile_location *l = &p->locations.p[i];

	proto_put_number(m, 1, (uint64_t)i + 1);
	proto_put_number(m, 2, l->mapping == PROFILE_NONE ? 0 : (uint64_t)l->mapping + 1);
	proto_put_number(m, 3, l->addr);
	for (uint32_t k = 0; k < l->n_lines; k++) {
		const struct profile_line *line = &p->lines.p[l->first_line + k];

		proto_put_number(sub, 1, (uint64_t)line->function + 1);
		proto_put_number(sub, 2, (uint64_t)line->line);
		proto_put_number(sub, 3, (uint64_t)line->column);
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

static void pprof_put_sample(struct buf *b, const struct profile *p, uint32_t i, struct buf *m,
			     struct buf *sub)
{
	const struct profile_label_set *set = &p->label_sets.p[p->sample_labels[i]];

	for (uint32_t s = p->sample_stack[i]; s; s = p->stacks.p[s].parent)
		buf_add_uleb(sub, (uint64_t)p->stacks.p[s].location + 1);
	if (sub->size)
		proto_put_message(m, 1, sub);
	for (uint32_t t = 0; t < p->types.n; t++)
		buf_add_uleb(sub, (uint64_t)profile_value(p, i, t));
	proto_put_message(m, 2, sub);
	for (uint32_t k = 0; k < set->n; k++)
		put_label(m, &p->labels.p[set->first + k], sub);
	proto_put_message(b, PPROF_SAMPLE, m);
}

static void put_all(const struct profile *p, struct buf *out, struct buf *m, struct buf *sub)
{
	for (uint32_t i = 0; i < p->types.n; i++)
		put_type(out, PPROF_SAMPLE_TYPE, &p->types.p[i], m);
	for (uint32_t i = 0; i < p->n_samples && !buf_is_over(out); i++)
		pprof_put_sample(out, p, i, m, sub);
	for (uint32_t i = 0; i < p->mappings.n; i++)
		put_mapping(out, &p->mappings.p[i], i + 1, m);
	for (uint32_t i = 0; i < p->locations.n; i++)
		put_location(out, p, i, m, sub);
	for (uint32_t i = 0; i < p->functions.n; i++)
		put_function(out, &p->functions.p[i], i + 1, m);
	for (uint32_t i = 0; i < p->strings.n && !buf_is_over(out); i++)
		proto_put_bytes(out, PPROF_STRING, p->strings.p[i].p, p->strings.p[i].size);
	proto_put_number(out, PPROF_DROP_FRAMES, p->drop_frames);
	proto_put_number(out, PPROF_KEEP_FRAMES, p->keep_frames);
	proto_put_number(out, PPROF_TIME, (uint64_t)p->time_ns);
	proto_put_number(out, PPROF_DURATION, (uint64_t)p->duration_ns);
	if (p->period_type.type || p->period_type.unit)
		put_type(out, PPROF_PERIOD_TYPE, &p->period_type, m);
	proto_put_number(out, PPROF_PERIOD, (uint64_t)p->period);
	for (uint32_t i = 0; i < p->comments.n; i++)
		buf_add_uleb(sub, p->comments.p[i]);
	if (sub->size)
		proto_put_message(out, PPROF_COMMENT, sub);
	proto_put_number(out, PPROF_DEFAULT_TYPE, p->default_type);
	proto_put_number(out, PPROF_DOC_URL, p->doc_url);
}

int profile_write_pprof(const struct profile *p, bool gzip, struct buf *out, struct err *err)
{
	AUTO(buf_done) struct buf plain = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf sub = { 0 };

	buf_meter(&plain, out->hold);
	put_all(p, gzip ? &plain : out, &m, &sub);
	if (buf_check(&plain, err) < 0)
		return -1;
	return gzip ? codec_pack_gzip(buf_bytes(&plain), GZIP_LEVEL, out, err) : 0;
}
