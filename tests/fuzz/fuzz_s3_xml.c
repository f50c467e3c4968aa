/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML of a bucket's answers: events are balanced, texts and depths bounded; and the readers of answers over it.
 */
#include "fuzz.h"
#include "s3/internal.h"
#include "s3/xml.h"

#include <assert.h>

static int listed(void *arg, const struct s3_listed *o, struct err *err)
{
	assert(o->key.size > 0 && o->key.size <= S3_KEY_MAX && !memchr(o->key.p, 0, o->key.size));
	assert(strlen(o->info.etag) < S3_ETAG_MAX);
	return 0;
}

static void read_lists(struct bytes in)
{
	const struct s3_listing all = { .bucket = STR("b"), .prefix = STR(""), .fn = listed };
	struct s3_part *parts;
	size_t n;

	(void)list_wants_escapes((struct str){ (const char *)in.p, in.size });
	(void)list_read_page(&all, in, NULL);
	(void)upload_read_parts(in, &parts, &n, NULL);
	for (size_t i = 0; i < n; i++) {
		assert(parts[i].number > (i ? parts[i - 1].number : 0) && parts[i].number <= S3_PARTS_MAX);
		assert(parts[i].etag[0]);
	}
	free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size);
	struct lent_keys *keys = NULL;
	struct reply_error e;
	struct err err = { 0 };
	unsigned depth = 0;
	struct xml x;
	int r;

	xml_init(&x, in);
	while ((r = xml_next(&x, &err)) > 0) {
		depth += r == XML_OPEN ? 1u : -1u;
		assert(depth == x.depth && depth <= XML_DEPTH_MAX);
		assert(x.text.size <= XML_TEXT_MAX && x.at <= size);
		assert(strlen(xml_name(&x, depth - (r == XML_OPEN))) > 0);
	}
	assert(r < 0 || depth == 0);
	xml_done(&x);
	read_lists(in);
	if (reply_error_read(in, &e))
		assert(e.code.size > 0);
	reply_error_done(&e);
	if (lender_read_sts(in, &keys, &err) == 0)
		lent_keys_unref(keys);
	keys = NULL;
	if (lender_read_json(in, &keys, &err) == 0)
		lent_keys_unref(keys);
	return 0;
}
