# SPDX-License-Identifier: Apache-2.0
"""lode push to a service that lets it send files to the bucket itself."""

import json
import re
import signal
import subprocess
import threading

import pytest

from bucket_engines import engine, start, stub  # noqa: F401
from conftest import LODE, free_port, slow_but
from making import elf, fetch, new_id  # noqa: F401
from pushing import lode, token
from test_bucket_uploads import large, wait_for
from test_signed_uploads import FOR_PUSH, left, outcomes, path


def file_of(elf, tmp_path, name, size):
    build_id, content = large(elf, tmp_path, name, size)
    (tmp_path / f"{name}.debug").write_bytes(content)
    return build_id, content, tmp_path / f"{name}.debug"


def push(s, *args, **more):
    return json.loads(lode("push", "--json", "--to", s.url, *args, **more).stdout)


@pytest.mark.slow
def test_files_go_to_the_bucket(engine, start, elf, tmp_path):
    """A large one in parts, a middle one whole, a small one through the server; pushed again, none."""
    s = start(engine, args=FOR_PUSH)
    files = [file_of(elf, tmp_path, "large", 70 << 20), file_of(elf, tmp_path, "middle", 2 << 20)]
    small = new_id("small")
    (tmp_path / "small.debug").write_bytes(elf.of(elf.debug, small))
    paths = [p for _, _, p in files] + [tmp_path / "small.debug"]
    r = push(s, *paths)
    assert (r["stored"], r["to_bucket"], r["failed"]) == (3, 2, 0), r
    assert outcomes(s, "stored") == 2 and s.metric("lode_signed_uploads_read_bytes_total") == sum(len(c) for _, c, _ in files)
    for build_id, content, _ in files:
        assert fetch(s, path(build_id)) == (200, content, True)
    assert not left(engine)
    r = push(s, *paths)
    assert (r["already_there"], r["to_bucket"], r["bytes_sent"]) == (3, 0, 0), r


def test_the_client_may_refuse(stub, start, elf, tmp_path):
    s = start(stub, args=FOR_PUSH)
    build_id, content, name = file_of(elf, tmp_path, "refuse", 2 << 20)
    r = push(s, "--through-server", name)
    assert (r["stored"], r["to_bucket"]) == (1, 0) and "not_to_bucket" not in r
    assert not stub.presigned
    assert fetch(s, path(build_id)) == (200, content, True)


@pytest.mark.slow
def test_a_bucket_out_of_reach_is_said_and_passed_over(stub, start, elf, tmp_path):
    s = start(stub, args=[*FOR_PUSH, "--signed-endpoint", f"http://127.0.0.1:{free_port()}"])
    files = [file_of(elf, tmp_path, f"reach{i}", 2 << 20) for i in range(3)]
    r = lode("push", "--to", s.url, "--parallel", "1", *[p for _, _, p in files])
    assert "3 stored" in r.stdout and "could not be sent to its bucket: no connection" in r.stdout, r.stdout
    assert "X-Amz" not in r.stdout + r.stderr
    for build_id, content, _ in files:
        assert fetch(s, path(build_id)) == (200, content, True)
    # One was tried, and given up.
    assert outcomes(s, "announced") == 1
    s.wait(lambda: outcomes(s, "given_up") == 1 and not left(stub), "the upload to be removed")


@pytest.mark.slow
def test_urls_that_have_expired_are_renewed(stub, start, elf, tmp_path):
    """A file that takes more than an hour."""
    s = start(stub, args=FOR_PUSH)
    build_id, content, name = file_of(elf, tmp_path, "renewed", 120 << 20)
    stub.part_delay = 1.5

    def expire():
        wait_for("a part", lambda: stub.part_bytes)
        stub.revoked |= {re.search("X-Amz-Date=([0-9TZ]+)", p)[1] for p in stub.presigned}

    t = threading.Thread(target=expire)
    t.start()
    r = push(s, name)
    t.join()
    assert (r["stored"], r["to_bucket"]) == (1, 1), r
    assert outcomes(s, "renewed") >= 1
    assert fetch(s, path(build_id)) == (200, content, True)
    assert not left(stub)


@pytest.mark.parametrize("size", slow_but([2 << 20], [2 << 20, 70 << 20]))
def test_a_refusal_of_the_bucket_is_passed_over(stub, start, elf, tmp_path, size):
    s = start(stub, args=FOR_PUSH)
    build_id, content, name = file_of(elf, tmp_path, f"refusal {size}", size)
    stub.ahead = 2 * 3600
    r = push(s, name)
    assert (r["stored"], r["to_bucket"], r["not_to_bucket"]) == (1, 0, "status 403"), r
    assert fetch(s, path(build_id)) == (200, content, True)
    s.wait(lambda: not left(stub), "the upload to be removed")


@pytest.mark.slow
def test_parts_are_sent_again(stub, start, elf, tmp_path):
    """The bucket is away for a moment, in the middle."""
    s = start(stub, args=FOR_PUSH)
    build_id, content, name = file_of(elf, tmp_path, "again", 120 << 20)
    stub.part_delay = 0.5

    def leaves():
        wait_for("a part", lambda: stub.part_bytes)
        stub.away = True
        threading.Timer(1, lambda: setattr(stub, "away", False)).start()

    t = threading.Thread(target=leaves)
    t.start()
    r = push(s, name)
    t.join()
    assert (r["stored"], r["to_bucket"]) == (1, 1), r
    assert r["bytes_sent"] > len(content), "some were sent twice"
    assert fetch(s, path(build_id)) == (200, content, True)
    assert not left(stub)


@pytest.mark.parametrize("size", slow_but([2 << 20], [2 << 20, 70 << 20]))
def test_a_killed_service_is_asked_again(stub, start, elf, tmp_path, size):
    """Between the upload and the outcome."""
    port = free_port()
    args = [*FOR_PUSH, "--listen", f"127.0.0.1:{port}"]
    s = start(stub, args=args)
    build_id, content, name = file_of(elf, tmp_path, f"killed {size}", size)
    p = subprocess.Popen([LODE, "push", "--json", "--to", f"http://127.0.0.1:{port}", name], stdout=subprocess.PIPE, text=True)
    if size < 64 << 20:
        wait_for("the data", lambda: [k for k in stub.objects if k.endswith("!data")])
    else:
        wait_for("the parts", lambda: stub.part_bytes == len(content))
    stub.delay = 0.2
    s.stop(signal.SIGKILL)
    stub.delay = 0
    s = start(stub, args=args)
    r = json.loads(p.communicate(timeout=60)[0])
    assert (r["stored"] + r["already_there"], r["failed"]) == (1, 0), r
    assert fetch(s, path(build_id)) == (200, content, True)
    s.wait(lambda: not left(stub), "the upload to be removed")


def test_an_owner_is_told(stub, start, elf, tmp_path):
    s = start(stub, args=FOR_PUSH)
    mine, other = token(s, "mine"), token(s, "other")
    build_id, content, name = file_of(elf, tmp_path, "owned", 2 << 20)
    assert push(s, name, env={"LODE_TOKEN": mine})["to_bucket"] == 1
    name.write_bytes(content + b"more")
    r = lode("push", "--to", s.url, name, ok=False, env={"LODE_TOKEN": other})
    assert r.returncode == 1 and "'mine'" in r.stderr, r.stderr
    assert not left(stub)


def test_nothing_that_the_client_shows_has_a_signature(stub, start, elf, tmp_path):
    s = start(stub, args=FOR_PUSH)
    _, _, name = file_of(elf, tmp_path, "secret", 2 << 20)
    stub.ahead = 2 * 3600
    for more in ([], ["--json"]):
        r = lode("push", "-v", "--to", s.url, name, *more)
        assert "X-Amz" not in r.stdout + r.stderr and "Signature" not in r.stdout + r.stderr
        lode("store", "rm", "--store", "s3://bucket/a/store", "--yes", f"{new_id('secret')}/debuginfo", ok=False, env=stub.env())
