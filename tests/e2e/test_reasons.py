# SPDX-License-Identifier: Apache-2.0
"""Every reason why an address has no name, by a real file; and whether the advice gives the name (docs/reasons.md)."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import LODE, build_id
from profiling import Pprof, ask, code_segment, send
from pushing import put
from test_symbolize import ask as frames_of, post

SOURCE = """
__attribute__((noinline)) static int hidden(int n) { return n * 3 + 1; }
int shown(int n) { return hidden(n) ^ 5; }
"""


class Library:
    """A shared library as distributions have them: stripped, its debug file elsewhere. hidden() is in no dynamic symbol."""

    def __init__(self, at, name="libsecret.so.2"):
        at.mkdir(parents=True, exist_ok=True)
        (at / "x.c").write_text(SOURCE)
        self.full, self.stripped, self.debug = at / "full.so", at / name, at / f"{name}.debug"
        subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id", "-o", self.full, "x.c"], cwd=at, check=True)
        subprocess.run(["objcopy", "--only-keep-debug", self.full, self.debug], check=True)
        subprocess.run(["strip", "-o", self.stripped, self.full], check=True)
        out = subprocess.run(["nm", self.full], capture_output=True, text=True, check=True).stdout
        self.hidden = int(re.search(r"([0-9a-f]+) t hidden$", out, re.M)[1], 16)
        self.shown = int(re.search(r"([0-9a-f]+) T shown$", out, re.M)[1], 16)
        self.id = build_id(self.full)


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    return Library(tmp_path_factory.mktemp("library"))


def one(s, id, addr, **more):
    status, body, _ = post(s, "/symbolize", json.dumps({"modules": [{"id": id}], "addresses": [[0, addr]], **more}))
    assert status in (200, 202), body
    r = json.loads(body)
    return r["addresses"][0]["status"], r["modules"][0]


def named(s, lib):
    r = frames_of(s, {"modules": [{"id": lib.id}], "addresses": [[0, lib.hidden]]})
    return [f["function"] for f in r["addresses"][0].get("frames", [])] == ["hidden"]


def pool_of(tmp_path, *files):
    pool = tmp_path / "pool"
    pool.mkdir()
    for f in files:
        shutil.copy(f, pool)
    return pool


def push(s, id, kind, path):
    status, body, _ = put(s, f"/buildid/{id}/{kind}", pathlib.Path(path).read_bytes())
    assert status in (200, 201), body


def test_the_package_is_known_by_the_name_of_the_file(serve, lib, tmp_path):
    """The request's name for the file, else that of the file which is here."""
    pool = tmp_path / "pool"
    pool.mkdir()
    shutil.copy(lib.stripped, pool / "libsecret.so.2")
    s = serve([pool], args=["--no-upstream"]).scanned()
    for module, package in (({"id": lib.id}, "libsecret2-dbgsym"), ({"id": "ff" * 20, "file": "/usr/lib/libother.so.1"}, "libother1-dbgsym"),
                            ({"id": "ff" * 20, "file": "x" * 5000}, "its package (Debian: -dbgsym")):
        _, body, _ = post(s, "/symbolize", json.dumps({"modules": [module], "addresses": [[0, lib.hidden]]}))
        assert package in json.loads(body)["modules"][0]["help"], body
    assert "libsecret2-dbgsym" in s.get(f"/buildid/{lib.id}/symbolize?addr={lib.hidden:x}").body.decode()


def test_symbols_only(serve, lib, tmp_path):
    s = serve([pool_of(tmp_path, lib.stripped)], args=["--no-upstream"]).scanned()
    status, module = one(s, lib.id, lib.hidden)
    assert status == "no-debug-info" and module["status"] == "found"
    assert "start it with --debuginfod-upstream-servers" in module["help"] and "lode push FILE" in module["help"]
    # Debug information has no function in the ELF header.
    assert one(s, lib.id, 8, kind="relative")[0] == "outside"
    push(s, lib.id, "debuginfo", lib.debug)
    s.wait(lambda: named(s, lib), "named")
    status, module = one(s, lib.id, 8)
    assert status == "outside" and "help" not in module


def test_nothing_here(serve, lib, tmp_path):
    s = serve([pool_of(tmp_path)], args=["--no-upstream"]).scanned()
    status, module = one(s, lib.id, lib.hidden)
    assert status == "unknown" and "this server asks no other" in module["help"]
    push(s, lib.id, "debuginfo", lib.debug)
    s.wait(lambda: named(s, lib), "named")


def test_other_servers(serve, faulty, lib, tmp_path):
    path = f"/buildid/{lib.id}/debuginfo"
    for how, reason in ("404", "upstream-404"), ("500", "upstream-failed"):
        up = faulty({path: lib.debug.read_bytes()})
        up.how = lambda path, n, how=how: how
        (tmp_path / how).mkdir()
        s = serve([pool_of(tmp_path / how)], args=["--debuginfod-upstream-servers", up.url]).scanned()
        status, module = one(s, lib.id, lib.hidden)
        assert status == reason, (how, module)
        assert module["help"] and (how != "404" or up.url in module["help"]), module
        push(s, lib.id, "debuginfo", lib.debug)
        s.wait(lambda: named(s, lib), "named")
        s.stop()


def test_files_without_use(serve, lib, tmp_path):
    bare = tmp_path / "bare"
    (tmp_path / "b.c").write_text("void _start(void) { for (;;) ; }\n")
    subprocess.run(["gcc", "-nostdlib", "-static", "-s", "-Wl,--build-id", "-o", bare, tmp_path / "b.c"], check=True)
    s = serve([pool_of(tmp_path, bare)], args=["--no-upstream"]).scanned()
    status, module = one(s, build_id(bare), 0x401000)
    assert status == "no-symbols" and "push the debug file" in module["help"]
    # Only the debug file: offsets in the program mean nothing.
    push(s, lib.id, "debuginfo", lib.debug)
    s.wait(lambda: named(s, lib), "named")
    off, vaddr, _ = code_segment(lib.stripped)
    status, module = one(s, lib.id, lib.hidden - vaddr + off, kind="offset")
    assert status in ("no-layout", "unknown"), module
    push(s, lib.id, "executable", lib.stripped)
    s.wait(lambda: one(s, lib.id, lib.hidden - vaddr + off, kind="offset")[0] == "found", "found")


def test_requests_that_lack_something(serve, lib, tmp_path):
    s = serve([pool_of(tmp_path, lib.full)], args=["--no-upstream"]).scanned()
    r = frames_of(s, {"modules": [{}, {"id": lib.id}], "addresses": [[0, 1]]})
    assert r["addresses"][0]["status"] == "no-build-id" and "--build-id" in r["modules"][0]["help"]
    assert one(s, lib.id, lib.hidden, kind="runtime")[0] == "no-mapping"


def test_a_profile_on_the_server(serve, lib, tmp_path):
    """The page shows the same texts: it has them from here."""
    s = serve([pool_of(tmp_path, lib.stripped)], args=["--no-upstream", "--symbolize-interval", "1"]).scanned()
    off, vaddr, size = code_segment(lib.stripped)
    base = 0x7f0000000000 - off
    mappings = [(base + vaddr, base + vaddr + size, off, "/usr/lib/libsecret.so.2", lib.id)]
    mappings += [(0x1000, 0x2000, 0, file, "") for file in ("/usr/lib/libnoid.so.1", "/tmp/gone (deleted)", "[vdso]", "//anon", "/memfd:jit",
                                                            "[heap]", "/tmp/perf-17.map", "C:\\x\\app.dll", "/opt/Foo.app/Contents/MacOS/Foo", "/lib/modules/6.1/ext4.ko",
                                                            "/proc/self/exe")]
    for i, m in enumerate(mappings):
        p = Pprof(mapping=m).sample([base + lib.hidden if i == 0 else 0x1234], [1, 10])
        send(s, p.bytes(), service="x")

    def list_of():
        return {b["file"]: b for b in ask(s, "binaries")["binaries"]}

    s.wait(lambda: len(list_of()) == len(mappings) and all(b["reason"] for b in list_of().values()), "tried")
    known = list_of()
    b = known["/usr/lib/libsecret.so.2"]
    assert (b["reason"], b["named"]) == ("no-debug-info", 0), b
    assert "libsecret2-dbgsym" in b["help"] and "--debuginfod-upstream-servers" in b["help"]
    for file, b in known.items():
        if file != "/usr/lib/libsecret.so.2":
            assert b["reason"] == "no-build-id" and b["help"], b
            assert ("-Wl,--build-id" in b["help"]) == file.startswith("/usr"), b
    assert "replaced while the program ran" in known["/tmp/gone (deleted)"]["help"]
    assert "--pid PID" in known["[vdso]"]["help"]
    assert all("perf-PID.map" in known[name]["help"] for name in ("//anon", "/memfd:jit", "[heap]"))
    for file, part in (("C:\\x\\app.dll", "file of Windows"), ("/opt/Foo.app/Contents/MacOS/Foo", "Apple's systems"),
                       ("/lib/modules/6.1/ext4.ko", "as perf's have"), ("/proc/self/exe", "a link of the process")):
        assert part in known[file]["help"], known[file]
    push(s, lib.id, "debuginfo", lib.debug)
    s.wait(lambda: list_of()["/usr/lib/libsecret.so.2"]["named"] == 1, "named")


def test_a_profile_by_the_command(lib, tmp_path):
    off, vaddr, size = code_segment(lib.stripped)
    base = 0x7f0000000000 - off
    p = Pprof(mapping=(base + vaddr, base + vaddr + size, off, str(lib.stripped), lib.id)).sample([base + lib.hidden], [1, 10])
    (tmp_path / "p.pb").write_bytes(p.bytes())

    def run(*args):
        return subprocess.run([LODE, "symbolize", "p.pb", "-o", "o.folded", *args], cwd=tmp_path, capture_output=True, text=True, check=True,
                              env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DEBUGINFOD_URLS": ""}).stderr

    # Its debug file is not where gdb's rules look for it.
    lib.debug.rename(lib.debug.with_suffix(".away"))
    try:
        said = run()
        assert "1 have no name" in said and "debug information of its file is missing" in said
        assert "no server was asked: ask one by --server https://" in said
        assert "libsecret2-dbgsym" in said or "apt" not in said
        assert "http://127.0.0.1:9" in run("--server", "http://127.0.0.1:9")
    finally:
        lib.debug.with_suffix(".away").rename(lib.debug)


def test_addresses_by_the_command(lib, tmp_path):
    def run(addr, *more):
        return subprocess.run([LODE, "symbolize", "-e", lib.stripped, *more, hex(addr)], cwd=tmp_path, capture_output=True, text=True,
                              env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DEBUGINFOD_URLS": ""}).stderr

    lib.debug.rename(lib.debug.with_suffix(".away"))
    try:
        said = run(lib.hidden, "--verbose")
        assert "debug information of its file is missing" in said and "--server https://" in said
        assert "outside of every function" in run(8, "-v")
        assert run(lib.hidden) == ""
    finally:
        lib.debug.with_suffix(".away").rename(lib.debug)
