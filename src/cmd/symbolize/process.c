/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize --pid: addresses of a running process, by its mappings.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/symbolize/symbolize.h"

#define MAX_MAPS MIB(256)
#define DELETED  STR(" (deleted)")

/* A mapping of a file. */
struct mapped_module {
	uint64_t start, limit;
	struct module *module;
};

struct process {
	struct modules modules;
	struct mapped_module *places; /* rising */
	size_t n, room;
};

static uint64_t hex_value(struct str s)
{
	char text[20] = "";

	if (s.size < sizeof(text))
		memcpy(text, s.p, s.size);
	return strtoull(text, NULL, 16);
}

/* The file as it was mapped, which may have been replaced or deleted since. */
static char *mapped_path(const char *pid, struct str range, struct str path, uint64_t ino)
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

static void add_mapping(struct process *p, const char *pid, struct str line)
{
	struct frame_mapping map = { 0 };
	struct str rest = line, range = str_word(&rest), path, both = range;
	struct module *m;
	uint64_t ino = 0;

	str_word(&rest); /* permissions */
	map.offset = hex_value(str_word(&rest));
	str_word(&rest); /* device */
	if (!str_to_u64(str_word(&rest), &ino) || !ino)
		return;
	map.start = hex_value(str_cut(&both, '-'));
	map.limit = hex_value(both);
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
		m->path = mapped_path(pid, range, path, ino);
	}
	module_add_map(m, &map);
	VEC_PUSH(p->places, p->n, p->room) = (struct mapped_module){ map.start, map.limit, m };
}

static int read_maps(struct process *p, const char *pid, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%s/maps", pid);
	AUTO(buf_done) struct buf maps = { 0 };
	uint64_t number;
	int r;

	if (!str_to_u64(str_of(pid), &number))
		return err_set(err, ERR_INVALID, "'%s' is not the number of a process", pid);
	r = file_read(path, MAX_MAPS, &maps, err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "there is no process %s", pid);
	for (struct str rest = buf_str(&maps); rest.size;)
		add_mapping(p, pid, str_cut(&rest, '\n'));
	return p->n ? 0
		    : err_set(err, ERR_IO,
			      "process %s has no mapped files: it is a thread of the kernel, or has ended",
			      pid);
}

static bool find_in_process(void *arg, uint64_t addr, struct str *ret_module, struct symtab_frames *ret)
{
	struct process *p = arg;
	size_t lo = SEARCH(0, p->n, i, p->places[i].limit <= addr);
	const struct module_address a = { .kind = FRAME_RUNTIME, .addr = addr };
	uint64_t ignored;

	if (lo == p->n || addr < p->places[lo].start)
		return false;
	*ret_module = str_of(p->places[lo].module->name);
	return module_find(&p->modules, p->places[lo].module, &a, &ignored, ret);
}

int symbolize_process(struct settings *s, const char *pid, const struct symbolize_style *style)
{
	struct process p = { 0 };
	const struct finding f = { find_in_process, &p };
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
