"""Certificates and proxies: a private authority and a real proxy on loopback, in both colours from one body."""

from __future__ import annotations

import base64
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from tests.drive.http_colours import OWN, colour, whole
from tests.drive.http_servers import Peer, Proxy, Server

from panto._drive import http
from panto._drive.http import TransportError
from panto.errors import ConfigError, ErrorKind

PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*PROXY_NAMES, *map(str.upper, PROXY_NAMES), "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    http.deinit()
    yield
    http.deinit()


@pytest.fixture(params=OWN)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "company.pem"
    authority.cert_pem.write_to_path(path)
    return path


def serving(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1", "api.example.test"))).configure_cert(context)
    return context


# ---------------------------------------------------------------- certificates


def test_cf_06_a_private_authority_is_not_trusted_and_the_message_says_what_to_do(
    name: str, authority: trustme.CA
) -> None:
    with colour(name) as way, Server(tls=serving(authority)) as server:
        with pytest.raises(TransportError) as caught:
            way.open(server.url + "/v1")
        assert not server.requests
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.CERTIFICATE, False)
    for words in ("certificate verification failed", "127.0.0.1", "SSL_CERT_FILE", "ca_bundle"):
        assert words in caught.value.message
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)


def test_cf_06_a_ca_bundle_is_trusted(name: str, authority: trustme.CA, ca_file: Path) -> None:
    http.init(ca_bundle=ca_file)
    with colour(name) as way, Server(tls=serving(authority)) as server:
        assert whole(way.open(server.url)) == b"ok"
        assert whole(way.open(server.url)) == b"ok"
        assert server.connections == 1


def test_a_folder_of_hashed_authorities_is_trusted(
    name: str, ca_file: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    # The name that OpenSSL looks up: the hash of the subject, which `openssl rehash` makes.
    subject = _subject_hash(ca_file)
    (tmp_path / f"{subject}.0").write_bytes(ca_file.read_bytes())
    http.init(ca_bundle=tmp_path)
    with colour(name) as way, Server(tls=serving(authority)) as server:
        assert whole(way.open(server.url)) == b"ok"


def _subject_hash(path: Path) -> str:
    import shutil
    import subprocess

    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("needs the openssl program")
    command = [openssl, "x509", "-hash", "-noout", "-in", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_ssl_cert_file_is_trusted_on_every_platform(
    name: str, authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with colour(name) as way, Server(tls=serving(authority)) as server:
        assert whole(way.open(server.url)) == b"ok"


def test_ssl_cert_file_does_not_add_to_a_ca_bundle(
    name: str, authority: trustme.CA, ca_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    http.init(ca_bundle=other)
    with colour(name) as way, Server(tls=serving(authority)) as server:
        with pytest.raises(TransportError, match=r"trusted: ca_bundle=.*other\.pem"):
            way.open(server.url)


def test_cf_06_a_missing_ca_file_is_an_error_before_anything_is_sent(
    name: str, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/does/not/exist.pem")
    with colour(name) as way, Server(tls=serving(authority)) as server:
        with pytest.raises(ConfigError, match=r"SSL_CERT_FILE names '/does/not/exist\.pem'"):
            way.open(server.url)
        assert server.connections == 0


def test_a_certificate_for_another_host_is_refused(name: str, authority: trustme.CA, ca_file: Path) -> None:
    http.init(ca_bundle=ca_file)
    with colour(name) as way, Server(tls=serving(authority, "elsewhere.example")) as server:
        with pytest.raises(TransportError, match="certificate verification failed") as caught:
            way.open(server.url)
    assert caught.value.kind is ErrorKind.CERTIFICATE


def test_a_server_that_speaks_no_tls_is_a_connection_error(name: str) -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(10_000)
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with colour(name) as way, Server(script) as server:
        with pytest.raises(TransportError, match="no TLS connection") as caught:
            way.open(server.url.replace("http:", "https:"))
    assert caught.value.kind is ErrorKind.CONNECTION


def test_a_stream_over_tls_is_read_as_it_comes_and_closed_at_once(
    name: str, authority: trustme.CA, ca_file: Path
) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.head("transfer-encoding: chunked")
        peer.chunks(b"a" * 100_000, end=False)
        assert peer.gone()

    http.init(ca_bundle=ca_file)
    with colour(name) as way, Server(script, tls=serving(authority)) as server:
        answer, got = way.open(server.url), 0
        while got < 100_000:
            got += len(answer.read())
        answer.close()


# ---------------------------------------------------------------- proxies


def by_environment(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)


def by_init(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    http.init(proxy=proxy)


@pytest.mark.parametrize("choose", [by_environment, by_init])
def test_a_plain_request_goes_through_the_proxy(
    name: str, choose: Callable[[pytest.MonkeyPatch, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server, Proxy() as proxy:
        choose(monkeypatch, proxy.url)
        with colour(name) as way:
            answer = way.open(f"http://api.example.test:{server.port}/v1?key=1", {"X-Token": "t"}, b"[]")
            assert whole(answer) == b"ok"
        assert proxy.requests[0].target == f"http://api.example.test:{server.port}/v1?key=1"
        (request,) = server.requests
        assert (request.target, request.headers["x-token"], request.body) == ("/v1?key=1", "t", b"[]")


@pytest.mark.parametrize("choose", [by_environment, by_init])
def test_a_tls_request_tunnels_through_the_proxy_which_sees_nothing_of_it(
    name: str,
    choose: Callable[[pytest.MonkeyPatch, str], None],
    authority: trustme.CA,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with Server(tls=serving(authority)) as server, Proxy() as proxy:
        choose(monkeypatch, proxy.url)
        with colour(name) as way:
            url = f"https://api.example.test:{server.port}/v1?key=1"
            for _ in range(2):
                assert whole(way.open(url, {"Authorization": "Bearer CANARY"})) == b"ok"
        (request,) = proxy.requests
        assert (request.method, request.target) == ("CONNECT", f"api.example.test:{server.port}")
        assert "CANARY" not in repr(request)
        assert server.requests[0].target == "/v1?key=1"


def test_a_proxy_spoken_to_over_tls_works_where_the_library_can(
    name: str, authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with Server() as server, Proxy(tls=serving(authority)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with colour(name) as way:
            assert whole(way.open(f"http://api.example.test:{server.port}/")) == b"ok"
        assert len(proxy.requests) == 1


@pytest.mark.parametrize("tls", [False, True])
def test_the_proxys_user_and_password_go_to_the_proxy_alone(
    name: str, tls: bool, authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    basic = "Basic " + base64.b64encode(b"us er:CAN@RY").decode()
    with Server(tls=serving(authority) if tls else None) as server, Proxy(basic) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("://", "://us%20er:CAN%40RY@"))
        scheme = "https" if tls else "http"
        with colour(name) as way:
            assert whole(way.open(f"{scheme}://api.example.test:{server.port}/")) == b"ok"
        if tls:
            assert "proxy-authorization" not in server.requests[0].headers


@pytest.mark.parametrize("tls", [False, True])
def test_a_proxy_that_refuses_is_named_without_its_password(
    name: str, tls: bool, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with Server() as server, Proxy("Basic other") as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("://", "://user:CANARY@"))
        with colour(name) as way:
            if not tls:
                answer = way.open(f"http://api.example.test:{server.port}/")
                assert (answer.status, whole(answer)) == (407, b"who are you?")
                return
            with pytest.raises(TransportError, match=f"proxy 127.0.0.1:{proxy.port}.*407") as caught:
                way.open(f"https://api.example.test:{server.port}/")
        assert caught.value.kind is ErrorKind.CONNECTION
        assert not caught.value.sent
        assert "CANARY" not in f"{caught.value!r} {caught.value.__cause__!r}"
        assert base64.b64encode(b"user:CANARY").decode() not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named(
    name: str, scheme: str, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{port}")
    with colour(name) as way, pytest.raises(TransportError, match=f"proxy 127.0.0.1:{port}.*refused") as caught:
        way.open(f"{scheme}://api.example.test/v1")
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.CONNECTION, False)


def test_no_proxy_is_honoured_and_the_environment_is_read_at_each_request(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server, Proxy() as proxy, colour(name) as way:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        whole(way.open(server.url))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        whole(way.open(server.url))
        assert (len(proxy.requests), len(server.requests)) == (1, 2)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_cf_05_a_socks_proxy_without_its_package_is_one_clear_error_at_the_first_request(
    name: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("socks", "aiohttp_socks", "urllib3.contrib.socks"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://user:CANARY@127.0.0.1:1")
    with colour(name) as way, pytest.raises(ConfigError, match=r"SOCKS proxy.*pip install 'panto\[socks\]'") as caught:
        way.open("http://api.example.test/v1")
    assert "CANARY" not in str(caught.value)


# ---------------------------------------------------------------- a SOCKS proxy


class Socks(Server):
    """SOCKS5 with a user and a password; every name leads to loopback."""

    def __init__(self) -> None:
        super().__init__(script=self._relay)
        self.names: list[bytes] = []

    def _relay(self, peer: Peer) -> None:
        from tests.drive.http_servers import _pump

        sock = peer.sock

        def take(count: int) -> bytes:
            got = b""
            while len(got) < count:
                part = sock.recv(count - len(got))
                if not part:
                    raise OSError("gone")
                got += part
            return got

        take(take(2)[1])
        sock.sendall(b"\x05\x02")
        user = take(take(2)[1])
        password = take(take(1)[0])
        sock.sendall(b"\x01\x00" if (user, password) == (b"u", b"p") else b"\x01\x01")
        kind = take(4)[3]
        host = take(4) if kind == 1 else take(take(1)[0])
        port = int.from_bytes(take(2))
        self.names.append(host)
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            sock.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            _pump(sock, upstream)


@pytest.mark.parametrize("tls", [False, True])
def test_a_socks_proxy_with_its_package_works(
    name: str, tls: bool, authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("socks" if name == "urllib3" else "aiohttp_socks")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with Server(tls=serving(authority) if tls else None) as server, Socks() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5h://u:p@127.0.0.1:{proxy.port}")
        with colour(name) as way:
            assert whole(way.open(f"{'https' if tls else 'http'}://api.example.test:{server.port}/")) == b"ok"
        assert proxy.names == [b"api.example.test"]
