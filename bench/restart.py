# SPDX-License-Identifier: Apache-2.0
"""A node with an empty disk, whose packages and store are in a bucket 30 ± 20 ms away: from its start to its first right answer.

    bench/restart.py [--packages 10000] [--ids 100] [--delay 30] [--spread 20]

--packages packages list --ids build IDs each, a million in all. One node has read them; another one starts with what that one has left in
the bucket. Beside it, a node without that, which reads the head of each package. The answer is a member of one more package, which
the first node has read to its end. The bucket is versitygw's (./dev test builds it), after a proxy that delays each answer.
"""

import argparse
import os
import shutil
import time
import urllib.request

from _far_bucket import Far, versitygw
from common import Server, Table, say, scratch
from making import PACKERS, Elf, deb, debug_deb, new_id

EXTRA = ["--header-only", "--rescan", "0", "--cache-size", "0"]


def fill(far, work, n, n_ids):
    folder = far.folder / "debs"
    folder.mkdir(parents=True)
    payload = PACKERS["xz"](b"\0" * 10240)
    for i in range(n):
        (folder / f"p{i:05}.deb").write_bytes(deb(payload, "xz", [new_id(i, k) for k in range(n_ids)], name=f"p{i}"))
    (work / "elf").mkdir()
    elf = Elf(work / "elf")
    (folder / "wanted.deb").write_bytes(debug_deb("xz", elf.id, elf.debug))
    return elf


def node(state, store):
    return Server("lode", ["s3://bucket/debs"], state, [*EXTRA, "--store", f"s3://bucket/{store}"])


def right(server, elf):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/buildid/{elf.id}/debuginfo", timeout=60) as r:
            return r.read() == elf.debug
    except OSError:
        return False


def first_answer(table, what, state, store, elf):
    t0 = time.monotonic()
    with node(state, store) as s:
        while not right(s, elf):
            time.sleep(0.01)
        table.add(f"{what}: first right answer after", time.monotonic() - t0, target=5.0 if what == "empty disk" else None)
        table.add(f"{what}: CPU until then", s.cpu())
        s.wait_ready()
        table.add(f"{what}: all compared with the bucket after", time.monotonic() - t0)
        table.add(f"{what}: peak memory", s.rss(), unit="MB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--packages", type=int, default=10000)
    p.add_argument("--ids", type=int, default=100)
    p.add_argument("--delay", type=float, default=30)
    p.add_argument("--spread", type=float, default=20)
    args = p.parse_args()
    if not versitygw.PROGRAM.exists():
        raise SystemExit(f"bench: {versitygw.WHY_NOT}")
    work, table = scratch("restart"), Table()
    far = Far(work, args.delay, args.spread)
    distant = os.environ["AWS_ENDPOINT_URL_S3"]
    try:
        say("making packages")
        elf = fill(far, work, args.packages, args.ids)
        say("the first node")
        os.environ["AWS_ENDPOINT_URL_S3"] = far.gateway.url
        with node(work / "first", "store") as s:
            s.wait_ready()
            while not right(s, elf) or not list((far.folder / "store").glob("index/*.manifest")):
                time.sleep(0.1)
        index = work / "first" / "index.sqlite"
        table.add("index of the first node", index.stat().st_size / 1e6, unit="MB")
        table.add("snapshot of it", sum(x.stat().st_size for x in (far.folder / "store" / "index").rglob("*") if x.is_file()) / 1e6, unit="MB")
        os.environ["AWS_ENDPOINT_URL_S3"] = distant
        first_answer(table, "empty disk", work / "second", "store", elf)
        first_answer(table, "a scan", work / "third", "other-store", elf)
    finally:
        far.close()
        shutil.rmtree(work, ignore_errors=True)
    table.print()


if __name__ == "__main__":
    main()
