/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of the protobuf services in a table of routes, as google.protobuf.FileDescriptorProto, for reflection. They
 * are made of the same tables of fields that JSON is read and written by, so they cannot differ from the messages that are
 * served: a published field that lode neither reads nor writes is in neither.
 */
#pragma once

#include "server/rpc/rpc.h"

/* One for each package, with the path that its published file usually has. */
struct describe_file {
	struct str name, package;
	size_t *imports; /* of the other files */
	size_t n_imports, room_imports;
	struct buf proto; /* a FileDescriptorProto */
};

struct describe_type {
	struct str name; /* with its package */
	size_t file;
	const struct rpc_message *message; /* NULL: none */
	const struct rpc_enum *values;     /* likewise */
	bool is_service;
};

struct describe {
	struct describe_type *types;
	size_t n_types, room_types;
	struct describe_file *files;
	size_t n_files, room_files;
};
/* Of all rows with HTTP_CONNECT that have a method. */
void describe_init(struct describe *d, const struct http_route *rows);
void describe_done(struct describe *d);
/* The file with this type, service, field, enum value or method; NULL: none has it. */
const struct describe_file *describe_find(const struct describe *d, struct str symbol);
const struct describe_file *describe_find_file(const struct describe *d, struct str name);
/* The descriptions of @f, and of all files that it imports, as repeated field @number. */
void describe_put(const struct describe *d, const struct describe_file *f, uint32_t number, struct buf *out);
