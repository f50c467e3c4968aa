# SPDX-License-Identifier: Apache-2.0
"""A bucket that is far away."""

import os
import pathlib
import subprocess
import sys
import time

from common import ROOT, cpu_s, free_port

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import versitygw  # noqa: E402


class Far:
    """versitygw after the proxy; its bucket is a folder."""

    def __init__(self, work, delay, spread):
        self.gateway = versitygw.Versitygw(work)
        self.folder = self.gateway.folder / "bucket"
        port = free_port()
        self.proxy = subprocess.Popen([sys.executable, ROOT / "bench" / "_far.py", str(port), str(self.gateway.port), str(delay), str(spread)])
        os.environ.update(self.gateway.env(), AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{port}")
        time.sleep(0.5)

    def put(self, path, prefix):
        (self.folder / prefix).mkdir(parents=True, exist_ok=True)
        os.link(path, self.folder / prefix / pathlib.Path(path).name)
        return f"s3://bucket/{prefix}"

    def cpu(self):
        """CPU seconds of the bucket and of the proxy."""
        return cpu_s(self.gateway.proc.pid) + cpu_s(self.proxy.pid)

    def close(self):
        self.proxy.terminate()
        self.proxy.wait()
        self.gateway.close()
