/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background check of a server: it reads all contents, slowly, a minute after the start and then once a day,
 * and compares each with the SHA-256 in its name.
 *
 * Damage is noted, so that a push of the right bytes is wanted again; objects that were fetched or made are
 * removed, so that they are fetched or made again.
 */
#include "base/background.h"
#include "store/internal.h"

/* A collector reports it. Its content is not read: nobody knows which one that is. */
static void pass_over_record(void *arg, struct str what, const struct err *why)
{
	(void)arg;
	(void)what;
	(void)why;
}

int scrub_pass(struct store *st, int (*each)(void *arg, uint64_t n), void *arg, uint64_t *ret_n_bad,
	       struct err *err)
{
	uint64_t n_bad = 0;
	struct refs c;
	int r = 0;

	if (refs_count(st, &c, pass_over_record, NULL, err) < 0)
		return -1;
	for (size_t i = 0; i < c.n_contents && r == 0; i++) {
		const struct refs_content *content = &c.contents[i];
		struct err why = { 0 };

		if (!content->there || !content->n_records ||
		    content_check(st, content->sha256, content->raw, each, arg, &why) >= 0)
			continue;
		if (why.kind == ERR_CANCELLED || why.kind == ERR_LIMIT) {
			*err = why;
			r = -1;
			break;
		}
		if (!content_is_damaged(&why)) {
			log_warn("store", "%s; the check is repeated in a day", why.text);
			continue;
		}
		n_bad++;
		for (uint32_t k = content->last; k; k = c.records[k - 1].before)
			if (c.records[k - 1].place == BLOB_PRESENT)
				object_condemn(st, c.records[k - 1].name, &why);
	}
	refs_done(&c);
	*ret_n_bad = n_bad;
	return r;
}

static int scrub_rest(void *arg, uint64_t n)
{
	(void)n;
	return background_rest(arg);
}

static int scrub_all(struct background *b, void *arg, struct err *err)
{
	uint64_t n_bad;

	return scrub_pass(arg, scrub_rest, b, &n_bad, err);
}

struct background *scrub_start(struct store *st)
{
	return background_start("lode-check", "store", scrub_all, st);
}
