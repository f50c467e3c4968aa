# SPDX-License-Identifier: Apache-2.0
"""Parca's clients send debug information to the bucket of the store: lode serve --signed-uploads parca."""

import signal

import pytest

from bucket_engines import engine, start, stub  # noqa: F401
from conftest import free_port
from http2 import message as framed
from making import elf, fetch, new_id  # noqa: F401
from profiling import fields, message, number
from pushing import bearer, lode, token
from test_http2 import curl
from test_parca_debuginfo import SERVICE, ask, initiate, library, names, should, upload
from test_signed_uploads import left, outcomes, path, send

FOR_PARCA = ("--signed-uploads", "parca")


def mark(s, i, build_id, status=200, headers=None):
    return ask(s, "MarkUploadFinished", {"buildId": build_id, "uploadId": i["uploadId"]}, headers, status)


@pytest.mark.slow
def test_a_debug_file_goes_to_the_bucket(engine, start, elf):
    s = start(engine, args=FOR_PARCA)
    i = initiate(s, elf.id, len(elf.debug))
    assert i["uploadStrategy"] == "UPLOAD_STRATEGY_SIGNED_URL" and i["signedUrl"].startswith(f"{engine.url}/bucket/a/store/incoming/"), i
    assert not should(s, elf.id)[0], "another agent waits"
    assert mark(s, i, elf.id, 412)["code"] == "failed_precondition"
    assert mark(s, i, new_id("another"), 404)["code"] == "not_found"
    assert send(i["signedUrl"], elf.debug)[0] == 200
    assert mark(s, i, elf.id) == {}
    assert mark(s, i, elf.id) == {}, "the client asks again"
    assert fetch(s, path(elf.id)) == (200, elf.debug, True)
    assert should(s, elf.id) == (False, "a file with symbols is here already")
    assert ask(s, "InitiateUpload", {"buildId": elf.id, "size": 5}, status=409)["code"] == "already_exists"
    assert not left(engine)
    # A restarted client of a restarted server.
    i = initiate(s, elf.id, len(elf.debug), force=True)
    assert send(i["signedUrl"], elf.debug)[0] == 200
    s.stop(signal.SIGKILL)
    s = start(engine, args=FOR_PARCA)
    assert mark(s, i, elf.id) == {} and not left(engine)


def test_by_grpc(stub, start, elf):
    """As parca-agent calls."""
    port = free_port()
    s = start(stub, args=[*FOR_PARCA, "--listen-grpc", f"127.0.0.1:{port}"])
    s.grpc_port = port

    def call(what, m):
        _, got, reply = curl(s, SERVICE + what, framed(m), ["Content-Type: application/grpc", "te: trailers"])
        return int(got["grpc-status"]), reply

    status, reply = call("InitiateUpload", message(1, elf.id.encode()) + number(2, len(elf.debug)) + number(6, 1))
    i = dict(fields(dict(fields(reply[5:]))[1]))
    assert status == 0 and i[3] == 2, i
    assert send(i[4].decode(), elf.debug)[0] == 200
    assert call("MarkUploadFinished", message(1, elf.id.encode()) + message(2, i[2])) == (0, framed(b""))
    assert fetch(s, path(elf.id)) == (200, elf.debug, True)


def test_what_is_refused(stub, start, elf):
    s = start(stub, args=FOR_PARCA)
    build_id = new_id("refused")
    for data, why in ((elf.debug, "its build ID is"), (b"x" * 4000, "ELF")):
        i = initiate(s, build_id, len(data))
        assert send(i["signedUrl"], data)[0] == 200
        error = mark(s, i, build_id, 412)
        assert error["code"] == "failed_precondition" and why in error["message"], error
        assert mark(s, i, build_id, 412)["code"] == "failed_precondition" and not left(stub)
    i = initiate(s, build_id, len(elf.debug))
    for wrong in (elf.debug[:-1], elf.debug + b"x"):
        assert send(i["signedUrl"], wrong)[0] == 403
    assert mark(s, i, build_id, 412)["code"] == "failed_precondition"
    assert ask(s, "MarkUploadFinished", {"buildId": build_id, "uploadId": "0" * 32}, status=404)["code"] == "not_found"
    assert outcomes(s, "refused") == 2


def test_the_upload_belongs_to_its_token(stub, start, elf):
    s = start(stub, args=FOR_PARCA)
    agent, other = bearer(token(s, "agent")), bearer(token(s, "other"))
    i = initiate(s, elf.id, len(elf.debug), agent)
    assert send(i["signedUrl"], elf.debug)[0] == 200
    assert mark(s, i, elf.id, 412, other)["code"] == "failed_precondition", "it is of another token"
    assert mark(s, i, elf.id, headers=agent) == {}
    build_id = new_id("other owner")
    content = elf.of(elf.debug, build_id)
    first, second = initiate(s, build_id, len(content), agent), None
    assert send(first["signedUrl"], content)[0] == 200
    assert mark(s, first, build_id, headers=agent) == {}
    second = initiate(s, build_id, len(content) + 4, other, force=True)
    assert send(second["signedUrl"], content + b"more")[0] == 200
    error = mark(s, second, build_id, 412, other)
    assert "'agent'" in error["message"], error
    assert fetch(s, path(build_id)) == (200, content, True)


def test_dynamic_symbols_and_programs_are_told_by_the_content(stub, start, tmp_path):
    s = start(stub, args=FOR_PARCA)
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    i = initiate(s, build_id, len(bare))
    assert send(i["signedUrl"], bare)[0] == 200 and mark(s, i, build_id) == {}
    s.wait(lambda: names(s, build_id, address) == ["exported_function"], "the name")
    i = initiate(s, build_id, len(whole), force=True)
    assert send(i["signedUrl"], whole)[0] == 200 and mark(s, i, build_id) == {}
    assert fetch(s, f"/buildid/{build_id}/executable") == (200, whole, True)


@pytest.mark.slow
def test_while_the_bucket_is_away_the_server_takes_it(stub, start, elf):
    s = start(stub, args=[*FOR_PARCA, "--keep-pushes", "64M"])
    away = new_id("away")
    content = elf.of(elf.debug, away)
    i = initiate(s, elf.id, len(elf.debug))
    assert send(i["signedUrl"], elf.debug)[0] == 200
    stub.away = True
    assert mark(s, i, elf.id, 503)["code"] == "unavailable"
    j = initiate(s, away, len(content))
    assert upload(s, j["signedUrl"], content)[0] == 200
    assert mark(s, j, away) == {}
    assert fetch(s, path(away)) == (200, content, True)
    stub.away = False
    s.wait(lambda: ask_again(s, i, elf.id), "the bucket to be back")
    assert fetch(s, path(elf.id)) == (200, elf.debug, True)


def ask_again(s, i, build_id):
    try:
        return mark(s, i, build_id) == {}
    except AssertionError:
        return False


@pytest.mark.parametrize("who, direct", [("push", False), ("all", True)])
def test_the_option_says_for_whom(stub, start, elf, who, direct):
    s = start(stub, args=["--signed-uploads", who])
    url = initiate(s, elf.id, len(elf.debug))["signedUrl"]
    assert url.startswith(stub.url) == direct
