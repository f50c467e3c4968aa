# SPDX-License-Identifier: Apache-2.0
"""The reasons are one list: in the program, the API's description, the docs and the page."""

import json
import re

from conftest import ROOT


def codes():
    text = (ROOT / "src/frame/reason.c").read_text()
    found = re.findall(r'\[FRAME_(\w+)\] = \{ "([a-z0-9-]+)"', text)
    header = (ROOT / "src/frame/frame.h").read_text()
    names = re.findall(r"\bFRAME_(\w+)", re.search(r"enum frame_reason \{(.*?)\n\};", header, re.S)[1])
    assert [n for n in names if n != "N_REASONS"] == sorted((n for n, _ in found), key=names.index)
    return {code: names.index(name) for name, code in found}


def cells(line):
    """The codes in the first column of a row of a table."""
    return re.findall(r"`([a-z0-9-]+)`", line.split("|")[1]) if line.startswith("| `") else []


def test_every_list_has_every_reason():
    of_program = set(codes())
    assert len(of_program) >= 17
    lines = (ROOT / "docs/reasons.md").read_text().splitlines()
    assert {c for line in lines for c in cells(line)} == of_program - {"found"}
    text = (ROOT / "docs/protocol.md").read_text()
    table = text[text.index("| `status` | meaning |"):]
    table = table[:table.index("\n\n")]
    assert {c for line in table.splitlines()[1:] for c in cells(line)} - {"reply-too-long"} == of_program
    binary = text[text.index("    status   0 found"):]
    numbers = re.findall(r"(\d+) ([a-z0-9-]+)", binary[:binary.index("\n\n")])
    assert {code: int(n) for n, code in numbers} == codes()
    api = json.loads((ROOT / "docs/openapi.json").read_text())

    def reasons_in(node):
        if isinstance(node, dict):
            if "enum" in node and "no-build-id" in node["enum"]:
                yield set(node["enum"])
            for v in node.values():
                yield from reasons_in(v)
        elif isinstance(node, list):
            for v in node:
                yield from reasons_in(v)

    assert list(reasons_in(api)) and all(r - {""} == of_program - {"found"} for r in reasons_in(api))
    # The page has no sentences of its own.
    for page in (ROOT / "web").rglob("*.js"):
        found = set(re.findall(r'"([a-z0-9-]+)"', page.read_text())) & (of_program - {"found", "pending", "busy", "unknown", "damaged"})
        assert found <= {"outside", "no-layout", "no-mapping"}, (page, found)
