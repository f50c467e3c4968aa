/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode symbolize --pid: addresses of a running process, by its mappings. The kernel's own module (the vDSO) is in
 * no file, so it is read out of the process; names of code that the process made are in the file that it writes for
 * perf.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cmd/mapped.h"
#include "profile/name.h"
#include "profile/perf_map.h"
#include "cmd/symbolize/symbolize.h"

#define MAX_MAPS MIB(256)
#define VDSO_MAX MIB(1)

/* A mapping of a file. */
struct mapped_module {
	uint64_t start, limit;
	struct module *module;
};

struct process {
	struct modules modules;
	struct mapped_module *places; /* rising */
	size_t n, room;
	int vdso;               /* a copy in memory; -1: none */
	struct perf_map made;   /* code that the process made */
	struct buf made_module; /* its name in answers */
	struct symtab_frame made_frame;
	struct frame_mapping *others; /* rising: code without a file, which the process has made */
	size_t n_others, room_others;
	uint64_t n_unmapped, n_made; /* addresses without a name: in no code, in code without a file */
};

/* Copy the vDSO out of the memory of the process. False: it cannot be read. */
static bool vdso_copy(struct process *p, const char *pid, const struct frame_mapping *map)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%s/mem", pid);
	AUTO(mem_freep) uint8_t *bytes = NULL;
	AUTO(fd_close) int mem = -1;
	AUTO(fd_close) int copy = -1;
	struct err ignored = { 0 };
	size_t size, got;

	if (p->vdso >= 0 || map->limit <= map->start || map->limit - map->start > VDSO_MAX)
		return false;
	size = (size_t)(map->limit - map->start);
	bytes = mem_alloc(size);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	copy = memfd_create("vdso", MFD_CLOEXEC);
	if (mem < 0 || copy < 0 || fd_pread(mem, bytes, size, map->start, &got, &ignored) < 0 || !got ||
	    fd_pwrite(copy, bytes, got, 0, &ignored) < 0)
		return false;
	p->vdso = TAKE_FD(copy);
	return true;
}

static void map_vdso(struct process *p, const char *pid, const struct frame_mapping *map)
{
	struct module *m = vdso_copy(p, pid, map) ? modules_get(&p->modules, STR("[vdso]"), NULL) : NULL;

	if (!m)
		return;
	m->path = mem_printf("/proc/self/fd/%d", p->vdso);
	module_add_map(m, map);
	VEC_PUSH(p->places, p->n, p->room) = (struct mapped_module){ map->start, map->limit, m };
}

static void add_process_mapping(struct process *p, const char *pid, struct str line)
{
	struct frame_mapping map = { 0 };
	struct maps_line l;
	uint64_t inode[2]; /* of which device */
	struct module *m;

	if (!maps_line_parse(line, &l))
		return;
	map.start = l.start;
	map.limit = l.limit;
	map.offset = l.offset;
	if (!l.inode && str_eq(l.path, STR("[vdso]")))
		map_vdso(p, pid, &map);
	/* Runtimes make code in memory with a name of its own, too: "/memfd:doublemapper". */
	if (!l.inode || l.path.p[0] != '/' || profile_is_no_file(l.path)) {
		if (l.exec)
			VEC_PUSH(p->others, p->n_others, p->room_others) = map;
		return;
	}
	inode[0] = (uint64_t)l.major << 32 | l.minor;
	inode[1] = l.inode;
	m = modules_get_mapped(&p->modules, l.path, bytes_of(inode, sizeof(inode)));
	if (!m)
		return;
	if (!m->n_maps) {
		free(m->path);
		m->path = mapped_path(pid, &l);
		m->gone = !m->path;
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
		add_process_mapping(p, pid, str_cut(&rest, '\n'));
	return p->n ? 0
		    : err_set(err, ERR_IO,
			      "process %s has no mapped files: it is a thread of the kernel, or has ended",
			      pid);
}

/* Without these names the process's files still have theirs. */
static void read_made(struct process *p, const char *pid)
{
	struct err err = { 0 };

	if (perf_map_read(&p->made, pid, &err) < 0)
		tell_error("symbolize", &err);
	buf_printf(&p->made_module, "perf-%s.map", pid);
}

static bool find_made(struct process *p, uint64_t addr, struct str *ret_module, struct symtab_frames *ret)
{
	const struct perf_map_entry *e = perf_map_at(&p->made, addr);

	if (!e)
		return false;
	p->made_frame = (struct symtab_frame){ .name = perf_map_name(&p->made, e), .origin = SYMTAB_SYMBOL };
	*ret_module = buf_str(&p->made_module);
	*ret = (struct symtab_frames){ &p->made_frame,     1,        e->start,
				       e->start + e->size, e->start, e->start + e->size };
	return true;
}

/* The module whose file is mapped there; NULL: none. */
static struct module *module_at(const struct process *p, uint64_t addr)
{
	size_t lo = SEARCH(0, p->n, i, p->places[i].limit <= addr);

	return lo == p->n || addr < p->places[lo].start ? NULL : p->places[lo].module;
}

static bool find_in_files(struct process *p, uint64_t addr, struct str *ret_module, struct symtab_frames *ret)
{
	const struct module_address a = { .kind = FRAME_RUNTIME, .addr = addr };
	struct module *m = module_at(p, addr);
	uint64_t ignored;

	if (!m)
		return false;
	*ret_module = str_of(m->name);
	return module_find(&p->modules, m, &a, &ignored, ret);
}

static void note_missed(struct process *p, uint64_t addr)
{
	struct module *m = module_at(p, addr);
	size_t lo = SEARCH(0, p->n_others, i, p->others[i].limit <= addr);

	if (m)
		module_note_missed(m);
	else if (lo == p->n_others || addr < p->others[lo].start)
		p->n_unmapped++;
	else
		p->n_made++;
}

/* A runtime may have mapped a file without symbols for the code that it makes. */
static bool find_in_process(void *arg, uint64_t addr, struct str *ret_module, struct symtab_frames *ret)
{
	if (find_in_files(arg, addr, ret_module, ret) || find_made(arg, addr, ret_module, ret))
		return true;
	note_missed(arg, addr);
	return false;
}

#define MADE_BY_PROCESS "the process has made the code there, and /tmp/perf-PID.map does not name it"
#define LET_IT_NAME                                                                                        \
	"start the program so that it writes that file: Node.js: --perf-basic-prof, Python: -X perf; or, " \
	"of "                                                                                              \
	"Java: jcmd PID Compiler.perfmap"
#define NO_CODE       "no code is mapped at the address"
#define CHECK_ADDRESS "check the address: it must be one of this process, as /proc/PID/maps has them now"

static void report_missed(const struct process *p, const char *pid)
{
	AUTO(mem_freep) char *name = mem_printf("process %s", pid);

	if (!p->modules.s->verbose)
		return;
	modules_report_missed(&p->modules, "a name");
	if (p->n_made) {
		symbolize_print_missed(str_of(name), p->n_made, "a name", MADE_BY_PROCESS);
		fprintf(stderr, "            %s\n", LET_IT_NAME);
	}
	if (p->n_unmapped) {
		symbolize_print_missed(str_of(name), p->n_unmapped, "a name", NO_CODE);
		fprintf(stderr, "            %s\n", CHECK_ADDRESS);
	}
}

int symbolize_process(struct settings *s, const char *pid, const struct symbolize_style *style)
{
	struct process p = { .vdso = -1 };
	const struct finding f = { find_in_process, &p };
	struct err err = { 0 };
	int status;

	modules_init(&p.modules, s);
	p.modules.verbose = true;
	if (read_maps(&p, pid, &err) < 0)
		status = tell_error("symbolize", &err);
	else {
		read_made(&p, pid);
		status = symbolize_addresses(s, style, &f);
		report_missed(&p, pid);
	}
	free(p.places);
	free(p.others);
	modules_done(&p.modules);
	perf_map_done(&p.made);
	buf_done(&p.made_module);
	fd_close(&p.vdso);
	return status;
}
