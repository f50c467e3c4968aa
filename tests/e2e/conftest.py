# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a lode service on loopback with its own data directory, and small programs and packages for it."""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from browser import Browser
from faulty import Faulty

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LODE = os.environ.get("LODE", str(ROOT / "build" / "lode"))
# No test sends these to a service.
CRASHES = {-s: s.name for s in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP)}


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than two seconds, so `./dev test quick` leaves it out")


def slow_but(quick, values):
    """Parameters of a test that `./dev test quick` makes with the values of @quick only."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()


class Service:
    def __init__(self, paths, data, args=(), command="serve", extra=None):
        self.data = pathlib.Path(data)
        self.port = free_port()
        self.log_path = self.data.parent / (self.data.name + ".log")
        if command == "serve" and not paths:
            # Without a path it would scan the folders of this machine, which takes minutes if they are large and busy.
            paths = [self.data.parent / "nothing to scan"]
            paths[0].mkdir(parents=True, exist_ok=True)
        if command == "serve":
            argv = [LODE, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data), "--no-upstream"]
        else:
            argv = [LODE, "debuginfod", "-p", str(self.port), "--listen-address", "127.0.0.1", "-d", str(self.data)]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
        env.update(extra or {})
        self.log = open(self.log_path, "ab")
        self.proc = subprocess.Popen([*argv, *args, *map(str, paths)], stdout=self.log, stderr=self.log, env=env)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def get(self, path, method="GET", headers=None, timeout=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, headers=headers or {})
            return Reply(c.getresponse())
        finally:
            c.close()

    def metric(self, pattern):
        m = re.search(rf"^{pattern} (\S+)$", self.get("/metrics").body.decode(), re.M)
        return float(m.group(1)) if m else None

    def wait(self, condition, what, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise AssertionError(f"ended with {self.proc.returncode}:\n{self.log_path.read_text()[-4000:]}")
            try:
                if condition():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        raise AssertionError(f"{what}: not after {timeout} s:\n{self.log_path.read_text()[-4000:]}")

    def ready(self):
        self.wait(lambda: self.get("/readyz").status == 200, "ready")
        return self

    def scanned(self):
        self.ready()
        self.wait(lambda: self.metric("lode_scan_idle") == 1, "scanned")
        return self

    def stop(self, sig=signal.SIGTERM):
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
            try:
                self.proc.wait(30)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.log.close()
        return self.proc.returncode


@pytest.fixture(scope="session")
def chromium():
    b = Browser()
    yield b
    b.close()


@pytest.fixture
def serve(tmp_path):
    """serve([path...], args=[...]) -> Service; all services are stopped at the end."""
    made = []

    def start(paths, data=None, args=(), command="serve", extra=None):
        s = Service(paths, data or tmp_path / f"data{len(made)}", args, command, extra)
        made.append(s)
        return s

    yield start
    ends = [s.stop() for s in made]
    # The tests alone might pass: the client of a crash sees a connection that ends. "./dev test" looks for these words.
    crashes = [f"lode was ended by {CRASHES[end]} (log: {s.log_path})" for s, end in zip(made, ends) if end in CRASHES]
    assert not crashes, crashes


@pytest.fixture
def s(serve, tmp_path):
    """A service with an empty folder."""
    (tmp_path / "empty").mkdir()
    return serve([tmp_path / "empty"]).ready()


def build_id(path):
    out = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", out).group(1)


PROGRAM = """
#include <stdio.h>

static int twice(int n)
{
	return 2 * n; /* the line to stop at */
}

int main(int argc, char **argv)
{
	printf("%d\\n", twice(argc + 20));
	return 0;
}
"""


class Program:
    """A small program: stripped binary, debug file, source, and the path of the source in its DWARF."""

    def __init__(self, work, name="hello", flags=("-g", "-O0"), source_dir="/usr/src/debug/hello-1.0"):
        self.name, self.source_path = name, f"{source_dir}/{name}.c"
        work.mkdir(parents=True, exist_ok=True)
        self.source = work / f"{name}.c"
        self.source.write_text(PROGRAM + f"/* {name} */\nint {name}_variable = 1;\n")
        self.binary, self.debug = work / name, work / f"{name}.debug"
        subprocess.run(["gcc", *flags, "-Wl,--build-id=sha1", f"-ffile-prefix-map={work}={source_dir}", "-o", str(self.binary),
                        f"{name}.c"], cwd=work, check=True)
        subprocess.run(["objcopy", "--only-keep-debug", str(self.binary), str(self.debug)], check=True)
        subprocess.run(["strip", "-g", str(self.binary)], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={self.debug}", str(self.binary)], check=True)
        self.build_id = build_id(self.binary)


@pytest.fixture
def faulty():
    """Start servers that misbehave (faulty.py); all are stopped at the end."""
    made = []

    def start(*args, **kw):
        made.append(Faulty(*args, **kw))
        return made[-1]

    yield start
    for f in made:
        f.stop()


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path / "program")


def tree_of(program, root):
    """Make the tree of a package with the program: binary, debug file under .build-id, source."""
    for src, dst in ((program.binary, f"usr/bin/{program.name}"),
                     (program.debug, f"usr/lib/debug/.build-id/{program.build_id[:2]}/{program.build_id[2:]}.debug"),
                     (program.source, program.source_path.lstrip("/"))):
        (root / dst).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(src, root / dst)
    return root


def make_deb(root, out, compression="xz", build_ids=()):
    control = root / "DEBIAN"
    control.mkdir(exist_ok=True)
    text = f"Package: {out.stem}\nVersion: 1.0\nArchitecture: amd64\nMaintainer: nobody <nobody@localhost>\nDescription: test\n"
    if build_ids:
        text += f"Build-Ids: {' '.join(build_ids)}\n"
    (control / "control").write_text(text)
    subprocess.run(["dpkg-deb", "--root-owner-group", f"-Z{compression}", "-b", str(root), str(out)], check=True,
                   stdout=subprocess.DEVNULL)
    shutil.rmtree(control)
    return out


def make_rpm(root, out_dir, work, payload):
    work.mkdir(parents=True, exist_ok=True)
    spec = work / "p.spec"
    files = "\n".join(f"/{p.relative_to(root)}" for p in sorted(root.rglob("*")) if not p.is_dir())
    spec.write_text("Name: hello\nVersion: 1\nRelease: 1\nSummary: s\nLicense: x\nAutoReqProv: no\n%global _build_id_links none\n"
                    "%global __os_install_post %{nil}\n%global debug_package %{nil}\n%description\nd\n"
                    f"%install\nmkdir -p %{{buildroot}}\ncp -a {root}/. %{{buildroot}}/\n%files\n{files}\n")
    subprocess.run(["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {work}", "--define", f"_binary_payload {payload}", str(spec)],
                   check=True, capture_output=True)
    made = next(work.glob("RPMS/*/*.rpm"))
    out = out_dir / f"hello-{payload.replace('.', '-')}.rpm"
    shutil.move(str(made), out)
    return out
