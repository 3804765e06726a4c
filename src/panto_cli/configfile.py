"""The config file: TOML in, checked values out.

Law: what the file says is used or refused, never ignored; a refusal names the file, the line and the key. The file has
no place for a key, so nothing read from it or printed of it can show one.
"""

from __future__ import annotations

import enum
import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import msgspec

import panto

from .failures import CommandError
from .near import near

__all__ = ["ConfigFile", "ModelEntry", "ProviderEntry", "read_config"]

S = TypeVar("S", bound=msgspec.Struct)

Path_ = tuple[str, ...]


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: how a provider is reached. What is left out of a built-in one is as it was."""

    api_style: Literal["openai_chat", "anthropic_messages"] | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    extra_body: dict[str, object] = {}
    timeouts: panto.Timeouts | None = None
    compat: panto.ChatCompat | None = None
    auth: Literal["x-api-key", "bearer"] | None = None
    betas: list[str] | None = None
    foreign_reasoning: Literal["drop", "text"] | None = None
    prompt_cache: bool | None = None
    overflow_patterns: list[str] | None = None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`[models.ALIAS]`: a model of a provider, and what it is asked for."""

    provider: str
    model: str
    reasoning: panto.ReasoningEffort | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: list[str] | None = None
    seed: int | None = None
    context_window: int | None = None
    extra_body: dict[str, object] = {}


class ConfigFile(msgspec.Struct, kw_only=True):
    """What a config file says. `path` is `None` when there is none."""

    default: str | None = None
    store: str | None = None
    providers: dict[str, ProviderEntry] = {}
    models: dict[str, ModelEntry] = {}
    retry: panto.RetryConfig | None = None
    limits: panto.Limits | None = None
    path: Path | None = None
    text: str = ""

    @property
    def folder(self) -> Path | None:
        """The folder of the sessions; a relative one is beside the file."""
        if self.store is None or self.path is None:
            return None
        return self.path.parent / Path(self.store).expanduser()

    def fail(self, keys: Path_, what: str) -> NoReturn:
        """Refuse the value at `keys`."""
        raise CommandError(f"{place(self.path, self.text, keys)}: {what}")

    def where(self, keys: Path_) -> str:
        """The file and line of the value at `keys`."""
        return place(self.path, self.text, keys, name_key=False)


_TOP = {"default": str, "store": str, "providers": dict, "models": dict, "retry": dict, "limits": dict}

_NO_KEYS = (
    "the file holds no keys, so that it can be shown and shared; put the key into an environment variable and name "
    "that here: api_key_env = 'MY_KEY'"
)


def read_config(path: Path, asked_for: bool) -> ConfigFile:
    """Read the file at `path`; a file nobody asked for by name may be absent.

    Raises `CommandError` for what cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if not asked_for:
            return ConfigFile()
        raise CommandError(f"there is no config file {path}; PANTO_CONFIG names it") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: a config file is UTF-8 text; byte {error.start} is not") from None
    except OSError as error:
        raise CommandError(f"{path}: the config file cannot be read: {error.strerror}") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CommandError(_not_toml(path, text, str(error))) from None
    file = ConfigFile(path=path, text=text)
    _check_names(file, table, list(_TOP), ())
    for name, type_ in _TOP.items():
        if name in table and not isinstance(table[name], type_):
            file.fail((name,), f"must be a {'table' if type_ is dict else 'text in quotes'}")
    file.default, file.store = table.get("default"), table.get("store")
    file.providers = _entries(file, table, "providers", ProviderEntry)
    file.models = _entries(file, table, "models", ModelEntry)
    file.retry = _struct(file, panto.RetryConfig, table["retry"], ("retry",)) if "retry" in table else None
    file.limits = _struct(file, panto.Limits, table["limits"], ("limits",)) if "limits" in table else None
    return file


def _entries(file: ConfigFile, table: dict[str, object], name: str, type_: type[S]) -> dict[str, S]:
    found = typing.cast("dict[str, object]", table.get(name, {}))
    return {key: _struct(file, type_, value, (name, key)) for key, value in found.items()}


def _struct(file: ConfigFile, type_: type[S], table: object, keys: Path_) -> S:
    """`table` as a `type_`, each value checked by itself, so that a refusal names its key."""
    if not isinstance(table, dict):
        file.fail(keys, "must be a table")
    fields = {field.name: field for field in msgspec.structs.fields(type_)}
    _check_names(file, table, list(fields), keys)
    values: dict[str, object] = {}
    for name, value in table.items():
        inner = _struct_in(fields[name].type)
        if inner is not None:
            values[name] = _struct(file, inner, value, (*keys, name))
            continue
        try:
            values[name] = msgspec.convert(value, fields[name].type)
        except msgspec.ValidationError as error:
            file.fail((*keys, name), _plainly(str(error), fields[name].type))
    missing = [field.name for field in fields.values() if field.required and field.name not in values]
    if missing:
        file.fail(keys, f"{' and '.join(missing)} must be given")
    try:
        return type_(**values)
    except panto.ConfigError as error:
        file.fail(keys, str(error))


def _struct_in(type_: object) -> type[msgspec.Struct] | None:
    """The Struct in `type_`, where it is one or `one | None`."""
    options = typing.get_args(type_) if isinstance(type_, types.UnionType) else (type_,)
    return next((each for each in options if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)


def _check_names(file: ConfigFile, table: dict[str, object], known: list[str], keys: Path_) -> None:
    for name in table:
        if name in known:
            continue
        if name in ("api_key", "key", "token", "apikey"):
            file.fail((*keys, name), _NO_KEYS)
        meant = near(name, known)
        hint = f"did you mean {meant[0]!r}?" if meant else f"known here are: {', '.join(known)}"
        file.fail((*keys, name), f"unknown key; {hint}")


_TYPES = {
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def _plainly(words: str, type_: object) -> str:
    """What msgspec says of a value, in words of the file: "Expected `int | null`, got `str`"."""
    options = typing.get_args(type_) or (type_,)
    allowed = [str(value) for each in options for value in _values(each)]
    if allowed:
        return f"must be one of {', '.join(allowed)}"
    found = re.fullmatch(r"Expected `([a-z |]+)`, got `([a-z]+)`(.*)", words.split(" - at ")[0])
    if found is None:
        return words
    wanted = [_TYPES.get(name, name) for name in found[1].split(" | ") if name != "null"]
    return f"must be {' or '.join(wanted)}, not {_TYPES.get(found[2], found[2])}"


def _values(type_: object) -> tuple[object, ...]:
    """The values of an enumeration or a Literal."""
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return tuple(each.value for each in type_)
    return typing.get_args(type_) if typing.get_origin(type_) is Literal else ()


def _not_toml(path: Path, text: str, words: str) -> str:
    """A syntax error with its line before its column: "Invalid value (at line 1, column 5)"."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", words)
    if found is None:  # "at end of document"
        return f"{path}, line {text.count(chr(10)) + 1}: this is not TOML: {words}"
    return f"{path}, line {found[2]}: this is not TOML: {found[1]} (column {found[3]})"


def place(path: Path | None, text: str, keys: Path_, *, name_key: bool = True) -> str:
    """File, line and key, as an error begins."""
    line = line_of(text, keys)
    where = f"{path}" if line is None else f"{path}, line {line}"
    return f"{where}: {'.'.join(keys)}" if name_key and keys else where


def line_of(text: str, keys: Path_) -> int | None:
    """The line on which the value at `keys` begins, counted from 1; `None` if there is none.

    Found with the TOML parser itself: the value is there as soon as the lines up to it parse to a table that has it,
    and it begins after the last line up to which they parsed without it. Quadratic, and done for one error only.

    >>> line_of("[a]\\nb = 1\\nc = [\\n 2]\\n", ("a", "c"))
    3
    """
    lines = text.splitlines(keepends=True)
    begin = 1
    for count in range(1, len(lines) + 1):
        try:
            table: object = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a value
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
            if table is None:
                break
        else:
            return begin
        begin = count + 1
    return None
