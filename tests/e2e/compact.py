# SPDX-License-Identifier: Apache-2.0
"""Writes requests and reads replies of the compact form of /symbolize (docs/protocol.md)."""


def uleb(n):
    out = bytearray()
    while True:
        out.append((n & 0x7f) | (0x80 if n > 0x7f else 0))
        n >>= 7
        if not n:
            return bytes(out)


class Reader:
    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        self.at += n
        assert self.at <= len(self.b)
        return self.b[self.at - n:self.at]

    def uleb(self):
        n = shift = 0
        while True:
            c = self.take(1)[0]
            n |= (c & 0x7f) << shift
            shift += 7
            if c < 0x80:
                return n


def binary_request(modules, flags=0, timeout_ms=20000):
    out = b"LSQ1" + uleb(flags) + uleb(timeout_ms) + uleb(len(modules))
    for build, addrs in modules:
        out += bytes([len(build)]) + build + uleb(len(addrs))
        before = 0
        for a in addrs:
            d = (a - before + (1 << 63)) % (1 << 64) - (1 << 63)
            out += uleb(d << 1 if d >= 0 else (-d << 1) - 1)
            before = a
    return out


def binary_reply(body, name=str, discriminators=False):
    """(retry in ms, status of each module, chain or status of each address). name() converts the strings of frames."""
    r = Reader(body)
    assert r.take(4) == b"LSA1"
    retry = r.uleb()
    strings = [r.take(r.uleb()).decode() for _ in range(r.uleb())]
    frames = [(r.uleb(), r.uleb(), r.uleb(), r.uleb(), r.uleb(), r.take(1)[0], *([r.uleb()] if discriminators else []))
              for _ in range(r.uleb())]
    chains = [[r.uleb() for _ in range(r.uleb())] for _ in range(r.uleb())]
    modules = [r.take(1)[0] for _ in range(r.uleb())]
    answers = []
    for _ in range(r.uleb()):
        c = r.uleb()
        answers.append([(name(strings[frames[f][0]]), strings[frames[f][1]], frames[f][2], *frames[f][6:]) for f in chains[c - 1]]
                       if c else r.take(1)[0])
    assert r.at == len(body)
    return retry, modules, answers
