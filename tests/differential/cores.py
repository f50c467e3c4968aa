# SPDX-License-Identifier: Apache-2.0
"""Core dumps of running programs, and the stacks in them and in live processes: by tests/tools/unwind_core, which walks with unwind_step_cached(), and by eu-stack.

Also used by bench/unwind.py.
"""

import os
import pathlib
import re
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LODE_BUILD", ROOT / "build"))
CORE = BUILD / "tests/tools/unwind_core"
SHAPES = ROOT / "tests/data/unwind"

# Those of these that are installed are dumped while they run.
PROGRAMS = {
    "python3": ["-c", "def f(n):\n return 1 if n < 2 else f(n - 1) + f(n - 2)\nwhile True: sorted(range(300), key=lambda x: x * 7919 % 101); f(15)"],
    "perl": ["-e", "sub f { my $n = shift; return $n < 2 ? 1 : f($n - 1) + f($n - 2) } while (1) { my @x = sort { $a * 7919 % 101 <=> $b } 1 .. 99; f(12) }"],
    "sqlite3": [":memory:", "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000000000) select sum(x * x % 7) from c group by x % 1000"],
    "bash": ["-c", "f() { local n=$1; if ((n < 2)); then return 1; fi; f $((n - 1)); f $((n - 2)); }; while :; do f 8; done"],
    "xz": ["-9", "-c", "/dev/zero"],
    "gdb": ["-batch", "-nx", "-ex", "python\nwhile True: sorted(range(300), key=lambda x: x * 7919 % 101)"],
    "ruby": ["-e", "def f(n) n < 2 ? 1 : f(n - 1) + f(n - 2) end; loop { (1..300).sort_by { |x| x * 7919 % 101 }; f(15) }"],
    "php": ["-r", "function f($n) { return $n < 2 ? 1 : f($n - 1) + f($n - 2); } while (1) f(15);"],
    "node": ["-e", "function f(n) { return n < 2 ? 1 : f(n - 1) + f(n - 2) } for (;;) JSON.parse(JSON.stringify({ a: f(15) }))"],
}
# Programs of tests/data/unwind: compiler and flags, source.
SMALL = {
    "shapes-gcc": (["gcc", "-O2", "-fomit-frame-pointer"], "shapes.c"),
    "shapes-clang": (["clang", "-O2"], "shapes.c"),
    "shapes-static": (["gcc", "-O2", "-static"], "shapes.c"),
    "threads": (["gcc", "-O2"], "threads.c"),
    "throws": (["g++", "-O2"], "throws.cc"),
}


def stock(name):
    """The command of a stock program; None: it is not installed."""
    path = f"/usr/bin/{name}" if os.path.exists(f"/usr/bin/{name}") else shutil.which(name)
    return [path, *PROGRAMS[name]] if path else None


def small(name, folder):
    """Compile one; None: there is no such compiler."""
    argv, source = SMALL[name]
    if not shutil.which(argv[0]):
        return None
    program = pathlib.Path(folder) / name
    subprocess.run([*argv, "-w", "-pthread", SHAPES / source, "-o", program], check=True)
    return [str(program), "spin"]


def dump(pid, folder):
    """A dump of the process, which goes on; None: it may not be traced."""
    prefix = pathlib.Path(folder) / "dump"
    subprocess.run(["gcore", "-o", prefix, str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    made = pathlib.Path(f"{prefix}.{pid}")
    return made if made.exists() else None


def stacks_of_tool(*command, check=True):
    """What a tool of tests/tools prints: of each thread (addresses, how it ended). Without check, a tool that fails prints none."""
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=check).stdout
    found = {}
    for line in text.splitlines():
        tid, *frames = line.split(" (")[0].split()
        found[int(tid)] = ([int(f, 16) for f in frames], line.rpartition("(")[2].rstrip(")"))
    return found


def stacks_of_elfutils(*of):
    """eu-stack of a process (-p PID) or a core: of each thread its addresses."""
    text = subprocess.run(["eu-stack", "-n", "0", *of], capture_output=True, text=True, timeout=120).stdout
    found, tid = {}, None
    for line in text.splitlines():
        if line.startswith("TID"):
            tid = int(line.split()[1].rstrip(":"))
            found[tid] = []
        elif line.startswith("#") and tid:
            found[tid].append(int(re.match(r"#\d+\s+(\S+)", line)[1], 16))
    return found


class Counts:
    def __init__(self):
        self.stacks = self.equal = self.frames = self.equal_frames = 0
        self.different = []

    def add(self, core):
        ours = stacks_of_tool(CORE, core)
        for tid, theirs in stacks_of_elfutils(f"--core={core}").items():
            if not theirs:  # eu-stack could not begin
                continue
            mine, how = ours[tid]
            same = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            self.stacks += 1
            self.equal += mine == theirs
            self.frames += max(len(mine), len(theirs))
            self.equal_frames += same
            if mine != theirs:
                self.different.append((how, same, [hex(x) for x in mine], [hex(x) for x in theirs]))


def compare(argv, n, folder, keep=None):
    """Run @argv, dump it @n times. Returns the counts; None: it cannot be dumped. @keep: a folder for dumps in which something differs."""
    counts = Counts()
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        for i in range(n):
            time.sleep(0.003 + 0.0071 * (i % 7))
            if p.poll() is not None:
                return None
            core = dump(p.pid, folder)
            if not core:
                return None
            before = len(counts.different)
            counts.add(core)
            if keep and len(counts.different) > before:
                core.rename(pathlib.Path(keep) / f"{pathlib.Path(argv[0]).name}.{i}.core")
            else:
                core.unlink()
    finally:
        p.kill()
        p.wait()
    return counts
