/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that decide which processes are kept, and which labels their samples have:
 *
 *   keep NAME=PATTERN      drop samples whose label NAME does not match
 *   drop NAME=PATTERN      drop samples whose label NAME matches
 *   rename NAME=NEW        give the label another name
 *   remove NAME            remove the label
 *   set NAME=VALUE         set the label for all
 *
 * They are applied in order. A pattern is a POSIX extended expression that matches the whole value (base/pattern.h); a label
 * that is not there has the value "".
 */
#pragma once

#include "base/base.h"

#define RELABEL_MAX_RULES 100u
#define AGENT_MAX_LABELS  32u

struct agent_label {
	struct str name, value;
};

/* Labels of one process; views. */
struct agent_labels {
	struct agent_label v[AGENT_MAX_LABELS];
	size_t n;
};
struct str agent_labels_get(const struct agent_labels *l, struct str name); /* "": not there */
/* Replaces an equal name; an empty value is not added, and one too many neither. */
void agent_labels_set(struct agent_labels *l, struct str name, struct str value);

struct relabel;
struct relabel *relabel_new(void);
void relabel_free(struct relabel *r); /* takes NULL */
/* Append the rule @text. ERR_INVALID: it is none. */
int relabel_add(struct relabel *r, struct str text, struct err *err);
/* false: samples with these labels are dropped. Not for several threads. Values live as long as @r and their owners. */
bool relabel_apply(struct relabel *r, struct agent_labels *labels);
