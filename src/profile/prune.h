/* SPDX-License-Identifier: Apache-2.0 */
/* Removing the frames that a profile itself calls uninteresting. */
#pragma once

#include "profile/profile.h"

/*
 * End each stack at the outermost frame whose function matches drop_frames and not keep_frames, and that has a caller
 * that is not such a one. To be called when the addresses have names.
 */
int profile_prune(struct profile *p, struct err *err);

/* Give a profile of an older format, which has no patterns, those of pprof: by the measured quantity. */
enum profile_measured { PROFILE_OF_CPU, PROFILE_OF_HEAP, PROFILE_OF_LOCKS };
void profile_set_usual_drops(struct profile *p, enum profile_measured what);
