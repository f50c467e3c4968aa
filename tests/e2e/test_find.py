# SPDX-License-Identifier: Apache-2.0
"""lode find: files, build IDs, processes, core dumps, packages, kernels; on this machine, in the cache folder, on a server."""

import json
import lzma
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import LODE, Program, build_id, make_deb, tree_of

WAITING = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
"""


class Finder:
    """lode find with a cache folder of its own, and no server unless one is given."""

    def __init__(self, home):
        self.cache = home / "cache"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
        self.env |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "xdg"), "DEBUGINFOD_CACHE_PATH": str(self.cache)}

    def __call__(self, *args, env=None):
        return subprocess.run([LODE, "find", *map(str, args)], capture_output=True, text=True, timeout=120, env=self.env | (env or {}))

    def json(self, *args):
        r = self("--json", *args)
        out, decoder, text = [], json.JSONDecoder(), r.stdout.strip()
        while text:
            one, end = decoder.raw_decode(text)
            out.append(one)
            text = text[end:].lstrip()
        return r.returncode, out


@pytest.fixture
def find(tmp_path):
    (tmp_path / "home").mkdir()
    return Finder(tmp_path / "home")


@pytest.fixture
def server(serve, program, tmp_path):
    """A service that has the program, out of a package."""
    pool = tmp_path / "pool"
    pool.mkdir()
    make_deb(tree_of(program, tmp_path / "root"), pool / "hello.deb")
    return serve([pool]).scanned()


def debug_tree(program, tree):
    to = tree / f".build-id/{program.build_id[:2]}/{program.build_id[2:]}.debug"
    to.parent.mkdir(parents=True)
    shutil.copy(program.debug, to)
    return to


def test_a_file_beside_its_debug_file(find, program):
    r = find(program.binary)
    assert (r.returncode, r.stdout) == (0, f"{program.debug}\n"), r.stderr


def test_why_tells_every_place_in_order(find, program, tmp_path):
    program.debug.unlink()
    r = find("--why", "--debug-file-directory", f"{tmp_path}/d1:{tmp_path}/d2", program.binary)
    assert r.returncode == 1 and r.stdout == ""
    by_id = f".build-id/{program.build_id[:2]}/{program.build_id[2:]}.debug"
    places = [f"{tmp_path}/d1/{by_id}", f"{tmp_path}/d2/{by_id}", f"{program.binary.parent}/hello.debug",
              f"{program.binary.parent}/.debug/hello.debug", f"{tmp_path}/d1/{program.binary.parent}/hello.debug", "DEBUGINFOD_URLS"]
    at = [r.stderr.find(p) for p in places]
    assert -1 not in at and at == sorted(at), r.stderr


def test_a_wrong_crc_is_told(find, program):
    program.debug.write_bytes(program.debug.read_bytes() + b"\0")
    status, (one,) = find.json("--why", program.binary)
    assert status == 1 and one["outcome"] != "found"
    assert any("CRC" in step["said"] and step["place"] == str(program.debug) for step in one["why"])


def test_a_build_id_in_either_case_and_nul_behind_paths(find, program, tmp_path):
    to = debug_tree(program, tmp_path / "d")
    r = find("-0", "--debug-file-directory", tmp_path / "d", program.build_id, program.build_id.upper())
    assert (r.returncode, r.stdout) == (0, f"{to}\0{to}\0"), r.stderr


def test_what_has_its_own_dwarf(find, tmp_path):
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-o", "x", "x.c"], cwd=tmp_path, check=True)
    assert find(tmp_path / "x").stdout == f"{tmp_path}/x\n"


def test_usage_and_nonsense(find, tmp_path):
    assert find().returncode == 2
    assert find("--no-such-option").returncode == 2
    (tmp_path / "text").write_text("text")
    for bad in ([tmp_path / "text"], [tmp_path / "missing"], ["--pid", "x"], ["--pid", "999999999"], ["--core", "/usr/bin/true"],
                ["--package", "no-such-package"], ["--package", "../x"], ["--kernel-release", "no-such-kernel"]):
        r = find(*bad)
        assert r.returncode == 1 and r.stderr.startswith("lode: find: "), (bad, r.stderr)


def test_from_a_server_then_from_the_cache(find, server, program):
    r = find("--server", server.url, program.build_id, "--all")
    assert r.returncode == 0, r.stderr
    debug, executable = map(pathlib.Path, r.stdout.split())
    assert debug.read_bytes() == program.debug.read_bytes() and executable.read_bytes() == program.binary.read_bytes()
    assert debug == find.cache / program.build_id / "debuginfo"
    server.stop()
    status, found = find.json("--all", program.build_id)
    assert status == 0 and [f["from"] for f in found] == ["cache", "cache"]


def test_sections_and_sources_from_a_server(find, server, program):
    r = find("--server", server.url, "--section", ".debug_line", "--source", program.source_path, program.build_id)
    assert r.returncode == 0, r.stderr
    source, section = map(pathlib.Path, r.stdout.split())
    assert source.read_bytes() == program.source.read_bytes()
    want = program.source.parent / "line"
    subprocess.run(["objcopy", "-O", "binary", "--set-section-flags", ".debug_line=alloc", "--only-section=.debug_line", program.debug, want],
                   check=True)
    assert section.read_bytes() == want.read_bytes()


def test_what_is_nowhere_is_missing_and_not_failed(find, server):
    status, (one,) = find.json("--server", server.url, "--why", "ab" * 20)
    assert status == 1 and one["outcome"] == "missing"
    assert any("404" in step["said"] for step in one["why"]), one


def test_local_asks_nobody(find, server, program):
    before = server.metric("lode_http_requests_total") if server.metric("lode_http_requests_total") is not None else None
    r = find("--local", "--server", server.url, program.build_id)
    assert r.returncode == 1 and not find.cache.exists()
    if before is not None:
        assert server.metric("lode_http_requests_total") - before <= 2


# ---- processes and core dumps ----


@pytest.fixture
def process(tmp_path):
    """A program that waits, stripped, with a debug file in a tree by its build ID."""
    work = tmp_path / "process"
    work.mkdir()
    (work / "waiting.c").write_text(WAITING)
    subprocess.run(["gcc", "-g", "-Wl,--build-id=sha1", "-o", "waiting", "waiting.c"], cwd=work, check=True)
    subprocess.run([LODE, "split", "--build-id-tree", work / "tree", work / "waiting"], check=True, stdout=subprocess.DEVNULL)
    p = subprocess.Popen([work / "waiting"], stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.binary, p.tree, p.build_id = work / "waiting", work / "tree", build_id(work / "waiting")
    yield p
    p.kill()
    p.wait()


def by_target(found):
    return {f["target"]: f for f in found}


def test_a_process(find, process):
    _, found = find.json("--local", "--debug-file-directory", process.tree, "--pid", process.pid)
    modules = by_target(found)
    assert len(modules) == len(found)
    one = modules[str(process.binary)]
    assert one["outcome"] == "found" and one["path"].startswith(str(process.tree)) and one["build_id"] == process.build_id
    libc, = [t for t in modules if "libc.so" in t or "libc-" in t]
    assert modules[libc]["build_id"] == build_id(libc)


def test_a_process_whose_program_was_replaced(find, process):
    if os.geteuid() != 0:
        pytest.skip("only root may read what was deleted")
    process.binary.unlink()
    shutil.copy("/usr/bin/true", process.binary)
    _, found = find.json("--local", "--debug-file-directory", process.tree, "--all", "--pid", process.pid)
    mine = [f for f in found if f["target"] == str(process.binary)]
    assert [f["build_id"] for f in mine] == [process.build_id] * 2 and mine[0]["outcome"] == "found"


def test_a_core_dump(find, process, tmp_path):
    if not shutil.which("gcore"):
        pytest.skip("no gcore")
    subprocess.run(["gcore", "-o", tmp_path / "core", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    core = tmp_path / f"core.{process.pid}"
    if not core.exists():
        pytest.skip("gcore cannot dump here")
    # What lies at the path now is not what ran.
    process.binary.unlink()
    shutil.copy("/usr/bin/true", process.binary)
    _, found = find.json("--local", "--debug-file-directory", process.tree, "--all", "--core", core)
    mine = [f for f in found if f["target"] == str(process.binary)]
    assert [f["build_id"] for f in mine] == [process.build_id] * 2
    assert [f["outcome"] for f in mine] == ["found", "missing"]
    libc, = {f["target"] for f in found if "libc.so" in f["target"]}
    assert by_target(found)[libc]["build_id"] == build_id(libc)
    assert by_target(found)[libc]["path"] == libc
    # Cut anywhere: an answer, or a message.
    data = core.read_bytes()
    for n in (10, 100, 1000, 5000, len(data) // 2):
        (tmp_path / "cut").write_bytes(data[:n])
        r = find("--local", "--core", tmp_path / "cut")
        assert r.returncode == 1 and r.stderr.startswith("lode: find: "), n


# ---- packages and kernels ----


def test_a_package(find, program, tmp_path):
    root = tmp_path / "sysroot"
    to = root / "usr/bin/hello"
    to.parent.mkdir(parents=True)
    shutil.copy(program.binary, to)
    (root / "usr/bin/script").write_text("#!/bin/sh\n")
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "hello:amd64.list").write_text("/.\n/usr\n/usr/bin\n/usr/bin/hello\n/usr/bin/script\n/usr/bin/gone\n")
    debug = root / "usr/lib/debug/usr/bin/hello.debug"
    debug.parent.mkdir(parents=True)
    shutil.copy(program.debug, debug)
    r = find("--local", "--sysroot", root, "--package", "hello")
    assert (r.returncode, r.stdout) == (0, f"{debug}\n"), r.stderr


def notes_of(path, out):
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.note.gnu.build-id", str(path), str(out)], check=True)


def test_the_running_kernel_by_its_notes(find, serve, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    programs = [Program(tmp_path / f"p{i}", f"mod{i}") for i in range(4)]
    for i, p in enumerate(programs):
        make_deb(tree_of(p, tmp_path / f"root{i}"), pool / f"{p.name}.deb")
    root = tmp_path / "sysroot"
    notes_of(programs[0].binary, root / "sys/kernel/notes")
    for p in programs[1:]:
        notes_of(p.binary, root / f"sys/module/{p.name}/notes/.note.gnu.build-id")
    (root / "sys/module/builtin").mkdir()
    s = serve([pool]).scanned()
    status, found = find.json("--server", s.url, "--sysroot", root, "--kernel")
    assert status == 0, found
    assert [f["build_id"] for f in found] == [p.build_id for p in programs]
    for f, p in zip(found, programs):
        assert pathlib.Path(f["path"]).read_bytes() == p.debug.read_bytes()


def test_an_installed_kernel_with_compressed_modules(find, program, tmp_path):
    root, release = tmp_path / "sysroot", "1.2.3-test"
    modules = root / "lib/modules" / release / "kernel/drivers"
    modules.mkdir(parents=True)
    (modules / "hello.ko.xz").write_bytes(lzma.compress(program.binary.read_bytes(), preset=0))
    other = Program(tmp_path / "other", "other")
    shutil.copy(other.binary, modules / "other.ko")
    vmlinux = root / "usr/lib/debug/boot" / f"vmlinux-{release}"
    vmlinux.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-g", "-Wl,--build-id=sha1", "-o", vmlinux, program.source], check=True)
    tree = tmp_path / "d"
    to = [debug_tree(p, tree / p.name) for p in (program, other)]
    r = find("--local", "--sysroot", root, "--kernel-release", release, "--debug-file-directory", f"{tree}/hello:{tree}/other")
    assert r.returncode == 0, r.stderr
    assert sorted(r.stdout.split()) == sorted(map(str, [vmlinux, *to]))


def test_it_stops_when_told(find, tmp_path):
    """A server that does not answer: an interrupt ends it at once."""
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        p = subprocess.Popen([LODE, "find", "--server", f"http://127.0.0.1:{s.getsockname()[1]}", "ab" * 20], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=find.env)
        s.accept()
        t = time.monotonic()
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 1 and time.monotonic() - t < 20
