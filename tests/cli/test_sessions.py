"""Sessions from the command: list, show, search, delete, and going on with one."""

from __future__ import annotations

import json
import sys

import pytest
from tests.cli.command import Command
from tests.cli.server import Fail, Server

unix = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals of Unix")


def ids(panto: Command) -> list[str]:
    return [info["id"] for info in json.loads(panto.run("sessions", "--json").stdout)]


def test_a_question_is_saved_and_listed_with_the_last_one_first(panto: Command) -> None:
    panto.run("the first")
    panto.run("the second")
    done = panto.run("sessions")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["ID", "USED", "MODEL", "MESSAGES", "LAST", "QUESTION"]
    assert [row.split()[-2:] for row in rows] == [["the", "second"], ["the", "first"]]
    assert (done.stderr, done.returncode) == ("", 0)
    assert panto.run("sessions", "list").stdout == done.stdout


def test_no_session_is_no_error(panto: Command) -> None:
    done = panto.run("sessions")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert panto.run("sessions", "--json").stdout.strip() == "[]"


def test_se_08_a_question_without_an_answer_leaves_no_session(panto: Command, server: Server) -> None:
    server.script([Fail(500, "no")])
    panto.run("lost")
    assert ids(panto) == []
    assert panto.run("-c", "again").returncode == 2


def test_continue_goes_on_with_the_session_used_last(panto: Command, server: Server) -> None:
    panto.run("one")
    panto.run("two")
    first = ids(panto)[1]
    panto.run("-r", first, "three")
    assert ids(panto)[0] == first  # SE-05: by the time of the last message
    done = panto.run("-c", "four")
    assert (done.stdout, done.stderr) == ("Hello, world\n", "")
    assert [text for _, text in server.requests[-1].said] == [
        "one",
        "Hello, world",
        "three",
        "Hello, world",
        "four",
    ]
    assert len(ids(panto)) == 2


def test_resume_takes_the_beginning_of_an_id_in_either_case(panto: Command, server: Server) -> None:
    panto.run("one")
    assert panto.run("-r", ids(panto)[0][:14].upper(), "two").returncode == 0
    assert len(server.requests[-1].said) == 3


@pytest.mark.parametrize("id", ["", " ", "*", "../x", "%"])
def test_se_07_an_empty_or_impossible_id_matches_nothing(panto: Command, server: Server, id: str) -> None:
    panto.run("one")
    for args in (("-r", id, "q"), ("sessions", "show", id), ("sessions", "delete", "--yes", id)):
        done = panto.run(*args)
        assert done.returncode == 2, args
        assert "Traceback" not in done.stderr
    assert len(server.requests) == 1
    assert len(ids(panto)) == 1


def test_se_06_an_ambiguous_id_lists_the_candidates(panto: Command, server: Server) -> None:
    panto.run("the first")
    panto.run("the second")
    both = ids(panto)
    done = panto.run("-r", both[0][:2], "q")
    assert done.returncode == 2
    assert [line.split()[0] for line in done.stderr.splitlines()[1:]] == both
    assert "the first" in done.stderr
    assert len(server.requests) == 2


def test_resuming_without_saving_leaves_the_session_as_it_was(panto: Command, server: Server) -> None:
    panto.run("one")
    before = panto.saved()
    assert panto.run("-c", "two", "--no-session").returncode == 0
    assert len(server.requests[-1].said) == 3
    assert panto.saved() == before


def test_another_system_prompt_replaces_that_of_the_session_and_the_same_one_does_not(
    panto: Command, server: Server
) -> None:
    panto.run("one", "--system", "A")
    panto.run("-c", "two", "--system", "A")
    panto.run("-c", "three", "--system", "B")
    dump = json.loads(panto.run("sessions", "show", ids(panto)[0], "--json").stdout)
    said = [message["content"][0]["text"] for message in dump["messages"] if message["role"] == "system"]
    assert said == ["A", "B"]
    assert [text for role, text in server.requests[-1].said if role != "user" and role != "assistant"] == ["B"]


def test_resuming_with_another_model_takes_m(panto: Command, server: Server) -> None:
    panto.run("one")
    assert panto.run("-c", "two", "-m", "openai/other").returncode == 0
    assert server.requests[-1].body["model"] == "other"


NONE = '[models.other]\nprovider = "openai"\nmodel = "m-2"\n'
MANY = '[models.a]\nprovider = "openai"\nmodel = "m"\n[models.b]\nprovider = "openai"\nmodel = "m"\n'


@pytest.mark.parametrize(("config", "words"), [(NONE, "no alias is that now"), (MANY, "these aliases are that: a, b")])
def test_where_none_or_many_aliases_fit_a_script_is_told_to_choose(
    panto: Command, server: Server, config: str, words: str
) -> None:
    panto.run("one", "-m", "openai/m")
    panto.config.write_text(config)
    if config == NONE:
        panto.env["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    done = panto.run("-c", "two")
    assert done.returncode == 2
    assert words in done.stderr
    assert "-m " in done.stderr
    assert len(server.requests) == 1


def test_a_model_without_an_alias_goes_on_too(panto: Command, server: Server) -> None:
    panto.run("one", "-m", "openai/m")
    assert panto.run("-c", "two").returncode == 0
    assert server.requests[-1].body["model"] == "m"


@unix
def test_a_person_is_asked_which_model_goes_on(panto: Command, server: Server) -> None:
    panto.run("one", "-m", "openai/m")
    panto.config.write_text(MANY)
    screen = panto.at_terminal("-c", "two")
    screen.wait_for("Which one goes on?")
    screen.type("2\n")
    assert screen.end() == 0
    assert "2  b (m)" in screen.text
    assert screen.lines[-1] == "Hello, world"


@unix
def test_the_alias_that_fits_is_taken_and_told(panto: Command) -> None:
    panto.run("one")
    screen = panto.at_terminal("-c", "two")
    assert screen.end() == 0
    assert screen.lines[0].startswith("going on with session ")
    assert screen.lines[0].endswith(": openai (gpt-6.1-terra)")


def test_show_tells_a_session_to_a_reader_and_to_a_program(panto: Command) -> None:
    panto.run("What is it?", "--system", "Be brief.")
    id = ids(panto)[0]
    shown = panto.run("sessions", "show", id[:14]).stdout
    assert shown.startswith(id)
    for words in ("system:\nBe brief.", "user:\nWhat is it?", "assistant:\nHello, world\n"):
        assert words in shown
    dump = json.loads(panto.run("sessions", "show", id, "--json").stdout)
    assert dump["info"]["id"] == id
    assert [message["role"] for message in dump["messages"]] == ["system", "user", "assistant"]


def test_search_finds_words_whatever_their_case(panto: Command, server: Server) -> None:
    server.script(["Die Straße ist lang"])
    panto.run("How long is it?")
    done = panto.run("sessions", "search", "STRASSE")
    assert "assistant: Die Straße ist lang" in done.stdout
    hit = json.loads(panto.run("sessions", "search", "long is", "--json").stdout)
    assert (hit["role"], hit["text"], hit["session"]) == ("user", "How long is it?", ids(panto)[0])
    nothing = panto.run("sessions", "search", "elephant")
    assert (nothing.stdout, nothing.returncode) == ("", 1)


def test_delete_asks_and_where_nobody_is_there_it_refuses(panto: Command) -> None:
    panto.run("one")
    done = panto.run("sessions", "delete", ids(panto)[0])
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert len(ids(panto)) == 1
    assert panto.run("sessions", "delete", "--yes", ids(panto)[0]).returncode == 0
    assert ids(panto) == []


@unix
@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("\n", 1), ("n\n", 1), ("\x04", 1)])
def test_delete_takes_a_yes_and_nothing_else(panto: Command, answer: str, left: int) -> None:
    panto.run("one")
    screen = panto.at_terminal("sessions", "delete", ids(panto)[0])
    screen.wait_for("[y/N]")
    screen.type(answer)
    assert screen.end() == 0
    assert len(ids(panto)) == left


def test_one_unknown_id_deletes_nothing(panto: Command) -> None:
    panto.run("one")
    assert panto.run("sessions", "delete", "--yes", ids(panto)[0], "ffff").returncode == 2
    assert len(ids(panto)) == 1


def test_options_stand_before_or_after_the_command(panto: Command, tmp_path: object) -> None:
    panto.run("one")
    store = str(panto.store)
    del panto.env["PANTO_STORE"]
    for args in (
        ("sessions", "--store", store),
        ("--store", store, "sessions"),
        ("sessions", "list", "--store", store),
        ("sessions", "--store", store, "search", "one"),
    ):
        assert "one" in panto.run(*args).stdout, args
    assert panto.run("sessions").stdout == ""


def test_the_folder_of_the_sessions_can_stand_in_the_file(panto: Command) -> None:
    del panto.env["PANTO_STORE"]
    panto.config.write_text('store = "talks"\n')
    panto.run("one")
    assert len(list((panto.home / "talks").glob("*.jsonl"))) == 1


def test_sessions_are_in_the_platforms_folder_by_default(panto: Command) -> None:
    del panto.env["PANTO_STORE"]
    panto.run("one")
    assert [path.suffix for path in panto.home.rglob("sessions/*") if path.suffix == ".jsonl"] == [".jsonl"]
