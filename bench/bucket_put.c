/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file as an object of a bucket, uploaded in parts by several threads, and nothing else: what a push of it is compared
 * with. The settings are those of the environment.
 *
 *	bench-bucket-put FILE s3://BUCKET/KEY [THREADS]
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/sha256.h"
#include "s3/s3.h"

#define PART MIB(8)

struct putting {
	struct s3 *s3;
	struct s3_upload upload;
	int fd;
	uint64_t size;
	struct s3_part *parts;
	size_t n;
	atomic_size_t next;
	atomic_bool failed;
};

static void *parts_put(void *arg)
{
	struct putting *p = arg;
	size_t i;

	while ((i = atomic_fetch_add(&p->next, 1)) < p->n && !p->failed) {
		const struct file_range part = { p->fd, (uint64_t)i * PART,
						 MIN((uint64_t)PART, p->size - (uint64_t)i * PART) };
		struct err err = { 0 };

		if (s3_upload_part(p->s3, &p->upload, (unsigned)i + 1, &part, &p->parts[i], &err) < 0) {
			fprintf(stderr, "bench: %s\n", err.text);
			p->failed = true;
		}
	}
	return NULL;
}

static int file_put(struct putting *p, unsigned n_threads, struct err *err)
{
	pthread_t threads[16];

	p->n = (size_t)((p->size + PART - 1) / PART);
	p->parts = NEW_N(struct s3_part, p->n + 1);
	for (unsigned i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, parts_put, p) != 0)
			return err_set(err, ERR_LIMIT, "no thread");
	for (unsigned i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	if (p->failed)
		return err_set(err, ERR_IO, "a part failed");
	return s3_upload_complete(p->s3, &p->upload, p->parts, p->n, NULL, err);
}

int main(int argc, char **argv)
{
	struct putting p = { 0 };
	struct s3_name name;
	struct err err = { 0 };
	struct stat st;
	unsigned n = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 4;

	if (argc < 3 || !n || n > 16) {
		fprintf(stderr, "usage: bench-bucket-put FILE s3://BUCKET/KEY [THREADS]\n");
		return 2;
	}
	if (file_open(argv[1], &p.fd, &st, &err) != 0 || sha256_load(&err) < 0 ||
	    s3_name_parse(str_of(argv[2]), &name, &err) < 0 || s3_shared(&p.s3, &err) < 0) {
		fprintf(stderr, "bench: %s: %s\n", argv[1], err.text);
		return 1;
	}
	p.size = (uint64_t)st.st_size;
	if (s3_upload_begin(p.s3, name, &p.upload, &err) < 0 || file_put(&p, n, &err) < 0) {
		fprintf(stderr, "bench: %s\n", err.text);
		return 1;
	}
	free(p.parts);
	s3_shared_done();
	return 0;
}
