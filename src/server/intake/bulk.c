/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with many profiles: which were refused, and the reply about them. */
#include "server/intake/bulk.h"

int bulk_next(struct bulk *b, struct err *err)
{
	if (++b->n > BULK_MAX_PROFILES)
		return err_set(err, ERR_LIMIT, "more than %u profiles: send several requests",
			       BULK_MAX_PROFILES);
	/* One may decode to hundreds of megabytes: the clock is read for each. */
	return deadline_check(&b->a->deadline, DEADLINE_STEPS, err);
}

/* Otherwise the server cannot take any profile now, and the client sends all again. */
static bool is_of_the_profile(const struct err *err)
{
	return err->kind == ERR_INVALID || (err->kind == ERR_LIMIT && !err->os);
}

int bulk_refused(struct bulk *b, const struct err *why, struct err *err)
{
	if (!is_of_the_profile(why)) {
		*err = *why;
		return -1;
	}
	if (!b->n_refused++)
		b->first = *why;
	return 0;
}

int bulk_end(const struct bulk *b, struct err *err)
{
	if (!b->n)
		return err_set(err, ERR_INVALID, "the request has no profiles");
	if (!b->n_refused)
		return 0;
	*err = b->first;
	return b->n == 1 ? -1
			 : err_in(err, "%zu of %zu profiles were refused, the others are stored",
				  b->n_refused, b->n);
}

void bulk_answer(struct api *a, const struct profilestore_receipt *r)
{
}
