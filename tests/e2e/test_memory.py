# SPDX-License-Identifier: Apache-2.0
"""The memory budget (--memory): small inputs that inflate to much, and clients that hold much. The service stays within the
budget, says what it refuses, and answers others meanwhile."""

import struct
import subprocess
import threading
import time

import pytest

from making import healthy, peak_mib
from pushing import lode, put

SECTIONS = [".debug_info", ".debug_line", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_ranges",
            ".debug_rnglists", ".debug_addr", ".debug_aranges"]


def zeros(mib):
    """MIB MiB of zeros, compressed by zstd."""
    return subprocess.run(["zstd", "-q", "-c", "-3"], input=bytes(mib << 20), capture_output=True, check=True).stdout


def bomb(mib, build_id, packed):
    """An ELF file with ten compressed sections of so many MiB each."""
    body, names, sections = b"", b"\0", [(0,) * 10]

    def add(name, kind, flags, data):
        nonlocal body, names
        sections.append((len(names), kind, flags, 0, 64 + len(body), len(data), 0, 0, 1, 0))
        names += name.encode() + b"\0"
        body += data + bytes(-len(data) % 8)

    add(".note.gnu.build-id", 7, 2, struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id)
    for name in SECTIONS:
        add(name, 1, 0x800, struct.pack("<IIQQ", 2, 0, mib << 20, 1) + packed)
    add(".shstrtab", 3, 0, names + b".shstrtab\0")
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64,
                                                                len(sections), len(sections) - 1)
    return head + body + b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in sections)


def test_a_command_does_not_take_memory_by_a_section_s_claim(tmp_path):
    for mib, told in ((100, "needs more memory than the"), (2047, "are more than the")):
        path = tmp_path / f"{mib}.debug"
        path.write_bytes(bomb(mib, bytes(20), zeros(mib)))
        # 600 MB of address space hold the program itself and the limit of a small file.
        r = subprocess.run(["bash", "-c", 'ulimit -v 600000; exec "$@"', "-", lode_path(), "symtab", "build", path, "-o", tmp_path / "out"],
                           capture_output=True, text=True, timeout=60)
        assert r.returncode == 1 and told in r.stderr and ".debug_" in r.stderr, r.stderr


def lode_path():
    return lode("--version").args[0]


@pytest.mark.slow
def test_sections_that_inflate_to_gigabytes(serve, tmp_path):
    s = serve([tmp_path], args=["--memory", "256M", "--workers", "4"]).scanned()
    before = peak_mib(s)
    packed = zeros(100)
    ids = [bytes([i]) * 20 for i in range(1, 5)]
    for build_id in ids:
        assert put(s, f"/buildid/{build_id.hex()}/debuginfo", bomb(100, build_id, packed))[0] == 201
    replies = {}

    def ask(build_id):
        replies[build_id] = s.get(f"/buildid/{build_id.hex()}/symbolize?addr=0x1000&timeout=60", timeout=90)

    threads = [threading.Thread(target=ask, args=(i,)) for i in ids]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        began = time.monotonic()
        assert s.get("/metadata?key=glob&value=/nothing").status == 200
        assert time.monotonic() - began < 5
        time.sleep(0.05)
    assert peak_mib(s) - before < 256
    assert all(r.status in (200, 202) for r in replies.values())
    assert b"decompressed bytes" in b"".join(r.body for r in replies.values())
    assert s.metric('lode_memory_bytes{class="table"}') == 0
    healthy(s)
