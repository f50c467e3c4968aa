/* SPDX-License-Identifier: Apache-2.0 */
/* Any profile: decompressed, and passed to the reader of its format. */
#include "profile/input.h"

#include "profile/internal.h"

static const char *const names[] = {
	[PROFILE_FORMAT_AUTO] = "auto",     [PROFILE_FORMAT_PPROF] = "pprof",
	[PROFILE_FORMAT_PERF] = "perf",     [PROFILE_FORMAT_FOLDED] = "folded",
	[PROFILE_FORMAT_LEGACY] = "legacy", [PROFILE_FORMAT_CPU] = "cpu",
	[PROFILE_FORMAT_JFR] = "jfr",
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

/* A recording as one profile. */
static int take_whole(void *arg, struct profile *p, struct str name, struct err *err)
{
	*(struct profile **)arg = p;
	return 0;
}

static int read_recording(struct bytes in, const struct profile_limits *limits, struct profile **ret,
			  struct err *err)
{
	const struct jfr_options together = { .together = true };
	struct profile *p = NULL;

	if (profile_read_jfr(in, limits, &together, (struct profile_sink){ take_whole, &p }, err) < 0)
		return -1;
	if (!p)
		return err_set(err, ERR_INVALID,
			       "has no samples: no events of CPU time, allocation, locks or waiting");
	*ret = p;
	return 0;
}

static int find_format(struct bytes in, enum profile_format *format, struct err *err)
{
	if (profile_is_perf_data(in))
		*format = PROFILE_FORMAT_PERF_DATA;
	return *format == PROFILE_FORMAT_AUTO ? profile_detect(in, format, err) : 0;
}

static int read_unpacked(struct bytes in, enum profile_format format, const struct profile_limits *limits,
			 struct profile **ret, struct err *err)
{
	struct str text = (struct str){ (const char *)in.p, in.size };
	/* A byte order mark. */
	if (str_starts(text, STR("\xef\xbb\xbf")))
		text = (struct str){ text.p + 3, text.size - 3 };
	switch (format) {
	case PROFILE_FORMAT_PERF:
		return profile_read_perf(text, limits, ret, err);
	case PROFILE_FORMAT_FOLDED:
		return profile_read_folded(text, limits, ret, err);
	case PROFILE_FORMAT_LEGACY:
		return profile_read_legacy(text, limits, ret, err);
	case PROFILE_FORMAT_CPU:
		return profile_read_cpu(in, limits, ret, err);
	case PROFILE_FORMAT_JFR:
		return read_recording(in, limits, ret, err);
	case PROFILE_FORMAT_PERF_DATA:
		return err_set(err, ERR_INVALID,
			       "is perf's own file: convert it to text with perf script --show-mmap-events");
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
		r = find_format(in, &format, err);
	if (r == 0)
		r = read_unpacked(in, format, limits, ret, err);
	profile_unpack_done(limits, &plain);
	return r;
}

static int read_each_unpacked(struct bytes in, enum profile_format format,
			      const struct profile_limits *limits, const struct jfr_options *jfr,
			      struct profile_sink sink, struct err *err)
{
	const struct jfr_options usual = { 0 };
	struct profile *p = NULL;

	if (format == PROFILE_FORMAT_JFR)
		return profile_read_jfr(in, limits, jfr ? jfr : &usual, sink, err);
	if (read_unpacked(in, format, limits, &p, err) < 0)
		return -1;
	return sink.fn(sink.arg, p, STR(""), err);
}

int profile_read_each(struct bytes in, enum profile_format format, const struct profile_limits *limits,
		      const struct jfr_options *jfr, struct profile_sink sink, struct err *err)
{
	struct buf plain = { 0 };
	int r = profile_unpack(&in, limits, &plain, err);

	if (r == 0)
		r = find_format(in, &format, err);
	if (r == 0)
		r = read_each_unpacked(in, format, limits, jfr, sink, err);
	profile_unpack_done(limits, &plain);
	return r;
}
