# SPDX-License-Identifier: Apache-2.0
"""Files that come into a served folder as links are found as soon as copies, without waiting for the next walk."""

import os

import pytest

from making import elf, fetch, new_id, pool  # noqa: F401


@pytest.mark.slow
@pytest.mark.parametrize("how", ["copy", "hard", "soft", "folder"])
def test_a_link_that_comes_is_found_at_once(serve, elf, pool, tmp_path, how):
    build_id = new_id("link", how)
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "x"
    s = serve([pool], args=["--rescan", "0", "--follow-links"]).scanned()
    file.write_bytes(elf.of(elf.program, build_id))
    {"copy": lambda: (pool / "x").write_bytes(file.read_bytes()), "hard": lambda: os.link(file, pool / "x"),
     "soft": lambda: (pool / "x").symlink_to(file), "folder": lambda: (pool / "d").symlink_to(file.parent)}[how]()
    s.wait(lambda: fetch(s, f"/buildid/{build_id}/executable")[0] == 200, "the file", timeout=10)
