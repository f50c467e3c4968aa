/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output styles: lode's own, and those of addr2line and llvm-symbolizer, for programs that read their
 * output.
 */
#include "base/json.h"
#include "cmd/symbolize/write.h"

static void add_frame_path(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	if (!f->file.size)
		buf_add_str(out, STR("??"));
	else if (s->symbols.basenames)
		buf_add_str(out, path_basename(f->file));
	else
		symtab_path(f->dir, f->file, out);
}

static void add_decimal(struct buf *out, uint64_t v)
{
	char text[24];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(out, text + at, sizeof(text) - at);
}

/* 0 in a table that was made without discriminators. */
static void add_discriminator(const struct symtab_frame *f, struct buf *out)
{
	if (f->discriminator)
		buf_printf(out, " (discriminator %u)", f->discriminator);
}

/* Repeat it. */
static void echo_text(const struct symbolize_writer *w, struct str text, struct buf *out)
{
	buf_add_str(out, text);
	buf_add_char(out, '\n');
}

/* ---- lode's ---- */

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
	add_frame_path(s, f, out);
	if (f->line) {
		buf_add_char(out, ':');
		add_decimal(out, f->line);
		if (f->column) {
			buf_add_char(out, ':');
			add_decimal(out, f->column);
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

static void add_path_after_name(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	if (s->symbols.functions)
		buf_add_str(out, s->symbols.pretty ? STR(" at ") : STR("\n"));
	add_frame_path(s, f, out);
	buf_add_char(out, ':');
}

/* Without a line: '?' if a function or a file is known, else 0; then there is no " at ", either. */
static void place_gnu(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	if (!f->file.size && !f->name.size && !f->linkage.size) {
		if (s->symbols.functions)
			buf_add_char(out, s->symbols.pretty ? ' ' : '\n');
		buf_add_str(out, STR("??:0\n"));
		return;
	}
	add_path_after_name(s, f, out);
	if (f->line)
		add_decimal(out, f->line);
	else
		buf_add_char(out, '?');
	add_discriminator(f, out);
	buf_add_char(out, '\n');
}

static void place_llvm(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	add_path_after_name(s, f, out);
	add_decimal(out, f->line);
	buf_add_char(out, ':');
	add_decimal(out, f->column);
	buf_add_char(out, '\n');
}

/* ---- llvm-symbolizer's JSON ---- */

static void put_path(struct json_writer *j, const char *key, const struct settings *s, struct str dir,
		     struct str file)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (file.size && s->symbols.basenames)
		buf_add_str(&b, path_basename(file));
	else if (file.size)
		symtab_path(dir, file, &b);
	json_put_str(j, key, buf_str(&b));
}

static void put_json_frame(struct json_writer *j, struct symbolize_writer *w,
			   const struct symtab_frames *frames, const struct symtab_frame *f)
{
	json_open_object(j, NULL);
	json_put_uint(j, "Column", f->column);
	json_put_uint(j, "Discriminator", f->discriminator);
	put_path(j, "FileName", w->s, f->dir, f->file);
	json_put_str(j, "FunctionName", symbolize_writer_name(w, f));
	json_put_uint(j, "Line", f->line);
	if (f->inlined)
		json_put_text(j, "StartAddress", "");
	else
		json_put_printf(j, "StartAddress", "0x%llx", (unsigned long long)frames->start);
	put_path(j, "StartFileName", w->s, f->start_file_dir, f->start_file);
	json_put_uint(j, "StartLine", f->start_line);
	json_close(j);
}

static void head_json(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		      struct buf *out)
{
	struct json_writer j = { .out = out };

	json_open_object(&j, NULL);
	json_put_printf(&j, "Address", "0x%llx", (unsigned long long)addr);
	json_put_str(&j, "ModuleName", w->module);
	json_open_array(&j, "Symbol");
	for (size_t i = 0; frames && i < frames->n; i++)
		put_json_frame(&j, w, frames, &frames->list[i]);
	json_close(&j);
	json_close(&j);
	buf_add_char(out, '\n');
}

/* As llvm-symbolizer: programs read each answer as JSON. */
static void echo_json(const struct symbolize_writer *w, struct str text, struct buf *out)
{
	AUTO(buf_done) struct buf message = { 0 };
	struct json_writer j = { .out = out };

	buf_printf(&message, "unable to parse arguments: " STR_FMT, STR_ARG(text));
	json_open_object(&j, NULL);
	json_open_object(&j, "Error");
	json_put_str(&j, "Message", buf_str(&message));
	json_close(&j);
	json_put_str(&j, "ModuleName", w->module);
	json_close(&j);
	buf_add_char(out, '\n');
}

static const struct symbolize_style styles[] = {
	{ "lode", head_ours, place_ours, .before = STR("  "),
	  .unknown = STR("  ??  no function is known there\n"), .ours = true, .echo = echo_text,
	  .addressed = true, .discriminators = true },
	{ "gnu", head_gnu, place_gnu, .pretty = true, .discriminators = true },
	{ "llvm", head_llvm, place_llvm, .end = STR("\n"), .echo = echo_text, .pretty = true },
	{ "json", head_json, .list = true, .echo = echo_json, .addressed = true, .discriminators = true },
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
