/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocatable files: relocations of debug sections in each format and of each kind.
 */
#include "test.h"

#include "answers.h"

#define SHT_CREL_TYPE 0x40000014

static void assert_reasons(const struct answers *a, size_t n, const char *first)
{
	const struct symtab_info *info = symtab_info(a->t);

	assert_int_equal(info->n_reasons, n);
	assert_int_equal(info->n_skipped, n);
	if (n && !str_eq(info->skipped[0], str_of(first)))
		fail_msg(STR_FMT, STR_ARG(info->skipped[0]));
}

/* A kernel that was linked with --emit-relocs still has the relocations of its debug sections. */
static void relocations_of_a_linked_file_are_not_applied_again(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf rela = { 0 };
	unsigned at;

	answers_init(&a, ELF_WRITER_X86_64, ET_EXEC);
	add_plain(&a);
	for (size_t off = 0; off + 8 < a.w.info.size; off++) {
		elf_writer_put(&a.w.elf, &rela, off, 8);
		elf_writer_put(&a.w.elf, &rela, 1, 8); /* R_X86_64_64 */
		elf_writer_put(&a.w.elf, &rela, 0x666, 8);
	}
	at = elf_writer_section(&a.w.elf, ".rela.debug_info", SHT_RELA, 0, buf_bytes(&rela));
	elf_writer_at(&a.w.elf, at)->info = 3; /* section 2 is .text */
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
}

static void put_reloc(struct answers *a, struct buf *b, bool rel, uint64_t off, uint64_t type,
		      uint64_t addend)
{
	unsigned word = elf_writer_word(&a->w.elf);

	elf_writer_put(&a->w.elf, b, off, word);
	elf_writer_put(&a->w.elf, b, type, word);
	if (!rel)
		elf_writer_put(&a->w.elf, b, addend, word);
}

static void relocations_of_every_machine(void **state)
{
	static const struct {
		enum elf_writer_target target;
		uint32_t address, word;
		bool rel;
		uint16_t machine; /* not the target's */
		unsigned type_at; /* split into the bits of r_info */
	} machines[] = {
		{ ELF_WRITER_X86_64, 1, 10, false },
		{ ELF_WRITER_I386, 1, 1, true },
		{ ELF_WRITER_AARCH64, 257, 258, false },
		{ ELF_WRITER_ARM, 2, 2, true },
		{ ELF_WRITER_RISCV64, 2, 1, false },
		{ ELF_WRITER_PPC64LE, 38, 1, false },
		{ ELF_WRITER_S390X, 22, 4, false },
		{ ELF_WRITER_PPC, 1, 1, false },
		{ ELF_WRITER_X86_64, 54, 23, false, EM_SPARCV9 },
		{ ELF_WRITER_X86_64, 18, 2, false, EM_MIPS, 56 }, /* 64 bit, little endian */
		{ ELF_WRITER_S390X, 18, 2, false, EM_MIPS },
		{ ELF_WRITER_PPC, 23, 23, false, EM_SPARC },
		{ ELF_WRITER_PPC, 1, 1, false, EM_68K },
		{ ELF_WRITER_X86_64, 0x27, 0x65, false, EM_IA_64 },
		{ ELF_WRITER_X86_64, 2, 3, false, EM_BPF },
		{ ELF_WRITER_PPC, 1, 1, false, EM_PARISC },
		{ ELF_WRITER_I386, 1, 1, true, EM_SH }, /* it adds to the word that is there, as REL */
		{ ELF_WRITER_I386, 1, 1, true, EM_XTENSA },
		{ ELF_WRITER_I386, 4, 4, false, 195 }, /* ARC */
		{ ELF_WRITER_I386, 1, 1, false, EM_AVR },
		{ ELF_WRITER_PPC, 1, 1, false, EM_OPENRISC },
		{ ELF_WRITER_I386, 6, 6, false, EM_QDSP6 },
		{ ELF_WRITER_X86_64, 2, 1, false, 251 }, /* VE */
		{ ELF_WRITER_PPC, 4, 4, false, 244 },    /* Lanai */
	};

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf relocs = { 0 };
		bool rel = machines[i].rel;
		uint64_t low, abbrev;
		unsigned at;

		answers_init(&a, machines[i].target, ET_REL);
		if (machines[i].machine)
			a.w.elf.machine = machines[i].machine;
		a.w.text = 0;
		code_unit_begin(&a.w);
		abbrev = 6; /* after length and version */
		code_die(&a.w, T_COMPILE, true, A_LANGUAGE, F_DATA1, U(0x1d), 0u);
		/* With REL the addend is in the section already. */
		low = code_die(&a.w, T_SUBPROGRAM, false, A_LOW, F_ADDR, U(rel ? 0x10 : 0x777), A_HIGH,
			       F_DATA4, U(0x20), A_NAME, F_STRING, S("f"), 0u) +
		      1;
		code_up(&a.w);
		code_unit_end(&a.w);
		put_reloc(&a, &relocs, rel, low, (uint64_t)machines[i].address << machines[i].type_at, 0x10);
		put_reloc(&a, &relocs, rel, abbrev, (uint64_t)machines[i].word << machines[i].type_at, 0);
		at = elf_writer_section(&a.w.elf, rel ? ".rel.debug_info" : ".rela.debug_info",
					rel ? SHT_REL : SHT_RELA, 0, buf_bytes(&relocs));
		elf_writer_at(&a.w.elf, at)->info = 3;
		answers_open(&a);
		assert_answer(&a, 0xf, "-");
		assert_answer(&a, 0x10, "f");
		assert_answer(&a, 0x2f, "f");
		assert_answer(&a, 0x30, "-");
	}
}

/* Without relocations functions would have names of others, so only symbols are used. */
static void relocations_of_an_unknown_machine_leave_the_symbols(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf relocs = { 0 };
	unsigned at;

	answers_init(&a, ELF_WRITER_X86_64, ET_REL);
	a.w.elf.machine = EM_VAX;
	add_plain(&a);
	put_reloc(&a, &relocs, false, 6, 5, 0);
	at = elf_writer_section(&a.w.elf, ".rela.debug_info", SHT_RELA, 0, buf_bytes(&relocs));
	elf_writer_at(&a.w.elf, at)->info = 3;
	code_symbol(&a.w, "g", STT_FUNC, STB_GLOBAL, 0x20, 0x10);
	a.w.symbols.p[a.w.symbols.size - 24 + 6] = 2; /* its section, after that of relocations */
	answers_open(&a);
	assert_answer(&a, 0x20, "g");
	assert_answer(&a, 0, "-");
	assert_reasons(&a, 1, ".debug_info: relocations of machine 75 are not known");
}

/* RISC-V's linker may shorten code, so lengths are differences of symbols, also in LEB128. */
static void differences_that_riscv_writes(void **state)
{
	static const struct {
		uint32_t add, sub;
		unsigned form;
	} pairs[] = { { 33, 37, F_DATA1 },
		      { 34, 38, F_DATA2 },
		      { 35, 39, F_DATA4 },
		      { 36, 40, F_DATA8 },
		      { 60, 61, F_UDATA } };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf relocs = { 0 };
		bool uleb = pairs[i].form == F_UDATA;
		uint64_t high;
		unsigned at;

		answers_init(&a, ELF_WRITER_RISCV64, ET_REL);
		a.w.text = 0;
		code_unit_begin(&a.w);
		code_die(&a.w, T_COMPILE, true, A_LANGUAGE, F_DATA1, U(0x1d), 0u);
		/* Two bytes of LEB128 stay two bytes. */
		high = code_die(&a.w, T_SUBPROGRAM, false, A_HIGH, pairs[i].form, U(uleb ? 0x80 : 0), A_LOW,
				F_ADDR, U(0x10), A_NAME, F_STRING, S("f"), 0u) +
		       1;
		code_up(&a.w);
		code_unit_end(&a.w);
		put_reloc(&a, &relocs, false, high, pairs[i].add, 0x50);
		put_reloc(&a, &relocs, false, high, pairs[i].sub, 0x30);
		at = elf_writer_section(&a.w.elf, ".rela.debug_info", SHT_RELA, 0, buf_bytes(&relocs));
		elf_writer_at(&a.w.elf, at)->info = 3;
		answers_open(&a);
		assert_answer(&a, 0x2f, "f");
		assert_answer(&a, 0x30, "-");
	}
}

/* A unit of a function f at 0x10 to 0x30 whose address and abbreviations have relocations. Returns the address's place. */
static uint64_t add_relocated_unit(struct answers *a, uint64_t low)
{
	uint64_t at;

	a->w.text = 0;
	code_unit_begin(&a->w);
	code_die(&a->w, T_COMPILE, true, A_LANGUAGE, F_DATA1, U(0x1d), 0u);
	at = code_die(&a->w, T_SUBPROGRAM, false, A_LOW, F_ADDR, U(low), A_HIGH, F_DATA4, U(0x20), A_NAME,
		      F_STRING, S("f"), 0u) +
	     1;
	code_up(&a->w);
	code_unit_end(&a->w);
	return at;
}

static void open_relocated(struct answers *a, const char *name, unsigned type, const struct buf *relocs)
{
	elf_writer_at(&a->w.elf, elf_writer_section(&a->w.elf, name, type, 0, buf_bytes(relocs)))->info = 3;
	answers_open(a);
}

/*
 * Two entries: the abbreviations' offset at 6, and the function's address, which is 0x777 without it. Without addends
 * the values are in the section.
 */
static void relocations_in_crel(void **state)
{
	for (unsigned shift = 0; shift < 2; shift++)
		for (int addends = 0; addends < 2; addends++) {
			AUTO(answers_done) struct answers a;
			AUTO(buf_done) struct buf b = { 0 };
			uint64_t at, step;
			unsigned flags = addends ? 3 : 2;

			answers_init(&a, ELF_WRITER_X86_64, ET_REL);
			at = add_relocated_unit(&a, addends ? 0x777 : 0x10);
			if (shift && at & 1)
				continue;
			step = (at - 6) >> shift;
			buf_add_uleb(&b, (uint64_t)2 << 3 | (unsigned)addends << 2 | shift);
			/* R_X86_64_32 at 6 */
			buf_add_char(&b, (char)((6 >> shift) << flags | 2));
			buf_add_char(&b, 10);
			/* R_X86_64_64 at the address: a step that needs two bytes, kind - 9, addend + 0x10 */
			if (step >> (7 - flags)) {
				buf_add_char(&b,
					     (char)((step << flags & 0x7f) | 0x80 | 2 | (addends ? 4 : 0)));
				buf_add_uleb(&b, step >> (7 - flags));
			} else {
				buf_add_char(&b, (char)(step << flags | 2 | (addends ? 4 : 0)));
			}
			buf_add_char(&b, -9 & 0x7f);
			if (addends)
				buf_add_char(&b, 0x10);
			open_relocated(&a, ".crel.debug_info", SHT_CREL_TYPE, &b);
			assert_answer(&a, 0xf, "-");
			assert_answer(&a, 0x10, "f");
			assert_answer(&a, 0x30, "-");
			assert_reasons(&a, 0, NULL);
		}
}

/* More entries than there are bytes: what the section says is not applied, so none of it is used. */
static void a_crel_section_that_is_cut_is_damage(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf b = { 0 };

	answers_init(&a, ELF_WRITER_X86_64, ET_REL);
	add_plain(&a);
	code_symbol(&a.w, "g", STT_FUNC, STB_GLOBAL, 0x20, 0x10);
	a.w.symbols.p[a.w.symbols.size - 24 + 6] = 2;
	buf_add_uleb(&b, UINT64_MAX);
	buf_add(&b, "\0\0\0", 3);
	open_relocated(&a, ".crel.debug_info", SHT_CREL_TYPE, &b);
	assert_answer(&a, 0, "-");
	assert_answer(&a, 0x20, "g");
	assert_reasons(&a, 1, ".debug_info: CREL ends early at offset 13");
}

/* A section that is cut, or whose symbols are nowhere: with the rest of it functions would be at addresses of others. */
static void sections_of_relocations_that_are_damaged(void **state)
{
	static const char *const reasons[] = {
		".debug_info: 47 bytes of relocations are not whole entries of 24",
		".debug_info: the symbols of its relocations are in section 999 of ",
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf relocs = { 0 };
		const struct symtab_info *info;
		struct elf_writer_section *sec;

		answers_init(&a, ELF_WRITER_X86_64, ET_REL);
		add_plain(&a);
		code_symbol(&a.w, "g", STT_FUNC, STB_GLOBAL, 0x20, 0x10);
		a.w.symbols.p[a.w.symbols.size - 24 + 6] = 2;
		put_reloc(&a, &relocs, false, 6, 10, 0);
		put_reloc(&a, &relocs, false, 6, 10, 0);
		relocs.size -= i == 0;
		sec = elf_writer_at(&a.w.elf, elf_writer_section(&a.w.elf, ".rela.debug_info", SHT_RELA, 0,
								 buf_bytes(&relocs)));
		sec->info = 3;
		sec->link = i == 1 ? 999 : 0;
		answers_open(&a);
		assert_answer(&a, 0, "-");
		assert_answer(&a, 0x20, "g");
		info = symtab_info(a.t);
		assert_int_equal(info->n_reasons, 1);
		if (!str_starts(info->skipped[0], str_of(reasons[i])))
			fail_msg(STR_FMT, STR_ARG(info->skipped[0]));
	}
}

static void only_relocations_of_unknown_kinds_are_a_loss(void **state)
{
	static const struct {
		struct {
			unsigned kind, addend;
		} relocs[3];
		const char *reason;
	} cases[] = {
		/* The rest is of use, and the table says what was left out. */
		{ { { 10, 0 }, { 77, 0x666 }, { 78, 0x666 } },
		  ".debug_info: 2 relocations left out, the first of kind 77, "
		  "which is not known for machine 62" },
		/* The kind without an effect, and offsets of thread-local variables. */
		{ { { 0, 0x666 }, { 17, 0x666 }, { 21, 0x666 } }, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf relocs = { 0 };

		answers_init(&a, ELF_WRITER_X86_64, ET_REL);
		add_relocated_unit(&a, 0x10);
		for (size_t k = 0; k < ARRAY_SIZE(cases[i].relocs); k++)
			put_reloc(&a, &relocs, false, 6, cases[i].relocs[k].kind, cases[i].relocs[k].addend);
		open_relocated(&a, ".rela.debug_info", SHT_RELA, &relocs);
		assert_answer(&a, 0x10, "f");
		assert_reasons(&a, cases[i].reason != NULL, cases[i].reason);
	}
}

/*
 * `ld -r` keeps the description of code that it drops, without a relocation of its address: 0 is the first
 * section's, too. The dropped function has a call and so would be preferred.
 */
static void code_that_a_relocatable_link_dropped_is_nowhere(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf relocs = { 0 };
	uint64_t at, origin;
	unsigned rela;

	answers_init(&a, ELF_WRITER_X86_64, ET_REL);
	at = add_relocated_unit(&a, 0);
	code_unit_begin(&a.w);
	code_die(&a.w, T_COMPILE, true, A_LANGUAGE, F_DATA1, U(0x1d), 0u);
	origin = add_abstract(&a, "called");
	begin_function(&a, "dropped", 0, 0x80);
	add_inlined(&a, origin, 0x10, 0x20);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x10, 0x20);
	a.w.symbols.p[a.w.symbols.size - 24 + 6] = 2; /* .text, after the section of relocations */
	put_reloc(&a, &relocs, false, at, (uint64_t)1 << 32 | 1, 0);
	rela = elf_writer_section(&a.w.elf, ".rela.debug_info", SHT_RELA, 0, buf_bytes(&relocs));
	elf_writer_at(&a.w.elf, rela)->info = 3;
	elf_writer_at(&a.w.elf, rela)->link = 6; /* .text, .debug_info, .debug_abbrev, .debug_str, .symtab */
	answers_open(&a);
	assert_answer(&a, 0xf, "-");
	assert_answer(&a, 0x10, "f");
	assert_answer(&a, 0x2f, "f");
	assert_answer(&a, 0x30, "-");
	assert_reasons(&a, 0, NULL);
}

/* A symbol has 16 bits for the number of its section. Larger ones are in a section of their own. */
static void relocations_by_symbols_of_extended_section_numbers(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf relocs = { 0 }, numbers = { 0 };
	unsigned first, rela, shndx;
	uint64_t at;

	answers_init(&a, ELF_WRITER_X86_64, ET_REL);
	first = elf_writer_nobits(&a.w.elf, ".text.first", SHF_ALLOC | SHF_EXECINSTR, 0x100);
	elf_writer_at(&a.w.elf, first)->align = 16;
	at = add_relocated_unit(&a, 0x777);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0, 0x20);
	memset(a.w.symbols.p + a.w.symbols.size - 24 + 6, 0xff, 2); /* SHN_XINDEX */
	put_reloc(&a, &relocs, false, at, (uint64_t)1 << 32 | 1, 0x10);
	rela = elf_writer_section(&a.w.elf, ".rela.debug_info", SHT_RELA, 0, buf_bytes(&relocs));
	elf_writer_put(&a.w.elf, &numbers, 0, 4);
	elf_writer_put(&a.w.elf, &numbers, 4, 4); /* .text, after these three */
	shndx = elf_writer_section(&a.w.elf, ".symtab_shndx", SHT_SYMTAB_SHNDX, 0, buf_bytes(&numbers));
	elf_writer_at(&a.w.elf, rela)->info = 5;
	elf_writer_at(&a.w.elf, rela)->link = elf_writer_at(&a.w.elf, shndx)->link = 8;
	answers_open(&a);
	assert_answer(&a, 0x10, "-");
	assert_answer(&a, 0x110, "f");
	assert_answer(&a, 0x12f, "f");
	assert_answer(&a, 0x130, "-");
}

/* As clang writes them for code that the linker may shorten (-mrelax). */
static void differences_that_loongarch_writes(void **state)
{
	static const struct {
		unsigned form, add, sub;
	} pairs[] = { { F_DATA1, 47, 52 }, { F_DATA2, 48, 53 }, { F_DATA4, 50, 55 }, { F_UDATA, 107, 108 } };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf relocs = { 0 };
		uint64_t high;

		answers_init(&a, ELF_WRITER_X86_64, ET_REL);
		a.w.elf.machine = EM_LOONGARCH;
		a.w.text = 0;
		code_unit_begin(&a.w);
		code_die(&a.w, T_COMPILE, true, A_LANGUAGE, F_DATA1, U(0x1d), 0u);
		high = code_die(&a.w, T_SUBPROGRAM, false, A_HIGH, pairs[i].form, U(0), A_LOW, F_ADDR,
				U(0x10), A_NAME, F_STRING, S("f"), 0u) +
		       1;
		code_up(&a.w);
		code_unit_end(&a.w);
		put_reloc(&a, &relocs, false, high, pairs[i].add, 0x50);
		put_reloc(&a, &relocs, false, high, pairs[i].sub, 0x30);
		open_relocated(&a, ".rela.debug_info", SHT_RELA, &relocs);
		assert_answer(&a, 0x2f, "f");
		assert_answer(&a, 0x30, "-");
		assert_reasons(&a, 0, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(relocations_of_a_linked_file_are_not_applied_again),
		cmocka_unit_test(relocations_of_every_machine),
		cmocka_unit_test(relocations_of_an_unknown_machine_leave_the_symbols),
		cmocka_unit_test(differences_that_riscv_writes),
		cmocka_unit_test(differences_that_loongarch_writes),
		cmocka_unit_test(relocations_in_crel),
		cmocka_unit_test(a_crel_section_that_is_cut_is_damage),
		cmocka_unit_test(sections_of_relocations_that_are_damaged),
		cmocka_unit_test(only_relocations_of_unknown_kinds_are_a_loss),
		cmocka_unit_test(relocations_by_symbols_of_extended_section_numbers),
		cmocka_unit_test(code_that_a_relocatable_link_dropped_is_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
