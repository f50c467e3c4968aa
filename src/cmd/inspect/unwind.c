/* SPDX-License-Identifier: Apache-2.0 */
/* lode inspect --unwind: which functions of a file a sampler can find the callers of, and the rule at an address. */
#include "unwind/unwind.h"

#include <errno.h>
#include <stdlib.h>
#include "cmd/inspect/inspect.h"

static void put_unwind_origin(struct json_writer *out, uint32_t flags)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} origins[] = { { UNWIND_FROM_EH_FRAME, ".eh_frame" },
			{ UNWIND_FROM_DEBUG_FRAME, ".debug_frame" },
			{ UNWIND_FROM_GO, "Go's table" },
			{ UNWIND_FROM_CODE, "recognised code" } };
	AUTO(buf_done) struct buf text = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(origins); i++)
		if (flags & origins[i].flag)
			buf_printf(&text, "%s%s", text.size ? ", " : "", origins[i].name);
	json_put_str(out, "unwind_from", buf_str(&text));
}

/* An address of the ELF file, in hexadecimal, with or without 0x. */
static int parse_unwind_address(const char *text, uint64_t *ret, struct err *err)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 16);
	if (errno || end == text || *end || *text == '-')
		return err_set(err, ERR_INVALID, "--unwind-at: \"%s\" is not a hexadecimal address", text);
	return 0;
}

int inspect_unwind(const struct settings *s, const struct elf_image *img, struct json_writer *out,
		   struct err *err)
{
	AUTO(buf_done) struct buf table = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct unwind_stats stats;
	struct unwind_table t;
	struct unwind_rule rule;
	uint64_t addr = 0;
	int r;

	if (s->unwind_at && parse_unwind_address(s->unwind_at, &addr, err) < 0)
		return -1;
	r = unwind_build(img, NULL, &table, &stats, err);
	if (r == 0)
		r = unwind_table_open(buf_bytes(&table), &t, err);
	if (r < 0)
		return err_in(err, "unwind table");
	if (r) {
		json_put_text(out, "unwind_from",
			      "none: the file has no call frame information, or is not for x86-64");
		return 0;
	}
	put_unwind_origin(out, UNWIND_LE32(t.chunks[0].head.flags));
	inspect_put_size(out, "unwind_functions", stats.n_functions);
	inspect_put_size(out, "unwind_rows", stats.n_rows);
	inspect_put_size(out, "unwind_bytes", table.size);
	if (stats.n_bad)
		inspect_put_size(out, "unwind_unsupported_rows", stats.n_bad);
	if (stats.n_skipped)
		inspect_put_size(out, "unwind_damaged_functions", stats.n_skipped);
	if (!s->unwind_at)
		return 0;
	if (unwind_find(&t, addr, &rule) < 0)
		return err_set(err, ERR_INTERNAL, "unwind table: no answer for %llx",
			       (unsigned long long)addr);
	unwind_rule_print(&rule, &text);
	json_put_str(out, "unwind_rule", buf_str(&text));
	return 0;
}
