/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables and mappings that the BPF program walks with: in memory that the kernel's maps share with this process. Setting
 * one is a copy, and the walk of samples that had to wait reads the same bytes.
 */
#include "agent/sampler_bpf_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "unwind/unwind.h"

/* ---- segments of memory that are elements of a map of maps ---- */

static size_t segment_bytes(const struct sampler_pool *p, uint32_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (n * p->element + page - 1) / page * page;
}

static int make_mapped(int outer_fd, const struct sampler_pool *p, uint32_t segment, uint32_t n,
		       void **ret_memory, struct err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	AUTO(fd_close)
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "lode_segment", 4, (uint32_t)p->element, n, &options);
	void *memory;

	bpf_forget_warning();
	if (fd < 0)
		return bpf_failed(err, errno, "make a map");
	memory = mmap(NULL, segment_bytes(p, n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return err_os(err, errno, "map %u elements of a map", n);
	if (bpf_map_update_elem(outer_fd, &segment, &fd, 0)) {
		int e = errno;

		munmap(memory, segment_bytes(p, n));
		return bpf_failed(err, e, "add a map to a map of maps");
	}
	/* The outer map and the memory keep it. */
	*ret_memory = memory;
	return 0;
}

static int make_table_segment(void *arg, uint32_t segment, uint32_t n, void **ret_memory, struct err *err)
{
	struct bpf_sampler *b = arg;

	return make_mapped(b->fd_segments, &b->tables, segment, n, ret_memory, err);
}

static void drop_table_segment(void *arg, uint32_t segment, void *memory, uint32_t n)
{
	struct bpf_sampler *b = arg;

	(void)!bpf_map_delete_elem(b->fd_segments, &segment);
	munmap(memory, segment_bytes(&b->tables, n));
}

static int make_mapping_pool(void *arg, uint32_t segment, uint32_t n, void **ret_memory, struct err *err)
{
	struct bpf_sampler *b = arg;

	return make_mapped(b->fd_pools, &b->mappings, segment, n, ret_memory, err);
}

static void drop_mapping_pool(void *arg, uint32_t segment, void *memory, uint32_t n)
{
	struct bpf_sampler *b = arg;

	(void)!bpf_map_delete_elem(b->fd_pools, &segment);
	munmap(memory, segment_bytes(&b->mappings, n));
}

/* ---- files ---- */

static void set_bpf_file(struct bpf_file *f, uint32_t state, uint32_t file)
{
	__atomic_store_n(&f->set_period, BPF_ROW_PERIOD(clock_mono_ns()), __ATOMIC_RELAXED);
	__atomic_store_n(&f->file, file, __ATOMIC_RELAXED);
	__atomic_store_n(&f->state, state, __ATOMIC_RELEASE);
}

int bpf_table_keep(struct sampler *s, struct bytes table, struct sampler_table *ret, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	void *memory;

	if (sampler_pool_take(&b->tables, (uint32_t)(table.size / UNWIND_CHUNK_SIZE), &ret->range, &memory,
			      err))
		return -1;
	memcpy(memory, table.p, table.size);
	ret->bytes = bytes_of(memory, table.size);
	return 0;
}

void bpf_table_drop(struct sampler *s, struct sampler_table *t)
{
	struct bpf_sampler *b = s->impl;

	sampler_pool_give(&b->tables, &t->range);
}

void bpf_file_changed(struct sampler *s, const struct sampler_file *of)
{
	static const uint32_t states[] = { [SAMPLER_TABLE_NONE] = BPF_FILE_NONE,
					   [SAMPLER_TABLE_SET] = BPF_FILE_SET,
					   [SAMPLER_TABLE_NEVER] = BPF_FILE_NEVER,
					   [SAMPLER_TABLE_EVICTED] = BPF_FILE_EVICTED };
	struct bpf_sampler *b = s->impl;
	struct bpf_file *f = &b->files[sampler_file_index(of->file)];

	if (of->table) {
		f->segment = of->table->range.segment;
		f->first = of->table->range.first;
		f->n_chunks = of->table->range.n;
	}
	set_bpf_file(f, states[of->state], of->file);
}

void bpf_file_added(struct sampler *s, uint32_t file)
{
	struct bpf_sampler *b = s->impl;
	struct bpf_file *f = &b->files[sampler_file_index(file)];

	f->used_ns = f->wanted_ns = 0;
	set_bpf_file(f, BPF_FILE_NONE, file);
}

int64_t bpf_file_used(struct sampler *s, uint32_t file)
{
	struct bpf_sampler *b = s->impl;

	return (int64_t)__atomic_load_n(&b->files[sampler_file_index(file)].used_ns, __ATOMIC_RELAXED);
}

/* ---- processes ---- */

void bpf_process_drop(struct sampler *s, uint32_t pid)
{
	struct bpf_sampler *b = s->impl;
	struct sampler_range *range = map_del(&b->process_range, bytes_of(&pid, sizeof(pid)));

	(void)!bpf_map_delete_elem(b->fd_processes, &pid);
	(void)!bpf_map_delete_elem(b->fd_pythons, &pid);
	if (range)
		sampler_pool_give(&b->mappings, range);
	free(range);
}

int bpf_process_python(struct sampler *s, uint32_t pid, const struct bpf_python *layout, struct err *err)
{
	struct bpf_sampler *b = s->impl;

	bpf_forget_warning();
	if (bpf_map_update_elem(b->fd_pythons, &pid, layout, 0))
		return bpf_failed(err, errno, "set the interpreter of a process");
	return 0;
}

int bpf_process_set(struct sampler *s, const struct sampler_process *p, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	struct sampler_range range = { 0 }, *kept;
	struct bpf_process process;
	struct bpf_python python;
	struct bpf_mapping *m;
	void *memory = NULL;

	if (p->n_mappings && sampler_pool_take(&b->mappings, (uint32_t)p->n_mappings, &range, &memory, err))
		return -1;
	m = memory;
	for (size_t i = 0; i < p->n_mappings; i++)
		m[i] = (struct bpf_mapping){ .start = p->mappings[i].start,
					     .end = p->mappings[i].end,
					     .bias = p->mappings[i].bias,
					     .file = p->mappings[i].file };
	if (++b->serial == 0)
		b->serial = 1;
	process = (struct bpf_process){
		.start_ticks = p->start_ticks,
		.pool = (uint16_t)range.segment,
		.serial = b->serial,
		.first = range.first,
		.n = range.n,
		.is_python = bpf_map_lookup_elem(b->fd_pythons, &p->pid, &python) == 0,
	};
	bpf_forget_warning();
	if (bpf_map_update_elem(b->fd_processes, &p->pid, &process, 0)) {
		int e = errno;

		sampler_pool_give(&b->mappings, &range);
		if (e == E2BIG)
			return err_set(err, ERR_LIMIT, "more than %u processes are sampled", BPF_MAX_PROCS);
		return bpf_failed(err, e, "set a process");
	}
	kept = NEW(struct sampler_range);
	*kept = range;
	kept = map_put(&b->process_range, bytes_of(&p->pid, sizeof(p->pid)), kept);
	if (kept)
		sampler_pool_give(&b->mappings, kept);
	free(kept);
	return 0;
}

bool bpf_is_asleep(struct sampler *s, uint32_t task, int64_t out_ns)
{
	struct bpf_sampler *b = s->impl;
	uint64_t since_ns = 0;

	return bpf_map_lookup_elem(b->fd_sleepers, &task, &since_ns) == 0 && since_ns == (uint64_t)out_ns;
}

/* ---- pools ---- */

void bpf_pools_init(struct bpf_sampler *b, size_t mapping_memory)
{
	b->tables = (struct sampler_pool){ .element = UNWIND_CHUNK_SIZE,
					   .normal = 256, /* 1 MiB */
					   .n_max = BPF_MAX_SEGMENTS,
					   .make = make_table_segment,
					   .drop = drop_table_segment,
					   .arg = b };
	b->mappings = (struct sampler_pool){ .element = sizeof(struct bpf_mapping),
					     .normal = 4096, /* 128 KiB */
					     .n_max = BPF_MAX_POOLS,
					     .bytes_max = mapping_memory,
					     .make = make_mapping_pool,
					     .drop = drop_mapping_pool,
					     .arg = b };
}

void bpf_pools_done(struct bpf_sampler *b)
{
	struct bytes key;
	void *range;

	sampler_pool_done(&b->tables);
	sampler_pool_done(&b->mappings);
	map_each (&b->process_range, it, &key, &range)
		free(range);
	map_done(&b->process_range);
}
