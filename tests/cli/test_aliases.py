"""Who can be asked: flag over environment over file, and never a key where it does not belong."""

from __future__ import annotations

import pathlib

import pytest

import panto
from panto_cli.aliases import Catalogue
from panto_cli.configfile import ConfigFile, read_config
from panto_cli.failures import CommandError
from panto_cli.providers import BUILT_IN


def catalogue(environ: dict[str, str], text: str | None = None, path: pathlib.Path | None = None) -> Catalogue:
    if text is None or path is None:
        return Catalogue(ConfigFile(), environ)
    (path / "config.toml").write_text(text, encoding="utf-8")
    return Catalogue(read_config(path / "config.toml", True), environ)


def key_of(config: panto.ProviderConfig) -> str | None:
    return config.api_key() if callable(config.api_key) else config.api_key


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_key_in_the_environment_is_a_working_alias(name: str) -> None:
    row = BUILT_IN[name]
    found = catalogue({row.key_env: " sk-1\n"})
    assert found.default == name
    config = found.config_of(found.choose(None))
    assert config.wire_identity() == panto.WireIdentity(row.api_style, row.base_url, row.default_model)
    assert key_of(config) == "sk-1"
    elsewhere = catalogue({row.key_env: "sk-1", row.base_url_env: "https://h.example/v1/"})
    assert elsewhere.config_of(name).base_url == "https://h.example/v1"


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_cf_03_a_blank_key_counts_as_unset(blank: str) -> None:
    found = catalogue({row.key_env: blank for row in BUILT_IN.values()})
    assert list(found.aliases) == ["local"]
    assert found.default == "local"
    with pytest.raises(CommandError, match="OPENAI_API_KEY is not set"):
        found.choose("openai")


def test_a_server_on_this_machine_needs_no_key_and_a_stranger_is_not_asked_without() -> None:
    near = catalogue({"OPENAI_BASE_URL": "http://localhost:11434/v1"})
    assert near.default == "openai"
    assert key_of(near.config_of(near.choose("llama3.3"))) is None
    far = catalogue({"OPENAI_BASE_URL": "https://api.example.com/v1"})
    assert far.default == "local"


def test_flag_over_environment_over_file(tmp_path: pathlib.Path) -> None:
    text = 'default = "one"\n' + "".join(
        f'[models.{name}]\nprovider = "openai"\nmodel = "m-{name}"\n' for name in ("one", "two", "three")
    )
    environ = {"OPENAI_API_KEY": "sk-1"}
    assert catalogue(environ, text, tmp_path).choose(None).model == "m-one"
    assert catalogue({**environ, "PANTO_MODEL": "two"}, text, tmp_path).choose(None).model == "m-two"
    assert catalogue({**environ, "PANTO_MODEL": "two"}, text, tmp_path).choose("three").model == "m-three"
    assert catalogue({**environ, "PANTO_MODEL": " "}, text, tmp_path).choose(None).model == "m-one"


def test_the_environments_base_url_wins_over_the_files(tmp_path: pathlib.Path) -> None:
    text = '[providers.openai]\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "OPENAI_API_KEY"\n'
    environ = {"OPENAI_API_KEY": "sk-1"}
    assert catalogue(environ, text, tmp_path).config_of("openai").base_url == "http://127.0.0.1:1/v1"
    environ["OPENAI_BASE_URL"] = "http://127.0.0.1:2/v1"
    assert catalogue(environ, text, tmp_path).config_of("openai").base_url == "http://127.0.0.1:2/v1"


def test_a_vendors_key_does_not_go_to_another_host_unless_the_file_says_so(tmp_path: pathlib.Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-1"}
    text = '[providers.openai]\nbase_url = "http://127.0.0.1:1/v1"\n'
    assert key_of(catalogue(environ, text, tmp_path).config_of("openai")) is None
    text += 'api_key_env = "OPENAI_API_KEY"\n'
    assert key_of(catalogue(environ, text, tmp_path).config_of("openai")) == "sk-1"


def test_an_alias_of_the_file_wins_over_one_made_of_a_key(tmp_path: pathlib.Path) -> None:
    found = catalogue({"OPENAI_API_KEY": "sk-1"}, '[models.openai]\nprovider="openai"\nmodel="mine"\n', tmp_path)
    assert found.choose("openai").model == "mine"
    assert found.choose("openai").origin == f"{tmp_path / 'config.toml'}, line 1"


@pytest.mark.parametrize(
    ("wanted", "provider", "model"),
    [
        ("groq/qwen/qwen3", "groq", "qwen/qwen3"),
        ("openai/gpt-x", "openai", "gpt-x"),
        ("gpt-x", "openai", "gpt-x"),
        ("openai", "openai", BUILT_IN["openai"].default_model),
        (" groq ", "groq", BUILT_IN["groq"].default_model),
    ],
)
def test_a_model_is_found_by_alias_by_provider_and_by_family(wanted: str, provider: str, model: str) -> None:
    alias = catalogue({"OPENAI_API_KEY": "sk-1", "GROQ_API_KEY": "sk-2"}).choose(wanted)
    assert (alias.provider, alias.model) == (provider, model)


def test_with_one_provider_any_name_is_a_model_of_it_but_a_near_miss_is_not() -> None:
    found = catalogue({"GROQ_API_KEY": "sk-2"})
    assert found.choose("some-model").provider == "groq"
    with pytest.raises(CommandError, match="Did you mean groq"):
        found.choose("grok")


def test_an_unknown_alias_names_what_there_is() -> None:
    found = catalogue({"OPENAI_API_KEY": "sk-1", "GROQ_API_KEY": "sk-2"})
    with pytest.raises(CommandError, match="There are: openai, groq, local"):
        found.choose("some-model")
    with pytest.raises(CommandError, match="MISTRAL_API_KEY is not set"):
        found.choose("mistral/large")


def test_a_missing_key_names_its_variable_and_who_asks_for_it(tmp_path: pathlib.Path) -> None:
    text = '[providers.work]\nbase_url="https://h"\napi_key_env="WORK_KEY"\n[models.w]\nprovider="work"\nmodel="m"\n'
    found = catalogue({}, text, tmp_path)
    with pytest.raises(CommandError, match=r"WORK_KEY is not set \(.*line 1 says so\)"):
        found.config_of(found.choose("w"))
    assert not found.ready(found.choose("w"))


def test_a_missing_variable_of_a_header_is_named(tmp_path: pathlib.Path) -> None:
    text = '[providers.p]\nbase_url="https://h"\nheaders_env={X-T="TOK"}\n[models.w]\nprovider="p"\nmodel="m"\n'
    with pytest.raises(CommandError, match="X-T is in TOK, which is not set"):
        catalogue({}, text, tmp_path).config_of("w")


def test_cf_04_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    found = catalogue({"OPENAI_API_KEY": "sk-\u201cCANARY"})
    with pytest.raises(CommandError, match="OPENAI_API_KEY") as caught:
        found.config_of("openai")
    assert "CANARY" not in str(caught.value)


def test_a_bad_key_of_an_alias_in_the_file_names_the_variable_that_holds_it(tmp_path: pathlib.Path) -> None:
    text = '[providers.p]\nbase_url="https://h"\napi_key_env="WORK_KEY"\n[models.w]\nprovider="p"\nmodel="m"\n'
    with pytest.raises(CommandError, match=r"^WORK_KEY \(.*config.toml, line 4\): the API key"):
        catalogue({"WORK_KEY": "sk-\u20ac"}, text, tmp_path).config_of("w")


def test_the_name_of_a_provider_alone_is_told_from_an_unknown_alias(tmp_path: pathlib.Path) -> None:
    text = '[providers.work]\nbase_url="https://h"\n[models.w]\nprovider="work"\nmodel="m"\n'
    with pytest.raises(CommandError, match="'work' is a provider; say which of its models: -m work/MODEL"):
        catalogue({}, text, tmp_path).choose("work")


def test_a_wrong_default_of_the_environment_is_laid_to_its_variable() -> None:
    with pytest.raises(CommandError, match=r"^PANTO_MODEL: there is no model alias 'huh'"):
        _ = catalogue({"PANTO_MODEL": "huh"}).default


def test_only_what_carries_no_key_and_no_header_is_keyless(tmp_path: pathlib.Path) -> None:
    text = "".join(
        f'[providers.{name}]\nbase_url="https://h"\n{more}\n[models.{name}]\nprovider="{name}"\nmodel="m"\n'
        for name, more in (("bare", ""), ("headed", 'headers={X="v"}'), ("keyed", 'api_key_env="K"'))
    )
    found = catalogue({"K": "sk-1"}, text, tmp_path)
    assert [name for name, alias in found.aliases.items() if found.keyless(alias)] == ["bare"]


def session(model: str, base_url: str) -> panto.SessionInfo:
    return panto.SessionInfo(
        id="i",
        created="",
        modified="",
        api_style=panto.APIStyle.OPENAI_CHAT,
        base_url=base_url,
        model=model,
        reasoning=panto.ReasoningEffort.DEFAULT,
    )


def test_a_session_is_matched_by_its_wire_identity_alone(tmp_path: pathlib.Path) -> None:
    text = "".join(f'[models.{name}]\nprovider="openai"\nmodel="{model}"\n' for name, model in (("a", "x"), ("b", "x")))
    found = catalogue({}, text, tmp_path)  # no key is needed to know
    assert found.match(session("x", "https://api.openai.com/v1")) == ["a", "b"]
    assert found.match(session("y", "https://api.openai.com/v1")) == ["openai/y"]
    assert found.match(session("x", "https://api.example.com/v1")) == []
    assert found.match(session("smollm2-135m", "http://127.0.0.1:4711/v1")) == ["local"]


def test_the_local_model_is_known_by_the_name_that_the_library_gives_it() -> None:
    from panto.ext.local import MODEL

    assert catalogue({}).choose("local").model == MODEL


def test_the_values_that_must_not_be_shown_are_known(tmp_path: pathlib.Path) -> None:
    text = '[providers.p]\nbase_url="https://u:PASS@h/?k=QUERY"\nheaders={X="HEAD"}\nheaders_env={Y="TOK"}\n'
    found = catalogue({"XAI_API_KEY": "sk-x", "TOK": "tok"}, text, tmp_path)
    assert {"sk-x", "tok", "HEAD", "PASS", "k=QUERY"} <= set(found.secrets())
