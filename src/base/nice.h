/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work at a low priority, of a thread that mostly waits.
 *
 * A thread that has made itself nice stays so: an ordinary user cannot take it back. On a busy machine it would need up
 * to 0.2 s only to notice that it is to stop. So the thread that waits keeps its priority, and another one lives for the
 * work.
 */
#pragma once

/*
 * Call @fn in a thread of this niceness, and wait for its end. Without memory for a thread it is called in this one, at
 * the usual priority.
 */
void nice_call(int nice, void (*fn)(void *arg), void *arg);
