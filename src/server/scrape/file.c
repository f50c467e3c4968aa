/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of targets: Prometheus' file_sd as JSON, a list of groups of targets with labels. Beside those two, a group may
 * have settings (settings.c).
 *
 * One mistake refuses the whole file: a part of it would look like targets that are gone.
 */
#include "server/scrape/internal.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/un.h>
#include "base/vec.h"
#include "server/json.h"

#define MAX_LISTS   100000u
#define MAX_VALUES  1000000u
#define MAX_ADDRESS 300u
#define UNIX_PREFIX STR("unix:")

struct scrape_list *scrape_list_ref(struct scrape_list *l)
{
	atomic_fetch_add(&l->refs, 1);
	return l;
}

void scrape_list_unref(struct scrape_list *l)
{
	if (!l || atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	free(l->targets);
	arena_done(&l->arena);
	free(l);
}

/* A group, while it is read. */
struct group_reader {
	struct scrape_list *list;
	struct scrape_group *group;
	struct profilestore_label *labels;
	size_t n_labels;
};

/* ---- labels ---- */

static int label_order(const void *a, const void *b)
{
	return str_cmp(((const struct profilestore_label *)a)->name,
		       ((const struct profilestore_label *)b)->name);
}

static struct str group_label_value(const struct profilestore_label *v, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i].name, name))
			return v[i].value;
	return STR("");
}

static void label_default(struct profilestore_label *v, size_t *n, struct str name, struct str value)
{
	if (!group_label_value(v, *n, name).size)
		v[(*n)++] = (struct profilestore_label){ name, value };
}

/* Those of the group, and the customary ones: service_name and instance. */
static void target_labels(const struct group_reader *r, struct scrape_target *t)
{
	struct profilestore_label *v = ARENA_NEW_N(&r->list->arena, struct profilestore_label,
						   r->n_labels + 2);
	struct str address = str_of(t->address);
	struct str service = group_label_value(r->labels, r->n_labels, STR("service"));
	struct str job = group_label_value(r->labels, r->n_labels, STR("job"));
	size_t n = r->n_labels;

	if (n)
		memcpy(v, r->labels, n * sizeof(*v));
	label_default(v, &n, STR("service_name"), service.size ? service : job.size ? job : address);
	label_default(v, &n, STR("instance"), address);
	qsort(v, n, sizeof(*v), label_order);
	t->labels = v;
	t->n_labels = n;
}

static int read_labels(struct group_reader *r, const json_t *labels, struct err *err)
{
	struct arena *a = &r->list->arena;
	const char *name;
	json_t *value;

	if (labels && !json_is_object(labels))
		return err_set(err, ERR_INVALID, "labels must be an object of texts");
	/* Two are added. */
	if (json_object_size(labels) + 2 > 2 * PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_INVALID, "more than %u labels", 2 * PROFILESTORE_MAX_LABELS - 2);
	r->labels = ARENA_NEW_N(a, struct profilestore_label, json_object_size(labels) + 1);
	json_object_foreach((json_t *)labels, name, value)
	{
		if (!json_is_string(value))
			return err_set(err, ERR_INVALID, "the label %s is not a text", name);
		if (strncmp(name, "__", 2) == 0 && strcmp(name, "__name__") != 0) {
			if (scrape_group_label(r->group, a, name, json_string_value(value), err) < 0)
				return -1;
			continue;
		}
		r->labels[r->n_labels++] = (struct profilestore_label){
			str_of(arena_strdup(a, str_of(name))),
			str_of(arena_strdup(a, str_of(json_string_value(value))))
		};
	}
	return r->n_labels + 2 <= PROFILESTORE_MAX_LABELS
		       ? 0
		       : err_set(err, ERR_INVALID, "more than %u labels", PROFILESTORE_MAX_LABELS - 2);
}

/* ---- addresses ---- */

static bool host_char(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

/* HOST, HOST:PORT, [IPv6], [IPv6]:PORT: nothing that could be another part of a URL. */
static bool address_is_host(struct str s)
{
	size_t n = 0;
	uint64_t port;

	if (s.size && s.p[0] == '[') {
		for (n = 1; n < s.size && (isxdigit((unsigned char)s.p[n]) || s.p[n] == ':' || s.p[n] == '.');
		     n++)
			;
		if (n == 1 || n == s.size || s.p[n++] != ']')
			return false;
	} else {
		while (n < s.size && host_char(s.p[n]))
			n++;
	}
	if (!n || n == s.size)
		return n > 0;
	return s.p[n] == ':' && str_to_u64((struct str){ s.p + n + 1, s.size - n - 1 }, &port) && port > 0 &&
	       port < 65536;
}

static bool address_is_socket(struct str s)
{
	return str_starts(s, UNIX_PREFIX) && s.size > UNIX_PREFIX.size && s.p[UNIX_PREFIX.size] == '/' &&
	       s.size - UNIX_PREFIX.size < sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

static int target_urls(struct group_reader *r, struct scrape_target *t, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct arena *a = &r->list->arena;
	struct str address = str_of(t->address);

	if (address_is_socket(address)) {
		buf_add_str(&b, STR("http+unix://"));
		net_escape(&b, (struct str){ address.p + UNIX_PREFIX.size, address.size - UNIX_PREFIX.size },
			   false);
		t->base = arena_printf(a, "%s%s", buf_cstr(&b), r->group->prefix);
		t->shown = arena_printf(a, "%s%s", t->address, r->group->prefix);
		return 0;
	}
	/* The text may have a password: it is not in the message. */
	if (!address_is_host(address))
		return err_set(err, ERR_INVALID,
			       "it is none of HOST:PORT, [ADDRESS]:PORT, unix:/PATH; scheme and path "
			       "are settings of their own");
	t->base = t->shown = arena_printf(a, "%s://%s%s", r->group->scheme, t->address, r->group->prefix);
	return 0;
}

static int read_target(struct group_reader *r, const json_t *v, struct err *err)
{
	struct scrape_target t = { .group = r->group };
	const char *s = json_string_value(v);

	if (!s || !*s || strlen(s) > MAX_ADDRESS)
		return err_set(err, ERR_INVALID, "it is not a text of 1 to %u bytes", MAX_ADDRESS);
	t.address = arena_strdup(&r->list->arena, str_of(s));
	if (target_urls(r, &t, err) < 0)
		return -1;
	target_labels(r, &t);
	VEC_PUSH(r->list->targets, r->list->n, r->list->room) = t;
	return 0;
}

/* ---- groups ---- */

static int read_members(struct group_reader *r, struct str dir, const json_t *group, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)group, name,
			    value) if (strcmp(name, "targets") != 0 && strcmp(name, "labels") != 0 &&
				       scrape_group_member(r->group, &r->list->arena, dir, name, value, err) <
					       0) return -1;
	return scrape_group_end(r->group, err);
}

static int read_group(struct scrape_list *l, struct str dir, const json_t *group, struct err *err)
{
	struct group_reader r = { .list = l, .group = ARENA_NEW(&l->arena, struct scrape_group) };
	json_t *targets = json_object_get(group, "targets"), *one;
	size_t i;

	scrape_group_init(r.group);
	if (!json_is_array(targets))
		return err_set(err, ERR_INVALID, "it has no list 'targets'");
	if (read_labels(&r, json_object_get(group, "labels"), err) < 0 ||
	    read_members(&r, dir, group, err) < 0)
		return -1;
	json_array_foreach(targets, i, one)
	{
		if (l->n == SCRAPE_MAX_ENDPOINTS)
			return err_set(err, ERR_LIMIT, "more than %u targets", SCRAPE_MAX_ENDPOINTS);
		if (read_target(&r, one, err) < 0)
			return err_in(err, "target %zu", i + 1);
	}
	return 0;
}

static int read_groups(struct scrape_list *l, struct str dir, const json_t *all, struct err *err)
{
	json_t *group;
	size_t i;

	if (!json_is_array(all))
		return err_set(err, ERR_INVALID,
			       "it is not a list of groups, [{\"targets\": [\"HOST:PORT\"]}]");
	json_array_foreach(all, i, group) if (read_group(l, dir, group, err) <
					      0) return err_in(err, "group %zu", i + 1);
	return 0;
}

int scrape_list_parse(struct bytes text, struct str dir, struct scrape_list **ret, struct err *err)
{
	json_t *all = json_load_bytes(text, MAX_LISTS, MAX_VALUES, err);
	struct scrape_list *l;
	int r;

	if (!all)
		return -1;
	l = NEW(struct scrape_list);
	atomic_init(&l->refs, 1);
	arena_init(&l->arena);
	r = read_groups(l, dir, all, err);
	json_decref(all);
	if (r < 0) {
		scrape_list_unref(l);
		return -1;
	}
	*ret = l;
	return 0;
}
