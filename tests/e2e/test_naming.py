# SPDX-License-Identifier: Apache-2.0
"""Profiles of stripped programs arrive as addresses and are named later, as soon as debug information is there. llvm-symbolizer is the oracle."""

import gzip
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from conftest import make_deb
from profiling import Pprof, ask, call, code_segment, fields, numbers, send
from pushing import put
from test_symbolize import Built, plain

BASE = 0x55d0c0de0000
# These tests must pass without the interval: events trigger the naming.
RARELY = ["--symbolize-interval", "3600", "--rescan", "3600"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Built(tmp_path_factory.mktemp("shop"))


class Sent:
    """A profile as from perf: the mapping of the code, and a sample at each address, each with a different value."""

    def __init__(self, built, addrs, name="/usr/bin/shop", identity=None, time_ms=None):
        off, vaddr, size = code_segment(built.full)
        start = BASE + vaddr
        self.built, self.addrs = built, list(addrs)
        p = Pprof(types=(("cpu", "nanoseconds"),), mapping=(start, start + size, off, name, built.id if identity is None else identity),
                  time_ms=time_ms or int(time.time() * 1000), duration_ms=1000)
        for i, a in enumerate(self.addrs):
            p.sample([BASE + a], [i + 1])
        self.body = p.bytes()


def chains(data):
    """{value: [(system name, file, line)]} of a profile whose stacks are one location each."""
    samples, locations, functions, strings = [], {}, {}, []
    for number, v in fields(gzip.decompress(data)):
        if number == 2:
            samples.append(v)
        elif number == 4:
            lines = [dict(fields(x)) for n, x in fields(v) if n == 4]
            locations[dict(fields(v))[1]] = [(x[1], x.get(2, 0)) for x in lines]
        elif number == 5:
            f = dict(fields(v))
            functions[f[1]] = (f.get(3, 0), f.get(4, 0))
        elif number == 6:
            strings.append(v.decode())
    out = {}
    for s in samples:
        f = dict(fields(s))
        place, value = next(numbers(f[1])), next(numbers(f[2]))
        out[value] = [(plain(strings[functions[i][0]]), strings[functions[i][1]], line) for i, line in locations[place]]
    return out


def now(s, **args):
    status, data, _ = call(s, "GET", "/api/download?format=pprof&from=now-1h&to=now%2B1h" + "".join(f"&{k}={v}" for k, v in args.items()))
    assert status == 200, data
    return chains(data)


def binary(s, build_id):
    for b in ask(s, "binaries", query="{}", from_="now-1h", to="now")["binaries"]:
        if b["build_id"] == build_id:
            return b
    return None


def wait_state(s, build_id, *states):
    s.wait(lambda: (binary(s, build_id) or {}).get("state") in states, f"{build_id} to be {states}", 30)
    return binary(s, build_id)


def check(s, sent, **args):
    want = sent.built.oracle(sent.addrs, "--no-demangle")
    got = now(s, **args)
    assert len(got) == len(sent.addrs)
    for i, chain in enumerate(want):
        assert got[i + 1] == chain, hex(sent.addrs[i])


@pytest.fixture
def s(serve, tmp_path):
    (tmp_path / "pool").mkdir()
    return serve([tmp_path / "pool"], args=RARELY).scanned()


def sample(built, n, seed=5):
    return sorted(random.Random(seed).sample(built.code, min(n, len(built.code))))


def unnamed(s, built):
    """Addresses of an unknown program stay unnamed, with the reason and advice."""
    sent = Sent(built, sample(built, 200))
    send(s, sent.body, service="shop")
    b = wait_state(s, built.id, "failed")
    assert (b["file"], b["locations"], b["named"], b["reason"]) == ("/usr/bin/shop", len(sent.addrs), 0, "unknown")
    assert b["text"] and "lode push" in b["help"] and b["tries"] == 1 and b["next_try"] > b["last_try"] > 0
    assert b["value"] == sum(range(1, len(sent.addrs) + 1))
    assert all(chain == [] for chain in now(s).values())
    # A query does not wait for failed addresses.
    assert ask(s, "top", query="{}", from_="now-1h", to="now+1h")["pending"] == {"locations": 0, "retry_ms": 5000}
    return sent


def test_a_push_names_what_came_before(s, built):
    """Named by the debug file alone, without the program."""
    sent = unnamed(s, built)
    assert put(s, f"/buildid/{built.id}/debuginfo", built.debug.read_bytes())[0] == 201
    b = wait_state(s, built.id, "named")
    assert (b["named"], b["locations"], b["reason"], b["help"]) == (len(sent.addrs), len(sent.addrs), "", "")
    check(s, sent)
    # A later profile gets its names at once.
    more = Sent(built, sample(built, 300, 6), time_ms=int(time.time() * 1000) + 5)
    send(s, more.body, service="more")
    s.wait(lambda: binary(s, built.id)["named"] == binary(s, built.id)["locations"], "names", 30)
    check(s, more, query='{service="more"}')
    assert s.metric('lode_naming_addresses_total{result="named"}') == len(set(sent.addrs) | set(more.addrs))


def test_a_package_in_a_scanned_folder_names_it(s, built, tmp_path):
    sent = unnamed(s, built)
    root = tmp_path / "dbg"
    to = root / f"usr/lib/debug/.build-id/{built.id[:2]}/{built.id[2:]}.debug"
    to.parent.mkdir(parents=True)
    shutil.copy(built.debug, to)
    make_deb(root, tmp_path / "shop-dbgsym.deb", "xz", [built.id])
    (tmp_path / "shop-dbgsym.deb").rename(tmp_path / "pool/shop-dbgsym.deb")
    b = wait_state(s, built.id, "named")
    assert "shop-dbgsym.deb" in b["origin"]
    check(s, sent)


def test_a_better_file_names_again(s, built, tmp_path):
    """First the program's own symbols, then lines and inlined calls."""
    sent = Sent(built, sample(built, 100))
    symbols = tmp_path / "symbols"
    subprocess.run(["objcopy", "--strip-debug", str(built.full), str(symbols)], check=True)
    assert put(s, f"/buildid/{built.id}/executable", symbols.read_bytes())[0] == 201
    send(s, sent.body)
    wait_state(s, built.id, "named")
    assert all(len(chain) == 1 and chain[0][2] == 0 for chain in now(s).values())
    assert put(s, f"/buildid/{built.id}/debuginfo", built.debug.read_bytes())[0] == 201
    s.wait(lambda: any(len(chain) > 1 for chain in now(s).values()), "inlined calls", 30)
    wait_state(s, built.id, "named")
    check(s, sent)


@pytest.mark.parametrize("table", [".symtab", ".dynsym"])
def test_new_addresses_of_a_stripped_program_are_named_at_once(s, tmp_path, table):
    """A program with symbols only was tried, and the next search for its debug file is far away: new addresses get their names all the same."""
    built = Built(tmp_path, ("-rdynamic",))
    symbols = tmp_path / "symbols"
    subprocess.run(["objcopy", "--strip-debug" if table == ".symtab" else "--strip-all", str(built.full), str(symbols)], check=True)
    assert put(s, f"/buildid/{built.id}/executable", symbols.read_bytes())[0] == 201
    functions = {}
    for line in subprocess.run(["nm", "-S", "--defined-only", *(["-D"] if table == ".dynsym" else []), str(symbols)], capture_output=True, text=True, check=True).stdout.splitlines():
        part = line.split()
        if len(part) == 4 and part[2] in "tTwWiu":
            functions.update({a: part[3] for a in range(int(part[0], 16), int(part[0], 16) + int(part[1], 16))})
    addrs = sorted(functions.keys() & set(built.code))
    random.Random(3).shuffle(addrs)
    assert len(addrs) > 60
    next_try = None
    for n in range(4):
        # All disjoint.
        sent = Sent(built, addrs[n::4], time_ms=int(time.time() * 1000) - n)
        send(s, sent.body, service=f"s{n}")
        g = ask(s, "top", query=f'{{service="s{n}"}}', from_="now-1h", to="now+1h", wait="30s")
        assert g["pending"]["locations"] == 0
        # Each sample has the value of its place.
        assert now(s, query=f'{{service="s{n}"}}') == {i + 1: [(functions[a], "", 0)] for i, a in enumerate(sent.addrs)}
        b = binary(s, built.id)
        assert (b["state"], b["tries"]) == ("named", 1) and b["named"] == b["locations"] == sum(len(addrs[k::4]) for k in range(n + 1))
        # That was no further try.
        assert next_try in (None, b["next_try"]) and b["next_try"] - b["last_try"] > 590000
        next_try = b["next_try"]


def test_trying_again(s, built):
    unnamed(s, built)
    status, data, _ = call(s, "POST", f"/api/binaries/{built.id}/retry")
    assert (status, data) == (202, b'{"binaries":1}\n')
    s.wait(lambda: binary(s, built.id)["tries"] == 2, "another try", 30)
    assert call(s, "POST", f"/api/binaries/{'12' * 20}/retry")[0] == 404
    assert call(s, "POST", "/api/binaries/nonsense/retry")[0] == 400
    assert call(s, "GET", f"/api/binaries/{built.id}/retry")[0] == 405


def test_without_a_build_id_the_only_file_of_its_path_is_taken(s, built, tmp_path):
    sent = Sent(built, sample(built, 50), name=str(tmp_path / "pool/shop"), identity="")
    send(s, sent.body)
    b = wait_state(s, "", "never")
    assert b["reason"] == "no-build-id" and "no file of that path" in b["why"] and "--build-id" in b["help"]
    shutil.copy(built.full, tmp_path / "pool/.shop")
    (tmp_path / "pool/.shop").rename(tmp_path / "pool/shop")
    b = wait_state(s, "", "named")
    assert "without a build ID" in b["why"]
    check(s, sent)


def test_without_a_build_id_a_program_of_a_package_is_taken(s, built, tmp_path):
    """The package comes when everything else has been read."""
    sent = Sent(built, sample(built, 50), name="/opt/shop/bin/shop", identity="")
    send(s, sent.body)
    assert "no file of that path" in wait_state(s, "", "never")["why"]
    root = tmp_path / "root"
    (root / "opt/shop/bin").mkdir(parents=True)
    shutil.copy(built.full, root / "opt/shop/bin/shop")
    make_deb(root, tmp_path / "shop.deb")
    (tmp_path / "shop.deb").rename(tmp_path / "pool/shop.deb")
    b = wait_state(s, "", "named")
    assert "shop.deb" in b["origin"]
    check(s, sent)


def test_code_of_a_jit_compiler_is_never_named(s, built):
    send(s, Sent(built, sample(built, 5), name="//anon", identity="").body)
    b = wait_state(s, "", "never")
    assert (b["file"], b["reason"], b["tries"]) == ("//anon", "no-build-id", 0)


def test_a_query_may_wait_for_names(s, built):
    assert put(s, f"/buildid/{built.id}/debuginfo", built.debug.read_bytes())[0] == 201
    sent = Sent(built, sample(built, 100))
    send(s, sent.body)
    g = ask(s, "flamegraph", query="{}", from_="now-1h", to="now", wait="30s")
    assert g["pending"] == {"locations": 0, "retry_ms": 0}
    check(s, sent)


@pytest.mark.slow
def test_a_query_waits_no_longer_than_there_is_hope(serve, faulty, built, tmp_path):
    """The try that it waits for fails: its addresses are not pending any more."""
    up = faulty({}, how=lambda path, n: time.sleep(2))
    (tmp_path / "pool").mkdir()
    s = serve([tmp_path / "pool"], args=[*RARELY, "--debuginfod-upstream-servers", up.url]).ready()
    send(s, Sent(built, sample(built, 50)).body)
    began = time.monotonic()
    g = ask(s, "flamegraph", query="{}", from_="now-1h", to="now", wait="30s")
    assert time.monotonic() - began < 15
    assert g["pending"]["locations"] == 0 and binary(s, built.id)["reason"] == "upstream-404"


def test_without_naming_nothing_is_pending(serve, built, tmp_path):
    (tmp_path / "pool").mkdir()
    s = serve([tmp_path / "pool"], args=["--symbolize-interval", "0"]).ready()
    assert put(s, f"/buildid/{built.id}/debuginfo", built.debug.read_bytes())[0] == 201
    send(s, Sent(built, sample(built, 50)).body)
    began = time.monotonic()
    g = ask(s, "flamegraph", query="{}", from_="now-1h", to="now", wait="30s")
    assert time.monotonic() - began < 10
    assert g["pending"] == {"locations": 0, "retry_ms": 0}
    b = binary(s, built.id)
    assert (b["state"], b["named"], b["next_try"]) == ("never", 0, 0) and "--symbolize-interval" in b["why"]
    # A service that names finds them all.
    s.stop()
    s = serve([tmp_path / "pool"], data=s.data, args=RARELY).ready()
    wait_state(s, built.id, "named")


def test_names_are_no_markup_and_no_sql(s, built):
    name = "/bin/<script>'; DROP TABLE naming; --\u202e"
    send(s, Sent(built, sample(built, 5), name=name, identity="zz'\"<b>").body)
    b = wait_state(s, "zz'\"<b>", "never")
    assert b["file"] == name and "a form that no file can be found by" in b["why"]


@pytest.mark.slow
@pytest.mark.timeout(3600 if "LODE_KILLS" in os.environ else 120)
def test_killed_in_the_middle_nothing_is_lost_and_nothing_named_twice(serve, built, tmp_path):
    """LODE_KILLS=100 for the long run: of every six, three programs are new, and their debug files are pushed before the third is over."""
    pool, data = tmp_path / "pool", tmp_path / "data"
    pool.mkdir()
    dice = random.Random(7)
    programs, sent = [], []
    for n in range(int(os.environ.get("LODE_KILLS", "6"))):
        if n % 6 == 0:
            programs += [Built(tmp_path / f"{n}o{level}", (f"-O{level}", f"-Wl,--build-id=0x{n:02x}{level:02x}" + 18 * "a5")) for level in (1, 2, 3)]
        s = serve([pool], data=data, args=RARELY).ready()
        one = Sent(programs[n % 3 - 3], sample(programs[n % 3 - 3], 2000, n), time_ms=int(time.time() * 1000) - n)
        send(s, one.body, service=f"s{n}")
        sent.append(one)
        if n % 6 == 2:
            for b in programs[-3:]:
                assert put(s, f"/buildid/{b.id}/debuginfo", b.debug.read_bytes())[0] == 201
        time.sleep(dice.random() / 10)
        s.stop(signal.SIGKILL)
    s = serve([pool], data=data, args=RARELY).ready()
    for b in programs:
        wait_state(s, b.id, "named", "partly")
        s.wait(lambda: binary(s, b.id)["next_try"] == 0, "all of it to be looked up", 30)
    for n, one in enumerate(sent):
        got = now(s, query=f'{{service="s{n}"}}')
        # All acknowledged profiles are there,
        assert sorted(got) == list(range(1, len(one.addrs) + 1))
        want = one.built.oracle(one.addrs[::40], "--no-demangle")
        # with the right names.
        for i, chain in enumerate(want):
            assert got[40 * i + 1] == chain, hex(one.addrs[40 * i])
    s.stop()
    s = serve([pool], data=data, args=RARELY).scanned()
    s.wait(lambda: binary(s, programs[0].id)["state"] in ("named", "partly"), "to be read")
    assert not s.metric('lode_naming_addresses_total{result="named"}')


def test_other_servers_are_asked_once_however_many_profiles(serve, faulty, built, tmp_path):
    up = faulty({f"/buildid/{built.id}/debuginfo": built.debug.read_bytes()})
    (tmp_path / "pool").mkdir()
    s = serve([tmp_path / "pool"], args=[*RARELY, "--debuginfod-upstream-servers", up.url]).ready()
    for n in range(10):
        sent = Sent(built, sample(built, 50, n), time_ms=int(time.time() * 1000) + n)
        send(s, sent.body, service=f"s{n}")
    wait_state(s, built.id, "named")
    check(s, sent, query='{service="s9"}')
    assert len(up.requests(f"/buildid/{built.id}/debuginfo")) == 1
    assert len(up.requests(f"/buildid/{built.id}/executable")) == 1


def test_what_another_server_does_not_have_is_asked_for_rarely(serve, faulty, built, tmp_path):
    up = faulty({})
    (tmp_path / "pool").mkdir()
    s = serve([tmp_path / "pool"], args=["--symbolize-interval", "1", "--debuginfod-upstream-servers", up.url]).ready()
    send(s, Sent(built, sample(built, 50)).body)
    b = wait_state(s, built.id, "failed")
    assert b["reason"] == "upstream-404" and 590000 < b["next_try"] - b["last_try"] <= 600000
    assert len(up.requests(f"/buildid/{built.id}/debuginfo")) == 1
    # But at once on request.
    up.files[f"/buildid/{built.id}/debuginfo"] = built.debug.read_bytes()
    assert call(s, "POST", f"/api/binaries/{built.id}/retry")[0] == 202
    wait_state(s, built.id, "named")
