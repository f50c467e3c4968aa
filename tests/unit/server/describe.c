/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of services from tables of fields: rules that every table of a row has to keep.
 */
#include "test.h"

#include "server/rpc/describe.h"

static void fields_are_sound(const struct rpc_message *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct rpc_field *f = &m->fields[i];

		assert_true(f->number && f->name);
		assert_int_equal(f->kind == RPC_MESSAGE, f->message != NULL);
		assert_int_equal(f->kind == RPC_ENUM, f->names != NULL);
		/* The number of a oneof has one byte. */
		assert_true(m->n < 128);
		for (size_t k = 0; k < i; k++)
			if (m->fields[k].number == f->number || strcmp(m->fields[k].name, f->name) == 0)
				fail_msg("%s has the field %s twice", m->name, f->name);
	}
}

/* Messages with one name may have several tables, for what is read of them in each place. */
static void same_fields(const struct rpc_message *a, const struct rpc_message *b)
{
	if (a->n != b->n)
		fail_msg("two tables of %s have %zu and %zu fields", a->name, a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		if (a->fields[i].number != b->fields[i].number || a->fields[i].kind != b->fields[i].kind ||
		    strcmp(a->fields[i].name, b->fields[i].name) != 0)
			fail_msg("two tables of %s differ in %s", a->name, a->fields[i].name);
}

static const struct describe_type *type_of(const struct describe *d, const char *name)
{
	for (size_t i = 0; i < d->n_types; i++)
		if (str_eq(d->types[i].name, str_of(name)))
			return &d->types[i];
	fail_msg("%s is not described", name);
	return NULL;
}

static void messages_have_one_form_each(void **state)
{
	struct describe d;

	describe_init(&d, server_routes);
	for (size_t i = 0; i < d.n_types; i++) {
		const struct rpc_message *m = d.types[i].message;

		if (!m)
			continue;
		fields_are_sound(m);
		for (size_t k = 0; k < m->n; k++)
			if (m->fields[k].kind == RPC_MESSAGE)
				same_fields(type_of(&d, m->fields[k].message->name)->message,
					    m->fields[k].message);
	}
	describe_done(&d);
}

static void enums_begin_with_zero(void **state)
{
	struct describe d;

	describe_init(&d, server_routes);
	for (size_t i = 0; i < d.n_types; i++)
		if (d.types[i].values) {
			assert_int_equal(d.types[i].values->values[0].value, 0);
			assert_non_null(d.types[i].values->values[0].name);
		}
	describe_done(&d);
}

static void a_description_comes_with_all_that_it_imports(void **state)
{
	static const char *const symbols[] = { "push.v1.PusherService", "querier.v1.QuerierService.Diff",
					       "parca.query.v1alpha1.QueryService",
					       "debuginfo.v1alpha1.FileMetadata.Type" };
	struct describe d;

	describe_init(&d, server_routes);
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		const struct describe_file *f = describe_find(&d, str_of(symbols[i]));
		AUTO(buf_done) struct buf out = { 0 };

		assert_non_null(f);
		describe_put(&d, f, 1, &out);
		/* Its own is the first. */
		assert_ptr_equal(memmem(out.p, out.size, f->proto.p, f->proto.size),
				 memmem(out.p, MIN(out.size, f->proto.size + 4), f->proto.p, f->proto.size));
		for (size_t k = 0; k < f->n_imports; k++)
			assert_non_null(memmem(out.p, out.size, d.files[f->imports[k]].proto.p,
					       d.files[f->imports[k]].proto.size));
	}
	assert_null(describe_find(&d, STR("push.v1")));
	assert_null(describe_find(&d, STR("")));
	assert_null(describe_find(&d, STR(".")));
	assert_null(describe_find_file(&d, STR("push/v1")));
	describe_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_have_one_form_each),
		cmocka_unit_test(enums_begin_with_zero),
		cmocka_unit_test(a_description_comes_with_all_that_it_imports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
