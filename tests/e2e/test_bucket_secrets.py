# SPDX-License-Identifier: Apache-2.0
"""Keys of a bucket are in no log, metric, page, message, file of the data folder, or core dump."""

import shutil
import subprocess

import pytest

from bucket import SECRET, Bucket
from making import debug_deb, elf, fetch_right, new_id

TOKEN = "session/token+of+the+test=="


@pytest.fixture
def bucket():
    b = Bucket()
    b.token = TOKEN
    yield b
    b.close()


def serve_with_file(serve, bucket, elf, tmp_path):
    """A service that has read its keys from a file, has used them, and has met refusals."""
    bucket.objects["debs/x.deb"] = debug_deb("xz", elf.id, elf.debug)
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[default]\naws_access_key_id = AKTESTTESTTEST\naws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n")
    env = bucket.env(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_SHARED_CREDENTIALS_FILE=str(credentials))
    s = serve(["s3://bucket/debs"], args=["--rescan", "1", "--verbose"], extra=env).scanned()
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    bucket.fault("deny", 8)
    bucket.fault("expired", 8)
    bucket.objects["debs/y.deb"] = debug_deb("xz", new_id("y"), elf.of(elf.debug, new_id("y")))
    s.wait(lambda: len([r for r in bucket.requests if r[0] == "LIST"]) > 3, "some listings")
    return s


def holds_secret(data):
    return [name for name, text in (("secret", SECRET), ("token", TOKEN)) if text.encode() in data]


@pytest.mark.slow
def test_nothing_that_is_shown_or_stored_has_a_key(serve, bucket, elf, tmp_path):
    s = serve_with_file(serve, bucket, elf, tmp_path)
    for path in ("/metrics", "/api/status", "/", "/readyz", "/api/scan", f"/buildid/{new_id('y')}/debuginfo"):
        assert not holds_secret(s.get(path).body), path
    s.stop()
    log = s.log_path.read_bytes()
    assert not holds_secret(log) and b"AWS4-HMAC" not in log and b"Signature=" not in log
    for f in s.data.rglob("*"):
        assert not f.is_file() or not holds_secret(f.read_bytes()), f


@pytest.mark.slow
def test_a_core_dump_has_no_key(serve, bucket, elf, tmp_path):
    if not shutil.which("gcore"):
        pytest.skip("no gcore, of gdb")
    s = serve_with_file(serve, bucket, elf, tmp_path)
    core = tmp_path / "core"
    r = subprocess.run(["gcore", "-o", str(core), str(s.proc.pid)], capture_output=True, text=True, timeout=60)
    files = list(tmp_path.glob("core.*"))
    if r.returncode or not files:
        pytest.skip(f"gcore: {r.stderr[-200:]}")
    # Without debug symbols, so that the whole memory is looked at.
    data = files[0].read_bytes()
    assert b"s3://bucket/debs" in data
    # Requests have the session's token, which ends soon, in their headers; the secret is never sent.
    found = holds_secret(data)
    del data
    assert "secret" not in found
