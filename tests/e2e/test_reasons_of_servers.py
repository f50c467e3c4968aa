# SPDX-License-Identifier: Apache-2.0
"""Reasons that come from upstream servers, each made by a server on loopback: the same in API, command and page; and whether its advice
gives the name (docs/reasons.md)."""

import json
import subprocess

import pytest

from conftest import LODE
from faulty import Dead
from profiling import Pprof, ask, code_segment, send
from exploring import page, visit  # noqa: F401
from test_reasons import lib, one, pool_of, push  # noqa: F401
from test_symbolize import post


class Failing:
    """An upstream server that fails in one way, until it is mended."""

    def __init__(self, faulty, how, files):
        self.dead = Dead() if how == "dead" else None
        self.how = None if how in ("dead", "404") else how
        if not self.dead:
            self.up = faulty({} if how == "404" else files, lambda path, n: self.how, headers=["Content-Type: text/html"] if how == "html" else [])
            self.url = self.up.url
        else:
            self.up, self.url = None, self.dead.url


def named(s, lib):  # noqa: F811
    reply = json.loads(s.get(f"/buildid/{lib.id}/symbolize?addr={lib.hidden:x}").body)
    return [f["function"] for f in reply["addresses"][0].get("frames", [])] == ["hidden"]


HOW = {"dead": "timed-out", "html": "not-elf", "500": "upstream-failed", "404": "upstream-404"}


def mapping_of(lib, file, *addresses):  # noqa: F811
    off, vaddr, size = code_segment(lib.stripped)
    base = 0x7f0000000000 - off
    p = Pprof(mapping=(base + vaddr, base + vaddr + size, off, file, lib.id))
    for a in addresses or [lib.hidden]:
        p.sample([base + a], [1, 10])
    return p.bytes()


def run(tmp_path, *args):
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DEBUGINFOD_URLS": "", "DEBUGINFOD_TIMEOUT": "5"}
    r = subprocess.run([LODE, *map(str, args)], cwd=tmp_path, capture_output=True, text=True, env=env)
    return r.stdout, r.stderr


@pytest.mark.slow
@pytest.mark.parametrize("here", ("nothing here", "a stripped library here"))
@pytest.mark.parametrize("how", HOW)
def test_a_server_that_fails(serve, faulty, lib, tmp_path, how, here):  # noqa: F811
    """A library without its debug file has the reason of the server that did not send it, in the API and in the command."""
    up = Failing(faulty, how, {f"/buildid/{lib.id}/debuginfo": lib.debug.read_bytes()})
    stripped = here.startswith("a")
    reason = "no-debug-info" if stripped and how == "404" else HOW[how]
    s = serve([pool_of(tmp_path, *([lib.stripped] if stripped else []))],
              args=["--debuginfod-upstream-servers", up.url, "--symbolize-interval", "1"]).scanned()
    reply = json.loads(s.get(f"/buildid/{lib.id}/symbolize?addr={lib.hidden:x}").body)
    module = reply["modules"][0]
    assert reply["addresses"][0]["status"] == reason, reply
    assert module["status"] == ("found" if stripped else reason)
    text = reply["reasons"][reason]["text"]
    assert up.url in module["help"] and "lode push FILE" in module["help"]
    assert ("wait" in module["help"]) == (reason in ("timed-out", "upstream-failed"))
    # The profile's binary has the same words.
    send(s, mapping_of(lib, "/usr/lib/libsecret.so.2"), service="x")

    def binary():
        return ask(s, "binaries")["binaries"][0]

    s.wait(lambda: binary()["reason"] == reason, reason)
    assert binary()["text"] == text and binary()["help"] == module["help"].replace(
        "its package (Debian: -dbgsym, Fedora: -debuginfo)", "the package libsecret2-dbgsym"), binary()
    # The command has the same sentence.
    (tmp_path / "p.pb").write_bytes(mapping_of(lib, str(lib.stripped) if stripped else "/gone/libsecret.so.2"))
    away = lib.debug.with_suffix(".away")
    lib.debug.rename(away)
    try:
        _, said = run(tmp_path, "symbolize", "p.pb", "-o", "o.folded", "--server", up.url)
        assert text in said and up.url in said, said
        assert ("again later" in said) == ("wait" in module["help"]), said
        # The reason is told once more, by the steps of the search.
        assert how == "404" or up.url in run(tmp_path, "find", "--why", lib.id, "--server", up.url)[1]
    finally:
        away.rename(lib.debug)
        if up.dead:
            up.dead.stop()
    # The advice: wait for the server, or push.
    if how == "500":
        up.how = None
        s.wait(lambda: named(s, lib), "named by the server")
    else:
        push(s, lib.id, "debuginfo", lib.debug)
        s.wait(lambda: named(s, lib), "named by the push")
    s.wait(lambda: binary()["named"] == 1, "the profile is named")
    assert binary()["reason"] == ""


@pytest.mark.slow
def test_a_server_that_hangs_is_pending(serve, faulty, lib, tmp_path, page):  # noqa: F811
    """While a server may still answer nothing is said to be missing; and the name comes when it answers."""
    up = faulty({f"/buildid/{lib.id}/debuginfo": lib.debug.read_bytes()}, lambda path, n: "silent" if n == 0 else None)
    s = serve([pool_of(tmp_path)], args=["--debuginfod-upstream-servers", up.url, "--symbolize-interval", "1"]).scanned()
    status, module = one(s, lib.id, lib.hidden, timeout=0.1)
    assert (status, module["status"], module["help"]) == ("pending", "pending", "wait")
    assert "an upstream server may still have its file" in module["why"]
    send(s, mapping_of(lib, "/usr/lib/libsecret.so.2"), service="x")
    s.wait(lambda: ask(s, "binaries")["binaries"][0]["state"] == "pending", "pending")
    visit(page, s, f"?view=server&id={lib.id}&addr={lib.hidden:x}")
    page.wait_text("#address-body", "Looking up")
    push(s, lib.id, "debuginfo", lib.debug)
    page.wait_text("#address-body .chain .function", "hidden", 60)
    # So does the profile, although the program is still asked for.
    s.wait(lambda: ask(s, "binaries")["binaries"][0]["named"] == 1, "the profile is named", 15)


@pytest.mark.slow
def test_what_is_here_is_named_while_a_server_hangs(serve, faulty, lib, tmp_path):  # noqa: F811
    """The dynamic symbols of a stripped library name its addresses; of others nothing is said to be missing."""
    up = faulty({}, lambda path, n: "silent")
    s = serve([pool_of(tmp_path, lib.stripped)], args=["--debuginfod-upstream-servers", up.url, "--symbolize-interval", "1"]).scanned()
    send(s, mapping_of(lib, "/usr/lib/libsecret.so.2", lib.shown, lib.hidden), service="x")
    s.wait(lambda: ask(s, "binaries")["binaries"][0]["named"] == 1, "the profile is named", 15)
    top = ask(s, "top", query="profile:samples:count:cpu:nanoseconds")
    assert "shown" in json.dumps(top), top
    reply = json.loads(s.get(f"/buildid/{lib.id}/symbolize?addr={lib.shown:x}&addr={lib.hidden:x}").body)
    assert [a["status"] for a in reply["addresses"]] == ["found", "pending"], reply
    assert ask(s, "binaries")["binaries"][0]["reason"] == "pending"


def test_the_page_has_the_words_of_the_api(serve, faulty, lib, tmp_path, page):  # noqa: F811
    up = Failing(faulty, "html", {})
    s = serve([pool_of(tmp_path, lib.stripped)], args=["--debuginfod-upstream-servers", up.url, "--symbolize-interval", "1"]).scanned()
    send(s, mapping_of(lib, "/usr/lib/libsecret.so.2"), service="x")
    s.wait(lambda: ask(s, "binaries")["binaries"][0]["reason"] == "not-elf", "not-elf")
    b = ask(s, "binaries")["binaries"][0]
    visit(page, s, "?view=debug")
    page.wait_text(".binaries .known", b["text"][1:])
    page.wait_text(".binaries .help", b["help"][1:])
    reply = json.loads(s.get(f"/buildid/{lib.id}/symbolize?addr={lib.hidden:x}").body)
    page.open(f"{s.url}/?view=server&id={lib.id}&addr={lib.hidden:x}")
    page.wait_text("#address-body", reply["reasons"]["not-elf"]["text"][1:])
    page.wait_text("#address-body .help", reply["modules"][0]["help"][1:])


@pytest.mark.slow
def test_too_many_files_are_asked_for(serve, faulty, lib, tmp_path, page):  # noqa: F811
    """A server that hangs, and thousands of build IDs that it is asked for: one more is `busy`, in API, profile and page."""
    up = faulty({}, lambda path, n: "silent")
    s = serve([pool_of(tmp_path)], args=["--debuginfod-upstream-servers", up.url, "--symbolize-interval", "1", "--upstream-misses", "100000"]).scanned()
    for k in range(140):
        modules = [{"id": f"{k * 32 + i:040x}"} for i in range(1, 33)]
        post(s, "/symbolize", json.dumps({"modules": modules, "addresses": [[i, 16] for i in range(32)], "timeout": 0}))
    status, module = one(s, lib.id, lib.hidden, timeout=0.1)
    assert (status, module["status"], module["help"]) == ("busy", "busy", "wait"), module
    assert module["why"] == "too many tables are being built: ask again"
    send(s, mapping_of(lib, "/usr/lib/libsecret.so.2"), service="x")
    s.wait(lambda: ask(s, "binaries")["binaries"][0]["reason"] == "busy", "busy")
    visit(page, s, "?view=debug")
    page.wait_text(".binaries .known", "oo many tables are being built")
