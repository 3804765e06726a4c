"""Which way a request goes, from the environment and from `init`; blank is unset, secrets come out of URLs."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panto._drive import http_route as route
from panto.errors import ConfigError

PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_NAMES, *map(str.upper, PROXY_NAMES), "REQUEST_METHOD", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


def leads(url: str, explicit: str | None = None) -> str | None:
    found = route.proxy_for(route.parse(url), explicit)
    return None if found is None else found.public


# ---------------------------------------------------------------- URLs


def test_a_url_is_taken_apart_and_its_secrets_wrapped() -> None:
    address = route.parse("https://us%40er:pa:ss@Host.Example:8443/v1/x?key=k1&b=2")
    assert (address.scheme, address.host, address.port) == ("https", "host.example", 8443)
    assert address.public == "https://Host.Example:8443/v1/x"
    assert address.query is not None
    assert address.query() == "?key=k1&b=2"
    assert address.basic is not None
    assert address.basic() == "Basic dXNAZXI6cGE6c3M="
    assert "k1" not in repr(address)
    assert "dXNA" not in repr(address)
    assert {"k1", "pa:ss", "dXNAZXI6cGE6c3M="} <= set(address.secrets)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.openai.com/v1", "api.openai.com"),
        ("http://h:80/", "h"),
        ("http://h:443/", "h:443"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("https://[::1]/", "[::1]"),
    ],
)
def test_a_host_is_shown_with_the_port_only_where_that_is_unusual(url: str, shown: str) -> None:
    assert route.parse(url).shown == shown


def test_a_broken_url_is_refused_without_showing_it() -> None:
    for url in ("http://u:CANARY@[::1/", "http://u:CANARY@h:port/", "u:CANARY@h", "http://u:CANARY@"):
        with pytest.raises(ConfigError) as caught:
            route.parse(url)
        assert "CANARY" not in str(caught.value)


def test_redaction_takes_the_longest_secret_first() -> None:
    assert route.redact("Bearer sk-1234 and sk-1234", ["sk-1234", "Bearer sk-1234"]) == "*** and ***"


# ---------------------------------------------------------------- proxies


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_the_scheme_decides_which_variable_is_used(monkeypatch: pytest.MonkeyPatch, spelled: type[str]) -> None:
    monkeypatch.setenv(spelled("http_proxy"), "http://one:1")
    monkeypatch.setenv(spelled("https_proxy"), "http://two:2")
    monkeypatch.setenv(spelled("all_proxy"), "http://three:3")
    assert leads("http://h/") == "http://one:1"
    assert leads("https://h/") == "http://two:2"
    monkeypatch.delenv(spelled("http_proxy"))
    assert leads("http://h/") == "http://three:3"


def test_lower_case_wins_and_blank_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://upper:1")
    monkeypatch.setenv("https_proxy", "http://lower:1")
    assert leads("https://h/") == "http://lower:1"
    monkeypatch.setenv("https_proxy", "  ")
    assert leads("https://h/") == "http://upper:1"
    monkeypatch.setenv("HTTPS_PROXY", "")
    assert leads("https://h/") is None


def test_a_cgi_program_does_not_take_its_proxy_from_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://evil:1")
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    assert leads("http://h/") is None


def test_an_explicit_proxy_wins_and_an_empty_one_is_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment:1")
    assert leads("https://h/", "http://explicit:2") == "http://explicit:2"
    assert leads("https://h/", "") is None
    monkeypatch.setenv("NO_PROXY", "h")
    assert leads("https://h/", "http://explicit:2") is None


def test_a_server_of_this_process_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://p:1")
    monkeypatch.setattr(route, "direct", set())
    from panto._drive.http import reach_directly

    reach_directly("http://127.0.0.1:5001/v1")
    assert leads("http://127.0.0.1:5001/v1/chat/completions") is None
    assert leads("http://127.0.0.1:5002/v1/chat/completions") == "http://p:1"


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("proxy:3128", "http://proxy:3128"),
        ("http://proxy", "http://proxy"),
        (" https://u:p@proxy:1/ ", "https://proxy:1/"),
        ("socks5h://proxy:1080", "socks5h://proxy:1080"),
        ("socks://proxy", "socks5://proxy"),
    ],
)
def test_the_ways_to_write_a_proxy(given: str, public: str) -> None:
    address = route.check_proxy(given)
    assert address is not None
    assert address.public == public
    assert "u:p" not in repr(address)


@pytest.mark.parametrize("bad", ["ftp://proxy:1", "http://u:CANARY@:99", "http://u:CANARY@h:x"])
def test_what_is_no_proxy_names_its_variable_and_hides_its_password(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", bad)
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as caught:
        leads("https://h/")
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "exempt"),
    [
        ("", "h", 80, False),
        ("*", "h", 80, True),
        ("example.com", "example.com", 443, True),
        ("example.com", "api.example.com", 443, True),
        (".example.com", "api.example.com", 443, True),
        (".example.com", "example.com", 443, True),
        ("*.example.com", "api.example.com", 443, True),
        ("example.com", "badexample.com", 443, False),
        ("example.com", "example.com.evil", 443, False),
        ("EXAMPLE.com", "Example.COM.", 443, True),
        ("a, b c", "c", 443, True),
        ("h:8080", "h", 8080, True),
        ("h:8080", "h", 80, False),
        ("127.0.0.1", "127.0.0.1", 80, True),
        ("127.0.0.1", "127.0.0.10", 80, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.1.2.3", 80, False),
        ("10.0.0.0/8", "ten.example", 80, False),
        ("::1", "::1", 80, True),
        ("[::1]:80", "::1", 80, True),
        ("[::1]:81", "::1", 80, False),
        ("fe80::/10", "fe80::5", 80, True),
        (",,", "h", 80, False),
        ("10.0.0.0/99", "10.1.2.3", 80, False),
    ],
)
def test_no_proxy_exempts(no_proxy: str, host: str, port: int, exempt: bool) -> None:
    assert route.exempt(host, port, no_proxy) is exempt


@given(st.text(), st.ip_addresses().map(str) | st.from_regex(r"[a-z.]{1,12}", fullmatch=True))
def test_no_text_in_no_proxy_is_an_error(no_proxy: str, host: str) -> None:
    assert route.exempt(host, 80, no_proxy) in (True, False)


@given(st.ip_addresses(v=4), st.integers(1, 32))
def test_an_address_is_within_its_own_network(address: ipaddress.IPv4Address, bits: int) -> None:
    network = ipaddress.ip_network(f"{address}/{bits}", strict=False)
    assert route.exempt(str(address), 80, str(network))


# ---------------------------------------------------------------- certificates


def test_a_ca_file_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"ca_bundle names .*none\.pem"):
        route.check_ca_bundle(missing)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        with monkeypatch.context() as changed:
            changed.setenv(name, missing)
            with pytest.raises(ConfigError, match=rf"{name} names .*none\.pem.*does not exist"):
                route.tls_context(route.trust(None))


def test_a_ca_file_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.pem"
    path.write_text("hello")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE names .*text\.pem.*no readable PEM file"):
        route.tls_context(route.trust(None))


def test_blank_certificate_variables_leave_it_to_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    import truststore

    monkeypatch.setenv("SSL_CERT_FILE", " ")
    monkeypatch.setenv("SSL_CERT_DIR", "")
    context = route.tls_context(route.trust(None))
    assert isinstance(context, truststore.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
