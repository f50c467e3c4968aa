# SPDX-License-Identifier: Apache-2.0
"""lode serve at a terminal: it shows a readable status, and its last line says where to look."""

import os
import pty
import re
import subprocess
import threading

import pytest

import conftest
from conftest import LODE, Program, Service, free_port
from profiling import Pprof, send


class Screen:
    """The lines of a terminal that knows no more than newline, carriage return, and "erase to the end of the line"."""

    def __init__(self):
        self.lines, self.at, self.raw = [""], 0, ""

    def write(self, text):
        self.raw += text
        for part in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+|\x1b", text):
            if part == "\n":
                self.lines.append("")
                self.at = 0
            elif part == "\r":
                self.at = 0
            elif part == "\x1b[K":
                self.lines[-1] = self.lines[-1][:self.at]
            else:
                line = self.lines[-1]
                self.lines[-1] = line[:self.at] + part + line[self.at + len(part):]
                self.at += len(part)

    def shown(self):
        return [line for line in self.lines if line]


class Terminal(Service):
    """A service whose stdout and stderr are a terminal."""

    def __init__(self, paths, data, args=()):
        self.screen = Screen()
        self.master, slave = pty.openpty()
        real, subprocess.Popen = subprocess.Popen, lambda argv, stdout, stderr, env: real(argv, stdin=slave, stdout=slave, stderr=slave, env=env)
        try:
            super().__init__(paths, data, args)
        finally:
            subprocess.Popen = real
        os.close(slave)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self.screen.write(data.decode())

    def sees(self, pattern, timeout=60):
        self.wait(lambda: any(re.search(pattern, line) for line in self.screen.shown()), f"{pattern} in {self.screen.shown()}", timeout)

    def stop(self, *args):
        status = super().stop(*args)
        self.reader.join(10)
        return status


@pytest.fixture
def terminal(tmp_path):
    made = []

    def start(paths, args=(), data=None):
        made.append(Terminal(paths, data or tmp_path / f"data{len(made)}", args))
        return made[-1]

    yield start
    for s in made:
        s.stop()
        os.close(s.master)


def packages(folder, n):
    folder.mkdir()
    root = conftest.tree_of(Program(folder.parent / "program"), folder.parent / "root")
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text("Package: x\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: x\n")
    subprocess.run(["dpkg-deb", "-b", str(root), str(folder / "p0.deb")], check=True, stdout=subprocess.DEVNULL)
    for i in range(1, n):
        (folder / f"p{i}.deb").write_bytes((folder / "p0.deb").read_bytes())
    return folder


def test_the_first_scan_and_where_to_look(terminal, tmp_path):
    s = terminal([packages(tmp_path / "debs", 10)])
    s.sees(r"^lode: look at ")
    lines = s.screen.shown()
    assert lines[0] == f"lode: listening at {s.url}/"
    assert lines[1] == f"lode: for gdb, perf and others: export DEBUGINFOD_URLS={s.url}"
    assert re.fullmatch(r"lode: the first scan is finished: 10 packages \([0-9.]+ kB\) in [0-9.]+ s", lines[2]), lines
    assert lines[3] == f"lode: look at {s.url}/ (Ctrl-C stops the service)" and len(lines) == 4, lines
    # No line a package or a request; with them gone the last line is still where to look.
    assert s.get("/healthz").status == 200 and s.get("/buildid/00/debuginfo").status in (400, 404)
    assert "build IDs" not in s.screen.raw and "healthz" not in s.screen.raw
    assert s.stop() == 0
    assert s.screen.shown()[-1].startswith("lode: stopping")


def test_progress_has_packages_rate_and_time_left(terminal, tmp_path):
    s = terminal([packages(tmp_path / "debs", 300)], args=["--scan-threads", "1"])
    s.sees(r"^lode: the first scan is finished: 300 packages")
    assert re.search(r"\[#* *\] \d+ of 300 packages, [0-9.]+ k?M?B of [0-9.]+ [kM]B", s.screen.raw), s.screen.raw[:2000]
    s.sees(r"^lode: look at ")
    assert len(s.screen.shown()) == 4, s.screen.shown()


def test_nothing_found(terminal, tmp_path):
    (tmp_path / "empty").mkdir()
    s = terminal([tmp_path / "empty"])
    s.sees(r"^lode: look at ")
    assert s.screen.shown()[2] == "lode: the first scan is finished: it found no ELF file and no package"


def test_failed_packages_are_named_up_to_a_few(terminal, tmp_path):
    folder = packages(tmp_path / "debs", 1)
    for i in range(12):
        (folder / f"bad{i}.deb").write_bytes((folder / "p0.deb").read_bytes()[:1000])
    s = terminal([folder])
    s.sees(r"^lode: look at ")
    lines = s.screen.shown()
    assert sum(bool(re.match(r"lode: scan: .*/bad\d+\.deb: .", line)) for line in lines) == 5, lines
    assert "lode: scan: more files failed; lode stat lists them all, with reasons" in lines
    assert any(line.endswith("; 12 failed, lode stat lists them") for line in lines), lines


@pytest.mark.slow
def test_pushes_and_new_services_are_a_line_each(terminal, tmp_path, program):
    (tmp_path / "empty").mkdir()
    s = terminal([tmp_path / "empty"])
    s.sees(r"^lode: look at ")
    subprocess.run([LODE, "push", str(program.debug), "--to", s.url], check=True, capture_output=True, timeout=60)
    s.sees(r"^lode: pushed: debuginfo of hello.debug, [0-9.]+ kB$")
    for value in (1, 2):
        send(s, Pprof(time_ms=1700000000000).sample(["f"], [value, 10]).bytes(), service="web")
    s.sees(r"^lode: first profile of service web$")
    assert s.screen.shown()[-1].startswith("lode: look at "), s.screen.shown()


def test_verbose_logs_every_event(terminal, tmp_path):
    s = terminal([packages(tmp_path / "debs", 2)], args=["-v"])
    s.sees(r"Z info  scan: .*p1\.deb: \d+ build IDs")
    s.ready().get("/healthz")
    s.sees(r"Z info  http: .*/healthz")
    assert not any(line.startswith("lode: look at") for line in s.screen.shown())


def test_without_a_terminal_every_event_is_a_line(serve, tmp_path):
    s = serve([packages(tmp_path / "debs", 2)]).scanned()
    s.wait(lambda: "/readyz" in s.log_path.read_text(), "access lines")
    log = s.log_path.read_text()
    assert log.count(" build IDs, ") == 2 and "info  scan: ready after" in log and "\x1b" not in log and "look at" not in log


def test_a_port_in_use(serve, tmp_path):
    s = serve([tmp_path / "none"]).ready()
    r = subprocess.run([LODE, "serve", "--no-upstream", "--listen", f"127.0.0.1:{s.port}", "--data", str(tmp_path / "other"), str(tmp_path / "none")],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1
    assert r.stderr.splitlines()[-1] == (f"lode: serve: listen on 127.0.0.1:{s.port}: Address already in use: another program listens there; "
                                         "stop it, or choose another port, as --listen localhost:8003")


def test_debuginfod_names_itself_and_its_own_options(serve, tmp_path):
    s = serve([tmp_path / "none"], command="debuginfod").ready()
    argv = [LODE, "debuginfod", "--listen-address", "127.0.0.1"]
    r = subprocess.run([*argv, "-p", str(s.port), "-d", str(tmp_path / "other")], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1
    assert r.stderr.splitlines()[-1] == (f"lode: debuginfod: listen on 127.0.0.1:{s.port}: Address already in use: another program listens there; "
                                         "stop it, or choose another port, as -p 8003")
    r = subprocess.run([*argv, "-p", str(free_port()), "-d", str(s.data)], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and re.fullmatch(r"lode: debuginfod: .*: another lode \(process \d+\) uses this data directory; "
                                              r"stop it, or choose another one by -d\n", r.stderr), r


def test_a_data_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    r = subprocess.run([LODE, "serve", "--no-upstream", "--listen", f"127.0.0.1:{free_port()}", "--data", str(tmp_path / "file" / "x")],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and re.fullmatch(r"lode: serve: .*/file.*: Not a directory; choose another data directory, as --data ~/lode\n", r.stderr), r


def test_all_addresses_are_localhost_for_this_machine(tmp_path):
    port = free_port()
    p = subprocess.Popen([LODE, "serve", "--no-upstream", "--listen", f":{port}", "--data", str(tmp_path / "data"), str(tmp_path / "none")],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines = [p.stdout.readline() for _ in range(2)]
    p.terminate()
    assert p.wait(30) == 0
    assert lines[1] == f"lode: for gdb, perf and others: export DEBUGINFOD_URLS=http://localhost:{port}\n", lines
