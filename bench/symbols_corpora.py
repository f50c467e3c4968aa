#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All ELF files in the test data of other projects: lode beside llvm-symbolizer and eu-addr2line.

    symbols_corpora.py [-n ADDRESSES] FOLDER...

For each file: build a table, compare it with the DWARF (`lode symtab verify`), and look up addresses of its code as symbols_score.py
does; of a relocatable file, addresses of the first section of code. One line with one outcome per file:

    same        the others agree on some addresses, and lode agrees with them; with LLVM if the two others cannot read the file
    differs     ... and lode differs on some
    none agree  the others agree on the line of no address
    no code     no section of code has contents or addresses; a table is built and verified nevertheless
    refused     lode reports an error in the file
    FAILED      lode crashed, hung, built a table that verify rejects, or did not answer all addresses
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import symbols_score as score

TIMEOUT_S = 120


def lode(*argv, text=""):
    """(exit status, output): negative for a signal, None for a timeout."""
    try:
        p = subprocess.run([score.LODE, *map(str, argv)], input=text, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None, f"did not end within {TIMEOUT_S} s"
    return p.returncode, (p.stderr + p.stdout).strip()


def relocatable(path):
    with open(path, "rb") as f:
        head = f.read(18)
    return head[16:18] in (b"\1\0", b"\0\1") and len(head) == 18


def crashed(status, said):
    return status is None or status < 0 or status > 100 or "Sanitizer" in said or "runtime error" in said


def judge(path, n, tmp):
    """(outcome, why)"""
    table = tmp / "sym"
    table.unlink(missing_ok=True)
    status, said = lode("symtab", "build", "-o", table, path)
    if crashed(status, said):
        return "FAILED", f"build: {status}: {said[-300:]}"
    if status:
        return "refused", said.split("\n")[-1]
    status, said = lode("symtab", "verify", "-e", path, table)
    if status:
        return "FAILED", f"verify: {status}: {said[-300:]}"
    sections = score.code(path)
    section = None
    if relocatable(path):
        sections = [s for s in sections if s[2]][:1]
        section = sections[0][0] if sections else None
    sections = [s for s in sections if s[2]]
    if not sections:
        return "no code", ""
    size = sum(s[2] for s in sections)
    addrs = [s[1] + i for s in sections for i in range(s[2])] if size <= n else score.choose(sections, n, 1)
    status, said = lode("symbolize", "-e", path, *(["-j", section] if section else []), text="".join(f"{a:#x}\n" for a in addrs))
    if status:
        return "FAILED", f"symbolize: {status}: {said[-300:]}"
    try:
        c, differ = score.compare(str(path), addrs, section, None, TIMEOUT_S)
    except (ValueError, IndexError, subprocess.TimeoutExpired) as e:
        return "none agree", f"{e}"[:200]
    if not any(c["known " + kind] for kind in score.KINDS):
        return "none agree", f"of {len(addrs)}"
    for kind in score.KINDS:
        if differ.get(kind):
            a, *answers = differ[kind][0]
            return "differs", f"{kind}, {len(differ[kind])} of {c['known ' + kind]}: {a:#x} {answers}"
    return "same", f"{c['known line']} lines, {c['known chain']} chains of {len(addrs)}"


def elf_files(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    yield path


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", type=int, default=300)
    p.add_argument("folders", nargs="+", type=pathlib.Path)
    a = p.parse_args()
    os.environ.update(LODE_SYMTAB_CACHE="", DEBUGINFOD_URLS="")
    with tempfile.TemporaryDirectory() as tmp:
        for folder in a.folders:
            outcomes = collections.Counter()
            for path in elf_files(folder):
                outcome, why = judge(path, a.n, pathlib.Path(tmp))
                outcomes[outcome] += 1
                print(f"{outcome}: {path.relative_to(folder)}: {why}", flush=True)
            print(f"{folder}: {sum(outcomes.values())} files:", ", ".join(f"{k} {v}" for k, v in sorted(outcomes.items())), flush=True)


if __name__ == "__main__":
    main()
