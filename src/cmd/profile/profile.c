/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode profile: read profiles, merge, compare and filter them, write them in another format. lode symbolize
 * of a profile does the same and adds names.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd/profile/profile.h"
#include "profile/input.h"
#include "profile/output.h"
#include "profile/prune.h"

#define TOP_ROWS 40

enum output_kind { OUTPUT_PPROF, OUTPUT_FOLDED, OUTPUT_SPEEDSCOPE, OUTPUT_SVG, OUTPUT_HTML, OUTPUT_TOP };

static const struct {
	const char *name;
	const char *suffixes[4]; /* of file names */
} outputs[] = {
	[OUTPUT_PPROF] = { "pprof", { ".pb.gz", ".pb", ".pprof" } },
	[OUTPUT_FOLDED] = { "folded", { ".folded" } },
	[OUTPUT_SPEEDSCOPE] = { "speedscope", { ".json" } },
	[OUTPUT_SVG] = { "svg", { ".svg" } },
	[OUTPUT_HTML] = { "html", { ".html", ".htm" } },
	[OUTPUT_TOP] = { "top", { ".txt" } },
};

/* ---- options ---- */

bool profile_wanted(const struct settings *s)
{
	struct stat st;

	if (s->profile.output || s->profile.output_format || s->profile.input_format)
		return true;
	return s->paths.n && stat(s->paths.items[0].p, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_stdout(const struct settings *s)
{
	return !s->profile.output || strcmp(s->profile.output, "-") == 0;
}

static int output_kind(const struct settings *s, enum output_kind *ret, struct err *err)
{
	struct str name = str_of(s->profile.output_format), path = str_of(s->profile.output);

	for (size_t i = 0; name.p && i < ARRAY_SIZE(outputs); i++)
		if (str_eq(name, str_of(outputs[i].name))) {
			*ret = (enum output_kind)i;
			return 0;
		}
	if (name.p)
		return err_set(err, ERR_INVALID,
			       "--output-format: '%s' is not pprof, folded, speedscope, svg, html or top",
			       name.p);
	*ret = OUTPUT_TOP;
	if (is_stdout(s))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(outputs); i++)
		for (size_t k = 0; outputs[i].suffixes[k]; k++)
			if (str_ends(path, str_of(outputs[i].suffixes[k]))) {
				*ret = (enum output_kind)i;
				return 0;
			}
	return err_set(err, ERR_INVALID,
		       "%s: the name has no known suffix; end it in .pb.gz, .folded, .json, .svg, .html or "
		       ".txt, or give --output-format",
		       path.p);
}

static int view_of(const struct settings *s, struct profile_view *ret, struct err *err)
{
	*ret = (struct profile_view){
		.label = s->profile.label,
		.focus = s->profile.focus,
		.ignore = s->profile.ignore,
		.hide = s->profile.hide,
		.show = s->profile.show,
		.invert = s->profile.invert,
		.no_inlines = s->symbols.no_inlines,
	};
	if (s->profile.by && !profile_group_parse(str_of(s->profile.by), &ret->by))
		return err_set(err, ERR_INVALID, "--by: '%s' is not function, file, binary, line or address",
			       s->profile.by);
	return 0;
}

/* ---- reading ---- */

static int merge_one(const struct settings *s, const char *path, struct profile *to, struct err *err)
{
	AUTO(profile_freep) struct profile *p = NULL;

	if (profile_read_path(s, path, &p, err) < 0)
		return -1;
	return profile_merge(to, p, 1, err) < 0 ? err_in(err, "%s", path) : 0;
}

static int read_and_merge(const struct settings *s, struct profile **ret, struct err *err)
{
	AUTO(profile_freep) struct profile *all = NULL;

	if (s->paths.n <= 1)
		return profile_read_path(s, s->paths.n ? s->paths.items[0].p : "-", ret, err);
	all = profile_new(NULL);
	for (size_t i = 0; i < s->paths.n; i++)
		if (merge_one(s, s->paths.items[i].p, all, err) < 0)
			return -1;
	if (profile_merge_end(all, err) < 0)
		return -1;
	*ret = TAKE(all);
	return 0;
}

/* ---- writing ---- */

static int find_type(const struct profile *p, const char *name, uint32_t *ret, struct err *err)
{
	AUTO(buf_done) struct buf known = { 0 };

	*ret = profile_type_find(p, str_of(name ? name : ""));
	if (*ret != PROFILE_NONE)
		return 0;
	for (uint32_t i = 0; i < p->types.n; i++) {
		buf_add_str(&known, i ? STR(", ") : STR(""));
		buf_add_str(&known, profile_str(p, p->types.p[i].type));
	}
	return err_set(err, ERR_INVALID, "no sample type '%s'; the types are %s", name ? name : "",
		       buf_cstr(&known));
}

static int make_tree(const struct settings *s, const struct profile *p, const struct profile *base,
		     struct profile_tree **ret, struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct profile_view view;
	uint32_t type, of_base;
	double scale = 1;

	if (view_of(s, &view, err) < 0 || profile_tree_new(&view, NULL, &t, err) < 0 ||
	    find_type(p, s->profile.type, &type, err) < 0 || profile_tree_add(t, p, type, 0, 1, err) < 0)
		return -1;
	if (base) {
		if (find_type(base, s->profile.type, &of_base, err) < 0)
			return err_in(err, "%s", s->profile.base);
		if (s->profile.normalise && profile_total(base, of_base))
			scale = (double)profile_total(p, type) / (double)profile_total(base, of_base);
		if (profile_tree_add(t, base, of_base, 1, scale, err) < 0)
			return err_in(err, "%s", s->profile.base);
	}
	if (profile_tree_end(t, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}

static int write_tree(const struct settings *s, enum output_kind kind, const struct profile *p,
		      const struct profile *base, struct buf *out, struct err *err)
{
	const struct profile_output o = { .title = s->profile.title,
					  .rows = s->profile.rows ? s->profile.rows : TOP_ROWS,
					  .by_cum = s->profile.cum };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;

	if (make_tree(s, p, base, &t, err) < 0)
		return -1;
	switch (kind) {
	case OUTPUT_FOLDED:
		profile_write_folded(t, &o, out);
		break;
	case OUTPUT_SPEEDSCOPE:
		profile_write_speedscope(t, &o, out);
		break;
	case OUTPUT_SVG:
		profile_write_svg(t, &o, out);
		break;
	case OUTPUT_HTML:
		profile_write_html(t, &o, out);
		break;
	default:
		profile_write_top(t, &o, out);
	}
	return 0;
}

static int write_pprof_output(const struct settings *s, const struct profile *p, const struct profile *base,
			      struct buf *out, struct err *err)
{
	bool gzip = !s->profile.output || !str_ends(str_of(s->profile.output), STR(".pb"));
	AUTO(profile_freep) struct profile *diff = NULL;

	if (!base)
		return profile_write_pprof(p, gzip, out, err);
	if (profile_diff(p, base, s->profile.normalise, &diff, err) < 0)
		return -1;
	return profile_write_pprof(diff, gzip, out, err);
}

static int write_output(const struct settings *s, enum output_kind kind, const struct profile *p,
			const struct profile *base, struct err *err)
{
	AUTO(buf_done) struct buf out = { 0 };
	int r = kind == OUTPUT_PPROF ? write_pprof_output(s, p, base, &out, err)
				     : write_tree(s, kind, p, base, &out, err);

	if (r < 0)
		return -1;
	if (is_stdout(s))
		return fd_write(STDOUT_FILENO, out.p, out.size, err);
	return file_write_named(s->profile.output, out.p, out.size, 0666, err);
}

/* ---- the command ---- */

int profile_output_check(const struct settings *s, const char *command)
{
	enum output_kind kind = OUTPUT_TOP;
	struct profile_view view;
	struct err err = { 0 };

	if (output_kind(s, &kind, &err) < 0 || view_of(s, &view, &err) < 0)
		return usage_error(command, "%s", err.text);
	if (kind == OUTPUT_PPROF && is_stdout(s) && isatty(STDOUT_FILENO))
		return usage_error(command, "pprof is a binary format; give -o FILE, or redirect the output");
	return EXIT_DONE;
}

int profile_output(struct settings *s, struct profile *p, struct profile *base, struct err *err)
{
	enum output_kind kind = OUTPUT_TOP;

	if (output_kind(s, &kind, err) < 0)
		return -1;
	/* A reader of pprof has the patterns, and the choice. */
	if (kind != OUTPUT_PPROF && !s->profile.all_frames &&
	    (profile_prune(p, err) < 0 || (base && profile_prune(base, err) < 0)))
		return -1;
	return write_output(s, kind, p, base, err);
}

/* pprof has all samples and types, since its readers have filters of their own: a file that ignores a filter is wrong. */
static int refuse_view_of_pprof(const struct settings *s, const char *command)
{
	static const struct option_use uses[] = {
		{ &group_profile_view, "sample-type", 0 }, { &group_profile_view, "by", 0 },
		{ &group_profile_view, "label", 0 },       { &group_profile_view, "focus", 0 },
		{ &group_profile_view, "ignore", 0 },      { &group_profile_view, "hide", 0 },
		{ &group_profile_view, "show", 0 },        { &group_profile_view, "invert", 0 },
		{ &group_profile_view, "cum", 0 },         { &group_profile_view, "rows", 0 },
		{ &group_profile_view, "title", 0 },       { 0 },
	};
	const struct option_row *row = option_useless(s, uses, 0);
	const char *useless = row ? row->name : s->symbols.no_inlines ? "no-inlines" : NULL;
	enum output_kind kind = OUTPUT_TOP;
	struct err err = { 0 };

	if (!useless || output_kind(s, &kind, &err) < 0 || kind != OUTPUT_PPROF)
		return EXIT_DONE;
	return usage_error(command,
			   "--%s has no effect on pprof, which has all samples; write another format, as -o "
			   "FILE.folded",
			   useless);
}

int profile_run(struct settings *s, bool name)
{
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(profile_freep) struct profile *base = NULL;
	const char *command = name ? "symbolize" : "profile";
	int status = profile_output_check(s, command);
	struct err err = { 0 };

	if (status == EXIT_DONE)
		status = refuse_view_of_pprof(s, command);
	if (status != EXIT_DONE)
		return status;
	if (!s->paths.n && isatty(STDIN_FILENO))
		return usage_error(command, "no PROFILE given");
	if (read_and_merge(s, &p, &err) < 0 ||
	    (s->profile.base && profile_read_path(s, s->profile.base, &base, &err) < 0))
		return tell_error(command, &err);
	if (name && (profile_name_here(p, s, &err) < 0 || (base && profile_name_here(base, s, &err) < 0)))
		return tell_error(command, &err);
	return profile_output(s, p, base, &err) < 0 ? tell_error(command, &err) : EXIT_DONE;
}

static int run_profile(struct settings *s)
{
	return profile_run(s, false);
}

static const struct option_row file_rows[] = {
	{ 'o', "output", "FILE",
	  "write the profile to FILE, in the format of its suffix; '-': standard output",
	  OPT_TEXT(profile.output) },
	{ 0, "output-format", "FORMAT",
	  "pprof, folded, speedscope, svg, html, top [by the suffix; without a file top]",
	  OPT_TEXT(profile.output_format) },
	{ 0, "input-format", "FORMAT", PROFILE_INPUT_HELP, OPT_TEXT(profile.input_format) },
	{ 0, "names", "HOW",
	  "names that lode symbolize adds: full, templates (no parameters), simple (no template arguments, "
	  "either) [templates]",
	  OPT_TEXT(profile.names) },
	{ 'q', "quiet", NULL, "lode symbolize: do not report addresses without a name",
	  OPT_ON(profile.quiet) },
	{ 0 },
};
const struct option_group group_profile_files = { "Profiles", file_rows };

static const struct option_row view_rows[] = {
	{ 0, "sample-type", "TYPE", "the values to use [the profile's default, else its last]",
	  OPT_TEXT(profile.type) },
	{ 0, "base", "FILE",
	  "compare with this profile; pprof output has the difference, other formats have both",
	  OPT_TEXT(profile.base) },
	{ 0, "normalize", NULL, "scale the base to the same total", OPT_ON(profile.normalise) },
	{ 0, "by", "WHAT", "frames are: function, file, binary, line or address [function]",
	  OPT_TEXT(profile.by) },
	{ 0, "label", "KEY", "make the values of this label the outermost frames", OPT_TEXT(profile.label) },
	{ 0, "focus", "REGEX", "only samples with a frame whose function, file or binary matches",
	  OPT_TEXT(profile.focus) },
	{ 0, "ignore", "REGEX", "no samples with a frame that matches", OPT_TEXT(profile.ignore) },
	{ 0, "hide", "REGEX", "leave out frames that match", OPT_TEXT(profile.hide) },
	{ 0, "show", "REGEX", "leave out all other frames", OPT_TEXT(profile.show) },
	{ 0, "all-frames", NULL,
	  "keep the frames that the profile calls uninteresting: of allocators, locks and signal handlers",
	  OPT_ON(profile.all_frames) },
	{ 0, "invert", NULL, "start the tree at the callees", OPT_ON(profile.invert) },
	{ 0, "cum", NULL, "top: sort by the values of functions with their callees", OPT_ON(profile.cum) },
	{ 0, "rows", "N", "top: the number of rows [40]", OPT_NUMBER(profile.rows) },
	{ 0, "title", "TEXT", "the title of flame graphs", OPT_TEXT(profile.title) },
	{ 0 },
};
const struct option_group group_profile_view = { "View of profiles", view_rows };

static const struct option_row inline_rows[] = {
	{ 0, "no-inlines", NULL, "leave out inlined calls", OPT_ON(symbols.no_inlines) },
	{ 0 },
};
static const struct option_group inline_group = { "Frames", inline_rows };

const struct command command_profile = {
	.name = "profile",
	.args = "[PROFILE...]",
	.summary = "merge, compare, filter profiles; print a table, a flame graph, or another format",
	.examples = "  lode profile cpu.pb.gz\n"
		    "  lode profile --focus parse -o flame.html monday.pb.gz tuesday.pb.gz\n"
		    "  lode profile --base before.pb.gz --normalize -o diff.svg after.pb.gz\n"
		    "  perf script | lode profile -o cpu.folded\n",
	.groups = { &group_profile_files, &group_profile_view, &inline_group },
	.max_args = SIZE_MAX,
	.run = run_profile,
};
