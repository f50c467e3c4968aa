#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py FOLDER OBJCOPY SOURCE... -- CC...: make the program that `lode demo` profiles, as it would be installed: FOLDER/demo-shop
stripped, demo-shop.debug beside it, and demo-shop.tar with its sources. This script compiles it, not Meson, so that it is the same in
all builds: optimised, with frame pointers, without sanitizers."""
import os
import subprocess
import sys
import tarfile

WHERE = "/usr/src/lode-demo"  # the folder of the sources in the debug information

at = sys.argv.index("--")
folder, objcopy, *sources = sys.argv[1:at]
cc = sys.argv[at + 1:]
folder, sources = os.path.abspath(folder), [os.path.abspath(s) for s in sources]
here = os.path.dirname(sources[0])
whole, out = os.path.join(folder, "demo-shop.whole"), os.path.join(folder, "demo-shop")

subprocess.run([*cc, "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-gno-record-gcc-switches", "-Wall", "-Wextra", "-Wno-unused-parameter", "-pthread",
                "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", f"-ffile-prefix-map={here}={WHERE}", "-Wl,--build-id=sha1",
                "-o", whole, *[s for s in sources if s.endswith(".c")]], check=True, cwd=here)
subprocess.run([objcopy, "--only-keep-debug", whole, out + ".debug"], check=True)
subprocess.run([objcopy, "--strip-all", "--remove-section=.comment", whole, out], check=True)
os.unlink(whole)
with tarfile.open(out + ".tar", "w", format=tarfile.USTAR_FORMAT) as tar:
    for s in sorted(sources):
        info = tarfile.TarInfo(f"{WHERE[1:]}/{os.path.basename(s)}")
        info.size, info.mode = os.path.getsize(s), 0o644
        with open(s, "rb") as f:
            tar.addfile(info, f)
