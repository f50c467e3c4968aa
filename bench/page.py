#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in a browser: time until it shows a day of profiles, and the cost of drawing 100 000 frames.

    bench/page.py [--series 100] [--hours 24] [--frames 100000] [--steps 240]

A service gets profiles of --series series, one per hour each, whose merged tree has --frames frames. Debian's chromium opens the page
without a screen and without a graphics processor. "Drawn" is the time from the start of the navigation until the flame graph is visible. While
zooming and panning, the script requests an animation frame as often as the browser allows; the results are the time between frames, the
script's time for drawing one, and the CPU time of the browser's processes per frame, with rasterization.
"""

import argparse
import contextlib
import http.client
import pathlib
import random
import statistics
import sys
import tempfile
import time

from common import LODE, ROOT, cpu_s, free_port

import subprocess

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from browser import Browser  # noqa: E402

VERBS = "parse read write handle encode decode compute hash lookup insert remove flush open close poll wait".split()
NOUNS = "request header body socket buffer cache index tree node page block frame row json string map".split()


def stacks(n):
    """Stacks whose tree has n frames: each new stack extends a prefix of a recent one."""
    r = random.Random(7)
    names = [f"{v}_{o}_{i}" for i in range(12) for v in VERBS for o in NOUNS]
    made, count = [["main"]], 1
    while count < n:
        old = made[r.randrange(max(0, len(made) - 400), len(made))] if r.random() < 0.85 else made[r.randrange(len(made))]
        at, more = r.randrange(1, len(old) + 1), r.randrange(1, 5)
        stack = old[:at] + [r.choice(names) for _ in range(more)]
        if len(stack) > 70:
            continue
        made.append(stack)
        count += more
    return [";".join(s) for s in made]


def fill(port, series, hours, frames):
    r, all_stacks, now = random.Random(8), stacks(frames), time.time()
    per = max(1, len(all_stacks) // (series * hours))
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    n = 0
    for k in range(series):
        for h in range(hours):
            own = all_stacks[n * per % len(all_stacks):][:per] + r.choices(all_stacks, k=20)
            body = "".join(f"{s} {int(r.paretovariate(1.2) * 10)}\n" for s in own)
            c.request("POST", f"/profiles?service=s{k % 10}&host=h{k // 10}&format=folded&time={int((now - 3600 * (hours - h) + 1800) * 1000)}", body)
            reply = c.getresponse()
            text = reply.read()
            assert reply.status == 200, text
            n += 1
    return n


DRAWN = """
const done = arguments[0], look = () => {
    const canvas = document.querySelector('#flame canvas');
    if (canvas && canvas.height > 150 && document.querySelector('#result .flame-legend'))
        done({ms: performance.now(), said: document.querySelector('.said').textContent});
    else
        requestAnimationFrame(look);
};
look();"""

DRAW = """
const steps = arguments[0], done = arguments[arguments.length - 1];
(async () => {
    const [{ FlameGraph }, { modelOf }, { colourNodes }] = await Promise.all(["graph", "model", "colour"].map((name) => import(`/web/flame/${name}.js`)));
    const began = performance.now(), answer = await (await fetch("/api/flamegraph" + location.search)).json(), fetched = performance.now();
    const model = modelOf(answer), laidOut = performance.now(), colours = colourNodes(model, "binary").ofNode, coloured = performance.now();
    const box = document.createElement("div");
    document.body.replaceChildren(box);
    box.style.height = box.style.maxHeight = `${innerHeight - 40}px`;
    const graph = new FlameGraph(box, { label: (node) => model.name(node), text: () => "" });
    graph.show(model, colours);
    const between = [], own = [];
    let last = 0, i = 0;
    const canvas = box.querySelector("canvas");
    const wheel = (options) => canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, clientX: innerWidth * 0.4, clientY: 100, ...options }));
    const draw = graph.draw.bind(graph);
    graph.draw = () => {
        const t = performance.now();
        draw();
        own.push(performance.now() - t);
    };
    const step = (now) => {
        if (last)
            between.push(now - last);
        last = now;
        if (i++ === steps)
            return done({ nodes: model.n, rows: model.nRows, fetch_ms: fetched - began, layout_ms: laidOut - fetched, colour_ms: coloured - laidOut, between, own, drawn: graph.painter.drawn });
        // In for a third, from side to side and up and down for a third, out again.
        if (i < steps / 3)
            wheel({ ctrlKey: true, deltaY: -40 });
        else if (i < 2 * steps / 3) {
            wheel({ deltaX: i % 40 < 20 ? 60 : -60 });
            box.scrollTop += i % 60 < 30 ? 9 : -9;
        } else
            wheel({ ctrlKey: true, deltaY: 40 });
        requestAnimationFrame(step);
    };
    setTimeout(() => requestAnimationFrame(step), 300);
})();"""


def run_async(b, script, *args):
    b.say("POST", "/timeouts", {"script": 120000})
    return b.say("POST", "/execute/async", {"script": script, "args": list(args)})


def browser_cpu(b):
    """CPU seconds of all of the browser's processes; one may end meanwhile."""
    def below(pid):
        kids = []
        with contextlib.suppress(OSError):
            kids = [kid for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for kid in (task / "children").read_text().split()]
        return [pid] + [p for kid in kids for p in below(int(kid))]

    total = 0
    for pid in below(b.driver.pid)[1:]:
        with contextlib.suppress(OSError):
            total += cpu_s(pid)
    return total


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--series", type=int, default=100)
    p.add_argument("--hours", type=int, default=24)
    p.add_argument("--frames", type=int, default=100000)
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--runs", type=int, default=3)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        port = free_port()
        (pathlib.Path(d) / "none").mkdir()
        serve = subprocess.Popen([LODE, "serve", "--listen", f"127.0.0.1:{port}", "--data", f"{d}/data", "--no-upstream", "--no-access-log", f"{d}/none"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        b = Browser(1440, 1000)
        try:
            end = time.monotonic() + 30
            while True:
                try:
                    c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    c.request("GET", "/healthz")
                    if c.getresponse().status == 200:
                        break
                except OSError:
                    pass
                assert time.monotonic() < end
                time.sleep(0.05)
            n = fill(port, a.series, a.hours, a.frames)
            url = f"http://127.0.0.1:{port}/?from=now-{a.hours}h"
            print(f"{n} profiles of {a.series} series over {a.hours} h; {b.run('return navigator.userAgent').split('Chrome')[-1][1:7].strip('/')} of Chromium, without a graphics processor")
            times, used = [], []
            for _ in range(a.runs):
                b.open("about:blank")
                before = browser_cpu(b), cpu_s(serve.pid)
                b.open(url)
                got = run_async(b, DRAWN)
                times.append(got["ms"])
                used.append((browser_cpu(b) - before[0], cpu_s(serve.pid) - before[1]))
            print(f"  {got['said']}\n  drawn after {min(times):.0f} ms (of {a.runs}: {', '.join(f'{t:.0f}' for t in times)}); "
                  f"CPU until then: {min(u[0] for u in used):.2f} s of the browser, {min(u[1] for u in used):.2f} s of the service")
            before = browser_cpu(b)
            r = run_async(b, DRAW, a.steps)
            used = browser_cpu(b) - before
            own, between = sorted(r["own"]), sorted(r["between"])
            print(f"  {r['nodes']} frames in {r['rows']} rows: fetched in {r['fetch_ms']:.0f} ms, laid out in {r['layout_ms']:.1f} ms, coloured in {r['colour_ms']:.1f} ms")
            print(f"  zooming and panning, {a.steps} frames: script {statistics.median(own):.2f} ms a frame, p99 {own[int(len(own) * 0.99)]:.2f} ms; "
                  f"between frames {statistics.median(between):.1f} ms, p99 {between[int(len(between) * 0.99)]:.1f} ms")
            print(f"  CPU of the browser for all of that, the fetch too: {1000 * used / a.steps:.1f} ms a frame")
        finally:
            b.close()
            serve.terminate()
            serve.wait(30)


if __name__ == "__main__":
    main()
