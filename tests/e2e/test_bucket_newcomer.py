# SPDX-License-Identifier: Apache-2.0
"""The path of docs/object-storage.md from an empty bucket to a line in gdb, command by command."""

import os
import re
import shutil
import signal
import subprocess

import pytest

import versitygw
from conftest import LODE, ROOT, free_port


def commands_of(section):
    """The indented lines below a heading of docs/object-storage.md."""
    text = (ROOT / "docs" / "object-storage.md").read_text()
    part = re.search(rf"^## {section}\n(.*?)^## ", text, re.M | re.S).group(1)
    return [line[4:] for line in part.split("\n") if line.startswith("    ")]


def can_be_downloaded(work):
    """Debian's archive has the debug package of the libc that is installed."""
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libc6"], capture_output=True, text=True).stdout
    r = subprocess.run(["apt-get", "download", "-q", f"libc6-dbg={version}"], cwd=work, capture_output=True, text=True, timeout=90)
    return r.returncode == 0


@pytest.mark.slow
def test_from_a_bucket_to_a_line_in_gdb(tmp_path):
    if not versitygw.PROGRAM.exists():
        pytest.skip(versitygw.WHY_NOT)
    if not shutil.which("gdb"):
        pytest.skip("no gdb")
    if not can_be_downloaded(tmp_path):
        pytest.skip("apt-get download has no libc6-dbg of the installed version")
    home, work, gateway, port = tmp_path / "home", tmp_path / "work", free_port(), free_port()
    (home / "go" / "bin").mkdir(parents=True)
    (home / "go" / "bin" / "versitygw").symlink_to(versitygw.PROGRAM)
    work.mkdir()
    lines = commands_of("From a bucket to a line in gdb")
    # Installed already; and this test does not share its ports and folder with other programs.
    assert lines[0].startswith(f"go install github.com/versity/versitygw/cmd/versitygw@v{versitygw.VERSION}")
    script = "\n".join(lines[1:]).replace("/tmp/buckets", str(tmp_path / "buckets")).replace("7070", str(gateway)).replace("8002", str(port))
    script = script.replace("lode serve", f"{LODE} serve --no-upstream --listen 127.0.0.1:{port} --data {tmp_path / 'data'}").replace("localhost", "127.0.0.1")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "DEBUGINFOD_", "LODE_", "XDG_"))}
    env.update(HOME=str(home), AWS_EC2_METADATA_DISABLED="true")
    with open(tmp_path / "out", "w") as out:
        shell = subprocess.Popen(["bash", "-c", f"set -e\n{script}"], cwd=work, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            status = shell.wait(100)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
    text = (tmp_path / "out").read_text()
    assert status == 0, text
    assert re.search(r'Line \d+ of "[^"]*ioputs\.c"', text), text
    # It came from nowhere else.
    assert not list(work.iterdir())
