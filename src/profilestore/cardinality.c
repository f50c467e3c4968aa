/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label to blame when there are too many series: of a sender, or of all. Owned by the writer.
 */
#include "profilestore/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define SEEN_MAX   16384u /* series that are looked at, the newest first */
#define BLAMED_MS  60000  /* a label is blamed so long before they are looked at again */
#define LABELS_MAX 64u    /* names; further ones are not looked at */

/* The values of a label. */
struct label_values {
	struct str name;
	struct map values;
};

struct blame {
	struct label_values v[LABELS_MAX];
	size_t n;
	uint32_t n_series;
};

static void blame_label(struct blame *b, const struct profilestore_label *l)
{
	size_t i = 0;

	while (i < b->n && !str_eq(b->v[i].name, l->name))
		i++;
	if (i == LABELS_MAX)
		return;
	if (i == b->n)
		b->v[b->n++] = (struct label_values){ .name = l->name };
	map_put(&b->v[i].values, bytes_of(l->value.p, l->value.size), b);
}

/* The series of @x; NULL: all. */
static void blame_series(struct profilestore *s, const struct sender *x, struct blame *b)
{
	for (uint32_t i = column_n(&s->series); i-- && b->n_series < SEEN_MAX;) {
		const struct series *one = series_at(&s->series, i);

		if (!one || (x && one->sender != x))
			continue;
		b->n_series++;
		for (size_t k = 0; k < one->n_labels; k++)
			blame_label(b, &one->labels[k]);
	}
}

static void blame_write(struct profilestore *s, const struct sender *x, struct blamed_label *ret)
{
	struct blame *b = NEW(struct blame);
	const struct label_values *most = NULL;

	blame_series(s, x, b);
	for (size_t i = 0; i < b->n; i++)
		if (!most || b->v[i].values.n > most->values.n)
			most = &b->v[i];
	ret->until_ms = clock_mono_ms() + BLAMED_MS;
	if (most)
		snprintf(ret->text, sizeof(ret->text),
			 ": the label '%.*s' has %u values in the newest %u of them; do not send it",
			 (int)MIN(most->name.size, (size_t)64), most->name.p, (unsigned)most->values.n,
			 b->n_series);
	for (size_t i = 0; i < b->n; i++)
		map_done(&b->v[i].values);
	free(b);
}

void series_err_limit(struct profilestore *s, struct sender *x, bool alone, struct err *err)
{
	struct blamed_label *l = x ? &x->blamed : &s->blamed;

	/* The text stays empty if no series has a label: that is an answer, too. */
	if (clock_mono_ms() >= l->until_ms)
		blame_write(s, x, l);
	if (x)
		(void)err_set(err, ERR_LIMIT,
			      "the sender '%s' has %u series, its share of the %u that there may be%s%s",
			      x->name, x->n_series, s->max_series, l->text,
			      alone ? "" : ", or raise --profiles-sender-share");
	else
		(void)err_set(err, ERR_LIMIT, "there are %u series, the limit%s", s->max_series, l->text);
	err->os = PROFILESTORE_TOO_MANY_SERIES;
}
