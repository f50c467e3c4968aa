/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that have come together, answered by one thread or, if they are many, by several.
 */
#pragma once

#include "cmd/symbolize/write.h"

/* There may be millions: of what comes at once on standard input, a line each. */
struct question {
	uint64_t addr;
	struct answer_text answer; /* before: as head what was asked, if that is no address and is repeated */
};

struct crew;
/* Who answers by @file, or by @by if it is not NULL. All are borrowed. @module: as answers name it. */
struct crew *crew_new(const struct settings *s, const struct symbolize_style *style,
		      const struct lookup_file *file, const struct finding *by, struct str module);
void crew_free(struct crew *c); /* takes NULL */
/* For tests: hold about so many bytes of text, not the usual 512 MiB. What is asked beyond takes longer. */
void crew_hold(struct crew *c, size_t max);
/* Write their answers, in the order in which they stand, up to the first that fails; of a list without its
 * end. */
int crew_answer(struct crew *c, struct question *questions, size_t n, struct err *err);
/* Of all that was answered: how many, to how many nothing is known, and the bytes of text that were held. */
struct crew_sums {
	uint64_t n, n_missing, held;
};
struct crew_sums crew_sums(const struct crew *c);
