# SPDX-License-Identifier: Apache-2.0
"""A stripped Go program of a few KB, without Go: its note and its table (.gopclntab of Go 1.20) around a few bytes of code."""

import struct
import subprocess

FUNCTIONS = ("main.main", "main.twice")
SIZE = 32  # bytes of each function
FILE = "/src/app/main.go"


def gopclntab():
    """Text and functions are relative to the start of the code, which the linker fills in as the header's third word."""
    names = b"\0".join(f.encode() for f in FUNCTIONS) + b"\0"
    units, files = struct.pack("<I", 0), FILE.encode() + b"\0"
    # Programs: value -1, then each step is a zigzag difference and a number of bytes; 0 ends it. Offset 0 means none.
    steps = bytes([0, 2, SIZE, 0])  # file 0
    lines = [len(steps)]
    steps += bytes([22, SIZE, 0])  # line 10
    lines.append(len(steps))
    steps += bytes([42, SIZE, 0])  # line 20
    pad = lambda b: b + bytes(-len(b) % 8)
    parts = [pad(names), pad(units), pad(files), pad(steps)]
    n = len(FUNCTIONS)
    table, funcs = b"", b""
    first = 8 * n + 4 + 4
    for i, f in enumerate(FUNCTIONS):
        table += struct.pack("<II", i * SIZE, first + len(funcs))
        funcs += struct.pack("<IiiIIIIIIiBBBB", i * SIZE, names.index(f.encode() + b"\0"), 0, 0, 0, 1, lines[i], 0, 0, 10 * (i + 1), 0, 0, 0, 0)
    table += struct.pack("<II", n * SIZE, 0)
    parts.append(table + funcs)
    offsets, at = [], 72
    for p in parts:
        offsets.append(at)
        at += len(p)
    head = struct.pack("<IBBBB2Q", 0xfffffff1, 0, 0, 1, 8, n, 1), struct.pack("<5Q", *offsets)
    return head, b"".join(parts)


def note(text):
    """Assembler lines with Go's note; @text is the Go build ID."""
    return f'''.section .note.go.buildid,"a",@note
.balign 4
.long 4, {len(text)}, 4
.asciz "Go"
.balign 4
.ascii "{text}"
.balign 4
'''


def assembler(text):
    """An assembler file with the program; @text is its Go build ID."""
    (before, after), rest = gopclntab()
    data = lambda b: "\n".join(f".byte {','.join(map(str, b[i:i + 16]))}" for i in range(0, len(b), 16))
    return note(text) + f'''.text
.balign 16
.globl _start
_start: .fill {SIZE * len(FUNCTIONS)}, 1, 0x90
.section .gopclntab,"a",@progbits
.balign 32
{data(before)}
.quad _start
{data(after)}
{data(rest)}
'''


def build(path, text):
    """Returns the address of the code."""
    source = path.with_suffix(".s")
    source.write_text(assembler(text))
    subprocess.run(["gcc", "-nostdlib", "-no-pie", "-Wl,--build-id=none", "-o", path, source], check=True, capture_output=True)
    out = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    subprocess.run(["strip", "-s", path], check=True)
    return int(next(l.split()[0] for l in out.splitlines() if l.endswith(" _start")), 16)
