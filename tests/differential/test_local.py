# SPDX-License-Identifier: Apache-2.0
"""Where lode finds debug files, beside gdb: the same choice, and the same places in the same order, over trees of all combinations.

Each case is a folder of its own. What lies at each place is a hard link to one of a few files, so thousands of cases are cheap;
gdb is started once for all of them. A sample is taken, the same each time; LODE_ALL_CASES=1 takes all.
"""

import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LODE_BUILD", ROOT / "build"))
LOCAL_FIND = BUILD / "tests/tools/local_find"
SAMPLE = 1200

# Runs in gdb. Its input is a list of cases; its output, for each, what it said, which separate files it read, which BFDs are open.
DRIVER = """
import gdb, json, os
cases = json.load(open(os.environ["CASES"]))
out = []
gdb.execute("set debuginfod enabled off")
gdb.execute("set debug separate-debug-file 1")
gdb.execute("set confirm off")
for c in cases:
    gdb.execute("set debug-file-directory " + c["dirs"])
    gdb.execute("set sysroot " + ("target:" if c["sysroot"] is None else c["sysroot"]))
    said = ""
    try:
        if c.get("run"):
            gdb.execute("file " + c["path"], to_string=True)
            gdb.execute("break all_loaded", to_string=True)
            said = gdb.execute("run", to_string=True)
        else:
            said = gdb.execute("file " + c["path"], to_string=True)
            if c.get("alt"):
                said += gdb.execute("maintenance expand-symtabs", to_string=True)
    except gdb.error as e:
        said += str(e)
    bfds = gdb.execute("maintenance info bfds", to_string=True) if c.get("alt") else ""
    out.append({"said": said, "bfds": bfds,
                "separate": {o.owner.filename: o.filename for o in gdb.objfiles() if o.owner is not None}})
    if c.get("run"):
        gdb.execute("kill", to_string=True)
    gdb.execute("file", to_string=True)
json.dump(out, open(os.environ["ANSWERS"], "w"))
"""


def gdb(cases, work):
    (work / "driver.py").write_text(DRIVER)
    (work / "cases.json").write_text(json.dumps(cases))
    env = {k: v for k, v in os.environ.items() if not k.startswith("DEBUGINFOD_")}
    r = subprocess.run(["gdb", "-nx", "-q", "-batch", "-x", str(work / "driver.py")], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       env={**env, "CASES": str(work / "cases.json"), "ANSWERS": str(work / "answers.json")})
    assert (work / "answers.json").exists(), r.stdout + r.stderr
    return json.loads((work / "answers.json").read_text())


def lode(cases, what):
    lines = "".join(f"{what}\t{c['dirs']}\t{'-' if c['sysroot'] is None else c['sysroot']}\t{c['path']}\n" for c in cases)
    r = subprocess.run([str(LOCAL_FIND)], input=lines, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    answers = [line.split("\t") for line in r.stdout.splitlines()]
    return [(None if chosen == "-" else chosen, places.split()) for chosen, places in answers]


def places_of(said):
    """gdb names "target:" where it tries what it has just tried."""
    return [p for p in re.findall(r"^ +Trying (.*?)\.\.\.(?: |$|warning)", said, re.M) if not p.startswith("target:")]


def sh(*argv, **kw):
    subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.DEVNULL, **kw)


def build_id(path):
    out = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", out).group(1)


class Pool:
    """Programs with every kind of link, and what may lie at a place."""

    def __init__(self, work):
        self.work = work
        work.mkdir()
        (work / "x.c").write_text("int main(void) { return 0; }\n")
        (work / "y.c").write_text("int other; int main(void) { return other; }\n")
        for name in "x", "y":
            sh("gcc", "-g", "-Wl,--build-id=sha1", "-o", f"{name}.full", f"{name}.c", cwd=work)
            sh("objcopy", "--only-keep-debug", f"{name}.full", f"{name}.debug", cwd=work)
            sh("strip", "-g", "-o", f"{name}.plain", f"{name}.full", cwd=work)
        self.id = build_id(work / "x.full")
        sh("objcopy", "--remove-section=.note.gnu.build-id", "x.plain", "x.no-id", cwd=work)
        sh("objcopy", "--remove-section=.note.gnu.build-id", "x.debug", "no-id.debug", cwd=work)
        (work / "text").write_text("not an ELF file\n")
        # The same content with one byte more: the build ID of x, another CRC.
        (work / "crc.debug").write_bytes((work / "x.debug").read_bytes() + b"\0")
        for source, kind in (("x.plain", "both"), ("x.no-id", "link")):
            for target, debug in (("x.debug", "x.debug"), ("y.debug", "x.debug"), ("x.debug", "x")):
                (work / "as").mkdir(exist_ok=True)
                shutil.copy(work / target, work / "as" / debug)
                out = f"{kind}-{target}-{debug}"
                sh("objcopy", f"--add-gnu-debuglink=as/{debug}", source, out, cwd=work)
        self.programs = {
            "id and link": ("both-x.debug-x.debug", "x.debug"),
            "link": ("link-x.debug-x.debug", "x.debug"),
            "id": ("x.plain", "x.debug"),
            "neither": ("x.no-id", "x.debug"),
            "id, CRC of another's": ("both-y.debug-x.debug", "x.debug"),
            "its own DWARF": ("x.full", "x.debug"),
            "id, link of its own name": ("both-x.debug-x", "x"),
            "link of its own name": ("link-x.debug-x", "x"),
        }


# What may lie at a place.
STATES = ["missing", "x.debug", "y.debug", "crc.debug", "no-id.debug", "text", "self", "self, hard", "dangling"]
SLOTS = ["id d1", "id d2", "id sysroot", "beside", "sub", "d1", "d2", "base d1", "base sysroot"]
SYSROOTS = ["none", "empty", "top", "top/"]
NAMINGS = ["real", "link to the file", "link to the folder"]
DIRS = ["d1", "d1:d2", "d1:d2:"]


class Case:
    """One folder. @states: what lies at each of SLOTS."""

    def __init__(self, pool, top, program, states, sysroot, naming, dirs):
        self.pool, self.top = pool, top
        binary, link_name = pool.programs[program]
        self.what = (program, dict(zip(SLOTS, states)), sysroot, naming, dirs)
        real = top / "usr/bin"
        real.mkdir(parents=True)
        os.symlink("usr/bin", top / "bin")  # the /usr merge
        self.binary = real / "x"
        shutil.copy(pool.work / binary, self.binary)
        if naming == "link to the file":
            (top / "other").mkdir()
            os.symlink(self.binary, top / "other/x")
        self.path = {"real": self.binary, "link to the file": top / "other/x", "link to the folder": top / "bin/x"}[naming]
        self.dirs = ":".join(str(top / d) if d else "" for d in dirs.split(":"))
        self.sysroot = {"none": None, "empty": "", "top": str(top), "top/": f"{top}/"}[sysroot]
        by_id = f".build-id/{pool.id[:2]}/{pool.id[2:]}.debug"
        below = str(real).lstrip("/")
        inner = top / str(top).lstrip("/")  # the debug directories below the sysroot
        places = [top / "d1" / by_id, top / "d2" / by_id, inner / "d1" / by_id, real / link_name, real / ".debug" / link_name,
                  top / "d1" / below / link_name, top / "d2" / below / link_name, top / "d1/usr/bin" / link_name,
                  inner / "d1/usr/bin" / link_name]
        for place, state in zip(places, states):
            self.put(place, state)

    def put(self, place, state):
        if state == "missing" or place == self.binary:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if state == "self":
            os.symlink(self.binary, place)
        elif state == "self, hard":
            os.link(self.binary, place)
        elif state == "dangling":
            os.symlink("nowhere", place)
        else:
            os.link(self.pool.work / state, place)

    def row(self):
        return {"path": str(self.path), "dirs": self.dirs, "sysroot": self.sysroot}


def combinations(pool):
    """Each place in each state while the others are missing, or right; then any of all combinations."""
    n = len(SLOTS)
    for program, sysroot, naming in itertools.product(pool.programs, SYSROOTS, NAMINGS):
        yield program, ["missing"] * n, sysroot, naming, "d1:d2"
    for program, slot, state, sysroot in itertools.product(pool.programs, range(n), STATES[1:], SYSROOTS[:3]):
        yield program, [state if i == slot else "missing" for i in range(n)], sysroot, "real", "d1:d2"
        if state != "x.debug":
            yield program, [state if i <= slot else "x.debug" for i in range(n)], sysroot, "real", "d1:d2"
    rng = random.Random(1)
    for _ in range(20000 if os.environ.get("LODE_ALL_CASES") else 1000):
        yield (rng.choice(list(pool.programs)), [rng.choice(STATES) if rng.random() < 0.6 else "missing" for _ in SLOTS], rng.choice(SYSROOTS),
               rng.choice(NAMINGS), rng.choice(DIRS))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return Pool(tmp_path_factory.mktemp("local") / "pool")


def check(cases, rows, theirs, ours, min_found):
    found = 0
    for case, row, them, (chosen, places) in zip(cases, rows, theirs, ours, strict=True):
        real = os.path.realpath(row["path"])
        want = them["separate"].get(real)
        if case.what[0] == "its own DWARF":
            assert chosen == real and want is None and places_of(them["said"]) == [], case.what
            continue
        assert (chosen and os.path.normpath(chosen)) == (want and os.path.normpath(want)), (case.what, them["said"])
        # gdb passes over the file itself without a word where a link leads to it by its own name.
        ours_tried, tried = ([q for q in map(os.path.realpath, places) if q != real] for places in (places, places_of(them["said"])))
        assert ours_tried == tried, (case.what, them["said"])
        found += want is not None
    assert found >= min_found


def test_choice_and_order_equal_gdbs(pool, tmp_path):
    rows = list(combinations(pool))
    if not os.environ.get("LODE_ALL_CASES"):
        rows = random.Random(2).sample(rows, SAMPLE)
    cases = [Case(pool, tmp_path / f"c{i}", *r) for i, r in enumerate(rows)]
    asked = [c.row() for c in cases]
    check(cases, asked, gdb(asked, tmp_path), lode(asked, "file"), SAMPLE // 4)


# ---- supplementary files ----

ALT_STATES = ["missing", "right", "other", "text", "no-id"]


class AltCase:
    """@states: at the link's own path, by build ID in d1 and d2, below .dwz of d1 and d2."""

    def __init__(self, work, top, states, relative):
        (top / "debug").mkdir(parents=True)
        self.what = (states, relative)
        # The path in the link is as long in every case: it is written over in place.
        old = (work / "alt.path").read_bytes()
        path = str(top / "d0/.dwz/sup").encode() if not relative else b"../d0/.dwz/sup"
        assert len(path) < len(old)
        data = (work / "a.absolute").read_bytes()
        assert data.count(old + b"\0") == 1
        # The build ID moves to right behind the shorter path; what is left is cut off by the section's size.
        self.path = top / "debug/a"
        link = path + b"\0" + bytes.fromhex((work / "alt.id").read_text())
        (top / "link").write_bytes(link)
        sh("objcopy", f"--update-section=.gnu_debugaltlink={top}/link", work / "a.absolute", self.path)
        self.dirs = f"{top}/d1:{top}/d2"
        self.sysroot = None
        by_id = (work / "alt.id").read_text()
        by_id = f".build-id/{by_id[:2]}/{by_id[2:]}.debug"
        self.places = [top / "d0/.dwz/sup", top / "d1" / by_id, top / "d2" / by_id, top / "d1/.dwz/sup", top / "d2/.dwz/sup"]
        for place, state in zip(self.places, states):
            if state != "missing":
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(work / f"sup.{state}", place)

    def row(self):
        return {"path": str(self.path), "dirs": self.dirs, "sysroot": None, "alt": True}


def test_supplementary_files_are_chosen_as_gdb_does(tmp_path):
    work = tmp_path / "w"
    work.mkdir()
    for name in "a", "b", "c", "d":
        (work / f"{name}.c").write_text("".join(f"struct a_type_of_some_length_{i} {{ int a_member_{i}; }} variable_{i};\n" for i in range(20)) +
                                        f"int only_{name}; int main(void) {{ return 0; }}\n")
        sh("gcc", "-g", "-Wl,--build-id=sha1", "-o", name, f"{name}.c", cwd=work)
    where = str(tmp_path / ("a long folder name, so that every other path is shorter" * 2))
    (work / "alt.path").write_text(where)
    sh("dwz", "-m", "sup.right", "-M", where, "a", "b", cwd=work)
    sh("dwz", "-m", "sup.other", "c", "d", cwd=work)
    sh("objcopy", "--remove-section=.note.gnu.build-id", "sup.right", "sup.no-id", cwd=work)
    (work / "sup.text").write_text("text")
    (work / "alt.id").write_text(build_id(work / "sup.right"))
    shutil.move(work / "a", work / "a.absolute")
    rows = list(itertools.product(itertools.product(ALT_STATES, repeat=5), (False, True)))
    rows = random.Random(3).sample(rows, len(rows) if os.environ.get("LODE_ALL_CASES") else 150)
    cases = [AltCase(work, tmp_path / f"c{i}", *r) for i, r in enumerate(rows)]
    asked = [c.row() for c in cases]
    found = 0
    for case, them, (chosen, _) in zip(cases, gdb(asked, tmp_path), lode(asked, "alt"), strict=True):
        # All that gdb holds open of this case beside the program itself.
        held = {os.path.realpath(p) for p in re.findall(r" (/\S+)", them["bfds"], re.M)} - {os.path.realpath(case.path)}
        want = [p for p in held if os.path.dirname(os.path.dirname(case.path)) + "/" in p]
        assert ([os.path.realpath(chosen)] if chosen else []) == want, (case.what, them)
        found += bool(chosen)
    assert found > 50


# ---- libraries: their names stay as the dynamic linker had them ----

LOADER = """
#include <dlfcn.h>
#include <stdio.h>
void all_loaded(void) {}
int main(int argc, char **argv) {
	char path[4096];
	FILE *f = fopen(LIST, "r");
	while (f && fscanf(f, "%4095s", path) == 1)
		if (!dlopen(path, RTLD_NOW))
			puts(dlerror());
	all_loaded();
	return 0;
}
"""


@pytest.mark.parametrize("sysroot", [None, "", "/"])
def test_libraries_keep_the_names_that_the_linker_has(tmp_path, sysroot):
    (tmp_path / "loader.c").write_text(LOADER)
    (tmp_path / "x.c").write_text("int x;\n")
    sh("gcc", "-g", f'-DLIST="{tmp_path}/list"', "-o", "loader", "loader.c", cwd=tmp_path)
    paths, dirs = [], f"{tmp_path}/d1"
    places = ["missing", "beside", "sub", "d1", "beside real", "sub real", "d1 real"]
    for i, (place, naming) in enumerate(itertools.product(places, ["real", "file", "relative file", "folder", "file in folder"])):
        top = tmp_path / f"c{i}"
        real, other = top / "usr/lib", top / "other"
        real.mkdir(parents=True)
        other.mkdir()
        os.symlink("usr/lib", top / "lib")
        sh("gcc", "-g", "-shared", "-Wl,--build-id=none", f"-DCASE={i}", "-o", real / "x.so.1", tmp_path / "x.c")
        sh("objcopy", "--only-keep-debug", real / "x.so.1", top / "x.debug")
        sh("strip", "-g", real / "x.so.1")
        sh("objcopy", f"--add-gnu-debuglink={top}/x.debug", real / "x.so.1")
        os.symlink(real / "x.so.1", other / "x.so.1")
        os.symlink("x.so.1", real / "x.so")
        named = {"real": real / "x.so.1", "file": other / "x.so.1", "relative file": real / "x.so", "folder": top / "lib/x.so.1",
                 "file in folder": top / "lib/x.so"}[naming]
        folder = real if place.endswith("real") else named.parent
        kind = place.split()[0]
        target = {"missing": None, "beside": folder, "sub": folder / ".debug", "d1": pathlib.Path(f"{dirs}/{folder}")}[kind]
        if target:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(top / "x.debug", target / "x.debug")
        paths.append(str(named))
    (tmp_path / "list").write_text("\n".join(paths))
    them = gdb([{"path": f"{tmp_path}/loader", "dirs": dirs, "sysroot": sysroot, "run": True}], tmp_path)[0]
    if not them["separate"]:
        pytest.skip(f"gdb cannot run a program here: {them['said'][-300:]}")
    asked = [{"path": p, "dirs": dirs, "sysroot": sysroot} for p in paths]
    theirs = {}
    for name, text in re.findall(r"^Looking for separate debug info \(debug link\) for (.*)\n((?:  .*\n|warning.*\n)*)", them["said"], re.M):
        # With a sysroot of "/" gdb puts it in front of the names.
        theirs.setdefault(name.replace("//", "/"), []).extend(map(os.path.normpath, places_of(text)))
    for path, (chosen, places) in zip(paths, lode(asked, "named"), strict=True):
        # A link within one folder makes gdb look there twice.
        once = [list(dict.fromkeys(map(os.path.normpath, tried))) for tried in (places, theirs[path])]
        assert once[0] == once[1], path
        separate = [f for name, f in them["separate"].items() if os.path.realpath(name) == os.path.realpath(path)]
        assert [chosen and os.path.realpath(chosen)] == (separate or [None]), path
    assert len(them["separate"]) > len(paths) // 2
