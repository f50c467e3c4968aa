# SPDX-License-Identifier: Apache-2.0
"""Other servers with S3's API, for bench/engines.py: MinIO as a second opinion, s3s-fs as a server without conditions. The program is
on the PATH or in the cache folder of ./dev:

    go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
    cargo install s3s-fs --version 0.14.1 --features binary
"""

import os
import shutil
import time

import versitygw
from bucket import KEY_ID, SECRET


def program(name):
    """Its path, or None."""
    return shutil.which(name, path=os.pathsep.join([versitygw.CACHE, os.environ.get("PATH", "")]))


class Minio(versitygw.Versitygw):
    def command(self):
        return [program("minio"), "server", "--quiet", "--address", f"127.0.0.1:{self.port}", self.folder]

    def start(self):
        super().start()
        # The folder that is there is a bucket only if this server has made it.
        end = time.monotonic() + 60
        while (status := versitygw.request(self.port, "PUT", "")[0]) not in (200, 409):
            assert time.monotonic() < end, f"no bucket could be made: status {status}"
            time.sleep(0.2)


class S3sFs(versitygw.Versitygw):
    """It has a file for the facts of each object with the key in its name, in base64, so a key has at most 160 bytes: enough for packages,
    and too few for a store."""

    by_time = True

    def command(self):
        return [program("s3s-fs"), "--host", "127.0.0.1", "--port", str(self.port), "--access-key", KEY_ID, "--secret-key", SECRET, self.folder]


KINDS = {"minio": Minio, "s3s-fs": S3sFs}
