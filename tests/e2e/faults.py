# SPDX-License-Identifier: Apache-2.0
"""Makes system calls of a service fail on files of its folder: tests/support/faults.c, preloaded."""

import errno
import mmap
import os
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARY = os.environ.get("LODE_FAULTS_LIBRARY", str(ROOT / "build" / "tests" / "support" / "libfaults.so"))
CALLS = {name: 1 << i for i, name in enumerate(("write", "sync", "rename", "link", "mmap", "truncate", "open", "read", "list"))}
HEAD = struct.Struct("=IIIIQQQ256s128s")


class Faults:
    """The control file of one or several processes started with `environment`."""

    def __init__(self, path, folder):
        self.path, self.folder = pathlib.Path(path), str(folder)
        self.path.write_bytes(bytes(4096))
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)
        self.off()

    @property
    def environment(self):
        assert os.path.exists(LIBRARY), f"{LIBRARY} is missing: nothing would fail"
        return {"LD_PRELOAD": LIBRARY, "LODE_FAULTS": str(self.path)}

    def on(self, calls, number=0, one_in=1, left=1 << 62, part="", seed=1):
        """Of one_in of these calls one fails with this errno (0: a random fault), until `left` have failed."""
        mask = sum(CALLS[c] for c in calls)
        number = getattr(errno, number) if isinstance(number, str) else number
        self.off()
        HEAD.pack_into(self.map, 0, 0, one_in, number, seed, *struct.unpack_from("=QQ", self.map, 16), left, self.folder.encode(),
                       part.encode())
        struct.pack_into("=I", self.map, 0, mask)

    def off(self):
        struct.pack_into("=I", self.map, 0, 0)

    @property
    def failed(self):
        return struct.unpack_from("=Q", self.map, 24)[0]

    @property
    def left(self):
        return struct.unpack_from("=Q", self.map, 32)[0]
