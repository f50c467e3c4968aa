/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual names of machines.
 */
#include "elf/elf.h"

#include <elf.h>

static const struct {
	uint16_t machine;
	const char *name;
} machines[] = {
	{ EM_X86_64, "x86-64" },
	{ EM_386, "i386" },
	{ EM_AARCH64, "aarch64" },
	{ EM_ARM, "arm" },
	{ EM_RISCV, "riscv" },
	{ EM_PPC64, "ppc64" },
	{ EM_PPC, "ppc" },
	{ EM_S390, "s390" },
	{ EM_MIPS, "mips" },
	{ EM_LOONGARCH, "loongarch" },
	{ EM_SPARC, "sparc" },
	{ EM_SPARC32PLUS, "sparc32plus" },
	{ EM_SPARCV9, "sparc64" },
	{ EM_IA_64, "ia64" },
	{ EM_PARISC, "hppa" },
	{ EM_68K, "m68k" },
	{ EM_SH, "sh" },
	{ EM_ALPHA, "alpha" },
	{ 0x9026, "alpha" }, /* binutils still writes this number */
	{ EM_ARC_COMPACT, "arc" },
	{ EM_XTENSA, "xtensa" },
	{ EM_CSKY, "csky" },
	{ EM_OPENRISC, "openrisc" },
	{ EM_MICROBLAZE, "microblaze" },
	{ EM_AVR, "avr" },
	{ EM_MSP430, "msp430" },
	{ EM_BPF, "bpf" },
	{ EM_CUDA, "cuda" },
	{ EM_AMDGPU, "amdgpu" },
	{ EM_NONE, "none" },
};

const char *elf_machine_name(uint16_t machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == machine)
			return machines[i].name;
	return "unknown machine";
}
