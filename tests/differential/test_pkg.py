# SPDX-License-Identifier: Apache-2.0
"""lode's package readers compared with the programs that make packages, and with the packed tree.

Packages are made here, of every kind and compression that this machine's dpkg-deb, rpmbuild, tar, cpio and bsdtar can write.
LODE_PACKAGES=DIR: also every package found there, beside dpkg-deb and rpm2cpio. LODE_BUILD says where pkg_dump was built (build).
"""

import io
import json
import os
import re
import pathlib
import shutil
import stat
import struct
import subprocess
import tarfile
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LODE_BUILD", ROOT / "build"))
PKG_DUMP = BUILD / "tests/tools/pkg_dump"
MTIME = 1600000000


def sh(*argv, **kw):
    return subprocess.run([os.fsencode(a) for a in argv], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw).stdout


def dump(path):
    """(description of the package, files in its header, members)"""
    r = subprocess.run([PKG_DUMP, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert r.returncode == 0, r.stderr.decode()
    lines = [json.loads(line) for line in r.stdout.splitlines()]
    assert lines[-1] == {"end": True}
    return lines[0], [x for x in lines[1:] if "listed" in x], [x for x in lines[1:] if "type" in x]


def facts(members):
    """path -> attributes to compare; hard links are replaced by their targets."""
    by_path = {m["path"]: m for m in members}
    found = {}
    for m in members:
        if m["path"] == "":
            continue
        content = by_path[m["link"]] if m["type"] == "hardlink" else m
        kind = content["type"]
        found[m["path"]] = (
            kind,
            m["mode"] & 0o7777 if kind != "symlink" else None,
            m["mtime"],
            m["link"] if kind == "symlink" else None,
            content["size"] if kind == "file" else None,
            content["crc"] if kind == "file" else None,
        )
    return found


def facts_of_tree(tree):
    found = {}
    for folder, dirs, files in os.walk(os.fsencode(tree)):
        for name in dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            rel = os.path.relpath(path, os.fsencode(tree)).decode("latin-1")
            if stat.S_ISLNK(st.st_mode):
                found[rel] = ("symlink", None, int(st.st_mtime), os.readlink(path).decode("latin-1"), None, None)
            elif stat.S_ISDIR(st.st_mode):
                found[rel] = ("dir", st.st_mode & 0o7777, int(st.st_mtime), None, None, None)
            else:
                with open(path, "rb") as f:
                    found[rel] = ("file", st.st_mode & 0o7777, int(st.st_mtime), None, st.st_size, zlib.crc32(f.read()))
    return found


def make_tree(top, long_names=True, odd_bytes=True, sparse=True):
    usr = top / "usr"
    (usr / "bin").mkdir(parents=True)
    (usr / "share/empty dir").mkdir(parents=True)
    for source in ["/bin/bash", "/usr/bin/env", "/etc/passwd"]:
        shutil.copy(source, usr / "bin" / os.path.basename(source))
    (usr / "bin/bash").chmod(0o4755)
    (usr / "share/nothing").write_bytes(b"")
    (usr / "share/one").write_bytes(b"1")
    (usr / "share/block").write_bytes(b"b" * 512)
    os.symlink("../bin/bash", usr / "share/link")
    os.symlink("/nowhere/" + "t" * (150 if long_names else 20), usr / "share/dangling")
    os.link(usr / "bin/env", usr / "share/hard")
    os.link(usr / "bin/env", usr / "bin/hard too")
    if odd_bytes:
        with open(os.fsencode(usr / "share") + b"/n\xc3\xa4me", "wb") as f:
            f.write(b"utf-8")
    if long_names:
        deep = usr / ("d" * 60) / ("e" * 70) / ("f" * 80)
        deep.mkdir(parents=True)
        (deep / ("g" * 90)).write_bytes(b"deep")
    if sparse:
        with open(usr / "share/sparse", "wb") as f:
            for i in range(30):
                f.seek(i * 50000)
                f.write(b"data%d" % i)
            f.truncate(2000000)
    for folder, dirs, files in os.walk(os.fsencode(top), topdown=False):
        for name in dirs + files:
            os.utime(os.path.join(folder, name), (MTIME, MTIME), follow_symlinks=False)
    return top


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def plain_tree(tmp_path_factory):
    return make_tree(tmp_path_factory.mktemp("plain"), long_names=False, sparse=False)


def assert_same(got, want):
    assert sorted(got) == sorted(want)
    for path in want:
        assert got[path] == want[path], path


# ---- tar ----


SPARSE = [["--sparse"], ["--sparse", "--sparse-version=0.0"], ["--sparse", "--sparse-version=0.1"]]
TARS = [(form, []) for form in ["gnu", "oldgnu", "posix", "v7", "ustar"]]
TARS += [("gnu", SPARSE[0]), ("oldgnu", SPARSE[0])] + [("posix", options) for options in SPARSE]


@pytest.mark.parametrize("form,sparse", TARS)
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_gnu_tar(tree, plain_tree, tmp_path, form, sparse, codec):
    top = plain_tree if form in ("v7", "ustar") else tree
    out = tmp_path / "x.tar"
    filters = {"none": [], "gzip": ["--gzip"], "zstd": ["--zstd"]}[codec]
    sh("tar", "-C", top, f"--format={form}", *sparse, *filters, "-cf", out, "usr")
    info, _, members = dump(out)
    assert (info["kind"], info["codec"]) == ("tar", codec)
    assert_same(facts(members), facts_of_tree(top))
    assert any(m["sparse"] for m in members) == bool(sparse)


@pytest.mark.parametrize("form", ["pax", "gnutar", "ustar", "v7", "cpio", "newc", "odc", "bin"])
def test_bsdtar(tree, plain_tree, tmp_path, form):
    top = tree if form in ("pax", "gnutar", "cpio", "newc", "odc") else plain_tree
    out = tmp_path / "x"
    # bsdtar looks for holes by itself in pax.
    sh("bsdtar", "-C", top, "--format", form, "-cf", out, "usr")
    _, _, members = dump(out)
    assert_same(facts(members), facts_of_tree(top))


@pytest.mark.parametrize("form", ["newc", "crc", "odc", "bin", "ustar", "tar"])
def test_gnu_cpio(plain_tree, tmp_path, form):
    names = sh("find", "usr", "-depth", cwd=plain_tree)
    out = tmp_path / "x.cpio"
    out.write_bytes(sh("cpio", "-o", "-H", form, "--quiet", input=names, cwd=plain_tree))
    _, _, members = dump(out)
    assert_same(facts(members), facts_of_tree(plain_tree))


@pytest.mark.parametrize("form,codec", [("zip", []), ("7zip", []), ("iso9660", []), ("xar", []), ("pax", ["--lz4"]),
                                        ("gnutar", ["--lzip"]), ("ustar", ["--compress"])])
def test_other_archives(plain_tree, tmp_path, form, codec):
    out = tmp_path / "x"
    sh("bsdtar", "-C", plain_tree, "--format", form, *codec, "-cf", out, "usr", env={**os.environ, "LC_ALL": "C.UTF-8"})
    info, _, members = dump(out)
    assert info["kind"] == "other"
    got, want = facts(members), facts_of_tree(plain_tree)
    # iso and xar change modes, zip changes times.
    strip = lambda all: {p: (f[0], f[3], f[4], f[5]) for p, f in all.items()}
    assert_same(strip(got), strip(want))


# ---- packages ----

CONTROL = """Package: sample
Version: 1:2.0-3
Architecture: amd64
Maintainer: Nobody <nobody@example.org>
Source: parent (2.0)
Build-Ids: 0123456789abcdef0123456789abcdef01234567
 89abcdef0123456789abcdef0123456789abcdef
Description: a sample
"""


@pytest.mark.parametrize("codec", ["gzip", "xz", "zstd", "none"])
def test_dpkg_deb(tree, tmp_path, codec):
    top = tmp_path / "deb"
    sh("cp", "-a", tree, top)
    (top / "DEBIAN").mkdir()
    (top / "DEBIAN/control").write_text(CONTROL)
    out = tmp_path / "x.deb"
    sh("dpkg-deb", f"-Z{codec}", "--root-owner-group", "-b", top, out)
    info, _, members = dump(out)
    assert info["kind"] == "deb" and info["codec"] == codec
    assert (info["name"], info["version"], info["arch"], info["source"]) == ("sample", "1:2.0-3", "amd64", "parent")
    assert info["build_ids"] == ["0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"]
    assert_same(facts(members), facts_of_tree(tree))
    compare_deb(out)


@pytest.mark.parametrize("codec,pack", [("bzip2", "bzip2 -c"), ("lzma", "xz --format=lzma -c"), ("xz", "xz -T2 --block-size=100000 -c"),
                                        ("zstd", "zstd -q -19 --long=27 -c"), ("gzip", "gzip -9 -c")])
@pytest.mark.parametrize("outer", ["ar", "tar"])
def test_deb_and_ipk_by_hand(tree, tmp_path, codec, pack, outer):
    ending = {"bzip2": "bz2", "lzma": "lzma", "xz": "xz", "zstd": "zst", "gzip": "gz"}[codec]
    (tmp_path / "control").write_text(CONTROL)
    (tmp_path / "debian-binary").write_text("2.0\n")
    control, data = tmp_path / f"control.tar.{ending}", tmp_path / f"data.tar.{ending}"
    control.write_bytes(sh(*pack.split(), input=sh("tar", "-C", tmp_path, "-c", "./control")))
    data.write_bytes(sh(*pack.split(), input=sh("tar", "-C", tree, "--format=gnu", "-c", ".")))
    out = tmp_path / "x.ipk"
    names = ["debian-binary", control.name, data.name]
    if outer == "ar":
        sh("ar", "rc", out, *names, cwd=tmp_path)
    else:
        sh("tar", "-C", tmp_path, "-czf", out, *("./" + n for n in names))
    info, _, members = dump(out)
    assert info["kind"] == "deb" and info["name"] == "sample" and len(info["build_ids"]) == 2
    assert_same(facts(members), facts_of_tree(tree))
    assert all((m["off"] == -1) == (outer == "tar" or m["size"] == 0) for m in members if m["type"] == "file")


SPEC = """Name: sample
Epoch: 1
Version: 2.0
Release: 3
Summary: s
License: none
Provides: debuginfo(build-id) = 0123456789abcdef0123456789abcdef01234567
AutoReqProv: no
%global __os_install_post %{{nil}}
%global debug_package %{{nil}}
%global _build_id_links none
%description
d
%install
mkdir -p %{{buildroot}}
cp -a {tree}/usr %{{buildroot}}
%files
/usr
%ghost /var/ghost
"""


@pytest.mark.parametrize("payload,codec", [("w9.gzdio", "gzip"), ("w9.bzdio", "bzip2"), ("w6.xzdio", "xz"), ("w6.lzdio", "lzma"),
                                           ("w19.zstdio", "zstd"), ("w.ufdio", "none")])
def test_rpmbuild(tree, tmp_path, payload, codec):
    spec = tmp_path / "sample.spec"
    spec.write_text(SPEC.format(tree=tree))
    sh("rpmbuild", "-bb", "--define", f"_topdir {tmp_path}", "--define", f"_binary_payload {payload}",
       "--define", f"_rpmdir {tmp_path}/out", "--define", "_build_name_fmt x.rpm", spec)
    out = tmp_path / "out/x.rpm"
    info, listed, members = dump(out)
    assert info["kind"] == "rpm" and info["codec"] == codec
    assert (info["name"], info["version"], info["source"]) == ("sample", "1:2.0-3", "sample")
    assert info["build_ids"] == ["0123456789abcdef0123456789abcdef01234567"]
    assert_same(facts(members), facts_of_tree(tree))
    # The header's file list equals the payload, and rpm's output.
    want = facts_of_tree(tree)
    for f in listed:
        if f["path"] == "var/ghost":
            assert not f["in_payload"]
            continue
        kind, mode, mtime, link, size, _ = want[f["path"]]
        assert f["in_payload"] and f["mtime"] == mtime
        assert f["link"] == (link or "")
        if kind == "file":
            assert (f["size"], f["mode"]) == (size, mode | stat.S_IFREG)
    assert len(listed) == len(want) + 1
    said = sh("rpm", "-qp", "--qf", "[%{FILENAMES}\\n]", out).decode("latin-1").splitlines()
    assert [f["path"] for f in listed] == [s[1:] for s in said]
    compare_rpm(out)


PKGINFO = "# made by hand\npkgname = sample\npkgbase = parent\npkgver = 1:2.0-3\narch = x86_64\n"


def test_arch(tree, tmp_path):
    for name, text in [(".BUILDINFO", "x"), (".MTREE", "y"), (".PKGINFO", PKGINFO)]:
        (tmp_path / name).write_text(text)
    out = tmp_path / "x.pkg.tar.zst"
    sh("bsdtar", "--zstd", "-cf", out, "-C", tmp_path, ".BUILDINFO", ".MTREE", ".PKGINFO", "-C", tree, "usr")
    info, _, members = dump(out)
    assert (info["kind"], info["codec"]) == ("tar", "zstd")
    assert (info["name"], info["version"], info["arch"], info["source"]) == ("sample", "1:2.0-3", "x86_64", "parent")
    got = {p: f for p, f in facts(members).items() if not p.startswith(".")}
    assert_same(got, facts_of_tree(tree))


# ---- existing packages ----


def compare_tar_stream(members, data):
    want = []
    with tarfile.open(fileobj=io.BytesIO(data), encoding="latin-1") as t:
        for e in t:
            name = e.name.removeprefix("./").strip("/")
            name = "" if name == "." else name
            kind = "dir" if e.isdir() else "symlink" if e.issym() else "hardlink" if e.islnk() else "file" if e.isreg() else "special"
            link = e.linkname if kind in ("symlink", "hardlink") else ""
            crc = zlib.crc32(t.extractfile(e).read()) if kind == "file" else None
            want.append((name, kind, e.mode, e.size if kind == "file" else 0, int(e.mtime), link.removeprefix("./")
                         if kind == "hardlink" else link, crc))
    got = [(m["path"], m["type"], m["mode"] & 0o7777, m["size"], m["mtime"], m["link"], m.get("crc")) for m in members]
    assert got == want


def compare_deb(path):
    info, _, members = dump(path)
    for field, key in [("Package", "name"), ("Version", "version"), ("Architecture", "arch")]:
        assert sh("dpkg-deb", "-f", path, field).decode().strip() == info[key]
    assert sh("dpkg-deb", "-f", path, "Build-Ids").decode().split() == info["build_ids"]
    compare_tar_stream(members, sh("dpkg-deb", "--fsys-tarfile", path))


def compare_rpm(path):
    _, _, members = dump(path)
    # Hard links come in another order, and a list escapes bytes that are not ASCII.
    names = sh("cpio", "-t", "--quiet", input=sh("rpm2cpio", path)).decode("latin-1").splitlines()
    assert len(names) == len(members)
    ascii_only = lambda paths: sorted(p.removeprefix("./").lstrip("/") for p in paths if p.isascii())
    assert ascii_only(names) == ascii_only(m["path"] for m in members)


def packages_there():
    found = []
    for folder in filter(None, ["/var/cache/apt/archives", os.environ.get("LODE_PACKAGES")]):
        found += sorted(pathlib.Path(folder).glob("*.deb")) + sorted(pathlib.Path(folder).glob("*.rpm"))
    return found if os.environ.get("LODE_PACKAGES") else found[:20]


@pytest.mark.parametrize("path", packages_there(), ids=lambda p: p.name)
def test_existing_package(path):
    (compare_deb if path.suffix == ".deb" else compare_rpm)(path)


# ---- the package map, by docs/formats/package-map.md alone ----


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data)
        self.at += n
        return self.data[self.at - n : self.at]

    def uleb(self):
        v = shift = 0
        while True:
            b = self.take(1)[0]
            v |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return v

    def zigzag(self):
        v = self.uleb()
        return v >> 1 ^ -(v & 1)

    def text(self):
        return self.take(self.uleb())


def decode_map(blob):
    magic, version, _hash, size, packed, points = struct.unpack_from("<4sIQIII", blob)
    assert (magic, version) == (b"LPKM", 2)
    columns = sh("zstd", "-dcq", input=blob[28 : 28 + packed])
    assert len(columns) == size
    all_columns = Reader(columns)
    sizes = [all_columns.uleb() for _ in range(19)]
    (meta, codes, shared, path_sizes, path_bytes, ranks, numbers, modes, mtimes, file_sizes, places, inner, elf, sections,
     section_names, forms, link_entries, link_sizes, link_bytes) = (Reader(all_columns.take(n)) for n in sizes)
    assert all_columns.at == size
    ids = Reader(blob[28 + packed : len(blob) - points])

    m = {"size": meta.uleb(), "mtime_ns": meta.zigzag(), "inode": meta.uleb(), "digest": meta.take(8)}
    m.update(kind=meta.uleb(), codec=meta.uleb(), format=meta.uleb(), payload=(meta.uleb(), meta.uleb()), decoded=meta.uleb())
    m.update(zip(("name", "version", "arch", "source"), (meta.text() for _ in range(4))))
    n_entries, n_links, n_sections = meta.uleb(), meta.uleb(), meta.uleb()
    pairs = [(meta.text(), meta.text()) for _ in range(meta.uleb())]
    strings = meta.uleb()

    archive, kinds = [], []
    number = mode = mtime = expected = 0
    for _ in range(n_entries):
        number += numbers.uleb()
        mode += modes.zigzag()
        mtime += mtimes.zigzag()
        e = {"number": number, "mode": mode, "mtime": mtime, "size": file_sizes.uleb(), "off": -1, "id": b"", "elf": None}
        place = places.uleb()
        if place:
            v = place - 1
            e["off"] = expected + (v >> 1 ^ -(v & 1))
            align = 4 if m["format"] == 1 else 512
            expected = -(-(e["off"] + e["size"]) // align) * align
        e["inner"] = inner.uleb()
        if e["inner"]:
            inner.uleb()
        kind = elf.uleb()
        if kind:
            if kind == len(kinds) + 1:
                kinds.append(tuple(elf.uleb() for _ in range(4)))
            e["elf"] = kinds[kind - 1]
            e["id"] = ids.take(e["elf"][3])
            e["sections"], end = [], 0
            for _ in range(sections.uleb()):
                name, size_, off = section_names.take(sections.uleb()), sections.uleb(), 0
                if size_:
                    off = end + sections.zigzag()
                    end = off + size_
                e["sections"].append((name, off, size_))
        archive.append(e)

    last = b""

    def path(build_id):
        nonlocal last
        code = codes.uleb()
        if code:
            before, behind = pairs[code - 1]
            digits = build_id.hex().encode()
            return before + digits[:2] + b"/" + digits[2:] + behind
        last = last[: shared.uleb()] + path_bytes.take(path_sizes.uleb())
        return last

    entries, rank = [], -1
    for _ in range(n_entries):
        rank += 1 + ranks.zigzag()
        e = dict(archive[rank])
        e["path"] = path(e["id"])
        entries.append(e)
    assert [e["path"] for e in entries] == sorted(e["path"] for e in entries)

    links, entry = [], 0
    for _ in range(n_links):
        form, to = forms.uleb(), None
        if form:
            entry += link_entries.zigzag()
            to = entries[entry]
        here = path(to["id"] if to else b"")
        if form == 0:
            target = link_bytes.take(link_sizes.uleb())
        elif form == 2:
            target = b"/" + to["path"]
        else:
            a, b = here.split(b"/"), to["path"].split(b"/")
            k = 0
            while k < min(len(a), len(b)) - 1 and a[k] == b[k]:
                k += 1
            target = b"../" * (len(a) - 1 - k) + b"/".join(b[k:])
        links.append((here, target))
    for c in (codes, shared, path_sizes, path_bytes, ranks, numbers, places, elf, sections, section_names, forms, link_entries, link_sizes,
              link_bytes, ids, meta):
        assert c.at == len(c.data)
    texts = [m[k] for k in ("name", "version", "arch", "source")] + [e["path"] for e in entries] + [t for link in links for t in link]
    names = [name for e in entries for name, _, _ in e.get("sections", [])]
    assert n_sections == len(names)
    assert strings == sum(map(len, texts + names))
    return m, entries, links


def compare_map(path):
    info, _, members = dump(path)
    m, entries, links = decode_map(sh(PKG_DUMP, "--map", path))
    assert m["size"] == path.stat().st_size
    assert m["name"].decode("latin-1") == info["name"] and m["version"].decode("latin-1") == info["version"]
    assert m["payload"] == (info["off"], info["size"])
    want = sorted((x["path"].encode("latin-1"), i, x["mode"], x["size"], x["mtime"], x["off"]) for i, x in enumerate(members)
                  if x["type"] == "file")
    assert [(e["path"], e["number"], e["mode"], e["size"], e["mtime"], e["off"]) for e in entries] == want
    assert sorted(links) == sorted((x["path"].encode("latin-1"), x["link"].encode("latin-1")) for x in members if x["type"] == "symlink")
    return entries, links


def test_map_by_its_description(tree, tmp_path):
    # Links by build ID, as in debug packages, and ordinary ones.
    top = tmp_path / "top"
    sh("cp", "-a", f"{tree}/.", top)
    for name, target in [("bash", "../../../../bin/bash"), ("env", "/usr/bin/env")]:
        path = top / "usr/bin" / name
        note = sh("readelf", "-n", path).decode()
        digits = note.split("Build ID: ")[1].split()[0]
        folder = top / "usr/lib/debug/.build-id" / digits[:2]
        folder.mkdir(parents=True, exist_ok=True)
        os.symlink(target, folder / (digits[2:] + ".debug"))
        shutil.copy(path, folder / digits[2:])
    out = tmp_path / "x.tar.xz"
    sh("tar", "-C", top, "-cJf", out, "usr")
    entries, links = compare_map(out)
    assert sum(1 for e in entries if e["id"]) >= 4
    assert len(links) == 4
    for e in entries:
        if e["elf"]:
            lines = re.findall(r"^ +\[ *[1-9]\d*\] (\S+) +(\S+) +[0-9a-f]{16} ([0-9a-f]+) ([0-9a-f]+)",
                               sh("readelf", "-SW", top / e["path"].decode()).decode(), re.M)
            want = [(name.encode(), 0, 0) if kind == "NOBITS" or not int(size, 16) else (name.encode(), int(off, 16), int(size, 16))
                    for name, kind, off, size in lines]
            assert e["sections"] == want and want
