"""What is shown of a text: neutral, on one line, cut and padded by the cells it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, split_graphemes

from panto_cli.commands.sessions import short_ids
from panto_cli.redaction import redactor
from panto_cli.table import cut, one_line, pad, table
from panto_cli.terminal import Neutraliser, neutral

WIDE = ["漢字漢字漢字", "👩‍👩‍👧", "e\u0301", "ﾊﾟ", "🇩🇪🇫🇷", "abc"]


@given(st.text())
def test_nothing_that_moves_a_cursor_is_left(text: str) -> None:
    shown = neutral(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]


@given(st.lists(st.text(alphabet="a\r\n\x1b")))
def test_a_stream_is_neutralised_as_its_whole(parts: list[str]) -> None:
    stream = Neutraliser()
    assert "".join([stream.feed(part) for part in parts] + [stream.end()]) == neutral("".join(parts))


@pytest.mark.parametrize("text", WIDE)
@pytest.mark.parametrize("width", range(1, 14))
def test_te_03_text_is_cut_between_characters_and_fits(text: str, width: int) -> None:
    shown = cut(text, width)
    assert cell_len(shown) <= width
    if shown != text:
        kept = shown.removesuffix("…")
        assert shown.endswith("…")
        ends = {end for _, end, _ in split_graphemes(text)[0]} | {0}
        assert len(kept) in ends
    assert cell_len(pad(shown, 20)) == 20


@given(st.lists(st.tuples(st.sampled_from(WIDE), st.text(max_size=30)), max_size=5), st.integers(26, 60))
def test_te_03_columns_line_up_and_lines_fit(rows: list[tuple[str, str]], width: int) -> None:
    shown = table(("ID", "WORDS"), rows, width, flexible=(1,))
    lines = shown.removesuffix("\n").split("\n")
    assert len(lines) == len(rows) + 1
    assert all(cell_len(line) <= width for line in lines)


def test_the_column_that_a_user_types_back_is_never_cut() -> None:
    shown = table(("ID", "WORDS"), [("0123456789abcdef", "words " * 9)], 32, flexible=(1,))
    assert shown.splitlines()[1] == "0123456789abcdef  words words w…"


def test_where_there_is_no_room_columns_are_left_out() -> None:
    row = ("0123456789", "2026-12-01 10:00", "model", "words " * 9)
    wide, narrow = (
        table(("ID", "USED", "MODEL", "WORDS"), [row], width, flexible=(2, 3), drop=(2, 1)) for width in (60, 40)
    )
    assert wide.splitlines()[0].split() == ["ID", "USED", "MODEL", "WORDS"]
    assert narrow.splitlines()[0].split() == ["ID", "WORDS"]
    assert all(cell_len(line) <= 40 for line in narrow.splitlines())


def test_where_there_is_no_width_nothing_is_cut() -> None:
    assert table(("A",), [("x" * 500,)], None).splitlines()[1] == "x" * 500


def test_lines_and_controls_become_one_line() -> None:
    assert one_line(" a\n\tb\x1b[0m ") == "a b␛[0m"


def test_se_06_short_ids_are_long_enough_to_be_unique() -> None:
    ids = ["01a23100-c9aa-7000", "01a23100-c6aa-7000", "01b00000-0000-7000"]
    short = short_ids(ids)
    assert len(set(short.values())) == 3
    assert all(id.startswith(short[id]) for id in ids)
    assert short_ids([]) == {}


def test_keys_are_struck_out_the_longest_first() -> None:
    redact = redactor(["secret-1", "secret-1-and-more", "", "abc"])
    assert redact("secret-1-and-more secret-1 abc") == "*** *** abc"
