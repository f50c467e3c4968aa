/* SPDX-License-Identifier: Apache-2.0 */
/* Any profile: decompressed, and its format detected. */
#include "profile/input.h"

#include "profile/internal.h"

#define HEAD KIB(64) /* of text, to detect the format */

static const char *const names[] = {
	[PROFILE_FORMAT_AUTO] = "auto",     [PROFILE_FORMAT_PPROF] = "pprof",
	[PROFILE_FORMAT_PERF] = "perf",     [PROFILE_FORMAT_FOLDED] = "folded",
	[PROFILE_FORMAT_LEGACY] = "legacy", [PROFILE_FORMAT_CPU] = "cpu",
};

bool profile_format_parse(struct str s, enum profile_format *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(s, str_of(names[i]))) {
			*ret = (enum profile_format)i;
			return true;
		}
	return false;
}

bool profile_is_perf_data(struct bytes head)
{
	return head.size >= 8 && (memcmp(head.p, "PERFILE2", 8) == 0 || memcmp(head.p, "2ELIFREP", 8) == 0);
}

static enum profile_format detect_format(struct bytes in)
{
	struct str head = { (const char *)in.p, MIN(in.size, HEAD) };

	if (profile_is_cpu(in))
		return PROFILE_FORMAT_CPU;
	if (memchr(head.p, '\0', head.size) || profile_is_pprof(bytes_of(in.p, MIN(in.size, (size_t)16))))
		return PROFILE_FORMAT_PPROF;
	if (profile_is_legacy(head))
		return PROFILE_FORMAT_LEGACY;
	return profile_is_perf(head) ? PROFILE_FORMAT_PERF : PROFILE_FORMAT_FOLDED;
}

static int read_unpacked(struct bytes in, enum profile_format format, const struct profile_limits *limits,
			 struct profile **ret, struct err *err)
{
	struct str text;

	if (profile_is_perf_data(in))
		return err_set(err, ERR_INVALID,
			       "is perf's own file: convert it to text with perf script --show-mmap-events");
	text = (struct str){ (const char *)in.p, in.size };
	switch (format == PROFILE_FORMAT_AUTO ? detect_format(in) : format) {
	case PROFILE_FORMAT_PERF:
		return profile_read_perf(text, limits, ret, err);
	case PROFILE_FORMAT_FOLDED:
		return profile_read_folded(text, limits, ret, err);
	case PROFILE_FORMAT_LEGACY:
		return profile_read_legacy(text, limits, ret, err);
	case PROFILE_FORMAT_CPU:
		return profile_read_cpu(in, limits, ret, err);
	default:
		return profile_read_pprof(in, limits, ret, err);
	}
}

int profile_read(struct bytes in, enum profile_format format, const struct profile_limits *limits,
		 struct profile **ret, struct err *err)
{
	struct buf plain = { 0 };
	int r = profile_unpack(&in, limits, &plain, err);

	if (r == 0)
		r = read_unpacked(in, format, limits, ret, err);
	profile_unpack_done(limits, &plain);
	return r;
}
