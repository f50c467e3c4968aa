# SPDX-License-Identifier: Apache-2.0
"""Files named by each of their identities: GNU's build ID, Go's, and OpenTelemetry's hash of both ends of a file."""

import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import time
import urllib.parse

import pytest

import go_program
from conftest import make_deb, slow_but
from profiling import Pprof, ask, code_segment, folded, send
from pushing import listed, lode, put, want, one

BASE = 0x55d0c0de0000
GO_TEXT = "aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq"


def htlhash(content):
    return hashlib.sha256(content[:4096] + content[-4096:] + len(content).to_bytes(8, "big")).hexdigest()[:32]


class Made:
    def __init__(self, path):
        self.path = path
        self.content = path.read_bytes()
        self.hash = htlhash(self.content)
        self.go = GO_TEXT.encode().hex()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Programs with only Go's note, with both notes, with none."""
    d = tmp_path_factory.mktemp("identities")
    (d / "go.s").write_text(go_program.note(GO_TEXT))
    (d / "x.c").write_text("int twice(int x) { return x * 2; }\nint main(int n, char **v) { return twice(n); }\n")
    made = {}
    for name, args in (("go", ["go.s", "-Wl,--build-id=none"]), ("both", ["go.s", "-Wl,--build-id=sha1"]),
                       ("bare", ["-Wl,--build-id=none"])):
        subprocess.run(["gcc", "-g", "-O0", "-o", name, "x.c", *args], cwd=d, check=True, capture_output=True)
        made[name] = Made(d / name)
    made["both"].gnu = inspected(made["both"])["build_id"]
    (d / "linked").write_bytes(as_go_links(made["both"].content))
    made["linked"] = Made(d / "linked")
    made["linked"].gnu = made["both"].gnu
    return made


def as_go_links(content):
    """Both notes, but the segment of notes has only Go's: so Go's linker writes them since 1.24. GNU's is found by the sections."""
    content = bytearray(content)
    phoff, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    note = content.index(GO_TEXT.encode()) - 16
    for at in range(phoff, phoff + size * count, size):
        if struct.unpack_from("<I", content, at)[0] == 4:  # PT_NOTE
            struct.pack_into("<4Q", content, at + 8, note, note, note, 16 + 84)
            struct.pack_into("<Q", content, at + 40, 16 + 84)
    return bytes(content)


def inspected(p):
    return json.loads(lode("inspect", "--json", p.path).stdout)


def ids_of(p, name):
    return {"go": [p.go, p.hash], "bare": [p.hash]}.get(name) or [p.gnu, p.go, p.hash]


def escaped(text):
    return urllib.parse.quote(text, safe="")


def expect_metadata(s, p, name):
    """Each identity gets the file, under its build ID, with the others."""
    ids = ids_of(p, name)
    want = {"buildid": ids[0]}
    if name != "bare":
        want["htlhash"] = p.hash
        want["go_build_id"] = GO_TEXT
    for value in ids + ([GO_TEXT] if name != "bare" else []):
        found = json.loads(s.get(f"/metadata?key=buildid&value={escaped(value)}").body)["results"]
        assert found and all(r.items() >= want.items() for r in found), (value, found)
    found = json.loads(s.get(f"/metadata?key=glob&value={escaped('/*' * found[0]['file'].count('/'))}").body)["results"]
    assert any(r.items() >= want.items() for r in found), found


def symbolized(s, build_id, address):
    body = json.dumps({"modules": [{"id": build_id}], "addresses": [[0, address]]}).encode()
    status, _, text = put(s, "/symbolize", body, {"Content-Type": "application/json"}, "POST")
    assert status == 200, text
    return text


def address_of(p, name="twice"):
    out = subprocess.run(["nm", p.path], check=True, capture_output=True, text=True).stdout
    return int(next(l.split()[0] for l in out.splitlines() if l.endswith(f" {name}")), 16)


def expect_served(s, p, name):
    for i in ids_of(p, name):
        for kind in ("executable", "debuginfo"):
            r = s.get(f"/buildid/{i}/{kind}")
            assert r.status == 200 and r.body == p.content, (name, i, kind, r.body[:200])
        assert s.get(f"/buildid/{i}/section/.note.go.buildid").status == (404 if name == "bare" else 200)
        assert "twice" in symbolized(s, i, address_of(p) + 1), i
    for i in [escaped(GO_TEXT), GO_TEXT] if name != "bare" else []:
        assert s.get(f"/buildid/{i}/executable").body == p.content
        assert s.get(f"/buildid/{i}/debuginfo").body == p.content
        assert s.get(f"/buildid/{i}/section/.note.go.buildid").status == 200
        assert "twice" in s.get(f"/buildid/{i}/symbolize?addr={address_of(p) + 1:#x}").body.decode()
    expect_metadata(s, p, name)
    for i in [GO_TEXT, p.hash.upper()] if name != "bare" else [p.hash.upper()]:
        assert "twice" in symbolized(s, i, address_of(p) + 1), i


def test_inspect_shows_all_with_their_kinds(programs):
    facts = {name: inspected(p) for name, p in programs.items()}
    assert facts["go"]["build_id"] == programs["go"].go and facts["go"]["build_id_kind"] == "go"
    assert facts["go"]["go_build_id"] == GO_TEXT
    assert facts["both"]["build_id_kind"] == "gnu" and facts["both"]["build_id_go"] == programs["both"].go
    assert facts["both"]["build_id_htlhash"] == programs["both"].hash
    assert facts["bare"]["build_id"] == programs["bare"].hash and facts["bare"]["build_id_kind"] == "htlhash"


@pytest.mark.parametrize("name", slow_but(["both"], ("go", "both", "bare")))
def test_pushed_files_are_found_by_each(serve, programs, tmp_path, name):
    p = programs[name]
    s = serve(["/proc/self/fdinfo"]).ready()
    assert want(s, one(ids_of(p, name)[0], p.content, "executable"))[0]["want"]
    lode("push", "--to", s.url, p.path)
    assert len([k for k in listed(s) if "symtab" not in k]) == 1
    expect_served(s, p, name)
    # Under another identity it becomes the same object.
    for i in ids_of(p, name)[1:]:
        status, _, text = put(s, f"/buildid/{i}/executable", p.content)
        assert status in (200, 201), text
    assert len([k for k in listed(s) if "symtab" not in k]) == 1
    # After a restart, too.
    data = s.data
    s.stop()
    s = serve(["/proc/self/fdinfo"], data=data).ready()
    s.wait(lambda: s.get(f"/buildid/{p.hash}/executable").status == 200, "the records to be read")
    expect_served(s, p, name)


@pytest.mark.parametrize("packed", slow_but([True], (False, True)))
def test_scanned_files_are_found_by_each(serve, programs, tmp_path, packed):
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    for name, p in programs.items():
        shutil.copy(p.path, root / "usr/bin" / name)
    # All but "bare" have the same Go build ID: the last one would be served under it.
    files = {name: p for name, p in programs.items() if name in ("both", "bare")}
    for name in programs.keys() - files.keys():
        os.unlink(root / "usr/bin" / name)
    if packed:
        pool = tmp_path / "pool"
        pool.mkdir()
        make_deb(root, pool / "x.deb")
        s = serve([str(pool)])
    else:
        s = serve([str(root)])
    s.ready()
    for name, p in files.items():
        s.wait(lambda: s.get(f"/buildid/{p.hash}/executable").status == 200, f"{name} to be found")
        expect_served(s, p, name)


@pytest.mark.parametrize("name", ["both", "linked"])
def test_find_and_symbolize_ask_by_each(serve, programs, tmp_path, name):
    p = programs[name]
    s = serve(["/proc/self/fdinfo"]).ready()
    lode("push", "--to", s.url, p.path)
    for n, i in enumerate([p.gnu, p.go, p.hash, GO_TEXT]):
        env = {"DEBUGINFOD_URLS": s.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / f"cache{n}")}
        r = lode("find", "--executable", i, env=env, ok=False)
        assert r.returncode == 0, (i, r.stdout, r.stderr)
        r = lode("symbolize", "--build-id", i, hex(address_of(p) + 1), env=env, ok=False)
        assert "twice" in r.stdout, (i, r.stdout, r.stderr)


def test_a_core_dump_of_a_go_program_is_that_of_the_file(tmp_path):
    """Its dumped pages have Go's note only: the file at the path is taken by it, and has its GNU build ID."""
    (tmp_path / "x.c").write_text("#include <signal.h>\nint main(void) { raise(SIGSTOP); }\n")
    (tmp_path / "go.s").write_text(go_program.note(GO_TEXT))
    subprocess.run(["gcc", "-Wl,--build-id=sha1", "-o", "x", "x.c", "go.s"], cwd=tmp_path, check=True)
    program = tmp_path / "program"
    program.write_bytes(as_go_links((tmp_path / "x").read_bytes()))
    program.chmod(0o755)
    process = subprocess.Popen([program])
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        subprocess.run(["gcore", "-o", tmp_path / "core", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        process.kill()
        process.wait()
    core = tmp_path / f"core.{process.pid}"
    if not core.exists():
        pytest.skip("gcore cannot dump here")
    env = {k: v for k, v in os.environ.items() if not k.startswith("DEBUGINFOD_")}
    r = lode("find", "--local", "--executable", "--why", "--core", core, env=env, ok=False)
    gnu = inspected(Made(program))["build_id"]
    assert f"lode: find: {program} ({gnu}): executable:" in r.stderr and str(program) in r.stdout.splitlines(), (r.stdout, r.stderr)


@pytest.mark.parametrize("name", ["both", "linked"])
def test_a_command_names_a_profile_from_the_file_at_its_path_by_each(programs, tmp_path, name):
    p = programs[name]
    env = {k: v for k, v in os.environ.items() if not k.startswith("DEBUGINFOD_")}
    for n, i in enumerate([p.gnu, p.go, p.hash, GO_TEXT]):
        off, vaddr, size = code_segment(p.path)
        made = Pprof(types=(("cpu", "nanoseconds"),), mapping=(BASE + vaddr, BASE + vaddr + size, off, str(p.path), i))
        (tmp_path / f"{n}.pb").write_bytes(made.sample([BASE + address_of(p)], [7]).bytes())
        r = lode("symbolize", tmp_path / f"{n}.pb", "-o", "-", "--output-format", "folded", env={**env, "DEBUGINFOD_URLS": ""}, ok=False)
        assert r.stdout == "twice 7\n", (i, r.stdout, r.stderr)
    # A file of another identity at that path is not used.
    made = Pprof(types=(("cpu", "nanoseconds"),), mapping=(BASE + vaddr, BASE + vaddr + size, off, str(p.path), "ab" * 16))
    (tmp_path / "other.pb").write_bytes(made.sample([BASE + address_of(p)], [7]).bytes())
    r = lode("symbolize", tmp_path / "other.pb", "-o", "-", "--output-format", "folded", env={**env, "DEBUGINFOD_URLS": ""}, ok=False)
    assert "twice" not in r.stdout


def test_profiles_are_named_by_each(serve, programs, tmp_path):
    """As profilers send them: Go's text, or OpenTelemetry's hash of a file that has a GNU build ID, too."""
    (tmp_path / "pool").mkdir()
    s = serve([tmp_path / "pool"], args=["--symbolize-interval", "3600", "--rescan", "3600"]).scanned()
    sent = (("text", programs["go"], GO_TEXT), ("hex", programs["go"], programs["go"].go), ("hash", programs["both"], programs["both"].hash))
    for service, p, identity in sent:
        off, vaddr, size = code_segment(p.path)
        made = Pprof(types=(("cpu", "nanoseconds"),), mapping=(BASE + vaddr, BASE + vaddr + size, off, "/usr/bin/x", identity),
                     time_ms=int(time.time() * 1000), duration_ms=1000)
        send(s, made.sample([BASE + address_of(p)], [7]).bytes(), service=service)
    binaries = {b["build_id"]: b for b in ask(s, "binaries")["binaries"]}
    assert (binaries[programs["go"].go]["build_id_kind"], binaries[programs["go"].go]["go_build_id"]) == ("go", GO_TEXT)
    assert binaries[programs["both"].hash]["go_build_id"] == "" and binaries[programs["both"].hash]["build_id_kind"] == "gnu"
    for p in (programs["go"], programs["both"]):
        shutil.copy(p.path, tmp_path / "pool")
    s.proc.send_signal(signal.SIGUSR1)
    for service, _, _ in sent:
        s.wait(lambda: folded(ask(s, "flamegraph", query=f'{{service="{service}"}}', from_="now-1h", to="now+1h")) == {"twice": 7}, f"the name by {service}", 30)
    # The file is here: 16 bytes are known to be its hash.
    kinds = {b["build_id"]: b["build_id_kind"] for b in ask(s, "binaries")["binaries"]}
    assert kinds == {programs["go"].go: "go", programs["both"].hash: "htlhash"}


def test_text_and_hexadecimal_share_their_paths(serve, programs):
    """A path of a source that looks like a part of Go's text stays the path of a source."""
    s = serve(["/proc/self/fdinfo"]).ready()
    assert s.get(f"/buildid/{escaped(GO_TEXT)}").status == 400
    assert s.get(f"/buildid/{GO_TEXT}/nothing").status == 400
    hidden = s.get(f"/buildid/{'ab' * 10}/source/{'a' * 32}/source/x.c")
    assert hidden.status == 404 and b"abababababababababab" in hidden.body
    p = programs["go"]
    assert put(s, f"/buildid/{escaped(GO_TEXT)}/executable", p.content)[0] == 201
    assert s.get(f"/buildid/{p.go}/executable").body == p.content
    assert s.get(f"/buildid/{escaped(GO_TEXT)}/source/{'a' * 32}/source/x.c").status == 404


def test_a_build_id_wins_over_an_alias(serve, programs, tmp_path):
    """Of a file in the index, if it is that of an object in the store, and the other way round."""
    both, go = programs["both"], programs["go"]
    (tmp_path / "one").mkdir()
    shutil.copy(both.path, tmp_path / "one")
    s = serve([tmp_path / "one"]).scanned()
    assert s.get(f"/buildid/{go.go}/executable").body == both.content
    assert put(s, f"/buildid/{go.go}/executable", go.content)[0] == 201
    assert s.get(f"/buildid/{go.go}/executable").body == go.content
    assert s.get(f"/buildid/{both.hash}/executable").body == both.content
    found = json.loads(s.get(f"/metadata?key=buildid&value={go.go}").body)["results"]
    assert {r["buildid"] for r in found} == {go.go}
    (tmp_path / "two").mkdir()
    shutil.copy(go.path, tmp_path / "two")
    s = serve([tmp_path / "two"]).scanned()
    assert put(s, f"/buildid/{both.gnu}/executable", both.content)[0] == 201
    assert s.get(f"/buildid/{go.go}/executable").body == go.content


@pytest.mark.parametrize("first", slow_but([1], (1, 2)))
def test_a_server_behind_a_server_knows_each(serve, programs, tmp_path, first):
    """Asked first for Go's build ID, or for the hash: the file is checked, kept, and found by all afterwards."""
    p = programs["both"]
    (tmp_path / "pool").mkdir()
    shutil.copy(p.path, tmp_path / "pool/x")
    far = serve([tmp_path / "pool"]).scanned()
    near = serve(["/proc/self/fdinfo"], args=["--debuginfod-upstream-servers", far.url]).ready()
    assert near.get(f"/buildid/{ids_of(p, 'both')[first]}/executable").body == p.content
    near.wait(lambda: f"{p.gnu}/executable" in listed(near), "the file to be stored")
    assert len([k for k in listed(near) if "symtab" not in k]) == 1
    found = json.loads(near.get(f"/metadata?key=buildid&value={p.hash}").body)["results"]
    assert all(r["go_build_id"] == GO_TEXT and r["htlhash"] == p.hash for r in found) and len(found) > 1
    far.stop()
    expect_served(near, p, "both")


def test_a_debug_file_by_the_hash_of_its_program(serve, programs, tmp_path):
    """The server behind has a program and its debug file: a profile that knows the program by its hash gets names."""
    p = programs["both"]
    pool = tmp_path / "pool"
    pool.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", p.path, pool / "x.debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", p.path, pool / "x"], check=True)
    stripped = Made(pool / "x")
    far = serve([pool]).scanned()
    near = serve(["/proc/self/fdinfo"], args=["--debuginfod-upstream-servers", far.url]).ready()
    assert near.get(f"/buildid/{stripped.hash}/debuginfo").body == (pool / "x.debug").read_bytes()
    near.wait(lambda: f"{p.gnu}/debuginfo" in listed(near), "the file to be stored")
    far.stop()
    assert "twice" in symbolized(near, stripped.hash, address_of(p) + 1)
    assert "twice" in symbolized(near, p.gnu, address_of(p) + 1)
    # Another file than the one asked for is still refused.
    assert near.get(f"/buildid/{stripped.hash}/executable").status == 502


def test_a_wrong_file_of_a_server_is_refused(serve, faulty, programs):
    p = programs["both"]
    liar = faulty({"other": p.content}, lambda path, n: "other")
    near = serve(["/proc/self/fdinfo"], args=["--debuginfod-upstream-servers", liar.url]).ready()
    for wrong in ("ab" * 20, "cd" * 16, GO_TEXT.replace("a", "b").encode().hex()):
        assert near.get(f"/buildid/{wrong}/executable").status == 502, wrong
    assert listed(near) == {}


def test_a_stripped_go_program_through_all_entrances(serve, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    code = go_program.build(pool / "app", GO_TEXT)
    p = Made(pool / "app")
    twice = code + go_program.SIZE
    scanned, pushed = serve([pool]).scanned(), serve(["/proc/self/fdinfo"]).ready()
    lode("push", "--to", pushed.url, p.path)
    for n, s in enumerate((scanned, pushed)):
        for i in (p.go, p.hash, escaped(GO_TEXT)):
            assert s.get(f"/buildid/{i}/executable").body == p.content
        expect_metadata(s, p, "go")
        for i in (p.go, GO_TEXT, p.hash):
            assert "main.twice" in symbolized(s, i, twice + 1)
        env = {"DEBUGINFOD_URLS": s.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / f"cache{n}")}
        for i in (p.go, GO_TEXT, p.hash):
            assert lode("find", "--executable", i, env=env).returncode == 0
        off, vaddr, size = code_segment(p.path)
        for service, i in (("text", GO_TEXT), ("hex", p.go), ("hash", p.hash)):
            made = Pprof(types=(("cpu", "nanoseconds"),), mapping=(BASE, BASE + size, off, "/usr/bin/app", i),
                         time_ms=int(time.time() * 1000), duration_ms=1000)
            send(s, made.sample([BASE + twice - vaddr + 1], [7]).bytes(), service=service)
            s.wait(lambda: folded(ask(s, "flamegraph", query=f'{{service="{service}"}}', from_="now-1h", to="now+1h")) == {"main.twice": 7}, f"the name by {service}", 30)
    assert "main.twice" in lode("symbolize", "-e", p.path, hex(twice)).stdout
