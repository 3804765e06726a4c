"""What holds for every test: loopback only, no keys and no proxy from outside, and in CI no skips."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from . import ways  # noqa: F401  notes every move of a state, from the first test on
from .faces import FACES, Face
from .stage import Stage

IN_CI = os.environ.get("CI") == "true"

# Property tests try other examples on each run of a developer, and the same ones in CI: what passed there once fails
# there only when something changed.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
if IN_CI:
    hypothesis.settings.load_profile("steady")

for _name in list(os.environ):
    # A developer's own keys and proxies must change no test; nor may a test spend their money.
    if _name.endswith(("_API_KEY", "_BASE_URL")) or _name.lower() in {"http_proxy", "https_proxy", "all_proxy"}:
        del os.environ[_name]

_strayed: list[str] = []


def _is_loopback(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name is None or name in {"", "localhost", socket.gethostname()}:
        return True
    try:
        return ipaddress.ip_address(str(name).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _is_address(host: object) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event in {"socket.connect", "socket.sendto"}:
        address = args[1]
        if isinstance(address, tuple) and not _is_loopback(address[0]):
            _strayed.append(f"{event} {address[0]}:{address[1]}")
            raise ConnectionRefusedError(f"a test may connect to loopback only, not to {address[0]}")
    elif event == "socket.getaddrinfo":
        host = args[0]
        if not _is_loopback(host) and not _is_address(host):
            if not str(host).endswith(".invalid"):  # that name is for tests of what cannot be found
                _strayed.append(f"{event} {host!s}")
            raise socket.gaierror(socket.EAI_NONAME, f"a test may look up loopback only, not {host!s}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _loopback_only() -> Iterator[None]:
    _strayed.clear()
    yield
    assert not _strayed, f"this test tried to reach the network: {_strayed}"


def _unskipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Under CI=true a skip is a failure, unless what it misses is the material beside the checkout."""
    if not IN_CI or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if "shared" not in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped where CI=true allows no skip: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _unskipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _unskipped(report)
    return report


@pytest.fixture(params=list(FACES))
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """Each colour in turn."""
    made = FACES[request.param]()
    yield made
    made.end()


@pytest.fixture(params=["memory", "loopback"])
def stage(request: pytest.FixtureRequest, face: Face) -> Iterator[Stage]:
    """A stage for whole runs, in each colour, in process and over real sockets."""
    made = Stage(face, request.param)
    yield made
    made.end()


_collected_whole = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `last` look at what all others did."""
    global _collected_whole
    narrowed = (
        config.option.keyword or config.option.markexpr or getattr(config.option, "lf", False) or config.option.deselect
    )
    _collected_whole = not narrowed and all(not arg.startswith("-") and "::" not in arg for arg in config.args)
    _collected_whole = _collected_whole and config.args_source is not pytest.Config.ArgsSource.ARGS
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.fixture
def whole_suite() -> bool:
    """Whether this is a run of the whole suite."""
    return _collected_whole
