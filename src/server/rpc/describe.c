/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of protobuf, from the tables of fields (google/protobuf/descriptor.proto has their numbers).
 */
#include "server/rpc/describe.h"

#include <stdlib.h>
#include "base/vec.h"
#include "wire/proto.h"

/* FileDescriptorProto */
enum {
	FILE_NAME = 1,
	FILE_PACKAGE = 2,
	FILE_IMPORT = 3,
	FILE_MESSAGE = 4,
	FILE_ENUM = 5,
	FILE_SERVICE = 6,
	FILE_SYNTAX = 12
};
/* DescriptorProto */
enum { MESSAGE_NAME = 1, MESSAGE_FIELD = 2, MESSAGE_MESSAGE = 3, MESSAGE_ENUM = 4, MESSAGE_ONEOF = 8 };
/* FieldDescriptorProto */
enum {
	FIELD_NAME = 1,
	FIELD_NUMBER = 3,
	FIELD_LABEL = 4,
	FIELD_TYPE = 5,
	FIELD_TYPE_NAME = 6,
	FIELD_ONEOF = 9,
	FIELD_OPTIONAL = 17
};
enum { LABEL_OPTIONAL = 1, LABEL_REPEATED = 3 };
/* EnumDescriptorProto, EnumValueDescriptorProto */
enum { ENUM_NAME = 1, ENUM_VALUE = 2, VALUE_NAME = 1, VALUE_NUMBER = 2 };
/* ServiceDescriptorProto, MethodDescriptorProto */
enum { SERVICE_NAME = 1, SERVICE_METHOD = 2 };
enum {
	METHOD_NAME = 1,
	METHOD_INPUT = 2,
	METHOD_OUTPUT = 3,
	METHOD_CLIENT_STREAMS = 5,
	METHOD_SERVER_STREAMS = 6
};

static const struct rpc_field timestamp_fields[] = { { 1, "seconds", RPC_INT64 }, { 2, "nanos", RPC_INT32 } };
static const struct rpc_message timestamp = RPC_FIELDS("google.protobuf.Timestamp", timestamp_fields);

/* ---- names ---- */

/* "a.b" of "a.b.Outer.Inner": packages are in lower case, types are not. */
static struct str package_of(struct str name)
{
	size_t end = 0;

	for (size_t i = 0; i < name.size && !(name.p[i] >= 'A' && name.p[i] <= 'Z'); i++)
		if (name.p[i] == '.')
			end = i;
	return (struct str){ name.p, end };
}

/* After the last dot. */
static struct str last_name(struct str name)
{
	for (size_t i = name.size; i > 0; i--)
		if (name.p[i - 1] == '.')
			return (struct str){ name.p + i, name.size - i };
	return name;
}

/* Of "a.b.Outer.Inner" that of Outer; of a name that is in no other type, its package. */
static struct str outer_name(struct str name)
{
	struct str last = last_name(name);

	return (struct str){ name.p, name.size - last.size - (last.size < name.size) };
}

static bool is_package_version(struct str s)
{
	return s.size >= 2 && s.p[0] == 'v' && s.p[1] >= '0' && s.p[1] <= '9';
}

/*
 * "push/v1/push.proto" of push.v1. Clients bring files of google.protobuf of their own, and tell them by their names, which are
 * those of their types.
 */
static void print_file_name(struct str name, struct buf *out)
{
	struct str package = package_of(name), last = last_name(package);
	bool is_google = str_eq(package, STR("google.protobuf"));

	for (size_t i = 0; i < package.size; i++)
		buf_add_char(out, package.p[i] == '.' ? '/' : package.p[i]);
	if (is_google)
		last = last_name(name);
	else if (is_package_version(last))
		last = last_name(outer_name(package));
	buf_add_char(out, '/');
	for (size_t i = 0; i < last.size; i++)
		buf_add_char(out,
			     last.p[i] >= 'A' && last.p[i] <= 'Z' ? (char)(last.p[i] | 0x20) : last.p[i]);
	buf_add_str(out, STR(".proto"));
}

/* ---- the types there are ---- */

static const struct describe_type *find_described(const struct describe *d, struct str name)
{
	for (size_t i = 0; i < d->n_types; i++)
		if (str_eq(d->types[i].name, name))
			return &d->types[i];
	return NULL;
}

static size_t file_of(struct describe *d, struct str name)
{
	AUTO(buf_done) struct buf path = { 0 };

	print_file_name(name, &path);
	for (size_t i = 0; i < d->n_files; i++)
		if (str_eq(d->files[i].name, buf_str(&path)))
			return i;
	VEC_PUSH(d->files, d->n_files, d->room_files) = (struct describe_file){
		.name = { mem_strndup((const char *)path.p, path.size), path.size },
		.package = package_of(name)
	};
	return d->n_files - 1;
}

static void add_type(struct describe *d, struct describe_type t)
{
	if (find_described(d, t.name))
		return;
	t.file = file_of(d, t.name);
	VEC_PUSH(d->types, d->n_types, d->room_types) = t;
}

static void add_message(struct describe *d, const struct rpc_message *m)
{
	add_type(d, (struct describe_type){ .name = str_of(m->name), .message = m });
}

/* The message or enum that @f has; NULL: it has a type of protobuf's own. */
static const char *field_type_name(const struct rpc_field *f)
{
	switch (f->kind) {
	case RPC_MESSAGE:
		return f->message->name;
	case RPC_ENUM:
		return f->names->name;
	case RPC_TIMESTAMP:
		return timestamp.name;
	default:
		return NULL;
	}
}

static void add_types_of(struct describe *d, const struct rpc_message *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct rpc_field *f = &m->fields[i];

		if (f->kind == RPC_MESSAGE)
			add_message(d, f->message);
		else if (f->kind == RPC_TIMESTAMP)
			add_message(d, &timestamp);
		else if (f->kind == RPC_ENUM)
			add_type(d, (struct describe_type){ .name = str_of(f->names->name),
							    .values = f->names });
	}
}

/* "/push.v1.PusherService/Push": the service; *ret_call: the call. */
static struct str service_of_row(const struct http_route *r, struct str *ret_call)
{
	*ret_call = str_of(r->pattern + 1);
	return str_cut(ret_call, '/');
}

static const struct rpc_method *method_of(const struct http_route *r)
{
	return (r->flags & HTTP_CONNECT) && r->method ? r->arg : NULL;
}

static void add_route_types(struct describe *d, const struct http_route *rows)
{
	for (const struct http_route *r = rows; r->pattern; r++) {
		const struct rpc_method *m = method_of(r);
		struct str call;

		if (!m)
			continue;
		add_type(d, (struct describe_type){ .name = service_of_row(r, &call), .is_service = true });
		add_message(d, m->request);
		add_message(d, m->reply);
	}
	/* The list grows by the messages that they have. */
	for (size_t i = 0; i < d->n_types; i++)
		if (d->types[i].message)
			add_types_of(d, d->types[i].message);
}

/* ---- descriptors ---- */

static void put_import(struct describe *d, size_t into, struct str name)
{
	struct describe_file *f = &d->files[into];
	size_t from = find_described(d, name)->file;

	for (size_t i = 0; i < f->n_imports; i++)
		if (f->imports[i] == from)
			return;
	if (from == into)
		return;
	VEC_PUSH(f->imports, f->n_imports, f->room_imports) = from;
	proto_put_str(&f->proto, FILE_IMPORT, d->files[from].name);
}

/* ".push.v1.PushRequest" */
static void put_type_name(struct buf *out, uint32_t number, const char *name)
{
	AUTO(buf_done) struct buf full = { 0 };

	buf_add_char(&full, '.');
	buf_add_str(&full, str_of(name));
	proto_put_str(out, number, buf_str(&full));
}

/* Of an optional field of proto2: 0 is not the same as absent. */
static void put_present(struct buf *out, uint32_t number, uint64_t v)
{
	if (v) {
		proto_put_number(out, number, v);
		return;
	}
	buf_add_char(out, (char)(number << 3));
	buf_add_char(out, 0);
}

static unsigned descriptor_type(enum rpc_kind kind)
{
	static const uint8_t types[] = {
		[RPC_STRING] = 9, [RPC_BYTES] = 12,   [RPC_HEX] = 12,       [RPC_BOOL] = 8,
		[RPC_ENUM] = 14,  [RPC_INT32] = 5,    [RPC_INT64] = 3,      [RPC_UINT32] = 13,
		[RPC_UINT64] = 4, [RPC_FIXED32] = 7,  [RPC_FIXED64] = 6,    [RPC_SFIXED64] = 16,
		[RPC_DOUBLE] = 1, [RPC_MESSAGE] = 11, [RPC_TIMESTAMP] = 11,
	};

	return types[kind];
}

/* Presence is a oneof of the field alone, as protoc makes it of `optional`; messages have it anyhow. */
static bool has_presence(const struct rpc_field *f)
{
	return (f->flags & RPC_PRESENT) && !(f->flags & RPC_REPEATED) && f->kind != RPC_MESSAGE;
}

static void put_field_descriptor(const struct rpc_field *f, unsigned *n_oneofs, struct buf *message)
{
	AUTO(buf_done) struct buf field = { 0 };
	const char *type = field_type_name(f);

	proto_put_str(&field, FIELD_NAME, str_of(f->name));
	proto_put_number(&field, FIELD_NUMBER, f->number);
	proto_put_number(&field, FIELD_LABEL, f->flags & RPC_REPEATED ? LABEL_REPEATED : LABEL_OPTIONAL);
	proto_put_number(&field, FIELD_TYPE, descriptor_type(f->kind));
	if (type)
		put_type_name(&field, FIELD_TYPE_NAME, type);
	if (has_presence(f)) {
		put_present(&field, FIELD_ONEOF, (*n_oneofs)++);
		proto_put_number(&field, FIELD_OPTIONAL, true);
	}
	proto_put_message(message, MESSAGE_FIELD, &field);
}

static void put_oneofs(const struct rpc_message *m, struct buf *message)
{
	AUTO(buf_done) struct buf oneof = { 0 }, name = { 0 };

	for (size_t i = 0; i < m->n; i++)
		if (has_presence(&m->fields[i])) {
			name.size = 0;
			buf_printf(&name, "_%s", m->fields[i].name);
			proto_put_str(&oneof, 1, buf_str(&name));
			proto_put_message(message, MESSAGE_ONEOF, &oneof);
		}
}

static void put_enum(const struct rpc_enum *e, uint32_t number, struct buf *out)
{
	AUTO(buf_done) struct buf type = { 0 }, value = { 0 };

	proto_put_str(&type, ENUM_NAME, last_name(str_of(e->name)));
	for (const struct rpc_enum_value *v = e->values; v->name; v++) {
		proto_put_str(&value, VALUE_NAME, str_of(v->name));
		put_present(&value, VALUE_NUMBER, (uint64_t)(int64_t)v->value);
		proto_put_message(&type, ENUM_VALUE, &value);
	}
	proto_put_message(out, number, &type);
}

/* With the types in it; our messages have some of enums, and none of messages. */
static void put_message(const struct describe *d, const struct rpc_message *m, struct buf *out)
{
	AUTO(buf_done) struct buf message = { 0 };
	unsigned n_oneofs = 0;

	proto_put_str(&message, MESSAGE_NAME, last_name(str_of(m->name)));
	for (size_t i = 0; i < m->n; i++)
		put_field_descriptor(&m->fields[i], &n_oneofs, &message);
	for (size_t i = 0; i < d->n_types; i++)
		if (d->types[i].values && str_eq(outer_name(d->types[i].name), str_of(m->name)))
			put_enum(d->types[i].values, MESSAGE_ENUM, &message);
	put_oneofs(m, &message);
	proto_put_message(out, FILE_MESSAGE, &message);
}

static void put_service(struct describe *d, const struct describe_type *t, const struct http_route *rows)
{
	struct describe_file *f = &d->files[t->file];
	AUTO(buf_done) struct buf service = { 0 }, method = { 0 };

	proto_put_str(&service, SERVICE_NAME, last_name(t->name));
	for (const struct http_route *r = rows; r->pattern; r++) {
		const struct rpc_method *m = method_of(r);
		struct str call;

		if (!m || !str_eq(service_of_row(r, &call), t->name))
			continue;
		proto_put_str(&method, METHOD_NAME, call);
		put_type_name(&method, METHOD_INPUT, m->request->name);
		put_type_name(&method, METHOD_OUTPUT, m->reply->name);
		proto_put_number(&method, METHOD_CLIENT_STREAMS, m->client_streams);
		proto_put_number(&method, METHOD_SERVER_STREAMS, m->server_streams);
		proto_put_message(&service, SERVICE_METHOD, &method);
		put_import(d, t->file, str_of(m->request->name));
		put_import(d, t->file, str_of(m->reply->name));
	}
	proto_put_message(&f->proto, FILE_SERVICE, &service);
}

static void put_type_of(struct describe *d, const struct describe_type *t, const struct http_route *rows)
{
	struct describe_file *f = &d->files[t->file];

	if (t->is_service) {
		put_service(d, t, rows);
	} else if (t->message) {
		put_message(d, t->message, &f->proto);
		for (size_t i = 0; i < t->message->n; i++)
			if (field_type_name(&t->message->fields[i]))
				put_import(d, t->file, str_of(field_type_name(&t->message->fields[i])));
	} else if (str_eq(outer_name(t->name), f->package)) {
		put_enum(t->values, FILE_ENUM, &f->proto);
	}
}

void describe_init(struct describe *d, const struct http_route *rows)
{
	*d = (struct describe){ 0 };
	add_route_types(d, rows);
	for (size_t i = 0; i < d->n_files; i++) {
		proto_put_str(&d->files[i].proto, FILE_NAME, d->files[i].name);
		proto_put_str(&d->files[i].proto, FILE_PACKAGE, d->files[i].package);
		proto_put_str(&d->files[i].proto, FILE_SYNTAX, STR("proto3"));
	}
	for (size_t i = 0; i < d->n_types; i++)
		put_type_of(d, &d->types[i], rows);
}

void describe_done(struct describe *d)
{
	for (size_t i = 0; i < d->n_files; i++) {
		free((char *)d->files[i].name.p);
		free(d->files[i].imports);
		buf_done(&d->files[i].proto);
	}
	free(d->files);
	free(d->types);
}

/* ---- questions ---- */

/* Of a field, value or method, its type or service has the file. */
const struct describe_file *describe_find(const struct describe *d, struct str symbol)
{
	const struct describe_type *t = find_described(d, symbol);

	if (!t)
		t = find_described(d, outer_name(symbol));
	return t ? &d->files[t->file] : NULL;
}

const struct describe_file *describe_find_file(const struct describe *d, struct str name)
{
	for (size_t i = 0; i < d->n_files; i++)
		if (str_eq(d->files[i].name, name))
			return &d->files[i];
	return NULL;
}

void describe_put(const struct describe *d, const struct describe_file *f, uint32_t number, struct buf *out)
{
	bool *wanted = mem_zalloc(d->n_files * sizeof(*wanted));
	size_t n = 1;

	wanted[f - d->files] = true;
	/* Until nothing is added: there are few files. */
	for (size_t before = 0; before < n;) {
		before = n;
		for (size_t i = 0; i < d->n_files; i++)
			for (size_t k = 0; wanted[i] && k < d->files[i].n_imports; k++) {
				n += !wanted[d->files[i].imports[k]];
				wanted[d->files[i].imports[k]] = true;
			}
	}
	/* The file itself is the first: clients rely on that. */
	proto_put_bytes(out, number, f->proto.p, f->proto.size);
	for (size_t i = 0; i < d->n_files; i++)
		if (wanted[i] && &d->files[i] != f)
			proto_put_bytes(out, number, d->files[i].proto.p, d->files[i].proto.size);
	free(wanted);
}
