# SPDX-License-Identifier: Apache-2.0
"""The flame graphs that lode profile writes, in a real browser: they draw, zoom and search, and request nothing."""

import subprocess

from conftest import LODE

ESCAPE = "\ue00c"
ARROW_UP = "\ue013"
ARROW_RIGHT = "\ue014"
ENTER = "\ue007"
FOLDED = "main;parse;read 30\nmain;parse;<img src=x onerror=document.title='owned'> 20\nmain;write 50\n"


def show(chromium, tmp_path, suffix, *args):
    (tmp_path / "in").write_text(FOLDED)
    subprocess.run([LODE, "profile", *args, "-o", tmp_path / f"out.{suffix}", tmp_path / "in"], check=True, timeout=60)
    chromium.open("about:blank")
    chromium.requests(), chromium.log("browser")
    chromium.open(f"file://{tmp_path}/out.{suffix}")


def nothing_went_wrong(chromium):
    assert all(url.startswith(("file:", "about:", "data:")) for url in chromium.requests())
    assert not [e["message"] for e in chromium.log("browser")]
    assert chromium.run("return document.title") != "owned"


def test_the_page_draws_searches_and_zooms(chromium, tmp_path):
    show(chromium, tmp_path, "html", "--title", "A <b>title</b>")
    chromium.wait_text("#total", "samples: 100")
    assert chromium.text("#title") == "A <b>title</b>"
    rows = chromium.text("#rows").splitlines()
    assert rows[0].startswith("50") and "write" in rows[0]
    assert "<img src=x" in chromium.text("#rows")
    assert chromium.run("""const c = document.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return new Set(Array.from({length: d.length / 4}, (x, i) => d[4 * i] << 16 | d[4 * i + 1] << 8 | d[4 * i + 2])).size > 3""")
    chromium.type("#search", "^(parse|read)$")
    chromium.wait_text("#found", "2 found, 50.00 %")
    assert "write" not in chromium.text("#rows") and "parse" in chromium.text("#rows")
    chromium.type("#search", "(")
    chromium.wait_text("#found", "not a regular expression")
    chromium.run("document.getElementById('graph').focus()")
    chromium.press(ARROW_UP)
    chromium.wait_text("#said", "main: 100")
    active = "return document.getElementById(document.getElementById('graph').getAttribute('aria-activedescendant')).textContent"
    assert chromium.run(active).startswith("main: 100, 100.00 %")
    chromium.press(ENTER)
    assert not chromium.run("return document.getElementById('reset').hidden")
    chromium.press(ARROW_UP, ESCAPE)
    assert chromium.run("return document.getElementById('reset').hidden")
    nothing_went_wrong(chromium)


def test_a_comparison_says_what_was_before(chromium, tmp_path):
    (tmp_path / "base").write_text("main;write 200\n")
    show(chromium, tmp_path, "html", "--base", tmp_path / "base")
    chromium.wait_text("#total", "before 200")
    assert "200" in chromium.text("#rows")
    nothing_went_wrong(chromium)


def test_the_image_zooms(chromium, tmp_path):
    show(chromium, tmp_path, "svg")
    widths = """return Object.fromEntries(Array.from(document.querySelectorAll('#frames > g'), g =>
        [g.querySelector('title').textContent.split(' ')[0],
         g.style.display === 'none' ? -1 : +g.querySelector('rect').getAttribute('width')]))"""
    before = chromium.run(widths)
    assert before["all"] == 1180 and before["write"] == 590
    chromium.run("""for (const g of document.querySelectorAll('#frames > g'))
        if (g.querySelector('title').textContent.startsWith('parse'))
            g.dispatchEvent(new MouseEvent('click'))""")
    after = chromium.run(widths)
    assert after["parse"] == 1180 and after["main"] == 1180 and after["read"] == 708 and after["write"] == -1
    nothing_went_wrong(chromium)


def test_callees_larger_than_their_caller_are_drawn_within_it(chromium, tmp_path):
    """As those of a difference: a has 60 in all."""
    (tmp_path / "new").write_text("a;x 100\na;y 80\nb;z 50\n")
    (tmp_path / "base").write_text("a;w 120\n")
    subprocess.run([LODE, "profile", "--base", tmp_path / "base", "-o", tmp_path / "in.pb.gz", tmp_path / "new"], check=True, timeout=60)
    subprocess.run([LODE, "profile", "-o", tmp_path / "out.html", tmp_path / "in.pb.gz"], check=True, timeout=60)
    chromium.open("about:blank")
    chromium.requests(), chromium.log("browser")
    chromium.open(f"file://{tmp_path}/out.html")
    chromium.wait_text("#total", "samples: 110")
    chromium.run("document.getElementById('graph').focus()")
    # The root, a, its neighbour b, and z, which is called by b.
    for key, said in ((ARROW_UP, "a: 60"), (ARROW_RIGHT, "b: 50"), (ARROW_UP, "z: 50")):
        chromium.press(key)
        chromium.wait_text("#said", said)
    nothing_went_wrong(chromium)
