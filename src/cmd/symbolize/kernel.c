/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize --kernel: addresses of the running kernel and its modules. Without
 * their debug files, by /proc/kallsyms.
 */
#include <dirent.h>
#include <endian.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "cmd/symbolize/symbolize.h"
#include "elf/elf.h"

#define MAX_KALLSYMS MIB(256)
#define MAX_NOTES    KIB(64)
/* Outside of the kernel's own text, code further from the start of a function is no part of it, as in agent/kernel.c. */
#define FUNCTION_MAX KIB(32)

/* ---- files ---- */

static int notes_build_id(const char *path, struct build_id *ret)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err ignored = { 0 };

	return file_read(path, MAX_NOTES, &b, &ignored) == 0 &&
			       elf_notes_build_id(buf_bytes(&b), __BYTE_ORDER == __BIG_ENDIAN, ret) == 0
		       ? 0
		       : 1;
}

int symbolize_kernel_id(struct build_id *ret, struct err *err)
{
	return notes_build_id("/sys/kernel/notes", ret) == 0
		       ? 0
		       : err_set(err, ERR_IO, "/sys/kernel/notes has no build ID");
}

int symbolize_module_id(struct str name, struct build_id *ret)
{
	AUTO(mem_freep) char *path = NULL;

	if (!name.size || memchr(name.p, '/', name.size) || name.p[0] == '.')
		return 1;
	path = mem_printf("/sys/module/" STR_FMT "/notes/.note.gnu.build-id", STR_ARG(name));
	return notes_build_id(path, ret);
}

char *symbolize_kernel_path(const char *release)
{
	static const char *const places[][2] = { { "/usr/lib/debug/boot/vmlinux-", "" },
						 { "/usr/lib/debug/lib/modules/", "/vmlinux" },
						 { "/usr/lib/modules/", "/vmlinux" },
						 { "/lib/modules/", "/build/vmlinux" },
						 { "/boot/vmlinux-", "" } };
	struct utsname u;

	uname(&u);
	if (!release)
		release = u.release;
	if (strchr(release, '/'))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		AUTO(mem_freep) char *path = mem_printf("%s%s%s", places[i][0], release, places[i][1]);

		if (access(path, R_OK) == 0)
			return TAKE(path);
	}
	return NULL;
}

/* ---- kallsyms ---- */

struct kallsym {
	uint64_t addr;
	struct str name, module; /* views into the text; module empty: the kernel itself */
};

struct kernel {
	struct modules modules;
	struct buf text;
	struct kallsym *list; /* rising */
	size_t n, room;
	uint64_t start, end; /* _text, _etext; end 0: not known */
	struct module *vmlinux;
	struct symtab_frame frame; /* of kallsyms */
};

static int kallsym_cmp(const void *a, const void *b)
{
	const struct kallsym *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* "ffffffff81000000 T _text", "ffffffffc0000000 t f	[mod]" */
static void add_kallsym(struct kernel *k, struct str line)
{
	struct str addr = str_cut(&line, ' '), type = str_cut(&line, ' '), name = str_cut(&line, '\t');
	char text[20] = "";
	struct kallsym *s;

	if (!addr.size || addr.size >= sizeof(text) || type.size != 1 || !name.size)
		return;
	memcpy(text, addr.p, addr.size);
	s = &VEC_PUSH(k->list, k->n, k->room);
	*s = (struct kallsym){ .addr = strtoull(text, NULL, 16), .name = name };
	if (line.size > 2 && line.p[0] == '[')
		s->module = (struct str){ line.p + 1, line.size - 2 };
	if (str_eq(name, STR("_text")))
		k->start = s->addr;
	if (str_eq(name, STR("_etext")))
		k->end = s->addr;
	/* Data and section marks are not code. */
	if (!strchr("tTwW", *type.p))
		k->n--;
}

static int read_kallsyms(struct kernel *k, struct err *err)
{
	int r = file_read("/proc/kallsyms", MAX_KALLSYMS, &k->text, err);

	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "there is no /proc/kallsyms");
	for (struct str rest = buf_str(&k->text); rest.size;)
		add_kallsym(k, str_trim(str_cut(&rest, '\n')));
	if (!k->start)
		return err_set(err, ERR_IO,
			       "/proc/kallsyms hides all addresses: only root may see them "
			       "(see kernel.kptr_restrict)");
	qsort(k->list, k->n, sizeof(*k->list), kallsym_cmp);
	return 0;
}

static const struct kallsym *kallsym_at(const struct kernel *k, uint64_t addr)
{
	size_t lo = SEARCH(0, k->n, i, k->list[i].addr <= addr);
	const struct kallsym *s = lo ? &k->list[lo - 1] : NULL;

	/* Data, the code of BPF programs and other modules may be there. */
	if (s && k->end && (addr < k->start || addr >= k->end) &&
	    (addr - s->addr > FUNCTION_MAX || str_eq(s->name, STR("_etext")) ||
	     str_eq(s->name, STR("_einittext"))))
		return NULL;
	return s;
}

/* ---- look-up ---- */

static struct module *vmlinux_module(struct kernel *k)
{
	struct frame_mapping map = { .start = k->start, .symbol = STR("_text") };
	struct err ignored = { 0 };
	struct build_id id = { 0 };

	if (k->vmlinux || symbolize_kernel_id(&id, &ignored) < 0)
		return k->vmlinux;
	k->vmlinux = modules_get(&k->modules, STR("vmlinux"), &id);
	if (k->vmlinux) {
		k->vmlinux->path = symbolize_kernel_path(NULL);
		module_add_map(k->vmlinux, &map);
	}
	return k->vmlinux;
}

/* A loaded module, with the address of its code, which only root may read. */
static struct module *loaded_module(struct kernel *k, struct str name)
{
	AUTO(mem_freep) char *path = mem_printf("/sys/module/" STR_FMT "/sections/.text", STR_ARG(name));
	AUTO(buf_done) struct buf text = { 0 };
	struct frame_mapping map = { 0 };
	struct err ignored = { 0 };
	struct build_id id = { 0 };
	struct module *m;

	if (symbolize_module_id(name, &id) != 0)
		return NULL;
	m = modules_get(&k->modules, name, &id);
	if (!m || m->n_maps)
		return m;
	if (file_read(path, 64, &text, &ignored) != 0)
		return NULL;
	map.start = strtoull(buf_cstr(&text), NULL, 16);
	module_add_map(m, &map);
	return m;
}

static bool find_in_kernel(void *arg, uint64_t addr, struct str *ret_module, struct symtab_frames *ret)
{
	struct kernel *k = arg;
	const struct kallsym *s = kallsym_at(k, addr);
	const struct module_address a = { .kind = FRAME_RUNTIME, .addr = addr };
	struct module *m;
	uint64_t vaddr;

	if (!s)
		return false;
	*ret_module = s->module.size ? s->module : STR("vmlinux");
	m = s->module.size ? loaded_module(k, s->module) : vmlinux_module(k);
	if (m && module_find(&k->modules, m, &a, &vaddr, ret))
		return true;
	if (m)
		module_note_missed(m);
	k->frame = (struct symtab_frame){ .name = s->name, .origin = SYMTAB_SYMBOL };
	*ret = (struct symtab_frames){ .list = &k->frame, .n = 1, .start = s->addr };
	ret->end = s + 1 < k->list + k->n ? s[1].addr : addr + 1;
	ret->lo = ret->start;
	ret->hi = ret->end;
	return true;
}

int symbolize_kernel(struct settings *s, const struct symbolize_style *style)
{
	struct kernel k = { 0 };
	const struct finding f = { find_in_kernel, &k };
	struct err err = { 0 };
	int status;

	modules_init(&k.modules, s);
	if (read_kallsyms(&k, &err) < 0)
		status = tell_error("symbolize", &err);
	else
		status = symbolize_addresses(s, style, &f);
	modules_report_missed(&k.modules, "a file and line");
	modules_done(&k.modules);
	buf_done(&k.text);
	free(k.list);
	return status;
}
