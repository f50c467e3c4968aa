/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How answers are written: ours, and as addr2line and llvm-symbolizer write them, for programs that read
 * these.
 */
#include <stdlib.h>
#include "base/map.h"
#include "cmd/symbolize.h"

#define KNOWN_MAX MIB(64) /* of names and their texts: then all are forgotten */

struct known_name {
	size_t size;
	char text[];
};

static void known_forget(struct map *known)
{
	struct bytes key;
	void *value;

	map_each (known, it, &key, &value)
		free(value);
	map_done(known);
}

/* Neither addr2line nor llvm-symbolizer undoes Go's escapes. */
static void name_of_tools(const struct symtab_frame *f, enum symbolize_demangling how, struct buf *out)
{
	struct str name = f->linkage.size ? f->linkage : f->name;

	if (how == SYMBOLIZE_SIMPLE)
		symbolize_name(f, how, out);
	else
		symtab_demangle(name, how == SYMBOLIZE_FULL ? SYMTAB_FULL : SYMTAB_SIMPLE, out);
}

/* A template's name takes some 3 us to be demangled, and the same few come again and again. This is a
 * command's: one thread writes, in one style. */
static void add_demangled(const struct symtab_frame *f, enum symbolize_demangling how, bool ours,
			  struct buf *out)
{
	static struct map known;
	static size_t used;
	struct str name = f->linkage.size ? f->linkage : f->name;
	struct bytes key = bytes_of(name.p, name.size);
	struct known_name *n = map_get(&known, key);
	size_t from = out->size, size;

	if (n) {
		buf_add(out, n->text, n->size);
		return;
	}
	(ours ? symbolize_name : name_of_tools)(f, how, out);
	size = out->size - from;
	if (used + name.size + size > KNOWN_MAX) {
		known_forget(&known);
		used = 0;
	}
	used += name.size + size;
	n = mem_alloc(sizeof(*n) + size);
	n->size = size;
	memcpy(n->text, out->p + from, size);
	map_put(&known, key, n);
}

static void add_name(const struct settings *s, const struct symtab_frame *f, bool ours, struct buf *out)
{
	struct str name = f->linkage.size ? f->linkage : f->name;

	if (s->symbols.demangling == SYMBOLIZE_NONE)
		buf_add_str(out, name);
	else if (name.size)
		add_demangled(f, s->symbols.demangling, ours, out);
}

static void add_name_or(const struct settings *s, const struct symtab_frame *f, bool ours, struct buf *out)
{
	size_t before = out->size;

	add_name(s, f, ours, out);
	if (out->size == before)
		buf_add_str(out, STR("??"));
}

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

static void write_ours(const struct settings *s, struct str module, uint64_t addr,
		       const struct symtab_frames *frames, struct buf *out)
{
	buf_printf(out, "0x%llx", (unsigned long long)addr);
	if (!frames) {
		buf_add_str(out, STR("\n  ??  no function is known there\n"));
		return;
	}
	buf_printf(out, "  +0x%llx\n", (unsigned long long)(addr - frames->start));
	for (size_t i = 0; i < frames->n; i++) {
		const struct symtab_frame *f = &frames->list[i];

		buf_add_str(out, STR("  "));
		add_name_or(s, f, true, out);
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
}

/* ---- addr2line ---- */

static void write_gnu_frame(const struct settings *s, const struct symtab_frame *f, struct buf *out)
{
	if (s->symbols.functions) {
		add_name_or(s, f, false, out);
		buf_add_str(out, s->symbols.pretty ? STR(" at ") : STR("\n"));
	}
	add_path(s, f, out);
	buf_add_char(out, ':');
	if (f->line)
		add_number(out, f->line);
	else
		buf_add_char(out, f->file.size ? '?' : '0');
	add_discriminator(f, out);
	buf_add_char(out, '\n');
}

static void write_gnu(const struct settings *s, struct str module, uint64_t addr,
		      const struct symtab_frames *frames, struct buf *out)
{
	static const struct symtab_frame none;

	if (s->symbols.addresses)
		buf_printf(out, "0x%016llx%s", (unsigned long long)addr, s->symbols.pretty ? ": " : "\n");
	write_gnu_frame(s, frames ? &frames->list[0] : &none, out);
	for (size_t i = 1; frames && s->symbols.inlines && i < frames->n; i++) {
		if (s->symbols.pretty)
			buf_add_str(out, STR(" (inlined by) "));
		write_gnu_frame(s, &frames->list[i], out);
	}
}

/* ---- llvm-symbolizer ---- */

static void write_llvm(const struct settings *s, struct str module, uint64_t addr,
		       const struct symtab_frames *frames, struct buf *out)
{
	static const struct symtab_frame none;
	size_t n = frames ? frames->n : 1;

	if (s->symbols.addresses)
		buf_printf(out, "0x%llx%s", (unsigned long long)addr, s->symbols.pretty ? ": " : "\n");
	for (size_t i = 0; i < n; i++) {
		const struct symtab_frame *f = frames ? &frames->list[i] : &none;

		if (s->symbols.pretty && i)
			buf_add_str(out, STR(" (inlined by) "));
		add_name_or(s, f, false, out);
		buf_add_str(out, s->symbols.pretty ? STR(" at ") : STR("\n"));
		add_path(s, f, out);
		buf_add_char(out, ':');
		add_number(out, f->line);
		buf_add_char(out, ':');
		add_number(out, f->column);
		buf_add_char(out, '\n');
	}
	buf_add_char(out, '\n');
}

static json_t *json_path(const struct settings *s, struct str dir, struct str file)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (file.size && s->symbols.basenames)
		buf_add_str(&b, path_basename(file));
	else if (file.size)
		symtab_path(dir, file, &b);
	return json_text(buf_str(&b));
}

static json_t *json_frame(const struct settings *s, const struct symtab_frames *frames,
			  const struct symtab_frame *f)
{
	AUTO(buf_done) struct buf name = { 0 };
	json_t *j = json_object();
	char start[24];

	add_name(s, f, false, &name);
	snprintf(start, sizeof(start), "0x%llx", (unsigned long long)frames->start);
	json_object_set_new(j, "Column", json_integer(f->column));
	json_object_set_new(j, "Discriminator", json_integer(f->discriminator));
	json_object_set_new(j, "FileName", json_path(s, f->dir, f->file));
	json_object_set_new(j, "FunctionName", json_text(buf_str(&name)));
	json_object_set_new(j, "Line", json_integer(f->line));
	json_object_set_new(j, "StartAddress", json_string(f->inlined ? "" : start));
	json_object_set_new(j, "StartFileName", json_path(s, f->start_file_dir, f->start_file));
	json_object_set_new(j, "StartLine", json_integer(f->start_line));
	return j;
}

static void write_json(const struct settings *s, struct str module, uint64_t addr,
		       const struct symtab_frames *frames, struct buf *out)
{
	json_t *j = json_object(), *list = json_array();
	char text[24], *dump;

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)addr);
	json_object_set_new(j, "Address", json_string(text));
	json_object_set_new(j, "ModuleName", json_text(module));
	for (size_t i = 0; frames && i < frames->n; i++)
		json_array_append_new(list, json_frame(s, frames, &frames->list[i]));
	json_object_set_new(j, "Symbol", list);
	dump = json_dumps(j, JSON_COMPACT);
	buf_add_str(out, str_of(dump ? dump : "{}"));
	buf_add_char(out, '\n');
	free(dump);
	json_decref(j);
}

static const struct symbolize_style styles[] = {
	{ "lode", write_ours, .echo = true, .addressed = true, .discriminators = true },
	{ "gnu", write_gnu, .pretty = true, .discriminators = true },
	{ "llvm", write_llvm, .echo = true, .pretty = true },
	{ "json", write_json, .list = true, .echo = true, .addressed = true, .discriminators = true },
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
