"""Counters of the chat wire are disjoint where they are added, None where not told, and never negative."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.chat_streams import DONE, Reading, chunk, deltas, event

from panto._wire.openai_chat_usage import read_usage
from panto.usage import Usage


def usage(prompt: object = 10, completion: object = 5, total: object = None, **more: object) -> dict[str, Any]:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return {name: value for name, value in told.items() if value is not None} | more


def test_us_01_cached_tokens_are_apart_from_input() -> None:
    told = usage(20_000, 500, 20_500, prompt_tokens_details={"cached_tokens": 16_000})
    assert read_usage(told) == Usage(input_tokens=4_000, cache_read_tokens=16_000, output_tokens=500)


def test_us_01_input_is_never_negative() -> None:
    told = usage(7, 8, 15, prompt_tokens_details={"cached_tokens": 161})
    assert read_usage(told) == Usage(input_tokens=0, cache_read_tokens=161, output_tokens=8)


def test_us_05_reasoning_is_a_part_of_output() -> None:
    told = usage(10, 266, 276, completion_tokens_details={"reasoning_tokens": 261})
    assert read_usage(told) == Usage(input_tokens=10, output_tokens=266, reasoning_tokens=261)


def test_reasoning_that_the_total_has_beside_the_output_is_added_to_it() -> None:
    told = usage(100, 15, 515, completion_tokens_details={"reasoning_tokens": 400})
    assert read_usage(told) == Usage(input_tokens=100, output_tokens=415, reasoning_tokens=400)


def test_more_reasoning_than_output_lies_outside_of_it() -> None:
    told = usage(100, 14, 114, completion_tokens_details={"reasoning_tokens": 43})
    assert read_usage(told) == Usage(input_tokens=100, output_tokens=57, reasoning_tokens=43)


@pytest.mark.parametrize("hint", [{"prompt_audio_seconds": 25}, {"prompt_tokens_details": {"audio_tokens": 380}}])
def test_audio_told_only_in_the_total_is_input(hint: dict[str, object]) -> None:
    assert read_usage(usage(3, 10, 393, **hint)) == Usage(input_tokens=383, output_tokens=10)
    assert read_usage(usage(383, 10, 393, **hint)) == Usage(input_tokens=383, output_tokens=10)


def test_a_total_that_nothing_explains_changes_nothing() -> None:
    assert read_usage(usage(3, 10, 393)) == Usage(input_tokens=3, output_tokens=10)


@pytest.mark.parametrize(
    ("more", "read", "write"),
    [
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, 6, None),
        ({"cached_tokens": 6}, 6, None),
        ({"num_cached_tokens": 6}, 6, None),
        ({"num_cached_tokens": 64}, None, None),
        ({"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}}, 2, 3),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "cache_read_input_tokens": 4}, 4, None),
        ({"cache_creation_input_tokens": 4}, None, 4),
    ],
)
def test_the_cache_is_told_in_many_places(more: dict[str, object], read: int | None, write: int | None) -> None:
    want = Usage(
        input_tokens=10 - (read or 0) - (write or 0),
        output_tokens=5,
        cache_read_tokens=read,
        cache_write_tokens=write,
    )
    assert read_usage(usage(**more)) == want


def test_cache_counters_that_do_not_fit_into_the_prompt_are_beside_it() -> None:
    told = usage(12, 40, cache_read_input_tokens=90_000, cache_creation_input_tokens=3_000)
    told["cache_creation"] = {"ephemeral_1h_input_tokens": 1_000}
    assert read_usage(told) == Usage(
        input_tokens=12,
        output_tokens=40,
        cache_read_tokens=90_000,
        cache_write_tokens=3_000,
        cache_write_1h_tokens=1_000,
    )


def test_what_was_not_told_is_none_also_singly() -> None:
    assert read_usage(usage(completion=None)) == Usage(input_tokens=10)
    assert read_usage(usage(prompt=None)) == Usage(output_tokens=5)
    told = usage(prompt_tokens_details=None, completion_tokens_details={"reasoning_tokens": None}, cost=0.1)
    assert read_usage(told) == Usage(input_tokens=10, output_tokens=5)
    assert read_usage({"total_tokens": 3}) is None
    assert read_usage({}) is None


NUMBERS = st.one_of(st.none(), st.integers(-5, 300), st.floats(allow_nan=True), st.booleans(), st.text(max_size=2))
NAMES = (
    "prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_hit_tokens", "num_cached_tokens",
    "cache_read_input_tokens", "cache_creation_input_tokens", "reasoning_tokens", "prompt_audio_seconds",
)  # fmt: skip
DETAILS = st.one_of(
    NUMBERS, st.dictionaries(st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens"]), NUMBERS)
)


@given(
    st.dictionaries(st.sampled_from(NAMES), NUMBERS),
    st.dictionaries(st.sampled_from(["prompt_tokens_details", "completion_tokens_details"]), DETAILS),
)
def test_no_counter_is_negative_and_reasoning_fits_into_output(
    told: dict[str, object], details: dict[str, object]
) -> None:
    got = read_usage({**told, **details})
    if got is None:
        return
    for name in Usage.__struct_fields__:
        value = getattr(got, name)
        assert value is None or (type(value) is int and value >= 0)
    if got.output_tokens is not None and got.reasoning_tokens is not None:
        assert got.reasoning_tokens <= got.output_tokens


# ------------------------------------------------------------ where a stream tells it


def test_us_03_usage_in_a_chunk_without_choices_is_taken() -> None:
    for last in ({"choices": [], "usage": usage()}, {"usage": usage()}, {"choices": None, "usage": usage()}):
        body = deltas({"content": "x"}, done=False) + event(last) + DONE
        assert Reading(body).answer.usage == Usage(input_tokens=10, output_tokens=5)


def test_the_last_usage_counts_where_it_grows_with_the_chunks() -> None:
    body = b"".join(event(chunk({"content": "x"}, usage=usage(10, n))) for n in (None, 1, 2))
    body += event(chunk({}, "stop", usage=None)) + DONE
    assert Reading(body).answer.usage == Usage(input_tokens=10, output_tokens=2)


def test_usage_elsewhere_counts_where_usage_is_missing() -> None:
    groq = event({"choices": [], "x_groq": {"id": "r", "usage": usage(1, 2)}})
    choice = chunk({}, "stop")
    choice["choices"][0]["usage"] = usage(3, 4)
    assert Reading(deltas({"content": "x"}, done=False) + groq).answer.usage == Usage(input_tokens=1, output_tokens=2)
    assert Reading(event(choice)).answer.usage == Usage(input_tokens=3, output_tokens=4)
    both = groq + event({"choices": [], "usage": usage(5, 6)})
    assert Reading(deltas({"content": "x"}, done=False) + both).answer.usage == Usage(input_tokens=5, output_tokens=6)
    none = event({"choices": [], "usage": {}}) + event({"choices": [], "usage": {"total_tokens": None}})
    assert Reading(deltas({"content": "x"}, done=False) + groq + none).answer.usage == Usage(
        input_tokens=1, output_tokens=2
    )
