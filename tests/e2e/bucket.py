# SPDX-License-Identifier: Apache-2.0
"""A small server with S3's API, which checks each signature by itself and misbehaves on request.

bucket.objects[key] = bytes puts an object into the one bucket, "b". bucket.fault(name, times) makes the next requests for
objects go wrong: "slow_down", "cut", "short" (a lying length), "error_200", "conflict", "wrong_etag", "expired", "silent",
"deny", "ignore_range", "flipped" (wrong bytes with the right ETag), "reset", "black_hole", "other_region" (a redirect), "no_length", "huge_length",
"wrong_range". Of listings: "slow_down", "endless" (tokens that go on for ever), "drips" (one object a page, for ever), "same_token", "not_xml", "error_200". bucket.requests has a line for each request."""

import calendar
import hashlib
import hmac
import http.server
import re
import socket
import struct
import threading
import time
import urllib.parse
import xml.sax.saxutils

KEY_ID, SECRET = "AKTESTTESTTEST", "hush/hush+hush"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def signature_of(secret, method, target, headers, signed, scope, date, body_hash):
    """Signature Version 4 of a request, as the API reference describes it, from what came over the wire."""
    path, _, query = target.partition("?")
    fields = sorted(q if "=" in q else q + "=" for q in query.split("&") if q)
    lines = [method, path, "&".join(fields)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in signed]
    lines += ["", ";".join(signed), body_hash]
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, sha256("\n".join(lines).encode())])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def hedges(s):
    """How many requests to buckets this service has sent beside slow ones: on a busy machine there are some."""
    return s.metric('lode_s3_repeats_total{why="hedge"}') or 0


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """Connections are closed by clients: that of a hedge whose twin was faster."""


class Endpoint:
    """A server with S3's API at self.port of the loopback, and how lode finds it."""

    by_time = False  # its listing has no ETags

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def env(self, **more):
        return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL_S3": self.url,
                "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
                "AWS_EC2_METADATA_DISABLED": "true", **more}


def in_xml(key):
    """As text of an element. XML cannot hold most control characters; servers write this one for them."""
    return xml.sax.saxutils.escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "\ufffd", key))


class Bucket(Endpoint):
    def __init__(self, page=1000):
        self.objects, self.requests, self.faults, self.lock = {}, [], [], threading.Lock()
        self.n_uploads = 0
        self.times, self.uploads = {}, {}  # of objects that were put by requests; parts of uploads
        self.page, self.away, self.bytes_sent = page, False, 0
        self.delay = self.part_delay = 0  # seconds: before each answer; before that to a part
        self.spans = []  # of all requests: (began, ended, method, target)
        self.part_bytes = 0  # of parts that were taken
        self.secret, self.token = SECRET, None
        # Of presigned URLs: targets that were used; the clock is so far ahead of their time; another Host than the client's.
        self.presigned, self.ahead, self.client_host = [], 0, None
        self.revoked = set()  # dates of URLs that are refused
        # A bucket that hangs takes requests and does not answer.
        self.hangs, self.answers, self.n_hanging = threading.Event(), threading.Event(), 0
        bucket = self

        class Handler(Request):
            pass

        Handler.bucket = bucket
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def fault(self, name, times=1):
        with self.lock:
            self.faults += [name] * times

    def take_fault(self):
        with self.lock:
            return self.faults.pop(0) if self.faults else None

    def gets(self):
        """The ranges that were read, as (key, first byte, length)."""
        return [r[1:] for r in self.requests if r[0] == "GET"]

    def listings(self):
        """The listings that were asked for, as (prefix, after, encoding), each once: one that takes long gets a hedge."""
        return {r[1:] for r in self.requests if r[0] == "LIST"}

    def forget(self):
        self.requests, self.bytes_sent = [], 0

    def close(self):
        self.answers.set()
        self.server.shutdown()
        self.server.server_close()


def etag(data):
    return hashlib.md5(data).hexdigest()


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes
    bucket = None

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", headers=None, length=None):
        # Before the client can know of it: its next request begins later.
        self.ended = time.monotonic()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code, headers=None):
        self.reply(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as the test wants</Message></Error>".encode(), headers)

    def presigned_right(self, query):
        """A URL that a client of lode has got: its signature, its time, and that all is signed that has to be."""
        fields = {k: v[0] for k, v in urllib.parse.parse_qs(query, keep_blank_values=True).items()}
        key_id, _, scope = fields["X-Amz-Credential"].partition("/")
        signed = fields["X-Amz-SignedHeaders"].split(";")
        headers = {k.lower(): v for k, v in self.headers.items()}
        target, _, signature = self.path.partition("&X-Amz-Signature=")
        began = calendar.timegm(time.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ"))
        if (key_id != KEY_ID or fields.get("X-Amz-Security-Token") != self.bucket.token or not set(signed) <= set(headers)
                or signed != ["content-length", "host"] or self.command != "PUT"):
            return False
        if not began - 60 <= time.time() + self.bucket.ahead <= began + int(fields["X-Amz-Expires"]) or int(fields["X-Amz-Expires"]) > 3600:
            return False
        self.bucket.presigned.append(self.path)
        if fields["X-Amz-Date"] in self.bucket.revoked:
            return False
        # They have the names by which clients reach it.
        headers["host"] = self.bucket.client_host or headers["host"]
        want = signature_of(self.bucket.secret, self.command, target, headers, signed, scope, fields["X-Amz-Date"], "UNSIGNED-PAYLOAD")
        return hmac.compare_digest(want, signature)

    def signed_right(self):
        if "X-Amz-Signature=" in self.path:
            return self.presigned_right(self.path.partition("?")[2])
        auth = self.headers.get("Authorization", "")
        if not auth.startswith("AWS4-HMAC-SHA256 "):
            return False
        parts = dict(p.strip().split("=", 1) for p in auth[17:].split(","))
        key_id, _, scope = parts["Credential"].partition("/")
        signed = parts["SignedHeaders"].split(";")
        headers = {k.lower(): v for k, v in self.headers.items()}
        need = {"host"} | {h for h in headers if h.startswith("x-amz-")}
        if key_id != KEY_ID or not need <= set(signed) or headers.get("x-amz-security-token") != self.bucket.token:
            return False
        want = signature_of(self.bucket.secret, self.command, self.path, headers, signed, scope, headers["x-amz-date"],
                            headers["x-amz-content-sha256"])
        return hmac.compare_digest(want, parts["Signature"])

    def do_GET(self):
        bucket = self.bucket
        path, _, query = self.path.partition("?")
        name = urllib.parse.unquote(path)
        began, self.ended = time.monotonic(), None
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            time.sleep(bucket.delay)
            self.answer(name, query)
        finally:
            bucket.spans.append((began, self.ended or time.monotonic(), self.command, self.path))

    def answer(self, name, query):
        bucket = self.bucket
        if name == "/bucket" or name.startswith("/bucket/"):  # another name of "b"
            name = "/b" + name[len("/bucket"):]
        # No condition is ever asked.
        assert not [h for h in self.headers if h.lower().startswith("if-")], self.headers
        if bucket.away:
            self.close_connection = True
            return
        if bucket.hangs.is_set():
            bucket.n_hanging += 1
            bucket.answers.wait(60)
            self.close_connection = True
            return
        if not self.signed_right():
            self.error(403, "SignatureDoesNotMatch")
        elif not name.startswith("/b/") and name != "/b":
            self.error(404, "NoSuchBucket")
        elif self.command in ("PUT", "POST", "DELETE"):
            self.write(name[3:], urllib.parse.parse_qs(query, keep_blank_values=True))
        elif "uploadId" in query:
            self.list_parts(name[3:], urllib.parse.parse_qs(query, keep_blank_values=True))
        elif name in ("/b", "/b/"):
            self.list(urllib.parse.parse_qs(query, keep_blank_values=True))
        else:
            self.object(name[3:])

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def list_parts(self, key, q):
        upload, after = q["uploadId"][0], int(q.get("part-number-marker", ["0"])[0])
        self.bucket.requests.append(("PARTS", key))
        with self.bucket.lock:
            if upload not in self.bucket.uploads:
                return self.error(404, "NoSuchUpload")
            parts = sorted((n, p) for n, p in self.bucket.uploads[upload].items() if n > after)
        some = parts[:3]  # pages of three
        out = "".join(f"<Part><PartNumber>{n}</PartNumber><Size>{len(p)}</Size><ETag>{etag(p)}</ETag></Part>" for n, p in some)
        more = f"<IsTruncated>{'true' if len(parts) > 3 else 'false'}</IsTruncated>"
        if some:
            more += f"<NextPartNumberMarker>{some[-1][0]}</NextPartNumberMarker>"
        self.reply(200, f"<ListPartsResult>{more}{out}</ListPartsResult>".encode())

    def write(self, key, q):
        bucket, upload, number = self.bucket, q.get("uploadId", [None])[0], int(q.get("partNumber", ["0"])[0])
        if number:
            time.sleep(bucket.part_delay)
            if bucket.away:
                self.close_connection = True
                return
        digest = self.headers.get("x-amz-content-sha256")
        bucket.requests.append(("PART" if number else self.command, key))
        if self.command == "PUT" and digest != sha256(self.body) and "X-Amz-Signature" not in q:
            return self.error(400, "XAmzContentSHA256Mismatch")
        with bucket.lock:
            if "uploads" in q:
                bucket.n_uploads += 1
                upload = f"upload{bucket.n_uploads}"
                bucket.uploads[upload] = {}
                return self.reply(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode())
            if upload and upload not in bucket.uploads:
                return self.error(404, "NoSuchUpload")
            if upload and self.command == "PUT":
                bucket.uploads[upload][number] = self.body
                bucket.part_bytes += len(self.body)
                return self.reply(200, b"", {"ETag": f'"{etag(self.body)}"'})
            parts = bucket.uploads.pop(upload) if upload else None
            if self.command == "DELETE":
                if not upload:
                    bucket.objects.pop(key, None)
                return self.reply(204)
            data = b"".join(parts[n] for n in sorted(parts)) if upload else self.body
            bucket.objects[key] = data
            bucket.times[key] = time.time()
        if upload:
            return self.reply(200, f"<CompleteMultipartUploadResult><ETag>{etag(data)}</ETag></CompleteMultipartUploadResult>".encode())
        return self.reply(200, b"", {"ETag": f'"{etag(data)}"'})

    def modified(self, key, form):
        return time.strftime(form, time.gmtime(self.bucket.times.get(key, 1732356000)))

    def connection_fault(self, fault):
        """true: this request gets no answer."""
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif fault == "black_hole":
            self.bucket.answers.wait(60)
        else:
            return False
        self.close_connection = True
        return True

    def list(self, q):
        bucket = self.bucket
        prefix, after = q.get("prefix", [""])[0], q.get("continuation-token", q.get("start-after", [""]))[0]
        bucket.requests.append(("LIST", prefix, after, q.get("encoding-type", [""])[0]))
        fault = bucket.take_fault()
        if fault == "slow_down":
            return self.error(503, "SlowDown")
        if fault == "error_200":
            return self.error(200, "InternalError")
        if fault == "not_xml":
            return self.reply(200, b"<html>welcome</html>")
        if fault == "drips":
            n = int(after or 0) + 1
            return self.reply(200, f"<ListBucketResult><Contents><Key>{prefix}/{n:09}</Key><Size>1</Size></Contents><IsTruncated>true</IsTruncated>"
                                   f"<NextContinuationToken>{n}</NextContinuationToken></ListBucketResult>".encode())
        if fault in ("endless", "same_token"):
            token = f"{time.monotonic_ns()}" if fault == "endless" else "same"
            return self.reply(200, f"<?xml version='1.0'?><ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}"
                                   "</NextContinuationToken></ListBucketResult>".encode(), {"Content-Type": "application/xml"})
        with bucket.lock:
            found = {k: v for k, v in bucket.objects.items() if k.startswith(prefix) and k > after}
        keys = sorted(found)
        escaped = q.get("encoding-type") == ["url"]
        out = ["<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>",
               "<EncodingType>url</EncodingType>" if escaped else ""]
        for k in keys[:bucket.page]:
            data = found[k]
            out.append(f"<Contents><Key>{urllib.parse.quote(k) if escaped else in_xml(k)}</Key><LastModified>{self.modified(k, '%Y-%m-%dT%H:%M:%S.000Z')}</LastModified>"
                       f"<ETag>&quot;{etag(data)}&quot;</ETag><Size>{len(data)}</Size></Contents>")
        if len(keys) > bucket.page:
            token = xml.sax.saxutils.escape(keys[bucket.page - 1])
            out.append(f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>")
        self.reply(200, "".join([*out, "</ListBucketResult>"]).encode(), {"Content-Type": "application/xml"})

    def object(self, key):
        bucket = self.bucket
        data = bucket.objects.get(key)
        fault = bucket.take_fault()
        if data is None:
            return self.error(404, "NoSuchKey")
        headers = {"ETag": f'"{etag(data)}"', "Last-Modified": self.modified(key, "%a, %d %b %Y %H:%M:%S GMT"), "Accept-Ranges": "bytes"}
        first, end, status = 0, len(data), 200
        if self.headers.get("Range") and fault != "ignore_range":
            a, _, b = self.headers["Range"].removeprefix("bytes=").partition("-")
            first, end, status = int(a), min(int(b) + 1, len(data)), 206
            if first >= len(data):
                return self.error(416, "InvalidRange")
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(data)}"
        if self.command == "GET":
            bucket.requests.append(("GET", key, first, end - first))
        else:
            bucket.requests.append(("HEAD", key))
        part = data[first:end]
        if fault == "slow_down":
            return self.error(503, "SlowDown")
        if fault == "conflict":
            return self.error(409, "OperationAborted")
        if fault == "expired":
            return self.error(400, "ExpiredToken")
        if fault == "deny":
            return self.error(403, "AccessDenied")
        if fault == "error_200":
            return self.error(200, "InternalError")
        if fault == "silent":
            time.sleep(3)
            self.close_connection = True
            return
        if self.connection_fault(fault):
            return
        if fault == "other_region":
            return self.error(301, "PermanentRedirect", {"x-amz-bucket-region": "eu-north-1"})
        if fault == "flipped" and part:
            part = bytes([*part[:len(part) // 2], part[len(part) // 2] ^ 0x10, *part[len(part) // 2 + 1:]])
        if fault == "wrong_range" and "Content-Range" in headers:
            headers["Content-Range"] = f"bytes {first + 1}-{end}/{len(data)}"
        if fault == "huge_length":
            self.close_connection = True
            return self.reply(status, part, headers, 1 << 60)
        if fault == "wrong_etag":
            headers["ETag"] = '"of another object"'
        if fault == "cut":
            self.close_connection = True
            bucket.bytes_sent += len(part) // 2
            return self.reply(status, part[:len(part) // 2], headers, len(part))
        if fault == "short":
            return self.reply(status, part[:len(part) // 2], headers)
        bucket.bytes_sent += len(part)
        self.reply(status, part, headers)
