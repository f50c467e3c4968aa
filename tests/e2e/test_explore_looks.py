# SPDX-License-Identifier: Apache-2.0
"""The view "Explore" for screen readers, with hostile names, and by links of older versions."""

import pytest

from browser import KEY_ENTER
from exploring import DOWN, HOSTILE, TAB, chosen, empty, page, param, service, shown, visit  # noqa: F401
from profiling import send

CONTRAST = """
const rgb = (text) => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true}); c.fillStyle = text; c.fillRect(0, 0, 1, 1); return Array.from(c.getImageData(0, 0, 1, 1).data); };
const known = new Map(), of = (text) => known.get(text) ?? known.set(text, rgb(text)).get(text);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => { for (; e; e = e.parentElement) { const c = of(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
const bad = [];
for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || e.closest('[aria-busy=true], .offscreen, .flame-reader, option, :disabled') ||
        !Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.data.trim()))
        continue;
    const a = light(of(getComputedStyle(e).color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5)
        bad.push([e.tagName, e.className, e.textContent.slice(0, 40), ratio.toFixed(2)]);
}
return bad;"""
NAMELESS = """return Array.from(document.querySelectorAll("a, button, input, select, summary, [role=tree]")).filter((e) => e.checkVisibility() &&
    !(e.innerText || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)"""


def roles(page):
    nodes = page.devtools("Accessibility.getFullAXTree")["nodes"]
    return {(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored") and "role" in n}


@pytest.mark.parametrize("query", ["", "?from=now-7d", "?tab=table", "?tab=sandwich&fn=serve", "?tab=source", "?view=debug", "?view=server"])
def test_every_view_is_legible_named_and_fits(service, page, query):
    visit(page, service, query)
    page.wait(lambda: page.run("return document.querySelector('.view:not([hidden])').innerText.length > 200 && !document.querySelector('[aria-busy=true]')"), "the view")
    backs = set()
    for dark in (False, True):
        for width in (1400, 390, 320):
            page.look(dark, width)
            assert page.run("return document.documentElement.scrollWidth") <= width
        page.look(dark, 1400)
        backs.add(page.run("return getComputedStyle(document.body).backgroundColor"))
        assert page.run(CONTRAST) == []
    page.look()
    assert len(backs) == 2
    assert page.run(NAMELESS) == []
    assert page.run("return document.querySelectorAll('img, [style*=url]').length") == 0
    named = roles(page)
    assert ("navigation", "Views") in named and ("main", "") in named


def test_the_tree_is_accessible_to_screen_readers(service, page):
    visit(page, service)
    shown(page, 750)
    named = roles(page)
    assert any(role == "tree" and name.startswith("Flame graph") for role, name in named)
    assert any(role == "treeitem" and name.startswith("main; total 750") for role, name in named)
    assert {name for role, name in named if role == "tab"} == {"Flame graph", "Table", "Callers and callees", "Source"}
    assert any(role == "image" and name.startswith("Over time: 2 series") for role, name in named)
    # All controls are reached with the tab key, and show their focus.
    page.run("document.querySelector('.brand').focus()")
    seen = []
    for _ in range(40):
        page.press(TAB)
        seen.append(page.run("const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.innerText"))
        assert page.run("return document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none' || "
                        "document.activeElement.classList.contains('offscreen')"), seen[-1]
        if seen[-1] == "flame":
            break
    assert "type" in seen and "tab-flame" in seen and seen[-1] == "flame", seen


def test_hostile_labels_and_names_are_text(empty, page):
    send(empty, f"{HOSTILE};\u202egnp.exe 5\n".encode(), service=HOSTILE, format="folded")
    visit(page, empty)
    shown(page, 5)
    page.wait_text(".series-legend", HOSTILE)
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN)
    assert chosen(page).startswith(HOSTILE)
    page.press(DOWN)
    assert chosen(page).startswith("\\u202egnp.exe")
    page.click("#tab-table")
    page.wait_text(".top-table", HOSTILE)
    page.run("document.querySelector('.matcher input').focus()")
    page.type(".matcher input", "service=")
    page.wait_text(".completions", HOSTILE)
    page.press(DOWN, KEY_ENTER, KEY_ENTER)
    page.wait(lambda: HOSTILE in (param(page, "query") or ""), "the label in the URL")
    page.wait_text(".top-table", HOSTILE)
    assert page.run("return document.querySelectorAll('img').length") == 0


def test_a_unit_or_view_may_have_the_name_of_an_objects_member(service, page):
    visit(page, service, "?view=constructor")
    shown(page, 750)
    assert page.run_async("""const done = arguments[0];
        import(new URL("web/flame/value.js", location.href)).then((m) => done(m.valueText(3, "constructor")), (e) => done(String(e)))""") == "3"


def test_what_is_chosen_is_seen_in_forced_colours(service, page):
    page.say("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "forced-colors", "value": "active"}]}})
    try:
        visit(page, service, "?invert=1")
        shown(page, 750)
        seen = """const c = getComputedStyle(document.querySelector(arguments[0])); return c.color + c.backgroundColor"""
        for chosen_, other in ((".tabs [aria-selected=true]", ".tabs [aria-selected=false]"), (".views [aria-current]", ".views a:not([aria-current])"),
                               (".panel [aria-pressed=true]", ".panel [aria-pressed=false]")):
            assert page.run(seen, chosen_) != page.run(seen, other), chosen_
    finally:
        page.say("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": []}})


def test_links_of_older_versions_still_work(service, page):
    page.may_fail = "404"
    for old in ("?q=/usr/bin/hello", "#/?q=/usr/bin/hello"):
        page.base = service.url
        page.open("about:blank")
        page.open(f"{service.url}/{old}")
        page.wait_text("#results", "No file here has this path")
        assert page.run("return document.querySelector('.views [aria-current]').textContent") == "Server"
