/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata of a chunk: an event with a table of strings and a tree of elements. Elements named "class" have ID, name
 * and fields; a field has the ID of its class, whether it is an array, and whether there is a key of a constant in its
 * place.
 *
 * A class is compiled when its first value is read: structs in it become their fields, so that a value is one list of
 * operations. Only arrays nest.
 */
#include "profile/jfr_read.h"

#include <stdlib.h>
#include "base/search.h"

#define MAX_ELEMENTS_DEPTH 32u
#define STRING_POOL        2u /* encodings of strings */

/* Classes whose values are not made of fields. */
static const struct {
	struct str name;
	uint8_t kind, width;
} basics[] = {
	{ STR("boolean"), JFR_OP_INT, 1 },
	{ STR("byte"), JFR_OP_INT, 1 },
	{ STR("char"), JFR_OP_INT, 2 },
	{ STR("short"), JFR_OP_INT, 2 },
	{ STR("int"), JFR_OP_INT, 4 },
	{ STR("long"), JFR_OP_INT, 8 },
	{ STR("float"), JFR_OP_RAW, 4 },
	{ STR("double"), JFR_OP_RAW, 8 },
	{ STR("java.lang.String"), JFR_OP_STRING, 0 },
};

/* Classes of constants that are read, by enum jfr_pool_kind, and that of frames. */
#define N_CLASSES (JFR_N_POOLS + 1)
static const struct {
	struct str name;
	struct {
		struct str field;
		uint8_t slot;
	} fields[3];
} classes[N_CLASSES] = {
	[JFR_STRINGS] = { STR("java.lang.String"), { { STR(""), 0 } } },
	[JFR_SYMBOLS] = { STR("jdk.types.Symbol"), { { STR("string"), JFR_TEXT } } },
	[JFR_CLASSES] = { STR("java.lang.Class"), { { STR("name"), JFR_NAME } } },
	[JFR_METHODS] = { STR("jdk.types.Method"), { { STR("type"), JFR_TYPE }, { STR("name"), JFR_NAME } } },
	[JFR_STACKS] = { STR("jdk.types.StackTrace"),
			 { { STR("truncated"), JFR_TRUNCATED }, { STR("frames"), JFR_FRAMES } } },
	[JFR_THREADS] = { STR("java.lang.Thread"),
			  { { STR("javaName"), JFR_TEXT }, { STR("osName"), JFR_OS_NAME } } },
	[JFR_STATES] = { STR("jdk.types.ThreadState"), { { STR("name"), JFR_TEXT } } },
	[JFR_FRAME_TYPES] = { STR("jdk.types.FrameType"), { { STR("description"), JFR_TEXT } } },
	[JFR_N_POOLS] = { STR("jdk.types.StackFrame"),
			  { { STR("method"), JFR_METHOD },
			    { STR("lineNumber"), JFR_LINE },
			    { STR("type"), JFR_TYPE } } },
};

/* ---- strings ---- */

static void add_code_point(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_add_char(b, (char)c);
	} else if (c < 0x800) {
		buf_add_char(b, (char)(0xc0 | c >> 6));
		buf_add_char(b, (char)(0x80 | (c & 0x3f)));
	} else {
		if (c >= 0x10000) {
			buf_add_char(b, (char)(0xf0 | c >> 18));
			buf_add_char(b, (char)(0x80 | (c >> 12 & 0x3f)));
		} else {
			buf_add_char(b, (char)(0xe0 | c >> 12));
		}
		buf_add_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_add_char(b, (char)(0x80 | (c & 0x3f)));
	}
}

/* UTF-16, a character a number. A half of a pair without the other becomes U+FFFD. */
static void read_chars(struct jfr_reader *r, struct cursor *c, uint64_t n, size_t max)
{
	uint32_t high = 0;

	for (; n && cursor_ok(c) && r->text.size < max; n--) {
		uint32_t v = (uint16_t)jfr_int(r, c, 2);

		if (high && v >= 0xdc00 && v < 0xe000) {
			add_code_point(&r->text, 0x10000 + ((high - 0xd800) << 10) + (v - 0xdc00));
			high = 0;
			continue;
		}
		if (high)
			add_code_point(&r->text, 0xfffd);
		high = v >= 0xd800 && v < 0xdc00 ? v : 0;
		if (!high)
			add_code_point(&r->text, v >= 0xdc00 && v < 0xe000 ? 0xfffd : v);
	}
}

/* Cut before a character that is not whole. */
static struct str cut_text(struct str s, size_t max)
{
	if (s.size <= max)
		return s;
	s.size = max;
	while (s.size && ((unsigned char)s.p[s.size] & 0xc0) == 0x80)
		s.size--;
	return s;
}

/* One that is not a constant, of at most @max bytes; STRING_POOL: @ret_key is. */
static struct str read_text(struct jfr_reader *r, struct cursor *c, size_t max, uint64_t *ret_key)
{
	uint8_t encoding = cursor_u8(c);
	struct bytes b;

	*ret_key = UINT64_MAX;
	switch (encoding) {
	case STRING_POOL:
		*ret_key = jfr_int(r, c, 8);
		return STR("");
	case 3: /* UTF-8 */
		b = cursor_bytes(c, jfr_int(r, c, 4));
		return cut_text((struct str){ (const char *)b.p, b.size }, max);
	case 4: /* numbers of UTF-16 */
		r->text.size = 0;
		read_chars(r, c, jfr_int(r, c, 4), max);
		return cut_text(buf_str(&r->text), max);
	case 5: /* Latin-1 */
		b = cursor_bytes(c, jfr_int(r, c, 4));
		r->text.size = 0;
		for (size_t i = 0; i < b.size && r->text.size < max; i++)
			add_code_point(&r->text, b.p[i]);
		/* The last character may have begun before @max. */
		return cut_text(buf_str(&r->text), max);
	default: /* null, empty; others fail when they are skipped */
		return STR("");
	}
}

struct str jfr_string(struct jfr_reader *r, uint32_t off, size_t max)
{
	struct cursor c = jfr_cursor(r, off);
	uint64_t key;
	struct str s = read_text(r, &c, max, &key);
	uint32_t i;

	if (key == UINT64_MAX)
		return s;
	/* A constant that is a key of another one is empty. */
	i = jfr_constant_find(r, JFR_STRINGS, key);
	if (i == JFR_NONE)
		return STR("");
	c = jfr_cursor(r, r->pools[JFR_STRINGS].list.p[i].off);
	return read_text(r, &c, max, &key);
}

static void skip_string(const struct jfr_reader *r, struct cursor *c)
{
	uint64_t n;

	switch (cursor_u8(c)) {
	case 0:
	case 1:
		break;
	case STRING_POOL:
		jfr_int(r, c, 8);
		break;
	case 3:
	case 5:
		cursor_skip(c, jfr_int(r, c, 4));
		break;
	case 4:
		n = jfr_int(r, c, 4);
		while (n-- && cursor_ok(c))
			jfr_int(r, c, 2);
		break;
	default:
		c->failed = true;
	}
}

/* ---- classes ---- */

static struct str metadata_string(const struct jfr_reader *r, uint64_t i)
{
	return i < r->strings.n ? r->strings.p[i] : STR("");
}

struct str jfr_type_name(const struct jfr_reader *r, const struct jfr_type *t)
{
	return metadata_string(r, t->name);
}

struct jfr_type *jfr_type_of(struct jfr_reader *r, uint64_t id)
{
	size_t i = SEARCH(0, r->types.n, k, r->types.p[k].id < id);

	return i < r->types.n && r->types.p[i].id == id ? &r->types.p[i] : NULL;
}

/* An element of the tree: the attributes that matter. Numbers of strings; JFR_NONE: there is none. */
struct element {
	uint64_t kind;
	uint32_t name, super;
	uint64_t id, type_id;
	bool has_id, constant, array;
};

static void read_element_attribute(const struct jfr_reader *r, struct element *e, uint64_t key,
				   uint64_t value)
{
	struct str k = metadata_string(r, key), v = metadata_string(r, value);

	if (str_eq(k, STR("name")))
		e->name = (uint32_t)MIN(value, (uint64_t)JFR_NONE);
	else if (str_eq(k, STR("superType")))
		e->super = (uint32_t)MIN(value, (uint64_t)JFR_NONE);
	else if (str_eq(k, STR("id")))
		e->has_id = str_to_u64(v, &e->id);
	else if (str_eq(k, STR("class")))
		(void)str_to_u64(v, &e->type_id);
	else if (str_eq(k, STR("constantPool")))
		e->constant = str_eq(v, STR("true"));
	else if (str_eq(k, STR("dimension")))
		e->array = v.size && !str_eq(v, STR("0"));
}

static bool add_class(struct jfr_reader *r, const struct element *e)
{
	struct jfr_type t = { .id = e->id,
			      .name = e->name,
			      .super = e->super,
			      .first_field = r->fields.n,
			      .first_op = JFR_NONE,
			      .pool = JFR_NO_POOL };

	return profile_push(r->room, &r->types, t);
}

static bool add_field(struct jfr_reader *r, const struct element *e)
{
	struct jfr_field f = {
		.name = e->name, .constant = e->constant, .array = e->array, .type_id = e->type_id
	};

	r->types.p[r->types.n - 1].n_fields++;
	return profile_push(r->room, &r->fields, f);
}

/* The tree: an element's children follow it. A field is of the last class, if its parent is that. */
static int read_elements(struct jfr_reader *r, struct cursor *c, struct err *err)
{
	uint64_t left[MAX_ELEMENTS_DEPTH] = { 1 };
	bool is_class[MAX_ELEMENTS_DEPTH] = { false };
	unsigned depth = 0;

	for (;;) {
		struct element e = { .name = JFR_NONE, .super = JFR_NONE };
		struct str kind;
		uint64_t n;

		while (depth && !left[depth])
			depth--;
		if (!left[depth]--)
			return 0;
		kind = metadata_string(r, jfr_int(r, c, 4));
		n = jfr_int(r, c, 4);
		while (n-- && cursor_ok(c)) {
			uint64_t key = jfr_int(r, c, 4);

			read_element_attribute(r, &e, key, jfr_int(r, c, 4));
		}
		n = jfr_int(r, c, 4);
		if (!cursor_ok(c))
			return jfr_err_cut(err);
		if (depth + 1 == MAX_ELEMENTS_DEPTH)
			return err_set(err, ERR_LIMIT, "elements are nested deeper than %u", depth);
		is_class[depth + 1] = e.has_id && str_eq(kind, STR("class"));
		if (is_class[depth + 1] ? !add_class(r, &e)
					: is_class[depth] && str_eq(kind, STR("field")) && !add_field(r, &e))
			return jfr_err_memory(r, err);
		left[++depth] = n;
	}
}

static int read_strings(struct jfr_reader *r, struct cursor *c, struct err *err)
{
	uint64_t n = jfr_int(r, c, 4), ignored;

	while (n-- && cursor_ok(c)) {
		struct cursor at = *c;
		struct str s = read_text(r, &at, JFR_MAX_NAME, &ignored);

		/* Copied: the JDK writes UTF-16, and the next one is converted in the same place. */
		s = profile_str(r->room, profile_add_string(r->room, s));
		skip_string(r, c);
		if (profile_has_failed(r->room) || !profile_push(r->room, &r->strings, s))
			return jfr_err_memory(r, err);
	}
	return cursor_ok(c) ? 0 : jfr_err_cut(err);
}

static int by_type_id(const void *a, const void *b)
{
	const struct jfr_type *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void classify_types(struct jfr_reader *r)
{
	r->frame_type = JFR_NONE;
	for (uint32_t i = 0; i < JFR_N_POOLS; i++)
		r->pools[i].type = JFR_NONE;
	for (uint32_t i = 0; i < r->types.n; i++) {
		struct jfr_type *t = &r->types.p[i];
		struct str name = jfr_type_name(r, t);

		for (uint32_t k = 0; k < ARRAY_SIZE(basics); k++)
			if (str_eq(name, basics[k].name))
				t->basic = (uint8_t)(k + 1);
		for (uint32_t k = 0; k < JFR_N_POOLS; k++)
			if (str_eq(name, classes[k].name)) {
				t->pool = (uint8_t)k;
				r->pools[k].type = i;
			}
		if (str_eq(name, classes[JFR_N_POOLS].name))
			r->frame_type = i;
		if (t->super != JFR_NONE)
			t->event = jfr_event_row(name);
	}
}

static int read_metadata(struct jfr_reader *r, struct err *err)
{
	struct cursor c = jfr_cursor(r, r->metadata);

	jfr_int(r, &c, 4); /* size */
	jfr_int(r, &c, 8); /* type */
	jfr_int(r, &c, 8); /* start, duration, ID */
	jfr_int(r, &c, 8);
	jfr_int(r, &c, 8);
	if (read_strings(r, &c, err) < 0 || read_elements(r, &c, err) < 0)
		return -1;
	if (r->types.n)
		qsort(r->types.p, r->types.n, sizeof(*r->types.p), by_type_id);
	classify_types(r);
	return 0;
}

int jfr_types_read(struct jfr_reader *r, struct err *err)
{
	r->strings.n = r->types.n = r->fields.n = r->ops.n = 0;
	return read_metadata(r, err) < 0 ? err_in(err, "the metadata at byte %u", r->metadata) : 0;
}

/* ---- values ---- */

static uint8_t field_slot(const struct jfr_reader *r, const struct jfr_type *t, const struct jfr_field *f)
{
	struct str name = metadata_string(r, f->name);
	uint32_t class = t->pool;

	if (t->event)
		return (uint8_t)jfr_event_slot(t->event, name);
	if (r->frame_type != JFR_NONE && t == &r->types.p[r->frame_type])
		class = JFR_N_POOLS;
	for (size_t i = 0; class < N_CLASSES && i < ARRAY_SIZE(classes[0].fields); i++)
		if (classes[class].fields[i].field.size && str_eq(classes[class].fields[i].field, name))
			return classes[class].fields[i].slot;
	return JFR_NO_SLOT;
}

/* The operation for one value of a field's class, if that is no struct. */
static bool basic_op(struct jfr_reader *r, const struct jfr_field *f, struct jfr_op *ret,
		     struct jfr_type **ret_type)
{
	struct jfr_type *t = f->constant ? NULL : jfr_type_of(r, f->type_id);

	*ret_type = t;
	*ret = (struct jfr_op){ .kind = JFR_OP_INT, .width = 8, .slot = JFR_NO_SLOT };
	if (f->constant)
		return true;
	if (!t || !t->basic)
		return false;
	ret->kind = basics[t->basic - 1].kind;
	ret->width = basics[t->basic - 1].width;
	return true;
}

static int compile_type(struct jfr_reader *r, uint32_t type, struct err *err)
{
	struct {
		uint32_t type, next;
	} stack[JFR_MAX_NESTING] = { { type, 0 } };
	struct jfr_type *root = &r->types.p[type];
	uint32_t first = r->ops.n, n_structs = 0;
	unsigned depth = 1;

	if (root->basic) {
		struct jfr_op op = { .kind = basics[root->basic - 1].kind,
				     .width = basics[root->basic - 1].width,
				     .slot = JFR_TEXT };

		if (!profile_push(r->room, &r->ops, op))
			return jfr_err_memory(r, err);
		depth = 0;
	}
	while (depth) {
		const struct jfr_type *t = &r->types.p[stack[depth - 1].type];
		const struct jfr_field *f;
		struct jfr_type *struct_type;
		struct jfr_op op;

		if (stack[depth - 1].next == t->n_fields) {
			depth--;
			continue;
		}
		f = &r->fields.p[t->first_field + stack[depth - 1].next++];
		if (f->array) {
			op = (struct jfr_op){ .kind = JFR_OP_ARRAY, .field = (uint32_t)(f - r->fields.p) };
		} else if (!basic_op(r, f, &op, &struct_type)) {
			if (!struct_type)
				return err_set(err, ERR_INVALID, "the field " STR_FMT " is of no known class",
					       STR_ARG(metadata_string(r, f->name)));
			if (depth == JFR_MAX_NESTING)
				return err_set(err, ERR_LIMIT, "structs are nested deeper than %u", depth);
			/* One without fields adds no operation: structs of structs would be entered without end. */
			if (n_structs++ == JFR_MAX_OPS)
				return err_set(err, ERR_LIMIT, "the class has more than %u structs",
					       JFR_MAX_OPS);
			stack[depth].type = (uint32_t)(struct_type - r->types.p);
			stack[depth++].next = 0;
			continue;
		}
		op.slot = depth == 1 ? field_slot(r, root, f) : JFR_NO_SLOT;
		if (r->ops.n - first == JFR_MAX_OPS)
			return err_set(err, ERR_LIMIT, "the class has more than %u fields", JFR_MAX_OPS);
		if (!profile_push(r->room, &r->ops, op))
			return jfr_err_memory(r, err);
	}
	root->first_op = first;
	root->n_ops = r->ops.n - first;
	return 0;
}

static int compiled_type(struct jfr_reader *r, uint32_t type, const struct jfr_type **ret, struct err *err)
{
	*ret = &r->types.p[type];
	if ((*ret)->first_op != JFR_NONE)
		return 0;
	if (compile_type(r, type, err) < 0)
		return err_in(err, "the class " STR_FMT, STR_ARG(jfr_type_name(r, *ret)));
	return 0;
}

static void read_op(const struct jfr_reader *r, struct cursor *c, const struct jfr_op *op,
		    struct jfr_value *slots)
{
	struct jfr_value v = { .off = (uint32_t)cursor_off(c), .there = true };

	if (op->kind == JFR_OP_STRING)
		skip_string(r, c);
	else if (op->kind == JFR_OP_RAW)
		cursor_skip(c, op->width);
	else
		v.number = op->width == 1 ? cursor_u8(c) : jfr_int(r, c, op->width);
	if (slots && op->slot != JFR_NO_SLOT)
		slots[op->slot] = v;
}

/* The reader's place: the operations [op, end) of a class, @left more times from @first. */
struct value_level {
	uint32_t op, first, end;
	uint64_t left;
};

/* Enter the elements of the array at @c. Elements that take no bytes are skipped as they are. */
static int enter_array(struct jfr_reader *r, uint32_t field, struct cursor *c, struct value_level *ret,
		       struct err *err)
{
	uint64_t n = jfr_int(r, c, 4);
	struct jfr_type *struct_type;
	const struct jfr_type *t;
	struct jfr_op op;

	*ret = (struct value_level){ 0 };
	if (n > cursor_left(c))
		c->failed = true;
	if (!n || !cursor_ok(c))
		return 0;
	if (basic_op(r, &r->fields.p[field], &op, &struct_type)) {
		while (n-- && cursor_ok(c))
			read_op(r, c, &op, NULL);
		return 0;
	}
	if (!struct_type)
		return err_set(err, ERR_INVALID, "the array " STR_FMT " is of no known class",
			       STR_ARG(metadata_string(r, r->fields.p[field].name)));
	if (compiled_type(r, (uint32_t)(struct_type - r->types.p), &t, err) < 0)
		return -1;
	if (t->n_ops)
		*ret = (struct value_level){ t->first_op, t->first_op, t->first_op + t->n_ops, n - 1 };
	return 0;
}

int jfr_value_read(struct jfr_reader *r, uint32_t type, struct cursor *c, struct jfr_value *slots,
		   struct err *err)
{
	struct value_level levels[JFR_MAX_NESTING];
	const struct jfr_type *t;
	unsigned depth = 1;

	if (compiled_type(r, type, &t, err) < 0)
		return -1;
	levels[0] = (struct value_level){ t->first_op, t->first_op, t->first_op + t->n_ops, 0 };
	while (depth) {
		struct value_level *l = &levels[depth - 1];
		struct jfr_op op;

		if (l->op == l->end && l->left && cursor_ok(c)) {
			l->op = l->first;
			l->left--;
		}
		if (l->op == l->end || !cursor_ok(c)) {
			depth--;
			continue;
		}
		op = r->ops.p[l->op++];
		if (op.kind != JFR_OP_ARRAY) {
			read_op(r, c, &op, depth == 1 ? slots : NULL);
			continue;
		}
		if (depth == 1 && slots && op.slot != JFR_NO_SLOT)
			slots[op.slot] = (struct jfr_value){ .off = (uint32_t)cursor_off(c), .there = true };
		if (depth == JFR_MAX_NESTING)
			return err_set(err, ERR_LIMIT, "arrays are nested deeper than %u", depth);
		if (enter_array(r, op.field, c, &levels[depth], err) < 0)
			return -1;
		if (levels[depth].op != levels[depth].end)
			depth++;
	}
	return cursor_ok(c) ? 0 : jfr_err_cut(err);
}
