/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the store in tests.
 */
#pragma once

#include "store/store.h"

/* "ab/source/x.c"; ends the test where it is none. It borrows from @text. */
struct store_key key_of(const char *text);
