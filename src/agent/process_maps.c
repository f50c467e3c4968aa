/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a process: read, and given to the sampler when the heads of all its files are known.
 */
#include "agent/process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/maps.h"
#include "agent/python_image.h"
#include "base/hash.h"
#include "base/hash_index.h"
#include "base/vec.h"

void process_drop_maps(struct processes *p, struct process *of)
{
	for (size_t i = 0; i < of->n_maps; i++)
		files_unref(p->files, of->maps[i].file);
	p->stats.n_maps -= of->n_maps;
	/* The limit is one of mappings, so room for others is given back, too. */
	free(of->maps);
	of->maps = NULL;
	of->n_maps = of->room_maps = 0;
	of->n_unread = 0;
}

#define LINES_KNOWN 64u /* files whose lines follow each other closely */

struct maps_of_process {
	struct processes *p;
	struct process *of;
	bool busy; /* a file could not be opened or read for now */
	/* Files of lines before: a process may have 65 000 mappings of one file, and opening it takes 10 us each time. */
	struct known_line {
		uint64_t inode, path_hash; /* inode 0: empty */
		uint32_t major, minor;
		struct mapped_file *file; /* of a mapping; NULL: it could not be opened */
	} known[LINES_KNOWN];
};

static bool known_line_is(const struct known_line *k, const struct maps_line *line, uint64_t path_hash)
{
	return k->inode == line->inode && k->path_hash == path_hash && k->major == line->major &&
	       k->minor == line->minor;
}

static struct mapped_file *file_of_line(struct maps_of_process *m, const struct maps_line *line)
{
	AUTO(buf_done) struct buf path = { 0 };
	struct mapped_file *file = NULL;
	struct err err = { 0 };
	struct known_line *known;
	uint64_t hash;
	int fd;

	if (!line->inode) {
		/* That of a 32-bit process is another one. */
		bool vdso = str_eq(line->path, STR("[vdso]")) && line->start > UINT32_MAX;

		return vdso ? files_vdso(m->p->files) : NULL;
	}
	hash = hash64(line->path.p, line->path.size, 0);
	known = &m->known[hash_mix(line->inode, hash) % LINES_KNOWN];
	if (known_line_is(known, line, hash)) {
		files_ref(m->p->files, known->file);
		return known->file;
	}
	/* It is read again anyway. */
	if (m->busy && !m->of->has_ended)
		return NULL;
	errno = 0;
	fd = m->of->has_ended ? process_open_path(m->p->o.proc, m->of->parent, line)
			      : process_open_mapped(m->p->o.proc, m->of->pid, line);
	if (fd < 0 && err_is_scarce(errno)) {
		m->busy = true;
		return NULL;
	}
	if (fd >= 0) {
		int r;

		maps_path(line->path, &path);
		r = files_get(m->p->files, fd, buf_cstr(&path), &file, &err);
		if (r == FILES_BUSY) {
			m->busy = true;
			return NULL;
		}
		if (r)
			file = NULL;
	}
	m->of->has_odd_maps |= !file;
	/* Failures, too: a device is looked up in three ways, and never opened. */
	*known = (struct known_line){ line->inode, hash, line->major, line->minor, file };
	return file;
}

static int add_process_map(void *arg, const struct maps_line *line)
{
	struct maps_of_process *m = arg;
	struct process *of = m->of;
	struct process_map *last = of->n_maps ? &of->maps[of->n_maps - 1] : NULL;
	struct mapped_file *file;

	/* Without room for it, the file is not opened. */
	if (!maps_have_room(of->n_maps, m->p->stats.n_maps,
			    line->inode || str_eq(line->path, STR("[vdso]")))) {
		of->has_odd_maps = true;
		return 0;
	}
	file = file_of_line(m, line);
	/* JIT compilers have thousands of mappings side by side. */
	if (last && last->limit == line->start && last->file == file &&
	    last->has_file == (line->inode != 0) &&
	    (!file || last->offset + (last->limit - last->start) == line->offset)) {
		last->limit = line->limit;
		files_unref(m->p->files, file);
		return 0;
	}
	if (file && file->state == FILE_READING)
		of->n_unread++;
	VEC_PUSH(of->maps, of->n_maps, of->room_maps) = (struct process_map){ line->start, line->limit,
									      line->offset, file,
									      line->inode != 0 };
	m->p->stats.n_maps++;
	return 0;
}

int process_read_maps(struct processes *p, struct process *of)
{
	struct maps_of_process m = { .p = p, .of = of };
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };
	char path[PATH_MAX];
	int r;

	process_drop_maps(p, of);
	of->has_odd_maps = false;
	of->read_ns = clock_mono_ns();
	snprintf(path, sizeof(path), "%s/%u/maps", p->o.proc, of->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = maps_read(fd, add_process_map, &m, &err);
	of->is_read = !m.busy;
	/* A process that ends has given back its memory already. */
	return (r < 0 && err.kind != ERR_LIMIT) || !of->n_maps ? -1 : 0;
}

void process_take_lines(struct processes *p, struct process *of, const struct recent_process *from)
{
	struct maps_of_process m = { .p = p, .of = of };

	for (size_t i = 0; i < from->n_maps; i++) {
		struct maps_line line = recent_line(from, i);

		if (add_process_map(&m, &line))
			break;
	}
	/* Not read again: a file that could not be opened for now stays unknown. */
	of->has_odd_maps |= m.busy;
}

/* ---- for the sampler ---- */

/* The sampler reads the frames of the interpreter @image, whose addresses are @bias after those of its file. */
static void give_python(struct processes *p, struct process *of, const struct python_image *image,
			uint64_t bias)
{
	uint64_t runtime = image->runtime + bias;
	struct bpf_python frames = image->layout.frames;
	struct err err = { 0 };
	int r;

	frames.start_ticks = of->start_ticks;
	frames.tss = image->layout.tss ? runtime + image->layout.tss : 0;
	frames.interpreters = runtime + image->layout.interpreters;
	r = sampler_process_python(p->sampler, of->pid, &frames, &err);
	if (r < 0)
		log_debug("agent", "process %u: %s", of->pid, err.text);
	if (r == 0 && !of->python)
		of->python = python_process_new(&p->python, of->pid, &image->layout);
}

/* All addresses: a sample outside of all mappings asks for them, and waits with a copy of its stack. */
static const struct sampler_mapping any_address = { 0, UINT64_MAX, 0, SAMPLER_NO_FILE };

void process_give(struct processes *p, struct process *of)
{
	const struct sampler_owner owner = { .pid = of->pid,
					     .start_ticks = of->start_ticks,
					     .read_ns = of->read_ns,
					     .has_ended = of->has_ended,
					     .from_ns = of->from_ns,
					     .until_ns = of->until_ns,
					     .copy_of = of->copy_of };
	const struct mapped_file *last = NULL;
	struct err err = { 0 };
	bool has_python = false;
	uint64_t bias = 0;
	size_t n = 0;

	VEC_RESERVE(p->given, 0, p->room_given, of->n_maps + 1);
	for (size_t i = 0; i < of->n_maps; i++) {
		const struct process_map *m = &of->maps[i];
		struct sampler_mapping *to = &p->given[n++];

		*to = (struct sampler_mapping){ m->start, m->limit, 0, SAMPLER_NO_FILE };
		if (!m->file || m->file->state != FILE_KNOWN)
			continue;
		/* Programs that cannot be moved are at the addresses of their file. */
		if (!mapped_file_bias(m->file, m->start, m->offset, m->file == last ? bias : 0, &bias))
			continue;
		last = m->file;
		to->bias = bias;
		to->file = m->file->number;
		if (m->file->python && of->is_kept && !has_python && !of->has_ended) {
			has_python = true;
			give_python(p, of, m->file->python, to->bias);
		}
	}
	if (!of->n_maps && !of->is_kept)
		p->given[n++] = any_address;
	of->is_set = sampler_process_set(p->sampler, &owner, p->given, n, &err) == 0;
	if (!of->is_set) {
		p->stats.n_limited++;
		log_debug("agent", "process %u: %s", of->pid, err.text);
	}
}

static bool has_mapped(const struct process *of, const struct mapped_file *f)
{
	for (size_t i = 0; i < of->n_maps; i++)
		if (of->maps[i].file == f)
			return true;
	return false;
}

/* They did not wait for it this time. */
static void give_again(struct processes *p, const struct mapped_file *f)
{
	struct bytes ignored;
	void *value;

	map_each (&p->by_pid, it, &ignored, &value) {
		struct process *of = value;

		if (f->state == FILE_KNOWN && of->is_set && !of->n_unread && has_mapped(of, f))
			process_give(p, of);
	}
}

void processes_file_known(struct processes *p, struct mapped_file *f)
{
	struct bytes ignored;
	void *value;

	if (f->is_again) {
		give_again(p, f);
		return;
	}
	map_each (&p->by_pid, it, &ignored, &value) {
		struct process *of = value;
		unsigned before = of->n_unread;

		for (size_t i = 0; before && i < of->n_maps; i++)
			of->n_unread -= of->maps[i].file == f;
		if (before && !of->n_unread)
			process_give(p, of);
	}
}
