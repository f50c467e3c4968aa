#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often lode agrees with llvm-symbolizer, eu-addr2line and addr2line on random addresses of code.

    symbols_score.py [-n ADDRESSES] [--chains N] [-j SECTION] FILE...

The rule: where LLVM and elfutils agree on the innermost file and line, lode must agree. Likewise for the whole chain where LLVM and one of
elfutils and binutils agree on it. Names are compared without GCC's suffixes of clones (f.isra.0) and without versions (f@@V1); a name
without a linkage name may be qualified in ours, and any of several symbols at one address is right. Where they agree on the chain except
for its names, the lines are compared; and for all addresses with a known line, the lines of LLVM's chain. Differences are listed
by kind, some of each with their addresses.

elfutils walks a whole unit for the calls of each address, about 20 ms in large C++ units: --chains limits that to the first N addresses.
LLVM_SYMBOLIZER names the llvm-symbolizer to use.
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
LLVM = os.environ.get("LLVM_SYMBOLIZER", "llvm-symbolizer")
SUFFIX = re.compile(r"\.(isra|constprop|part|__part|cold|lto_priv|llvm|localalias)(\.\d+)?.*$")


def run(argv, text, timeout=3600):
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=timeout, errors="replace").stdout


def code(path):
    """The sections of code: (name, address, size)."""
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    return [(m[1], int(m[2], 16), int(m[3], 16)) for m in
            re.finditer(r"\] (\S+) +(?:PROGBITS|NOBITS) +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +AX", out) if not m[1].startswith(".plt")]


def clean(path):
    return os.path.normpath(path) if path not in ("??", "") else "??"


def name_of(name):
    """The name without suffixes of clones and versions of dynamic symbols."""
    return SUFFIX.sub("", re.sub(r"(?<=.)@@?(?!plt)[\w.]+$", "", name))


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
    if len(chains) != n:
        raise ValueError(f"{len(chains)} answers to {n} addresses")
    return chains


def parse_addr2line(text, n):
    """Parse eu-addr2line -a -f -i and addr2line: the address, then pairs of lines; elfutils adds the caller of inlined functions."""
    chains, chain, name = [], None, None
    for line in text.split("\n"):
        if re.fullmatch(r"0x([0-9a-f]{8}){1,2}", line):
            chain = []
            chains.append(chain)
            name = None
        elif chain is not None and line:
            if name is None:
                name = re.sub(r" inlined at .*$", "", line)
            else:
                chain.append((name_of(name), *place(line)))
                name = None
    if len(chains) != n:
        raise ValueError(f"{len(chains)} answers to {n} addresses")
    return chains


def place(line):
    m = re.match(r"(.*?):(\d+)(?::\d+)?(?: \(.*\))?$", line)
    return (clean(m[1]), int(m[2])) if m else ("??", 0)


def parse_places(text, n):
    """Parse eu-addr2line without -i: a line per address."""
    lines = text.splitlines()
    if len(lines) != n:
        raise ValueError(f"{len(lines)} answers to {n} addresses")
    return [place(line) for line in lines]


def symbols(path):
    """The addresses of symbols: {name: [(section, address)]}"""
    out = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, errors="replace").stdout
    places = collections.defaultdict(set)
    for m in re.finditer(r"^ *\d+: ([0-9a-f]+) +\S+ +(?:FUNC|NOTYPE|IFUNC|OBJECT) +\S+ +\S+ +(?:\[.*?\] +)?(\d+) (\S+)", out, re.M):
        places[name_of(m[3])].add((m[2], m[1]))
    return places


def same_names(ours, theirs, places):
    """Whether two names mean the same function. Without a linkage name, ours is qualified and theirs is not. Each tool chooses one of
    several symbols of a function."""
    return all(a == b or a.endswith("::" + b) for (a, _, _), (b, _, _) in zip(ours[:-1], theirs[:-1])) and (
        ours[-1][0] == theirs[-1][0] or ours[-1][0].endswith("::" + theirs[-1][0])
        or not places.get(ours[-1][0], set()).isdisjoint(places.get(theirs[-1][0], ())))


def lines_only(chain):
    return [(f, l) for _, f, l in chain]


def tally(counter, differ, what, same, case):
    counter["known " + what] += 1
    counter["same " + what] += same
    if not same:
        differ[what].append(case)


def choose(sections, n, seed):
    """Random addresses of code."""
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
    return addrs


KINDS = ("line", "chain", "chain but for names", "LLVM's calls")


def compare(path, addrs, section=None, n_chains=None, timeout=3600, theirs=None):
    """(counts, {kind of difference: [(address, ours, LLVM's, ...)]}). The others are asked for @theirs if they cannot read the file: a file
    with the same code."""
    theirs = theirs or path
    n, n_chains = len(addrs), len(addrs) if n_chains is None else min(n_chains, len(addrs))
    text = [f"0x{a:x}\n" for a in addrs]
    j = ["-j", section] if section else []
    eu = ["eu-addr2line", "-A", "-e", theirs] + j
    ours = parse_llvm(run([LODE, "symbolize", "-e", path, "--output-style", "llvm", "--no-demangle"] + j, "".join(text), timeout), n)
    llvm = parse_llvm(run([LLVM, "-e", theirs, "--no-demangle"], "".join(text), timeout), n)
    try:
        places = parse_places(run(eu, "".join(text), timeout), n)
        chains = parse_addr2line(run(eu + ["-a", "-f", "-i"], "".join(text[:n_chains]), timeout), n_chains)
    except ValueError:  # a machine or file that it does not support
        places, chains = [("??", 0)] * n, []
    try:
        gnu = parse_addr2line(run(["addr2line", "-a", "-f", "-i", "-e", theirs] + j, "".join(text), timeout), n)
    except ValueError:
        gnu = [None] * n
    c = collections.Counter(asked=n, chains=n_chains)
    differ = collections.defaultdict(list)
    aliases = symbols(theirs)
    for a, o, l, e, chain, g in zip(addrs, ours, llvm, places, chains + [None] * (n - len(chains)), gnu):
        # elfutils does not read all tables of clang and Go; then compare with LLVM.
        if l[0][1:] != e and (l[0][2] or e[1]) and e[0] != "??":
            c["disagree on the line"] += 1
        elif l[0][1] != "??" and l[0][2]:
            tally(c, differ, "line", o[0][1:] == l[0][1:], (a, o, l, e))
            c["line by LLVM alone"] += l[0][1:] != e
            tally(c, differ, "LLVM's calls", lines_only(o) == lines_only(l), (a, o, l, e))
        # Padding after a function: LLVM and elfutils have a line there only if the unit's ranges cover it (docs/agreement.md).
        if lines_only(l) == [("??", 0)] and l[0][0] == "??" and len(o) == 1 and o[0][0] == "??" and o[0][1] != "??":
            c["padding"] += 1
        elif l in (chain, g):
            same = lines_only(o) == lines_only(l) and same_names(o, l, aliases)
            tally(c, differ, "chain", same, (a, o, l, chain, g))
            c["chain by an alias"] += same and o[-1][0] != l[-1][0]
        elif lines_only(l) in (lines_only(chain or []), lines_only(g or [])):
            tally(c, differ, "chain but for names", lines_only(o) == lines_only(l), (a, o, l, chain, g))
    return c, differ


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", type=int, default=10000)
    p.add_argument("--chains", type=int)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=3, help="so many of each kind of difference")
    p.add_argument("-j")
    p.add_argument("files", nargs="+")
    a = p.parse_args()
    for path in a.files:
        sections = [s for s in code(path) if not a.j or s[0] == a.j]
        c, differ = compare(path, choose(sections, a.n, a.seed), a.j, a.chains)
        print(f"{path}: {c['asked']} addresses, of {c['chains']} elfutils' calls; LLVM and elfutils disagree on the line of "
              f"{c['disagree on the line']}, LLVM alone knows {c['line by LLVM alone']}")
        for what in KINDS:
            same, of = c["same " + what], c["known " + what]
            print(f"  {what}: {same} of {of}, {100 * same / max(of, 1):.3f} %")
        print(f"  told by another of a function's symbols: {c['chain by an alias']}")
        for kind, list_ in sorted(differ.items()):
            print(f"  differs, {kind}: {len(list_)}")
            for address, *answers in list_[:a.show]:
                print(f"    {address:#x}", *answers)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
