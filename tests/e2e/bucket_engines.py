# SPDX-License-Identifier: Apache-2.0
"""Servers with S3's API as fixtures, and services with a store in their bucket. LODE_ENGINES has the kinds for the tests that need no
faults: "stub versitygw"; also those of other_engines.py, for bench/engines.py."""

import contextlib
import os

import pytest

import other_engines
import versitygw
from bucket import Bucket

STORE = "s3://bucket/a/store"


@contextlib.contextmanager
def running(kind, folder):
    """A server of this kind, "stub", "versitygw", or another one, in @folder."""
    if kind == "versitygw" and not versitygw.PROGRAM.exists():
        pytest.skip(versitygw.WHY_NOT)
    if kind in other_engines.KINDS and not other_engines.program(kind):
        pytest.skip(f"no {kind} on the PATH")
    b = Bucket() if kind == "stub" else {"versitygw": versitygw.Versitygw, **other_engines.KINDS}[kind](folder)
    try:
        yield b
    finally:
        b.close()


@pytest.fixture
def stub():
    with running("stub", None) as b:
        yield b


@pytest.fixture
def bucket_of_one():
    """With one object, x."""
    with running("stub", None) as b:
        b.objects["x"] = b"data"
        yield b


@pytest.fixture(params=os.environ.get("LODE_ENGINES", "stub versitygw").split())
def engine(request, tmp_path):
    """Each server in turn, for the tests that need no faults."""
    with running(request.param, tmp_path) as b:
        yield b


@pytest.fixture
def start(serve, tmp_path):
    """start(bucket) -> a service without packages whose store is in the bucket."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def one(bucket, name="data", args=()):
        return serve([empty], data=tmp_path / name, args=["--no-packages", "--store", STORE, *args], extra=bucket.env()).ready()

    return one
