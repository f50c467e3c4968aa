#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile.py CLANG LLVM-STRIP SRC INPUT OUTPUT DEPFILE: compile a BPF program, and take DWARF away ("-": leave it)."""
import os
import subprocess
import sys

clang, strip, src, source, output, depfile = sys.argv[1:]
# Headers of the kernel include <asm/types.h>, which is in a folder of the machine's own compiler.
triplet = subprocess.run([clang, '-print-multiarch'], capture_output=True, text=True).stdout.strip() or 'x86_64-linux-gnu'
subprocess.run([clang, '-target', 'bpf', '-mcpu=v2', '-g', '-O2', '-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter', '-I' + src,
                '-idirafter', '/usr/include/' + triplet, '-MD', '-MF', depfile, '-MT', output, '-c', source, '-o', output],
               check=True, env=dict(os.environ, LC_ALL='C'))
if strip != '-':
    subprocess.run([strip, '-g', output], check=True)
