# SPDX-License-Identifier: Apache-2.0
"""Parca's senders for bench/senders.py: its agent, parca-debuginfo, and a program of their libraries. Each uploads twice: to a URL, and by the stream Upload."""

import contextlib
import os
import shutil
import subprocess

from common import LODE, free_port
from _sending import NotRun, all_names_of, connection, go_program, run, wait_for
from _senders_otel import profile_machine

MODULES = [f"{m}@latest" for m in ("github.com/apache/arrow-go/v18", "google.golang.org/grpc", "google.golang.org/protobuf")]


class StreamServer:
    """A server that has no URL for uploads: HTTP is at a Unix socket alone. So InitiateUpload asks for the call Upload."""

    def __init__(self, folder):
        (folder / "empty").mkdir(parents=True)
        self.url, self.grpc = f"unix:{folder}/http", f"127.0.0.1:{free_port()}"
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen([LODE, "serve", "--listen", self.url, "--listen-grpc", self.grpc, "--data", folder / "state", "--no-upstream", folder / "empty"],
                                            stdout=log, stderr=log)

    def ready(self):
        with contextlib.suppress(OSError):
            return get(self.url, "/readyz")[0] == 200

    def __enter__(self):
        if not wait_for(self.ready):
            raise LookupError("the server at a Unix socket is not ready")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


def get(url, path):
    c = connection(url)
    c.request("GET", path)
    r = c.getresponse()
    return r.status, r.read()


def check_named(url, service, function):
    if not wait_for(lambda: function in all_names_of(url, service)):
        raise LookupError(f"{service}: {function} has no name at {url}")


# ---- grpc-go and arrow-go, the libraries of parca-agent ----

def parca_sender(work, url, seconds):
    program = go_program("parca", *MODULES, flags=("-ldflags=-B gobuildid",))
    run([program, (work / "grpc").read_text(), "url"])
    with StreamServer(work / "stream") as s:
        run([program, s.grpc, "stream"])
        check_named(s.url, "sender.parca", "main.burnParca")
    check_named(url, "sender.parca", "main.burnParca")
    return "sender.parca", "main.burnParca"


# ---- parca-debuginfo ----

SYMBOLS = "int burn_symbols(int n) { return n ? burn_symbols(n - 1) + n : 0; }\nint main(int n, char **v) { return burn_symbols(n); }\n"


def symbols_program(work):
    """The program, its build ID and an address in burn_symbols."""
    program = work / "sender-symbols"
    (work / "symbols.c").write_text(SYMBOLS)
    run(["cc", "-g", "-O0", "-Wl,--build-id", "-o", program, work / "symbols.c"])
    symbols = {fields[2]: int(fields[0], 16) for fields in (line.split() for line in run(["nm", program]).decode().splitlines()) if len(fields) == 3}
    notes = run(["readelf", "-n", program]).decode()
    return program, notes.split("Build ID: ")[1].split()[0], symbols["burn_symbols"] + 4


def parca_debuginfo_sender(work, url, seconds):
    """From $PARCA_DEBUGINFO. It sends the debug information of a file, and no profiles."""
    tool = os.environ.get("PARCA_DEBUGINFO") or shutil.which("parca-debuginfo")
    if not tool:
        raise NotRun("set PARCA_DEBUGINFO to the program of github.com/parca-dev/parca-debuginfo")
    program, build_id, address = symbols_program(work)
    run([tool, "extract", f"--output-dir={work / 'out'}", program])
    want = (work / "out" / f"{build_id}.debuginfo").read_bytes()
    with StreamServer(work / "stream") as s:
        for grpc, at, strategy in (((work / "grpc").read_text(), url, "SIGNED_URL"), (s.grpc, s.url, "GRPC")):
            out = run([tool, "upload", f"--store-address={grpc}", "--insecure", "--log-level=debug", program]).decode()
            if f"UPLOAD_STRATEGY_{strategy}" not in out or get(at, f"/buildid/{build_id}/debuginfo") != (200, want):
                raise LookupError(f"{strategy}: the file is not there as it was sent; {out[-200:]}")
            if b'"burn_symbols"' not in get(at, f"/buildid/{build_id}/symbolize?addr={address:#x}")[1]:
                raise LookupError(f"{strategy}: {address:#x} has no name")
            # It is not sent again.
            if "Skipping upload" not in run([tool, "upload", f"--store-address={grpc}", "--insecure", program]).decode():
                raise LookupError(f"{strategy}: the file was wanted again")
    return None, "burn_symbols"


# ---- parca-agent ----

def profile_by_agent(work, agent, url, grpc, seconds):
    work.mkdir(exist_ok=True)
    (work / "agent.yaml").write_text("relabel_configs: [{ source_labels: [__meta_process_executable_name], target_label: service_name }]\n")
    profile_machine(work, url, seconds, [agent, f"--remote-store-address={grpc}", "--remote-store-insecure", "--analytics-opt-out",
                                         f"--http-address=127.0.0.1:{free_port()}", f"--config-path={work / 'agent.yaml'}"],
                    'parca_agent:cpu:nanoseconds:cpu:nanoseconds:delta{comm="sender-burn"}')


def parca_agent_sender(work, url, seconds):
    """From $PARCA_AGENT. It uploads what its programs have of symbols."""
    agent = os.environ.get("PARCA_AGENT") or shutil.which("parca-agent")
    if not agent:
        raise NotRun("set PARCA_AGENT to the program of github.com/parca-dev/parca-agent")
    profile_by_agent(work, agent, url, (work / "grpc").read_text(), seconds)
    with StreamServer(work / "stream") as s:
        profile_by_agent(work / "again", agent, s.url, s.grpc, seconds)
    return "sender-burn", "burn_native"


SENDERS = {"parca": parca_sender, "parca-debuginfo": parca_debuginfo_sender, "parca-agent": parca_agent_sender}
