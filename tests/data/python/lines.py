#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lines.py >> lines.txt, under each version: line tables as the interpreter made them, and what it reads out of them.

A line of output: version, first line, table in hexadecimal, ranges END:LINE of offsets in the code; LINE 0: none.
"""
import dis
import sys
import types

SOURCE = '''
import os


def simple(a,
           b):
    x = a + b

    y = (x *
         b)
    return x, y


def branches(n):
    for i in range(n):
        if i % 2:
            continue
        try:
            yield i
        except (ValueError,
                KeyError) as e:
            print(e)
        finally:
            os.getpid()
    else:
        return


class K:
    @property
    def p(self):
        return [a
                for a in range(3)
                if a]

    async def q(self):
        async with self as s:
            await s
        with open('x') as f, \\
                open('y') as g:
            return f, g
''' + 'def far():\n    a = 1\n' + '\n' * 400 + '    b = (' + 'a +\n' * 40 + 'a)\n' + '\n' * 9000 + '    return b\n'


def codes(code):
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from codes(c)


def ranges(code):
    if sys.version_info >= (3, 10):
        return [(end, line or 0) for _, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    ends = [s for s, _ in starts[1:]] + [len(code.co_code)]
    return [(end, line) for end, (_, line) in zip(ends, starts)]


for c in codes(compile(SOURCE, 'x.py', 'exec')):
    table = c.co_linetable if sys.version_info >= (3, 10) else c.co_lnotab
    print('%d.%d' % sys.version_info[:2], c.co_firstlineno, table.hex() or '-', ','.join('%d:%d' % r for r in ranges(c)))
