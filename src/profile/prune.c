/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that a profile itself calls uninteresting: those of allocators and locks, which measured, and of the signal
 * handler. drop_frames and keep_frames are patterns of function names; a stack ends at the outermost frame that is
 * dropped and has a caller that is not (pprof's documentation of profile.proto, and its tool).
 */
#include "profile/prune.h"

#include "base/pattern.h"
#include "profile/internal.h"

struct pruning {
	struct profile *p;
	struct pattern *drop, *keep;
	bool *functions;  /* dropped */
	uint8_t *places;  /* of each location, enum place_kind */
	uint32_t *stacks; /* of each stack, the new one */
	uint8_t *states;  /* of each stack, enum stack_state */
	bool is_go;       /* has functions of Go's runtime */
};
/* What of a location is dropped: calls inlined into a kept function, or all of it. */
enum place_kind { PLACE_KEPT, PLACE_CUT, PLACE_DROPPED };
enum stack_state { STACK_BARE, STACK_HAS_USER, STACK_ENDED };

/* Without the list of parameters, as pprof compares names. */
static struct str bare_name(struct str name)
{
	static const struct str reserved[] = { STR("(anonymous namespace)"), STR("operator()") };

	if (name.size && name.p[0] == '.')
		name = (struct str){ name.p + 1, name.size - 1 };
	for (size_t i = 0; i < name.size; i++) {
		struct str rest = { name.p + i, name.size - i };

		for (size_t k = 0; k < ARRAY_SIZE(reserved); k++)
			if (str_starts(rest, reserved[k])) {
				i += reserved[k].size;
				rest = (struct str){ name.p + i, name.size - i };
			}
		if (rest.size && rest.p[0] == '(')
			return (struct str){ name.p, i };
	}
	return name;
}

static void mark_functions(struct pruning *x)
{
	for (uint32_t i = 0; i < x->p->functions.n; i++) {
		struct str name = bare_name(profile_str(x->p, x->p->functions.p[i].name));

		x->is_go |= str_starts(name, STR("runtime."));
		x->functions[i] = name.size && pattern_matches(x->drop, name, NULL) &&
				  !(x->keep && pattern_matches(x->keep, name, NULL));
	}
}

/* Lines are innermost first: those up to the outermost dropped one go. */
static void cut_locations(struct pruning *x)
{
	for (uint32_t i = 0; i < x->p->locations.n; i++) {
		struct profile_location *l = &x->p->locations.p[i];
		uint32_t n = l->n_lines;

		while (n && !x->functions[x->p->lines.p[l->first_line + n - 1].function])
			n--;
		x->places[i] = !n ? PLACE_KEPT : n == l->n_lines ? PLACE_DROPPED : PLACE_CUT;
		if (n && n < l->n_lines) {
			l->first_line += n;
			l->n_lines -= n;
		}
	}
}

/*
 * In Go's text runtime.goexit, the outermost frame, has no name: runtime.main, which is called by it, would end all stacks. In
 * other programs such a frame is one of the program.
 */
static bool is_user(const struct pruning *x, struct profile_stack s)
{
	return x->places[s.location] == PLACE_KEPT &&
	       (!x->is_go || s.parent || x->p->locations.p[s.location].n_lines);
}

/* A caller has a smaller number than its callee. */
static void cut_stacks(struct pruning *x, uint32_t n_stacks)
{
	x->stacks[0] = 0;
	x->states[0] = STACK_BARE;
	for (uint32_t i = 1; i < n_stacks; i++) {
		const struct profile_stack s = x->p->stacks.p[i];
		uint8_t place = x->places[s.location], before = x->states[s.parent];

		x->stacks[i] = x->stacks[s.parent];
		x->states[i] = before;
		if (before == STACK_ENDED || (before == STACK_HAS_USER && place == PLACE_DROPPED)) {
			x->states[i] = STACK_ENDED;
			continue;
		}
		x->stacks[i] = profile_add_stack(x->p, x->stacks[s.parent], s.location);
		if (is_user(x, s))
			x->states[i] = STACK_HAS_USER;
		else if (before == STACK_HAS_USER)
			x->states[i] = STACK_ENDED;
	}
}

static int prune_stacks(struct pruning *x, struct err *err)
{
	uint32_t n_stacks = x->p->stacks.n;
	uint64_t n_functions = (uint64_t)x->p->functions.n + 1, n_places = (uint64_t)x->p->locations.n + 1;
	int r = 0;

	x->functions = profile_alloc(x->p, n_functions, sizeof(*x->functions));
	x->places = profile_alloc(x->p, n_places, sizeof(*x->places));
	x->stacks = profile_alloc(x->p, n_stacks, sizeof(*x->stacks));
	x->states = profile_alloc(x->p, n_stacks, sizeof(*x->states));
	if (x->functions && x->places && x->stacks && x->states) {
		mark_functions(x);
		cut_locations(x);
		/* Locations have changed. */
		profile_index_drop(x->p);
		cut_stacks(x, n_stacks);
		for (uint32_t i = 0; i < x->p->n_samples; i++)
			x->p->sample_stack[i] = x->stacks[x->p->sample_stack[i]];
		profile_index_drop(x->p);
	} else {
		r = profile_err_memory(x->p, err);
	}
	profile_release(x->p, x->functions, n_functions, sizeof(*x->functions));
	profile_release(x->p, x->places, n_places, sizeof(*x->places));
	profile_release(x->p, x->stacks, n_stacks, sizeof(*x->stacks));
	profile_release(x->p, x->states, n_stacks, sizeof(*x->states));
	return r;
}

int profile_prune(struct profile *p, struct err *err)
{
	struct str drop = profile_str(p, p->drop_frames), keep = profile_str(p, p->keep_frames);
	struct pruning x = { .p = p };
	struct err ignored = { 0 };
	int r = 0;

	/* A pattern that is not understood drops nothing. */
	if (drop.size && pattern_new(drop, true, &x.drop, &ignored) == 0 &&
	    (!keep.size || pattern_new(keep, true, &x.keep, &ignored) == 0))
		r = prune_stacks(&x, err);
	pattern_free(x.drop);
	pattern_free(x.keep);
	return r;
}

/* ---- older formats, which do not have the patterns ---- */

/* clang-format off */
#define ALLOCATORS \
	"(c|m|re|v|pv)alloc|c?free|(do_|posix_|__posix_)?memalign|aligned_alloc|__libc_(m|c|re)alloc|" \
	"tcmalloc::.*|tc_(calloc|cfree|malloc|free|memalign|posix_memalign|pvalloc|valloc|realloc|" \
	"new|delete|newarray|deletearray|new_nothrow|newarray_nothrow)|" \
	"malloc_zone_(malloc|calloc|valloc|realloc|memalign|free)|runtime\\..*|" \
	"BaseArena::.*|(::)?do_malloc(_no_errno|_pages)?|DoSampledAllocation|MallocedMemBlock::MallocedMemBlock|" \
	"__builtin_(vec_)?(new|delete)|(__gnu_cxx::new_allocator|__malloc_alloc_template|simple_alloc)::allocate|" \
	"_M_allocate|allocate|cpp_alloc|operator new(\\[\\])?"
#define GO_CALLS "runtime\\.(panic|reflectcall|call[0-9]*)"
#define LOCKS \
	"(base::)?(RecordLock|SubmitMutex|SubmitSpinLock)ProfileData.*|" \
	"((base::)?Mutex::)?(AwaitCommon|Unlock|UnlockSlow|ReaderUnlock).*|((base::)?MutexLock::)?~MutexLock.*|" \
	"(SpinLock::)?(Slow)?Unlock.*|(SpinLockHolder::)?~SpinLockHolder.*"
#define HANDLERS "ProfileData::(Add|prof_handler)|CpuProfiler::prof_handler|__pthread_sighandler|__restore(_rt)?"
/* clang-format on */

void profile_set_usual_drops(struct profile *p, enum profile_measured what)
{
	static const char *const drops[] = {
		[PROFILE_OF_HEAP] = ALLOCATORS,
		[PROFILE_OF_LOCKS] = LOCKS,
		[PROFILE_OF_CPU] = HANDLERS,
	};

	p->drop_frames = profile_add_string(p, str_of(drops[what]));
	if (what == PROFILE_OF_HEAP)
		p->keep_frames = profile_add_string(p, STR(GO_CALLS));
}
