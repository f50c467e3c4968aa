#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real, unmodified senders of profiles, from their registries, and a program that is pulled, each against a server of its own: pass or fail."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from common import CORPUS, Server, free_port
import _senders_otel as senders_otel
import _senders_parca as senders_parca
from _sending import NotRun, all_names_of, go, names_of, run, tls_server

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


def go_sender(work, url, seconds):
    (work / "main.go").write_text(GO)
    go(work, "mod", "init", "sender")
    go(work, "get", "github.com/grafana/pyroscope/api@latest", "connectrpc.com/connect@latest")
    go(work, "build", "-o", "sender", ".")
    subprocess.run([work / "sender", url], check=True, capture_output=True, timeout=60)
    return "sender.go", "main.burnGo"


# ---- Go: the same call by gRPC: connect-go over h2c, in gRPC-Web, and grpc-go with and without gzip ----

GRPC = """
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"time"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var sink int

//go:noinline
func burnGrpc(until time.Time) {
	for time.Now().Before(until) {
		for i := 0; i < 1000; i++ {
			sink += i * i
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TLS with ALPN, and a token in the metadata.
func pushByTLS(address, certificate, token string, request *pushv1.PushRequest) {
	trusted, err := credentials.NewClientTLSFromFile(certificate, "")
	check(err)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(trusted))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	push := func(ctx context.Context) error {
		return conn.Invoke(ctx, "/push.v1.PusherService/Push", request, &pushv1.PushResponse{})
	}
	check(push(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)))
	for _, wrong := range []context.Context{ctx, metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer x"+token)} {
		if err = push(wrong); status.Code(err) != codes.Unauthenticated {
			panic(err)
		}
	}
	// Without TLS there is no connection.
	plain, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	if err = plain.Invoke(ctx, "/push.v1.PusherService/Push", request, &pushv1.PushResponse{}); status.Code(err) != codes.Unavailable {
		panic(err)
	}
}

func main() {
	var b bytes.Buffer
	pprof.StartCPUProfile(&b)
	burnGrpc(time.Now().Add(3 * time.Second))
	pprof.StopCPUProfile()
	request := &pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
		Labels: []*typesv1.LabelPair{{Name: "__name__", Value: "process_cpu"}, {Name: "service_name", Value: "sender.grpc"}},
		Samples: []*pushv1.RawSample{{RawProfile: b.Bytes(), ID: "1"}}}}}
	h2c := &http.Client{Transport: &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return net.Dial(network, addr)
	}}}
	for _, o := range [][]connect.ClientOption{{connect.WithGRPC()}, {connect.WithGRPC(), connect.WithSendGzip()}, {connect.WithGRPC(), connect.WithProtoJSON()}, {connect.WithGRPCWeb()}, nil} {
		_, err := pushv1connect.NewPusherServiceClient(h2c, "http://"+os.Args[2], o...).Push(context.Background(), connect.NewRequest(request))
		check(err)
		_, err = pushv1connect.NewPusherServiceClient(h2c, "http://"+os.Args[2], o...).Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{}))
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			panic(err)
		}
	}
	_, err := pushv1connect.NewPusherServiceClient(http.DefaultClient, os.Args[1], connect.WithGRPCWeb()).Push(context.Background(), connect.NewRequest(request))
	check(err)
	conn, err := grpc.NewClient(os.Args[2], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	for _, o := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		check(conn.Invoke(ctx, "/push.v1.PusherService/Push", request, &pushv1.PushResponse{}, o...))
		cancel()
	}
	large := &pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{Samples: []*pushv1.RawSample{{RawProfile: make([]byte, 64<<20)}}}}}
	if err = conn.Invoke(context.Background(), "/push.v1.PusherService/Push", large, &pushv1.PushResponse{}); status.Code(err) != codes.ResourceExhausted {
		panic(err)
	}
	health, err := healthv1.NewHealthClient(conn).Check(context.Background(), &healthv1.HealthCheckRequest{})
	check(err)
	if health.Status != healthv1.HealthCheckResponse_SERVING {
		panic(health)
	}
	pushByTLS(os.Args[3], os.Args[4], os.Args[5], request)
}
"""


def grpc_sender(work, url, seconds):
    (work / "main.go").write_text(GRPC)
    go(work, "mod", "init", "sender")
    go(work, "get", "github.com/grafana/pyroscope/api@latest", "connectrpc.com/connect@latest", "google.golang.org/grpc@latest", "golang.org/x/net@latest")
    go(work, "build", "-o", "sender", ".")
    with tls_server(work) as tls:
        run([work / "sender", url, (work / "grpc").read_text(), tls.grpc, tls.cert, tls.token])
        if "main.burnGrpc" not in names_of(tls.url, "sender.grpc", context=tls.context, token=tls.token):
            raise LookupError("main.burnGrpc did not arrive by TLS")
    return "sender.grpc", "main.burnGrpc"


# ---- Go: pyroscope-go ----

GO_SDK = """
package main

import (
	"os"
	"time"

	"github.com/grafana/pyroscope-go"
)

var sink int

//go:noinline
func burnSDK(until time.Time) {
	for time.Now().Before(until) {
		for i := 0; i < 1000; i++ {
			sink += i * i
		}
	}
}

func main() {
	p, err := pyroscope.Start(pyroscope.Config{ApplicationName: "sender.gosdk", ServerAddress: os.Args[1], UploadRate: 5 * time.Second,
		Tags: map[string]string{"region": "eu"}, BasicAuthUser: "x", BasicAuthPassword: os.Args[2]})
	if err != nil {
		panic(err)
	}
	burnSDK(time.Now().Add(6 * time.Second))
	if err = p.Stop(); err != nil {
		panic(err)
	}
}
"""


def gosdk_sender(work, url, seconds):
    (work / "main.go").write_text(GO_SDK)
    go(work, "mod", "init", "sender")
    go(work, "get", "github.com/grafana/pyroscope-go@latest")
    go(work, "build", "-o", "sender", ".")
    run([work / "sender", url, "no-token-is-needed"])
    return "sender.gosdk", "main.burnSDK"


# ---- Node.js: @pyroscope/nodejs, of npm ----

NODE = """
const Pyroscope = require("@pyroscope/nodejs");
function burnNode(until) {
	let x = 0;
	while (Date.now() < until)
		for (let i = 0; i < 100000; i++)
			x += Math.sqrt(i);
	return x;
}
Pyroscope.init({ serverAddress: process.argv[2], appName: "sender.node", tags: { region: "eu" }, flushIntervalMs: 2000, wall: { collectCpuTime: true } });
Pyroscope.start();
const end = Date.now() + 1000 * Number(process.argv[3]);
// In turns, so that its timers can send.
(function turn() {
	burnNode(Date.now() + 200);
	if (Date.now() < end)
		setTimeout(turn, 5);
	else
		Pyroscope.stop().then(() => process.exit(0));
})();
"""


def node_sender(work, url, seconds):
    (work / "sender.js").write_text(NODE)
    run(["npm", "install", "--no-audit", "--no-fund", "@pyroscope/nodejs"], cwd=work, timeout=300)
    run(["node", "sender.js", url, seconds], cwd=work)
    return "sender.node", "burnNode"


# ---- Rust: pyroscope, of crates.io ----

RUST = """
use pyroscope::backend::pprof::{pprof_backend, PprofConfig};
use pyroscope::backend::BackendConfig;
use pyroscope::pyroscope::PyroscopeAgentBuilder;
use std::time::{Duration, Instant};

#[inline(never)]
fn burn_rust(until: Instant) -> u64 {
    let mut n = 0u64;
    while Instant::now() < until {
        for i in 0..1000u64 {
            n = n.wrapping_mul(31).wrapping_add(i);
        }
    }
    n
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let backend = pprof_backend(PprofConfig::default(), BackendConfig::default());
    let agent = PyroscopeAgentBuilder::new(&args[1], "sender.rust", 100, "pyroscope-rs", "2", backend).build()?;
    let running = agent.start()?;
    println!("{}", burn_rust(Instant::now() + Duration::from_secs_f64(args[2].parse()?)));
    running.stop()?.shutdown();
    Ok(())
}
"""
CARGO = """
[package]
name = "sender"
version = "0.1.0"
edition = "2021"
[dependencies]
pyroscope = { version = "2", features = ["backend-pprof-rs"] }
"""


def rust_sender(work, url, seconds):
    (work / "src").mkdir()
    (work / "src/main.rs").write_text(RUST)
    (work / "Cargo.toml").write_text(CARGO)
    # Beside the corpus, since it takes minutes.
    subprocess.run(["cargo", "build", "-q", "--target-dir", CORPUS / "cargo-sender"], cwd=work, check=True, capture_output=True, timeout=1800)
    subprocess.run([CORPUS / "cargo-sender/debug/sender", url, str(seconds)], check=True, capture_output=True, timeout=120)
    return "sender.rust", "burn_rust"


# ---- Go: net/http/pprof and godeltaprof, pulled by lode serve --scrape ----

PULLED = """
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"sync"
	"time"

	_ "github.com/grafana/pyroscope-go/godeltaprof/http/pprof"
)

var (
	lock sync.Mutex
	kept [][]byte
	sink int
)

//go:noinline
func burnPulled() {
	for {
		lock.Lock()
		for i := 0; i < 200000; i++ {
			sink += i * i
		}
		kept = append(kept, make([]byte, 10000))
		if len(kept) > 500 {
			kept = nil
		}
		lock.Unlock()
		time.Sleep(time.Microsecond)
	}
}

func main() {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	runtime.MemProfileRate = 4096
	go burnPulled()
	go burnPulled()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	http.Serve(l, nil)
}
"""

PULLED_PROFILES = ["process_cpu", "memory", "goroutine", "mutex", "block"], ["godeltaprof_memory", "godeltaprof_mutex", "godeltaprof_block"]


def pulled_state(url):
    targets = json.load(urllib.request.urlopen(f"{url}/api/targets"))["targets"]
    return [profile for target in targets for profile in target["profiles"]]


def pulled_sender(work, url, seconds):
    (work / "main.go").write_text(PULLED)
    go(work, "mod", "init", "pulled")
    go(work, "get", "github.com/grafana/pyroscope-go/godeltaprof@latest")
    go(work, "build", "-o", "pulled", ".")
    with subprocess.Popen([work / "pulled"], stdout=subprocess.PIPE, text=True) as program:
        try:
            address = program.stdout.readline().strip()
            (work / "targets.json").write_text(json.dumps([
                {"targets": [address], "labels": {"service_name": "sender.pulled", "by": profiles[0]}, "scrape_interval": "2s", "profiles": profiles}
                for profiles in PULLED_PROFILES]))
            end = time.monotonic() + 60
            while not (state := pulled_state(url)) or any(p["stored"] < 3 for p in state):
                if time.monotonic() > end:
                    raise LookupError(f"not pulled: {[(p['name'], p.get('error', p['result'])) for p in state]}")
                time.sleep(0.2)
        finally:
            program.kill()
    types = json.load(urllib.request.urlopen(f"{url}/api/types"))["types"]
    for kind in types:
        if "main.burnPulled" not in names_of(url, "sender.pulled", kind):
            raise LookupError(f"main.burnPulled is not in {kind}")
    want = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", "memory:alloc_space:bytes:space:bytes", "memory:inuse_space:bytes:space:bytes",
            "goroutines:goroutine:count:goroutine:count", "mutex:delay:nanoseconds:contentions:count", "block:contentions:count:contentions:count"}
    if not want <= set(types):
        raise LookupError(f"types are {types}")
    return "sender.pulled", "main.burnPulled"


# ---- Java: io.pyroscope:agent, of Maven Central. It sends recordings of async-profiler, which is in it ----

JAVA = """
public class Sender {
    static volatile double sink;
    static void burnJava(long until) {
        double x = 1;
        while (System.nanoTime() < until)
            for (int i = 1; i < 1000; i++)
                x += Math.sqrt(x * i);
        sink = x;
    }
    public static void main(String[] a) throws Exception {
        io.pyroscope.labels.v2.Pyroscope.LabelsWrapper.run(new io.pyroscope.labels.v2.LabelsSet("handler", "/orders"),
            () -> burnJava(System.nanoTime() + Long.parseLong(a[0]) * 1_000_000_000L));
        Thread.sleep(3000);
    }
}
"""
JAVA_AGENT = "2.9.2"


def java_sender(work, url, seconds):
    (work / "Sender.java").write_text(JAVA)
    subprocess.run(["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy", f"-Dartifact=io.pyroscope:agent:{JAVA_AGENT}", f"-DoutputDirectory={work}"],
                   cwd=work, check=True, capture_output=True, timeout=300)
    jar = work / f"agent-{JAVA_AGENT}.jar"
    subprocess.run(["javac", "-cp", jar, "Sender.java"], cwd=work, check=True, capture_output=True, timeout=120)
    env = {**os.environ, "PYROSCOPE_APPLICATION_NAME": "sender.java", "PYROSCOPE_SERVER_ADDRESS": url, "PYROSCOPE_UPLOAD_INTERVAL": "2s", "PYROSCOPE_FORMAT": "jfr",
           "PYROSCOPE_PROFILER_ALLOC": "512k", "PYROSCOPE_PROFILER_LOCK": "1ms"}
    subprocess.run(["java", f"-javaagent:{jar}", "-cp", f"{jar}{os.pathsep}.", "Sender", str(int(seconds))], cwd=work, env=env, check=True, capture_output=True, timeout=120)
    # The labels of its contexts come beside the recording.
    query = urllib.parse.urlencode({"query": '{service_name="sender.java",handler="/orders"}'})
    if not json.load(urllib.request.urlopen(f"{url}/api/types?{query}"))["types"]:
        raise LookupError("no samples have the label handler")
    return "sender.java", "Sender.burnJava"


SENDERS = {**senders_otel.SENDERS, **senders_parca.SENDERS, "python": python_sender, "go": go_sender, "gosdk": gosdk_sender, "node": node_sender, "grpc": grpc_sender, "rust": rust_sender, "pulled": pulled_sender, "java": java_sender}


def try_sender(sender, seconds):
    with tempfile.TemporaryDirectory(prefix="bench-senders-", dir=CORPUS) as tmp:
        work = pathlib.Path(tmp)
        for d in "empty", "work":
            (work / d).mkdir()
        grpc = f"127.0.0.1:{free_port()}"
        (work / "work" / "grpc").write_text(grpc)
        with Server("lode", [f"{work}/empty"], state=f"{work}/state", extra=["--listen-grpc", grpc, "--scrape", f"{work}/work/targets.json"]) as s:
            s.wait_ready()
            url = f"http://127.0.0.1:{s.port}"
            try:
                service, function = sender(work / "work", url, seconds)
                # A sender without profiles has looked itself.
                names = all_names_of(url, service) if service else {function}
            except NotRun as e:
                return "not run", str(e)
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
