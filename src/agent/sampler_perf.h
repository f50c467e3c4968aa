/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/sampler_ops.h"

/* @options are checked ones. */
int sampler_perf_open(const struct sampler_options *options, struct sampler **ret, struct err *err);
