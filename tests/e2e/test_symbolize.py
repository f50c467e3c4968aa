# SPDX-License-Identifier: Apache-2.0
"""Addresses to frames over HTTP, from a server with a package only; llvm-symbolizer is the oracle."""

import http.client
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from compact import binary_reply, binary_request
from conftest import build_id, make_deb, slow_but
from making import NESTED_AT, nested
from pushing import lode, put

SOURCE = """
#include <stdio.h>
#include <vector>

namespace shop {

static inline __attribute__((always_inline)) int twice(int n)
{
	return n * 2 + (n >> 3);
}

template <typename T> __attribute__((noinline)) T sum(const std::vector<T> &all)
{
	T s = 0;

	for (T one : all)
		s += twice(one);
	return s;
}

}

__attribute__((noinline)) int more(int argc)
{
	std::vector<int> all;

	for (int i = 0; i < argc + 20; i++) all.push_back(i & 1 ? i : -i); /* in one line: with discriminators */
	return shop::sum(all);
}

int main(int argc, char **argv)
{
	printf("%d\\n", more(argc));
	return 0;
}
"""


def plain(name):
    """The name without a clone's suffix, which demanglers write differently, and without the scope if the linkage name has none."""
    return re.sub(r"^shop::twice$", "twice", re.sub(r" (\[clone )?\(?\.cold[\])]", "", name))


def code_of(program):
    out = subprocess.run(["nm", "-S", "--defined-only", str(program)], capture_output=True, text=True, check=True).stdout
    code = []
    for line in out.splitlines():
        m = re.match(r"([0-9a-f]+) ([0-9a-f]+) [tTwW] (\S+)", line)
        if m and m.group(3).startswith(("_Z", "main")):
            start, size = int(m.group(1), 16), int(m.group(2), 16)
            code += range(start, start + size, 3)
    return code


class Built:
    """A C++ program with inlined calls and templates: its debug file in one package, its stripped self in another."""

    def __init__(self, work, flags=()):
        self.dir = work
        work.mkdir(parents=True, exist_ok=True)
        (work / "shop.cc").write_text(SOURCE)
        self.full, self.stripped, self.debug = work / "full", work / "shop", work / "shop.debug"
        subprocess.run(["g++", "-g", "-O2", "-Wl,--build-id=sha1", *flags, "-o", str(self.full), "shop.cc"], cwd=work, check=True)
        subprocess.run(["objcopy", "--only-keep-debug", str(self.full), str(self.debug)], check=True)
        subprocess.run(["strip", "-o", str(self.stripped), str(self.full)], check=True)
        self.id = build_id(self.full)
        self.code = code_of(self.full)

    def debs(self, pool):
        pool.mkdir(exist_ok=True)
        root = self.dir / "dbg"
        to = root / f"usr/lib/debug/.build-id/{self.id[:2]}/{self.id[2:]}.debug"
        to.parent.mkdir(parents=True)
        shutil.copy(self.debug, to)
        make_deb(root, pool / "shop-dbgsym.deb", "xz", [self.id])
        root = self.dir / "bin"
        (root / "usr/bin").mkdir(parents=True)
        shutil.copy(self.stripped, root / "usr/bin/shop")
        make_deb(root, pool / "shop.deb", "xz")
        return pool

    def discriminators(self, addrs):
        """The frames of each address, as the command prints them."""
        out = lode("symbolize", "-e", self.full, "--local", "--discriminators", "--output-style", "json", *map(hex, addrs),
                   env={"LODE_SYMTAB_CACHE": ""})
        return [[f["Discriminator"] for f in a["Symbol"]] for a in json.loads(out.stdout)]

    def oracle(self, addrs, *more):
        """The chain of each address: (function, file, line), innermost first."""
        out = subprocess.run(["llvm-symbolizer", "-e", str(self.full), "--output-style=JSON", "-i", *more], capture_output=True, text=True, check=True,
                             input="".join(f"{a:#x}\n" for a in addrs)).stdout
        chains = []
        for line in out.splitlines():
            chains.append([(plain(f["FunctionName"]), f["FileName"], f["Line"]) for f in json.loads(line)["Symbol"]])
        return chains


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Built(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def service(built, serve, tmp_path):
    pool = tmp_path / "pool"
    if not (built.dir / "pool").exists():
        built.debs(built.dir / "pool")
    shutil.copytree(built.dir / "pool", pool)
    return serve([pool]).scanned()


def post(s, path, body, type_="application/json", headers=None):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    try:
        c.request("POST", path, body=body, headers={"Content-Type": type_, **(headers or {})})
        r = c.getresponse()
        return r.status, r.read(), r.headers
    finally:
        c.close()


def ask(s, request):
    status, body, _ = post(s, "/symbolize", json.dumps(request))
    assert status == 200, body
    return json.loads(body)


def chain_of(answer):
    return [(plain(f["function"]), f.get("file", ""), f.get("line", 0)) for f in answer.get("frames", [])]


def test_chains_are_those_of_the_oracle(built, service):
    r = ask(service, {"modules": [{"id": built.id}], "addresses": [[0, a] for a in built.code], "demangle": "none"})
    assert r["modules"][0]["status"] == "found" and "dwarf" in r["modules"][0]["has"]
    want = built.oracle(built.code, "--no-demangle")
    assert len(r["addresses"]) == len(want)
    different = [(hex(a), chain_of(x), w) for a, x, w in zip(built.code, r["addresses"], want) if chain_of(x) != w]
    assert not different, different[:3]
    assert any(len(w) > 1 for w in want)


def test_get_has_json_and_text(built, service):
    addr = built.code[len(built.code) // 2]
    first = service.get(f"/buildid/{built.id}/symbolize?addr={addr:#x}&addr={built.code[0]:x},{built.code[1]:x}")
    assert first.status == 200 and first.headers["Content-Type"] == "application/json"
    r = json.loads(first.body)
    assert [a["address"] for a in r["addresses"]] == [hex(addr), hex(built.code[0]), hex(built.code[1])]
    assert chain_of(r["addresses"][0]) == built.oracle([addr])[0]
    text = service.get(f"/buildid/{built.id}/symbolize?addr={addr:#x}", headers={"Accept": "text/plain"})
    assert text.headers["Content-Type"].startswith("text/plain")
    assert plain(text.body.decode().splitlines()[1].split("  ")[1]) == built.oracle([addr])[0][0][0]
    assert service.get(f"/buildid/{built.id}/symbolize").status == 400
    assert service.get(f"/buildid/{built.id}/symbolize?addr=zz").status == 400
    assert service.get(f"/buildid/{built.id}/symbolize?addr=1&kind=runtime").status == 400
    post_only = service.get("/symbolize")
    assert post_only.status == 405 and post_only.headers["Allow"] == "POST"


def test_names_in_the_degree_that_is_wanted(built, service):
    addr = next(a for a, c in zip(built.code, built.oracle(built.code)) if c[-1][0].startswith("int shop::sum"))
    names = {}
    for how in ("full", "templates", "simple", "none"):
        r = ask(service, {"modules": [{"id": built.id}], "addresses": [[0, addr]], "demangle": how})
        names[how] = r["addresses"][0]["frames"][-1]["function"]
    assert names["full"].startswith("int shop::sum<int>(")
    assert (names["templates"], names["simple"]) == ("shop::sum<int>", "shop::sum")
    assert names["none"].startswith("_ZN4shop3sumIiEE")


def test_run_time_addresses_and_file_offsets(built, service):
    out = subprocess.run(["readelf", "-lW", str(built.full)], capture_output=True, text=True, check=True).stdout
    loads = [[int(x, 16) for x in m.groups()] for m in re.finditer(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", out)]
    off, vaddr, filesz = next(l for l in loads if l[1] <= built.code[0] < l[1] + l[2])
    base = 0x7f1200000000
    start = (base + vaddr) & ~0xfff
    m = {"id": built.id, "mappings": [{"start": hex(start), "end": hex(start + 0x10000), "offset": off & ~0xfff}]}
    want = ask(service, {"modules": [{"id": built.id}], "addresses": [[0, a] for a in built.code[:50]]})["addresses"]
    run = ask(service, {"modules": [m], "addresses": [hex(base + a) for a in built.code[:50]], "kind": "runtime"})["addresses"]
    offs = ask(service, {"modules": [{"id": built.id}], "kind": "offset",
                         "addresses": [[0, a - vaddr + off] for a in built.code[:50]]})["addresses"]
    for a, w, r, o in zip(built.code[:50], want, run, offs, strict=True):
        assert chain_of(w) == chain_of(r) == chain_of(o)
        assert int(r["vaddr"], 16) == a
    r = ask(service, {"modules": [m], "addresses": ["0x10"], "kind": "runtime"})
    assert r["addresses"][0]["status"] in ("no-mapping", "no-build-id")
    back = ask(service, {"modules": [{"id": built.id}], "addresses": [{"module": 0, "address": built.code[1], "return": True}]})
    assert chain_of(back["addresses"][0]) == built.oracle([built.code[1] - 1])[0]
    back = ask(service, {"modules": [{"id": built.id}], "return": True,
                         "addresses": [[0, built.code[1]], {"module": 0, "address": built.code[1], "return": False}]})
    assert [chain_of(a) for a in back["addresses"]] == built.oracle([built.code[1] - 1, built.code[1]])


def test_every_miss_has_its_reason(built, service):
    r = ask(service, {"modules": [{"id": "00" * 20}, {"id": built.id}, {}],
                      "addresses": [[0, 1], [1, 1], [2, 1], [1, built.code[0]], [1, "0xffffffffffffffff"]]})
    assert [a["status"] for a in r["addresses"]] == ["unknown", "outside", "no-build-id", "found", "outside"]
    assert [m["status"] for m in r["modules"]] == ["unknown", "found", "no-build-id"]
    assert r["modules"][0]["why"]


def test_a_request_that_does_not_wait_is_told_when_to_come_back(built, service):
    for _ in range(2000):
        status, body, headers = post(service, "/symbolize", json.dumps({"modules": [{"id": built.id}], "addresses": [[0, built.code[0]]],
                                                                       "timeout": 0}))
        r = json.loads(body)
        if status == 200:
            break
        assert status == 202 and headers["Retry-After"] == "1"
        assert r["retry_ms"] == 1000 and r["addresses"][0]["status"] == "pending"
    assert r["addresses"][0]["status"] == "found"


@pytest.mark.slow
def test_what_is_not_scanned_yet_is_pending_not_unknown(built, serve, tmp_path):
    root, pool = tmp_path / "root", tmp_path / "pool"
    (root / "usr/lib/debug/z").mkdir(parents=True)
    pool.mkdir()
    (root / "usr/lib/debug/a").write_bytes(os.urandom(8 << 20))
    shutil.copy(built.debug, root / "usr/lib/debug/z/shop.debug")
    # Its header does not list its build IDs.
    make_deb(root, pool / "shop-dbg.deb", "xz")
    body = json.dumps({"modules": [{"id": built.id}], "addresses": [[0, built.code[0]]], "timeout": 0})
    v5 = json.dumps({"memoryMap": [["shop", debug_id(built.id)]], "stacks": [[[0, built.code[0]]]]})
    s = serve([pool], args=["--scan-threads", "1"])
    s.wait(lambda: s.get("/healthz").status == 200, "healthy")
    status, said, _ = post(s, "/symbolicate/v5", v5)
    assert (status, json.loads(said)["results"][0]["found_modules"]) in ((202, {f"shop/{debug_id(built.id)}": False}),
                                                           (200, {f"shop/{debug_id(built.id)}": True}))
    status = 202
    while status == 202:
        status, said, headers = post(s, "/symbolize", body)
        r = json.loads(said)
        assert r["addresses"][0]["status"] == ("pending" if status == 202 else "found")
    s.stop()
    # A request that waits needs no second one.
    s = serve([pool], args=["--scan-threads", "1"])
    s.wait(lambda: s.get("/healthz").status == 200, "healthy")
    r = ask(s, {"modules": [{"id": built.id}, {"id": "00" * 20}], "addresses": [[0, built.code[0]], [1, 1]], "timeout": 60})
    assert [a["status"] for a in r["addresses"]] == ["found", "unknown"]


def test_the_table_is_kept_in_the_store(built, service, serve):
    ask(service, {"modules": [{"id": built.id}], "addresses": [[0, built.code[0]]]})
    assert service.metric(r'lode_symbolize_tables\{outcome="made"\}') == 1
    data = service.data
    service.stop()
    again = serve([built.dir / "pool"], data=data).scanned()
    ask(again, {"modules": [{"id": built.id}], "addresses": [[0, built.code[0]]]})
    assert again.metric(r'lode_symbolize_tables\{outcome="made"\}') == 0
    assert again.metric(r'lode_symbolize_tables\{outcome="stored"\}') == 1


def test_the_compact_form_says_the_same(built, service):
    addrs = built.code + built.code[::-1] + [0xffffffff81000000, 0, 1]
    body = binary_request([(bytes.fromhex(built.id), addrs), (b"\1\2\3", [5])])
    status, reply, headers = post(service, "/symbolize", body, "application/x-lode-symbolize")
    assert status == 200 and headers["Content-Type"] == "application/x-lode-symbolize"
    retry, modules, answers = binary_reply(reply, plain)
    want = ask(service, {"modules": [{"id": built.id}], "addresses": [[0, hex(a)] for a in addrs]})
    assert retry == 0 and modules == [0, 3]
    assert answers[-4:] == [11, 11, 11, 3]
    assert answers[:-4] == [chain_of(a) for a in want["addresses"]][:-3]
    assert len(reply) < len(json.dumps(want)) / 10
    for cut in range(len(body) - 1):
        if cut % 7 == 0:
            assert post(service, "/symbolize", body[:cut], "application/x-lode-symbolize")[0] == 400


def discriminators_of(answer):
    return [f.get("discriminator", 0) for f in answer["frames"]]


def test_discriminators_where_the_tables_have_them(built, serve, tmp_path):
    if not (built.dir / "pool").exists():
        built.debs(built.dir / "pool")
    addrs = built.code[::2]
    want = built.discriminators(addrs)
    assert any(any(d) for d in want)
    request = {"modules": [{"id": built.id}], "addresses": [[0, a] for a in addrs]}
    asked = {**request, "discriminators": True}
    binary = binary_request([(bytes.fromhex(built.id), addrs)], flags=16)
    addr, numbers = next((a, d) for a, d in zip(addrs, want) if any(d))
    # Without discriminators, replies have none, not zeros.
    s = serve([built.dir / "pool"], data=tmp_path / "data").scanned()
    ask(s, request)
    for status, body, _ in (post(s, "/symbolize", json.dumps(asked)), post(s, "/symbolize", binary, "application/x-lode-symbolize")):
        assert status == 400 and b"--discriminators" in body
    assert s.get(f"/buildid/{built.id}/symbolize?addr={addr:x}&discriminators=1").status == 400
    s.stop()
    # The stored table has none, so it is built again.
    s = serve([built.dir / "pool"], data=tmp_path / "data", args=["--discriminators"]).scanned()
    assert [discriminators_of(a) for a in ask(s, asked)["addresses"]] == want
    assert s.metric(r'lode_symbolize_tables\{outcome="made"\}') == 1
    assert not any("discriminator" in f for a in ask(s, request)["addresses"] for f in a["frames"])
    status, reply, _ = post(s, "/symbolize", binary, "application/x-lode-symbolize")
    assert status == 200 and [[f[3] for f in chain] for chain in binary_reply(reply, plain, True)[2]] == want
    path = f"/buildid/{built.id}/symbolize?addr={addr:x}&discriminators=1"
    assert discriminators_of(json.loads(s.get(path).body)["addresses"][0]) == numbers
    text = s.get(path, headers={"Accept": "text/plain"}).body.decode()
    assert [int(n) for n in re.findall(r"\(discriminator (\d+)\)", text)] == [n for n in numbers if n]
    s.stop()
    # A table with discriminators serves requests without.
    s = serve([built.dir / "pool"], data=tmp_path / "data").scanned()
    ask(s, request)
    assert s.metric(r'lode_symbolize_tables\{outcome="stored"\}') == 1


def debug_id(build):
    b = bytes.fromhex(build)[:16].ljust(16, b"\0")
    return (b[3::-1] + b[5:3:-1] + b[7:5:-1] + b[8:]).hex().upper() + "0"


def test_mozillas_form(built, service):
    name = "shop"
    job = {"memoryMap": [[name, debug_id(built.id)], ["other", "0" * 33], ["not-asked", debug_id("11" * 20)]],
           "stacks": [[[0, built.code[k]] for k in (0, 10, 20)], [[-1, 4096], [1, 16]], []]}
    status, body, _ = post(service, "/symbolicate/v5", json.dumps({"jobs": [job]}))
    assert status == 200, body
    (r,) = json.loads(body)["results"]
    assert r["found_modules"] == {f"{name}/{debug_id(built.id)}": True, f"other/{'0' * 33}": False,
                                  f"not-asked/{debug_id('11' * 20)}": None}
    assert [len(s) for s in r["stacks"]] == [3, 2, 0]
    for k, frame in zip((0, 10, 20), r["stacks"][0]):
        want = built.oracle([built.code[k]])[0]
        assert frame["module"] == name and frame["module_offset"] == hex(built.code[k])
        assert (plain(frame["function"]), frame["file"], frame.get("line", 0)) == want[-1]
        assert [(plain(i["function"]), i["file"], i.get("line", 0)) for i in frame.get("inlines", [])] == want[:-1]
    assert "function" not in r["stacks"][1][0] and r["stacks"][1][0]["frame"] == 0
    single = json.loads(post(service, "/symbolicate/v5", json.dumps({**job, "version": 5}))[1])
    assert single == {"results": [r]}


def test_mozillas_form_with_several_jobs(built, service):
    """The numbers of modules are those of their own job."""
    shop, other = ["shop", debug_id(built.id)], ["other", debug_id("11" * 20)]
    at = built.code[10]
    jobs = [{"memoryMap": [other], "stacks": [[[0, at]]]}, {"memoryMap": [shop], "stacks": [[[0, at]], []]},
            {"memoryMap": [other, shop], "stacks": [[[1, at], [0, at]]]}]
    status, body, _ = post(service, "/symbolicate/v5", json.dumps({"jobs": jobs}))
    assert status == 200, body
    alone = [json.loads(post(service, "/symbolicate/v5", json.dumps(job))[1])["results"][0] for job in jobs]
    assert json.loads(body)["results"] == alone
    assert [[[(f["module"], "function" in f) for f in s] for s in r["stacks"]] for r in alone] == [
        [[("other", False)]], [[("shop", True)], []], [[("shop", True), ("other", False)]]]
    jobs[0]["stacks"][0][0][0] = 1
    status, body, _ = post(service, "/symbolicate/v5", json.dumps({"jobs": jobs}))
    assert status == 400 and b"job 0: stack 0: frame 0: there is no such module" in body


def test_mozillas_form_has_no_empty_names(serve, tmp_path):
    """Padding after a function has a line, and no function: clients would show an empty name."""
    (tmp_path / "pad.c").write_text("int first(int n) { return n * 3; }\nint second(int n) { return n ^ 5; }\n")
    pool = tmp_path / "pool"
    pool.mkdir()
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-falign-functions=64", "-Wl,--build-id=sha1", "-o", pool / "pad.so", tmp_path / "pad.c"], check=True)
    out = subprocess.run(["nm", "-S", pool / "pad.so"], capture_output=True, text=True, check=True).stdout
    at, size = (int(x, 16) for x in re.search(r"^(\w+) (\w+) T first$", out, re.M).groups())
    s, id_ = serve([pool]).scanned(), build_id(pool / "pad.so")
    job = {"memoryMap": [["pad.so", debug_id(id_)]], "stacks": [[[0, at], [0, at + size]]]}
    r = json.loads(post(s, "/symbolicate/v5", json.dumps(job))[1])["results"][0]
    assert r["found_modules"] == {f"pad.so/{debug_id(id_)}": True}
    named, padding = r["stacks"][0]
    assert (named["function"], named["function_offset"], named["line"]) == ("first", "0x0", 1)
    assert padding["line"] == 1 and not {"function", "function_offset", "function_size"} & set(padding), padding


def test_mozillas_form_with_offsets_that_are_none(built, service):
    """One of them costs its frame, not the request."""
    code, name = built.code[0], ["shop", debug_id(built.id)]
    wrong = {"-1": "-0x1", "-9223372036854775808": "-9223372036854775808", "18446744073709551616": "18446744073709551616",
             "123456789012345678901234567890": "123456789012345678901234567890", "1.5": "1.5", '"x"': "x", '""': "", "null": "null",
             "true": "null", "[]": "null", "1e999": "1e999"}
    text = json.dumps({"memoryMap": [name], "stacks": [[[0, code], *[[0, i] for i in range(len(wrong))], [0, code], [-1, -1]]]})
    for i, number in enumerate(wrong):
        text = text.replace(f"[0, {i}]", f"[0, {number}]")
    status, body, _ = post(service, "/symbolicate/v5", text)
    assert status == 200, body
    stack = json.loads(body)["results"][0]["stacks"][0]
    assert stack[0]["function"] == stack[-2]["function"] and "error" not in stack[0]
    assert [f["module_offset"] for f in stack[1:-2]] == list(wrong.values())
    assert [f["frame"] for f in stack] == list(range(len(stack)))
    for f in stack[1:-2]:
        assert f["module"] == "shop" and "offset" in f["error"] and "function" not in f
    assert stack[-1]["module"] == "<unknown>"
    # An address of a kernel, in decimal.
    one = {"memoryMap": [name], "stacks": [[[0, 18446744071578845184]]]}
    assert json.loads(post(service, "/symbolicate/v5", json.dumps(one))[1])["results"][0]["stacks"][0][0]["module_offset"] == "0xffffffff81000000"
    assert ask(service, {"modules": [{"id": built.id}], "addresses": [[0, 18446744071578845184]]})["addresses"][0]["status"] == "outside"


def test_mozillas_form_refuses_another_structure(built, service):
    good = {"memoryMap": [["shop", debug_id(built.id)], ["no-id", None]], "stacks": [[[0, 1], [1, 2]], []]}
    assert post(service, "/symbolicate/v5", json.dumps(good))[0] == 200
    assert json.loads(post(service, "/symbolicate/v5", '{"jobs":[]}')[1]) == {"results": []}
    bad = [{}, [], "x", 1, {"jobs": {}}, {"jobs": None}, {"jobs": [{}]}, {"jobs": [[]]}, {"jobs": ["x"]}]
    bad += [{**good, "memoryMap": m} for m in (None, {}, "x", ["x"], [["a"]], [[]], [{}], [["a", 1]], [[1, "a"]], [["a" * 5000, ""]])]
    bad += [{**good, "stacks": s} for s in (None, {}, "x", ["x"], [{}], [[1]], [["x"]], [[[]]], [[[0]]], [[{}]], [[[2, 1]]], [[[-2, 1]]],
                                            [[["0", 1]]], [[[0.0, 1]]], [[[None, 1]]])]
    for request in bad:
        status, body, _ = post(service, "/symbolicate/v5", json.dumps(request))
        assert status == 400, (request, body)


def test_pprofs_form(built, service):
    assert service.get("/pprof/symbol").body == b"num_symbols: 1\n"
    a, b = built.code[0], built.code[40]
    for path in (f"/buildid/{built.id}/symbolz", f"/buildid/{built.id}/pprof/symbol", f"/symbolz?buildid={built.id}"):
        status, body, _ = post(service, path, f"{a:#x}+{b:#x}+0x1", "text/plain")
        lines = [l.split("\t") for l in body.decode().splitlines()]
        assert status == 200 and [l[0] for l in lines] == [hex(a), hex(b)]
        assert all(l[1].startswith("_Z") or l[1] == "main" for l in lines)
    assert post(service, "/symbolz", "0x1", "text/plain")[0] == 400
    assert post(service, f"/buildid/{built.id}/symbolz", "hello", "text/plain")[0] == 400


@pytest.mark.slow
def test_bad_requests_are_refused_with_a_reason(built, service):
    ok = {"modules": [{"id": built.id}], "addresses": [[0, 1]]}
    for change in ({"modules": None}, {"addresses": None}, {"modules": [{"id": "xyz"}]}, {"addresses": [[1, 1]]}, {"addresses": [[0, -1]]},
                   {"addresses": [[0, "0x11112222333344445"]]}, {"addresses": [{}]}, {"kind": "none"}, {"demangle": "much"},
                   {"modules": [{"id": built.id, "mappings": [{}]}]}):
        status, body, _ = post(service, "/symbolize", json.dumps({**ok, **change}))
        assert status == 400 and body.startswith(b"the request: ") and body.endswith(b"\n"), (change, status, body)
    for text in ("", "{", "[" * 5000, "\0", '{"modules":[],"modules":[]}'):
        assert post(service, "/symbolize", text)[0] == 400
    many = {"modules": [{"id": built.id}], "addresses": [[0, 1]] * 200001}
    assert post(service, "/symbolize", json.dumps(many))[0] == 413
    assert post(service, "/symbolize", json.dumps({**ok, "modules": [{}] * 4097}))[0] == 413
    for body in (json.dumps({**ok, "addresses": [[0, 1]] * 1000000}), binary_request([(bytes.fromhex(built.id), [1] * 1000000)])):
        type_ = "application/json" if isinstance(body, str) else "application/x-lode-symbolize"
        assert post(service, "/symbolize", body, type_)[0] == 413
    assert post(service, "/symbolize", b"[" + b"[]," * 3000000 + b"1]")[0] == 413
    # Refused by its headers; the connection may be closed before the whole body is sent.
    assert service.metric("lode_http_connections") is not None
    assert service.get("/healthz").status == 200


@pytest.mark.slow
def test_two_hundred_thousand_addresses_at_once(built, service):
    body = binary_request([(bytes.fromhex(built.id), built.code[:1] * 200000)])
    status, reply, _ = post(service, "/symbolize", body, "application/x-lode-symbolize")
    assert status == 200
    _, _, answers = binary_reply(reply, plain)
    assert len(answers) == 200000 and not any(isinstance(a, int) for a in answers)


def test_a_client_that_hangs_up_has_met_no_deadline(s):
    body = json.dumps({"timeout": 1, "modules": [{"id": "ab" * 20}], "addresses": [[0, i] for i in range(50_000)]})
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
    c.request("POST", "/symbolize", body)
    s.wait(lambda: s.metric("lode_http_waiting") == 2, "it to wait for a table")
    c.close()
    s.wait(lambda: "POST /symbolize" in s.log_path.read_text(), "its end")
    assert s.metric(r'lode_http_refused_total\{limit="deadline"\}') is None


@pytest.mark.slow
@pytest.mark.parametrize("form", ["post", "get", "compact"])
def test_the_deadline_holds_within_an_address(serve, tmp_path, form):
    """Each address has 4000 frames, whose names take a second together to be shortened."""
    s = serve([tmp_path], args=["--deadline", "1"]).scanned()
    the_id, addrs = bytes(20), [NESTED_AT + i for i in range(100)]
    path = f"/buildid/{the_id.hex()}/symbolize?demangle=simple&addr="
    assert put(s, f"/buildid/{the_id.hex()}/debuginfo", nested(the_id, [b"f<" + b"abc," * 16000 + b"x>"] * 4000, 200))[0] == 201
    s.wait(lambda: b'"found"' in s.get(path + "1").body, "its table")
    began = time.monotonic()
    if form == "get":
        status, text = (r := s.get(path + ",".join(f"{a:x}" for a in addrs), headers={"Accept": "text/plain"})).status, r.body
    elif form == "post":
        ask = {"modules": [{"id": the_id.hex()}], "addresses": [[0, a] for a in addrs], "demangle": "simple"}
        status, text, _ = post(s, "/symbolize", json.dumps(ask))
    else:
        # Each is in a module of its own, since addresses of one row have one chain.
        status, text, _ = post(s, "/symbolize", binary_request([(the_id, [a]) for a in addrs], 2 << 2), "application/x-lode-symbolize")
    assert status == 504 and b"took longer than 1000 ms" in text, (status, text[:300])
    assert time.monotonic() - began < 5
    assert s.metric(r'lode_http_refused_total\{limit="deadline"\}') == 1
    assert s.get(path + "1").status == 200


def test_the_names_of_a_supplementary_file(built, serve, tmp_path):
    """dwz -m moves the common parts of two debug files into a third file."""
    other = Built(tmp_path / "other", ["-DOTHER"])
    pool = tmp_path / "pool"
    pool.mkdir()
    common = tmp_path / "common.debug"
    a, b = tmp_path / "a.debug", tmp_path / "b.debug"
    (tmp_path / "o").mkdir()
    shutil.copy(built.debug, a)
    shutil.copy(other.debug, b)
    assert built.id != other.id
    subprocess.run(["dwz", "-m", str(common), "-M", "/usr/lib/debug/.dwz/common.debug", str(a), str(b)], check=True)
    shutil.copy(a, pool / "a.debug")
    s = serve([pool]).scanned()
    r = ask(s, {"modules": [{"id": built.id}], "addresses": [[0, x] for x in built.code]})
    assert "alt-missing" in r["modules"][0]["has"]
    assert "alt-missing" in {x["status"] for x in r["addresses"]}
    s.stop()
    shutil.copy(common, pool / "common.debug")
    s = serve([pool]).scanned()
    r = ask(s, {"modules": [{"id": built.id}], "addresses": [[0, x] for x in built.code], "demangle": "none"})
    assert [chain_of(x) for x in r["addresses"]] == built.oracle(built.code, "--no-demangle")


def build_split(build):
    """The build ID of a program whose inlined calls are in a .dwo file."""
    build.mkdir()
    (build / "shop.cc").write_text(SOURCE)
    for args in (["-g", "-O2", "-gdwarf-4", "-gsplit-dwarf", "-c", "shop.cc", "-o", "shop.o"], ["-Wl,--build-id=sha1", "-o", "shop", "shop.o"]):
        subprocess.run(["g++", *args], cwd=build, check=True)
    return build_id(build / "shop")


@pytest.mark.parametrize("how", slow_but(["a .dwp"], ("a .dwo", "a .dwp", "a .dwp of a program alone", "a .dwo in a tree that was moved")))
def test_split_files_that_were_pushed(how, serve, tmp_path):
    """lode push of a build tree that is deleted before the request."""
    build, empty = tmp_path / "build", tmp_path / "empty"
    empty.mkdir()
    id_ = build_split(build)
    full = Built.__new__(Built)
    full.full = build / "shop"
    code = code_of(full.full)
    want = full.oracle(code, "--no-demangle")
    if "dwp" in how:
        subprocess.run(["dwp", "-e", "shop", "-o", "shop.dwp"], cwd=build, check=True)
        next(build.glob("*.dwo")).unlink()
    if "moved" in how:
        build = build.rename(tmp_path / "elsewhere")
    s = serve([empty], args=["--no-packages"]).ready()
    what = build / "shop" if "alone" in how else build
    pushed = json.loads(lode("push", what, "--to", s.url, "--json").stdout)
    assert [(o["kind"], o["result"]) for o in pushed["objects"]] == [("executable", "stored"), ("sources", "stored")], pushed
    again = json.loads(lode("push", what, "--to", s.url, "--json").stdout)
    assert again["already_there"] == 2
    shutil.rmtree(build)
    r = ask(s, {"modules": [{"id": id_}], "addresses": [[0, x] for x in code], "demangle": "none"})
    assert "split-missing" not in r["modules"][0]["has"]
    assert [chain_of(x) for x in r["addresses"]] == want
    assert s.get(f"/buildid/{id_}/source{tmp_path}/build/shop.cc").status == 404  # pushed without --sources


def test_split_files_go_with_sources_and_do_not_replace_them(serve, tmp_path):
    build, empty = tmp_path / "build", tmp_path / "empty"
    empty.mkdir()
    id_ = build_split(build)
    s = serve([empty], args=["--no-packages"]).ready()
    lode("push", build, "--sources", "--to", s.url)
    later = json.loads(lode("push", build, "--to", s.url, "--json").stdout)
    assert {o["kind"]: o["result"] for o in later["objects"]} == {"executable": "same", "sources": "better"}
    assert s.get(f"/buildid/{id_}/source{build}/shop.cc").body == (build / "shop.cc").read_bytes()
    dwo = next(build.glob("*.dwo"))
    assert s.get(f"/buildid/{id_}/source{dwo}").body == dwo.read_bytes()
    alone = lode("push", dwo, "--to", s.url, ok=False)
    assert alone.returncode == 1 and "push its program" in alone.stderr
    # The file at a skeleton's path need not be its other half.
    dwo.write_text("a secret")
    assert [o["kind"] for o in json.loads(lode("push", build / "shop", "--to", s.url, "--json").stdout)["objects"]] == ["executable"]


def test_inlined_calls_of_split_files(serve, tmp_path):
    """With .dwo files where the compiler wrote them, with a .dwp beside the program, with one in the package; and without any."""
    build = tmp_path / "build"
    id_ = build_split(build)
    split = Built.__new__(Built)
    split.full = build / "shop"
    code = code_of(split.full)
    want = split.oracle(code, "--no-demangle")
    assert any(len(c) > 1 for c in want)

    def chains(s):
        r = ask(s, {"modules": [{"id": id_}], "addresses": [[0, x] for x in code], "demangle": "none"})
        has = "split-missing" in r["modules"][0]["has"]
        assert all((x["status"] == "split-missing") == has for x in r["addresses"]), r
        return None if has else [chain_of(x) for x in r["addresses"]]

    def serve_once(folder):
        s = serve([folder]).scanned()
        got = chains(s)
        s.stop()
        shutil.rmtree(s.data)  # with the table
        return got

    pool = tmp_path / "pool"
    pool.mkdir()
    shutil.copy(build / "shop", pool / "shop")
    assert serve_once(pool) == want  # by the folder of the compilation
    subprocess.run(["dwp", "-e", "shop", "-o", "shop.dwp"], cwd=build, check=True)  # GNU's knows version 4 only
    (build / "shop.dwp").rename(tmp_path / "shop.dwp")
    next(build.glob("*.dwo")).unlink()
    assert serve_once(pool) is None
    root = tmp_path / "dbg"
    (root / "usr/lib/debug").mkdir(parents=True)
    shutil.copy(build / "shop", root / "usr/lib/debug/shop.debug")
    shutil.copy(tmp_path / "shop.dwp", pool / "shop.dwp")
    assert serve_once(pool) == want
    shutil.copy(tmp_path / "shop.dwp", root / "usr/lib/debug/shop.dwp")
    deb = tmp_path / "deb"
    deb.mkdir()
    make_deb(root, deb / "shop-dbgsym.deb", "xz", [id_])
    assert serve_once(deb) == want
