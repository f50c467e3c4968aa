/* SPDX-License-Identifier: Apache-2.0 */
#include "served.h"

#include <stdlib.h>

#define NEVER_MS 3600000

uint8_t served[SERVED_SIZE];
const struct fault_rule served_whole = { .headers = SERVED_ETAG, .body = { served, SERVED_SIZE } };

int served_set_up(void **state)
{
	test_fill(served, sizeof(served), 7);
	setenv("AWS_CONFIG_FILE", "/nonexistent/config", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", 1);
	setenv("AWS_ACCESS_KEY_ID", "AKTEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
	log_set_level(LOG_ERROR);
	return 0;
}

static struct s3 *client_of(const struct fault_http *h, unsigned hedge_min_ms)
{
	const struct s3_options o = { .endpoint = fault_http_url(h),
				      .deadline_ms = 8000,
				      .silent_ms = 4000,
				      .hedge_min_ms = hedge_min_ms };
	struct err err = { 0 };
	struct s3 *s;

	assert_done(s3_new(&o, &s, &err));
	return s;
}

struct s3 *served_client(const struct fault_http *h)
{
	return client_of(h, NEVER_MS);
}

struct s3 *served_hedging_client(const struct fault_http *h)
{
	return client_of(h, 0);
}

struct source *served_open(struct s3 *s)
{
	const struct s3_info info = { .size = SERVED_SIZE, .mtime = 1, .etag = "abc" };
	struct stat st;
	struct source *src;
	struct err err = { 0 };

	s3_stat(&info, &st);
	assert_done(s3_open(s, "s3://b/a key.deb", &st, &src, NULL, &err));
	return src;
}

void served_check(struct source *src, uint64_t off, size_t n)
{
	uint8_t *p = mem_alloc(n);
	struct err err = { 0 };

	assert_done(source_read_full(src, off, p, n, SOURCE_RANDOM, &err));
	assert_memory_equal(p, served + off, n);
	free(p);
}

int served_read(struct s3 *s, struct err *err)
{
	struct source *src = served_open(s);
	uint8_t c;
	int r = source_read_full(src, 0, &c, 1, SOURCE_RANDOM, err);

	source_close(src);
	return r;
}
