# SPDX-License-Identifier: Apache-2.0
"""Recordings of Java's Flight Recorder: of async-profiler and of JDK 25, by every way in. tests/data/jfr has them."""

import gzip
import json
import lzma
import pathlib
import subprocess
import time


from conftest import LODE
from profiling import ask, call, query, send

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "jfr"
SEEDS = HERE.parent / "fuzz" / "corpus" / "fuzz_profile_jfr"
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
DELAY = "mutex:delay:nanoseconds:mutex:count"


def now(recording):
    """The same, begun ten seconds ago: bytes 32 to 39 of a chunk are its start."""
    return recording[:32] + (int(time.time()) * 10**9 - 10**10).to_bytes(8, "big") + recording[40:]


def async_profiler():
    return now(gzip.decompress((DATA / "async.jfr.gz").read_bytes()))


def jdk25():
    return now(lzma.decompress((DATA / "jdk25.jfr.xz").read_bytes()))


def form(**parts):
    out = b"".join(b'--XyZ\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n' % (n.encode(), n.encode(), d) for n, d in parts.items())
    return out + b"--XyZ--\r\n", {"Content-Type": "multipart/form-data; boundary=XyZ"}


def ingest(s, body, headers=None, **args):
    status, answer, _ = call(s, "POST", f"/ingest?{query(**args)}", body, headers)
    assert (status, json.loads(answer)) == (200, {}), answer


def totals(s, label, value):
    types = ask(s, "types", query=f'{{{label}="{value}"}}')["types"]
    return {t.removesuffix(":delta"): ask(s, "top", query=f'{t}{{{label}="{value}"}}')["total"] for t in types}


def profile(path, *args):
    return subprocess.run([LODE, "profile", "--output-format", "folded", *args, str(path)], capture_output=True, text=True, check=True).stdout


def sums(path, kind):
    return sum(int(line.rsplit(" ", 1)[1]) for line in profile(path, "--sample-type", kind).splitlines())


def test_every_way_in_stores_the_same(s, tmp_path):
    (tmp_path / "a.jfr").write_bytes(async_profiler())
    recording = (tmp_path / "a.jfr").read_bytes()
    body, headers = form(jfr=gzip.compress(recording), labels=b"")
    ingest(s, body, headers, name="form{region=eu}", format="jfr", sampleRate=100)
    ingest(s, recording, name="bare", format="jfr")
    ingest(s, gzip.compress(recording), name="detected")
    receipt = send(s, recording, service_name="posted")
    assert receipt["profiles"] == 5 and not receipt["duplicate"]
    r = subprocess.run([LODE, "send", "a.jfr", "--to", s.url, "--label", "service_name=sent", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(r.stdout)["files"][0]["result"] == "sent"
    want = totals(s, "service_name", "form")
    assert want[CPU] == 170000000 and want[CPU] == sums(tmp_path / "a.jfr", "cpu")
    assert want["memory:alloc_in_new_tlab_objects:count:space:bytes"] == sums(tmp_path / "a.jfr", "alloc_in_new_tlab_objects") > 10
    assert want["mutex:contentions:count:mutex:count"] == 3 and want[DELAY] == sums(tmp_path / "a.jfr", "mutex_delay")
    for service in "bare", "detected", "posted", "sent":
        assert totals(s, "service_name", service) == want, service
    assert totals(s, "region", "eu") == want
    rows = {r["name"] for r in ask(s, "top", query=f'{CPU}{{service_name="form"}}')["rows"]}
    assert {"Fixture.spin", "Fixture.locked", "Fixture$$Lambda.run", "java.lang.Thread.run"} <= rows
    # Again: a duplicate, of which the command says so.
    r = subprocess.run([LODE, "send", "a.jfr", "--to", s.url, "--label", "service_name=sent"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "the server has it already" in r.stdout


def test_names_need_no_debug_information(s):
    send(s, async_profiler(), service="x")
    binaries = {b["file"]: b for b in ask(s, "binaries")["binaries"]}
    assert {"[java]", "[libjvm.so]"} <= set(binaries) and all(b["named"] == b["locations"] for b in binaries.values())
    assert {b["why"] for b in binaries.values()} == {"its names came with the profiles"}


def test_cpu_time_of_jdk_25_is_counted_once(tmp_path):
    (tmp_path / "j.jfr").write_bytes(jdk25())
    assert sums(tmp_path / "j.jfr", "cpu") == 110000000
    assert sums(tmp_path / "j.jfr", "alloc_outside_tlab_objects") == 42
    threads = profile(tmp_path / "j.jfr", "--label", "thread")
    assert "fixture-0" in threads and "fixture-1" in threads
    r = subprocess.run([LODE, "symbolize", "j.jfr", "--output-format", "top"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Fixture.spin" in r.stdout and "0 addresses named, " in r.stderr and ", 0 have no name" in r.stderr


def test_labels_of_contexts_split_a_recording(s):
    seed = (SEEDS / "labels").read_bytes()
    labels, recording = seed[2:2 + seed[1]], now(seed[2 + seed[1]:])
    body, headers = form(jfr=recording, labels=gzip.compress(labels))
    ingest(s, body, headers, name="contexts", format="jfr")
    assert totals(s, "handler", "/orders") == {CPU: 20000000}


def test_a_recording_without_samples_is_no_failure_of_its_sender(s, tmp_path):
    empty = async_profiler()
    for name in b"jdk.ExecutionSample", b"jdk.ObjectAllocationInNewTLAB", b"jdk.ObjectAllocationOutsideTLAB", b"jdk.JavaMonitorEnter", b"jdk.ThreadPark":
        empty = empty.replace(name, name[:-1] + b"?")
    ingest(s, empty, name="idle", format="jfr")
    assert send(s, empty, service="idle") == {"profiles": 0, "samples": 0, "id": 0, "duplicate": False}
    (tmp_path / "e.jfr").write_bytes(empty)
    for command in ["profile", "e.jfr"], ["send", "e.jfr", "--to", s.url]:
        r = subprocess.run([LODE, *command], cwd=tmp_path, capture_output=True, text=True)
        assert r.returncode and "e.jfr: has no samples" in r.stderr


def test_refusals_name_chunk_and_byte(s, tmp_path):
    whole = async_profiler()
    wrong = whole[:68] + b"\xff\xff\xff\x7f" + whole[72:]
    for body, text in (whole[:60], "chunk 1: its header is cut off"), (whole[:5000], "is an unfinished recording without metadata: stop it"), (wrong, "chunk 1: the event at byte 68 has the size 268435455"):
        for path in "/ingest?name=x&format=jfr", "/profiles?service=x":
            status, answer, _ = call(s, "POST", path, body)
            assert status == 400 and text in answer.decode(), answer
        (tmp_path / "x.jfr").write_bytes(body)
        r = subprocess.run([LODE, "profile", "x.jfr"], cwd=tmp_path, capture_output=True, text=True)
        assert r.returncode and text in r.stderr, r.stderr
    body, headers = form(jfr=whole, labels=b"\x0a\x7f")
    status, answer, _ = call(s, "POST", "/ingest?name=x&format=jfr", body, headers)
    assert status == 400 and "its labels: are no LabelsSnapshot" in answer.decode(), answer
