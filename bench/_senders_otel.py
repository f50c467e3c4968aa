# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's senders for bench/senders.py: the Collector with its exporters, and the eBPF profiler."""

import os
import pathlib
import shutil
import subprocess

from common import LODE, free_port
from _sending import NotRun, ask, flat_values, go_program, run, tls_server, wait_for

# One version of all: their modules do not mix. The Collector is made of modules on purpose; a distribution is the same code with a longer list.
VERSION, STABLE = "v0.162.0", "v1.68.0"
MODULES = [f"go.opentelemetry.io/collector/{m}@{VERSION}" for m in
           ("otelcol", "exporter/otlpexporter", "exporter/otlphttpexporter", "receiver/otlpreceiver", "pdata/pprofile")]
MODULES.append(f"go.opentelemetry.io/collector/confmap/provider/fileprovider@{STABLE}")

PIPELINE = """
  profiles/{name}: {{ receivers: [otlp/{name}], exporters: [{kind}/{name}] }}"""
RECEIVER = """
  otlp/{name}: {{ protocols: {{ grpc: {{ endpoint: "127.0.0.1:{port}" }} }} }}"""
EXPORTER = """
  {kind}/{name}: {{ {settings} }}"""


def collector_config(exporters):
    """{name: (exporter, settings)} → the text, and the port of each one's receiver."""
    ports = {name: free_port() for name in exporters}
    rows = [dict(name=name, kind=kind, settings=settings, port=ports[name]) for name, (kind, settings) in exporters.items()]
    text = "receivers:" + "".join(RECEIVER.format(**r) for r in rows) + "\nexporters:" + "".join(EXPORTER.format(**r) for r in rows)
    return text + "\nservice:\n telemetry: { metrics: { level: none } }\n pipelines:" + "".join(PIPELINE.format(**r) for r in rows) + "\n", ports


def check_fed(url, service, **kw):
    """The names and values of `collector feed`; the bare address has a name once its program is pushed."""
    def arrived():
        types = ask(url, "types", query='{service_name="%s"}' % service, **kw)["types"]
        values = flat_values(url, types[0] + '{service_name="%s"}' % service, **kw) if types else {}
        return values if "main.burnBare" in values else None

    values = wait_for(arrived)
    if values != {"main.burnNamed": 3_000_000_000, "main.burnBare": 7_000_000_000}:
        raise LookupError(f"{service}: {values}")


def collector_sender(work, url, seconds):
    program = go_program("collector", *MODULES, flags=("-ldflags=-B gobuildid",))
    plain = f'endpoint: "{(work / "grpc").read_text()}", tls: {{ insecure: true }}'
    http = f'endpoint: "{url}"'
    with tls_server(work) as tls:
        secure = f'tls: {{ ca_file: "{tls.cert}" }}, headers: {{ Authorization: "Bearer {tls.token}" }}'
        config, ports = collector_config({
            "gzip": ("otlp", plain),
            "zstd": ("otlp", plain + ", compression: zstd"),
            "none": ("otlp", plain + ", compression: none"),
            "tls": ("otlp", f'endpoint: "{tls.grpc}", {secure}'),
            "http": ("otlphttp", http),
            "httpzstd": ("otlphttp", http + ", compression: zstd"),
            "httpnone": ("otlphttp", http + ", compression: none"),
            "json": ("otlphttp", http + ", encoding: json"),
            "https": ("otlphttp", f'endpoint: "{tls.url}", {secure}'),
        })
        (work / "config.yaml").write_text(config)
        run([LODE, "push", program, "--to", url])
        (work / "token").write_text(tls.token)
        run([LODE, "push", program, "--to", tls.url, "--token-file", work / "token"], env={**os.environ, "SSL_CERT_FILE": str(tls.cert)})
        with open(work / "collector.log", "wb") as log, subprocess.Popen(
                [program, "--config", work / "config.yaml", "--feature-gates=service.profilesSupport"], stdout=log, stderr=log) as process:
            try:
                for name, port in ports.items():
                    run([program, "feed", f"127.0.0.1:{port}", f"sender.{name}"])
                for name in ports:
                    if name in ("tls", "https"):
                        check_fed(tls.url, f"sender.{name}", context=tls.context, token=tls.token)
                    else:
                        check_fed(url, f"sender.{name}")
            finally:
                process.terminate()
    return "sender.gzip", "main.burnBare"


# ---- the eBPF profiler ----

NATIVE = """
#include <time.h>
static volatile unsigned long n;
__attribute__((noinline)) void burn_native(long seconds)
{
	for (time_t end = time(0) + seconds; time(0) < end;)
		for (int i = 0; i < 100000; i++)
			n += i * n;
}
int main(void) { burn_native(%d); }
"""


def profile_machine(work, url, seconds, argv, query, flags=(), push=False):
    """@argv profiles this machine, where a program runs that is stripped to its symbols. Root and BPF are needed."""
    (work / "burn.c").write_text(NATIVE % (max(seconds, 30) + 60))
    run(["cc", "-O1", "-Wl,--build-id", *flags, "-o", work / "sender-burn", work / "burn.c"])
    if push:
        run([LODE, "push", work / "sender-burn", "--to", url])
    # tracefs in a mount namespace of its own, if there is none.
    argv = ["unshare", "-m", "sh", "-c", '[ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"', "sh", *argv]
    with open(work / "profiler.log", "wb") as log, subprocess.Popen(argv, stdout=log, stderr=log, cwd=work) as process, subprocess.Popen([work / "sender-burn"]) as burn:
        try:
            values = wait_for(lambda: flat_values(url, query).get("burn_native", 0) > 2_000_000_000, max(seconds, 30) + 50)
        finally:
            process.terminate()
            burn.kill()
    if not values:
        raise LookupError(f"burn_native has no 2 s: {pathlib.Path(work / 'profiler.log').read_text()[-300:]}")


def ebpf_sender(work, url, seconds):
    """Its own program, from $OTEL_PROFILER: its module has no release with the BPF objects. It sends no symbols, so the program is pushed."""
    profiler = os.environ.get("OTEL_PROFILER") or shutil.which("ebpf-profiler")
    if not profiler:
        raise NotRun("set OTEL_PROFILER to the program of go.opentelemetry.io/ebpf-profiler")
    profile_machine(work, url, seconds, [profiler, f"-collection-agent={(work / 'grpc').read_text()}", "-disable-tls"],
                    'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="unknown_service:sender-burn"}', push=True)
    return "unknown_service:sender-burn", "burn_native"


SENDERS = {"collector": collector_sender, "ebpf": ebpf_sender}
