"""The config file: what it can say, and how it is told what is wrong in it."""

from __future__ import annotations

import pathlib

import pytest

import panto
from panto_cli.aliases import Catalogue
from panto_cli.configfile import line_of, read_config
from panto_cli.failures import CommandError


def catalogue(path: pathlib.Path, text: str, **environ: str) -> Catalogue:
    file = path / "config.toml"
    file.write_text(text, encoding="utf-8")
    return Catalogue(read_config(file, True), environ)


def refusal(path: pathlib.Path, text: str, **environ: str) -> str:
    with pytest.raises(CommandError) as caught:
        found = catalogue(path, text, **environ)
        found.config_of(found.choose(None))
    assert caught.value.status == 2
    return str(caught.value)


WHOLE = """
default = "deep"
store = "talks"

[providers.work]
api_style = "anthropic_messages"
base_url = "https://llm.example.com/"
api_key_env = "WORK_KEY"
headers = { X-Team = "blue" }
headers_env = { X-Token = "WORK_TOKEN" }
timeouts = { connect = 3.0 }
prompt_cache = false

[providers.near]
base_url = "http://127.0.0.1:8000/v1"
compat = { max_tokens_field = "max_tokens", stream_usage = false }
extra_body = { a = 1, b = { c = 2 } }

[models.deep]
provider = "work"
model = "big-1"
reasoning = "high"
max_tokens = 2_000
stop = ["END"]

[models.quick]
provider = "near"
model = "small-1"
temperature = 1
extra_body = { b = 3 }

[retry]
max_retries = 1

[limits]
max_calls = 5
"""


def test_everything_in_the_file_reaches_the_config(tmp_path: pathlib.Path) -> None:
    found = catalogue(tmp_path, WHOLE, WORK_KEY="sk-1", WORK_TOKEN="t-1")
    deep = found.run_config(found.choose(None), mid_stream=True)
    provider = deep.provider
    assert isinstance(provider, panto.AnthropicMessagesConfig)
    assert (provider.model, provider.base_url) == ("big-1", "https://llm.example.com")
    assert (provider.reasoning, provider.max_tokens, list(provider.stop)) == ("high", 2000, ["END"])
    assert dict(provider.headers) == {"X-Team": "blue", "X-Token": "t-1"}
    assert callable(provider.api_key)
    assert provider.api_key() == "sk-1"
    assert provider.timeouts == panto.Timeouts(connect=3.0)
    assert provider.prompt_cache is False
    assert (deep.retry.max_retries, deep.limits.max_calls) == (1, 5)

    quick = found.config_of("quick")
    assert isinstance(quick, panto.OpenAIChatConfig)
    assert quick.api_key is None
    assert quick.compat.max_tokens_field == "max_tokens"
    assert quick.temperature == 1.0
    assert quick.extra_body == {"a": 1, "b": 3}
    assert found.file.folder == tmp_path / "talks"


def test_without_a_file_there_is_nothing_wrong(tmp_path: pathlib.Path) -> None:
    assert read_config(tmp_path / "none.toml", False).models == {}
    with pytest.raises(CommandError, match="there is no config file"):
        read_config(tmp_path / "none.toml", True)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("defalt = 'x'\n", 1, "defalt: unknown key; did you mean 'default'?"),
        ("\n\n[modles.x]\n", 3, "modles: unknown key; did you mean 'models'?"),
        ("[models.x]\nprovider = 'openai'\n", 1, "models.x: model must be given"),
        ("[models.x]\n# c\nmodel = 'm'\nprovider = 'opena'\n", 4, "models.x.provider: there is no provider 'opena'"),
        ("[models.x]\nprovider='openai'\nmodel='m'\ntemp = 1\n", 4, "models.x.temp: unknown key"),
        ("[models.x]\nprovider='openai'\nmodel='m'\nmax_tokens = '9'\n", 4, "must be a whole number, not text"),
        ("[models.x]\nprovider='openai'\nmodel='m'\nreasoning = 'hi'\n", 4, "must be one of default, off, minimal"),
        ("[models.x]\nprovider='openai'\nmodel='m'\nstop = [\n 'a',\n 3]\n", 4, "models.x.stop"),
        (
            "models.x = { provider='openai', model=3 }\n",
            1,
            "models.x.model: must be text in quotes, not a whole number",
        ),
        ("[providers.a]\napi_style = 'grpc'\n", 2, "must be one of openai_chat, anthropic_messages"),
        ("[providers.a]\nbase_url='http://h'\napi_key = 'sk-CANARY'\n", 3, "the file holds no keys"),
        ("[providers.a]\napi_key_env = 'K'\n", 1, "providers.a: base_url must be given"),
        ("[providers.a]\nbase_url='http://h'\ntimeouts = { conect = 1 }\n", 3, "timeouts.conect: unknown key"),
        ("[providers.a]\nbase_url='http://h'\ntimeouts = { connect = -1 }\n", 3, "at least 0"),
        ("[providers.local]\nbase_url='http://h'\n", 1, "belongs to the embedded model"),
        ("providers = 3\n", 1, "providers: must be a table"),
        ("[providers]\na = 3\n", 2, "providers.a: must be a table"),
        ("[limits]\nmax_calls = 0\n", 1, "max_calls must be at least 1"),
        ("default = 'fats'\n[models.fast]\nprovider='openai'\nmodel='m'\n", 1, "Did you mean fast?"),
        ("a = \n", 1, "this is not TOML"),
        ("[models.x]\nstop = [\n", 3, "this is not TOML"),
        (
            "[models.x]\nprovider='p'\nmodel='m'\n[providers.p]\nbase_url = 'ftp://h'\n",
            1,
            "must begin with http:// or https://",
        ),
        (
            "[models.x]\nprovider='p'\nmodel='m'\nmax_tokens=9\ncontext_window=5\n[providers.p]\nbase_url='http://h'\n",
            1,
            "leaves no room",
        ),
        (
            "[models.x]\nprovider='p'\nmodel='m'\n[providers.p]\nbase_url='http://h'\nbetas=['b']\n",
            4,
            "betas is not for",
        ),
    ],
)
def test_what_is_wrong_names_file_line_and_key(tmp_path: pathlib.Path, text: str, line: int, words: str) -> None:
    said = refusal(tmp_path, text)
    assert said.startswith(f"{tmp_path / 'config.toml'}, line {line}: ")
    assert words in said
    assert "CANARY" not in said


def test_a_file_that_is_no_text_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"default = '\xff'")
    with pytest.raises(CommandError, match="UTF-8"):
        read_config(tmp_path / "config.toml", True)


def test_a_byte_order_mark_and_crlf_do_no_harm(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xef\xbb\xbfstore = 'x'\r\n")
    assert read_config(tmp_path / "config.toml", True).store == "x"


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        ("a.b.c = 1\n", ("a", "b", "c"), 1),
        ("x = '''\na = 1\n'''\na = 2\n", ("a",), 4),
        ('["we ird"]\n# a = 0\na = 1\n', ("we ird", "a"), 3),
        ("[a]\n\n[a.b]\n", ("a", "b"), 3),
        ("a = 1\n", ("b",), None),
        ("a = 1", ("a",), 1),
    ],
)
def test_the_line_of_a_value_is_found(text: str, keys: tuple[str, ...], line: int | None) -> None:
    assert line_of(text, keys) == line
