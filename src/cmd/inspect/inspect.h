/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode inspect, between its files: what is found out about a file is collected as one JSON object
 * (inspect_elf.c, inspect_package.c), which is then printed as it is or for people (inspect_print.c).
 */
#pragma once

#include "cmd/internal.h"
#include "codec/codec.h"
#include "elf/elf.h"
#include "pkg/pkg.h"
#include "scan/scan.h"

/* Add to @out what the ELF file @src is. ELF_NOT_ELF. */
int inspect_elf(const struct settings *s, struct source *src, json_t *out, struct err *err);
/* Kind and build ID, as elf.h tells them. */
void inspect_elf_facts(json_t *out, const struct elf_facts *f);
/* Add to @out what the package @src, at @path, is. PKG_NOT_A_PACKAGE. */
int inspect_package(const struct settings *s, const char *path, struct source *src, json_t *out,
		    struct err *err);

json_t *inspect_build_id(const struct build_id *id);
void inspect_put_text(json_t *o, const char *key, struct str value); /* unless it is empty */
void inspect_put_size(json_t *o, const char *key, uint64_t value);

/* All of it, for people. */
void inspect_print(const json_t *all);
/* The build IDs alone, one a line: of the file, or of the members (else of the headers) of a package. Returns
 * how many. */
size_t inspect_print_ids(const json_t *all);
