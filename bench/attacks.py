#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks that once hurt lode, repeated: what each costs the server now.

    bench/attacks.py [--lode FILE] [ATTACK...]

"reference" is what the same attack did to the version that was attacked first (ab2d0f7, two busy cores, 24 GiB), "target" what it may do at most, or what
has to work at least. The exit status is 1 if a target is missed. Work that starves other work is in bench/fair.py, memory by HTTP/2 in bench/limits.py.
"""

import argparse
import contextlib
import http.client
import json
import lzma
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import common
from common import CORPUS, ROOT, Server, Table, cpu_s

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from making import bomb, elf_of, zeros  # noqa: E402
from profiling import Answerer, Pprof, Taker, message, number, varint  # noqa: E402

MIB = 1 << 20
LAST = "Connection: close\r\nContent-Length: "


class World:
    """A server with a folder of its own, and the table."""

    def __init__(self, table, *args, upstream=None):
        self.table = table
        self.tmp = tempfile.TemporaryDirectory(prefix="bench-attacks-", dir=CORPUS)
        self.dir = pathlib.Path(self.tmp.name)
        self.pool = self.dir / "pool"
        self.pool.mkdir()
        self.args, self.upstream = args, upstream

    def __enter__(self):
        self.start()
        return self

    def start(self):
        self.s = Server("lode", [str(self.pool)], state=str(self.dir / "state"), extra=["--no-access-log", *self.args], upstream=self.upstream)
        self.s.wait_ready()
        self.s.wait_scanned()

    def __exit__(self, *args):
        self.s.stop()
        self.tmp.cleanup()

    def ask(self, method, path, body=None, headers=None, timeout=120):
        """(status, body); (0, b"") if there is no answer."""
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=timeout)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            c.close()

    def raw(self, text, receive=None):
        """A connection that has sent this."""
        k = socket.socket()
        if receive:
            k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        k.settimeout(60)
        k.connect(("127.0.0.1", self.s.port))
        k.sendall(text)
        return k

    def lives(self):
        return self.s.proc.poll() is None and self.ask("GET", "/healthz")[0] == 200

    def library(self, folder, name, text):
        """(the path, the build ID) of a library with debug information."""
        path, source = folder / f"{name}.so", self.dir / f"{name}.c"
        source.write_text(text)
        subprocess.run(["gcc", "-g", "-O2", "-shared", "-fPIC", "-Wl,--build-id", "-o", path, source], check=True)
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
        return path, re.search(r"Build ID: (\w+)", notes).group(1)

    def memory_mib(self, field="VmRSS"):
        text = pathlib.Path(f"/proc/{self.s.proc.pid}/status").read_text()
        return int(re.search(field + r":\s+(\d+) kB", text).group(1)) / 1024

    @contextlib.contextmanager
    def growth(self):
        """The peak of resident memory above that of before, in MiB, as the only entry of a list."""
        got, before = [], self.memory_mib()
        pathlib.Path(f"/proc/{self.s.proc.pid}/clear_refs").write_text("5")  # VmHWM begins anew
        yield got
        got.append(self.memory_mib("VmHWM") - before)

    def at_most(self, target, what, ours, unit="", before=None):
        self.table.add(what, ours, before, None, target, unit)
        self.table.missed += ours > target

    def at_least(self, target, what, ours, unit="", before=None):
        self.table.add(what, ours, before, None, target, unit)
        self.table.missed += ours < target


class Nothing(Answerer):
    """Another server, which has nothing; the paths that it was asked for are in the list of its class."""

    asked = None

    def do_GET(self):  # noqa: N802
        self.asked.append(self.path)
        self.answer(404, b"")

    do_HEAD = do_GET  # noqa: N815


@contextlib.contextmanager
def server_without_files():
    """(its URL, the paths that it is asked for)."""
    asked = []
    with Taker(type("Answers", (Nothing,), {"asked": asked})) as up:
        yield up.url, asked


def together(n, work):
    """The results of n threads at once."""
    got = [None] * n

    def run(i):
        got[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


# ---- files ----

def crafted_file(build_id):
    """Mini debug information is a relocatable file with five sections, and has symbols in sections of its outer file, which has 3 000."""
    strings = b"\0" + b"".join(b"f%d\0" % i for i in range(200))
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", strings.index(b"f%d\0" % i), 0x12, 0, 3 + i * 14, i * 16, 16) for i in range(200))
    inner = elf_of(1, build_id, [(".text", 1, 6, 0, 0, bytes(64)), (".symtab", 2, 0, 3, 24, symbols), (".strtab", 3, 0, 0, 0, strings)])
    code = [(f".text.{i}", 1, 6, 0, 0, b"\xc3" * 8) for i in range(2900)]
    return elf_of(3, build_id, [*code, (".gnu_debugdata", 1, 0, 0, 0, lzma.compress(inner))])


def crafted(table):
    """Files that wrote beyond the end of an array, pushed, asked for, named by a profile, and again after a restart."""
    with World(table, "--workers", "4") as w:
        ends = 0
        for i in range(4):
            build_id = bytes([i + 1]) * 20
            w.ask("PUT", f"/buildid/{build_id.hex()}/executable", crafted_file(build_id))
            w.ask("GET", f"/buildid/{build_id.hex()}/symbolize?addr=0x8&addr=0x40&timeout=10")
            w.ask("POST", "/profiles?service=x", Pprof(mapping=(0, 1 << 40, 0, "/bin/x", build_id.hex())).sample([0x1000, 0x1008], [1, 1]).bytes())
            time.sleep(1)
            if not w.lives():
                ends += 1
                with contextlib.suppress(SystemExit):
                    w.start()
        for _ in range(3):
            w.s.stop()
            with contextlib.suppress(SystemExit):
                w.start()
                time.sleep(1)
            ends += not w.lives()
        w.at_most(0, "crafted mini debug information, 4 files, 3 restarts: the server ended", ends, "times", 4)


def bombs(table):
    """Ten sections of 2 047 MiB each in 660 KB; likewise of 100 MiB, which are below the limit of a section."""
    for mib, before in ((2047, 21731), (100, 1409)):
        packed = zeros(mib)
        with World(table, "--workers", "4") as w, w.growth() as grown:
            began, cpu = time.monotonic(), cpu_s(w.s.proc.pid)

            def work(i, packed=packed, mib=mib, w=w):
                build_id = bytes([i + 1]) * 20
                body = bomb(mib, build_id, packed)
                return w.ask("PUT", f"/buildid/{build_id.hex()}/debuginfo", body), w.ask("GET", f"/buildid/{build_id.hex()}/symbolize?addr=0x1000&timeout=60")

            replies = together(4, work)
            took, cpu = time.monotonic() - began, cpu_s(w.s.proc.pid) - cpu
            answered = sum(get in (200, 202, 404, 422) for _, (get, _) in replies) if w.lives() else 0
        w.at_least(4, f"four files with ten sections that inflate to {mib} MiB each: answered", answered, "of 4")
        w.at_most(512, "  memory grew by", grown[0], "MiB", before)
        w.at_most(20, "  CPU", cpu, "s")
        w.at_most(60, "  time", took, "s")


def named_sources(table):
    """Files on disk whose debug information names files outside of the folders, also by a link."""
    with World(table) as w:
        secret = w.dir / "secret"
        secret.write_text("secret\n")
        (w.pool / "link.c").symlink_to(secret)
        ids = []
        for i, name in enumerate((secret, w.pool / "link.c", w.pool / ".." / "secret", "/etc/shadow", "/proc/self/environ", "/dev/zero")):
            ids.append((w.library(w.pool, f"l{i}", f'# 1 "{name}"\nint f{i}(void) {{ return {i}; }}\n')[1], name))
        w.s.stop()
        w.start()
        got = sum(w.ask("GET", f"/buildid/{i}/source{name}")[0] == 200 for i, name in ids)
        w.at_most(0, "sources outside of the folders, named by DWARF: served", got, f"of {len(ids)}", 5)


# ---- requests ----

def paths(table):
    """Paths that leave the folder of an upstream server by file://, and the base path of one by HTTP."""
    with tempfile.TemporaryDirectory(dir=CORPUS) as tmp, server_without_files() as (url, asked):
        base, the_id = pathlib.Path(tmp) / "a" / "b", "ab" * 20
        for kind in ("source", "section"):
            (base / "buildid" / the_id / kind).mkdir(parents=True)
        (pathlib.Path(tmp) / "secret").write_text("secret\n")
        forms = ["../" * n + "secret" for n in range(1, 9)]
        forms += [f.replace("..", "%2e%2e") for f in forms] + [f.replace("/", "%2f") for f in forms] + [f.replace("../", "..%5c") for f in forms]
        with World(table, upstream=f"file://{base},{url}/base") as w:
            got = 0
            for f in forms:
                for path in (f"/buildid/{the_id}/source/{f}", f"/buildid/{the_id}/section/{f}", f"/buildid/{f}"):
                    k = w.raw(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                    with contextlib.suppress(OSError):
                        reply = b""
                        while more := k.recv(65536):
                            reply += more
                        got += reply.startswith(b"HTTP/1.1 200") or b"secret\n" in reply.partition(b"\r\n\r\n")[2]
                    k.close()
            outside = sum(not p.startswith("/base/buildid/") or ".." in p.lower().replace("%2e", ".") for p in asked)
            w.at_most(0, f"paths that leave a folder or base path: served of {3 * len(forms)}", got, "files", 6)
            w.at_most(0, f"  questions outside of the base path, of {len(asked)}", outside, "", 30)


def names(table):
    """What a page under a foreign host name, a bare proxy and another user of this machine may do."""
    with World(table) as w:
        path, build_id = w.library(w.dir, "l", "int f(void) { return 1; }\n")
        body, put, profile = path.read_bytes(), f"/buildid/{build_id}/debuginfo", b"main;f 1\n"
        done = 0
        for host, more in (("evil.example", "Origin: http://evil.example\r\n"), ("localhost", "Origin: http://evil.example\r\n"),
                           ("localhost", "Sec-Fetch-Site: cross-site\r\n"), ("localhost", "X-Forwarded-For: 192.0.2.1\r\n"), ("localhost", "Via: 1.1 x\r\n"),
                           ("localhost", "X-Real-IP: 192.0.2.1\r\n"), ("localhost", None)):
            for method, path, content in (("PUT", put, body), ("DELETE", put, b""), ("POST", "/profiles?format=folded", profile)):
                version = "HTTP/1.0" if more is None else "HTTP/1.1"
                k = w.raw(f"{method} {path} {version}\r\nHost: {host}\r\n{more or ''}{LAST}{len(content)}\r\n\r\n".encode() + content)
                done += k.recv(64).split(b" ")[1:2] in ([b"200"], [b"201"], [b"202"])
                k.close()
        w.at_most(0, "foreign host names, pages of other sites, proxies: writes done", done, "of 21", 17)
        if os.getuid() == 0:
            pid = os.fork()
            if not pid:
                os.setuid(65534)
                k = w.raw(f"POST /profiles?format=folded HTTP/1.1\r\nHost: localhost\r\n{LAST}{len(profile)}\r\n\r\n".encode() + profile)
                os._exit(k.recv(64).split(b" ")[1] in (b"200", b"202"))
            w.at_most(0, "another user of the machine: writes done", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "of 1", 1)
        w.at_least(3, "the server's own user, by localhost: writes done", sum(w.ask(*x)[0] in (200, 201) for x in (
            ("PUT", put, body), ("DELETE", put), ("POST", "/profiles?format=folded", profile))), "of 3")


def held_replies(table):
    """Clients that ask for 200 000 addresses with inlined calls each and do not read."""
    with World(table, "--memory", "1G") as w:
        text = "".join(f"static inline __attribute__((always_inline)) int a_function_with_a_name_that_is_long_{i}(int x)\n"
                       f"{{\n\treturn {f'a_function_with_a_name_that_is_long_{i - 1}(x)' if i else 'x * 7'} + {i};\n}}\n" for i in range(8))
        path, build_id = w.library(w.pool, "l", text + "int f(int x)\n{\n\treturn a_function_with_a_name_that_is_long_7(x);\n}\n")
        w.s.stop()
        w.start()
        symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        at = int(re.search(r"(\w+) T f$", symbols, re.M).group(1), 16)
        body = json.dumps({"modules": [{"id": build_id}], "addresses": [[0, at]] * 200000}).encode()
        status, reply = w.ask("POST", "/symbolize", body)
        if status != 200:
            raise SystemExit(f"/symbolize: {status} {reply[:200]}")
        head = f"POST /symbolize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with w.growth() as grown:
            held = together(24, lambda i: w.raw(head + body, receive=4096))
            for k in held:
                with contextlib.suppress(OSError):
                    k.recv(300)
            began = time.monotonic()
            status = w.ask("GET", "/metadata?key=glob&value=/nothing")[0]
            waited = time.monotonic() - began
            lives = w.lives()
            for k in held:
                k.close()
        w.at_least(1, f"24 clients that do not read replies of {len(reply) / MIB:.0f} MiB (--memory 1G): the server lives",
                   int(lives and status == 200), "of 1", 1)
        w.at_most(1024, "  memory grew by", grown[0], "MiB", 6596)
        w.at_most(1000, "  /metadata meanwhile", 1e3 * waited, "ms")


def takes_a_byte(k):
    """Send one, and read what there is. False: the server has closed the connection."""
    try:
        k.send(b"x")
        while k.recv(4096):
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def slow_bodies(table):
    """2 000 bodies of which a byte comes now and then, half of them to a path that does not exist; --idle-timeout 5."""
    with World(table, "--idle-timeout", "5", "--max-connections", "8192", "--max-connections-per-ip", "0") as w:
        heads = [f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n".encode() for path in ("profiles", "nothing")]
        socks = [w.raw(heads[i % 2]) for i in range(2000)]
        for k in socks:
            k.setblocking(False)
        began, open_still = time.monotonic(), socks
        while open_still and time.monotonic() - began < 60:
            open_still = [k for k in open_still if takes_a_byte(k)]
            time.sleep(0.2)
        took = time.monotonic() - began
        for k in socks:
            k.close()
        w.at_most(0, "2 000 slow bodies, --idle-timeout 5: open after a minute", len(open_still), "", 2000)
        w.at_most(20, "  until all are closed", took, "s")
        w.at_least(1, "  the server answers", int(w.lives()), "of 1")


# ---- profiles ----

def series(table):
    """A sender that puts a new value into a label each time, until it is refused; then another sender."""
    with World(table, "--symbolize-interval", "0") as w:
        tokens = {}
        for name in ("hostile", "other"):
            out = subprocess.run([common.LODE, "token", "add", "--data", w.s.state, name, "--scope", "push"], capture_output=True, text=True, check=True).stdout
            tokens[name] = {"Authorization": "Bearer " + re.search(r"\S{30,}", out).group(0)}

        def body(i):
            p = Pprof(time_ms=int(time.time() * 1000) - 60000 + i, duration_ms=1000)
            for k in range(1000):
                p.sample(["main", "f"], [1, 1], labels=[("request", f"{i}-{k}")])
            return p.bytes()

        taken, status = 0, 200
        while status == 200 and taken < 120000:
            status, text = w.ask("POST", "/profiles?service=hostile", body(taken // 1000), tokens["hostile"])
            taken += 1000 * (status == 200)
        others = sum(w.ask("POST", "/profiles?service=other", body(10000 + i), tokens["other"])[0] == 200 for i in range(5))
        w.at_most(90000, f"label sets of one sender before it is refused ({status})", taken, "", 50000)
        w.at_least(5, "  another sender's 5 000 are taken after that", others, "of 5", 0)


def build_ids(table):
    """A profile of 100 000 build IDs that nobody has."""
    with server_without_files() as (url, asked), World(table, upstream=url) as w:
        n, strings = 100000, ["", "samples", "count"]
        out = [message(1, number(1, 1) + number(2, 2))]
        for i in range(1, n + 1):
            strings.append(f"{i:040x}")
            out.append(message(3, number(1, i) + number(2, i << 20) + number(3, (i << 20) + 65536) + number(6, len(strings) - 1)))
            out.append(message(4, number(1, i) + number(2, i) + number(3, (i << 20) + 16)))
            out.append(message(2, message(1, varint(i)) + message(2, varint(1))))
        out += [message(6, s.encode()) for s in strings]
        status, text = w.ask("POST", "/profiles?service=flood", b"".join(out))
        if status not in (200, 202):
            raise SystemExit(f"/profiles: {status} {text[:200]}")
        time.sleep(50)
        w.at_most(400, "100 000 made-up build IDs: questions to other servers in 50 s", len(asked), "", 31601)


ATTACKS = {f.__name__.replace("_", "-"): f for f in (crafted, bombs, named_sources, paths, names, held_replies, slow_bodies, series, build_ids)}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    a.add_argument("--lode", help="another build of lode")
    a = a.parse_args()
    common.LODE = a.lode or common.LODE
    table = Table()
    table.missed = 0
    for name in a.attacks or ATTACKS:
        ATTACKS[name](table)
    table.print()
    sys.exit(table.missed > 0)


if __name__ == "__main__":
    main()
