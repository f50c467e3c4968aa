/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of an Arch package in its member .PKGINFO: lines "key = value", "#" begins a comment.
 */
#include "pkg/internal.h"

void arch_parse(struct str text, struct arena *a, struct pkg_info *ret)
{
	while (text.size) {
		struct str value = str_cut(&text, '\n'), key = str_trim(str_cut(&value, '='));

		value = str_trim(value);
		if (str_eq(key, STR("pkgname")))
			ret->name = arena_str(a, value);
		else if (str_eq(key, STR("pkgbase")))
			ret->source_name = arena_str(a, value);
		else if (str_eq(key, STR("pkgver")))
			ret->version = arena_str(a, value);
		else if (str_eq(key, STR("arch")))
			ret->arch = arena_str(a, value);
	}
}
