# SPDX-License-Identifier: Apache-2.0
"""A server that has just started: a build ID in a package that is still being read is waited for, not denied."""

import concurrent.futures
import contextlib
import http.client
import lzma
import os
import pathlib
import pty
import random
import select
import socket
import subprocess
import tarfile
import time

import pytest

from conftest import LODE
from making import debug_path, deb, elf, new_id, pool

ZEROS = 64 << 20
WHERE = "/proc/self/fdinfo"  # no file to scan


def slow_deb(build_id, debug, n_chunks=6, name="slow-dbg"):
    """A small package whose payload takes seconds to decode: zeros, then the debug file; it lists no build IDs."""
    head = tarfile.TarInfo("./zeros")
    head.size = n_chunks * ZEROS
    info = tarfile.TarInfo(debug_path(build_id))
    info.size = len(debug)
    end = info.tobuf(tarfile.GNU_FORMAT) + debug + bytes(-len(debug) % 512) + bytes(1024)
    zeros = lzma.compress(bytes(ZEROS), preset=0)
    return deb(lzma.compress(head.tobuf(tarfile.GNU_FORMAT)) + zeros * n_chunks + lzma.compress(end, preset=0), "xz", name=name)


def unread(s):
    return b"unread" in s.get("/readyz").body


def debuginfod_find(program, s, cache, build_id, extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("DEBUGINFOD_")}
    return subprocess.run([*program, "debuginfo", build_id], capture_output=True, text=True, timeout=100,
                          env={**env, "DEBUGINFOD_URLS": s.url, "DEBUGINFOD_CACHE_PATH": str(cache), **(extra or {})})


@pytest.mark.slow
def test_the_last_file_of_an_unread_package_is_served_at_once(serve, elf, pool, tmp_path):
    """By elfutils' client and by gdb, without asking again; an ID that is nowhere is missed when everything is read."""
    (pool / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug))
    s = serve([pool]).ready()
    assert unread(s)
    program = tmp_path / "program"
    program.write_bytes(elf.program)
    program.chmod(0o755)
    gdb = subprocess.Popen(["gdb", "-q", "-batch", "-nx", "-ex", "set debuginfod enabled on", "-ex", f"file {program}", "-ex", "info line main"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env={**os.environ, "DEBUGINFOD_URLS": s.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "gdb")})
    r = debuginfod_find(["/usr/bin/debuginfod-find"], s, tmp_path / "cache", elf.id)
    assert r.returncode == 0, r.stderr
    assert open(r.stdout.strip(), "rb").read() == elf.debug
    assert "Line" in gdb.communicate(timeout=100)[0]
    s.scanned()
    assert s.get("/readyz").body == b"ok\n"
    assert "everything is read" in s.log_path.read_text()
    missing = s.get(f"/buildid/{new_id('nowhere')}/debuginfo")
    assert missing.status == 404 and "X-LODE-UNREAD" not in missing.headers


@pytest.mark.slow
def test_elfutils_client_is_kept_waiting_beyond_its_own_patience(serve, elf, pool, tmp_path):
    """It gives up after 2 s without bytes here, as after 90 s by default; a redirect gives it another 2 s."""
    (pool / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug, 16))
    s = serve([pool], args=["--redirect-wait", "1"]).ready()
    assert unread(s)
    began = time.monotonic()
    r = debuginfod_find(["/usr/bin/debuginfod-find"], s, tmp_path / "cache", elf.id, {"DEBUGINFOD_TIMEOUT": "2", "DEBUGINFOD_RETRY_LIMIT": "0"})
    took = time.monotonic() - began
    assert r.returncode == 0, r.stderr
    assert open(r.stdout.strip(), "rb").read() == elf.debug
    assert took < 1.5 or "debuginfo 307" in s.log_path.read_text()
    # No other client is redirected.
    (tmp_path / "slow.deb").write_bytes(slow_deb(new_id("later"), elf.debug, 8, name="later-dbg"))
    (tmp_path / "slow.deb").rename(pool / "later.deb")
    s.wait(lambda: unread(s), "found")
    asked = s.get(f"/buildid/{new_id('nowhere')}/debuginfo", headers={"User-Agent": "elfutils/0.188", "X-LODE-UNREAD": "retry"})
    assert asked.status in (404, 503)


def on_terminal(argv, env):
    """Run it with a terminal as stderr. Returns status, stdout and the terminal's bytes."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=theirs, text=True, env=env) as p:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the program has ended
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        return p.wait(), p.stdout.read(), shown.decode()


def main_address(elf, tmp_path):
    (tmp_path / "main.debug").write_bytes(elf.debug)
    out = subprocess.run(["nm", str(tmp_path / "main.debug")], capture_output=True, text=True, check=True).stdout
    return "0x" + next(line.split()[0] for line in out.splitlines() if line.endswith(" T main"))


# It waits for less than a second in each request: half of the time after which a silent server has failed.
IMPATIENT = {"DEBUGINFOD_TIMEOUT": "2", "DEBUGINFOD_RETRY_LIMIT": "0"}


@pytest.mark.slow
@pytest.mark.parametrize("asks", ["debuginfod-find", "find", "symbolize"])
def test_our_client_gets_the_file_in_one_call_and_says_what_it_waits_for(serve, elf, pool, tmp_path, asks):
    (pool / "slow-dbg_1.deb").write_bytes(slow_deb(elf.id, elf.debug, 12))
    s = serve([pool]).ready()
    assert unread(s)
    env = {k: v for k, v in os.environ.items() if not k.startswith("DEBUGINFOD_")}
    env.update(IMPATIENT, DEBUGINFOD_URLS=s.url, DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"), LODE_CACHE=str(tmp_path / "tables"))
    (tmp_path / "program").write_bytes(elf.program)
    argv = {"debuginfod-find": [LODE, "debuginfod-find", "debuginfo", elf.id],
            "find": [LODE, "find", str(tmp_path / "program"), "--server", s.url],
            "symbolize": [LODE, "symbolize", "--server", s.url, "-b", elf.id, main_address(elf, tmp_path)]}[asks]
    began = time.monotonic()
    status, out, shown = on_terminal(argv, env)
    took = time.monotonic() - began
    assert status == 0, shown
    if asks == "symbolize":
        assert "main" in out and ".c:" in out, out
    else:
        assert open(out.strip(), "rb").read() == elf.debug
    if took > 3:
        assert "waiting for slow-dbg_1.deb (" in shown and f"to be read by {s.url[:20]}" in shown, shown[-400:]


@pytest.mark.slow
def test_our_client_waits_no_longer_than_it_is_told(serve, elf, pool, tmp_path):
    (pool / "slow-dbg_1.deb").write_bytes(slow_deb(elf.id, elf.debug, 12))
    s = serve([pool]).ready()
    began = time.monotonic()
    r = debuginfod_find([LODE, "debuginfod-find", "--unread-wait", "1"], s, tmp_path / "cache", elf.id)
    took = time.monotonic() - began
    if unread(s):
        assert r.returncode == 1 and "slow-dbg_1.deb" in r.stderr and took < 5, (r.stderr, took)
    s.scanned()
    # The miss was not remembered.
    assert debuginfod_find([LODE, "debuginfod-find"], s, tmp_path / "cache", elf.id).returncode == 0


@pytest.mark.slow
def test_a_server_before_one_that_is_reading_waits_without_a_worker(serve, elf, pool, tmp_path):
    """elfutils' client and ours, asking there, are served in one call; the upstream is not taken for broken meanwhile."""
    (pool / "slow-dbg_1.deb").write_bytes(slow_deb(elf.id, elf.debug, 16))
    other = new_id("other")
    (pool / "other.debug").write_bytes(elf.of(elf.debug, other))
    s = serve([pool]).ready()
    through = serve([WHERE], args=["--debuginfod-upstream-servers", s.url, "--redirect-wait", "1"]).ready()
    assert unread(s)
    with concurrent.futures.ThreadPoolExecutor() as others:
        theirs = others.submit(debuginfod_find, ["/usr/bin/debuginfod-find"], through, tmp_path / "theirs", elf.id,
                               {"DEBUGINFOD_TIMEOUT": "3", "DEBUGINFOD_RETRY_LIMIT": "0"})
        ours = others.submit(debuginfod_find, [LODE, "debuginfod-find", "-v"], through, tmp_path / "ours", elf.id, IMPATIENT)
        # More of them than there are workers, and fetches at once.
        waits = [others.submit(through.get, f"/buildid/{new_id(str(i))}/debuginfo", headers={"X-LODE-UNREAD": "retry", "X-LODE-WAIT": "1000"})
                 for i in range(40)]
        assert through.get(f"/buildid/{other}/debuginfo").status == 200
        for w in waits:
            w = w.result()
            if unread(s):
                assert w.status == 503 and w.headers["X-LODE-UNREAD"] == "waiting", (w.status, w.body)
        if unread(s):
            assert b'lode_upstream_breaker_open{server="%s"} 0' % s.url.encode() in through.get("/metrics").body
        for r in (theirs.result(), ours.result()):
            assert r.returncode == 0, r.stderr
            assert open(r.stdout.strip(), "rb").read() == elf.debug


def deep_niceness(s):
    """Of the threads that do deep passes; the kernel's word for it is the 17th after the name."""
    found = []
    for task in pathlib.Path(f"/proc/{s.proc.pid}/task").iterdir():
        name, rest = (task / "stat").read_text().rsplit(")", 1)
        if name.endswith("(scan-deep"):
            found.append(int(rest.split()[16]))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a thread that is nice needs a privilege to be less so")
def test_a_deep_pass_is_not_nice_while_a_request_waits(serve, elf, pool):
    (pool / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug, 16))
    s = serve([pool]).ready()
    usual = os.nice(0)
    assert unread(s) and set(deep_niceness(s)) == {usual + 5}
    with concurrent.futures.ThreadPoolExecutor() as others:
        answer = others.submit(s.get, f"/buildid/{elf.id}/debuginfo")
        s.wait(lambda: usual in deep_niceness(s) or answer.done(), "the request")
        assert unread(s) and usual in deep_niceness(s)
        assert answer.result().body == elf.debug
    s.scanned()
    s.wait(lambda: set(deep_niceness(s)) == {usual + 5}, "the end of the pass")


def large_deb(build_id, debug, name, n_zeros):
    """More than 64 MB of xz, which decode slowly enough: zeros after bytes that cannot be compressed."""
    noise = random.Random(name).randbytes(1 << 20)
    head = tarfile.TarInfo("./noise")
    n_noise = 66
    head.size = n_noise * len(noise) + n_zeros * ZEROS
    info = tarfile.TarInfo(debug_path(build_id))
    info.size = len(debug)
    end = info.tobuf(tarfile.GNU_FORMAT) + debug + bytes(-len(debug) % 512) + bytes(1024)
    parts = [lzma.compress(head.tobuf(tarfile.GNU_FORMAT)), lzma.compress(noise, preset=0) * n_noise,
             lzma.compress(bytes(ZEROS), preset=0) * n_zeros, lzma.compress(end, preset=0)]
    return deb(b"".join(parts), "xz", name=name)


def helpers(s):
    n = 0
    for task in pathlib.Path(f"/proc/{s.proc.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            n += (task / "comm").read_text().startswith("xz-scan")
    return n


@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() < 2, reason="one processor: one deep pass at a time")
def test_a_large_package_that_is_asked_for_has_helpers_beside_another(serve, elf, pool, tmp_path):
    other = new_id("other")
    (pool / "first-dbg_1.deb").write_bytes(large_deb(other, elf.of(elf.debug, other), "first-dbg", 40))
    (tmp_path / "second-dbg_1.deb").write_bytes(large_deb(elf.id, elf.debug, "second-dbg", 6))
    s = serve([pool]).ready()
    s.wait(lambda: helpers(s), "the first package")
    usual = max(helpers(s) for _ in range(20))
    (tmp_path / "second-dbg_1.deb").rename(pool / "second-dbg_1.deb")
    most = 0

    def more_helpers():
        nonlocal most
        most = max(most, helpers(s))
        return answer.done()

    with concurrent.futures.ThreadPoolExecutor() as others:
        answer = others.submit(s.get, f"/buildid/{elf.id}/debuginfo")
        s.wait(more_helpers, "the second package")
        assert answer.result().body == elf.debug
        assert most == 2 * usual or "first-dbg_1.deb: 1 build IDs" in s.log_path.read_text()


@pytest.mark.slow
def test_a_build_id_that_is_nowhere_waits_for_all_packages_only(serve, elf, pool):
    (pool / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug, 4))
    s = serve([pool]).ready()
    assert unread(s)
    missing = s.get(f"/buildid/{new_id('nowhere')}/debuginfo")
    assert missing.status == 404 and "X-LODE-UNREAD" not in missing.headers and not unread(s)


@pytest.mark.slow
def test_without_time_to_wait_the_miss_is_not_to_be_remembered(serve, elf, pool, tmp_path):
    s = serve([pool], args=["--unread-wait", "0"]).ready()
    through = serve([WHERE], args=["--debuginfod-upstream-servers", s.url, "--unread-wait", "0"]).ready()
    (tmp_path / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug, 16))
    (tmp_path / "slow.deb").rename(pool / "slow.deb")
    s.wait(lambda: unread(s), "found")
    path = f"/buildid/{elf.id}/debuginfo"
    asked = s.get(path, headers={"User-Agent": "gdb"})
    assert asked.status == 404 and asked.headers["Cache-Control"] == "no-store" and asked.headers["X-LODE-UNREAD"] == "1"
    for headers in ({"X-LODE-UNREAD": "retry"}, {"User-Agent": "lode/1"}):
        asked = s.get(path, headers=headers)
        assert asked.status == 503 and asked.headers["Retry-After"] and asked.headers["X-LODE-UNREAD"] == "1"
    # Another server that asks this one, and our client, remember nothing.
    asked = through.get(path, headers={"User-Agent": "gdb"})
    assert asked.status == 404 and asked.headers["X-LODE-UNREAD"] == "1", asked.body
    r = debuginfod_find([LODE, "debuginfod-find", "--unread-wait", "0"], s, tmp_path / "cache", elf.id)
    assert r.returncode == 1
    assert unread(s)
    s.scanned()
    assert s.get(path).body == elf.debug
    through.wait(lambda: through.get(path).status == 200, "asked again")
    r = debuginfod_find([LODE, "debuginfod-find"], s, tmp_path / "cache", elf.id)
    assert r.returncode == 0, r.stderr


def ask_from(s, address, build_id):
    """A request of a client with this address; its status."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=100, source_address=(address, 0))
    try:
        c.request("GET", f"/buildid/{build_id}/debuginfo", headers={"X-LODE-UNREAD": "retry"})
        return c.getresponse().status
    finally:
        c.close()


@pytest.mark.slow
def test_a_client_gets_a_place_of_one_that_has_more_waits(serve, elf, pool):
    """Of four places each of the first two clients has half. A third and a fourth one take one from each of them."""
    (pool / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug, 16))
    s = serve([pool], args=["--unread-waiters", "4"]).ready()
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        first = {}
        for address in ("127.0.0.2", "127.0.0.3"):
            asked = [threads.submit(ask_from, s, address, new_id(f"{address} {i}")) for i in range(3)]
            refused, waiting = concurrent.futures.wait(asked, 60, concurrent.futures.FIRST_COMPLETED)
            assert unread(s) and [f.result() for f in refused] == [503]
            first.update(dict.fromkeys(waiting, address))
        later = []
        for address in ("127.0.0.4", "127.0.0.5"):
            later.append(threads.submit(ask_from, s, address, elf.id if later else new_id("another")))
            gone, _ = concurrent.futures.wait([*first, *later], 60, concurrent.futures.FIRST_COMPLETED)
            assert unread(s) and [f.result() for f in gone] == [503] and gone <= set(first)
            for f in gone:
                del first[f]
        assert sorted(first.values()) == ["127.0.0.2", "127.0.0.3"]
        assert [f.result() for f in later] == [404, 200]
        assert {f.result() for f in first} == {404}


@pytest.mark.slow
def test_waits_of_clients_that_hung_up_keep_no_places(serve, elf, pool):
    (pool / "slow.deb").write_bytes(slow_deb(elf.id, elf.debug, 16))
    s = serve([pool], args=["--unread-waiters", "4"]).ready()
    for i in range(8):
        with contextlib.ExitStack() as stack:
            asked = [stack.enter_context(socket.create_connection(("127.0.0.1", s.port), source_address=(f"127.0.1.{i + 1}", 0)))
                     for _ in range(3)]
            for n, c in enumerate(asked):
                c.sendall(f"GET /buildid/{new_id(f'{i} {n}')}/debuginfo HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            # One is refused, so the others wait.
            assert select.select(asked, [], [], 60)[0]
    status = 0
    while unread(s) and status != 200:
        status = ask_from(s, "127.0.0.2", elf.id)
    assert status == 200
