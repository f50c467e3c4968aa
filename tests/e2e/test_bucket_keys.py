# SPDX-License-Identifier: Apache-2.0
"""Keys of a bucket from each place that other tools know. The server checks the signature, and the session's token if there is one."""

import datetime
import http.server
import json
import os
import subprocess
import threading
import urllib.parse

import pytest

from bucket import KEY_ID, SECRET
from bucket_engines import bucket_of_one as bucket  # noqa: F401
from conftest import LODE

TOKEN, POD_TOKEN = "session/token+of+the+test==", "pod.token+of/the.test"
UNSET = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": ""}


class Lender:
    """The services that lend keys: an instance's (IMDSv2), a pod's or container's, and STS. It refuses what these refuse.
    lender.lends = seconds for which the keys hold; lender.requests has (method, path with query, headers, body)."""

    def __init__(self):
        self.requests, self.lends, self.lent = [], 3600, 0
        lender = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                lender.requests.append((self.command, self.path, dict(self.headers), body))
                status, answer = lender.answer(self.command, self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PUT = do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def ends(self):
        return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.lends)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def keys(self):
        self.lent += 1
        return json.dumps({"Code": "Success", "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Token": TOKEN, "Expiration": self.ends()}).encode()

    def answer(self, method, path, headers, body):
        role = "/latest/meta-data/iam/security-credentials/"
        if path == "/latest/api/token":
            right = method == "PUT" and 1 <= int(headers.get("X-aws-ec2-metadata-token-ttl-seconds", 0)) <= 21600
            return (200, b"metadata-token") if right else (400, b"")
        if path.startswith(role):
            if headers.get("X-aws-ec2-metadata-token") != "metadata-token":
                return 401, b""
            return (200, b"the role") if path == role else (200, self.keys()) if path == role + "the%20role" else (404, b"")
        if path == "/v1/credentials":
            return (200, self.keys()) if headers.get("Authorization") == POD_TOKEN else (401, b"")
        if path == "/container":
            return 200, self.keys()
        if path.split("?")[0] == "/" and method == "POST":
            q = dict(urllib.parse.parse_qsl(body.decode()))
            if (q.get("Action"), q.get("Version"), q.get("RoleArn"), q.get("WebIdentityToken")) != (
                    "AssumeRoleWithWebIdentity", "2011-06-15", "arn:aws:iam::1:role/the role", POD_TOKEN) or not q.get("RoleSessionName"):
                return 400, b"<ErrorResponse/>"
            self.lent += 1
            return 200, (f"<AssumeRoleWithWebIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleWithWebIdentityResult><Credentials>"
                         f"<AccessKeyId>{KEY_ID}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>{TOKEN}</SessionToken>"
                         f"<Expiration>{self.ends()}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>").encode()
        return 404, b""

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def lender():
    x = Lender()
    yield x
    x.close()


def inspect(bucket, **env):
    env = {**os.environ, **bucket.env(**env)}
    return subprocess.run([LODE, "inspect", "s3://bucket/x"], capture_output=True, text=True, timeout=60, env={k: v for k, v in env.items() if v != ""})


def was_read(bucket, r):
    """The object was read: it is no ELF file."""
    return bucket.gets() and "s3://bucket/x: " in r.stderr and "denied" not in r.stderr and SECRET not in r.stderr and TOKEN not in r.stderr


def test_of_the_environment_with_a_session_token(bucket):
    bucket.token = TOKEN
    assert was_read(bucket, inspect(bucket, AWS_SESSION_TOKEN=TOKEN))
    bucket.forget()
    assert not was_read(bucket, inspect(bucket))


@pytest.mark.parametrize("where", ["credentials", "config"])
def test_of_a_profile_with_a_session_token(bucket, tmp_path, where):
    bucket.token = TOKEN
    profile = "[dev]" if where == "credentials" else "[profile dev]"
    path = tmp_path / where
    path.write_text(f"# comment\n[default]\nregion=eu-west-1\n{profile}\naws_access_key_id={KEY_ID}\naws_secret_access_key = {SECRET}\naws_session_token= {TOKEN}\n")
    variable = "AWS_SHARED_CREDENTIALS_FILE" if where == "credentials" else "AWS_CONFIG_FILE"
    assert was_read(bucket, inspect(bucket, **UNSET, AWS_PROFILE="dev", **{variable: str(path)}))


def test_of_the_home_folder(bucket, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(f"[default]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n")
    (tmp_path / ".aws" / "config").write_text(f"[default]\nservices = here\n[services here]\ns3 =\n  endpoint_url = {bucket.url}\n")
    env = {**UNSET, "HOME": str(tmp_path), "AWS_CONFIG_FILE": "", "AWS_SHARED_CREDENTIALS_FILE": "", "AWS_ENDPOINT_URL_S3": "", "AWS_REGION": ""}
    assert was_read(bucket, inspect(bucket, **env))


def files(tmp_path, credentials="", config=""):
    (tmp_path / "credentials").write_text(credentials)
    (tmp_path / "config").write_text(config)
    return {**UNSET, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_CONFIG_FILE": str(tmp_path / "config")}


def test_of_the_default_profile_by_its_other_name(bucket, tmp_path):
    config = f"[profile default]\n  AWS_ACCESS_KEY_ID = {KEY_ID}\n  aws_secret_access_key = {SECRET}\n"
    assert was_read(bucket, inspect(bucket, **files(tmp_path, config=config)))


def test_a_key_is_of_one_place(bucket, tmp_path):
    """No token of the other file, no secret of it, and no key of a file in place of half a key in the environment."""
    own = f"[default]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n"
    other = "[default]\naws_access_key_id=other\naws_secret_access_key=other\naws_session_token=other\n"
    assert was_read(bucket, inspect(bucket, **files(tmp_path, own, other)))
    r = inspect(bucket, **files(tmp_path, f"[default]\naws_access_key_id={KEY_ID}\n", own))
    assert r.returncode == 1 and "without aws_secret_access_key in the file 'credentials'" in r.stderr, r.stderr
    r = inspect(bucket, **{**files(tmp_path, own), "AWS_ACCESS_KEY_ID": "other"})
    assert r.returncode == 1 and "AWS_SECRET_ACCESS_KEY is not" in r.stderr, r.stderr


@pytest.mark.parametrize("way", ["role_arn = arn:aws:iam::1:role/x\nsource_profile = p", "sso_session = s\nsso_account_id = 1\nsso_role_name = x"])
def test_keys_for_another_way_are_not_used(bucket, tmp_path, way):
    """The keys in the profile are those that the role is taken with."""
    keys = f"[p]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n"
    r = inspect(bucket, **files(tmp_path, keys, f"[profile p]\n{way}\n"), AWS_PROFILE="p")
    assert r.returncode == 1 and "export-credentials" in r.stderr and not bucket.gets(), r.stderr


def test_a_session_without_a_role_lends_no_keys(bucket, tmp_path):
    """As for botocore: it is for tokens of other services."""
    keys = f"[p]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n"
    assert was_read(bucket, inspect(bucket, **{**files(tmp_path, keys, "[profile p]\nsso_session = s\n"), "AWS_PROFILE": "p"}))


def test_a_profile_by_option_goes_before_the_environment(bucket, tmp_path):
    keys = f"[p]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n"
    env = {**os.environ, **bucket.env(**files(tmp_path, keys)), "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"}
    r = subprocess.run([LODE, "scan", "--s3-profile", "p", "--data", str(tmp_path / "data"), "s3://bucket"], capture_output=True, text=True, timeout=60, env=env)
    assert r.returncode == 0, r.stderr


def test_of_a_file_that_others_renew(bucket, tmp_path):
    """The answer to a HEAD has no code: 400 is all it says of a token that has ended."""
    path = tmp_path / "credentials"
    text = f"[default]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\naws_session_token="
    path.write_text(text + "old")
    bucket.token = TOKEN
    handler, ended = bucket.server.RequestHandlerClass, []
    signed_right, error = handler.signed_right, handler.error

    def check(self):
        self.ended = self.headers["x-amz-security-token"] == "old"
        if self.ended:
            ended.append(self.command)
            path.write_text(text + TOKEN)
        return signed_right(self)

    handler.signed_right = check
    handler.error = lambda self, status, code, headers=None: error(self, *((400, "ExpiredToken") if self.ended else (status, code)), headers)
    r = inspect(bucket, **UNSET, AWS_SHARED_CREDENTIALS_FILE=str(path))
    assert was_read(bucket, r), r.stderr
    assert ended == ["HEAD"]


def test_keys_that_have_ended_for_good(bucket):
    bucket.fault("expired", 100)
    r = inspect(bucket)
    assert r.returncode == 1 and "keys that have ended" in r.stderr, r.stderr


@pytest.mark.parametrize("slash", ["", "/"])
def test_of_the_instance(bucket, lender, slash):
    """IMDSv2: a token by PUT, the role, its keys. Other tools take the endpoint with and without a slash at its end."""
    bucket.token = TOKEN
    r = inspect(bucket, **UNSET, AWS_EC2_METADATA_SERVICE_ENDPOINT=lender.url + slash)
    assert was_read(bucket, r), r.stderr
    assert [q[0] for q in lender.requests] == ["PUT", "GET", "GET"]


@pytest.mark.parametrize("off", ["true", "True"])
def test_of_the_instance_but_turned_off(bucket, lender, off):
    r = inspect(bucket, **{**UNSET, "AWS_EC2_METADATA_DISABLED": off}, AWS_EC2_METADATA_SERVICE_ENDPOINT=lender.url)
    assert r.returncode == 1 and "no credentials" in r.stderr, r.stderr
    assert not lender.requests


def test_of_the_pods_endpoint(bucket, lender, tmp_path):
    """EKS Pod Identity: the token is in a file."""
    bucket.token = TOKEN
    (tmp_path / "token").write_text(POD_TOKEN + "\n")
    r = inspect(bucket, **UNSET, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{lender.url}/v1/credentials", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(tmp_path / "token"))
    assert was_read(bucket, r), r.stderr
    bucket.forget()
    r = inspect(bucket, **UNSET, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{lender.url}/v1/credentials", AWS_CONTAINER_AUTHORIZATION_TOKEN="wrong")
    assert r.returncode == 1 and "container" in r.stderr and "401" in r.stderr, r.stderr
    r = inspect(bucket, **UNSET, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://192.0.2.1/v1/credentials")
    assert r.returncode == 1 and "https" in r.stderr, r.stderr


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"])
def test_of_a_pods_role(bucket, lender, tmp_path, variable):
    """A web identity: the token is in a file, and goes in the body, as URLs are logged on their way."""
    bucket.token = TOKEN
    (tmp_path / "token").write_text(POD_TOKEN)
    env = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/the role", variable: lender.url}
    r = inspect(bucket, **UNSET, **env)
    assert was_read(bucket, r), r.stderr
    assert lender.requests and all(POD_TOKEN not in urllib.parse.unquote_plus(q[1]) for q in lender.requests)


@pytest.mark.slow
def test_keys_that_end_are_renewed(serve, bucket, lender):
    """Before they end, without a failure."""
    bucket.token, lender.lends = TOKEN, 301
    env = bucket.env(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{lender.url}/container", AWS_EC2_METADATA_DISABLED="true")
    env.update(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    s = serve(["s3://bucket"], args=["--rescan", "1"], extra=env).ready()
    s.wait(lambda: lender.lent > 1 and len([q for q in bucket.requests if q[0] == "LIST"]) > 3, "renewed keys")
    assert s.metric('lode_s3_up') == 1
