#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles: reading, merging, a flame graph of many; a table and a merge beside Go's pprof.

    bench/profile.py [--profiles 1000] [--samples 1000] [--build build] [--pprof "go tool pprof"]

The first table is bench-profile's: CPU seconds within one process. "of each" makes one tree of profiles that each have tables of their own; "shared" of
the same number of samples whose stacks are numbers that all of them share, as a store of profiles has them. The second is of whole
programs, with their start and gzip, on the merged profile: CPU seconds, the best of the runs.
"""

import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import tempfile

from common import LODE


def cpu(argv):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
                          ("flame_of_shared_s", "flame graph, shared"), ("html_s", "writing its page")):
            print(f"  {what:24} {r[key]:8.3f} s")
        print(f"\nthe merged one, {merged.stat().st_size / 1e6:.1f} MB")
        jobs = {"a table of functions": ([LODE, "profile", merged], ["-top", merged]),
                "merged with itself": ([LODE, "profile", "-o", f"{d}/a.pb.gz", merged, merged],
                                       ["-proto", "-output", f"{d}/b.pb.gz", merged, merged])}
        for what, (ours, theirs) in jobs.items():
            mine = min(cpu(ours) for _ in range(a.runs))
            line = f"  {what:24} lode {mine:7.3f} s"
            if pprof:
                cpu([*pprof, "-symbolize=none", *theirs])  # it may have to be built
                other = min(cpu([*pprof, "-symbolize=none", *theirs]) for _ in range(a.runs))
                line += f"   pprof {other:7.3f} s   {other / mine:5.1f} x"
            print(line)


if __name__ == "__main__":
    main()
