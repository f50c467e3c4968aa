/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the threads of both transports: their start, and the event that wakes one. */
#pragma once

#include <pthread.h>

/* As pthread_create(): 0, or the number of the error. @name has at most 15 characters. */
int http_thread_start(pthread_t *ret, const char *name, void *(*run)(void *arg), void *arg);
/* Make an event readable (eventfd(2), which does not block), from any thread. */
void http_event_set(int event);
