/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two profiles are equal, entry for entry. Strings are compared as texts, so that their numbers may
 * differ.
 */
#pragma once

#include "profile/profile.h"

#define PROFILE_WHAT_SIZE 64

/* @what names the first difference. */
bool profile_same(const struct profile *a, const struct profile *b, char what[PROFILE_WHAT_SIZE]);
