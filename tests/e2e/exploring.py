# SPDX-License-Identifier: Apache-2.0
"""The view "Explore" in a real browser, for the tests of it and of other views."""

import re

import pytest

from conftest import Service
from profiling import send

TAB, ESCAPE, LEFT, UP, RIGHT, DOWN = "\ue004", "\ue00c", "\ue012", "\ue013", "\ue014", "\ue015"
HOSTILE = "<img src=x onerror=document.title='owned'>"
WEB = f"main;serve;parse 300\nmain;serve;write 200\nmain;idle 100\nmain;serve;{HOSTILE} 50\n".encode()
API = b"main;serve;parse 40\nmain;encode 60\n"


@pytest.fixture
def page(chromium):
    """A browser that must not request other sites, violate the page's policy, or log errors during a test."""
    chromium.look()
    chromium.open("about:blank")
    chromium.requests(), chromium.log("browser")
    chromium.base, chromium.may_fail = None, None
    yield chromium
    asked = [url for url in chromium.requests() if not url.startswith(("about:", "data:"))]
    assert asked and all(url.startswith(chromium.base + "/") for url in asked), asked
    errors = [e["message"] for e in chromium.log("browser")]
    assert not [e for e in errors if not (chromium.may_fail and re.search(chromium.may_fail, e))]
    assert "owned" not in chromium.run("return document.title")
    chromium.open("about:blank")


@pytest.fixture
def empty(serve, tmp_path):
    (tmp_path / "none").mkdir()
    return serve([tmp_path / "none"]).ready()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with two profiles, for tests that do not change it."""
    work = tmp_path_factory.mktemp("explore")
    (work / "none").mkdir()
    s = Service([work / "none"], work / "data")
    try:
        s.ready()
        send(s, WEB, service="web", host="a1", format="folded")
        send(s, API, service="api", host="a2", format="folded")
        yield s
    finally:
        s.stop()


def visit(page, service, query=""):
    page.base = service.url
    page.open(f"{service.url}/{query}")


def param(page, name):
    return page.run("return new URLSearchParams(location.search).get(arguments[0])", name)


def chosen(page, box="#flame"):
    """The text that a screen reader reads for the selected frame."""
    return page.run("""const box = document.querySelector(arguments[0]);
        return document.getElementById(box.getAttribute('aria-activedescendant'))?.textContent ?? ''""", box)


def drawn(page, box="#flame"):
    return page.run("""const c = document.querySelector(arguments[0] + ' canvas'), d = c.width && c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return d ? new Set(Array.from({length: d.length / 4}, (x, i) => d[4 * i] << 16 | d[4 * i + 1] << 8 | d[4 * i + 2])).size : 0""", box)


def shown(page, total):
    page.wait_text(".said", f"{total:,} · ")
    page.wait(lambda: chosen(page).startswith("all"), "the tree")


def rows(page):
    return page.run("return Array.from(document.querySelectorAll('.top-table tbody tr'), (tr) => Array.from(tr.cells, (td) => td.textContent))")


SLOW = """const real = window.fetch;
    window.fetch = (url, how) => String(url).includes(arguments[0]) ? new Promise((done) => setTimeout(done, 800)).then(() => real(url, how)) : real(url, how)"""
FOLLOW = "history.pushState(null, '', '?' + new URLSearchParams(arguments[0])); dispatchEvent(new PopStateEvent('popstate'))"


def idle(page):
    page.wait(lambda: page.run("return document.querySelector('[aria-label=Profile]').getAttribute('aria-busy')") == "false", "the end of all requests")
