/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a program's file. A debuginfod request has only the build ID, but a server of Microsoft's kind finds programs
 * by name and build ID. The name may be in the request, or be that of a file of the same build ID that is here, or of a
 * mapping in a profile or a process (name_hints.c).
 */
#include "resolve/internal.h"

#define FILES_MAX 16u

struct program_name_search {
	struct arena *a;
	struct str found;
};

static bool is_hex_name(struct str name)
{
	for (size_t i = 0; i < name.size; i++)
		if (hex_digit(name.p[i], false) < 0)
			return false;
	return true;
}

/* "/usr/lib/debug/usr/lib/libx.so.1.debug" is of libx.so.1; ".build-id/ab/cdef.debug" has no name. */
static int name_of_file(void *arg, const struct index_metadata *m)
{
	static const struct str suffixes[] = { STR(".debug"), STR(".dbg") };
	struct program_name_search *s = arg;
	struct str name = path_basename(m->file);

	for (size_t i = 0; m->debuginfo && i < ARRAY_SIZE(suffixes); i++)
		if (str_ends(name, suffixes[i]))
			name.size -= suffixes[i].size;
	if (!name.size || is_hex_name(name))
		return 0;
	s->found = arena_str(s->a, name);
	return 1;
}

struct str remote_name(struct resolver_upstream *c, const struct resolve_request *req, struct arena *a)
{
	struct program_name_search s = { .a = a };
	struct index_metadata_page page = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	struct index_metadata_query q = {
		.key = STR("buildid"),
		.value = str_of(build_id_hex(&req->id, hex)),
		.max = FILES_MAX,
		.fn = name_of_file,
		.arg = &s,
	};

	if (!c->by_name || req->kind != RESOLVE_EXECUTABLE)
		return (struct str){ 0 };
	if (req->name.size)
		return path_basename(req->name);
	/* A failure leaves the name unknown. */
	if (c->opts.before)
		(void)!resolve_metadata(c->opts.before, &q, &page, NULL);
	buf_done(&page.next);
	return s.found.size || !c->hints ? s.found : name_hints_get(c->hints, &req->id, a);
}
