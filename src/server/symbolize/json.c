/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /symbolize and GET /buildid/ID/symbolize?addr=...: docs/protocol.md has the form.
 */
#include "server/symbolize/symbolize.h"

#include <stdio.h>

#define FEW_MAPS 8u

/* A parsed request; in the arena. */
struct form_json {
	struct frame_mapping *maps;
	size_t *first_map; /* n_ids + 1: those of each module */
	size_t n_maps;
	struct frame_maps *all;       /* NULL: not needed so far */
	struct frame_maps **prepared; /* of each module; NULL: it has few, or it was not needed so far */
	uint64_t *addrs;              /* as requested */
	uint32_t met;                 /* bits of enum frame_reason: those that the answers have */
	bool text;                    /* GET of text, not JSON */
};

static struct str json_text(const json_t *j)
{
	return json_is_string(j) ? (struct str){ json_string_value(j), json_string_length(j) } : STR("");
}

/* ---- requests ---- */

static int parse_kind(struct str s, enum frame_address_kind *ret, struct err *err)
{
	static const struct str names[] = { STR("vaddr"), STR("offset"), STR("runtime"), STR("section"),
					    STR("relative") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(s, names[i])) {
			*ret = (enum frame_address_kind)i;
			return 0;
		}
	return err_set(err, ERR_INVALID, "'kind' must be one of vaddr, offset, runtime, section, relative");
}

static int parse_mapping(struct ask *a, const json_t *j, struct frame_mapping *ret, struct err *err)
{
	const json_t *end = json_object_get(j, "end"), *offset = json_object_get(j, "offset");
	struct str symbol = json_text(json_object_get(j, "symbol"));

	*ret = (struct frame_mapping){ 0 };
	if (!ask_number(json_object_get(j, "start"), &ret->start) || (end && !ask_number(end, &ret->limit)) ||
	    (offset && !ask_number(offset, &ret->offset)))
		return err_set(err, ERR_INVALID, "a mapping needs numbers 'start', 'end', 'offset'");
	if (symbol.size > ASK_MAX_STRING)
		return err_set(err, ERR_LIMIT, "a name is too long");
	ret->symbol = arena_str(a->arena, symbol);
	return 0;
}

static int json_parse_module(struct ask *a, struct form_json *f, const json_t *j, size_t i, struct err *err)
{
	const json_t *maps = json_object_get(j, "mappings"), *one;
	struct str id = json_text(json_object_get(j, "id")), file = json_text(json_object_get(j, "file"));
	size_t k;

	if (id.size && !build_id_read(&a->ids[i], id))
		return err_set(err, ERR_INVALID, "'id' is not a build ID");
	ask_hint_name(a, &a->ids[i], file);
	if (file.size <= ASK_MAX_STRING)
		a->files[i] = arena_str(a->arena, file);
	f->first_map[i] = f->n_maps;
	json_array_foreach(maps, k, one) if (parse_mapping(a, one, &f->maps[f->n_maps++], err) < 0) return -1;
	return 0;
}

static int parse_modules(struct ask *a, struct form_json *f, const json_t *list, struct err *err)
{
	size_t n_maps = 0, i;
	const json_t *one;

	if (!json_is_array(list))
		return err_set(err, ERR_INVALID, "no list 'modules'");
	if (json_array_size(list) > ASK_MAX_IDS)
		return err_set(err, ERR_LIMIT, "more than %u modules: send several requests", ASK_MAX_IDS);
	json_array_foreach(list, i, one) n_maps += json_array_size(json_object_get(one, "mappings"));
	if (n_maps > ASK_MAX_MAPS)
		return err_set(err, ERR_LIMIT, "more than %u mappings: send several requests", ASK_MAX_MAPS);
	a->n_ids = json_array_size(list);
	a->ids = ARENA_NEW_N(a->arena, struct build_id, a->n_ids + 1);
	a->files = ARENA_NEW_N(a->arena, struct str, a->n_ids + 1);
	f->maps = ARENA_NEW_N(a->arena, struct frame_mapping, n_maps + 1);
	f->first_map = ARENA_NEW_N(a->arena, size_t, a->n_ids + 1);
	f->prepared = ARENA_NEW_N(a->arena, struct frame_maps *, a->n_ids + 1);
	json_array_foreach(list, i, one) if (json_parse_module(a, f, one, i, err) <
					     0) return err_in(err, "module %zu", i);
	f->first_map[a->n_ids] = f->n_maps;
	return 0;
}

/* The module that has a mapping of this address. */
static size_t mapping_module(const struct ask *a, struct form_json *f, uint64_t addr)
{
	size_t map;

	if (!f->all)
		f->all = frame_maps_new(a->arena, f->maps, f->n_maps);
	map = frame_maps_closed_at(f->all, addr);
	return map == SIZE_MAX ? TABLES_NO_MODULE : SEARCH(0, a->n_ids, i, f->first_map[i + 1] <= map);
}

static void query_set_maps(struct ask *a, struct form_json *f, struct tables_query *q)
{
	size_t first = f->first_map[q->module], n = f->first_map[q->module + 1] - first;

	q->maps = f->maps + first;
	q->n_maps = n;
	if (n > FEW_MAPS && q->kind == FRAME_RUNTIME && !f->prepared[q->module])
		f->prepared[q->module] = frame_maps_new(a->arena, q->maps, n);
	q->prepared = f->prepared[q->module];
}

static int parse_address(struct ask *a, struct form_json *f, const json_t *j,
			 const struct tables_query *usual, struct tables_query *ret, struct err *err)
{
	const json_t *addr = j, *module = NULL, *kind, *is_return, *section;
	uint64_t n = 0;

	*ret = *usual;
	if (json_is_array(j)) {
		module = json_array_get(j, 0);
		addr = json_array_get(j, 1);
	} else if (json_is_object(j)) {
		module = json_object_get(j, "module");
		addr = json_object_get(j, "address");
		kind = json_object_get(j, "kind");
		is_return = json_object_get(j, "return");
		section = json_object_get(j, "section");
		if (kind && parse_kind(json_text(kind), &ret->kind, err) < 0)
			return -1;
		if (is_return)
			ret->is_return = json_is_true(is_return);
		if (section) {
			if (json_text(section).size > ASK_MAX_STRING)
				return err_set(err, ERR_LIMIT, "a name is too long");
			ret->section = arena_str(a->arena, json_text(section));
			ret->kind = FRAME_SECTION;
		}
	}
	if (!ask_number(addr, &ret->addr))
		return err_set(err, ERR_INVALID, "is not an address: a number, or text such as \"0x10\"");
	if (module && !json_is_null(module)) {
		if (!ask_number(module, &n) || n >= a->n_ids)
			return err_set(err, ERR_INVALID, "there is no such module");
		ret->module = (size_t)n;
	} else if (ret->kind == FRAME_RUNTIME) {
		ret->module = mapping_module(a, f, ret->addr);
	}
	if (ret->module < a->n_ids)
		query_set_maps(a, f, ret);
	return 0;
}

static int parse_addresses(struct ask *a, struct form_json *f, const json_t *all, struct err *err)
{
	const json_t *list = json_object_get(all, "addresses"), *kind = json_object_get(all, "kind"), *one;
	struct tables_query usual = { .is_return = json_is_true(json_object_get(all, "return")) };
	size_t i;

	if (!json_is_array(list))
		return err_set(err, ERR_INVALID, "no list 'addresses'");
	if (json_array_size(list) > ASK_MAX_ADDRS)
		return err_set(err, ERR_LIMIT, "more than %u addresses: send several requests",
			       ASK_MAX_ADDRS);
	if (kind && parse_kind(json_text(kind), &usual.kind, err) < 0)
		return -1;
	a->n = json_array_size(list);
	a->queries = ARENA_NEW_N(a->arena, struct tables_query, a->n + 1);
	json_array_foreach(list, i, one)
	{
		if (parse_address(a, f, one, &usual, &a->queries[i], err) < 0)
			return err_in(err, "address %zu", i);
		if (a->queries[i].kind != FRAME_VADDR && a->queries[i].kind != FRAME_SECTION)
			a->request_flags = TABLES_LAYOUTS;
	}
	return 0;
}

static int parse_manner(struct ask *a, struct str demangle, double timeout_s, struct err *err)
{
	if (demangle.size && !frame_demangling_parse(demangle, &a->demangling))
		return err_set(err, ERR_INVALID, "'demangle' must be one of full, templates, simple, none");
	if (timeout_s >= 0)
		a->timeout_ms = timeout_s > 3600 ? 3600000 : (int64_t)(timeout_s * 1000);
	return 0;
}

static int parse_post(struct ask *a, struct err *err)
{
	struct form_json *f = a->own = ARENA_NEW(a->arena, struct form_json);
	const json_t *timeout;
	json_t *all = ask_load_json(a, err);
	int r;

	if (!all)
		return -1;
	timeout = json_object_get(all, "timeout");
	a->discriminators = json_is_true(json_object_get(all, "discriminators"));
	r = parse_modules(a, f, json_object_get(all, "modules"), err);
	if (r == 0)
		r = parse_addresses(a, f, all, err);
	if (r == 0)
		r = parse_manner(a, json_text(json_object_get(all, "demangle")),
				 json_is_number(timeout) ? json_number_value(timeout) : -1, err);
	json_decref(all);
	return r;
}

/* ---- GET ---- */

struct addresses {
	struct ask *a;
	struct tables_query usual;
	size_t room;
	int r;
	struct err *err;
};

static void add_addresses(void *arg, const char *value)
{
	struct addresses *l = arg;
	struct ask *a = l->a;

	for (struct str rest = str_of(value); rest.size && l->r == 0;) {
		struct str one = str_cut(&rest, ',');
		struct tables_query q = l->usual;

		if (a->n == l->room)
			l->r = err_set(l->err, ERR_LIMIT, "too many addresses: POST /symbolize takes more");
		/* As tools print addresses: hexadecimal, with or without 0x. */
		else if (!ask_number_text(one, true, &q.addr))
			l->r = err_set(l->err, ERR_INVALID, "'addr' is not a hexadecimal number");
		else
			a->queries[a->n++] = q;
	}
}

#define GET_ADDRS 2048u

static int parse_get(struct ask *a, struct err *err)
{
	struct form_json *f = a->own = ARENA_NEW(a->arena, struct form_json);
	struct addresses l = { .a = a, .room = GET_ADDRS, .err = err };
	const char *accept = http_header(a->req->conn, "Accept");
	struct str kind, section, is_return, demangle, timeout, discriminators;
	uint64_t seconds = 0;

	if (request_arg(a->req, "kind", &kind) < 0 || request_arg(a->req, "section", &section) < 0 ||
	    request_arg(a->req, "return", &is_return) < 0 || request_arg(a->req, "demangle", &demangle) < 0 ||
	    request_arg(a->req, "timeout", &timeout) < 0 ||
	    request_arg(a->req, "discriminators", &discriminators) < 0)
		return err_set(err, ERR_INVALID, "a broken %%-escape");
	f->text = accept && strstr(accept, "text/plain") && !strstr(accept, "json");
	a->n_ids = 1;
	a->ids = &a->path_id;
	f->first_map = ARENA_NEW_N(a->arena, size_t, 2);
	a->queries = ARENA_NEW_N(a->arena, struct tables_query, GET_ADDRS);
	if (kind.size && parse_kind(kind, &l.usual.kind, err) < 0)
		return -1;
	if (section.size) {
		l.usual.section = section;
		l.usual.kind = FRAME_SECTION;
	}
	if (l.usual.kind == FRAME_RUNTIME)
		return err_set(err, ERR_INVALID, "run-time addresses need mappings: POST /symbolize");
	l.usual.is_return = is_return.size && !str_eq(is_return, STR("0"));
	a->discriminators = discriminators.size && !str_eq(discriminators, STR("0"));
	if (l.usual.kind != FRAME_VADDR && l.usual.kind != FRAME_SECTION)
		a->request_flags = TABLES_LAYOUTS;
	if (timeout.size && !str_to_u64(timeout, &seconds))
		return err_set(err, ERR_INVALID, "'timeout' is not a number of seconds");
	http_args(a->req->conn, "addr", add_addresses, &l);
	if (l.r < 0)
		return -1;
	if (!a->n)
		return err_set(err, ERR_INVALID, "no 'addr'");
	return parse_manner(a, demangle, timeout.size ? (double)MIN(seconds, (uint64_t)3600) : -1, err);
}

/* ---- the reply ---- */

static void ask_put_number(struct json_writer *w, const char *name, uint64_t n)
{
	if (n)
		json_put_uint(w, name, n);
}

static void ask_put_frame(struct ask *a, const struct symtab_frame *f, struct json_writer *w)
{
	json_open_object(w, NULL);
	ask_put_name(a, f, w);
	if (f->linkage.size && a->demangling != FRAME_DEMANGLE_NONE && !str_eq(f->linkage, f->name))
		json_put_str(w, "linkage", f->linkage);
	if (f->file.size)
		ask_put_path(f, w);
	ask_put_number(w, "line", f->line);
	ask_put_number(w, "column", f->column);
	if (a->discriminators)
		ask_put_number(w, "discriminator", f->discriminator);
	ask_put_number(w, "start_line", f->start_line);
	if (f->inlined)
		json_put_bool(w, "inlined", true);
	json_put_text(w, "from", symtab_origin_name(f->origin));
	json_close(w);
}

static void answer_json(struct ask *a, size_t i, const struct tables_answer *ans, bool full)
{
	struct json_writer w = { .out = &a->parts };
	struct form_json *f = a->own;
	size_t before = a->parts.size;

	f->met |= 1u << ans->reason;
	json_open_object(&w, NULL);
	json_put_printf(&w, "address", "0x%llx", (unsigned long long)a->queries[i].addr);
	json_put_text(&w, "status", full ? "reply-too-long" : frame_reason_name(ans->reason));
	if (ans->addr && ans->addr != a->queries[i].addr)
		json_put_printf(&w, "vaddr", "0x%llx", (unsigned long long)ans->addr);
	if (ans->frames && !full) {
		json_put_int(&w, "offset", (int64_t)(ans->addr - ans->frames->start));
		json_open_array(&w, "frames");
		for (size_t k = 0; k < ans->frames->n && !ask_part_is_full(a, i); k++) {
			if (ask_frame_is_late(a, &ans->frames->list[k]))
				break;
			ask_put_frame(a, &ans->frames->list[k], &w);
		}
		json_close(&w);
	}
	json_close(&w);
	/* Again, without its frames. */
	if (ask_part_is_full(a, i)) {
		a->parts.size = before;
		answer_json(a, i, ans, true);
	}
}

static void answer_text(struct ask *a, size_t i, const struct tables_answer *ans)
{
	struct buf *b = &a->parts;

	buf_printf(b, "0x%llx", (unsigned long long)a->queries[i].addr);
	if (ans->frames)
		buf_printf(b, "  +0x%llx", (unsigned long long)(ans->addr - ans->frames->start));
	if (ans->reason != FRAME_FOUND)
		buf_printf(b, "  %s: %s", frame_reason_name(ans->reason), frame_reason_text(ans->reason));
	buf_add_char(b, '\n');
	for (size_t k = 0; ans->frames && k < ans->frames->n && !ask_is_full(a) && !ask_part_is_full(a, i);
	     k++) {
		const struct symtab_frame *f = &ans->frames->list[k];
		size_t before;

		if (ask_frame_is_late(a, f))
			return;
		buf_add_str(b, STR("  "));
		before = b->size;
		frame_name(f, a->demangling, b);
		if (b->size == before)
			buf_add_str(b, STR("??"));
		if (f->file.size) {
			buf_add_str(b, STR("  "));
			symtab_path(f->dir, f->file, b);
			if (f->line)
				buf_printf(b, ":%u", f->line);
			if (f->line && f->column)
				buf_printf(b, ":%u", f->column);
			if (a->discriminators && f->discriminator)
				buf_printf(b, " (discriminator %u)", f->discriminator);
		}
		buf_add_str(b, f->inlined ? STR("  inlined into\n") : STR("\n"));
	}
}

static void json_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;
	const struct form_json *f = a->own;

	ask_part_begin(a, i);
	if (f->text)
		answer_text(a, i, ans);
	else
		answer_json(a, i, ans, ask_is_full(a));
	ask_part_end(a, i);
}

/* The reason why a table has not all names; FRAME_FOUND: it has. */
static enum frame_reason reason_of_table(const struct tables_module *m)
{
	bool symbols_only = !(m->info->flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO));

	if (symbols_only && frame_reason_hides_debug(m->no_debug))
		return m->no_debug;
	if (frame_reason_is_damaged(m->info))
		return FRAME_DAMAGED;
	if (symbols_only)
		return FRAME_NO_DEBUG_INFO;
	if (m->info->flags & SYMTAB_ALT_MISSING)
		return FRAME_ALT_MISSING;
	return m->info->flags & SYMTAB_SPLIT_MISSING ? FRAME_SPLIT_MISSING : FRAME_FOUND;
}

/* What to do if there is no table, or one that lacks something. */
static void put_module_help(struct ask *a, size_t i, const struct tables_module *m, struct json_writer *w)
{
	struct server_case c = { .reason = m->reason, .file = a->files ? a->files[i] : STR("") };
	AUTO(buf_done) struct buf help = { 0 };

	if (m->info)
		c.reason = reason_of_table(m);
	if (c.reason == FRAME_FOUND)
		return;
	c.package = server_origin_package(str_of(m->origin));
	if (!c.file.size && !c.package.size)
		c.file = str_of(m->origin);
	c.missing = str_of(m->missing);
	server_advice(a->req->s, &c, &help);
	json_put_str(w, "help", buf_str(&help));
}

#define INCOMPLETE_WHY "parts of its symbol table were left out: memory for them was not granted (--memory)"

static void ask_put_module(struct ask *a, size_t i, struct json_writer *w)
{
	static const uint32_t flags[] = { SYMTAB_HAS_DWARF,   SYMTAB_HAS_LINES,   SYMTAB_HAS_SYMBOLS,
					  SYMTAB_HAS_GO,      SYMTAB_ALT_MISSING, SYMTAB_SPLIT_MISSING,
					  SYMTAB_RELOCATABLE, SYMTAB_PARTIAL };
	char hex[BUILD_ID_HEX_SIZE];
	struct tables_module m;

	tables_request_module(a->request, i, &m);
	json_open_object(w, NULL);
	json_put_text(w, "id", build_id_hex(&a->ids[i], hex));
	json_put_text(w, "status", frame_reason_name(m.reason));
	if (m.reason != FRAME_FOUND) {
		const char *reason = frame_reason_text(m.reason);

		/* With hide_archive, paths of files are not shown. */
		if (m.why[0] && !a->req->s->opts.hide_archive)
			json_put_printf(w, "why", "%s: %s", reason, m.why);
		else
			json_put_text(w, "why", reason);
	}
	put_module_help(a, i, &m, w);
	if (m.info) {
		json_open_array(w, "has");
		for (size_t k = 0; k < ARRAY_SIZE(flags); k++)
			if (m.info->flags & flags[k])
				json_put_text(w, NULL, symtab_flag_name(flags[k]));
		if (m.incomplete)
			json_put_text(w, NULL, "incomplete");
		json_close(w);
		if (m.info->n_skipped)
			json_put_uint(w, "skipped", m.info->n_skipped);
		if (m.incomplete)
			json_put_text(w, "why", INCOMPLETE_WHY);
	}
	json_close(w);
}

static const char *json_reply_type(const struct ask *a)
{
	const struct form_json *f = a->own;

	return f->text ? "text/plain; charset=utf-8" : "application/json";
}

static const char *json_begin(struct ask *a)
{
	const struct form_json *f = a->own;
	struct json_writer *w = &a->json;

	if (f->text)
		return json_reply_type(a);
	json_open_object(w, NULL);
	json_open_array(w, "modules");
	for (size_t i = 0; i < a->n_ids; i++)
		ask_put_module(a, i, w);
	json_close(w);
	json_open_array(w, "addresses");
	return json_reply_type(a);
}

static void json_put(struct ask *a, size_t i)
{
	const struct form_json *f = a->own;

	if (f->text)
		buf_add_str(&a->out, ask_part(a, i));
	else
		json_put_raw(&a->json, NULL, ask_part(a, i));
}

/* The texts of all statuses that addresses have, once each. */
static void put_reasons(struct ask *a, uint32_t met)
{
	struct json_writer *w = &a->json;

	json_open_object(w, "reasons");
	for (unsigned r = FRAME_FOUND + 1; r < FRAME_N_REASONS; r++) {
		const struct server_case c = { .reason = (enum frame_reason)r };
		AUTO(buf_done) struct buf help = { 0 };

		if (!(met & 1u << r))
			continue;
		server_advice(a->req->s, &c, &help);
		json_open_object(w, frame_reason_name(c.reason));
		json_put_text(w, "text", frame_reason_text(c.reason));
		json_put_str(w, "help", buf_str(&help));
		json_close(w);
	}
	json_close(w);
}

static const char *json_end(struct ask *a)
{
	const struct form_json *f = a->own;
	struct json_writer *w = &a->json;

	if (f->text)
		return json_reply_type(a);
	json_close(w);
	put_reasons(a, f->met);
	if (a->passes)
		json_put_int(w, "retry_ms", FRAME_RETRY_MS);
	json_close(w);
	buf_add_char(&a->out, '\n');
	return json_reply_type(a);
}

const struct ask_form ask_json = { parse_post, json_begin, json_answer, json_put, json_end };
const struct ask_form ask_get = { parse_get, json_begin, json_answer, json_put, json_end };
