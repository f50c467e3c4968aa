/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize --pid: addresses of a running process, by its mappings.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/symbolize/symbolize.h"

#define MAX_MAPS MIB(256)
#define DELETED  STR(" (deleted)")

/* A mapping with a file. */
struct place {
	uint64_t start, limit;
	struct module *module;
};

struct process {
	struct modules modules;
	struct place *places; /* rising */
	size_t n, room;
};

static uint64_t hex(struct str s)
{
	char text[20] = "";

	if (s.size < sizeof(text))
		memcpy(text, s.p, s.size);
	return strtoull(text, NULL, 16);
}

/* The file as it was mapped, which may have been replaced or deleted since. */
static char *readable(const char *pid, struct str range, struct str path, uint64_t ino)
{
	AUTO(mem_freep) char *mapped = mem_printf("/proc/%s/map_files/" STR_FMT, pid, STR_ARG(range));
	AUTO(mem_freep) char *own = mem_strndup(path.p, path.size);
	AUTO(mem_freep) char *there = mem_printf("/proc/%s/root%s", pid, own);
	struct stat st;

	if (stat(own, &st) == 0 && st.st_ino == ino)
		return TAKE(own);
	if (access(mapped, R_OK) == 0)
		return TAKE(mapped);
	return TAKE(there);
}

static void add_line(struct process *p, const char *pid, struct str line)
{
	struct frame_mapping map = { 0 };
	struct str rest = line, range = str_word(&rest), path, both = range;
	struct module *m;
	uint64_t ino = 0;

	str_word(&rest); /* permissions */
	map.offset = hex(str_word(&rest));
	str_word(&rest); /* device */
	if (!str_to_u64(str_word(&rest), &ino) || !ino)
		return;
	map.start = hex(str_cut(&both, '-'));
	map.limit = hex(both);
	path = str_trim(rest);
	if (str_ends(path, DELETED))
		path.size -= DELETED.size;
	if (!path.size || path.p[0] != '/')
		return;
	m = modules_get(&p->modules, path, NULL);
	if (!m)
		return;
	if (!m->n_maps) {
		free(m->path);
		m->path = readable(pid, range, path, ino);
	}
	module_add_map(m, &map);
	if (p->n == p->room) {
		p->room = p->room ? 2 * p->room : 64;
		p->places = mem_realloc(p->places, p->room, sizeof(*p->places));
	}
	p->places[p->n++] = (struct place){ map.start, map.limit, m };
}

static int read_maps(struct process *p, const char *pid, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%s/maps", pid);
	AUTO(buf_done) struct buf maps = { 0 };
	uint64_t number;
	int r;

	if (!str_to_u64(str_of(pid), &number))
		return err_set(err, ERR_INVALID, "%s is no number of a process", pid);
	r = file_read(path, MAX_MAPS, &maps, err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "there is no process %s", pid);
	for (struct str rest = buf_str(&maps); rest.size;)
		add_line(p, pid, str_cut(&rest, '\n'));
	return p->n ? 0 : err_set(err, ERR_IO, "process %s has no files mapped", pid);
}

static bool find(void *arg, uint64_t addr, struct str *ret_module, struct symtab_frames *ret)
{
	struct process *p = arg;
	size_t lo = SEARCH(0, p->n, i, p->places[i].limit <= addr);
	uint64_t ignored;

	if (lo == p->n || addr < p->places[lo].start)
		return false;
	*ret_module = str_of(p->places[lo].module->name);
	return module_find(&p->modules, p->places[lo].module, FRAME_RUNTIME, addr, false, &ignored, ret);
}

int symbolize_process(struct settings *s, const char *pid, const struct symbolize_style *style)
{
	struct process p = { 0 };
	const struct finding f = { find, &p };
	struct err err = { 0 };
	int status;

	modules_init(&p.modules, s);
	p.modules.verbose = true;
	if (read_maps(&p, pid, &err) < 0)
		status = tell_error("symbolize", &err);
	else
		status = symbolize_addresses(s, style, &f);
	free(p.places);
	modules_done(&p.modules);
	return status;
}
