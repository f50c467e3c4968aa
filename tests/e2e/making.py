# SPDX-License-Identifier: Apache-2.0
"""Makes ELF files and packages byte by byte, so that tests can damage them, and fetches with checks of the answer."""

import bz2
import gzip
import hashlib
import http.client
import io
import json
import lzma
import os
import pathlib
import random
import re
import socket
import subprocess
import tarfile

import pytest

from conftest import LODE, Program

NOISE = 3_000_000  # bytes of incompressible data in a large debug file: more than any buffer between decoder and client


def new_id(*what):
    return hashlib.sha1(repr(what).encode()).hexdigest()


class Elf:
    """A program and its debug file; of() makes copies with another build ID."""

    def __init__(self, work):
        p = Program(work)
        noise = work / "noise"
        noise.write_bytes(random.Random(1).randbytes(NOISE))
        self.id, self.program, self.debug = p.build_id, p.binary.read_bytes(), p.debug.read_bytes()
        subprocess.run(["objcopy", "--add-section", f".noise={noise}", str(p.debug)], check=True)
        self.large = p.debug.read_bytes()

    def of(self, what, build_id):
        old = bytes.fromhex(self.id)
        assert what.count(old) == 1
        return what.replace(old, bytes.fromhex(build_id))


@pytest.fixture(scope="session")
def elf(tmp_path_factory):
    return Elf(tmp_path_factory.mktemp("elf"))


@pytest.fixture
def pool(tmp_path):
    p = tmp_path / "pool"
    p.mkdir()
    return p


def tar_of(members, form=tarfile.GNU_FORMAT):
    """A tar of members (name, content) or, for links, (name, type, target). Names may be bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as t:
        for name, *rest in members:
            info = tarfile.TarInfo(os.fsdecode(name))
            info.mode = 0o755
            if len(rest) == 2:
                info.type, info.linkname = rest[0], rest[1]
                t.addfile(info)
            else:
                info.size = len(rest[0])
                t.addfile(info, io.BytesIO(rest[0]))
    return out.getvalue()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-1", "--check", "-c"], input=data, capture_output=True, check=True).stdout


PACKERS = {"xz": lambda d: lzma.compress(d, preset=0), "gz": lambda d: gzip.compress(d, 1), "zst": zstd, "bz2": lambda d: bz2.compress(d, 1)}


def deb(packed, suffix, build_ids=(), name="x"):
    """A .deb around a compressed data.tar."""
    control = f"Package: {name}\nVersion: 1\nArchitecture: amd64\nDescription: x\n"
    if build_ids:
        control += f"Build-Ids: {' '.join(build_ids)}\n"
    out = b"!<arch>\n"
    for member, data in (("debian-binary", b"2.0\n"), ("control.tar.gz", gzip.compress(tar_of([("./control", control.encode())]))),
                         (f"data.tar.{suffix}" if suffix else "data.tar", packed)):
        out += f"{member:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def debug_path(build_id):
    return f"./usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


def debug_deb(suffix, build_id, debug):
    return deb(PACKERS[suffix](tar_of([(debug_path(build_id), debug)])), suffix, [build_id])


# ---- fetching ----

def fetch(s, path, headers=None):
    """(status, body, whether the body is complete)."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    try:
        c.request("GET", path, headers=headers or {})
        r = c.getresponse()
        try:
            return r.status, r.read(), True
        except (http.client.IncompleteRead, ConnectionError) as e:
            return r.status, getattr(e, "partial", b""), False
    finally:
        c.close()


def fetch_right(s, path, truth):
    """Fetch an answer that may be an error or cut, but must not be wrong. Returns its status."""
    status, body, whole = fetch(s, path)
    if status == 200:
        assert body == truth if whole else truth.startswith(body), path
    else:
        assert status in (404, 500, 503) and whole and body.endswith(b"\n"), (path, status, body)
    return status if whole else "cut"


def raw(s, data, timeout=10):
    """Send bytes and return everything up to the end of the connection."""
    out = b""
    with socket.create_connection(("127.0.0.1", s.port), timeout=timeout) as k:
        try:
            k.sendall(data)
            while piece := k.recv(65536):
                out += piece
        except ConnectionError:
            pass
    return out


def healthy(s):
    assert s.proc.poll() is None, s.log_path.read_text()[-4000:]
    assert s.get("/healthz").status == 200


def stat(data):
    out = subprocess.run([LODE, "stat", "--json", "--data", str(data)], capture_output=True, check=True).stdout
    return json.loads(out)


def failures(s):
    return {pathlib.Path(f["path"]).name: f["reason"] for f in stat(s.data)["failures"]}


def told(s, name):
    """The package failed: `lode stat` and the log have the same reason."""
    reason = failures(s)[name]
    assert reason and f"{name}: {reason}" in s.log_path.read_text(errors="replace"), (name, reason)
    return reason


def peak_mib(s):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{s.proc.pid}/status").read_text()).group(1)) >> 10
