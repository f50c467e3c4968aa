/* SPDX-License-Identifier: Apache-2.0 */
/* The files of assets/, embedded. */
#pragma once

#include "base/base.h"
#include "base/embedded.h"

extern const struct embedded profile_assets[];

static inline void profile_add_asset(const char *name, struct buf *out)
{
	struct bytes b = embedded_get(profile_assets, name);

	buf_add(out, b.p, b.size);
}
