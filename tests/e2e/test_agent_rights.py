# SPDX-License-Identifier: Apache-2.0
"""lode agent: the capabilities of its unit, and the process without rights that parses files."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import LODE
from sampling import CHAIN, Server, can_sample, compiled, folded, running, state_of, until  # noqa: F401

CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"


def unit_list(key):
    line = next(x for x in (CONTRIB / "lode-agent.service.in").read_text().splitlines() if x.startswith(key + "="))
    return line.split("=", 1)[1].split()


def as_unit(capabilities, *args, launcher=()):
    """The agent as another user with these capabilities and no others, as systemd starts it."""
    listed = ",".join(["-all"] + ["+" + c.removeprefix("CAP_").lower() for c in capabilities])
    return subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs", "--inh-caps", listed, "--ambient-caps", listed,
                           "--bounding-set", listed, *launcher, LODE, "agent", *map(str, args)], capture_output=True, text=True, timeout=60)


def test_the_unit_and_the_daemonset_have_the_same_capabilities():
    capabilities = unit_list("AmbientCapabilities")
    assert capabilities == unit_list("CapabilityBoundingSet") and len(capabilities) == 4 and "CAP_SYS_ADMIN" not in capabilities
    manifest = (CONTRIB / "lode-agent.yaml").read_text()
    assert "add: [" + ", ".join(c.removeprefix("CAP_") for c in capabilities) + "]" in manifest
    assert "hostPID: true" in manifest and "privileged: false" in manifest
    # Calls that @system-service does not have, and the agent needs.
    assert {"bpf", "perf_event_open", "openat2", "seccomp", "process_vm_readv"} <= set(unit_list("SystemCallFilter"))


@pytest.mark.slow
def test_the_units_capabilities_are_enough_and_needed(can_sample, tmp_path):  # noqa: F811
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root can start a program with chosen capabilities, by setpriv")
    if not os.stat("/").st_mode & 0o001:
        pytest.skip("the root folder is closed to other users, so nothing can be opened without a capability")
    capabilities, out = unit_list("AmbientCapabilities"), tmp_path / "out"
    program = compiled(tmp_path, "chain", CHAIN)
    program.chmod(0o700)
    out.mkdir()
    os.chown(out, 65534, 65534)
    with subprocess.Popen([program, "60000"]) as load:
        try:
            r = as_unit(capabilities, "-o", out / "all.folded", "-F", "99", "--duration", "3")
            assert r.returncode == 0 and "by BPF" in r.stderr, r.stderr
            stacks = [s for s, _ in folded(out / "all.folded") if "burn_here" in s]
            assert stacks and any(s[0] == "_start" and s.count("go_down") == 31 for s in stacks), r.stderr
            r = as_unit([c for c in capabilities if c != "CAP_DAC_READ_SEARCH"], "-o", out / "less.folded", "-F", "99", "--duration", "2")
            assert r.returncode or not any("burn_here" in s for s, _ in folded(out / "less.folded")), "CAP_DAC_READ_SEARCH is not needed"
            r = as_unit([c for c in capabilities if c != "CAP_BPF"], "-o", out / "no.folded", "-F", "99", "--duration", "2", "--no-names")
            assert r.returncode or "by BPF" not in r.stderr, "CAP_BPF is not needed"
        finally:
            load.kill()


@pytest.fixture
def open_folder():
    """A folder that other users may read, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.slow
def test_short_programs_of_an_ordinary_user_have_stacks(open_folder):
    """They end before the agent reads them: only the kernel's records of mappings have them. Before, they were not in the profile."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root can become an ordinary user, by setpriv")
    if as_unit([], "--help").returncode:
        pytest.skip("the build folder is not open to other users")
    program, out = compiled(open_folder, "chain", CHAIN), open_folder / "out"
    out.mkdir()
    os.chown(out, 65534, 65534)
    r = as_unit([], "-o", out / "own.folded", "-F", "99", "--", "/bin/sh", "-c", f"for i in $(seq 30); do {program} 15; done")
    if "perf events: perf_event_open" in r.stderr:
        pytest.skip("perf events are not for ordinary users here")
    assert r.returncode == 0, r.stderr
    burnt = [(s, n) for s, n in folded(out / "own.folded") if "burn_here" in s]
    assert sum(n for _, n in burnt) >= 150e6, r.stderr
    # Functions of the kernel are not in the profile, so their names are not missing.
    assert "time in the kernel" not in r.stderr or "functions of the kernel" not in r.stderr, r.stderr
    assert "failed to load object 'lode'" in r.stderr or "failed to load" not in r.stderr, r.stderr
    assert sum(n for s, n in burnt if s[0] == "_start" and s.count("go_down") == 31) >= 0.9 * sum(n for _, n in burnt), burnt[:3]


def status_line(pid, key):
    return next(line.split()[1] for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(key + ":"))


@pytest.mark.slow
def test_files_are_parsed_by_a_process_without_rights(can_sample, tmp_path, running):  # noqa: F811
    """It crashes, and the next program is named all the same; neither it nor the agent can start programs."""
    first, second = compiled(tmp_path, "first", CHAIN), compiled(tmp_path, "second", CHAIN)
    with Server() as server:
        process = running("--to", server.url, "--window", "1", "-F", "99", "--no-upload")
        with subprocess.Popen([first, "60000"]) as load:
            until(lambda: state_of(tmp_path).get("parser_pid") and any(b"/first" in p for _, p in server.got), "the first program")
            load.kill()
        pid = state_of(tmp_path)["parser_pid"]
        assert status_line(pid, "CapPrm") == status_line(pid, "CapBnd") == "0" * 16 or os.geteuid()
        assert (status_line(pid, "Seccomp"), status_line(pid, "NoNewPrivs")) == ("2", "1")
        assert (status_line(process.pid, "Seccomp"), status_line(process.pid, "NoNewPrivs")) == ("2", "1")
        os.kill(pid, signal.SIGSEGV)
        with subprocess.Popen([second, "60000"]) as load:
            until(lambda: any(b"/second" in p for _, p in server.got), "the second program")
            until(lambda: state_of(tmp_path).get("parsers_failed") == 1, "the failure in the state")
            load.kill()
        assert state_of(tmp_path)["parser_pid"] not in (0, pid)
        shown = subprocess.run([LODE, "agent", "--status", "--state", tmp_path / "state"], capture_output=True, text=True).stdout
        assert "failed 1 times; the last time: its parser was ended by signal 11" in shown


@pytest.mark.slow
def test_a_file_without_a_parser_is_read_later(can_sample, tmp_path, running):  # noqa: F811
    """No process can be started for a while; a program that runs then, and runs on, is known afterwards."""
    program = compiled(tmp_path, "later", CHAIN)
    with Server() as server:
        running("--to", server.url, "--window", "1", "-F", "99", "--relabel", "keep comm=later")
        until(lambda: state_of(tmp_path).get("parser_pid"), "the parser")
        parser = state_of(tmp_path)["parser_pid"]
        starter = int(next(x for x in pathlib.Path(f"/proc/{parser}/status").read_text().splitlines() if x.startswith("PPid:")).split()[1])
        os.kill(starter, signal.SIGSTOP)
        try:
            os.kill(parser, signal.SIGKILL)
            load = subprocess.Popen([program, "60000"])
            until(lambda: server.got and state_of(tmp_path)["parsers_failed"] >= 2, "samples of the program, and failures to read its files")
            assert not any(b"/later" in p for _, p in server.got)
        finally:
            os.kill(starter, signal.SIGCONT)
        try:
            until(lambda: any(b"/later" in p for _, p in server.got), "the program's file")
        finally:
            load.kill()
            load.wait()


# Runs a program for which openat2() does not exist: systemd refuses it so for units with DynamicUser=, since a filter cannot see its flags.
WITHOUT_OPENAT2 = """
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(*code), code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 1;
	execv(argv[1], argv + 1);
	return 1;
}
"""


@pytest.mark.slow
def test_files_of_containers_are_opened_without_openat2(can_sample, tmp_path):  # noqa: F811
    """The program is in a file system that only its own mount namespace has, behind a symbolic link. Root would open it by its mapping."""
    if os.geteuid() or not shutil.which("setpriv") or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here, or no program with chosen capabilities, by setpriv")
    program, launcher, out = compiled(tmp_path, "chain", CHAIN), compiled(tmp_path, "without", WITHOUT_OPENAT2), tmp_path / "out" / "x.folded"
    (tmp_path / "inside").mkdir()
    out.parent.mkdir()
    os.chown(out.parent, 65534, 65534)
    inside = f"mount -t tmpfs none {tmp_path}/inside && cd {tmp_path}/inside && mkdir real && ln -s {tmp_path}/inside/real link && cp {program} real/hidden && exec {tmp_path}/inside/link/hidden 60000"
    with subprocess.Popen(["unshare", "-m", "--propagation", "private", "/bin/sh", "-c", inside]) as load:
        try:
            until(lambda: pathlib.Path(f"/proc/{load.pid}/comm").read_text() == "hidden\n", "the program")
            r = as_unit(unit_list("AmbientCapabilities"), "-o", out, "-F", "199", "--no-names", "--pid", load.pid, "--duration", "2", launcher=[launcher])
        finally:
            load.kill()
    assert r.returncode == 0, r.stderr
    rows = folded(out)
    assert sum(n for s, n in rows if len(s) > 30 and not s[0].startswith("[")) >= 0.95 * sum(n for _, n in rows) > 0, ([s[:3] for s, _ in rows][:5], r.stderr)
