/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of profile types (docs/decisions/0034-type-names.md). Stored types are "NAME:TYPE:UNIT:PERIODTYPE:PERIODUNIT",
 * and those of Parca's and lode's own senders end in ":delta" if their profiles have a duration. Pyroscope's clients
 * know five parts, and NAME by the kind of profile. Pure functions, safe on any text.
 */
#pragma once

#include "base/base.h"

/* NAME of profiles that were sent without the label __name__, by Parca's rules. */
#define TYPE_NAME_UNKNOWN STR("profile")

/*
 * NAME as Pyroscope has it for a profile with these sample types: process_cpu, memory, mutex, block, goroutines, wall;
 * else the last sample type. @period_type may be empty.
 */
struct str type_name_of(const struct str *sample_types, size_t n, struct str period_type);
/*
 * Pyroscope's ID of a stored type, appended to @out: without ":delta", and with a NAME by the sample type in place of
 * "profile", which profiles have that came in before there was such a name. Several stored types may have one ID; they
 * are of one sample type and unit, so their profiles can be added up: selector_set_type_id().
 */
void type_id_of(struct str type, struct buf *out);
/* Is @id the ID of @type? Allocates nothing. */
bool type_has_id(struct str type, struct str id);
