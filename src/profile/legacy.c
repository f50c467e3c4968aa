/* SPDX-License-Identifier: Apache-2.0 */
/* Values and memory maps of pprof's older formats. */
#include "profile/legacy.h"

#include <math.h>
#include "profile/words.h"

int64_t legacy_round(double v)
{
	return v >= (double)INT64_MAX ? INT64_MAX : v <= (double)INT64_MIN ? INT64_MIN : (int64_t)v;
}

void legacy_scale_heap(int64_t *n, int64_t *size, uint64_t rate)
{
	double scale;

	if (!*n || !*size) {
		*n = *size = 0;
		return;
	}
	if (rate <= 1)
		return;
	scale = 1 / (1 - exp(-((double)*size / (double)*n) / (double)rate));
	*n = legacy_round((double)*n * scale);
	*size = legacy_round((double)*size * scale);
}

int64_t legacy_multiply(int64_t a, int64_t b)
{
	int64_t v;

	return __builtin_mul_overflow(a, b, &v) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : v;
}

/* The beginning of the line with the first @head; NULL: there is none. */
static const char *find_map_head(struct str text, struct str head)
{
	const char *at = text.size ? memmem(text.p, text.size, head.p, head.size) : NULL;
	const char *line = at ? memrchr(text.p, '\n', (size_t)(at - text.p)) : NULL;

	return line ? line + 1 : at ? text.p : NULL;
}

struct str legacy_cut_maps(struct str *text)
{
	static const struct str heads[] = { STR("MAPPED_LIBRARIES:"), STR("--- Memory map: ---") };
	const char *first = NULL;
	struct str maps;

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		const char *at = find_map_head(*text, heads[i]);

		if (at && (!first || at < first))
			first = at;
	}
	if (!first)
		return (struct str){ 0 };
	maps = (struct str){ first, text->size - (size_t)(first - text->p) };
	text->size = (size_t)(first - text->p);
	str_cut(&maps, '\n');
	return maps;
}

struct str legacy_first_line(struct str *text, uint64_t *n)
{
	struct str line = { 0 };

	while (text->p && text->size && (!line.size || line.p[0] == '#')) {
		line = words_line(text);
		++*n;
	}
	return line;
}
