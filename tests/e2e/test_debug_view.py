# SPDX-License-Identifier: Apache-2.0
"""The view "Debug information" in a real browser: binaries without names and the reasons, dropped debug files, and the names that follow."""

import base64
import hashlib
import random
import re
import subprocess

import pytest

import go_program
from conftest import LODE, Program
from profiling import Pprof, ask, code_segment, send
from pushing import put
from exploring import DOWN, HOSTILE, RIGHT, UP, chosen, page, param, visit  # noqa: F401
from test_profile import pprof
from test_symbolize import Built

DROP = """
const [selector, files] = arguments, data = new DataTransfer();
for (const [name, text] of files)
    data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
document.querySelector(selector).dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}));"""


def drop(page, selector, *files):  # noqa: F811
    page.run(DROP, selector, [[name, base64.b64encode(data).decode()] for name, data in files])


def cpu_of(s):
    return next(text for text in ask(s, "types")["types"] if ":cpu:" in text)


def stripped(serve, tmp_path, program, binary="/usr/bin/hello"):
    """A service with a profile of a program, but without the program and its debug file."""
    (tmp_path / "none").mkdir()
    s = serve([tmp_path / "none"], args=["--symbolize-interval", "1s"]).ready()
    symbols = subprocess.run(["nm", str(program.debug)], capture_output=True, text=True, check=True).stdout
    at = int(re.search(r"0*(\w+) t twice", symbols).group(1), 16)
    send(s, pprof(binary, program.build_id, [at + 4, at + 8], 0), service="hello")
    return s


def test_a_binary_without_names_gets_them_by_drag_and_drop(serve, tmp_path, program, page):  # noqa: F811
    s = stripped(serve, tmp_path, program)
    other = Program(tmp_path / "other", "other")
    visit(page, s, "?view=debug")
    page.wait_text(".binaries", program.build_id)
    page.wait(lambda: ask(s, "binaries", query=cpu_of(s))["binaries"][0]["state"] == "failed", "the reason")
    page.wait_text(".binaries", "not named")
    b = ask(s, "binaries", query=cpu_of(s))["binaries"][0]
    text = page.text(f'tr[data-id="{program.build_id}"]')
    assert f"GNU build ID {program.build_id}" in text
    assert "/usr/bin/hello" in text and "100.00 %" in text and b["text"].lower() in text.lower() and b["help"].lower() in text.lower() and f"0 of {b['locations']} addresses" in text

    # The browser refuses files that do not fit, with a reason, and sends nothing of them.
    drop(page, ".drop-zone", ("notes.txt", b"no ELF at all" * 9))
    page.wait_text(".push-log", "notes.txt is not an ELF file, but a text file: drop the program")
    drop(page, ".drop-zone", ("short.debug", b"\x7fELF\x02\x01"))
    page.wait_text(".push-log", "short.debug ends within its header")
    drop(page, ".drop-zone", ("cut.debug", program.debug.read_bytes()[:3000]))
    page.wait_text(".push-log", "cut.debug ends within")
    drop(page, ".drop-zone", (HOSTILE, other.debug.read_bytes()))
    page.wait_text(".push-log", f"{HOSTILE} was not sent: its build ID {other.build_id} is that of none of these binaries")
    drop(page, f'tr[data-id="{program.build_id}"]', ("other.debug", other.debug.read_bytes()))
    page.wait_text(".push-log", f"other.debug belongs to another build of hello than the one that ran: its build ID is {other.build_id}")
    assert page.run("return document.querySelectorAll('img').length") == 0

    drop(page, f'tr[data-id="{program.build_id}"]', ("hello.debug", program.debug.read_bytes()))
    page.wait_text(".push-log", "hello.debug was stored for /usr/bin/hello")
    page.wait_text(".binaries", f"{b['locations']} of {b['locations']} addresses", 60)
    assert s.get(f"/buildid/{program.build_id}/debuginfo").status == 200
    page.click(".views [data-view=explore]")
    page.run("document.querySelector('#flame')?.focus()")
    page.wait(lambda: (page.run("document.querySelector('#flame')?.focus()"), page.press("\ue011", "\ue015"), chosen(page).startswith("twice"))[2], "the name in the graph")


@pytest.mark.slow
@pytest.mark.parametrize("known_by", ["go", "hash"])
def test_a_binary_without_a_gnu_build_id_gets_names_by_drag_and_drop(serve, tmp_path, page, known_by):  # noqa: F811
    """Profilers name it by Go's build ID, or by OpenTelemetry's hash."""
    text = "aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq"
    code = go_program.build(tmp_path / "app", text)
    program = (tmp_path / "app").read_bytes()
    size = len(program).to_bytes(8, "big")
    identity = {"go": text.encode().hex(), "hash": hashlib.sha256(program[:4096] + program[-4096:] + size).hexdigest()[:32]}[known_by]
    (tmp_path / "none").mkdir()
    s = serve([tmp_path / "none"], args=["--symbolize-interval", "1s"]).ready()
    off, vaddr, length = code_segment(tmp_path / "app")
    made = Pprof(types=(("cpu", "nanoseconds"),), mapping=(0x7f0000000000, 0x7f0000000000 + length, off, "/usr/bin/app", identity))
    send(s, made.sample([0x7f0000000000 + code + go_program.SIZE - vaddr + 1], [7]).bytes(), service="app")
    visit(page, s, "?view=debug")
    page.wait_text(".binaries", "not named")
    page.wait_text(".binaries", {"go": f"Go build ID {text}", "hash": f"GNU build ID or hash of the file {identity}"}[known_by])
    other = Program(tmp_path / "other", "other")
    drop(page, f'tr[data-id="{identity}"]', ("other.debug", other.debug.read_bytes()))
    page.wait_text(".push-log", "drop that" if known_by == "hash" else "belongs to another build of app")
    drop(page, ".drop-zone", ("app", program))
    page.wait_text(".push-log", "app was stored for /usr/bin/app")
    page.wait_text(".binaries", "1 of 1 address", 60)
    page.wait_text(".binaries", {"go": f"Go build ID {text}", "hash": f"\nhash of the file {identity}"}[known_by])


# A sample of each kind that src/elf/foreign.c names.
SAMPLES = {
    "empty": b"", "pe": b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0", "dos": b"MZ\x90\0", "pdb": b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0", "ppdb": b"BSJB\1\0\1\0",
    "pdb2": b"Microsoft C/C++ program database 2.00\r\n", "macho": b"\xcf\xfa\xed\xfe\7\0\0\1", "macho32": b"\xfe\xed\xfa\xce\0\0\0\7",
    "fat": b"\xca\xfe\xba\xbe\0\0\0\2", "fat64": b"\xca\xfe\xba\xbf\0\0\0\2", "class": b"\xca\xfe\xba\xbe\0\0\0\x3d", "breakpad": b"MODULE Linux x86_64 00 a\n",
    "minidump": b"MDMP\x93\xa7\0\0", "wasm": b"\0asm\1\0\0\0", "bitcode": b"BC\xc0\xde", "deb": b"!<arch>\ndebian-binary   ", "rpm": b"\xed\xab\xee\xdb\3\0",
    "ar": b"!<arch>\na.o/", "thin": b"!<thin>\n/", "zip": b"PK\3\4\n\0", "gzip": b"\x1f\x8b\x08\0", "xz": b"\xfd7zXZ\0\0\4", "zstd": b"\x28\xb5\x2f\xfd\0\0",
    "bzip2": b"BZh91AY&SY", "lz4": b"\x04\x22\x4d\x18\0", "7z": b"7z\xbc\xaf\x27\x1c", "cpio": b"070701000000", "tar": bytes(257) + b"ustar\0", "perf": b"PERFILE2\0", "jfr": b"FLR\0\0\2\0\1",
    "script": b"#!/bin/sh\n", "ld": b"/* GNU ld script\n", "html": b"\n <!DOCTYPE html>", "text": b"hello, world\n", "unknown": b"\1\2\3\4", "gsym": b"MYSG\0\0\0\1",
    "coff": b"\x64\x86\7\0\0\0\0\0\x40\1\0\0\x1a\0\0\0\0\0\0\0",
    "bigobj": b"\0\0\xff\xff\2\0\x64\x86\0\0\0\0\xc7\xa1\xba\xd1\xee\xba\xa9\x4b\xaf\x20\xfa\xf8\x6e\xeb\xa8\x1e",
    "sqlite": b"SQLite format 3\0", "pdf": b"%PDF-1.7", "png": b"\x89PNG\r\n\x1a\n",
}


@pytest.mark.slow
def test_the_page_names_files_as_the_commands_do(serve, tmp_path, page):
    s = serve([]).ready()
    visit(page, s, "?view=debug")
    heads = {name: base64.b64encode(head).decode() for name, head in SAMPLES.items()}
    named = page.run_async("""const [heads, done] = arguments;
        import(new URL("web/debug/foreign.js", location.href)).then((m) => done(Object.fromEntries(Object.entries(heads).map(([name, head]) =>
            [name, m.kindOf(new DataView(Uint8Array.from(atob(head), (c) => c.charCodeAt(0)).buffer)).name]))), (e) => done(String(e)))""", heads)
    for name, head in SAMPLES.items():
        (tmp_path / name).write_bytes(head)
        r = subprocess.run([LODE, "symbolize", "--local", "-e", str(tmp_path / name), "0x1"], capture_output=True, text=True)
        assert f"not an ELF file, but {named[name]}: " in r.stderr, (name, named, r.stderr)


def test_pending_names_appear_by_polling_and_a_hex_address_shows_the_reason(serve, tmp_path, program, page):  # noqa: F811
    s = stripped(serve, tmp_path, program)
    visit(page, s)
    page.wait(lambda: (page.run("document.querySelector('#flame')?.focus()"), page.press("\ue011", "\ue015"), chosen(page).startswith("hello+0x"))[2], "the address")
    page.may_fail = "404"
    page.wait_text(".strip", "no name")
    page.click(".strip-acts .strong")
    page.wait_text(".strip-why", "Nothing here has this build ID.")
    page.click(".strip-acts button")
    page.wait(lambda: param(page, "tab") == "sandwich", "callers and callees")
    page.say("POST", "/back")
    subprocess.run(["curl", "-sfT", str(program.debug), f"{s.url}/buildid/{program.build_id}/debuginfo"], check=True)
    # The page polls: the names appear without any action.
    tree = "return document.querySelector('#flame').getAttribute('aria-activedescendant') && document.querySelector('.flame-reader').textContent"
    page.wait(lambda: "twice" in page.run(tree), "the names", 60)
    page.wait(lambda: page.run("return document.querySelector('.pending').hidden"), "nothing more to be named")


def test_try_again_sends_a_retry_to_the_server(serve, tmp_path, program, page):  # noqa: F811
    s = stripped(serve, tmp_path, program, f"/opt/{HOSTILE}")
    visit(page, s, "?view=debug")
    page.wait_text(".binaries", f"/opt/{HOSTILE}")
    page.wait(lambda: ask(s, "binaries", query=cpu_of(s))["binaries"][0]["state"] == "failed", "the first try")
    tries = ask(s, "binaries", query=cpu_of(s))["binaries"][0]["tries"]
    page.click(".binaries .acts button")
    page.wait(lambda: page.text("#toast") == "Trying again now", "the answer")
    page.wait(lambda: ask(s, "binaries", query=cpu_of(s))["binaries"][0]["tries"] > tries, "another try")
    page.run("const f = document.querySelector('#view-debug input[type=search]'); f.value = 'nothing like it'; f.dispatchEvent(new Event('input'))")
    page.wait(lambda: page.run("return document.querySelectorAll('.binaries tbody tr').length") == 0, "the filter")
    assert page.run("return document.querySelectorAll('img').length") == 0


@pytest.mark.slow
def test_every_frame_agrees_with_llvm(serve, tmp_path, page):  # noqa: F811
    """Each address is below its own root frame: its chain of inlined calls is shown with file and line."""
    built = Built(tmp_path / "shop")
    (tmp_path / "none").mkdir()
    s = serve([tmp_path / "none"], args=["--symbolize-interval", "1s"]).ready()
    addrs = random.Random(3).sample(built.code, 24)
    off, vaddr, size = code_segment(built.full)
    p = Pprof(types=(("cpu", "nanoseconds"),), mapping=(vaddr, vaddr + size, off, "/usr/bin/shop", built.id))
    for i, a in enumerate(addrs):
        p.sample([f"root {i}", a], [1000])
    send(s, p.bytes(), service="shop")
    assert put(s, f"/buildid/{built.id}/debuginfo", built.debug.read_bytes())[0] == 201
    s.wait(lambda: ask(s, "binaries", query="{}")["binaries"][0]["state"] == "named", "the names")
    # Group by line to see the lines of the addresses; grouped by function, a frame has the line of the function.
    visit(page, s, "?by=line")
    page.wait_text(".said", "24 samples")
    page.wait(lambda: chosen(page).startswith("all"), "the tree")
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN)
    seen = {}
    where = "return document.querySelector('#flame').getAttribute('aria-activedescendant')"
    for _ in addrs:
        root, said, at = chosen(page), [], page.run(where)
        page.press(DOWN)
        while page.run(where) != at:
            at = page.run(where)
            said.append(chosen(page))
            page.press(DOWN)
        page.press(*[UP] * len(said))
        assert chosen(page) == root
        seen[root.split(";")[0]] = said
        page.press(RIGHT)
    for i, chain in enumerate(built.oracle(addrs)):
        said = next(v for k, v in seen.items() if k.startswith(f"root {i} "))
        assert len(said) == len(chain), hex(addrs[i])
        for text, (name, file, line) in zip(said, reversed(chain)):
            what, place = text.split("; ")[0], text.split("; ")[-2]
            assert place == f"{file}:{line}", hex(addrs[i])
            # The page leaves out parameters and return types. LLVM's demangler cannot read all names.
            if name.startswith("_Z"):
                name = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout
            assert what.removesuffix(f" {file}:{line}") in name, hex(addrs[i])
