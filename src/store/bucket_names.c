/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in a bucket. A blob's name is followed by '!', which sorts before all characters of these names: so the objects of
 * a bucket are in the order of the blobs' names.
 */
#include "store/bucket.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define DIGITS     16
#define SHA_DIGITS (2 * SHA256_SIZE)
#define DATA       "data/"
#define DATA_SIZE  8 /* "data/01/" */

static _Atomic uint64_t test_state; /* 0: real random numbers */

void random_id_test(uint64_t seed)
{
	atomic_store(&test_state, seed);
}

uint64_t random_id(void)
{
	uint64_t id = atomic_load(&test_state);

	if (id) {
		id = atomic_fetch_add(&test_state, 1);
		id = hash64(&id, sizeof(id), 0);
		return id ? id : 1;
	}

	while (!id)
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			id = 0;
	return id;
}

/* ---- versions of records ---- */

void version_name_write(const char *blob, const struct version_name *v, char out[BUCKET_NAME_SIZE])
{
	snprintf(out, BUCKET_NAME_SIZE, "%s!%016llx.%016llx.%016llx.%s%s%s", blob, (unsigned long long)v->seq,
		 (unsigned long long)v->id, (unsigned long long)v->before,
		 v->content[0] ? v->content + DATA_SIZE : "-", v->content[0] ? "." : "", v->generation);
}

/*
 * Whoever can write to the bucket chooses the names in it, and a name becomes a path when a store is copied into a folder. So
 * only names of the form that stores give are read; other objects are left alone.
 */
static bool is_blob_name(const char *name, size_t size)
{
	char before = '/';

	for (size_t i = 0; i < size; before = name[i++])
		if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9') &&
		    !(memchr("./", name[i], 2) && before != '/' && before != '.') && name[i] != '-')
			return false;
	return before != '/' && before != '.';
}

/* The 16 digits at the beginning of *s, and the dot after them. */
static bool bucket_number_read(struct str *s, uint64_t *ret)
{
	struct str digits = str_cut(s, '.');

	if (digits.size != DIGITS || !hex_is_lower(digits))
		return false;
	*ret = 0;
	for (size_t i = 0; i < DIGITS; i++)
		*ret = *ret << 4 |
		       (uint64_t)(digits.p[i] <= '9' ? digits.p[i] - '0' : digits.p[i] - 'a' + 10);
	return true;
}

/* "<SHA-256>[.zst]" */
static bool leaf_is_content(struct str leaf)
{
	if (leaf.size < SHA_DIGITS || !hex_is_lower((struct str){ leaf.p, SHA_DIGITS }))
		return false;
	leaf.p += SHA_DIGITS;
	leaf.size -= SHA_DIGITS;
	return !leaf.size || str_eq(leaf, STR(".zst"));
}

static bool generation_read(struct str s, char ret[GENERATION_SIZE])
{
	if (s.size != GENERATION_SIZE - 1 || !hex_is_lower(s))
		return false;
	memcpy(ret, s.p, s.size);
	ret[s.size] = 0;
	return true;
}

bool version_name_read(const char *name, struct version_name *ret, size_t *ret_blob)
{
	const char *mark = strchr(name, '!');
	struct str rest = str_of(mark ? mark + 1 : NULL), leaf;

	*ret = (struct version_name){ 0 };
	if (!mark || !bucket_number_read(&rest, &ret->seq) || !bucket_number_read(&rest, &ret->id) ||
	    !bucket_number_read(&rest, &ret->before) || !ret->id ||
	    !is_blob_name(name, (size_t)(mark - name)))
		return false;
	*ret_blob = (size_t)(mark - name);
	if (str_eq(rest, STR("-")))
		return true;
	if (rest.size < GENERATION_SIZE || rest.p[rest.size - GENERATION_SIZE] != '.')
		return false;
	leaf = (struct str){ rest.p, rest.size - GENERATION_SIZE };
	if (!leaf_is_content(leaf))
		return false;
	snprintf(ret->content, sizeof(ret->content), DATA "%.2s/" STR_FMT, leaf.p, STR_ARG(leaf));
	return generation_read((struct str){ rest.p + leaf.size + 1, GENERATION_SIZE - 1 }, ret->generation);
}

/* ---- generations of contents ---- */

void generation_name_write(const char *content, const char *generation, char out[BUCKET_NAME_SIZE])
{
	snprintf(out, BUCKET_NAME_SIZE, "%s!%s", content, generation);
}

bool generation_name_read(const char *name, char ret_content[BLOB_CONTENT_NAME_SIZE],
			  char ret_generation[GENERATION_SIZE])
{
	struct str generation = str_of(name), content = str_cut(&generation, '!');

	if (content.size >= BLOB_CONTENT_NAME_SIZE || content.size < DATA_SIZE ||
	    !is_blob_name(content.p, content.size))
		return false;
	memcpy(ret_content, content.p, content.size);
	ret_content[content.size] = 0;
	return generation_read(generation, ret_generation);
}

void generation_make(const char *last, char out[GENERATION_SIZE])
{
	uint64_t ms = (uint64_t)clock_wall_ms();
	char digits[12] = "";

	if (last) {
		memcpy(digits, last, 11);
		/* Another node's clock may be ahead. */
		ms = MAX(ms, (uint64_t)strtoull(digits, NULL, 16) + 1);
	}
	snprintf(out, GENERATION_SIZE, "%011llx%013llx", (unsigned long long)(ms & 0xfffffffffff),
		 (unsigned long long)(random_id() >> 12));
}

void mark_name_write(const char *content, const char *generation, uint64_t id, char out[BUCKET_NAME_SIZE])
{
	snprintf(out, BUCKET_NAME_SIZE, "dying/%s!%s!%016llx", content + 5, generation,
		 (unsigned long long)id);
}
