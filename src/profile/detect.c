/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of a profile, by its content: magic numbers first, then the wire structure of profile.proto, then
 * the first lines of text.
 *
 * A message of profile.proto may have its fields in any order: Go's runtime writes the time first, and the strings,
 * which have the first zero byte, last. So the top-level fields are walked over, each with the wire type that
 * profile.proto gives it. Any message with a sample type or a table has bytes below 0x20 that text has not (the keys
 * of the fields within it). Both together cannot be text; text that happens to begin with bytes that could be a field
 * ("2 main;f 1") stays text.
 */
#include "profile/input.h"

#include <elf.h>
#include "elf/elf.h"
#include "profile/pprof_read.h"

#define HEAD       KIB(64) /* of text, and of bytes that text has not */
#define MAX_FIELDS 64u     /* more do not make it more certain */

/* What walking over the top-level fields shows. */
enum pprof_shape {
	SHAPE_OTHER,
	SHAPE_WHOLE,   /* valid fields */
	SHAPE_DAMAGED, /* valid fields, then the end within a field, or a byte that begins none */
};

static bool field_is_known(const struct proto_field *f)
{
	switch (f->number) {
	case PPROF_SAMPLE_TYPE:
	case PPROF_SAMPLE:
	case PPROF_MAPPING:
	case PPROF_LOCATION:
	case PPROF_FUNCTION:
	case PPROF_STRING:
	case PPROF_PERIOD_TYPE:
		return f->wire == PROTO_LEN;
	case PPROF_COMMENT:
		return f->wire == PROTO_LEN || f->wire == PROTO_VARINT;
	default:
		return f->number > PPROF_DOC_URL || f->wire == PROTO_VARINT;
	}
}

/* The key of the field at @c, which need not be complete. */
static bool key_is_known(struct cursor c)
{
	uint64_t key = cursor_uleb(&c);
	const struct proto_field f = { .number = (uint32_t)MIN(key >> 3, (uint64_t)UINT32_MAX),
				       .wire = key & 7 };

	return cursor_ok(&c) && f.number && f.number <= PPROF_DOC_URL && field_is_known(&f);
}

static enum pprof_shape shape_of(struct bytes in)
{
	struct cursor c = cursor_of(in), at = c;
	unsigned n = 0, n_tables = 0;
	struct proto_field f;

	for (; n < MAX_FIELDS && proto_next(&c, &f); n++) {
		if (!field_is_known(&f))
			return SHAPE_OTHER;
		n_tables += f.number <= PPROF_STRING;
		at = c;
	}
	if (cursor_ok(&c))
		return n_tables || n > 1 ? SHAPE_WHOLE : SHAPE_OTHER;
	return n_tables > 2 || key_is_known(at) ? SHAPE_DAMAGED : SHAPE_OTHER;
}

/* Bytes that text has not, or only by mistake. */
static bool has_control_bytes(struct str head)
{
	for (size_t i = 0; i < head.size; i++) {
		unsigned char b = (unsigned char)head.p[i];

		/* Colours begin with an escape. */
		if (b < 0x20 && b != 0x1b && (b < '\t' || b > '\r'))
			return true;
	}
	return false;
}

/* ---- formats that are not read ---- */

static bool starts_in_any_case(struct str s, struct str prefix)
{
	return s.size >= prefix.size && strncasecmp(s.p, prefix.p, prefix.size) == 0;
}

/* "goroutine 1 [running]:". To be called before profile_is_perf(): "goroutine 1 [chan receive]:" looks like a sample. */
static bool is_goroutine_list(struct str head)
{
	struct str line = str_trim(str_cut(&head, '\n'));

	return str_starts(line, STR("goroutine ")) && memchr(line.p, '[', line.size) &&
	       str_ends(line, STR("]:"));
}

static bool is_json(struct str head)
{
	bool brace = str_starts(head, STR("{"));

	return brace && str_starts(str_trim((struct str){ head.p + 1, head.size - 1 }), STR("\""));
}

/* "MODULE Linux x86_64 <33 or more hexadecimal digits> x": a stack may begin with that word, too. */
static bool is_breakpad(struct str head)
{
	struct str line = str_cut(&head, '\n'), id;
	size_t n = 0;

	if (!str_eq(str_cut(&line, ' '), STR("MODULE")))
		return false;
	str_cut(&line, ' ');
	str_cut(&line, ' ');
	id = str_cut(&line, ' ');
	while (n < id.size && strchr("0123456789abcdefABCDEF", id.p[n]) && id.p[n])
		n++;
	return n >= 33 && n == id.size;
}

static bool is_elf(struct bytes in)
{
	return in.size >= SELFMAG && memcmp(in.p, ELFMAG, SELFMAG) == 0;
}

/* The kind of the file and what to do; NULL: unknown. */
static const char *foreign_format(struct bytes in)
{
	static const struct {
		struct str magic;
		const char *is;
	} list[] = {
		{ STR("gmon\1\0"), "is gprof's gmon.out, which has no stacks" },
		{ STR("\xff\xfe"), "is text in UTF-16: convert it to UTF-8" },
		{ STR("\xfe\xff"), "is text in UTF-16: convert it to UTF-8" },
		{ STR("<!doctype html"), "is a page for people (HTML), not a profile: fetch the profile's "
					 "own address" },
		{ STR("<html"), "is a page for people (HTML), not a profile: fetch the profile's own "
				"address" },
		{ STR("# callgrind format"), "is a profile of Callgrind, which has no stacks" },
	};
	struct str head = { (const char *)in.p, in.size };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (starts_in_any_case(head, list[i].magic))
			return list[i].is;
	if (is_breakpad(head))
		return "is a Breakpad symbol file, not a profile";
	if (is_json(head))
		return "is JSON, which is not read: export the profile as pprof or as folded stacks";
	return NULL;
}

bool profile_is_perf_data(struct bytes head)
{
	return head.size >= 8 && (memcmp(head.p, "PERFILE2", 8) == 0 || memcmp(head.p, "2ELIFREP", 8) == 0);
}

/* ---- all ---- */

int profile_detect(struct bytes in, enum profile_format *ret, struct err *err)
{
	struct str head = { (const char *)in.p, MIN(in.size, HEAD) };
	enum pprof_shape shape = SHAPE_OTHER;
	const char *foreign, *name, *help;
	bool binary;

	if (profile_is_perf_data(in)) {
		*ret = PROFILE_FORMAT_PERF_DATA;
		return 0;
	}
	if (profile_is_jfr(in)) {
		*ret = PROFILE_FORMAT_JFR;
		return 0;
	}
	if (profile_is_cpu(in)) {
		*ret = PROFILE_FORMAT_CPU;
		return 0;
	}
	binary = has_control_bytes(head);
	if (binary)
		shape = shape_of(in);
	if (shape != SHAPE_OTHER) {
		*ret = PROFILE_FORMAT_PPROF;
		return 0;
	}
	if (str_starts(head, STR("\xef\xbb\xbf")))
		head = (struct str){ head.p + 3, head.size - 3 };
	if (profile_is_legacy(head))
		*ret = PROFILE_FORMAT_LEGACY;
	else if (is_goroutine_list(head))
		return err_set(
			err, ERR_INVALID,
			"is a list of goroutines for people (debug=2): fetch it with debug=0 or debug=1");
	else if (profile_is_perf(head))
		*ret = PROFILE_FORMAT_PERF;
	else if ((foreign = foreign_format(in)))
		return err_set(err, ERR_INVALID, "%s", foreign);
	else if (memchr(head.p, '\0', head.size) && elf_foreign_name(in, &name, &help))
		return err_set(err, ERR_INVALID, "is %s, not a profile%s%s", name, is_elf(in) ? ": " : "",
			       is_elf(in) ? help : "");
	else if (memchr(head.p, '\0', head.size))
		return err_set(
			err, ERR_INVALID,
			"is in no format that is read: it is neither profile.proto, nor text, nor a CPU "
			"profile of gperftools");
	else
		*ret = PROFILE_FORMAT_FOLDED;
	return 0;
}
