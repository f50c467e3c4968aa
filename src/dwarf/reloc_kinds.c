/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of relocations that compilers write for debug sections: words of 2, 4 or 8 bytes; differences of two
 * symbols, of machines whose linkers move code (RISC-V, LoongArch), also in LEB128, which keeps its size; and kinds that
 * change nothing that is read here.
 */
#include "dwarf/internal.h"

#include <elf.h>

/* Not in all versions of elf.h. */
#define EM_ARC_COMPACT2_MACHINE 195
#define EM_LANAI_MACHINE        244
#define EM_VE_MACHINE           251

static const struct dwarf_reloc_kind kinds[] = {
	{ EM_X86_64, 10, 4, DWARF_RELOC_SET },   /* R_X86_64_32 */
	{ EM_X86_64, 1, 8, DWARF_RELOC_SET },    /* R_X86_64_64 */
	{ EM_X86_64, 11, 4, DWARF_RELOC_SET },   /* R_X86_64_32S */
	{ EM_386, 1, 4, DWARF_RELOC_SET },       /* R_386_32 */
	{ EM_AARCH64, 258, 4, DWARF_RELOC_SET }, /* R_AARCH64_ABS32 */
	{ EM_AARCH64, 257, 8, DWARF_RELOC_SET }, /* R_AARCH64_ABS64 */
	{ EM_ARM, 2, 4, DWARF_RELOC_SET },       /* R_ARM_ABS32 */
	{ EM_RISCV, 1, 4, DWARF_RELOC_SET },     /* R_RISCV_32 */
	{ EM_RISCV, 2, 8, DWARF_RELOC_SET },     /* R_RISCV_64 */
	{ EM_RISCV, 33, 1, DWARF_RELOC_ADD },    /* R_RISCV_ADD8 and so on */
	{ EM_RISCV, 34, 2, DWARF_RELOC_ADD },
	{ EM_RISCV, 35, 4, DWARF_RELOC_ADD },
	{ EM_RISCV, 36, 8, DWARF_RELOC_ADD },
	{ EM_RISCV, 37, 1, DWARF_RELOC_SUB },
	{ EM_RISCV, 38, 2, DWARF_RELOC_SUB },
	{ EM_RISCV, 39, 4, DWARF_RELOC_SUB },
	{ EM_RISCV, 40, 8, DWARF_RELOC_SUB },
	{ EM_RISCV, 54, 1, DWARF_RELOC_SET },
	{ EM_RISCV, 55, 2, DWARF_RELOC_SET },
	{ EM_RISCV, 56, 4, DWARF_RELOC_SET },
	{ EM_RISCV, 60, 1, DWARF_RELOC_SET_LEB },
	{ EM_RISCV, 61, 1, DWARF_RELOC_SUB_LEB },
	{ EM_PPC64, 1, 4, DWARF_RELOC_SET },     /* R_PPC64_ADDR32 */
	{ EM_PPC64, 38, 8, DWARF_RELOC_SET },    /* R_PPC64_ADDR64 */
	{ EM_PPC, 1, 4, DWARF_RELOC_SET },       /* R_PPC_ADDR32 */
	{ EM_S390, 4, 4, DWARF_RELOC_SET },      /* R_390_32 */
	{ EM_S390, 22, 8, DWARF_RELOC_SET },     /* R_390_64 */
	{ EM_LOONGARCH, 1, 4, DWARF_RELOC_SET }, /* R_LARCH_32 */
	{ EM_LOONGARCH, 2, 8, DWARF_RELOC_SET }, /* R_LARCH_64 */
	{ EM_MIPS, 2, 4, DWARF_RELOC_SET },      /* R_MIPS_32 */
	{ EM_MIPS, 18, 8, DWARF_RELOC_SET },     /* R_MIPS_64 */
	{ EM_SPARC, 3, 4, DWARF_RELOC_SET },     /* R_SPARC_32 */
	{ EM_SPARC, 23, 4, DWARF_RELOC_SET },    /* R_SPARC_UA32 */
	{ EM_SPARCV9, 3, 4, DWARF_RELOC_SET },   /* the same two */
	{ EM_SPARCV9, 23, 4, DWARF_RELOC_SET },
	{ EM_SPARCV9, 32, 8, DWARF_RELOC_SET }, /* R_SPARC_64 */
	{ EM_SPARCV9, 54, 8, DWARF_RELOC_SET }, /* R_SPARC_UA64 */
	{ EM_ALPHA, 1, 4, DWARF_RELOC_SET },    /* R_ALPHA_REFLONG */
	{ EM_ALPHA, 2, 8, DWARF_RELOC_SET },    /* R_ALPHA_REFQUAD */
	{ EM_IA_64, 0x25, 4, DWARF_RELOC_SET }, /* R_IA64_DIR32LSB */
	{ EM_IA_64, 0x27, 8, DWARF_RELOC_SET }, /* R_IA64_DIR64LSB */
	{ EM_IA_64, 0x65, 4, DWARF_RELOC_SET }, /* R_IA64_SECREL32LSB: of debug sections, which begin at 0 */
	{ EM_68K, 1, 4, DWARF_RELOC_SET },      /* R_68K_32 */
	{ EM_CSKY, 1, 4, DWARF_RELOC_SET },     /* R_CKCORE_ADDR32 */
	{ EM_MSP430, 1, 4, DWARF_RELOC_SET },   /* R_MSP430_32 */
	{ EM_MSP430, 5, 2, DWARF_RELOC_SET },   /* R_MSP430_16_BYTE */
	{ EM_BPF, 2, 8, DWARF_RELOC_SET },      /* R_BPF_64_ABS64 */
	{ EM_BPF, 3, 4, DWARF_RELOC_SET },      /* R_BPF_64_ABS32 */
	{ EM_BPF, 1, 8, DWARF_RELOC_SET }, /* R_BPF_64_64 and R_BPF_64_32: what LLVM wrote before these */
	{ EM_BPF, 10, 4, DWARF_RELOC_SET },
	{ EM_LOONGARCH, 47, 1, DWARF_RELOC_ADD }, /* R_LARCH_ADD8 and so on */
	{ EM_LOONGARCH, 48, 2, DWARF_RELOC_ADD },
	{ EM_LOONGARCH, 49, 3, DWARF_RELOC_ADD },
	{ EM_LOONGARCH, 50, 4, DWARF_RELOC_ADD },
	{ EM_LOONGARCH, 51, 8, DWARF_RELOC_ADD },
	{ EM_LOONGARCH, 52, 1, DWARF_RELOC_SUB },
	{ EM_LOONGARCH, 53, 2, DWARF_RELOC_SUB },
	{ EM_LOONGARCH, 54, 3, DWARF_RELOC_SUB },
	{ EM_LOONGARCH, 55, 4, DWARF_RELOC_SUB },
	{ EM_LOONGARCH, 56, 8, DWARF_RELOC_SUB },
	{ EM_LOONGARCH, 107, 1, DWARF_RELOC_ADD_LEB },
	{ EM_LOONGARCH, 108, 1, DWARF_RELOC_SUB_LEB },
	{ EM_PARISC, 1, 4, DWARF_RELOC_SET },               /* R_PARISC_DIR32 */
	{ EM_SH, 1, 4, DWARF_RELOC_ADD },                   /* R_SH_DIR32 */
	{ EM_ARC_COMPACT2_MACHINE, 4, 4, DWARF_RELOC_SET }, /* R_ARC_32 */
	{ EM_AVR, 1, 4, DWARF_RELOC_SET },                  /* R_AVR_32 */
	{ EM_AVR, 4, 2, DWARF_RELOC_SET },                  /* R_AVR_16 */
	{ EM_OPENRISC, 1, 4, DWARF_RELOC_SET },             /* R_OR1K_32 */
	{ EM_XTENSA, 1, 4, DWARF_RELOC_ADD },               /* R_XTENSA_32 */
	{ EM_QDSP6, 6, 4, DWARF_RELOC_SET },                /* R_HEX_32 */
	{ EM_VE_MACHINE, 1, 4, DWARF_RELOC_SET },           /* R_VE_REFLONG */
	{ EM_VE_MACHINE, 2, 8, DWARF_RELOC_SET },           /* R_VE_REFQUAD */
	{ EM_LANAI_MACHINE, 4, 4, DWARF_RELOC_SET },        /* R_LANAI_32 */

	/* Offsets of thread-local variables, in descriptions of variables. */
	{ EM_X86_64, 17, 8, DWARF_RELOC_NONE },
	{ EM_X86_64, 21, 4, DWARF_RELOC_NONE },
	{ EM_386, 32, 4, DWARF_RELOC_NONE },
	{ EM_AARCH64, 1029, 8, DWARF_RELOC_NONE },
	{ EM_ARM, 106, 4, DWARF_RELOC_NONE },
	{ EM_PPC64, 78, 8, DWARF_RELOC_NONE },
	{ EM_PPC, 78, 4, DWARF_RELOC_NONE },
	{ EM_S390, 52, 4, DWARF_RELOC_NONE },
	{ EM_S390, 53, 8, DWARF_RELOC_NONE },
	{ EM_MIPS, 39, 4, DWARF_RELOC_NONE },
	{ EM_MIPS, 41, 8, DWARF_RELOC_NONE },
	{ EM_RISCV, 8, 4, DWARF_RELOC_NONE },
	{ EM_RISCV, 9, 8, DWARF_RELOC_NONE },
	{ EM_LOONGARCH, 8, 4, DWARF_RELOC_NONE },
	{ EM_LOONGARCH, 9, 8, DWARF_RELOC_NONE },
	{ EM_SPARC, 76, 4, DWARF_RELOC_NONE },
	{ EM_SPARCV9, 76, 4, DWARF_RELOC_NONE },
	{ EM_SPARCV9, 77, 8, DWARF_RELOC_NONE },
	{ EM_68K, 31, 4, DWARF_RELOC_NONE },
	{ EM_SH, 146, 4, DWARF_RELOC_NONE },
	{ EM_ALPHA, 33, 8, DWARF_RELOC_NONE },
	{ EM_IA_64, 0xb7, 8, DWARF_RELOC_NONE },

	/* Marks for linkers that move code; the difference is there already. */
	{ EM_AVR, 30, 1, DWARF_RELOC_NONE },
	{ EM_AVR, 31, 2, DWARF_RELOC_NONE },
	{ EM_AVR, 32, 4, DWARF_RELOC_NONE },
	{ EM_XTENSA, 17, 1, DWARF_RELOC_NONE },
	{ EM_XTENSA, 18, 2, DWARF_RELOC_NONE },
	{ EM_XTENSA, 19, 4, DWARF_RELOC_NONE },
	{ EM_XTENSA, 57, 1, DWARF_RELOC_NONE },
	{ EM_XTENSA, 58, 2, DWARF_RELOC_NONE },
	{ EM_XTENSA, 59, 4, DWARF_RELOC_NONE },
	{ EM_XTENSA, 60, 1, DWARF_RELOC_NONE },
	{ EM_XTENSA, 61, 2, DWARF_RELOC_NONE },
	{ EM_XTENSA, 62, 4, DWARF_RELOC_NONE },
	{ EM_RISCV, 51, 1, DWARF_RELOC_NONE },
	{ EM_LOONGARCH, 100, 1, DWARF_RELOC_NONE },
};

const struct dwarf_reloc_kind *dwarf_reloc_kind_find(uint16_t machine, uint32_t type)
{
	/* 0 is the kind without an effect on every machine. */
	static const struct dwarf_reloc_kind none = { .op = DWARF_RELOC_NONE };

	if (!type)
		return &none;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].machine == machine && kinds[i].type == type)
			return &kinds[i];
	return NULL;
}

bool dwarf_reloc_machine_known(uint16_t machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].machine == machine)
			return true;
	return false;
}
