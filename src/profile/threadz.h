/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of all threads of a C++ program, as text. */
#pragma once

#include "profile/profile.h"

bool threadz_is_profile(struct str head);
int threadz_read(struct str text, const struct profile_limits *limits, struct profile **ret, struct err *err);
