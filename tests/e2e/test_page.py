# SPDX-License-Identifier: Apache-2.0
"""The page at /, in a real browser."""

import http.client
import json
import pathlib
import re
import shutil
import subprocess
import urllib.parse

import pytest

from browser import KEY_ENTER
from bucket import Bucket
from conftest import Program, free_port, make_deb, tree_of
from making import debug_deb, elf, new_id
from pushing import put

HOSTILE = "<img src=x onerror=document.title='owned'>\u202e.deb"


@pytest.fixture
def page(chromium):
    """A browser that must not request other sites or log errors during a test."""
    chromium.look()
    chromium.open("about:blank")
    chromium.requests(), chromium.log("browser")
    chromium.base = chromium.may_fail = None
    yield chromium
    asked = [url for url in chromium.requests() if not url.startswith(("about:", "data:"))]
    assert asked and all(url.startswith(chromium.base + "/") for url in asked), asked
    # The browser logs every status from 400 on; for a build ID that is not here that status is the right answer.
    errors = [e["message"] for e in chromium.log("browser")]
    assert not [e for e in errors if not (chromium.may_fail and re.search(chromium.may_fail, e))]
    chromium.open("about:blank")


def visit(page, service, query=None, may_fail=None):
    page.base, page.may_fail = service.url, may_fail
    page.open(service.url + ("/?view=server" if query is None else "/?" + urllib.parse.urlencode({"q": query})))


NOT_HERE = r"/buildid/[0-9a-f]+/(debuginfo|executable) .*(404|502)"


@pytest.fixture
def pool(tmp_path, program):
    """A package, and a damaged one with a hostile name."""
    folder = tmp_path / "pool"
    folder.mkdir()
    deb = make_deb(tree_of(program, tmp_path / "root"), folder / "hello.deb")
    (folder / HOSTILE).write_bytes(deb.read_bytes()[:-500])
    return folder


def fetched(page, selector):
    """The content of a link, as the browser gets it."""
    script = """
        const reply = await fetch(document.querySelector(arguments[0]).href);
        return [reply.status, Array.from(new Uint8Array(await reply.arrayBuffer()))];"""
    status, data = page.run(script, selector)
    assert status == 200
    return bytes(data)


def test_a_build_id_leads_to_its_files(serve, pool, program, page):
    s = serve([pool]).scanned()
    visit(page, s)
    assert page.run("return document.activeElement.id") == "query"
    spelled = "0x" + " ".join(program.build_id.upper()[i:i + 8] for i in range(0, 40, 8))
    page.type("#query", spelled + KEY_ENTER)
    page.wait_text("#results", "curl -fo hello.debug")
    text = page.text("#results")
    assert program.build_id in text and "/usr/bin/hello" in text and "hello.deb" in text
    assert f"DEBUGINFOD_URLS={s.url}/ debuginfod-find debuginfo {program.build_id}" in text
    assert fetched(page, f'a[href$="{program.build_id}/debuginfo"]') == program.debug.read_bytes()
    assert fetched(page, f'a[href$="{program.build_id}/executable"]') == program.binary.read_bytes()
    assert page.run("return document.querySelector('a[href$=executable]').download") == "hello"


@pytest.mark.parametrize("pasted", ["Build ID: {}", "(unique build ID bitstring)     Build ID: {}  Displaying notes found in: .note.ABI-tag",
                                    "BuildID[sha1]={}, for GNU/Linux 3.2.0", "/usr/lib/debug/.build-id/{0:.2}/{1}.debug",
                                    "http://elsewhere:8002/buildid/{}/debuginfo", "  {}  "])
def test_a_build_id_may_be_pasted_from_the_output_of_other_programs(serve, pool, program, page, pasted):
    visit(page, serve([pool]).scanned(), pasted.format(program.build_id, program.build_id[2:]))
    page.wait_text("#results", f"debuginfod-find debuginfo {program.build_id}")


def test_paths_and_patterns_lead_to_build_ids(serve, pool, program, page):
    visit(page, serve([pool]).scanned())
    page.type("#query", "/usr/bin/hello" + KEY_ENTER)
    page.wait_text("#results", "1 result.")
    assert program.build_id in page.text("#results")
    page.type("#query", "/usr/*/hel?o" + KEY_ENTER)
    page.wait_text("#results h2", "Files that match")
    page.wait_text("#results", "1 result.")
    page.click("#results td.id a")
    page.wait_text("#results", "debuginfod-find debuginfo")
    assert page.run("return new URLSearchParams(location.search).get('q')") == program.build_id
    page.say("POST", "/back")
    page.wait_text("#results h2", "Files that match /usr/*/hel?o")
    assert page.run("return document.querySelector('#query').value") == "/usr/*/hel?o"


def test_a_search_can_be_linked_to(serve, pool, program, page):
    visit(page, serve([pool]).scanned(), "/usr/bin/hello")
    page.wait_text("#results", program.build_id)
    assert page.run("return document.querySelector('#query').value") == "/usr/bin/hello"
    assert page.run("return document.title").startswith("/usr/bin/hello")


def test_a_missing_build_id_shows_reasons_and_suggestions(serve, pool, page):
    s = serve([pool]).scanned()
    visit(page, s, "ab" * 20, NOT_HERE)
    page.wait_text("#results", "This build ID is not here.")
    page.wait_text("#results", "1 file could not be read")
    page.type("#query", "ab" * 19 + "a" + KEY_ENTER)
    page.wait_text("#results", "even number of digits; this one has 39")
    page.type("#query", "/bin/hello" + KEY_ENTER)
    page.wait_text("#results", "No file here has this path.")
    page.click("#results .suggestions a")
    page.wait_text("#results", "1 result.")
    page.type("#query", "hello" + KEY_ENTER)
    page.wait_text("#results", "This is neither a build ID nor a path.")
    page.click("#results .suggestions a")
    page.wait_text("#results", "1 result.")


def test_many_results_come_in_pages(serve, program, tmp_path, page):
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(60):
        shutil.copy2(program.binary, folder / f"hello{i:02}")
    visit(page, serve([folder]).scanned(), f"{folder}/hello*")
    page.wait_text("#results", "25 results so far")
    page.click("#results .more")
    page.wait_text("#results", "50 results so far")
    page.click("#results .more")
    page.wait_text("#results", "60 results.")
    names = page.run("return Array.from(document.querySelectorAll('#results tbody tr .path'), (e) => e.textContent)")
    assert sorted(names) == [f"{folder}/hello{i:02}" for i in range(60)]


def test_names_in_other_scripts_are_shown_as_they_are(serve, program, tmp_path, page):
    (tmp_path / "files").mkdir()
    shutil.copy2(program.binary, tmp_path / "files" / "größe 名.bin")
    visit(page, serve([tmp_path / "files"]).scanned(), program.build_id, NOT_HERE)
    page.wait_text("#results .artifacts tr:last-child", ".bin")
    assert "größe 名.bin" in page.text("#results .artifacts tr:last-child")


def test_hostile_names_are_text(serve, pool, program, tmp_path, page):
    root = tmp_path / "hostile"
    (root / "usr/bin").mkdir(parents=True)
    shutil.copy2(program.binary, root / "usr/bin/<script>document.title='owned'<!--")
    make_deb(root, tmp_path / "hostile.deb").rename(pool / "<b onmouseover=alert(1)>.deb")
    visit(page, serve([pool]).scanned(), "/usr/bin/<*")
    page.wait_text("#results", "/usr/bin/<script>document.title='owned'<!--")
    page.wait_text("#results", "<b onmouseover=alert(1)>.deb")
    # The character that changes the direction of text is shown as an escape.
    page.wait_text("#failures", HOSTILE.replace("\u202e", "\\u202e"))
    assert page.run("return document.querySelectorAll('img, b, #results script').length") == 0
    assert "owned" not in page.run("return document.title")


def test_senders_are_listed_with_their_newest_refusal(serve, tmp_path, page):
    (tmp_path / "empty").mkdir()
    s = serve([tmp_path / "empty"]).ready()
    agent = "<b onmouseover=alert(1)>sdk/1"
    assert s.get("/ingest?name=x&format=tree", "POST", {"User-Agent": agent}).status == 400
    s.wait(lambda: json.loads(s.get("/api/senders").body)["senders"], "it to be noted")
    visit(page, s)
    page.wait_text("#senders-aside", "1 sender, 1 with refusals")
    shown = page.text("#senders tbody")
    assert agent in shown and "/ingest" in shown and "status 400" in shown and "'tree' is not supported" in shown
    assert page.run("return document.querySelectorAll('#senders b').length") == 0


def test_many_senders_are_folded_and_fit_on_narrow_screens(serve, tmp_path, page):
    (tmp_path / "empty").mkdir()
    s = serve([tmp_path / "empty"]).ready()
    for i in range(30):
        agent = ("a" * 200, "\xe2\x80\xae", "agent/1 (linux)")[i % 3]
        assert s.get(f"/{'ingest?name=' if i % 2 else 'profiles?' + 'l' * 300 + '='}x&format=tree", "POST", {"User-Agent": f"{i} {agent}"}).status == 400
    visit(page, s)
    page.wait_text("#senders-aside", "30 senders, 30 with refusals")
    rows = "return document.querySelectorAll('#senders tbody tr').length"
    assert page.run(rows) == 12
    assert page.run("return [...document.querySelectorAll('#senders tbody tr')].every((tr) => tr.querySelector('th[scope=row]').textContent && tr.children.length === 5)")
    first = "document.querySelector('#senders tbody tr')"
    page.run(f"document.querySelector('#senders .more').focus(); {first}.marked = true")
    page.press("\ue007")
    page.wait(lambda: page.run(rows) == 30, "all of them")
    button = "return [document.activeElement.className, document.activeElement.getAttribute('aria-expanded'), document.activeElement.textContent]"
    assert page.run(button) == ["more", "true", "Show the latest only"]
    assert page.run(f"return {first}.marked") is True
    for width in (320, 768, 1400):
        page.look(width=width)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), width
    page.press(" ")
    page.wait(lambda: page.run(rows) == 12, "the latest only")
    assert page.run(button)[1:] == ["false", "Show all 30 senders"]


@pytest.mark.slow
def test_targets_are_listed_with_their_errors(serve, tmp_path, page):
    (tmp_path / "empty").mkdir()
    (tmp_path / "targets.json").write_text(json.dumps([{"targets": ["127.0.0.1:1"], "labels": {"job": "<b onmouseover=alert(1)>"}, "scrape_interval": "1s",
                                                        "profiles": ["memory", "goroutine"]}]))
    s = serve([tmp_path / "empty"], args=["--scrape", str(tmp_path / "targets.json")]).ready()
    s.wait(lambda: json.loads(s.get("/api/targets").body)["targets"][0]["failing"] == 2, "failures")
    (tmp_path / "targets.json").write_text("[<i>")
    s.wait(lambda: "error" in json.loads(s.get("/api/targets").body)["files"][0], "the broken file")
    visit(page, s)
    page.wait_text("#targets-aside", "1 target, 1 failing")
    shown = page.text("#targets-body")
    assert "http://127.0.0.1:1" in shown and "job=<b onmouseover" in shown and "Connection refused" in shown and "goroutine" in shown
    assert "targets.json is refused" in shown
    assert page.run("return document.querySelectorAll('#targets b, #targets i').length") == 0
    assert page.run("return document.querySelectorAll('#targets tbody tr').length") == 2


def test_failures_are_listed_with_reasons_and_filtered(serve, pool, page):
    for i in range(140):
        (pool / f"broken{i:03}.rpm").write_bytes(b"nonsense" * 100)
    s = serve([pool]).scanned()
    all_of_them = json.loads(s.get("/api/failures?limit=1000").body)["failures"]
    visit(page, s)
    page.wait_text("#failures-aside", "141 files")
    page.wait_text("#state", "141 files could not be read")
    rows = "return document.querySelectorAll('#failures tbody tr').length"
    page.wait(lambda: page.run(rows) == 25, "the first failures")
    page.click("#failures .more")
    page.wait(lambda: page.run(rows) == 125, "more of them")
    page.click("#failures .more")
    page.wait(lambda: page.run(rows) == 141, "all of them")
    shown = page.text("#failures tbody")
    assert all(f["reason"] in shown and pathlib.Path(f["path"]).name.replace("\u202e", "\\u202e") in shown for f in all_of_them)
    assert "in " in page.text("#failures td.when")
    page.type("#failures input", "BROKEN07")
    page.wait(lambda: page.run(rows) == 10, "those that match")
    page.type("#failures input", "none of them")
    page.wait_text("#failures", "No path or reason contains this text.")


@pytest.mark.slow
def test_the_status_and_the_commands_to_use_the_server(serve, pool, page):
    s = serve([pool]).scanned()
    visit(page, s)
    page.wait_text("#scan", "1 mapped")
    page.wait_text("#scan-aside", "idle since")
    assert "1 not readable" in page.text("#scan")
    figures = dict(zip(*(page.run(f"return Array.from(document.querySelectorAll('#indexed {tag}'), (e) => e.firstChild.data)")
                         for tag in ("dt", "dd"))))
    assert figures["Packages"] == "2" and figures["Build IDs"] == "1" and figures["Debug files"] == "1" and figures["Plain files"] == "0"
    assert f"export DEBUGINFOD_URLS={s.url}/" in page.text("#use")
    served = "return document.querySelector('#requests tbody td').innerText"
    before = int(page.run(served))
    s.get("/metadata?key=file&value=/usr/bin/hello")
    page.wait(lambda: int(page.run(served)) > before, "the request to be counted")
    page.click("#use .copy")
    page.wait(lambda: page.text("#toast") == "Copied", "the line to be copied")


def test_a_server_without_files_says_so(serve, tmp_path, page):
    (tmp_path / "empty").mkdir()
    visit(page, serve([tmp_path / "empty"]).scanned())
    page.wait_text("#scan", "No file with a build ID was found.")
    page.wait_text("#failures", "All files could be read.")


def test_the_page_works_by_keyboard_and_on_narrow_screens(serve, pool, program, page):
    visit(page, serve([pool]).scanned(), program.build_id)
    page.wait_text("#results", "Download")
    page.wait_text("#failures", "onerror")
    page.run("document.activeElement.blur()")
    page.press("/")
    assert page.run("return document.activeElement.id") == "query"
    colours = set()
    for dark in (False, True):
        for width in (1280, 390, 320):
            page.look(dark, width)
            assert page.run("return document.documentElement.scrollWidth") <= width
        colours.add(page.run("return getComputedStyle(document.body).backgroundColor"))
    page.look()
    assert len(colours) == 2
    # All controls have a name.
    nameless = """return Array.from(document.querySelectorAll("a, button, input")).filter((e) => e.checkVisibility() &&
        !(e.innerText || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)"""
    assert page.run(nameless) == []


@pytest.mark.slow
def test_a_stopped_server_is_noticed(serve, pool, page):
    s = serve([pool]).scanned()
    visit(page, s, may_fail="ERR_CONNECTION|ERR_EMPTY|Failed to load")
    page.wait_text("#state", "Serving")
    s.stop()
    page.wait_text("#state", "No answer")


@pytest.mark.slow
def test_upstream_servers_and_the_store(serve, faulty, elf, tmp_path, page):
    (tmp_path / "empty").mkdir()
    other = new_id("other")
    up = faulty({f"/buildid/{other}/debuginfo": elf.of(elf.debug, other)})
    dead = f"http://127.0.0.1:{free_port()}"
    s = serve([tmp_path / "empty"], args=["--debuginfod-upstream-servers", f"{dead},{up.url}", "--store-quota", "50M"]).scanned()
    visit(page, s, may_fail=NOT_HERE)
    page.wait_text("#others", "no request yet")
    page.wait_text("#others", "No requests yet")
    page.wait_text("#store", "No pushes yet.")
    assert f"lode push BUILD-FOLDER --to {s.url}" in page.text("#store")

    assert s.get(f"/buildid/{other}/debuginfo").status == 200
    assert s.get(f"/buildid/{new_id('nowhere')}/debuginfo").status in (404, 502)
    hostile = "usr/bin/<img src=x onerror=document.title='owned'>\u202e.debug"
    for name in (hostile, "last.debug"):
        made = new_id(name)
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        c.request("PUT", f"/buildid/{made}/debuginfo", elf.of(elf.debug, made), {"X-LODE-FILE": urllib.parse.quote(name)})
        assert c.getresponse().status == 201
        c.close()
    page.wait_text("#others", "answers")
    page.wait(lambda: "Connection refused" in page.text("#others"), "what is wrong with the other one")
    rows = "return Array.from(document.querySelectorAll('#others tbody tr'), (e) => e.innerText)"
    assert [up.url in r for r in page.run(rows)] == [False, True]
    figures = "return Object.fromEntries(Array.from(document.querySelectorAll('#store .figures > div'), (e) => [e.firstChild.innerText, e.lastChild.firstChild.data]))"
    page.wait(lambda: (page.run(figures).get("Pushed"), page.run(figures).get("Fetched")) == ("2", "1"), "the store's figures")
    pushes = page.run("return Array.from(document.querySelectorAll('#store tbody tr'), (e) => e.innerText)")
    assert "last.debug" in pushes[0] and "local" in pushes[0] and "\\u202e" in pushes[1] and "ago" in pushes[1]
    assert page.run("return document.querySelectorAll('#store img').length") == 0
    for dark, width in ((False, 1280), (True, 390)):
        page.look(dark, width)
        assert page.run("return document.documentElement.scrollWidth") <= width
    page.look()
    page.click("#store tbody a")
    page.wait_text("#results", new_id("last.debug"))
    page.wait_text("#results", "Download")


def test_a_server_without_upstream_and_store_says_so(serve, tmp_path, page):
    (tmp_path / "empty").mkdir()
    visit(page, serve([tmp_path / "empty"], args=["--no-store"]).scanned())
    page.wait_text("#others", "has no upstream servers")
    page.wait_text("#store", "has no store and does not accept pushes")


@pytest.mark.slow
def test_an_address_leads_to_its_chain_and_the_source(serve, pool, program, page):
    s = serve([pool]).scanned()
    symbols = subprocess.run(["nm", str(program.debug)], capture_output=True, text=True, check=True).stdout
    addr = "0x" + re.search(r"0*(\w+) t twice", symbols).group(1)
    visit(page, s)
    page.type("#address-id", program.build_id)
    page.type("#address-addr", addr + KEY_ENTER)
    line = 1 + next(i for i, text in enumerate(program.source.read_text().splitlines(), 1) if "static int twice" in text)
    page.wait_text("#address-body .source .meant", str(line))
    assert page.text("#address-body .chain .function") == "twice"
    assert page.text("#address-body .chain .path").endswith("/hello.c")
    # The URL leads back to the result.
    page.open(f"{s.url}/?id={program.build_id}&addr={addr}")
    page.wait_text("#address-body .source .meant", str(line))
    for id_, at, said in (("00" * 20, "1", "Nothing here has this build ID"), (program.build_id, "1", "outside of every function"),
                          ("xyz", "1", "Enter a complete build ID")):
        page.open(f"{s.url}/?id={id_}&addr={at}")
        page.wait_text("#address-body", said)
    # An answer that comes late does not take the place of what is said of a later entry.
    page.run("""const real = window.fetch;
        window.fetch = (url, how) => window.late = real(url, how).then((reply) => new Promise((done) => setTimeout(() => done(reply), 500)));
        document.querySelector('#address-id').value = arguments[0]; document.querySelector('#address-addr').value = arguments[1];
        document.querySelector('#address-form').requestSubmit();
        document.querySelector('#address-addr').value = 'main'; document.querySelector('#address-form').requestSubmit()""", program.build_id, addr)
    page.run_async("const done = arguments[arguments.length - 1]; window.late.catch(() => null).then(() => setTimeout(done, 100))")
    assert page.text("#address-body").startswith("Enter a complete build ID")
    # Nor does the address of the URL, which was looked up before, when the page is shown again.
    page.run("document.dispatchEvent(new Event('visibilitychange'))")
    assert page.text("#address-body").startswith("Enter a complete build ID")
    assert page.run("return document.querySelector('#address-addr').value") == "main"


@pytest.mark.slow
def test_object_storage_shows_whether_it_answers(serve, elf, page):
    bucket = Bucket()
    try:
        bucket.objects["debs/x.deb"] = debug_deb("xz", elf.id, elf.debug)
        s = serve(["s3://bucket/debs"], args=["--rescan", "1"], extra=bucket.env()).scanned()
        visit(page, s)
        page.wait_text("#bucket", "answers")
        assert bucket.url in page.text("#bucket")
        bucket.away = True
        page.wait_text("#bucket", "failing for")
        page.wait_text("#bucket", "503")
    finally:
        bucket.close()


@pytest.mark.slow
def test_the_store_shows_pushes_that_wait_for_the_bucket(serve, elf, page, tmp_path):
    bucket = Bucket()
    (tmp_path / "empty").mkdir()
    node = {"data": tmp_path / "node", "args": ["--no-packages", "--store", "s3://bucket/store", "--keep-pushes", "1M"], "extra": bucket.env()}
    try:
        s = serve([tmp_path / "empty"], **node).ready()
        bucket.away = True
        for build_id in (elf.id, new_id("waits")):
            assert put(s, f"/buildid/{build_id}/debuginfo", elf.of(elf.debug, build_id))[0] == 202
        s.stop()
        first = min((tmp_path / "node" / "bucket").glob("held-*/*.content"))
        first.write_bytes(first.read_bytes()[:-1] + b"?")
        s = serve([tmp_path / "empty"], **node).ready()
        visit(page, s)
        page.wait_text("#store-body", "Wait for the bucket")
        page.wait_text("#store-body", "1 push that was kept while the bucket was away is not in it")
        page.wait_text("#store-body", "1 push\n")
        page.wait_text("#store-body", "damaged on this disk")
        assert f"{elf.id}/debuginfo" in page.text("#store-body")
    finally:
        bucket.close()
