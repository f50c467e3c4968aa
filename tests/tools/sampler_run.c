/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples this machine, or some processes, and prints one line of JSON: how stacks ended, by thread name, and the counters.
 * For tests/e2e/test_sampler.py and bench/agent.py. With --oracle each stack is compared, frame for frame, with that of libdw
 * over the same registers and the same copy of the stack.
 *
 *	sampler_run [--seconds S] [--hz N] [--pid PID]... [--perf] [--cycles] [--oracle] [--copy BYTES] [--frames]
 *	            [--no-kernel] [--off-cpu] [--table-memory BYTES] [--forget S]
 *
 * --frames prints each sample's frames in front, a line each: comm, end, file:address... --forget takes the tables of all files
 * away after S seconds; "late" has the ends of samples from 10 s after that on.
 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/sampler.h"
#include "base/json.h"
#include "elf/elf.h"
#include "io/io.h"
#include "oracle.h"
#include "unwind/unwind.h"

struct run_file {
	uint32_t file;
	dev_t dev;
	ino_t ino;
	char *path;
	bool drop;
	uint64_t offset[16], vaddr[16], size[16]; /* of loadable executable segments */
	size_t n_segments;
};
struct run_comm {
	char comm[SAMPLER_COMM];
	uint64_t n, user, frames, deepest, kernel, held, ends[SAMPLER_N_ENDS];
	uint64_t late[SAMPLER_N_ENDS];
	uint64_t same, differ, oracle_short;
};
struct run {
	struct sampler *sampler;
	struct run_file *files;
	size_t n_files, room_files;
	struct run_comm *comms;
	size_t n_comms, room_comms;
	struct oracle *oracle;
	bool frames;
	uint64_t events[8];
	uint64_t table_bytes, n_rows;
	int64_t build_ns, first_ns;
	int64_t forget_ns; /* of --forget; 0: it was not given */
	bool forgotten;
};

#define LATE_NS (10 * INT64_C(1000000000))

static volatile sig_atomic_t stopped;

static void stop_run(int sig)
{
	stopped = 1;
}

/* ---- files ---- */

static void read_segments(const struct elf_image *img, struct run_file *f)
{
	for (size_t i = 0; i < img->n_segments && f->n_segments < ARRAY_SIZE(f->offset); i++) {
		const struct elf_segment *p = &img->segments[i];

		if (p->type != PT_LOAD)
			continue;
		f->offset[f->n_segments] = p->off;
		f->vaddr[f->n_segments] = p->vaddr;
		f->size[f->n_segments++] = p->filesz;
	}
}

static void build_table(struct run *r, struct run_file *f, const char *path)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(buf_done) struct buf table = { 0 };
	struct unwind_stats stats;
	struct err err;
	int64_t from = clock_cpu_ns();

	if (source_open_file(path, &src, &err) == 0 && elf_open(src, &img, &err) == 0) {
		read_segments(img, f);
		if (unwind_build(img, &(struct unwind_options){ 0 }, &table, &stats, &err) == 0)
			r->n_rows += stats.n_rows;
		else
			table.size = 0;
	}
	r->build_ns += clock_cpu_ns() - from;
	r->table_bytes += table.size;
	if (sampler_file_table(r->sampler, f->file, bytes_of(table.p, table.size), &err))
		fprintf(stderr, "%s: %s\n", path, err.text);
}

static struct run_file *run_file_get(struct run *r, uint32_t pid, const char *path, uint64_t start,
				     uint64_t end)
{
	char real[4096];
	struct stat st;
	struct run_file *f;

	/* The first needs CAP_CHECKPOINT_RESTORE. */
	snprintf(real, sizeof(real), "/proc/%u/map_files/%lx-%lx", pid, start, end);
	if (stat(real, &st)) {
		snprintf(real, sizeof(real), "/proc/%u/root%s", pid, path);
		if (stat(real, &st))
			return NULL;
	}
	for (size_t i = 0; i < r->n_files; i++)
		if (r->files[i].dev == st.st_dev && r->files[i].ino == st.st_ino)
			return &r->files[i];
	f = &VEC_PUSH(r->files, r->n_files, r->room_files);
	*f = (struct run_file){ .dev = st.st_dev, .ino = st.st_ino, .path = mem_strdup(path) };
	if (sampler_file_new(r->sampler, &f->file, NULL))
		abort();
	build_table(r, f, real);
	return f;
}

/* The vDSO, which is the same in all processes: out of this one's memory. NULL: there is none. */
static struct run_file *run_vdso_get(struct run *r, uint64_t size)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	AUTO(fd_close) int fd = memfd_create("vdso", MFD_CLOEXEC);
	struct run_file *f;
	char path[64];

	for (size_t i = 0; i < r->n_files; i++)
		if (strcmp(r->files[i].path, "[vdso]") == 0)
			return &r->files[i];
	if (!image || fd < 0 || write(fd, image, size) != (ssize_t)size)
		return NULL;
	f = &VEC_PUSH(r->files, r->n_files, r->room_files);
	*f = (struct run_file){ .path = mem_strdup("[vdso]") };
	if (sampler_file_new(r->sampler, &f->file, NULL))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	build_table(r, f, path);
	return f;
}

static uint64_t bias_of(const struct run_file *f, uint64_t start, uint64_t offset)
{
	for (size_t i = 0; i < f->n_segments; i++)
		if (offset + 4096 > f->offset[i] && offset < f->offset[i] + f->size[i])
			return start - offset - f->vaddr[i] + f->offset[i];
	return start - offset;
}

/* ---- processes ---- */

static uint64_t start_ticks_of(uint32_t pid)
{
	char path[64], text[1024] = "", *at;
	unsigned long long v = 0;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	in = fopen(path, "re");
	if (!in)
		return 0;
	if (!fgets(text, sizeof(text), in))
		text[0] = '\0';
	fclose(in);
	at = strrchr(text, ')');
	for (int i = 0; at && i < 20; i++)
		at = strchr(at + 1, ' ');
	if (at)
		v = strtoull(at, NULL, 10);
	return v;
}

static void set_process(struct run *r, uint32_t pid)
{
	struct sampler_mapping *m = NULL;
	size_t n = 0, room = 0;
	char path[64], *line = NULL;
	size_t line_room = 0;
	uint64_t ticks = start_ticks_of(pid);
	int64_t read_ns = clock_mono_ns();
	struct err err;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	in = fopen(path, "re");
	while (in && getline(&line, &line_room, in) > 0) {
		unsigned long long start, end, offset, inode;
		char perms[8], dev[16];
		int at = 0;
		struct run_file *f;

		if (sscanf(line, "%llx-%llx %7s %llx %15s %llu %n", &start, &end, perms, &offset, dev, &inode,
			   &at) < 6 ||
		    !strchr(perms, 'x'))
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line + at, "[vsyscall]") == 0)
			continue;
		if (strcmp(line + at, "[vdso]") == 0)
			f = run_vdso_get(r, end - start);
		else
			f = inode ? run_file_get(r, pid, line + at, start, end) : NULL;
		VEC_PUSH(m, n, room) = (struct sampler_mapping){ start, end,
								 f ? bias_of(f, start, offset) : 0,
								 f ? f->file : SAMPLER_NO_FILE };
	}
	if (in)
		fclose(in);
	if (n && sampler_process_set(r->sampler, &(struct sampler_owner){ pid, ticks, read_ns }, m, n, &err))
		fprintf(stderr, "%s\n", err.text);
	free(line);
	free(m);
}

/* ---- samples ---- */

static struct run_comm *comm_of(struct run *r, const char *comm)
{
	struct run_comm *c;

	for (size_t i = 0; i < r->n_comms; i++)
		if (strcmp(r->comms[i].comm, comm) == 0)
			return &r->comms[i];
	c = &VEC_PUSH(r->comms, r->n_comms, r->room_comms);
	*c = (struct run_comm){ 0 };
	snprintf(c->comm, sizeof(c->comm), "%s", comm);
	return c;
}

static void print_frames(const struct run *r, const struct sampler_sample *s)
{
	printf("%s;%s", s->comm, sampler_end_name(s->end));
	for (size_t i = 0; i < s->n_user; i++) {
		const char *name = "?";

		for (size_t k = 0; k < r->n_files; k++)
			if (r->files[k].file == s->user[i].file)
				name = r->files[k].path;
		printf(";%s:%#llx", name, (unsigned long long)s->user[i].addr);
	}
	putchar('\n');
}

static void see_sample(void *ctx, const struct sampler_sample *s)
{
	struct run *r = ctx;
	struct run_comm *c = comm_of(r, s->comm);

	if (!r->first_ns)
		r->first_ns = clock_mono_ns();
	c->n++;
	c->user += s->n_user > 0;
	c->frames += s->n_user;
	c->kernel += s->n_kernel > 0;
	c->held += s->held;
	c->deepest = MAX(c->deepest, (uint64_t)s->n_user);
	c->ends[s->end]++;
	c->late[s->end] += r->forgotten && s->time_ns > r->forget_ns + LATE_NS;
	if (r->oracle && s->raw && s->n_user && sampler_end_complete(s->end)) {
		switch (oracle_compare(r->oracle, s)) {
		case ORACLE_SAME:
			c->same++;
			break;
		case ORACLE_DIFFERENT:
			c->differ++;
			if (r->frames)
				print_frames(r, s);
			break;
		case ORACLE_NOTHING:
			c->oracle_short++;
		}
	}
	if (r->frames && !r->oracle)
		print_frames(r, s);
}

static void see_event(void *ctx, const struct sampler_event *e)
{
	struct run *r = ctx;

	r->events[e->kind]++;
	if (e->kind == SAMPLER_NEW || e->kind == SAMPLER_UNMAPPED)
		set_process(r, e->pid);
	for (size_t i = 0; e->kind == SAMPLER_WANTED && i < r->n_files; i++)
		if (r->files[i].file == e->file) {
			r->files[i].n_segments = 0;
			build_table(r, &r->files[i], r->files[i].path);
		}
}

static void forget_tables(struct run *r)
{
	if (!r->forget_ns || r->forgotten || clock_mono_ns() < r->forget_ns)
		return;
	r->forgotten = true;
	for (size_t i = 0; i < r->n_files; i++)
		(void)!sampler_file_table(r->sampler, r->files[i].file, bytes_of(NULL, 0), NULL);
}

static void print_ends(struct json_writer *w, const char *name, const uint64_t *ends)
{
	json_open_object(w, name);
	for (int k = 0; k < SAMPLER_N_ENDS; k++)
		if (ends[k])
			json_put_uint(w, sampler_end_name(k), ends[k]);
	json_close(w);
}

static void print_result(struct run *r, double start_s)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct json_writer w = { .out = &out };
	struct sampler_stats stats;
	struct rusage usage;
	const struct sampler_about *about = sampler_about(r->sampler);

	sampler_stats(r->sampler, &stats);
	getrusage(RUSAGE_SELF, &usage);
	json_open_object(&w, NULL);
	json_put_bool(&w, "bpf", about->kind == SAMPLER_BPF);
	json_put_text(&w, "about", about->text);
	json_put_uint(&w, "samples", stats.samples);
	json_put_uint(&w, "lost", stats.lost);
	json_put_uint(&w, "lost_events", stats.lost_events);
	json_put_uint(&w, "held", stats.held);
	json_put_uint(&w, "hold_full", stats.hold_full);
	json_put_uint(&w, "bpf_runs", stats.bpf_runs);
	json_put_uint(&w, "bpf_ns", stats.bpf_ns);
	json_put_uint(&w, "row_lookups", stats.rows);
	json_put_uint(&w, "row_misses", stats.row_misses);
	json_put_uint(&w, "switches", stats.switches);
	json_put_uint(&w, "switch_ns", stats.switch_ns);
	json_put_uint(&w, "lost_sleeps", stats.lost_sleeps);
	json_put_uint(&w, "asleep", stats.n_asleep);
	json_put_uint(&w, "files", stats.n_files);
	json_put_uint(&w, "tables", stats.n_tables);
	json_put_uint(&w, "processes", stats.n_processes);
	json_put_uint(&w, "mappings", stats.n_mappings);
	json_put_uint(&w, "table_bytes", stats.table_bytes);
	json_put_uint(&w, "table_reserved", stats.table_reserved);
	json_put_uint(&w, "mapping_reserved", stats.mapping_reserved);
	json_put_uint(&w, "evicted", stats.evicted);
	json_put_uint(&w, "rows", r->n_rows);
	json_put_uint(&w, "new", r->events[SAMPLER_NEW]);
	json_put_uint(&w, "unmapped", r->events[SAMPLER_UNMAPPED]);
	json_put_uint(&w, "exec", r->events[SAMPLER_EXEC]);
	json_put_uint(&w, "exit", r->events[SAMPLER_EXIT]);
	json_put_uint(&w, "wanted", r->events[SAMPLER_WANTED]);
	json_put_uint(&w, "lost_abilities", about->n_lost);
	json_put_uint(&w, "max_rss_kib", (uint64_t)usage.ru_maxrss);
	json_put_double(&w, "build_ms", (double)r->build_ns / 1e6);
	json_put_double(&w, "start_s", start_s);
	json_put_double(&w, "cpu_s", (double)clock_cpu_ns() / 1e9);
	json_open_object(&w, "comms");
	for (size_t i = 0; i < r->n_comms; i++) {
		const struct run_comm *c = &r->comms[i];

		json_key(&w, str_of(c->comm));
		json_open_object(&w, NULL);
		json_put_uint(&w, "n", c->n);
		json_put_uint(&w, "user", c->user);
		json_put_uint(&w, "frames", c->frames);
		json_put_uint(&w, "deepest", c->deepest);
		json_put_uint(&w, "kernel", c->kernel);
		json_put_uint(&w, "held", c->held);
		json_put_uint(&w, "same", c->same);
		json_put_uint(&w, "differ", c->differ);
		json_put_uint(&w, "no_oracle", c->oracle_short);
		print_ends(&w, "ends", c->ends);
		print_ends(&w, "late", c->late);
		json_close(&w);
	}
	json_close(&w);
	json_close(&w);
	puts(buf_cstr(&out));
}

int main(int argc, char **argv)
{
	static struct run r;
	struct sampler_options o = { .measure = true };
	struct sampler_handler h = { .sample = see_sample, .event = see_event, .ctx = &r };
	double seconds = 5;
	int64_t start_ns = clock_mono_ns(), end_ms;
	int *pids = mem_zalloc((size_t)argc * sizeof(*pids));
	bool oracle = false;
	struct err err;

	o.pids = pids;
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "0";

		if (strcmp(a, "--seconds") == 0)
			seconds = atof(v), i++;
		else if (strcmp(a, "--hz") == 0)
			o.frequency_hz = (unsigned)atoi(v), i++;
		else if (strcmp(a, "--pid") == 0)
			pids[o.n_pids++] = atoi(v), i++;
		else if (strcmp(a, "--copy") == 0)
			o.stack_copy = (size_t)atol(v), i++;
		else if (strcmp(a, "--table-memory") == 0)
			o.table_memory = (size_t)atol(v), i++;
		else if (strcmp(a, "--forget") == 0)
			r.forget_ns = start_ns + (int64_t)(atof(v) * 1e9), i++;
		else if (strcmp(a, "--perf") == 0)
			o.no_bpf = true;
		else if (strcmp(a, "--off-cpu") == 0)
			o.off_cpu = true;
		else if (strcmp(a, "--cycles") == 0)
			o.clock = SAMPLER_CLOCK_CYCLES;
		else if (strcmp(a, "--frames") == 0)
			r.frames = true;
		else if (strcmp(a, "--no-kernel") == 0)
			o.no_kernel = true;
		else if (strcmp(a, "--oracle") == 0)
			oracle = true;
		else
			return 2;
	}
	if (oracle) {
		o.keep_raw = true;
		o.stack_copy = SAMPLER_MAX_STACK;
		o.ring_size = MIB(64);
		r.oracle = oracle_new();
		if (!r.oracle) {
			fprintf(stderr, "this build has no libdw\n");
			return 77;
		}
	}
	if (sampler_open(&o, &r.sampler, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 77;
	}
	signal(SIGINT, stop_run);
	signal(SIGTERM, stop_run);
	for (size_t i = 0; i < sampler_about(r.sampler)->n_lost; i++)
		fprintf(stderr, "lost: %s\n", sampler_about(r.sampler)->lost[i]);
	fputs("ready\n", stderr);
	end_ms = clock_mono_ms() + (int64_t)(seconds * 1000);
	while (!stopped && clock_mono_ms() < end_ms) {
		forget_tables(&r);
		if (sampler_poll(r.sampler, (int)MIN(MAX(end_ms - clock_mono_ms(), INT64_C(0)), INT64_C(200)),
				 &h, &err) < 0) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
	}
	if (sampler_poll(r.sampler, 0, &h, &err) < 0)
		return 1;
	print_result(&r, r.first_ns ? (double)(r.first_ns - start_ns) / 1e9 : -1);
	sampler_close(r.sampler);
	oracle_free(r.oracle);
	for (size_t i = 0; i < r.n_files; i++)
		free(r.files[i].path);
	free(r.files);
	free(r.comms);
	free(pids);
	return 0;
}
