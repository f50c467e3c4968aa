# SPDX-License-Identifier: Apache-2.0
"""Parca's DebuginfoService: questions, a URL to upload to, and files with dynamic symbols alone."""

import contextlib
import hashlib
import http.client
import json
import re
import socket
import struct
import subprocess
import time
import urllib.parse

import pytest

from conftest import LODE, free_port
from http2 import CANCEL, RST_STREAM, Conn, frame, rss_mib
from http2 import message as framed
from making import elf, fetch
from profiling import Pprof
from profiling import ask as api
from profiling import call, code_segment, fields, message, number
from profiling import send as send_profile
from pushing import bearer, listed, put, server, sound, token
from test_http2 import curl

SERVICE = "/parca.debuginfo.v1alpha1.DebuginfoService/"
IN_PROGRESS = "A previous upload is still in-progress and not stale yet (only stale uploads can be retried)."


def ask(s, what, message, headers=None, status=200):
    got, body, h = call(s, "POST", SERVICE + what, json.dumps(message), {"Content-Type": "application/json", **(headers or {})})
    assert got == status and h["Content-Type"] == "application/json", (got, body)
    return json.loads(body)


def should(s, build_id, **more):
    answer = ask(s, "ShouldInitiateUpload", {"buildId": build_id, **more})
    return answer.get("shouldInitiateUpload", False), answer["reason"]


def initiate(s, build_id, size, headers=None, **more):
    return ask(s, "InitiateUpload", {"buildId": build_id, "size": size, "hash": "h", "buildIdType": "BUILD_ID_TYPE_GNU", **more}, headers)["uploadInstructions"]


def upload(s, url, data):
    assert url.startswith(f"http://127.0.0.1:{s.port}/upload/")
    status, _, text = put(s, url[len(f"http://127.0.0.1:{s.port}"):], data)
    return status, text


def send(s, build_id, data, **more):
    i = initiate(s, build_id, len(data), **more)
    assert i["buildId"] == build_id and i["uploadStrategy"] == "UPLOAD_STRATEGY_SIGNED_URL"
    got = upload(s, i["signedUrl"], data)
    return got, i["uploadId"]


def without_code(data):
    """As agents strip a program: sections with code, and their segment, have no bytes in the file."""
    data = bytearray(data)
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phsize, phnum, shsize, shnum = struct.unpack_from("<HHHH", data, 54)
    for i in range(phnum):
        kind, flags = struct.unpack_from("<II", data, phoff + i * phsize)
        if kind == 1 and flags & 1:
            struct.pack_into("<Q", data, phoff + i * phsize + 32, 0)
    for i in range(shnum):
        flags, = struct.unpack_from("<Q", data, shoff + i * shsize + 8)
        if flags & 4:
            struct.pack_into("<I", data, shoff + i * shsize + 4, 8)
    return bytes(data)


def as_parca_agent_strips(data):
    """Its sections of code have an address, and neither bytes nor a size; no segment is loaded."""
    data = bytearray(data)
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phsize, phnum, shsize, shnum = struct.unpack_from("<HHHH", data, 54)
    for i in range(phnum):
        if struct.unpack_from("<I", data, phoff + i * phsize)[0] == 1:
            struct.pack_into("<I", data, phoff + i * phsize, 0)
    for i in range(shnum):
        kind, flags = struct.unpack_from("<IQ", data, shoff + i * shsize + 4)
        if flags & 4 and kind == 1 and struct.unpack_from("<Q", data, shoff + i * shsize + 32)[0] > 64:
            struct.pack_into("<I", data, shoff + i * shsize + 4, 8)
            struct.pack_into("<Q", data, shoff + i * shsize + 32, 0)
    return bytes(data)


def library(folder, *flags):
    """(its debug information whole, what an agent makes of the stripped library, the address of a function, its build ID or '')."""
    source = folder / "l.c"
    source.write_text("int exported_function(int x) { return x * 3; }\n")
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", *flags, "-o", folder / "l.so", source], check=True)
    nm = subprocess.run(["nm", folder / "l.so"], check=True, capture_output=True, text=True).stdout
    address = next(int(line.split()[0], 16) for line in nm.splitlines() if line.endswith(" exported_function"))
    notes = subprocess.run(["readelf", "-n", folder / "l.so"], check=True, capture_output=True, text=True).stdout
    build_id = next((line.split()[-1] for line in notes.splitlines() if "Build ID" in line), "")
    whole = (folder / "l.so").read_bytes()
    subprocess.run(["strip", folder / "l.so"], check=True)
    return whole, without_code((folder / "l.so").read_bytes()), address, build_id


def names(s, build_id, address):
    status, body, _ = call(s, "GET", f"/buildid/{build_id}/symbolize?addr={address:#x}")
    frames = json.loads(body)["addresses"][0].get("frames", []) if status == 200 else []
    return [f["function"] for f in frames]


def test_a_debug_file_by_a_url(server, elf):
    s = server()
    assert should(s, elf.id) == (True, "no file with symbols is here")
    i = initiate(s, elf.id, len(elf.debug))
    assert should(s, elf.id) == (False, IN_PROGRESS)
    error = ask(s, "InitiateUpload", {"buildId": elf.id, "size": 5}, status=412)
    assert error["code"] == "failed_precondition"
    mark = {"buildId": elf.id, "uploadId": i["uploadId"]}
    assert ask(s, "MarkUploadFinished", mark, status=412)["code"] == "failed_precondition"
    assert upload(s, i["signedUrl"], elf.debug)[0] == 200
    assert ask(s, "MarkUploadFinished", mark) == {}
    assert upload(s, i["signedUrl"], elf.debug)[0] == 403, "the URL was used"
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.debug, True)
    assert should(s, elf.id) == (False, "a file with symbols is here already")
    assert should(s, elf.id, force=True)[0]
    assert ask(s, "InitiateUpload", {"buildId": elf.id, "size": 5}, status=409)["code"] == "already_exists"
    sound(s)


def test_what_is_no_upload(server, elf):
    s = server(["--max-push", "1M", "--public-url", "https://lode.example/"])
    for bad in ({"size": 5}, {"buildId": "xyz", "size": 5}, {"buildId": elf.id}, {"buildId": elf.id, "size": -1}, {"buildId": elf.id, "size": 2 << 20},
                {"buildId": elf.id, "size": 5, "type": "DEBUGINFO_TYPE_SOURCES"}, {"buildId": elf.id, "size": 5, "buildIdType": "BUILD_ID_TYPE_HASH"}):
        assert ask(s, "InitiateUpload", bad, status=400)["code"] == "invalid_argument", bad
    assert ask(s, "MarkUploadFinished", {"buildId": elf.id, "uploadId": "00" * 8}, status=404)["code"] == "not_found"
    assert ask(s, "MarkUploadFinished", {"buildId": elf.id, "uploadId": "x"}, status=400)["code"] == "invalid_argument"
    assert put(s, "/upload/" + "0" * 32, elf.debug)[0] == 403
    # Another size than was said uses the URL up; so does a file of another build ID.
    url = initiate(s, elf.id, 7)["signedUrl"]
    assert url.startswith("https://lode.example/upload/")
    path = url[len("https://lode.example"):]
    assert put(s, path, elf.debug)[0] == 400 and put(s, path, b"7 bytes")[0] == 403
    path = initiate(s, "ab" * 20, len(elf.debug))["signedUrl"][len("https://lode.example"):]
    status, _, text = put(s, path, elf.debug)
    assert status == 422 and "its build ID is" in text
    assert listed(s) == {}


def test_the_log_has_no_secret_that_is_not_used(server, elf):
    """A request that is refused before its handler leaves the secret in use, and more people read a log than may push."""
    s = server()
    url = initiate(s, elf.id, len(elf.debug))["signedUrl"]
    path = url[len(s.url):]
    secret = path[len("/upload/"):]
    assert s.get(path, method="POST").status == 405
    assert s.get(path + "/", method="PUT").status == 404
    lines = lambda: [line for line in s.log_path.read_text().splitlines() if "/upload/" in line]
    s.wait(lambda: len(lines()) == 2, "the lines of the two requests")
    assert [line.split()[-3] for line in lines()] == ["405", "404"] and not any(secret in line for line in lines())
    assert upload(s, url, elf.debug)[0] == 200


def put_in_chunks(s, url, data):
    """As parca-debuginfo does with what it has extracted: the size was said by InitiateUpload, and is in no header."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("PUT", urllib.parse.urlsplit(url).path, body=(data[i:i + 3000] for i in range(0, len(data), 3000)))
    r = c.getresponse()
    return r.status, r.read().decode()


def test_a_body_in_chunks_has_the_size_that_was_announced(server, elf):
    s = server()
    for data, status, text in ((elf.debug[:-1], 400, "does not have the size"), (elf.debug + b"x", 413, "more bytes than the upload"), (b"", 422, "empty")):
        got = put_in_chunks(s, initiate(s, elf.id, len(elf.debug))["signedUrl"], data)
        assert got[0] == status and text in got[1], got
    assert listed(s) == {}
    i = initiate(s, elf.id, len(elf.debug))
    assert put_in_chunks(s, i["signedUrl"], elf.debug)[0] == 200
    assert ask(s, "MarkUploadFinished", {"buildId": elf.id, "uploadId": i["uploadId"]}) == {}
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.debug, True)
    sound(s)


def test_the_url_is_as_the_client_that_it_was_given_to(server, elf):
    s = server()
    agent = bearer(token(s, "agent"))
    assert ask(s, "InitiateUpload", {"buildId": elf.id, "size": 5}, status=401)["code"] == "unauthenticated"
    i = initiate(s, elf.id, len(elf.debug), agent)
    assert upload(s, i["signedUrl"], elf.debug)[0] == 200
    o = listed(s)[f"{elf.id}/debuginfo"]
    assert o["owner"] == "agent"


def test_dynamic_symbols_are_kept_for_names(server, tmp_path):
    s = server()
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    assert names(s, build_id, address) == []
    (status, text), upload_id = send(s, build_id, bare)
    assert (status, text) == (200, "stored\n")
    assert ask(s, "MarkUploadFinished", {"buildId": build_id, "uploadId": upload_id}) == {}
    assert listed(s)[f"{build_id}/debuginfo"]["quality"] == "dynsym"
    assert s.wait(lambda: names(s, build_id, address) == ["exported_function"], "the name") is not False
    # It is no answer for a debugger: another server may have the debug information.
    assert fetch(s, f"/buildid/{build_id}/debuginfo")[0] == 404
    ok, why = should(s, build_id)
    assert not ok and "dynamic symbols are here" in why
    # The better one takes its place, also from another client.
    agent = bearer(token(s, "agent"))
    i = initiate(s, build_id, len(whole), agent, force=True)
    assert upload(s, i["signedUrl"], whole)[0] == 200
    assert listed(s)[f"{build_id}/executable"]["quality"] == "dwarf"
    assert names(s, build_id, address) == ["exported_function"]


def test_a_file_under_the_hash_of_its_program(server, tmp_path):
    s = server()
    _, bare, address, build_id = library(tmp_path, "-Wl,--build-id=none")
    assert not build_id
    hashed = "00112233445566778899aabbccddeeff"
    assert send(s, hashed, bare, buildIdType="BUILD_ID_TYPE_HASH")[0] == (200, "stored\n")
    s.wait(lambda: names(s, hashed, address) == ["exported_function"], "the name")


def test_a_file_with_a_build_id_under_the_hash_of_its_program(server, tmp_path):
    """As parca-agent does when it has not read the build ID: one object, found by both."""
    s = server()
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    assert send(s, "11" * 16, bare, buildIdType="BUILD_ID_TYPE_HASH")[0] == (200, "stored\n")
    s.wait(lambda: names(s, "11" * 16, address) == ["exported_function"], "the name by the hash")
    assert names(s, build_id, address) == ["exported_function"]
    assert {name.split("/")[0] for name in listed(s)} == {build_id}


@pytest.mark.parametrize("debug", [True, False])
def test_a_file_as_parca_agent_strips_it(server, tmp_path, debug):
    """With debug information, or with symbols alone: the code's sections say where it starts, and no more."""
    s = server()
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    assert send(s, build_id, as_parca_agent_strips(whole if debug else bare))[0] == (200, "stored\n")
    s.wait(lambda: names(s, build_id, address) == ["exported_function"], "the name", 20)


def as_parca_debuginfo_extracts(data):
    """Notes, symbols and debug information are left. Other sections have an address alone; of the program headers only notes are left."""
    data = bytearray(data)
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phsize, phnum, shsize, shnum = struct.unpack_from("<HHHH", data, 54)
    for i in range(phnum):
        if struct.unpack_from("<I", data, phoff + i * phsize)[0] != 4:
            struct.pack_into("<I", data, phoff + i * phsize, 0)
    for i in range(shnum):
        kind, flags = struct.unpack_from("<IQ", data, shoff + i * shsize + 4)
        if flags & 2 and kind not in (7, 11, 3):
            struct.pack_into("<I", data, shoff + i * shsize + 4, 8)
            struct.pack_into("<Q", data, shoff + i * shsize + 32, 0)
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("linker", ["-Wl,-z,separate-code", "-Wl,-z,noseparate-code", "-fuse-ld=gold"])
def test_a_profile_with_mappings_of_such_a_file(server, tmp_path, linker, debug):
    """Nothing but the sections' addresses says where the code was mapped."""
    s = server(args=["--symbolize-interval", "1"])
    whole, _, address, build_id = library(tmp_path, "-Wl,--build-id=sha1", linker)
    data = as_parca_debuginfo_extracts(whole if debug else (tmp_path / "l.so").read_bytes())
    assert send(s, build_id, data)[0] == (200, "stored\n")
    off, vaddr, size = code_segment(tmp_path / "l.so")
    base = 0x7f0000000000
    profile = Pprof(mapping=(base + vaddr, base + vaddr + size, off, "/usr/lib/l.so", build_id)).sample([base + address], [1, 10])
    send_profile(s, profile.bytes(), service="x")
    s.wait(lambda: "exported_function" in json.dumps(api(s, "top", query="profile:samples:count:cpu:nanoseconds")), "the name", 20)


def test_a_hash_of_a_file_that_is_here_already(server, tmp_path):
    """The better file stays, and is found by the hash from then on."""
    s = server()
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    (tmp_path / "whole").write_bytes(whole)
    subprocess.run(["objcopy", "--only-keep-debug", tmp_path / "whole", tmp_path / "debug"], check=True)
    debug = (tmp_path / "debug").read_bytes()
    assert send(s, build_id, debug)[0] == (200, "stored\n")
    hashed = "22" * 16
    assert names(s, hashed, address) != ["exported_function"]
    assert "kept it" in send(s, hashed, bare, buildIdType="BUILD_ID_TYPE_HASH")[0][1]
    s.wait(lambda: names(s, hashed, address) == ["exported_function"], "the name by the hash")
    assert f"{build_id}/debuginfo" in listed(s) and not any(name.startswith(hashed) for name in listed(s))
    assert fetch(s, f"/buildid/{hashed}/debuginfo")[1] == debug
    assert not should(s, hashed)[0]


def test_a_program_that_was_stripped_in_several_ways(server, tmp_path):
    """Each way has a hash of its own: all of them lead to the one object, also after a better file took its place and a restart."""
    s = server()
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    (tmp_path / "whole").write_bytes(whole)
    subprocess.run(["objcopy", "--only-keep-debug", tmp_path / "whole", tmp_path / "debug"], check=True)
    debug = (tmp_path / "debug").read_bytes()
    hashes = [f"{i}{i}" * 16 for i in range(1, 6)]
    # The first file, other bytes that are no better, and the same bytes.
    for h, data in zip(hashes, (bare, bare[:-1] + b"x", bare, bare, bare)):
        assert send(s, h, data, buildIdType="BUILD_ID_TYPE_HASH")[0][0] == 200
    for h in hashes[:4]:
        s.wait(lambda: names(s, h, address) == ["exported_function"], f"the name by {h}")
    # Four are kept.
    assert names(s, hashes[4], address) == []
    assert send(s, build_id, debug, force=True)[0] == (200, "stored\n")
    s.stop()
    s = server(data=s.data)
    for h in hashes[:4]:
        s.wait(lambda: fetch(s, f"/buildid/{h}/debuginfo")[1] == debug, f"the better file by {h}")
    assert {name.split("/")[0] for name in listed(s)} == {build_id}
    sound(s)


def test_a_stripped_file_beside_its_whole_program(server, tmp_path):
    """Found by its hash, it does not hide the debug information that the program has."""
    s = server()
    whole, bare, address, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    assert send(s, build_id, whole)[0] == (200, "stored\n")
    hashed = "33" * 16
    assert send(s, hashed, bare, buildIdType="BUILD_ID_TYPE_HASH")[0][0] == 200
    s.wait(lambda: names(s, hashed, address) == ["exported_function"], "the name by the hash")
    assert fetch(s, f"/buildid/{build_id}/debuginfo")[1] == whole


def test_a_file_of_another_program_under_a_hash(server, tmp_path):
    """The program with the hash is here: its debug file has its build ID."""
    s = server()
    _, bare, _, _ = library(tmp_path, "-Wl,--build-id=none")
    program, _, _, build_id = library(tmp_path, "-Wl,--build-id=sha1")
    assert put(s, f"/buildid/{build_id}/executable", program)[0] == 201
    hashed = hashlib.sha256(program[:4096] + program[-4096:] + len(program).to_bytes(8, "big")).hexdigest()[:32]
    status, text = send(s, hashed, bare, buildIdType="BUILD_ID_TYPE_HASH", force=True)[0]
    assert status == 422 and build_id in text, text


def test_the_url_after_a_call_over_http2(server, elf):
    port = free_port()
    s = server(["--listen-grpc", f"127.0.0.1:{port}"])
    asked = message(1, elf.id.encode()) + number(2, len(elf.debug)) + number(6, 1)
    reply = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", f"http://127.0.0.1:{port}{SERVICE}InitiateUpload", "-H", "Content-Type: application/grpc",
                            "--data-binary", "@-"], input=b"\0" + struct.pack(">I", len(asked)) + asked, capture_output=True, check=True, timeout=60).stdout
    url = re.search(rb"http://[0-9.:]+/upload/[0-9a-f]{32}", reply)[0].decode()
    assert upload(s, url, elf.debug)[0] == 200
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.debug, True)


# ---- the call Upload, a stream ----


@pytest.fixture
def grpc_server(server):
    def go(*args):
        port = free_port()
        s = server(["--listen-grpc", f"127.0.0.1:{port}", *args])
        s.grpc_port = port
        return s

    return go


def info(build_id, upload_id):
    return framed(message(1, message(1, build_id.encode()) + message(2, upload_id.encode())))


def chunks(data, size):
    return b"".join(framed(message(2, data[at:at + size])) for at in range(0, len(data), size))


def stream(s, body, headers=()):
    """(grpc-status, grpc-message, the reply's messages), by curl, which keeps to the windows."""
    _, got, reply = curl(s, SERVICE + "Upload", body, ["Content-Type: application/grpc", "te: trailers", *headers])
    return int(got["grpc-status"]), urllib.parse.unquote(got.get("grpc-message", "")), reply


def upload_id(s, build_id, size, headers=None):
    return initiate(s, build_id, size, headers)["uploadId"]


@pytest.mark.parametrize("size", [8 << 20, 1000, 7])
def test_a_debug_file_by_a_stream(grpc_server, elf, size):
    s = grpc_server()
    i = upload_id(s, elf.id, len(elf.debug))
    assert stream(s, info(elf.id, i) + chunks(elf.debug, size)) == (0, "", framed(message(1, elf.id.encode()) + number(2, len(elf.debug))))
    assert ask(s, "MarkUploadFinished", {"buildId": elf.id, "uploadId": i}) == {}
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.debug, True)
    assert stream(s, info(elf.id, i) + chunks(elf.debug, size))[0] == 5, "it was used"
    sound(s)


def test_a_large_file_by_a_stream_waits_for_the_store(grpc_server, elf):
    """More than the windows and buffers hold."""
    s = grpc_server()
    data = elf.debug + bytes(24 << 20)
    i = upload_id(s, elf.id, len(data))
    assert stream(s, info(elf.id, i) + chunks(data, 5 << 20))[:2] == (0, "")
    assert fetch(s, f"/buildid/{elf.id}/debuginfo")[1] == data
    assert rss_mib(s, "VmHWM") < 200


def test_streams_that_are_no_uploads(grpc_server, elf):
    s = grpc_server("--max-push", "1M")
    whole = chunks(elf.debug, 4000)

    def refused(body, code, text, headers=()):
        got = stream(s, body, headers)
        assert got[0] == code and text in got[1] and got[2] == b"", got

    def new():
        return info(elf.id, upload_id(s, elf.id, len(elf.debug)))

    refused(b"", 3, "no message")
    refused(b"\0\0", 3, "ends within a message")
    refused(whole, 3, "must have the upload's info")
    refused(framed(b"\x0a\xff"), 3, "must have the upload's info")
    refused(framed(b"x" * 5000), 3, "must have the upload's info")
    refused(info("xyz", "00" * 8), 3, "bad build ID")
    refused(info(elf.id, "x") + whole, 5, "initiate the upload again")
    refused(info(elf.id, "00" * 8) + whole, 5, "initiate the upload again")
    first = new()
    refused(info("ab" * 20, re.search(rb"[0-9a-f]{16}$", first)[0].decode()) + whole, 5, "initiate the upload again")
    refused(first + framed(b""), 3, "chunk_data")
    refused(new() + framed(message(3, elf.debug)), 3, "chunk_data")
    refused(new() + framed(message(2, b"x") + number(3, 1)), 3, "chunk_data")
    refused(new() + framed(b"\x12" + b"\x80" * 12), 3, "chunk_data")
    refused(new() + whole[:-100], 3, "ends within a message")
    refused(new() + chunks(elf.debug[:-1], 4000), 3, "does not have the size")
    refused(new() + whole + framed(message(2, b"x")), 3, "is larger than the size")
    refused(new() + b"\1" + whole[1:], 12, "must not be compressed", ["grpc-encoding: gzip"])
    refused(new() + chunks(bytes(len(elf.debug)), 4000), 3, "the file was refused")
    status, _, text = put(s, SERVICE + "Upload", b"{}", {"Content-Type": "application/json"}, method="POST")
    assert status == 415, text
    assert listed(s) == {}
    # All that was given to them is free again.
    assert stream(s, new() + whole)[0] == 0
    sound(s)


def test_a_stream_that_breaks_off_leaves_nothing(grpc_server, elf):
    s = grpc_server()
    i = upload_id(s, elf.id, len(elf.debug))
    with Conn(s) as c:
        c.ask(1, info(elf.id, i) + chunks(elf.debug[:5000], 1000), end=False, path=SERVICE + "Upload")
        assert s.wait(lambda: should(s, elf.id)[1] == IN_PROGRESS, "the upload") is not False
        c.send(frame(RST_STREAM, 0, 1, struct.pack(">I", CANCEL)))
        s.wait(lambda: should(s, elf.id)[0], "the end of the upload")
    assert stream(s, info(elf.id, upload_id(s, elf.id, len(elf.debug))) + chunks(elf.debug, 9999))[0] == 0


def test_a_stream_is_of_the_client_that_initiated_it(grpc_server, elf):
    s = grpc_server()
    one, other = token(s, "one"), token(s, "other")
    i = upload_id(s, elf.id, len(elf.debug), bearer(one))
    body = info(elf.id, i) + chunks(elf.debug, 5000)
    assert stream(s, body)[0] == 16
    assert stream(s, body, [f"Authorization: Bearer {other}"])[0] == 5
    assert stream(s, body, [f"Authorization: Bearer {one}"])[0] == 0
    assert listed(s)[f"{elf.id}/debuginfo"]["owner"] == "one"


class OnlyGrpc:
    """A server with no address of HTTP/1.1 but a Unix socket, so it knows no URL to upload to."""

    def __init__(self, folder):
        (folder / "empty").mkdir()
        self.grpc_port = free_port()
        self.proc = subprocess.Popen([LODE, "serve", "--listen", f"unix:{folder}/s", "--listen-grpc", f"127.0.0.1:{self.grpc_port}", "--data", folder / "data",
                                      "--no-upstream", "--no-packages", folder / "empty"], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.proc.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.grpc_port)).close()
                return
            time.sleep(0.05)
        raise AssertionError("it has not started")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.terminate()
        self.proc.wait(60)


def test_a_server_without_a_url_asks_for_the_stream(elf, tmp_path):
    with OnlyGrpc(tmp_path) as s:
        asked = message(1, elf.id.encode()) + number(2, len(elf.debug)) + number(6, 1)
        _, got, reply = curl(s, SERVICE + "InitiateUpload", framed(asked), ["Content-Type: application/grpc"])
        assert got["grpc-status"] == "0", got
        how = dict(fields(dict(fields(reply[5:]))[1]))
        assert how[3] == 1 and 4 not in how
        assert stream(s, info(elf.id, how[2].decode()) + chunks(elf.debug, 5000))[0] == 0
