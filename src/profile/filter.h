/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames the patterns of a view (tree.h) match, and so which samples they select: for trees, streams of rows, the source
 * view and the detail that the profile store keeps. All of them ask here, so all select the same samples.
 *
 * Patterns are POSIX extended (base/pattern.h) and are searched anywhere in a text. A text that is not known (no file, no name)
 * does not match.
 *
 * `focus` and `ignore` select samples by their locations, whatever the view groups by:
 * - by the names and files of all functions of the location, inlined ones too, and by the path of its binary
 * - by its address ("app+0x1234"), if it has no functions
 * - by the value of the view's label
 * - if the pattern is "^...$" with no other operator but ".", as the page makes it of a frame, also by the whole texts that
 *   some view shows for the location: a line ("parse /src/x.c:12"), the address of a location with functions, "unknown",
 *   "unknown file", "unknown binary". A part of these texts selects nothing: "f" would match the digits of addresses.
 * A sample is selected if `focus` matches one of its locations or its label, or is not set, and `ignore` matches none.
 *
 * `hide` and `show` look at the frames of one view. They are matched with the same names, and with any part of the text that
 * the view shows for the frame. A frame that stands for several inlined functions (by binary, by address) is hidden if
 * all of them match, and is shown if one does.
 */
#pragma once

#include "base/pattern.h"
#include "profile/tree.h"

/* The patterns of a view; also the bits of matches. */
enum { MATCH_FOCUS, MATCH_IGNORE, MATCH_HIDE, MATCH_SHOW, N_MATCHES };
#define MATCHES_OF_SAMPLES ((uint8_t)(1u << MATCH_FOCUS | 1u << MATCH_IGNORE))
#define MATCHES_OF_FRAMES  ((uint8_t)(1u << MATCH_HIDE | 1u << MATCH_SHOW))

struct profile_filters {
	struct pattern *patterns[N_MATCHES]; /* NULL: none */
	struct deadline
		*deadline; /* NULL: none; if it has passed nothing matches, and the caller checks it */
	/* filter.c's: bits of `focus` and `ignore` that are whole texts; and may be those of a line, of an address */
	uint8_t whole, of_lines, of_addresses;
	uint8_t of_no_name, of_no_file, of_no_binary; /* matches of what views show instead */
};
/* ERR_INVALID, ERR_LIMIT: a pattern is refused. Patterns are copied, @deadline is borrowed. */
int profile_filters_init(struct profile_filters *f, const struct profile_view *view,
			 struct deadline *deadline, struct err *err);
void profile_filters_done(struct profile_filters *f);
static inline bool profile_filters_are_set(const struct profile_filters *f, uint8_t bits)
{
	for (unsigned i = 0; i < N_MATCHES; i++)
		if (bits >> i & 1 && f->patterns[i])
			return true;
	return false;
}

/*
 * The parts of locations with functions, beside functions, files and binary, that @pattern (or NULL) may match as `focus` or
 * `ignore`: in a profile that lacks them it selects other samples. 0: none.
 */
enum { PROFILE_FILTERS_LINES = 1, PROFILE_FILTERS_ADDRESSES = 2 };
unsigned profile_filter_needs(const char *pattern);

/* The locations of one profile. */
struct profile_filtered {
	const struct profile_filters *filters;
	const struct profile *p;
	uint8_t *known; /* the caller's: of each string of @p, zeroed at first; each is matched once */
};
/*
 * Matches of a location: `focus` and `ignore` as above, `hide` and `show` for a frame that stands for all of it. The latter
 * without the text that the view shows, unless it is the address of a location without functions.
 */
uint8_t profile_filters_location(const struct profile_filtered *in, const struct profile_location *l);
/* Matches of `hide` and `show` for a frame that stands for one line of it, without the text that the view shows. */
uint8_t profile_filters_line(const struct profile_filtered *in, const struct profile_location *l,
			     const struct profile_line *line);
/* Matches of a text: that of a frame which a view shows, or the value of its label. */
uint8_t profile_filters_text(const struct profile_filters *f, struct str text);
/* Is a sample selected? @focus and @ignore: they match one of its locations, or its label. */
static inline bool profile_filters_select(const struct profile_filters *f, bool focus, bool ignore)
{
	return !ignore && (focus || !f->patterns[MATCH_FOCUS]);
}

/* ---- the texts of frames ---- */

/* What views show for a function, a file, a binary that is not known. */
#define PROFILE_NO_NAME   "unknown"
#define PROFILE_NO_FILE   "unknown file"
#define PROFILE_NO_BINARY "unknown binary"

/* Of a location in no mapping: one without names, that begins at address 0. */
const struct profile_mapping *profile_mapping_of(const struct profile *p, const struct profile_location *l);
#define PROFILE_ADDRESS_TEXT 288u
/* The text of a frame without a name: "app+0x1234". "app": it has no address either. */
void profile_address_text(const struct profile *p, const struct profile_location *l,
			  char ret[PROFILE_ADDRESS_TEXT]);
/* The address in the file. */
uint64_t profile_address_in_file(const struct profile *p, const struct profile_location *l);
/* The text of a frame by line: "parse /src/x.c:12". */
void profile_line_text(const struct profile *p, const struct profile_line *line, struct buf *out);
#define PROFILE_LABEL_TEXT 64u
/* The value of the label @key in a set of labels, a number in @room; or "(no label)". */
struct str profile_label_text(const struct profile *p, uint32_t labels, struct str key,
			      char room[PROFILE_LABEL_TEXT]);
