/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dynamic symbols have all that is needed; the symbol table, where a file has it, adds the functions that are local, and
 * the part of the evaluation loop that the compiler moved away as rarely used.
 */
#include "agent/python_image.h"

#include <elf.h>

#define SYMBOLS_MAX MIB(8)
#define NAMES_MAX   MIB(16)
#define LOOP        STR("_PyEval_EvalFrameDefault")

struct image_symbols {
	const struct elf_image *img;
	struct python_image *to;
	bool has_runtime;
	uint64_t version; /* address of Py_Version; 0: none */
};

bool python_image_may_be(const char *path)
{
	struct str name = path_basename(str_of(path));

	return str_starts(name, STR("python")) || str_starts(name, STR("libpython"));
}

/* Functions between two evaluation loops that say nothing about the program. */
static bool is_glue(struct str name)
{
	static const char *const names[] = { "_PyFunction_Vectorcall", "_PyEval_Vector",
					     "_PyEval_EvalFrame",      "_PyEval_EvalCodeWithName",
					     "PyEval_EvalFrameEx",     "function_code_fastcall" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(name, str_of(names[i])))
			return true;
	return false;
}

static void take_python_symbol(struct image_symbols *s, struct str name, uint64_t value, uint64_t size)
{
	struct python_image *to = s->to;
	bool is_loop = str_eq(name, LOOP);

	if (str_eq(name, STR("_PyRuntime"))) {
		s->has_runtime = true;
		to->runtime = value;
		return;
	}
	if (str_eq(name, STR("Py_Version"))) {
		s->version = value;
		return;
	}
	if (!is_loop && str_starts(name, LOOP))
		is_loop = name.p[LOOP.size] == '.'; /* .cold, .constprop.0 */
	if ((!is_loop && !is_glue(name)) || !size || value > UINT64_MAX - size ||
	    to->n_ranges == PYTHON_MAX_RANGES || python_image_range(to, value))
		return;
	to->ranges[to->n_ranges++] = (struct python_range){ value, value + size, is_loop };
}

static int read_symbols(struct image_symbols *s, uint32_t type, struct err *err)
{
	AUTO(arena_done) struct arena a;
	const struct elf_section *table = NULL, *names;
	struct bytes symbols, strings;
	struct cursor c;

	for (uint32_t i = 0; s->img->sections && i < s->img->n_sections && !table; i++)
		if (s->img->sections[i].type == type)
			table = &s->img->sections[i];
	arena_init(&a);
	if (!table || table->link >= s->img->n_sections)
		return 0;
	names = &s->img->sections[table->link];
	if (elf_section_read(s->img, table, SYMBOLS_MAX, &a, &symbols, err) ||
	    elf_section_read(s->img, names, NAMES_MAX, &a, &strings, err))
		return -1;
	c = cursor_of(symbols);
	while (cursor_left(&c) >= sizeof(Elf64_Sym)) {
		uint32_t name = cursor_u32(&c);
		uint8_t info = cursor_u8(&c);
		uint16_t section;
		uint64_t value, size;
		const char *end;

		cursor_skip(&c, 1);
		section = cursor_u16(&c);
		value = cursor_u64(&c);
		size = cursor_u64(&c);
		if (section == SHN_UNDEF || name >= strings.size ||
		    (ELF64_ST_TYPE(info) != STT_FUNC && ELF64_ST_TYPE(info) != STT_OBJECT))
			continue;
		end = memchr(strings.p + name, '\0', strings.size - name);
		if (end)
			take_python_symbol(s,
					   (struct str){ (const char *)strings.p + name,
							 (size_t)(end - (const char *)strings.p) - name },
					   value, size);
	}
	return 0;
}

/* Bytes of the file that are mapped at @vaddr: at most @max. Returns how many; 0: none. */
static size_t read_vaddr(const struct elf_image *img, uint64_t vaddr, void *to, size_t max)
{
	struct err ignored = { 0 };

	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];
		size_t got = 0;

		if (s->type != PT_LOAD || vaddr < s->vaddr || vaddr - s->vaddr >= s->filesz ||
		    s->off > UINT64_MAX - s->filesz)
			continue;
		max = MIN(max, (size_t)MIN(s->filesz - (vaddr - s->vaddr), (uint64_t)SIZE_MAX));
		if (source_read(img->src, s->off + (vaddr - s->vaddr), to, max, SOURCE_RANDOM, &got,
				&ignored))
			return 0;
		return got;
	}
	return 0;
}

/* "python3.11", "libpython3.9.so.1.0". 0: not in the name. */
static unsigned minor_of_name(const char *path)
{
	const char *at = strstr(path_basename(str_of(path)).p, "python3.");
	unsigned minor = 0;

	if (!at)
		return 0;
	for (at += strlen("python3."); *at >= '0' && *at <= '9' && minor < 100; at++)
		minor = minor * 10 + (unsigned)(*at - '0');
	return minor;
}

static unsigned minor_of_image(const struct image_symbols *s, struct bytes runtime, const char *path)
{
	uint8_t bytes[8] = { 0 };
	struct cursor c = cursor_of(bytes_of(bytes, sizeof(bytes)));
	uint64_t version = 0;

	if (s->version && read_vaddr(s->img, s->version, bytes, sizeof(bytes)) == sizeof(bytes)) {
		version = cursor_u64(&c);
	} else if (runtime.size >= 16 && memcmp(runtime.p, "xdebugpy", 8) == 0) {
		c = cursor_of(runtime);
		cursor_skip(&c, 8);
		version = cursor_u64(&c);
	}
	return version >> 24 == 3 ? (unsigned)(version >> 16 & 0xff) : minor_of_name(path);
}

int python_image_read(const struct elf_image *img, const char *path, struct python_image *ret,
		      struct err *err)
{
	struct image_symbols s = { .img = img, .to = ret };
	struct bytes runtime;

	*ret = (struct python_image){ 0 };
	if (!img->h.is64 || img->h.big || img->h.machine != EM_X86_64 || !python_image_may_be(path))
		return PYTHON_NO_IMAGE;
	if (read_symbols(&s, SHT_DYNSYM, err))
		return -1;
	if (!s.has_runtime)
		return PYTHON_NO_IMAGE;
	if (read_symbols(&s, SHT_SYMTAB, err))
		return -1;
	ret->debug_size = (uint32_t)read_vaddr(img, ret->runtime, ret->debug, sizeof(ret->debug));
	runtime = bytes_of(ret->debug, ret->debug_size);
	return python_layout_get(minor_of_image(&s, runtime, path), runtime, &ret->layout, err);
}

bool python_image_recheck(struct python_image *p)
{
	unsigned minor = p->layout.minor;
	struct err err;

	if (p->n_ranges > PYTHON_MAX_RANGES || p->debug_size > sizeof(p->debug))
		return false;
	for (unsigned i = 0; i < p->n_ranges; i++) {
		uint8_t flag;

		/* A bool with another value is undefined. */
		memcpy(&flag, &p->ranges[i].is_loop, 1);
		if (flag > 1 || p->ranges[i].start >= p->ranges[i].limit)
			return false;
	}
	return python_layout_get(minor, bytes_of(p->debug, p->debug_size), &p->layout, &err) == 0;
}

const struct python_range *python_image_range(const struct python_image *p, uint64_t vaddr)
{
	for (unsigned i = 0; i < p->n_ranges; i++)
		if (vaddr >= p->ranges[i].start && vaddr < p->ranges[i].limit)
			return &p->ranges[i];
	return NULL;
}
