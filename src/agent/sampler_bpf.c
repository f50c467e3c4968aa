/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler by BPF: loads bpf/sample.bpf.c, attaches it to a perf event on each processor, and polls its rings.
 */
#include "agent/sampler_bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/sampler_bpf_internal.h"
#include "agent/sampler_cpus.h"
#include "base/embedded.h"

extern const struct embedded bpf_objects[];

#define KERNEL_BTF     "/sys/kernel/btf/vmlinux"
#define PID_NS_INITIAL 0xEFFFFFFCu
#define CPUS_CHECK_MS  10000
#define OFF_TIMES      10 /* stacks of threads that leave a processor, for each sample of it at most */

/*
 * Reading in one poll ends after so long: libbpf reads until a ring is empty, which it never is when samples arrive
 * faster than an agent with little CPU time reads them.
 */
#define POLL_MS 250

/* ---- libbpf ---- */

struct bpf_functions bpf_functions;

static int bpf_functions_load(struct err *err)
{
	static const char *const names[] = { BPF_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libbpf.so.1", "libbpf1", names, &bpf_functions, ARRAY_SIZE(names), err);
}

static _Thread_local char first_warning[240];

static int note_warning(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	/* That limit is of no use since Linux 5.11, and libbpf warns before it tries without. */
	if (level == LIBBPF_WARN && !first_warning[0] && !strstr(fmt, "RLIMIT_MEMLOCK")) {
		vsnprintf(first_warning, sizeof(first_warning), fmt, ap);
		first_warning[strcspn(first_warning, "\n")] = '\0';
	}
	return 0;
}

void bpf_forget_warning(void)
{
	first_warning[0] = '\0';
}

int bpf_failed(struct err *err, int e, const char *doing)
{
	if (e == EPERM || e == EACCES)
		return err_os(err, e, "%s: CAP_BPF and CAP_PERFMON are needed%s%s", doing,
			      first_warning[0] ? "; " : "", first_warning);
	return err_os(err, e, "%s%s%s", doing, first_warning[0] ? ": " : "", first_warning);
}

/* ---- processors ---- */

static int attach_cpu(struct sampler *s, int cpu, struct err *err)
{
	static const struct perf_event_attr attr = { 0 };
	struct bpf_sampler *b = s->impl;
	int fd = sampler_event_open(&s->options, &attr, -1, cpu, err);

	if (fd < 0)
		return -1;
	bpf_forget_warning();
	b->on_cpu[cpu] = bpf_program__attach_perf_event(
		bpf_object__find_program_by_name(b->object, "take_sample"), fd);
	if (!b->on_cpu[cpu]) {
		int e = errno;

		close(fd);
		return bpf_failed(err, e, "attach to a perf event");
	}
	b->n_cpus++;
	return 0;
}

/* Attach to processors that came, detach from those that went. -1: none is left, and why. */
static int follow_cpus(struct sampler *s, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	bool online[SAMPLER_MAX_CPUS];

	b->cpus_checked_ms = clock_mono_ms();
	if (sampler_cpus_online(online, err))
		return -1;
	for (int i = 0; i < SAMPLER_MAX_CPUS; i++) {
		if (online[i] && !b->on_cpu[i]) {
			if (attach_cpu(s, i, err) && b->n_cpus == 0)
				return err_in(err, "processor %d", i);
		} else if (!online[i] && b->on_cpu[i]) {
			bpf_link__destroy(b->on_cpu[i]);
			b->on_cpu[i] = NULL;
			b->n_cpus--;
		}
	}
	return 0;
}

static int bpf_sampler_poll(struct sampler *s, int timeout_ms, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	int r;

	if (clock_mono_ms() - b->cpus_checked_ms >= CPUS_CHECK_MS) {
		/* The list may be unreadable for a moment, without a descriptor or memory. */
		if (follow_cpus(s, err) && b->n_cpus == 0)
			return -1;
		sampler_pool_tidy(&b->tables);
		sampler_pool_tidy(&b->mappings);
	}
	b->poll_end_ms = clock_mono_ms() + timeout_ms + POLL_MS;
	r = timeout_ms ? ring_buffer__poll(b->rings, timeout_ms) : 0;
	if (r >= 0 || r == -EINTR)
		r = ring_buffer__consume(b->rings);
	if (r == BPF_POLL_OVER)
		return SAMPLER_MORE;
	return r < 0 ? err_os(err, -r, "read the samples of BPF") : 0;
}

static uint64_t bpf_drop_rest(struct sampler *s)
{
	struct bpf_sampler *b = s->impl;

	b->drops = true;
	b->n_dropped = 0;
	(void)ring_buffer__consume(b->rings);
	b->drops = false;
	return b->n_dropped;
}

static int bpf_sampler_fd(const struct sampler *s)
{
	const struct bpf_sampler *b = s->impl;

	return ring_buffer__epoll_fd(b->rings);
}

static void bpf_sampler_stats(struct sampler *s, struct sampler_stats *add)
{
	struct bpf_sampler *b = s->impl;
	int n = libbpf_num_possible_cpus();
	struct bpf_counters *c = NEW_N(struct bpf_counters, (size_t)MAX(n, 1));
	uint32_t zero = 0;

	if (n > 0 && !bpf_map_lookup_elem(b->fd_counters, &zero, c))
		for (int i = 0; i < n; i++) {
			add->lost += c[i].lost;
			add->lost_events += c[i].lost_events;
			add->bpf_runs += c[i].runs;
			add->bpf_ns += c[i].ns;
			add->rows += c[i].rows;
			add->row_misses += c[i].row_misses;
			add->switches += c[i].switches;
			add->switch_ns += c[i].switch_ns;
		}
	free(c);
	add->table_reserved = b->tables.reserved;
	add->mapping_reserved = b->mappings.reserved;
	add->ring_size = s->options.ring_size;
}

static void bpf_sampler_close(struct sampler *s)
{
	struct bpf_sampler *b = s->impl;

	for (int i = 0; i < SAMPLER_MAX_CPUS; i++)
		if (b->on_cpu[i])
			bpf_link__destroy(b->on_cpu[i]);
	for (size_t i = 0; i < ARRAY_SIZE(b->links); i++)
		if (b->links[i])
			bpf_link__destroy(b->links[i]);
	if (b->rings)
		ring_buffer__free(b->rings);
	bpf_pools_done(b);
	if (b->files)
		munmap(b->files, SAMPLER_MAX_FILES * sizeof(*b->files));
	if (b->object)
		bpf_object__close(b->object);
	free(b->on_cpu);
	free(b);
}

/* ---- opening ---- */

static struct bpf_map *map_named(struct bpf_sampler *b, const char *name)
{
	return bpf_object__find_map_by_name(b->object, name);
}

/* The PID namespace of this process, unless it is the initial one: then BPF's numbers are ours. */
static void set_pid_namespace(struct bpf_config *c)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == PID_NS_INITIAL)
		return;
	c->pid_ns_dev = st.st_dev;
	c->pid_ns_ino = st.st_ino;
}

/* Time off the processor: a scratch more for each processor, and maps of their full size. */
static void set_off_cpu(struct bpf_sampler *b, const struct sampler_options *o, int n_cpus,
			struct bpf_config *c)
{
	c->off_scratch = (uint32_t)n_cpus;
	c->off_site_rate = o->frequency_hz;
	c->off_rate = OFF_TIMES * o->frequency_hz;
	if (o->off_cpu)
		return;
	bpf_program__set_autoload(bpf_object__find_program_by_name(b->object, "see_switch"), false);
	(void)!bpf_map__set_max_entries(map_named(b, "sleepers"), 1);
	(void)!bpf_map__set_max_entries(map_named(b, "places"), 1);
}

static int set_config(struct sampler *s, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	const struct sampler_options *o = &s->options;
	struct bpf_map *scratches = map_named(b, "scratches");
	int n_cpus = libbpf_num_possible_cpus();
	uint32_t pages = (uint32_t)((o->stack_copy + BPF_STACK_PAGE - 1) / BPF_STACK_PAGE);
	struct bpf_config c = { .own_pid = (uint32_t)getpid(),
				.filter_pids = o->n_pids > 0,
				.with_kernel = !o->no_kernel,
				.always_raw = o->keep_raw,
				.measure_time = o->measure,
				.stack_pages = pages,
				.rest_size = BPF_REST(pages),
				.wake_at = o->ring_size / 8 };

	set_pid_namespace(&c);
	b->in_pid_ns = c.pid_ns_ino != 0;
	if (b->in_pid_ns) {
		sampler_note_lost(
			s,
			"PID namespace: processes outside of it are not sampled, and the end of a process is "
			"noticed later");
		bpf_program__set_autoload(bpf_object__find_program_by_name(b->object, "see_free"), false);
	}
	set_off_cpu(b, o, n_cpus, &c);
	if (n_cpus < 1 || bpf_map__set_initial_value(map_named(b, ".rodata.config"), &c, sizeof(c)))
		return err_set(err, ERR_INTERNAL, "the BPF object has another layout");
	(void)!bpf_map__set_max_entries(map_named(b, "samples"), (uint32_t)o->ring_size);
	(void)!bpf_map__set_max_entries(map_named(b, "chosen"), (uint32_t)MAX(o->n_pids, (size_t)1));
	(void)!bpf_map__set_max_entries(scratches, (uint32_t)(o->off_cpu ? 2 * n_cpus : n_cpus));
	(void)!bpf_map__set_value_size(scratches,
				       (uint32_t)BPF_SCRATCH(bpf_map__value_size(scratches), pages));
	return 0;
}

static void attach_tracepoints(struct sampler *s)
{
	static const struct {
		const char *program, *tracepoint, *lost;
	} rows[] = {
		{ "see_exec", "sched_process_exec",
		  "the first samples of a process after it runs another program may have wrong names" },
		{ "see_free", "sched_process_free", "the end of a process is noticed later" },
	};
	struct bpf_sampler *b = s->impl;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bpf_program *p = bpf_object__find_program_by_name(b->object, rows[i].program);

		if (i == 1 && b->in_pid_ns)
			continue;
		b->links[i] = bpf_program__attach_raw_tracepoint(p, rows[i].tracepoint);
		if (!b->links[i])
			sampler_note_lost(s, "tracepoint %s: %s: %s", rows[i].tracepoint, strerror(errno),
					  rows[i].lost);
	}
}

static void attach_switches(struct sampler *s)
{
	struct bpf_sampler *b = s->impl;

	if (!s->options.off_cpu)
		return;
	b->links[2] = bpf_program__attach_trace(bpf_object__find_program_by_name(b->object, "see_switch"));
	if (b->links[2])
		s->sleeps = sampler_sleeps_new();
	else
		sampler_note_lost(s, "time off the processor (--off-cpu): tracepoint sched_switch: %s",
				  strerror(errno));
}

static int load_object(struct sampler *s, struct err *err)
{
	struct bytes object = embedded_get(bpf_objects, "sample.bpf.o");
	struct bpf_sampler *b = s->impl;
	/* libbpf names it in its warnings; without a name by the address of the bytes. */
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "lode");
	uint32_t one = 1;

	bpf_forget_warning();
	b->object = bpf_object__open_mem(object.p, object.size, &options);
	if (!b->object)
		return bpf_failed(err, errno, "open the BPF object");
	if (set_config(s, err))
		return -1;
	/* By the rights that open() has: access() looks at the real user without capabilities. */
	if (faccessat(AT_FDCWD, KERNEL_BTF, R_OK, AT_EACCESS))
		return err_os(err, errno, KERNEL_BTF "%s",
			      errno == ENOENT ? ": the kernel is without BTF (CONFIG_DEBUG_INFO_BTF)" : "");
	if (bpf_object__load(b->object))
		return bpf_failed(err, errno, "load the BPF programs");
	b->fd_files = bpf_map__fd(map_named(b, "files"));
	b->fd_processes = bpf_map__fd(map_named(b, "processes"));
	b->fd_pythons = bpf_map__fd(map_named(b, "pythons"));
	b->fd_counters = bpf_map__fd(map_named(b, "counters"));
	b->fd_segments = bpf_map__fd(map_named(b, "segments"));
	b->fd_pools = bpf_map__fd(map_named(b, "pools"));
	b->fd_sleepers = bpf_map__fd(map_named(b, "sleepers"));
	for (size_t i = 0; i < s->options.n_pids; i++)
		if (bpf_map_update_elem(bpf_map__fd(map_named(b, "chosen")), &s->options.pids[i], &one, 0))
			return bpf_failed(err, errno, "choose a process");
	b->files = mmap(NULL, SAMPLER_MAX_FILES * sizeof(*b->files), PROT_READ | PROT_WRITE, MAP_SHARED,
			b->fd_files, 0);
	if (b->files == MAP_FAILED) {
		b->files = NULL;
		return err_os(err, errno, "map the table of files");
	}
	/* Events first: the mappings that they set serve the samples. */
	b->rings = ring_buffer__new(bpf_map__fd(map_named(b, "events")), take_bpf_event, b, NULL);
	if (!b->rings || ring_buffer__add(b->rings, bpf_map__fd(map_named(b, "samples")), take_bpf_sample, b))
		return bpf_failed(err, errno, "map the ring of samples");
	return 0;
}

int sampler_bpf_open(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	static const struct sampler_ops ops = {
		.poll = bpf_sampler_poll,
		.fd = bpf_sampler_fd,
		.drop_rest = bpf_drop_rest,
		.process_set = bpf_process_set,
		.process_drop = bpf_process_drop,
		.process_python = bpf_process_python,
		.file_added = bpf_file_added,
		.table_keep = bpf_table_keep,
		.table_drop = bpf_table_drop,
		.file_changed = bpf_file_changed,
		.file_used = bpf_file_used,
		.is_asleep = bpf_is_asleep,
		.stats = bpf_sampler_stats,
		.close = bpf_sampler_close,
	};
	struct bpf_sampler *b;
	struct sampler *s;

	if (bpf_functions_load(err))
		return -1;
	libbpf_set_print(note_warning);
	b = NEW(struct bpf_sampler);
	b->on_cpu = mem_zalloc(SAMPLER_MAX_CPUS * sizeof(struct bpf_link *));
	bpf_pools_init(b, options->mapping_memory);
	s = b->sampler = sampler_new(&ops, b, SAMPLER_BPF, options);
	if (load_object(s, err))
		goto failed;
	attach_tracepoints(s);
	attach_switches(s);
	if (follow_cpus(s, err))
		goto failed;
	snprintf(s->about_text, sizeof(s->about_text), "BPF (%zu processors, %u Hz, %s)", b->n_cpus,
		 s->options.frequency_hz, s->options.clock == SAMPLER_CLOCK_CYCLES ? "cycles" : "CPU clock");
	*ret = s;
	return 0;
failed:
	sampler_close(s);
	return err_in(err, "BPF");
}
