# SPDX-License-Identifier: Apache-2.0
"""lode agent: control groups and namespaces of containers."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import LODE
from sampling import CHAIN, Server, can_sample, compiled, folded, running, state_of, until  # noqa: F401


@pytest.fixture
def container_cgroup():
    """A control group with the name of a Docker container, and a function that starts a program in it."""
    group = next((p for p in map(pathlib.Path, ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (p / "cgroup.procs").exists()), None)
    if not group:
        pytest.skip("no control groups are mounted here")
    container = f"{os.getpid():064x}"
    folder = group / f"lode-test-{os.getpid()}" / f"docker-{container}.scope"
    try:
        folder.mkdir(parents=True)
    except OSError as e:
        pytest.skip(f"control groups cannot be made here: {e}")
    yield container, folder / "cgroup.procs"
    end = time.monotonic() + 10
    while (folder / "cgroup.procs").read_text().strip() and time.monotonic() < end:
        time.sleep(0.05)
    folder.rmdir()
    folder.parent.rmdir()


@pytest.mark.slow
def test_a_container_has_its_name(can_sample, tmp_path, running, container_cgroup):  # noqa: F811
    container, procs = container_cgroup
    program = compiled(tmp_path, "chain", CHAIN)
    state = tmp_path / "root/var/lib/docker/containers" / container
    state.mkdir(parents=True)
    (state / "config.v2.json").write_text(json.dumps({"Name": "/shop_web_1", "Config": {"Labels": {"com.docker.compose.service": "web"}}}))
    with Server() as server, subprocess.Popen(["/bin/sh", "-c", f"echo $$ > {procs} && exec {program} 60000"]) as load:
        try:
            running("--to", server.url, "--window", "1", "-F", "99", "--container-names", tmp_path / "root")
            until(lambda: any(b"shop_web_1" in p for _, p in server.got), "the name of the container")
            with_name = next(p for _, p in server.got if b"shop_web_1" in p)
            assert b"service" in with_name and container[:12].encode() not in with_name
            status = tmp_path / "state" / "status.json"
            until(lambda: status.exists() and json.loads(status.read_text())["containers_named"] == 1, "the number in the state")
        finally:
            load.kill()


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["agent", "program"])
def test_pid_namespaces(can_sample, tmp_path, inside):  # noqa: F811
    """An agent in a namespace with its program, and one outside of that of the program: numbers of processes differ."""
    program, out = compiled(tmp_path, "chain", CHAIN), tmp_path / "out.folded"
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespaces here")
    command = [LODE, "agent", "-o", out, "-F", "199", "--", program, "1500"]
    if inside == "agent":
        command = [*unshare, *command]
    else:
        command[-2:-2] = unshare
    r = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, env={**os.environ, "DEBUGINFOD_URLS": ""})
    assert r.returncode == 0, r.stderr
    total = sum(n for s, n in folded(out) if "burn_here" in s)
    good = sum(n for s, n in folded(out) if s[0] == "_start" and s.count("go_down") == 31)
    assert good >= 0.95 * total > 0, r.stderr
    if inside == "agent" and "by BPF" in r.stderr:
        assert "PID namespace" in r.stderr


# The chain, but each function has a large frame and saves registers: other rows at the same addresses.
OTHER = CHAIN.replace("int go_down(int n) {", "int go_down(int n) { volatile char large[5000]; large[n] = n;").replace(
    "void sort_all(void) {", "void sort_all(void) { volatile char large[9000]; large[7] = 1;")


@pytest.mark.slow
def test_a_file_in_several_containers_has_one_table(can_sample, tmp_path, running):  # noqa: F811
    """Two copies of a program share a table; another one that claims its build ID has its own, or its stacks would be cut."""
    programs = []
    for name, text in (("a", CHAIN), ("b", CHAIN), ("c", OTHER)):
        (tmp_path / name).mkdir()
        programs.append(compiled(tmp_path / name, "chain", text, "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567", "-ffile-prefix-map=%s=." % (tmp_path / name)))
    assert programs[0].read_bytes() == programs[1].read_bytes() != programs[2].read_bytes()
    with Server() as server:
        loads = [subprocess.Popen([p, "60000"]) for p in programs]
        try:
            process = running("--to", server.url, "--window", "1", "-F", "199", "--no-upload", "--relabel", "keep comm=chain")
            until(lambda: state_of(tmp_path).get("tables_shared", 0) >= 1 and len(server.got) >= 3, "a shared table and three windows")
        finally:
            for load in loads:
                load.kill()
                load.wait()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    rows = []
    for i, (_, text) in enumerate(server.got[1:]):
        (tmp_path / f"{i}.pb").write_bytes(text)
        out = subprocess.run([LODE, "profile", tmp_path / f"{i}.pb", "--output-format", "folded", "--quiet"], capture_output=True, text=True, check=True).stdout
        (tmp_path / f"{i}.folded").write_text(out)
        rows += folded(tmp_path / f"{i}.folded")
    deep = sum(n for s, n in rows if len(s) > 30 and not s[0].startswith("["))
    assert deep >= 0.9 * sum(n for _, n in rows) > 0, [s[:3] for s, _ in rows][:5]
