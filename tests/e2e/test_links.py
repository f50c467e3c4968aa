# SPDX-License-Identifier: Apache-2.0
"""Files that come into a served folder as links are found as soon as copies, without waiting for the next walk."""

import ctypes
import os
import time

import pytest

from making import elf, fetch, new_id, pool  # noqa: F401


def link_and_remove(file, to):
    """A rename that replaces nothing."""
    os.link(file, to)
    file.unlink()


def link_unnamed(file, to):
    fd = os.open(to.parent, os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, file.read_bytes())
    time.sleep(0.1)  # more than the resolution of times of files
    assert ctypes.CDLL(None).linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, bytes(to), 0x400) == 0  # AT_FDCWD, AT_SYMLINK_FOLLOW
    os.close(fd)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["copy", "hard", "soft", "folder", "removed", "unnamed"])
def test_a_link_that_comes_is_found_at_once(serve, elf, pool, tmp_path, how):
    build_id = new_id("link", how)
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "x"
    s = serve([pool], args=["--rescan", "0", "--follow-links"]).scanned()
    file.write_bytes(elf.of(elf.program, build_id))
    time.sleep(0.1)
    {"copy": lambda: (pool / "x").write_bytes(file.read_bytes()), "hard": lambda: os.link(file, pool / "x"),
     "soft": lambda: (pool / "x").symlink_to(file), "folder": lambda: (pool / "d").symlink_to(file.parent),
     "removed": lambda: link_and_remove(file, pool / "x"), "unnamed": lambda: link_unnamed(file, pool / "x")}[how]()
    s.wait(lambda: fetch(s, f"/buildid/{build_id}/executable")[0] == 200, "the file", timeout=10)
