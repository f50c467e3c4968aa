# SPDX-License-Identifier: Apache-2.0
"""Serves every ELF member of many real packages and compares: whole files by SHA-256 with the output of dpkg-deb, rpm2cpio or tar,
sections with objcopy --dump-section, random ranges with slices, member lists with libarchive's (bsdtar).

    bench/corpus.py DIR [--also rpm,tar.zst,tar.gz] [--sections 40] [--ranges 5] [--max-packages N]

DIR has .deb files. --also repacks each of them as these kinds; each kind is served separately. Exits with 1 if anything differs.
"""

import argparse
import collections
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from common import CORPUS, LODE, Server, say, scratch


def build_id_and_kind(path):
    """(hex build ID, is executable, is debug) of an ELF file by its section headers, in the reference's terms, or None."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or len(data) < 64:
        return None
    is64, big = data[4] == 2, data[5] == 2
    end = ">" if big else "<"
    e_type, = struct.unpack_from(end + "H", data, 16)
    shoff, = struct.unpack_from(end + ("Q" if is64 else "I"), data, 40 if is64 else 32)
    shentsize, shnum, shstrndx = struct.unpack_from(end + "HHH", data, 58 if is64 else 46)
    if not shoff or shoff + shentsize > len(data):
        return None
    fmt = end + ("IIQQQQIIQQ" if is64 else "IIIIIIIIII")

    def header(i):
        return struct.unpack_from(fmt, data, shoff + i * shentsize)
    if shnum == 0:
        shnum = header(0)[5]
    if shstrndx == 0xFFFF:
        shstrndx = header(0)[6]
    try:
        sections = [header(i) for i in range(shnum)]
        names_off = sections[shstrndx][4]
    except (struct.error, IndexError):
        return None
    build_id, executable, debug, symtab, bits, names = None, False, False, False, False, set()
    for name_off, typ, flags, _, off, size, _, _, align, _ in sections:
        name = data[names_off + name_off:data.index(b"\0", names_off + name_off)].decode("latin-1")
        names.add(name)
        if typ == 7 and build_id is None:
            at, stop, pad = off, off + size, 8 if align == 8 else 4
            while at + 12 <= stop:
                namesz, descsz, ntype = struct.unpack_from(end + "III", data, at)
                desc = at + 12 + (namesz + 3) // 4 * 4 if pad == 4 else at + (12 + namesz + 7) // 8 * 8
                if ntype == 3 and data[at + 12:at + 16] == b"GNU\0":
                    build_id = data[desc:desc + descsz].hex()
                    break
                at = desc + (descsz + pad - 1) // pad * pad
        if name.startswith((".debug_", ".zdebug_")):
            debug = True
        if typ == 2:
            symtab = True
        if flags & 2 and typ not in (8, 7):
            bits = True
            if typ == 1 and e_type in (2, 3):
                executable = True
            if typ == 1 and e_type == 1 and (names & {".modinfo"}):
                executable = True
    if symtab and not bits:
        debug = True
    return (build_id, executable, debug) if build_id else None


def repack(tree, kind, out):
    if kind == "rpm":
        with tempfile.TemporaryDirectory(dir=CORPUS) as top:
            spec = pathlib.Path(top) / "p.spec"
            files = "\n".join(f'"/{p}"' for p in sorted(os.listdir(tree)))
            spec.write_text("Name: p\nVersion: 1\nRelease: 1\nSummary: p\nLicense: x\nAutoReqProv: no\n"
                            "%global _build_id_links none\n%global __os_install_post %{nil}\n%global debug_package %{nil}\n"
                            f"%global _binary_payload w3.zstdio\n%description\np\n%install\nmkdir -p %{{buildroot}}\ncp -a {tree}/. %{{buildroot}}/\n"
                            f"%files\n{files}\n")
            r = subprocess.run(["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {top}", str(spec)], capture_output=True)
            made = list(pathlib.Path(top).glob("RPMS/*/*.rpm"))
            if r.returncode or not made:
                return False
            shutil.move(str(made[0]), out)
    else:
        flag = {"tar.zst": "--zstd", "tar.gz": "--gzip"}[kind]
        subprocess.run(["tar", "-C", str(tree), flag, "-cf", str(out), "."], check=True)
    return True


def compare(name, folder, expect, files, args, work, rng, n, bad):
    """Compare whole files, ranges and sections of one kind of package."""
    with Server("lode", [str(folder)], work / "state" / name) as s:
        s.wait_ready()
        s.wait_scanned()
        conn = http.client.HTTPConnection("127.0.0.1", s.port, timeout=600)

        def get(path, headers={}):
            conn.request("GET", path, headers=headers)
            r = conn.getresponse()
            return r.status, r.read()
        for build_id, kinds in expect.items():
            for kind, digests in kinds.items():
                if not digests:
                    continue
                status, body = get(f"/buildid/{build_id}/{kind}")
                got = hashlib.sha256(body).hexdigest()
                n["whole"] += 1
                if status != 200 or got not in digests:
                    bad.append(f"{name}: {build_id}/{kind}: {status}, {len(body)} bytes, not what is in the package")
                    continue
                for _ in range(args.ranges):
                    a = rng.randrange(len(body))
                    b = min(len(body), a + rng.randrange(1, 200000))
                    status, part = get(f"/buildid/{build_id}/{kind}", {"Range": f"bytes={a}-{b - 1}"})
                    n["ranges"] += 1
                    if status != 206 or part != body[a:b]:
                        bad.append(f"{name}: {build_id}/{kind} bytes {a}-{b - 1}: {status}, {len(part)} bytes, another slice")
        for digest, path in rng.sample(sorted(files.items()), min(args.sections, len(files))):
            build_id, _, debug = build_id_and_kind(path)
            names = subprocess.run(["readelf", "-SW", str(path)], capture_output=True, text=True).stdout
            for line in names.splitlines():
                words = line.split("]", 1)[-1].split()
                if len(words) < 6 or not words[0].startswith(".") or words[1] == "NOBITS" or int(words[4], 16) == 0:
                    continue
                with tempfile.NamedTemporaryFile(dir=work) as t:
                    subprocess.run(["objcopy", "-O", "binary", "--dump-section", f"{words[0]}={t.name}", str(path), "/dev/null"],
                                   capture_output=True)
                    want = path.read_bytes()[int(words[3], 16):int(words[3], 16) + int(words[4], 16)]
                    dumped = pathlib.Path(t.name).read_bytes()
                status, body = get(f"/buildid/{build_id}/section/{words[0]}")
                n["sections"] += 1
                twins = [files[d].read_bytes() for k in expect[build_id].values() for d in k if d in files]
                if status != 200 or (body not in (want, dumped) and not any(body in t for t in twins)):
                    bad.append(f"{name}: {build_id}/section/{words[0]}: {status}, {len(body)} bytes, wanted {len(want)}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("dir", type=pathlib.Path)
    ap.add_argument("--also", default="")
    ap.add_argument("--sections", type=int, default=40)
    ap.add_argument("--ranges", type=int, default=5)
    ap.add_argument("--max-packages", type=int, default=10**6)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    rng = random.Random(args.seed)
    work = scratch("corpus-work")
    kinds_served = ["deb"] + list(filter(None, args.also.split(",")))
    served = {kind: work / "packages" / kind for kind in kinds_served}
    for folder in served.values():
        folder.mkdir(parents=True)
    expect = collections.defaultdict(lambda: {"executable": set(), "debuginfo": set()})
    files = {}
    debs = sorted(args.dir.rglob("*.deb"))[:args.max_packages]
    n_members = n_lists = 0
    bad = []
    for deb in debs:
        tree = work / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["dpkg-deb", "-x", str(deb), str(tree)], check=True)
        theirs = sorted(str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file() and not p.is_symlink())
        for kind, folder in served.items():
            package = folder / f"{deb.stem}.{kind}"
            if kind == "deb":
                shutil.copy(deb, package)
            elif not repack(tree, kind, package):
                bad.append(f"{deb.name}: cannot be repacked as {kind}")
                continue
            ours = subprocess.run([LODE, "inspect", "--json", "--members", str(package)], capture_output=True, check=True).stdout
            ours = sorted(m["path"] for m in json.loads(ours)["members"])
            n_lists += 1
            if ours != theirs:
                bad.append(f"{package.name}: member lists differ: {sorted(set(ours) ^ set(theirs))[:5]}")
        for p in tree.rglob("*"):
            if p.is_symlink() or not p.is_file() or p.stat().st_size < 52:
                continue
            facts = build_id_and_kind(p)
            if not facts:
                continue
            digest = hashlib.sha256(p.read_bytes()).hexdigest()
            for kind, on in (("executable", facts[1]), ("debuginfo", facts[2])):
                if on:
                    expect[facts[0]][kind].add(digest)
                    n_members += 1
            if len(files) < 4000:
                keep = work / "files" / digest
                if not keep.exists():
                    keep.parent.mkdir(exist_ok=True)
                    shutil.copy(p, keep)
                files[digest] = keep
        say(f"{deb.name}: {len(expect)} build IDs so far")
    n = collections.Counter()
    for kind, folder in served.items():
        compare(kind, folder, expect, files, args, work, rng, n, bad)
        say(f"{kind}: {len(bad)} differ so far")
    print(f"{len(debs)} packages as {', '.join(served)}: {n_lists} member lists, {n_members} ELF members, {n['whole']} whole files, "
          f"{n['ranges']} ranges, {n['sections']} sections compared")
    for line in bad[:50]:
        print("WRONG", line)
    print(f"{len(bad)} differ")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
