/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <stdio.h>

#define FUNCTIONS 4000u
#define PATHS     8000u /* stacks of the service; each profile has some of them */
#define DEPTH     24u

uint64_t service_next(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint32_t location(struct profile *p, uint64_t n)
{
	const struct profile_mapping m = { 0x400000,
					   0x4000000,
					   0,
					   profile_add_string(p, STR("/usr/bin/service")),
					   profile_add_string(
						   p, STR("0123456789abcdef0123456789abcdef01234567")),
					   15 };
	struct profile_location l = { .addr = 0x400000 + n * 32, .mapping = profile_add_mapping(p, &m) };
	struct profile_line line = { .line = (int64_t)(n % 900) };
	struct profile_function f = { 0 };
	char text[64];

	snprintf(text, sizeof(text), "service::module%llu::function%llu(int)",
		 (unsigned long long)(n / 3 % 90), (unsigned long long)(n / 3));
	f.name = f.system_name = profile_add_string(p, str_of(text));
	snprintf(text, sizeof(text), "src/module%llu.cc", (unsigned long long)(n / 3 % 90));
	f.file = profile_add_string(p, str_of(text));
	line.function = profile_add_function(p, &f);
	return profile_add_location(p, &l, &line, 1);
}

/* The stack of a path; paths share prefixes. */
static uint32_t path(struct profile *p, uint32_t n)
{
	uint32_t stack = 0;

	for (uint32_t d = 0; d < DEPTH; d++) {
		uint32_t bits = d < 10 ? 13 - d : d < DEPTH - 2 ? 3 : DEPTH - 1 - d;
		uint64_t s = ((uint64_t)d << 32) + (n >> bits);

		stack = profile_add_stack(p, stack, location(p, service_next(&s) % (FUNCTIONS * 3)));
	}
	return stack;
}

struct profile *service_profile(uint32_t seed, uint32_t n_samples, bool distinct)
{
	struct profile *p = profile_new(NULL);
	uint64_t s = seed;

	profile_add_type(p, STR("samples"), STR("count"));
	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	for (uint32_t i = 0; distinct ? p->n_samples < n_samples : i < n_samples; i++) {
		uint64_t r = service_next(&s);
		double at = (double)(r >> 11) / 0x1p53;
		uint32_t of = (uint32_t)(at * at * at * PATHS);
		struct profile_label l = { .key = profile_add_string(p, STR("thread")), .num = i % 16 + 1 };

		profile_add_sample(p, path(p, of), distinct ? 0 : profile_add_labels(p, &l, 1),
				   (int64_t[]){ 1, 10000000 });
	}
	return p;
}
