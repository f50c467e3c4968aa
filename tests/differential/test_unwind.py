# SPDX-License-Identifier: Apache-2.0
"""Unwind tables compared with readelf's rows, and walks with the truth and with eu-stack.

Files are a sample, the same each time on the same machine; LODE_ALL_FILES=1 takes all of them.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

import cores
from test_elf import elf_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LODE_BUILD", ROOT / "build"))
COMPARE = BUILD / "tests/tools/unwind_compare"
FOLLOW = BUILD / "tests/tools/unwind_follow"
SHAPES = ROOT / "tests/data/unwind"
SAMPLE_BYTES = 40 << 20  # of ELF files: readelf prints some 100 bytes a row
READABLE = 4 << 20  # larger files are for LODE_ALL_FILES=1

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="tables are for x86-64")


def counts(text):
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2])))


def compare(path):
    """(exit status, counts, differences); no counts: the file has no table."""
    rows = subprocess.Popen(["readelf", "-W", "--debug-dump=frames-interp", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    r = subprocess.run([COMPARE, path], stdin=rows.stdout, capture_output=True, text=True)
    rows.stdout.close()
    rows.wait()
    return r.returncode, counts(r.stdout), r.stderr


def is_for_this_machine(path):
    with open(path, "rb") as f:
        head = f.read(20)
    return head[:6] == b"\x7fELF\x02\x01" and head[18:20] == b"\x3e\0" and head[16] in (2, 3)


def test_rows_are_those_of_readelf():
    size = n = 0
    total = {}
    for path in elf_files():
        if not is_for_this_machine(path):
            continue
        if not os.environ.get("LODE_ALL_FILES"):
            if os.path.getsize(path) > READABLE:
                continue
            size += os.path.getsize(path)
            if size > SAMPLE_BYTES:
                break
        status, got, text = compare(path)
        if status == 2:
            # A damaged file, such as a test of another package has.
            continue
        assert status == 0, f"{path}: {text}"
        n += bool(got)
        for k, v in got.items():
            total[k] = total.get(k, 0) + v
    assert n >= 20 and total["rows"] > 10000, (n, total)
    assert total["equal"] + total["unsupported"] == total["rows"] and total["unsupported"] <= total["rows"] // 500, total


def test_the_c_library_is_equal():
    maps = pathlib.Path("/proc/self/maps").read_text()
    path = re.search(r"\S+/libc\.so\.6", maps)[0]
    status, got, text = compare(path)
    assert status == 0, text
    # setcontext() and the like: the caller is on another stack.
    assert got["rows"] > 5000 and got["unsupported"] < 20 and got["sorted"], got


BUILDS = {
    "gcc-O2": ["gcc", "-O2"],
    "gcc-O0": ["gcc", "-O0"],
    "gcc-omit": ["gcc", "-O2", "-fomit-frame-pointer", "-mavx2"],
    "gcc-static": ["gcc", "-O2", "-static"],
    "gcc-debug-frame": ["gcc", "-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-exceptions"],
    "clang-O2": ["clang", "-O2"],
    "clang-O0": ["clang", "-O0"],
}


def build_shapes(argv, folder, source="shapes.c"):
    if not shutil.which(argv[0]):
        pytest.skip(f"no {argv[0]}")
    program = folder / "program"
    subprocess.run([*argv, "-w", "-pthread", SHAPES / source, "-o", program], check=True)
    return program


@pytest.mark.parametrize("name", BUILDS)
def test_every_instruction_has_its_callers(name, tmp_path):
    if name == "gcc-omit" and " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has no AVX2")
    program = build_shapes(BUILDS[name], tmp_path)
    r = subprocess.run([FOLLOW, program], capture_output=True, text=True, timeout=100)
    if r.returncode == 2:
        pytest.skip("programs cannot be traced here: " + r.stderr)
    got = counts(r.stdout)
    # gcc -O0 keeps the row of rbp for two instructions after it was popped, where a function realigns its stack.
    assert got["different"] <= (8 if name == "gcc-O0" else 0), r.stdout + r.stderr
    assert got["steps"] > 3000 and got["frames"] > 20000 and got["deepest"] > 15, got
    # The last instructions of longjmp(), which are between two stacks.
    assert got["unsupported"] < 20, got


def test_cplusplus_that_throws(tmp_path):
    program = build_shapes(["g++", "-O2"], tmp_path, "throws.cc")
    r = subprocess.run([FOLLOW, program], capture_output=True, text=True, timeout=100)
    if r.returncode == 2:
        pytest.skip("programs cannot be traced here: " + r.stderr)
    got = counts(r.stdout)
    # libgcc's last instructions of _Unwind_RaiseException() load another stack, where nobody can know.
    assert got["frames"] > 50000, (got, r.stderr)
    assert got["different"] + got["unsupported"] < got["steps"] // 100, (got, r.stderr)


def wait_for_stop(pid):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        states = [pathlib.Path(t, "stat").read_text().rpartition(")")[2].split()[0] for t in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        if set(states) <= {"T", "t"}:
            return
        time.sleep(0.002)
    pytest.fail("the process does not stop")


@pytest.mark.parametrize("name", ["gcc-omit", "clang-O2", "threads"])
def test_stops_are_as_elfutils_sees_them(name, tmp_path):
    if not shutil.which("eu-stack"):
        pytest.skip("no eu-stack")
    if name == "threads":
        program = build_shapes(["gcc", "-O2"], tmp_path, "threads.c")
    else:
        program = build_shapes(BUILDS[name] if name != "gcc-omit" else ["gcc", "-O2", "-fomit-frame-pointer"], tmp_path)
    p = subprocess.Popen([program, "spin"])
    stops = 60 if os.environ.get("LODE_ALL_FILES") else 6
    compared = equal = 0
    different = []
    try:
        time.sleep(0.3)
        for i in range(stops):
            time.sleep(0.003 + 0.0013 * (i % 7))
            os.kill(p.pid, signal.SIGSTOP)
            wait_for_stop(p.pid)
            ours, theirs = cores.stacks_of_tool(FOLLOW, "--stack", str(p.pid), check=False), cores.stacks_of_elfutils("-p", str(p.pid))
            os.kill(p.pid, signal.SIGCONT)
            if not ours or not any(theirs.values()):
                pytest.skip("processes cannot be attached to here")
            for tid, frames in theirs.items():
                compared += 1
                # Both begin with the same frames. libdw goes on after the outermost frame, into zeros and nonsense.
                mine, how = ours[tid]
                if mine == frames[: len(mine)] and how == "outermost frame":
                    equal += 1
                else:
                    different.append((how, [hex(x) for x in mine], [hex(x) for x in frames]))
    finally:
        p.kill()
        p.wait()
    # Stops in the last instructions of longjmp() and rt_sigreturn differ, where libdw guesses.
    assert compared >= stops and equal >= compared * 0.9, different[:3]
