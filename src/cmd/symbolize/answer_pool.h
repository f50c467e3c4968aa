/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many questions at once, answered by one thread or, if they are very many, by a pool of workers.
 */
#pragma once

#include "cmd/symbolize/question.h"

struct answer_pool;
/* The parts of @from are borrowed. */
struct answer_pool *answer_pool_new(const struct answer_source *from);
void answer_pool_free(struct answer_pool *p); /* takes NULL */
/* For tests: keep about so many bytes of texts, not the usual 512 MiB. Questions beyond it take longer. */
void answer_pool_limit(struct answer_pool *p, size_t max);
/* Write the answers to stdout in the order of the questions, up to the first failure; of a list without its
 * end. */
int answer_pool_write(struct answer_pool *p, struct question *questions, size_t n, struct err *err);
/* Of all answers so far: their number, those without a function, the bytes of their texts. */
struct answer_sums {
	uint64_t n, n_missing, text_size;
};
struct answer_sums answer_pool_sums(const struct answer_pool *p);
