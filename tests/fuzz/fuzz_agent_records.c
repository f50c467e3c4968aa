/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of perf events with any bytes, and the walk of each sample in it: through anonymous code by frame pointers, and
 * through a file whose table is the input, too. The first byte selects the fields of samples and the start in the ring.
 */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include "agent/sampler_records.h"
#include "sampler_mem.h"

#define RING  KIB(16)
#define CHUNK 4096

static void check_sample(void *ctx, const struct sampler_sample *s)
{
	assert(s->n_user <= SAMPLER_MAX_USER && s->n_kernel <= SAMPLER_MAX_KERNEL && s->end < SAMPLER_N_ENDS);
	assert(s->n_user == SAMPLER_MAX_USER || s->end != SAMPLER_TOO_DEEP);
}

static struct sampler *make_sampler(const uint8_t *data, size_t size)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_memory = 1 });
	size_t table_size = (size + CHUNK - 1) / CHUNK * CHUNK;
	uint8_t *table = mem_zalloc(table_size + 1);
	uint32_t file;

	memcpy(table, data, size);
	if (sampler_file_new(s, &file, NULL) ||
	    sampler_file_table(s, file, bytes_of(table, table_size), NULL))
		abort();
	free(table);
	const struct sampler_mapping m[] = {
		{ 0, UINT64_C(1) << 24, 0, SAMPLER_NO_FILE },
		{ UINT64_C(1) << 24, UINT64_MAX - 4096, UINT64_C(1) << 20, file },
	};
	for (uint32_t pid = 0; pid < 4; pid++)
		if (sampler_process_set(s, &(struct sampler_owner){ pid, 0, 0 }, m, ARRAY_SIZE(m), NULL))
			abort();
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t copy[RECORD_MAX], ring[RING];
	static struct sampler_record r;
	struct sampler_handler h = { .sample = check_sample };
	struct sampler *s;
	struct bytes record;
	uint64_t tail, head;
	size_t n;

	if (size < 1)
		return 0;
	s = make_sampler(data + 1, size - 1);
	tail = (data[0] & ~3u) * 56;
	n = MIN(size - 1, RING) & ~(size_t)7;
	for (size_t i = 0; i < n; i++)
		ring[(tail + i) % RING] = data[1 + i];
	head = tail + n;
	while ((n = sampler_ring_next(bytes_of(ring, RING), head, tail, copy, &record))) {
		assert(n == record.size && n <= head - tail);
		tail += n;
		if (sampler_record_read(record, data[0] & 3, &r, NULL) || r.kind != RECORD_SAMPLE)
			continue;
		sampler_mem_sample(s, &(struct sampler_sample){ .pid = r.pid % 5,
								.kernel = r.kernel,
								.n_kernel = r.n_kernel,
								.end = SAMPLER_NO_PROCESS,
								.raw = &r.raw });
	}
	assert(sampler_poll(s, 0, &h, NULL) == 0);
	sampler_close(s);
	return 0;
}
