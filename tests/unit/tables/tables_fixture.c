/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "tables_fixture.h"

#define S(text) ((uint64_t)(uintptr_t)(text))
#define U(n)    ((uint64_t)(n))

void tables_fixture_open(struct tables_fixture *p, bool store)
{
	*p = (struct tables_fixture){ .r = resolve_mem_new() };
	p->opts.resolver = p->r;
	p->opts.n_threads = 2;
	if (store)
		p->store = store_open_memory(&(struct store_options){ 0 });
	p->opts.store = p->store;
	p->s = tables_new(&p->opts);
}

void tables_fixture_reopen(struct tables_fixture *p)
{
	tables_free(p->s);
	p->s = tables_new(&p->opts);
}

void tables_fixture_close(struct tables_fixture *p)
{
	tables_free(p->s);
	resolve_close(p->r);
	store_close(p->store);
	buf_done(&p->text);
}

struct build_id tables_fixture_id(uint32_t n)
{
	struct build_id id = { .size = 20 };

	test_fill(id.b, 20, n);
	return id;
}

static uint64_t add_lines(struct code_writer *w)
{
	static const char *const v4[] = { "a.c", NULL }, *const v5[] = { "a.c", "a.c", NULL };
	uint64_t at = code_lines_begin(w, w->version >= 5 ? v5 : v4);

	for (unsigned i = 0; i < 16; i++)
		code_row(w, 0x1000 + 16 * i, 1, 10 + i);
	code_sequence_end(w, 0x1100);
	code_lines_end(w);
	return at;
}

static void begin(struct code_writer *w, uint32_t n)
{
	struct build_id id = tables_fixture_id(n);

	code_writer_init(w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w->elf, build_id_bytes(&id));
}

static void debug_named(uint32_t n, const char *name, struct buf *out)
{
	struct code_writer w;

	begin(&w, n);
	code_unit_c(&w, add_lines(&w));
	code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRING, S(name), A_LOW, F_ADDR, U(0x1000), A_HIGH,
		 F_DATA4, U(0x100), 0u);
	code_symbol(&w, name, STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	code_up(&w);
	code_unit_end(&w);
	code_writer_finish(&w, out);
	code_writer_done(&w);
}

void tables_fixture_debug(uint32_t n, struct buf *out)
{
	char name[24];

	snprintf(name, sizeof(name), "f%u", n);
	debug_named(n, name, out);
}

/* The name's DIE is the first after the unit's; its offset is the same in every supplementary file. */
static uint64_t write_alt(uint32_t alt, struct buf *out)
{
	struct code_writer w;
	uint64_t at;

	begin(&w, alt);
	code_unit_begin(&w);
	code_die(&w, T_PARTIAL, true, 0u);
	at = code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("shared"), 0u);
	code_up(&w);
	code_unit_end(&w);
	code_writer_finish(&w, out);
	code_writer_done(&w);
	return at;
}

void tables_fixture_alt(uint32_t alt, struct buf *out)
{
	write_alt(alt, out);
}

void tables_fixture_debug_with_alt(uint32_t n, uint32_t alt, struct buf *out)
{
	AUTO(buf_done) struct buf ignored = { 0 };
	struct build_id id = tables_fixture_id(alt);
	uint64_t at = write_alt(alt, &ignored);
	struct code_writer w;

	begin(&w, n);
	elf_writer_alt_link(&w.elf, "alt.debug", build_id_bytes(&id));
	code_unit_c(&w, add_lines(&w));
	code_die(&w, T_SUBPROGRAM, false, A_ORIGIN, F_GNU_REF_ALT, at, A_LOW, F_ADDR, U(0x1000), A_HIGH,
		 F_DATA4, U(0x100), 0u);
	code_symbol(&w, "other", STT_FUNC, STB_GLOBAL, 0x1f00, 0x10);
	code_up(&w);
	code_unit_end(&w);
	code_writer_finish(&w, out);
	code_writer_done(&w);
}

void tables_fixture_put(struct tables_fixture *p, enum resolve_kind kind, uint32_t n, struct buf *file)
{
	struct build_id id = tables_fixture_id(n);

	resolve_mem_put(p->r, kind, &id, STR(""), buf_bytes(file), STR("/file"), STR(""), 5);
	buf_done(file);
}

void tables_fixture_put_debug(struct tables_fixture *p, uint32_t n)
{
	struct buf file = { 0 };

	tables_fixture_debug(n, &file);
	tables_fixture_put(p, RESOLVE_DEBUGINFO, n, &file);
}

void tables_fixture_put_debug_named(struct tables_fixture *p, uint32_t n, const char *name)
{
	struct buf file = { 0 };

	debug_named(n, name, &file);
	tables_fixture_put(p, RESOLVE_DEBUGINFO, n, &file);
}

void tables_fixture_put_program(struct tables_fixture *p, uint32_t n, bool symbols)
{
	struct buf file = { 0 };
	struct code_writer w;
	char name[24];

	snprintf(name, sizeof(name), "s%u", n);
	begin(&w, n);
	if (symbols)
		code_symbol(&w, name, STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(p, RESOLVE_EXECUTABLE, n, &file);
}

void tables_fixture_answer_text(const struct tables_answer *a, struct buf *out)
{
	if (a->reason != FRAME_FOUND)
		buf_printf(out, "%s%s", frame_reason_name(a->reason), a->frames ? " " : "");
	for (size_t i = 0; a->frames && i < a->frames->n; i++) {
		const struct symtab_frame *f = &a->frames->list[i];

		if (i)
			buf_add_char(out, ' ');
		frame_name(f, FRAME_DEMANGLE_FULL, out);
		if (!f->file.size)
			continue;
		buf_add_char(out, ' ');
		symtab_path(f->dir, f->file, out);
		buf_printf(out, ":%u", f->line);
	}
}

static const char *ask(struct tables_fixture *p, uint32_t n, uint64_t addr, int64_t ms)
{
	struct tables_query q = { .addr = addr };
	struct build_id id = tables_fixture_id(n);
	struct tables_request *h;
	struct tables_answer a;

	assert_int_equal(
		tables_request_new(p->s, &id, 1, 0, (struct tables_wait){ clock_mono_ms() + ms }, &h), 0);
	tables_find(h, &q, &a);
	p->text.size = 0;
	tables_fixture_answer_text(&a, &p->text);
	tables_request_free(h);
	return buf_cstr(&p->text);
}

const char *tables_fixture_ask(struct tables_fixture *p, uint32_t n, uint64_t addr)
{
	return ask(p, n, addr, 30000);
}

const char *tables_fixture_ask_at_once(struct tables_fixture *p, uint32_t n, uint64_t addr)
{
	return ask(p, n, addr, 0);
}

void tables_fixture_expect(struct tables_fixture *p, uint32_t n, uint64_t addr, const char *want)
{
	int64_t end = clock_mono_ms() + 30000;

	while (strcmp(tables_fixture_ask(p, n, addr), want) != 0) {
		if (clock_mono_ms() > end)
			fail_msg("%llx is '%s', not '%s'", (unsigned long long)addr, buf_cstr(&p->text),
				 want);
		usleep(1000);
	}
}

void tables_fixture_age(struct buf *table)
{
	uint64_t hash;

	memset(table->p + 24, 0, 8);
	memset(table->p + 168, 0, 4);
	memcpy(&hash, table->p + 12, 4);
	hash = htole64(hash64(table->p, (uint32_t)le64toh(hash), 0));
	memcpy(table->p + 24, &hash, 8);
}

enum frame_reason tables_fixture_reason(struct tables_fixture *p, uint32_t n, struct tables_module *m)
{
	struct build_id id = tables_fixture_id(n);
	struct tables_request *req;

	assert_int_equal(tables_request_new(p->s, &id, 1, TABLES_AT_HAND | TABLES_LAYOUTS,
					    (struct tables_wait){ INT64_MAX }, &req),
			 0);
	tables_request_module(req, 0, m);
	tables_request_free(req);
	return m->reason;
}
