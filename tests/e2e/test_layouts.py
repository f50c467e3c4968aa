# SPDX-License-Identifier: Apache-2.0
"""Symbol servers of other kinds than debuginfod: as upstream servers, as servers of our clients, and the same paths served."""

import gzip
import json
import os
import re
import shlex
import subprocess
import time

import pytest

from conftest import LODE, ROOT
from making import elf, new_id, pool
from profiling import send
from pushing import put
from test_profile import pprof
from test_symbolize import post

NOTHING = "/proc/self/fdinfo"  # no file to scan


def ssqp(i, name="program"):
    full = i.ljust(40, "0")
    return {"debuginfo": f"/_.debug/elf-buildid-sym-{full}/_.debug", "executable": f"/{name}/elf-buildid-{full}/{name}"}


def tree(i):
    return {"debuginfo": f"/.build-id/{i[:2]}/{i[2:]}.debug", "executable": f"/.build-id/{i[:2]}/{i[2:]}"}


def unified(i):
    return {"debuginfo": f"/{i[:2]}/{i[2:]}/debuginfo", "executable": f"/{i[:2]}/{i[2:]}/executable"}


KINDS = {"ssqp": ssqp, "tree": tree, "unified": unified}


def through(serve, *urls, args=()):
    return serve([NOTHING], args=["--debuginfod-upstream-servers", ",".join(urls), *args]).ready()


def files_of(elf, kind):
    paths = KINDS[kind](elf.id)
    return {paths["debuginfo"]: elf.debug, paths["executable"]: elf.program}


def client(*args, urls, cache):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    return subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**env, "DEBUGINFOD_URLS": urls, "DEBUGINFOD_CACHE_PATH": str(cache)})


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_asks_servers_of_each_kind(serve, faulty, elf, kind):
    up = faulty(files_of(elf, kind))
    s = through(serve, f"{kind}+{up.url}")
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug
    # Microsoft's finds a program by its name, which a request of its own kind has.
    r = s.get(f"/buildid/{elf.id}/executable")
    if kind == "ssqp":
        assert r.status == 404 and b"name is not known" in r.body
        r = s.get(ssqp(elf.id)["executable"])
    assert r.body == elf.program
    for name in ("X-Forwarded-For", "User-Agent: gdb"):
        assert not any(name in head for head in up.requests())
    # It reads through: both are in the store.
    asked = len(up.requests())
    s.wait(lambda: b'"stored":2' in s.get("/api/status").body.replace(b" ", b""), "stored")
    assert s.get(f"/buildid/{elf.id}/executable").body == elf.program and len(up.requests()) == asked
    missing = s.get(f"/buildid/{new_id('x')}/debuginfo")
    assert missing.status == 404 and up.url.encode() in missing.body


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_server_is_asked_while_the_first_is_silent(serve, faulty, elf, kind):
    slow, good = faulty({}, how=lambda p, n: "silent"), faulty(files_of(elf, kind))
    s = through(serve, f"{kind}+{slow.url}", f"{kind}+{good.url}")
    began = time.monotonic()
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug
    assert time.monotonic() - began < 20 and len(slow.requests()) == 1  # it is silent for 60 s


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_breaks_off_is_continued_by_another(serve, faulty, elf, kind):
    files = {KINDS[kind](elf.id)["debuginfo"]: elf.large}
    cut, good = faulty(files, how=lambda p, n: "cut 1500000"), faulty(files)
    s = through(serve, f"{kind}+{cut.url}", f"{kind}+{good.url}")
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.large


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_busy_is_passed_over(serve, faulty, elf, kind):
    up = faulty(files_of(elf, kind), how=lambda p, n: "503 Retry-After: 600\r\n")
    s = through(serve, f"{kind}+{up.url}")
    r = s.get(f"/buildid/{new_id('x')}/debuginfo")
    assert r.status == 502 and up.url.encode() in r.body
    r = s.get(f"/buildid/{elf.id}/debuginfo")
    assert r.status == 502 and b"passed over" in r.body and len(up.requests()) == 1
    assert s.metric(rf'lode_upstream_breaker_open\{{server="{re.escape(kind)}\+{up.url}"\}}') == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how, reason", (("404", "upstream-404"), ("500", "upstream-failed"), ("html", "not-elf")))
def test_a_server_that_does_not_send_the_file_is_the_reason(serve, faulty, elf, kind, how, reason):
    up = faulty({}, how=lambda p, n: how, headers=["Content-Type: text/html"] if how == "html" else [])
    s = through(serve, f"{kind}+{up.url}")
    status = None

    def known():
        nonlocal status
        status = json.loads(s.get(f"/buildid/{elf.id}/symbolize?addr=1139").body)["modules"][0]["status"]
        return status not in ("pending", "busy")

    s.wait(known, "the reason")
    assert status == reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_build_id_is_refused(serve, faulty, elf, kind):
    other = new_id("other")
    path = KINDS[kind](other)["debuginfo"]
    up = faulty({path: elf.debug})
    s = through(serve, f"{kind}+{up.url}")
    r = s.get(f"/buildid/{other}/debuginfo")
    assert r.status == 502 and b"another build ID" in r.body
    up.how = lambda p, n: "html"
    r = s.get(f"/buildid/{new_id('html')}/debuginfo")
    assert r.status in (404, 502) and b"hotel" not in r.body


def test_the_name_of_a_program_is_that_of_its_mapping(serve, faulty, elf):
    up = faulty(files_of(elf, "ssqp"))
    s = through(serve, f"ssqp+{up.url}", args=["--symbolize-interval", "1s"])
    assert s.get(f"/buildid/{elf.id}/executable").status == 404
    # A profile names the file of a build ID, and then gdb gets the program, too.
    send(s, pprof("/opt/dotnet/Program (deleted)", elf.id, [0x1000], 0), service="hello")
    s.wait(lambda: s.get(f"/buildid/{elf.id}/executable").body == elf.program, "the program")
    # So does a request for names.
    s = through(serve, f"ssqp+{up.url}")
    for name, want in (("[vdso]", 404), ("/x/..", 404), ("/x/program", 200)):
        status, body, _ = post(s, "/symbolize", json.dumps({"modules": [{"id": elf.id, "file": name}], "addresses": [[0, 4096]]}))
        assert status in (200, 202), body
        assert s.get(f"/buildid/{elf.id}/executable").status == want, name


def hint(s, build_id, name):
    status, body, _ = post(s, "/symbolize", json.dumps({"modules": [{"id": build_id, "file": name}], "addresses": [[0, 4096]]}))
    assert status in (200, 202), body


def test_a_reader_does_not_change_the_name_of_a_program(serve, faulty, elf):
    up = faulty(files_of(elf, "ssqp"))
    program = ssqp(elf.id)["executable"]
    s = through(serve, f"ssqp+{up.url}", args=["--symbolize-interval", "1s"])
    send(s, pprof("/opt/dotnet/program", elf.id, [0x1000], 0), service="hello")
    s.wait(lambda: up.requests(program) or s.get(f"/buildid/{elf.id}/executable").status == 200, "the question")
    hint(s, elf.id, "evil")
    assert s.get(f"/buildid/{elf.id}/executable").body == elf.program and not up.requests("/evil/")
    # The name of a file that is here comes before all of them.
    s = through(serve, f"ssqp+{up.url}")
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug, {"X-LODE-FILE": "/opt/program.debug"})[0] == 201
    hint(s, elf.id, "evil")
    assert s.get(f"/buildid/{elf.id}/executable").body == elf.program and not up.requests("/evil/")


def test_a_command_finds_a_program_by_the_name_of_its_mapping(faulty, elf, tmp_path):
    up = faulty({ssqp(elf.id)["executable"]: elf.program})
    r = subprocess.run([LODE, "symbolize"], input=f"    #1 0x1000  (/nowhere/Program+0x1000) (BuildId: {elf.id})\n", capture_output=True, text=True, timeout=60,
                       env={**os.environ, "DEBUGINFOD_URLS": f"ssqp+{up.url}", "DEBUGINFOD_CACHE_PATH": str(tmp_path / "a")})
    assert any("/program/elf-buildid-" in head for head in up.requests()), r.stderr


def test_kinds_are_mixed_in_one_list(serve, faulty, elf):
    empty, bad = faulty({}), faulty(files_of(elf, "unified"), how=lambda p, n: "500")
    good = faulty(files_of(elf, "tree"))
    s = through(serve, empty.url, f"unified+{bad.url}", f"ssqp+{empty.url}", f"tree+{good.url}")
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug
    section = s.get(f"/buildid/{new_id('a')}/section/.text")
    assert section.status == 404 and b"debug files and programs only" in section.body
    # Servers of other kinds have no metadata, so that the answer without them is complete.
    others = through(serve, f"ssqp+{empty.url}", f"tree+{good.url}")
    assert json.loads(others.get(f"/metadata?key=buildid&value={new_id('b')}").body)["complete"] is True


def test_redirects_to_other_hosts_are_for_https_only(serve, faulty, elf):
    files = faulty(files_of(elf, "ssqp"))
    up = faulty({}, how=lambda p, n: f"redirect {files.url}{p}")
    s = through(serve, f"ssqp+{up.url}")
    r = s.get(f"/buildid/{elf.id}/debuginfo")
    assert r.status == 502 and b"redirects to another" in r.body and not files.requests()


def test_a_web_server_may_send_the_file_compressed(serve, faulty, elf):
    up = faulty({p: gzip.compress(b) for p, b in files_of(elf, "tree").items()}, headers=["Content-Encoding: gzip"])
    s = through(serve, f"tree+{up.url}")
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug


def test_a_tree_may_be_a_folder(serve, elf, tmp_path):
    for path, body in files_of(elf, "tree").items():
        file = tmp_path / "export" / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    for url in (f"tree+file://{tmp_path}/export", f"tree+file://{tmp_path}/export/.build-id"):
        assert through(serve, url).get(f"/buildid/{elf.id}/debuginfo").body == elf.debug


@pytest.mark.parametrize("kind", KINDS)
def test_clients_ask_servers_of_each_kind(faulty, elf, kind, tmp_path):
    up = faulty(files_of(elf, kind))
    r = client("debuginfod-find", "debuginfo", elf.id, urls=f"{kind}+{up.url}", cache=tmp_path / "a")
    assert r.returncode == 0, r.stderr
    assert open(r.stdout.strip(), "rb").read() == elf.debug
    # A section is cut out of the file, since such a server has whole files only.
    r = client("debuginfod-find", "section", elf.id, ".debug_line", urls=f"{kind}+{up.url}", cache=tmp_path / "b")
    assert r.returncode == 0, r.stderr


def test_a_program_is_found_by_the_name_of_its_file(faulty, elf, tmp_path):
    up = faulty(files_of(elf, "ssqp"))
    r = client("debuginfod-find", "executable", elf.id, urls=f"ssqp+{up.url}", cache=tmp_path / "a")
    assert r.returncode == 1 and not up.requests()
    # That was no miss to be remembered.
    assert not list((tmp_path / "a").glob("*/executable"))
    file = tmp_path / "Program"
    file.write_bytes(elf.program)
    r = client("debuginfod-find", "-v", "executable", file, urls=f"ssqp+{up.url}", cache=tmp_path / "a")
    assert r.returncode == 0, r.stderr
    assert "/program/elf-buildid-" in up.requests()[0]


# ---- the page docs/symbol-servers.md, command by command ----

def page_commands():
    """Its indented lines, with continued lines joined."""
    text = (ROOT / "docs/symbol-servers.md").read_text().replace("\\\n", "")
    return [shlex.split(line) for line in re.findall("^    (.*)$", text, re.M)]


def test_the_commands_of_the_page(serve, faulty, tmp_path):
    serve_line, export, find, symbolize, gdb = page_commands()
    folder = tmp_path / "dotnet"
    folder.mkdir()
    library, full = folder / "libcoreclr.so", tmp_path / "full.so"
    (tmp_path / "coreclr.c").write_text("int coreclr_execute(int x)\n{\n\treturn 2 * x + 1;\n}\n")
    subprocess.run(["gcc", "-g", "-O1", "-fPIC", "-shared", "-Wl,--build-id", "-o", full, tmp_path / "coreclr.c"], check=True)
    subprocess.run(["strip", "-o", library, full], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, tmp_path / "debug"], check=True)
    symbols = subprocess.run(["nm", full], capture_output=True, text=True, check=True).stdout
    address = "0x" + re.search("^(\\w+) T coreclr_execute", symbols, re.M)[1]
    build_id = subprocess.run([LODE, "inspect", "--build-id", library], capture_output=True, text=True, check=True).stdout.split()[0]
    up = faulty({ssqp(build_id)["debuginfo"]: (tmp_path / "debug").read_bytes()})
    local = {"https://msdl.microsoft.com/download/symbols": up.url, "https://debuginfod.elfutils.org": faulty({}).url,
             "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.11": str(folder), "0x2f4a10": address, "lode": LODE}

    def here(words):
        for name, with_what in local.items():
            words = [with_what if w == name else w.replace(name, with_what) if "/" in name else w for w in words]
        return words

    assert serve_line[:2] == ["lode", "serve"] and export[0] == "export"
    env = {**os.environ, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"), **dict([here(export)[1].split("=", 1)])}
    r = subprocess.run(here(find), capture_output=True, text=True, env=env, timeout=60)
    assert r.returncode == 0 and open(r.stdout.strip(), "rb").read() == (tmp_path / "debug").read_bytes(), r.stderr
    r = subprocess.run(here(symbolize), capture_output=True, text=True, env=env, timeout=60)
    assert "coreclr_execute" in r.stdout and "coreclr.c:" in r.stdout, r.stdout + r.stderr
    # elfutils' own client takes such a server for none.
    r = subprocess.run(["/usr/bin/debuginfod-find", "debuginfo", build_id], capture_output=True, text=True, env={**env, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "e")})
    assert r.returncode != 0
    s = serve([NOTHING], args=here(serve_line)[2:]).ready()
    assert s.get(f"/buildid/{build_id}/debuginfo").body == (tmp_path / "debug").read_bytes()
    # gdb may not read other processes everywhere: there it is given the library.
    setting, (program, *words) = gdb[0].split("=", 1), gdb[1:]
    r = subprocess.run([program, "-q", "-nx", "-batch", *words[:words.index("-p")], library, "-ex", "info line coreclr_execute"], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "gdb"), setting[0]: setting[1].replace("http://localhost:8002", s.url)})
    assert re.search('Line [0-9] of ".*coreclr.c"', r.stdout), r.stdout + r.stderr


# ---- the paths served ----

def test_the_paths_are_served(serve, elf, pool):
    (pool / "program").write_bytes(elf.program)
    (pool / "program.debug").write_bytes(elf.debug)
    s = serve([pool]).scanned()
    for kind in KINDS.values():
        paths = kind(elf.id)
        assert s.get(paths["debuginfo"]).body == elf.debug
        assert s.get(paths["executable"]).body == elf.program
        head = s.get(paths["debuginfo"], method="HEAD")
        assert head.status == 200 and int(head.headers["Content-Length"]) == len(elf.debug)
        for path in kind(new_id("nowhere")).values():
            assert s.get(path).status == 404
    assert s.get(ssqp(elf.id.upper(), "Program")["executable"]).body == elf.program
    for what, path in ssqp(elf.id).items():  # SSQP's keys have no case
        assert s.get(path.upper()).body == (elf.debug if what == "debuginfo" else elf.program)
    for wrong in ("/a/elf-buildid-00/b", "/_.debug/elf-buildid-sym-xyz/_.debug", "/.build-id/ab/c.debug", "/.build-id/abc/def0",
                  f"/{elf.id[:3]}/{elf.id[3:]}/debuginfo", f"/{elf.id[:2]}/{elf.id[2:]}/source", "/a/b/executable"):
        assert s.get(wrong).status == 404, wrong


def test_a_short_build_id_is_filled_with_zeros(serve, program, pool):
    for size in (8, 16):
        i = new_id("short", size)[:2 * size - 2] + "77"
        out = pool / f"p{size}"
        subprocess.run(["gcc", f"-Wl,--build-id=0x{i}", "-o", out, program.source], check=True)
        s = serve([pool]).scanned()
        assert s.get(ssqp(i, f"p{size}")["executable"]).body == out.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lode_server_asks_another_by_these_paths(serve, elf, pool, kind):
    (pool / "program.debug").write_bytes(elf.debug)
    first = serve([pool]).scanned()
    second = through(serve, f"{kind}+{first.url}")
    assert second.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug
