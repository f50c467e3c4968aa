# SPDX-License-Identifier: Apache-2.0
"""Commands from the command line."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import zipfile

import pytest

from conftest import LODE, ROOT, build_id, make_deb, tree_of


def lode(*args):
    return subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=120)


def test_usage_is_two_and_says_where_help_is():
    for args in ([], ["no-such-command"], ["scan", "--no-such-option", "/"], ["inspect"]):
        r = lode(*args)
        assert r.returncode == 2 and "lode" in r.stderr, args


def commands():
    return re.findall(r"^  ([\w-]+) +\w", lode("help").stdout, re.M)


def test_every_option_is_in_its_man_page():
    described = set(commands()) - {"lode", "completion", "version", "help"}
    assert {"serve", "scan", "inspect", "stat", "debuginfod", "debuginfod-find", "agent", "store"} <= described
    for command in described:
        page = (ROOT / "docs" / "man" / f"lode-{command}.1").read_text()
        items = "\n".join(re.findall(r"^\.It (.*)$", page, re.M))
        for letter, option in re.findall(r"^ +(?:-(\w), )?--([a-z0-9-]+)", lode("help", command).stdout, re.M):
            assert re.search(rf"(?<![\w-])-{option}(?= |$)", items, re.M), (command, option)
            assert not letter or re.search(rf"Fl {letter}(?= |$)", items, re.M), (command, letter)


def test_man_pages_have_no_unknown_macros():
    """A sentence that begins with a point, as `.NET`, is a macro for groff, which leaves the line out."""
    for page in (ROOT / "docs" / "man").glob("*.1"):
        for line in page.read_text().splitlines():
            assert not line.startswith(".") or re.match(r'\.(\\"|[A-Z][a-z]( |$))', line), (page.name, line)


def test_man_pages_refer_to_all_commands():
    also = (ROOT / "docs" / "man" / "lode.1").read_text().split(".Sh SEE ALSO")[1]
    for page in (ROOT / "docs" / "man").glob("lode-*.1"):
        assert f".Xr {page.stem} 1" in also, page.stem


def test_completion_is_a_script():
    out = lode("completion", "bash").stdout
    assert subprocess.run(["bash", "-n"], input=out, text=True).returncode == 0
    assert "--listen" in out


def test_inspect_an_elf_file():
    out = json.loads(lode("inspect", "--json", "--sections", "/usr/bin/bash").stdout)
    assert out["build_id"] == build_id("/usr/bin/bash")
    assert ".text" in [s["name"] for s in out["sections"]]


def test_a_token_that_could_not_be_printed_is_reported(tmp_path):
    with open("/dev/full", "w") as full:
        # By lines, as on a terminal that was hung up.
        lines = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []
        for n, (args, by) in enumerate((([], []), (["--json"], []), ([], lines))):
            r = subprocess.run([*by, LODE, "token", "--data", tmp_path, *args, "add", f"ci{n}"], stdout=full, stderr=subprocess.PIPE, text=True)
            assert r.returncode == 1 and "remove the token and add it again" in r.stderr and "may push" not in r.stderr, r


def test_a_token_says_what_it_is_for(tmp_path):
    for scope, use in (("read", "$DEBUGINFOD_HEADERS_FILE"), ("push", "lode push --token-file"), ("read,admin", "lode push --token-file")):
        r = lode("token", "add", scope.replace(",", "-"), "--scope", scope, "--data", tmp_path)
        assert r.returncode == 0 and use in r.stderr and r.stdout.startswith("lode_"), r


def test_split_says_what_it_has_made(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-o", tmp_path / "app", tmp_path / "a.c"], check=True)
    r = lode("split", "-o", tmp_path / "out", tmp_path / "app")
    assert re.fullmatch(rf"{tmp_path}/out\.debug: [\d.]+ kB of debug information; the stripped file has [\d.]+ kB, before [\d.]+ kB\n", r.stdout), r


def test_split_does_not_replace_a_file_that_has_changed(tmp_path):
    """A linker has written it anew meanwhile."""
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "noise").write_bytes(os.urandom(48 << 20))
    folder = tmp_path / "build"
    folder.mkdir()
    app, new = folder / "app", tmp_path / "new"
    subprocess.run(["gcc", "-g", "-o", new, tmp_path / "a.c"], check=True)
    subprocess.run(["objcopy", "--add-section", f".debug_noise={tmp_path}/noise", new, app], check=True)
    content = new.read_bytes()
    with subprocess.Popen([LODE, "split", app], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        while not [f for f in folder.iterdir() if f != app]:
            assert p.poll() is None
        p.send_signal(signal.SIGSTOP)
        new.replace(app)
        p.send_signal(signal.SIGCONT)
        out, err = p.communicate(timeout=60)
    assert p.returncode == 1 and out == "" and "changed while it was split; no file was written" in err, (out, err)
    assert app.read_bytes() == content and list(folder.iterdir()) == [app]


def test_inspect_prints_names_with_a_nul(tmp_path):
    """Before, nothing was printed, with status 0; and --build-id said that there is none."""
    go, gnu = b"abc\0def/ghij", bytes(range(20))
    notes = struct.pack("<III", 4, len(go), 4) + b"Go\0\0" + go + struct.pack("<III", 4, len(gnu), 3) + b"GNU\0" + gnu
    names = b"\0.note.go.buildid\0.note.gnu.build-id\0.shstrtab\0"
    go_size = 16 + len(go)
    sections = [(0, 0, 0, 0, 0, 0), (1, 7, 2, 0x1000, 64, go_size), (18, 7, 2, 0x2000, 64 + go_size, len(notes) - go_size),
                (37, 3, 0, 0, 64 + len(notes), len(names))]
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, 64 + len(notes) + len(names), 0, 64, 56, 0, 64, 4, 3)
    (tmp_path / "x").write_bytes(head + notes + names + b"".join(struct.pack("<IIQQQQIIQQ", *s, 0, 0, 4, 0) for s in sections))
    r = lode("inspect", tmp_path / "x")
    assert r.returncode == 0 and gnu.hex() in r.stdout and "def/ghij" in r.stdout, (r.stdout, r.stderr)
    assert lode("inspect", "--build-id", tmp_path / "x").stdout == gnu.hex() + "\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="unwind tables are for x86-64")
def test_inspect_names_an_archive_that_is_no_package(program, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.apk", "w") as z:
        z.write(program.binary, "lib/x86_64/x.so")
    subprocess.run(["ar", "rc", tmp_path / "lib.a", program.binary], check=True)
    for name, content in (("x.apk", "a zip archive (APK, JAR)"), ("lib.a", "an archive of object files (ar)")):
        out = json.loads(lode("inspect", "--json", tmp_path / name).stdout)
        assert (out["kind"], out["content"]) == ("other", content)
        assert out["help"] == "name a member of it, as ARCHIVE:MEMBER or ARCHIVE!MEMBER"


def test_inspect_an_unwind_table(program):
    symbols = subprocess.run(["nm", program.debug], capture_output=True, text=True, check=True).stdout
    main = re.search(r"^([0-9a-f]+) T main$", symbols, re.M)[1]
    out = json.loads(lode("inspect", "--json", "--unwind-at", main, program.binary).stdout)
    assert ".eh_frame" in out["unwind_from"] and out["unwind_rows"] > 3 and out["unwind_bytes"] % 4096 == 0
    assert out["unwind_rule"] == "cfa=rsp+8 ra=cfa-8"
    out = json.loads(lode("inspect", "--json", "--unwind-at", "0xfffffff0", program.binary).stdout)
    assert out["unwind_rule"] == "none"
    assert "hexadecimal" in lode("inspect", "--unwind-at", "main", program.binary).stderr


def test_scan_and_stat(program, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    deb = make_deb(tree_of(program, tmp_path / "root"), pool / "hello.deb")
    r = lode("scan", "--json", "--data", tmp_path / "data", pool)
    assert r.returncode == 0, r.stderr
    assert json.loads(r.stdout)["packages"] == 1
    st = json.loads(lode("stat", "--json", "--data", tmp_path / "data").stdout)
    assert st["packages_scanned"] == 1 and st["build_ids"] >= 1 and st["failures"] == []
    members = json.loads(lode("inspect", "--json", "--members", deb).stdout)["members"]
    assert program.build_id in [m.get("build_id") for m in members]
    (pool / "cut.deb").write_bytes(deb.read_bytes()[:-100])
    r = lode("scan", "--data", tmp_path / "data", pool)
    assert r.returncode == 1 and "cut.deb" in r.stderr


def test_one_process_a_data_directory(serve, tmp_path):
    s = serve(["/usr/bin/true"]).ready()
    r = lode("scan", "--data", s.data, "/usr/bin/true")
    assert r.returncode == 1 and "another lode" in r.stderr


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_told(serve, sig):
    s = serve(["/usr/bin/true"]).ready()
    assert s.stop(sig) == 0


def test_threads_that_wait_for_background_work_have_the_usual_priority(serve):
    """They are joined at the end, one after another: with a low priority each would take long on a busy machine."""
    s = serve(["/usr/bin/true"]).ready()
    names = ["lode-check", "lode-check-db", "lode-groom", "lode-pack"]

    def threads():
        stats = [(task / "stat").read_text() for task in pathlib.Path(f"/proc/{s.proc.pid}/task").iterdir()]
        return sorted((t[t.index("(") + 1:t.rindex(")")], t[t.rindex(")"):].split()[17]) for t in stats)

    usual = str(os.getpriority(os.PRIO_PROCESS, 0))
    s.wait(lambda: [t for t in threads() if t[0] in names] == [(n, usual) for n in names], "the end of the first work")


def test_debuginfod_by_its_own_options(serve, program, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    make_deb(tree_of(program, tmp_path / "root"), pool / "hello.deb")
    s = serve([pool], data=tmp_path / "db.sqlite", command="debuginfod", args=["-vU", "-F", "-t0", "-g0", "-C4", "--fdcache-mbs=10"])
    s.wait(lambda: s.metric("ready") == 1, "ready")
    s.wait(lambda: s.metric('thread_work_total{role="traverse"}') == 1, "the first walk")
    s.wait(lambda: s.metric('thread_work_pending{role="scan"}') == 0 and s.metric('thread_busy{role="scan"}') == 0, "the scan")
    assert s.get(f"/buildid/{program.build_id}/debuginfo").body == program.debug.read_bytes()
    (pool / "hello.deb").unlink()
    s.proc.send_signal(signal.SIGUSR2)
    s.wait(lambda: s.get(f"/buildid/{program.build_id}/debuginfo").status == 404, "the groom")
    assert pathlib.Path(tmp_path / "db.sqlite").exists()


def test_a_path_without_a_kind_is_ignored_with_a_warning(serve, tmp_path):
    s = serve(["/usr/bin/true"], data=tmp_path / "db.sqlite", command="debuginfod").ready()
    assert "no PATH is scanned: give -F, -R, -U or -Z" in s.log_path.read_text()
    assert s.get(f"/buildid/{build_id('/usr/bin/true')}/executable").status == 404


def test_what_debuginfod_was_given_is_there_after_a_restart(serve, tmp_path):
    """Its folder is removed at the end only if it has nothing that cannot be made again."""
    empty, db, folder = tmp_path / "empty", tmp_path / "db.sqlite", tmp_path / "db.sqlite.lode"
    empty.mkdir()
    made = []

    def start():
        # With other servers it has a store.
        made.append(serve([empty], data=db, command="debuginfod", args=["-F"], extra={"DEBUGINFOD_URLS": "http://127.0.0.1:1"}))
        return made[-1]

    s = start().ready()
    assert s.stop() == 0 and not folder.exists()
    s = start().ready()
    r = subprocess.run([LODE, "push", "/usr/bin/true", "--to", s.url], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r
    # Another one, by mistake, does not start, and leaves the folder of this one alone.
    other = start()
    assert other.proc.wait(60) == 1 and "uses this data directory" in other.log_path.read_text()
    path = f"/buildid/{build_id('/usr/bin/true')}/executable"
    content = pathlib.Path("/usr/bin/true").read_bytes()
    assert s.get(path).body == content
    assert s.stop() == 0
    s = start().ready()
    assert s.get(path).body == content
    subprocess.run([LODE, "store", "--store", folder / "store", "rm", f"{build_id('/usr/bin/true')}/executable"], check=True, timeout=60)
    subprocess.run([LODE, "store", "--store", folder / "store", "gc"], check=True, timeout=60)
    token = subprocess.run([LODE, "token", "--data", folder, "add", "ci"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert token and s.stop() == 0 and (folder / "tokens").exists()


@pytest.mark.parametrize("closed", ([0], [1], [2], [0, 1, 2]))
def test_texts_of_a_closed_stream_are_in_no_file(tmp_path, closed):
    """The number of a closed descriptor is that of the next file that is opened."""
    r = subprocess.run([LODE, "token", "--data", tmp_path, "add", "ci"], capture_output=True, text=True, preexec_fn=lambda: [os.close(fd) for fd in closed])
    assert r.returncode == (1 if 1 in closed else 0), r
    assert ("could not be printed" in r.stderr) == (closed == [1]) and ("lode_" in r.stdout) == (1 not in closed), r
    texts = {f.name: f.read_text() for f in tmp_path.iterdir()}
    assert re.fullmatch(r"ci push \d+ [0-9a-f]{64}\n", texts.pop("tokens")) and set(texts.values()) == {""}, texts


def test_every_trap_has_tests_that_exist():
    """docs/traps.md has all 41 traps, and the tests that each names exist in that file."""
    tests = {}
    for path in (ROOT / "tests" / "unit").rglob("*.c"):
        for name in re.findall(r"cmocka_unit_test\w*\((\w+)", path.read_text()):
            tests.setdefault(name, []).append(str(path))
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"^def test_(\w+)", path.read_text(), re.M):
            tests.setdefault(name, []).append(str(path))
    rows = re.findall(r"^\| (\d+) \|[^|]*\|(.*)\|$", (ROOT / "docs" / "traps.md").read_text(), re.M)
    assert [int(n) for n, _ in rows] == list(range(1, 42))
    for n, text in rows:
        for part in text.split(";"):
            where, _, names = part.rpartition(": ")
            where = where.strip(" `")
            folder = where if "/" in where or where.endswith(".py") or (ROOT / "tests" / "unit" / where).is_dir() else f"symtab/{where}"
            for name in re.findall(r"\b[a-z]\w*_\w+", names):
                assert any(folder.removesuffix(".c") in path for path in tests.get(name, [])), (n, where, name)


@pytest.mark.parametrize("args", [["inspect", "/nonexistent"], ["serve", "--log-requests", "some"]])
def test_an_error_is_written_at_once(args):
    """A service's threads log lines meanwhile, which must not come into the middle. Each read of this pipe is one write."""
    reader, writer = os.pipe2(os.O_DIRECT)
    fcntl.fcntl(writer, 1031, 1 << 20)  # F_SETPIPE_SZ: many writes
    try:
        assert subprocess.run([LODE, *args], stderr=writer, stdout=subprocess.DEVNULL, timeout=60).returncode != 0
        line = os.read(reader, 4096)
    finally:
        os.close(reader)
        os.close(writer)
    assert line.startswith(f"lode: {args[0]}: ".encode()) and line.endswith(b"\n"), line
