#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT FILE...: the files as C arrays, in a table that ends with a NULL name."""
import os
import sys

out, files = sys.argv[1], sys.argv[2:]
lines = ['/* Made by embed.py. */', '#include "server/page.h"', '']
table = []
for n, path in enumerate(files):
    with open(path, 'rb') as f:
        data = f.read()
    lines.append('static const unsigned char file_%d[] = {' % n)
    for i in range(0, len(data), 24):
        lines.append('\t' + ', '.join(str(b) for b in data[i:i + 24]) + ',')
    lines.append('\t0\n};')
    table.append('\t{ "%s", file_%d, %d },' % (os.path.basename(path), n, len(data)))
lines += ['', 'const struct page_file page_files[] = {'] + table + ['\t{ 0 }', '};', '']
with open(out, 'w') as f:
    f.write('\n'.join(lines))
