#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbol tables of a large debug file: lode beside llvm-gsymutil, llvm-symbolizer, eu-addr2line.

    bench/symbols.py FILE... [--build FOLDER] [--runs 5]

FOLDER has bench-run, bench-dwarf-walk and bench-symtab (build). Seconds are CPU seconds (user and system) unless a row says wall; each
is the least of the runs, which alternate between the programs. Addresses come from a pipe; output is discarded. "limit" is a walk over all DIEs
and rows of the file, in the same run on the same machine, and decompressing sections if they are compressed. A target is a factor over the
other program: the wanted time on the machine where that program's time was measured, scaled by its time here. If the other program is not
available (SymCache), the factor refers to gsymutil. Targets of sizes and rates are for the cloud kernel's vmlinux; for other files, sizes are
compared with gsymutil's by the same factors.

Memory is the peak of a process that was started by a small one (bench-run), since the peak of a process includes that of the process that
forked it, and Python's is 14 MB. The target is memory in addition to the mapped input and the output. lode maps nothing of its input; only the
size of the table is subtracted from its peak, since the table is in memory until it is written. So the program itself, about 3 MB, is
included. gsymutil maps its input, and nothing is subtracted from its peak.

Where a conversion's time goes, of 2.13 thousand million instructions for the cloud kernel (callgrind; 2.37 before types and declarations
were skipped in place): 21 % all DIEs, 7 % their abbreviations, 17 % line programs (these three are "limit"), 28 % converting functions
into rows and calls, of which a quarter is writing them, 11 % blocks, 2 % symbols. Names are 8 % of the instructions and 15 % of the time: they
wait for memory, though much of it is prefetched. A sixth of the CPU time is the system's: half of that copies .debug_info and .debug_line
from the page cache, half is first touches of memory; large pages (madvise) made no visible difference. The peak is at the
end, when code ranges, rows and strings are in memory and blocks are being written; the sections that only reading needs are freed by then.

For a program of some megabytes a third is the system's. Clang's one unit of a 10 MB file, 0.04 s: 1.2 ms a process that does nothing, 1.9 ms
copying 8.8 MB of sections, 1.0 ms writing and syncing the table, 10 ms for 4 000 pages that are touched for the first time (2.5 us each on the
virtual machine of this measurement), of which 2 200 are the input's; 0.02 s for 160 million instructions, of which no function has a tenth
(Rust: DIEs 16 %, line programs 8 %, rows 9 %, LZ4 7 %, blocks 5 %).

Instructions (callgrind, -O3, one thread), since changes of some per cent are below the noise of times: libc6-dbg's libc 294.4 million to
convert and 362.2 to answer 100 000 addresses; python3.11-dbg's largest debug file (11 MB) 830.5 and 494.6; lode itself (GCC 12) 212.2 and
417.8.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from common import LODE, ROOT, Table

# Seconds of the other programs on the machine of the targets: llvm-gsymutil; llvm-symbolizer for 100 000 addresses, for one; eu-addr2line
# for one.
GSYMUTIL, SYMBOLIZER, SYMBOLIZER_ONE, EU_ONE = 1.73, 1.95, 0.11, 0.02
# (gsymutil's, target) in MB: memory, table, packed table.
SIZES = ((441.0, 64.0), (14.8, 7.0), (6.1, 5.0))


Cost = collections.namedtuple("Cost", "cpu wall peak")  # seconds, seconds, MB
NONE = Cost(None, None, None)


def run(build, argv, text):
    """The cost of a program that gets @text from a pipe."""
    r = subprocess.run([build / "bench/bench-run", *map(str, argv)], input=text or b"", stdout=subprocess.PIPE)
    # eu-addr2line exits with 1 for an unknown address.
    if r.returncode and (argv[0] == LODE or not r.stdout):
        sys.exit(f"{argv[0]}: exit status {r.returncode}")
    return Cost(*map(float, r.stdout.split()))


def first_tool(*names):
    return next((n for n in names if shutil.which(n)), None)


def text_of(path):
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    m = re.search(r"\] \.text +(?:PROGBITS|NOBITS) +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", out)
    return int(m[1], 16), int(m[2], 16)


def zstd_size(path):
    return len(subprocess.run(["zstd", "-19", "-c", "-q", path], capture_output=True, check=True).stdout) / 1e6


class Turns:
    """Run programs in turns; returns the least cost of each."""

    def __init__(self, build, runs):
        self.build, self.runs = build, runs

    def __call__(self, *commands, text=None):
        least = [NONE] * len(commands)
        for _ in range(self.runs):
            for i, argv in enumerate(commands):
                if argv and argv[0]:
                    got = run(self.build, argv, text)
                    least[i] = got if least[i] is NONE else Cost(*map(min, least[i], got))
        return least


def factor(now, wanted, was, otherwise=None):
    """The target on a machine where the other program takes @now; it was @wanted where that took @was."""
    return wanted * now / was if now else otherwise


def wanted_of(theirs, wanted, was, otherwise):
    return Cost(factor(theirs.cpu, wanted, was, otherwise), factor(theirs.wall, wanted, was, otherwise), None)


def add_both(t, what, ours, theirs, wanted, limit=NONE, unit="s"):
    """Add a row each for wall and CPU time."""
    for name, field in ((f"{what}, wall", "wall"), ("... CPU", "cpu")):
        times = (getattr(x, field) for x in (ours, theirs, limit, wanted))
        t.add(name, *(x if x is None or unit == "s" else x * 1e3 for x in times), unit)


def measure(a):
    gsymutil = first_tool("llvm-gsymutil", *(f"llvm-gsymutil-{v}" for v in range(22, 13, -1)))
    symbolizer, eu = first_tool("llvm-symbolizer"), first_tool("eu-addr2line")
    t = Table()
    turns = Turns(a.build, a.runs)
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        table = tmp / "sym"
        walk, theirs, ours = turns([a.build / "bench/bench-dwarf-walk", a.file],
                                   [gsymutil, "--convert", a.file, "-o", tmp / "gsym", "--num-threads=1", "--quiet"],
                                   [LODE, "symtab", "build", "--threads", 1, "-o", table, a.file])
        scale = theirs.cpu / GSYMUTIL if theirs.cpu else 1
        is_kernel = a.file.name.startswith("vmlinux")

        def size_target(which, of_theirs):
            was, wanted = SIZES[which]
            return wanted if is_kernel else factor(of_theirs, wanted, was)

        t.add(f"convert, one thread ({gsymutil})", ours.cpu, theirs.cpu, walk.cpu, 0.30 * scale)
        size, gsym_size = table.stat().st_size / 1e6, (tmp / "gsym").stat().st_size / 1e6 if theirs.cpu else None
        t.add("memory of it, beside the output (gsymutil's: all)", ours.peak - size, theirs.peak, None, size_target(0, theirs.peak), "MB")
        t.add("table, with columns", size, gsym_size, None, size_target(1, gsym_size), "MB")
        gsym_packed = zstd_size(tmp / "gsym") if theirs.cpu else None
        t.add("... zstd -19", zstd_size(table), gsym_packed, None, size_target(2, gsym_packed), "MB")
        subprocess.run([LODE, "symtab", "build", "--no-columns", "-o", tmp / "small", a.file], check=True, stderr=subprocess.DEVNULL)
        t.add("table, lines alone", (tmp / "small").stat().st_size / 1e6, gsym_size, None, size_target(1, gsym_size), "MB")

        base, size = text_of(a.file)
        rng = random.Random(1)
        text = "".join(f"0x{base + rng.randrange(size):x}\n" for _ in range(100000)).encode()
        ours, theirs = turns([LODE, "symbolize", "-e", table, "--output-style", "llvm"], [symbolizer, "-e", a.file], text=text)
        add_both(t, "100 000 addresses, cold process (llvm-symbolizer)", ours, theirs, wanted_of(theirs, 0.10, SYMBOLIZER, 0.10 * scale))
        one = f"0x{base + size // 2:x}"
        ours, nothing = turns([LODE, "symbolize", "-e", table, one], ["true"])
        wanted = 0.002 * scale if is_kernel else None
        add_both(t, "one address from a table (limit: a process that does nothing)", ours, NONE, Cost(wanted, wanted, None), nothing, "ms")
        os.environ["LODE_SYMTAB_CACHE"] = ""  # no cache: every run is a first one
        ours, theirs, llvm = turns([LODE, "symbolize", "-e", a.file, one], [eu, "-fi", "-e", a.file, one],
                                   [symbolizer, "-e", a.file, one])
        add_both(t, "one address without a table (eu-addr2line)", ours, theirs,
                 wanted_of(NONE if is_kernel else theirs, 0.05, EU_ONE, 0.05 * scale))
        add_both(t, "one address without a table (llvm-symbolizer)", ours, llvm, wanted_of(llvm, 0.05, SYMBOLIZER_ONE, 0.05 * scale))
        rates = {}
        for _ in range(a.runs):
            out = subprocess.run([a.build / "bench/bench-symtab", a.file], capture_output=True, text=True, check=True).stdout
            for name, rate in re.findall(r"^(random|sorted): ([0-9.]+) M/s", out, re.M):
                rates[name] = max(rates.get(name, 0), float(rate))
        t.add("sorted look-ups with strings", rates["sorted"] * 1e6, None, None, 4e6 / scale if is_kernel else None, "/s")
        t.add("random look-ups with strings", rates["random"] * 1e6, None, None, None, "/s")
    t.print()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("files", nargs="+", type=pathlib.Path)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--runs", type=int, default=5)
    a = p.parse_args()
    for a.file in a.files:
        print(f"\n{a.file}", flush=True)
        measure(a)


if __name__ == "__main__":
    main()
