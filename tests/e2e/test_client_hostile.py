# SPDX-License-Identifier: Apache-2.0
"""lode find and lode debuginfod-find with bad servers, folders, variables and arguments: the message names the cause, no wrong file
is kept, no negative entry is made, and the command ends in time."""

import http.client
import os
import pathlib
import resource
import shutil
import ssl
import subprocess
import tempfile
import time

import pytest

from conftest import LODE, free_port, slow_but
from faulty import Dead
from making import elf, new_id  # noqa: F401

COMMANDS = ["find", "debuginfod-find"]


class Client:
    def __init__(self, home):
        self.home, self.cache = home, home / "cache"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_")) and not k.lower().endswith("_proxy")}
        self.env |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "xdg"), "DEBUGINFOD_CACHE_PATH": str(self.cache), "TMPDIR": str(home),
                     "DEBUGINFOD_RETRY_LIMIT": "1"}

    def run(self, command, urls, *args, env=None, **kw):
        argv = [LODE, command, *(["--why"] if command == "find" else []), *map(str, args)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=self.env | {"DEBUGINFOD_URLS": urls} | (env or {}), **kw)

    def ask(self, command, urls, build_id, env=None, **kw):
        return self.run(command, urls, *(["debuginfo"] if command == "debuginfod-find" else []), build_id, env=env, **kw)

    def forget_servers(self):
        """Forget the servers that failed, which are passed over for a while."""
        (self.cache / "lode_servers").unlink(missing_ok=True)

    def kept(self, build_id):
        """Its files in the folder: an answer, a negative entry, a part."""
        return sorted(p.name for p in (self.cache / build_id).glob("*"))


@pytest.fixture
def client(tmp_path):
    (tmp_path / "home").mkdir()
    return Client(tmp_path / "home")


@pytest.fixture
def one(elf):
    """(build ID, path on servers, content of the file)."""
    build_id = new_id("hostile client")
    return build_id, f"/buildid/{build_id}/debuginfo", elf.of(elf.large, build_id)


def failed(client, r, build_id, *says):
    """A message that names the cause, on one line, before any advice; and neither a file nor a negative entry."""
    assert r.returncode == 1 and r.stdout == "", r.stderr
    for s in says:
        assert s in r.stderr, (s, r.stderr)
    last = [line for line in r.stderr.strip().splitlines() if not line.startswith(" ")][-1]
    assert last.startswith("lode: "), last
    assert client.kept(build_id) == []


# ---- replies of servers ----

LIES = {
    "html": ["HTML"],
    "loop": ["redirects more than"],
    "redirect file:///etc/passwd": ["other than http and https"],
    "redirect gopher://127.0.0.1/": ["other than http and https"],
    "bomb": ["section table is damaged"],
    "bomb 150": ["unpacks to more than a hundred times"],
    "endless": ["wrong|more than|broke off|build ID"],
    "longer": ["broke off|fell silent"],
    "shorter": ["cut short|end"],
    "huge": ["larger than|has 1125899906842624 bytes|are needed"],
    "cut 5000": ["broke off after 5"],
    "cut 0": ["broke off|empty"],
    "503": ["503"],
    "500": ["500"],
    "429": ["429"],
}
LONG = ("bomb 150", "endless", "longer")


@pytest.mark.parametrize("fault", slow_but([f for f in LIES if f not in LONG], LIES))
@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_reply_fails_and_nothing_is_kept(client, one, faulty, command, fault):
    build_id, path, content = one
    s = faulty({path: content}, lambda p, n: fault)
    t = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    r = client.ask(command, s.url, build_id, env={"DEBUGINFOD_TIMEOUT": "2", "DEBUGINFOD_MAXSIZE": str(200 << 20)})
    assert time.monotonic() - t < 60
    failed(client, r, build_id)
    assert any(word in r.stderr for says in LIES[fault] for word in says.split("|")), r.stderr
    if before < 200 << 10:  # peak of all children so far, in kB
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 200 << 10
    # It does not count as absent: the next call asks, and finds it.
    s.how = lambda p, n: None
    client.forget_servers()
    r = client.ask(command, s.url, build_id)
    assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_byte_now_and_then_has_an_end(client, one, faulty, command):
    build_id, path, content = one
    s = faulty({path: content}, lambda p, n: "drip 0.2")
    # Ended by the deadline of the whole...
    t = time.monotonic()
    r = client.ask(command, s.url, build_id, env={"DEBUGINFOD_MAXTIME": "2"})
    assert 1.5 < time.monotonic() - t < 30
    failed(client, r, build_id, "not done in time")
    client.forget_servers()
    # ... and by the limit on silence.
    r = client.ask(command, s.url, build_id, env={"DEBUGINFOD_TIMEOUT": "1"})
    failed(client, r, build_id, "less than 1 kB a second")


@pytest.mark.slow
def test_a_byte_now_and_then_is_replaced_by_another_server(client, one, faulty):
    build_id, path, content = one
    slow, good = faulty({path: content}, lambda p, n: "drip 0.2"), faulty({path: content})
    r = client.ask("find", f"{slow.url} {good.url}", build_id, env={"DEBUGINFOD_TIMEOUT": "2"})
    assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr


# ---- TLS ----


def certificates(work):
    """A CA and, signed by it, certificates for 127.0.0.1, for another host, and one that has expired; one signed by itself."""
    def run(*args):
        subprocess.run(["openssl", *map(str, args)], cwd=work, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    here = "subjectAltName=IP:127.0.0.1"
    run("req", "-x509", *key, "-subj", "/CN=lode test CA", "-days", 2, "-keyout", "ca.key", "-out", "ca.pem")
    run("req", "-x509", *key, "-subj", "/CN=self", "-addext", here, "-days", 2, "-keyout", "self.key", "-out", "self.pem")
    (work / "ca.cnf").write_text("[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nserial=serial\ndefault_md=sha256\npolicy=p\n"
                                 "copy_extensions=copy\nunique_subject=no\n[p]\ncommonName=supplied\n")
    (work / "index").write_text("")
    (work / "serial").write_text("01\n")
    for name, alt, dates in (("good", here, []), ("other", "subjectAltName=DNS:elsewhere.example", []),
                             ("expired", here, ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"])):
        run("req", *key, "-subj", f"/CN={name}", "-addext", alt, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("ca", "-batch", "-notext", "-config", "ca.cnf", "-keyfile", "ca.key", "-cert", "ca.pem", "-in", f"{name}.csr", "-out", f"{name}.pem",
            *(dates or ["-days", 2]))
    return work


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def tls_server(pki, one, faulty):
    build_id, path, content = one

    def start(name, how=lambda p, n: None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki / f"{name}.pem", pki / f"{name}.key")
        return faulty({path: content}, how, tls=context)

    return start


@pytest.mark.parametrize("name, trusted, cause, step", [
    ("self", False, "self-signed certificate", "SSL_CERT_FILE"),
    ("good", False, "unable to get local issuer certificate", "SSL_CERT_FILE"),
    ("expired", True, "expired", "renewed"),
    ("other", True, "127.0.0.1", "the host name in its certificate"),
])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_certificate(client, one, pki, tls_server, command, name, trusted, cause, step):
    build_id, path, content = one
    s = tls_server(name)
    env = {"SSL_CERT_FILE": str(pki / "ca.pem")} if trusted else {}
    failed(client, client.ask(command, s.url, build_id, env=env), build_id, s.url, "TLS", cause, step)
    assert s.heads == []  # it received no request


def test_a_certificate_that_is_trusted(client, one, pki, tls_server):
    build_id, path, content = one
    s = tls_server("good")
    r = client.ask("find", s.url, build_id, env={"SSL_CERT_FILE": str(pki / "ca.pem")})
    assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr


def test_another_server_is_asked_after_a_bad_certificate(client, one, tls_server, faulty):
    build_id, path, content = one
    good = faulty({path: content})
    r = client.ask("find", f"{tls_server('self').url} {good.url}", build_id)
    assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr


def test_https_to_a_server_without_tls(client, one, faulty):
    build_id, path, content = one
    s = faulty({path: content})
    failed(client, client.ask("find", s.url.replace("http:", "https:"), build_id, env={"DEBUGINFOD_TIMEOUT": "2"}), build_id, "no connection")


def test_a_redirect_away_from_tls_is_not_followed(client, one, pki, tls_server, faulty):
    build_id, path, content = one
    plain = faulty({path: content})
    s = tls_server("good", lambda p, n: f"redirect {plain.url}{path}")
    failed(client, client.ask("find", s.url, build_id, env={"SSL_CERT_FILE": str(pki / "ca.pem")}), build_id, "from https to http")
    assert not plain.requests()


# ---- proxies ----

NOWHERE = "http://nowhere.invalid:8002"


def test_a_proxy_is_asked_by_the_environment(client, one, faulty):
    build_id, path, content = one
    proxy = faulty({path: content})
    r = client.ask("find", NOWHERE, build_id, env={"http_proxy": proxy.url})
    assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr
    assert [h.split("\r\n")[0] for h in proxy.heads] == [f"GET {NOWHERE}{path} HTTP/1.1"]


def test_no_proxy_is_used_for_named_hosts(client, one, faulty):
    build_id, path, content = one
    proxy, direct = faulty({}), faulty({path: content})
    for no_proxy in ("127.0.0.1", "localhost,127.0.0.1", "*"):
        r = client.ask("find", direct.url, build_id, env={"http_proxy": proxy.url, "no_proxy": no_proxy})
        assert r.returncode == 0, r.stderr
        shutil.rmtree(client.cache)
    assert proxy.heads == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_proxy_for_https_is_asked_to_connect(client, one, faulty, command):
    build_id, path, content = one
    proxy = faulty({}, lambda p, n: "500")
    r = client.ask(command, "https://nowhere.invalid", build_id, env={"https_proxy": proxy.url})
    failed(client, r, build_id, "https://nowhere.invalid")
    assert proxy.heads and proxy.heads[0].startswith("CONNECT nowhere.invalid:443 HTTP/1.1\r\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dead_or_refusing_proxy(client, one, faulty, command):
    build_id, path, content = one
    port = free_port()
    r = client.ask(command, NOWHERE, build_id, env={"http_proxy": f"http://127.0.0.1:{port}"})
    failed(client, r, build_id, f"no connection to the proxy 127.0.0.1:{port}: Connection refused")
    client.forget_servers()
    # A proxy's page is not the file, and its refusal is not a miss.
    proxy = faulty({path: content}, lambda p, n: "html")
    failed(client, client.ask(command, NOWHERE, build_id, env={"http_proxy": proxy.url}), build_id, "HTML")


# ---- arguments and variables ----

@pytest.mark.parametrize("command", COMMANDS)
def test_build_ids_that_are_none(client, faulty, command):
    s = faulty({})
    for text in ("abc", "a" * 41, "ab" * 85, "xyz", "ab cd", "", "ABCDEG"):
        r = client.ask(command, s.url, text)
        assert r.returncode == 1 and r.stdout == "" and "lode: " in r.stderr, (text, r.stderr)
        if text and set(text) <= set("0123456789abcdef"):
            assert "digits" in r.stderr, (text, r.stderr)
    assert s.heads == [] and not any(client.cache.glob("*/*"))


def test_a_build_id_in_upper_case_is_the_same(client, one, faulty):
    build_id, path, content = one
    s = faulty({path: content})
    r = client.ask("find", s.url, build_id.upper())
    assert r.returncode == 0 and r.stdout.strip() == str(client.cache / build_id / "debuginfo")
    # elfutils' program takes upper case for a file name.
    r = client.ask("debuginfod-find", s.url, build_id.upper())
    assert r.returncode == 1 and "No such file" in r.stderr


def test_the_longest_and_the_shortest_build_id(client, elf, faulty):
    s = faulty({"/buildid/ab/source/x.c": b"int x;\n", "/buildid/" + "cd" * 64 + "/source/x.c": b"int y;\n"})
    for build_id, content in (("ab", "int x;\n"), ("cd" * 64, "int y;\n")):
        r = client.run("find", s.url, "--source", "/x.c", build_id)
        assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_text() == content, r.stderr


@pytest.mark.parametrize("name", ["/../../../../etc/passwd", "/a/../../b.c", "/../" * 20 + "x", "/" + "d/" * 1500 + "x.c"])
def test_source_paths_stay_in_the_folder(client, faulty, name):
    build_id = new_id("dots")
    asked = []

    def how(path, n):
        s.files[path] = b"what was sent\n"
        asked.append(path)

    s = faulty({}, how)
    r = client.run("debuginfod-find", s.url, "source", build_id, name)
    assert r.returncode == 0, r.stderr
    path = pathlib.Path(r.stdout.strip())
    assert path.parent == client.cache / build_id and path.resolve() == path and path.name.startswith("source-")
    assert path.read_bytes() == b"what was sent\n"
    # Servers find a source by its canonical name, too.
    assert asked == [f"/buildid/{build_id}/source{os.path.normpath(name)}"]


@pytest.mark.parametrize("name", ["/..", "/a/%2e%2e/b.c", "/..\\..\\b.c", "/..;/b.c"])
def test_names_that_lead_out_of_a_server_are_not_requested(client, faulty, name):
    s = faulty({})
    r = client.run("debuginfod-find", s.url, "source", new_id("dots"), name)
    assert r.returncode == 1 and not s.requests(), (r.stdout, r.stderr)


def test_a_name_that_is_too_long_is_reported(client, faulty):
    s = faulty({})
    r = client.run("debuginfod-find", s.url, "source", new_id("long"), "/" + "x" * 5000)
    assert r.returncode == 1 and "4096" in r.stderr and s.heads == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("urls, says", [
    ("ftp://x/", "ftp://x/"),
    ("http://", "http://"),
    ("http://[::1", "http://[::1"),
    ("://", "://"),
    ("http://127.0.0.1:99999", "99999"),
    ("file://no/absolute/path", "file://"),
    ("\x1b[31mred", "red"),
    ("http://" + "x" * 20000, "http"),
    ("ima:enforcing", "DEBUGINFOD_URLS"),
])
def test_invalid_tokens_in_debuginfod_urls(client, command, urls, says):
    build_id = new_id("nonsense")
    r = client.ask(command, urls, build_id)
    failed(client, r, build_id, says)
    assert "\x1b" not in r.stderr and len(r.stderr) < 10000


def test_invalid_tokens_beside_a_server(client, one, faulty):
    build_id, path, content = one
    s = faulty({path: content})
    urls = f"  ima:ignore ftp://x :// {s.url}// {s.url} \t http://"
    r = client.ask("find", urls, build_id)
    assert r.returncode == 0 and len(s.heads) == 1, r.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_enforced_signatures_are_not_ignored(client, command, one, faulty):
    """Signatures are not checked: a server after ima:enforcing is not asked, and the message says so."""
    build_id, path, content = one
    s = faulty({path: content})
    for policy in ("ima:enforcing", "ima:enforce"):
        r = client.ask(command, f"{policy} {s.url}", build_id, env={"DEBUGINFOD_IMA_CERT_PATH": "/etc/keys/ima"})
        failed(client, r, build_id, "ima:enf", *(["signatures of its files cannot be checked"] if policy == "ima:enforcing" else []))
    assert s.heads == []
    # The other server is asked; the one left out is reported in verbose output.
    other = faulty({path: content})
    r = client.ask(command, f"ima:enforcing {s.url} ima:ignore {other.url}", build_id, env={"DEBUGINFOD_VERBOSE": "1"})
    assert r.returncode == 0 and s.heads == [] and len(other.heads) == 1, r.stderr
    for policy in ("ima:permissive", "ima:ignore"):
        assert client.ask(command, f"{policy} {s.url}", build_id).returncode == 0


@pytest.mark.parametrize("variable, value", [("DEBUGINFOD_TIMEOUT", "x"), ("DEBUGINFOD_TIMEOUT", "-1"), ("DEBUGINFOD_MAXTIME", "9" * 40), ("DEBUGINFOD_MAXSIZE", "1M?"),
                                             ("DEBUGINFOD_RETRY_LIMIT", "-5"), ("DEBUGINFOD_HEADERS_FILE", "/no/such/file"),
                                             ("DEBUGINFOD_HEADERS_FILE", "/"), ("TMPDIR", "relative"), ("HOME", "")])
def test_invalid_values_of_other_variables_are_ignored(client, one, faulty, variable, value):
    build_id, path, content = one
    s = faulty({path: content})
    r = client.ask("find", s.url, build_id, env={variable: value})
    if (variable, value) == ("DEBUGINFOD_MAXSIZE", "1M?"):  # its leading digits are a number
        assert r.returncode == 1 and "DEBUGINFOD_MAXSIZE" in r.stderr
    else:
        assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr


# ---- the folder ----

def test_headers_are_escaped_also_those_of_another_client(client, one, faulty):
    build_id, path, content = one
    s = faulty({path: content}, headers=["X-DEBUGINFOD-FILE: \x9b31mred"])
    for verbose in ("-v", "-vv"):
        shutil.rmtree(client.cache, ignore_errors=True)
        r = client.run("debuginfod-find", s.url, verbose, "debuginfo", build_id)
        assert r.returncode == 0 and "\\xc2\\x9b31mred" in r.stderr and "\x9b" not in r.stderr, r
    saved = client.cache / build_id / "hdr-debuginfo"
    saved.chmod(0o600)
    saved.write_bytes(b"X-DEBUGINFOD-FILE: \x1b]0;title\x07\r\nX-DEBUGINFOD-SIZE: 1\r\n\0")
    r = client.run("debuginfod-find", s.url, "-v", "debuginfo", build_id)
    assert r.returncode == 0 and "X-DEBUGINFOD-FILE: \\x1b]0;title\\x07\nX-DEBUGINFOD-SIZE: 1\n" in r.stderr and "\x1b" not in r.stderr, r


def test_foreign_files_in_the_folder_are_left_alone(client, one, faulty):
    build_id, path, content = one
    s = faulty({path: content})
    client.cache.mkdir()
    foreign = [client.cache / "notes.txt", client.cache / "deadbeef.txt", client.cache / build_id / "README", client.cache / "abcd" / "mine"]
    for f in foreign:
        f.parent.mkdir(exist_ok=True)
        f.write_text("mine")
        os.utime(f, (0, 0))
    (client.cache / "cache_clean_interval_s").write_text("0")
    (client.cache / "max_unused_age_s").write_text("0")
    for _ in range(3):
        assert client.ask("find", s.url, build_id).returncode == 0
    assert all(f.read_text() == "mine" for f in foreign)


def test_foreign_kinds_of_files_in_the_place_of_an_entry(client, one, faulty):
    """A directory, a fifo, a link to nowhere: the command does not hang, and the printed path is the requested file."""
    build_id, path, content = one
    s = faulty({path: content})
    place = client.cache / build_id / "debuginfo"
    place.parent.mkdir(parents=True)
    makers = {"fifo": lambda: os.mkfifo(place), "link": lambda: place.symlink_to("/nowhere/at/all"), "loop": lambda: place.symlink_to("debuginfo")}
    for make in makers.values():
        make()
        r = client.ask("find", s.url, build_id)
        assert r.returncode == 0 and pathlib.Path(r.stdout.strip()).read_bytes() == content, r.stderr
        place.unlink()
    place.mkdir()
    (place / "x").write_text("x")
    r = client.ask("find", s.url, build_id)
    assert (place / "x").read_text() == "x"
    if r.returncode == 0:
        assert pathlib.Path(r.stdout.strip()).read_bytes() == content
    else:
        assert str(place) in r.stderr


def test_a_folder_that_is_a_file(client, one, faulty):
    build_id, path, content = one
    s = faulty({path: content})
    client.cache.write_text("I am a file")
    r = client.ask("find", s.url, build_id)
    assert r.returncode == 0 and client.cache.read_text() == "I am a file"
    assert r.stdout.strip() == f"{client.home}/debuginfod_client-{os.geteuid()}/{build_id}/debuginfo" and "since the cache folder" in r.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can be somebody else, whom modes stop")
@pytest.mark.parametrize("spare", [True, False])
def test_a_read_only_folder(one, faulty, spare):
    """Without a spare folder either, the message names the folder that could not be written to, and why."""
    build_id, path, content = one
    s = faulty({path: content})
    top = pathlib.Path(tempfile.mkdtemp(prefix="lode-client-"))
    try:
        top.chmod(0o755)
        cache, tmp, lode = top / "cache", top / "tmp", top / "lode"
        for d in (cache, tmp):
            d.mkdir()
        tmp.chmod(0o777 if spare else 0o555)
        shutil.copy(LODE, lode)
        other = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
        if subprocess.run([*other, "true"], capture_output=True).returncode != 0:
            pytest.skip("somebody else may run nothing here")
        hide = "" if spare else "mount -t tmpfs -o mode=0555 none /var/tmp && mount -t tmpfs -o mode=0555 none /tmp && "
        if not spare and str(top).startswith(("/tmp/", "/var/tmp/")):
            hide = hide.replace("/tmp &&", "/tmp &&", 1)
            hold = f"mkdir -p /run/lode-test && mount --bind {top} /run/lode-test && "
            argv = ["unshare", "-m", "sh", "-c", hold + hide + f"exec {' '.join(other)} env DEBUGINFOD_CACHE_PATH=/run/lode-test/cache "
                    f"TMPDIR=/run/lode-test/tmp /run/lode-test/lode find --why {build_id}"]
        else:
            argv = [*other, str(lode), "find", "--why", build_id]
        env = Client(top).env | {"DEBUGINFOD_URLS": s.url, "TMPDIR": str(tmp)}
        r = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, cwd="/")
        if "unshare" in r.stderr or "mount:" in r.stderr:
            pytest.skip(f"no mounts here: {r.stderr.strip()}")
        if spare:
            assert r.returncode == 0 and r.stdout.startswith(str(tmp)), r.stderr
        else:
            assert r.returncode == 1 and "cache folder" in r.stderr and "Permission denied" in r.stderr, r.stderr
        assert list(cache.iterdir()) == []
    finally:
        shutil.rmtree(top)
        if pathlib.Path("/run/lode-test").exists():
            os.rmdir("/run/lode-test")


# ---- dead and alive ----

@pytest.mark.parametrize("command", slow_but(["debuginfod-find"], COMMANDS))
def test_an_unreachable_server_is_no_miss(client, one, command):
    build_id = one[0]
    failed(client, client.ask(command, f"http://127.0.0.1:{free_port()}", build_id), build_id, "refused")
    dead = Dead()
    try:
        failed(client, client.ask(command, dead.url, build_id), build_id, "no connection")
    finally:
        dead.stop()
    failed(client, client.ask(command, "http://nowhere.invalid", build_id), build_id, "nowhere.invalid")


def test_only_all_misses_are_a_miss(client, one, faulty):
    build_id, path, content = one
    none, down = faulty({}), faulty({path: content}, lambda p, n: "503")
    r = client.ask("find", f"{none.url} {down.url}", build_id)
    failed(client, r, build_id, "503")
    r = client.ask("find", none.url, build_id)
    assert r.returncode == 1 and client.kept(build_id) == ["debuginfo"] and (client.cache / build_id / "debuginfo").stat().st_size == 0


def test_refused_connections_are_retried_only_on_request(client, one):
    """Unset, a server that refuses connections is not retried: that would delay users with a dead server in their list. Set, it is, as in elfutils."""
    url, build_id = f"http://127.0.0.1:{free_port()}", one[0]
    for limit, retries in ((None, 0), ("0", 0), ("3", 3)):
        client.env.pop("DEBUGINFOD_RETRY_LIMIT")
        if limit:
            client.env["DEBUGINFOD_RETRY_LIMIT"] = limit
        r = client.run("debuginfod-find", url, "-vv", "debuginfo", build_id)
        assert r.returncode == 1 and r.stderr.count("Retry failed query") == retries, (limit, r.stderr)
        client.env["DEBUGINFOD_RETRY_LIMIT"] = "1"
        client.forget_servers()


def test_a_server_that_comes_meanwhile_is_found_by_a_retry(client, one, faulty):
    build_id, path, content = one
    port = free_port()
    p = subprocess.Popen([LODE, "find", build_id], stdout=subprocess.PIPE, text=True,
                         env=client.env | {"DEBUGINFOD_URLS": f"http://127.0.0.1:{port}", "DEBUGINFOD_RETRY_LIMIT": "900"})
    with pytest.raises(subprocess.TimeoutExpired):
        p.wait(0.3)
    faulty({path: content}, port=port)
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 0 and pathlib.Path(out.strip()).read_bytes() == content
