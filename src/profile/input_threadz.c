/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of all threads.
 *
 *	--- threadz 1 ---
 *
 *	--- Thread 7f794964e700 (name: thread1/14751) stack: ---
 *	  PC: 0x00bc8f1c: helper(arg *)          each 0x… is an address, the innermost first; names may be missing
 *	  0x7f794a32414e 0x0040be31: main
 *	      creator: 0xa45b96 0xa460b4         where the thread was started: its outer callers
 *	--- Thread 7f7948978700 (name: thread2/14759) stack: ---
 *	  [same as previous thread]
 *	--- Memory map: ---
 */
#include "profile/threadz.h"

#include "profile/internal.h"
#include "profile/legacy.h"
#include "profile/maps.h"
#include "profile/prune.h"
#include "profile/words.h"

struct threadz_reader {
	struct profile *p;
	struct profile_maps maps;
	PROFILE_TABLE(uint32_t) stack; /* locations, leaf first */
	uint64_t leaf, second;         /* addresses; the second is that before a return address */
	uint32_t last;                 /* the stack of the previous thread */
	bool has_last, is_open, is_same;
};

static bool is_thread_head(struct str line)
{
	return str_starts(line, STR("--- Thread ")) && str_ends(line, STR(" stack: ---"));
}

static bool is_threadz_head(struct str line)
{
	return str_starts(line, STR("--- threadz ")) && str_ends(line, STR(" ---"));
}

bool threadz_is_profile(struct str head)
{
	uint64_t n = 0;
	struct str line = legacy_first_line(&head, &n);

	return is_threadz_head(line) || is_thread_head(line);
}

/* ---- stacks ---- */

/* Names stand after an address and a colon: "0x0040be31: main". */
static uint32_t threadz_location(struct threadz_reader *r, uint64_t addr, struct str name)
{
	struct profile_location l = { .addr = addr, .mapping = profile_maps_find(&r->maps, addr) };
	struct profile_function f = { 0 };
	struct profile_line line = { 0 };

	if (!name.size)
		return profile_add_location(r->p, &l, NULL, 0);
	f.name = f.system_name = profile_add_string(r->p, name);
	line.function = profile_add_function(r->p, &f);
	return profile_add_location(r->p, &l, &line, 1);
}

static int push_thread_frame(struct threadz_reader *r, uint64_t addr, struct str name, struct err *err)
{
	if (r->stack.n == PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "the stack is deeper than %u", PROFILE_MAX_DEPTH);
	/* Callers are given by their return addresses. */
	if (r->stack.n == 0)
		r->leaf = addr;
	else if (r->stack.n == 1)
		r->second = --addr;
	else
		addr--;
	return profile_push(r->p, &r->stack, threadz_location(r, addr, name)) ? 0
									      : profile_err_memory(r->p, err);
}

static int read_stack_line(struct threadz_reader *r, struct str line, struct err *err)
{
	for (struct str w = words_next(&line); w.size; w = words_next(&line)) {
		bool named = str_ends(w, STR(":"));
		uint64_t addr;

		w.size -= named;
		if (!str_starts(w, STR("0x")))
			continue; /* "PC:", "creator:" */
		if (!words_hex(w, &addr))
			return err_set(err, ERR_INVALID, "has an invalid address");
		if (push_thread_frame(r, addr, named ? str_trim(line) : STR(""), err) < 0)
			return -1;
		if (named)
			break;
	}
	return 0;
}

static int threadz_end(struct threadz_reader *r, struct err *err)
{
	const int64_t one = 1;
	uint32_t stack = 0;

	if (!r->is_open)
		return 0;
	r->is_open = false;
	/* Without addresses it is the same stack, too. */
	if (r->is_same || !r->stack.n) {
		if (r->has_last)
			profile_add_sample(r->p, r->last, 0, &one);
		return profile_build_end(r->p, err);
	}
	for (uint32_t i = r->stack.n; i-- > 0;)
		/* The leaf is known from the stack as well. */
		if (i != 1 || r->leaf != r->second + 1)
			stack = profile_add_stack(r->p, stack, r->stack.p[i]);
	profile_add_sample(r->p, stack, 0, &one);
	r->last = stack;
	r->has_last = true;
	return profile_build_end(r->p, err);
}

/* 1: the end of the stacks. */
static int threadz_line(struct threadz_reader *r, struct str line, struct err *err)
{
	if (!str_starts(line, STR("---"))) {
		if (r->is_open && memmem(line.p, line.size, "same as previous thread", 23))
			r->is_same = true;
		else if (r->is_open)
			return read_stack_line(r, line, err);
		return 0;
	}
	if (threadz_end(r, err) < 0)
		return -1;
	if (str_starts(line, STR("---- no stack trace for")))
		return 1;
	if (!is_thread_head(line))
		return err_set(err, ERR_INVALID, "is not the beginning of a thread's stack");
	r->is_open = true;
	r->is_same = false;
	r->stack.n = 0;
	return 0;
}

static int threadz_read_text(struct threadz_reader *r, struct str text, struct err *err)
{
	struct str maps = legacy_cut_maps(&text);
	uint64_t n = 0;
	int done = 0;

	profile_add_type(r->p, STR("thread"), STR("count"));
	r->p->period_type = r->p->types.p[0];
	r->p->period = 1;
	profile_maps_read(&r->maps, r->p, maps);
	while (done == 0 && text.p && text.size) {
		struct str line = words_line(&text);

		n++;
		if (!line.size || line.p[0] == '#' || is_threadz_head(line))
			continue;
		done = threadz_line(r, line, err);
		if (done < 0)
			return err_in(err, "line %llu", (unsigned long long)n);
	}
	if (threadz_end(r, err) < 0)
		return -1;
	profile_set_usual_drops(r->p, PROFILE_OF_CPU);
	return r->p->n_samples ? 0 : err_set(err, ERR_INVALID, "has no samples");
}

int threadz_read(struct str text, const struct profile_limits *limits, struct profile **ret, struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(limits);
	struct threadz_reader r = { .p = p };
	int done = threadz_read_text(&r, text, err);

	profile_maps_done(&r.maps);
	profile_table_free(p, &r.stack);
	if (done == 0)
		*ret = TAKE(p);
	return done;
}
