# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's DebuginfoService, as Alloy and profilecli call it: a question, a chunked POST of the file, a last call."""

import json
import socket
import subprocess
import time

import go_program
from making import elf, fetch
from profiling import call
from pushing import bearer, listed, lode, server, sound, token

SERVICE = "/debuginfo.v1alpha1.DebuginfoService/"
IN_PROGRESS = "A previous upload is still in-progress and not stale yet (only stale uploads can be retried)."


def ask(s, what, message, headers=None, status=200, prefix=""):
    got, body, h = call(s, "POST", prefix + SERVICE + what, json.dumps(message), {"Content-Type": "application/json", **(headers or {})})
    assert got == status and h["Content-Type"] == "application/json", (got, body)
    return json.loads(body)


def should(s, build_id, headers=None):
    file = {"gnuBuildId": build_id, "name": "/usr/bin/x", "type": "TYPE_EXECUTABLE_NO_TEXT"}
    answer = ask(s, "ShouldInitiateUpload", {"file": file}, headers)
    return answer.get("shouldInitiateUpload", False), answer["reason"]


def chunked(data, size=50000):
    for i in range(0, len(data), size):
        yield data[i:i + size]


def upload(s, build_id, data, headers=None):
    """Without a type and a length, as Go's client sends a reader."""
    status, body, _ = call(s, "POST", f"{SERVICE}Upload/{build_id}", chunked(data), headers or {})
    return status, body.decode()


def test_a_debug_file_is_asked_for_sent_and_served(server, elf):
    s = server()
    assert should(s, elf.id)[0] is True
    assert upload(s, elf.id, elf.debug) == (200, "stored\n")
    assert ask(s, "UploadFinished", {"gnuBuildId": elf.id}) == {}
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.debug, True)
    assert should(s, elf.id) == (False, "a file with symbols is here already")
    assert upload(s, elf.id, elf.debug)[0] == 200
    one, = ask(s, "ListDebuginfo", {})["object"]
    assert one["file"] == {"gnuBuildId": elf.id, "type": "TYPE_EXECUTABLE_NO_TEXT"} and one["state"] == "STATE_UPLOADED"
    assert int(one["sizeBytes"]) == len(elf.debug) and one["finishedAt"].startswith(time.strftime("20%y-%m-"))
    assert ask(s, "DeleteDebuginfo", {"gnuBuildId": elf.id}) == {} == ask(s, "DeleteDebuginfo", {"gnuBuildId": elf.id})
    assert ask(s, "ListDebuginfo", {}) == {} and should(s, elf.id)[0]
    sound(s)


def test_a_client_whose_url_has_a_path(server, elf):
    """Pyroscope's own: that of all calls of an upload, also of the one that is none of Connect."""
    s = server()
    question = {"file": {"gnuBuildId": elf.id, "type": "TYPE_EXECUTABLE_NO_TEXT"}}
    assert ask(s, "ShouldInitiateUpload", question, prefix="/pyroscope")["shouldInitiateUpload"]
    status, body, _ = call(s, "POST", f"/pyroscope{SERVICE}Upload/{elf.id}", chunked(elf.debug), {})
    assert (status, body) == (200, b"stored\n")
    assert ask(s, "UploadFinished", {"gnuBuildId": elf.id}, prefix="/pyroscope") == {}
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.debug, True)


def test_a_scanned_file_with_symbols_is_not_asked_for(server, elf, tmp_path):
    """Its agent has a part of it at most. Of a stripped program the symbols are still wanted, until its debug file is found."""
    pool = tmp_path / "empty"  # the folder that is served
    s = server()
    assert should(s, elf.id)[0]
    (tmp_path / "program").write_bytes(elf.program)
    subprocess.run(["strip", tmp_path / "program"], check=True)
    (tmp_path / "program").rename(pool / "program")
    s.wait(lambda: fetch(s, f"/buildid/{elf.id}/executable")[0] == 200, "the scan")
    assert should(s, elf.id)[0]
    (tmp_path / "program.debug").write_bytes(elf.debug)
    (tmp_path / "program.debug").rename(pool / "program.debug")
    s.wait(lambda: not should(s, elf.id)[0], "the debug file to be found")
    assert should(s, elf.id) == (False, "a file with symbols is here already")


def test_the_file_decides_what_it_is(server, elf, tmp_path):
    s = server()
    program, bare = tmp_path / "program", tmp_path / "bare"
    program.write_bytes(elf.program)
    subprocess.run(["strip", program], check=True)
    stripped = program.read_bytes()
    assert upload(s, elf.id, stripped) == (200, "stored\n")
    assert listed(s)[f"{elf.id}/executable"]["quality"] == "stripped"
    # A program without symbols is no reason not to send its debug information.
    assert should(s, elf.id)[0]
    # As debug information it would hide that of another server.
    subprocess.run(["objcopy", "--only-keep-debug", program, bare], check=True)
    status, text = upload(s, elf.id, bare.read_bytes())
    assert status == 200 and "not stored" in text and list(listed(s)) == [f"{elf.id}/executable"]
    assert fetch(s, f"/buildid/{elf.id}/executable") == (200, stripped, True)
    # One that has less never takes the place of a better one.
    assert upload(s, elf.id, elf.program)[0] == 200 and upload(s, elf.id, stripped)[0] == 200
    best = listed(s)[f"{elf.id}/executable"]["quality"]
    assert upload(s, elf.id, elf.debug) == (200, "stored\n")
    assert listed(s)[f"{elf.id}/executable"]["quality"] == best
    sound(s)


def test_bad_uploads_leave_nothing(server, elf):
    s = server(["--max-push", "1M"])
    assert upload(s, elf.id, b"")[0] == 422
    assert upload(s, elf.id, b"not ELF" * 100)[0] == 422
    assert upload(s, "ab" * 20, elf.debug)[0] == 422
    assert upload(s, "nothing", elf.debug)[0] == 400
    status, text = upload(s, elf.id, elf.debug + bytes(2 << 20))
    assert status == 413 and "--max-push" in text
    assert call(s, "POST", f"{SERVICE}Upload/{elf.id}", bytes(2 << 20))[0] == 413
    # Broken off in the middle: while it runs, others are told to come back.
    with socket.create_connection(("127.0.0.1", s.port)) as c:
        c.sendall(b"POST %sUpload/%s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % (SERVICE.encode(), elf.id.encode()))
        c.sendall(b"1000\r\n" + elf.debug[:0x1000] + b"\r\n")
        s.wait(lambda: should(s, elf.id) == (False, IN_PROGRESS), "the upload to be seen")
    s.wait(lambda: should(s, elf.id)[0], "the upload to end")
    assert listed(s) == {}
    assert ask(s, "ShouldInitiateUpload", {"file": {}})["reason"].startswith("the file has no GNU build ID to upload it under")
    assert ask(s, "ShouldInitiateUpload", {"file": {"gnuBuildId": "xyz"}}, status=400)["code"] == "invalid_argument"
    sound(s)


def test_calls_need_the_scopes_of_their_kind(server, elf):
    s = server()
    push, admin = bearer(token(s, "alloy")), bearer(token(s, "boss", "admin"))
    assert ask(s, "ShouldInitiateUpload", {"file": {}}, status=401)["code"] == "unauthenticated"
    assert should(s, elf.id, push)[0] and upload(s, elf.id, elf.debug[:1000])[0] == 401
    assert upload(s, elf.id, elf.debug, push)[0] == 200
    assert ask(s, "DeleteDebuginfo", {"gnuBuildId": elf.id}, push, status=403)["code"] == "permission_denied"
    assert ask(s, "DeleteDebuginfo", {"gnuBuildId": elf.id}, admin) == {}


def test_a_file_is_known_by_each_identity(server, tmp_path):
    text = "aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq"
    go_program.build(tmp_path / "app", text)
    subprocess.run(["gcc", "-g", "-nostdlib", "-Wl,--build-id=sha1", "-o", tmp_path / "both", tmp_path / "app.s"], check=True, capture_output=True)
    facts = json.loads(lode("inspect", "--json", tmp_path / "both").stdout)
    identities = ({"gnuBuildId": facts["build_id"]}, {"goBuildId": text}, {"otelFileId": facts["build_id_htlhash"]})
    s = server()
    known = lambda file: ask(s, "ShouldInitiateUpload", {"file": {"name": "both", **file}})["reason"]
    assert known({"gnuBuildId": facts["build_id"], "goBuildId": text}) == "no file with symbols is here"
    assert known({"goBuildId": text}) == known({"otelFileId": "ab" * 16}) == known({})
    assert upload(s, facts["build_id"], (tmp_path / "both").read_bytes()) == (200, "stored\n")
    # It counts as under way until its connection has had the reply.
    s.wait(lambda: known(identities[0]) != IN_PROGRESS, "the end of the upload")
    for file in identities:
        assert known(file) == "a file with symbols is here already", file
    assert known({"gnuBuildId": "ab" * 20, "goBuildId": "redacted", "otelFileId": "xyz"}) == "no file with symbols is here"
