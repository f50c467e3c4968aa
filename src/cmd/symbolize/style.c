/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How answers are written: ours, and as addr2line and llvm-symbolizer write them, for programs that read
 * these.
 */
#include <stdlib.h>
#include "cmd/symbolize/write.h"

static void add_path(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	if (!f->file.size)
		buf_add_str(out, STR("??"));
	else if (s->symbols.basenames)
		buf_add_str(out, path_basename(f->file));
	else
		symtab_path(f->dir, f->file, out);
}

static void add_number(struct buf *out, uint64_t v)
{
	char text[24];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(out, text + at, sizeof(text) - at);
}

/* Only tables that were asked to have them do. */
static void add_discriminator(const struct symtab_frame *f, struct buf *out)
{
	if (f->discriminator)
		buf_printf(out, " (discriminator %u)", f->discriminator);
}

/* ---- ours ---- */

static void head_ours(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		      struct buf *out)
{
	buf_printf(out, "0x%llx", (unsigned long long)addr);
	if (frames)
		buf_printf(out, "  +0x%llx", (unsigned long long)(addr - frames->start));
	buf_add_char(out, '\n');
}

static void place_ours(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	buf_add_str(out, STR("  "));
	add_path(s, f, out);
	if (f->line) {
		buf_add_char(out, ':');
		add_number(out, f->line);
		if (f->column) {
			buf_add_char(out, ':');
			add_number(out, f->column);
		}
		add_discriminator(f, out);
	}
	if (f->inlined)
		buf_add_str(out, STR("  inlined into"));
	else if (f->origin != SYMTAB_DWARF)
		buf_printf(out, "  (from %s)", symtab_origin_name(f->origin));
	buf_add_char(out, '\n');
}

/* ---- addr2line, llvm-symbolizer ---- */

static void head_gnu(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		     struct buf *out)
{
	if (w->s->symbols.addresses)
		buf_printf(out, "0x%016llx%s", (unsigned long long)addr, w->s->symbols.pretty ? ": " : "\n");
}

static void head_llvm(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		      struct buf *out)
{
	if (w->s->symbols.addresses)
		buf_printf(out, "0x%llx%s", (unsigned long long)addr, w->s->symbols.pretty ? ": " : "\n");
}

static void add_path_behind_name(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	if (s->symbols.functions)
		buf_add_str(out, s->symbols.pretty ? STR(" at ") : STR("\n"));
	add_path(s, f, out);
	buf_add_char(out, ':');
}

static void place_gnu(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	add_path_behind_name(s, f, out);
	if (f->line)
		add_number(out, f->line);
	else
		buf_add_char(out, f->file.size ? '?' : '0');
	add_discriminator(f, out);
	buf_add_char(out, '\n');
}

static void place_llvm(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	add_path_behind_name(s, f, out);
	add_number(out, f->line);
	buf_add_char(out, ':');
	add_number(out, f->column);
	buf_add_char(out, '\n');
}

/* ---- llvm-symbolizer's JSON ---- */

static json_t *json_path(const struct settings *s, struct str dir, struct str file)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (file.size && s->symbols.basenames)
		buf_add_str(&b, path_basename(file));
	else if (file.size)
		symtab_path(dir, file, &b);
	return json_text(buf_str(&b));
}

static json_t *json_frame(struct symbolize_writer *w, const struct symtab_frames *frames,
			  const struct symtab_frame *f)
{
	const struct settings *s = w->s;
	json_t *j = json_object();
	char start[24];

	snprintf(start, sizeof(start), "0x%llx", (unsigned long long)frames->start);
	json_object_set_new(j, "Column", json_integer(f->column));
	json_object_set_new(j, "Discriminator", json_integer(f->discriminator));
	json_object_set_new(j, "FileName", json_path(s, f->dir, f->file));
	json_object_set_new(j, "FunctionName", json_text(symbolize_writer_name(w, f)));
	json_object_set_new(j, "Line", json_integer(f->line));
	json_object_set_new(j, "StartAddress", json_string(f->inlined ? "" : start));
	json_object_set_new(j, "StartFileName", json_path(s, f->start_file_dir, f->start_file));
	json_object_set_new(j, "StartLine", json_integer(f->start_line));
	return j;
}

static void head_json(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		      struct buf *out)
{
	json_t *j = json_object(), *list = json_array();
	char text[24], *dump;

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)addr);
	json_object_set_new(j, "Address", json_string(text));
	json_object_set_new(j, "ModuleName", json_text(w->module));
	for (size_t i = 0; frames && i < frames->n; i++)
		json_array_append_new(list, json_frame(w, frames, &frames->list[i]));
	json_object_set_new(j, "Symbol", list);
	dump = json_dumps(j, JSON_COMPACT);
	buf_add_str(out, str_of(dump ? dump : "{}"));
	buf_add_char(out, '\n');
	free(dump);
	json_decref(j);
}

static const struct symbolize_style styles[] = {
	{ "lode", head_ours, place_ours, .before = STR("  "),
	  .unknown = STR("  ??  no function is known there\n"), .ours = true, .echo = true, .addressed = true,
	  .discriminators = true },
	{ "gnu", head_gnu, place_gnu, .pretty = true, .discriminators = true },
	{ "llvm", head_llvm, place_llvm, .end = STR("\n"), .echo = true, .pretty = true },
	{ "json", head_json, .list = true, .echo = true, .addressed = true, .discriminators = true },
};

void symbolize_fold(struct symtab_frames *f, struct symtab_frame *room)
{
	const struct symtab_frame *inner = &f->list[0];

	*room = f->list[f->n - 1];
	room->dir = inner->dir;
	room->file = inner->file;
	room->line = inner->line;
	room->column = inner->column;
	room->discriminator = inner->discriminator;
	f->list = room;
	f->n = 1;
}

const struct symbolize_style *symbolize_style_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(styles); i++)
		if (str_eq(name, str_of(styles[i].name)))
			return &styles[i];
	return NULL;
}
