"""The command at a terminal: what the screen shows."""

from __future__ import annotations

import shlex
import sys

import pytest
from tests.cli.command import Command, Terminal
from tests.cli.server import Cut, Fail, Gate, Server, Think

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals of Unix")
pytest.importorskip("pexpect")


def test_the_screen_shows_who_answers_and_the_answer_as_it_comes(panto: Command, server: Server) -> None:
    gate = Gate()
    server.script([Think("hm"), "The answer ", gate, "is 42."])
    screen = panto.at_terminal("What is it?")
    screen.wait_for("The answer")
    assert "42" not in screen.text
    gate.open()
    assert screen.end() == 0
    assert screen.lines == ["asking openai (gpt-6.1-terra)", "thinking ...", "The answer is 42."]


def test_ctrl_c_in_mid_answer_leaves_a_clean_line_and_the_session(panto: Command, server: Server) -> None:
    gate = Gate()
    server.script(["The beginning", gate, "the end"])
    screen = panto.at_terminal("-m", "openai", "q")
    screen.wait_for("The beginning")
    screen.type("\x03")
    assert screen.end() == 130
    assert screen.lines == ["The beginning^C", "stopped by Ctrl-C; what was shown is saved"]
    assert "The beginning" in panto.saved()


def test_what_a_model_says_cannot_move_the_cursor(panto: Command, server: Server) -> None:
    server.script(["a\x1b[2J\x1b]0;title\x07b\r", "\nc\rd"])
    screen = panto.at_terminal("-m", "openai", "q")
    assert screen.end() == 0
    assert screen.lines == ["a␛[2J␛]0;title␇b", "c␍d"]
    assert b"\x1b[2J" not in screen.raw


def test_what_a_provider_says_in_an_error_cannot_either(panto: Command, server: Server) -> None:
    server.script([Fail(400, "bad \x1b[31mred")])
    screen = panto.at_terminal("-m", "openai", "q")
    assert screen.end() == 1
    assert "bad ␛[31mred" in screen.text
    assert b"\x1b[31m" not in screen.raw


def test_an_answer_cut_off_begins_anew_and_says_so(panto: Command, server: Server) -> None:
    panto.config.write_text("[retry]\ninitial_delay = 0.0\n")
    server.script(["one two", Cut()], ["one two three"])
    screen = panto.at_terminal("-m", "openai", "q", columns=200)
    assert screen.end() == 0
    assert (screen.lines[0], screen.lines[-1]) == ("one two", "one two three")
    assert "the answer above was cut off and begins anew" in " ".join(screen.lines[1:-1])


def test_notes_are_not_in_what_is_piped_on(panto: Command) -> None:
    command = " ".join(map(shlex.quote, panto.argv("q")))
    screen = Terminal(["/bin/sh", "-c", f"{command} | tr a-z A-Z"], panto.env, 80)
    assert screen.end() == 0
    assert sorted(screen.lines) == ["HELLO, WORLD", "asking openai (gpt-6.1-terra)"]


def test_what_is_piped_in_is_asked_and_the_terminal_has_the_answer(panto: Command, server: Server) -> None:
    command = " ".join(map(shlex.quote, panto.argv("Translate")))
    screen = Terminal(["/bin/sh", "-c", f"echo some text | {command}"], panto.env, 80)
    assert screen.end() == 0
    assert screen.lines == ["asking openai (gpt-6.1-terra)", "Hello, world"]
    assert server.requests[0].said == [("user", "Translate\n\nsome text\n")]


def test_a_reader_who_goes_away_leaves_nothing_on_the_screen_but_what_he_took(panto: Command, server: Server) -> None:
    server.script(["first line\n", *["more\n"] * 5000])
    command = " ".join(map(shlex.quote, panto.argv("-m", "openai", "q")))
    screen = Terminal(["/bin/sh", "-c", f"{command} | head -n 1"], panto.env, 80)
    assert screen.end() == 0
    assert screen.lines == ["first line"]


def test_a_missing_extra_is_a_sentence_on_the_screen(panto: Command) -> None:
    code = "import sys; sys.modules['click'] = None; import panto_cli; panto_cli.main()"
    screen = Terminal([sys.executable, "-c", code, "q"], panto.env, 120)
    assert screen.end() == 2
    assert "pip install 'panto[cli]'" in " ".join(screen.lines)
    assert "Traceback" not in screen.text


def test_a_pipe_that_nobody_closes_is_told(panto: Command) -> None:
    command = " ".join(map(shlex.quote, panto.argv("q")))
    screen = Terminal(["/bin/sh", "-c", f"(read line; echo $line) | {command}"], panto.env, 80)
    screen.wait_for("waiting for the end of standard input")
    screen.type("now\n")
    assert screen.end() == 0
    assert screen.lines[-1] == "Hello, world"


def test_without_a_terminal_type_no_escape_code_is_sent(panto: Command) -> None:
    screen = panto.at_terminal("q", env={"TERM": "dumb"})
    assert screen.end() == 0
    assert b"\x1b" not in screen.raw
    assert screen.lines == ["asking openai (gpt-6.1-terra)", "Hello, world"]


def test_no_color_is_heeded(panto: Command) -> None:
    screen = panto.at_terminal("q", env={"NO_COLOR": "1"})
    assert screen.end() == 0
    assert b"\x1b" not in screen.raw


def test_without_a_question_it_says_what_to_write_and_waits_for_no_key(panto: Command, server: Server) -> None:
    screen = panto.at_terminal()
    assert screen.end() == 2
    assert 'panto "question"' in screen.text
    assert server.requests == []


@pytest.mark.parametrize(
    ("config", "args", "status", "words"),
    [
        ('default = "fast"\n\n[modls.fast]\n', ("q",), 2, ["config.toml, line 3", "modls", "did you mean 'models'?"]),
        ("", ("-m", "anthropic", "q"), 2, ["there is no key for anthropic", "export ANTHROPIC_API_KEY="]),
        ("", ("-m", "opennai", "q"), 2, ["there is no model alias 'opennai'", "Did you mean openai?"]),
        ("[retry]\nmax_retries = 0\n", ("-m", "far", "q"), 1, ["127.0.0.1:9", "base_url"]),
    ],
    ids=["bad config", "missing key", "unknown alias", "unreachable host"],
)
def test_what_is_wrong_is_a_paragraph_on_the_screen(
    panto: Command, config: str, args: tuple[str, ...], status: int, words: list[str]
) -> None:
    far = '[providers.nowhere]\nbase_url = "http://127.0.0.1:9/v1"\n[models.far]\nprovider = "nowhere"\nmodel = "m"\n'
    panto.config.write_text(config + far if "far" in args else config)
    screen = panto.at_terminal(*args, columns=120)
    assert screen.end() == status
    shown = " ".join(screen.lines)
    for word in words:
        assert word in shown
    assert "Traceback" not in screen.text
    assert len(screen.lines) <= 6


def test_te_03_a_table_of_wide_characters_lines_up(panto: Command, server: Server) -> None:
    for words in ("漢字" * 12, "👩‍👩‍👧 family of three persons", "e\u0301 decomposed", "ﾊﾟ half width"):
        panto.run(words)
    screen = panto.at_terminal("sessions", columns=40)
    assert screen.end() == 0
    out = screen.raw.decode().replace("\r\n", "\n").splitlines()
    assert len(out) == 5
    from rich.cells import cell_len

    assert all(cell_len(line) <= 40 for line in out)
    column = out[0].index("LAST")
    for line, begin in zip(out[1:], ["ﾊﾟ", "e\u0301", "👩‍👩‍👧", "漢字"], strict=True):
        assert cell_len(line[: line.index(begin)]) == column
    assert out[4].endswith("…")
