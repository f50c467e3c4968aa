/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack traces of a recording become stacks of a profile.
 *
 * A frame has a method, a line and a type. Frames that the JIT compiler inlined come before the frame that they are
 * inlined into: together they are one location. Interpreted and compiled frames of one line are one location too.
 * Frames of native code and of the kernel (async-profiler's) have names alone, and mappings that say so.
 */
#include "profile/jfr_read.h"

#include "base/hash.h"

#define MAX_INLINED 1024u /* frames of one location */
#define TRUNCATED   STR("[truncated: stack depth of the recorder]")
#define NO_STACK    STR("[no stack trace]")
#define NO_METHOD   STR("[unknown method]")

/* ---- keys ---- */

#define MAX_KINDS 256u /* of frames and states of threads; JDKs have less than twenty of each */

static uint64_t key_of_text(struct jfr_reader *r, enum jfr_pool_kind pool, struct str text)
{
	for (uint32_t i = 0; i < MIN(r->pools[pool].list.n, MAX_KINDS); i++) {
		uint64_t key = r->pools[pool].list.p[i].key;

		if (str_eq(jfr_constant_text(r, pool, key), text))
			return key;
	}
	return UINT64_MAX;
}

void jfr_target_done(struct jfr_target *t)
{
	profile_table_free(t->p, &t->stacks);
	profile_table_free(t->p, &t->functions);
	profile_release(t->p, t->recent, JFR_RECENT, sizeof(*t->recent));
	t->stacks.p = t->functions.p = NULL;
	t->recent = NULL;
}

/* They are of the chunk before. */
static void forget_constants(struct jfr_target *t)
{
	t->stacks.n = t->functions.n = 0;
	/* A chunk may have no frames, and a recording millions of such chunks. */
	if (t->recent && t->has_recent)
		memset(t->recent, 0, JFR_RECENT * sizeof(*t->recent));
	t->has_recent = false;
}

void jfr_frames_start(struct jfr_reader *r)
{
	r->inlined = key_of_text(r, JFR_FRAME_TYPES, STR("Inlined"));
	r->native = key_of_text(r, JFR_FRAME_TYPES, STR("Native"));
	r->cpp = key_of_text(r, JFR_FRAME_TYPES, STR("C++"));
	r->kernel = key_of_text(r, JFR_FRAME_TYPES, STR("Kernel"));
	r->runnable = key_of_text(r, JFR_STATES, STR("STATE_RUNNABLE"));
	r->sleeping = key_of_text(r, JFR_STATES, STR("STATE_SLEEPING"));
	for (uint32_t i = 0; i < JFR_MAX_KINDS; i++)
		forget_constants(&r->targets[i]);
}

/* ---- names ---- */

static size_t skip_digits(struct str s, size_t i, bool hex)
{
	while (i < s.size && ((s.p[i] >= '0' && s.p[i] <= '9') || (hex && s.p[i] >= 'a' && s.p[i] <= 'f')))
		i++;
	return i;
}

/* Of a class that JDK 8 or 11 has made, its hash. A shorter number may be the version of a library. */
#define MIN_CLASS_HASH 4u

/* "0x00007f0540007a08", "0x00007f0540007a08/846947180"; "846947180" alone, of JDK 8 and 11 */
static bool is_address(struct str s)
{
	size_t i;

	if (!str_starts(s, STR("0x")))
		return s.size >= MIN_CLASS_HASH && skip_digits(s, 0, false) == s.size;
	i = skip_digits(s, 2, true);
	if (i > 2 && i + 1 < s.size && s.p[i] == '/')
		i = skip_digits(s, i + 1, false);
	return i > 2 && i == s.size;
}

/*
 * Classes that the JVM makes get a number or an address for a name, another one in each process: without it, the same
 * function has one name. "A$$Lambda$88+0x00007f0540007a08/846947180" and "A$$Lambda$88/846947180" are "A$$Lambda",
 * "GeneratedMethodAccessor31" is "GeneratedMethodAccessor".
 */
static struct str lasting_class(struct str s)
{
	static const struct str numbered[] = { STR("$$Lambda$"), STR("GeneratedMethodAccessor"),
					       STR("GeneratedConstructorAccessor"),
					       STR("GeneratedSerializationConstructorAccessor") };
	const char *at;
	size_t n = s.size;

	for (size_t i = 1; i + 2 < s.size; i++)
		if ((s.p[i] == '+' || s.p[i] == '.' || s.p[i] == '/') &&
		    is_address((struct str){ s.p + i + 1, s.size - i - 1 })) {
			s.size = n = i;
			break;
		}
	while (n && s.p[n - 1] >= '0' && s.p[n - 1] <= '9')
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++)
		if (n < s.size && str_ends((struct str){ s.p, n }, numbered[i]))
			s.size = n - (s.p[n - 1] == '$');
	at = s.size ? memmem(s.p, s.size, "$$EnhancerBySpringCGLIB$$", 25) : NULL;
	if (at)
		s.size = (size_t)(at - s.p) + 23;
	return s;
}

/* "java/util/List" + "add" → "java.util.List.add". Functions that are no methods have no class. */
static struct str method_name(struct jfr_reader *r, const struct jfr_value *method, bool no_class)
{
	struct jfr_value class[JFR_N_SLOTS];
	struct str s;

	r->name.size = 0;
	if (!no_class && jfr_constant_read(r, JFR_CLASSES, method[JFR_TYPE].number, class)) {
		s = lasting_class(jfr_constant_text(r, JFR_SYMBOLS, class[JFR_NAME].number));
		for (size_t i = 0; i < s.size; i++)
			buf_add_char(&r->name, s.p[i] == '/' ? '.' : s.p[i]);
	}
	s = jfr_constant_text(r, JFR_SYMBOLS, method[JFR_NAME].number);
	if (r->name.size && s.size)
		buf_add_char(&r->name, '.');
	buf_add_str(&r->name, s);
	return r->name.size ? buf_str(&r->name) : NO_METHOD;
}

static uint32_t named_function(struct profile *p, struct str name)
{
	struct profile_function f = { .name = profile_add_string(p, name) };

	f.system_name = f.name;
	return profile_add_function(p, &f);
}

/* A place beside the list of constants; NULL: no memory. */
static uint32_t *made_at(struct jfr_reader *r, struct jfr_target *t, bool stacks, uint32_t i)
{
	if (stacks)
		return profile_extend(t->p, &t->stacks, r->pools[JFR_STACKS].list.n) ? &t->stacks.p[i] : NULL;
	return profile_extend(t->p, &t->functions, r->pools[JFR_METHODS].list.n) ? &t->functions.p[i] : NULL;
}

static bool frame_is_native(const struct jfr_reader *r, uint64_t type)
{
	/* In a recording of the JDK "Native" is a method of Java that is implemented natively. */
	return type == r->cpp || type == r->kernel || (type == r->native && r->kernel != UINT64_MAX);
}

int jfr_function(struct jfr_reader *r, struct jfr_target *t, uint64_t method, bool no_class, uint32_t *ret,
		 struct err *err)
{
	uint32_t i = jfr_constant_find(r, JFR_METHODS, method), *made;
	struct jfr_value slots[JFR_N_SLOTS];

	if (i == JFR_NONE) {
		*ret = named_function(t->p, NO_METHOD);
		return 0;
	}
	made = made_at(r, t, false, i);
	if (!made)
		return profile_err_memory(t->p, err);
	if (!*made) {
		jfr_constant_read(r, JFR_METHODS, method, slots);
		*made = 1 + named_function(t->p, method_name(r, slots, no_class));
	}
	*ret = *made - 1;
	return 0;
}

/* ---- locations ---- */

/*
 * Of native code: the library, if the recording has it as the class, or "[native]". In brackets, since there is no
 * address by which its file could name the function.
 */
static struct str native_binary(struct jfr_reader *r, const struct jfr_value *frame)
{
	struct jfr_value method[JFR_N_SLOTS], class[JFR_N_SLOTS];
	struct str library = STR("");

	if (frame[JFR_TYPE].number == r->kernel)
		return STR("[kernel]");
	if (jfr_constant_read(r, JFR_METHODS, frame[JFR_METHOD].number, method) &&
	    jfr_constant_read(r, JFR_CLASSES, method[JFR_TYPE].number, class))
		library = path_basename(jfr_constant_text(r, JFR_SYMBOLS, class[JFR_NAME].number));
	if (!library.size)
		return STR("[native]");
	r->name.size = 0;
	buf_add_char(&r->name, '[');
	buf_add_str(&r->name, library);
	buf_add_char(&r->name, ']');
	return buf_str(&r->name);
}

static uint32_t frame_binary(struct jfr_reader *r, struct profile *p, const struct jfr_value *frame)
{
	bool native = frame_is_native(r, frame[JFR_TYPE].number);
	struct profile_mapping m = { .flags = PROFILE_HAS_FUNCTIONS };

	m.file = profile_add_string(p, native ? native_binary(r, frame) : STR("[java]"));
	return profile_add_mapping(p, &m);
}

/* The location of the frames that were collected. */
static int end_location(struct jfr_reader *r, struct jfr_target *t, uint32_t mapping, struct err *err)
{
	struct profile_location l = { .mapping = mapping };
	uint32_t i = profile_add_location(t->p, &l, r->lines.p, r->lines.n);

	r->lines.n = 0;
	return profile_push(r->room, &r->locations, i) ? 0 : jfr_err_memory(r, err);
}

/* The place of a frame among the recent ones; NULL: no memory. Most frames of a stack are in the stack before, too. */
static struct jfr_recent *recent_at(const struct jfr_reader *r, struct jfr_target *t,
				    const struct jfr_value *frame)
{
	uint64_t hash = hash_mix(frame[JFR_METHOD].number ^ frame[JFR_LINE].number << 40, r->seed);

	if (!t->recent)
		t->recent = profile_alloc(t->p, JFR_RECENT, sizeof(*t->recent));
	return t->recent ? &t->recent[hash & (JFR_RECENT - 1)] : NULL;
}

static bool recent_is(const struct jfr_recent *c, const struct jfr_value *frame)
{
	return c->there && c->method == frame[JFR_METHOD].number && c->line == frame[JFR_LINE].number &&
	       c->type == frame[JFR_TYPE].number;
}

static int add_new_frame(struct jfr_reader *r, struct jfr_target *t, const struct jfr_value *frame,
			 struct err *err)
{
	uint64_t type = frame[JFR_TYPE].number;
	struct profile_line line = { .line = (int64_t)MIN(frame[JFR_LINE].number, (uint64_t)INT32_MAX) };

	if (jfr_function(r, t, frame[JFR_METHOD].number, frame_is_native(r, type), &line.function, err) < 0)
		return -1;
	/* Unknown lines are 0 or -1. */
	if (frame[JFR_LINE].number > INT32_MAX)
		line.line = 0;
	if (!profile_push(r->room, &r->lines, line))
		return jfr_err_memory(r, err);
	if (type == r->inlined && r->lines.n < MAX_INLINED)
		return 0;
	return end_location(r, t, frame_binary(r, t->p, frame), err);
}

static int add_frame(struct jfr_reader *r, struct jfr_target *t, const struct jfr_value *frame,
		     struct err *err)
{
	/* One that follows inlined frames, or is inlined itself, is a part of another location. */
	bool alone = !r->lines.n && frame[JFR_TYPE].number != r->inlined;
	struct jfr_recent *c = alone ? recent_at(r, t, frame) : NULL;

	if (c && recent_is(c, frame))
		return profile_push(r->room, &r->locations, c->location) ? 0 : jfr_err_memory(r, err);
	if (add_new_frame(r, t, frame, err) < 0)
		return -1;
	t->has_recent |= c != NULL;
	if (c)
		*c = (struct jfr_recent){ .method = frame[JFR_METHOD].number,
					  .line = frame[JFR_LINE].number,
					  .type = frame[JFR_TYPE].number,
					  .location = r->locations.p[r->locations.n - 1],
					  .there = true };
	return 0;
}

static uint32_t named_stack(struct profile *p, struct str name)
{
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct profile_line line = { .function = named_function(p, name) };

	return profile_add_stack(p, 0, profile_add_location(p, &l, &line, 1));
}

/* ---- stacks ---- */

/* The frames of a stack trace, leaf first, to r->locations. */
static int read_frames(struct jfr_reader *r, struct jfr_target *t, uint32_t off, struct err *err)
{
	struct jfr_value frame[JFR_N_SLOTS];
	struct cursor c = jfr_cursor(r, off);
	uint64_t n = jfr_int(r, &c, 4);

	r->locations.n = r->lines.n = 0;
	if (n > PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "the stack is deeper than %u", PROFILE_MAX_DEPTH);
	while (n--) {
		memset(frame, 0, sizeof(frame));
		if (jfr_value_read(r, r->frame_type, &c, frame, err) < 0 || add_frame(r, t, frame, err) < 0)
			return -1;
	}
	return r->lines.n ? end_location(r, t, frame_binary(r, t->p, frame), err) : 0;
}

static int make_stack(struct jfr_reader *r, struct jfr_target *t, uint64_t key, uint32_t *ret,
		      struct err *err)
{
	struct jfr_value trace[JFR_N_SLOTS];
	uint32_t stack = 0;

	jfr_constant_read(r, JFR_STACKS, key, trace);
	if (r->frame_type == JFR_NONE || !trace[JFR_FRAMES].there)
		return err_set(err, ERR_INVALID, "the metadata has no frames of stack traces");
	if (read_frames(r, t, trace[JFR_FRAMES].off, err) < 0)
		return err_in(err, "the stack trace %llu", (unsigned long long)key);
	if (trace[JFR_TRUNCATED].number)
		stack = named_stack(t->p, TRUNCATED);
	stack = profile_add_stacks(t->p, stack, r->locations.p, r->locations.n);
	*ret = stack ? stack : named_stack(t->p, NO_STACK);
	return profile_build_end(t->p, err);
}

int jfr_stack(struct jfr_reader *r, struct jfr_target *t, uint64_t key, uint32_t *ret, struct err *err)
{
	uint32_t i = jfr_constant_find(r, JFR_STACKS, key), stack, *made;

	if (i == JFR_NONE) {
		/* The JVM could not walk the stack, or the event has none. */
		if (!t->no_stack)
			t->no_stack = named_stack(t->p, NO_STACK);
		*ret = t->no_stack;
		return 0;
	}
	made = made_at(r, t, true, i);
	if (!made)
		return profile_err_memory(t->p, err);
	if (!*made) {
		if (make_stack(r, t, key, &stack, err) < 0)
			return -1;
		*made = stack; /* never 0, the empty one */
	}
	*ret = *made;
	return 0;
}

/* ---- labels ---- */

static uint32_t add_text_label(struct profile *p, struct str key, struct str value, struct profile_label *ret)
{
	if (!value.size)
		return 0;
	*ret = (struct profile_label){ .key = profile_add_string(p, key),
				       .str = profile_add_string(p, value) };
	return 1;
}

static uint32_t thread_label(struct jfr_reader *r, struct profile *p, uint64_t key, struct profile_label *ret)
{
	struct jfr_value thread[JFR_N_SLOTS];
	struct str name = STR("");

	if (!jfr_constant_read(r, JFR_THREADS, key, thread))
		return 0;
	if (thread[JFR_TEXT].there)
		name = jfr_string(r, thread[JFR_TEXT].off, JFR_MAX_NAME);
	if (!name.size && thread[JFR_OS_NAME].there)
		name = jfr_string(r, thread[JFR_OS_NAME].off, JFR_MAX_NAME);
	return add_text_label(p, STR("thread"), name, ret);
}

uint32_t jfr_labels_of(struct jfr_reader *r, struct jfr_target *t, const struct jfr_value *slots)
{
	struct profile_label set[JFR_MAX_LABELS + 2];
	uint32_t n = 0, context = JFR_NONE;
	const struct jfr_text *span = NULL;

	if (r->options->together && slots[JFR_THREAD].there)
		n += thread_label(r, t->p, slots[JFR_THREAD].number, set);
	if (slots[JFR_SPAN].number)
		span = jfr_text_find(r, (int64_t)slots[JFR_SPAN].number);
	if (slots[JFR_CONTEXT].number)
		context = jfr_context_find(r, (int64_t)slots[JFR_CONTEXT].number);
	if (context != JFR_NONE)
		n += jfr_context_labels(r, context, t->p, set + n);
	if (span)
		n += add_text_label(t->p, STR("span_name"), span->text, set + n);
	return n ? profile_add_labels(t->p, set, n) : 0;
}
