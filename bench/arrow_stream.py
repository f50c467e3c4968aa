# SPDX-License-Identifier: Apache-2.0
"""Streams of Arrow as Parca's agent sends them (schema "v2", buffers in LZ4 frames), for the benchmarks: no library of Arrow is needed."""

import array
import ctypes
import ctypes.util
import struct

INT, UTF8, TIMESTAMP, STRUCT, FIXED, RUNS, VIEW_TEXT, LIST_VIEW = 2, 5, 10, 13, 15, 22, 24, 25
NANOSECOND, V5, LZ4_FRAME = 3, 4, 0
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3

lz4 = ctypes.CDLL(ctypes.util.find_library("lz4") or "liblz4.so.1")
lz4.LZ4F_compressFrameBound.restype = lz4.LZ4F_compressFrame.restype = ctypes.c_size_t


# ---- flatbuffers: a table is {slot: value}; values are ("fmt", number), bytes (a text), dicts, lists of dicts, or ("vector", n, bytes) ----

def align(out, n):
    out += bytes(-len(out) % n)


def put(out, value):
    """Append it; its offset."""
    if isinstance(value, bytes):
        align(out, 4)
        at = len(out)
        out += struct.pack("<I", len(value)) + value + b"\0"
    elif isinstance(value, list):
        align(out, 4)
        at = len(out)
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, element in enumerate(value):
            place = at + 4 + 4 * i
            struct.pack_into("<I", out, place, put(out, element) - place)
    elif isinstance(value, tuple):
        align(out, 8)
        out += bytes(4)
        at = len(out)
        out += struct.pack("<I", value[1]) + value[2]
    else:
        n = max(value, default=-1) + 1
        align(out, 8)
        vtable = len(out)
        out += struct.pack(f"<{n + 2}H", 4 + 2 * n, 8 + 8 * n, *(8 + 8 * i if i in value else 0 for i in range(n)))
        align(out, 8)
        at = len(out)
        out += struct.pack("<i4x", at - vtable) + bytes(8 * n)
        for slot, one in value.items():
            place = at + 8 + 8 * slot
            if isinstance(one, tuple) and one[0] != "vector":
                struct.pack_into("<" + one[0], out, place, one[1])
            else:
                struct.pack_into("<I", out, place, put(out, one) - place)
    return at


def message(kind, header, body=b""):
    out = bytearray(4)
    struct.pack_into("<I", out, 0, put(out, {0: ("h", V5), 1: ("B", kind), 2: header, 3: ("q", len(body))}))
    align(out, 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(out)) + out + body


# ---- arrays ----

def packed(data):
    """A buffer: its length, and an LZ4 frame."""
    if not data:
        return b""
    room = ctypes.create_string_buffer(lz4.LZ4F_compressFrameBound(ctypes.c_size_t(len(data)), None))
    n = lz4.LZ4F_compressFrame(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), None)
    return struct.pack("<q", len(data)) + room.raw[:n]


class Array:
    """A field and its rows: nodes, buffers and numbers of variadic buffers, in pre-order."""

    def __init__(self, kind, n, buffers, children=(), options=None, nulls=0, variadic=None):
        self.field, self.dictionaries = {2: ("B", kind), 3: options or {}, 1: ("B", 1)}, []
        self.nodes, self.buffers = struct.pack("<qq", n, nulls), [packed(b) for b in buffers]
        self.variadic, self.n = [] if variadic is None else [variadic], n
        self.field[5] = [c.named(name) for name, c in children]
        for _, c in children:
            self.nodes += c.nodes
            self.buffers += c.buffers
            self.variadic += c.variadic
            self.dictionaries += c.dictionaries

    def named(self, name):
        return {**self.field, 0: name.encode()}

    def batch(self):
        return batch(self.n, [self])


def batch(n, columns):
    places, body = b"", bytearray()
    for b in (b for c in columns for b in c.buffers):
        places += struct.pack("<qq", len(body), len(b))
        body += b
        align(body, 8)
    nodes = b"".join(c.nodes for c in columns)
    header = {0: ("q", n), 1: ("vector", len(nodes) // 16, nodes), 2: ("vector", len(places) // 16, places), 3: {0: ("b", LZ4_FRAME)}}
    variadic = [v for c in columns for v in c.variadic]
    if variadic:
        header[4] = ("vector", len(variadic), struct.pack(f"<{len(variadic)}q", *variadic))
    return header, bytes(body)


def number(code, values):
    size = array.array(code).itemsize
    return Array(INT, len(values), [b"", array.array(code, values).tobytes()], options={0: ("i", 8 * size), 1: ("B", code.islower())})


def times(values):
    return Array(TIMESTAMP, len(values), [b"", array.array("q", values).tobytes()], options={0: ("h", NANOSECOND), 1: b"UTC"})


def texts(values):
    ends, data = array.array("i", [0]), b""
    for v in values:
        data += v.encode()
        ends.append(len(data))
    return Array(UTF8, len(values), [b"", ends.tobytes(), data])


def no_lists(n, child):
    """Lists that are null."""
    return Array(LIST_VIEW, n, [bytes((n + 7) // 8), bytes(4 * n), bytes(4 * n)], [("item", child)], nulls=n)


def lists(sizes, child):
    starts, at = array.array("i"), 0
    for size in sizes:
        starts.append(at)
        at += size
    return Array(LIST_VIEW, len(sizes), [b"", starts.tobytes(), array.array("i", sizes).tobytes()], [("item", child)])


def structs(n, **children):
    return Array(STRUCT, n, [b""], list(children.items()))


def runs(n, values):
    """The one value of @values for all rows."""
    return Array(RUNS, n, [], [("run_ends", number("i", [n])), ("values", values)])


_ids = iter(range(1, 1 << 30))


def indexed(indices, values):
    """Indices of a dictionary with these values."""
    a = Array(0, len(indices), [b"", array.array("I", indices).tobytes()])
    number_of = next(_ids)
    a.field = {**values.field, 4: {0: ("q", number_of), 1: {0: ("i", 32), 1: ("B", 0)}}}
    a.dictionaries = values.dictionaries + [(number_of, values)]
    return a


def same(n, text):
    return runs(n, indexed([0], texts([text])))


class Stream:
    """Columns of one batch. Schema and dictionaries are made once; with other times they serve other bodies too."""

    def __init__(self, columns):
        self.columns = columns
        fields = [c.named(name) for name, c in columns.items()]
        metadata = [{0: b"parca_write_schema_version", 1: b"v2"}]
        self.head = message(SCHEMA, {1: fields, 2: metadata})
        for number_of, values in (d for c in columns.values() for d in c.dictionaries):
            header, body = values.batch()
            self.head += message(DICTIONARY_BATCH, {0: ("q", number_of), 1: header}, body)

    def bytes(self, **replaced):
        columns = list({**self.columns, **replaced}.values())
        return self.head + message(RECORD_BATCH, *batch(columns[0].n, columns)) + struct.pack("<II", 0xFFFFFFFF, 0)


def agent(stacks, values, labels, file, build_id):
    """Samples of CPU time as Parca's agent has them: of stacks of bare addresses, the leaf first; a row each."""
    n, places = len(stacks), {}
    indices = [places.setdefault(a, len(places)) for s in stacks for a in s]
    m = len(places)
    one = lambda text: indexed([0] * m, texts([text]))  # noqa: E731
    function = indexed([], structs(0, system_name=Array(VIEW_TEXT, 0, [b"", b""], variadic=0), filename=indexed([], texts([])), start_line=number("Q", [])))
    lines = no_lists(m, structs(0, line=number("Q", []), column=number("Q", []), function=function))
    location = structs(m, address=number("Q", list(places)), frame_type=one("native"), mapping_file=one(file), mapping_build_id=one(build_id), lines=lines)
    ids = Array(FIXED, n, [b"", b"".join(struct.pack("<QQ", i, 7) for i in range(n))], options={0: ("i", 16)})
    return Stream({
        "labels": structs(n, **{k: same(n, v) for k, v in labels.items()}), "stacktrace": lists([len(s) for s in stacks], indexed(indices, location)),
        "stacktrace_id": ids, "value": number("q", values), "producer": same(n, "parca_agent"), "sample_type": same(n, "samples"),
        "sample_unit": same(n, "count"), "period_type": same(n, "cpu"), "period_unit": same(n, "nanoseconds"), "temporality": same(n, "delta"),
        "period": runs(n, number("q", [52631578])), "duration": runs(n, number("Q", [10**9])), "timestamp": times([0] * n)})
