# SPDX-License-Identifier: Apache-2.0
"""The marks of incomplete stacks by program, out of the profiles that an agent sends (pprof)."""

import collections
import gzip


def numbers(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def fields(data):
    """(number, value) of a message of protobuf."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            size = number() if key & 7 == 2 else 8 if key & 7 == 1 else 4
            yield key >> 3, data[at:at + size]
            at += size


def several(value):
    """A repeated number, packed or not."""
    return [value] if isinstance(value, int) else list(numbers(value))


def count_marks(bodies):
    """{(program, mark): samples}; the mark of a complete stack is empty. Time in place of samples: pprof has the period."""
    counts = collections.Counter()
    for body in bodies:
        parts = collections.defaultdict(list)
        for number, value in fields(gzip.decompress(body)):
            parts[number].append(value)
        text = [v.decode(errors="replace") for v in parts[6]]
        functions = {f[1]: text[f.get(2, 0)] for f in map(dict, map(fields, parts[5]))}
        names = {}
        for location in parts[4]:
            l = dict(fields(location))
            names[l[1]] = functions.get(dict(fields(l[4])).get(1)) if 4 in l else None
        for sample in parts[2]:
            frames, value, comm = [], 0, ""
            for number, v in fields(sample):
                if number == 1:
                    frames += several(v)
                elif number == 2:
                    value = value or several(v)[0]
                elif number == 3 and text[dict(fields(v)).get(1, 0)] == "comm":
                    comm = text[dict(fields(v)).get(2, 0)]
            outermost = frames and names.get(frames[-1]) or ""
            counts[comm, outermost if outermost.startswith("[") and not outermost.startswith("[code ") else ""] += value
    return counts
