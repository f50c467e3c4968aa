/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, and their application.
 */
#include "agent/relabel.h"

#include <ctype.h>
#include <stdlib.h>

enum relabel_kind { RELABEL_KEEP, RELABEL_DROP, RELABEL_RENAME, RELABEL_REMOVE, RELABEL_SET };

struct relabel_rule {
	enum relabel_kind kind;
	struct str name, value;  /* in the arena */
	struct pattern *pattern; /* of keep and drop */
};

struct relabel {
	struct arena arena;
	struct relabel_rule rules[RELABEL_MAX_RULES];
	size_t n;
};

/* ---- labels ---- */

static struct agent_label *find_label(const struct agent_labels *l, struct str name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name))
			return (struct agent_label *)&l->v[i];
	return NULL;
}

struct str agent_labels_get(const struct agent_labels *l, struct str name)
{
	const struct agent_label *label = find_label(l, name);

	return label ? label->value : STR("");
}

static void remove_label(struct agent_labels *l, struct str name)
{
	struct agent_label *label = find_label(l, name);

	if (label)
		*label = l->v[--l->n];
}

void agent_labels_set(struct agent_labels *l, struct str name, struct str value)
{
	struct agent_label *label = find_label(l, name);

	if (label && value.size)
		label->value = value;
	else if (label)
		remove_label(l, name);
	else if (value.size && l->n < AGENT_MAX_LABELS)
		l->v[l->n++] = (struct agent_label){ name, value };
}

/* ---- rules ---- */

struct relabel *relabel_new(void)
{
	struct relabel *r = NEW(struct relabel);

	arena_init(&r->arena);
	return r;
}

void relabel_free(struct relabel *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		pattern_free(r->rules[i].pattern);
	arena_done(&r->arena);
	free(r);
}

static bool is_rule_name(struct str s)
{
	for (size_t i = 0; i < s.size; i++)
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '_' && (s.p[i] != '.' || !i))
			return false;
	return s.size && !isdigit((unsigned char)*s.p);
}

static bool rule_kind_parse(struct str s, enum relabel_kind *ret)
{
	static const struct str names[] = { STR("keep"), STR("drop"), STR("rename"), STR("remove"),
					    STR("set") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(s, names[i])) {
			*ret = (enum relabel_kind)i;
			return true;
		}
	return false;
}

int relabel_add(struct relabel *r, struct str text, struct err *err)
{
	struct str rest = str_trim(text), word = str_word(&rest), name;
	struct relabel_rule *rule = &r->rules[r->n];
	bool has_value;

	if (r->n == RELABEL_MAX_RULES)
		return err_set(err, ERR_LIMIT, "more than %u rules", RELABEL_MAX_RULES);
	*rule = (struct relabel_rule){ 0 };
	if (!rule_kind_parse(word, &rule->kind))
		return err_set(err, ERR_INVALID,
			       "'" STR_FMT "': not keep, drop, rename, remove or set, with NAME=VALUE",
			       STR_ARG(text));
	rest = str_trim(rest);
	name = str_cut(&rest, '=');
	has_value = rest.p != NULL;
	if (!is_rule_name(name) || has_value == (rule->kind == RELABEL_REMOVE))
		return err_set(err, ERR_INVALID, "'" STR_FMT "': %s; a name has letters, digits, _ and .",
			       STR_ARG(text),
			       rule->kind == RELABEL_REMOVE ? "remove takes a NAME" : "not NAME=VALUE");
	if (rule->kind == RELABEL_RENAME && !is_rule_name(rest))
		return err_set(err, ERR_INVALID, "'" STR_FMT "': the new name is not the name of a label",
			       STR_ARG(text));
	if ((rule->kind == RELABEL_KEEP || rule->kind == RELABEL_DROP) &&
	    pattern_new(rest, true, &rule->pattern, err) < 0)
		return err_in(err, "'" STR_FMT "'", STR_ARG(text));
	rule->name = arena_str(&r->arena, name);
	rule->value = arena_str(&r->arena, has_value ? rest : STR(""));
	r->n++;
	return 0;
}

bool relabel_apply(struct relabel *r, struct agent_labels *labels)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct relabel_rule *rule = &r->rules[i];
		struct str value = agent_labels_get(labels, rule->name);

		switch (rule->kind) {
		case RELABEL_KEEP:
		case RELABEL_DROP:
			if (pattern_matches(rule->pattern, value, NULL) != (rule->kind == RELABEL_KEEP))
				return false;
			break;
		case RELABEL_RENAME:
			/* A label that is not there does not take the place of another. */
			if (!value.size)
				break;
			remove_label(labels, rule->name);
			agent_labels_set(labels, rule->value, value);
			break;
		case RELABEL_REMOVE:
			remove_label(labels, rule->name);
			break;
		case RELABEL_SET:
			agent_labels_set(labels, rule->name, rule->value);
			break;
		}
	}
	return true;
}
