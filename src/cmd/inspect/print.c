/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect for people: the object of facts as lines and tables. Names come from files, so they are
 * printed escaped.
 */
#include <elf.h>
#include "cmd/inspect/inspect.h"

#define LABEL 16

static struct str member_text(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return (struct str){ json_string_value(v), json_string_length(v) };
}

static long long member_number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void print_label(const char *key)
{
	size_t n = 0;

	for (; key[n]; n++)
		putchar(key[n] == '_' ? ' ' : key[n]);
	printf("%*s", n < LABEL ? (int)(LABEL - n) : 1, "");
}

/* "name hello.debug, crc 1234" */
static void print_fields(const json_t *o)
{
	const char *key, *between = "";
	json_t *value;

	json_object_foreach((json_t *)o, key, value)
	{
		printf("%s", between);
		for (const char *p = key; *p; p++)
			putchar(*p == '_' ? ' ' : *p);
		putchar(' ');
		if (json_is_string(value))
			print_text(stdout,
				   (struct str){ json_string_value(value), json_string_length(value) });
		else
			printf("%lld", (long long)json_integer_value(value));
		between = ", ";
	}
	putchar('\n');
}

static const char *section_type(long long type)
{
	static const struct {
		long long type;
		const char *name;
	} names[] = {
		{ SHT_PROGBITS, "PROGBITS" },
		{ SHT_SYMTAB, "SYMTAB" },
		{ SHT_STRTAB, "STRTAB" },
		{ SHT_RELA, "RELA" },
		{ SHT_HASH, "HASH" },
		{ SHT_DYNAMIC, "DYNAMIC" },
		{ SHT_NOTE, "NOTE" },
		{ SHT_NOBITS, "NOBITS" },
		{ SHT_REL, "REL" },
		{ SHT_DYNSYM, "DYNSYM" },
		{ SHT_INIT_ARRAY, "INIT" },
		{ SHT_FINI_ARRAY, "FINI" },
		{ SHT_PREINIT_ARRAY, "PREINIT" },
		{ SHT_GROUP, "GROUP" },
		{ SHT_SYMTAB_SHNDX, "SHNDX" },
		{ SHT_GNU_HASH, "GNU_HASH" },
		{ SHT_GNU_versym, "VERSYM" },
		{ SHT_GNU_verneed, "VERNEED" },
		{ SHT_GNU_verdef, "VERDEF" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].type == type)
			return names[i].name;
	return NULL;
}

static void print_section(const json_t *sec)
{
	const char *type = section_type(member_number(sec, "type"));
	char other[32];

	snprintf(other, sizeof(other), "0x%llx", member_number(sec, "type"));
	printf("  %4lld  %-10s  %18s  %10lld  %10lld  ", member_number(sec, "index"), type ? type : other,
	       json_string_value(json_object_get(sec, "addr")), member_number(sec, "off"),
	       member_number(sec, "size"));
	print_text(stdout, member_text(sec, "name"));
	if (json_object_get(sec, "content_size"))
		printf("  (%lld decompressed)", member_number(sec, "content_size"));
	putchar('\n');
}

static void print_member(const json_t *m)
{
	printf("  %s  %11lld  ", json_string_value(json_object_get(m, "mode")), member_number(m, "size"));
	print_text(stdout, member_text(m, "path"));
	if (json_object_get(m, "codec"))
		printf("  (%s, %lld decoded)", json_string_value(json_object_get(m, "codec")),
		       member_number(m, "decoded_size"));
	putchar('\n');
	if (json_object_get(m, "elf")) {
		printf("                     ");
		print_text(stdout, member_text(m, "elf"));
		if (json_object_get(m, "build_id")) {
			printf("  ");
			print_text(stdout, member_text(m, "build_id"));
		}
		putchar('\n');
	}
}

static void print_link(const json_t *l)
{
	printf("  ");
	print_text(stdout, member_text(l, "path"));
	printf(" -> ");
	print_text(stdout, member_text(l, "target"));
	putchar('\n');
}

static void print_damaged(const json_t *one)
{
	printf("  %4lld  ", member_number(one, "index"));
	print_text(stdout, member_text(one, "name"));
	printf("  ");
	print_text(stdout, member_text(one, "error"));
	putchar('\n');
}

static void print_list(const char *key, const json_t *list)
{
	json_t *one;
	size_t i;

	printf("%zu\n", json_array_size(list));
	if (strcmp(key, "sections") == 0 && json_array_size(list))
		printf("  %4s  %-10s  %18s  %10s  %10s  %s\n", "no.", "type", "address", "offset", "size",
		       "name");
	json_array_foreach(list, i, one)
	{
		if (strcmp(key, "sections") == 0)
			print_section(one);
		else if (strcmp(key, "members") == 0)
			print_member(one);
		else if (strcmp(key, "links") == 0)
			print_link(one);
		else if (strcmp(key, "damaged_sections") == 0)
			print_damaged(one);
		else
			printf("  %s\n", json_string_value(one));
	}
}

void inspect_print(const json_t *all)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)all, key, value)
	{
		print_label(key);
		if (json_is_string(value)) {
			print_text(stdout,
				   (struct str){ json_string_value(value), json_string_length(value) });
			putchar('\n');
		} else if (json_is_integer(value)) {
			printf("%lld\n", (long long)json_integer_value(value));
		} else if (json_is_object(value)) {
			print_fields(value);
		} else {
			print_list(key, value);
		}
	}
}

static size_t print_id(const json_t *id)
{
	if (!id)
		return 0;
	printf("%s\n", json_string_value(id));
	return 1;
}

size_t inspect_print_ids(const json_t *all)
{
	const json_t *members = json_object_get(all, "members"),
		     *header = json_object_get(all, "header_build_ids");
	size_t i, n = print_id(json_object_get(all, "build_id"));
	json_t *one;

	json_array_foreach(members, i, one) n += print_id(json_object_get(one, "build_id"));
	if (!members)
		json_array_foreach(header, i, one) n += print_id(one);
	return n;
}
