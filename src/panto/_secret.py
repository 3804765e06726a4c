"""What must not be seen, and what hides it: keys, header values, parts of URLs.

Law: a secret shows in no repr, dump, copy, pickle or traceback; it is opened by being called, on its way out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from urllib.parse import urlsplit, urlunsplit

from .errors import ConfigError, PantoError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Headers", "Secret", "check_header", "clean_key", "split_url", "veiled"]

P = ParamSpec("P")
R = TypeVar("R")


def veiled(function: Callable[P, R]) -> Callable[P, R]:
    """Let a refusal of `function`, whose arguments may be secret, show neither them nor its locals in a traceback."""

    @functools.wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        try:
            return function(*given, **named)
        except PantoError as error:
            refusal = error.with_traceback(None)
        del given, named
        refusal.__context__ = None
        raise refusal

    return call


class Secret:
    """A string that does not show itself. Calling it gives the string.

    >>> Secret("sk-1")
    Secret('***')
    >>> Secret("sk-1")()
    'sk-1'
    """

    __slots__ = ("_reveal",)

    def __init__(self, value: str) -> None:
        self._reveal: Callable[[], str] = lambda: value

    def __call__(self) -> str:
        """The string itself."""
        return self._reveal()

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other() == self()

    def __hash__(self) -> int:
        return hash(Secret)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a config with a key cannot be pickled: the key must not leave the process; pass it anew")


class Headers(Mapping[str, str]):
    """Request headers whose values its repr does not show.

    >>> Headers({"X-Token": "t-1"})
    Headers({'X-Token': '***'})
    """

    __slots__ = ("_items",)

    @veiled
    def __init__(self, items: Mapping[str, str] = {}) -> None:
        for name, value in items.items():
            check_header(name, value)
        self._items: dict[str, Secret] = {name: Secret(value.strip(" \t\r\n")) for name, value in items.items()}

    def __getitem__(self, name: str) -> str:
        return self._items[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({dict.fromkeys(self._items, '***')})"

    def __hash__(self) -> int:
        return hash(tuple(self._items))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        if self._items:
            raise TypeError("a config with headers cannot be pickled: they may hold a key; pass them anew")
        return (Headers, ())


@veiled
def check_header(name: str, value: str) -> None:
    """Refuse what HTTP cannot carry, without showing the value."""
    for what, given in (("name", name), ("value", value)):
        if not isinstance(given, str):
            raise ConfigError(f"the {what} of an HTTP header is a string, not {type(given).__name__}")
    if not name or not name.isascii() or not all(c.isalnum() or c in "!#$%&'*+-.^_`|~" for c in name):
        raise ConfigError(f"{name!r} is no name of an HTTP header")
    if bad := _unsendable(value.strip(" \t\r\n")):
        raise ConfigError(f"the value of the header {name!r} has {bad}; HTTP headers hold printable ASCII only")


@veiled
def clean_key(key: str) -> str | None:
    """A key as it goes on the wire: outer white space gone, blank is `None`.

    Raises `ConfigError`, without showing the key, when it holds characters that no HTTP header can carry.
    """
    key = key.strip()
    if not key:
        return None
    if bad := _unsendable(key):
        raise ConfigError(f"the API key has {bad}; it was probably copied wrongly (quotes, line breaks)")
    return key


def _unsendable(value: str) -> str | None:
    for at, char in enumerate(value):
        if not char.isascii():
            return f"a non-ASCII character at position {at}"
        if ord(char) < 32 or ord(char) == 127:
            return f"a control character at position {at}"
    return None


@veiled
def split_url(url: str) -> tuple[str, Secret | None]:
    """A base URL without what may be secret in it, and the whole where there was something.

    Raises `ConfigError` when it is no http or https URL.
    """
    whole = url.strip()
    try:
        parts = urlsplit(whole)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise ConfigError("base_url is no URL (its host or port cannot be read)") from None
    if parts.scheme not in ("http", "https") or not host:
        shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        raise ConfigError(f"base_url must begin with http:// or https:// and name a host, not {shown!r}")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        netloc += f":{port}"
    public = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    secret = bool(parts.query or parts.username or parts.password)
    return public, Secret(whole) if secret else None
