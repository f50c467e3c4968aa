# SPDX-License-Identifier: Apache-2.0
"""Reasons of names that are in another file which is missing, or in a damaged one: made by real files, and whether the advice gives the
name (docs/reasons.md)."""

import json
import re
import shutil
import subprocess

import pytest

from conftest import LODE
from profiling import Pprof, ask, code_segment, send
from pushing import lode
from test_reasons import Library, pool_of, push  # noqa: F401
from test_symbolize import Built, build_split, code_of


def symbolized(s, id, addr):  # noqa: A002
    return json.loads(s.get(f"/buildid/{id}/symbolize?addr={addr:x}").body)


def chain(s, id, addr):  # noqa: A002
    reply = symbolized(s, id, addr)
    return reply["addresses"][0]["status"], [f.get("function", "") for f in reply["addresses"][0].get("frames", [])]


def command(tmp_path, *args):
    r = subprocess.run([LODE, "symbolize", *map(str, args)], cwd=tmp_path, capture_output=True, text=True,
                       env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DEBUGINFOD_URLS": ""})
    return r.stdout, r.stderr


def send_profile(s, file, path, id, *addrs):  # noqa: A002
    off, vaddr, size = code_segment(file)
    base = 0x7f0000000000 - off
    p = Pprof(mapping=(base + vaddr, base + vaddr + size, off, path, id))
    for a in addrs:
        p.sample([base + a], [1, 10])
    send(s, p.bytes(), service="x")


def only_binary(s):
    return ask(s, "binaries")["binaries"][0]


@pytest.mark.slow
def test_a_supplementary_file_is_missing(serve, tmp_path):
    a, b = Built(tmp_path / "a"), Built(tmp_path / "b", ["-DOTHER"])
    common, folder = tmp_path / "common.debug", tmp_path / "dwz"
    subprocess.run(["dwz", "-m", common, "-M", folder / "common.debug", a.debug, b.debug], check=True)
    s = serve([pool_of(tmp_path, a.debug)], args=["--no-upstream", "--symbolize-interval", "1"]).scanned()
    at = next(x for x in a.code if chain(s, a.id, x)[0] == "alt-missing")
    reply = symbolized(s, a.id, at)
    assert reply["reasons"]["alt-missing"]["text"] == "some names are in a supplementary file that is not here"
    assert "lode push FILE --to URL" in reply["modules"][0]["help"]
    missing = f"missing: {folder / 'common.debug'}, build ID "
    assert missing in reply["modules"][0]["help"], reply["modules"]
    # The command has the same sentence; its advice is the option, or the place.
    stdout, said = command(tmp_path, "-e", a.debug, "-v", hex(at))
    assert reply["reasons"]["alt-missing"]["text"] in said and "--alt FILE" in said and missing in said, said
    want = command(tmp_path, "-e", a.debug, "-v", "--alt", common, hex(at))
    assert want[0] != stdout and "supplementary" not in want[1], want
    folder.mkdir()
    shutil.copy(common, folder)
    assert command(tmp_path, "-e", a.debug, "-v", hex(at)) == want
    shutil.rmtree(folder)
    lode("push", common, "--to", s.url)
    s.wait(lambda: chain(s, a.id, at)[0] == "found", "named by the pushed file")
    assert all(chain(s, a.id, at)[1])


def test_a_stripped_program_with_scripts_for_gdb_takes_its_debug_file(serve, tmp_path):
    """Rust's programs have .debug_gdb_scripts, which strip leaves: that makes no debug file of them."""
    a = Library(tmp_path / "lib")
    (tmp_path / "scripts").write_bytes(b"\1gdb_load_rust_pretty_printers.py\0")
    subprocess.run(["objcopy", "--add-section", f".debug_gdb_scripts={tmp_path / 'scripts'}", "--set-section-flags",
                    ".debug_gdb_scripts=alloc,readonly,data", a.stripped], check=True, capture_output=True)
    s = serve([pool_of(tmp_path, a.stripped)], args=["--no-upstream"]).scanned()
    assert chain(s, a.id, a.hidden)[0] == "no-debug-info"
    push(s, a.id, "debuginfo", a.debug)
    s.wait(lambda: chain(s, a.id, a.hidden) == ("found", ["hidden"]), "named by the pushed file")


@pytest.mark.slow
@pytest.mark.parametrize("how", (".dwo", ".dwp"))
def test_split_files_are_missing(serve, tmp_path, how):
    build, away = tmp_path / "build", tmp_path / "away"
    id_ = build_split(build)
    full = Built.__new__(Built)
    full.full = build / "shop"
    at = next(x for x in code_of(full.full) if len(full.oracle([x], "--no-demangle")[0]) > 1)
    away.mkdir()
    if how == ".dwp":
        subprocess.run(["dwp", "-e", "shop", "-o", "shop.dwp"], cwd=build, check=True)
        next(build.glob("*.dwo")).unlink()
    kept = next(build.glob(f"*{how}"))
    kept.rename(away / kept.name)
    pool = pool_of(tmp_path)
    s = serve([pool], args=["--no-upstream"]).scanned()
    lode("push", build / "shop", "--to", s.url)
    reply = symbolized(s, id_, at)
    assert reply["addresses"][0]["status"] == "split-missing" and "lode push PROGRAM --to URL" in reply["modules"][0]["help"]
    assert f"missing: {'shop.dwo' if how == '.dwo' else ''}" in reply["modules"][0]["help"], reply["modules"]
    stdout, said = command(tmp_path, "-e", build / "shop", "-v", hex(at))
    assert reply["reasons"]["split-missing"]["text"] in said and "dwp -e PROGRAM" in said, said
    # Both name the same file, also a server that has the table from the store.
    missing = re.search(r"missing: (.*, DWO ID [0-9a-f]{16})", said)[1]
    assert missing in reply["modules"][0]["help"], (missing, reply["modules"])
    s.stop()
    s = serve([pool], args=["--no-upstream"], data=s.data).scanned()
    again = symbolized(s, id_, at)
    assert missing in again["modules"][0]["help"], again["modules"]
    # The advice: back to their place, and push the program from there.
    (away / kept.name).rename(kept)
    got, said = command(tmp_path, "-e", build / "shop", "-v", hex(at))
    assert "lode: symbolize" not in said and got.count("\n") > stdout.count("\n"), (got, said)
    lode("push", build / "shop", "--to", s.url)
    s.wait(lambda: chain(s, id_, at)[0] == "found", "named by the pushed files")
    assert len(chain(s, id_, at)[1]) > 1


@pytest.mark.slow
def test_a_dwp_is_put_beside_a_scanned_program(serve, tmp_path):
    build = tmp_path / "build"
    id_ = build_split(build)
    full = Built.__new__(Built)
    full.full = build / "shop"
    at = next(x for x in code_of(full.full) if len(full.oracle([x], "--no-demangle")[0]) > 1)
    subprocess.run(["dwp", "-e", "shop", "-o", tmp_path / "shop.dwp"], cwd=build, check=True)
    next(build.glob("*.dwo")).unlink()
    pool = pool_of(tmp_path, build / "shop")
    s = serve([pool], args=["--no-upstream"]).scanned()
    assert chain(s, id_, at)[0] == "split-missing"
    shutil.copy(tmp_path / "shop.dwp", pool)
    s.wait(lambda: chain(s, id_, at)[0] == "found", "named by the .dwp")


@pytest.mark.slow
@pytest.mark.parametrize("how", ("a sound copy", "a push"))
def test_a_damaged_debug_file(serve, tmp_path, how):
    """The stripped library is here; its debug file is here too, and one of its sections is rubbish."""
    lib = Library(tmp_path / "lib")
    good, bad = lib.debug.read_bytes(), bytearray(lib.debug.read_bytes())
    out = subprocess.run(["readelf", "-SW", lib.debug], capture_output=True, text=True, check=True).stdout
    for name in (".debug_info", ".symtab"):
        m = re.search(rf" {re.escape(name)} +\w+ +\w+ (\w+) (\w+) ", out)
        off, size = int(m[1], 16), int(m[2], 16)
        bad[off + 4:off + size] = b"\xff" * (size - 4)
    pool = pool_of(tmp_path, lib.stripped)
    placed = pool / ".build-id" / lib.id[:2] / f"{lib.id[2:]}.debug"
    placed.parent.mkdir(parents=True)
    placed.write_bytes(bytes(bad))
    s = serve([pool], args=["--no-upstream", "--symbolize-interval", "1"]).scanned()
    send_profile(s, lib.stripped, "/usr/lib/libsecret.so.2", lib.id, lib.hidden)
    s.wait(lambda: only_binary(s)["reason"] or only_binary(s)["named"], "tried")
    reply, b = symbolized(s, lib.id, lib.hidden), only_binary(s)
    assert reply["addresses"][0]["status"] == b["reason"] == "damaged", (reply, b)
    assert "put a sound copy" in b["help"] and b["help"] == reply["modules"][0]["help"]
    # It says what is damaged, and where the file is.
    assert ".debug_info" in b["why"] or "unit" in b["why"], b
    assert b["origin"] == str(placed)
    # The command has the same sentence.
    copy = tmp_path / "bad.debug"
    copy.write_bytes(bytes(bad))
    _, said = command(tmp_path, "-e", copy, "-v", hex(lib.hidden))
    assert b["text"] in said and "put a sound copy" in said, said
    # An address that the rest names has no lines: it says so, too.
    (tmp_path / "x.c").write_text("int named(int x) { return x; }\nint main(void) { return named(0); }\n")
    subprocess.run(["gcc", "-g", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    whole = bytearray((tmp_path / "x").read_bytes())
    m = re.search(r" \.debug_info +\w+ +\w+ (\w+) (\w+) ", subprocess.run(["readelf", "-SW", tmp_path / "x"], capture_output=True, text=True, check=True).stdout)
    whole[int(m[1], 16) + 4:int(m[1], 16) + int(m[2], 16)] = b"\xff" * (int(m[2], 16) - 4)
    (tmp_path / "x").write_bytes(bytes(whole))
    at = re.search(r"^(\w+) T named$", subprocess.run(["nm", tmp_path / "x"], capture_output=True, text=True, check=True).stdout, re.M)[1]
    got, said = command(tmp_path, "-e", tmp_path / "x", "-v", at)
    assert "named" in got and b["text"] in said and ".debug_info" in said, (got, said)
    if how == "a push":
        placed.unlink()
        push(s, lib.id, "debuginfo", lib.debug)
    else:
        placed.with_suffix(".new").write_bytes(good)
        placed.with_suffix(".new").rename(placed)
    s.wait(lambda: only_binary(s)["named"] == 1, "named", 30)
    assert chain(s, lib.id, lib.hidden) == ("found", ["hidden"])
