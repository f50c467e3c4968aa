/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions: through origins, specifications and scopes.
 */
#include "test.h"

#include "answers.h"

static void names_through_origin_and_specification_of_another_unit(void **state)
{
	for (unsigned version = 2; version <= 5; version++) {
		AUTO(answers_done) struct answers a;
		uint64_t declared, abstract, lines;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = version;
		lines = add_lines(&a);
		code_unit_begin(&a.w);
		code_die(&a.w, T_PARTIAL, true, A_NAME, F_STRING, S("other.c"), A_LANGUAGE, F_DATA1, U(4),
			 0u);
		declared = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRP, S("m"), A_MIPS_LINKAGE,
				    F_STRING, S("_ZN1S1mEv"), 0u);
		abstract = code_die(&a.w, T_SUBPROGRAM, false, A_SPECIFICATION, F_REF_ADDR, declared,
				    A_INLINE, F_DATA1, U(1), A_DECL_LINE, F_DATA2, U(500), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		code_unit_c(&a.w, lines);
		code_die(&a.w, T_SUBPROGRAM, false, A_ORIGIN, F_REF_ADDR, abstract, A_LOW, F_ADDR, U(0x1000),
			 A_HIGH, F_ADDR, U(0x1020), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x1000, "_ZN1S1mEv at /src/a.c:10");
	}
}

static void origins_in_a_circle_end(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	at = a.w.info.size;
	code_die(&a.w, T_SUBPROGRAM, false, A_ORIGIN, F_REF4, at, A_LOW, F_ADDR, U(0x1000), A_HIGH, F_DATA4,
		 U(0x20), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, " at /src/a.c:10");
}

static void names_without_linkage_name_are_qualified_by_scopes(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t declared, at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_begin(&a.w);
	code_die(&a.w, T_COMPILE, true, A_NAME, F_STRING, S("a.cc"), A_COMP_DIR, F_STRING, S("/src"),
		 A_LANGUAGE, F_DATA1, U(4), A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), 0u);
	/* The definition comes before the declaration. */
	at = a.w.info.size;
	code_die(&a.w, T_SUBPROGRAM, false, A_SPECIFICATION, F_REF4, U(0), A_LOW, F_ADDR, U(0x1000), A_HIGH,
		 F_DATA4, U(0x20), 0u);
	code_die(&a.w, T_NAMESPACE, true, A_NAME, F_STRING, S("ns"), 0u);
	code_die(&a.w, T_NAMESPACE, true, 0u);
	code_die(&a.w, T_STRUCT, true, A_NAME, F_STRING, S("Type"), 0u);
	declared = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("method"), 0u);
	for (int i = 0; i < 4; i++)
		code_up(&a.w);
	code_unit_end(&a.w);
	memcpy(a.w.info.p + at + 1, &(uint32_t){ (uint32_t)declared }, 4);
	answers_open(&a);
	assert_answer(&a, 0x1000, "ns::(anonymous namespace)::Type::method at /src/a.c:10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_through_origin_and_specification_of_another_unit),
		cmocka_unit_test(origins_in_a_circle_end),
		cmocka_unit_test(names_without_linkage_name_are_qualified_by_scopes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
