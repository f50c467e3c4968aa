#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py TABLE OUTPUT FOLDER FILE...: write the files as a C table, `struct embedded TABLE[]`.

The name of a file is its path from FOLDER; outside of FOLDER, its last component. The table ends with a NULL name. "+" before FOLDER
is for a page that has all scripts in one file: import lines are removed from the scripts.
"""
import os
import re
import sys

table, out, folder, files = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
in_one = folder.startswith('+')
folder = os.path.abspath(folder.lstrip('+'))
lines = ['/* Made by embed.py. */', '#include "base/embedded.h"', '']
rows = []
for n, path in enumerate(files):
    with open(path, 'rb') as f:
        data = f.read()
    if in_one and path.endswith('.js'):
        data = re.sub(rb'^import .*\n', b'', data, flags=re.M)
    lines.append('static const unsigned char file_%d[] = {' % n)
    for i in range(0, len(data), 24):
        lines.append('\t' + ', '.join(str(b) for b in data[i:i + 24]) + ',')
    lines.append('\t0\n};')
    name = os.path.relpath(os.path.abspath(path), folder)
    rows.append('\t{ "%s", { file_%d, %d } },' % (os.path.basename(path) if name.startswith('..') else name, n, len(data)))
lines += ['', 'extern const struct embedded %s[];' % table, 'const struct embedded %s[] = {' % table] + rows + ['\t{ 0 }', '};', '']
with open(out, 'w') as f:
    f.write('\n'.join(lines))
