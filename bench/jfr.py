#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings of Java: stacks and values beside `jfr print` of a JDK, and time beside async-profiler's converter.

Recordings are made with every JDK that is found (--jdk), each with its own recorder, and with async-profiler (--agent),
of a program with many threads, locks, garbage, lambdas and stacks of 2 000 frames. Or give recordings. Exit status 1: a
stack or a value differs."""

import argparse
import collections
import glob
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

LODE = os.environ.get("LODE", str(pathlib.Path(__file__).resolve().parent.parent / "build" / "lode"))

PROGRAM = """
import java.util.*;
import java.util.concurrent.locks.LockSupport;
import java.util.function.*;

public class Work {
    static final Object LOCK = new Object();
    static volatile Object sink;
    static double burn(long until) { double x = 1; while (System.nanoTime() < until) for (int i = 1; i < 500; i++) x += Math.sqrt(x * i); return x; }
    static int rec(int n, int seed, IntUnaryOperator f) {
        if (n == 0) { sink = new byte[200 + (seed & 1023)]; return f.applyAsInt(seed); }
        switch (seed >>> (n % 28) & 3) { case 0: return a(n - 1, seed, f); case 1: return b(n - 1, seed, f); default: return c(n - 1, seed, f); }
    }
    static int a(int n, int s, IntUnaryOperator f) { return rec(n, s * 31 + 1, f) + 1; }
    static int b(int n, int s, IntUnaryOperator f) { return rec(n, s * 17 + 3, f) + 2; }
    static int c(int n, int s, IntUnaryOperator f) { return rec(n, s ^ 0x5555, f) + 3; }
    static void work(int k, long until) throws Exception {
        Random r = new Random(k);
        while (System.nanoTime() < until)
            switch (k % 7) {
            case 0: rec(20, r.nextInt(4096), v -> v * 3); break;
            case 1: rec(900 + r.nextInt(90), r.nextInt(4096), v -> v * 3); break;
            case 2: case 3: synchronized (LOCK) { burn(System.nanoTime() + 2_000_000); } break;
            case 4: LockSupport.parkNanos(30_000_000); break;
            case 5: Object o = new Object(); synchronized (o) { o.wait(40); } break;
            default: sink = new byte[3 << 20];
            }
    }
    public static void main(String[] x) throws Exception {
        long until = System.nanoTime() + Integer.parseInt(x[0]) * 1_000_000_000L;
        List<Thread> all = new ArrayList<>();
        for (int t = 0; t < 42; t++) {
            final int k = t;
            Thread th = new Thread(null, () -> { try { work(k, until); } catch (Exception e) { throw new RuntimeException(e); } }, "work-" + k, 256 << 20);
            th.start();
            all.add(th);
        }
        for (Thread th : all) th.join();
    }
}
"""
ALL = "jdk.ObjectAllocationInNewTLAB#enabled=true,jdk.ObjectAllocationOutsideTLAB#enabled=true"

# Event: lode's type, and the value of an event in nanoseconds, bytes, or None: only how often (times the interval).
EVENTS = {
    "jdk.ExecutionSample": ("cpu", None), "jdk.CPUTimeSample": ("cpu", "samplingPeriod"), "jdk.NativeMethodSample": ("native", None),
    "profiler.WallClockSample": ("wall", None), "jdk.ObjectAllocationInNewTLAB": ("alloc_in_new_tlab_bytes", "tlabSize"),
    "jdk.ObjectAllocationOutsideTLAB": ("alloc_outside_tlab_bytes", "allocationSize"), "jdk.ObjectAllocationSample": ("alloc_sample_bytes", "weight"), "jdk.JavaMonitorEnter": ("mutex_delay", "duration"),
}


def java_of(jdk):
    return f"{jdk}/bin/java"


def record(work, jdks, agent, seconds):
    (work / "Work.java").write_text(PROGRAM)
    out = []
    for jdk in jdks:
        release = subprocess.run([java_of(jdk), "-version"], capture_output=True, text=True).stderr.split('"')[1]
        subprocess.run([f"{jdk}/bin/javac", "-d", str(work / release), "Work.java"], cwd=work, check=True)
        more = ",jdk.CPUTimeSample#enabled=true" if int(release.split(".")[0]) >= 25 else ""
        for gc in "G1", "Parallel", "Serial":
            name = work / f"jdk{release}-{gc}.jfr"
            subprocess.run([java_of(jdk), f"-XX:+Use{gc}GC", "-Xmx400m", f"-XX:StartFlightRecording=settings=profile,filename={name},{ALL}{more}", "-XX:FlightRecorderOptions=stackdepth=2048",
                            "-cp", str(work / release), "Work", str(seconds)], cwd=work, check=True, capture_output=True)
            out.append(name)
        if agent:
            for name, how in ("cpu", "event=itimer,alloc=16k,lock=1ms"), ("wall", "event=cpu,wall,live,alloc=64k,nativemem=1m,chunktime=2s"):
                name = work / f"async{release}-{name}.jfr"
                subprocess.run([java_of(jdk), f"-agentpath:{agent}=start,{how},jstackdepth=2048,file={name}", "-cp", str(work / release), "Work", str(seconds)], cwd=work, check=True, capture_output=True)
                out.append(name)
    return out


# ---- comparing ----

def lasting(name):
    name = re.sub(r"[+./](?:0x[0-9a-f]+(?:/\d+)?|\d{4,})$", "", name)
    return re.sub(r"(\$\$Lambda)\$\d+$|(Generated(?:Serialization)?(?:Constructor|Method)Accessor)\d+$", lambda m: m[1] or m[2], name).replace("/", ".")


def frame_name(frame, async_profiler):
    method = frame["method"] or {}
    name = lasting((method.get("type") or {}).get("name") or "")
    if async_profiler and frame["type"] in ("Native", "C++", "Kernel"):
        name = ""
    return ".".join(p for p in (name, method.get("name")) if p) or "[unknown method]"


def seconds_of(text):
    """jfr prints durations as ISO 8601: PT0.020300000S."""
    m = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", text)
    return int(m[1] or 0) * 3600 + int(m[2] or 0) * 60 + float(m[3] or 0)


def by_jfr(jfr, path, event):
    """Sums by stack, and whether it is async-profiler's."""
    text = subprocess.run([jfr, "print", "--json", "--stack-depth", "4096", "--events", event, str(path)], capture_output=True, text=True, check=True).stdout
    kernel = '"Kernel"' in text or "async" in path.name or path.name.startswith("ap")
    sums = collections.Counter()
    for e in json.loads(text)["recording"]["events"]:
        v = e["values"]
        trace = v.get("stackTrace") or {"frames": [], "truncated": False}
        names = [frame_name(f, kernel) for f in reversed(trace["frames"])]
        if trace["truncated"]:
            names.insert(0, "[truncated: stack depth of the recorder]")
        value = EVENTS[event][1]
        amount = v.get("samples", 1) if value is None else v[value]
        if isinstance(amount, str):
            amount = round(seconds_of(amount) * 1e9)
        if v.get("state") != "STATE_SLEEPING" or event != "jdk.ExecutionSample":
            sums[";".join(names) or "[no stack trace]"] += amount
    return sums


def by_lode(path, kind):
    r = subprocess.run([LODE, "profile", "--output-format", "folded", "--all-frames", "--sample-type", kind, str(path)], capture_output=True, text=True)
    sums = collections.Counter()
    for line in r.stdout.splitlines():
        stack, _, n = line.rpartition(" ")
        sums[stack] += int(n)
    return sums


def compare(jfr, path):
    bad = 0
    sums = {e: by_jfr(jfr, path, e) for e in EVENTS}
    for event, want in sums.items():
        if not want or (event == "jdk.ExecutionSample" and sums["jdk.CPUTimeSample"]):
            continue
        got = by_lode(path, EVENTS[event][0])
        if EVENTS[event][1] is None:
            interval = sum(got.values()) // sum(want.values())
            want = collections.Counter({k: n * interval for k, n in want.items()})
        # Ticks become nanoseconds one by one here, and as text there.
        differ = [k for k in got.keys() | want.keys() if abs(got[k] - want[k]) > (1000 if EVENTS[event][1] in ("samplingPeriod", "duration") else 0) * max(1, want[k] // 10**6)]
        bad += bool(differ)
        print(f"| {path.name} | {event} | {len(want)} | {sum(want.values())} | {len(differ) or 'same'} |", flush=True)
        for k in differ[:3]:
            print(f"  {got[k]} {want[k]} {k[-300:]}", file=sys.stderr)
    return bad


# ---- time ----

def cpu_of(argv):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speed(paths, java, converter):
    print("\n| recording | MB | lode profile, CPU s | MB/s | converter, CPU s |\n|---|---|---|---|---|")
    for path in paths:
        size = path.stat().st_size / 1e6
        ours = min(cpu_of([LODE, "profile", "--output-format", "pprof", "-o", "/dev/null", str(path)]) for _ in range(3))
        theirs = min(cpu_of([java, "-cp", converter, "jfr2pprof" if "3.0" in converter else "Main", str(path), "/dev/null"]) for _ in range(3)) if converter else 0
        print(f"| {path.name} | {size:.1f} | {ours:.3f} | {size / max(ours, 0.001):.0f} | {f'{theirs:.3f}' if converter else '–'} |", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--jdk", action="append", help="a JDK with bin/jfr; may be given again [all in /usr/lib/jvm]")
    a.add_argument("--agent", help="libasyncProfiler.so (Maven: tools.profiler:async-profiler)")
    a.add_argument("--converter", help="async-profiler's converter (Maven: tools.profiler:async-profiler-converter)")
    a.add_argument("--seconds", type=int, default=6, help="of each recording [6]")
    a.add_argument("recordings", nargs="*", type=pathlib.Path)
    a = a.parse_args()
    jdks = a.jdk or sorted({os.path.realpath(p[:-8]) for p in glob.glob("/usr/lib/jvm/*/bin/jfr")})
    if not jdks:
        sys.exit("no JDK: give --jdk")
    jfr = f"{jdks[-1]}/bin/jfr"
    with tempfile.TemporaryDirectory(prefix="bench-jfr-") as tmp:
        paths = a.recordings or record(pathlib.Path(tmp), jdks, a.agent and os.path.realpath(a.agent), a.seconds)
        print("| recording | event | stacks | sum | differ |\n|---|---|---|---|---|")
        bad = sum(compare(jfr, p) for p in paths)
        speed(paths, java_of(jdks[-1]), a.converter)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
