"""Docstrings of three styles give the same descriptions, and no text is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panto._docstring import parse

GOOGLE = """Read a file.

    It must be text.

    Args:
        path (str, optional): Where it is,
            relative to here.
        limit (Callable[[int], str]): How much: a number.

    Returns:
        The text.

    Raises:
        OSError: If it is not there.
    """

NUMPY = """Read a file.

    It must be text.

    Parameters
    ----------
    path : str, optional
        Where it is,
        relative to here.
    limit
        How much: a number.

    Returns
    -------
    The text.

    Raises
    ------
    OSError
        If it is not there.
    """

REST = """
    Read a file.

    It must be text.

    :param str path: Where it is,
        relative to here.
    :param limit: How much: a number.
    :type limit: int
    :returns: The text.
    :rtype: str
    :raises OSError: If it is not there.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST])
def test_three_styles_tell_the_same(text: str) -> None:
    doc = parse(text)
    assert doc.params == {"path": "Where it is, relative to here.", "limit": "How much: a number."}
    assert doc.prose.startswith("Read a file.\n\nIt must be text.")
    assert "The text." in doc.prose
    for gone in ("OSError", "Where", "rtype", "not there"):
        assert gone not in doc.prose


def test_prose_around_a_section_stays_in_its_order() -> None:
    doc = parse("First.\n\nArgs:\n    a: x\n\nExample:\n    >>> f(1)\n\nLast: a word, :class:`Y`.")
    assert doc.prose == "First.\n\nExample:\n    >>> f(1)\n\nLast: a word, :class:`Y`."


def test_paragraphs_and_list_items_of_a_description_keep_their_lines() -> None:
    doc = parse("F.\n\nArgs:\n    a: One of\n        - x\n        - y,\n          long\n\n        And more.\n    b: z")
    assert doc.params == {"a": "One of\n- x\n- y, long\n\nAnd more.", "b": "z"}


def test_names_that_share_a_description_each_get_it() -> None:
    assert parse("F.\n\nParameters\n----------\nx, y : int\n    Both.").params == {"x": "Both.", "y": "Both."}


def test_stars_are_not_part_of_a_name() -> None:
    assert parse("F.\n\nArgs:\n    *rest: r\n    **more (dict): m").params == {"rest": "r", "more": "m"}


@pytest.mark.parametrize("text", [None, "", "   ", "Args:", "Parameters\n---", ":param", ":param :", "A word:\n"])
def test_what_is_no_section_is_prose(text: str | None) -> None:
    assert parse(text).params == {}


lines = st.sampled_from(
    [
        "",
        "Args:",
        "Raises:",
        "    a: b",
        "  c (x): d",
        "Parameters",
        "----------",
        "x : int",
        "    deep",
        ":param a: b",
        ":",
        "é",
    ]
)


@given(st.lists(lines | st.text(max_size=8), max_size=12).map("\n".join))
def test_any_text_is_taken_apart_and_the_prose_is_made_of_its_lines(text: str) -> None:
    doc = parse(text)
    assert all(isinstance(name, str) and name for name in doc.params)
    lines_of_it = text.expandtabs().splitlines()  # as Python itself cleans docstrings
    assert {line.strip() for line in doc.prose.split("\n")} <= {"", *(line.strip() for line in lines_of_it)}
