# SPDX-License-Identifier: Apache-2.0
"""The client and elfutils' client: one cache folder for both, the same library interface, debuginfod-find under its name."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import pytest

from conftest import LODE, Program, make_deb, tree_of

BUILD = pathlib.Path(LODE).parent
LIBRARY = pathlib.Path(os.environ.get("LODE_LIBDEBUGINFOD", str(BUILD / "lib" / "libdebuginfod.so.1")))
DEAD = "http://127.0.0.1:1"

# Otherwise the system's would be used.
assert LIBRARY.exists(), f"{LIBRARY} is not built"


@pytest.fixture
def packaged(serve, program, tmp_path):
    """A service whose package is the only place of the program's debug file and source."""
    pool = tmp_path / "pool"
    pool.mkdir()
    make_deb(tree_of(program, tmp_path / "root"), pool / "hello-dbgsym.deb", "zstd", [program.build_id])
    s = serve([pool]).scanned()
    shutil.rmtree(tmp_path / "root")
    return s


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "client-cache"


def environment(cache, url, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    return dict(env, DEBUGINFOD_URLS=url, DEBUGINFOD_CACHE_PATH=str(cache), HOME=str(cache.parent), TMPDIR=str(cache.parent), **more)


@pytest.fixture
def by_name(tmp_path):
    """A folder in which debuginfod-find is lode."""
    d = tmp_path / "bin"
    d.mkdir()
    (d / "debuginfod-find").symlink_to(LODE)
    return d


def ours(env, *args, **kw):
    return subprocess.run([LODE, "debuginfod-find", *args], env=env, capture_output=True, text=True, timeout=60, **kw)


def theirs(env, *args):
    return subprocess.run(["/usr/bin/debuginfod-find", *args], env=env, capture_output=True, text=True, timeout=60)


# ---- debuginfod-find ----

def test_programs_by_other_names_have_a_version(by_name):
    for option in ("-V", "--version"):
        r = subprocess.run([str(by_name / "debuginfod-find"), option], capture_output=True, text=True)
        assert (r.returncode, r.stdout.split()[0]) == (0, "lode"), r


def test_stdout_is_the_path_and_success_is_silent(packaged, program, cache, by_name):
    env = environment(cache, packaged.url)
    for argv in ([LODE, "debuginfod-find"], [str(by_name / "debuginfod-find")]):
        r = subprocess.run([*argv, "debuginfo", program.build_id], env=env, capture_output=True, text=True)
        assert (r.returncode, r.stderr) == (0, "")
        assert r.stdout == f"{cache}/{program.build_id}/debuginfo\n"
        assert pathlib.Path(r.stdout.rstrip("\n")).read_bytes() == program.debug.read_bytes()


def test_a_file_stands_for_its_build_id(packaged, program, cache):
    r = ours(environment(cache, packaged.url), "source", str(program.binary), program.source_path)
    assert r.returncode == 0, r.stderr
    assert pathlib.Path(r.stdout.strip()).read_bytes() == program.source.read_bytes()


def test_section_and_metadata(packaged, program, cache, tmp_path):
    env = environment(cache, packaged.url)
    r = ours(env, "section", program.build_id, ".debug_info")
    assert r.returncode == 0, r.stderr
    want = tmp_path / "want"
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.debug_info", "--set-section-flags", ".debug_info=alloc",
                    str(program.debug), str(want)], check=True)
    assert pathlib.Path(r.stdout.strip()).read_bytes() == want.read_bytes()
    r = ours(env, "metadata", "buildid", program.build_id)
    assert r.returncode == 0, r.stderr
    assert program.build_id in r.stdout and '"complete": true' in r.stdout


def test_verbose_tells_of_headers_and_url(packaged, program, cache):
    r = ours(environment(cache, packaged.url), "-v", "executable", program.build_id)
    assert r.returncode == 0
    assert re.search(r"^Progress \d+ / \d+$", r.stderr, re.M)
    assert "Headers:\n" in r.stderr and "X-DEBUGINFOD-SIZE" in r.stderr.upper()
    assert f"Downloaded from {packaged.url}/buildid/{program.build_id}/executable" in r.stderr


@pytest.mark.parametrize("args, text", [
    (["debuginfo", "abc"], "even number of digits"),
    (["debuginfo", "ab" * 85], "at most 168 digits"),
    (["debuginfo", "ABCD"], "lower-case hexadecimal"),
    (["debuginfo", "/etc/passwd"], "not an ELF file"),
    (["source", "abcd", "relative.c"], "absolute"),
    (["source", "abcd"], "absolute"),
    (["section", "abcd"], "section name"),
    (["nonsense", "abcd"], "the first argument"),
    (["metadata", "glob"], "a key"),
    (["debuginfo", "abcd"], "No such file or directory"),
])
def test_bad_arguments_get_a_message(packaged, cache, args, text):
    r = ours(environment(cache, packaged.url), *args)
    assert r.returncode == 1 and r.stdout == ""
    assert text in r.stderr


def test_without_servers_nothing_is_done(program, cache):
    entry = cache / program.build_id / "executable"
    entry.parent.mkdir(parents=True)
    shutil.copy(program.binary, entry)
    r = ours(environment(cache, ""), "executable", program.build_id)
    assert r.returncode == 1 and "Function not implemented" in r.stderr and "DEBUGINFOD_URLS" in r.stderr


def test_an_interrupt_ends_it_and_leaves_nothing(program, cache):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        p = subprocess.Popen([LODE, "debuginfod-find", "-v", "debuginfo", program.build_id], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment(cache, f"http://127.0.0.1:{silent.getsockname()[1]}"), text=True)
        assert p.stderr.readline().startswith("Progress")
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=30)
        assert p.returncode == 1 and out == ""
    assert [f for f in cache.rglob("*") if f.parent.name == program.build_id] == []


def test_many_processes_at_once(packaged, program, cache):
    env = environment(cache, packaged.url)
    procs = [subprocess.Popen([LODE, "debuginfod-find", "debuginfo", program.build_id], env=env, stdout=subprocess.PIPE, text=True)
             for _ in range(20)]
    paths = {p.communicate(timeout=60)[0] for p in procs}
    assert paths == {f"{cache}/{program.build_id}/debuginfo\n"}
    assert all(p.returncode == 0 for p in procs)
    assert {f.name for f in (cache / program.build_id).iterdir()} == {"debuginfo", "hdr-debuginfo"}


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can be mounted by root only")
def test_a_full_folder_has_a_spare_one(serve, tmp_path, cache):
    p = Program(tmp_path / "large")
    noise = tmp_path / "noise"
    noise.write_bytes(os.urandom(3_000_000))
    subprocess.run(["objcopy", "--add-section", f".noise={noise}", str(p.debug)], check=True)
    files = tmp_path / "files"
    files.mkdir()
    shutil.copy(p.debug, files)
    s = serve([files]).scanned()
    cache.mkdir()
    script = (f"mount -t tmpfs -o size=1m none '{cache}' && '{LODE}' debuginfod-find debuginfo {p.build_id} && "
              f"find '{cache}' -name 'debuginfo*'")
    r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=environment(cache, s.url), capture_output=True, text=True, timeout=60)
    if "mount" in r.stderr or "unshare" in r.stderr:
        pytest.skip(f"no mounts here: {r.stderr.strip()}")
    assert r.returncode == 0, r.stderr
    assert r.stdout == f"{tmp_path}/debuginfod_client-0/{p.build_id}/debuginfo\n"
    assert pathlib.Path(r.stdout.strip()).read_bytes() == p.debug.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can be somebody else")
def test_another_users_folder_has_a_spare_one(packaged, program, tmp_path):
    top = pathlib.Path(tempfile.mkdtemp(prefix="lode-client-"))
    try:
        top.chmod(0o755)
        cache, tmp = top / "cache", top / "tmp"
        cache.mkdir(mode=0o755)
        tmp.mkdir()
        tmp.chmod(0o777)
        lode = top / "lode"
        shutil.copy(LODE, lode)
        env = dict(environment(cache, packaged.url), TMPDIR=str(tmp))
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*other, "true"], capture_output=True).returncode != 0:
            pytest.skip("somebody else may run nothing here")
        argv = [*other, str(lode), "debuginfod-find", "-v", "debuginfo", program.build_id]
        for _ in range(2):
            r = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, cwd="/")
            assert r.returncode == 0, r.stderr
            assert r.stdout == f"{tmp}/debuginfod_client-65534/{program.build_id}/debuginfo\n"
        assert "Downloaded" not in r.stderr  # the second time it is cached
        assert list(cache.iterdir()) == []
    finally:
        shutil.rmtree(top)


# ---- one folder, two clients ----

WANTED = [("debuginfo", None), ("executable", None), ("source", "source"), ("section", ".debug_line"), ("section", ".text")]


@pytest.mark.parametrize("kind, name", WANTED)
@pytest.mark.parametrize("first, second", [(ours, theirs), (theirs, ours)], ids=["ours-theirs", "theirs-ours"])
def test_a_file_fetched_by_one_client_is_found_by_the_other(packaged, program, cache, kind, name, first, second):
    args = [kind, program.build_id, *([program.source_path if name == "source" else name] if name else [])]
    r = first(environment(cache, packaged.url), *args)
    assert r.returncode == 0, r.stderr
    content = pathlib.Path(r.stdout.strip()).read_bytes()
    packaged.stop()
    r = second(environment(cache, DEAD), *args)
    assert r.returncode == 0, r.stderr
    assert pathlib.Path(r.stdout.strip()).read_bytes() == content
    assert oct(pathlib.Path(r.stdout.strip()).stat().st_mode & 0o777) == "0o400"


@pytest.mark.parametrize("first, second", [(ours, theirs), (theirs, ours)], ids=["ours-theirs", "theirs-ours"])
@pytest.mark.parametrize("kind", ["debuginfo", "source"])
def test_a_negative_entry_is_valid_for_both(packaged, cache, kind, first, second):
    args = [kind, "abcd", *(["/none.c"] if kind == "source" else [])]
    asked = rf'http_requests_total{{type="{kind}"}} '
    assert first(environment(cache, packaged.url), *args).returncode == 1
    before = packaged.get("/metrics").body.decode()
    assert second(environment(cache, packaged.url), *args).returncode == 1
    after = packaged.get("/metrics").body.decode()
    counted = [[line for line in text.splitlines() if line.startswith(asked)] for text in (before, after)]
    assert counted[0] and counted[0] == counted[1]
    entries = [f for f in (cache / "abcd").iterdir()]
    assert entries and all(f.stat().st_size == 0 for f in entries)


# ---- the library ----

def symbols(path):
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(path)], capture_output=True, text=True, check=True)
    return {line.split()[2] for line in out.stdout.splitlines() if line.split()[1] == "T"}


def test_the_library_has_the_interface_and_nothing_else():
    assert symbols(LIBRARY) == {
        *(f"debuginfod_{n}@@ELFUTILS_0.178" for n in ("begin", "end", "find_debuginfo", "find_executable", "find_source", "set_progressfn")),
        *(f"debuginfod_{n}@@ELFUTILS_0.179" for n in ("set_user_data", "get_user_data", "get_url", "add_http_header")),
        "debuginfod_set_verbose_fd@@ELFUTILS_0.183",
        *(f"debuginfod_{n}@@ELFUTILS_0.188" for n in ("get_headers", "find_section")),
        "debuginfod_find_metadata@@ELFUTILS_0.192", "debuginfod_default_progressfn@@ELFUTILS_0.195"}
    dynamic = subprocess.run(["readelf", "-d", str(LIBRARY)], capture_output=True, text=True).stdout
    assert "soname: [libdebuginfod.so.1]" in dynamic


def test_the_library_has_all_that_elfutils_has():
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    m = re.search(r"libdebuginfod\.so\.1 .*=> (\S+)", found)
    assert m, "libdebuginfod1 is not installed"
    # extract_section is an inner function that 0.188 forgot to hide.
    assert symbols(m.group(1)) - {"extract_section"} <= symbols(LIBRARY)


PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)


class Library:
    def __init__(self):
        self.l = ctypes.CDLL(str(LIBRARY))
        self.l.debuginfod_begin.restype = ctypes.c_void_p
        for n in ("get_url", "get_headers"):
            getattr(self.l, f"debuginfod_{n}").restype = ctypes.c_char_p
            getattr(self.l, f"debuginfod_{n}").argtypes = [ctypes.c_void_p]
        self.l.debuginfod_end.argtypes = [ctypes.c_void_p]
        self.l.debuginfod_set_progressfn.argtypes = [ctypes.c_void_p, PROGRESS]
        self.l.debuginfod_add_http_header.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.l.debuginfod_find_debuginfo.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        self.l.debuginfod_find_source.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
                                                  ctypes.POINTER(ctypes.c_char_p)]
        self.c = self.l.debuginfod_begin()

    def debuginfo(self, build_id):
        path = ctypes.c_char_p()
        if isinstance(build_id, bytes):
            return self.l.debuginfod_find_debuginfo(self.c, build_id, len(build_id), ctypes.byref(path)), path.value
        return self.l.debuginfod_find_debuginfo(self.c, build_id.encode(), 0, ctypes.byref(path)), path.value

    def end(self):
        self.l.debuginfod_end(self.c)


@pytest.fixture
def library(cache, monkeypatch):
    for k in list(os.environ):
        if k.startswith("DEBUGINFOD_"):
            monkeypatch.delenv(k)
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(cache))
    monkeypatch.setenv("TMPDIR", str(cache.parent))
    lib = Library()
    yield lib
    lib.end()


def test_the_library_finds_by_bytes_and_by_text(library, packaged, program, cache, monkeypatch):
    assert library.debuginfo(program.build_id) == (-38, None)  # ENOSYS
    monkeypatch.setenv("DEBUGINFOD_URLS", packaged.url)  # as gdb does at run time
    for build_id in (bytes.fromhex(program.build_id), program.build_id):
        fd, path = library.debuginfo(build_id)
        assert fd >= 0 and path == f"{cache}/{program.build_id}/debuginfo".encode()
        assert os.read(fd, 10_000_000) == program.debug.read_bytes()
        os.close(fd)
        assert b"X-DEBUGINFOD-SIZE" in library.l.debuginfod_get_headers(library.c).upper()
    fd, path = library.debuginfo("abcd")
    assert (fd, path) == (-2, None)  # ENOENT
    for odd in ("abc", "ABCD", "ab" * 85, "", "xyz0", b"x" * 85):
        assert library.debuginfo(odd)[0] == -22, odd  # EINVAL
    assert library.l.debuginfod_add_http_header(library.c, b"nonsense") == -22
    assert library.l.debuginfod_add_http_header(library.c, b"X-A: b") == 0
    monkeypatch.delenv("DEBUGINFOD_URLS")
    assert library.debuginfo(program.build_id)[0] == -38


def test_headers_are_for_one_call_also_without_servers(library, faulty, monkeypatch):
    s = faulty({})
    add = library.l.debuginfod_add_http_header
    add(library.c, b"X-First: 1")
    assert library.debuginfo("ab" * 20) == (-38, None)
    monkeypatch.setenv("DEBUGINFOD_URLS", s.url)
    add(library.c, b"X-Second: 1")
    assert library.debuginfo("ab" * 20) == (-2, None)
    (head,) = s.requests()
    assert "X-Second: 1" in head and "X-First" not in head


def test_the_library_is_cancelled_before_the_first_byte(library, program, monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        calls = []

        @PROGRESS
        def progress(client, a, b):
            calls.append((a, b))
            return len(calls) == 5

        library.l.debuginfod_set_progressfn(library.c, progress)
        assert library.debuginfo(program.build_id) == (-2, None)
        assert calls == [(n, 0) for n in range(1, 6)]
        library.l.debuginfod_set_progressfn(library.c, PROGRESS())


def test_a_handle_per_thread(packaged, program, library, monkeypatch):
    monkeypatch.setenv("DEBUGINFOD_URLS", packaged.url)
    answers = []

    def work():
        lib = Library()
        for _ in range(5):
            fd, path = lib.debuginfo(program.build_id)
            answers.append(fd >= 0 and path is not None)
            os.close(fd)
        lib.end()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [True] * 40


def test_a_child_of_fork_has_connections_of_its_own(library, packaged, program, cache, monkeypatch):
    monkeypatch.setenv("DEBUGINFOD_URLS", packaged.url)
    assert library.debuginfo("abcd")[0] == -2
    pid = os.fork()
    if pid == 0:
        os._exit(0 if library.debuginfo(program.build_id)[0] >= 0 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    shutil.rmtree(cache)
    assert library.debuginfo(program.build_id)[0] >= 0


# ---- the programs that use it ----

@pytest.fixture
def alone(program, tmp_path):
    """The stripped program, without its debug file or source on this machine."""
    d = tmp_path / "alone"
    d.mkdir()
    shutil.copy(program.binary, d / "hello")
    shutil.rmtree(program.binary.parent)
    return d / "hello"


def on_our_library(cache, url, **more):
    return environment(cache, url, LD_LIBRARY_PATH=str(LIBRARY.parent), **more)


def test_gdb_on_our_library(packaged, program, alone, cache):
    r = subprocess.run(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex", "info line twice", "-ex", "list 5,7",
                        str(alone)], env=on_our_library(cache, packaged.url), capture_output=True, text=True, timeout=120,
                       stdin=subprocess.DEVNULL)
    assert "hello.c" in r.stdout and "the line to stop at" in r.stdout, r.stdout + r.stderr
    assert (cache / program.build_id / "hdr-debuginfo").exists()  # which Debian 12's own library does not write


def test_libdwfl_on_our_library(packaged, program, alone, cache):
    r = subprocess.run(["eu-addr2line", "-f", "-e", str(alone), "main"], env=on_our_library(cache, packaged.url), capture_output=True,
                       text=True, timeout=60)
    assert "hello.c" in r.stdout, r.stdout + r.stderr
    assert (cache / program.build_id / "hdr-debuginfo").exists()


def test_drgn_on_our_library(packaged, program, alone, cache, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import drgn, sys\n"
                      "prog = drgn.Program()\n"
                      "prog.set_pid(int(sys.argv[1]))\n"
                      "try:\n    prog.load_default_debug_info()\n"
                      "except drgn.MissingDebugInfoError:\n    pass\n"
                      "print('value', prog['hello_variable'].type_)\n")
    with open(tmp_path / "gdb.pid", "w") as f:
        stopped = subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "starti",
                                    "-ex", "python print('PID', gdb.selected_inferior().pid, flush=True)", "-ex", "shell sleep 30",
                                    str(alone)], stdout=subprocess.PIPE, stderr=f, text=True, stdin=subprocess.DEVNULL,
                                   env=environment(tmp_path / "other", ""))
    try:
        pid = None
        for line in stopped.stdout:
            m = re.match(r"PID (\d+)", line)
            if m:
                pid = m.group(1)
                break
        if not pid:
            pytest.skip("a program cannot be stopped here")
        r = subprocess.run(["/usr/bin/python3", str(script), pid], env=on_our_library(cache, packaged.url), capture_output=True, text=True,
                           timeout=60)
    finally:
        stopped.kill()
        stopped.wait()
    if "Operation not permitted" in r.stderr:
        pytest.skip("a program's memory cannot be read here")
    assert "value int" in r.stdout, r.stdout + r.stderr
    assert (cache / program.build_id / "hdr-debuginfo").exists()


def test_valgrind_runs_our_debuginfod_find(packaged, program, alone, cache, by_name):
    env = environment(cache, packaged.url)
    env["PATH"] = f"{by_name}:{env['PATH']}"
    r = subprocess.run(["valgrind", str(alone)], env=env, capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0, r.stderr
    assert (cache / program.build_id / "hdr-debuginfo").exists(), r.stderr


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_perf_on_our_library(packaged, program, alone, cache, tmp_path):
    options = subprocess.run(["perf", "version", "--build-options"], capture_output=True, text=True).stdout
    if not re.search(r"debuginfod: \[ *on *\]", options, re.I):
        pytest.skip("this perf was built without debuginfod")
    r = subprocess.run(["perf", "buildid-cache", "-v", "--debuginfod", "--add", str(alone)], capture_output=True, text=True, timeout=60,
                       env=on_our_library(cache, packaged.url))
    assert (cache / program.build_id / "hdr-debuginfo").exists(), r.stdout + r.stderr


def test_a_folder_of_apples_debug_information_is_named(cache, tmp_path):
    (tmp_path / "app.dSYM").mkdir()
    r = subprocess.run([LODE, "debuginfod-find", "debuginfo", tmp_path / "app.dSYM"], capture_output=True, text=True, env=environment(cache, DEAD))
    assert r.returncode == 1 and f"{tmp_path}/app.dSYM: a .dSYM folder" in r.stderr


def test_another_server_is_asked_in_spite_of_a_miss_of_others(packaged, s, program, cache):
    """The advice after a miss names another server: the note of the miss, ten minutes old at most, is not about that one."""
    env = environment(cache, "")
    find = [LODE, "find", program.build_id]
    assert subprocess.run(find, capture_output=True, text=True, env=environment(cache, s.url)).returncode == 1
    assert (cache / program.build_id / "debuginfo").stat().st_size == 0
    find.append("--server")
    assert subprocess.run([*find, s.url], capture_output=True, text=True, env=env).returncode == 1
    r = subprocess.run([*find, packaged.url], capture_output=True, text=True, env=env)
    assert r.returncode == 0, r.stderr
