"""Which models can be asked, under which names, and where each name comes from.

Law: aliases are made afresh at each start, from the environment and the config file, and are never stored. A key is
read from the environment at the moment a config is built, and goes nowhere else.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

import panto

from .configfile import ConfigFile, ModelEntry, ProviderEntry
from .failures import CommandError
from .near import near
from .providers import BUILT_IN, LOCAL, BuiltIn

__all__ = ["Alias", "Catalogue", "Provider"]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that can be asked, without its key."""

    name: str
    api_style: panto.APIStyle
    base_url: str
    key_env: str | None
    entry: ProviderEntry = ProviderEntry()
    in_file: bool = False
    keyless: bool = False


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """A name for a model of a provider. `origin` says where the name comes from."""

    name: str
    provider: str
    model: str
    origin: str
    entry: ModelEntry | None = None


class Catalogue:
    """All that is configured: the environment and the file, put together."""

    def __init__(self, file: ConfigFile, environ: Mapping[str, str] = os.environ) -> None:
        self.file = file
        self._environ = environ
        self.providers = self._find_providers()
        self.aliases = self._find_aliases()

    # ---- choosing

    def choose(self, wanted: str | None) -> Alias:
        """The alias called `wanted`, or one made for the model of that name; the default for `None`.

        Raises `CommandError` for a name that is none.
        """
        if wanted is None:
            return self.aliases[self.default]
        wanted = wanted.strip()
        if wanted in self.aliases:
            return self.aliases[wanted]
        if wanted in BUILT_IN:
            raise CommandError(self._no_key(self.providers.get(wanted) or _plain(BUILT_IN[wanted])))
        provider, _, model = wanted.partition("/")
        if model and (provider in self.providers or provider in BUILT_IN):
            if provider not in self.providers:
                raise CommandError(self._no_key(_plain(BUILT_IN[provider])))
            return self._unnamed(provider, model)
        if wanted in self.providers:
            raise CommandError(f"{wanted!r} is a provider; say which of its models: -m {wanted}/MODEL")
        if meant := near(wanted, self.aliases, most=3, cutoff=0.75):
            raise CommandError(self._unknown(wanted, meant))
        for name, row in BUILT_IN.items():
            if name in self.providers and wanted.startswith(row.families):
                return self._unnamed(name, wanted)
        if wanted and len(self.providers) == 1:
            return self._unnamed(next(iter(self.providers)), wanted)
        raise CommandError(self._unknown(wanted, []))

    def match(self, info: panto.SessionInfo) -> list[str]:
        """The aliases that speak with the very identity a session used last; else the PROVIDER/MODEL that does."""
        found = panto.match({name: self.config_of(name, keys=False) for name in self.aliases if name != LOCAL}, info)
        if _is_local(info):
            found.append(LOCAL)
        if found or not info.model:
            return found
        unnamed = [self._unnamed(name, info.model) for name in self.providers]
        return panto.match({alias.name: self.config_of(alias, keys=False) for alias in unnamed}, info)

    @property
    def default(self) -> str:
        """The alias that answers when none is asked for."""
        return self._default[0]

    @property
    def default_origin(self) -> str:
        """Where that is said."""
        return self._default[1]

    # ---- configs

    def key_env(self, alias: Alias) -> str | None:
        """The variable that holds the key for an alias."""
        return None if alias.provider == LOCAL else self.providers[alias.provider].key_env

    def keyless(self, alias: Alias) -> bool:
        """Whether requests to this alias carry nothing that could be a key, because none is configured."""
        if alias.provider == LOCAL:
            return False
        provider = self.providers[alias.provider]
        return provider.keyless and not (provider.entry.headers or provider.entry.headers_env)

    def ready(self, alias: Alias) -> bool:
        """Whether there is all that an alias needs, as far as can be told without asking."""
        if alias.provider == LOCAL:
            return True
        provider = self.providers[alias.provider]
        return provider.keyless or provider.key_env is None or bool(self._get(provider.key_env))

    def config_of(self, alias: str | Alias, *, keys: bool = True) -> panto.ProviderConfig:
        """The provider config of an alias; without `keys` only good for looking at.

        Raises `CommandError` for a key that is missing, `panto.ConfigError` for what cannot work.
        """
        alias = self.aliases[alias] if isinstance(alias, str) else alias
        if alias.provider == LOCAL:
            from panto.ext.local import local_model

            return local_model()
        provider = self.providers[alias.provider]
        key = self._key(provider) if keys else None
        build = (
            panto.AnthropicMessagesConfig
            if provider.api_style is panto.APIStyle.ANTHROPIC_MESSAGES
            else panto.OpenAIChatConfig
        )
        settings = self._settings(provider, alias.entry, keys)
        try:
            return build(model=alias.model, api_key=key, base_url=provider.base_url, **settings)  # type: ignore[arg-type]
        except panto.ConfigError as error:
            whose = self._whose(provider, alias)
            if provider.key_env and provider.key_env != whose and "API key" in str(error):
                whose = f"{provider.key_env} ({whose})"
            raise CommandError(f"{whose}: {error}") from None
        except TypeError:
            wrong = ", ".join(name for name in settings if name not in build.__struct_fields__)
            self.file.fail(("providers", provider.name), f"{wrong} is not for api_style {provider.api_style.value!r}")

    def run_config(self, alias: Alias, *, mid_stream: bool) -> panto.Config:
        """The whole config of a run; without `mid_stream`, what is already shown is never voided."""
        retry = self.file.retry or panto.RetryConfig()
        if not mid_stream:
            retry = msgspec.structs.replace(retry, mid_stream=False)
        return panto.Config(provider=self.config_of(alias), retry=retry, limits=self.file.limits or panto.Limits())

    def secrets(self) -> list[str]:
        """Everything that must not be shown: keys and values of headers."""
        found = [self._get(row.key_env) for row in BUILT_IN.values()]
        for provider in self.providers.values():
            if provider.key_env:
                found.append(self._get(provider.key_env))
            found += provider.entry.headers.values()
            found += [self._get(name) for name in provider.entry.headers_env.values()]
            found += _url_secrets(provider.base_url)
        return [value for value in found if value]

    # ---- how it is put together

    def _get(self, variable: str) -> str:
        return self._environ.get(variable, "").strip()

    def _find_providers(self) -> dict[str, Provider]:
        found: dict[str, Provider] = {}
        for row in BUILT_IN.values():
            base_url = self._get(row.base_url_env)
            # A server on this machine may need no key; a key is never sent to a stranger for want of one.
            keyless = not self._get(row.key_env) and _is_loopback(base_url)
            if self._get(row.key_env) or keyless:
                found[row.name] = Provider(
                    name=row.name,
                    api_style=row.api_style,
                    base_url=base_url or row.base_url,
                    key_env=row.key_env,
                    keyless=keyless,
                )
        for name, entry in self.file.providers.items():
            found[name] = self._from_file(name, entry)
        return found

    def _from_file(self, name: str, entry: ProviderEntry) -> Provider:
        row = BUILT_IN.get(name)
        if name == LOCAL:
            self.file.fail(("providers", name), "this name belongs to the embedded model; take another")
        base_url = (self._get(row.base_url_env) if row else "") or entry.base_url or (row.base_url if row else "")
        if not base_url:
            self.file.fail(("providers", name), "base_url must be given")
        style = panto.APIStyle(entry.api_style) if entry.api_style else row.api_style if row else _CHAT
        # Another host than the vendor's own gets the vendor's key only when the file says so.
        own_host = row is not None and (not entry.base_url or bool(self._get(row.base_url_env)))
        key_env = entry.api_key_env or (row.key_env if row and own_host else None)
        return Provider(
            name=name,
            api_style=style,
            base_url=base_url,
            key_env=key_env,
            entry=entry,
            in_file=True,
            keyless=key_env is None,
        )

    def _find_aliases(self) -> dict[str, Alias]:
        found: dict[str, Alias] = {}
        for name, entry in self.file.models.items():
            keys = ("models", name)
            if entry.provider not in self.providers and entry.provider not in BUILT_IN:
                meant = near(entry.provider, [*self.providers, *BUILT_IN])
                hint = f"did you mean {meant[0]!r}?" if meant else f"give it a table [providers.{entry.provider}]"
                self.file.fail((*keys, "provider"), f"there is no provider {entry.provider!r}; {hint}")
            if entry.provider not in self.providers:
                self.providers[entry.provider] = _plain(BUILT_IN[entry.provider])
            found[name] = Alias(
                name=name, provider=entry.provider, model=entry.model, origin=self.file.where(keys), entry=entry
            )
        for name, row in BUILT_IN.items():
            provider = self.providers.get(name)
            if provider is not None and name not in found and (provider.keyless or self._get(provider.key_env or "")):
                origin = row.base_url_env if provider.keyless else provider.key_env
                found[name] = Alias(name=name, provider=name, model=row.default_model, origin=f"{origin}")
        found.setdefault(LOCAL, Alias(name=LOCAL, provider=LOCAL, model="smollm2-135m", origin="built in"))
        return found

    @functools.cached_property
    def _default(self) -> tuple[str, str]:
        if named := self._get("PANTO_MODEL"):
            try:
                alias = self.choose(named)
            except CommandError as error:
                raise CommandError(f"PANTO_MODEL: {error}") from None
            self.aliases.setdefault(alias.name, alias)
            return alias.name, "PANTO_MODEL"
        if self.file.default is not None:
            if self.file.default not in self.aliases:
                self.file.fail(
                    ("default",), self._unknown(self.file.default, near(self.file.default, self.aliases, most=3))
                )
            return self.file.default, self.file.where(("default",))
        name = next((name for name in BUILT_IN if name in self.aliases), None) or next(iter(self.aliases))
        if name == LOCAL:
            return name, "no key is set"
        return name, f"{self.aliases[name].origin}" if name in BUILT_IN else "the first in the file"

    def _settings(self, provider: Provider, entry: ModelEntry | None, keys: bool) -> dict[str, object]:
        mine = provider.entry
        settings: dict[str, object] = {
            name: value
            for name in (
                "timeouts",
                "compat",
                "auth",
                "betas",
                "foreign_reasoning",
                "prompt_cache",
                "overflow_patterns",
            )
            if (value := getattr(mine, name)) is not None
        }
        if entry is not None:
            settings |= {
                name: value
                for name in entry.__struct_fields__
                if name not in ("provider", "model", "extra_body") and (value := getattr(entry, name)) is not None
            }
        settings["extra_body"] = {**mine.extra_body, **(entry.extra_body if entry else {})}
        headers = dict(mine.headers)
        if keys:
            for header, variable in mine.headers_env.items():
                if not (value := self._get(variable)):
                    place = self.file.where(("providers", provider.name, "headers_env"))
                    raise CommandError(f"the header {header} is in {variable}, which is not set ({place})")
                headers[header] = value
        settings["headers"] = headers
        return settings

    def _key(self, provider: Provider) -> str | None:
        if provider.key_env is None or (provider.keyless and not self._get(provider.key_env)):
            return None
        if not (key := self._get(provider.key_env)):
            raise CommandError(self._no_key(provider))
        return key

    def _no_key(self, provider: Provider) -> str:
        place = f" ({self.file.where(('providers', provider.name))} says so)" if provider.in_file else ""
        return (
            f"there is no key for {provider.name}: {provider.key_env} is not set{place}.\n"
            f"Set it, for instance: export {provider.key_env}=...   Or take another model with -m; "
            f"`panto models` lists them."
        )

    def _unknown(self, wanted: str, meant: list[str]) -> str:
        guess = f" Did you mean {' or '.join(meant)}?" if meant else f" There are: {', '.join(self.aliases)}."
        example = next((name for name in self.providers), "openai")
        return (
            f"there is no model alias {wanted!r}.{guess}\n"
            f"For a model by its own name write PROVIDER/MODEL, for instance -m {example}/{wanted or 'MODEL'}"
        )

    def _unnamed(self, provider: str, model: str) -> Alias:
        return Alias(name=f"{provider}/{model}", provider=provider, model=model, origin="-m")

    def _whose(self, provider: Provider, alias: Alias) -> str:
        if alias.entry is not None:
            return self.file.where(("models", alias.name))
        return self.file.where(("providers", provider.name)) if provider.in_file else f"{provider.key_env}"


_CHAT = panto.APIStyle.OPENAI_CHAT


def _plain(row: BuiltIn) -> Provider:
    return Provider(name=row.name, api_style=row.api_style, base_url=row.base_url, key_env=row.key_env)


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _is_local(info: panto.SessionInfo) -> bool:
    # The port of the embedded server is another each time, so the identity as a whole never fits.
    return info.model == "smollm2-135m" and _is_loopback(info.base_url or "")


def _url_secrets(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        return [part for part in (parts.password, parts.query) if part]
    except ValueError:
        return []
