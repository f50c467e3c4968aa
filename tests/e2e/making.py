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
import struct
import subprocess
import tarfile
import zlib

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


BOMB_SECTIONS = [".debug_info", ".debug_line", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_ranges",
                 ".debug_rnglists", ".debug_addr", ".debug_aranges"]


def zeros(mib):
    """MIB MiB of zeros, compressed by zstd."""
    return subprocess.run(f"head -c {mib}M /dev/zero | zstd -q -c -3", shell=True, capture_output=True, check=True).stdout


def elf_of(kind, build_id, sections):
    """An ELF file of x86-64 of that e_type; the first section is the build ID's note. Others: (name, sh_type, sh_flags, sh_link, sh_entsize, content).
    Addresses are offsets in the file."""
    body, names, table = b"", b"\0", [(0,) * 10]
    note = (".note.gnu.build-id", 7, 2, 0, 0, struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id)
    for name, sh_type, flags, link, entsize, content in [note, *sections]:
        at = 64 + len(body)
        table.append((len(names), sh_type, flags, at if flags & 2 and kind != 1 else 0, at, len(content), link, 0, 1, entsize))
        names += name.encode() + b"\0"
        body += content + bytes(-len(content) % 8)
    names += b".shstrtab\0"
    table.append((len(names) - 10, 3, 0, 0, 64 + len(body), len(names), 0, 0, 1, 0))
    body += names + bytes(-len(names) % 8)
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64,
                                                                len(table), len(table) - 1)
    return head + body + b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in table)


def bomb(mib, build_id, packed):
    """An ELF file with ten compressed sections of so many MiB each."""
    content = struct.pack("<IIQQ", 2, 0, mib << 20, 1) + packed
    return elf_of(3, build_id, [(name, 1, 0x800, 0, 0, content) for name in BOMB_SECTIONS])


NESTED_AT = 104  # the address of the code of nested()


def nested(build_id, names, size):
    """A debug file with one function of @size bytes, and in all of it calls of these names that are inlined into one another."""
    strings, offsets, abstract = bytearray(b"outer\0"), {}, {}
    for name in names:
        if name not in offsets:
            offsets[name] = len(strings)
            strings += name + b"\0"
    code = struct.pack("<QQ", NESTED_AT, size)
    dies = b"\1x.c\0" + code
    for name, at in offsets.items():
        abstract[name] = 11 + len(dies)
        dies += b"\3" + struct.pack("<IB", at, 1)
    dies += b"\2" + struct.pack("<I", 0) + code
    dies += b"".join(b"\4" + struct.pack("<I", abstract[name]) + code + struct.pack("<H", i + 1) for i, name in enumerate(names))
    dies += bytes(len(names) + 2)
    unit = struct.pack("<HIB", 4, 0, 8) + dies
    # Units, functions, abstract functions, inlined calls; of each its number, tag, whether it has children, attributes and forms.
    abbrevs = (b"\1\x11\1\x03\x08\x11\1\x12\7\0\0" b"\2\x2e\1\x03\x0e\x11\1\x12\7\0\0" b"\3\x2e\0\x03\x0e\x20\x0b\0\0"
               b"\4\x1d\1\x31\x13\x11\1\x12\7\x59\5\0\0" b"\0")
    packed = struct.pack("<IIQQ", 1, 0, len(strings), 1) + zlib.compress(strings)
    return elf_of(3, build_id, [(".text", 1, 6, 0, 0, b"\x90" * size), (".debug_info", 1, 0, 0, 0, struct.pack("<I", len(unit)) + unit),
                                (".debug_abbrev", 1, 0, 0, 0, abbrevs), (".debug_str", 1, 0x800, 0, 0, packed)])


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
