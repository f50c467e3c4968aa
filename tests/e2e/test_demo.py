# SPDX-License-Identifier: Apache-2.0
"""lode demo: profiles of a stripped program are sent first; then pushed debug information names all of its functions."""

import gzip
import io
import json
import os
import re
import subprocess
import tarfile
import time
import urllib.parse

import pytest

from conftest import LODE, build_id, free_port
from profiling import Answerer, Taker, fields


class Server(Taker):
    """Records requests; reports that it has profiles if `types` is set. Not `is_lode`: another program answers its PUTs."""

    def __init__(self):
        super().__init__(Handler)
        self.posted, self.put, self.types, self.is_lode = [], {}, [], True


class Handler(Answerer):
    def do_GET(self):
        if self.path == "/healthz":
            return self.answer(200, b"ok\n")
        if self.path.startswith("/api/types"):
            return self.answer(200, json.dumps({"types": self.server.types}).encode())
        self.answer(404, b"")

    def do_POST(self):
        path, _, query = self.path.partition("?")
        self.server.posted.append((path, dict(urllib.parse.parse_qsl(query)), self.body()))
        self.answer(200, b'{"profiles": 2, "samples": 10, "id": 1, "duplicate": false}')

    def do_PUT(self):
        self.server.put[self.path] = self.body()
        self.send_response(201)
        if self.server.is_lode:
            self.send_header("X-LODE-RESULT", "stored")
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server():
    with Server() as s:
        yield s


@pytest.fixture
def demo(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    env.update(HOME=str(tmp_path), TMPDIR=str(tmp_path), DEBUGINFOD_URLS="", XDG_CACHE_HOME=str(tmp_path / "cache"))

    def go(*args, command="demo"):
        return subprocess.run([LODE, command, *map(str, args)], env=env, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    return go


@pytest.mark.slow
def test_debug_information_that_no_lode_server_took_is_a_failure(server, demo):
    server.is_lode = False
    r = demo("--to", server.url, "--slices", 1, "--slice-ms", 300)
    assert r.returncode == 1 and "its debuginfo: an answer (201) that is not of a lode server" in r.stderr, r


@pytest.mark.slow
def test_what_is_sent(server, demo, tmp_path):
    r = demo("--to", server.url, "--slices", 4, "--slice-ms", 500, "--minutes", 8)
    assert r.returncode == 0 and r.stderr == "", r
    assert server.posted and all(path == "/profiles" for path, _, _ in server.posted)
    labels = [labels for _, labels, _ in server.posted]
    assert {l["service"] for l in labels} == {"demo-shop"} and {l["thread"] for l in labels} <= {"web-1", "web-2", "indexer"}

    # The profiles are spread over the time range, and none is in the future.
    bodies = [gzip.decompress(body) for _, _, body in server.posted]
    times = sorted({dict(fields(b))[9] // 10 ** 9 for b in bodies})
    assert times[-1] <= time.time() and times[-1] - times[0] in (120, 240, 360), times

    # Addresses without names, in a file that is identified by its build ID.
    (debug,) = [path for path in server.put if path.endswith("/debuginfo")]
    id_ = debug.split("/")[2]
    for b in bodies:
        assert id_.encode() in b and b"/opt/shop/demo-shop" in b
        assert not [f for f, _ in fields(b) if f == 5], "there are functions"
    (tmp_path / "shop.debug").write_bytes(server.put[debug])
    assert build_id(tmp_path / "shop.debug") == id_
    assert not list(tmp_path.glob("lode-demo-*"))

    # The pushed debug information names the functions.
    names = []
    for n, (_, _, body) in enumerate(server.posted):
        (tmp_path / f"{n}.pb.gz").write_bytes(body)
        names.append(f"{n}.pb.gz")
    place = tmp_path / "cache" / "debuginfod_client" / id_
    place.mkdir(parents=True)
    (tmp_path / "shop.debug").rename(place / "debuginfo")
    (place / "debuginfo").chmod(0o400)
    r = demo("-q", "-o", "all.folded", *names, command="symbolize")
    assert r.returncode == 0, r
    text = (tmp_path / "all.folded").read_text()
    assert re.search(r"run_worker;serve_request;search_catalogue;", text) and re.search(r"run_worker;rebuild_index;split_title;", text), text
    r = demo("--by", "line", "-o", "lines.folded", *names, command="symbolize")
    assert re.search(r"/usr/src/lode-demo/shop\.c:\d+", (tmp_path / "lines.folded").read_text())

    # The sources are there.
    (sources,) = [body for path, body in server.put.items() if path == f"/buildid/{id_}/sources"]
    with tarfile.open(fileobj=io.BytesIO(sources)) as tar:
        assert "usr/src/lode-demo/shop.c" in tar.getnames()


@pytest.mark.slow
def test_named_by_a_server(serve, demo, tmp_path):
    """The only source of names is the debug information that is pushed after the profiles."""
    (tmp_path / "empty").mkdir()
    s = serve([tmp_path / "empty"], args=["--symbolize-interval", "1"]).ready()
    r = demo("--to", s.url, "--slices", 4, "--slice-ms", 400)
    assert r.returncode == 0 and "have their names now" in r.stdout, r
    query = urllib.parse.quote('profile:cpu:nanoseconds:cpu:nanoseconds:delta{service="demo-shop"}')
    graph = json.loads(s.get(f"/api/flamegraph?query={query}&wait=2s").body)
    names, files, lines = (graph["frames"][k] for k in ("name", "file", "line"))
    found = {graph["strings"][n]: (graph["strings"][f], line) for n, f, line in zip(names, files, lines)}
    assert {"serve_request", "search_catalogue", "find_items", "score_item", "sift_down", "match_words", "rebuild_index"} <= set(found)
    assert found["score_item"][0] == "/usr/src/lode-demo/shop.c", found
    by_line = json.loads(s.get(f"/api/flamegraph?query={query}&by=line").body)
    assert any(line > 0 and by_line["strings"][f] == "/usr/src/lode-demo/shop.c"
               for f, line in zip(by_line["frames"]["file"], by_line["frames"]["line"]))
    # In calling order, with inlined calls marked.
    parent, frame, inlined = (graph["nodes"][k] for k in ("parent", "frame", "inlined"))
    name_of = [graph["strings"][names[f]] if f >= 0 else "" for f in frame]
    assert any(name_of[i] == "match_words" and inlined[i] and name_of[parent[i]] == "score_item" for i in range(len(frame)))
    assert s.get("/buildid/" + r.stdout.split("build ID ")[1].split(")")[0] + "/source/usr/src/lode-demo/shop.c").status == 200
    # The second run does nothing.
    assert "profiles already" in demo("--to", s.url, "--if-empty").stdout


def test_not_where_there_are_profiles(server, demo):
    server.types = ["profile:cpu:nanoseconds:cpu:nanoseconds:delta"]
    r = demo("--to", server.url, "--if-empty")
    assert r.returncode == 0 and "profiles already" in r.stdout and not server.posted and not server.put


def test_mistakes(demo):
    r = demo("--to", f"http://127.0.0.1:{free_port()}")
    assert r.returncode == 1 and "no lode serve answers there" in r.stderr
    assert demo("--slices", 0).returncode == 2
    assert demo("--to", "x://").returncode == 2
