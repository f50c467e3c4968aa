# SPDX-License-Identifier: Apache-2.0
"""The reasons in commands: each in `lode symbolize PROFILE`, and what is reported of a process, of crash text and by `lode find`; then what
the advice says is done, and gives the name."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import LODE, ROOT, build_id
from faulty import Dead
from profiling import Pprof, code_segment
from test_reasons import Library, lib  # noqa: F401
from test_reasons_agree import codes
from test_reasons_walk import segment_at
from test_symbolize import Built, build_split, code_of

OF_SERVICE = {"pending", "busy"}  # a command waits
BASE = 0x7f0000000000


def texts():
    found = re.findall(r'\{ "([a-z0-9-]+)",((?:\s*"[^"]*")+),\s*(?:true|false)', (ROOT / "src/frame/reason.c").read_text())
    return {code: "".join(re.findall(r'"([^"]*)"', text)) for code, text in found}


class Command:
    """A profile of one address in @program, which it names by @path."""

    def __init__(self, tmp_path, lib, faulty):  # noqa: F811
        self.dir, self.lib, self.faulty = tmp_path, lib, faulty
        self.function, self.args = "hidden", []

    def profile(self, program, addr, path=None, id_=None, **mapping):
        off, vaddr, size = segment_at(program, addr) if mapping.get("here") else code_segment(program)
        mapping = (BASE + vaddr, BASE + vaddr + size, off, str(path or program), build_id(program) if id_ is None else id_)
        (self.dir / "p.pb").write_bytes(Pprof(mapping=mapping).sample([BASE + addr], [1, 10]).bytes())

    def run(self, *args, what="symbolize"):
        out = self.dir / "o.folded"
        env = {"HOME": str(self.dir), "PATH": "/usr/bin:/bin", "DEBUGINFOD_URLS": "", "DEBUGINFOD_TIMEOUT": "3"}
        r = subprocess.run([LODE, what, "p.pb", "-o", out, *self.args, *args], cwd=self.dir, capture_output=True, text=True, env=env)
        assert r.returncode == 0, r.stderr
        return out.read_text(), r.stderr

    def server(self, id_, debug, how=None, program=None):
        files = {f"/buildid/{id_}/debuginfo": debug.read_bytes()} if debug else {}
        if program:
            files[f"/buildid/{id_}/executable"] = program.read_bytes()
        return self.faulty(files, lambda path, n: how)

    def place(self):
        """The library alone in a folder, as a package installs it."""
        here = self.dir / "usr"
        here.mkdir()
        return pathlib.Path(shutil.copy(self.lib.stripped, here))


CASES = {}


def case(code):
    def add(fn):
        CASES.setdefault(code, []).append(fn)
        return fn
    return add


# A case is a generator: it yields what the command must say; then it does what that says.

@case("no-debug-info")
def symbols_only(c):
    c.profile(c.place(), c.lib.hidden)
    yield "no server was asked: ask one by --server https://"
    c.args = ["--server", c.server(c.lib.id, c.lib.debug).url]


@case("unknown")
def nothing_here(c):
    c.profile(c.lib.stripped, c.lib.hidden, path="/gone/libsecret.so.2")
    yield "no server was asked: ask one by --server https://"
    c.args = ["--server", c.server(c.lib.id, c.lib.debug).url]


def asked(c, up, words):
    c.profile(c.lib.stripped, c.lib.hidden, path="/gone/libsecret.so.2")
    c.args = ["--server", up.url]
    yield f"{words} {up.url}; or ask https://"
    c.args = ["--server", up.url, "--server", c.server(c.lib.id, c.lib.debug).url]


@case("upstream-404")
def servers_have_it_not(c):
    yield from asked(c, c.server(c.lib.id, None), "it was asked for at")


@case("upstream-failed")
def a_server_fails(c):
    yield from asked(c, c.server(c.lib.id, c.lib.debug, "500"), "run the command again later, when its server answers: it was asked for at")


@case("timed-out")
def a_server_is_switched_off(c):
    dead = Dead()
    try:
        yield from asked(c, dead, "run the command again later, when its server answers: it was asked for at")
    finally:
        dead.stop()


@case("not-elf")
def a_server_sends_html(c):
    yield from asked(c, c.server(c.lib.id, c.lib.debug, "html"), "it was asked for at")


@case("damaged")
def a_file_that_is_rubbish(c):
    full = c.dir / "libfull.so.1"
    bad = bytearray(c.lib.full.read_bytes())
    out = subprocess.run(["readelf", "-SW", c.lib.full], capture_output=True, text=True, check=True).stdout
    for name in (".debug_info", ".symtab"):
        off, size = (int(x, 16) for x in re.search(rf" {re.escape(name)} +\w+ +\w+ (\w+) (\w+) ", out).groups())
        bad[off + 4:off + size] = b"\xff" * (size - 4)
    full.write_bytes(bytes(bad))
    c.profile(full, c.lib.hidden)
    yield "put a sound copy of the file in its place, or reinstall its package"
    shutil.copy(c.lib.full, full)


@case("no-symbols")
def a_stripped_static_program(c):
    (c.dir / "b.c").write_text("static int hidden(int n) { for (;;) n++; return n; }\nvoid _start(void) { hidden(1); }\n")
    full, bare, debug = (c.dir / name for name in ("full", "bare", "debug"))
    subprocess.run(["gcc", "-g", "-fno-inline", "-nostdlib", "-static", "-Wl,--build-id", "-o", full, c.dir / "b.c"], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, debug], check=True)
    subprocess.run(["strip", "-o", bare, full], check=True)
    at = int(re.search(r"^(\w+) t hidden$", subprocess.run(["nm", full], capture_output=True, text=True, check=True).stdout, re.M)[1], 16)
    page = at & ~0xfff
    (c.dir / "p.pb").write_bytes(Pprof(mapping=(page, page + 0x1000, segment_at(bare, at)[0], str(bare), build_id(bare))).sample([at], [1, 10]).bytes())
    yield "ask one by --server"
    c.args = ["--server", c.server(build_id(bare), debug).url]


@case("no-layout")
def code_in_two_places_and_only_the_debug_file(c):
    (c.dir / "x.c").write_text('__attribute__((section("far"), noinline)) static int hidden(int n) { return n * 3 + 1; }\nint shown(int n) { return hidden(n) ^ 5; }\n')
    full, program, debug = (c.dir / name for name in ("full.so", "far.so", "debug"))
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id", "-Wl,--section-start=far=0x200000", "-o", full, c.dir / "x.c"], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, debug], check=True)
    subprocess.run(["strip", "-o", program, full], check=True)
    at = int(re.search(r"^(\w+) t hidden$", subprocess.run(["nm", full], capture_output=True, text=True, check=True).stdout, re.M)[1], 16)
    c.profile(program, at, here=True)
    program.rename(c.dir / "away")
    c.args = ["--server", c.server(build_id(full), debug).url]
    yield "put the program itself where the profile has it"
    (c.dir / "away").rename(program)


@case("outside")
def an_address_of_no_code(c):
    c.profile(c.lib.full, 0x10, here=True)
    yield "check the address"
    c.profile(c.lib.full, c.lib.hidden)


@case("no-build-id")
def a_path_without_a_build_id(c):
    c.profile(c.lib.full, c.lib.hidden, path=f"{c.lib.full} (deleted)", id_="")
    yield "the file was replaced while the program ran: use a profile that has build IDs"
    c.profile(c.lib.full, c.lib.hidden, path="/gone")
    c.args = ["--server", c.server(c.lib.id, c.lib.debug).url]


@case("no-build-id")
def code_of_a_jit_compiler(c):
    """The names are in the file that the advice asks for, and perf script has them."""
    c.profile(c.lib.full, c.lib.hidden, path="//anon", id_="")
    yield "let the program write /tmp/perf-PID.map (Node.js: --perf-basic-prof, Python: -X perf, Java: -XX:+DumpPerfMapAtExit) and convert the profile with perf script"
    (c.dir / "p.pb").write_text("node 77 [000] 1.000000: 1 cycles:\n\t    7f0000001000 hidden+0x10 (/tmp/perf-77.map)\n\n")


@case("no-build-id")
def the_kernel(c):
    c.profile(c.lib.full, c.lib.hidden, path="[kernel.kallsyms]_text", id_="")
    yield "use a profile that has the build IDs of the kernel and its modules, as perf's have; or name the addresses on that machine"
    c.profile(c.lib.full, c.lib.hidden, path="[vdso]", id_="")
    _, said = c.run()
    assert "lode symbolize --pid PID; or use a profile that has its build ID" in said
    c.profile(c.lib.full, c.lib.hidden, path="[vdso]")
    c.args = ["--server", c.server(c.lib.id, c.lib.debug).url]


@case("no-mapping")
def an_address_in_no_mapping(c):
    off, vaddr, size = code_segment(c.lib.full)
    mapping = (BASE + vaddr, BASE + vaddr + size, off, str(c.lib.full), c.lib.id)
    p = Pprof(mapping=mapping).sample([0x4242], [1, 10]).bytes()
    # The location refers to no mapping: 0.
    (c.dir / "p.pb").write_bytes(p.replace(b"\x08\x01\x10\x01\x18\xc2\x84\x01", b"\x08\x01\x10\x00\x18\xc2\x84\x01"))
    yield "use a profile that has its mappings"
    c.profile(c.lib.full, c.lib.hidden)


@case("alt-missing")
def a_supplementary_file_is_missing(c):
    a, b = Built(c.dir / "a"), Built(c.dir / "b", ["-DOTHER"])
    common, there = c.dir / "common.debug", c.dir / "dwz" / "common.debug"
    # What has its own debug information.
    subprocess.run(["dwz", "-m", common, "-M", there, a.full, b.full], check=True)
    command = [LODE, "symbolize", "-e", a.full, "--local", "-v"]
    at = next(x for x in a.code if "??" in subprocess.run([*command, hex(x)], capture_output=True, text=True).stdout)
    c.profile(a.full, at)
    yield f"put it at its path, or name it: lode symbolize -e FILE --alt FILE; missing: {there}"
    there.parent.mkdir()
    common.rename(there)
    c.function = subprocess.run([*command, "--output-style", "llvm", hex(at)], capture_output=True, text=True).stdout.split("(")[0]


@case("split-missing")
def a_split_file_is_missing(c):
    build = c.dir / "build"
    build_split(build)
    shop = Built.__new__(Built)
    shop.full = build / "shop"
    at = next(x for x in code_of(shop.full) if len(shop.oracle([x])[0]) > 1)
    dwo = next(build.glob("*.dwo"))
    dwo.rename(c.dir / dwo.name)
    c.profile(build / "shop", at)
    yield f"put the .dwo files where the compiler wrote them, or a package of them (dwp -e PROGRAM -o PROGRAM.dwp) beside the program; missing: {dwo.name}"
    (c.dir / dwo.name).rename(dwo)
    c.function = shop.oracle([at], "--demangle")[0][0][0].split("(")[0]


def test_every_reason_has_a_case():
    assert set(CASES) | OF_SERVICE == set(codes()) - {"found"} and set(texts()) == set(codes())


@pytest.mark.slow
@pytest.mark.parametrize("code,fn", [pytest.param(code, fn, id=f"{code}-{fn.__name__}") for code, list_ in CASES.items() for fn in list_])
def test_the_reason_and_the_advice(lib, faulty, tmp_path, code, fn):  # noqa: F811
    shutil.copytree(lib.full.parent, tmp_path / "lib")
    c = Command(tmp_path, lib, faulty)
    steps = fn(c)
    want = next(steps)
    stacks, said = c.run()
    assert texts()[code] in said, said
    assert want in said, said
    assert next(steps, None) is None
    stacks, said = c.run()
    assert c.function in stacks and texts()[code] not in said, (stacks, said)


# ---- other commands ----

def command(tmp_path, *args, text=None, urls=""):
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DEBUGINFOD_URLS": urls}
    return subprocess.run([LODE, *map(str, args)], cwd=tmp_path, capture_output=True, text=True, env=env, input=text)


def test_addresses_of_a_process(lib, faulty, tmp_path):  # noqa: F811
    """A stripped library, code that the process made itself, and an address of nothing."""
    here = tmp_path / "usr"
    here.mkdir()
    so = shutil.copy(lib.stripped, here)
    program = f"""import ctypes, mmap, sys
l = ctypes.CDLL({str(so)!r})
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
print(hex(ctypes.addressof(ctypes.c_char.from_buffer(m))), hex(ctypes.cast(l.shown, ctypes.c_void_p).value), flush=True)
sys.stdin.read()"""
    p = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    made = pathlib.Path(f"/tmp/perf-{p.pid}.map")
    try:
        jit, shown = (int(x, 16) for x in p.stdout.readline().split())
        hidden = hex(shown - lib.shown + lib.hidden)

        def ask(addr, *more):
            r = command(tmp_path, "symbolize", "--pid", p.pid, *more, addr)
            return r.stdout, r.stderr

        out, said = ask(hidden, "-v")
        assert "addresses without a name: 1; no symbol is at this address, and the debug information of its file is missing" in said, said
        assert "ask one by --server https://" in said and "hidden" not in out
        assert ask(hidden)[1] == "" or "without a name" not in ask(hidden)[1]
        up = faulty({f"/buildid/{lib.id}/debuginfo": lib.debug.read_bytes()})
        out, said = ask(hidden, "-v", "--server", up.url)
        assert "hidden" in out and "without a name" not in said, (out, said)
        out, said = ask(hex(jit + 4), "-v")
        assert f"process {p.pid}: addresses without a name: 1; the process has made the code there, and /tmp/perf-PID.map does not name it" in said, said
        assert "--perf-basic-prof" in said
        made.write_text(f"{jit:x} 20 compiled\n")
        out, said = ask(hex(jit + 4), "-v")
        assert "compiled" in out and "without a name" not in said
        out, said = ask("0x10", "-v")
        assert "no code is mapped at the address" in said and "/proc/PID/maps" in said
    finally:
        made.unlink(missing_ok=True)
        p.communicate("")


def test_crash_text(lib, faulty, tmp_path):  # noqa: F811
    here = tmp_path / "usr"
    here.mkdir()
    so = shutil.copy(lib.stripped, here)
    text = f"    #0 {BASE + lib.hidden:#x}  ({so}+{lib.hidden:#x}) (BuildId: {lib.id})\n    #1 0x5  (/gone/x.so+0x5) (BuildId: {'77' * 20})\n"
    r = command(tmp_path, "symbolize", "-v", text=text)
    assert r.stdout == text
    assert f"{so}: addresses without a name: 1; no symbol is at this address, and the debug information of its file is missing" in r.stderr, r.stderr
    assert "/gone/x.so: addresses without a name: 1; nothing here has this build ID" in r.stderr
    assert r.stderr.count("ask one by --server https://") == 2
    assert command(tmp_path, "symbolize", text=text).stderr == ""
    up = faulty({f"/buildid/{lib.id}/debuginfo": lib.debug.read_bytes()})
    r = command(tmp_path, "symbolize", "-v", "--server", up.url, text=text)
    assert " in hidden " in r.stdout and str(so) not in r.stderr, r.stderr
    # A frame that a symbol of another form names is not missed.
    r = command(tmp_path, "symbolize", "-v", text=f"\t    {BASE + lib.shown:x} shown+0x0 ({so})\n")
    assert "shown" in r.stdout and "without a name" not in r.stderr


def test_find_says_what_to_do(lib, faulty, tmp_path):  # noqa: F811
    here = tmp_path / "usr"
    here.mkdir()
    so = shutil.copy(lib.stripped, here)
    r = command(tmp_path, "find", so)
    assert r.returncode == 1 and "no server was asked: ask one by --server https://" in r.stderr and "libsecret2-dbgsym" in r.stderr
    found = json.loads(command(tmp_path, "find", "--json", so).stdout)
    assert found["outcome"] != "found" and "libsecret2-dbgsym" in found["help"]
    empty, up = faulty({}), faulty({f"/buildid/{lib.id}/debuginfo": lib.debug.read_bytes()})
    r = command(tmp_path, "find", so, "--server", empty.url)
    assert r.returncode == 1 and f"it was asked for at {empty.url}; or ask https://" in r.stderr
    r = command(tmp_path, "find", so, "--server", empty.url, "--server", up.url)
    assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == lib.debug.read_bytes() and r.stderr == ""
    # Not of many: the lists of packages are read for each.
    r = command(tmp_path, "find", *[f"{i:040x}" for i in range(1, 9)])
    assert r.stderr.count("debuginfo: ") == 8 and r.stderr.count("ask one by --server") == 5


@pytest.mark.parametrize("asks", ["find", "symbolize"])
def test_a_server_that_gets_the_file_after_a_miss(lib, faulty, tmp_path, asks):  # noqa: F811
    """The miss is remembered for ten minutes: the advice says so, and how to ask again at once."""
    here = tmp_path / "usr"
    here.mkdir()
    so, up = shutil.copy(lib.stripped, here), faulty({})
    args = ["find", so] if asks == "find" else ["symbolize", "-v", "-e", so, hex(lib.hidden)]
    for _ in range(2):
        r = command(tmp_path, *args, urls=up.url)
        assert f"it was asked for at {up.url} (a miss is remembered for minutes; --server URL asks again at once)" in r.stderr
        up.files[f"/buildid/{lib.id}/debuginfo"] = lib.debug.read_bytes()
    r = command(tmp_path, *args, "--server", up.url, urls=up.url)
    assert r.returncode == 0 and (asks == "find" or "hidden" in r.stdout), (r.stdout, r.stderr)
    # A server that was named by the option has been asked.
    r = command(tmp_path, *args, "--server", faulty({}).url)
    assert "is remembered" not in r.stderr


def test_a_server_that_sends_the_stripped_file(lib, faulty, tmp_path):  # noqa: F811
    """The server after it is not asked, so it is not named as one that was; what the advice says gives the name."""
    here = tmp_path / "usr"
    here.mkdir()
    path = f"/buildid/{lib.id}/debuginfo"
    so, first, second = shutil.copy(lib.stripped, here), faulty({path: lib.stripped.read_bytes()}), faulty({path: lib.debug.read_bytes()})
    ask = ["symbolize", "-v", "-e", so, hex(lib.hidden)]
    kept = f"{tmp_path}/.cache/debuginfod_client/{lib.id}/debuginfo"
    for sent in (f"from {first.url}{path}", "before"):
        r = command(tmp_path, *ask, urls=f"{first.url} {second.url}")
        assert f"was sent {sent}, so servers after that one were not asked: remove {kept}, and ask" in r.stderr, r.stderr
        assert "asked for at" not in r.stderr and not second.requests()
    (tmp_path / kept).unlink()
    assert "hidden" in command(tmp_path, *ask, "--server", second.url).stdout


def test_a_server_that_sends_the_stripped_file_for_a_build_id(lib, faulty, tmp_path):  # noqa: F811
    """The program is found, too: the advice is about the file that was sent in place of the debug file."""
    paths = [f"/buildid/{lib.id}/{kind}" for kind in ("debuginfo", "executable")]
    up = faulty({path: lib.stripped.read_bytes() for path in paths})
    r = command(tmp_path, "symbolize", "-v", "--build-id", lib.id, hex(lib.hidden), urls=up.url)
    assert f"was sent from {up.url}{paths[0]}, so servers after that one were not asked" in r.stderr, r.stderr


def test_a_profile_of_a_kernel_module(tmp_path):
    """Its mapping is that of its code, which starts at 0 in the file."""
    (tmp_path / "m.c").write_text('__attribute__((section(".init.text"), noinline)) int begin(void) { return 1; }\n'
                                  "static __attribute__((noinline)) int hidden(int n) { return n * 3 + 1; }\nint shown(int n) { return hidden(n) ^ 5; }\n")
    subprocess.run(["gcc", "-g", "-O1", "-c", "-o", "m.o", "m.c"], cwd=tmp_path, check=True)
    subprocess.run(["ld", "-r", "--build-id", "-o", "m.ko", "m.o"], cwd=tmp_path, check=True)
    out = subprocess.run(["nm", "m.ko"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    at, start = int(re.search(r"^(\w+) T shown$", out, re.M)[1], 16), 0xffffffffc0100000
    mapping = (start, start + 0x1000, 0, str(tmp_path / "m.ko"), build_id(tmp_path / "m.ko"))
    (tmp_path / "p.pb").write_bytes(Pprof(mapping=mapping).sample([start + at], [1, 10]).sample([start + 0x800], [1, 10]).bytes())
    r = command(tmp_path, "symbolize", "p.pb", "-o", "o.folded")
    assert "shown 1" in (tmp_path / "o.folded").read_text(), r.stderr
    assert "1 have no name" in r.stderr and texts()["outside"] in r.stderr, r.stderr
