/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary search.
 */
#pragma once

#include <stddef.h>

/*
 * The first of the indices from @from up to @to for which @before does not hold; @to if it holds for all.
 * @before is an expression of the index @i. Where it does not hold, it must not hold for any index after.
 *
 *	size_t n = SEARCH(0, d->n_units, i, d->units[i].off <= off); // the one before n has off, if any
 */
#define SEARCH(from, to, i, before)                                            \
	({                                                                     \
		size_t search_lo_ = (from), search_hi_ = (to);                 \
		while (search_lo_ < search_hi_) {                              \
			size_t i = search_lo_ + (search_hi_ - search_lo_) / 2; \
			if (before)                                            \
				search_lo_ = i + 1;                            \
			else                                                   \
				search_hi_ = i;                                \
		}                                                              \
		search_lo_;                                                    \
	})
