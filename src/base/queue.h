/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded queue of pointers between threads. The caller empties it before it frees it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

enum { QUEUE_CLOSED = 1, QUEUE_FULL = 2, QUEUE_EMPTY = 3, QUEUE_TIMEOUT = 4 };

struct queue *queue_new(size_t max);
void queue_free(struct queue *q);                /* no thread may be waiting in it */
int queue_push(struct queue *q, void *item);     /* waits for room; 0 or QUEUE_CLOSED */
int queue_try_push(struct queue *q, void *item); /* 0, QUEUE_CLOSED or QUEUE_FULL */
/* Waits up to timeout_ms (negative: for ever). 0, QUEUE_CLOSED (and nothing left in it) or QUEUE_TIMEOUT. */
int queue_pop(struct queue *q, int64_t timeout_ms, void **ret);
int queue_try_pop(struct queue *q, void **ret); /* 0, QUEUE_EMPTY or QUEUE_CLOSED */
void queue_close(struct queue *q);              /* refuses pushes; its items can still be popped */
size_t queue_size(struct queue *q);
