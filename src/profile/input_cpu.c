/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU profiles of gperftools: words of 32 or 64 bits in either byte order.
 *
 * A head of 0, 3, 0 (1: of Java), the period in microseconds, 0; then records of a count, the number of addresses and
 * these, the leaf first; 0, 1, 0 ends them, followed by the text of /proc/self/maps.
 */
#include "profile/input.h"

#include "profile/internal.h"
#include "profile/java.h"
#include "profile/maps.h"
#include "profile/prune.h"

#define MAX_HANDLER_FRAMES 2u /* that are removed, as pprof does */
#define MAX_SIGNAL_FRAMES  4u /* that are looked at */

struct cpu_reader {
	struct profile *p;
	struct profile_maps maps;
	PROFILE_TABLE(uint32_t) stack; /* locations, leaf first */
	bool wide;                     /* words of 64 bits */
	bool java;                     /* stacks are of numbers, whose names come last */
	struct java_names names;
	struct cursor records;
	uint64_t period_us;
	/* Return addresses in the signal handler, which most stacks have after the leaf. */
	unsigned n_handler;
	uint64_t handler[MAX_SIGNAL_FRAMES];
};

static uint64_t cpu_next_word(struct cursor *c, bool wide)
{
	return wide ? cursor_u64(c) : cursor_u32(c);
}

static bool cpu_read_head(struct bytes in, bool wide, bool big, struct cpu_reader *r)
{
	struct cursor c = cursor_at(in, big, 0);
	bool ok = cpu_next_word(&c, wide) == 0 && cpu_next_word(&c, wide) == 3;
	uint64_t language = cpu_next_word(&c, wide);

	r->period_us = cpu_next_word(&c, wide);
	if (!ok || language > 1 || !r->period_us || cpu_next_word(&c, wide) != 0 || !cursor_ok(&c))
		return false;
	r->wide = wide;
	r->java = language == 1;
	r->records = c;
	return true;
}

static bool find_head(struct bytes in, struct cpu_reader *r)
{
	for (unsigned i = 0; i < 4; i++)
		if (cpu_read_head(in, i & 1, i & 2, r))
			return true;
	return false;
}

bool profile_is_cpu(struct bytes head)
{
	struct cpu_reader r;

	return find_head(head, &r);
}

/* The next record's head; its addresses come next in @c. 1: there is none. */
static int next_record(const struct cpu_reader *r, struct cursor *c, uint64_t *ret_count, uint64_t *ret_n,
		       struct err *err)
{
	uint64_t off = cursor_off(c), count, n;
	struct cursor at;

	if (!cursor_left(c))
		return 1;
	count = cpu_next_word(c, r->wide);
	n = cpu_next_word(c, r->wide);
	if (!cursor_ok(c) || n > cursor_left(c) / (r->wide ? 8 : 4))
		return err_set(err, ERR_INVALID, "ends within the record at offset %llu",
			       (unsigned long long)off);
	at = *c;
	if (count == 0 && n == 1 && cpu_next_word(&at, r->wide) == 0) {
		*c = at;
		return 1;
	}
	if (n > PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "the stack at offset %llu is deeper than %u",
			       (unsigned long long)off, PROFILE_MAX_DEPTH);
	*ret_count = count;
	*ret_n = n;
	return 0;
}

/* The end of the records. */
static int find_end(const struct cpu_reader *r, struct cursor *c, struct err *err)
{
	uint64_t count, n;
	int done;

	while ((done = next_record(r, c, &count, &n, err)) == 0)
		cursor_skip(c, n * (r->wide ? 8 : 4));
	return done < 0 ? -1 : 0;
}

/* ---- frames of the signal handler ---- */

/* The word @i of a record's addresses. */
static uint64_t word_at(struct cursor at, bool wide, uint64_t i)
{
	cursor_skip(&at, i * (wide ? 8 : 4));
	return cpu_next_word(&at, wide);
}

/* The frame is in a file where the kernel returns from signals, or where the profiler is. */
static bool is_signal_code(const struct cpu_reader *r, uint64_t return_addr)
{
	static const char *const files[] = { "libc.",       "libc-", "libpthread", "libprofiler",
					     "libtcmalloc", "ld-",   "[vdso]",     "linux-vdso" };
	uint32_t m = profile_maps_find(&r->maps, return_addr - 1);
	struct str name;

	if (m == PROFILE_NONE)
		return false;
	name = path_basename(profile_str(r->p, r->p->mappings.p[m].file));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (str_starts(name, str_of(files[i])))
			return true;
	return false;
}

/*
 * The address after the leaf and r->n_handler frames that most stacks have, or 0. The votes for the most frequent one
 * cancel each other: with a majority it is the one that is left.
 */
static uint64_t vote_for_frame(const struct cpu_reader *r)
{
	struct cursor c = r->records;
	uint64_t count, n, votes = 0, best = 0;
	struct err ignored = { 0 };

	for (; next_record(r, &c, &count, &n, &ignored) == 0; cursor_skip(&c, n * (r->wide ? 8 : 4))) {
		uint64_t a = n > 1 + r->n_handler ? word_at(c, r->wide, 1 + r->n_handler) : 0;

		if (!votes)
			best = a;
		votes += a == best ? 1 : (uint64_t)-1;
	}
	return best;
}

/*
 * @addr is at this position in all stacks but one of 32 (pprof's measure). *ret_differ: with different callers.
 */
static bool is_in_most_stacks(const struct cpu_reader *r, uint64_t addr, bool *ret_differ)
{
	struct cursor c = r->records;
	uint64_t count, n, n_all = 0, n_same = 0, caller = 0, next;
	struct err ignored = { 0 };

	*ret_differ = false;

	for (; next_record(r, &c, &count, &n, &ignored) == 0; cursor_skip(&c, n * (r->wide ? 8 : 4))) {
		n_all++;
		if (n <= 1 + r->n_handler || word_at(c, r->wide, 1 + r->n_handler) != addr)
			continue;
		next = n > 2 + r->n_handler ? word_at(c, r->wide, 2 + r->n_handler) : 0;
		*ret_differ = *ret_differ || (n_same && next != caller);
		caller = next;
		n_same++;
	}
	return n_same >= n_all - n_all / 32;
}

/*
 * Frames of the handler call each other, the last one different code: a function that is always called from the same
 * place is not one of them.
 */
static void find_handler_frames(struct cpu_reader *r)
{
	unsigned n = 0;

	while (r->n_handler < MAX_SIGNAL_FRAMES) {
		uint64_t addr = vote_for_frame(r);
		bool differ;

		if (!addr || !is_signal_code(r, addr) || !is_in_most_stacks(r, addr, &differ))
			break;
		r->handler[r->n_handler++] = addr;
		if (differ)
			n = r->n_handler;
	}
	r->n_handler = MIN(n, MAX_HANDLER_FRAMES);
}

/*
 * The number of addresses before those of the program's callers. The leaf comes from the signal. After it there may be
 * frames of the signal handler; and often the leaf is on the stack as well.
 */
static uint64_t after_leaf(const struct cpu_reader *r, struct cursor at, uint64_t n)
{
	uint64_t leaf = word_at(at, r->wide, 0), first = 1;

	for (unsigned i = 0; i < r->n_handler && first < n && word_at(at, r->wide, first) == r->handler[i];
	     i++)
		first++;
	for (uint64_t i = first; i < MIN(n, first == 1 ? (uint64_t)3 : first + 1); i++)
		if (word_at(at, r->wide, i) == leaf)
			return i + 1;
	return first;
}

/* ---- records ---- */

/* Callers are given by their return addresses. */
static uint32_t cpu_location(struct cpu_reader *r, uint64_t addr, bool is_caller)
{
	struct profile_location l = { .addr = addr - (is_caller && addr) };

	if (r->java)
		return java_location(&r->names, addr);
	l.mapping = profile_maps_find(&r->maps, l.addr);
	return profile_add_location(r->p, &l, NULL, 0);
}

static int cpu_read_record(struct cpu_reader *r, struct cursor *c, uint64_t count, uint64_t n,
			   struct err *err)
{
	uint64_t max = (uint64_t)INT64_MAX / r->period_us / 1000, first = r->java ? 1 : after_leaf(r, *c, n);
	int64_t values[2] = { (int64_t)MIN(count, max), (int64_t)(MIN(count, max) * r->period_us * 1000) };
	uint32_t stack;

	r->stack.n = 0;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t addr = cpu_next_word(c, r->wide);

		if (i && i < first)
			continue;
		if (!profile_push(r->p, &r->stack, cpu_location(r, addr, i > 0)))
			return profile_err_memory(r->p, err);
	}
	stack = profile_add_stacks(r->p, 0, r->stack.p, r->stack.n);
	r->stack.n = 0;
	profile_add_sample(r->p, stack, 0, values);
	return profile_build_end(r->p, err);
}

static int cpu_read_all(struct cpu_reader *r, struct bytes in, struct err *err)
{
	struct cursor c;
	uint64_t count, n;
	int done;

	if (!find_head(in, r))
		return err_set(err, ERR_INVALID, "is not a CPU profile of gperftools");
	if (r->period_us > (uint64_t)INT64_MAX / 1000)
		return err_set(err, ERR_INVALID, "has a period of %llu us", (unsigned long long)r->period_us);
	profile_add_type(r->p, STR("samples"), STR("count"));
	profile_add_type(r->p, STR("cpu"), STR("nanoseconds"));
	r->p->period_type = r->p->types.p[1];
	r->p->period = (int64_t)(r->period_us * 1000);
	c = r->records;
	if (find_end(r, &c, err) < 0)
		return -1;
	if (r->java)
		java_names_read(&r->names, r->p, (struct str){ (const char *)c.p, cursor_left(&c) });
	else
		profile_maps_read(&r->maps, r->p, (struct str){ (const char *)c.p, cursor_left(&c) });
	if (!r->java)
		find_handler_frames(r);
	c = r->records;
	while ((done = next_record(r, &c, &count, &n, err)) == 0)
		if (cpu_read_record(r, &c, count, n, err) < 0)
			return -1;
	if (done < 0)
		return -1;
	profile_set_usual_drops(r->p, PROFILE_OF_CPU);
	return r->p->n_samples ? 0 : err_set(err, ERR_INVALID, "has no samples");
}

int profile_read_cpu(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		     struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(limits);
	struct cpu_reader r = { .p = p };
	int done = cpu_read_all(&r, in, err);

	profile_maps_done(&r.maps);
	java_names_done(&r.names);
	profile_table_free(p, &r.stack);
	if (done == 0)
		*ret = TAKE(p);
	return done;
}
