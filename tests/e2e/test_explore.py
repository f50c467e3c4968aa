# SPDX-License-Identifier: Apache-2.0
"""The view "Explore" in a real browser, with a real service: it shows the API's values, and works by mouse and by keyboard."""

import urllib.parse

import pytest

from browser import KEY_ENTER
from exploring import DOWN, ESCAPE, FOLLOW, RIGHT, SLOW, TAB, UP, WEB, chosen, drawn, empty, idle, page, param, rows, service, shown, visit  # noqa: F401
from profiling import Pprof, ask, send
from test_profile import pprof

# ---- tabs ----

@pytest.mark.slow
def test_without_profiles_the_page_says_how_to_send_one_and_shows_it_on_arrival(empty, page):
    visit(page, empty)
    page.wait_text("#view-explore", "No profiles yet")
    text = page.text("#view-explore")
    assert f"curl --data-binary @profile.pb.gz '{empty.url}/profiles?service=NAME'" in text and f"lode demo --to {empty.url}" in text
    page.click("#view-explore .copy")
    page.wait(lambda: page.text("#toast") == "Copied", "the command to be copied")
    send(empty, WEB, service="web", format="folded")
    shown(page, 650)


def test_the_flame_graph_shows_the_apis_values(service, page):
    visit(page, service)
    shown(page, 750)
    answer = ask(service, "flamegraph")
    assert page.text(".said") == f"{answer['total']} · {answer['profiles']} profiles · {answer['samples']} samples"
    assert drawn(page) > 3
    assert page.run("return document.querySelector('.brand + nav [aria-current]').textContent") == "Explore"
    # Visit the whole tree by keyboard: every frame with its values and shares.
    nodes, frames, strings = answer["nodes"], answer["frames"], answer["strings"]
    page.run("document.querySelector('#flame').focus()")
    said = {chosen(page)}
    for keys in (DOWN, DOWN, DOWN, RIGHT, RIGHT, UP, RIGHT, RIGHT):
        page.press(keys)
        said.add(chosen(page))
    for i in range(1, len(nodes["parent"])):
        name, total, own = strings[frames["name"][nodes["frame"][i]]], nodes["total"][i], nodes["self"][i]
        assert any(s.startswith(f"{name}; total {total}, {100 * total / 750:.2f} %; self {own}, ") for s in said), (name, said)
    assert page.run("return document.querySelectorAll('img').length") == 0


def test_keys_zoom_and_change_the_url(service, page):
    visit(page, service)
    shown(page, 750)
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN, DOWN)
    assert chosen(page).startswith("serve; total 590")
    page.wait_text(".strip", "Callers and callees")
    page.press(KEY_ENTER)
    page.wait(lambda: param(page, "at"), "the zoom in the URL")
    assert not page.run("return document.querySelector('.flame-view .tools > button:last-child').hidden")
    link = page.run("return location.href")
    page.press(ESCAPE)
    page.wait(lambda: param(page, "at") is None, "all again")
    page.say("POST", "/back")
    page.wait(lambda: page.run("return location.href") == link, "the way back")
    page.open(link)
    shown(page, 750)
    page.wait(lambda: not page.run("return document.querySelector('.flame-view .tools > button:last-child').hidden"), "the zoom of the link")


def test_a_click_zooms_and_hovering_shows_a_tooltip(service, page):
    visit(page, service)
    shown(page, 750)
    box = page.run("const r = document.querySelector('#flame canvas').getBoundingClientRect(); return [r.left, r.top]")
    at = {"type": "pointerMove", "duration": 0, "x": int(box[0]) + 60, "y": int(box[1]) + 19 * 2 + 9}
    page.say("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [at]}]})
    page.wait_text(".tooltip:not([hidden])", "serve")
    assert "total 590, 78.67 %" in page.text(".tooltip:not([hidden])")
    page.say("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
        at, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}]})
    page.wait(lambda: param(page, "at"), "the zoom")
    page.wait_text(".strip-name", "serve")


def test_rows_of_nodes_and_dust_are_drawn_completely(service, page):
    """800 threads in 1000 pixels. Every second one loses a little at each of 30 calls: dust between nodes of more than a pixel."""
    visit(page, service)
    shown(page, 750)
    painted = page.run_async("""const done = arguments[0];
        Promise.all(["draw", "model"].map((name) => import(new URL(`web/flame/${name}.js`, location.href)))).then(([{ Painter }, { FlameModel }]) => {
            const parent = [-1], total = [0];
            for (let t = 0; t < 800; t++) {
                let at = 0, v = 1000;
                total[0] += v;
                for (let d = 0; d < 30; d++) {
                    const up = at;
                    at = parent.push(up) - 1;
                    total[at] = v--;
                    if (t % 2 && d)
                        total[parent.push(up) - 1] = 1;
                }
            }
            const n = parent.length, none = new Float64Array(n), one = [""];
            const model = new FlameModel({ n, parent, frame: new Int32Array(n), self: none, total, inlined: new Uint8Array(n), baseSelf: null, baseTotal: null },
                { name: one, file: one, line: [0], binary: one, buildId: one, address: one }, "count", "x");
            let full = 0;
            const c = new Proxy({ fillRect: (x, y, w) => { full += w; }, measureText: () => ({ width: 350 }) }, { get: (of, name) => of[name] ?? (() => {}), set: () => true });
            new Painter().paint(c, model, { x0: 0, x1: model.width, top: 0 }, 1000, model.nRows * 19,
                { colours: new Uint8Array(n), dark: false, up: false, hovered: -1, selected: -1, label: () => "" });
            done(full / model.nRows / 1000);
        }, (e) => done(String(e)))""")
    assert painted > 0.9


def test_searching_counts_and_gives_the_share(service, page):
    visit(page, service)
    shown(page, 750)
    page.type("#find", "^(parse|serve)$")
    page.wait_text(".flame-view output", "2 found, 2 times, 78.67 %")
    assert param(page, "find") == "^(parse|serve)$"
    page.type("#find", "(")
    page.wait_text(".flame-view output", "not a regular expression")
    page.type("#find", "<img")
    page.wait_text(".flame-view output", "1 found, 1 times")


def test_the_table_has_the_apis_numbers(service, page):
    visit(page, service, "?tab=table")
    for sort, key in (("flat", 0), ("cum", 2)):
        if sort == "cum":
            page.click(".top-table th:nth-child(3) button")
        expected = ask(service, "top", sort=sort)
        page.wait(lambda: [r[key] for r in rows(page)] == [f"{r[sort]:,}" for r in expected["rows"]], f"the table by {sort}")
        got = rows(page)
        for line, r in zip(got, expected["rows"]):
            assert line[:5] == [f"{r['flat']:,}", f"{100 * r['flat'] / 750:.2f} %", f"{r['cum']:,}", f"{100 * r['cum'] / 750:.2f} %", line[4]]
            assert r["name"] in line[4]
    assert param(page, "sort") == "cum"
    page.type(".table-view input", "ENC")
    page.wait(lambda: len(rows(page)) == 1, "the filter")
    page.click(".top-table tbody button")
    page.wait_text(".neighbours", "Callers")
    around = ask(service, "callers", function="encode")
    assert "main" in page.text(".neighbour-lists") and around["callers"][0]["name"] == "main"
    assert str(around["callers"][0]["cum"]) in page.text(".neighbour-lists li")
    page.say("POST", "/back")
    page.wait(lambda: param(page, "row") is None and page.run("return document.querySelector('.neighbours').hidden"), "back")


def test_functions_of_one_name_in_two_binaries_are_told_apart(empty, page):
    for name, value in (("a", 900), ("b", 100)):
        p = Pprof(types=(("cpu", "nanoseconds"),), mapping=(0, 1 << 40, 0, f"/bin/{name}", ""), file=f"/src/{name}.c")
        send(empty, p.sample(["main"], [value]).bytes(), service=name)
    visit(page, empty)
    page.wait_text(".said", "2 profiles")
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN, RIGHT, KEY_ENTER)
    assert chosen(page).endswith("/src/b.c; /bin/b")
    page.wait(lambda: param(page, "at"), "the zoom in the URL")
    page.open(page.run("return location.href"))
    page.wait_text(".said", "2 profiles")
    hover = """const r = document.querySelector('#flame canvas').getBoundingClientRect();
        document.querySelector('#flame canvas').dispatchEvent(new PointerEvent('pointermove', { clientX: r.left + r.width / 2, clientY: r.top + 27 }));
        return document.querySelector('.tooltip').innerText"""
    page.wait(lambda: "/bin/b" in page.run(hover), "the zoom of the link")
    page.click("#tab-table")
    page.wait_text(".top-table", "/src/b.c")
    page.run("document.querySelectorAll('.top-table tbody tr')[1].querySelector('button').click()")
    page.wait_text(".neighbours", "/src/b.c")
    assert "total 100 ns, 10.00 %" in page.text(".neighbours")


def test_functions_of_one_name_in_two_files_of_a_binary_are_told_apart(empty, page):
    for name, value in (("one", 900), ("two", 100)):
        send(empty, Pprof(types=(("cpu", "nanoseconds"),), file=f"/src/{name}.c").sample(["main", "usage"], [value]).bytes(), service="a")
    assert ask(empty, "callers", function="usage")["function"]["flat"] == 900
    assert ask(empty, "callers", function="usage", file="/src/two.c")["function"]["flat"] == 100
    visit(page, empty, "?tab=table")
    page.wait_text(".top-table", "/src/two.c")
    page.run("Array.from(document.querySelectorAll('.top-table tbody tr')).find((r) => r.innerText.includes('two.c') && r.innerText.includes('usage')).querySelector('button').click()")
    page.wait_text(".neighbours", "/src/two.c")
    assert "self 100 ns, 10.00 %" in page.text(".neighbours")


def test_callers_above_and_callees_below(service, page):
    visit(page, service, "?tab=sandwich&fn=serve")
    page.wait_text(".sandwich", "590, 78.67 % of all")
    callers, callees = (".sandwich .half:nth-of-type(1)", ".sandwich .half:nth-of-type(2)")
    page.run("document.querySelector(arguments[0]).focus()", callers)
    page.press(UP)
    assert chosen(page, callers).startswith("main; total 590")
    page.run("document.querySelector(arguments[0]).focus()", callees)
    page.press(DOWN)
    assert chosen(page, callees).startswith("parse; total 340")
    page.type(".sandwich input", "nobody" + TAB)
    page.wait_text(".sandwich", "No frame in this selection is named nobody")


def test_a_function_of_many_small_frames_is_not_said_to_be_missing(empty, page):
    send(empty, "".join(f"main;w{i};malloc 1\n" for i in range(60000)).encode(), service="many", format="folded")
    answer = ask(empty, "flamegraph")
    assert answer["left_out"] and "malloc" not in answer["strings"] and ask(empty, "top")["rows"][0]["name"] == "malloc"
    visit(page, empty, "?tab=sandwich&fn=malloc")
    page.wait_text(".sandwich", f"No frame that is large enough is named malloc: {answer['left_out']:,} frames are too small for this view")
    page.click("#tab-flame")
    page.type("#find", "malloc")
    page.wait_text("output[for=find]", "none that is large enough to show")


def test_tabs_go_by_arrow_keys(service, page):
    visit(page, service)
    shown(page, 750)
    page.run("document.getElementById('tab-flame').focus()")
    for tab in ("table", "sandwich", "source"):
        page.press(RIGHT)
        page.wait(lambda: page.run("return document.activeElement.id") == f"tab-{tab}" and param(page, "tab") == tab, tab)
        assert page.run("return document.querySelector('[role=tab][aria-selected=true]').id") == f"tab-{tab}"
    page.wait_text("#result", "No source files are known")
    for _ in range(3):
        page.say("POST", "/back")
    page.wait(lambda: param(page, "tab") is None and page.run("return document.querySelector('[aria-selected=true]').id") == "tab-flame", "the first tab")


# ---- the selection ----

def test_an_answer_that_comes_late_is_not_shown_for_another_selection(service, page):
    cpu = ask(service, "types")["types"][0]
    web, api = (f'{cpu}{{service="{name}"}}' for name in ("web", "api"))
    visit(page, service, "?" + urllib.parse.urlencode({"query": web}))
    shown(page, 650)
    page.run(SLOW, "api/flamegraph")
    page.run(FOLLOW, {"query": api, "tab": "flame", "fn": "main"})
    page.run(FOLLOW, {"query": api, "tab": "sandwich", "fn": "main"})
    idle(page)
    assert page.text(".said").startswith("100 · ") and page.text(".sandwich [role=status]") == "100, 100.00 % of all"
    visit(page, service, "?" + urllib.parse.urlencode({"query": web}))
    shown(page, 650)
    page.run(SLOW, "api/top")
    page.run(FOLLOW, {"query": api, "tab": "table"})
    page.run(FOLLOW, {"query": web})
    idle(page)
    assert page.text(".said").startswith("650 · ") and chosen(page).startswith("all; total 650")


def test_sums_over_time_that_come_late_are_not_shown_for_another_selection(service, page):
    cpu = ask(service, "types")["types"][0]
    of = {name: f'{cpu}{{service="{name}"}}' for name in ("web", "api")}
    legend = lambda name: page.run("return document.querySelector(arguments[0])?.textContent ?? ''", f"[aria-label='{name}: series']")  # noqa: E731
    visit(page, service, "?" + urllib.parse.urlencode({"query": of["web"], "compare": 1, "base": of["web"], "base_from": "now-1h", "base_to": "now"}))
    page.wait(lambda: "service=web" in legend("Over time") and "service=web" in legend("Before"), "the series")
    # The base comes late: the selection before it, which was answered at once, is another one by then.
    slow = {"compare": 1, "base": of["api"], "base_from": "now-1h", "base_to": "now"}
    page.run("performance.clearResourceTimings()")
    page.run(SLOW, "api/series?" + urllib.parse.urlencode({"query": of["api"], "from": "now-1h", "to": "now"}))
    page.run(FOLLOW, slow | {"query": of["web"], "from": "now-2h"})
    page.wait(lambda: page.run("return performance.getEntriesByType('resource').some((e) => e.name.includes('api/series') && e.name.includes('now-2h') && e.responseEnd)"),
              "the first answer")
    page.run(FOLLOW, slow | {"query": of["api"], "from": "now-3h"})
    page.wait(lambda: "service=api" in legend("Before"), "the base")
    assert "service=api" in legend("Over time")
    # Another selection needs the same base, which is on its way, and does not stop it.
    page.run(SLOW, "api/series")
    page.run(FOLLOW, slow | {"query": of["api"], "base": of["web"]})
    page.run(FOLLOW, slow | {"query": of["web"], "base": of["web"]})
    page.wait(lambda: "service=web" in legend("Over time") and "service=web" in legend("Before"), "both")


def test_a_view_that_is_shown_again_while_it_loads_does_not_say_that_there_is_nothing(service, page):
    visit(page, service, "?view=server")
    page.run(SLOW, "api/types")
    page.run("""const view = document.querySelector('#view-explore');
        new MutationObserver(() => { window.nothing ||= view.innerText.includes('No profiles in this selection'); })
            .observe(view, { subtree: true, childList: true, attributes: true });
        for (const name of ['explore', 'server', 'explore'])
            document.querySelector(`[data-view=${name}]`).click();""")
    shown(page, 750)
    idle(page)
    # The browser shows the page again.
    page.run("document.querySelector('.bar-row button:last-of-type').click(); document.dispatchEvent(new Event('visibilitychange'))")
    page.wait(lambda: page.run("return performance.getEntriesByType('resource').filter((e) => e.name.includes('api/types') && e.responseEnd).length") >= 2, "the types again")
    idle(page)
    assert not page.run("return Boolean(window.nothing)") and page.text(".said").startswith("750 · ")


def test_an_empty_range_that_was_left_is_not_shown_over_another_one(service, page):
    visit(page, service, "?view=server")
    # Whether there are profiles at any time is known late.
    page.run("""const real = window.fetch, held = new Promise((done) => { window.release = done; });
        window.fetch = (url, how) => String(url).includes('api/types?from=0&to=now') ? window.late = held.then(() => real(url, how)) : real(url, how)""")
    page.run(FOLLOW, {"view": "explore", "from": "1", "to": "2"})
    page.wait(lambda: page.run("return Boolean(window.late)"), "the second question")
    page.run(FOLLOW, {"view": "explore"})
    shown(page, 750)
    page.run("""window.hid = 0; new MutationObserver(() => { window.hid += document.querySelector('#result').checkVisibility() ? 0 : 1; })
        .observe(document.querySelector('#view-explore'), { subtree: true, childList: true, attributes: true })""")
    page.run_async("const done = arguments[arguments.length - 1]; window.release(); window.late.then(() => setTimeout(done, 200))")
    assert page.run("return window.hid") == 0 and page.text(".said").startswith("750 · ")


def test_going_back_is_not_undone_by_leaving_the_field(service, page):
    visit(page, service)
    shown(page, 750)
    page.type(".matcher input", 'service="web"')
    page.press(ESCAPE, KEY_ENTER)
    shown(page, 650)
    page.say("POST", "/back")
    shown(page, 750)
    assert page.run("return document.querySelector('.matcher input').value") == ""
    page.run("document.activeElement.blur()")
    idle(page)
    # Completions of the text before it are not those of the text that came.
    page.say("POST", "/forward")
    shown(page, 650)
    page.run("const e = document.querySelector('.matcher input'); e.focus(); e.setSelectionRange(3, 3); e.dispatchEvent(new Event('input'))")
    page.wait_text(".matcher .completions", "service")
    page.say("POST", "/back")
    shown(page, 750)
    page.press(DOWN, KEY_ENTER)
    assert page.run("return [document.querySelector('.matcher input').value, document.querySelector('.matcher .completions').hidden]") == ["", True]
    page.run("document.activeElement.blur()")
    idle(page)
    assert not (param(page, "query") or "").endswith("}") and page.text(".said").startswith("750 · ")


PENDING = """const real = window.fetch;
    const later = window.setTimeout;
    window.asked = [];
    window.setTimeout = (f, ms) => later(() => { f(); window.fired++; }, ms);
    window.fetch = async (url, how) => {
        const what = /api.(flamegraph|top)/.exec(url)?.[1], reply = await real(url, how), n = what === window.named ? 0 : 5;
        if (!what)
            return reply;
        window.asked.push(what);
        return window.down ? new Response("down", { status: 503 })
            : new Response(JSON.stringify({ ...await reply.json(), pending: { locations: n, retry_ms: n && 100 } }));
    };"""


def explore_pending(page, service, before=""):
    """Open the flame graph while addresses are being named. @before runs in the page when PENDING has."""
    visit(page, service, "?view=server")
    page.run(PENDING)
    page.run(before)
    page.run("document.querySelector('[data-view=explore]').click()")
    page.wait_text(".pending", "5 addresses are being named")


def test_names_are_polled_for_after_other_tabs_other_pages_and_failures(service, page):
    explore_pending(page, service)
    polled = lambda: page.wait(lambda: page.run("return window.asked.splice(0).includes('flamegraph')"), "a poll")  # noqa: E731
    page.run("window.named = 'top'")
    page.click("#tab-table")
    page.wait_text(".top-table", "parse")
    page.wait(lambda: page.run("return document.querySelector('.pending').hidden"), "the table's state")
    page.click("#tab-flame")
    page.wait_text(".pending", "5 addresses are being named")
    page.run("window.asked = []")
    polled()
    # The browser hides the page until a timer is over.
    page.run("Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true }); window.away = true; window.fired = 0")
    page.wait(lambda: page.run("return window.fired >= 1"), "a timer")
    page.run("window.asked = []")
    page.run("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    polled()
    page.run("window.down = true")
    page.wait_text("#view-explore > [role=alert]", "down")
    page.run("window.down = false; window.named = 'flamegraph'")
    page.wait(lambda: page.run("return document.querySelector('.pending').hidden"), "the names")
    assert page.text("#view-explore > [role=alert]") == ""


def test_a_poll_asks_for_rows_that_are_under_way(service, page):
    """It aborts the request for the same rows, and its own answer is shown."""
    explore_pending(page, service, before="""const real = window.fetch;
        let held = false;
        window.fetch = (url, how) => {
            if (held || !String(url).includes('api/top'))
                return real(url, how);
            held = true;
            return new Promise((_, fail) => how.signal.addEventListener('abort', () => fail(how.signal.reason)));
        };""")
    page.click("#tab-table")
    page.wait_text(".top-table", "parse")


def test_polling_in_one_tab_keeps_no_frame_of_another_selection_in_the_other(service, page):
    explore_pending(page, service)
    page.run("const later = window.setTimeout; window.setTimeout = (f, ms) => later(f, Math.min(ms, 300))")
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN, DOWN)
    page.press("+", "+")
    assert chosen(page).startswith("serve; ")
    page.run(FOLLOW, {"tab": "sandwich", "fn": "serve", "focus": "serve"})
    page.wait(lambda: chosen(page, "[aria-label^='Callees.']").startswith("serve; "), "the callees")
    page.run("window.asked = []")
    for _ in range(2):
        page.wait(lambda: page.run("return window.asked.splice(0)").count("flamegraph"), "a poll")
    idle(page)
    page.click("#tab-flame")
    page.wait(lambda: page.run("return document.querySelector('#flame').isConnected"), "the flame graph")
    idle(page)
    assert chosen(page).startswith("all; ")


def test_polling_keeps_the_selected_frame_and_the_focus(service, page):
    explore_pending(page, service)
    page.run("const later = window.setTimeout; window.setTimeout = (f, ms) => later(f, Math.min(ms, 300))")
    polled = lambda what: page.wait(lambda: page.run("return window.asked.splice(0)").count(what), "a poll")  # noqa: E731
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN, DOWN)
    assert chosen(page).startswith("serve; total 590")
    for _ in range(2):
        polled("flamegraph")
    assert chosen(page).startswith("serve; total 590")
    # So does the part of the graph that is shown.
    page.press("+", "+")
    picture = "const canvas = document.querySelector('#flame canvas'), done = arguments[0]; requestAnimationFrame(() => setTimeout(() => done(canvas.toDataURL())))"
    before = page.run_async(picture)
    for _ in range(2):
        polled("flamegraph")
    idle(page)
    assert page.run_async(picture) == before
    # So do they in the graphs of one function.
    page.run(FOLLOW, {"tab": "sandwich", "fn": "serve"})
    callees = "[aria-label^='Callees.']"
    page.wait(lambda: chosen(page, callees).startswith("serve; "), "the callees")
    page.run("document.querySelector(arguments[0]).focus()", callees)
    page.press(DOWN)
    parse = chosen(page, callees)
    assert parse.startswith("parse; ")
    page.run("window.asked = []")
    for _ in range(2):
        polled("flamegraph")
    idle(page)
    assert chosen(page, callees) == parse and "parse" in page.text(".sandwich .strip-name")
    page.click("#tab-table")
    page.wait_text(".top-table", "parse")
    page.run("document.querySelector('.top-table td button').focus(); window.focused = document.activeElement; window.asked = []")
    for _ in range(2):
        polled("top")
    idle(page)
    focused = "return document.activeElement === window.focused && window.focused.isConnected"
    assert page.run(focused)
    # A name has come. Other rows stay.
    page.run("""const real = window.fetch, last = document.querySelectorAll('.top-table td button');
        window.renamed = last[last.length - 1].textContent;
        window.fetch = async (url, how) => {
            const reply = await real(url, how);
            if (!String(url).includes('api/top'))
                return reply;
            const answer = await reply.json();
            answer.rows.find((row) => row.name === window.renamed).name = 'named';
            return new Response(JSON.stringify(answer));
        }""")
    page.wait_text(".top-table", "named")
    assert page.run(focused)
    # The callers and callees of a frame stay, too.
    page.run("window.focused.click()")
    page.wait_text(".neighbour-lists", "Callers")
    page.run("""Array.from(document.querySelectorAll('.neighbours button')).find((e) => e.textContent === 'Close').focus();
        window.focused = document.activeElement; window.asked = []""")
    for _ in range(2):
        polled("top")
    page.wait(lambda: page.run("return performance.getEntriesByType('resource').filter((e) => e.name.includes('api/callers') && e.responseEnd).length") >= 2, "the callers again")
    idle(page)
    assert page.run(focused + " && document.activeElement.textContent === 'Close'")


def test_the_table_is_there_after_an_empty_flame_graph(service, page):
    cpu = ask(service, "types")["types"][0]
    visit(page, service, "?" + urllib.parse.urlencode({"query": cpu + '{service="none"}'}))
    page.wait_text("#view-explore", "No profiles in this selection")
    page.click("#tab-table")
    page.run(FOLLOW, {"query": cpu, "tab": "table"})
    page.wait(lambda: page.run("return document.querySelector('.top-table')?.checkVisibility() && document.querySelectorAll('.top-table tbody tr').length"), "the table")


def test_labels_are_completed(service, page):
    visit(page, service)
    shown(page, 750)
    field = ".matcher input"
    page.type(field, "ser")
    page.wait(lambda: page.run("return Array.from(document.querySelectorAll('.completions li'), (e) => e.textContent).join()") == "service", "the name")
    page.press(DOWN, KEY_ENTER)
    page.wait_text(".completions", "is not")
    page.press(DOWN, KEY_ENTER)
    page.wait(lambda: page.run("return Array.from(document.querySelectorAll('.completions li'), (e) => e.textContent).join()") == "api,web", "the values")
    page.press(DOWN, DOWN)
    assert page.run("return document.querySelector('.completions [aria-selected=true]').id === document.querySelector('.matcher input').getAttribute('aria-activedescendant')")
    page.press(KEY_ENTER)
    assert page.run("return document.querySelector('.matcher input').value") == 'service="web"'
    page.press(ESCAPE, KEY_ENTER)
    shown(page, 650)
    assert param(page, "query").endswith('{service="web"}')
    page.say("POST", "/back")
    shown(page, 750)


def test_a_malformed_selector_shows_the_servers_error(service, page):
    visit(page, service)
    shown(page, 750)
    page.may_fail = "status of 400"
    page.type(".matcher input", "service=" + ESCAPE + KEY_ENTER)
    page.wait_text("#view-explore > [role=alert]", "expected")
    assert ask(service, "types")["types"]


def test_a_series_can_be_clicked_and_a_range_drawn(service, page):
    visit(page, service)
    shown(page, 750)
    page.wait_text(".series-legend", "service=web")
    expected = ask(service, "series")
    legend = page.text(".series-legend")
    assert all(f"service={s['labels']['service']}" in legend and f"{s['total']}, " in legend for s in expected["series"])
    box = page.run("const r = document.querySelector('.series').getBoundingClientRect(); return [r.left, r.top, r.width]")
    move = lambda part: {"type": "pointerMove", "duration": 0, "x": int(box[0] + part * box[2]), "y": int(box[1]) + 8}  # noqa: E731
    page.say("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
        move(0.5), {"type": "pointerDown", "button": 0}, move(0.7), move(1), {"type": "pointerUp", "button": 0}]}]})
    page.wait(lambda: (param(page, "from") or "").isdigit(), "the range")
    assert 28 * 60e3 < int(param(page, "to")) - int(param(page, "from")) < 32 * 60e3
    page.say("POST", "/back")
    page.wait(lambda: param(page, "from") is None, "the range of before")
    page.wait_text(".series-legend", "service=api")
    page.run("Array.from(document.querySelectorAll('.series-legend button')).find((b) => b.textContent.includes('service=api')).click()")
    shown(page, 100)


def test_shares_of_series_are_of_all_and_a_click_selects_one(empty, page):
    for i in range(60):
        send(empty, f"main;f{i} 10\n".encode(), service="a", host=f"h{i:02}", format="folded")
    send(empty, b"main;g 400\n", service="b", format="folded")
    visit(page, empty)
    shown(page, 1000)
    page.wait_text(".series-legend", "service=b 400, 40.00 %")
    assert "host=h00, service=a 10, 1.00 %" in page.text(".series-legend")
    visit(page, empty, "?series=host")
    page.wait_text(".series-legend", "no host 400, 40.00 %")
    page.run("document.querySelector('.series-legend button').click()")
    shown(page, 400)


def test_a_series_by_one_label_keeps_the_other_matchers(empty, page):
    for name, host, n in (("a", "h1", 10), ("a", "h2", 20), ("b", "h1", 100), ("b", "h2", 200)):
        send(empty, f"main {n}\n".encode(), service=name, host=host, format="folded")
    cpu = ask(empty, "types")["types"][0]
    visit(page, empty, "?" + urllib.parse.urlencode({"query": cpu + '{service="a"}', "series": "host"}))
    page.wait_text(".series-legend", "host=h2 20, 66.67 %")
    for _ in range(2):
        page.run("document.querySelector('.series-legend button').click()")
        shown(page, 20)
        assert param(page, "query") == cpu + '{service="a", host="h2"}'
    # A matcher that is there is not added again, wherever it is.
    visit(page, empty, "?" + urllib.parse.urlencode({"query": cpu + '{service="a", host="h2"}', "series": "service"}))
    page.wait_text(".series-legend", "service=a 20")
    page.run("document.querySelector('.series-legend button').click()")
    shown(page, 20)
    assert param(page, "query") == cpu + '{service="a", host="h2"}'


def test_ranges_by_choice_and_by_hand(service, page):
    visit(page, service)
    shown(page, 750)
    page.click(".range summary")
    page.click(".range-presets button:nth-child(4)")
    page.wait(lambda: param(page, "from") == "now-24h", "the last day")
    page.wait_text(".range summary", "Last 24 hours")
    # The menu was open before, and fills its fields some time after it opens: only then may others be typed.
    page.run("document.querySelector('.range-own input').value = ''")
    page.click(".range summary")
    page.wait(lambda: page.run("return document.querySelector('.range-own input').value"), "the times of now")
    page.run("""const [from, to] = document.querySelectorAll('.range-own input');
        from.value = '2020-01-02T00:00:00'; to.value = '2020-01-01T00:00:00'; document.querySelector('.range-own').requestSubmit();""")
    page.wait_text(".range-own", "The end must be later than the start.")
    page.run("document.querySelectorAll('.range-own input')[1].value = '2020-01-03T00:00:00'; document.querySelector('.range-own').requestSubmit();")
    page.wait(lambda: (param(page, "to") or "").isdigit(), "the day")
    assert int(param(page, "to")) - int(param(page, "from")) == 86400000
    # Both ends name the year, which is not this one.
    assert page.run("return document.querySelector('.range summary').textContent").count("2020") == 2
    page.wait_text("#view-explore", "No profiles in this selection")


def test_a_range_in_the_hour_that_comes_twice_stays(service, page):
    page.devtools("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    try:
        # 02:50 of summer time, and 02:10 of winter time, twenty minutes later.
        at = 1761439800123
        page.may_fail = "400"
        visit(page, service, "?" + urllib.parse.urlencode({"from": at, "to": at + 20 * 60000}))
        page.wait_text("#view-explore", "No profiles in this selection")
        page.click(".range summary")
        page.wait(lambda: page.run("return document.querySelector('.range-own input').value"), "the times")
        assert page.run("return Array.from(document.querySelectorAll('.range-own input'), (e) => e.value.slice(11))")[:2] == ["02:50", "02:10"]
        page.run("""document.querySelector('.range-own input').value = '2025-10-26T01:00:00'; document.querySelector('.range-own').requestSubmit();""")
        page.wait(lambda: param(page, "from") == str(at - 123 - 110 * 60000), "the start")
        assert param(page, "to") == str(at + 20 * 60000)
        page.run("document.querySelector('.range summary').click()")
        page.run(FOLLOW, {"from": "yesterday"})
        page.run("document.querySelector('.range').open = false; document.querySelector('.range').open = true")
        page.wait(lambda: page.run("return document.querySelector('.range-own input').value") == "", "an empty field")
    finally:
        page.devtools("Emulation.setTimezoneOverride", timezoneId="")


def test_a_comparison(service, page):
    of = {name: f'{ask(service, "types")["types"][0]}{{service="{name}"}}' for name in ("web", "api")}
    visit(page, service, "?" + urllib.parse.urlencode({"query": of["web"], "compare": 1, "base": of["api"], "base_from": "now-1h", "base_to": "now"}))
    page.wait_text(".said", "650 · before 100")
    page.run("document.querySelector('#flame').focus()")
    page.press(DOWN)
    assert chosen(page).startswith("main; total 650, 100.00 %; self 0, 0.00 %; before 100, 100.00 %")
    page.wait_text(".flame-legend", "less than before")
    page.click("#tab-table")
    page.wait(lambda: any(r[4:6] == ["60", "-60.00"] and "encode" in r[6] for r in rows(page)), "what there was before")
    page.run("document.querySelector('.bar-row .check input').click()")
    page.wait_text(".said", "650 · before 650")
    page.say("POST", "/back")
    page.wait_text(".said", "650 · before 100")


def test_groups_filters_and_directions_are_in_the_url(service, page):
    visit(page, service)
    shown(page, 750)
    page.click(".spread button[title^='Callees first']")
    page.wait(lambda: param(page, "invert") == "1", "the URL")
    page.run("document.querySelector('#flame').focus()")
    page.wait(lambda: (page.press("\ue011", DOWN), chosen(page).startswith("parse; total 340"))[1], "callees first")
    page.say("POST", "/back")
    page.wait(lambda: param(page, "invert") is None, "back")
    page.run("document.querySelector('.spread details').open = true")
    page.type(".filters label:nth-child(1) input", "^parse$" + KEY_ENTER)
    shown(page, 340)
    assert param(page, "focus") == "^parse$" and page.text(".spread details summary") == "Filters: 1"


def test_the_page_says_what_an_answer_leaves_out(service, page):
    visit(page, service, "?view=server")
    # Neither damage nor a thousand binaries is made for this: the answers are changed on their way.
    page.run("""const real = window.fetch;
        window.fetch = (url, how) => real(url, how).then(async (reply) => /api.(flamegraph|binaries|top)/.test(url)
            ? new Response(JSON.stringify({ ...await reply.json(), damaged: 2, left_out: 3 })) : reply)""")
    page.run("document.querySelector('[data-view=explore]').click()")
    page.wait_text(".said", "2 profiles are damaged and left out")
    page.click("#tab-table")
    page.wait_text(".top-table", "parse")
    page.type("[aria-label='Filter the table']", "parse")
    page.wait_text(".table-view", "1 of the largest ")
    page.run("document.querySelector('[data-view=debug]').click()")
    page.wait_text("#view-debug", "; 3 with less cost are not listed")


def test_downloads(service, page):
    visit(page, service)
    shown(page, 750)
    script = """const reply = await fetch(document.querySelector(`[data-format=${arguments[0]}]`).href);
        return [reply.status, Array.from(new Uint8Array(await reply.arrayBuffer()).slice(0, 4000))]"""
    for format_, starts in (("pprof", b"\x1f\x8b"), ("folded", b"main;"), ("svg", b"<?xml"), ("speedscope", b"{"), ("html", b"<!doctype html>")):
        status, data = page.run(script, format_)
        assert status == 200 and bytes(data).startswith(starts), (format_, bytes(data[:60]))
