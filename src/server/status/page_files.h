/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of web/, built in.
 */
#pragma once

#include "base/embedded.h"

extern const struct embedded page_files[];
