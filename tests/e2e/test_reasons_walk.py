# SPDX-License-Identifier: Apache-2.0
"""Each reason that the program can report, made by real files and servers; the same words in the API, in a profile's binary and on the
page; then each thing that the advice says is done, and must lead to the name (docs/reasons.md). A reason without a case here fails."""

import json
import re
import shutil
import subprocess

import pytest

from conftest import build_id, make_deb
from faulty import Dead
from profiling import Pprof, ask, code_segment, send
from pushing import lode
from exploring import page, visit  # noqa: F401
from test_reasons import Library, lib  # noqa: F401
from test_reasons_agree import codes
from test_symbolize import SOURCE as SHOP
from test_symbolize import Built, build_split, code_of, post

PATH = "/usr/lib/libsecret.so.2"
OF_ADDRESS = ("outside", "no-layout", "no-mapping")  # the help is that of the reason, not of the file
CASES = {}


def case(code, *ways):
    """A case is a generator: up to its yield it makes an address that has no name for this reason, after it does what the advice says."""
    def add(fn):
        CASES[code] = [(fn, way) for way in ways]
        return fn
    return add


class Walk:
    """A service, the request for an address, and a profile with it."""

    def __init__(self, serve, faulty, tmp_path, lib):  # noqa: F811
        self.serve, self.faulty, self.dir, self.lib = serve, faulty, tmp_path, lib
        self.id, self.debug, self.function = lib.id, lib.debug, "hidden"
        self.pool = tmp_path / "pool"
        self.pool.mkdir()
        self.s, self.profile, self.again = None, None, False

    def start(self, *files, upstream=(), more=()):
        for f in files:
            shutil.copy(f, self.pool)
        data = self.s.data if self.s else None
        if self.s:
            self.s.stop()
        args = ["--symbolize-interval", "1", *(["--debuginfod-upstream-servers", " ".join(upstream)] if upstream else ["--no-upstream"]), *more]
        self.s = self.serve([self.pool], data=data, args=args).scanned()
        return self.s

    def ask(self, addr, program=None, offset_of=None, mappings=None, id_=None, path=PATH):
        """The address of the API, and a profile in which the program is mapped. @offset_of: the segment at this address."""
        self.addr, self.program = addr, program or self.lib.stripped
        off, vaddr, size = segment_at(self.program, addr) if offset_of else code_segment(self.program)
        module = {"id": self.id if id_ is None else id_}
        self.request = {"modules": [module], "addresses": [[0, addr - vaddr + off if offset_of else addr]]}
        if offset_of:
            self.request["kind"] = "offset"
        base = 0x7f0000000000
        self.mapping = (base + vaddr, base + vaddr + size, off, path, module["id"]) if mappings is None else mappings
        self.profile = Pprof(mapping=self.mapping).sample([base + addr], [1, 10]).bytes()

    def reply(self, timeout=None):
        status, body, _ = post(self.s, "/symbolize", json.dumps(self.request | ({} if timeout is None else {"timeout": timeout})))
        assert status in (200, 202), body
        return json.loads(body)

    def binaries(self):
        return ask(self.s, "binaries")["binaries"]

    def named(self):
        answer = self.reply()["addresses"][0]
        if answer["status"] != "found" or not answer["frames"][0]["function"].startswith(self.function):
            return False
        top = json.dumps(ask(self.s, "top", query="profile:samples:count:cpu:nanoseconds"))
        # Addresses of the profile before stay as they are, of the same file or not.
        return self.function in top and (self.again or all(b["named"] == b["locations"] and not b["reason"] for b in self.binaries()))

    def push(self, file):
        lode("push", file, "--to", self.s.url)

    def package(self, *files):
        """A debug package in the scanned folder: {path: file}."""
        root = self.dir / "root"
        for path, file in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / path)
        make_deb(root, self.dir / "x-dbgsym.deb", "xz", [build_id(f) for _, f in files])
        shutil.move(self.dir / "x-dbgsym.deb", self.pool)

    def upstream(self, has=True, how=None, **more):
        files = {f"/buildid/{self.id}/debuginfo": self.debug.read_bytes()} if has else {}
        return self.faulty(files, lambda path, n: how() if callable(how) else how, **more)

    def do(self, way):
        """The advice on a debug file that is not here."""
        if way == "push":
            self.push(self.debug)
        elif way == "package":
            self.package((f"usr/lib/debug/.build-id/{self.id[:2]}/{self.id[2:]}.debug", self.debug))
        elif way == "server":
            self.start(upstream=[self.upstream().url])
        else:
            raise AssertionError(way)


def segment_at(program, addr):
    out = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    for m in re.finditer(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x", out):
        off, vaddr, size = (int(m[i], 16) for i in (1, 2, 3))
        if vaddr <= addr < vaddr + size:
            return off & ~0xfff, vaddr & ~0xfff, (size + 0x1fff) & ~0xfff
    raise AssertionError(out)


# ---- the debug file is not here ----

@case("no-debug-info", "push", "package", "server")
def symbols_only(w, way):
    w.start(w.lib.stripped)
    w.ask(w.lib.hidden)
    yield ("libsecret2-dbgsym", "lode push FILE --to URL", "--debuginfod-upstream-servers")
    w.do(way)


@case("unknown", "push", "package", "server")
def nothing_here(w, way):
    w.start()
    w.ask(w.lib.hidden)
    yield ("libsecret2-dbgsym", "lode push FILE --to URL", "--debuginfod-upstream-servers")
    w.do(way)


@case("upstream-404", "push", "package", "server")
def servers_have_it_not(w, way):
    up = w.upstream(has=False)
    w.start(upstream=[up.url])
    w.ask(w.lib.hidden)
    yield (f"asked for at {up.url}", "or add --debuginfod-upstream-servers", "lode push FILE --to URL")
    if way == "server":
        w.start(upstream=[up.url, w.upstream().url])
    else:
        w.do(way)


@case("upstream-failed", "wait", "push")
def a_server_fails(w, way):
    fault = ["500"]
    up = w.upstream(how=lambda: fault[0])
    w.start(upstream=[up.url])
    w.ask(w.lib.hidden)
    yield (f"wait, it will be asked for again at {up.url}", "lode push FILE --to URL")
    if way == "wait":
        fault[0] = None
    else:
        w.do(way)


@case("timed-out", "wait", "push")
def a_server_is_switched_off(w, way):
    dead = Dead()
    w.start(upstream=[dead.url])
    w.ask(w.lib.hidden)
    yield (f"wait, it will be asked for again at {dead.url}", "lode push FILE --to URL")
    dead.stop()
    if way == "wait":
        w.upstream(port=int(dead.url.rsplit(":", 1)[1]))
    else:
        w.do(way)


@case("not-elf", "push", "package")
def a_server_sends_html(w, way):
    up = w.upstream(how="html")
    w.start(upstream=[up.url])
    w.ask(w.lib.hidden)
    yield (f"asked for at {up.url}", "lode push FILE --to URL")
    w.do(way)


@case("no-symbols", "push", "package")
def a_stripped_static_program(w, way):
    (w.dir / "b.c").write_text("static int hidden(int n) { for (;;) n++; return n; }\nvoid _start(void) { hidden(1); }\n")
    full, bare, w.debug = (w.dir / name for name in ("full", "bare", "bare.debug"))
    subprocess.run(["gcc", "-g", "-fno-inline", "-nostdlib", "-static", "-Wl,--build-id", "-o", full, w.dir / "b.c"], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, w.debug], check=True)
    subprocess.run(["strip", "-o", bare, full], check=True)
    w.id, w.lib.at = build_id(full), 0
    at = int(re.search(r"^(\w+) t hidden$", subprocess.run(["nm", full], capture_output=True, text=True, check=True).stdout, re.M)[1], 16)
    w.start(bare)
    w.ask(at, program=bare, path="/usr/bin/bare")
    # A fixed program is where it was linked.
    w.profile = Pprof(mapping=(at & ~0xfff, (at & ~0xfff) + 0x1000, segment_at(bare, at)[0], "/usr/bin/bare", w.id)).sample([at], [1, 10]).bytes()
    yield ("lode push FILE --to URL", "into a scanned folder")
    w.do(way)


@case("damaged", "a sound copy", "push")
def a_debug_file_that_is_rubbish(w, way):
    bad = bytearray(w.lib.debug.read_bytes())
    out = subprocess.run(["readelf", "-SW", w.lib.debug], capture_output=True, text=True, check=True).stdout
    for name in (".debug_info", ".symtab"):
        off, size = (int(x, 16) for x in re.search(rf" {re.escape(name)} +\w+ +\w+ (\w+) (\w+) ", out).groups())
        bad[off + 4:off + size] = b"\xff" * (size - 4)
    placed = w.pool / ".build-id" / w.id[:2] / f"{w.id[2:]}.debug"
    placed.parent.mkdir(parents=True)
    placed.write_bytes(bytes(bad))
    w.start(w.lib.stripped)
    w.ask(w.lib.hidden)
    yield ("put a sound copy of its file or package in its place", "remove it and push the debug file: lode push FILE --to URL")
    if way == "push":
        placed.unlink()
        w.do(way)
    else:
        (w.dir / "new").write_bytes(w.lib.debug.read_bytes())
        (w.dir / "new").rename(placed)


# ---- the address ----

@case("no-layout", "push")
def offsets_and_only_the_debug_file(w, way):
    """Code in two places: where the debug file's code was mapped cannot be known."""
    (w.dir / "x.c").write_text('__attribute__((section("far"), noinline)) static int hidden(int n) { return n * 3 + 1; }\nint shown(int n) { return hidden(n) ^ 5; }\n')
    full, program, w.debug = (w.dir / name for name in ("full.so", "far.so", "far.so.debug"))
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id", "-Wl,--section-start=far=0x200000", "-o", full, w.dir / "x.c"], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, w.debug], check=True)
    subprocess.run(["strip", "-o", program, full], check=True)
    w.id = build_id(full)
    at = int(re.search(r"^(\w+) t hidden$", subprocess.run(["nm", full], capture_output=True, text=True, check=True).stdout, re.M)[1], 16)
    w.start(w.debug)
    w.ask(at, program=program, offset_of=at)
    yield ("push the program itself beside its debug file: lode push FILE --to URL",)
    w.push(program)


@case("outside", "another address")
def an_address_of_no_code(w, way):
    w.start(w.lib.full)
    w.ask(0x10, program=w.lib.full, offset_of=True)
    w.request = {"modules": [{"id": w.id}], "addresses": [[0, 0x10]]}
    yield ("check the address", "as nm and objdump print them")
    w.ask(w.lib.hidden, path="/usr/lib/libright.so.2")
    w.again = True
    send(w.s, w.profile, service="x")


@case("no-build-id", "the profile has it")
def a_profile_without_build_ids(w, way):
    w.start(w.lib.full)
    w.ask(w.lib.hidden, id_="")
    w.request["modules"] = [{}]
    yield ("build it with -Wl,--build-id, or send profiles that have build IDs",)
    w.ask(w.lib.hidden, path="/usr/lib/libright.so.2")
    w.again = True
    send(w.s, w.profile, service="x")


@case("no-mapping", "the profile has it")
def a_profile_without_mappings(w, way):
    w.start(w.lib.full)
    w.ask(w.lib.hidden)
    w.request["kind"] = "runtime"
    # The location refers to no mapping: field 2 is 0.
    w.profile = Pprof(mapping=w.mapping).sample([0x4242], [1, 10]).bytes().replace(b"\x08\x01\x10\x01\x18\xc2\x84\x01", b"\x08\x01\x10\x00\x18\xc2\x84\x01")
    yield ("send profiles with their mappings",)
    w.ask(w.lib.hidden)
    w.request |= {"kind": "runtime", "addresses": [[0, 0x7f0000000000 + w.lib.hidden]]}
    w.request["modules"][0]["mappings"] = [{"start": hex(w.mapping[0]), "end": hex(w.mapping[1]), "offset": w.mapping[2]}]
    w.again = True
    send(w.s, w.profile, service="x")


# ---- another file is missing ----

@case("alt-missing", "push", "package")
def a_supplementary_file_is_missing(w, way):
    a, b = Built(w.dir / "a"), Built(w.dir / "b", ["-DOTHER"])
    common = w.dir / "common.debug"
    subprocess.run(["dwz", "-m", common, "-M", "/usr/lib/debug/.dwz/common.debug", a.debug, b.debug], check=True)
    w.id = a.id
    w.start(a.debug)

    def lacks(addr):
        w.request = {"modules": [{"id": w.id}], "addresses": [[0, addr]]}
        return w.reply()["addresses"][0]["status"] == "alt-missing"

    w.ask(next(x for x in a.code if lacks(x)), program=a.stripped, path="/usr/bin/shop")
    w.function = a.oracle([w.addr], "--demangle")[0][0][0].split("(")[0]
    yield ("push the supplementary (dwz) file: lode push FILE --to URL", "missing: /usr/lib/debug/.dwz/common.debug, build ID ")
    if way == "push":
        w.push(common)
    else:
        w.package(("usr/lib/debug/.dwz/common.debug", common))


@case("split-missing", "push")
def a_split_file_is_missing(w, way):
    build = w.dir / "build"
    w.id = build_split(build)
    shop = Built.__new__(Built)
    shop.full = build / "shop"
    at = next(x for x in code_of(shop.full) if len(shop.oracle([x])[0]) > 1)
    w.function = shop.oracle([at], "--demangle")[0][0][0].split("(")[0]
    dwo = next(build.glob("*.dwo"))
    dwo.rename(w.dir / dwo.name)
    w.start()
    w.push(build / "shop")
    w.ask(at, program=build / "shop", path="/usr/bin/shop")
    yield ("push the program from where its .dwo files or its .dwp file are: lode push PROGRAM --to URL", f"missing: {dwo.name}")
    (w.dir / dwo.name).rename(dwo)
    w.push(build / "shop")


# ---- ask again ----

@case("pending", "wait")
def a_server_takes_long(w, way):
    fault = ["silent"]
    up = w.upstream(how=lambda: fault[0])
    w.start(upstream=[up.url])
    w.ask(w.lib.hidden)
    yield ("wait",)
    fault[0] = None
    up.stopping.set()


@case("busy", "wait")
def too_many_files_are_asked_for(w, way):
    fault = ["silent"]
    up = w.upstream(how=lambda: fault[0])
    w.start(upstream=[up.url], more=["--upstream-misses", "100000"])
    for k in range(140):
        modules = [{"id": f"{k * 32 + i:040x}"} for i in range(1, 33)]
        post(w.s, "/symbolize", json.dumps({"modules": modules, "addresses": [[i, 16] for i in range(32)], "timeout": 0}))
    w.ask(w.lib.hidden)
    yield ("wait",)
    fault[0] = None
    up.stopping.set()


# ---- the walk ----

def test_every_reason_has_a_case():
    assert set(CASES) == set(codes()) - {"found"}


def same_help(a, b):
    """The profile's binary has a path, which gives the package its name."""
    return re.sub("the package [a-z0-9.-]+|its package [(].*?[)]", "PACKAGE", a) == re.sub("the package [a-z0-9.-]+|its package [(].*?[)]", "PACKAGE", b)


def check_told(w, page, code, words):  # noqa: F811
    reply = w.reply(timeout=0.1 if code in ("pending", "busy") else None)
    assert reply["addresses"][0]["status"] == code, reply
    text, module = reply["reasons"][code]["text"], reply["modules"][0]
    of_address = code in OF_ADDRESS
    page.may_fail = "/source/"  # sources are not here
    help_ = reply["reasons"][code]["help"] if of_address else module["help"]
    # A profile's binary has the same reason and the same words.
    send(w.s, w.profile, service="x")
    if code == "pending":
        w.s.wait(lambda: w.binaries()[0]["state"] == code, code)
        return
    w.s.wait(lambda: w.binaries() and w.binaries()[0]["reason"] == code, f"{code}", 30)
    b = w.binaries()[0]
    assert b["text"] == text, b
    if code != "alt-missing" and code != "split-missing":
        assert same_help(b["help"], help_), (b["help"], help_)
    for part in words:
        assert part in b["help"] or part in help_ or part in b["why"], (part, b, help_)
    if code == "busy":
        return
    # The page shows them, both of the profile and of the address.
    visit(page, w.s, "?view=debug")
    page.wait_text(".binaries .known", text[1:])
    page.wait_text(".binaries .help", b["help"][1:])
    if "id" in w.request["modules"][0] and "kind" not in w.request:
        page.open(f"{w.s.url}/?view=server&id={w.id}&addr={w.request['addresses'][0][1]:x}")
        page.wait_text("#address-body", text[1:])
        page.wait_text("#address-body .help", help_[1:])
    page.open("about:blank")


@pytest.mark.slow
@pytest.mark.parametrize("code,way", [(code, way) for code, list_ in CASES.items() for _, way in list_])
def test_the_reason_is_told_and_its_advice_gives_the_name(serve, faulty, lib, tmp_path, page, code, way):  # noqa: F811
    w = Walk(serve, faulty, tmp_path, lib)
    steps = CASES[code][0][0](w, way)
    check_told(w, page, code, next(steps))
    assert next(steps, None) is None
    w.s.wait(w.named, f"{code}: named after '{way}'", 45)
    page.requests()
    page.base = w.s.url
    if not w.request.get("kind"):
        visit(page, w.s, f"?view=server&id={w.id}&addr={w.addr:x}")
        page.wait_text("#address-body .chain .function", w.function)
    visit(page, w.s, "?view=debug")
    page.wait_text(".binaries", "named")
