/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP's attributes: of resources, which become labels of a series, and of samples.
 *
 * Labels that differ for each process or thread would make a series of each: they are left out.
 */
#include "profile/otlp_read.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_NAME 128u /* bytes of a label */
#define MAX_TEXT (OTLP_LABEL_ROOM - MAX_NAME)

void otlp_value(struct otlp_reader *r, struct bytes in, struct otlp_value *ret)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	*ret = (struct otlp_value){ 0 };
	while (proto_next(&c, &f)) {
		if (f.number == OTLP_VALUE_TEXT)
			ret->text = proto_text(&f);
		else if (f.number == OTLP_VALUE_STRING)
			ret->text = otlp_text(r, f.v);
		else if (f.number == OTLP_VALUE_BOOL)
			ret->text = f.v ? STR("true") : STR("false");
		else if (f.number == OTLP_VALUE_INT) {
			ret->is_number = true;
			ret->number = (int64_t)f.v;
		}
	}
	otlp_end(r, &c, "attribute's value");
}

void otlp_attribute(struct otlp_reader *r, uint64_t i, struct otlp_attribute *ret)
{
	struct cursor c = cursor_of(otlp_bytes(r, OTLP_ATTRIBUTES, i));
	struct proto_field f;

	*ret = (struct otlp_attribute){ 0 };
	while (proto_next(&c, &f)) {
		if (f.number == OTLP_ATTRIBUTE_KEY)
			ret->key = otlp_text(r, f.v);
		else if (f.number == OTLP_ATTRIBUTE_VALUE)
			otlp_value(r, f.b, &ret->value);
		else if (f.number == OTLP_ATTRIBUTE_UNIT)
			ret->unit = f.v;
	}
	otlp_end(r, &c, "attribute");
}

static bool is_among(struct str key, const char *const *list)
{
	/* An element that ends with a dot stands for all keys that begin so. */
	for (; *list; list++) {
		struct str one = str_of(*list);

		if (str_eq(key, one) || (str_ends(one, STR(".")) && str_starts(key, one)))
			return true;
	}
	return false;
}

/* ---- resources ---- */

static const char *const of_one_process[] = {
	"process.pid",
	"process.parent_pid",
	"process.command",
	"process.command_args",
	"process.command_line",
	"process.executable.path",
	"process.creation.",
	"process.vpid",
	"service.instance.id",
	"telemetry.",
	"process.runtime.",
	"process.executable.build_id.",
	NULL,
};

static struct otlp_attribute resource_attribute(struct otlp_reader *r, struct bytes in)
{
	struct otlp_attribute a = { 0 };
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number == OTLP_KEY)
			a.key = proto_text(&f);
		else if (f.number == OTLP_VALUE)
			otlp_value(r, f.b, &a.value);
		else if (f.number == OTLP_KEY_STRING)
			a.key = otlp_text(r, f.v);
	}
	otlp_end(r, &c, "attribute");
	return a;
}

/* "service.name" → service_name. At @to; empty: nothing of it can be a name. */
static struct str label_name(char *to, struct str key)
{
	struct str name = { to, 0 };

	for (size_t i = 0; i < MIN(key.size, (size_t)MAX_NAME - 1); i++) {
		char c = key.p[i];
		bool digit = c >= '0' && c <= '9';

		if (!i && digit)
			to[name.size++] = '_';
		to[name.size++] = digit || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c : '_';
	}
	return name;
}

/* Cut before a character that does not fit; the store replaces bytes that are no UTF-8. Control characters become blanks. */
static struct str label_value(char *to, const struct otlp_value *v)
{
	struct str text = v->text;

	if (v->is_number)
		return (struct str){ to, (size_t)snprintf(to, MAX_TEXT, "%lld", (long long)v->number) };
	if (text.size > MAX_TEXT) {
		text.size = MAX_TEXT;
		while (text.size && ((unsigned char)text.p[text.size] & 0xc0) == 0x80)
			text.size--;
	}
	for (size_t i = 0; i < text.size; i++)
		to[i] = (unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f ? ' ' : text.p[i];
	return (struct str){ to, text.size };
}

static bool resource_has(const struct otlp_label *labels, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(labels[i].name, name))
			return true;
	return false;
}

size_t otlp_resource(struct otlp_reader *r, struct bytes in, struct otlp_label ret[OTLP_MAX_LABELS])
{
	struct cursor c = cursor_of(in);
	struct proto_field f;
	size_t n = 0;

	while (proto_next(&c, &f)) {
		char *room = r->label_text + n * OTLP_LABEL_ROOM;
		struct otlp_attribute a;

		if (f.number != OTLP_RESOURCE_ATTRIBUTES || n == OTLP_MAX_LABELS)
			continue;
		a = resource_attribute(r, f.b);
		if (is_among(a.key, of_one_process))
			continue;
		ret[n].name = label_name(room, a.key);
		ret[n].value = label_value(room + MAX_NAME, &a.value);
		n += ret[n].name.size && ret[n].value.size && !resource_has(ret, n, ret[n].name);
	}
	otlp_end(r, &c, "resource");
	return n;
}

/*
 * OpenTelemetry's conventions give a resource without a service's name this one. Its eBPF profiler knows only the program,
 * unless a processor of the Collector adds more.
 */
size_t otlp_service(struct otlp_reader *r, struct otlp_label labels[OTLP_MAX_LABELS], size_t n)
{
	char *room = r->label_text + n * OTLP_LABEL_ROOM;
	struct str program = { 0 };
	int size;

	if (n == OTLP_MAX_LABELS || resource_has(labels, n, STR("service_name")) ||
	    resource_has(labels, n, STR("service")))
		return n;
	for (size_t i = 0; i < n; i++)
		if (str_eq(labels[i].name, STR("process_executable_name")))
			program = labels[i].value;
	size = snprintf(room, OTLP_LABEL_ROOM, "unknown_service%s" STR_FMT, program.size ? ":" : "",
			STR_ARG(program));
	labels[n] = (struct otlp_label){ STR("service_name"), { room, MIN((size_t)size, MAX_TEXT) } };
	return n + 1;
}

/* ---- samples ---- */

static const char *const of_one_thread[] = {
	"thread.id", "cpu.logical_number", "process.pid", "process.vpid", "trace_id", "span_id", NULL,
};

/* Its position in r->labels, from 1; 0: it is left out. */
static uint32_t sample_label(struct otlp_reader *r, uint64_t i)
{
	struct otlp_attribute a;
	struct profile_label label;
	char name[MAX_NAME];
	uint32_t index;

	if (otlp_known(r, OTLP_ATTRIBUTES, i, &index))
		return index;
	index = 0;
	otlp_attribute(r, i, &a);
	if (a.key.size && !is_among(a.key, of_one_thread) && (a.value.is_number || a.value.text.size)) {
		label = (struct profile_label){ .key = profile_add_string(r->p, label_name(name, a.key)) };
		if (a.value.is_number) {
			label.num = a.value.number;
			label.unit = otlp_string(r, a.unit);
		} else {
			label.str = profile_add_string(r->p, a.value.text);
		}
		if (profile_push(r->room, &r->labels, label))
			index = r->labels.n;
		else
			otlp_note_memory(r);
	}
	return otlp_made(r, OTLP_ATTRIBUTES, i, index);
}

uint32_t otlp_sample_labels(struct otlp_reader *r)
{
	struct profile_label set[OTLP_MAX_LABELS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->list.n; i++) {
		uint32_t index = sample_label(r, r->list.p[i]);

		if (index && n < OTLP_MAX_LABELS)
			set[n++] = r->labels.p[index - 1];
	}
	return n ? profile_add_labels(r->p, set, n) : 0;
}
