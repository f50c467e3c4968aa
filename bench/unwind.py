#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unwind tables of large files: bytes a row, CPU and memory of making them, beside readelf, which reads the same rows; stacks in core dumps.

    bench/unwind.py [--lode PROGRAM] [--cores N] [--keep DIR] [FILE...]

CPU and memory are those of `lode inspect --unwind` minus those of `lode inspect`, the best of 5 runs; memory has the table in it.
With --cores each program of tests/differential/cores.py that is installed is dumped N times while it runs, and the stacks are compared with those of
libdw, frame for frame. --keep: dumps in which something differs stay in DIR.

readelf prints the rows; eu-readelf -w likewise. Neither makes a table, so they are a bound for reading, not a rival.
"""

import argparse
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/differential"))
import cores  # noqa: E402

LIB = "/usr/lib/x86_64-linux-gnu/"
FILES = ["libc.so.6", "libstdc++.so.6", "/usr/bin/gdb", "/usr/bin/node", "libclang-cpp.so.*", "libLLVM.so.*", "libLLVM-*.so.1"]
RUNS = 5


def measured(argv):
    """(CPU ms, peak KiB, output) of one run."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = p.stdout.read()
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"{argv}: exit status {p.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000, used.ru_maxrss, out


def best(argv):
    runs = [measured(argv) for _ in range(RUNS)]
    return min(r[0] for r in runs), min(r[1] for r in runs), runs[0][2]


def silent_cpu(argv):
    with open(os.devnull, "w") as null:
        p = subprocess.Popen(argv, stdout=null, stderr=null)
        used = os.wait4(p.pid, 0)[2]
    p.returncode = 0
    return (used.ru_utime + used.ru_stime) * 1000


def compare_dumps(n, keep):
    print("| program | stacks | equal | frames | equal |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in [*cores.PROGRAMS, *cores.SMALL]:
            argv = cores.stock(name) if name in cores.PROGRAMS else cores.small(name, folder)
            counts = cores.compare(argv, n, folder, keep) if argv else None
            if not counts or not counts.frames:
                print(f"| {name} | not installed, or cannot be dumped | | | |")
                continue
            print(f"| {name} | {counts.stacks} | {100 * counts.equal / counts.stacks:.1f} % | {counts.frames} | {100 * counts.equal_frames / counts.frames:.2f} % |", flush=True)
            for how, same, mine, theirs in counts.different[:3]:
                print(f"    {name}: {how}; after {same} equal frames {mine[same:same + 3]}, libdw {theirs[same:same + 3]}", file=sys.stderr)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--lode", default=str(ROOT / "build/lode"))
    args.add_argument("--cores", type=int, default=0, metavar="N")
    args.add_argument("--keep", metavar="DIR")
    args.add_argument("files", nargs="*")
    args = args.parse_args()
    if args.cores:
        compare_dumps(args.cores, args.keep)
        return
    files = args.files
    for pattern in () if files else FILES:
        files += [f for f in sorted(glob.glob(pattern if pattern[0] == "/" else LIB + pattern)) if not os.path.islink(f) or len(glob.glob(LIB + pattern)) == 1]
    print("| file | rows | bytes a row | CPU, ms | memory, KiB | table, KiB | readelf, CPU ms |")
    print("|---|---|---|---|---|---|---|")
    for path in files:
        base, rss, _ = best([args.lode, "inspect", "--json", path])
        cpu, peak, out = best([args.lode, "inspect", "--json", "--unwind", path])
        facts = json.loads(out)
        if "unwind_rows" not in facts:
            continue
        readelf = silent_cpu(["readelf", "-W", "--debug-dump=frames-interp", path]) if shutil.which("readelf") else float("nan")
        rows, size = facts["unwind_rows"], facts["unwind_bytes"]
        print(f"| {os.path.basename(path)} | {rows} | {size / rows:.2f} | {cpu - base:.1f} | {peak - rss} | {size // 1024} | {readelf:.0f} |", flush=True)


if __name__ == "__main__":
    main()
