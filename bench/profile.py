#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles: reading, merging, a flame graph of many; a table and a merge, beside Go's pprof.

    bench/profile.py [--profiles 1000] [--samples 1000] [--build build] [--pprof "go tool pprof"]

The first table is bench-profile's: CPU seconds within one process. "of each" makes one tree of profiles with separate tables; "shared" makes it
of the same number of samples with shared stack numbers, as the profile store has them. The second table runs whole
programs on the merged profile, including their start and gzip: CPU seconds, best of the runs. The third names 20 000 addresses in the 30
largest programs and libraries of this machine, with symbol tables and without.
"""

import argparse
import gzip
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile

from common import LODE, ROOT

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from profiling import message, number, varint  # noqa: E402

FOLDERS = ("/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/git-core")
N_FILES, N_ADDRESSES = 30, 20000


def cpu(argv, env=None):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def code_of(path):
    """Build ID, file offset and size of the code. None: no build ID."""
    text = subprocess.run(["readelf", "-lnW", path], capture_output=True, text=True).stdout.splitlines()
    ids = [line.split()[-1] for line in text if "Build ID:" in line]
    code = [line.split() for line in text if line.lstrip().startswith("LOAD") and " R E " in line]
    return (ids[0], int(code[0][1], 16), int(code[0][4], 16)) if ids and code else None


def unnamed(path):
    """A profile of random addresses within the code, without names."""
    files = [os.path.join(d, n) for d in FOLDERS if os.path.isdir(d) for n in os.listdir(d)]
    files = [f for f in files if os.path.isfile(f) and not os.path.islink(f)]
    files.sort(key=os.path.getsize, reverse=True)
    strings, n_files, n, at = ["", "samples", "count"], 0, 0, 0x7F0000000000
    out, draw = [message(1, number(1, 1) + number(2, 2))], random.Random(1)
    for f in files:
        with open(f, "rb") as head:
            code = code_of(f) if head.read(4) == b"\x7fELF" else None
        if not code or n_files == N_FILES:
            continue
        n_files += 1
        id_, off, size = code
        first = off & ~4095
        end = at + ((off - first + size + 4095) & ~4095)
        strings += [f, id_]
        out.append(message(3, number(1, n_files) + number(2, at) + number(3, end) + number(4, first) +
                           number(5, len(strings) - 2) + number(6, len(strings) - 1)))
        for _ in range(N_ADDRESSES // N_FILES):
            n += 1
            out.append(message(4, number(1, n) + number(2, n_files) + number(3, at + off - first + draw.randrange(size))))
            out.append(message(2, message(1, varint(n)) + message(2, varint(1))))
        at = end + (1 << 20)
    out += [message(6, s.encode()) for s in strings]
    path.write_bytes(gzip.compress(b"".join(out)))
    return n, n_files


def naming(d, pprof, runs):
    d = pathlib.Path(d)
    n, n_files = unnamed(d / "unnamed.pb.gz")
    env = dict(os.environ, XDG_CACHE_HOME=str(d / "cache"), DEBUGINFOD_URLS="")
    job = [LODE, "symbolize", "-q", "-o", d / "named.pb.gz", d / "unnamed.pb.gz"]
    print(f"\n{n} addresses in {n_files} files named")
    print(f"  {'lode, no tables yet':24} {cpu(job, env):7.3f} s")
    mine = min(cpu(job, env) for _ in range(runs))
    print(f"  {'lode, with tables':24} {mine:7.3f} s")
    if pprof:
        other = cpu([*pprof, "-symbolize=local", "-proto", "-output", d / "pprof.pb.gz", d / "unnamed.pb.gz"], env)
        tool = "llvm-symbolizer" if shutil.which("llvm-symbolizer") else "addr2line"
        print(f"  {'pprof, ' + tool:24} {other:7.3f} s   {other / mine:5.1f} x")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--profiles", type=int, default=1000)
    p.add_argument("--samples", type=int, default=1000)
    p.add_argument("--build", default="build")
    p.add_argument("--pprof", default="go tool pprof" if shutil.which("go") else "pprof")
    p.add_argument("--runs", type=int, default=3)
    a = p.parse_args()
    pprof = a.pprof.split() if shutil.which(a.pprof.split()[0]) else None
    with tempfile.TemporaryDirectory() as d:
        merged = pathlib.Path(d) / "merged.pb.gz"
        r = json.loads(subprocess.run([pathlib.Path(a.build) / "bench" / "bench-profile", str(a.profiles), str(a.samples), merged],
                                      capture_output=True, text=True, check=True).stdout)
        print(f"{r['profiles']} profiles, {r['samples']} samples, {r['bytes'] / 1e6:.0f} MB of messages; {r['stacks']} stacks in all")
        for key, what in (("read_s", "reading"), ("merge_s", "merging into one"), ("flame_of_each_s", "flame graph, of each"),
                          ("html_s", "writing its page")):
            print(f"  {what:24} {r[key]:8.3f} s")
        print(f"\nthe merged one, {merged.stat().st_size / 1e6:.1f} MB")
        jobs = {"a table of functions": ([LODE, "profile", merged], ["-top", merged]),
                "merged with itself": ([LODE, "profile", "-o", f"{d}/a.pb.gz", merged, merged],
                                       ["-proto", "-output", f"{d}/b.pb.gz", merged, merged])}
        for what, (ours, theirs) in jobs.items():
            mine = min(cpu(ours) for _ in range(a.runs))
            line = f"  {what:24} lode {mine:7.3f} s"
            if pprof:
                cpu([*pprof, "-symbolize=none", *theirs])  # builds pprof if necessary
                other = min(cpu([*pprof, "-symbolize=none", *theirs]) for _ in range(a.runs))
                line += f"   pprof {other:7.3f} s   {other / mine:5.1f} x"
            print(line)
        naming(d, pprof, a.runs)


if __name__ == "__main__":
    main()
