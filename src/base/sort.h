/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting by a number (radix sort), and sorting short arrays: several times faster than qsort(), which calls
 * a function for each pair.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct sort_key {
	uint64_t key;
	uint64_t at; /* the caller's: identifies the element */
};

/* Sort by rising keys; equal keys stay in order. Allocates as much memory again. */
void sort_keys(struct sort_key *list, size_t n);

#define SORT_FEW 64u
/* @compare is as for qsort(), and either never returns 0 or the order of equal elements does not matter.
 * Short arrays are sorted in place by insertion: no call, and a sorted array is read once. */
#define SORT(list, n, compare)                                                                        \
	do {                                                                                          \
		size_t sort_n_ = (n);                                                                 \
		if (sort_n_ > SORT_FEW) {                                                             \
			qsort((list), sort_n_, sizeof(*(list)), (compare));                           \
			break;                                                                        \
		}                                                                                     \
		for (size_t sort_i_ = 1; sort_i_ < sort_n_; sort_i_++) {                              \
			__typeof__(*(list)) sort_one_ = (list)[sort_i_];                              \
			size_t sort_k_ = sort_i_;                                                     \
			for (; sort_k_ && (compare)(&(list)[sort_k_ - 1], &sort_one_) > 0; sort_k_--) \
				(list)[sort_k_] = (list)[sort_k_ - 1];                                \
			(list)[sort_k_] = sort_one_;                                                  \
		}                                                                                     \
	} while (0)
