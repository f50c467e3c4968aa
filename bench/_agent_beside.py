# SPDX-License-Identifier: Apache-2.0
"""bench/agent.py --beside: two builds' samplers over the same processes at the same time.

On a machine that does other things as well, the time of a sample differs by half from one minute to the next, and the ratio of two samplers
that run at once by a few percent. Each sample finds some of the kernel's memory in caches that the other's sample has just filled: both figures are
lower than those of one sampler alone, and the ratio is nearer to 1.
"""

import json
import statistics
import subprocess

TURNS = 5


def one_turn(tools, hz, seconds, pids):
    """Microseconds a sample of each tool, and its result."""
    # Another frequency each, so that no sampler is always the one that comes second.
    rates = [max(1, hz - 2 * i) for i in range(len(tools))]
    started = [subprocess.Popen([tool, "--hz", str(rate), "--seconds", str(seconds), *(a for pid in pids for a in ("--pid", str(pid)))],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for tool, rate in zip(tools, rates)]
    results = []
    for p in started:
        out = p.communicate()[0].splitlines()
        result = json.loads(out[-1]) if out else {"bpf_runs": 0}
        if not result["bpf_runs"]:
            return None
        results.append((result["bpf_ns"] / result["bpf_runs"] / 1000, result))
    return results


def compare(run, other, hz, seconds, pids):
    times, ratios = {run: [], other: []}, []
    for turn in range(TURNS):
        tools = [run, other] if turn % 2 else [other, run]
        results = one_turn(tools, hz, seconds, pids)
        if not results:
            print("beside         BPF cannot be had here, or no sample was taken")
            return
        for tool, (us, _) in zip(tools, results):
            times[tool].append(us)
        ratios.append(times[run][-1] / times[other][-1])
        result = dict(zip(tools, (r for _, r in results)))[run]
    frames = sum(c["frames"] for c in result["comms"].values()) / max(1, sum(c["user"] for c in result["comms"].values()))
    print(f"beside         {hz:4} Hz  {statistics.median(times[run]):5.1f} us a sample, the other {statistics.median(times[other]):5.1f} us,"
          f" ratio {statistics.median(ratios):.2f} (turns: {', '.join(f'{r:.2f}' for r in ratios)})  {frames:.1f} frames")
