/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the reader of OTLP.
 *
 *   otlp_fields.h    numbers of fields, names of attributes
 *   otlp_entries.c   the dictionary: its tables, and their entries in the profile that is being made
 *   otlp_labels.c    attributes of resources and samples
 *   otlp_read.c      resources, profiles, samples; the whole
 *
 * A dictionary serves many profiles. Each profile gets those of its entries that it uses, each once: `made` says where
 * an entry is, and of which profile that is true. An error in a profile is noted in `why`, once, and the reading of
 * the profile goes on with "nothing" in its place; so a reader of an entry has no result to check.
 */
#pragma once

#include "profile/internal.h"
#include "profile/otlp.h"
#include "profile/otlp_fields.h"
#include "wire/proto.h"

#define OTLP_LABEL_ROOM 1152u /* bytes of a label's name and value */

typedef PROFILE_TABLE(uint64_t) otlp_numbers;

struct otlp_entry {
	uint32_t profile, index; /* in the tables of the profile of this number */
};

struct otlp_reader {
	struct profile_limits limits;
	struct profile *room; /* counts the memory of everything here */
	PROFILE_TABLE(struct bytes) tables[OTLP_N_TABLES];
	PROFILE_TABLE(struct otlp_entry) made[OTLP_N_TABLES];
	uint64_t n_frames; /* of OTLP_MAX_FRAMES */
	char *label_text;  /* room for the labels of a resource */

	/* The profile that is being read. */
	struct profile *p;
	uint32_t number; /* from 1 */
	struct err why;  /* kind ERR_NONE: nothing is wrong so far */
	PROFILE_TABLE(struct profile_line) lines;
	PROFILE_TABLE(struct profile_label) labels; /* of the attributes that its samples have */
	PROFILE_TABLE(uint32_t) locations;          /* of the stack, the leaf first */
	otlp_numbers list, values;
};

/* ---- otlp_entries.c ---- */

/* The tables of a ProfilesDictionary. */
int otlp_dictionary(struct otlp_reader *r, struct bytes in, struct err *err);
/* Entry @i of a table; empty for entry 0, and if there is none, which is noted. */
struct bytes otlp_bytes(struct otlp_reader *r, enum otlp_table t, uint64_t i);
struct str otlp_text(struct otlp_reader *r, uint64_t i); /* the string of that number */
/* Is entry @i in the profile already? Then *ret is where. */
static inline bool otlp_known(const struct otlp_reader *r, enum otlp_table t, uint64_t i, uint32_t *ret)
{
	if (i >= r->made[t].n || r->made[t].p[i].profile != r->number)
		return false;
	*ret = r->made[t].p[i].index;
	return true;
}
/* Now it is, at @index. Returns @index. */
static inline uint32_t otlp_made(struct otlp_reader *r, enum otlp_table t, uint64_t i, uint32_t index)
{
	/* otlp_bytes() has noted one that is missing. Entry 0 is "nothing", whatever the table has there. */
	if (i < r->made[t].n)
		r->made[t].p[i] = (struct otlp_entry){ r->number, index };
	return index;
}
/* Indices of the profile; made if necessary. */
uint32_t otlp_string(struct otlp_reader *r, uint64_t i);
uint32_t otlp_stack(struct otlp_reader *r, uint64_t i);

/* Append the numbers of a repeated field, packed or not, fixed64 too. */
void otlp_add_numbers(struct otlp_reader *r, const struct proto_field *f, otlp_numbers *list);
/* Note that the profile is damaged, unless something was noted before. */
void otlp_note(struct otlp_reader *r, enum err_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void otlp_note_memory(struct otlp_reader *r);
/* The message @c of kind @what was read; note if its bytes are none. */
void otlp_end(struct otlp_reader *r, const struct cursor *c, const char *what);

/* ---- otlp_labels.c ---- */

/* An attribute's value: text, or a number. */
struct otlp_value {
	struct str text;
	bool is_number;
	int64_t number;
};
void otlp_value(struct otlp_reader *r, struct bytes in, struct otlp_value *ret);
/* Attribute @i of the dictionary; without a key if there is none. */
struct otlp_attribute {
	struct str key;
	struct otlp_value value;
	uint64_t unit; /* number of a string */
};
void otlp_attribute(struct otlp_reader *r, uint64_t i, struct otlp_attribute *ret);
/* The labels of a resource, in @ret; returns their number. They last until the next call. */
size_t otlp_resource(struct otlp_reader *r, struct bytes in, struct otlp_label ret[OTLP_MAX_LABELS]);
/* Adds the label service_name to those of a resource, if it has none. Returns their number. */
size_t otlp_service(struct otlp_reader *r, struct otlp_label labels[OTLP_MAX_LABELS], size_t n);
/* The set of labels for attributes of the dictionary by their numbers in r->list. */
uint32_t otlp_sample_labels(struct otlp_reader *r);
