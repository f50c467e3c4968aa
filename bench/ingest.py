#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The profile store: durable writes, disk and memory, merges and queries over a day.

    bench/ingest.py [--profiles 10000] [--locations 1000000] [--hours 25] [--every 10] [--build build] [--keep DIR]

CPU seconds are those of all threads. A profile has 1 000 samples, no two with the same stack, of a service with 12 000 locations
and 8 000 stacks, and two sample types. The day has 100 series with one type; with --every 10 it takes 3 GB of disk and some minutes.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--profiles", type=int, default=10000)
    p.add_argument("--samples", type=int, default=1000)
    p.add_argument("--locations", type=int, default=1000000)
    p.add_argument("--series", type=int, default=100)
    p.add_argument("--every", type=int, default=10)
    p.add_argument("--hours", type=int, default=25)
    p.add_argument("--build", default="build")
    p.add_argument("--keep", help="leave the stores in this folder")
    a = p.parse_args()
    top = pathlib.Path(a.keep or tempfile.mkdtemp(prefix="bench-ingest-", dir="/var/tmp"))

    def run(*argv):
        argv = [pathlib.Path(a.build) / "bench" / "bench-profilestore", *map(str, argv)]
        return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)

    try:
        r = run("ingest", top / "ingest", a.profiles, a.samples)
        print(f"{a.profiles} profiles of {a.samples} samples, two types, 16 senders")
        print(f"  taken in, durable      {1e3 * r['add_s'] / a.profiles:8.2f} ms a profile   {a.profiles / r['add_s']:6.0f} a second of CPU")
        print(f"  on disk, as it came    {r['bytes_before'] / r['samples']:8.2f} bytes a sample")
        print(f"  on disk, compacted     {r['bytes'] / r['samples']:8.2f} bytes a sample")
        print(f"  merge, {r['merged_samples'] / 1e6:4.0f} M samples   {r['merge_s']:8.3f} s    its tree {r['tree_s']:.3f} s, {r['nodes']} nodes")
        print(f"  by rollups             {r['rolled_merge_s']:8.3f} s    made in {r['groom_s']:.3f} s")
        r = run("locations", top / "locations", a.locations)
        print(f"{r['locations']} locations, {r['stacks']} stacks")
        print(f"  memory                 {r['rss_kb'] / 1024:8.0f} MB   {r['peak_kb'] / 1024:.0f} MB while they came")
        print(f"  opened in              {r['open_s']:8.2f} s    {r['bytes'] / 1e6:.0f} MB on disk")
        r = run("day", top / "day", a.series, a.every, a.hours)
        print(f"{r['profiles']} profiles of {a.series} series in {a.hours} hours, {r['bytes'] / 1e9:.2f} GB")
        print(f"  flame graph of 24 h    {r['p50_s']:8.3f} s p50  {r['p95_s']:.3f} s p95, {r['merged_samples'] / 1e6:.0f} M samples")
        print(f"  sums over time of 24 h {r['graph_p95_s']:8.3f} s p95")
    finally:
        if not a.keep:
            shutil.rmtree(top)


if __name__ == "__main__":
    main()
