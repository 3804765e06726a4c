"""Text comes out encodable, pairs joined, and text without surrogates as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from panto._wire.surrogates import split_pair, well_formed, well_formed_json

ANY = st.text(st.characters() | st.sampled_from("\ud83d\ude00\udce9a"))


@given(ANY)
def test_what_comes_out_can_be_encoded(text: str) -> None:
    well_formed(text).encode()


@given(st.text())
def test_text_without_surrogates_comes_out_as_it_is(text: str) -> None:
    assert well_formed(text) == text


@given(st.lists(ANY))
def test_any_cut_gives_the_same_text(pieces: list[str]) -> None:
    text, half = "", ""
    for piece in pieces:
        more, half = split_pair(half + piece)
        text += more
    assert text + well_formed(half) == well_formed("".join(pieces))


def test_json_is_made_well_formed_at_any_depth() -> None:
    assert well_formed_json({"\ud83d": ["\udce9", {"a": "\ud83d\ude00"}, 1, None]}) == {
        "\ufffd": ["\ufffd", {"a": "\U0001f600"}, 1, None]
    }
