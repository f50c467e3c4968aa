/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a profile's locations, outermost first, while it is added to a tree.
 *
 * The results for its strings and functions are kept: names are hashed once for a profile, not once for a location.
 */
#include "profile/tree_internal.h"

static uint32_t tree_string_in(struct profile_tree *t, struct tree_frames *f, uint32_t s)
{
	if (!f->strings.p[s])
		f->strings.p[s] = profile_add_string(t->p, profile_str(f->p, s)) + 1;
	return f->strings.p[s] - 1;
}

static uint32_t binary_in_tree(struct profile_tree *t, struct tree_frames *f,
			       const struct profile_location *l)
{
	return tree_string_in(t, f, profile_mapping_of(f->p, l)->file);
}

static void mark_address(struct profile_tree *t, uint32_t frame)
{
	if (profile_extend(t->p, &t->addresses, (uint64_t)frame + 1))
		t->addresses.p[frame] = 1;
	else
		profile_index_of(t->p)->failed = true; /* profile_build_end() reports it */
}

/* Only its address is known: build ID and address take the places of file and line. */
static uint32_t address_frame(struct profile_tree *t, struct tree_frames *frames,
			      const struct profile_location *l)
{
	const struct profile_mapping *m = profile_mapping_of(frames->p, l);
	struct profile_function f = { .system_name = tree_string_in(t, frames, m->file),
				      .file = tree_string_in(t, frames, m->build_id),
				      .start_line = (int64_t)profile_address_in_file(frames->p, l) };
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
		f.name = profile_add_string(t->p, STR(PROFILE_NO_NAME));
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
			f.file = profile_add_string(t->p, STR(PROFILE_NO_FILE));
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
		f.name = profile_add_string(t->p, STR(PROFILE_NO_BINARY));
	f.system_name = f.name;
	return profile_add_function(t->p, &f);
}

/* ---- the frames of a location ---- */

/* @bits: its matches, without the text that is shown for it. */
static bool tree_push_frame(struct profile_tree *t, struct tree_frames *f, uint32_t frame, bool inlined,
			    uint8_t bits)
{
	return profile_push(t->p, &f->list, frame << 1 | inlined) &&
	       (!tree_has_patterns(t) || profile_push(t->p, &f->bits, bits));
}

/* That text selects no samples, but hides frames and shows them. */
static uint8_t bits_of_shown(struct profile_tree *t, uint32_t frame)
{
	if (!profile_filters_are_set(&t->filters, MATCHES_OF_FRAMES))
		return 0;
	return tree_frame_bits(t, frame) & MATCHES_OF_FRAMES;
}

/* A frame for each function. Those that are left out select samples, too: all frames have what the location selects by. */
static bool line_frames(struct profile_tree *t, struct tree_frames *f, const struct profile_filtered *in,
			const struct profile_location *l, uint8_t bits)
{
	for (uint32_t i = l->n_lines; i-- > 0;) {
		const struct profile_line *line = &f->p->lines.p[l->first_line + i];
		uint32_t frame = line_frame(t, f, l, line);
		uint8_t own = 0;

		if (profile_filters_are_set(&t->filters, MATCHES_OF_FRAMES))
			own = profile_filters_line(in, l, line) | bits_of_shown(t, frame);
		if (!tree_push_frame(t, f, frame, i + 1 < l->n_lines, (bits & MATCHES_OF_SAMPLES) | own))
			return false;
		if (t->view.no_inlines)
			break;
	}
	return true;
}

static bool location_frames(struct profile_tree *t, struct tree_frames *f, const struct profile_filtered *in,
			    const struct profile_location *l)
{
	uint8_t bits = tree_has_patterns(t) ? profile_filters_location(in, l) : 0;
	uint32_t frame;

	if (t->view.by == PROFILE_BY_BINARY) {
		frame = binary_frame(t, f, l);
		return tree_push_frame(t, f, frame, false, bits | bits_of_shown(t, frame));
	}
	if (l->n_lines && t->view.by != PROFILE_BY_ADDRESS)
		return line_frames(t, f, in, l, bits);
	frame = address_frame(t, f, l);
	/* Without functions it was matched with its address. */
	return tree_push_frame(t, f, frame, false, bits | (l->n_lines ? bits_of_shown(t, frame) : 0));
}

int tree_frames_more(struct tree_frames *f, struct profile_tree *t, struct err *err)
{
	const struct profile *p = f->p;
	struct profile_filtered in = { &t->filters, p };
	uint32_t i = f->first.n ? f->first.n - 1 : 0;

	if (!profile_extend(t->p, &f->first, (uint64_t)p->locations.n + 1) ||
	    !profile_extend(t->p, &f->strings, (uint64_t)p->strings.n + 1) ||
	    !profile_extend(t->p, &f->functions, p->functions.n) ||
	    (tree_has_patterns(t) && !profile_extend(t->p, &f->string_bits, (uint64_t)p->strings.n + 1)))
		return profile_err_memory(t->p, err);
	in.known = f->string_bits.p;
	for (; i < p->locations.n; i++) {
		f->first.p[i] = f->list.n;
		if (deadline_check(t->deadline, TREE_STEPS_OF_FRAME * (1 + p->locations.p[i].n_lines), err) <
		    0)
			return -1;
		if (!location_frames(t, f, &in, &p->locations.p[i]))
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
