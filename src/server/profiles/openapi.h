/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/openapi.json: the description of the API of profiles, part of the program.
 */
#pragma once

#include "base/embedded.h"

extern const struct embedded openapi_files[];
