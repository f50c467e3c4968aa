# SPDX-License-Identifier: Apache-2.0
"""The protocol with real files, from a client's side."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, build_id, make_deb, make_rpm, tree_of

BASH = pathlib.Path("/usr/bin/bash")


def same(reply, path):
    assert reply.status == 200, reply.body
    assert reply.body == pathlib.Path(path).read_bytes()


def test_a_file_of_this_machine_comes_byte_for_byte(serve):
    s = serve([BASH]).ready()
    r = s.get(f"/buildid/{build_id(BASH)}/executable")
    same(r, BASH)
    assert int(r.headers["Content-Length"]) == int(r.headers["X-DEBUGINFOD-SIZE"]) == BASH.stat().st_size
    assert r.headers["X-DEBUGINFOD-FILE"].endswith("bash")
    assert "immutable" in r.headers["Cache-Control"]
    assert r.headers["Last-Modified"]


def test_head_range_and_etag(serve):
    s = serve([BASH]).ready()
    url, data = f"/buildid/{build_id(BASH)}/executable", BASH.read_bytes()
    head = s.get(url, "HEAD")
    assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) == len(data)
    rng = random.Random(1)
    for _ in range(50):
        a = rng.randrange(len(data))
        b = rng.randrange(a, len(data))
        r = s.get(url, headers={"Range": f"bytes={a}-{b}"})
        assert r.status == 206 and r.body == data[a:b + 1]
        assert r.headers["Content-Range"] == f"bytes {a}-{b}/{len(data)}"
    assert s.get(url, headers={"Range": "bytes=-10"}).body == data[-10:]
    assert s.get(url, headers={"Range": f"bytes={len(data)}-"}).status == 416
    tag = head.headers["ETag"]
    assert s.get(url, headers={"If-None-Match": tag}).status == 304
    assert s.get(url, headers={"Range": "bytes=0-3", "If-Range": tag}).status == 206
    assert s.get(url, headers={"Range": "bytes=0-3", "If-Range": '"other"'}).status == 200


def test_statuses(serve):
    s = serve([BASH]).ready()
    bid = build_id(BASH)
    assert s.get("/buildid/" + "00" * 20 + "/debuginfo").status == 404
    assert s.get(f"/buildid/{bid.upper()}/executable").status == 400
    assert s.get(f"/buildid/{bid[:-1]}/executable").status == 400
    assert s.get(f"/buildid/{bid}/executable", "POST").status == 405
    assert s.get(f"/buildid/{bid}/section/.no-such").status == 404
    assert s.get(f"/buildid/{bid}/executable", headers={"X-DEBUGINFOD-MAXSIZE": "100"}).status == 406
    assert s.get("/healthz").status == 200
    assert s.get("/").status == 200
    assert b"lode_" in s.get("/metrics").body


def test_the_page_about_the_protocol_names_all_there_is(serve):
    page = (ROOT / "docs" / "protocol.md").read_text()
    s = serve([BASH]).scanned()
    for path in ("/", f"/buildid/{build_id(BASH)}/section/.text", "/metadata?key=file&value=/usr/bin/bash", "/api/status", "/api/failures", "/none"):
        s.get(path)
    text = s.get("/metrics").body.decode()
    assert not re.search(r"^# TYPE \w+_total (?!counter$)", text, re.M)
    metrics = set(re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?(?:\{.*\})? \S+$", text, re.M))
    assert len(metrics) > 20 and not [m for m in metrics if m not in page]
    named = re.findall(r"`(lode_\w+)", page)
    source = "".join(f.read_text() for f in (ROOT / "src").rglob("*.c"))
    assert named and not [m for m in named if f'"{m}"' not in source]
    headers = s.get(f"/buildid/{build_id(BASH)}/executable").headers
    assert not [h for h in headers if f"`{h}" not in page and h not in ("Date", "X-Content-Type-Options")]


def test_sections_are_what_objcopy_dumps(serve, program, tmp_path):
    s = serve([program.debug.parent]).ready()
    for name, path in ((".text", program.binary), (".debug_info", program.debug), (".debug_line", program.debug), (".debug_str", program.debug)):
        out = tmp_path / "section"
        subprocess.run(["objcopy", "--dump-section", f"{name}={out}", str(path), "/dev/null"], check=True)
        r = s.get(f"/buildid/{program.build_id}/section/{name}")
        assert r.status == 200 and r.body == out.read_bytes(), name


def test_a_source_named_by_dwarf_is_served_and_another_file_is_not(serve, tmp_path):
    from conftest import Program
    p = Program(tmp_path / "p", source_dir=str(tmp_path / "p"))
    s = serve([tmp_path / "p"]).ready()
    same(s.get(f"/buildid/{p.build_id}/source{p.source}"), p.source)
    same(s.get(f"/buildid/{p.build_id}/source/{tmp_path}/p/../p/{p.name}.c"), p.source)
    same(s.get(f"/buildid/{p.build_id}/source{str(p.source).replace('/', '%2F')}"), p.source)
    assert s.get(f"/buildid/{p.build_id}/source/etc/passwd").status == 404
    assert s.get(f"/buildid/{p.build_id}/source{p.source}/../../../../../../../etc/passwd").status == 404


def test_sources_come_from_folders_that_are_served(serve, tmp_path):
    from conftest import Program
    outside = tmp_path / "outside"
    p = Program(outside, source_dir=str(outside))
    (tmp_path / "served").mkdir()
    for file in (p.binary, p.debug):
        shutil.copy(file, tmp_path / "served")
    secret = outside / "secret.c"
    secret.write_text("secret")
    link = tmp_path / "served" / "link.c"
    # A program whose debug information names a link that leads out.
    subprocess.run(["gcc", "-g", "-Wl,--build-id", "-x", "c", "-", "-o", tmp_path / "served" / "evil"], check=True,
                   input=f'#line 1 "{link}"\nint f(void) {{ return 1; }}\n#line 1 "/etc/passwd"\nint g(void) {{ return 2; }}\nint main(void) {{ return f() + g(); }}\n'.encode())
    evil = next(x for x in subprocess.run(["readelf", "-n", tmp_path / "served" / "evil"], capture_output=True, text=True).stdout.split() if len(x) == 40)
    link.symlink_to(secret)
    s = serve([tmp_path / "served"]).ready()
    for build_id, name in ((p.build_id, p.source), (evil, link), (evil, "/etc/passwd")):
        r = s.get(f"/buildid/{build_id}/source{name}")
        assert r.status == 404 and b"in the folders that are served" in r.body, (name, r.body)
    s.stop()
    s = serve([tmp_path / "served"], args=["--sources", str(outside)]).ready()
    same(s.get(f"/buildid/{p.build_id}/source{p.source}"), p.source)
    assert s.get(f"/buildid/{evil}/source{link}").body == b"secret"
    assert s.get(f"/buildid/{evil}/source/etc/passwd").status == 404
    assert s.get(f"/buildid/{evil}/source/usr/include/stdio.h").status == 404


@pytest.mark.parametrize("compression", ["xz", "zstd", "gzip", "none"])
def test_debs(serve, program, tmp_path, compression):
    pool = tmp_path / "pool"
    pool.mkdir()
    deb = make_deb(tree_of(program, tmp_path / "root"), pool / "hello.deb", compression)
    s = serve([pool]).scanned()
    r = s.get(f"/buildid/{program.build_id}/debuginfo")
    same(r, program.debug)
    assert r.headers["X-DEBUGINFOD-ARCHIVE"].endswith(deb.name)
    same(s.get(f"/buildid/{program.build_id}/executable"), program.binary)
    same(s.get(f"/buildid/{program.build_id}/source{program.source_path}"), program.source)
    found = json.loads(s.get(f"/metadata?key=buildid&value={program.build_id}").body)
    assert found["complete"] is True
    assert {r["type"] for r in found["results"]} == {"executable", "debuginfo"}
    found = json.loads(s.get("/metadata?key=glob&value=/usr/bin/*").body)
    assert [r["file"] for r in found["results"]] == ["/usr/bin/hello"]


@pytest.mark.parametrize("payload", ["w9.gzdio", "w9.bzdio", "w6.xzdio", "w6.lzdio", "w19.zstdio"])
def test_rpms(serve, program, tmp_path, payload):
    pool = tmp_path / "pool"
    pool.mkdir()
    make_rpm(tree_of(program, tmp_path / "root"), pool, tmp_path / "rpmbuild", payload)
    s = serve([pool]).scanned()
    same(s.get(f"/buildid/{program.build_id}/debuginfo"), program.debug)
    same(s.get(f"/buildid/{program.build_id}/executable"), program.binary)
    same(s.get(f"/buildid/{program.build_id}/source{program.source_path}"), program.source)


@pytest.mark.parametrize("suffix,flag", [("tar.zst", "--zstd"), ("tar.gz", "--gzip"), ("tar.bz2", "--bzip2"), ("tar", None), ("pkg.tar.xz", "--xz")])
def test_tars(serve, program, tmp_path, suffix, flag):
    pool = tmp_path / "pool"
    pool.mkdir()
    subprocess.run(["tar", *([flag] if flag else []), "-C", str(tree_of(program, tmp_path / "root")), "-cf", str(pool / f"hello.{suffix}"), "."],
                   check=True)
    s = serve([pool]).scanned()
    same(s.get(f"/buildid/{program.build_id}/debuginfo"), program.debug)
    same(s.get(f"/buildid/{program.build_id}/executable"), program.binary)


def test_what_comes_and_goes_is_noticed(serve, program, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    s = serve([pool]).ready()
    url = f"/buildid/{program.build_id}/executable"
    assert s.get(url).status == 404
    make_deb(tree_of(program, tmp_path / "root"), tmp_path / "hello.deb")
    os.rename(tmp_path / "hello.deb", pool / "hello.deb")
    s.wait(lambda: s.get(url).status == 200, "the new package")
    (pool / "hello.deb").unlink()
    s.wait(lambda: s.get(url).status == 404, "the package to go")


def test_a_broken_package_is_told_and_the_rest_goes_on(serve, program, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    deb = make_deb(tree_of(program, tmp_path / "root"), pool / "hello.deb")
    (pool / "cut.deb").write_bytes(deb.read_bytes()[:-200])
    (pool / "nonsense.rpm").write_bytes(b"nonsense" * 1000)
    s = serve([pool]).scanned()
    same(s.get(f"/buildid/{program.build_id}/executable"), program.binary)
    from conftest import LODE
    out = subprocess.run([LODE, "stat", "--json", "--data", str(s.data)], capture_output=True, check=True).stdout
    failed = {pathlib.Path(f["path"]).name: f["reason"] for f in json.loads(out)["failures"]}
    assert set(failed) == {"cut.deb", "nonsense.rpm"}
    assert all(failed.values())
