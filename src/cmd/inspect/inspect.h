/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `lode inspect`. The facts about a file are written as one JSON object (elf.c,
 * package.c, table.c), which is printed as it is, or read again and printed for people (print.c).
 *
 * split.c is lode split, which needs none of this.
 */
#pragma once

#include <jansson.h>
#include "base/json.h"
#include "cmd/internal.h"
#include "codec/codec.h"
#include "elf/elf.h"
#include "pkg/pkg.h"
#include "scan/scan.h"

/* Add the facts about the ELF file @src to the open object of @out. ELF_NOT_ELF: nothing was added. */
int inspect_elf(const struct settings *s, struct source *src, struct json_writer *out, struct err *err);
/* Add the facts about the unwind table that the agent would make of @img, and the rule at s->unwind_at. */
int inspect_unwind(const struct settings *s, const struct elf_image *img, struct json_writer *out,
		   struct err *err);
/* Add kind and build ID. */
void inspect_elf_facts(struct json_writer *out, const struct elf_facts *f);
/* Add the facts about the package @src, at @path. PKG_NOT_A_PACKAGE: nothing was added. */
int inspect_package(const struct settings *s, const char *path, struct source *src, struct json_writer *out,
		    struct err *err);

/* Add the facts about the symbol table at @path. */
int inspect_table(const char *path, struct json_writer *out, struct err *err);

void inspect_put_build_id(struct json_writer *out, const char *key, const struct build_id *id);
void inspect_put_text(struct json_writer *out, const char *key, struct str value); /* unless it is empty */
/* A number of 64 bits as a signed one, which all readers take. */
void inspect_put_size(struct json_writer *out, const char *key, uint64_t value);

/* Print the whole object for people. */
void inspect_print(const json_t *all);
/* Print the build IDs alone, one a line: of the file, or of the members (else of the header) of a package.
 * Returns their number. */
size_t inspect_print_ids(const json_t *all);
