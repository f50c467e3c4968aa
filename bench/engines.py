# SPDX-License-Identifier: Apache-2.0
"""The tests of buckets that need no faults, over other servers with S3's API: MinIO, and s3s-fs, whose listings have no ETag. s3s-fs takes
keys of 160 bytes only, so no store can be in it.

    bench/engines.py [--engines versitygw,minio,s3s-fs]

tests/e2e/other_engines.py says how to get the programs; one that is not there is passed over. A table of the tests that passed and failed.
"""

import argparse
import os
import re
import subprocess

from common import ROOT, say

FILES = ["test_bucket.py", "test_store_bucket.py", "test_store_bucket_node.py"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engines", default="versitygw,minio,s3s-fs")
    args = p.parse_args()
    rows = []
    for engine in args.engines.split(","):
        say(engine)
        r = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-rfs", "--no-header", "-p", "no:cacheprovider", "-k", f"[{engine}",
                            *(ROOT / "tests" / "e2e" / f for f in (FILES[:1] if engine == "s3s-fs" else FILES))],
                           env={**os.environ, "LODE_ENGINES": engine}, capture_output=True, text=True)
        counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|skipped|error)", r.stdout.splitlines()[-1])}
        rows.append((engine, *(counts.get(what, 0) for what in ("passed", "failed", "skipped"))))
        say("\n".join(line for line in r.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "SKIPPED"))))
    print("| server | passed | failed | skipped |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
