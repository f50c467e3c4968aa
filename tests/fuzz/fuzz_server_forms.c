/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in the forms of other clients: the first byte chooses the form. Of a multipart form, the first
 * line is its Content-Type.
 */
#include "fuzz.h"

#include "profile/input.h"
#include "server/intake/forms.h"

#define SMALL ((uint64_t)16 << 20)

static const struct profile_limits limits = { .max_size = SMALL, .max_memory = SMALL };

static void read_profile(struct bytes raw, struct bytes config)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	if (profile_read(raw, PROFILE_FORMAT_PPROF, &limits, &p, &err) < 0)
		return;
	if (config.p) {
		struct arena arena;

		arena_init(&arena);
		if (form_type_names(config, p, &arena, ARENA_NEW_N(&arena, struct str, p->types.n + 1),
				    &err) < 0)
			FUZZ_CHECK(err.kind != ERR_NONE);
		arena_done(&arena);
	}
	profile_free(p);
}

static int on_profile(void *arg, const struct form_profile *f, struct err *err)
{
	size_t *n = arg;

	FUZZ_CHECK(f->n_labels <= PROFILESTORE_MAX_LABELS);
	/* A few are enough. */
	if (++*n < 4)
		read_profile(f->raw, (struct bytes){ 0 });
	return 0;
}

static int parca(struct bytes in, struct err *err)
{
	struct arena arena;
	size_t n = 0;
	int r;

	arena_init(&arena);
	r = form_parca(in, &arena, (struct form_sink){ on_profile, &n }, err);
	FUZZ_CHECK(r < 0 || n);
	arena_done(&arena);
	return r;
}

static int multipart(struct bytes in, struct err *err)
{
	struct str body = { (const char *)in.p, in.size }, type = str_cut(&body, '\n');
	struct form_part parts[FORM_MAX_PARTS];
	struct bytes config = { 0 };
	size_t n;

	if (!form_is_multipart(type))
		type = STR("multipart/form-data; boundary=\"X\"");
	if (form_multipart(type, bytes_of(body.p ? body.p : "", body.size), parts, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		FUZZ_CHECK(parts[i].data.p >= in.p && parts[i].data.p + parts[i].data.size <= in.p + in.size);
		if (str_eq(parts[i].name, STR("sample_type_config")))
			config = parts[i].data;
	}
	for (size_t i = 0; i < n && i < 4; i++)
		read_profile(parts[i].data, config);
	return 0;
}

static int app_name(struct bytes in, struct err *err)
{
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS];
	struct str name = { (const char *)in.p, in.size }, app, rest;
	const struct form_kind *kind;
	size_t n;
	int64_t ms;

	if (form_unix_ms(name, &ms))
		FUZZ_CHECK(ms >= 0);
	if (form_app_split(name, &app, &rest, err) < 0)
		return -1;
	kind = form_kind_of_app(&app);
	FUZZ_CHECK(app.size && (!kind || form_kind_name(kind).size));
	if (form_app_labels(app, rest, labels, &n, err) < 0)
		return -1;
	FUZZ_CHECK(n >= 1 && n <= PROFILESTORE_MAX_LABELS);
	return 0;
}

static int lines(struct bytes in, struct err *err)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct profile *p = NULL;
	int r;

	form_lines(in, &out);
	if (!out.size)
		return 0;
	r = profile_read_folded(buf_str(&out), &limits, &p, err);
	if (r == 0)
		r = form_set_kind(p, form_kind_of_units(STR("samples"), STR(""), err), 1, err);
	profile_free(p);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const forms[])(struct bytes in, struct err * err) = { parca, multipart, app_name,
									   lines };
	struct err err = { 0 };

	if (size && forms[data[0] % ARRAY_SIZE(forms)](bytes_of(data + 1, size - 1), &err) < 0)
		FUZZ_CHECK(err.kind != ERR_NONE);
	return 0;
}
