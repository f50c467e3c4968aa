/* SPDX-License-Identifier: Apache-2.0 */
#include "naming_fixture.h"

#define WAIT_S 30

static _Atomic int64_t write_ms; /* of outcomes, by the store's clock */

static int64_t store_wall_ms(void)
{
	return clock_wall_ms() + write_ms;
}

static void open_store(struct naming_fixture *t)
{
	const struct profilestore_options o = { .dir = t->dir,
						.now_ms = store_wall_ms,
						.mono_ms = clock_mono_ms };
	struct err err = { 0 };

	assert_done(profilestore_open(&o, &t->store, &err));
}

void naming_fixture_open(struct naming_fixture *t, bool table_store)
{
	*t = (struct naming_fixture){ .time_ms = clock_wall_ms() - 3600 * 1000 };
	test_dir_make(t->dir);
	write_ms = 0;
	tables_fixture_open(&t->tables, table_store);
	open_store(t);
}

void naming_fixture_start(struct naming_fixture *t)
{
	struct err err = { 0 };

	t->opts.store = t->store;
	t->opts.tables = t->tables.s;
	t->opts.resolver = t->tables.r;
	t->naming = naming_new(&t->opts);
	assert_done(naming_start(t->naming, &err));
}

void naming_fixture_stop(struct naming_fixture *t)
{
	if (!t->naming)
		return;
	tables_stop(t->tables.s);
	naming_free(TAKE(t->naming));
	tables_fixture_reopen(&t->tables);
}

void naming_fixture_again(struct naming_fixture *t)
{
	naming_fixture_stop(t);
	profilestore_close(t->store);
	open_store(t);
	naming_fixture_start(t);
}

void naming_fixture_close(struct naming_fixture *t)
{
	naming_fixture_stop(t);
	profilestore_close(t->store);
	tables_fixture_close(&t->tables);
	buf_done(&t->text);
	test_dir_remove(t->dir);
}

void naming_fixture_write_later(int64_t ms)
{
	write_ms = ms;
}

void naming_fixture_put_program(struct naming_fixture *t, uint32_t n, const char *path)
{
	struct build_id id = tables_fixture_id(n);
	struct elf_writer_segment *load;
	struct code_writer w;
	struct buf file = { 0 };
	char name[24];

	snprintf(name, sizeof(name), "s%u", n);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	code_symbol(&w, name, STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	load = elf_writer_segment_at(&w.elf, elf_writer_segment(&w.elf, PT_LOAD, PF_R | PF_X, 0));
	load->off = load->vaddr = 0;
	load->filesz = load->memsz = 0x2000;
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	resolve_mem_put(t->tables.r, RESOLVE_EXECUTABLE, &id, STR(""), buf_bytes(&file), str_of(path),
			STR(""), 5);
	buf_done(&file);
}

#define S(text) ((uint64_t)(uintptr_t)(text))
#define U(n)    ((uint64_t)(n))

static uint64_t *write_called_functions(struct code_writer *w, unsigned n, size_t name_size)
{
	uint64_t *at = NEW_N(uint64_t, n);
	char *name = mem_alloc(name_size + 1);

	for (unsigned i = 0; i < n; i++) {
		memset(name, 'x', name_size);
		name[snprintf(name, name_size, "g%u", i)] = 'x';
		name[name_size] = '\0';
		at[i] = code_die(w, T_SUBPROGRAM, false, A_NAME, F_STRING, S(name), A_INLINE, F_DATA1, U(1),
				 0u);
	}
	free(name);
	return at;
}

void naming_fixture_put_calls(struct naming_fixture *t, uint32_t n, uint32_t size, unsigned depth,
			      size_t name_size)
{
	static const char *const files[] = { "a.c", NULL };
	struct build_id id = tables_fixture_id(n);
	struct buf file = { 0 };
	struct code_writer w;
	uint64_t lines, *functions;

	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	w.text_size = MAX(size, 0x1000u);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	lines = code_lines_begin(&w, files);
	code_row(&w, 0x1000, 1, 10);
	code_sequence_end(&w, 0x1000 + size);
	code_lines_end(&w);
	code_unit_c(&w, lines);
	functions = write_called_functions(&w, depth, name_size);
	code_die(&w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, U(0x1000), A_HIGH, F_DATA4,
		 U(size), 0u);
	for (unsigned i = 0; i < depth; i++)
		code_die(&w, T_INLINED, true, A_ORIGIN, F_REF4, functions[i], A_LOW, F_ADDR, U(0x1000),
			 A_HIGH, F_DATA4, U(size), A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(7),
			 0u);
	for (unsigned i = 0; i <= depth; i++)
		code_up(&w);
	code_symbol(&w, "f", STT_FUNC, STB_GLOBAL, 0x1000, size);
	code_unit_end(&w);
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	free(functions);
	tables_fixture_put(&t->tables, RESOLVE_DEBUGINFO, n, &file);
}

void naming_fixture_request_layout(struct naming_fixture *t, uint32_t n)
{
	struct build_id id = tables_fixture_id(n);
	struct tables_request *req;

	assert_int_equal(tables_request_new(t->tables.s, &id, 1, TABLES_LAYOUTS,
					    (struct tables_wait){ INT64_MAX }, &req),
			 0);
	tables_request_free(req);
}

/* ---- profiles ---- */

static struct profile *profile_begin(struct naming_fixture *t)
{
	struct profile *p = profile_new(NULL);

	profile_add_type(p, STR("cpu"), STR("samples"));
	p->time_ns = t->time_ms++ * 1000000;
	return p;
}

static void profile_add_addrs(struct profile *p, const struct profile_mapping *m, const uint64_t *addrs,
			      size_t n)
{
	int64_t one = 1;

	for (size_t i = 0; i < n; i++) {
		struct profile_location l = { .addr = addrs[i], .mapping = profile_add_mapping(p, m) };
		uint32_t stack = profile_add_stack(p, 0, profile_add_location(p, &l, NULL, 0));

		profile_add_sample(p, stack, 0, &one);
	}
}

static void profile_put(struct naming_fixture *t, struct profile *p)
{
	const struct profilestore_label label = { STR("service"), STR("test") };
	struct profilestore_receipt r;
	struct err err = { 0 };

	assert_done(profile_build_end(p, &err));
	assert_done(profilestore_add_wait(t->store, p, &label, 1, &r, &err));
	profile_free(p);
}

static void add(struct naming_fixture *t, struct str file, struct str id, uint64_t start,
		const uint64_t *addrs, size_t n)
{
	struct profile *p = profile_begin(t);
	struct profile_mapping m = { .start = start, .limit = UINT64_MAX };

	m.file = profile_add_string(p, file);
	m.build_id = profile_add_string(p, id);
	profile_add_addrs(p, &m, addrs, n);
	profile_put(t, p);
}

static const char *file_of(uint32_t n, char out[32])
{
	snprintf(out, 32, "/bin/p%u", n);
	return out;
}

void naming_fixture_add(struct naming_fixture *t, uint32_t n, const uint64_t *addrs, size_t n_addrs)
{
	char file[32], hex[BUILD_ID_HEX_SIZE] = "";
	struct build_id id = tables_fixture_id(n);

	if (n)
		build_id_hex(&id, hex);
	add(t, str_of(file_of(n, file)), str_of(hex), 0, addrs, n_addrs);
}

void naming_fixture_add_range(struct naming_fixture *t, uint32_t n, uint64_t first, size_t n_addrs)
{
	AUTO(mem_freep) uint64_t *addrs = NEW_N(uint64_t, n_addrs);

	for (size_t i = 0; i < n_addrs; i++)
		addrs[i] = first + i;
	naming_fixture_add(t, n, addrs, n_addrs);
}

void naming_fixture_add_one(struct naming_fixture *t, uint32_t n, uint64_t addr)
{
	naming_fixture_add(t, n, &addr, 1);
}

void naming_fixture_add_file(struct naming_fixture *t, const char *file, const char *build_id, uint64_t addr)
{
	add(t, str_of(file), str_of(build_id), 0, &addr, 1);
}

void naming_fixture_add_files(struct naming_fixture *t, const char *prefix, size_t n_files, uint64_t addr)
{
	struct profile *p = profile_begin(t);

	for (size_t i = 0; i < n_files; i++) {
		AUTO(mem_freep) char *file = mem_printf("%s%zu", prefix, i);
		struct profile_mapping m = { .limit = UINT64_MAX,
					     .file = profile_add_string(p, str_of(file)) };

		profile_add_addrs(p, &m, &addr, 1);
	}
	profile_put(t, p);
}

void naming_fixture_add_at(struct naming_fixture *t, const char *file, const char *build_id, uint64_t start,
			   uint64_t addr)
{
	add(t, str_of(file), str_of(build_id), start, &addr, 1);
}

/* ---- answers ---- */

static bool is_location(const struct profile *p, const struct profile_location *l, const char *file,
			uint64_t addr)
{
	return l->addr == addr && l->mapping != PROFILE_NONE &&
	       str_eq(profile_str(p, p->mappings.p[l->mapping].file), str_of(file));
}

struct profilestore_merged naming_fixture_merge(struct naming_fixture *t)
{
	struct profilestore_range r = { NULL, 0, clock_wall_ms() + 3600 * 1000, 0 };
	struct profilestore_merged m;
	struct err err = { 0 };

	assert_done(selector_parse(STR("{}"), (struct selector **)&r.sel, &err));
	assert_done(profilestore_merge(t->store, &r, NULL, NULL, &m, &err));
	selector_free((struct selector *)r.sel);
	return m;
}

const char *naming_fixture_name(struct naming_fixture *t, const char *file, uint64_t addr)
{
	struct profilestore_merged m = naming_fixture_merge(t);

	t->text.size = 0;
	for (uint32_t i = 0; i < m.profile->locations.n; i++) {
		const struct profile_location *l = &m.profile->locations.p[i];

		if (!is_location(m.profile, l, file, addr))
			continue;
		for (uint32_t k = 0; k < l->n_lines; k++) {
			const struct profile_line *line = &m.profile->lines.p[l->first_line + k];
			const struct profile_function *f = &m.profile->functions.p[line->function];

			buf_printf(&t->text, "%s" STR_FMT, k ? " " : "",
				   STR_ARG(profile_str(m.profile, f->name)));
			if (f->file)
				buf_printf(&t->text, " " STR_FMT ":%lld",
					   STR_ARG(profile_str(m.profile, f->file)), (long long)line->line);
		}
	}
	profile_free(m.profile);
	return buf_cstr(&t->text);
}

void naming_fixture_expect(struct naming_fixture *t, uint32_t n, uint64_t addr, const char *want)
{
	char file[32];
	unsigned i = 0;

	file_of(n, file);
	while (strcmp(naming_fixture_name(t, file, addr), want) != 0) {
		if (++i > WAIT_S * 1000)
			fail_msg("%s at %llx is '%s', not '%s'", file, (unsigned long long)addr,
				 buf_cstr(&t->text), want);
		usleep(1000);
	}
}

struct profilestore_binary naming_fixture_binary(struct naming_fixture *t, const char *file)
{
	struct profilestore_binary ret = { 0 };
	struct profilestore_binaries *list;
	struct err err = { 0 };

	assert_done(profilestore_binaries(t->store, NULL, NULL, &list, &err));
	for (size_t i = 0; i < list->n; i++) {
		if (!str_eq(list->v[i].file, str_of(file)))
			continue;
		ret = list->v[i];
		t->text.size = 0;
		buf_add_str(&t->text, ret.why);
		buf_add_char(&t->text, 0);
		buf_add_str(&t->text, ret.origin);
		buf_add_char(&t->text, 0);
		ret.why = str_of((char *)t->text.p);
		ret.origin = str_of((char *)t->text.p + ret.why.size + 1);
		ret.file = ret.build_id = STR("");
	}
	free(list);
	return ret;
}

void naming_fixture_expect_state(struct naming_fixture *t, const char *file, enum naming_state state,
				 enum frame_reason reason, uint32_t n_tries)
{
	for (unsigned i = 0;; i++) {
		struct profilestore_binary b = naming_fixture_binary(t, file);

		if (b.state == state && b.reason == reason && b.n_tries == n_tries && !b.look_is_due)
			return;
		if (i > WAIT_S * 1000)
			fail_msg("%s is in state %d, %s, after %u tries", file, b.state,
				 frame_reason_name(b.reason), b.n_tries);
		usleep(1000);
	}
}

void naming_fixture_expect_stats(struct naming_fixture *t, uint64_t n_named, uint64_t n_unnamed)
{
	struct naming_stats stats;

	for (unsigned i = 0;; i++) {
		naming_stats(t->naming, &stats);
		if (stats.n_named == n_named && stats.n_unnamed == n_unnamed)
			return;
		if (i > WAIT_S * 1000)
			fail_msg("%llu were named, %llu not", (unsigned long long)stats.n_named,
				 (unsigned long long)stats.n_unnamed);
		usleep(1000);
	}
}

void naming_fixture_wake(struct naming_fixture *t, uint32_t n, bool replaced)
{
	struct build_id id = tables_fixture_id(n);

	naming_wake(t->naming, &id, STR(""), replaced);
}

void naming_fixture_advance(struct naming_fixture *t, int64_t ms)
{
	clock_test_advance(ms);
	if (t->naming)
		naming_kick(t->naming);
}
