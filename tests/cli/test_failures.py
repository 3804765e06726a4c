"""What an error means to the person at the command: the next step fits what the command can do."""

from __future__ import annotations

import panto
from panto_cli.failures import Exit, explain

LIBRARY = "What a program would do."


def provider_error(kind: panto.ErrorKind, *, hint: str | None = None, partial: object = None) -> panto.ProviderError:
    return panto.ProviderError(kind, 400, "No.", partial=partial, url="https://h/v1", hint=hint)


def test_a_refusal_names_the_variable_that_holds_the_key() -> None:
    said, status = explain(provider_error(panto.ErrorKind.AUTH, hint=LIBRARY), "WORK_KEY")
    assert said.endswith(f"{LIBRARY}\nThe key in use is the one in WORK_KEY.")
    assert status is Exit.FAILED


def test_a_refusal_without_a_key_says_that_none_was_sent() -> None:
    error = provider_error(panto.ErrorKind.AUTH, hint=LIBRARY)
    said, _ = explain(error, keyless=True)
    assert said.endswith("No key was sent: the config file names no api_key_env for this provider.")
    assert LIBRARY not in said
    assert explain(error, "OPENAI_API_KEY", keyless=True)[0].endswith("No key was sent: OPENAI_API_KEY is not set.")


def test_too_long_a_question_is_not_told_to_compact() -> None:
    said, _ = explain(provider_error(panto.ErrorKind.CONTEXT_OVERFLOW, hint="Compact the conversation."))
    assert "Compact" not in said
    assert "shorten it" in said


def test_a_connection_that_broke_in_the_middle_blames_no_base_url() -> None:
    kind = panto.ErrorKind.CONNECTION
    assert "base_url" in explain(provider_error(kind))[0]
    broken = provider_error(kind, partial=panto.Message(panto.MessageRole.ASSISTANT, []))
    assert explain(broken)[0].endswith("It may pass: try again.")
