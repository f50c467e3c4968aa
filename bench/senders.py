#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real, unmodified senders of profiles, from their registries, each against a server of its own: pass or fail."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from common import CORPUS, Server

# ---- Python: pyroscope-io, of PyPI ----

PYTHON = """
import sys, time, pyroscope
pyroscope.configure(application_name="sender.python", server_address=sys.argv[1], sample_rate=100, oncpu=False, gil_only=False, tags={"region": "eu"})
def burn_python(until):
    while time.time() < until:
        sum(i * i for i in range(1000))
burn_python(time.time() + float(sys.argv[2]))
pyroscope.shutdown()
"""


def python_sender(work, url, seconds):
    venv = work / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
    subprocess.run([venv / "bin" / "pip", "install", "-q", "pyroscope-io>=1.0"], check=True, capture_output=True, timeout=300)
    subprocess.run([venv / "bin" / "python", "-c", PYTHON, url, str(seconds)], check=True, capture_output=True, timeout=120)
    return "sender.python", "burn_python"


# ---- Go: grafana/pyroscope/api with connect-go, as Alloy and profilecli have it ----

GO = """
package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"runtime/pprof"
	"time"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

var sink int

//go:noinline
func burnGo(until time.Time) {
	for time.Now().Before(until) {
		for i := 0; i < 1000; i++ {
			sink += i * i
		}
	}
}

func main() {
	var b bytes.Buffer
	pprof.StartCPUProfile(&b)
	burnGo(time.Now().Add(3 * time.Second))
	pprof.StopCPUProfile()
	for _, o := range [][]connect.ClientOption{nil, {connect.WithSendGzip()}, {connect.WithProtoJSON()}} {
		c := pushv1connect.NewPusherServiceClient(http.DefaultClient, os.Args[1], o...)
		_, err := c.Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
			Labels: []*typesv1.LabelPair{{Name: "__name__", Value: "process_cpu"}, {Name: "service_name", Value: "sender.go"}, {Name: "__delta__", Value: "false"}},
			Samples: []*pushv1.RawSample{{RawProfile: b.Bytes(), ID: "1"}}}}}))
		if err != nil {
			panic(err)
		}
	}
	// A refusal has a code that is final.
	c := pushv1connect.NewPusherServiceClient(http.DefaultClient, os.Args[1])
	_, err := c.Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
		Samples: []*pushv1.RawSample{{RawProfile: []byte("none")}}}}}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		panic(err)
	}
}
"""


def go(work, *args):
    subprocess.run(["go", *args], cwd=work, check=True, capture_output=True, timeout=900, env={**os.environ, "GOFLAGS": "-mod=mod"})


def go_sender(work, url, seconds):
    (work / "main.go").write_text(GO)
    go(work, "mod", "init", "sender")
    go(work, "get", "github.com/grafana/pyroscope/api@latest", "connectrpc.com/connect@latest")
    go(work, "build", "-o", "sender", ".")
    subprocess.run([work / "sender", url], check=True, capture_output=True, timeout=60)
    return "sender.go", "main.burnGo"


SENDERS = {"python": python_sender, "go": go_sender}


def names_of(url, service):
    query = urllib.parse.urlencode({"query": '{service_name="%s"}' % service})
    types = json.load(urllib.request.urlopen(f"{url}/api/types?{query}"))["types"]
    query = urllib.parse.urlencode({"query": types[0] + '{service_name="%s"}' % service, "limit": 200, "sort": "cum", "wait": "10s"})
    return {r["name"] for r in json.load(urllib.request.urlopen(f"{url}/api/top?{query}"))["rows"]}


def try_sender(sender, seconds):
    with tempfile.TemporaryDirectory(prefix="bench-senders-", dir=CORPUS) as tmp:
        work = pathlib.Path(tmp)
        for d in "empty", "work":
            (work / d).mkdir()
        with Server("lode", [f"{work}/empty"], state=f"{work}/state") as s:
            s.wait_ready()
            url = f"http://127.0.0.1:{s.port}"
            try:
                service, function = sender(work / "work", url, seconds)
                names = names_of(url, service)
            except (subprocess.SubprocessError, OSError, LookupError) as e:
                return "fail", (getattr(e, "stderr", b"") or str(e).encode())[-200:].decode(errors="replace").strip()
            return ("pass", function) if any(function in n for n in names) else ("fail", f"{function} is not among {len(names)} names")


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--seconds", type=float, default=12)
    a.add_argument("senders", nargs="*", choices=[*SENDERS, []])
    a = a.parse_args()
    bad = 0
    print("| sender | result | function, or the reason |\n|---|---|---|")
    for name in a.senders or SENDERS:
        result, what = try_sender(SENDERS[name], a.seconds)
        bad += result == "fail"
        print(f"| {name} | {result} | {what} |", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
