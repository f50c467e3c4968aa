#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbol tables of a large debug file: lode beside llvm-gsymutil, llvm-symbolizer, eu-addr2line.

    bench/symbols.py FILE [--build FOLDER] [--runs 3]

FOLDER is where bench-dwarf-walk and bench-symtab were built (build). CPU seconds are the median of the runs; "limit" is a walk over all DIEs
and rows of the file, in the same run on the same machine.
"""

import argparse
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import tempfile

from common import LODE, ROOT, Table, median


def cpu(argv, text=None):
    """(CPU seconds, peak MB) of a program that ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(["/usr/bin/env", *map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        p.communicate(text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_tool(*names):
    return next((n for n in names if shutil.which(n)), None)


def text_of(path):
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    m = re.search(r"\] \.text +(?:PROGBITS|NOBITS) +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", out)
    return int(m[1], 16), int(m[2], 16)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--runs", type=int, default=3)
    a = p.parse_args()
    gsymutil = first_tool("llvm-gsymutil", *(f"llvm-gsymutil-{v}" for v in range(22, 13, -1)))
    t = Table()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)

        def of(*argv, text=None):
            return median([cpu(argv, text) for _ in range(a.runs)])

        walk = of(a.build / "bench/bench-dwarf-walk", a.file)
        theirs = of(gsymutil, "--convert", a.file, "-o", tmp / "gsym", "--num-threads=1", "--quiet") if gsymutil else None
        ours = of(LODE, "symtab", "build", "--threads", 1, "-o", tmp / "sym", a.file)
        t.add(f"convert, one thread ({gsymutil})", ours, theirs, walk, 0.30)
        gsym_size = (tmp / "gsym").stat().st_size / 1e6 if gsymutil else None
        t.add("table, with columns", (tmp / "sym").stat().st_size / 1e6, gsym_size, None, None, "MB")
        subprocess.run([LODE, "symtab", "build", "--no-columns", "-o", tmp / "small", a.file], check=True, stderr=subprocess.DEVNULL)
        t.add("table, lines alone", (tmp / "small").stat().st_size / 1e6, gsym_size, None, 7.0, "MB")
        base, size = text_of(a.file)
        rng = random.Random(1)
        text = "".join(f"0x{base + rng.randrange(size):x}\n" for _ in range(100000)).encode()
        t.add("100 000 addresses, cold process", of(LODE, "symbolize", "-e", tmp / "sym", "--output-style", "llvm", text=text),
              of("llvm-symbolizer", "-e", a.file, text=text), None, 0.10)
        one = f"0x{base + size // 2:x}"
        t.add("one address from a table", of(LODE, "symbolize", "-e", tmp / "sym", one), None, None, 0.002)
        t.add("one address without a table", of(LODE, "symbolize", "-e", a.file, one), of("eu-addr2line", "-fi", "-e", a.file, one), None, 0.05)
        out = subprocess.run([a.build / "bench/bench-symtab", a.file], capture_output=True, text=True, check=True).stdout
        rates = dict(re.findall(r"^(random|sorted): ([0-9.]+) M/s", out, re.M))
        t.add("sorted look-ups with strings", float(rates["sorted"]) * 1e6, None, None, 4e6, "/s")
        t.add("random look-ups with strings", float(rates["random"]) * 1e6, None, None, None, "/s")
        peak = re.search(r"peak ([0-9.]+) MB", out)
        t.add("memory of a conversion, all of it", float(peak[1]), None, None, None, "MB")
    t.print()


if __name__ == "__main__":
    main()
