"""Which way a request goes: the parts of its URL, the proxy, the certificates to trust.

Law: the environment is read at the request, never at import; blank counts as unset; what is secret in a URL (user
info, query, a proxy's password) is taken out of it here and travels as a `Secret`.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, unquote, urlsplit

import msgspec

from panto._secret import Secret, veiled
from panto.errors import ConfigError

if TYPE_CHECKING:
    import ssl

PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
PROBE = 60  # seconds between probes of a silent connection
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")

direct: set[str] = set()
"""`host:port` of servers that this process started itself; no proxy leads to them."""


class Address(msgspec.Struct, frozen=True, gc=False):
    """A URL in its parts. `public` is the URL without what may be secret in it."""

    scheme: str
    host: str
    port: int
    public: str
    query: Secret | None = None
    basic: Secret | None = None

    @property
    def netloc(self) -> str:
        """`host:port`, the port always told."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def shown(self) -> str:
        """The host as a message names it: with its port where that is not the usual one."""
        return self.netloc if self.port != PORTS.get(self.scheme) else self.netloc.rpartition(":")[0]

    @property
    def secrets(self) -> list[str]:
        """What no message may hold."""
        found: list[str] = []
        if self.query is not None:
            found += [self.query(), *(part.partition("=")[2] for part in self.query()[1:].split("&"))]
        if self.basic is not None:
            pair = base64.b64decode(self.basic()[6:]).decode()
            found += [self.basic()[6:], pair, pair.partition(":")[2], quote(pair.partition(":")[2])]
        return found


@veiled
def parse(url: str) -> Address:
    """A URL in its parts; `ConfigError`, without showing secrets, when it is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("a URL whose host or port cannot be read") from None
    if parts.scheme not in PORTS or not host:
        raise ConfigError("a URL must begin with http:// or https:// and name a host")
    netloc = parts.netloc.rpartition("@")[2]
    basic = None
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        basic = Secret("Basic " + base64.b64encode(pair.encode()).decode())
    return Address(
        scheme=parts.scheme,
        host=host,
        port=port or PORTS[parts.scheme],
        public=f"{parts.scheme}://{netloc}{parts.path}",
        query=Secret("?" + parts.query) if parts.query else None,
        basic=basic,
    )


# ---------------------------------------------------------------- proxies


@veiled
def check_proxy(url: str) -> Address | None:
    """A proxy in its parts, `None` for blank; `ConfigError`, without its user and password, when it is none."""
    url = url.strip()
    if not url:
        return None
    if "://" not in url:
        url = "http://" + url
    scheme = url.partition("://")[0].lower()
    scheme = {"socks": "socks5"}.get(scheme, scheme)
    if scheme not in PROXY_SCHEMES:
        raise ConfigError(f"a proxy with the scheme {scheme!r} is not supported; use {', '.join(PROXY_SCHEMES)}")
    try:
        return parse(scheme + "://" + url.partition("://")[2])
    except ConfigError:
        raise ConfigError("the proxy is no URL; write it as http://host:port") from None


def proxy_for(target: Address, explicit: str | None) -> Address | None:
    """The proxy that leads to `target`, or `None` where the way is direct."""
    if explicit is None:
        name, found = _from_environment(target.scheme)
    else:
        name, found = "panto.init(proxy=...)", explicit
    if not found or target.netloc in direct:
        return None
    if exempt(target.host, target.port, _env("no_proxy") or ""):
        return None
    try:
        return check_proxy(found)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _from_environment(scheme: str) -> tuple[str, str | None]:
    for name in (f"{scheme}_proxy", "all_proxy"):
        if found := _env(name):
            return name.upper(), found
    return "", None


def _env(name: str) -> str | None:
    for spelled in (name, name.upper()):
        if spelled == "HTTP_PROXY" and "REQUEST_METHOD" in os.environ:
            continue  # in a CGI program that variable is the caller's `Proxy:` header (httpoxy, CVE-2016-1000110)
        if value := os.environ.get(spelled, "").strip():
            return value
    return None


def exempt(host: str, port: int, no_proxy: str) -> bool:
    """Whether `NO_PROXY` exempts a host.

    Entries are separated by commas or blanks. `*` is every host; `example.com` and `.example.com` are that domain and
    all below it; `host:port` is that port only; an address may be a network (`10.0.0.0/8`), as in curl and Go.
    """
    host = host.lower().rstrip(".")
    for entry in no_proxy.lower().replace(",", " ").split():
        if entry == "*":
            return True
        name, colon, tail = entry.rpartition(":")
        if colon and tail.isdigit() and (":" not in name or name.startswith("[")):
            if int(tail) != port:
                continue
            entry = name
        entry = entry.strip("[]").lstrip("*").strip(".")
        if entry and (host == entry or host.endswith("." + entry) or _within(host, entry)):
            return True
    return False


def _within(host: str, network: str) -> bool:
    if "/" not in network and ":" not in network:
        return False
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


# ---------------------------------------------------------------- certificates

Trust = tuple[str | None, str | None, str | None]
"""What decides which certificates are trusted: `ca_bundle`, `SSL_CERT_FILE`, `SSL_CERT_DIR`."""

_contexts: dict[Trust, ssl.SSLContext] = {}
_making = threading.Lock()


def check_ca_bundle(path: str, name: str = "ca_bundle") -> str:
    """The absolute path of a CA file or directory; `ConfigError` when there is none."""
    whole = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  Path() would resolve nothing more
    if not os.path.exists(whole):  # noqa: PTH110
        raise ConfigError(f"{name} names {path!r}, which does not exist; certificates cannot be verified without it")
    return whole


def trust(ca_bundle: str | None) -> Trust:
    """What decides, as it stands now."""
    if ca_bundle is not None:
        return (ca_bundle, None, None)
    file, folder = (os.environ.get(name, "").strip() or None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return (None, file, folder)


def trusted(which: Trust) -> str:
    """Whom `which` trusts, in words."""
    named = [f"{name}={value}" for name, value in zip(("ca_bundle", "SSL_CERT_FILE", "SSL_CERT_DIR"), which) if value]
    return " and ".join(named) or "the operating system's authorities"


def tls_context(which: Trust) -> ssl.SSLContext:
    """The context that verifies servers; made once for each `which`. Verification cannot be turned off."""
    with _making:
        if which not in _contexts:
            _contexts[which] = _make_context(which)
        return _contexts[which]


def _make_context(which: Trust) -> ssl.SSLContext:
    import ssl

    bundle, file, folder = which
    sources = [("ca_bundle", bundle)] if bundle else [("SSL_CERT_FILE", file)]
    sources += [("SSL_CERT_DIR", part) for part in (folder or "").split(os.pathsep) if part]
    named = [(name, check_ca_bundle(path, name)) for name, path in sources if path]
    if not named:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks host names and demands certificates by itself
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a company may hand out an intermediate authority only
    for name, path in named:
        try:
            if os.path.isdir(path):  # noqa: PTH112
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except OSError as error:  # ssl.SSLError too
            why = error.strerror or error
            raise ConfigError(f"{name} names {path!r}, which is no readable PEM file of certificates: {why}") from None
    return context


# ---------------------------------------------------------------- sockets


class _Tunable(Protocol):
    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


def keep_alive(sock: _Tunable | None) -> None:
    """Ask the system to probe a silent connection, so that a model may think for minutes behind a forgetful NAT."""
    import socket

    if sock is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):  # the second is macOS's name of the first
            if (option := getattr(socket, name, None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, PROBE)
    except OSError:
        pass  # no TCP, or gone already


# ---------------------------------------------------------------- secrets


def secrets_of(headers: Mapping[str, str], *addresses: Address | None) -> list[str]:
    """What must not be in any text about a request: values of its headers, and the secret parts of URLs."""
    found = [part for address in addresses if address is not None for part in address.secrets]
    for value in headers.values():
        found += [value, value.rpartition(" ")[2]]
    return [secret for secret in found if len(secret) >= 4]


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` with every secret in it replaced by `***`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
