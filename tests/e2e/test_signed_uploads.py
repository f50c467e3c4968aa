# SPDX-License-Identifier: Apache-2.0
"""Uploads of clients to the bucket of a store by signed URLs: lode serve --signed-uploads, by plain requests."""

import http.client
import io
import json
import signal
import tarfile
import threading
import urllib.parse

import pytest

from bucket_engines import STORE, engine, start, stub  # noqa: F401
from making import elf, fetch, new_id  # noqa: F401
from pushing import bearer, lode, one, put, sha, token, want
from test_bucket_uploads import large, wait_for
from test_parca_debuginfo import initiate

FOR_PUSH = ("--signed-uploads", "push")
PART = 16 << 20


def announce(s, build_id, content, headers=None, **more):
    body = json.dumps({"objects": [{**one(build_id, content), **more}]}).encode()
    status, _, text = put(s, "/push/signed", body, headers, "POST")
    return status, json.loads(text) if status == 200 else text


def send(url, data, headers=None):
    """As a client does: without any header of its own."""
    u = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
    try:
        c.request("PUT", f"{u.path}?{u.query}", data, headers or {})
        r = c.getresponse()
        return r.status, r.read()
    except ConnectionError:  # a refusal before the body was read
        return 403, b""
    finally:
        c.close()


def send_all(a, content):
    for i, url in enumerate(a["urls"]):
        status, body = send(url, content[i * a["part_size"]:(i + 1) * a["part_size"]])
        assert status == 200, body


def finish(s, a, headers=None, method="POST"):
    status, h, text = put(s, f"/push/signed/{a['upload']}", b"", headers, method)
    return status, h.get("X-LODE-RESULT"), text


def left(bucket):
    """Objects of uploads that have not ended."""
    if bucket.requests is not None:
        return [k for k in bucket.objects if "/incoming/" in k] + list(bucket.uploads)
    return [p for p in (bucket.folder / "bucket" / "a" / "store" / "incoming").glob("*")]


def path(build_id):
    return f"/buildid/{build_id}/debuginfo"


def outcomes(s, name):
    return s.metric(f'lode_signed_uploads_total\\{{outcome="{name}"\\}}') or 0


def test_a_file_goes_to_the_bucket(engine, start, elf, tmp_path):
    s = start(engine, args=FOR_PUSH)
    build_id, content = large(elf, tmp_path, "small", 2 << 20)
    assert want(s, one(build_id, content)) == [{"want": True, "offset": 0, "signed": True}]
    status, a = announce(s, build_id, content, {"X-LODE-FILE": "/usr/lib/x.debug", "X-LODE-MTIME": "1700000000"})
    assert status == 200 and len(a["urls"]) == 1 and a["part_size"] == len(content) and a["seconds"] <= 3600, a
    assert finish(s, a)[0] == 412
    send_all(a, content)
    assert finish(s, a)[:2] == (201, "stored")
    assert fetch(s, path(build_id)) == (200, content, True)
    r = s.get(path(build_id))
    assert r.headers["X-DEBUGINFOD-FILE"] == "x.debug" and "2023" in r.headers["Last-Modified"], dict(r.headers)
    assert not left(engine)
    assert finish(s, a)[0] == 404
    assert want(s, one(build_id, content)) == [{"want": False, "why": "same"}]
    assert (outcomes(s, "announced"), outcomes(s, "stored"), outcomes(s, "missing")) == (1, 1, 1)
    assert s.metric("lode_signed_uploads_read_bytes_total") == len(content)


@pytest.mark.slow
def test_a_large_file_goes_in_parts(engine, start, elf, tmp_path):
    s = start(engine, args=FOR_PUSH)
    build_id, content = large(elf, tmp_path, "large", 65 << 20)
    status, a = announce(s, build_id, content)
    assert status == 200 and a["part_size"] == PART and len(a["urls"]) == 5, a
    send_all({**a, "urls": a["urls"][:-1]}, content)
    assert finish(s, a)[0] == 412
    assert send(a["urls"][-1], content[4 * PART:])[0] == 200
    assert finish(s, a)[:2] == (201, "stored")
    assert fetch(s, path(build_id)) == (200, content, True)
    assert not left(engine)


def test_wrong_bytes_are_refused(engine, start, elf):
    """Of another file, of another build ID; and the bucket takes no other size, nor the same URL for another name."""
    s = start(engine, args=FOR_PUSH)
    build_id, other = new_id("right"), new_id("wrong")
    content = elf.of(elf.debug, build_id)
    for what, sent, announced in (("another SHA-256", content[:-1] + b"\x01", content), ("its build ID is", elf.of(elf.debug, other), elf.of(elf.debug, other)),
                                  ("ELF", b"x" * 3000, b"x" * 3000)):
        status, a = announce(s, build_id, announced)
        assert status == 200, a
        assert send(a["urls"][0], sent)[0] == 200
        status, _, text = finish(s, a)
        assert status == 422 and what in text, text
        assert finish(s, a)[0] == 404 and not left(engine)
    status, a = announce(s, build_id, content)
    for wrong in (content[:-1], content + b"x", b""):
        assert send(a["urls"][0], wrong)[0] in (400, 403, 411), len(wrong)
    assert send(a["urls"][0].replace("%21data", "%21more"), content)[0] == 403
    assert send(a["urls"][0].replace("X-Amz-Expires=900", "X-Amz-Expires=90000"), content)[0] in (400, 403)
    assert finish(s, a)[0] == 412
    send_all(a, content)
    assert finish(s, a)[:2] == (201, "stored")
    assert outcomes(s, "refused") == 3


def test_an_object_of_another_size_is_refused_by_the_service(stub, start, elf):
    """Of a server that does not check the length."""
    s = start(stub, args=FOR_PUSH)
    build_id = new_id("size")
    content = elf.of(elf.debug, build_id)
    _, a = announce(s, build_id, content)
    stub.objects[f"a/store/incoming/{a['upload']}!data"] = content + b"x"
    status, _, text = finish(s, a)
    assert status == 422 and "bytes" in text, text
    assert not left(stub)


def test_damage_in_the_bucket_is_no_fault_of_the_file(stub, start, elf):
    """A damaged record is replaced as by any push, and an upload with damaged facts is as one that has ended."""
    s = start(stub, args=FOR_PUSH)
    build_id = new_id("damage")
    content = elf.of(elf.debug, build_id)
    assert put(s, path(build_id), content)[0] == 201
    record, = (k for k in stub.objects if build_id in k)
    stub.objects[record] = stub.objects[record].replace(b"size", b"six")
    status, a = announce(s, build_id, content)
    assert status == 200, a
    send_all(a, content)
    facts = f"a/store/incoming/{a['upload']}!facts"
    whole, stub.objects[facts] = stub.objects[facts], stub.objects[facts][:-1]
    status, _, text = finish(s, a)
    assert status == 404 and "push the file again" in text, (status, text)
    assert put(s, f"/push/signed/{a['upload']}/urls", b"", None, "POST")[0] == 404
    stub.objects[facts] = whole
    assert finish(s, a)[:2] == (201, "stored")
    assert fetch(s, path(build_id)) == (200, content, True)


def test_nothing_is_put_beside_what_is_no_store(stub, start, elf):
    """The bucket is away when the service starts, and what it has under the prefix is somebody else's."""
    stub.away = True
    s = start(stub, args=("--signed-uploads", "all"))
    stub.objects["a/store/theirs"] = b"1"
    stub.away = False
    build_id = new_id("beside")
    content = elf.of(elf.debug, build_id)

    # Until then it is taken to be away, 503.
    s.wait(lambda: announce(s, build_id, content)[0] != 503, "the bucket to answer")
    status, text = announce(s, build_id, content)
    assert status == 500 and "its log has the reason" in text, (status, text)
    i = initiate(s, build_id, len(content))
    assert i["signedUrl"].startswith(f"http://127.0.0.1:{s.port}/upload/"), i
    assert list(stub.objects) == ["a/store/theirs"]


def test_a_url_expires(stub, start, elf):
    s = start(stub, args=FOR_PUSH)
    build_id = new_id("expired")
    content = elf.of(elf.debug, build_id)
    _, a = announce(s, build_id, content)
    stub.ahead = a["seconds"] + 5
    assert send(a["urls"][0], content)[0] == 403
    assert finish(s, a)[0] == 412


def test_what_is_no_announcement(stub, start, elf):
    s = start(stub, args=[*FOR_PUSH, "--max-push", "3M"])
    build_id = new_id("bad")
    o = one(build_id, b"x" * 100)
    for body in (b"", b"{}", b'{"objects": []}', json.dumps({"objects": [o, o]}).encode(), json.dumps({"objects": [{**o, "id": "x"}]}).encode()):
        assert put(s, "/push/signed", body, None, "POST")[0] == 400, body
    assert announce(s, build_id, b"x" * 100, quality="dwarf" * 1000)[0] == 413
    assert announce(s, build_id, b"x" * 100, size=0)[0] == 422
    assert announce(s, build_id, b"x" * 100, size=4 << 20)[0] == 413
    for upload in ("0" * 32, "x", "%2e%2e", "0" * 31 + "%2f"):
        for method in ("POST", "DELETE"):
            assert put(s, f"/push/signed/{upload}", b"", None, method)[0] == 404, upload
    assert not left(stub)


@pytest.mark.slow
def test_without_the_option_nothing_is_signed(stub, start, elf, tmp_path):
    s = start(stub)
    build_id, content = large(elf, tmp_path, "off", 2 << 20)
    assert want(s, one(build_id, content)) == [{"want": True, "offset": 0}]
    assert announce(s, build_id, content)[0] == 404
    for args, why in ((["--signed-uploads", "nobody"], "push, parca, all"), (["--signed-endpoint", stub.url], "--signed-uploads"),
                      ([*FOR_PUSH, "--signed-endpoint", "lode.example"], "http://"), ([*FOR_PUSH, "--store", tmp_path / "folder"], "in a bucket")):
        r = lode("serve", tmp_path, "--data", tmp_path / "other", "--store", STORE, *args, ok=False, env=stub.env())
        assert r.returncode and why in r.stderr, r.stderr


def test_the_url_has_the_endpoint_of_clients(stub, start, elf):
    s = start(stub, args=[*FOR_PUSH, "--signed-endpoint", "https://files.example"])
    build_id = new_id("endpoint")
    content = elf.of(elf.debug, build_id)
    _, a = announce(s, build_id, content)
    assert a["urls"][0].startswith("https://files.example/bucket/a/store/incoming/")
    # A proxy of that name passes it on.
    stub.client_host = "files.example"
    assert send(a["urls"][0].replace("https://files.example", stub.url), content)[0] == 200
    assert finish(s, a)[:2] == (201, "stored")


def test_an_owner_is_told_before_and_after(stub, start, elf):
    s = start(stub, args=FOR_PUSH)
    mine, other = bearer(token(s, "mine")), bearer(token(s, "other"))
    build_id = new_id("owned")
    content, changed = elf.of(elf.debug, build_id), elf.of(elf.debug, build_id) + b"more"
    _, early = announce(s, build_id, changed, other)
    send_all(early, changed)
    _, a = announce(s, build_id, content, mine)
    send_all(a, content)
    # An upload belongs to the token that announced it.
    for method in ("POST", "DELETE"):
        assert finish(s, a, other, method)[0] == 404
    assert finish(s, a)[0] == 401
    assert finish(s, a, mine)[:2] == (201, "stored")
    status, result, text = finish(s, early, other)
    assert (status, result) == (409, "owned") and "'mine'" in text
    status, text = announce(s, build_id, changed, other)
    assert status == 409 and "'mine'" in text
    assert fetch(s, path(build_id)) == (200, content, True)
    assert not left(stub)


@pytest.mark.slow
def test_another_process_and_another_node_finish(engine, start, elf):
    s = start(engine, args=FOR_PUSH)
    ids = [new_id("finish", i) for i in range(2)]
    contents = [elf.of(elf.debug, i) for i in ids]
    announced = [announce(s, i, c)[1] for i, c in zip(ids, contents)]
    for a, c in zip(announced, contents):
        send_all(a, c)
    s.stop(signal.SIGKILL)
    s = start(engine, args=FOR_PUSH)
    assert finish(s, announced[0])[:2] == (201, "stored")
    other = start(engine, "another node", args=FOR_PUSH)
    assert finish(other, announced[1])[:2] == (201, "stored")
    for i, c in zip(ids, contents):
        assert fetch(s, path(i)) == fetch(other, path(i)) == (200, c, True)
    assert not left(engine)


@pytest.mark.slow
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_that_ends_while_it_reads(stub, start, elf, sig):
    """Nothing is lost: the next one finishes, or has it."""
    s = start(stub, args=FOR_PUSH)
    build_id = new_id("ends", sig)
    content = elf.of(elf.debug, build_id)
    _, a = announce(s, build_id, content)
    send_all(a, content)
    stub.delay = 0.3
    got = []

    def ask():
        try:
            got.append(finish(s, a))
        except (OSError, http.client.HTTPException):
            pass

    t = threading.Thread(target=ask)
    t.start()
    wait_for("the facts to be read", lambda: [r for r in stub.requests if r[0] == "GET" and r[1].endswith("!facts")])
    s.stop(sig)
    t.join()
    stub.delay = 0
    s = start(stub, args=FOR_PUSH)
    status, _, text = finish(s, a)
    assert status in (200, 201) or (status == 404 and got), (status, text, got)
    assert fetch(s, path(build_id)) == (200, content, True)
    assert not left(stub)


def test_a_tar_of_sources_goes_to_the_bucket(stub, start, elf):
    s = start(stub, args=FOR_PUSH)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("usr/src/x.c")
        member.size = 1 << 20
        tar.addfile(member, io.BytesIO(b"x" * member.size))
    status, a = announce(s, elf.id, out.getvalue(), kind="sources")
    assert status == 200, a
    send_all(a, out.getvalue())
    assert finish(s, a)[:2] == (201, "stored")
    assert s.get(f"/buildid/{elf.id}/source/usr/src/x.c").body == b"x" * (1 << 20)


@pytest.mark.slow
def test_what_is_given_up_is_removed(engine, start, elf, tmp_path):
    s = start(engine, args=FOR_PUSH)
    build_id, content = large(elf, tmp_path, "given up", 65 << 20)
    _, a = announce(s, build_id, content)
    assert send(a["urls"][0], content[:PART])[0] == 200
    assert finish(s, a, method="DELETE")[0] == 200
    assert not left(engine)
    assert send(a["urls"][1], content[PART:2 * PART])[0] in (403, 404)
    assert finish(s, a)[0] == 404


@pytest.mark.slow
def test_what_is_not_finished_is_collected_after_a_day(stub, start, elf, tmp_path):
    s = start(stub, args=FOR_PUSH)
    build_id, content = large(elf, tmp_path, "left", 65 << 20)
    _, parts = announce(s, build_id, content)
    assert send(parts["urls"][0], content[:PART])[0] == 200
    _, whole = announce(s, build_id, content[:3000])
    assert send(whole["urls"][0], content[:3000])[0] == 200
    lode("store", "gc", "--store", STORE, env=stub.env())
    assert len(left(stub)) == 4
    for key in stub.times:
        stub.times[key] -= 25 * 3600
    lode("store", "gc", "--store", STORE, env=stub.env())
    assert not left(stub) and not stub.uploads


@pytest.mark.slow
def test_a_bucket_that_is_away_is_503_and_the_upload_stays(stub, start, elf):
    s = start(stub, args=FOR_PUSH)
    build_id = new_id("away")
    content = elf.of(elf.debug, build_id)
    _, a = announce(s, build_id, content)
    send_all(a, content)
    stub.away = True
    status, _, text = finish(s, a)
    assert status == 503 and "Signature" not in text, text
    stub.away = False
    s.wait(lambda: finish(s, a)[:2] in ((201, "stored"), (200, "same")), "the bucket to be asked again")
    assert fetch(s, path(build_id)) == (200, content, True)
    stub.away = True
    status, text = announce(s, new_id("away too"), content)
    assert status == 503 and "Signature" not in text, text


@pytest.mark.slow
def test_other_pushes_go_on_while_files_are_read(stub, start, elf):
    """Four at once; the clients of the others ask again."""
    s = start(stub, args=FOR_PUSH)
    ids = [new_id("many", i) for i in range(12)]
    contents = {i: elf.of(elf.debug, i) for i in ids}
    announced = [announce(s, i, contents[i])[1] for i in ids]
    for a, i in zip(announced, ids):
        send_all(a, contents[i])
    stub.delay = 0.5
    got = []
    threads = [threading.Thread(target=lambda a=a: got.append(finish(s, a))) for a in announced]
    for t in threads:
        t.start()
    other = new_id("meanwhile")
    assert put(s, path(other), elf.of(elf.debug, other))[0] == 201
    for t in threads:
        t.join()
    stub.delay = 0
    busy = [g for g in got if g[:2] == (409, "busy")]
    assert busy and all("other files" in text for _, _, text in busy), got
    assert len([g for g in got if g[:2] == (201, "stored")]) == len(ids) - len(busy) >= 4
    for a, i in zip(announced, ids):
        finish(s, a)
        assert fetch(s, path(i)) == (200, contents[i], True)
    assert not left(stub)


def test_the_quota_bounds_what_is_announced(stub, start, elf, tmp_path):
    s = start(stub, args=[*FOR_PUSH, "--store-quota", "40M"])
    build_id, content = large(elf, tmp_path, "quota", 6 << 20)
    assert announce(s, build_id, content)[0] == 200
    status, text = announce(s, build_id, content)
    assert status == 503 and "quota" in text, text


def test_nothing_that_is_shown_has_a_signature(stub, start, elf):
    s = start(stub, args=[*FOR_PUSH, "--verbose"])
    build_id = new_id("secret")
    content = elf.of(elf.debug, build_id)
    _, a = announce(s, build_id, content)
    secret = urllib.parse.parse_qs(urllib.parse.urlsplit(a["urls"][0]).query)["X-Amz-Signature"][0]
    texts = [finish(s, a)[2].encode()]
    stub.fault("deny", 4)
    texts.append(finish(s, a)[2].encode())
    send_all(a, content)
    s.wait(lambda: finish(s, a)[0] in (200, 201, 404), "the end")
    texts += [s.get(p).body for p in ("/metrics", "/api/status", "/")]
    s.stop()
    texts.append(s.log_path.read_bytes())
    for text in texts:
        assert secret.encode() not in text and b"X-Amz" not in text and b"Signature=" not in text
