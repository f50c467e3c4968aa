#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often lode agrees with llvm-symbolizer and eu-addr2line: addresses of code at random.

    symbols_score.py [-n ADDRESSES] FILE...

The rule: where the two agree on the innermost file and line, lode must say the same; the whole chain likewise, with the suffixes that GCC
gives to clones (f.isra.0) left out of names. A name that has no linkage name may be qualified in ours. Differences are listed by kind, the first of each with its address.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LODE = os.environ.get("LODE", str(ROOT / "build" / "lode"))
SUFFIX = re.compile(r"\.(isra|constprop|part|cold|lto_priv|llvm|localalias)(\.\d+)?.*$")


def run(argv, text):
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=3600, errors="replace").stdout


def code(path):
    """The sections of code: (name, address, size)."""
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    return [(m[1], int(m[2], 16), int(m[3], 16)) for m in
            re.finditer(r"\] (\S+) +(?:PROGBITS|NOBITS) +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +AX", out) if not m[1].startswith(".plt")]


def clean(path):
    return os.path.normpath(path) if path not in ("??", "") else "??"


def name_of(name):
    return SUFFIX.sub("", name)


def parse_llvm(text, n):
    """Chains of (name, file, line)."""
    chains = []
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        if len(lines) < 2:
            continue
        chain = []
        for i in range(0, len(lines) - 1, 2):
            file, line, _ = lines[i + 1].rsplit(":", 2)
            chain.append((name_of(lines[i]), clean(file), int(line)))
        chains.append(chain)
    assert len(chains) == n, (len(chains), n)
    return chains


def parse_eu(text, n):
    """eu-addr2line -a -f -i: the address, then pairs of lines; what is inlined says into what."""
    chains, chain, name = [], None, None
    for line in text.split("\n"):
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            chain = []
            chains.append(chain)
            name = None
        elif chain is not None and line:
            if name is None:
                name = re.sub(r" inlined at .*$", "", line)
            else:
                m = re.match(r"(.*?):(\d+)(?::\d+)?(?: \(.*\))?$", line)
                chain.append((name_of(name), clean(m[1]) if m else "??", int(m[2]) if m else 0))
                name = None
    assert len(chains) == n, (len(chains), n)
    return chains


def same_names(ours, theirs):
    """Where there is no linkage name ours is qualified, theirs is not."""
    return all(a == b or a.endswith("::" + b) for (a, _, _), (b, _, _) in zip(ours, theirs))


def lines_only(chain):
    return [(f, l) for _, f, l in chain]


def score(path, n, seed, section):
    sections = code(path)
    if section:
        sections = [s for s in sections if s[0] == section]
    rng = random.Random(seed)
    total = sum(s[2] for s in sections)
    addrs = []
    for _ in range(n):
        x = rng.randrange(total)
        for _, base, size in sections:
            if x < size:
                addrs.append(base + x)
                break
            x -= size
    text = "".join(f"0x{a:x}\n" for a in addrs)
    ours = parse_llvm(run([LODE, "symbolize", "-e", path, "--output-style", "llvm", "--no-demangle"] + (["-j", section] if section else []), text), n)
    llvm = parse_llvm(run(["llvm-symbolizer", "-e", path, "--no-demangle"], text), n)
    eu = parse_eu(run(["eu-addr2line", "-a", "-A", "-f", "-i", "-e", path] + (["-j", section] if section else []), text), n)
    c = collections.Counter()
    first = {}
    for a, o, l, e in zip(addrs, ours, llvm, eu):
        # elfutils does not read every table of clang's: then LLVM's word counts.
        inner = l[0][1:] == e[0][1:] or (l[0][2] == 0 and e[0][2] == 0) or e[0][1] == "??"
        c["agree on the line"] += inner
        if inner and l[0][1] != "??" and l[0][2]:
            c["known line"] += 1
            same = o[0][1:] == l[0][1:]
            c["same line"] += same
            if not same:
                first.setdefault(("line", o[0][1] == "??"), (hex(a), o[0], l[0]))
        c["same depth as llvm"] += len(o) == len(l)
        if l == e:
            c["agree on the chain"] += 1
            same = lines_only(o) == lines_only(l) and same_names(o, l)
            c["same chain"] += same
            if not same:
                kind = "depth" if len(o) != len(l) else "names" if lines_only(o) == lines_only(l) else "lines"
                c["chain differs in " + kind] += 1
                first.setdefault(("chain", kind), (hex(a), o, l))
        if lines_only(l) == lines_only(e):
            c["agree on the chain's lines"] += 1
            c["same chain's lines"] += lines_only(o) == lines_only(l)
    print(f"{path}: {n} addresses")
    for what, of in (("same line", "known line"), ("same chain", "agree on the chain"), ("same chain's lines", "agree on the chain's lines")):
        print(f"  {what}: {c[what]} of {c[of]}, {100 * c[what] / max(c[of], 1):.3f} %")
    for k in sorted(c):
        if k.startswith("chain differs") or k.startswith("same depth"):
            print(f"  {k}: {c[k]}")
    for k, v in first.items():
        print("  first", *k, v)
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", type=int, default=10000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-j")
    p.add_argument("files", nargs="+")
    a = p.parse_args()
    for path in a.files:
        score(path, a.n, a.seed, a.j)


if __name__ == "__main__":
    main()
