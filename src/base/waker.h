/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A callback that may come long after the object it is for has gone: whoever will call gets a waker, and not
 * the object. The object keeps a place for it: NULL, or the waker that has not fired yet.
 *
 * One lock for all wakers: they are few, and what is done under it is short.
 */
#pragma once

#include <stdbool.h>

struct waker;

/* For waker_fire(), which is the callback, and its argument. *@at was NULL and stays where it is. @fn is
 * called once, under the lock of all wakers: it may take other locks, but do nothing with wakers. */
struct waker *waker_new(struct waker **at, void (*fn)(void *arg), void *arg);
/* From any thread. Takes @w, a struct waker. */
void waker_fire(void *w);
/* It was given to nobody in the end, and will not be fired. Clears *@at. */
void waker_free(struct waker **at, struct waker *w);
/* It may still be fired, but does nothing any more. false: there was none, or it has been fired. */
bool waker_drop(struct waker **at);
/* There is one that has not fired. */
bool waker_waits(struct waker **at);
