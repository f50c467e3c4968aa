/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of objects.
 */
#include "s3/internal.h"

#define SCHEME STR("s3://")

bool s3_is_url(struct str s)
{
	return str_starts(s, SCHEME);
}

int s3_name_parse(struct str url, struct s3_name *ret, struct err *err)
{
	struct str rest = url, bucket;

	if (!s3_is_url(url))
		return err_set(err, ERR_INVALID, "not a name of the form s3://BUCKET/KEY");
	rest.p += SCHEME.size;
	rest.size -= SCHEME.size;
	bucket = str_cut(&rest, '/');
	if (!bucket.size || bucket.size > S3_BUCKET_MAX)
		return err_set(err, ERR_INVALID, "the name of a bucket has 1 to %u bytes: s3://BUCKET/KEY",
			       S3_BUCKET_MAX);
	/* It becomes part of a host name or a path. */
	for (size_t i = 0; i < bucket.size; i++) {
		char c = bucket.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    !memchr("-._", c, 3))
			return err_set(err, ERR_INVALID,
				       "the name of a bucket has only letters, digits, '-', '.' and '_'");
	}
	if (bucket.p[0] == '.')
		return err_set(err, ERR_INVALID, "the name of a bucket does not begin with a dot");
	if (rest.size > S3_KEY_MAX)
		return err_set(err, ERR_INVALID, "a key has at most %u bytes", S3_KEY_MAX);
	if (rest.size && memchr(rest.p, 0, rest.size))
		return err_set(err, ERR_INVALID, "a key with a byte 0");
	*ret = (struct s3_name){ bucket, rest };
	return 0;
}
