# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients with lode as their server: debuginfod-find, gdb, curl."""

import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import make_deb, tree_of


@pytest.fixture
def packaged(serve, program, tmp_path):
    """A service whose package is the only place of the program's debug file and source."""
    pool = tmp_path / "pool"
    pool.mkdir()
    make_deb(tree_of(program, tmp_path / "root"), pool / "hello-dbgsym.deb", "zstd", [program.build_id])
    s = serve([pool]).ready()
    shutil.rmtree(tmp_path / "root")
    return s


def client_env(service, tmp_path):
    return dict(os.environ, DEBUGINFOD_URLS=service.url, DEBUGINFOD_CACHE_PATH=str(tmp_path / "client-cache"), HOME=str(tmp_path))


def test_debuginfod_find(packaged, program, tmp_path):
    def find(*args):
        r = subprocess.run(["debuginfod-find", *args], env=client_env(packaged, tmp_path), capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        return pathlib.Path(r.stdout.strip()).read_bytes()
    assert find("debuginfo", program.build_id) == program.debug.read_bytes()
    assert find("executable", program.build_id) == program.binary.read_bytes()
    assert find("source", program.build_id, program.source_path) == program.source.read_bytes()


def test_gdb_stops_at_a_line_and_lists_it(packaged, program, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(program.binary, alone / "hello")
    shutil.rmtree(program.binary.parent)
    line = next(i for i, text in enumerate(__import__("conftest").PROGRAM.split("\n"), 1) if "the line to stop at" in text)
    r = subprocess.run(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex", f"break hello.c:{line}", "-ex", "list 5,7",
                        "-ex", "info line twice", str(alone / "hello")],
                       env=client_env(packaged, tmp_path), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert f"hello.c, line {line}." in r.stdout, r.stdout + r.stderr
    assert "the line to stop at" in r.stdout, r.stdout + r.stderr
