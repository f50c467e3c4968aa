# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.json agrees with the server: all paths, parameters and answers, in both directions."""

import base64
import json
import re
import time

import jsonschema
import pytest

from conftest import ROOT
from profiling import Pprof, call, message, query, send

DOC = json.loads((ROOT / "docs" / "openapi.json").read_text())


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    from conftest import Service
    d = tmp_path_factory.mktemp("openapi")
    (d / "empty").mkdir()
    service = Service([d / "empty"], d / "data")
    try:
        service.ready()
        p = Pprof(time_ms=int(time.time() * 1000), duration_ms=1000).sample(["main", "f"], [1, 2]).sample(["main", 0x1000], [3, 4])
        send(service, p.bytes(), service="web", host="a")
        send(service, Pprof(types=(("cpu", "nanoseconds"),)).sample(["main"], [7]).bytes(), service="db", time="now-5m")
        yield service
    finally:
        service.stop()


def schema_of(x):
    """OpenAPI 3.0's nullable is not JSON schema's."""
    if isinstance(x, list):
        return [schema_of(y) for y in x]
    if not isinstance(x, dict):
        return x
    out = {k: schema_of(v) for k, v in x.items()}
    if out.pop("nullable", False) is True:
        out["type"] = [out["type"], "null"]
    if "$ref" in out and out["$ref"].startswith("#/components/schemas/"):
        return schema_of(DOC["components"]["schemas"][out["$ref"].rsplit("/", 1)[1]])
    return out


def parameters(op):
    return [DOC["components"]["parameters"][p["$ref"].rsplit("/", 1)[1]] if "$ref" in p else p for p in op.get("parameters", [])]


def operations():
    for path, methods in DOC["paths"].items():
        for method, op in methods.items():
            yield path, method.upper(), op


def check(op, status, data, headers):
    response = op["responses"].get(str(status)) or op["responses"]["default"]
    types = {t.split(";")[0]: c for t, c in response["content"].items()}
    kind = headers["Content-Type"].split(";")[0]
    assert kind in types, (kind, list(types))
    if kind == "application/json":
        jsonschema.validate(json.loads(data), schema_of(types[kind]["schema"]))


def routes_of(s):
    """The routes that the server lists in its 404."""
    text = json.loads(call(s, "GET", "/api/none")[1])["error"]
    return set(re.findall(r"(GET|POST) (/\S+)", text))


EXAMPLES = {"query": "profile:cpu:nanoseconds:cpu:nanoseconds:delta{service=\"web\"}", "from": "now-30m", "to": "now", "base": "{service=\"db\"}",
            "base_from": "now-30m", "base_to": "2100-01-01T00:00:00Z", "by": "function", "label": "service", "focus": "main", "ignore": "none",
            "hide": "none", "show": "main", "wait": "0s", "step": "1m", "one": "1", "limit": "10", "min_share": "0.001", "sort": "cum", "function": "main",
            "binary": "/bin/x", "file": "/src/x.c", "format": "folded", "normalise": "1", "invert": "0", "no_inlines": "1", "time": "now", "name": "app"}


def example(name, op_path):
    if op_path == "/api/series" and name == "by":
        return "service,host"
    return EXAMPLES[name]


def test_the_document_is_one():
    assert DOC["openapi"].startswith("3.0")
    for path, method, op in operations():
        assert op["summary"] and "200" in op["responses"] or "202" in op["responses"]
        for p in parameters(op):
            assert p["in"] in ("query", "path") and p["schema"] and (p["in"] == "path" or p["description"])
        jsonschema.Draft4Validator.check_schema(schema_of(DOC["components"]["schemas"]["Flamegraph"]))


def test_it_is_served(s):
    status, data, headers = call(s, "GET", "/api/openapi.json")
    assert status == 200 and json.loads(data) == DOC and headers["Content-Type"] == "application/json"


def test_every_path_is_the_servers_and_none_is_missing(s):
    assert {(method, path) for path, method, _ in operations()} == routes_of(s)


def test_every_parameter_is_the_servers_and_none_is_missing(s):
    for path, method, op in operations():
        if method != "GET" or "{" in path and "name" not in path:
            continue
        url = re.sub(r"\{[^}]*\}", "service", path)
        text = json.loads(call(s, "GET", f"{url}?no_such=1")[1])["error"]
        theirs = set(text.split(", but: ")[1].split()) if ", but: " in text else set()
        assert theirs == {p["name"] for p in parameters(op) if p["in"] == "query"}, path


@pytest.mark.slow
def test_answers_are_as_described(s):
    ids = [p["id"] for p in json.loads(call(s, "GET", "/api/profiles")[1])["profiles"]]
    EXAMPLES.update(profile=str(ids[0]), base_profile=str(ids[-1]))
    for path, method, op in operations():
        if method != "GET" or "{" in path and "name" not in path:
            continue
        url = re.sub(r"\{[^}]*\}", "service", path)
        needed = {p["name"]: example(p["name"], path) for p in parameters(op) if p["in"] == "query" and p.get("required")}
        if path == "/api/lines":
            needed["function"] = "main"
        base = {**needed, **({"query": EXAMPLES["query"]} if "/flamegraph" in path or "/top" in path or "/callers" in path or "/lines" in path or
                             "/download" in path or "/series" in path else {})}
        status, data, headers = call(s, "GET", f"{url}?{query(**base)}")
        assert status == 200, (path, data)
        check(op, status, data, headers)
        for p in parameters(op):
            if p["in"] != "query":
                continue
            name = p["name"]
            # Each parameter alone: the answer is one of those in the document.
            status, data, headers = call(s, "GET", f"{url}?{query(**{**base, name: example(name, path)})}")
            check(op, status, data, headers)
            assert status in (200, 404), (path, name, status, data)
            for value in p["schema"].get("enum", []):
                status, data, headers = call(s, "GET", f"{url}?{query(**{**base, name: value})}")
                # The example is the name of a function, and not of a frame in another grouping.
                assert status == 200 or (path, status) == ("/api/callers", 404), (path, name, value, data)
                check(op, status, data, headers)
            status, data, headers = call(s, "GET", f"{url}?{query(**{**base, name: chr(1) + '('})}")
            check(op, status, data, headers)


def test_what_is_sent_is_as_described(s):
    raw = base64.b64encode(Pprof().sample(["f"], [1, 2]).bytes()).decode()
    bodies = {"/profiles": (b"a;b 1\n", "?x=1"), "/ingest": (b"a;b 1\n", "?name=x"),
              "/v1development/profiles": (message(2, message(5, b"")), "")}
    doc = {"series": [{"labels": {"labels": [{"name": "__name__", "value": "n"}]}, "samples": [{"raw_profile": raw}]}]}
    jsonschema.validate(doc, schema_of(DOC["components"]["schemas"]["WriteRaw"]))
    for path, method, op in operations():
        if method != "POST" or "{" in path:
            continue
        body, args = bodies.get(path, (json.dumps(doc), ""))
        status, data, headers = call(s, "POST", path + args, body)
        assert status == 200, (path, data)
        check(op, status, data, headers)
        status, data, headers = call(s, "POST", path + args, b"\0nothing")
        assert status == 400
        check(op, status, data, headers)
        status, data, headers = call(s, "GET", path)
        assert status == 405
        check(op, status, data, headers)
