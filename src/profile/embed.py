#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT FILE...: each file as a `struct bytes` of C that is named after it."""
import os
import sys

out, files = sys.argv[1], sys.argv[2:]
lines = ['/* Made by embed.py. */', '#include "profile/assets.h"', '']
for n, path in enumerate(files):
    with open(path, 'rb') as f:
        data = f.read()
    lines.append('static const unsigned char file_%d[] = {' % n)
    for i in range(0, len(data), 24):
        lines.append('\t' + ', '.join(str(b) for b in data[i:i + 24]) + ',')
    lines.append('\t0\n};')
    name = os.path.basename(path).replace('.', '_')
    lines.append('const struct bytes profile_asset_%s = { file_%d, %d };' % (name, n, len(data)))
with open(out, 'w') as f:
    f.write('\n'.join(lines) + '\n')
