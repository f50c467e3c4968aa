/* SPDX-License-Identifier: Apache-2.0 */
/* Values and memory maps of pprof's older formats. */
#include "profile/legacy.h"

#include <math.h>

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

struct str legacy_cut_maps(struct str *text)
{
	static const struct str heads[] = { STR("MAPPED_LIBRARIES:"), STR("--- Memory map: ---") };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		const char *at = text->size ? memmem(text->p, text->size, heads[i].p, heads[i].size) : NULL;
		struct str maps;

		if (!at)
			continue;
		maps = (struct str){ at, text->size - (size_t)(at - text->p) };
		str_cut(&maps, '\n');
		text->size = (size_t)(at - text->p);
		return maps;
	}
	return (struct str){ 0 };
}
