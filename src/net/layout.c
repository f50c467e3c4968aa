/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file is below the URL of a server, by the kind of the server. The kind is a prefix of the scheme, so that servers
 * of all kinds are in one list: docs/decisions/0033-symbol-servers.md.
 */
#include "net/net.h"

#include <string.h>

#define SSQP_DIGITS 40u /* of a build ID: 20 bytes, shorter ones with zeros after them */

static const struct {
	struct str prefix;
	enum net_layout layout;
} layouts[] = {
	{ STR("ssqp+"), NET_SSQP },
	{ STR("tree+"), NET_TREE },
	{ STR("unified+"), NET_UNIFIED },
};

enum net_layout net_url_layout(const char *url, const char **ret_plain)
{
	struct str s = str_of(url);

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		if (!str_starts(s, layouts[i].prefix))
			continue;
		*ret_plain = url + layouts[i].prefix.size;
		return layouts[i].layout;
	}
	*ret_plain = url;
	return NET_DEBUGINFOD;
}

/* Keys of SSQP are lower case; so are names in them. */
static void add_ssqp_name(struct buf *out, struct str name)
{
	AUTO(buf_done) struct buf lower = { 0 };

	for (size_t i = 0; i < name.size; i++)
		buf_add_char(&lower,
			     name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char)(name.p[i] | 0x20) : name.p[i]);
	net_escape(out, buf_str(&lower), false);
}

static void add_ssqp_id(struct buf *out, struct str id)
{
	buf_add_str(out, id);
	for (size_t i = id.size; i < SSQP_DIGITS; i++)
		buf_add_char(out, '0');
}

static enum net_unasked ssqp_path(const struct net_file *f, struct buf *out)
{
	if (f->kind == NET_FILE_DEBUGINFO) {
		buf_add_str(out, STR("_.debug/elf-buildid-sym-"));
		add_ssqp_id(out, f->id);
		buf_add_str(out, STR("/_.debug"));
		return NET_ASKED;
	}
	if (!f->name.size || memchr(f->name.p, '/', f->name.size) || str_eq(f->name, STR(".")) ||
	    str_eq(f->name, STR("..")))
		return NET_NEEDS_NAME;
	add_ssqp_name(out, f->name);
	buf_add_str(out, STR("/elf-buildid-"));
	add_ssqp_id(out, f->id);
	buf_add_char(out, '/');
	add_ssqp_name(out, f->name);
	return NET_ASKED;
}

static void add_fan_out(struct buf *out, struct str id)
{
	buf_printf(out, "%.2s/" STR_FMT, id.p, (int)id.size - 2, id.p + 2);
}

enum net_unasked net_layout_path(enum net_layout layout, const char *plain, const struct net_file *f,
				 struct buf *out)
{
	if (f->kind == NET_FILE_OTHER)
		return NET_WHOLE_ONLY;
	if (f->id.size < 4)
		return NET_SHORT_ID;
	switch (layout) {
	case NET_SSQP:
		return ssqp_path(f, out);
	case NET_TREE:
		if (!str_ends(str_of(plain), STR("/.build-id")))
			buf_add_str(out, STR(".build-id/"));
		add_fan_out(out, f->id);
		if (f->kind == NET_FILE_DEBUGINFO)
			buf_add_str(out, STR(".debug"));
		return NET_ASKED;
	case NET_UNIFIED:
		add_fan_out(out, f->id);
		buf_add_str(out, f->kind == NET_FILE_DEBUGINFO ? STR("/debuginfo") : STR("/executable"));
		return NET_ASKED;
	case NET_DEBUGINFOD:
		break;
	}
	return NET_OTHER_KIND;
}
