# SPDX-License-Identifier: Apache-2.0
"""lode find: files, build IDs, processes, core dumps, packages, kernels; on this machine, in the cache folder, on a server."""

import fcntl
import json
import lzma
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import LODE, Program, build_id, make_deb, make_rpm, tree_of
from making import elf, new_id  # noqa: F401

WAITING = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
"""


class Finder:
    """lode find with its own cache folder, and without servers unless given."""

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
    """A service with a package of the program."""
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
    asked = r'http_requests_total\{type="debuginfo"\}'
    server.get("/buildid/00ff/debuginfo")
    before = server.metric(asked)
    r = find("--local", "--server", server.url, program.build_id)
    assert r.returncode == 1 and not find.cache.exists()
    assert server.metric(asked) == before is not None


# ---- processes and core dumps ----


@pytest.fixture
def process(tmp_path, request):
    """A stripped program that waits, and a tree with its debug file by build ID. Its parameters are options of gcc."""
    work = tmp_path / "process"
    work.mkdir()
    (work / "waiting.c").write_text(WAITING)
    subprocess.run(["gcc", "-g", "-Wl,--build-id=sha1", *getattr(request, "param", []), "-o", "waiting", "waiting.c"], cwd=work, check=True)
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


# Without -pie its addresses have leading zeros in maps, and none in map_files.
@pytest.mark.parametrize("process", [["-pie", "-fPIE"], ["-no-pie"]], indirect=True)
def test_a_process_whose_program_was_replaced(find, process):
    if os.geteuid() != 0:
        pytest.skip("only root may read what was deleted")
    process.binary.unlink()
    shutil.copy("/usr/bin/true", process.binary)
    _, found = find.json("--local", "--debug-file-directory", process.tree, "--all", "--pid", process.pid)
    mine = [f for f in found if f["target"] == str(process.binary)]
    assert [f["build_id"] for f in mine] == [process.build_id] * 2 and mine[0]["outcome"] == "found"


def test_a_core_dump(find, process, tmp_path):
    subprocess.run(["gcore", "-o", tmp_path / "core", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    core = tmp_path / f"core.{process.pid}"
    if not core.exists():
        pytest.skip("gcore cannot dump here")
    # The file at the path is no longer the one that runs.
    process.binary.unlink()
    shutil.copy("/usr/bin/true", process.binary)
    _, found = find.json("--local", "--debug-file-directory", process.tree, "--all", "--core", core)
    mine = [f for f in found if f["target"] == str(process.binary)]
    assert [f["build_id"] for f in mine] == [process.build_id] * 2
    assert [f["outcome"] for f in mine] == ["found", "missing"]
    libc, = {f["target"] for f in found if "libc.so" in f["target"]}
    assert by_target(found)[libc]["build_id"] == build_id(libc)
    assert by_target(found)[libc]["path"] == libc
    # A core file that is cut anywhere gives an answer or a message.
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


@pytest.mark.parametrize("folder", ["usr/lib/sysimage/rpm", "var/lib/rpm"])
def test_a_package_that_rpm_has_installed(find, program, tmp_path, folder):
    built, pool, root = tmp_path / "built", tmp_path / "pool", tmp_path / "sysroot"
    pool.mkdir()
    root.mkdir()
    package = make_rpm(tree_of(program, built), pool, tmp_path / "work", "w2.xzdio")
    subprocess.run(["rpm", "--root", str(root), "--dbpath", f"/{folder}", "--nodeps", "--force-debian", "-i", str(package)], check=True,
                   capture_output=True)
    _, found = find.json("--local", "--sysroot", root, "--package", "hello")
    assert {f["build_id"] for f in found} == {program.build_id}
    assert f"{root}/usr/bin/{program.name}" in {f["target"] for f in found}
    # A package that is not installed. rpm must not create a database.
    r = find("--local", "--sysroot", root, "--package", "hallo")
    assert r.returncode == 1 and "package hallo is not installed" in r.stderr and "rpm" in r.stderr
    r = find("--local", "--sysroot", root, "--package=--eval")
    assert r.returncode == 1 and "package --eval is not installed" in r.stderr
    (tmp_path / "bare" / folder).mkdir(parents=True)
    assert find("--local", "--sysroot", tmp_path / "bare", "--package", "hello").returncode == 1
    assert list((tmp_path / "bare" / folder).iterdir()) == []


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

@pytest.mark.skipif(not os.path.exists("/var/lib/dpkg/info"), reason="no dpkg")
def test_advice_names_the_package_of_the_file_itself(find):
    """Not that of a link to it; and also for a relative path."""
    for name in ("awk", "gcc", "python3", "clang"):
        real = os.path.realpath(f"/usr/bin/{name}")
        owner = subprocess.run(["dpkg", "-S", real], capture_output=True, text=True).stdout.partition(":")[0]
        r = find("--local", f"/usr/bin/{name}") if owner else None
        if r and r.returncode == 1 and " debuginfo: " in r.stderr:
            assert f"apt install {owner}-dbg" in r.stderr, r.stderr
    r = subprocess.run([LODE, "find", "--local", "ls"], capture_output=True, text=True, cwd="/usr/bin", env=find.env)
    if r.returncode == 1:
        assert "apt install coreutils-dbgsym" in r.stderr, r.stderr


def test_it_stops_when_told(find, tmp_path):
    """A server does not answer, and an interrupt ends the command at once."""
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


# ---- sections and supplementary files on this machine ----


def objcopy_section(path, name, out):
    subprocess.run(["objcopy", "--dump-section", f"{name}={out}", path, "/dev/null"], check=True)
    return out.read_bytes()


def test_a_section_is_cut_out_of_what_is_here(find, program, tmp_path):
    r = find("--local", "--section", ".debug_line", "--section", ".text", program.binary)
    assert r.returncode == 0, r.stderr
    line, text = map(pathlib.Path, r.stdout.split())
    assert line.parent == text.parent == find.cache / program.build_id
    assert line.read_bytes() == objcopy_section(program.debug, ".debug_line", tmp_path / "line")
    assert text.read_bytes() == objcopy_section(program.binary, ".text", tmp_path / "text")
    # Other clients find it in the cache folder too.
    again = subprocess.run([LODE, "debuginfod-find", "section", program.build_id, ".debug_line"], capture_output=True, text=True,
                           env=find.env | {"DEBUGINFOD_URLS": "http://127.0.0.1:1"}, timeout=60)
    assert again.stdout == f"{line}\n", again.stderr


def test_a_section_that_is_nowhere_is_asked_of_nobody(find, program, server):
    asked = r'http_requests_total\{type="section"\}'
    server.get("/buildid/00ff/section/.text")
    before = server.metric(asked)
    status, (one,) = find.json("--server", server.url, "--section", ".no_such", program.binary)
    assert status == 1 and one["outcome"] == "missing" and str(program.debug) in one["reason"]
    assert server.metric(asked) == before is not None

def test_a_miss_of_a_named_server_is_none_of_the_others(server, serve, program, find, tmp_path):
    (tmp_path / "empty").mkdir()
    other = serve([tmp_path / "empty"]).scanned()
    assert find("--server", other.url, program.build_id).returncode == 1
    assert not (find.cache / program.build_id / "debuginfo").exists()
    r = find(program.build_id, env={"DEBUGINFOD_URLS": server.url})
    assert r.returncode == 0, r
    # A miss of all servers of the environment is noted.
    assert find("ab" * 20, env={"DEBUGINFOD_URLS": other.url}).returncode == 1
    assert (find.cache / ("ab" * 20) / "debuginfo").stat().st_size == 0


def test_a_section_by_build_id_of_the_executable(find, program, tmp_path):
    tree = tmp_path / "d"
    debug_tree(program, tree)
    shutil.copy(program.binary, tree / f".build-id/{program.build_id[:2]}/{program.build_id[2:]}")
    status, found = find.json("--local", "--debug-file-directory", tree, "--section", ".text", "--section", ".debug_info", program.build_id)
    assert status == 0 and ["cut out of" in f["from"] for f in found] == [True, True]
    assert pathlib.Path(found[0]["path"]).read_bytes() == objcopy_section(program.binary, ".text", tmp_path / "text")

def test_a_damaged_file_does_not_hide_the_others(tmp_path):
    """Of an installed kernel's modules, and of the mapped files of a process."""
    modules = tmp_path / "lib/modules/9.9/kernel"
    modules.mkdir(parents=True)
    (tmp_path / "x.c").write_text(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/mman.h>\nint main(int n, char **v) {\n"
        "mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(v[1], O_RDONLY), 0); puts(\"x\"); fflush(stdout); return getchar(); }\n")
    subprocess.run(["gcc", "-g", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    damaged = b"\x7fELF\x09\x09\x09" + bytes(5000)
    for name in "abcd":
        (modules / f"{name}.ko").write_bytes(damaged if name == "b" else (tmp_path / "x").read_bytes())
    (tmp_path / "bad").write_bytes(damaged)
    r = subprocess.run([LODE, "find", "--local", "--sysroot", tmp_path, "--kernel-release", "9.9"], capture_output=True, text=True)
    assert r.returncode == 1 and "b.ko: ELF class" in r.stderr, r
    assert [line.rsplit("/", 1)[1] for line in r.stdout.splitlines()] == ["a.ko", "c.ko", "d.ko"]
    p = subprocess.Popen([tmp_path / "x", tmp_path / "bad"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        p.stdout.readline()
        r = subprocess.run([LODE, "find", "--local", "--json", "--pid", str(p.pid)], capture_output=True, text=True)
        targets = [line.split('"')[3] for line in r.stdout.splitlines() if '"target"' in line]
        assert f"{tmp_path}/bad" in targets and any("/ld-linux" in t for t in targets) and f"{tmp_path}/bad: ELF class" in r.stderr, r
    finally:
        p.communicate(b"\n")


def test_a_section_of_a_file_without_build_id_has_no_place(find, tmp_path):
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-Wl,--build-id=none", "-o", "x", "x.c"], cwd=tmp_path, check=True)
    r = find("--local", "--why", "--section", ".debug_line", tmp_path / "x")
    assert r.returncode == 1 and "no build ID" in r.stderr


@pytest.fixture
def shared(tmp_path):
    """Two programs whose debug files share a supplementary file (dwz -m): (tree, shared file)."""
    tree, programs = tmp_path / "shared", [Program(tmp_path / f"s{i}", f"sharing{i}") for i in range(2)]
    files = [debug_tree(p, tree) for p in programs]
    dwz = tree / ".dwz/common.debug"
    dwz.parent.mkdir()
    made = subprocess.run(["dwz", "-m", dwz, "-M", dwz, *files], capture_output=True, text=True)
    if not dwz.exists():
        pytest.skip(f"dwz shares nothing here: {made.stderr}")
    return tree, programs, files, dwz


def test_the_file_that_debug_files_share_comes_with_all(find, shared):
    tree, programs, files, dwz = shared
    ids = [p.build_id for p in programs]
    r = find("--local", "--debug-file-directory", tree, *ids)
    assert (r.returncode, r.stdout.split()) == (0, [*map(str, files)]), r.stderr
    # It is printed once, although both name it.
    status, found = find.json("--local", "--debug-file-directory", tree, "--all", *ids)
    assert [f["path"] for f in found if f["outcome"] == "found"] == [*map(str, files), str(dwz)]
    assert found[-1]["part_of"] == str(files[0]) and found[-1]["build_id"] == build_id(dwz)
    r = find("--local", "--debug-file-directory", tree, "--why", ids[0])
    assert r.stdout == f"{files[0]}\n" and f"alt link: {dwz}: its build ID matches" in r.stderr and "--all finds it, too" in r.stderr


def test_the_file_that_debug_files_share_comes_from_a_server(find, serve, shared, tmp_path):
    tree, programs, files, dwz = shared
    shared_id, content = build_id(dwz), dwz.read_bytes()
    s = serve([tree]).scanned()
    dwz.rename(tree / "elsewhere.debug")  # not at the link's path, but the server has it
    s.wait(lambda: s.get(f"/buildid/{shared_id}/debuginfo").status == 200, "the shared file")
    (tmp_path / "here").mkdir()
    status, found = find.json("--server", s.url, "--debug-file-directory", tmp_path / "here", "--all", programs[0].build_id)
    got = {f["build_id"]: f for f in found if f["kind"] == "debuginfo"}
    assert pathlib.Path(got[shared_id]["path"]).read_bytes() == content, found
    assert got[shared_id]["path"] == str(find.cache / shared_id / "debuginfo")


# ---- package files ----


@pytest.mark.parametrize("form", ["deb", "rpm"])
@pytest.mark.parametrize("how", ["target", "option"])
def test_the_files_in_a_package_file(find, program, tmp_path, form, how):
    pool = tmp_path / "pool"
    pool.mkdir()
    root = tree_of(program, tmp_path / "root")
    package = make_deb(root, pool / "hello.deb") if form == "deb" else make_rpm(root, pool, tmp_path / "work", "w2.xzdio")
    debug = debug_tree(program, tmp_path / "d")
    status, found = find.json("--local", "--debug-file-directory", tmp_path / "d", *(["--package"] if how == "option" else []), package)
    assert status == 0 and [f["path"] for f in found] == [str(debug)]
    assert found[0]["build_id"] == program.build_id and found[0]["target"].startswith(f"{package}: /usr/")


def test_what_is_no_package_is_told(find, tmp_path):
    (tmp_path / "x.deb").write_text("nonsense")
    for args in ([tmp_path / "x.deb"], ["--package", tmp_path / "x.deb"], ["--package", tmp_path / "missing.deb"]):
        r = find("--local", *args)
        assert r.returncode == 1 and ("a text file" in r.stderr or "not a package" in r.stderr or "No such file" in r.stderr), (args, r.stderr)
    cut = make_deb_of_nothing(tmp_path)
    r = find("--local", cut)
    assert r.returncode == 1 and "no ELF file" in r.stderr
    r = find("--local", "--sysroot", tmp_path / "nowhere", "--package", "hello")
    assert r.returncode == 1 and "neither dpkg here" in r.stderr and "database of rpm" in r.stderr


def make_deb_of_nothing(tmp_path):
    root = tmp_path / "nothing"
    (root / "usr/share/doc").mkdir(parents=True)
    (root / "usr/share/doc/x").write_text("x")
    return make_deb(root, tmp_path / "nothing.deb")


# ---- progress ----


def on_terminal(argv, env, columns=100):
    """Run a command whose stderr is a terminal of that width. Returns its output on the terminal, and its stdout."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=slave, env=env)
    os.close(slave)
    shown = b""
    with open(master, "rb", buffering=0) as m:
        while True:
            try:
                piece = m.read(65536)
            except OSError:  # EIO: the other end is closed
                break
            if not piece:
                break
            shown += piece
    out = p.stdout.read()
    p.stdout.close()
    return p.wait(), out.decode(), shown.decode()


@pytest.fixture
def slow_server(elf, faulty):
    """A server that sends three files slowly, about two seconds each."""
    ids = [new_id("slow", i) for i in range(3)]
    files = {f"/buildid/{i}/debuginfo": elf.of(elf.large, i) for i in ids}
    return faulty(files, lambda path, n: f"slow {len(elf.large) // 40}"), ids


@pytest.mark.slow
def test_progress_on_a_terminal(find, slow_server):
    server, ids = slow_server
    status, out, shown = on_terminal([LODE, "find", "--server", server.url, *ids], find.env)
    assert status == 0 and len(out.split()) == 3, shown
    lines = [x for x in shown.split("\r\x1b[K") if x]
    assert lines and all(len(x) < 100 for x in lines), shown
    assert any(re.match(r"\[#+ *\] \d of 3, [\d.]+ MB of 9\.\d MB, [\d.]+ .B/s, \d+ s left$", x) for x in lines), lines
    assert shown.endswith("\r\x1b[K")  # the status line is erased
    # On a narrow terminal the status stays on one line.
    for p in find.cache.rglob("debuginfo"):
        p.unlink()
    _, _, shown = on_terminal([LODE, "find", "--server", server.url, ids[0]], find.env, columns=30)
    assert shown and all(len(x) < 30 for x in shown.split("\r\x1b[K")) and "\n" not in shown


@pytest.mark.slow
def test_no_progress_where_there_is_no_terminal(find, slow_server):
    server, ids = slow_server
    r = find("--server", server.url, *ids)
    assert r.returncode == 0 and r.stderr == ""
