# SPDX-License-Identifier: Apache-2.0
"""The view "Explore": the cost of lines of source files."""

import json
import re
import subprocess

from conftest import make_deb, tree_of
from exploring import DOWN, RIGHT, SLOW, chosen, drawn, empty, idle, page, service, visit  # noqa: F401
from profiling import Pprof, ask, send
from test_profile import pprof


def test_the_source_shows_the_cost_of_its_lines_or_why_not(serve, tmp_path, program, page):
    folder = tmp_path / "pool"
    folder.mkdir()
    make_deb(tree_of(program, tmp_path / "root"), folder / "hello.deb")
    s = serve([folder]).scanned()
    symbols = subprocess.run(["nm", str(program.debug)], capture_output=True, text=True, check=True).stdout
    at = int(re.search(r"0*(\w+) t twice", symbols).group(1), 16)
    send(s, pprof("/usr/bin/hello", program.build_id, [at + 4, at + 4], 0), service="hello")
    visit(page, s)
    page.wait_text(".said", "3 µs")
    cpu = next(text for text in ask(s, "types")["types"] if ":cpu:nanoseconds:" in text)
    page.wait(lambda: "twice" in json.dumps(ask(s, "top", query=cpu)), "the names")
    page.run("document.querySelector('.bar-row button[title=\"Load the profiles again\"]').click()")
    page.run("document.querySelector('#flame').focus()")
    page.wait(lambda: (page.press("\ue011", DOWN), chosen(page).startswith("twice"))[1], "the name on the page")
    page.run("Array.from(document.querySelectorAll('.strip-acts button')).find((b) => b.textContent === 'Source').click()")
    page.wait_text(".source-table .hot", "3 µs")
    line = ask(s, "lines", function="twice", query=cpu)["lines"][0]["line"]
    text = program.source.read_text().splitlines()[line - 1]
    hot = page.run("return Array.from(document.querySelectorAll('.source-table .hot'), (tr) => [tr.cells[0].textContent, tr.querySelector('code').textContent.trim()])")
    assert hot == [[str(line), text.strip()]]
    page.may_fail = "404"
    send(s, b"main;x 5", service="gone", format="folded")
    page.open(f"{s.url}/?tab=source&fn=main")
    page.wait_text("#result", "The source file of main is not known")


def test_a_tab_that_was_left_while_it_loaded_loads_again(service, page):
    visit(page, service, "?tab=table")
    page.wait_text(".top-table", "encode")
    page.run(SLOW, "api/callers")
    page.run("document.querySelector('.top-table tbody button').click(); document.querySelector('#tab-flame').click()")
    idle(page)
    page.click("#tab-table")
    page.wait_text(".neighbours", "Callers")


def test_a_source_that_was_left_while_it_loaded_loads_again(empty, page):
    id_ = "ab" * 20
    send(empty, Pprof(mapping=(0, 1 << 40, 0, "/bin/x", id_)).sample(["main"], [1, 100]).bytes(), service="a")
    visit(page, empty, "?file=/src/x.c")
    page.wait_text(".said", "100 ns")
    # Without an answer until the request is aborted; the second one is answered.
    page.run("""const real = window.fetch;
        window.fetch = (url, how) => !String(url).startsWith("buildid/") ? real(url, how) : window.left ? Promise.resolve(new Response("one\\ntwo\\n"))
            : new Promise((done, failed) => how.signal.addEventListener("abort", () => { window.left = true; failed(how.signal.reason); }))""")
    page.click("#tab-source")
    page.wait_text("#result", "Loading the source")
    page.click("#tab-flame")
    page.wait(lambda: page.run("return window.left"), "the end of the request")
    page.click("#tab-source")
    page.wait_text(".source-table", "one")


def test_the_source_is_that_of_the_selected_frame(empty, page):
    for name, value in (("a", 900), ("b", 100)):
        p = Pprof(types=(("cpu", "nanoseconds"),), mapping=(0, 1 << 40, 0, f"/bin/{name}", ""), file=f"/src/{name}.c")
        send(empty, p.sample(["main"], [value]).bytes(), service=name)
    for by, keys in (("", (DOWN, RIGHT)), ("line", (DOWN, RIGHT)), ("file", (DOWN, RIGHT))):
        visit(page, empty, f"?by={by}")
        page.wait_text(".said", "2 profiles")
        page.run("document.querySelector('#flame').focus()")
        page.press(*keys)
        assert "/src/b.c" in chosen(page)
        page.run("Array.from(document.querySelectorAll('.strip-acts button')).find((b) => b.textContent === 'Source').click()")
        page.wait_text(".source-view h3", "/src/b.c")
        page.wait_text(".source-table", "100 ns")
    visit(page, empty, "?by=address")
    page.wait_text(".said", "2 profiles")
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN)
    page.wait_text(".strip", "/bin/a")
    assert "no name" not in page.text(".strip")
    # Both binaries have a colour of their own.
    assert len(page.run("return Array.from(document.querySelectorAll('.flame-legend li'), (li) => li.innerText)")) == 2 and drawn(page) > 4
    page.click("#tab-table")
    page.wait_text(".top-table", "a+0x")
    page.run("document.querySelector('.top-table tbody button').click()")
    page.wait_text(".neighbours", "Callers")
    assert "no name" not in page.text(".neighbours")
