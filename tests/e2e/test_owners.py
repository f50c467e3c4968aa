# SPDX-License-Identifier: Apache-2.0
"""An object belongs to the token that pushed it: nobody else replaces it, and its earlier versions can be restored."""

import json
import subprocess

import pytest

import go_program
from bucket_engines import start, stub  # noqa: F401
from making import elf
from pushing import bearer, listed, lode, one, put, server, sha, sound, token, want
from test_identities import GO_TEXT
from test_parca_debuginfo import initiate, without_code


def history(s, *build_id):
    return json.loads(lode("store", "history", *build_id, "--json", "--data", s.data).stdout)


@pytest.mark.slow
def test_another_token_does_not_replace_or_shadow(server, elf, tmp_path):
    s = server()
    mine, other, admin = token(s, "mine"), token(s, "other"), token(s, "ops", "admin")
    path = f"/buildid/{elf.id}/debuginfo"
    evil = elf.debug + b"\0"
    assert put(s, path, elf.debug, bearer(mine))[0] == 201
    for headers in ({}, {"X-LODE-SHA256": sha(evil)}):
        status, h, text = put(s, path, evil, {**bearer(other), **headers})
        assert status == 409 and h["X-LODE-RESULT"] == "owned" and "'mine'" in text and "admin" in text
    assert s.get(path).body == elf.debug
    assert want(s, one(elf.id, evil), headers=bearer(other)) == [{"want": False, "why": "owned", "owner": "mine"}]
    assert want(s, one(elf.id, evil), headers=bearer(mine)) == [{"want": True, "offset": 0}]
    assert want(s, one(elf.id, elf.debug), headers=bearer(other)) == [{"want": False, "why": "same"}]
    assert put(s, path, elf.debug, bearer(other))[1]["X-LODE-RESULT"] == "same"
    assert listed(s)[f"{elf.id}/debuginfo"]["owner"] == "mine" and history(s) == []
    # lode push says it, and goes on with other files
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "evil.debug").write_bytes(evil)
    (tmp_path / "tree" / "program").write_bytes(elf.program)
    (tmp_path / "token").write_text(other)
    r = lode("push", tmp_path / "tree", "--to", f"http://127.0.0.1:{s.port}", "--token-file", tmp_path / "token", ok=False)
    assert r.returncode == 1 and "belongs to 'mine'" in r.stderr and "1 stored" in r.stdout and "1 failed" in r.stdout
    # A replacement by the owner, then one by an administrator, who can also undo both.
    assert put(s, path, evil, bearer(mine))[0] == 201
    third = elf.debug + b"\0\0"
    assert put(s, path, third, bearer(admin))[0] == 201
    assert s.get(path).body == third
    assert listed(s)[f"{elf.id}/debuginfo"]["owner"] == "mine"
    old = history(s, elf.id)
    assert [(o["sha256"], o["from"], o["replaced_by"]) for o in old] == [(sha(elf.debug), "mine", "mine"), (sha(evil), "mine", "ops")]
    lode("store", "gc", "--data", s.data)
    s.stop()
    out = lode("store", "history", "--data", s.data).stdout
    assert f"{elf.id}/debuginfo@{sha(evil)[:12]}" in out and "by ops" in out
    lode("store", "restore", f"{elf.id}/debuginfo@{sha(elf.debug)[:12]}", "--data", s.data)
    s = server(data=s.data)
    assert s.get(path).body == elf.debug
    sound(s)
    # A removed object is restored, too; rm is for good.
    assert put(s, path, b"", bearer(mine), "DELETE")[0] == 403
    assert put(s, path, b"", bearer(admin), "DELETE")[0] == 200
    assert s.get(path).status == 404
    lode("store", "restore", f"{elf.id}/debuginfo", "--data", s.data)
    lode("store", "rm", f"{elf.id}/debuginfo", "--data", s.data)
    assert history(s) == []
    assert lode("store", "restore", f"{elf.id}/debuginfo", "--data", s.data, ok=False).returncode == 1


def test_a_program_that_is_its_own_debug_file_is_not_shadowed(server, elf, tmp_path):
    s = server()
    mine, other = token(s, "mine"), token(s, "other")
    program = tmp_path / "whole"
    program.write_bytes(elf.program)
    (tmp_path / "debug").write_bytes(elf.debug)
    subprocess.run(["eu-unstrip", program, tmp_path / "debug", "-o", tmp_path / "joined"], check=True)
    unstripped = (tmp_path / "joined").read_bytes()
    assert put(s, f"/buildid/{elf.id}/executable", unstripped, bearer(mine))[0] == 201
    status, h, _ = put(s, f"/buildid/{elf.id}/debuginfo", elf.debug, {**bearer(other), "X-LODE-SHA256": sha(elf.debug)})
    assert status == 409 and h["X-LODE-RESULT"] == "owned"
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == unstripped
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug, bearer(mine))[0] == 201


def test_a_program_is_not_shadowed_under_another_identity(server, tmp_path):
    """The debug file names the program by Go's build ID, or by a hash that only its sender knows, and is kept under GNU's."""
    (tmp_path / "go.s").write_text(go_program.note(GO_TEXT))
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-o", "x", "x.c", "go.s", "-Wl,--build-id=sha1"], cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", "x", "x.debug"], cwd=tmp_path, check=True)
    program, debug = (tmp_path / "x").read_bytes(), (tmp_path / "x.debug").read_bytes()
    gnu = json.loads(lode("inspect", "--json", tmp_path / "x").stdout)["build_id"]
    s = server(["--public-url", "https://lode.example"])
    mine, other = token(s, "mine"), token(s, "other")
    assert put(s, f"/buildid/{gnu}/executable", program, bearer(mine))[0] == 201
    for headers in ({}, {"X-LODE-SHA256": sha(debug)}):
        status, h, text = put(s, f"/buildid/{GO_TEXT.encode().hex()}/debuginfo", debug, {**bearer(other), **headers})
        assert status == 409 and h["X-LODE-RESULT"] == "owned" and "'mine'" in text, (status, text)

    def by_hash(data):
        i = initiate(s, "ab" * 16, len(data), bearer(other), buildIdType="BUILD_ID_TYPE_HASH")
        return put(s, i["signedUrl"][len("https://lode.example"):], data)

    status, h, text = by_hash(debug)
    assert status == 409 and h["X-LODE-RESULT"] == "owned" and "'mine'" in text, (status, text)
    assert s.get(f"/buildid/{gnu}/debuginfo").body == program
    assert list(listed(s)) == [f"{gnu}/executable"]
    # Dynamic symbols alone take no program's place: they only add the hash.
    subprocess.run(["strip", "-o", "x.bare", "x"], cwd=tmp_path, check=True)
    assert by_hash(without_code((tmp_path / "x.bare").read_bytes()))[0] == 200
    assert s.get(f"/buildid/{gnu}/debuginfo").body == s.get(f"/buildid/{'ab' * 16}/debuginfo").body == program
    assert put(s, f"/buildid/{GO_TEXT.encode().hex()}/debuginfo", debug, bearer(mine))[0] == 201


def parts_of_program(tmp_path):
    """A program with DWARF, its debug file, a file of its dynamic symbols alone, and the build ID."""
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-o", "x", "x.c", "-Wl,--build-id=sha1"], cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", "x", "x.debug"], cwd=tmp_path, check=True)
    subprocess.run(["strip", "-o", "x.bare", "x"], cwd=tmp_path, check=True)
    gnu = json.loads(lode("inspect", "--json", tmp_path / "x").stdout)["build_id"]
    return (tmp_path / "x").read_bytes(), (tmp_path / "x.debug").read_bytes(), without_code((tmp_path / "x.bare").read_bytes()), gnu


@pytest.mark.slow
def test_dynamic_symbols_hide_no_better_file_while_the_bucket_is_away(stub, start, tmp_path):
    """What is held answers then, without a judgement of the bucket."""
    _, debug, bare, gnu = parts_of_program(tmp_path)
    s = start(stub, args=("--public-url", "https://lode.example", "--keep-pushes", "64M"))
    mine, agent = token(s, "mine"), token(s, "agent")
    assert put(s, f"/buildid/{gnu}/debuginfo", debug, bearer(mine))[0] == 201
    assert s.get(f"/buildid/{gnu}/debuginfo").body == debug
    stub.away = True
    for _ in range(2):
        i = initiate(s, gnu, len(bare), bearer(agent), force=True)
        status, h, text = put(s, i["signedUrl"][len("https://lode.example"):], bare)
        assert status < 500 and h["X-LODE-RESULT"] != "held", (status, h, text)
        assert s.get(f"/buildid/{gnu}/debuginfo").body == debug
    stub.away = False


@pytest.mark.slow
def test_dynamic_symbols_add_a_hash_in_a_bucket_too(stub, start, tmp_path):
    """The agent has the stripped program, and names it by a hash; the program with its DWARF is another owner's."""
    program, debug, bare, gnu = parts_of_program(tmp_path)
    s = start(stub, args=("--public-url", "https://lode.example", "--keep-pushes", "64M"))
    mine, agent = token(s, "mine"), token(s, "agent")
    assert put(s, f"/buildid/{gnu}/executable", program, bearer(mine))[0] == 201

    def by_hash(name):
        i = initiate(s, name, len(bare), bearer(agent), buildIdType="BUILD_ID_TYPE_HASH", force=True)
        status, h, text = put(s, i["signedUrl"][len("https://lode.example"):], bare)
        assert status == 200, (status, text)
        return h["X-LODE-RESULT"]

    assert by_hash("ab" * 16) == "stored"
    assert s.get(f"/buildid/{gnu}/debuginfo").body == s.get(f"/buildid/{'ab' * 16}/debuginfo").body == program
    # Held while the bucket is away, which is found by this push.
    assert put(s, f"/buildid/{gnu}/debuginfo", b"", bearer(token(s, "root", "admin")), "DELETE")[0] == 200
    stub.away = True
    assert by_hash("cd" * 16) == "held"
    status, h, text = put(s, f"/buildid/{gnu}/debuginfo", debug, bearer(agent))
    assert status == 409 and h["X-LODE-RESULT"] == "owned" and "has another owner" in text, (status, text)
    stub.away = False
    s.wait(lambda: s.get(f"/buildid/{'cd' * 16}/debuginfo").body == program, "the push to be put")


def test_names_of_the_local_user_are_no_tokens(server, elf):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, elf.debug)[0] == 201
    assert listed(s)[f"{elf.id}/debuginfo"]["owner"] == "local"
    assert lode("token", "add", "local", "--data", s.data, ok=False).returncode == 1
    ci = token(s, "ci")
    assert put(s, path, elf.debug + b"\0", bearer(ci))[0] == 409
