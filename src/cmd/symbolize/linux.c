/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call traces of Linux in crash text: " ? f+0x1/0x20 [mod]".
 *
 * The kernel is the one of --kernel-release, else the one that the text names ("Linux version
 * 6.1.0-1-amd64", "CPU: 0 PID: 1 ... Not tainted 6.1.0-1-amd64 #1"), else the running one. Some kernels print
 * build IDs, their own after the release and a module's after its name; then files are found by these.
 */
#include <fts.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include "cmd/find/find.h"
#include "cmd/symbolize/text.h"

/* ---- the release ---- */

static bool is_release(struct str s)
{
	for (size_t i = 0; i < s.size; i++)
		if (s.p[i] == '/' || s.p[i] == '%' || s.p[i] <= ' ')
			return false;
	return s.size && s.size < 128 && *s.p >= '0' && *s.p <= '9';
}

static bool is_running_release(const char *release)
{
	struct utsname u;

	uname(&u);
	return strcmp(u.release, release) == 0;
}

static void set_release(struct text_filter *t, struct str release)
{
	if (t->release && str_eq(str_of(t->release), release))
		return;
	free(t->release);
	t->release = mem_strndup(release.p, release.size);
	t->build_id.size = 0;
	t->kernel = NULL;
	t->kernel_tried = false;
}

/* "Linux version 6.1.0 (...", "... tainted: G W 6.1.0 #1 Debian 6.1.1-1 0123..." */
static void read_release(struct text_filter *t, struct str line)
{
	struct build_id id;
	struct str rest, word = { 0 };

	if (t->s->symbols.kernel_release)
		return;
	if (text_find(line, STR("Linux version "), &rest)) {
		word = str_cut(&rest, ' ');
		if (is_release(word))
			set_release(t, word);
		return;
	}
	if (!text_find(line, STR("CPU: "), &rest) || !text_find(line, STR("ainted"), &rest))
		return;
	while (rest.size) {
		word = str_cut(&rest, ' ');
		/* The word before "#1"; flags of tainting do not begin with a digit. */
		if (is_release(word) && rest.size && *rest.p == '#') {
			set_release(t, word);
			break;
		}
	}
	while (rest.size)
		word = str_cut(&rest, ' ');
	if (word.size == 40 && build_id_parse(&id, word) && !build_id_eq(&id, &t->build_id)) {
		t->build_id = id;
		t->kernel = NULL;
		t->kernel_tried = false;
	}
}

static const char *release_of(const struct text_filter *t)
{
	return t->s->symbols.kernel_release ? t->s->symbols.kernel_release : t->release;
}

/* ---- files of the kernel ---- */

static struct module *kernel_of(struct text_filter *t)
{
	const char *release = release_of(t), *file = t->s->symbols.file;
	struct err ignored = { 0 };
	struct build_id id = t->build_id;

	if (t->kernel_tried)
		return t->kernel;
	t->kernel_tried = true;
	if (!file && !id.size && (!release || is_running_release(release)) &&
	    symbolize_kernel_id(&id, &ignored) < 0)
		return NULL;
	t->kernel = modules_get(&t->modules,
				str_of(file      ? file
				       : release ? release
						 : "vmlinux"),
				!file && id.size ? &id : NULL);
	if (t->kernel && !t->kernel->path)
		t->kernel->path = file ? mem_strdup(file) : symbolize_kernel_path(release);
	return t->kernel;
}

/* Is "nf-tables.ko.xz" the file of "nf_tables"? In file names '-' and '_' are the same. */
static bool is_file_of(const char *file, struct str name)
{
	for (size_t i = 0; i < name.size; i++)
		if (file[i] != name.p[i] &&
		    !((file[i] == '-' || file[i] == '_') && (name.p[i] == '-' || name.p[i] == '_')))
			return false;
	return strncmp(file + name.size, ".ko", 3) == 0;
}

/* The path of a module of a release, where distributions put them, first those with debug information. Heap;
 * NULL: there is none. */
static char *module_path(const char *release, struct str name)
{
	AUTO(mem_freep) char *debug = mem_printf("/usr/lib/debug/lib/modules/%s", release);
	AUTO(mem_freep) char *usr = mem_printf("/usr/lib/debug/usr/lib/modules/%s", release);
	AUTO(mem_freep) char *own = mem_printf("/lib/modules/%s", release);
	char *const dirs[] = { debug, usr, own, NULL };
	FTS *walk = fts_open(dirs, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
	char *path = NULL;

	for (FTSENT *e; walk && !path && (e = fts_read(walk));)
		if (e->fts_info != FTS_D && e->fts_info != FTS_DP && is_file_of(e->fts_name, name))
			path = mem_strdup(e->fts_path);
	if (walk)
		fts_close(walk);
	return path;
}

static struct module *module_of(struct text_filter *t, struct str name, const struct build_id *given)
{
	const char *release = release_of(t);
	AUTO(mem_freep) char *path = NULL;
	AUTO(mem_freep) char *key = NULL;
	struct build_id id = { 0 };
	struct err ignored = { 0 };
	struct module *m;

	if (memchr(name.p, '/', name.size) || memchr(name.p, 0, name.size))
		return NULL;
	if (given->size)
		return modules_get(&t->modules, name, given);
	if (!release || is_running_release(release))
		return symbolize_module_id(name, &id) == 0 ? modules_get(&t->modules, name, &id) : NULL;
	key = mem_printf("%s " STR_FMT, release, STR_ARG(name));
	m = modules_get(&t->modules, str_of(key), NULL);
	if (!m || m->tried || m->path || m->id.size)
		return m;
	path = module_path(release, name);
	/* A compressed module is found by its build ID, not by its path. */
	if (path && find_read_id(path, true, &m->id, &ignored) == 0 && str_ends(str_of(path), STR(".ko")))
		m->path = TAKE(path);
	else if (path && !m->id.size)
		m->path = TAKE(path);
	m->tried = !m->path && !m->id.size;
	return m;
}

/* ---- lines ---- */

static bool is_symbol(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
	       c == '.';
}

/* Is the address of the line a program counter, not a return address? */
static bool has_program_counter(struct str line)
{
	static const struct str marks[] = {
		STR("RIP: "), STR("EIP: "),  STR("pc : "),       STR("PC is at "),
		STR("NIP ["), STR("epc : "), STR("Krnl PSW : "), STR("WARNING: ")
	};
	struct str ignored;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (text_find(line, marks[i], &ignored))
			return true;
	return false;
}

bool text_linux_line(struct text_filter *t, struct str line, struct buf *out)
{
	struct symtab_frames frames;
	struct str rest = line, mod = { 0 };
	struct build_id id = { 0 };
	const char *plus = NULL, *from;
	struct module_symbol sym = { 0 };
	struct module *m;

	read_release(t, line);
	while (rest.size && (plus = memmem(rest.p, rest.size, "+0x", 3))) {
		rest = str_after(rest, (size_t)(plus + 1 - rest.p));
		if (text_take_hex(&rest, true, &sym.off) && text_take(&rest, STR("/")) &&
		    text_take_hex(&rest, true, &sym.size))
			break;
		plus = NULL;
	}
	if (!plus || sym.off > sym.size)
		return false;
	for (from = plus; from > line.p && is_symbol(from[-1]);)
		from--;
	sym.name = (struct str){ from, (size_t)(plus - from) };
	if (!sym.name.size)
		return false;
	rest = text_skip_blanks(rest);
	if (text_take(&rest, STR("["))) {
		struct str inside = str_cut(&rest, ']');

		mod = str_cut(&inside, ' ');
		if (!build_id_parse(&id, inside))
			id.size = 0;
	}
	m = mod.size ? module_of(t, mod, &id) : kernel_of(t);
	sym.is_return = !has_program_counter(line);
	if (!m || !module_find_symbol(&t->modules, m, &sym, &frames))
		return text_missed(m);
	text_add_below(t, line, &frames, out);
	return true;
}
