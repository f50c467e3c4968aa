/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a profile's locations, outermost first, while it is added to a tree.
 *
 * The results for its strings and functions are kept: names are hashed once for a profile, not once for a location.
 */
#include "profile/tree_internal.h"

#include <stdio.h>

#define STRING_KNOWN 0x80u /* in string_bits: it was looked at */

static uint32_t tree_string_in(struct profile_tree *t, struct tree_frames *f, uint32_t s)
{
	if (!f->strings.p[s])
		f->strings.p[s] = profile_add_string(t->p, profile_str(f->p, s)) + 1;
	return f->strings.p[s] - 1;
}

/* Of a location in no mapping: one without names, that begins at address 0. */
static const struct profile_mapping *frame_mapping(const struct profile *p, const struct profile_location *l)
{
	static const struct profile_mapping none;

	return l->mapping == PROFILE_NONE ? &none : &p->mappings.p[l->mapping];
}

static uint32_t binary_in_tree(struct profile_tree *t, struct tree_frames *f,
			       const struct profile_location *l)
{
	return tree_string_in(t, f, frame_mapping(f->p, l)->file);
}

static void mark_address(struct profile_tree *t, uint32_t frame)
{
	if (profile_extend(t->p, &t->addresses, (uint64_t)frame + 1))
		t->addresses.p[frame] = 1;
	else
		profile_index_of(t->p)->failed = true; /* profile_build_end() reports it */
}

static uint64_t address_in_file(const struct profile_mapping *m, const struct profile_location *l)
{
	return l->addr >= m->start ? l->addr - m->start + m->offset : l->addr;
}

void profile_address_text(const struct profile *p, const struct profile_location *l,
			  char ret[PROFILE_ADDRESS_TEXT])
{
	const struct profile_mapping *m = frame_mapping(p, l);
	struct str base = path_basename(profile_str(p, m->file));

	if (!base.size)
		base = l->mapping == PROFILE_NONE ? STR("") : STR("unknown");
	if (l->addr || !base.size)
		snprintf(ret, PROFILE_ADDRESS_TEXT, "%.*s%s0x%llx", (int)MIN(base.size, (size_t)240), base.p,
			 base.size ? "+" : "", (unsigned long long)address_in_file(m, l));
	else
		snprintf(ret, PROFILE_ADDRESS_TEXT, "%.*s", (int)MIN(base.size, (size_t)240), base.p);
}

void profile_line_text(const struct profile *p, const struct profile_line *line, struct buf *out)
{
	const struct profile_function *f = &p->functions.p[line->function];

	buf_printf(out, STR_FMT " " STR_FMT ":%lld",
		   STR_ARG(profile_str(p, f->name ? f->name : f->system_name)),
		   STR_ARG(profile_str(p, f->file)), (long long)line->line);
}

/* Only its address is known: build ID and address take the places of file and line. */
static uint32_t address_frame(struct profile_tree *t, struct tree_frames *frames,
			      const struct profile_location *l)
{
	const struct profile_mapping *m = frame_mapping(frames->p, l);
	struct profile_function f = { .system_name = tree_string_in(t, frames, m->file),
				      .file = tree_string_in(t, frames, m->build_id),
				      .start_line = (int64_t)address_in_file(m, l) };
	char text[PROFILE_ADDRESS_TEXT];
	uint32_t frame;

	profile_address_text(frames->p, l, text);
	f.name = profile_add_string(t->p, str_of(text));
	frame = profile_add_function(t->p, &f);
	mark_address(t, frame);
	return frame;
}

/* Most frames are of a function in a binary, and nothing more. */
static uint32_t function_frame(struct profile_tree *t, struct tree_frames *frames,
			       const struct profile_location *l, uint32_t function)
{
	const struct profile_function *of = &frames->p->functions.p[function];
	struct named_frame *known = &frames->functions.p[function];
	uint32_t binary = binary_in_tree(t, frames, l);
	struct profile_function f = { .system_name = binary, .start_line = of->start_line };

	if (known->frame && known->binary == binary)
		return known->frame - 1;
	f.name = tree_string_in(t, frames, of->name ? of->name : of->system_name);
	if (!f.name)
		f.name = profile_add_string(t->p, STR("unknown"));
	f.file = tree_string_in(t, frames, of->file);
	*known = (struct named_frame){ binary, profile_add_function(t->p, &f) + 1 };
	return known->frame - 1;
}

static uint32_t line_frame(struct profile_tree *t, struct tree_frames *frames,
			   const struct profile_location *l, const struct profile_line *line)
{
	const struct profile_function *of = &frames->p->functions.p[line->function];
	struct profile_function f = { .file = tree_string_in(t, frames, of->file) };
	AUTO(buf_done) struct buf text = { 0 };

	switch (t->view.by) {
	case PROFILE_BY_FILE:
		if (!f.file)
			f.file = profile_add_string(t->p, STR("unknown file"));
		f.name = f.file;
		break;
	case PROFILE_BY_LINE:
		profile_line_text(frames->p, line, &text);
		f.name = profile_add_string(t->p, buf_str(&text));
		f.system_name = binary_in_tree(t, frames, l);
		f.start_line = line->line;
		break;
	default:
		return function_frame(t, frames, l, line->function);
	}
	return profile_add_function(t->p, &f);
}

static uint32_t binary_frame(struct profile_tree *t, struct tree_frames *frames,
			     const struct profile_location *l)
{
	struct profile_function f = { .name = binary_in_tree(t, frames, l) };

	if (!f.name)
		f.name = profile_add_string(t->p, STR("unknown binary"));
	f.system_name = f.name;
	return profile_add_function(t->p, &f);
}

/* ---- matches with the patterns ---- */

static uint8_t bits_of_string(struct profile_tree *t, struct tree_frames *f, uint32_t s)
{
	uint8_t *known = &f->string_bits.p[s];

	if (!s)
		return 0;
	if (!*known)
		*known = (uint8_t)(STRING_KNOWN | tree_text_bits(t, profile_str(f->p, s)));
	return (uint8_t)(*known & ~STRING_KNOWN);
}

/* By the whole text of a line and its address: the page makes patterns of these. */
static uint8_t bits_of_place(struct profile_tree *t, const struct tree_frames *f,
			     const struct profile_location *l, const struct profile_line *line)
{
	AUTO(buf_done) struct buf b = { 0 };
	char text[PROFILE_ADDRESS_TEXT];

	if (!t->of_whole)
		return 0;
	profile_address_text(f->p, l, text);
	profile_line_text(f->p, line, &b);
	return (uint8_t)((tree_text_bits(t, str_of(text)) | tree_text_bits(t, buf_str(&b))) & t->of_whole);
}

/* By function, file and binary, whichever of these the view shows. */
static uint8_t bits_of_line(struct profile_tree *t, struct tree_frames *f, const struct profile_location *l,
			    const struct profile_line *line)
{
	const struct profile_function *of = &f->p->functions.p[line->function];

	if (!f->string_bits.n)
		return 0;
	return (uint8_t)(bits_of_string(t, f, of->name ? of->name : of->system_name) |
			 bits_of_string(t, f, of->file) | bits_of_string(t, f, frame_mapping(f->p, l)->file) |
			 bits_of_place(t, f, l, line));
}

/* Of a location without names: by its address and binary, whichever of these the view shows. */
static uint8_t bits_of_address(struct profile_tree *t, struct tree_frames *f,
			       const struct profile_location *l)
{
	char text[PROFILE_ADDRESS_TEXT];

	if (!f->string_bits.n)
		return 0;
	profile_address_text(f->p, l, text);
	return (uint8_t)(tree_text_bits(t, str_of(text)) |
			 bits_of_string(t, f, frame_mapping(f->p, l)->file));
}

/* Of a frame that stands for all lines: it is hidden if all of them are. */
static uint8_t bits_of_location(struct profile_tree *t, struct tree_frames *f,
				const struct profile_location *l)
{
	uint8_t any = 0, all = UINT8_MAX, hide = 1u << MATCH_HIDE;

	if (!l->n_lines)
		return bits_of_address(t, f, l);
	for (uint32_t i = 0; i < l->n_lines; i++) {
		uint8_t bits = bits_of_line(t, f, l, &f->p->lines.p[l->first_line + i]);

		any |= bits;
		all &= bits;
	}
	return (uint8_t)((any & ~hide) | (all & hide));
}

/* ---- the frames of a location ---- */

/*
 * The text that a view shows, a line or an address, hides frames and shows them. It selects samples only as a whole:
 * "f" would match the digits of addresses.
 */
static bool tree_push_frame(struct profile_tree *t, struct tree_frames *f, uint32_t frame, bool inlined,
			    uint8_t bits)
{
	const uint8_t of_frame = (uint8_t)(1u << MATCH_HIDE | 1u << MATCH_SHOW | t->of_whole);

	if (!profile_push(t->p, &f->list, frame << 1 | inlined))
		return false;
	return !tree_has_patterns(t) ||
	       profile_push(t->p, &f->bits, (uint8_t)(bits | (tree_frame_bits(t, frame) & of_frame)));
}

static bool location_frames(struct profile_tree *t, struct tree_frames *f, const struct profile_location *l)
{
	const uint8_t of_samples = 1u << MATCH_FOCUS | 1u << MATCH_IGNORE;
	uint8_t more = 0;

	if (t->view.by == PROFILE_BY_BINARY)
		return tree_push_frame(t, f, binary_frame(t, f, l), false, bits_of_location(t, f, l));
	if (!l->n_lines || t->view.by == PROFILE_BY_ADDRESS)
		return tree_push_frame(t, f, address_frame(t, f, l), false, bits_of_location(t, f, l));
	/* Inlined calls that are left out select samples, as they do by binary and by address. */
	if (t->view.no_inlines)
		more = bits_of_location(t, f, l) & of_samples;
	for (uint32_t i = l->n_lines; i-- > 0;) {
		const struct profile_line *line = &f->p->lines.p[l->first_line + i];

		if (!tree_push_frame(t, f, line_frame(t, f, l, line), i + 1 < l->n_lines,
				     bits_of_line(t, f, l, line) | more))
			return false;
		if (t->view.no_inlines)
			break;
	}
	return true;
}

int tree_frames_more(struct tree_frames *f, struct profile_tree *t, struct err *err)
{
	const struct profile *p = f->p;
	uint32_t i = f->first.n ? f->first.n - 1 : 0;

	if (!profile_extend(t->p, &f->first, (uint64_t)p->locations.n + 1) ||
	    !profile_extend(t->p, &f->strings, (uint64_t)p->strings.n + 1) ||
	    !profile_extend(t->p, &f->functions, p->functions.n) ||
	    (tree_has_patterns(t) && !profile_extend(t->p, &f->string_bits, (uint64_t)p->strings.n + 1)))
		return profile_err_memory(t->p, err);
	for (; i < p->locations.n; i++) {
		f->first.p[i] = f->list.n;
		if (deadline_check(t->deadline, TREE_STEPS_OF_FRAME * (1 + p->locations.p[i].n_lines), err) <
		    0)
			return -1;
		if (!location_frames(t, f, &p->locations.p[i]))
			return profile_err_memory(t->p, err);
		f->most = MAX(f->most, f->list.n - f->first.p[i]);
	}
	f->first.p[p->locations.n] = f->list.n;
	return profile_build_end(t->p, err);
}

int tree_frames_init(struct tree_frames *f, struct profile_tree *t, const struct profile *p, struct err *err)
{
	f->p = p;
	return tree_frames_more(f, t, err);
}

void tree_frames_done(struct tree_frames *f, struct profile_tree *t)
{
	profile_table_free(t->p, &f->list);
	profile_table_free(t->p, &f->bits);
	profile_table_free(t->p, &f->first);
	profile_table_free(t->p, &f->strings);
	profile_table_free(t->p, &f->string_bits);
	profile_table_free(t->p, &f->functions);
}
