/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect: the facts about a symbol table: its contents, and the skipped parts of its file.
 */
#include "cmd/inspect/inspect.h"
#include "lookup/lookup.h"

#define FLAGS_MAX 32u

int inspect_table(const char *path, struct json_writer *out, struct err *err)
{
	AUTO(lookup_file_done) struct lookup_file f = { 0 };
	const struct lookup_options o = { 0 };
	const struct symtab_info *info;

	if (lookup_open(&f, &o, path, err) < 0)
		return -1;
	info = symtab_info(f.table);
	json_put_text(out, "kind", "symbol-table");
	json_put_str(out, "producer", info->producer);
	if (info->build_id.size)
		inspect_put_build_id(out, "build_id", &info->build_id);
	inspect_put_size(out, "blocks", info->n_blocks);
	json_open_array(out, "has");
	for (unsigned i = 0; i < FLAGS_MAX; i++)
		if (info->flags & 1u << i && symtab_flag_name(1u << i))
			json_put_text(out, NULL, symtab_flag_name(1u << i));
	json_close(out);
	json_open_object(out, "hidden");
	inspect_put_size(out, "ranges", info->hidden.n_ranges);
	inspect_put_size(out, "bytes", info->hidden.size);
	inspect_put_size(out, "line_bytes", info->hidden.lines_size);
	json_close(out);
	inspect_put_size(out, "skipped", info->n_skipped);
	json_open_array(out, "skipped_parts");
	for (size_t i = 0; i < info->n_reasons; i++)
		json_put_str(out, NULL, info->skipped[i]);
	json_close(out);
	return 0;
}
